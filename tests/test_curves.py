"""The picture of a log: nothing covers what it describes, however few points there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from weft.look.curves import curves_figure, label_of


def figure_of(path: Path, points: int) -> Figure:
    reports = [{"kind": "report", "step": 10 * n, "loss": 3.0 / n, "rate": 0.001} for n in range(1, points + 1)]
    evaluations = [
        {"kind": "evaluation", "step": 10 * n, "loss": 3.1 / n, "exact": 5.0 * n, "select": "exact", "best": True}
        for n in range(1, points + 1)
    ]
    log = path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in (*reports, *evaluations)), encoding="utf-8")
    figure = curves_figure(log)
    figure.canvas.draw()
    return figure


@pytest.mark.parametrize("points", [1, 2, 30])
def test_legends_cover_no_point(tmp_path: Path, points: int) -> None:
    figure = figure_of(tmp_path, points)
    legends = [legend for axes in figure.axes if (legend := axes.get_legend())]
    assert legends
    for legend in legends:
        box = legend.get_window_extent()
        assert all(box.y0 >= axes.get_window_extent().y1 - 1 for axes in figure.axes if axes.get_legend() is legend)
        assert box.x1 <= figure.bbox.x1


@pytest.mark.parametrize("points", [1, 2, 30])
def test_labels_of_points_lie_within_the_picture(tmp_path: Path, points: int) -> None:
    figure = figure_of(tmp_path, points)
    for axes in figure.axes:
        for text in axes.texts:
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= figure.bbox.x1
            assert box.y1 <= figure.bbox.y1


@pytest.mark.parametrize(
    ("kind", "axis", "curve"),
    [
        ("text", "loss (nats per token)", "training (regularised)"),
        ("numbers", "loss (per step)", "training (regularised, normalised)"),
    ],
)
def test_the_axis_of_the_loss_has_the_unit_of_the_targets(tmp_path: Path, kind: str, axis: str, curve: str) -> None:
    lines = ({"kind": "report", "step": 1, "loss": 2.0}, {"kind": "evaluation", "step": 1, "loss": 1.0, "target": kind})
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    axes = curves_figure(log).axes[0]
    assert axes.get_ylabel() == axis
    assert axes.get_lines()[0].get_label() == curve


def test_the_axis_of_a_metric_has_the_name_that_the_kind_of_target_gives_it() -> None:
    assert label_of("accuracy", {"target": "text"}) == "next-token accuracy (%)"
    assert label_of("accuracy", {"target": "label"}) == "accuracy (%)"
    assert label_of("accuracy") == "accuracy"  # which of them is not known
    assert label_of("bleu") == "BLEU"
    assert label_of("of-another-version") == "of-another-version"
