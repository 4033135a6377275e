"""Pictures: a PNG, JPEG or WebP file → pixels as a person sees them; what is wrong with a file → a Fault.

A picture is turned as its EXIF orientation says. Palettes, CMYK and 16 bits a channel become 8 bits of grey or RGB,
what is transparent becomes white, and of an animation the first frame is read.

Limits: a picture of more pixels than allowed is refused by its header, before anything of it is decoded.
"""

# H rows · W columns · C channels

from __future__ import annotations

import os
import re
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.core.errors import UserError
from weft.data.formats import Fault
from weft.data.named_files import file_fault, name_of, path_of

ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
FORMATS = ("PNG", "JPEG", "WEBP")
LARGEST = 50.0  # million pixels
SMALLEST = 4  # pixels on each side
REMEMBERED = 200_000  # pictures whose facts are kept
THUMBNAIL = 64  # pixels on each side of what is looked at for colour
COLOURFUL = 12  # of 255: channels that differ by more are a colour
DEEP = ("I", "I;16", "I;16B", "I;16L", "F")  # modes of more than 8 bits
ORIENTATION = 0x0112  # the tag of EXIF
BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error)  # what Pillow raises at broken files

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Facts:
    """What a picture is like, once it is turned."""

    width: int
    height: int
    mode: str
    coloured: bool
    frames: int
    turned: bool  # by its EXIF orientation


def library(where: str) -> Any:
    """Return the package that decodes pictures; `where` is named if it is not installed."""
    try:
        from PIL import Image
    except ImportError:
        what = "reading pictures needs the Python package Pillow, which is not installed"
        raise UserError(what, where, "pip install 'weft[image]'") from None
    return Image


@contextmanager
def _opened(cell: str, largest: float) -> Iterator[Any]:
    """Open the file of a cell with Pillow; what it cannot read is a Fault."""
    image_module, name = library(name_of(cell)), name_of(cell)
    fault = file_fault("picture", cell, ENDINGS)
    if fault is not None:
        raise fault
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes, which are checked here
            with image_module.open(path_of(cell), formats=FORMATS) as image:
                _check_size(name, image.width, image.height, largest)
                yield image
    except image_module.DecompressionBombError as error:
        pixels = re.search(r"\d+", str(error))
        raise _too_large(name, int(pixels[0]) if pixels else 0, largest) from None
    except image_module.UnidentifiedImageError:
        what = f"{name!r} is not a PNG, JPEG or WebP picture, whatever its name says"
        raise Fault(what, "convert it, or leave the row out") from None
    except BROKEN as error:
        what = f"{name!r} is damaged or truncated: {str(error).strip().rstrip('.') or type(error).__name__}"
        raise Fault(what, "copy or download it again") from None


def _check_size(name: str, width: int, height: int, largest: float) -> None:
    if width * height > largest * 1e6:
        raise _too_large(name, width * height, largest, f" ({width:,} × {height:,})")
    if min(width, height) < SMALLEST:
        what = f"{name!r} has {width} × {height} pixels, but at least {SMALLEST} × {SMALLEST} are needed"
        raise Fault(what, "leave the row out, or export the picture again")


def _too_large(name: str, pixels: int, largest: float, size: str = "") -> Fault:
    what = f"{name!r} has {pixels / 1e6:,.1f} million pixels{size}, but the limit is {largest:g} million"
    return Fault(what, "make it smaller, or raise image.largest if you trust its origin")


def decoded(cell: str, largest: float, coloured: bool) -> Any:
    """Return a picture as Pillow knows it, turned, in RGB or grey."""
    with _opened(cell, largest) as image:
        image.load()
        return turned(_flattened(image, coloured), orientation(image))


def orientation(image: Any) -> int:
    """Return the orientation that the camera noted; 1, which is none, where it cannot be read."""
    try:
        number = image.getexif().get(ORIENTATION, 1)
    except BROKEN:
        return 1
    return number if isinstance(number, int) and 1 <= number <= 8 else 1


def turned(image: Any, number: int) -> Any:
    """Turn or mirror a picture as EXIF's orientation asks for."""
    from PIL.Image import Transpose

    steps = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image.transpose(steps[number]) if number in steps else image


def _flattened(image: Any, coloured: bool) -> Any:
    """Return a picture in 8 bits of grey or RGB, on white where it is transparent."""
    image_module = library("")
    if image.mode in DEEP:
        image = image_module.fromarray(_eight_bits(np.asarray(image)))
    if image.mode in ("PA", "LA", "La", "RGBa", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = image_module.new("RGBA", image.size, "white")
        image = image_module.alpha_composite(white, image)
    return image.convert("RGB" if coloured else "L")


def _eight_bits(values: npt.NDArray[Any]) -> Pixels:
    """Return the upper 8 of 16 bits; numbers between 0 and 1 are shares of white."""
    levels = 255 * values if values.dtype.kind == "f" else values.astype(np.int64) >> 8
    pixels: Pixels = np.clip(levels, 0, 255).astype(np.uint8)
    return pixels


def facts_of(cell: str, largest: float) -> Facts:
    """Return what a picture is like; decoded once, as long as the file is the same."""
    fault = file_fault("picture", cell, ENDINGS)
    if fault is not None:
        raise fault
    status = os.stat(path_of(cell))
    return _facts(cell, largest, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=REMEMBERED)
def _facts(cell: str, largest: float, size: int, modified: int) -> Facts:
    with _opened(cell, largest) as image:
        mode, frames, number = image.mode, getattr(image, "n_frames", 1), orientation(image)
        image.load()
        seen = turned(_flattened(image, coloured=True), number)
    spread = np.ptp(np.asarray(seen.resize((THUMBNAIL, THUMBNAIL)), dtype=np.int16), axis=2)
    return Facts(seen.width, seen.height, mode, bool(spread.max() > COLOURFUL), int(frames), number > 1)
