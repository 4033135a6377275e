"""The base class of tokenisers: text → ids → text, and pairs with their tags and features.

Ids 0–3 are PAD, UNKNOWN, START and END; then come the marks (tags and features of the data), then the symbols of text.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.core.pair import SPECIALS, UNKNOWN, Pair
from weft.core.shapes import Symbols
from weft.data.blocks import Block
from weft.data.text.unseen import UnknownShare, UnseenCharacters

FORMAT = 1
LOST = "�"
PROMPTED = ("decoder", "both")  # where a tag stands that the decoder reads


Flat = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]  # ids of many texts, and how many of them each text has


def flat(rows: Sequence[Sequence[int]]) -> Flat:
    """Return rows of ids one after the other, and their lengths."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=int(lengths.sum())), lengths


def code_points(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


class Tokeniser(ABC):
    """Text ↔ ids. Subclasses know symbols; this class knows specials and marks."""

    kind: str
    tag_at = "start"  # where a source has its tag: "start", "end", "decoder" (in front, for the decoder) or "both"
    unseen = "unknown"  # what becomes of a source's characters that training never had: "unknown", "nearest", "carried"
    backward = False  # whether ids are those of the text from its end to its start
    alphabet = ""  # the characters of the training texts, where the symbols do not tell

    def __init__(self, marks: Sequence[str]) -> None:
        self.marks = list(marks)
        self._mark_ids = {mark: len(SPECIALS) + index for index, mark in enumerate(self.marks)}
        self.first = len(SPECIALS) + len(self.marks)  # the id of the first symbol of text
        self._latest_offsets: tuple[str, list[tuple[int, int]]] = "", []

    @property
    @abstractmethod
    def symbols(self) -> list[str]:
        """The symbols of text, as they are shown to people."""

    @abstractmethod
    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return indices into the list of symbols; −1 for a symbol that is not in it."""

    @abstractmethod
    def _decode(self, indices: Sequence[int]) -> str: ...

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """What is saved besides kind and marks."""

    def __len__(self) -> int:
        return self.first + len(self.symbols)

    @property
    def shape(self) -> Symbols:
        return Symbols(len(self))

    def rows(self, pairs: Sequence[Pair], role: str) -> list[list[int]]:
        """Encode the cells of a role; unseen characters of sources are hidden already (`encode_pairs`)."""
        if role == "source":
            return self.encode_hidden(pairs)
        return self.encode_all([pair.target if role == "target" else pair.context for pair in pairs])

    def text(self, row: Iterable[int], pair: Pair) -> str:
        """Return the text of an encoded target."""
        return self.decode(row)

    def encode(self, text: str) -> list[int]:
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        step = -1 if self.backward else 1
        return [[self.first + p if p >= 0 else UNKNOWN for p in indices[::step]] for indices in self._encode(texts)]

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        """Return the ids of all texts one after the other, and how many each has."""
        return flat(self.encode_all(texts))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the characters where each token of a text begins and ends; of neighbours often the same text."""
        if self._latest_offsets[0] != text:
            self._latest_offsets = text, self._offsets(text)
        return self._latest_offsets[1]

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        lengths = [len(symbol) for symbol in self._cut_as_written(text)]
        ends = list(accumulate(lengths))
        return list(zip([end - length for end, length in zip(ends, lengths)], ends))

    def _cut_as_written(self, text: str) -> Sequence[str]:
        """Return the pieces of a text, one for each token, which together are the text."""
        raise NotImplementedError(f"tokens of kind {self.kind} do not tell where they stand in a text")

    def encode_sources(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """The source side: the tag (unless it stands at the end), the features, then the text."""
        return self.encode_hidden([self.unseen_characters.hide(pair) for pair in pairs])

    def encode_hidden(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """The same of pairs whose unseen characters are hidden already."""
        texts = self.encode_all([pair.source for pair in pairs])
        return [self._with_marks(pair, ids) for pair, ids in zip(pairs, texts)]

    @cached_property
    def unseen_characters(self) -> UnseenCharacters:
        return UnseenCharacters(self.unseen, frozenset(self.symbols) if self.unseen != "unknown" else frozenset())

    @cached_property
    def known_characters(self) -> frozenset[str] | None:
        """The characters that training saw; None if that was not written down."""
        return frozenset(self.alphabet) or None

    def unknown_share(self, pairs: Iterable[Pair], so_far: UnknownShare | None = None) -> UnknownShare:
        """Count the characters of sources that the model cannot know, in addition to those counted so far."""
        counted = UnknownShare(self.known_characters) if so_far is None else so_far
        for pair in pairs:
            counted.add(self._normalised(self.unseen_characters.read(pair.source)))
        return counted

    def _normalised(self, text: str) -> str:
        """The text in the characters that symbols are made of."""
        return text

    def reads_plainly(self, sources: Sequence[str]) -> bool:
        """Whether these sources, without tags and features, are read as they are: no marks, and nothing to hide."""
        return self.tag_at not in PROMPTED and self.unseen_characters.has_none("".join(sources))

    def _with_marks(self, pair: Pair, ids: list[int]) -> list[int]:
        if not self.marks and self.tag_at not in PROMPTED:
            return ids
        tag, features = self._mark_ids_of(tag_marks(pair)), self._mark_ids_of(feature_marks(pair))
        if self.tag_at == "end":
            return features + ids + tag
        prompt = (tag or [UNKNOWN]) if self.tag_at in PROMPTED else []  # the decoder reads something first
        return prompt + ([] if self.tag_at == "decoder" else tag) + features + ids

    def _mark_ids_of(self, marks: Sequence[str]) -> list[int]:
        return [self._mark_ids.get(mark, UNKNOWN) for mark in marks]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; specials and marks are left out, UNKNOWN shows as �."""
        indices = [i - self.first if i != UNKNOWN else -1 for i in ids if i >= self.first or i == UNKNOWN]
        return self._decode(indices[::-1] if self.backward else indices)

    def joining(self, text: str) -> list[int]:
        """The symbols that would change the end of a text if they were written after it, as an accent does."""
        return []

    def show(self, ids: Iterable[int]) -> list[str]:
        """One readable name an id, for tables and pictures."""
        return [self.names[i] for i in ids]

    @cached_property
    def names(self) -> list[str]:
        """The readable name of every id."""
        return [*SPECIALS, *self.marks, *self.symbols]

    def to_json(self) -> str:
        content = {"format": FORMAT, "kind": self.kind, "specials": SPECIALS, "marks": self.marks}
        content |= {"tag_at": self.tag_at, "unseen": self.unseen, "backward": self.backward}
        content |= ({"alphabet": self.alphabet} if self.alphabet else {}) | self._content()
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"

    def written(self, backward: bool) -> Tokeniser:
        """The same symbols, for a model that writes this way."""
        tokeniser = copy(self)
        tokeniser.backward = backward
        return tokeniser

    def save(self, path: Path) -> None:
        path.write_text(self.to_json(), encoding="utf-8")


def encode_block(block: Block, source: Tokeniser, target: Tokeniser) -> tuple[Flat, Flat]:
    """Both sides of a block, as flat ids; of a pair with several references each is a row of its own."""
    if not block.extras and source.reads_plainly(block.sources):
        return source.encode_flat(block.sources), target.encode_flat(block.targets)
    singles = list(chain.from_iterable(pair.single() for pair in block.pairs()))
    sources, targets = encode_pairs(singles, source, target)
    return flat(sources), flat(targets)


def encode_pairs(
    pairs: Sequence[Pair], source: Tokeniser, target: Tokeniser
) -> tuple[list[list[int]], list[list[int]]]:
    """Both sides; a character that the source's tokeniser carries over is the same stand-in in both."""
    hidden = [source.unseen_characters.hide(pair) for pair in pairs]
    return source.encode_hidden(hidden), target.encode_all([pair.target for pair in hidden])


def marks_of(pair: Pair) -> list[str]:
    """The symbols that a pair's tag and features become."""
    return tag_marks(pair) + feature_marks(pair)


def tag_marks(pair: Pair) -> list[str]:
    return [f"<{pair.tag}>"] if pair.tag else []


def feature_marks(pair: Pair) -> list[str]:
    return [f"<+{feature}>" for feature in pair.features]
