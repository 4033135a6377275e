"""Rows that are changed at random each time they are learned from: a pure function of seed, epoch and row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.data.corpus import Augment
from weft.data.corrupt import generator
from weft.data.pictures.augment import PictureAugmentation
from weft.data.sides.audio import Audio
from weft.data.sides.corrupted import Corrupted
from weft.data.sides.image import Image
from weft.data.sides.numbers import Numbers
from weft.data.sides.side import Side
from weft.data.sides.sides import Sides
from weft.data.sides.turn import Turn
from weft.data.sound.augment import SoundAugmentation
from weft.spec import Spec

Array = npt.NDArray[Any]
Change = Callable[[Array, np.random.Generator], Array]
CHANGES = 2  # tells these draws from others of the same seed and epoch


def _draw(seed: int, epoch: int, row: int) -> np.random.Generator:
    return np.random.default_rng((seed, epoch, row, CHANGES))


@dataclass(frozen=True)
class Augmentation:
    """What is changed, by role."""

    seed: int
    changes: Mapping[str, Change]
    draw: Callable[[int, int, int], np.random.Generator] = _draw  # by seed, epoch and row

    @classmethod
    def of(cls, spec: Spec, sides: Sides) -> Augmentation:
        if isinstance(sides.source, Corrupted):
            corruption = sides.source.corruption
            return cls(spec.train.seed, {"source": corruption.source, "target": corruption.target}, generator)
        changes = {role: _change(spec, side, sides) for role, side in sides.by_role.items()}
        return cls(spec.train.seed, {role: change for role, change in changes.items() if change is not None})

    def of_epoch(self, epoch: int) -> Augment | None:
        """Return what changes the rows of an epoch; None where nothing does."""
        if not self.changes:
            return None

        def augment(role: str, row: int, values: Array) -> Array:
            change = self.changes.get(role)
            return values if change is None else change(values, self.draw(self.seed, epoch, row))

        return augment


def _change(spec: Spec, side: Side, sides: Sides) -> Change | None:
    return AUGMENTED[side.kind](spec, side, sides) if side.kind in AUGMENTED else None


def _numbers(spec: Spec, side: Side, sides: Sides) -> Change | None:
    """Return the same turn of all columns that have as many numbers per step as the target."""
    assert isinstance(side, Numbers)
    settings, target = spec.numbers, sides.target
    if not (settings.rotate or settings.mirror) or not isinstance(target, Numbers) or side.width != target.width:
        return None
    return Turn(side.width, side.values + side.differences, settings.rotate, settings.mirror)


def _sound(spec: Spec, side: Side, sides: Sides) -> Change | None:
    assert isinstance(side, Audio)
    audio = spec.audio
    amounts = audio.speed, audio.pitch, audio.volume, audio.noise, audio.time_masks, audio.frequency_masks
    if not any(amounts):
        return None
    return SoundAugmentation(
        side.lowest,
        side.highest,
        audio.speed,
        audio.pitch,
        audio.volume,
        audio.noise,
        time_masks=audio.time_masks,
        frequency_masks=audio.frequency_masks,
        frequency_mask=max(1, round(0.15 * side.bands)),
        normalise=side.normalise,
        slopes=side.slopes if side.deltas else None,
    )


def _picture(spec: Spec, side: Side, sides: Sides) -> Change | None:
    assert isinstance(side, Image)
    image = spec.image
    amounts = image.shift, image.scale, image.rotate, image.brightness, image.flip
    return PictureAugmentation(side.height, side.shape.channels, *amounts) if any(amounts) else None


AUGMENTED: dict[str, Callable[[Spec, Side, Sides], Change | None]] = {  # by kind
    "audio": _sound,
    "image": _picture,
    "numbers": _numbers,
}
