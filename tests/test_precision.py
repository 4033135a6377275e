"""Matrix products in bfloat16 (train.precision): losses as in float32, finite gradients, runs that learn."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from variants import CTC, STEPPING, sample
from weft.core.kinds import Batch
from weft.core.shapes import Symbols
from weft.learn.objectives import OBJECTIVES
from weft.nn.assemble import CELLS, assemble
from weft.runs.report import Quiet
from weft.settings import compose

VARIANTS = {**STEPPING, **CTC}
BATCH = Batch.of([[4, 5, 6, 7], [8]], [[4, 5], [9]])


@pytest.mark.parametrize("name", sample())
def test_half_precision_gives_the_loss_of_whole_precision_nearly_and_finite_gradients(name: str) -> None:
    torch.manual_seed(1)
    spec = compose(("flag", VARIANTS[name])).spec
    model: Any = assemble(spec, Symbols(14), Symbols(14)).eval()
    objective = OBJECTIVES[spec.objective.kind]()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        emission = model(BATCH)
    half = objective(emission, BATCH).total
    half.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert any(gradient.any() for gradient in gradients)
    assert all(gradient.isfinite().all() for gradient in gradients)
    whole = float(objective(model(BATCH), BATCH).total.detach())
    attends_to_one = "nearest" in name or "straight" in name  # of two that score nearly alike, it may take the other
    assert float(half.detach()) == pytest.approx(whole, rel=0.2 if attends_to_one else 0.05)


@pytest.mark.parametrize("feeding", ["teacher", "own"])
@pytest.mark.parametrize("cell", ["gru", "mut2"])
def test_a_run_in_half_precision_learns(cell: str, feeding: str, tmp_path: Path) -> None:
    import weft

    settings = {
        **{f"{part}.width": 16 for part in ("embed", "encoder", "decoder")},
        **{f"{side}.cell": cell for side in ("encoder", "decoder")},
        "decoder.attention.join": "gate",
        "train.precision": "bfloat16",
        "train.evaluations": 1,
        "train.rate": 0.02,
        "train.dropout": 0.0,
        "feeding.kind": feeding,
    }
    pairs = [(a + b, (a + b).upper()) for a, b in product("abcdefgh", repeat=2)]
    run = weft.train(pairs, out=tmp_path / "run", steps=40, settings=settings, reporter=Quiet())
    log = [json.loads(line) for line in (run.path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert log[-1]["loss"] < 0.5 * log[0]["loss"]


def test_an_lstm_learns_in_half_precision_where_the_processor_has_no_kernel_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weft.nn.lstm._has_kernel_in_halves", lambda: False)
    cell = CELLS["lstm"](3, 4)
    x = torch.randn(2, 5, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, (h, _) = cell.sequence(x.bfloat16(), cell.start(2))
    whole, _ = cell.sequence(x, cell.start(2))
    assert out.dtype == torch.float32
    assert torch.allclose(out, whole, atol=0.02)
    assert torch.equal(out[:, -1], h)
