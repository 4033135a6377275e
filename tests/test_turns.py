"""Numbers that are turned and mirrored at random, and what the autopilot makes of where and how series move."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.api import train
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.sides.numbers import Numbers
from weft.data.sides.position import PositionGain
from weft.data.sides.sides import Sides
from weft.data.sides.turn import Turn
from weft.learn.augmentation import Augmentation
from weft.runs.report import Quiet
from weft.settings import compose

UNITS = (2.0, 2.0)


def side(**more: Any) -> Numbers:
    return Numbers(2, (0.0, 0.0), UNITS, UNITS, **more)


def changed(settings: dict[str, Any], epoch: int = 1, row: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Source and target of one row, decoded again after augmentation: positions of a path and of what follows."""
    spec = compose(("flag", {"target": {"kind": "numbers"}, "source": {"kind": "numbers"}, "numbers": settings})).spec
    sides = Sides(side(), side())
    augment = Augmentation.of(spec, sides).of_epoch(epoch)
    assert augment is not None
    source, target = np.array([[1.0, 0.0], [2.0, 0.5]]), np.array([[3.0, 1.0], [4.0, 2.0], [5.0, 4.0]])
    encoded = sides.encode([Pair(json.dumps(source.tolist()), json.dumps(target.tolist()))])
    rows = {"source": encoded.source[0], "target": encoded.target[0]}
    decoded = [np.asarray(augment(role, row, np.asarray(values))) * UNITS for role, values in rows.items()]
    return decoded[0], decoded[1]


def pairwise(points: np.ndarray) -> np.ndarray:
    distances: np.ndarray = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return distances


@pytest.mark.parametrize("settings", [{"rotate": True}, {"mirror": True}, {"rotate": True, "mirror": True}])
def test_source_and_target_are_turned_alike(settings: dict[str, Any]) -> None:
    """All distances within and between them, and from the centre, stay what they were."""
    together = np.concatenate([np.zeros((1, 2)), *changed(settings)])
    before = np.array([[0, 0], [1, 0], [2, 0.5], [3, 1], [4, 2], [5, 4]], dtype=float)
    np.testing.assert_allclose(pairwise(together), pairwise(before), atol=1e-5)


def test_a_turn_is_a_function_of_seed_epoch_and_row() -> None:
    settings = {"rotate": True, "mirror": True}
    first = changed(settings)[0]
    assert np.array_equal(first, changed(settings)[0])
    assert not np.allclose(first, changed(settings, epoch=2)[0])
    assert not np.allclose(first, changed(settings, row=4)[0])


def test_mirroring_alone_changes_signs_only_and_both_of_them_sometimes() -> None:
    seen = {tuple(np.sign(changed({"mirror": True}, row=row)[1][0])) for row in range(40)}
    assert seen == {(1, 1), (1, -1), (-1, 1), (-1, -1)}
    assert np.array_equal(np.abs(changed({"mirror": True})[1]), [[3, 1], [4, 2], [5, 4]])


def test_values_and_differences_are_turned_and_marks_of_missing_values_are_not() -> None:
    turn, row = Turn(2, 2, rotate=True, mirror=False), np.array([[1.0, 0.0, 0.0, 1.0, 1.0, 0.0]])
    turned = turn(row, np.random.default_rng(1))
    matrix = turn.matrix(np.random.default_rng(1))
    np.testing.assert_allclose(turned[0], [*matrix[:, 0], *matrix[:, 1], 1.0, 0.0])


def test_columns_of_other_widths_and_runs_without_the_settings_are_left_alone() -> None:
    three = Numbers(3, (0.0,) * 3, (1.0,) * 3, (1.0,) * 3)
    numbers = {"source": {"kind": "numbers"}, "target": {"kind": "numbers"}}
    turned = compose(("flag", {**numbers, "numbers": {"mirror": True}})).spec
    assert set(Augmentation.of(turned, Sides(three, side())).changes) == {"target"}
    assert Augmentation.of(compose(("flag", numbers)).spec, Sides(side(), side())).of_epoch(1) is None


