"""A run as a kill leaves it: its last checkpoint was never written."""

from __future__ import annotations

import shutil
from pathlib import Path

from safetensors.torch import load_file

from weft.api import train
from weft.runs.report import Quiet


def resumed_copy(run: Path, copy: Path) -> Path:
    """Copy a finished run without its last checkpoint, and train the rest of it again."""
    shutil.copytree(run, copy, symlinks=True)
    steps = sorted((copy / "checkpoints").glob("step-*"))
    assert len(steps) > 1, "the run has only one checkpoint: evaluate more often"
    shutil.rmtree(steps[-1])
    (copy / "README.md").unlink()
    train(out=copy, resume=True, reporter=Quiet())
    assert sorted((copy / "checkpoints").glob("step-*"))[-1].name == steps[-1].name
    return copy


def weights_of(run: Path) -> dict[str, list[float]]:
    """Return the last weights of a run, to be compared bit by bit."""
    weights = load_file(run / "last" / "weights.safetensors")
    return {name: values.flatten().tolist() for name, values in weights.items()}
