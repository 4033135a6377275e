"""Sound that is given in memory: samples are kept as a file, which cells can name."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from weft.core.errors import UserError
from weft.core.files import write_whole
from weft.data.cache import cache_root, digest_of
from weft.data.sound.recordings import library


def keep_sound(value: Any, where: str) -> str:
    """Write (samples, rate) to a file in the cache, and return its name; samples are from -1 to 1, or integers."""
    samples, rate = value if isinstance(value, tuple) and len(value) == 2 else (None, 0)
    if not isinstance(samples, np.ndarray) or samples.ndim not in (1, 2) or not samples.size or not _is_rate(rate):
        todo = "give the name of a file, or (samples, rate): an array and a number of samples per second"
        raise UserError("this is neither a file name nor a recording", where, todo)
    if samples.dtype.kind in "iu":
        samples = samples / np.float32(np.iinfo(samples.dtype).max)
    content = io.BytesIO()
    library(where).write(content, samples.astype(np.float32), int(rate), format="WAV", subtype="FLOAT")
    folder, data = cache_root() / "given", content.getvalue()
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{digest_of(data.hex())}.wav"
    write_whole(folder, name, data)
    return str(folder / name)


def _is_rate(rate: Any) -> bool:
    return isinstance(rate, int | float | np.integer | np.floating) and bool(1 <= rate <= 10_000_000)
