"""Sound: a cell names a recording, which is read as log-mel frames (data/sound).

A side knows which bands there are and what is usual in them. Means and deviations are those of each recording, which
takes away how loud it is and how the microphone sounds, or those of the training data. With a single mean for all
bands of a recording (level), only the loudness is taken away: a word of one vowel keeps its vowel.
"""

# T frames · M bands · F features

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.core.shapes import Frames
from weft.data.blocks import Block
from weft.data.formats import Fault
from weft.data.named_files import FileKind, name_of, path_of
from weft.data.parallel import mapped
from weft.data.sides.side import Rows, block_cells, cells
from weft.data.sound.filterbank import Filterbank, Floats, deltas
from weft.data.sound.levels import floored, trimmed
from weft.data.sound.recordings import ENDINGS, SILENT, Facts, facts_of, read, seconds_in

FORMAT = 1
FRAMES_PER_SECOND = 100
LONGEST = 60.0  # seconds of a recording
MUCH_CLIPPED = 0.001  # share of samples from which a recording is told
SHOWN = 3  # names of recordings in a sentence
STEADY = 1e-3  # the smallest deviation that is divided by


@dataclass(frozen=True)
class Audio:
    """How recordings become frames."""

    bands: int = 40
    lowest: float = 50.0
    highest: float = 4000.0
    window: float = 0.025
    hop: float = 1 / FRAMES_PER_SECOND
    deltas: bool = False
    normalise: str = "recording"  # or "level", "corpus", "none"
    mean: tuple[float, ...] = ()  # of the training data, by feature
    scale: tuple[float, ...] = ()
    longest: float = LONGEST
    trim: float = 0.0  # decibels below the loudest frame, of what is left out at both ends
    range: float = 0.0  # decibels below the strongest energy, of the weakest

    kind = "audio"

    @property
    def shape(self) -> Frames:
        return Frames(self.bands * (2 if self.deltas else 1))

    @property
    def bank(self) -> Filterbank:
        return Filterbank(self.bands, self.lowest, self.highest, self.window, self.hop)

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        return mapped(self.features, cells(pairs, role))

    def features(self, cell: str) -> Floats:
        """Return the normalised features of a recording (T, F)."""
        try:
            return self.normalised(self.raw(*read(cell, self.longest)))
        except Fault as fault:  # where nobody checked the cell before, or the file has changed since
            raise UserError(fault.what, path_of(cell), fault.todo) from None

    def raw(self, samples: Floats, rate: int) -> Floats:
        """Return the features of samples before they are normalised."""
        logs = floored(trimmed(self.bank(samples, rate), self.trim), self.range)
        return np.concatenate([logs, deltas(logs)], axis=1) if self.deltas else logs

    def normalised(self, features: Floats) -> Floats:
        """Take means away, and divide by deviations."""
        if self.normalise == "none":
            return features
        if self.normalise == "corpus":
            mean, scale = (np.array(each, dtype=np.float32) for each in (self.mean, self.scale))
        elif self.normalise == "level":
            blocks = features.reshape(len(features), -1, self.bands)  # energies, and perhaps their deltas
            mean, scale = (np.repeat(each, self.bands) for each in (blocks.mean((0, 2)), blocks.std((0, 2))))
        else:
            mean, scale = features.mean(0), features.std(0)
        scale = np.maximum(scale, np.float32(STEADY))
        normal: Floats = (features - mean) / scale
        return normal

    def slopes(self, bands: Floats) -> Floats:
        """Return the normalised deltas of normalised bands, as `features` would have made them."""
        if self.normalise == "corpus":
            half = self.bands
            mean, scale = (np.array(each, dtype=np.float32) for each in (self.mean, self.scale))
            corpus: Floats = (deltas(bands * scale[:half]) - mean[half:]) / scale[half:]
            return corpus
        return self.normalised(deltas(bands))

    def fitted(self, recordings: Sequence[str]) -> Audio:
        """Return the side with the means and deviations of some recordings."""
        frames = np.concatenate(mapped(replace(self, normalise="none").features, recordings))
        mean, scale = frames.mean(0, dtype=np.float64), frames.std(0, dtype=np.float64)
        return replace(self, mean=tuple(mean.tolist()), scale=tuple(np.maximum(scale, STEADY).tolist()))

    def cost(self, cell: str) -> int:
        """Return about how many frames a recording has."""
        return round(seconds_in(cell) / self.hop)

    def text(self, row: Any, pair: Pair) -> str:
        raise NotImplementedError("sound is never written")

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, "kind": self.kind, **asdict(self)}, indent=1) + "\n"


