"""Names that people give to columns: which of several is the source, which the target, which only numbers the rows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

# A source in the first group goes with a target in the second; of several groups that fit, the first counts.
PAIRS = (
    ("source src", "target tgt trg"),
    ("input inputs", "output outputs"),
    ("word words grapheme graphemes spelling orthography", "pron pronunciation phones phonemes phoneme ipa arpabet"),
    ("word words", "transcription transliteration"),
    ("document paragraph passage article story", "answer answers span"),
    ("question query prompt", "answer answers response completion reply"),
    ("instruction", "output response"),
    ("lemma", "form inflected inflection"),
    ("document article dialogue text", "summary highlights"),
    ("original noisy raw misspelled incorrect", "normalized normalised clean corrected correct correction"),
    ("text sentence word", "normalized normalised corrected"),
    ("mr", "ref reference"),
    ("nl intent description docstring", "cmd command code snippet"),
    ("text sentence review utterance document", "label labels class category sentiment"),
    ("text sentence original", "translation"),
    ("before", "after"),
    ("from", "to"),
    ("past history observed", "future"),
    ("x", "y"),
)
SOURCES = tuple(dict.fromkeys(" ".join(sources for sources, _ in PAIRS).split()))
TARGETS = tuple(dict.fromkeys(" ".join(targets for _, targets in PAIRS).split()))
NUMBERING = frozenset(("id", "ids", "idx", "uid", "uuid", "guid", "index", "rowid"))  # as a part of a name
NUMBERS = frozenset(("", "key", "nr", "no", "num", "number", "row", "line", "n"))  # as a whole name
_CODES = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu ha he hi hr hu hy ig is it ja ka kk km "
    "kn ko ku ky la lb lo lt lv mg mi mk ml mn mr ms mt my nb ne nl nn no ny pa pl ps pt ro ru rw sd si sk sl sm sn so "
    "sq sr st su sv sw ta te tg th ti tk tl tr tt ug uk ur uz vi xh yi yo zh zu eng fra deu spa ita por nld rus zho"
)
_LANGUAGE_NAMES = (
    "arabic chinese czech danish dutch english estonian finnish french german greek hebrew hindi hungarian icelandic "
    "italian japanese korean latin norwegian persian polish portuguese romanian russian spanish swedish turkish "
    "ukrainian vietnamese"
)
LANGUAGES = frozenset((*_CODES.split(), *_LANGUAGE_NAMES.split()))


def parts(name: str) -> list[str]:
    """Return the words of a name: `sourceText`, `source_text` and `Source text` have the same."""
    return re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def numbers_rows(name: str) -> bool:
    """Return whether a column of this name is likely to hold ids, and nothing to learn."""
    return not NUMBERING.isdisjoint(parts(name)) or whole(name) in {*NUMBERS, "unnamed_0"}


def is_usual(name: str) -> float:
    """Return 1 for a name that people give to columns, 1/2 if a part of it is one, else 0."""
    known = {*SOURCES, *TARGETS}
    if whole(name) in known or numbers_rows(name):
        return 1.0
    return 0.5 if len(parts(name)) <= 3 and not known.isdisjoint(parts(name)) else 0.0


def is_language(name: str) -> bool:
    """Return whether this is the code or the name of a language."""
    return whole(name) in LANGUAGES


def paired(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the names of source and target where the names tell them, whole names before parts of names."""
    counts = Counter(part for name in names for part in set(parts(name)))
    by_part = {part: name for name in names for part in parts(name) if counts[part] == 1}
    return (
        paired_by_whole_names(names)
        or _languages(names)
        or _of_a_group(by_part)
        or _of_different_groups(_wholes(names))
    )


def paired_by_whole_names(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the names of source and target where these are usual names for the two."""
    return _of_a_group(_wholes(names))


def whole(name: str) -> str:
    """Return a name in one spelling: `sourceText` and `Source text` as source_text."""
    return "_".join(parts(name))


def _wholes(names: Sequence[str]) -> dict[str, str]:
    """Return the names by their last part, after dots; of equals the first."""
    return {whole(name.rpartition(".")[2]): name for name in reversed(names)}


def likely_source(names: Sequence[str]) -> str | None:
    """Return the name of the source where there need not be a target."""
    if both := paired(names):
        return both[0]
    known = [name for name in names if whole(name) in SOURCES]
    return known[0] if known else None


def _of_a_group(known: dict[str, str]) -> tuple[str, str] | None:
    for sources, targets in PAIRS:
        source, target = (next((known[n] for n in group.split() if n in known), None) for group in (sources, targets))
        if source is not None and target is not None and source != target:
            return source, target
    return None


def _of_different_groups(known: dict[str, str]) -> tuple[str, str] | None:
    """Return the only source and the only target, though they are seldom together."""
    sources, targets = ([known[n] for n in group if n in known] for group in (SOURCES, TARGETS))
    return (sources[0], targets[0]) if len(sources) == len(targets) == 1 and sources != targets else None


def _languages(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the only two names that differ in a language (`en`, `text_en`, `translation.en`), in their order."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in names:
        others = tuple(part for part in parts(name) if part not in LANGUAGES)
        if len(others) == len(parts(name)) - 1 and not numbers_rows(name):
            alike[others].append(name)
    pairs = [both for both in alike.values() if len(both) == 2]
    return (pairs[0][0], pairs[0][1]) if len(pairs) == 1 else None
