"""The page of `weft inspect` in a real browser: it needs Chromium, node and playwright-core, and is skipped without."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from weft.api import Run

SCRIPT = Path(__file__).with_name("browse.cjs")
CACHED = Path.home() / ".cache/weft-browser/node_modules"  # where .ci/run installs it
MODULES = [os.environ.get("NODE_PATH", ""), str(CACHED), "/work/node/node_modules"]


def browse(page: Path) -> dict[str, Any]:
    """Open the page as a reader would, and return what was seen."""
    chromium, node = shutil.which("chromium"), shutil.which("node")
    modules = next((path for path in MODULES if path and (Path(path) / "playwright-core").is_dir()), None)
    if chromium is None or node is None or modules is None:
        missing = {"chromium": chromium, "node": node, "playwright-core": modules}
        pytest.skip(f"no browser: {', '.join(name for name, path in missing.items() if path is None)} is missing")
    environment = {**os.environ, "NODE_PATH": modules, "CHROMIUM": chromium}
    done = subprocess.run(
        [node, str(SCRIPT), str(page)], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.slow
def test_a_page_opens_alone_and_does_what_it_says(tiny_run: Run, tiny_pairs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    report = tiny_run.inspect(table=tiny_pairs)
    report.save(page)
    seen = browse(page)
    assert seen["errors"] == []
    assert seen["requests"] == []
    assert seen["shift"] < 0.01
    assert seen["views"] == [*report.numbers["summary"], *report.numbers["lines"][0]["views"]]
    first = report.numbers["lines"][0]["views"]["attention"]["cross"]
    weights = first["panels"][0]["values"][0]
    assert seen["hovered"].startswith(f"output {first['rows'][0]}: {first['columns'][weights.index(max(weights))]}")
    assert seen["linked"] == pytest.approx(weights, abs=1e-3)
    assert f"{first['panels'][0]['values'][1][1]:.3f}" in seen["walked"]
    assert seen["sorted"] == "descending"
    assert seen["opened"] == ["3", seen["opened"][1]]
    assert seen["opened"][1].startswith("Line 3")
    assert seen["second"].startswith("Line 4")
    assert {seen[f"overflow_{name}"] for name in ("light", "dark", "narrow", "zoomed")} == {0}
    assert seen["ground_light"] != seen["ground_dark"]
    assert seen["printed_navigation"] == "none"