class AudioCollector:
    """Collects what recordings are like."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._seconds: list[float] = []
        self._rates, self._channels = Counter[int](), Counter[int]()
        self._silent, self._clipped = list[str](), list[str]()

    def add(self, block: Block, role: str) -> None:
        for cell in block_cells(block, role):
            self._add(cell, facts_of(cell, self._longest))

    def _add(self, cell: str, facts: Facts) -> None:
        self._seconds.append(facts.seconds)
        self._rates[facts.rate] += 1
        self._channels[facts.channels] += 1
        if facts.peak < SILENT:
            self._silent.append(name_of(cell))
        elif facts.clipped > MUCH_CLIPPED:
            self._clipped.append(name_of(cell))

    def result(self) -> dict[str, Any]:
        return {
            "recordings": len(self._seconds),
            "seconds": float(np.sum(self._seconds)),
            "shortest": min(self._seconds),
            "longest": max(self._seconds),
            "long": float(np.quantile(self._seconds, 0.99)),
            "rates": {str(rate): count for rate, count in sorted(self._rates.items())},
            "channels": {str(channels): count for channels, count in sorted(self._channels.items())},
            "silent": len(self._silent),
            "silent_names": self._silent[:SHOWN],
            "clipped": len(self._clipped),
            "clipped_names": self._clipped[:SHOWN],
        }


class AudioKind(FileKind):
    """Reads and surveys a column of recordings."""

    endings = ENDINGS

    def __init__(self) -> None:
        self.longest = LONGEST  # seconds
        self.surveyed = True  # whether the facts of recordings are needed again

    def check(self, path: str) -> None:
        if self.surveyed:
            facts_of(path, self.longest)
        else:
            read(path, self.longest)

    def collector(self) -> AudioCollector:
        return AudioCollector(self.longest)

    def describe(self, survey: Mapping[str, Any]) -> dict[str, str]:
        mean = survey["seconds"] / survey["recordings"]
        return {
            "recordings": f"{survey['recordings']:,}, {duration(survey['seconds'])} in all",
            "seconds": f"{survey['shortest']:.2f} to {survey['longest']:.2f}, mean {mean:.2f}",
            "rate": ", ".join(f"{int(rate):,} Hz: {count:,}" for rate, count in survey["rates"].items()),
            "channels": ", ".join(f"{channels}: {count:,}" for channels, count in survey["channels"].items()),
            "silent": _listed(survey["silent"], survey["silent_names"]),
            "clipped": _listed(survey["clipped"], survey["clipped_names"]),
        }

    def load(self, content: Mapping[str, Any]) -> Audio:
        if content["format"] != FORMAT:
            raise ValueError(f"the format is {content['format']}, but this version of Weft reads format {FORMAT}")
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
        del fields["format"], fields["kind"]
        return Audio(**fields)


def duration(seconds: float) -> str:
    """Return a time as people read it."""
    hours, minutes = divmod(round(seconds) // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {round(seconds) % 60} s" if minutes else f"{round(seconds)} s"


def _listed(count: int, names: Sequence[str]) -> str:
    if not count:
        return "0"
    return f"{count:,} ({', '.join(names)}{', …' if count > len(names) else ''})"
