"""Searches against full enumeration on models small enough for it, and against themselves in other batches."""

# N hypotheses · V symbols

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from weft.core.kinds import Column, Hypothesis
from weft.core.pair import END, PAD, START
from weft.core.shapes import Symbols
from weft.nn.assemble import BRIDGES, CELLS, JOINS, POSITIONS, PROJECTIONS, SCORES, WEIGHERS, assemble
from weft.search.beam import beam
from weft.search.decode import SearchPlan, decode
from weft.search.rules import NEVER, Rules, without_repeats
from weft.search.sample import one_each
from weft.search.top import top
from weft.settings import compose

CPU = torch.device("cpu")
SYMBOLS, FIRST = 8, 5  # four specials, a mark, and three symbols of text
TEXT = range(FIRST, SYMBOLS)


@dataclass(frozen=True)
class Prefix:
    """What a hypothesis has read and written."""

    source: tuple[tuple[int, ...], ...]
    written: tuple[tuple[int, ...], ...]

    def select(self, rows: Tensor) -> Prefix:
        chosen = rows.tolist()
        return Prefix(tuple(self.source[r] for r in chosen), tuple(self.written[r] for r in chosen))


@dataclass(frozen=True)
class Table:
    """A model that gives each source and prefix its own random distribution, specials and marks included."""

    seed: int
    spread: float = 1.5
    for_end: float = 0.0
    cache: dict[tuple[Any, ...], Tensor] = field(default_factory=dict)

    def log_probs(self, source: tuple[int, ...], written: Sequence[int]) -> Tensor:
        key = (source, tuple(written))
        if key not in self.cache:
            random = np.random.default_rng((self.seed, len(source), *source, *written))
            logits = torch.from_numpy(random.normal(scale=self.spread, size=SYMBOLS)).float()
            logits[END] += self.for_end
            self.cache[key] = torch.log_softmax(logits, -1)
        return self.cache[key]

    def begin(self, source: Column, context: Column | None = None) -> Prefix:
        read = tuple(tuple(row[real].tolist()) for row, real in zip(source.values, source.mask))
        return Prefix(read, ((),) * len(read))

    def advance(self, y: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        written = tuple((*before, last) for before, last in zip(state.written, y.tolist(), strict=True))
        now = Prefix(state.source, written)
        return torch.stack([self.log_probs(s, w) for s, w in zip(now.source, written)]), now


def token_scores(model: Table, source: Sequence[int], ids: Sequence[int]) -> list[float]:
    """What the model itself gives to each symbol of an output, END included."""
    said = [*ids, END]
    read = (*source, END)
    return [float(model.log_probs(read, (START, *said[:t]))[symbol]) for t, symbol in enumerate(said)]


def enumeration(model: Table, source: Sequence[int], limit: int, alpha: float) -> list[tuple[float, tuple[int, ...]]]:
    """Every output of at most `limit` symbols with its rank, the best first."""
    outputs = [ids for length in range(limit + 1) for ids in product(TEXT, repeat=length)]
    ranked = [(sum(token_scores(model, source, ids)) / (len(ids) + 1) ** alpha, ids) for ids in outputs]
    return sorted(ranked, reverse=True)


def sources(count: int, seed: int = 1, longest: int = 6) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.choice(TEXT) for _ in range(rng.randint(1, longest))] for _ in range(count)]


def plan(kind: str, **more: Any) -> SearchPlan:
    """Outputs of at most as many symbols as the source has, and two more."""
    rules = more.pop("rules", Rules(first_symbol=FIRST))
    return SearchPlan(kind, **{"max_ratio": 1.0, "max_extra": 2, "rules": rules, **more})


def found(model: Any, read: Sequence[Sequence[int]], how: SearchPlan, **more: Any) -> list[list[Hypothesis]]:
    return decode(model, read, how, CPU, **more)


