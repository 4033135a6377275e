"""Generated dates: one target for each tag and source, and the same rows each time."""

from __future__ import annotations

import random
import re
from datetime import date
from itertools import islice
from pathlib import Path

import pytest

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.recipes.dates import MOST, ORDERS, _draws, dates, split_by_target, write_tsv


@pytest.fixture(scope="module")
def many() -> list[Pair]:
    return dates(50_000)


def test_tag_and_source_decide_the_target() -> None:
    answers: dict[tuple[str, str], str] = {}
    for pair in islice(_draws(random.Random(7)), 50_000):  # before repeats are dropped: that would hide a contradiction
        assert answers.setdefault((pair.tag, pair.source), pair.target) == pair.target
    assert len(answers) < 50_000, "no repeats were drawn, so nothing was tested"


def test_no_row_occurs_twice(many: list[Pair]) -> None:
    assert len(many) == 50_000
    assert len({(pair.tag, pair.source) for pair in many}) == 50_000


def test_the_tag_matters_to_the_answer(many: list[Pair]) -> None:
    targets: dict[str, set[str]] = {}
    for pair in many:
        targets.setdefault(pair.source, set()).add(pair.target)
    assert any(len(answers) > 1 for answers in targets.values())


def test_all_locales_occur_about_equally_often(many: list[Pair]) -> None:
    for name in ORDERS:
        assert 4_500 < sum(pair.tag == name for pair in many) < 5_500


def test_targets_are_iso_dates_of_a_century(many: list[Pair]) -> None:
    for pair in many:
        assert date.fromisoformat(pair.target).isoformat() == pair.target
        assert "1950" <= pair.target[:4] <= "2049"


def test_sources_have_no_white_space_but_single_spaces(many: list[Pair]) -> None:
    assert all(pair.source == " ".join(pair.source.split()) for pair in many)


@pytest.mark.parametrize(
    ("tag", "shape"),
    [
        ("en_US", r"^[A-Z][a-z]+day, November \d+, \d{4}$"),
        ("de", r"^\d+\. März \d{4}$"),
        ("pl", r"^\d+ listopada \d{4}$"),
        ("ru", r"^\d+ ноября \d{4} г\.$"),
        ("fi", r"^\d+\. marraskuuta \d{2}$"),
        ("hu", r"^\d{2}\. nov\. \d+\.$"),
        ("es", r"^\d+ de noviembre de \d{4}$"),
        ("fr", r"^\d{2} \d{2} \d{2}$"),
        ("en_GB", r"^[A-Z ,0-9]*[A-Z]{3}[A-Z ,0-9]*$"),
        ("pt_BR", r"^\d{4}-\d\d-\d\d$"),
    ],
)
def test_a_style_of_the_locale_occurs(many: list[Pair], tag: str, shape: str) -> None:
    assert any(re.match(shape, pair.source) for pair in many if pair.tag == tag)


def test_the_seed_decides_the_rows_and_a_longer_list_begins_with_a_shorter_one() -> None:
    assert dates(300, seed=4) == dates(500, seed=4)[:300]
    assert dates(300, seed=4) != dates(300, seed=5)


@pytest.mark.parametrize("count", [-1, MOST + 1])
def test_an_impossible_count_is_refused(count: int) -> None:
    with pytest.raises(UserError, match=f"cannot make {count} dates"):
        dates(count)


def test_a_count_of_zero_gives_no_rows() -> None:
    assert dates(0) == []


def test_a_split_keeps_every_pair_and_shares_no_target(many: list[Pair]) -> None:
    parts = split_by_target(many, (0.8, 0.1))
    assert sorted(map(repr, many)) == sorted(repr(pair) for part in parts for pair in part)
    train, valid, test = ({pair.target for pair in part} for part in parts)
    assert len(train | valid | test) == len(train) + len(valid) + len(test)
    assert [round(len(part) / len(many), 1) for part in parts] == [0.8, 0.1, 0.1]


def test_a_target_falls_into_the_same_part_in_every_process() -> None:
    parts = split_by_target([Pair("", f"2026-11-{day}") for day in range(10, 20)], (0.5, 0.2))
    days = [[int(pair.target[-2:]) for pair in part] for part in parts]
    assert days == [[12, 14, 15, 16], [13, 17, 18], [10, 11, 19]]  # seen once in another process


def test_extreme_shares_put_everything_in_one_part() -> None:
    pairs = dates(200)
    assert [len(part) for part in split_by_target(pairs, (1.0, 0.0))] == [200, 0, 0]
    assert [len(part) for part in split_by_target(pairs, (0.0, 0.0))] == [0, 0, 200]


@pytest.mark.parametrize("shares", [(-0.1, 0.5), (0.8, 0.3), (float("nan"), 0.1)])
def test_shares_that_sum_to_more_than_one_are_refused(shares: tuple[float, float]) -> None:
    with pytest.raises(UserError, match="do not fit into 1"):
        split_by_target([], shares)


def test_a_written_file_holds_source_target_and_tag(tmp_path: Path) -> None:
    pairs = dates(50)
    write_tsv(pairs, tmp_path / "dates.tsv")
    rows = [line.split("\t") for line in (tmp_path / "dates.tsv").read_text(encoding="utf-8").splitlines()]
    assert [Pair(source, target, tag) for source, target, tag in rows] == pairs


def test_a_tab_inside_a_column_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written") as caught:
        write_tsv([Pair("a", "b"), Pair("a\tb", "c")], tmp_path / "bad.tsv")
    assert caught.value.where.endswith("bad.tsv:2")
