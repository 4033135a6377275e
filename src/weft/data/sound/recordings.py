"""Recordings: a WAV, FLAC, OGG or MP3 file, or a part of one → samples of one channel; what is wrong with it → a Fault.

Limits: channels are averaged. A part is cut out without decoding what is before it, where the format allows that.
"""

# N samples · C channels

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.core.errors import UserError
from weft.data.formats import Fault
from weft.data.named_files import file_fault, name_of, path_of, seconds_of

ENDINGS = (".wav", ".flac", ".ogg", ".mp3")
BLOCK = 1 << 20  # samples of all channels that are decoded at a time
SILENT = 1e-4  # the peak of a recording that holds nothing, of a full scale of 1
CLIPPED = 0.999  # samples beyond it are cut off
RIFF_HEADER = 12
UNKNOWN_SIZES = (0, 0xFFFFFFFF)  # in the header of a WAV that was written to a pipe
REMEMBERED = 200_000  # recordings whose facts are kept

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Facts:
    """What a recording is like."""

    seconds: float
    rate: int
    channels: int
    peak: float
    clipped: float  # the share of samples


def library(where: str) -> Any:
    """Return the package that decodes sound; `where` is named if it is not installed."""
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: the library that it needs is missing
        what = "reading sound needs the Python package soundfile, which is not installed"
        raise UserError(what, where, "pip install 'weft[audio]'") from None
    return soundfile


@contextmanager
def _opened(cell: str) -> Iterator[Any]:
    """Open the file of a cell with soundfile; what it cannot read is a Fault."""
    soundfile = library(name_of(cell))
    try:
        with soundfile.SoundFile(path_of(cell)) as file:
            yield file
    except soundfile.SoundFileError as error:
        reason = str(error).rpartition(": ")[2].strip().rstrip(".")
        raise Fault(f"{name_of(cell)!r} cannot be read as sound: {reason}", "convert it to WAV or FLAC") from None


def read(cell: str, longest: float) -> tuple[Floats, int]:
    """Return the samples (N,) of a recording, or of the part that is meant, and their rate."""
    begin, end = seconds_of(cell)
    fault = file_fault("recording", cell, ENDINGS)
    if fault is not None:
        raise fault
    _check_whole(cell)
    with _opened(cell) as file:
        rate, frames = file.samplerate, file.frames
        first, last = round(begin * rate), frames if end is None else min(frames, round(end * rate))
        _check_part(cell, begin, end, frames / rate)
        if (last - first) / rate > longest:
            what = f"{name_of(cell)!r} is {(last - first) / rate:,.0f} seconds long, but the limit is {longest:,.0f}"
            raise Fault(what, "split it, name its parts by data.start and data.end, or raise audio.longest")
        file.seek(first)
        samples = _mixed(file, last - first)
    if len(samples) == 0:
        raise Fault(f"{name_of(cell)!r} has no samples", "leave the row out, or record it again")
    if len(samples) < last - first:
        what = f"{name_of(cell)!r} is truncated: it has {len(samples):,} of {last - first:,} samples"
        raise Fault(what, "copy or download it again")
    if not np.isfinite(samples).all():
        raise Fault(f"{name_of(cell)!r} has samples that are not numbers", "record or convert it again")
    return samples, rate


def seconds_in(cell: str) -> float:
    """Return how long a recording is, or the part of it that is meant, by its header alone."""
    begin, end = seconds_of(cell)
    with _opened(cell) as file:
        whole: float = file.frames / file.samplerate
    return max(0.0, (whole if end is None else min(end, whole)) - begin)


def _mixed(file: Any, count: int) -> Floats:
    """Decode so many samples, and average the channels."""
    parts, left = [np.zeros(0, dtype=np.float32)], count
    while left > 0:
        part = file.read(min(left, max(1, BLOCK // file.channels)), dtype="float32", always_2d=True)  # (N, C)
        if len(part) == 0:
            break
        parts.append(part.mean(axis=1) if part.shape[1] > 1 else part[:, 0])
        left -= len(part)
    return np.concatenate(parts)


def _check_part(cell: str, begin: float, end: float | None, seconds: float) -> None:
    if begin >= seconds > 0 or (end is not None and (end <= begin or end > seconds + 1)):
        part = f"from {begin:g} to {'its end' if end is None else f'{end:g}'} seconds"
        what = f"{name_of(path_of(cell))!r} is {seconds:.2f} seconds long, so it has no part {part}"
        raise Fault(what, "correct the start and the end")


def _check_whole(cell: str) -> None:
    """Refuse a WAV that is shorter than its header says: libsndfile would read what is left without a word."""
    path = path_of(cell)
    with open(path, "rb") as file:
        header = file.read(RIFF_HEADER)
    promised = int.from_bytes(header[4:8], "little")
    size = os.path.getsize(path)
    if header[:4] == b"RIFF" and header[8:] == b"WAVE" and promised not in UNKNOWN_SIZES and promised + 8 > size + 1:
        what = f"{name_of(path)!r} is truncated: it has {size:,} of {promised + 8:,} bytes"
        raise Fault(what, "copy or download it again")


def facts_of(cell: str, longest: float) -> Facts:
    """Return what a recording is like; decoded once, as long as the file is the same."""
    status = os.stat(path_of(cell))
    return _facts(cell, longest, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=REMEMBERED)
def _facts(cell: str, longest: float, size: int, modified: int) -> Facts:
    samples, rate = read(cell, longest)
    with _opened(cell) as file:
        channels = file.channels
    loud = np.abs(samples)
    return Facts(len(samples) / rate, rate, channels, float(loud.max()), float((loud >= CLIPPED).mean()))
