"""Pictures are drawn for unusual inputs too, at their documented size, without changing matplotlib's state."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.transforms import Bbox

from weft.core.errors import WeftError
from weft.look.attention import DOTS_PER_INCH, MOST_INCHES, heat_maps
from weft.look.curves import curves_figure, draw_curves

pytestmark = pytest.mark.usefixtures("rendered")


def heat_map(source: Sequence[str], target: Sequence[str], weights: np.ndarray, path: Path, title: str = "") -> None:
    """Draw a picture of one panel."""
    heat_maps([(source, target, weights, title)], path)


def weights(rows: int, columns: int) -> np.ndarray:
    raw = np.random.default_rng(1).random((rows, columns)) ** 4 + 1e-9
    return np.asarray(raw / raw.sum(axis=1, keepdims=True))


def size(path: Path) -> tuple[int, int]:
    """Return width and height."""
    height, width = imread(path).shape[:2]
    return width, height


def colours(path: Path) -> int:
    return len(np.unique(imread(path)[..., :3] @ np.array([1.0, 256.0, 65536.0])))


def write_log(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def report(step: int, loss: float | None) -> dict[str, object]:
    return {"kind": "report", "step": step, "loss": loss, "rate": 0.001}


def evaluation(step: int, score: float, best: bool = False) -> dict[str, object]:
    common = {"kind": "evaluation", "step": step, "loss": 1.0, "metric": "exact"}
    return common | {"exact": score, "score": score, "best": best}


@pytest.mark.filterwarnings("error")
def test_a_square_has_the_same_size_in_every_picture(tmp_path: Path) -> None:
    for columns, rows in ((10, 8), (20, 8), (20, 18)):
        heat_map(["a"] * columns, ["b"] * rows, weights(rows, columns), tmp_path / f"{columns}-{rows}.png")
    (w1, h1), (w2, h2), (w3, h3) = (size(tmp_path / f"{name}.png") for name in ("10-8", "20-8", "20-18"))
    assert h1 == h2
    assert w2 == w3
    assert w2 - w1 == pytest.approx(h3 - h2, abs=2)


@pytest.mark.parametrize(("rows", "columns"), [(3, 150), (120, 20)])
def test_a_picture_does_not_grow_beyond_its_cap(tmp_path: Path, rows: int, columns: int) -> None:
    heat_map(["x"] * columns, ["a long word"] * rows, weights(rows, columns), tmp_path / "long.png")
    assert max(size(tmp_path / "long.png")) <= MOST_INCHES * DOTS_PER_INCH + 1


@pytest.mark.filterwarnings("error")
def test_many_scripts_spaces_and_dollars_are_drawn_without_a_warning(tmp_path: Path) -> None:
    source, target = ["ж", "λ", "ɝ", "é", " ", "", "\t", "\u00a0", "$x_{$", "▁the"], ["$", "\n", "word" * 20]
    heat_map(source, target, weights(3, 10), tmp_path / "odd.png", title="$ costs _ ж ␣")
    assert colours(tmp_path / "odd.png") > 10


@pytest.mark.parametrize(("source", "target"), [("", ""), ("abc", ""), ("", "abc"), ("a", "b")])
def test_empty_sequences_still_make_a_picture(tmp_path: Path, source: str, target: str) -> None:
    heat_map(source, target, np.ones((len(target), len(source))), tmp_path / "empty.png", title="empty")
    assert min(size(tmp_path / "empty.png")) > 50


def test_weights_that_are_not_finite_are_left_blank(tmp_path: Path) -> None:
    heat_map("ab", "c", np.array([[np.nan, np.inf]]), tmp_path / "nan.png")
    assert (tmp_path / "nan.png").exists()


def test_weights_of_the_wrong_shape_are_refused_with_both_shapes(tmp_path: Path) -> None:
    with pytest.raises(WeftError, match=r"shape \(3, 2\) do not fit 2 target and 3 source"):
        heat_map("abc", "de", weights(3, 2), tmp_path / "wrong.png")


def test_panels_of_different_sizes_share_one_picture(tmp_path: Path) -> None:
    panels = [("x" * n, "y" * (n + 2), weights(n + 2, n), f"panel {n}") for n in (3, 9, 5, 12, 4)]
    heat_maps(panels, tmp_path / "grid.png")
    heat_map(*panels[3][:3], tmp_path / "one.png", title=panels[3][3])
    assert size(tmp_path / "grid.png") > size(tmp_path / "one.png")


def test_no_panels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeftError, match="no heat map"):
        heat_maps([], tmp_path / "none.png")


def test_drawing_does_not_load_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, numpy as np; import weft.look.attention as a, weft.look.curves as c;"
        f"p = pathlib.Path({str(tmp_path)!r}); a.heat_maps([('ab', 'c', np.ones((1, 2)), '')], p / 'a.png');"
        "c.draw_curves(p / 'log.jsonl', p / 'c.png'); sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


LOGS: dict[str, list[object]] = {
    "nothing": [],
    "one report": [report(1, 2.0)],
    "one evaluation": [evaluation(5, 40.0, best=True)],
    "a lost loss": [report(1, None), report(2, 2.0), report(3, float("nan")), report(4, float("inf"))],
    "fields missing": [{"kind": "report", "step": 3}, {"kind": "evaluation", "step": 4}, {"kind": "report"}],
    "other kinds": [{"kind": "start", "step": 0, "loss": "?"}, 7, None, "text", ["list"]],
    "a wide range": [report(n, 10.0 / n**2) for n in range(1, 50)],
    "zero loss": [report(1, 5.0), report(2, 0.0)],
    "scores absent": [{"kind": "evaluation", "step": 4, "metric": "cer", "score": None, "best": True}],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", LOGS)
def test_any_log_makes_a_picture_of_one_size(tmp_path: Path, name: str) -> None:
    draw_curves(write_log(tmp_path / "log.jsonl", LOGS[name]), tmp_path / "curves.png", title=name)
    assert size(tmp_path / "curves.png") == (1200, 450)
    assert colours(tmp_path / "curves.png") > 5


def test_a_missing_log_is_an_empty_one(tmp_path: Path) -> None:
    draw_curves(tmp_path / "absent.jsonl", tmp_path / "absent.png")
    draw_curves(write_log(tmp_path / "log.jsonl", []), tmp_path / "empty.png")
    assert np.array_equal(imread(tmp_path / "absent.png"), imread(tmp_path / "empty.png"))


def test_a_half_written_last_line_changes_nothing(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [report(n, 3.0 - n / 10) for n in range(1, 9)])
    draw_curves(log, tmp_path / "whole.png")
    log.write_text(log.read_text() + '{"kind":"report","st')
    draw_curves(log, tmp_path / "torn.png")
    assert np.array_equal(imread(tmp_path / "whole.png"), imread(tmp_path / "torn.png"))


def test_the_last_line_about_a_step_counts(tmp_path: Path) -> None:
    rows: list[object] = [evaluation(n, 10.0 * n, best=True) for n in range(1, 6)]
    draw_curves(write_log(tmp_path / "a.jsonl", rows), tmp_path / "a.png")
    draw_curves(write_log(tmp_path / "b.jsonl", [evaluation(3, 99.0), *rows]), tmp_path / "b.png")
    assert np.array_equal(imread(tmp_path / "a.png"), imread(tmp_path / "b.png"))


def test_the_best_evaluation_is_marked(tmp_path: Path) -> None:
    for best in (True, False):
        rows: list[object] = [evaluation(1, 10.0), evaluation(2, 50.0, best=best), evaluation(3, 40.0)]
        draw_curves(write_log(tmp_path / "log.jsonl", rows), tmp_path / f"{best}.png")
    assert not np.array_equal(imread(tmp_path / "True.png"), imread(tmp_path / "False.png"))


def drawn(figure: Figure) -> Figure:
    FigureCanvasAgg(figure).draw()
    return figure


def points_of(figure: Figure) -> np.ndarray:
    """Return every point of every curve, in dots."""
    lines = [(axes, line) for axes in figure.axes for line in axes.get_lines()]
    return np.concatenate([axes.transData.transform(line.get_xydata()) for axes, line in lines])


def texts_of(figure: Figure) -> dict[str, Bbox]:
    """Return the boxes of the legend, the title, the labels and what is written between them."""
    boxes = {"title": figure._suptitle.get_window_extent()} if figure._suptitle else {}
    for number, axes in enumerate(figure.axes):
        boxes |= {f"{number} {text.get_text()}": text.get_window_extent() for text in axes.texts if text.get_text()}
        boxes |= {
            f"{number} {axis.axis_name}": axis.get_tightbbox()
            for axis in (axes.xaxis, axes.yaxis)
            if axis.get_visible()
        }
        if (legend := axes.get_legend()) is not None:
            boxes[f"{number} legend"] = legend.get_window_extent()
    return boxes


def scores(kind: str, count: int) -> list[float]:
    steps = np.arange(1, count + 1) / count
    rng = np.random.default_rng(count)
    shapes = {
        "rising": 90 * (1 - np.exp(-3 * steps)),
        "falling": 100 * np.exp(-3 * steps),
        "equal": np.zeros(count),
        "noisy": rng.random(count) * 100,
    }
    return [float(score) for score in shapes[kind]]


@pytest.mark.parametrize("count", [1, 2, 3, 30])
@pytest.mark.parametrize("kind", ["rising", "falling", "equal", "noisy"])
@pytest.mark.parametrize("best", ["first", "last", "highest"])
def test_legend_and_labels_cover_no_point_and_not_each_other(tmp_path: Path, count: int, kind: str, best: str) -> None:
    values = scores(kind, count)
    index = {"first": 0, "last": count - 1, "highest": int(np.argmax(values))}[best]
    rows: list[object] = []
    for i, score in enumerate(values):
        rows += [report(50 * i + 50, 3.0 / (i + 1)), evaluation(50 * i + 50, score, best=i == index)]
    figure = drawn(curves_figure(write_log(tmp_path / "log.jsonl", rows), "a-run"))
    points, texts = points_of(figure), texts_of(figure)
    assert [name for name, box in texts.items() if box.count_contains(points)] == []
    assert {"title", "0 legend", "1 legend"} <= set(texts)
    assert [(a, b) for a in texts for b in texts if a < b and texts[a].overlaps(texts[b])] == []
