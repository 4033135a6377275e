"""The variants of the contract cover every two choices that go together."""

from __future__ import annotations

import random

import pytest

from covering import all_pairs, rows_with
from variants import FAMILIES, STATE_OF, fits, pairs_in, read_rows, sample

ROWS = read_rows()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_two_choices_that_go_together_meet_in_some_variant(family: str) -> None:
    met = set().union(*map(pairs_in, ROWS[family].values()))
    rng, missing = random.Random(2), all_pairs(FAMILIES[family]) - met
    possible = [pair for pair in missing if rows_with(pair, FAMILIES[family], rng, attempts=100)]
    assert possible == [], "python tests/covering.py makes tests/variants.jsonl again"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_row_of_choices_is_a_model_of_today(family: str) -> None:
    assert met_pairs_outside(family) == set()
    assert [name for name, row in ROWS[family].items() if not fits(FAMILIES[family].tree(row))] == []


def met_pairs_outside(family: str) -> set[object]:
    """Pairs in the file that the tables of choices do not have (any more)."""
    return set().union(*map(pairs_in, ROWS[family].values())) - all_pairs(FAMILIES[family])


def test_the_sample_holds_every_choice_of_every_family_and_every_cell() -> None:
    families = {name: family for family, rows in ROWS.items() for name in rows}
    choices = {(families[name], *choice) for name in sample() for choice in ROWS[families[name]][name].items()}
    settings = [
        (family, name, value)
        for family in FAMILIES
        for name, values in FAMILIES[family].choices.items()
        for value in values
    ]
    assert [choice for choice in settings if choice[1] != "state" and choice not in choices] == []
    cells = {value for _, name, value in choices if name == "cell"}
    assert cells == set(STATE_OF)
