"""A run of any kind that is stopped and resumed ends as if nothing had happened, to the last bit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from test_resume import assert_same_run, write_pairs
from weft.core.errors import Interrupted
from weft.runs.report import Quiet

SMALL = {
    **{f"{part}.width": 32 for part in ("embed", "encoder", "decoder")},
    "train.batch_tokens": 256,
    "train.valid_pairs": 20,
    "train.evaluations": 3,
}
TRANSFORMER = {
    **{f"{side}.kind": "transformer" for side in ("encoder", "decoder")},
    **{f"{side}.layers": 1 for side in ("encoder", "decoder")},
}
CTC = {key: value for key, value in SMALL.items() if key != "decoder.width"}
KINDS: dict[str, dict[str, Any]] = {
    "own": {**SMALL, "feeding.kind": "own"},
    "scheduled": {
        **SMALL,
        "feeding.kind": "scheduled",
        "feeding.schedule": "inverse-sigmoid",
        "feeding.least": 0.1,
    },
    "hidden": {**SMALL, "feeding.token_dropout": 0.2, "feeding.noise": 0.3},
    "transformer": {**SMALL, **TRANSFORMER, "feeding.kind": "scheduled", "embed.positions": "bucketed"},
    "variational": {
        **SMALL,
        "feeding.kind": "scheduled",
        "decoder.variational": True,
        "encoder.variational": True,
        "encoder.layers": 2,
        "encoder.residual": True,
        "encoder.layer_norm": True,
    },
    "without gradients": {**SMALL, "decoder.attention.weigh": "nearest", "decoder.attention.project": "linear"},
    "one number": {**SMALL, "decoder.attention.score": "rbf", "decoder.attention.weigh": "kernel"},
    "copy": {**SMALL, "head.kind": "copy", "decoder.cell": "gru", "decoder.attention.join": "gate"},
    "ctc": {**CTC, "head.kind": "ctc"},
}


class Stopper(Quiet):
    """Asks the run to stop, as Ctrl-C or the system would, after its tenth report."""

    def __init__(self) -> None:
        self.reports = 0

    def report(self, line: dict[str, Any]) -> None:
        self.reports += 1
        if self.reports == 10:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_goes_on_to_the_same_end(kind: str, tmp_path: Path) -> None:
    import weft

    pairs = write_pairs(tmp_path / "pairs.tsv", 60)

    def train(name: str, reporter: Quiet, resume: bool = False) -> None:
        weft.train(pairs, out=tmp_path / name, steps=20, settings=KINDS[kind], reporter=reporter, resume=resume)

    train("whole", Quiet())
    with pytest.raises(Interrupted):
        train("stopped", Stopper())
    train("stopped", Quiet(), resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")
