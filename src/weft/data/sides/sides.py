"""The sides of a run together: pairs → rows of arrays → texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import numpy as np

from weft.core.pair import Pair
from weft.core.shapes import Frames, Nothing, Picture, Shapes, Symbols
from weft.data.blocks import Block
from weft.data.cells import Kinds
from weft.data.pictures.files import LARGEST
from weft.data.sides.audio import LONGEST, Audio
from weft.data.sides.corrupted import Corrupted, HiddenSymbols
from weft.data.sides.image import Image
from weft.data.sides.notes import Notes
from weft.data.sides.nothing import NoColumn
from weft.data.sides.numbers import Numbers
from weft.data.sides.side import Encoded, Flat, Row, Rows, Side
from weft.data.sides.span import Span, in_windows
from weft.data.text.tokens import Tokeniser, encode_block, flat

# the tables of scores of models that continue a target, by its kind
CONTINUED = {"text": "language-model", "notes": "continued", "numbers": "continued"}
FILES_TOGETHER = 128  # files whose rows are in memory at a time


@dataclass(frozen=True)
class Sides:
    """What was learned of source, target and context."""

    source: Side
    target: Side
    context: Side | None = None

    @property
    def shapes(self) -> Shapes:
        target = self.target.shape
        if self.running is not None and isinstance(target, Symbols):
            target = replace(target, ended=False)
        return Shapes(self.source.shape, target, None if self.context is None else self.context.shape)

    @property
    def stored(self) -> Shapes:
        """The shapes of what a corpus stores: of texts that are corrupted anew in each epoch, the texts alone."""
        shapes = self.shapes
        if not isinstance(self.source, Corrupted):
            return shapes
        return Shapes(Nothing(), Symbols(len(self.source.tokeniser), ended=not isinstance(self.target, HiddenSymbols)))

    @property
    def running(self) -> NoColumn | None:
        """How running text is read, if targets are pieces of it."""
        return self.source if isinstance(self.source, NoColumn) and self.source.window else None

    @property
    def alone(self) -> bool:
        """Whether the target is the only column: the model learns to continue it, and inputs are prompts."""
        return isinstance(self.source, NoColumn)

    @property
    def input_shapes(self) -> Shapes:
        """The shapes of what is predicted from: the source or, where there is none, the beginning of a target."""
        shapes = self.shapes
        if not self.alone:
            return shapes
        target = shapes.target
        return replace(shapes, source=replace(target, ended=False) if isinstance(target, Symbols) else target)

    @property
    def by_role(self) -> dict[str, Side]:
        sides = {"source": self.source, "target": self.target}
        return sides if self.context is None else {**sides, "context": self.context}

    @property
    def kinds(self) -> Kinds:
        """The kinds of the columns, to read more of them."""
        texts = (Tokeniser, HiddenSymbols)
        named = {role: "text" if isinstance(side, texts) else side.kind for role, side in self.by_role.items()}
        numbers = {role: side for role, side in self.by_role.items() if isinstance(side, Numbers)}
        missing = tuple(role for role, side in numbers.items() if side.fills)
        widths = tuple((role, side.width) for role, side in numbers.items())
        ranges = {role: (side.lowest, side.highest) for role, side in self.by_role.items() if isinstance(side, Notes)}
        longest = max((side.longest for side in self.by_role.values() if isinstance(side, Audio)), default=LONGEST)
        largest = max((side.largest for side in self.by_role.values() if isinstance(side, Image)), default=LARGEST)
        names = named["source"], named["target"], named.get("context")
        running: Literal["", "pieces", "passages"] = "" if self.running is None else "pieces"
        if isinstance(self.source, Corrupted) and self.source.running:
            running = "passages"
        return Kinds(
            *names, missing, widths=widths, ranges=ranges, seconds=longest, megapixels=largest, running=running
        )

    @property
    def target_kind(self) -> str:
        """The kind of the target."""
        return "text" if isinstance(self.target, Tokeniser) else self.target.kind

    @property
    def scored_as(self) -> str:
        """The name of the table of scores: the kind of the target, or what continuing it is scored by."""
        return CONTINUED.get(self.target_kind, self.target_kind) if self.alone else self.target_kind

    @property
    def units(self) -> tuple[float, ...]:
        """The units of encoded target numbers, by feature; none of other targets."""
        return self.target.target_scale if isinstance(self.target, Numbers) else ()

    def __post_init__(self) -> None:
        if isinstance(self.target, Span) and isinstance(self.source, Tokeniser):
            self.target.read_by(self.source)
        if isinstance(self.source, Corrupted):
            assert isinstance(self.target, Tokeniser | HiddenSymbols)
            self.source.reads(self.target if isinstance(self.target, Tokeniser) else self.target.tokeniser)

    def encode(self, pairs: Sequence[Pair]) -> Encoded:
        """Encode all cells; a character that the source's tokeniser carries over is the same stand-in in both."""
        if isinstance(self.source, Corrupted):
            return self.source.encoded(pairs)
        hidden = self._hidden(pairs)
        context = None if self.context is None else self.context.rows(hidden, "context")
        source, target = self.source.rows(hidden, "source"), self.target.rows(hidden, "target")
        if isinstance(self.target, Span):
            both = [in_windows(list(s), list(t), self.target) for s, t in zip(source, target)]
            source, target = [s for s, _ in both], [t for _, t in both]
        return Encoded(source, target, context)

    def inputs(self, pairs: Sequence[Pair]) -> Encoded:
        """Encode all cells but the targets; where the target is alone, each source is the beginning of one."""
        if self.alone:
            return Encoded(self.target.rows([replace(pair, target=pair.source) for pair in pairs], "target"), ())
        hidden = self._hidden(pairs)
        context = None if self.context is None else self.context.rows(hidden, "context")
        return Encoded(self.source.rows(hidden, "source"), (), context)

    def with_sources(self, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """Return the pairs; where sources are corrupted targets, with these as a person would write them."""
        if not isinstance(self.source, Corrupted):
            return pairs
        sources = self.source.encoded(pairs).source
        return [replace(pair, source=self.source.shown(list(row))) for pair, row in zip(pairs, sources)]

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

    def parts(self, block: Block) -> Iterator[Block]:
        """Yield parts of a block whose encoded rows fit into memory: rows of sound and pictures have many numbers."""
        large = any(isinstance(side.shape, Frames | Picture) for side in self.by_role.values())
        rows = FILES_TOGETHER if large else len(block)
        for first in range(0, len(block), max(1, rows)):
            yield block.only([first <= row < first + rows for row in range(len(block))]) if rows < len(block) else block

    def flat(self, block: Block) -> dict[str, Flat]:
        """Encode a block; of a pair with several references each is a row of its own."""
        if self.context is None and isinstance(self.source, Tokeniser) and isinstance(self.target, Tokeniser):
            return dict(zip(("source", "target"), encode_block(block, self.source, self.target)))
        if self.alone and isinstance(self.target, Tokeniser) and not block.extras:
            return {"target": self.target.encode_flat(block.targets)}
        singles = list(chain.from_iterable(pair.single() for pair in block.pairs()))
        if isinstance(self.source, Corrupted):
            return {"target": self.source.tokeniser.encode_flat([pair.target for pair in singles])}
        encoded = self.encode(singles)
        rows = {"source": encoded.source, "target": encoded.target, "context": encoded.context}
        return {role: _flat(each) for role in self.shapes.by_role if (each := rows[role]) is not None}


def _flat(rows: Rows) -> Flat:
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows), np.array([len(row) for row in rows], dtype=np.int64)
    return flat([list(row) for row in rows])
