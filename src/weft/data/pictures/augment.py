"""Pictures that are changed a little each time they are learned from; what is drawn depends on the generator alone.

Pixel (x, y) of the changed picture is that at A (x, y) + b of the original, with A a rotation and a scale about the
centre, and b a shift. What comes from outside has the colour of the border.
"""

# H rows · W columns · C channels

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.data.pictures.files import Pixels, library
from weft.data.sides.image import border_colour


@dataclass(frozen=True)
class PictureAugmentation:
    """How much is changed at most; 0: not at all."""

    height: int
    channels: int
    shift: float = 0.0  # share of the height
    scale: float = 0.0  # share by which it is larger or smaller
    rotate: float = 0.0  # degrees
    brightness: float = 0.0  # share of the full range
    flip: bool = False  # mirror every second picture

    def __call__(self, columns: npt.NDArray[Any], random: np.random.Generator) -> Pixels:
        """Return a changed picture (W, H · C); as many draws for any picture."""
        right, down, larger, angle, light, contrast = random.uniform(-1, 1, 6)
        mirrored = self.flip and random.random() < 0.5
        picture = np.ascontiguousarray(columns.reshape(len(columns), self.height, self.channels).swapaxes(0, 1))
        if mirrored:
            picture = np.ascontiguousarray(picture[:, ::-1])
        if self.shift or self.scale or self.rotate:
            moves = self.shift * self.height * np.array([right, down])
            picture = _moved(picture, moves, 1 + self.scale * larger, math.radians(self.rotate * angle))
        if self.brightness:
            picture = _relit(picture, 255 * self.brightness * light, 1 + self.brightness * contrast)
        return np.ascontiguousarray(picture.swapaxes(0, 1)).reshape(len(columns), -1)


def _moved(picture: Pixels, shift: npt.NDArray[np.float64], scale: float, angle: float) -> Pixels:
    """Return a picture (H, W, C) that is scaled and rotated about its centre, and then shifted."""
    height, width, channels = picture.shape
    image = library("").fromarray(picture[:, :, 0] if channels == 1 else picture)
    cos, sin = math.cos(angle) / scale, math.sin(angle) / scale
    x, y = (width - 1) / 2, (height - 1) / 2
    to_x, to_y = x + shift[0], y + shift[1]
    matrix = (cos, sin, x - cos * to_x - sin * to_y, -sin, cos, y + sin * to_x - cos * to_y)
    image_module = library("")
    moved = image.transform(
        image.size,
        image_module.Transform.AFFINE,
        matrix,
        image_module.Resampling.BILINEAR,
        fillcolor=border_colour(np.asarray(image)),
    )
    return np.asarray(moved, dtype=np.uint8).reshape(picture.shape)


def _relit(picture: Pixels, light: float, contrast: float) -> Pixels:
    """Return a picture with other brightness and contrast, by a table of 256 levels."""
    levels = np.clip(np.rint((np.arange(256) - 127.5) * contrast + 127.5 + light), 0, 255).astype(np.uint8)
    relit: Pixels = levels[picture]
    return relit