# --- what the autopilot makes of series -------------------------------------------------------------------------------


def paths(count: int, drift: float, seed: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """Walks in all directions that go on as they began, if there is no drift along the first axis."""
    random, rows = np.random.default_rng(seed), []
    for _ in range(count):
        steps = random.normal(size=2) + 0.1 * random.normal(size=(10, 2)) + [drift, 0.0]
        walked = np.cumsum(steps, axis=0) + random.normal(size=2)
        walked[5:, 0] += drift * np.arange(5) ** 2
        rows.append((walked[:5], walked[5:]))
    return rows


def test_directions_matter_where_something_pulls_one_way() -> None:
    gains = []
    for drift in (0.0, 0.3):
        gain = PositionGain()
        for source, target in paths(400, drift):
            gain.add(source, target)
        gains.append(gain.of_direction())
    assert gains[0] < 0.005 < 0.3 < gains[1]


def test_a_few_rows_do_not_tell_whether_directions_matter() -> None:
    gain = PositionGain()
    for source, target in paths(50, 0.0):
        gain.add(source, target)
    assert gain.of_direction() == 1


def table(folder: Path, drift: float = 0.0) -> Path:
    rows = [{"source": s.tolist(), "target": t.tolist()} for s, t in paths(700, drift)]
    path = folder / "paths.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


SMALL = {"encoder.width": 8, "decoder.width": 8, "embed.width": 8, "train.evaluations": 1}


@pytest.mark.parametrize(("drift", "turned"), [(0.0, True), (0.5, False)])
def test_the_autopilot_turns_series_whose_direction_does_not_matter(tmp_path: Path, drift: float, turned: bool) -> None:
    run = train(table(tmp_path, drift), out=tmp_path / "run", steps=2, settings=SMALL, reporter=Quiet())
    numbers = run.spec.numbers
    assert (numbers.rotate, numbers.mirror) == (turned, turned)
    assert (numbers.differences, run.spec.objective.kind, run.spec.feeding.kind) == (True, "distance", "none")


def test_with_momentum_an_untrained_model_goes_on_as_the_source_ended(tmp_path: Path) -> None:
    momentum = side(differences=True, values=False, continues=True, momentum=True)
    pair = Pair("[[0, 0], [1, 2]]", "[[2, 4], [3, 6]]")
    assert np.array_equal(momentum.rows([pair], "target")[0], np.zeros((2, 2)))
    assert momentum.decoded(np.zeros((2, 2)), pair).tolist() == [[2, 4], [3, 6]]
    other = Pair("[[1, 1], [1, 2]]", "[[2, 4], [5, 6], [7, 7]]")
    assert np.allclose(momentum.decoded(momentum.rows([other], "target")[0], other), [[2, 4], [5, 6], [7, 7]])
    lone = Pair("[[1, 1]]", "[[2, 4]]")
    assert np.allclose(momentum.decoded(momentum.rows([lone], "target")[0], lone), [[2, 4]])


BAD = [
    ({"numbers.rotate": True}, "but the target has 1"),
    (
        {"numbers.momentum": True, "numbers.differences": True},
        "momentum needs targets that continue from the end",
    ),
    ({"numbers.momentum": True, "numbers.differences": False}, "numbers.momentum=true has no effect"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_settings_that_the_data_do_not_allow_are_refused(tmp_path: Path, settings: Any, message: str) -> None:
    path = tmp_path / "far.jsonl"
    rows = [{"source": [n, n + 1.0], "target": [n + 1000.0, n + 1001.0]} for n in range(60)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        train(path, out=tmp_path / "run", steps=1, settings={**SMALL, **settings}, reporter=Quiet())


def test_only_numbers_can_be_predicted_without_reading_what_was_predicted() -> None:
    with pytest.raises(UserError, match=r"feeding\.kind=none works only for numbers"):
        compose(("flag", {"feeding": {"kind": "none"}}))
