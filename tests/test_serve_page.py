"""The page of `weft serve` in a real browser."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import browsed
from every_kind import EXAMPLES, tone
from serving import Running
from weft.core.pair import Pair

if TYPE_CHECKING:
    from weft.api import Run


@pytest.mark.slow
def test_the_page_does_what_a_person_expects_of_it(tiny_run: Run, tmp_path: Path) -> None:
    others = ("answers", "tunes", "numbers", "prompts", "sounds")
    runs = {name: EXAMPLES[name].train(tmp_path / name).path for name in others}
    shots = [path for path in [os.environ.get("SCREENSHOTS")] if path]
    with Running({"words": tiny_run.path, **runs}) as server:
        seen = browsed("browse_serve.cjs", server.address, "words", tone(tmp_path / "clip"), *shots)
    wanted = tiny_run.predict(["abcd", "feed"], nbest=3)
    assert seen["elsewhere"] == []
    assert [error for error in seen["errors"] if "422" not in error] == []  # which the page asked for, and shows
    assert seen["requests_while_typing"] < 5  # of nine keys
    assert [best.split("<end>")[0] for best in seen["best"]] == [prediction.text for prediction in wanted]
    source, target, weights = tiny_run.predictor.alignment(Pair("abcd"), wanted[0].text)
    assert seen["weights"] == pytest.approx(weights[0].tolist(), abs=1e-3)
    assert seen["looked"].startswith(f"{target[0]} looked at {source[int(weights[0].argmax())]} (")
    assert seen["focused"].startswith(f"{target[1]}: ")
    assert seen["alternatives"] == 3
    assert seen["greedy"] == 0  # greedy search has one output
    assert "search.width is at most 32 on this server" in seen["problem"]
    assert "To do: " in seen["problem"]
    assert seen["copied"] == seen["curl"]
    assert json.loads(seen["curl"].rpartition("-d '")[2][:-1])["inputs"] == ["abcd", "feed"]
    compile(seen["python"], "the page", "exec")
    assert [line.split("\t")[1] for line in seen["downloaded"].splitlines()] == [
        output.text for prediction in wanted for output in prediction.outputs
    ]
    assert seen["labels"] == []  # every field has a label
    assert {seen[f"overflow_{name}"] for name in ("light", "dark", "phone")} == {0}
    assert seen["ground_light"] != seen["ground_dark"]
    assert seen["direction"] == ["rtl", "rtl"]
    assert "Attention" in " ".join(seen["views"])
    assert seen["expanded"] == "true"
    assert seen["report"] == "report.html"
    assert seen["questions"] == ["Where does Ann live?", "Where does Bob live?"]
    assert seen["marked"] <= 2
    assert seen["rolls"] > 0
    assert seen["lines"] == 1
    assert seen["numbers"].startswith("[")
    assert "3 inputs, but 2 of context" in seen["uneven"]
    assert seen["prompt"] == ["abc\nb"]
    assert ".wav" in seen["accepted"]
    assert seen["areas"] == 0
    assert "-F 'source=@900.wav'" in seen["uploaded"][1]
    compile(seen["uploaded"][2], "the page", "exec")
    assert [name.split()[0] for name in seen["recorded"]] == ["900.wav", "recording-2.wav"]
    assert seen["cleared"] == 0
    assert "POST /predict" in seen["routes"]
