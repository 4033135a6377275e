"""How loud frames are, compared with the loudest of a recording: silence at its ends, and a floor for the energies.

Some recordings begin and end with silence, and in some of them it is digital, without any noise. A model that is to
understand new speakers should see neither.
"""

# T frames · M bands

from __future__ import annotations

import math

import numpy as np

from weft.data.sound.filterbank import Floats

NATS = math.log(10) / 10  # in a decibel
MARGIN = 2  # quiet frames that are left at each end


def trimmed(logs: Floats, decibels: float) -> Floats:
    """Leave out frames (T, M) at both ends that are so much quieter than the loudest one; 0: none."""
    if not decibels:
        return logs
    loudness = np.logaddexp.reduce(logs, axis=1)  # (T,)
    loud = np.flatnonzero(loudness >= loudness.max() - NATS * decibels)
    return logs[max(0, loud[0] - MARGIN) : loud[-1] + 1 + MARGIN]


def floored(logs: Floats, decibels: float) -> Floats:
    """Raise energies that are so far below the strongest one to that level; 0: none."""
    return np.maximum(logs, logs.max() - np.float32(NATS * decibels)) if decibels else logs
