"""The page of `weft inspect` in a real browser: it needs Chromium, node and playwright-core, and is skipped without."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import browsed

if TYPE_CHECKING:
    from weft.api import Run


@pytest.mark.slow
def test_a_page_opens_alone_and_does_what_it_says(tiny_run: Run, tiny_pairs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    report = tiny_run.inspect(table=tiny_pairs)
    report.save(page)
    seen = browsed("browse.cjs", page)
    assert seen["errors"] == []
    assert seen["requests"] == []
    assert seen["shift"] < 0.01
    assert seen["views"] == [*report.numbers["summary"], *report.numbers["lines"][0]["views"]]
    first = report.numbers["lines"][0]["views"]["attention"]["cross"]
    weights = first["panels"][0]["values"][0]
    assert seen["hovered"].startswith(f"output {first['rows'][0]}: {first['columns'][weights.index(max(weights))]}")
    most = max(max(row) for row in first["panels"][0]["values"])
    assert seen["linked"] == pytest.approx([weight / (most if most <= 0.7 else 1) for weight in weights], abs=1e-3)
    assert f"{first['panels'][0]['values'][1][1]:.3f}" in seen["walked"]
    assert seen["sorted"] == "descending"
    assert seen["opened"] == ["3", seen["opened"][1]]
    assert seen["opened"][1].startswith("Line 3")
    assert seen["second"].startswith("Line 4")
    assert {seen[f"overflow_{name}"] for name in ("light", "dark", "narrow", "zoomed")} == {0}
    assert seen["ground_light"] != seen["ground_dark"]
    assert seen["printed_navigation"] == "none"


@pytest.mark.slow
def test_every_view_fits_a_narrow_window(tiny_run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    report = tiny_run.inspect("abcdefgh", views="all")
    report.save(page)
    assert page.stat().st_size < 1_000_000
    seen = browsed("browse.cjs", page)
    assert seen["errors"] == seen["requests"] == []
    assert seen["views"] == [*report.numbers["lines"][0]["views"], *report.numbers["summary"]]
    assert seen["left"] == ""
    assert {seen[f"overflow_{name}"] for name in ("light", "dark", "narrow", "zoomed")} == {0}
