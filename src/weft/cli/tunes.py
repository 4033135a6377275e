"""`weft predict --format midi`: a file for each tune."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.api import Run
    from weft.predict.predictions import Prediction

STEP_SECONDS = 0.25  # of --step: an eighth at 120 quarters a minute


@dataclass(frozen=True)
class TuneWriter:
    """Writes the tunes of predictions into a folder."""

    folder: Path
    step_seconds: float

    def write(self, prediction: Prediction, number: int) -> Iterator[str]:
        """Write the tunes of one input line, and yield the name of each file."""
        from weft.core.files import write_whole
        from weft.data.midi import midi_bytes

        for rank, output in enumerate(prediction.outputs, 1):
            name = f"{number:04d}.mid" if len(prediction.outputs) == 1 else f"{number:04d}-{rank}.mid"
            tune = json.loads(output.text) if output.text else []
            write_whole(self.folder, name, midi_bytes(tune, self.step_seconds))
            yield str(self.folder / name)


def check_flags(format: str, out: Path | None, step: float | None) -> None:
    """Check --out and --step, which only --format midi has."""
    from weft.core.errors import UserError
    from weft.data.midi import LONGEST_STEP, SHORTEST_STEP

    if format != "midi":
        for flag, value in (("--out", out), ("--step", step)):
            if value is not None:
                what = f"{flag} has an effect only with --format midi"
                raise UserError(what, flag, f"add --format midi, or leave {flag} out")
        return
    if out is None:
        raise UserError("MIDI files need a folder", "--format midi", "say where they go: --out FOLDER")
    if step is not None and not SHORTEST_STEP <= step <= LONGEST_STEP:
        what = f"a step of {step:g} seconds cannot be written as MIDI"
        raise UserError(what, "--step", f"give seconds from {SHORTEST_STEP:g} to {LONGEST_STEP:g}")


def tune_writer(run: Run, out: Path, step: float | None) -> TuneWriter:
    """Return what writes the run's tunes into an empty folder, which is made if need be."""
    from weft.core.errors import UserError
    from weft.data.midi import library

    library()
    kind = run.predictor.sides.target_kind
    if kind != "notes":
        what = f"the run predicts {kind}, but MIDI files hold notes"
        raise UserError(what, "--format midi", "use --format text, tsv or jsonl")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not an empty folder", "--out", "name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    return TuneWriter(out, STEP_SECONDS if step is None else step)
