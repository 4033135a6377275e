"""Is line 1 of a table a header that nobody declared? Decided by how it differs from the rows below it.

Each column that holds a name above values of another kind is evidence, as the negative decimal logarithm of the share
of its own values that differ as much from the others:

- a word above numbers, above lists, or above names of files;
- an identifier (`from_text`) above values without an underscore;
- a name with characters that no value has (a capital above lower case, letters above phones);
- a name that never comes again above values that all do (labels, tags, languages);
- a name shorter than half of the shortest value, above sentences.

One is added to each count, so that few rows are little evidence. A name that people give to columns (`names`) counts
more. A first row never is a header if a cell could not be a name (empty, long, a number, a sentence, one name twice),
or if its cells are as alike as those of the other rows.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from rapidfuzz.distance import Indel

from weft.data.names import is_language, is_usual, paired_by_whole_names
from weft.data.sides.table import is_file_name

SAMPLE_ROWS = 1000  # that the first row is compared with
CERTAIN = 3.0  # evidence from which on line 1 is read as a header: a row of data in a thousand would look like that
DOUBTFUL = 2.0  # evidence from which on a note is worth it
USUAL_NAME = 2.0  # the evidence of a name that people give to columns; half of it if only a part of the name is one
OF_ANOTHER_TYPE = 1.0  # the evidence of a word above numbers, or an identifier above text, besides how rare they are
LONGEST_NAME = 40  # characters
SENTENCE = 10  # characters of values that are not words
SIMILAR_ROWS, ALIKE = 200, 0.5  # rows whose cells are compared, and from when on they are alike
_NUMBER = re.compile(r"[-+−]?[$€£]?[0-9][0-9.,:/%eE+-]*")
_NAME = re.compile(r"[^\W\d_][\w .,/()\[\]#:-]*")


def evidence(first: Sequence[str], rows: Sequence[Sequence[str]]) -> float:
    """Return how much speaks for the first row being a header of the others, which have as many cells; 0: nothing."""
    names = [cell.strip() for cell in first]
    if len({name.lower() for name in names}) < len(names) or not all(map(_is_name, names)):
        return 0.0
    if len(names) == 2 and paired_by_whole_names(names):
        return CERTAIN
    if not rows or (len(names) > 1 and _related_like_data(names, rows)):
        return 0.0
    return sum(_of_column(name, [row[at].strip() for row in rows]) for at, name in enumerate(names))


def _is_name(text: str) -> bool:
    """Return whether a text could name a column: short, begins with a letter, no end of a sentence."""
    plain = unicodedata.normalize("NFC", text)
    return len(plain) <= LONGEST_NAME and _NAME.fullmatch(plain) is not None and plain[-1] not in ".,:;"


def _related_like_data(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first two cells are as alike as those of other rows, where these are alike at all."""
    others = sorted(Indel.normalized_similarity(row[0], row[1]) for row in rows[:SIMILAR_ROWS])
    few = others[len(others) // 10]
    return few >= ALIKE and Indel.normalized_similarity(names[0], names[1]) >= few


def _of_column(name: str, values: Sequence[str]) -> float:
    """Return the evidence of one column: that of its strongest sign, and of the name itself."""
    present = [value for value in values if value]
    words = {word for value in present for word in value.split()}
    if name in present or not words.isdisjoint(name.split()):
        return 0.0
    usual = USUAL_NAME * is_usual(name)
    if not present:
        return usual
    if is_language(name) and (len(name) > 3 or sum(map(len, present)) >= SENTENCE * len(present)):
        usual = USUAL_NAME  # codes are words, too
    return usual + max(sign(name, present) for sign in SIGNS)


def _rarity(count: int, of: int) -> float:
    """Return −log₁₀ of a share, one added to both counts."""
    return -math.log10((count + 1) / (of + 1))


def _above_numbers(name: str, values: Sequence[str]) -> float:
    words = sum(_NUMBER.fullmatch(value) is None for value in values)
    return _rarity(words, len(values)) + (OF_ANOTHER_TYPE if not words and len(values) > 1 else 0.0)


def _above_lists_or_files(name: str, values: Sequence[str]) -> float:
    """Return the evidence of a word above cells that are all lists, or all names of files."""
    lists = all(value.startswith("[") and value.endswith("]") for value in values)
    return CERTAIN if lists or (not is_file_name(name) and all(map(is_file_name, values))) else 0.0


def _identifier(name: str, values: Sequence[str]) -> float:
    """Return how rare underscores are among the values, for a name that has one."""
    return OF_ANOTHER_TYPE + _rarity(sum("_" in value for value in values), len(values)) if "_" in name else 0.0


def _new_characters(name: str, values: Sequence[str]) -> float:
    """Return how rare values are that have a character which no other value has, if the name has one, too."""
    different = set(values)
    holders = Counter(character for value in different for character in set(value))
    if all(character in holders for character in name):
        return 0.0
    alone = sum(any(holders[character] == 1 for character in set(value)) for value in different)
    return _rarity(alone, len(different))


def _never_again(name: str, values: Sequence[str]) -> float:
    """Return how rare values are that occur once, for a name that does not occur at all."""
    counts = Counter(values)
    return _rarity(sum(count == 1 for count in counts.values()), len(values)) if len(counts) > 1 else 0.0


def _short(name: str, values: Sequence[str]) -> float:
    shortest = min(map(len, values))
    return _rarity(0, len(values)) if 2 * len(name) < shortest >= SENTENCE else 0.0


SIGNS = (_above_numbers, _above_lists_or_files, _identifier, _new_characters, _never_again, _short)
