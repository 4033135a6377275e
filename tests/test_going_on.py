"""A run of any kind that is stopped and resumed ends as if nothing had happened, to the last bit."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from test_resume import assert_same_run, write_pairs
from weft.core import manifest
from weft.core.errors import Interrupted
from weft.learn import checkpoint
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
    "ctc beside attention": {**SMALL, "objective.ctc_share": 0.3},
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


OLD_NAMES = {"source_reader.": "encoder.embed.", "target_reader.": "decoder.embed."}  # of the version before readers


def make_old(run: Path) -> int:
    """Write every checkpoint of a run as the version before readers did; return how many names that changes."""
    changed = 0
    (run / manifest.NAME).unlink()  # it had none
    for folder in (run / "checkpoints").iterdir():
        content = json.loads((folder / checkpoint.PROGRESS).read_text(encoding="utf-8"))
        del content["sum"]
        for name in (checkpoint.WEIGHTS, checkpoint.OPTIMISER):
            tensors = {}
            for key, tensor in load_file(folder / name).items():
                old = key
                for new, before in OLD_NAMES.items():
                    old = old.replace(new, before)
                tensors[old], changed = tensor, changed + (old != key)
            save_file(tensors, folder / name)
            content["sums"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        content["sum"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        (folder / checkpoint.PROGRESS).write_text(json.dumps(content), encoding="utf-8")
    return changed


@pytest.mark.parametrize("kind", ["variational", "transformer", "ctc"])
def test_a_run_folder_from_before_readers_predicts_and_goes_on_alike(kind: str, tmp_path: Path) -> None:
    import weft

    pairs = write_pairs(tmp_path / "pairs.tsv", 60)

    def train(name: str, reporter: Quiet, resume: bool = False) -> Any:
        return weft.train(pairs, out=tmp_path / name, steps=20, settings=KINDS[kind], reporter=reporter, resume=resume)

    words = train("whole", Quiet()).predict(["abc", "hhd", "fa"])
    with pytest.raises(Interrupted):
        train("stopped", Stopper())
    assert make_old(tmp_path / "stopped") >= 8
    train("stopped", Quiet(), resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")
    make_old(tmp_path / "whole")
    assert weft.load(tmp_path / "whole").predict(["abc", "hhd", "fa"]) == words
