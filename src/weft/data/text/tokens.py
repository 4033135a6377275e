"""Tokenisers: text → ids → text.

Ids 0–3 are PAD, UNKNOWN, START and END; then come the marks (tags and features of the data), then the symbols of text.
`words` are split at single spaces, so that even double spaces come back. `bpe` and `unigram` work on bytes (after
Radford 2019), so every text can be written. What `characters`, their `parts` and `words` never saw becomes UNKNOWN,
which is read like any symbol, is never written by a search, and shows as � when decoded; `unseen` has what else
characters of a source can become.
"""

from __future__ import annotations

import json
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.core.errors import UserError
from weft.core.files import parse_json
from weft.core.pair import SPECIALS, UNKNOWN, Pair
from weft.core.shapes import Symbols
from weft.data.blocks import Block
from weft.data.text.unseen import UnknownShare, UnseenCharacters

FORMAT = 1
LOST = "�"
MOST_LISTED = 50_000  # characters or words that are kept, the most frequent first


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
    tag_at = "start"  # where a source has its tag: "start", "end", or "decoder" (in front, to be taken by the decoder)
    unseen = "unknown"  # what becomes of a source's characters that training never had: "unknown", "nearest", "carried"
    backward = False  # whether ids are those of the text from its end to its start
    alphabet = ""  # the characters of the training texts, where the symbols do not tell

    def __init__(self, marks: Sequence[str]) -> None:
        self.marks = list(marks)
        self._mark_ids = {mark: len(SPECIALS) + index for index, mark in enumerate(self.marks)}
        self.first = len(SPECIALS) + len(self.marks)  # the id of the first symbol of text

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
        return self.tag_at != "decoder" and self.unseen_characters.has_none("".join(sources))

    def _with_marks(self, pair: Pair, ids: list[int]) -> list[int]:
        if not self.marks and self.tag_at != "decoder":
            return ids
        tag, features = self._mark_ids_of(tag_marks(pair)), self._mark_ids_of(feature_marks(pair))
        if self.tag_at == "end":
            return features + ids + tag
        if self.tag_at == "decoder" and not tag:
            tag = [UNKNOWN]  # the decoder reads something first
        return tag + features + ids

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


class Subwords(Tokeniser):
    """Pieces of words learned by byte-pair merges (Sennrich 2016) or a unigram model (Kudo 2018), by `tokenizers`."""

    def __init__(self, kind: str, model: str, marks: Sequence[str] = ()) -> None:
        from tokenizers import Tokenizer

        super().__init__(marks)
        self.kind, self._model = kind, model
        self._tokenizer = Tokenizer.from_str(model)
        self._size: int = self._tokenizer.get_vocab_size()

    @property
    def symbols(self) -> list[str]:
        return [self._tokenizer.decode([i]) for i in range(self._size)]

    def __len__(self) -> int:
        return self.first + self._size

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]

    def _decode(self, indices: Sequence[int]) -> str:
        parts: list[list[int]] = [[]]
        for index in indices:
            parts.append([]) if index < 0 else parts[-1].append(index)
        return LOST.join(self._tokenizer.decode(part) for part in parts)

    def _content(self) -> dict[str, Any]:
        return {"model": json.loads(self._model)}


def learn_subwords(kind: str, texts: Iterable[str], size: int, marks: Sequence[str]) -> Subwords:
    """A bpe or unigram tokeniser of at most `size` pieces, the 256 bytes among them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    model = models.BPE() if kind == "bpe" else models.Unigram()
    trainer_class = {"bpe": trainers.BpeTrainer, "unigram": trainers.UnigramTrainer}[kind]
    trainer = trainer_class(vocab_size=size, show_progress=False, initial_alphabet=alphabet, special_tokens=[])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainer)
    return Subwords(kind, tokenizer.to_str(), marks)


LISTED: dict[str, type[_Listed]] = {"characters": Characters, "parts": Parts, "words": Words}
SUBWORDS = ("bpe", "unigram")
KNOWN = {  # the values that some fields can have
    "tag_at": ("start", "end", "decoder"),
    "unseen": ("unknown", "nearest", "carried", "kin"),
    "backward": (False, True),
}
FURTHER_PARTS = ("normalizer", "post_processor", "added_tokens", "truncation", "padding")  # of a model of `tokenizers`
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
            raise ValueError(f"{name} are not different texts")
    if content["kind"] in COUNTED and any(len(symbol) != 1 for symbol in content["symbols"]):
        raise ValueError("symbols are not single characters")
    for name, known in KNOWN.items():
        if name in content and content[name] not in known:
            raise ValueError(f"{name} is {content[name]!r}")
    if not isinstance(content.get("alphabet", ""), str):
        raise ValueError("the alphabet is not a text")
    if content["kind"] in SUBWORDS:
        _check_subwords(content["model"])


def _check_subwords(model: dict[str, Any]) -> None:
    """Refuse a model of `tokenizers` with other parts than the two that Weft uses, and gaps in its numbers."""
    parts = [model[name]["type"] for name in ("pre_tokenizer", "decoder")]
    if parts != ["ByteLevel", "ByteLevel"] or any(model.get(name) for name in FURTHER_PARTS):
        raise ValueError("it has parts that Weft does not use")
    vocabulary = model["model"]["vocab"]
    if isinstance(vocabulary, dict) and sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError("the numbers of its symbols have gaps")


def _of_kind(content: dict[str, Any]) -> Tokeniser:
    kind, marks = content["kind"], content["marks"]
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']}, this Weft reads {FORMAT}")
    if kind == "bytes":
        return Bytes(marks)
    if kind in LISTED:
        return LISTED[kind](content["symbols"], marks)
    if kind not in SUBWORDS:
        raise ValueError(f"kind {kind!r}")
    return Subwords(kind, json.dumps(content["model"]), marks)


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
