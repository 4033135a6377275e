"""Pictures: a cell names a file, which is read as columns of pixels (data/pictures).

A side knows the size that pictures are brought to. With a free width, each keeps its ratio, as lines of text do; else
all get the same size: the whole picture is scaled into it, and the rest filled with the colour of its border (pad), or
width and height are scaled apart (stretch).
"""

# H rows · W columns · C channels

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.core.shapes import Picture
from weft.data.blocks import Block
from weft.data.formats import Fault
from weft.data.named_files import FileKind, name_of, path_of
from weft.data.parallel import mapped
from weft.data.pictures.files import ENDINGS, LARGEST, Facts, Pixels, decoded, facts_of, library
from weft.data.sides.side import Rows, block_cells, cells

FORMAT = 1
SHOWN = 3  # names of pictures in a sentence
WIDEST = 100  # columns of a picture of free width, for each row


@dataclass(frozen=True)
class Image:
    """How pictures become pixels."""

    height: int = 32
    width: int = 0  # 0: as the ratio of each picture asks for
    coloured: bool = False
    fit: str = "pad"  # or "stretch"
    largest: float = LARGEST  # million pixels

    kind = "image"

    @property
    def shape(self) -> Picture:
        return Picture(3 if self.coloured else 1, self.height, self.width)

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        return mapped(self.pixels, cells(pairs, role))

    def pixels(self, cell: str) -> Pixels:
        """Return the columns of a picture (W, H · C)."""
        try:
            picture = decoded(cell, self.largest, self.coloured)
        except Fault as fault:  # where nobody checked the cell before, or the file has changed since
            raise UserError(fault.what, path_of(cell), fault.todo) from None
        values: Pixels = np.asarray(self.fitted(picture), dtype=np.uint8)
        return np.ascontiguousarray(values.reshape(self.height, values.shape[1], -1).swapaxes(0, 1)).reshape(
            values.shape[1], -1
        )

    def fitted(self, picture: Any) -> Any:
        """Return a picture of Pillow in the size of this side."""
        width, height = picture.size
        if not self.width:
            columns = min(WIDEST * self.height, max(1, round(width * self.height / height)))
            return _scaled(picture, (columns, self.height))
        if self.fit == "stretch":
            return _scaled(picture, (self.width, self.height))
        scale = min(self.width / width, self.height / height)
        inner = max(1, round(width * scale)), max(1, round(height * scale))
        small = _scaled(picture, inner)
        if inner == (self.width, self.height):
            return small
        canvas = library("").new(picture.mode, (self.width, self.height), border_colour(np.asarray(small)))
        canvas.paste(small, ((self.width - inner[0]) // 2, (self.height - inner[1]) // 2))
        return canvas

    def text(self, row: Any, pair: Pair) -> str:
        raise NotImplementedError("pictures are never written")

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, "kind": self.kind, **asdict(self)}, indent=1) + "\n"


def _scaled(picture: Any, size: tuple[int, int]) -> Any:
    return picture if picture.size == size else picture.resize(size, library("").Resampling.BILINEAR)


def border_colour(values: Pixels) -> int | tuple[int, ...]:
    """Return the median of the outermost pixels of a picture (H, W[, C]), by channel."""
    edges = np.concatenate([values[0], values[-1], values[:, 0], values[:, -1]])
    median = np.median(edges, axis=0).astype(int)
    return int(median) if median.ndim == 0 else tuple(median.tolist())


class ImageCollector:
    """Collects what pictures are like."""

    def __init__(self, largest: float) -> None:
        self._largest = largest
        self._sizes: list[tuple[int, int]] = []
        self._modes, self._coloured, self._turned = Counter[str](), 0, 0
        self._animated = list[str]()

    def add(self, block: Block, role: str) -> None:
        for cell in block_cells(block, role):
            self._add(cell, facts_of(cell, self._largest))

    def _add(self, cell: str, facts: Facts) -> None:
        self._sizes.append((facts.width, facts.height))
        self._modes[facts.mode] += 1
        self._coloured, self._turned = self._coloured + facts.coloured, self._turned + facts.turned
        if facts.frames > 1:
            self._animated.append(name_of(cell))

    def result(self) -> dict[str, Any]:
        widths, heights = np.array(self._sizes, dtype=np.float64).T
        ratios = widths / heights
        return {
            "pictures": len(self._sizes),
            "widths": _spread(widths),
            "heights": _spread(heights),
            "ratio": float(np.median(ratios)),
            "mean_ratio": float(ratios.mean()),
            "widest_ratio": float(ratios.max()),
            "sizes": len(set(self._sizes)),
            "modes": dict(sorted(self._modes.items())),
            "coloured": self._coloured,
            "turned": self._turned,
            "animated": len(self._animated),
            "animated_names": self._animated[:SHOWN],
        }


def _spread(values: Any) -> list[int]:
    """Return the smallest, the median and the largest of some numbers."""
    return [int(values.min()), int(np.median(values)), int(values.max())]


class ImageKind(FileKind):
    """Reads and surveys a column of pictures."""

    endings = ENDINGS

    def __init__(self) -> None:
        self.largest = LARGEST  # million pixels

    def check(self, path: str) -> None:
        facts_of(path, self.largest)

    def collector(self) -> ImageCollector:
        return ImageCollector(self.largest)

    def describe(self, survey: Mapping[str, Any]) -> dict[str, str]:
        widths, heights = ("{:,} to {:,}, median {:,}".format(*_ordered(survey[key])) for key in ("widths", "heights"))
        animated = ", ".join(survey["animated_names"]) + (", …" if survey["animated"] > SHOWN else "")
        return {
            "pictures": f"{survey['pictures']:,} of {survey['sizes']:,} different sizes",
            "width": f"{widths} pixels",
            "height": f"{heights} pixels",
            "modes": ", ".join(f"{mode}: {count:,}" for mode, count in survey["modes"].items()),
            "in colour": f"{survey['coloured']:,}",
            "turned by EXIF": f"{survey['turned']:,}",
            "animated": f"{survey['animated']:,} ({animated}: the first frame is read)" if animated else "0",
        }

    def load(self, content: Mapping[str, Any]) -> Image:
        if content["format"] != FORMAT:
            raise ValueError(f"the format is {content['format']}, but this version of Weft reads format {FORMAT}")
        return Image(**{name: value for name, value in content.items() if name not in ("format", "kind")})


def _ordered(spread: Sequence[int]) -> tuple[int, int, int]:
    """Return smallest, largest, median."""
    return spread[0], spread[2], spread[1]
