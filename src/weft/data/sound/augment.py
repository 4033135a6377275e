"""Frames that are changed a little each time they are learned from; what is drawn depends on the generator alone.

Speed: time and frequency together, as of a record that turns faster (frequencies f become f·s). Pitch: frequency alone,
as of a shorter or longer vocal tract (Jaitly 2013). Noise: a floor of energy, so many deviations from the mean of a
band. Volume: a constant. Masks: some neighbouring frames or bands are 0, which is the mean (Park 2019).
"""

# T frames · M bands

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.data.sound.filterbank import Floats, from_mel, to_mel

LOUDEST_NOISE, FAINTEST_NOISE = -0.2, -2.0  # of the floor, in deviations from the mean
LOUDEST = 80.0  # nats, beyond which float32 would overflow
LOG_SCALE = 2.5  # nats that a deviation of log energies is about

AXES: dict[str, int | None] = {"recording": 0, "level": None}  # means are over frames, or over frames and bands


@dataclass(frozen=True)
class SoundAugmentation:
    """How much is changed at most; 0: not at all."""

    lowest: float  # Hz, of the bands
    highest: float
    speed: float = 0.0  # share by which it is faster or slower
    pitch: float = 0.0  # share by which frequencies are higher or lower
    volume: float = 0.0  # deviations
    noise: float = 0.0  # share of recordings that get noise
    time_masks: int = 0
    time_mask: int = 10  # frames, at most
    frequency_masks: int = 0
    frequency_mask: int = 6  # bands, at most
    normalise: str = "recording"  # what was normalised before, and is normalised again after a change
    slopes: Callable[[Floats], Floats] | None = None  # from changed bands to their deltas, where these are read too

    def __call__(self, frames: Floats, random: np.random.Generator) -> Floats:
        """Return changed frames (T', F); as many draws for any frames, so that one change does not move another.

        Where deltas are read, they are computed anew from the changed bands, which come first in a frame.
        """
        bands = frames if self.slopes is None else frames[:, : frames.shape[1] // 2]
        changed = self._changed(bands, random)
        if self.slopes is not None:
            changed = np.concatenate([changed, self.slopes(changed)], axis=1)
        return self._masked(changed, bands.shape[1], random)

    def _changed(self, frames: Floats, random: np.random.Generator) -> Floats:
        speed, pitch = (1 + share * random.uniform(-1, 1) for share in (self.speed, self.pitch))
        volume, noisy, floor = self.volume * random.uniform(-1, 1), random.random(), random.random()
        changed = _faster(_warped(frames, self.lowest, self.highest, speed * pitch), speed)
        changed += np.float32(volume)
        if noisy < self.noise:
            changed = _with_floor(changed, FAINTEST_NOISE + (LOUDEST_NOISE - FAINTEST_NOISE) * floor)
        if self.normalise in AXES:
            _normalise(changed, AXES[self.normalise])
        return changed

    def _masked(self, frames: Floats, bands: int, random: np.random.Generator) -> Floats:
        """Hide some frames, and some of the bands with their deltas."""
        for first, last in _intervals(self.time_masks, self.time_mask, len(frames), random):
            frames[first:last] = 0
        for first, last in _intervals(self.frequency_masks, self.frequency_mask, bands, random):
            for begin in range(0, frames.shape[1], bands):
                frames[:, begin + first : begin + last] = 0
        return frames


def _normalise(frames: Floats, axis: int | None) -> None:
    """Bring frames (T, M) to mean 0 and deviation 1, in each band or over all of them."""
    frames -= frames.mean(axis)
    frames /= np.maximum(np.sqrt(np.square(frames).mean(axis)), np.float32(1e-3))


def _intervals(count: int, most: int, length: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Draw so many intervals of up to `most` positions, and of a quarter of all."""
    intervals = []
    for width, begin in random.random((count, 2)).tolist():
        masked = min(int(width * (most + 1)), length // 4)
        first = int(begin * (length - masked + 1))
        intervals.append((first, first + masked))
    return intervals


def _faster(frames: Floats, speed: float) -> Floats:
    """Return frames at other moments, between neighbours where they fall between them."""
    length = max(1, round(len(frames) / speed))
    moments = np.minimum(np.arange(length) * speed, len(frames) - 1)
    before = moments.astype(np.int64)
    share = (moments - before).astype(np.float32)[:, None]
    between: Floats = frames[np.minimum(before + 1, len(frames) - 1)]
    here = frames[before]
    between -= here
    between *= share
    between += here
    return between


def _warped(frames: Floats, lowest: float, highest: float, factor: float) -> Floats:
    """Return frames whose frequencies are `factor` times as high; at the ends the outermost band is repeated."""
    bands = frames.shape[1]
    centres, low, high = _centres(bands, lowest, highest)
    sources = (to_mel(centres / factor) - low) / (high - low) * (bands + 1) - 1
    sources = np.clip(sources, 0, bands - 1)
    before = np.minimum(sources.astype(np.int64), max(0, bands - 2))
    share, targets = (sources - before).astype(np.float32), np.arange(bands)
    weights = np.zeros((bands, bands), dtype=np.float32)
    weights[before, targets] = 1 - share
    weights[np.minimum(before + 1, bands - 1), targets] += share
    return frames @ weights


@lru_cache(maxsize=8)
def _centres(bands: int, lowest: float, highest: float) -> tuple[npt.NDArray[np.float64], float, float]:
    """Return the centres of the bands in Hz, and the ends of all in mel."""
    low, high = float(to_mel(lowest)), float(to_mel(highest))
    return from_mel(low + (high - low) * np.arange(1, bands + 1) / (bands + 1)), low, high


def _with_floor(frames: Floats, level: float) -> Floats:
    """Add energy that is `level` deviations from the mean of each band."""
    scale = np.float32(LOG_SCALE)
    energies = np.exp(np.minimum(scale * frames, np.float32(LOUDEST)))
    floor = np.exp(np.minimum(scale * (frames.mean(0) + np.float32(level)), np.float32(LOUDEST)))
    noisy: Floats = np.log(energies + floor) / scale
    return noisy
