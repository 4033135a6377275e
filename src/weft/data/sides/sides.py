"""The sides of a run together: pairs → rows of arrays → texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from weft.core.pair import Pair
from weft.core.shapes import Shapes
from weft.data.blocks import Block
from weft.data.cells import Kinds
from weft.data.sides.numbers import Numbers
from weft.data.sides.side import Encoded, Flat, Row, Rows, Side
from weft.data.text.tokens import Tokeniser, encode_block, flat


@dataclass(frozen=True)
class Sides:
    """What was learned of source, target and context."""

    source: Side
    target: Side
    context: Side | None = None

    @property
    def shapes(self) -> Shapes:
        return Shapes(self.source.shape, self.target.shape, None if self.context is None else self.context.shape)

    @property
    def by_role(self) -> dict[str, Side]:
        sides = {"source": self.source, "target": self.target}
        return sides if self.context is None else {**sides, "context": self.context}

    @property
    def kinds(self) -> Kinds:
        """The kinds of the columns, to read more of them."""
        named = {role: "text" if isinstance(side, Tokeniser) else side.kind for role, side in self.by_role.items()}
        missing = tuple(role for role, side in self.by_role.items() if isinstance(side, Numbers) and side.fills)
        return Kinds(named["source"], named["target"], named.get("context"), missing)

    @property
    def target_kind(self) -> str:
        """The kind of the target, which names the table of its scores."""
        return "text" if isinstance(self.target, Tokeniser) else self.target.kind

    @property
    def units(self) -> tuple[float, ...]:
        """The units of encoded target numbers, by feature; none of other targets."""
        return self.target.target_scale if isinstance(self.target, Numbers) else ()

    def encode(self, pairs: Sequence[Pair]) -> Encoded:
        """Encode all cells; a character that the source's tokeniser carries over is the same stand-in in both."""
        hidden = self._hidden(pairs)
        context = None if self.context is None else self.context.rows(hidden, "context")
        return Encoded(self.source.rows(hidden, "source"), self.target.rows(hidden, "target"), context)

    def inputs(self, pairs: Sequence[Pair]) -> Encoded:
        """Encode all cells but the targets."""
        hidden = self._hidden(pairs)
        context = None if self.context is None else self.context.rows(hidden, "context")
        return Encoded(self.source.rows(hidden, "source"), (), context)

    def _hidden(self, pairs: Sequence[Pair]) -> Sequence[Pair]:
        if not isinstance(self.source, Tokeniser):
            return pairs
        return [self.source.unseen_characters.hide(pair) for pair in pairs]

    def text(self, row: Row, pair: Pair) -> str:
        """Return the output that an encoded target stands for, with the source's own characters for stand-ins."""
        output = self.target.text(row, pair)
        if not isinstance(self.source, Tokeniser):
            return output
        return self.source.unseen_characters.restore(pair.source, output)

    def flat(self, block: Block) -> dict[str, Flat]:
        """Encode a block; of a pair with several references each is a row of its own."""
        if self.context is None and isinstance(self.source, Tokeniser) and isinstance(self.target, Tokeniser):
            return dict(zip(("source", "target"), encode_block(block, self.source, self.target)))
        encoded = self.encode(list(chain.from_iterable(pair.single() for pair in block.pairs())))
        rows = {"source": encoded.source, "target": encoded.target}
        rows |= {} if encoded.context is None else {"context": encoded.context}
        return {role: _flat(each) for role, each in rows.items()}


def _flat(rows: Rows) -> Flat:
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows), np.array([len(row) for row in rows], dtype=np.int64)
    return flat([list(row) for row in rows])
