"""Trajectories of the recipes, what simple rules make of them, and the picture of predicted series."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import UserError
from weft.look.series import draw_series
from weft.recipes import makers, tracks
from weft.recipes.yardsticks import kilometres, rules
from weft.score.series import SeriesExample, series_examples


def test_the_plant_follows_its_sensors() -> None:
    """Speed and heading of each step are those that the equations give for its readings."""
    row = tracks.course(random.Random(1))
    points = np.array([*row["past"][-2:], *row["future"]])
    steps = np.diff(points, axis=0)
    speeds, headings = np.hypot(*steps.T), np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
    slope, pull = np.array(row["sensors"]).T
    same_direction = speeds[:-1] > 0.3  # a vehicle that rolls back looks as if it had turned round
    expected = 0.9 * speeds[:-1] + 0.1 + 0.2 * slope
    assert np.allclose(np.abs(expected)[same_direction], speeds[1:][same_direction], atol=0.02)
    turns = np.abs(np.diff(headings) - 0.4 * np.tanh(pull))
    assert np.median(turns) < 0.02
    assert len(row["sensors"]) == len(row["future"]) == tracks.PLANT_AHEAD


def test_the_blind_plant_moves_as_the_other_does(tmp_path: Path) -> None:
    rows = []
    for context in (True, False):
        files = tracks.plant(context, train=5, valid=2)(tmp_path / str(context))
        rows.append([json.loads(line) for line in Path(files.train).read_text(encoding="utf-8").splitlines()])
    assert [{name: row[name] for name in ("past", "future")} for row in rows[0]] == rows[1]
    assert all("sensors" in row for row in rows[0])


def test_windows_of_pedestrians_have_no_gap(tmp_path: Path) -> None:
    frames = [*range(0, 210, 10), *range(300, 500, 10)]  # 21 frames, a gap, 20 frames
    path = tmp_path / "scene.txt"
    path.write_text("".join(f"{frame}.0\t7.0\t{frame / 10}\t0.5\n" for frame in frames), encoding="utf-8")
    windows = list(tracks.scene_windows(path))
    assert [window["past"][0][0] for window in windows] == [0.0, 1.0, 30.0]
    assert all(len(window["past"]) == 8 and len(window["future"]) == 12 for window in windows)


def test_storms_cross_the_date_line_and_missing_values_are_null(tmp_path: Path) -> None:
    head = "id,date,latitude,longitude,maximum_sustained_wind_knots,maximum_pressure\n"
    lines = []
    for number in range(20):
        day, hour = 1 + number // 4, number % 4 * 6
        longitude = -175.0 - number if number < 5 else 185.0 - number
        lines.append(f"EP01,2000-08-{day:02} {hour:02}:00:00,10.0,{longitude},{'-99' if number else 35},\n")
    lines.insert(3, "EP01,2000-08-01 15:00:00,0,0,1,1\n")  # between two of the usual hours
    path = tmp_path / "storms.csv"
    path.write_text(head + "".join(lines), encoding="utf-8")
    ((name, row),) = tracks.storm_windows(path)
    longitudes = [point[1] for point in [*row["past"], *row["future"]]]
    assert name == "EP01"
    assert longitudes == [-175.0 - number for number in range(20)]
    assert row["past_state"][:2] == [[35.0, None, 214], [None, None, 214]]


def test_cased_characters_are_in_step_with_their_labels() -> None:
    rng = random.Random(1)
    for _ in range(50):
        pair = makers.cased_in_step(5, 60)(rng)
        characters, labels = pair.source.split(" "), pair.target.split(" ")
        change = str.upper if characters[0] == "<U>" else str.lower
        assert labels == [characters[0], *map(change, characters[1:])]


def test_kilometres_are_those_of_a_sphere() -> None:
    quarter = kilometres(np.array([0.0, 0.0]), np.array([0.0, 90.0]))
    assert quarter == pytest.approx(np.pi / 2 * 6371)
    assert kilometres(np.array([90.0, 0.0]), np.array([90.0, 77.0])) == pytest.approx(0, abs=1e-6)  # the pole
    assert kilometres(np.array([10.0, -179.5]), np.array([10.0, 180.5])) == pytest.approx(0, abs=1e-6)


def test_simple_rules_stand_still_or_go_on() -> None:
    predicted = rules(np.array([[[0.0, 0.0], [1.0, 2.0]]]), 2)
    assert predicted["standing still"].tolist() == [[[1, 2], [1, 2]]]
    assert predicted["constant velocity"].tolist() == [[[2, 4], [3, 6]]]


def test_a_recipe_of_tracks_without_its_data_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_DATA", raising=False)
    for data in (tracks.pedestrians("biwi_eth"), tracks.storms("pacific"), tracks.labelled("a", "b")):
        with pytest.raises(UserError, match="but WEFT_DATA is not set"):
            data(tmp_path)
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    with pytest.raises(UserError, match="the data of this recipe are missing"):
        tracks.storms("pacific")(tmp_path)


# --- the picture of predicted series


def test_examples_go_from_a_small_error_to_a_large_one() -> None:
    targets = [json.dumps([[0, 0], [0, float(n)]]) for n in range(60)]
    examples = series_examples([""] * 60, ["[[0, 0], [0, 0]]"] * 60, targets)
    assert [example.target[1][1] for example in examples] == [5, 15, 25, 35, 45, 55]
    assert [example.distance for example in examples] == [2.5, 7.5, 12.5, 17.5, 22.5, 27.5]
    assert [SeriesExample.from_dict(example.to_dict()) for example in examples] == examples
    assert len(series_examples(["[1]"], ["[1]"], ["[null]"])) == 1


@pytest.mark.parametrize("width", [1, 2, 5])
def test_series_of_any_width_are_drawn(tmp_path: Path, rendered: None, width: int) -> None:
    """With and without a source, with missing values, of one step or hundreds."""
    cell = json.dumps([[float(n + k) for k in range(width)] for n in range(9)])
    long = json.dumps([[0.0] * width] * 900)
    missing = json.dumps([[None] * width, [1.0] * width])
    examples = series_examples([cell, "", cell, long], [cell, cell, missing, long], [cell, missing, cell, long])
    draw_series(examples, tmp_path / "series.png", "a $title")
    assert (tmp_path / "series.png").stat().st_size > 10_000
