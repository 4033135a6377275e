"""Several samples of a line: drawing without replacement, compared with its exact probabilities."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest

from test_search import END, START, TEXT, Table, found, plan, sources, token_scores

Ids = tuple[int, ...]
SOURCE, LIMIT = [5], 2


def kept(chances: Mapping[int, float], top_k: int, top_p: float) -> dict[int, float]:
    """The k most probable, then the most probable that hold mass p; their shares."""
    ranked = sorted(chances.items(), key=lambda item: -item[1])[: top_k or None]
    whole, left, before = sum(p for _, p in ranked), [], 0.0
    for symbol, p in ranked:
        if before < top_p * whole:
            left.append((symbol, p))
        before += p
    total = sum(p for _, p in left)
    return {symbol: p / total for symbol, p in left}


def outputs(model: Table, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> dict[Ids, float]:
    """Every output that can be drawn, with its probability, symbol by symbol."""
    made: dict[Ids, float] = {}

    def grow(written: Ids, so_far: float) -> None:
        log_probs = model.log_probs((*SOURCE, END), (START, *written))
        allowed = [END, *TEXT] if len(written) < LIMIT else [END]
        chances = {s: math.exp(float(log_probs[s]) / temperature) for s in allowed}
        for symbol, p in kept(chances, top_k, top_p).items():
            if symbol == END:
                made[written] = so_far * p
            else:
                grow((*written, symbol), so_far * p)

    grow((), 1.0)
    return made


def drawn(model: Table, lines: int, nbest: int, **how: Any) -> list[list[Ids]]:
    plans = plan("sample", nbest=nbest, max_ratio=1.0, max_extra=LIMIT - 1, **how)
    return [[h.ids for h in each] for each in found(model, [SOURCE] * lines, plans, batch_lines=500)]


def inclusion(chances: Mapping[Ids, float], count: int) -> dict[frozenset[Ids], float]:
    """The probability of each set of `count` outputs, drawn one after the other without putting back."""
    sets: Counter[frozenset[Ids]] = Counter()
    for order in permutations(chances, count):
        left, p = 1.0, 1.0
        for ids in order:
            p, left = p * chances[ids] / left, left - chances[ids]
        sets[frozenset(order)] += p
    return dict(sets)


@pytest.mark.parametrize(
    ("nbest", "how"),
    [(2, {}), (3, {}), (2, {"temperature": 0.6}), (2, {"temperature": 1.7}), (2, {"top_k": 2}), (2, {"top_p": 0.8})],
)
def test_sets_of_outputs_come_as_often_as_drawing_without_replacement_makes_them(
    nbest: int, how: dict[str, Any]
) -> None:
    model, count = Table(21, spread=0.8), 3000
    chances = outputs(model, **how)
    assert sum(chances.values()) == pytest.approx(1)
    wanted = inclusion(chances, nbest)
    assert sum(wanted.values()) == pytest.approx(1)
    seen = Counter(frozenset(each) for each in drawn(model, count, nbest, **how))
    assert set(seen) <= set(wanted)
    likely = {made: p for made, p in wanted.items() if p * count >= 10}
    rest = count - sum(seen[made] for made in likely), 1 - sum(likely.values())
    cells = [(seen[made], p) for made, p in likely.items()] + ([rest] if rest[1] * count > 1 else [])
    chi_square = sum((n - count * p) ** 2 / (count * p) for n, p in cells)
    degrees = len(cells) - 1
    assert degrees >= 2
    assert chi_square < degrees + 4 * math.sqrt(2 * degrees)


@pytest.mark.parametrize("nbest", [2, 4])
def test_each_output_is_in_as_many_draws_as_it_should(nbest: int) -> None:
    model, count = Table(22, spread=0.8), 2000
    chances = outputs(model, top_k=3)
    sets = inclusion(chances, nbest)
    seen = Counter(ids for each in drawn(model, count, nbest, top_k=3) for ids in each)
    for ids in chances:
        p = sum(chance for made, chance in sets.items() if ids in made)
        assert seen[ids] / count == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / count) + 1e-9)


@pytest.mark.parametrize("nbest", [2, 6, 40])
def test_no_output_comes_twice_and_all_come_where_there_is_room(nbest: int) -> None:
    model = Table(23)
    possible = outputs(model)
    for each in drawn(model, 30, nbest):
        assert len(each) == len(set(each)) == min(nbest, len(possible))
        assert set(each) <= set(possible)


def test_one_choice_at_each_step_is_one_output_however_many_are_asked_for() -> None:
    (greedy,) = found(Table(24), [SOURCE], plan("greedy", max_extra=LIMIT - 1))[0]
    assert drawn(Table(24), 5, 4, top_k=1) == [[greedy.ids]] * 5


def test_outputs_are_those_that_top_k_and_top_p_leave() -> None:
    model = Table(25)
    for how in ({"top_k": 2}, {"top_p": 0.5}, {"top_k": 3, "top_p": 0.7}, {"temperature": 3.0, "top_p": 0.6}):
        left = set(outputs(model, **how))
        assert {ids for each in drawn(model, 50, 20, **how) for ids in each} == left
        assert len(left) < len(outputs(model))


def test_scores_are_the_models_own_whatever_the_temperature() -> None:
    model, how = Table(26), plan("sample", nbest=4, temperature=2.5, top_k=3)
    lines = sources(20)
    for source, each in zip(lines, found(model, lines, how)):
        assert [h.score for h in each] == sorted((h.score for h in each), reverse=True)
        for h in each:
            assert list(h.token_scores) == pytest.approx(token_scores(model, source, h.ids), abs=1e-6)


def test_the_same_seed_draws_the_same_and_another_one_or_line_does_not() -> None:
    one, again, other = (drawn(Table(27), 20, 3, seed=seed) for seed in (1, 1, 2))
    assert one == again != other
    assert len({tuple(sorted(each)) for each in one}) > 5


@pytest.mark.parametrize("batch_lines", [1, 7, 60])
def test_draws_do_not_depend_on_batch_mates(batch_lines: int) -> None:
    model, lines, how = Table(28), sources(60), plan("sample", nbest=5)
    alone = [found(model, [line], how, lines=[n])[0] for n, line in enumerate(lines)]
    order = random.Random(1).sample(range(60), 60)
    mixed = found(model, [lines[n] for n in order], how, lines=order, batch_lines=batch_lines)
    assert mixed == [alone[n] for n in order]


def test_a_forced_prefix_and_no_repeats_hold_for_several_samples() -> None:
    from weft.search.rules import Rules

    rules = Rules(first_symbol=5, prefix=(6, 7), no_repeat=1)
    for each in found(Table(29), sources(20), plan("sample", nbest=4, rules=rules, max_extra=6)):
        assert all(h.ids[:2] == (6, 7) for h in each)
        assert all(len(set(h.ids)) == len(h.ids) for h in each)
        assert len({h.ids for h in each}) == len(each)
