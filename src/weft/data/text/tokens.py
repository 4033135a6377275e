"""The kinds of tokenisers by name: how each is learned from texts, saved, and loaded again.

`words` are split at single spaces, so that even double spaces come back. What `characters`, their `parts` and `words`
never saw becomes UNKNOWN, which is read like any symbol, is never written by a search, and shows as � when decoded;
`unseen` has what else characters of a source can become.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.core.errors import UserError
from weft.core.files import parse_json
from weft.core.pair import UNKNOWN
from weft.data.text.stems import stems
from weft.data.text.subwords import SUBWORDS, Subwords, check_subwords, learn_subwords
from weft.data.text.tokeniser import (
    FORMAT,
    LOST,
    PROMPTED,
    Flat,
    Tokeniser,
    code_points,
    encode_block,
    encode_pairs,
    feature_marks,
    flat,
    marks_of,
    tag_marks,
)

__all__ = [
    "COUNTED", "LOST", "MOST_LISTED", "PROMPTED", "SUBWORDS", "Tokeniser", "composed", "encode_block", "encode_pairs",
    "feature_marks", "flat", "from_json", "learn", "learn_counted", "marks_of", "tag_marks", "taken_apart",
]  # fmt: skip

MOST_LISTED = 50_000  # characters or words that are kept, the most frequent first


def taken_apart(text: str) -> str:
    """Letters and accents one after the other, Korean syllables by their sounds."""
    return unicodedata.normalize("NFD", text)


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


class _Listed(Tokeniser):
    """Symbols that are known by a list; text is cut by `_cut` and joined by `_glue`."""

    _glue = ""
    _further = ""  # characters that texts have besides those of their symbols

    def __init__(self, symbols: Sequence[str], marks: Sequence[str] = ()) -> None:
        super().__init__(marks)
        self._symbols = list(symbols)
        self._indices = {symbol: index for index, symbol in enumerate(self._symbols)}

    @property
    def symbols(self) -> list[str]:
        return self._symbols

    @cached_property
    def known_characters(self) -> frozenset[str] | None:
        return frozenset(chain(self._further, *self._symbols))

    @staticmethod
    def _cut(text: str) -> Sequence[str]:
        return text

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        index = self._indices
        return [[index.get(symbol, -1) for symbol in self._cut(text)] for text in texts]

    def _decode(self, indices: Sequence[int]) -> str:
        return self._glue.join(self._symbols[p] if p >= 0 else LOST for p in indices)

    def _content(self) -> dict[str, Any]:
        return {"symbols": self._symbols}

    @classmethod
    def learn(cls, texts: Iterable[str], marks: Sequence[str]) -> _Listed:
        return cls.of_counts(Counter(chain.from_iterable(cls._cut(text) for text in texts)), marks)

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], marks: Sequence[str]) -> _Listed:
        """The most frequent symbols, at most MOST_LISTED; equals are in the order of their code points."""
        kept = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))[:MOST_LISTED]
        return cls(sorted(kept), marks)


class Characters(_Listed):
    """Every code point is a symbol."""

    kind = "characters"

    def _cut_as_written(self, text: str) -> Sequence[str]:
        return text

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        cut = [self._normalised(text) for text in texts]
        lengths = np.fromiter(map(len, cut), dtype=np.int64, count=len(cut))
        codes = code_points("".join(text[::-1] for text in cut) if self.backward else "".join(cut))
        return self._id_of_code[np.minimum(codes, len(self._id_of_code) - 1)], lengths

    @cached_property
    def _id_of_code(self) -> npt.NDArray[np.int32]:
        """The id of every code point; the last stands for all beyond the known ones."""
        codes = code_points("".join(self._symbols))
        ids = np.full(int(codes.max(initial=0)) + 2, UNKNOWN, dtype=np.int32)
        ids[codes] = self.first + np.arange(len(codes))
        return ids


class Parts(Characters):
    """Characters taken apart as Unicode does (NFD): letters and accents, the sounds of a Korean syllable.

    They are put together again (NFC) where text is written, however the training targets were composed.
    """

    kind = "parts"

    @staticmethod
    def _cut(text: str) -> Sequence[str]:
        return taken_apart(text)

    def _normalised(self, text: str) -> str:
        return taken_apart(text)

    def _decode(self, indices: Sequence[int]) -> str:
        return composed(super()._decode(indices))

    def joining(self, text: str) -> list[int]:
        whole = composed(text)
        return [self.first + p for p, s in enumerate(self._symbols) if not composed(text + s).startswith(whole)]


class Words(_Listed):
    """What stands between single spaces is a symbol: phones, letters, words."""

    kind = "words"
    _glue = _further = " "

    @staticmethod
    def _cut(text: str) -> Sequence[str]:
        return text.split(" ") if text else ()

    def _cut_as_written(self, text: str) -> Sequence[str]:
        first, *others = text.split(" ")
        return [first, *(f" {word}" for word in others)] if text else ()


class Stems(_Listed):
    """The first letters of each word, in lower case, without what stands between words: to compare, not to write."""

    kind = "stems"
    _glue = _further = " "

    @staticmethod
    def _cut(text: str) -> Sequence[str]:
        return stems(text)

    @property
    def known_characters(self) -> frozenset[str] | None:
        return None  # a stem that was never seen is unknown, not its characters


class Bytes(Tokeniser):
    """UTF-8 bytes: no text is unknown. A broken sequence decodes to �."""

    kind = "bytes"

    @property
    def symbols(self) -> list[str]:
        return [chr(b) if 32 < b < 127 else f"{b:02x}" for b in range(256)]

    def __len__(self) -> int:
        return self.first + 256

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(text.encode("utf-8")) for text in texts]

    def _decode(self, indices: Sequence[int]) -> str:
        return b"".join(bytes([p]) if p >= 0 else LOST.encode() for p in indices).decode("utf-8", errors="replace")

    def _content(self) -> dict[str, Any]:
        return {}


LISTED: dict[str, type[_Listed]] = {"characters": Characters, "parts": Parts, "words": Words, "stems": Stems}
KNOWN = {  # the values that some fields can have
    "tag_at": ("start", "end", "decoder", "both"),
    "unseen": ("unknown", "nearest", "carried", "kin"),
    "backward": (False, True),
}
COUNTED = ("characters", "parts")  # kinds that are learned from counts of characters alone


def learn(kind: str, size: int, texts: Iterable[str], marks: Sequence[str] = ()) -> Tokeniser:
    """A tokeniser of the given kind from the training texts."""
    if kind == "bytes":
        return Bytes(marks)
    return LISTED[kind].learn(texts, marks) if kind in LISTED else learn_subwords(kind, texts, size, marks)


def learn_counted(kind: str, characters: Mapping[str, int], marks: Sequence[str] = ()) -> Tokeniser:
    """The same for the kinds in COUNTED, from how often each character stands in the training texts."""
    if kind == "characters":
        return Characters.of_counts(characters, marks)
    parts: Counter[str] = Counter()
    for character, count in characters.items():
        for part in taken_apart(character):
            parts[part] += count
    return Parts.of_counts(parts, marks)


def joined(first: Tokeniser, second: Tokeniser) -> Tokeniser:
    """Return the second tokeniser with the symbols of the first: all of both where they are listed, else its pieces."""
    if first.kind != second.kind:
        return second
    content, other = json.loads(first.to_json()), json.loads(second.to_json())
    content |= {name: other[name] for name in ("marks", *KNOWN)}
    if "symbols" in content:
        content["symbols"] = sorted({*content["symbols"], *other["symbols"]})
    if "alphabet" in content or "alphabet" in other:
        content["alphabet"] = "".join(sorted({*content.get("alphabet", ""), *other.get("alphabet", "")}))
    return _loaded(content)


def from_json(text: str | bytes, where: str) -> Tokeniser:
    """A tokeniser as saved by `to_json`; `where` is named if it cannot be read."""
    try:
        return _loaded(parse_json(text))
    except Exception as error:  # tokenizers raises bare Exceptions
        raise UserError(
            f"this is not a tokeniser that Weft wrote ({type(error).__name__}: {error})",
            where,
            "restore the file, or train again",
        ) from None


def _loaded(content: dict[str, Any]) -> Tokeniser:
    _check(content)
    tokeniser = _of_kind(content)
    tokeniser.tag_at = content.get("tag_at", "start")  # runs of an older Weft do not say it, nor the next
    unseen = content.get("unseen", "unknown")
    tokeniser.unseen = "nearest" if unseen == "kin" else unseen  # kin: its name in earlier versions
    tokeniser.backward = content.get("backward", False)
    tokeniser.alphabet = content.get("alphabet", "")
    return tokeniser


def _check(content: dict[str, Any]) -> None:
    """Refuse what `to_json` does not write: a tokeniser may come from anyone. ValueError, KeyError or TypeError."""
    for name, values in (("marks", content["marks"]), ("symbols", content.get("symbols", []))):
        texts = isinstance(values, list) and all(isinstance(value, str) for value in values)
        if not texts or len(set(values)) < len(values):
            raise ValueError(f"{name} must be a list of distinct strings")
    if content["kind"] in COUNTED and any(len(symbol) != 1 for symbol in content["symbols"]):
        raise ValueError("symbols are not single characters")
    for name, known in KNOWN.items():
        if name in content and content[name] not in known:
            raise ValueError(f"{name} is {content[name]!r}")
    if not isinstance(content.get("alphabet", ""), str):
        raise ValueError("the alphabet is not a text")
    if content["kind"] in SUBWORDS:
        check_subwords(content["model"])


def _of_kind(content: dict[str, Any]) -> Tokeniser:
    kind, marks = content["kind"], content["marks"]
    if content["format"] != FORMAT:
        raise ValueError(f"the format is {content['format']}, but this version of Weft reads format {FORMAT}")
    if kind == "bytes":
        return Bytes(marks)
    if kind in LISTED:
        return LISTED[kind](content["symbols"], marks)
    if kind not in SUBWORDS:
        raise ValueError(f"unknown kind {kind!r}")
    return Subwords(kind, json.dumps(content["model"]), marks)
