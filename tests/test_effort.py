"""The operations that a batch needs, counted by hand for a Transformer and an encoder alone."""

from __future__ import annotations

import json

import pytest

from weft.api import Run
from weft.core.kinds import Batch
from weft.core.shapes import Symbols
from weft.learn.effort import Effort, limits, share_of_speed
from weft.learn.progress import Progress
from weft.nn.assemble import assemble
from weft.runs.report import describe
from weft.settings import Layer, compose

PART = {"kind": "transformer", "width": 256, "layers": 4, "heads": 4, "inner": 1024}
BATCH = Batch.of([[4, 5, 6]], [[4, 5]])  # 4 symbols and 3, the ends counted


def effort(tree: Layer, symbols: int) -> Effort:
    return Effort(assemble(compose(("flag", tree)).spec, Symbols(symbols), Symbols(symbols)), "float32")


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_a_transformer(tied: bool, shared: bool) -> None:
    embed = {"width": 256, "positions": "sinusoid", "shared": shared}
    found = effort({"encoder": PART, "decoder": PART, "embed": embed, "head": {"tied": tied}}, 8000)
    feed = 2 * 256 * 1024
    assert found.reading == 4 * (4 * 256**2 + feed)
    turning = 256**2 if tied else 0  # a tied Transformer turns its outputs first
    assert found.writing == 4 * (8 * 256**2 + feed) + turning + 8000 * 256
    assert found.operations(BATCH) == 6 * (4 * found.reading + 3 * found.writing)


def test_an_encoder_alone() -> None:
    encoder = {"kind": "recurrent", "cell": "elman", "width": 8, "directions": "forward"}
    found = effort({"head": {"kind": "ctc"}, "encoder": encoder, "embed": {"width": 4}}, 9)
    assert found.reading == 8 * 4 + 8 * 8
    assert found.writing == 8 * 4 + 9 * 4, "the head projects to the table's width"


def test_shares_of_the_time_are_never_more_than_all_of_it() -> None:
    progress = Progress(seconds=1.0, spent={"steps": 0.5, "validation": 0.4, "saving": 1.1})
    spent, _ = limits(progress, 1e9)
    assert sum(spent.values()) == pytest.approx(1.0, abs=0.01)


def test_reports_say_how_hard_the_machine_works(tiny_run: Run) -> None:
    lines = [json.loads(line) for line in tiny_run.folder.log.read_text(encoding="utf-8").splitlines()]
    reports = [line for line in lines if line["kind"] == "report"]
    assert all(0 < line["effort"] <= 1 for line in reports)
    assert "% of matrix speed)" in describe({**reports[0], "effort": 0.62})


@pytest.mark.parametrize(
    ("spent", "operations", "said"),
    [
        ({"steps": 50.0, "batches": 1.0, "validation": 30.0, "saving": 5.0}, 40e9, "train.valid_pairs"),
        ({"steps": 90.0, "batches": 30.0}, 40e9, "WEFT_CACHE"),
        ({"steps": 90.0, "batches": 1.0, "validation": 5.0}, 10e9, "train.batch_tokens"),
        ({"steps": 90.0, "batches": 1.0, "validation": 5.0}, 80e9, "narrower"),
    ],
)
def test_what_limits_a_run_is_told_with_what_would_help(spent: dict[str, float], operations: float, said: str) -> None:
    shares, limit = limits(Progress(seconds=100.0, spent=spent, operations=operations), most=1e9)
    assert said in limit
    assert shares["learning"] == pytest.approx((spent["steps"] - spent["batches"]) / 100)
    assert shares["saving"] == pytest.approx(spent.get("saving", 0) / 100)


def test_nobody_is_faster_than_the_machine() -> None:
    assert share_of_speed(50e9, 1.0, 100e9) == 0.5
    assert share_of_speed(154e9, 1.0, 100e9) == 1.0, "the machine was measured while others wanted its cores"
