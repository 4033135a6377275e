"""Log-mel filterbanks: from samples to the energy in each band of each frame.

Filters are placed in Hz, so recordings of any rate have the same features without resampling; a band above half the
rate of a recording has no energy. With the window w and its transform X of N points, a filter h has
log max(ε, Σₖ hₖ |Xₖ|² / (N Σ w²)), which is the energy of the band, whatever the rate. Mel: 2595 log₁₀(1 + f/700).

There is no pre-emphasis: it adds a constant to each band, which the means take away again.
"""

# N samples · T frames · W samples of a window · K bins · M bands

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

FLOOR = 1e-9  # ε, below the noise of 16 bits
TOGETHER = 4096  # frames that are transformed at a time

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Filterbank:
    """What is computed of a recording."""

    bands: int = 40
    lowest: float = 50.0  # Hz
    highest: float = 4000.0
    window: float = 0.025  # seconds
    hop: float = 0.010

    def __call__(self, samples: Floats, rate: int) -> Floats:
        """Return the log energies (T, M) of samples (N,); at least one frame."""
        window, filters = _window(round(self.window * rate)), _filters(self, rate)
        samples = np.pad(samples, (0, max(0, len(window) - len(samples))))
        hop = max(1, round(self.hop * rate))
        frames = np.lib.stride_tricks.sliding_window_view(samples, len(window))[::hop]  # (T, W)
        parts = [
            _energies(frames[first : first + TOGETHER], window, filters) for first in range(0, len(frames), TOGETHER)
        ]
        return np.concatenate(parts)


def _energies(frames: Floats, window: Floats, filters: Floats) -> Floats:
    size = 2 * (len(filters) - 1)
    spectrum = np.fft.rfft(frames * window, size)  # (T, K)
    power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32, copy=False)
    scale = np.float32(1 / (size * float(window @ window)))
    energies: Floats = np.log(np.maximum(power @ filters * scale, np.float32(FLOOR)))  # (T, M)
    return energies


@lru_cache(maxsize=32)
def _window(length: int) -> Floats:
    return np.hanning(length + 2)[1:-1].astype(np.float32)


@lru_cache(maxsize=32)
def _filters(bank: Filterbank, rate: int) -> Floats:
    """Return triangles (K, M) between neighbours at equal distances in mel."""
    size = 1 << max(1, (round(bank.window * rate) - 1).bit_length())
    bins = np.arange(size // 2 + 1) * rate / size  # Hz
    edges = from_mel(np.linspace(to_mel(bank.lowest), to_mel(bank.highest), bank.bands + 2))
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins[:, None] - left) / (middle - left), (right - bins[:, None]) / (right - middle)
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)


def to_mel(hertz: npt.ArrayLike) -> npt.NDArray[np.float64]:
    mel: npt.NDArray[np.float64] = 2595 * np.log10(1 + np.asarray(hertz, dtype=np.float64) / 700)
    return mel


def from_mel(mel: npt.ArrayLike) -> npt.NDArray[np.float64]:
    hertz: npt.NDArray[np.float64] = 700 * (10 ** (np.asarray(mel, dtype=np.float64) / 2595) - 1)
    return hertz


def deltas(features: Floats, reach: int = 2) -> Floats:
    """Return the slope of each feature by a regression over neighbouring frames; the ends are repeated."""
    padded = np.pad(features, ((reach, reach), (0, 0)), mode="edge")
    length, slope = len(features), np.zeros_like(features)
    for step in range(1, reach + 1):
        slope += step * (padded[reach + step : reach + step + length] - padded[reach - step : reach - step + length])
    return slope / np.float32(2 * sum(step**2 for step in range(1, reach + 1)))