KINDS = {
    "greedy": plan("greedy"),
    "beam": plan("beam", width=3, nbest=3),
    "sample": plan("sample", nbest=2, top_p=0.9),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


# --- against enumeration


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_wide_beam_is_full_enumeration(seed: int, alpha: float) -> None:
    model, source, limit = Table(seed), sources(1, seed)[0], 3
    read = Column.of_ids([source])
    (ours,) = beam(model, read, torch.tensor([limit]), Rules(first_symbol=FIRST), 200, alpha)
    wanted = enumeration(model, source, limit, alpha)
    assert [h.ids for h in ours] == [ids for _, ids in wanted]
    assert [h.score for h in ours] == pytest.approx([rank for rank, _ in wanted], abs=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_nbest_of_a_wide_beam_is_the_top_of_the_enumeration(alpha: float) -> None:
    model, lines = Table(11), sources(5, longest=2)
    how = plan("beam", width=400, nbest=7, length_penalty=alpha)
    for source, ours in zip(lines, found(model, lines, how)):
        wanted = enumeration(model, source, len(source) + 2, alpha)
        assert [h.ids for h in ours] == [ids for _, ids in wanted[:7]]


def test_nbest_widens_a_beam_that_is_too_narrow_for_it() -> None:
    lines = sources(4, longest=2)
    narrow, wide = (found(Table(3), lines, plan("beam", width=w, nbest=6)) for w in (1, 6))
    assert narrow == wide
    assert [len(each) for each in narrow] == [6] * 4


@dataclass(frozen=True)
class Counting(Table):
    """Knows how often it was asked, and for how many hypotheses."""

    asked: list[int] = field(default_factory=list)

    def advance(self, y: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        self.asked.append(len(y))
        return super().advance(y, state)


class Sure(Table):
    """Writes its source again and is nearly sure of every symbol; its second guess is always END."""

    def log_probs(self, source: tuple[int, ...], written: Sequence[int]) -> Tensor:
        done = len(written) - 1  # without START
        guesses = torch.full((SYMBOLS,), 1e-6)
        guesses[END] = 0.02
        guesses[source[done] if done < len(source) else END] = 0.97
        return (guesses / guesses.sum()).log()


@pytest.mark.parametrize("width", [1, 2, 5, 20])
def test_a_beam_does_not_end_while_a_better_output_is_still_open(width: int) -> None:
    lines = [[6, 7, 5, 5, 6, 7, 7, 5, 6, 5, 7, 6], [5], [7, 7, 6, 5, 6, 6]]
    read = Column.of_ids(lines)
    ours = beam(Sure(1), read, torch.tensor([30] * 3), Rules(first_symbol=FIRST), width)
    assert [list(each[0].ids) for each in ours] == lines


def test_the_more_outputs_are_wanted_the_longer_a_beam_looks_for_them() -> None:
    read = Column.of_ids(sources(20, longest=4))
    limits, rules = torch.tensor([12] * 20), Rules(first_symbol=FIRST)
    few, all_five = (beam(Table(5), read, limits, rules, 5, wanted=n) for n in (1, 5))
    assert sum(each[-1].score for each in few) < sum(each[-1].score for each in all_five)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_line_is_done_when_its_beam_is_full_of_finished_outputs_and_none_that_is_open_is_better(width: int) -> None:
    model, read = Counting(5, for_end=4.0), Column.of_ids(sources(6, longest=4))
    ours = beam(model, read, torch.tensor([30] * 6), Rules(first_symbol=FIRST), width)
    assert all(len(each) == width for each in ours)
    assert len(model.asked) < 15  # nothing is looked for after that


def test_a_beam_asks_once_a_line_for_the_first_symbol() -> None:
    model, read = Counting(5), Column.of_ids(sources(6))
    beam(model, read, torch.tensor([3] * 6), Rules(first_symbol=FIRST), 3)
    assert model.asked[:2] == [6, 18]


def test_outputs_may_be_given_limits_of_their_own() -> None:
    lines = sources(5, longest=4)
    never = Table(4, for_end=-50.0)
    ours = decode(never, lines, plan("greedy"), CPU, longest=[1, 2, 3, 4, 5])
    assert [len(each[0].ids) for each in ours] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_wider_beam_finds_better_outputs_on_the_whole(alpha: float) -> None:
    lines = sources(40, longest=4)
    totals = [
        sum(each[0].score for each in found(Table(2), lines, plan("beam", width=width, length_penalty=alpha)))
        for width in (1, 4, 100)
    ]
    assert totals == sorted(totals)
    assert totals[0] < totals[2] - 1


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_of_one_is_greedy(seed: int, alpha: float) -> None:
    model, lines = Table(seed, for_end=seed / 5 - 1), sources(20, seed)
    ours = found(model, lines, plan("beam", width=1, length_penalty=alpha))
    wanted = found(model, lines, plan("greedy"))
    assert [(h.ids, h.token_scores) for (h,) in ours] == [(h.ids, h.token_scores) for (h,) in wanted]


def test_greedy_says_the_best_symbol_at_each_place() -> None:
    model, lines = Table(4), sources(30)
    for source, (best,) in zip(lines, found(model, lines, plan("greedy"))):
        for place, symbol in enumerate([*best.ids, END]):
            if place < len(source) + 2:
                log_probs = model.log_probs((*source, END), (START, *best.ids[:place]))
                assert symbol == max([END, *TEXT], key=lambda s, p=log_probs: float(p[s]))


# --- what holds for every search


@each_kind
def test_token_scores_are_the_models_own_and_add_up(kind: str) -> None:
    model, lines = Table(5), sources(20)
    for source, ours in zip(lines, found(model, lines, KINDS[kind])):
        for h in ours:
            assert list(h.token_scores) == pytest.approx(token_scores(model, source, h.ids), abs=1e-6)
            assert h.log_prob == pytest.approx(math.fsum(h.token_scores))
            assert h.score == pytest.approx(h.log_prob / (len(h.ids) + 1))


@each_kind
def test_hypotheses_come_the_best_first(kind: str) -> None:
    for ours in found(Table(5), sources(20), KINDS[kind]):
        assert [h.score for h in ours] == sorted((h.score for h in ours), reverse=True)


@each_kind
@pytest.mark.parametrize("batch_lines", [1, 3, 40])
def test_an_output_does_not_depend_on_its_batch_mates(kind: str, batch_lines: int) -> None:
    model, lines = Table(6), sources(40)
    alone = [found(model, [line], KINDS[kind], lines=[n])[0] for n, line in enumerate(lines)]
    assert found(model, lines, KINDS[kind], batch_lines=batch_lines) == alone
    order = random.Random(1).sample(range(40), 40)
    mixed = found(model, [lines[n] for n in order], KINDS[kind], lines=order, batch_lines=batch_lines)
    assert mixed == [alone[n] for n in order]


@each_kind
def test_batches_limited_by_symbols_do_not_show(kind: str) -> None:
    model, lines, batches = Table(6), sources(40), []
    wanted = found(model, lines, KINDS[kind])
    assert found(model, lines, KINDS[kind], batch_symbols=20, tick=batches.append) == wanted
    assert sum(batches) == 40
    assert max(batches) <= 10


@each_kind
def test_outputs_come_in_the_order_of_the_inputs(kind: str) -> None:
    model, lines = Table(7), [[FIRST] * n for n in (3, 1, 6, 2, 6, 1)]
    ours = found(model, lines, KINDS[kind], lines=[0] * 6, batch_lines=2)
    for source, hypotheses in zip(lines, ours):
        assert list(hypotheses[0].token_scores) == pytest.approx(token_scores(model, source, hypotheses[0].ids))
    assert ours[1] == ours[5]
    assert ours[2] == ours[4]


def test_no_lines_give_no_outputs() -> None:
    assert all(found(Table(1), [], how) == [] for how in KINDS.values())


@each_kind
def test_an_empty_line_gets_an_output(kind: str) -> None:
    (ours,) = found(Table(1), [[]], KINDS[kind])
    assert len(ours) == KINDS[kind].nbest


@each_kind
def test_specials_and_marks_are_never_written(kind: str) -> None:
    model = Table(8, spread=3.0)
    best = [int(model.log_probs((*s, END), (START,)).argmax()) for s in sources(60)]
    assert {PAD, START, FIRST - 1} & set(best)  # the model would like to
    for ours in found(model, sources(60), KINDS[kind]):
        assert all(set(h.ids) <= set(TEXT) for h in ours)


@each_kind
@pytest.mark.parametrize(("ratio", "extra"), [(1.0, 2), (0.5, 1), (2.0, 0)])
def test_each_line_has_its_own_length_limit(kind: str, ratio: float, extra: int) -> None:
    model, lines = Table(9, for_end=-20.0), sources(20)  # it does not want to end
    how = plan(kind, max_ratio=ratio, max_extra=extra)
    for source, ours in zip(lines, found(model, lines, how)):
        assert [len(h.ids) for h in ours] == [math.ceil(ratio * len(source)) + extra]


@each_kind
def test_outputs_end_before_the_limit_where_the_model_wants_to(kind: str) -> None:
    lines = sources(20)
    for ours in found(Table(9, for_end=20.0), lines, plan(kind)):
        assert ours[0].ids == ()


@each_kind
@pytest.mark.parametrize("prefix", [(6,), (7, 5, 5), (4, 6)])
def test_a_forced_prefix_is_written_whatever_the_model_thinks(kind: str, prefix: tuple[int, ...]) -> None:
    model, lines = Table(10), sources(20)
    rules = Rules(first_symbol=FIRST, prefix=prefix)
    ours = found(model, lines, plan(kind, rules=rules, max_extra=4))
    assert all(h.ids[: len(prefix)] == prefix for hypotheses in ours for h in hypotheses)
    assert len({h.ids[len(prefix) :] for (h,) in ours}) > 5
    for source, (h,) in zip(lines, ours):
        assert list(h.token_scores) == pytest.approx(token_scores(model, source, h.ids), abs=1e-5)


@each_kind
def test_what_would_change_a_prefix_does_not_follow_it(kind: str) -> None:
    model, lines = Table(10), sources(20)

    def followers(joining: tuple[int, ...]) -> set[int]:
        rules = Rules(first_symbol=FIRST, prefix=(7, 5), joining=joining)
        ours = found(model, lines, plan(kind, rules=rules, max_extra=4))
        return {h.ids[2] for (h,) in ours if len(h.ids) > 2}

    assert followers(()) >= {FIRST + 1, FIRST + 2}
    assert not followers((FIRST + 1, FIRST + 2)) & {FIRST + 1, FIRST + 2}


@each_kind
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_is_written_twice(kind: str, size: int) -> None:
    def twice(ids: Sequence[int]) -> bool:
        ngrams = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
        return len(ngrams) > len(set(ngrams))

    model, lines = Table(12, for_end=-6.0), sources(20)

    def outputs(no_repeat: int) -> list[Hypothesis]:
        rules = Rules(first_symbol=FIRST, no_repeat=no_repeat)
        return [h for ours in found(model, lines, plan(kind, rules=rules, max_extra=12)) for h in ours]

    assert any(twice(h.ids) for h in outputs(0))
    assert not any(twice(h.ids) for h in outputs(size))


def test_the_rule_against_repeats_forbids_nothing_else() -> None:
    written = torch.tensor([[5, 6, 5], [5, 6, 7]])
    allowed = without_repeats(torch.zeros(2, SYMBOLS), written, 2)
    assert allowed.isinf().nonzero().tolist() == [[0, 6]]


# --- sampling


def texts(model: Table, lines: Sequence[Sequence[int]], how: SearchPlan) -> list[tuple[int, ...]]:
    return [h.ids for ours in found(model, lines, how) for h in ours]


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    model, lines = Table(13), sources(20)
    one, again, other = (texts(model, lines, plan("sample", seed=seed)) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_equal_lines_get_draws_of_their_own() -> None:
    assert len(set(texts(Table(13), [[5, 6, 7]] * 20, plan("sample")))) > 5
    assert len(set(texts(Table(13), [[5, 6, 7]], plan("sample", nbest=20)))) > 5


@pytest.mark.parametrize("how", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}])
def test_sampling_that_leaves_no_choice_is_greedy(how: dict[str, float]) -> None:
    model, lines = Table(14), sources(60)
    assert texts(model, lines, plan("sample", **how)) == texts(model, lines, plan("greedy"))
    assert texts(model, lines, plan("sample")) != texts(model, lines, plan("greedy"))


def drawn(model: Table, count: int, **how: Any) -> Counter[int]:
    """How often each symbol (or END) is the first of the output of one source."""
    ours = texts(model, [[5]] * count, plan("sample", max_ratio=1.0, max_extra=0, **how))
    return Counter(ids[0] if ids else END for ids in ours)


def expected(model: Table, temperature: float) -> dict[int, float]:
    log_probs = model.log_probs((5, END), (START,))
    weights = {s: math.exp(float(log_probs[s]) / temperature) for s in (END, *TEXT)}
    return {s: w / sum(weights.values()) for s, w in weights.items()}


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_draws_follow_the_tempered_distribution(temperature: float) -> None:
    model, count = Table(15, spread=0.7), 3000
    seen, wanted = drawn(model, count, temperature=temperature), expected(model, temperature)
    chi_square = sum((seen[s] - count * p) ** 2 / (count * p) for s, p in wanted.items())
    assert chi_square < 16.3  # 3 degrees of freedom: one true sampler in a thousand is beyond
    assert set(seen) <= set(wanted)


def test_top_k_and_top_p_keep_the_most_probable_symbols_only() -> None:
    model = Table(15, spread=0.7)
    ranked = sorted(expected(model, 1.0).items(), key=lambda item: -item[1])
    best, second = ranked[0], ranked[1]
    assert set(drawn(model, 300, top_k=2)) == {best[0], second[0]}
    assert set(drawn(model, 300, top_p=best[1] + second[1] / 2)) == {best[0], second[0]}
    assert set(drawn(model, 300, top_p=best[1] / 2)) == {best[0]}


# --- real models


TRANSFORMER = {"kind": "transformer", "layers": 2, "heads": 4, "inner": 48}
PROMPTED = {"data": {"tag": 3, "tag_at": "decoder"}}


def looking(**attention: Any) -> dict[str, Any]:
    return {"decoder": {"attention": attention}}


def transformers(positions: str = "sinusoid", **more: Any) -> dict[str, Any]:
    part = {**TRANSFORMER, **more}
    return {"embed": {"positions": positions}, "encoder": part, "decoder": part}


DEEP = {"layers": 2, "residual": True, "layer_norm": True, "variational": True}
FAMILIES: dict[str, dict[str, Any]] = {
    **{f"cell-{cell}": {"encoder": {"cell": cell}, "decoder": {"cell": cell, "layers": 2}} for cell in CELLS},
    **{
        f"score-{score}{'-fed' if feed else ''}": looking(score=score, feed=feed)
        for score in SCORES
        for feed in (True, False)
    },
    **{f"weigh-{name}": looking(weigh=name) for name in WEIGHERS if name not in ("softmax", "exact", "kernel")},
    **{f"weigh-{name}": looking(weigh=name, score="rbf") for name in ("exact", "kernel")},
    **{f"project-{name}": looking(project=name) for name in PROJECTIONS if name != "none"},
    **{f"query-before{'-fed' if feed else ''}": looking(query="before", feed=feed) for feed in (True, False)},
    **{f"join-{name}": looking(join=name) for name in JOINS if name != "concat"},
    "heads": looking(heads=4),
    "layers": {"encoder": DEEP, "decoder": DEEP},
    **{f"bridge-{kind}": {"bridge": {"kind": kind}} for kind in BRIDGES},
    **{f"positions-{name}": transformers(name) for name in POSITIONS},
    **{f"recurrent-{name}": {"embed": {"positions": name}} for name in ("sinusoid-concat", "learned")},
    "transformer-post": transformers(norm="post"),
    **{f"transformer-{s}": transformers(attention={"score": s}) for s in SCORES if s != "scaled"},
    **{
        f"transformer-{w}": transformers(attention={"weigh": w})
        for w in WEIGHERS
        if w not in ("softmax", "exact", "nearest")  # forth, nearest is straight-through
    },
    "copy": {"head": {"kind": "copy"}},
    "transformer-copy": {**transformers("rotary"), "head": {"kind": "copy"}},
    "prompted": PROMPTED,
    "transformer-prompted": {**transformers("alibi"), **PROMPTED},
    "ctc": {"head": {"kind": "ctc"}},
    "transformer-ctc": {"embed": {"positions": "rotary"}, "encoder": TRANSFORMER, "head": {"kind": "ctc"}},
    "no-attention": {**looking(score="none"), "bridge": {"give": "every"}},
    "mixed": {"embed": {"positions": "sinusoid"}, "encoder": TRANSFORMER},
}


def real_model(family: str) -> Any:
    """Random weights at width 32, with an output matrix so large that ties are unlikely."""
    tree = {name: dict(part) for name, part in FAMILIES[family].items()}
    sides = ("embed", "encoder") if family.endswith("ctc") else ("embed", "encoder", "decoder")
    for name in sides:
        tree[name] = {"width": 32, **tree.get(name, {})}
    tree["head"] = {"tied": False, **tree.get("head", {})}
    torch.manual_seed(3)
    model = assemble(compose(("flag", tree)).spec, Symbols(20), Symbols(20)).eval()
    with torch.no_grad():
        model.head.weight.mul_(5.0)
        model.source_reader.table.weight.mul_(3.0)
        if not family.endswith("ctc"):
            model.target_reader.table.weight.mul_(3.0)
    return model


SEARCHED = [(family, "beam") for family in FAMILIES] + [
    (family, "greedy") for family in FAMILIES if not family.startswith(("weigh-", "project-", "transformer-"))
]


LINES = 60  # one by one they take most of the time of this file


@pytest.mark.parametrize(("family", "kind"), SEARCHED)
def test_a_prediction_does_not_depend_on_its_batch(family: str, kind: str) -> None:
    model, rng = real_model(family), random.Random(5)
    lines = [[rng.randrange(4, 20) for _ in range(rng.randint(1, 9))] for _ in range(LINES)]
    how = SearchPlan(kind, width=4, nbest=2 if kind == "beam" else 1, max_ratio=1.0, max_extra=3)
    wanted = found(model, lines, how, batch_lines=1)
    assert len({h.ids for ours in wanted for h in ours}) > 10
    assert len({round(ours[0].score, 5) for ours in wanted}) > LINES // 4  # the source matters
    order = rng.sample(range(LINES), LINES)
    for batch_lines, places in ((7, range(LINES)), (LINES, order)):
        ours = found(model, [lines[p] for p in places], how, batch_lines=batch_lines)
        for place, hypotheses in zip(places, ours):
            assert [h.ids for h in hypotheses] == [h.ids for h in wanted[place]]
            assert [h.score for h in hypotheses] == pytest.approx([h.score for h in wanted[place]], abs=1e-4)


@pytest.mark.parametrize("family", [name for name in FAMILIES if not name.endswith("ctc")])  # there, a beam sums paths
def test_a_real_models_beam_of_one_is_greedy(family: str) -> None:
    model, rng = real_model(family), random.Random(6)
    lines = [[rng.randrange(4, 20) for _ in range(rng.randint(1, 8))] for _ in range(30)]
    one, best = (found(model, lines, SearchPlan(kind, width=1, max_ratio=1.0)) for kind in ("beam", "greedy"))
    assert [h.ids for (h,) in one] == [h.ids for (h,) in best]


def test_greedy_search_leaves_the_limits_it_was_given_as_they_were() -> None:
    limits = torch.tensor([3, 1])
    read = Column.of_ids(sources(2))
    one_each(Table(1), read, limits, Rules(first_symbol=FIRST))
    assert limits.tolist() == [3, 1]


@pytest.mark.parametrize("columns", [3, 64, 4095, 4096, 4100, 40_000])
@pytest.mark.parametrize("count", [1, 10, 100])
def test_the_largest_of_many_are_those_that_sorting_finds(columns: int, count: int) -> None:
    values = torch.randn(5, columns, generator=torch.Generator().manual_seed(columns))
    values[:, : columns // 3] = NEVER
    best, places = top(values, count)
    wanted = values.sort(dim=1, descending=True).values[:, :count]
    assert torch.equal(best, wanted)
    assert torch.equal(values.gather(1, places), wanted)
    real = best > NEVER
    assert all(len(set(row[own].tolist())) == int(own.sum()) for row, own in zip(places, real))
