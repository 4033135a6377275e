"""The sides of tasks that restore a text from its corruption: a source without a column of its own, and hidden symbols.

The source is the target, corrupted (`data/corrupt.py`): in training anew in each epoch, in validation always in the
same way, by what the row holds. Where something is predicted, the source is what the user wrote, with `<mask>` for what
is to be found.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.core.pair import HIDDEN, MASK, Pair
from weft.core.shapes import Hidden, Symbols
from weft.data.corrupt import Corruption, corruption_of, generator
from weft.data.sides.side import Encoded, Row, Rows
from weft.data.text.tokens import SUBWORDS, Tokeniser, from_json

FORMAT = 1
VALIDATION = 0  # seed and epoch of what is not learned from
BLANK = "␣"  # how a symbol is shown that is nothing but space


class Corrupted:
    """The source of such a task; `amounts` are those of its corruption, `running` says whether rows are passages."""

    kind = "none"

    def __init__(self, task: str, amounts: Mapping[str, float], running: bool) -> None:
        self.task, self.amounts, self.running = task, dict(amounts), running
        self.tokeniser: Tokeniser
        self.corruption: Corruption

    def reads(self, target: Tokeniser) -> None:
        """Read with the tokeniser of the target."""
        self.tokeniser = target
        self.corruption = corruption_of(self.task, self.amounts, target.names, target.kind)

    @property
    def shape(self) -> Symbols:
        return Symbols(len(self.tokeniser))

    def encoded(self, pairs: Sequence[Pair]) -> Encoded:
        """Return corrupted sources and what is predicted; equal texts are corrupted in the same way."""
        rows = [np.array(row, dtype=np.int64) for row in self.tokeniser.encode_all([pair.target for pair in pairs])]
        numbers = [zlib.crc32(pair.target.encode("utf-8", "surrogatepass")) for pair in pairs]
        sources = [self.corruption.source(row, _validation(number)).tolist() for row, number in zip(rows, numbers)]
        return Encoded(
            sources, [self.corruption.target(row, _validation(number)) for row, number in zip(rows, numbers)]
        )

    def shown(self, row: Sequence[int]) -> str:
        """Return a corrupted source as a person would write it."""
        parts: list[list[int]] = [[]]
        for symbol in row:
            parts.append([]) if symbol == HIDDEN else parts[-1].append(int(symbol))
        texts = [self.tokeniser.decode(part) for part in parts]
        if self.tokeniser.kind == "words":
            return " ".join(piece for text in texts for piece in (text, MASK) if piece)[: -len(MASK) - 1]
        return MASK.join(texts)

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        """Encode what a user wrote."""
        return [self._encode(pair.source) for pair in pairs]

    def _encode(self, text: str) -> list[int]:
        """Return the ids of a text; a subword holds the space before it, so that none is left before a mask."""
        pieces = text.split(MASK)
        if self.tokeniser.kind in SUBWORDS:
            pieces = [*(piece.removesuffix(" ") for piece in pieces[:-1]), pieces[-1]]
        if self.tokeniser.kind == "words":
            pieces = [piece.strip(" ") for piece in pieces] if len(pieces) > 1 else pieces
        first, *others = self.tokeniser.encode_all(pieces)
        return [*first, *(symbol for ids in others for symbol in (HIDDEN, *ids))]

    def text(self, row: Row, pair: Pair) -> str:
        return ""

    def to_json(self) -> str:
        content = {"format": FORMAT, "kind": self.kind, "corrupts": self.task, "amounts": self.amounts}
        return json.dumps({**content, "running": self.running}) + "\n"

    @classmethod
    def load(cls, content: Mapping[str, Any]) -> Corrupted:
        """Return the side that `to_json` wrote."""
        amounts = {str(name): float(amount) for name, amount in content["amounts"].items()}
        if content["format"] != FORMAT or not all(0 <= amount <= MOST for amount in amounts.values()):
            raise ValueError(f"format {content['format']}, amounts {amounts}")
        return cls(str(content["corrupts"]), amounts, bool(content["running"]))


MOST = 1000  # of an amount


def _validation(number: int) -> np.random.Generator:
    return generator(VALIDATION, VALIDATION, number)


class HiddenSymbols:
    """The target of masked-lm: the symbols that are hidden in the source, in their order."""

    kind = "hidden"

    def __init__(self, tokeniser: Tokeniser) -> None:
        self.tokeniser = tokeniser

    @property
    def shape(self) -> Hidden:
        return Hidden(len(self.tokeniser))

    @property
    def names(self) -> list[str]:
        """The name of every id."""
        return self.tokeniser.names

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        return self.tokeniser.rows(pairs, role)

    def text(self, row: Row, pair: Pair) -> str:
        """Return the symbols, with a space between two."""
        return " ".join(self.tokeniser.decode([int(symbol)]).strip() or BLANK for symbol in row)

    def to_json(self) -> str:
        content = {"format": FORMAT, "kind": self.kind, "tokeniser": json.loads(self.tokeniser.to_json())}
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def load_hidden(content: Mapping[str, Any]) -> HiddenSymbols:
    """Return the side that `to_json` wrote."""
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']}")
    return HiddenSymbols(from_json(json.dumps(content["tokeniser"]), "target.json"))
