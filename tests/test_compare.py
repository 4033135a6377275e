"""`weft compare`: variants differ by what varies alone, comparisons resume, failures are reported, ties are no wins."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from matplotlib.image import imread

import weft
from commands import Weft, refused
from conftest import made_up_pairs
from processes import Started
from weft.choose import choose
from weft.compare import runs
from weft.compare.base import Base, find_base, layers_of
from weft.compare.compare import Compared, compare_settings, read_budget
from weft.compare.match import _scaled_widths, count_parameters, nearest
from weft.compare.plan import ComparisonPlan, Request, make_plan
from weft.compare.report import ComparisonReporter
from weft.compare.results import CLOCKS, ComparisonFolder, Result, read_outputs
from weft.compare.scoring import length_classes, score_run
from weft.compare.variants import combinations, named, read_vary
from weft.core.errors import Interrupted, UserError, WeftError
from weft.core.machine import Speed
from weft.core.pair import Pair
from weft.core.shapes import Shapes, Symbols
from weft.data.survey import Survey, survey
from weft.look.compared import Line, _clock, draw_score_length, draw_score_time, look_of, looks_of, mean_curve
from weft.predict.predictor import Predictor
from weft.runs.report import Plain, Quiet
from weft.score.metrics import table_of
from weft.score.standings import holm, standings
from weft.settings import compose, flatten, put
from weft.spec import Spec

SMALL = {
    "encoder.width": 16,
    "decoder.width": 16,
    "embed.width": 16,
    "train.batch_tokens": 256,
    "train.evaluations": 2,
    "train.valid_pairs": 20,
    "search.width": 2,
}


def compare(pairs: Any, out: Path, **more: Any) -> Compared:
    given = {"vary": ["decoder.cell=gru,elman"], "steps": 2, "seeds": 1, "settings": SMALL, "reporter": Quiet()}
    return compare_settings(pairs, out=out, **{**given, **more})


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def spec_of(run: Path) -> dict[str, Any]:
    return dict(flatten(yaml.safe_load((run / "spec.yaml").read_text(encoding="utf-8"))))


def plan_of(
    pairs: Path,
    vary: Sequence[str] = (),
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Mapping[str, Any] = SMALL,
    **more: Any,
) -> ComparisonPlan:
    varied = read_vary(vary)
    flags: dict[str, Any] = {"train": {"steps": 2}} if "tokens" not in more else {}
    for key, value in settings.items():
        put(flags, key, value)
    chosen = named(variants) if variants else combinations(varied)
    request = Request((str(pairs),), (), {}, flags, tuple(chosen), varied, **more)
    return make_plan(request, request.prepare())


# what varies ---------------------------------------------------------------------------------------------------------


def test_every_combination_is_named_by_what_distinguishes_it() -> None:
    variants = combinations(read_vary(["decoder.cell=lstm,mut1", "decoder.attention.score=none,additive"]))
    assert [v.name for v in variants] == ["lstm-score-none", "lstm-additive", "mut1-score-none", "mut1-additive"]
    assert [v.label for v in variants][:2] == ["lstm, score none", "lstm, additive"]
    assert variants[2].settings == {"decoder.cell": "mut1", "decoder.attention.score": "none"}
    assert variants[2].value_indices == (1, 0)


@pytest.mark.parametrize(("vary", "names"), [
    (["encoder.layers=1,2"], ["layers-1", "layers-2"]),
    (["encoder.layers=1", "decoder.layers=1"], ["encoder-layers-1-decoder-layers-1"]),
    (["encoder.cell=gru", "decoder.cell=gru"], ["encoder-cell-gru-decoder-cell-gru"]),
    (["encoder.kind=recurrent", "decoder.kind=transformer"], ["recurrent-transformer"]),
    (["train.dropout=0.1,1e-3"], ["dropout-0.1", "dropout-0.001"]),
    (["decoder.attention.feed=true"], ["feed-true"]),
])  # fmt: skip
def test_a_value_that_is_not_clear_alone_is_named_with_its_setting(vary: list[str], names: list[str]) -> None:
    assert [v.name for v in combinations(read_vary(vary))] == names


def test_values_of_vary_are_parsed_as_those_of_set() -> None:
    assert read_vary(["train.rate=1e-3, 0.002", "encoder.reverse=true,false"]) == {
        "train.rate": [0.001, 0.002],
        "encoder.reverse": [True, False],
    }


def test_variants_whose_names_give_the_same_folder_are_numbered() -> None:
    assert [v.name for v in named({"a b": {}, "a/b": {}, "…": {}})] == ["a-b", "a-b-2", "variant"]


@pytest.mark.parametrize(("items", "what"), [
    ([], "no setting is varied"),
    (["decoder.cell"], "is not of the form KEY=A,B"),
    (["=gru"], "is not of the form KEY=A,B"),
    (["decoder.cell=gru,,lstm"], "a value of decoder.cell is empty"),
    (["decoder.cell=gru", "decoder.cell=lstm"], "varied twice"),
    (["decoder.cell=gru,gru"], "not all different"),
    (["train.seed=1,2"], "the same for all variants"),
    (["train.steps=1,2"], "the same for all"),
    (["data.hold_out=0.1,0.2"], "the same pairs"),
    (["train.rate={"], "is not a value"),
])  # fmt: skip
def test_a_wrong_vary_is_refused_in_three_parts(items: list[str], what: str) -> None:
    with pytest.raises(UserError, match=what) as error:
        combinations(read_vary(items))
    assert error.value.where.startswith("--vary")
    assert error.value.todo


@pytest.mark.parametrize(("text", "seconds_and_tokens"), [
    (None, (None, None)),
    ("5m", (300.0, None)),
    (90.0, (90.0, None)),
    ("2Mtokens", (None, 2e6)),
    ("1.5k tokens", (None, 1500.0)),
    ("40 tokens", (None, 40.0)),
])  # fmt: skip
def test_a_budget_is_a_time_or_a_number_of_tokens(
    text: Any, seconds_and_tokens: tuple[float | None, float | None]
) -> None:
    assert read_budget(text) == seconds_and_tokens


@pytest.mark.parametrize(
    ("text", "what"), [("2 mtokens", "not a number of tokens"), ("0 tokens", "less than one token")]
)
def test_a_budget_that_is_no_number_of_tokens_is_refused(text: str, what: str) -> None:
    with pytest.raises(UserError, match=what) as error:
        read_budget(text)
    assert error.value.where.startswith("--budget")
    assert "2Mtokens" in error.value.todo


# the same for all ----------------------------------------------------------------------------------------------------


def differing(plan: ComparisonPlan, label: str) -> dict[str, Any]:
    combination = next(c for c in plan.combinations if c.label == label)
    base = dict(flatten(plan.base))
    settings = dict(flatten(combination.layers.compose().model_dump(mode="json")))
    return {key: value for key, value in settings.items() if base.get(key) != value}


def test_variants_differ_from_each_other_by_what_varies_alone(tiny_pairs: Path) -> None:
    plan = plan_of(tiny_pairs, ["decoder.cell=lstm,gru", "decoder.attention.score=none,additive"], settings={})
    assert differing(plan, "lstm, additive") == {}
    assert differing(plan, "gru, score none") == {"decoder.cell": "gru", "decoder.attention.score": "none"}


def test_a_side_of_another_kind_keeps_its_width_and_gets_what_the_kind_needs(tiny_pairs: Path) -> None:
    plan = plan_of(tiny_pairs, ["encoder.kind=recurrent,transformer", "decoder.kind=recurrent,transformer"])
    assert differing(plan, "encoder recurrent, decoder recurrent") == {}
    changed = differing(plan, "encoder transformer, decoder recurrent")
    assert changed["embed.positions"] == "sinusoid"
    assert changed["encoder.inner"] == 32
    assert not {"encoder.width", "train.rate", "train.dropout", "train.batch_tokens", "embed.width"} & set(changed)
    both = differing(plan, "encoder transformer, decoder transformer")
    assert both["encoder.layers"] == both["decoder.layers"] == changed["encoder.layers"]


def test_settings_that_another_kind_does_not_have_are_dropped_and_listed(tiny_pairs: Path) -> None:
    settings = {**SMALL, "encoder.cell": "gru"}
    plan = plan_of(tiny_pairs, ["encoder.kind=recurrent,transformer"], settings=settings)
    assert [c.layers.dropped for c in plan.combinations] == [(), ("encoder.cell",)]
    assert not any(c.refused for c in plan.combinations)


def test_ctc_can_be_compared_with_decoders(tiny_pairs: Path) -> None:
    plan = plan_of(tiny_pairs, variants={"plain": {}, "blank": {"head.kind": "ctc"}})
    assert [c.refused for c in plan.combinations] == ["", ""]
    assert differing(plan, "blank")["decoder.kind"] == "none"


def test_other_target_tokens_get_their_own_limit_of_output_length(tiny_pairs: Path) -> None:
    plan = plan_of(tiny_pairs, ["target.tokens=characters,words"])
    assert set(differing(plan, "words")) == {"target.tokens", "search.max_ratio", "data.unseen"}


def running_text() -> Survey:
    words = ["the", "small", "dog", "runs", "under", "green", "old", "houses", "of", "and", "with", "trees", "in"]
    lines = [" ".join(f"{words[(i * 13 + j * j) % 13]}{(i * 31 + j * 17) % 97}" for j in range(12)) for i in range(401)]
    return survey([Pair(source, target) for source, target in pairwise(lines)], 0)[0]


def word_forms() -> Survey:
    return survey([Pair(f"{word}en", f"ge{word}t") for word, _ in made_up_pairs(300)], 0)[0]


def short_sentences() -> Survey:
    def line(i: int, word: str) -> str:
        return " ".join(f"{word}{(i * 7919 + j * j * 104_729) % 5003}" for j in range(4))

    return replace(survey([Pair(line(i, "a"), line(i + 1, "b")) for i in range(2000)], 0)[0], pairs=20_000)


@pytest.mark.parametrize("kind", ["characters", "parts", "bytes", "unigram"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_one_side_of_short_sentences_can_be_tokenised_in_every_way(side: str, kind: str) -> None:
    base, specs = specs_of(short_sentences(), [f"{side}.tokens=bpe,{kind}"])
    assert (base.spec.source.tokens, base.spec.target.tokens) == ("bpe", "bpe")
    assert getattr(specs[kind], side).tokens == kind


KINDS = ["encoder.kind=recurrent,transformer", "decoder.kind=recurrent,transformer"]
TRANSFORMER = {"encoder": {"kind": "transformer"}, "decoder": {"kind": "transformer"}}


def specs_of(
    data: Survey, vary: Sequence[str], flags: Mapping[str, Any] | None = None, speed: Speed | None = None
) -> tuple[Base, dict[str, Spec]]:
    """Return the base, and the settings of each variant."""
    variants = combinations(read_vary(vary))
    base = find_base(data, speed, {}, dict(flags or {"train": {"steps": 2}}), variants)
    return base, {variant.label: layers_of(base, variant.settings).compose() for variant in variants}


def test_a_recurrent_variant_of_running_text_has_the_layers_of_its_kind() -> None:
    base, specs = specs_of(running_text(), KINDS)
    assert (base.spec.encoder.kind, base.spec.encoder.layers, base.spec.decoder.layers) == ("transformer", 3, 3)
    assert {label: (spec.encoder.layers, spec.decoder.layers) for label, spec in specs.items()} == {
        "encoder recurrent, decoder recurrent": (1, 1),
        "encoder recurrent, decoder transformer": (1, 3),
        "encoder transformer, decoder recurrent": (3, 1),
        "encoder transformer, decoder transformer": (3, 3),
    }
    assert {spec.encoder.width for spec in specs.values()} == {base.spec.encoder.width}


def test_a_variant_is_one_model_that_trains_for_its_whole_budget() -> None:
    speed = Speed(2e11, 0.0, 1e11, 2)
    chosen = choose(word_forms(), given := {"train": {"budget_seconds": 36_000.0}}, speed).layer["train"]
    assert chosen["members"] > 1
    assert chosen["max_epochs"] > 0
    _, specs = specs_of(word_forms(), ["decoder.cell=lstm,gru"], given, speed)
    assert {(spec.train.members, spec.train.max_epochs) for spec in specs.values()} == {(1, 0.0)}


def test_the_embedding_rate_follows_the_kind_and_the_learning_rate_the_base() -> None:
    base, specs = specs_of(running_text(), KINDS)
    plain = specs["encoder recurrent, decoder recurrent"].train
    assert base.spec.train.embed_rate > 1
    assert (plain.embed_rate, plain.rate) == (1.0, base.spec.train.rate)
    assert specs["encoder transformer, decoder transformer"].train.embed_rate == base.spec.train.embed_rate
    assert specs_of(running_text(), KINDS, {"train": {"embed_rate": 3.0}})[1].popitem()[1].train.embed_rate == 3.0


@pytest.mark.parametrize(("data", "flags", "vary"), [
    (running_text, {}, "decoder.kind=recurrent,transformer"),
    (running_text, {}, "target.tokens=characters,bpe"),
    (word_forms, {}, "decoder.kind=recurrent,transformer"),
    (word_forms, TRANSFORMER, "decoder.kind=recurrent,transformer"),
    (word_forms, {}, "target.tokens=characters,words"),
])  # fmt: skip
def test_settings_that_nothing_forces_are_the_same_in_every_variant(
    data: Callable[[], Survey], flags: dict[str, Any], vary: str
) -> None:
    given = {**flags, "train": {"budget_seconds": 600.0}}
    base, specs = specs_of(data(), [vary], given, Speed(1e10, 4e10))

    def free(spec: Spec) -> tuple[Any, ...]:
        train = spec.train
        return spec.data.augmented, train.precision, train.rate, train.batch_tokens, train.dropout, train.members

    assert {free(spec) for spec in specs.values()} == {free(base.spec)}


def test_the_other_side_keeps_its_size_where_one_side_is_tokenised_in_another_way() -> None:
    base, specs = specs_of(running_text(), ["target.tokens=bpe,characters"])
    assert specs["bpe"] == base.spec
    assert specs["characters"].source == base.spec.source
    assert specs["characters"].source.size == 1000
    assert (base.spec.embed.shared, specs["characters"].embed.shared) == (True, False)


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_vocabulary_size_of_one_side_can_be_varied(side: str) -> None:
    specs = specs_of(running_text(), [f"{side}.size=500,600"])[1]
    assert [getattr(spec, side).size for spec in specs.values()] == [500, 600]


def test_varying_a_setting_of_one_kind_gives_a_base_of_that_kind(tiny_pairs: Path) -> None:
    plan = plan_of(tiny_pairs, ["decoder.heads=2,4"])
    assert plan.base["decoder"]["kind"] == "transformer"
    assert not any(c.refused for c in plan.combinations)


def test_an_impossible_base_is_replaced_by_the_first_possible_variant(tiny_pairs: Path) -> None:
    settings = {**SMALL, "decoder.attention.score": "none", "bridge.kind": "zeros"}
    plan = plan_of(tiny_pairs, ["bridge.kind=last,mean"], settings=settings)
    assert plan.base["bridge"]["kind"] == "last"
    assert not any(c.refused for c in plan.combinations)


def test_a_budget_of_tokens_is_as_many_epochs_as_hold_them(tiny_pairs: Path, tmp_path: Path) -> None:
    vary = ["target.tokens=characters,words"]  # a word is one symbol and END
    done = compare(tiny_pairs, tmp_path / "out", vary=vary, steps=None, budget="600 tokens")
    for result in done.results:
        progress = json.loads((tmp_path / "out" / result.run / "last" / "progress.json").read_text())["progress"]
        assert 0.8 * 600 <= progress["tokens"] <= 600 + 256
    assert {result.status for result in done.results} == {"done"}


def test_a_budget_of_tokens_counts_what_is_learned_from_where_sources_repeat(tmp_path: Path) -> None:
    path = tmp_path / "tokens.tsv"
    path.write_text("".join(f"{w}\t{w[::-1]}\n" for n in range(1, 60) for w in [f"a{n}b"] * (60 // n)))
    vary = ["data.repeat_power=0,0.5,1"]
    done = compare(path, tmp_path / "out", vary=vary, steps=None, budget="2k tokens")
    for result in done.results:
        progress = json.loads((tmp_path / "out" / result.run / "last" / "progress.json").read_text())["progress"]
        assert 0.8 * 2000 <= progress["tokens"] <= 2000 + 256, result.run


def test_lines_are_ended_by_line_feeds_alone(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{s}\u2028x\t{t}\u0085y\n" for s, t in made_up_pairs(60)), encoding="utf-8")
    done = compare(path, tmp_path / "out")
    assert {row.status for row in done.results} == {"done"}
    assert len(done.rows) == 2
    assert (tmp_path / "out" / "score-time.png").exists()


def test_the_files_that_a_settings_file_names_are_compared_on(tiny_pairs: Path, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(yaml.safe_dump({"data": {"pairs": [str(tiny_pairs)], "valid": [str(tiny_pairs)]}}))
    done = compare((), tmp_path / "out", config=config)
    assert done.results[0].valid.pairs == 200


def test_the_runs_have_the_same_choices_and_symbols(tiny_pairs: Path, tmp_path: Path) -> None:
    done = compare(tiny_pairs, tmp_path / "out", seeds=2)
    folder = tmp_path / "out" / "runs"
    assert sorted(p.name for p in folder.iterdir()) == ["elman-s1", "elman-s2", "gru-s1", "gru-s2"]
    gru, elman = spec_of(folder / "gru-s1"), spec_of(folder / "elman-s2")
    assert {key for key in gru if gru[key] != elman[key]} == {"decoder.cell", "train.seed"}
    assert (folder / "gru-s1" / "target.json").read_bytes() == (folder / "elman-s2" / "target.json").read_bytes()
    choices = json.loads((folder / "gru-s1" / "choices.json").read_text())
    assert [choices["origins"][key] for key in ("decoder.cell", "train.rate")] == ["flag", "autopilot"]
    assert "source.tokens" in [key for key, _, _ in choices["reasons"]]
    assert len(done.results) == 4


# parameters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vary", [
    ["decoder.cell=elman,lstm,gru,mut1"],
    ["encoder.kind=recurrent,transformer", "decoder.kind=recurrent,transformer"],
    ["encoder.layers=1,2,3"],
    ["decoder.attention.heads=1,4"],
    ["head.kind=tokens,ctc,copy"],
])  # fmt: skip
def test_matched_variants_have_the_parameters_of_the_base_within_two_percent(tiny_pairs: Path, vary: list[str]) -> None:
    settings = {"encoder.width": 64, "decoder.width": 64, "embed.width": 32}
    plan = plan_of(tiny_pairs, vary, settings=settings, match=True)
    symbols = Shapes(Symbols(12), Symbols(12))
    wanted = count_parameters(compose(("base", plan.base)).spec, symbols)
    for combination in plan.combinations:
        assert not combination.refused
        count = count_parameters(combination.layers.compose(), symbols)
        assert abs(count / wanted - 1) < 0.025, combination  # the symbols are not quite those of the data


def test_a_counted_model_is_the_trained_one(tiny_run: Any) -> None:
    predictor = tiny_run.predictor
    counted = count_parameters(tiny_run.spec, predictor.sides.shapes)
    assert counted == predictor.model.parameter_count


def test_a_language_model_is_matched_by_its_decoder_alone(tiny_pairs: Path) -> None:
    alone, masked, both = (
        compose(("flag", {"task": task, "decoder": {"width": 64}} if task != "masked-lm" else {"task": task})).spec
        for task in ("language-model", "masked-lm", "transduce")
    )
    assert set(_scaled_widths(alone, 128, 2)) == {"decoder.width"}
    assert set(_scaled_widths(masked, 128, 2)) == {"encoder.width"}
    assert set(_scaled_widths(both, 128, 2)) == {"encoder.width", "decoder.width"}


def test_a_variant_that_no_width_can_match_is_refused_with_the_nearest_count(tiny_pairs: Path) -> None:
    plan = plan_of(tiny_pairs, ["embed.width=16,4000"], match=True)
    refused = [c.refused for c in plan.combinations]
    assert refused[0] == ""
    assert "no width gives" in refused[1]


@pytest.mark.parametrize("wanted", [1, 5, 49, 50, 64, 1000])
def test_nearest_returns_the_n_with_the_closest_count(wanted: int) -> None:
    best = min(range(1, 21), key=lambda n: (abs(n * n - wanted), n))
    assert nearest(lambda n: n * n, wanted, 20) == best


# refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "what"), [
    ({"vary": ["decoder.cell=lstm,lsmt"]}, "'lsmt' is not known; did you mean 'lstm'"),
    ({"vary": ["decoder.cel=lstm,gru"]}, "no such setting in decoder"),
    ({"vary": ["train.dropout=0.1,2"]}, "less than 1"),
    ({"vary": ["decoder.cell=gru"], "variants": {"a": {}}}, "`vary` and `variants` are both given"),
    ({"vary": [], "variants": {"a": {"train.seed": 3}}}, "the same for all"),
    ({"seeds": 0}, "at least one seed is needed"),
    ({"budget": "2Mtokens"}, "tokens and --steps"),
    ({"steps": None, "epochs": 1.0, "budget": "2Mtokens"}, "tokens and --epochs"),
    ({"budget": "5m"}, "cannot be given together"),
    ({"vary": ["encoder.width=16,32"], "match_parameters": True}, "cannot be varied while --match-parameters"),
    ({"settings": {"decoder.cell": "lsmt"}}, "'lsmt' is not known"),
    ({"vary": ["embed.positions=rotary,alibi"]}, "every variant is impossible"),
])  # fmt: skip
def test_mistakes_are_refused_before_anything_is_trained(
    tiny_pairs: Path, tmp_path: Path, more: dict[str, Any], what: str
) -> None:
    with pytest.raises(UserError, match=what) as error:
        compare(tiny_pairs, tmp_path / "out", **more)
    assert error.value.where
    assert error.value.todo
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("metric", ["loss", "accuracy"])
@pytest.mark.parametrize("vary", ["target.tokens=characters,bytes", "target.size=400,500"])
def test_a_metric_per_symbol_is_refused_where_the_symbols_vary(
    weft: Weft, tiny_pairs: Path, metric: str, vary: str
) -> None:
    done = weft("compare", tiny_pairs, "--out", "out", "--steps", 2, "--set", f"train.select={metric}", "--vary", vary)
    refused(
        done,
        f"train.select={metric} is measured per token, but the tokens would differ between the runs",
        f"--vary {vary.split('=')[0]}\n",
        "--set train.select=exact, cer, token_error_rate, bleu, chrf, rouge1, rouge2 or rougeL",
    )
    assert not Path("out").exists()


def test_varying_symbols_can_be_compared_by_metrics_of_whole_outputs(tiny_pairs: Path) -> None:
    plan = plan_of(tiny_pairs, ["target.tokens=characters,bytes"], settings={**SMALL, "train.select": "cer"})
    assert not any(c.refused for c in plan.combinations)
    plan = plan_of(tiny_pairs, ["source.tokens=characters,bytes"], settings={**SMALL, "train.select": "loss"})
    assert not any(c.refused for c in plan.combinations)


def test_pairs_from_stdin_and_no_pairs_are_refused(tmp_path: Path) -> None:
    for given, what in (("-", "stdin can be read only once"), ((), "no pairs are given")):
        with pytest.raises(UserError, match=what) as error:
            compare_settings(given, vary=["decoder.cell=gru,lstm"], reporter=Quiet())
        assert error.value.where.startswith("PAIRS")


def test_a_folder_of_something_else_is_refused(tiny_pairs: Path, tmp_path: Path, tiny_run: Any) -> None:
    with pytest.raises(UserError, match="holds a run, not a comparison"):
        compare(tiny_pairs, tiny_run.path)
    (tmp_path / "mine.txt").write_text("a")
    with pytest.raises(UserError, match="not empty"):
        compare(tiny_pairs, tmp_path)


def test_a_comparison_refuses_several_processes(
    tiny_pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="in one process"):
        compare(tiny_pairs, tmp_path / "out")


def test_another_comparison_in_the_folder_is_refused_with_the_difference(tiny_pairs: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("ab\tba\n")
    compare(tiny_pairs, tmp_path / "out", seeds=2)
    for more, difference in (
        ({}, "it has 2 seeds, and this command has 1 seed instead"),
        ({"seeds": 3, "steps": 3}, "it has train.steps=2, 2 seeds, and this command has train.steps=3, 3 seeds"),
        ({"tests": {"short": test}}, "this command has 1 seed, test set short"),
        ({"steps": 3}, "it has train.steps=2, "),
        ({"vary": ["decoder.cell=gru"]}, "it has elman, "),
        ({"match_parameters": True}, "this command has 1 seed, --match-parameters"),
    ):
        with pytest.raises(UserError, match="a different comparison") as error:
            compare(tiny_pairs, tmp_path / "out", **more)
        assert difference in error.value.what
        assert "--out" in error.value.todo
    (tmp_path / "out" / "comparison.json").write_text("{")
    with pytest.raises(UserError, match="plan of this comparison cannot be read"):
        compare(tiny_pairs, tmp_path / "out")


# stopping and resuming -----------------------------------------------------------------------------------------------


def test_a_finished_comparison_is_not_trained_again(tiny_pairs: Path, tmp_path: Path) -> None:
    first = compare(tiny_pairs, tmp_path / "out")
    weights = (tmp_path / "out" / "runs" / "gru-s1" / "best" / "weights.safetensors").stat()
    again = compare(tiny_pairs, tmp_path / "out")
    assert again.results == first.results
    assert (tmp_path / "out" / "runs" / "gru-s1" / "best" / "weights.safetensors").stat() == weights
    assert len(lines_of(tmp_path / "out" / "results.jsonl")) == 2


def test_more_seeds_are_added_to_those_that_were_trained(tiny_pairs: Path, tmp_path: Path) -> None:
    compare(tiny_pairs, tmp_path / "out")
    done = compare(tiny_pairs, tmp_path / "out", seeds=2)
    assert sorted((r.cell, r.seed) for r in done.results) == [("elman", 1), ("elman", 2), ("gru", 1), ("gru", 2)]
    assert len(lines_of(tmp_path / "out" / "results.jsonl")) == 4
    assert [row.seeds for row in done.rows] == [2, 2]


def test_a_half_written_result_is_dropped_and_its_run_scored_again(tiny_pairs: Path, tmp_path: Path) -> None:
    first = compare(tiny_pairs, tmp_path / "out")
    file = tmp_path / "out" / "results.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    again = compare(tiny_pairs, tmp_path / "out")
    assert {(r.cell, r.score) for r in again.results} == {(r.cell, r.score) for r in first.results}
    assert len(lines_of(file)) == 2


def test_a_comparison_of_an_earlier_version_is_resumed(tiny_pairs: Path, tmp_path: Path) -> None:
    first = compare(tiny_pairs, tmp_path / "out")
    file = tmp_path / "out" / "comparison.json"
    plan = json.loads(file.read_text(encoding="utf-8"))
    plan["asked"], plan["cells"] = plan.pop("request"), plan.pop("combinations")
    for cell in plan["cells"]:
        cell["variant"]["places"] = cell["variant"].pop("value_indices")
    file.write_text(json.dumps(plan), encoding="utf-8")
    assert compare(tiny_pairs, tmp_path / "out") == first


def test_missing_outputs_are_an_error_that_says_how_to_restore_them(tiny_pairs: Path, tmp_path: Path) -> None:
    compare(tiny_pairs, tmp_path / "out")
    (tmp_path / "out" / "runs" / "gru-s1" / "outputs.jsonl").unlink()
    with pytest.raises(UserError, match="outputs of this run cannot be read") as error:
        compare(tiny_pairs, tmp_path / "out")
    (tmp_path / "out" / "results.jsonl").unlink()
    assert "results.jsonl" in error.value.todo
    assert compare(tiny_pairs, tmp_path / "out").rows[0].score is not None


def test_ctrl_c_between_runs_says_how_to_resume(
    tiny_pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = runs.run_job, []

    def second_is_stopped(job: Any, reporter: Any) -> Path:
        calls.append(job)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(job, reporter)

    monkeypatch.setattr(runs, "run_job", second_is_stopped)
    with pytest.raises(Interrupted, match="1 of 2 runs are done") as error:
        compare(tiny_pairs, tmp_path / "out")
    assert "same command" in error.value.todo
    assert {r.status for r in compare(tiny_pairs, tmp_path / "out").results} == {"done"}
    assert len(calls) == 3


def started(pairs: Path, out: Path) -> Started:
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    budget = ["--steps", 60, "--seeds", 1, "--set", "train.evaluations=6"]
    vary = ["--vary", "decoder.cell=gru,elman"]
    return Started(out.with_name(f"{out.name}-streams"), "compare", pairs, "--out", out, *vary, *settings, *budget)


@pytest.mark.slow
def test_a_comparison_that_was_killed_and_resumed_has_the_results_of_one_that_was_not(
    tiny_pairs: Path, tmp_path: Path
) -> None:
    started(tiny_pairs, tmp_path / "whole").finish()
    out = tmp_path / "killed"
    process = started(tiny_pairs, out)
    process.wait_for((out / "runs" / "gru-s1" / "last").exists)
    process.kill()
    process = started(tiny_pairs, out)
    process.wait_for((out / "runs" / "elman-s1" / "last").exists)
    process.terminate()
    assert process.end() == 130
    assert "run the same command again" in process.errors
    assert "gru" in started(tiny_pairs, out).finish().out
    whole, killed = (lines_of(folder / "results.jsonl") for folder in (tmp_path / "whole", out))
    assert [without_clocks(line) for line in killed] == [without_clocks(line) for line in whole]


def without_clocks(line: dict[str, Any]) -> dict[str, Any]:
    """A result without the fields that depend on the clock, but with the scores of its curve."""
    rest = {name: value for name, value in line.items() if name not in CLOCKS}
    return {**rest, "scores": [score for _, score in line["curve"]]}


# failures ------------------------------------------------------------------------------------------------------------


def test_an_impossible_variant_is_in_the_table_with_its_reason(tiny_pairs: Path, tmp_path: Path) -> None:
    vary = ["bridge.kind=zeros,last", "decoder.attention.score=none,dot"]
    done = compare(tiny_pairs, tmp_path / "out", vary=vary)
    heads, rows = done.table()
    assert heads[-1] == "note"
    assert rows[-1][:3] == ["✗", "zeros", "none"]
    assert "no access to the source; choose" in rows[-1][-1]
    assert [row[0] for row in rows] == ["1", "2", "3", "✗"]
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "no access to the source" in page
    assert lines_of(tmp_path / "out" / "results.jsonl")[0]["status"] == "impossible"


def test_a_failed_run_does_not_stop_the_others_and_is_tried_again(
    tiny_pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = runs.run_job

    def no_gru(job: Any, reporter: Any) -> Path:
        if job.flag_layer["decoder"]["cell"] == "gru":
            raise RuntimeError("not enough memory")
        if job.flag_layer["decoder"]["cell"] == "lstm":
            raise WeftError("training stopped at step 1: the loss is nan", "here", "there")
        return real(job, reporter)

    monkeypatch.setattr(runs, "run_job", no_gru)
    done = compare(tiny_pairs, tmp_path / "out", vary=["decoder.cell=gru,lstm,elman"])
    assert [row.name for row in done.rows] == ["elman", "gru", "lstm"]
    assert "RuntimeError: not enough memory" in done.rows[1].reason
    assert "the loss is nan" in done.rows[2].reason
    monkeypatch.setattr(runs, "run_job", real)
    again = compare(tiny_pairs, tmp_path / "out", vary=["decoder.cell=gru,lstm,elman"])
    assert {r.status for r in again.results} == {"done"}


def test_it_is_an_error_if_every_run_fails(tiny_pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(job: Any, reporter: Any) -> Path:
        raise RuntimeError("no luck")

    monkeypatch.setattr(runs, "run_job", fails)
    with pytest.raises(WeftError, match="every run of the comparison failed: RuntimeError: no luck") as error:
        compare(tiny_pairs, tmp_path / "out")
    assert error.value.exit_code == 1


def test_a_loss_that_is_no_number_fails_one_run_only(
    tiny_pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.learn import loop

    real = loop.clip_gradient
    diverging = lambda m, clip: torch.tensor(torch.nan) if "Gru" in repr(m) else real(m, clip)  # noqa: E731
    monkeypatch.setattr(loop, "clip_gradient", diverging)
    done = compare(tiny_pairs, tmp_path / "out")
    assert [row.name for row in done.rows] == ["elman", "gru"]
    assert "its gradient nan" in done.rows[1].reason
    assert done.table()[1][1][-1].startswith("1 run failed: training stopped")


# the table -----------------------------------------------------------------------------------------------------------


def systems(rates: Sequence[Sequence[float]], count: int = 400) -> list[list[Any]]:
    """Return the line statistics of systems that are right at these rates, one rate per training."""
    draw = random.Random(1)
    wanted = ["x"] * count
    outputs = [[["x" if draw.random() < rate else "y" for _ in wanted] for rate in trainings] for trainings in rates]
    return [[table_of()["exact"].numbers(lines, [[t] for t in wanted]) for lines in trainings] for trainings in outputs]


def test_a_clearly_worse_system_is_marked_and_an_equal_one_is_not() -> None:
    best, near, far = standings(systems([[0.8, 0.81], [0.79, 0.8], [0.5, 0.52]]), table_of()["exact"], samples=1000)
    assert best.p == 1.0
    assert near.p > 0.05
    assert far.p < 0.01
    assert best.low < best.mean < best.high
    assert best.mean == pytest.approx(80.5, abs=3)


def test_among_many_systems_the_highest_significance_can_be_reached() -> None:
    best, *others = standings(systems([[0.9], *([0.3 + 0.01 * i] for i in range(5))]), table_of()["exact"])
    assert best.p == 1.0
    assert max(other.p for other in others) < 0.001


def test_trainings_that_differ_widen_the_interval() -> None:
    steady, shaky = standings(systems([[0.5, 0.5, 0.5], [0.2, 0.5, 0.8]]), table_of()["exact"], samples=1000)
    assert shaky.high - shaky.low > 2 * (steady.high - steady.low)


def test_the_lowest_is_the_best_by_an_error_rate() -> None:
    cer = table_of()["cer"]
    right, wrong = standings([[cer.numbers([output] * 50, [["ab"]] * 50)] for output in ("ab", "ba")], cer, samples=500)
    assert (right.mean, wrong.mean) == (0.0, 100.0)
    assert (right.p, wrong.p < 0.05) == (1.0, True)


def test_a_single_system_is_the_best() -> None:
    assert standings(systems([[0.5]]), table_of()["exact"], samples=100)[0].p == 1.0


def test_p_values_are_corrected_for_their_number() -> None:
    assert holm([]) == []
    assert holm([0.04]) == [0.04]
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0]


def forge(folder: ComparisonFolder, right: Mapping[str, Sequence[int]]) -> None:
    """Replace the outputs and results of finished runs: of 100 pairs so many are right, by variant and seed."""
    results = folder.results()
    folder.results_file.unlink()
    for result in results:
        count = right[result.cell][result.seed - 1]
        rows = [{"source": "a", "target": "b", "output": "b" if i < count else "c"} for i in range(100)]
        run = folder.run(result.cell, result.seed)
        run.write("outputs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        folder.add(replace(result, score=float(count), metric="exact"))


def forged(pairs: Path, out: Path, right: Mapping[str, Sequence[int]]) -> Compared:
    """Return a comparison of cells whose runs have these scores."""
    vary, seeds = [f"decoder.cell={','.join(right)}"], len(next(iter(right.values())))
    compare(pairs, out, vary=vary, seeds=seeds)
    forge(ComparisonFolder(out), right)
    return compare(pairs, out, vary=vary, seeds=seeds)


def test_variants_are_ranked_by_their_mean_and_marked_against_the_first(tiny_pairs: Path, tmp_path: Path) -> None:
    done = forged(tiny_pairs, tmp_path / "out", {"gru": (30, 31), "elman": (90, 92), "lstm": (89, 90)})
    assert [row.name for row in done.rows] == ["elman", "lstm", "gru"]
    assert [row.mark for row in done.rows] == ["tied", "tied", "***"]
    assert done.rows[0].score == 91.0
    headings, rows = done.table()
    assert headings == ["", "cell", "exact", "95 %", "", "parameters", "tokens/s", "time", "seeds"]
    assert rows[0][:3] == ["1", "elman", "91.00"]
    assert "<td>elman</td>" in done._repr_html_()


def page_of(done: Compared) -> str:
    return (done.path / "README.md").read_text(encoding="utf-8")


def test_a_variant_that_is_ahead_by_more_than_chance_is_the_best(tiny_pairs: Path, tmp_path: Path) -> None:
    done = forged(tiny_pairs, tmp_path / "out", {"gru": (30,), "elman": (90,)})
    assert [row.mark for row in done.rows] == ["best", "***"]
    assert done.best is done.rows[0]
    assert done.leaders == [done.best]
    assert "Best: **elman**, exact 90.00." in page_of(done)


def test_no_variant_is_called_the_best_within_chance_of_another(tiny_pairs: Path, tmp_path: Path) -> None:
    done = forged(tiny_pairs, tmp_path / "out", {"gru": (50,), "elman": (52,)})
    assert [row.mark for row in done.rows] == ["tied", "tied"]
    assert done.best is None
    assert [row.name for row in done.leaders] == ["elman", "gru"]
    assert "Best:" not in page_of(done)
    assert "**elman** (52.00), **gru** (50.00)" in page_of(done)


@pytest.mark.parametrize("score", [0, 50, 100])
def test_no_variant_is_called_the_best_among_equals(tiny_pairs: Path, tmp_path: Path, score: int) -> None:
    done = forged(tiny_pairs, tmp_path / "out", {"gru": (score,), "elman": (score,)})
    assert done.best is None
    assert [row.mark for row in done.rows] == ["tied", "tied"]
    assert "best" not in [text for row in done.table()[1] for text in row]
    assert f"all have exact {score:.2f}" in page_of(done)
    losses = [row.results[0].valid.metrics["loss"] for row in done.rows if row.results[0].valid]
    assert losses == sorted(losses)


def test_a_single_variant_is_not_better_than_others(tiny_pairs: Path, tmp_path: Path) -> None:
    done = forged(tiny_pairs, tmp_path / "out", {"gru": (50,)})
    assert done.best is None
    assert [row.mark for row in done.rows] == [""]
    assert "Only **gru** has results: exact 50.00." in page_of(done)


@pytest.mark.parametrize("metric", ["accuracy", "loss"])
def test_loss_and_accuracy_are_compared_by_blocks_of_pairs(tiny_pairs: Path, tmp_path: Path, metric: str) -> None:
    done = compare(tiny_pairs, tmp_path / "out", settings={**SMALL, "train.select": metric})
    assert done.metric == metric
    for row in done.rows:
        result = row.results[0]
        assert result.valid is not None
        assert row.score == pytest.approx(result.valid.metrics[metric], rel=1e-4)
        assert row.low is not None
        assert row.low < row.score < row.high


@pytest.fixture(scope="module")
def two_models(tiny_pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> weft.Run:
    """A run of two models, trained until their losses differ clearly."""
    out, settings = tmp_path_factory.mktemp("two") / "run", {**SMALL, "train.members": 2, "train.rate": 0.02}
    return weft.train(tiny_pairs, out=out, steps=80, settings=settings, reporter=Quiet())


@pytest.mark.parametrize("metric", ["accuracy", "loss"])
def test_loss_and_accuracy_are_those_of_all_members_together(two_models: weft.Run, metric: str) -> None:
    pairs = [pair for pair in (Pair(*pair) for pair in made_up_pairs(300)) if len(pair.source) == 6]
    together = two_models.evaluate(pairs)[metric]
    scores, _ = score_run(two_models, pairs, metric, "characters")
    total, count = (sum(numbers) for numbers in zip(*scores.blocks))
    assert total / count * (100 if metric == "accuracy" else 1) == pytest.approx(together, rel=1e-4)
    (all_of_them,) = scores.lengths
    assert all_of_them.score == pytest.approx(together, rel=1e-4)
    alone = Predictor.load(two_models.path, alone=True).teacher_forced(pairs)[metric]
    assert alone != pytest.approx(together, rel=1e-3)


def test_every_reference_counts_in_scores_and_in_the_ranking(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"source": word, "target": [back, word]} for word, back in made_up_pairs(80)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = compare(path, tmp_path / "out", valid=path, settings={**SMALL, "train.select": "cer"})
    outputs, references = read_outputs(ComparisonFolder(tmp_path / "out").run("gru", 1))
    assert references == [row["target"] for row in rows]
    row = next(row for row in done.rows if row.name == "gru")
    assert row.score == pytest.approx(table_of()["cer"].corpus(outputs, references))
    assert row.score == pytest.approx(row.results[0].score)


def test_results_hold_the_settings_and_scores_of_each_run(tiny_pairs: Path, tmp_path: Path) -> None:
    compare(tiny_pairs, tmp_path / "out", steps=4)
    line = lines_of(tmp_path / "out" / "results.jsonl")[0]
    assert (line["cell"], line["seed"], line["settings"]) == ("gru", 1, {"decoder.cell": "gru"})
    assert line["parameters"] > 0
    assert line["tokens_per_second"] > 0
    assert line["steps"] == 4
    assert len(line["curve"]) == 2
    assert sum(length["pairs"] for length in line["valid"]["lengths"]) == line["valid"]["pairs"]
    outputs = lines_of(tmp_path / "out" / line["run"] / "outputs.jsonl")
    assert len(outputs) == line["valid"]["pairs"]
    assert set(outputs[0]) == {"source", "target", "output"}


def test_named_variants_are_scored_on_further_test_files_by_length(tiny_pairs: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.tsv"
    long.write_text("".join(f"{'ab' * n}\t{'ba' * n}\n" for n in range(1, 31)), encoding="utf-8")
    variants = {"with attention": {}, "without": {"decoder.attention.score": "none"}}
    done = compare(tiny_pairs, tmp_path / "out", vary=(), variants=variants, tests={"long words": long})
    assert {row.label for row in done.rows} == set(variants)
    tested = done.results[0].tests["long words"]
    assert tested.pairs == 30
    assert tested.lengths[-1].high == 60
    assert (tmp_path / "out" / "score-length-long-words.png").exists()
    assert (tmp_path / "out" / "runs" / "without-s1" / "outputs-long-words.jsonl").exists()
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "## Other test sets" in page
    assert "variant" in done.table()[0]


ORDERS_OF_IMPORT = (
    "import weft; package = weft.compare; import weft.compare.compare",
    "import weft.compare.compare; import weft; package = weft.compare",
    "from weft.compare.plan import Request; import weft; package = weft.compare",
    "from weft import compare as package; import weft",
    "from weft import *; package = compare; import weft",
)
ONE_BY_ONE = """
import os, sys, torch
for code in sys.argv[1:]:
    if os.fork() == 0:
        try:
            exec(code)
        except Exception as error:
            print(type(error).__name__, error.args, flush=True)
        os._exit(0)
    os.wait()
"""


def test_the_package_can_be_called_whatever_is_imported_first() -> None:
    checks = (
        "import sys; assert package is weft.compare is sys.modules['weft.compare'], package; "
        "assert 'vary' in __import__('inspect').signature(package).parameters; "
        "assert weft.compare_settings is weft.compare.compare.compare; "
        "weft.compare('missing.tsv', vary=['decoder.cell=gru,gru'])"
    )
    codes = [f"{code}; {checks}" for code in ORDERS_OF_IMPORT]
    ran = subprocess.run([sys.executable, "-c", ONE_BY_ONE, *codes], capture_output=True, text=True, check=True)
    message = "the values of decoder.cell are not all different: gru, gru"
    assert [line.partition(message)[0] for line in ran.stdout.splitlines()] == ["UserError ('"] * len(codes)


def test_the_python_face_is_listed_and_compare_loads_torch_only_when_it_is_called() -> None:
    assert {"train", "load", "compare"} <= set(dir(weft))
    code = "import sys, weft; assert callable(weft.compare); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pairs_can_be_given_in_python(tmp_path: Path) -> None:
    words = ["".join(random.Random(i).choices("abcd", k=4)) for i in range(120)]
    pairs = [weft.Pair(word, word.upper(), tag="up") for word in words]
    done = weft.compare(
        pairs, vary={"decoder.cell": ["gru", "elman"]}, out=tmp_path / "out", steps=2, seeds=1, settings=SMALL,
        reporter=Quiet(),
    )  # fmt: skip
    assert isinstance(done, weft.Compared)
    assert len(done.results) == 2


def test_the_page_shows_the_table_the_pictures_and_the_shared_settings(tiny_pairs: Path, tmp_path: Path) -> None:
    compare(tiny_pairs, tmp_path / "out", command="weft compare a.tsv")
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    for text in ("| cell |", "score-time.png", "score-length.png", "| train.rate |", "weft compare a.tsv", "2 steps"):
        assert text in page
    assert "| decoder.cell |" not in page


# length and pictures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [
    [1] * 30,
    list(range(1, 101)) * 3,
    [5] * 500 + [300],
    [0, 3, 3, 4],
    [7],
])  # fmt: skip
def test_length_classes_hold_every_pair_once_and_at_least_ten_pairs_each(lengths: list[int]) -> None:
    classes = length_classes(lengths)
    counts = [sum(low <= n <= high for n in lengths) for low, high in classes]
    assert sum(counts) == len(lengths)
    assert len(classes) == 1 or min(counts) >= 10
    assert len(classes) <= 10
    assert all(before[1] < after[0] for before, after in pairwise(classes))


def test_the_mean_curve_is_of_times_that_all_seeds_have_reached() -> None:
    mean = mean_curve([[(1.0, 0.0), (3.0, 2.0)], [(2.0, 3.0), (4.0, 5.0)]])
    assert (mean[0][0], mean[-1][0]) == (2.0, 3.0)
    assert mean[0][1] == pytest.approx(2.0)
    assert mean_curve([[(1.0, 5.0)]]) == [(1.0, 5.0)]
    assert mean_curve([]) == []
    assert mean_curve([[(1.0, 2.0)], [(3.0, 4.0)]]) == [(2.0, 3.0)]


def test_colours_follow_the_first_setting_and_strokes_the_second() -> None:
    assert look_of((0, 1)).colour == look_of((0, 0)).colour
    assert look_of((0, 1)).stroke != look_of((0, 0)).stroke
    assert look_of((0, 0, 1)).marker != look_of((0, 0, 0)).marker
    assert look_of((11,)) != look_of((1,))
    assert [_clock(seconds) for seconds in (2.5, 60, 140, 7200)] == ["2.5 s", "1 min", "2m20s", "2 h"]
    lines = [Line("", indices, ()) for indices in ((0, 1, 0), (0, 1, 1))]  # the first two keys have one value
    assert len({look.colour for look in looks_of(lines)}) == 2


@pytest.mark.usefixtures("rendered")
def test_pictures_are_drawn_of_one_line_of_many_and_of_none(tmp_path: Path) -> None:
    many = [Line(f"variant {i}", (i % 4, i // 4), (((1.0, i), (2.0, 2.0 * i)),) * 2) for i in range(12)]
    for name, lines in (("many", many), ("one", [Line("$a_b$", (0,), (((0.0, 1.0),),))]), ("none", [])):
        draw_score_time(lines, tmp_path / f"{name}-time.png", "exact")
        draw_score_length(lines, [("1–2", 10), ("3–4", 3)], tmp_path / f"{name}-length.png", "cer", "words", "a title")
        for kind in ("time", "length"):
            height, width = imread(tmp_path / f"{name}-{kind}.png").shape[:2]
            assert (width, height) == (1100, 594)


def test_negative_scores_lie_within_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Any] = []
    monkeypatch.setattr("weft.look.compared.save", lambda figure, path: figures.append(figure))
    lines = [Line("a", (0,), (((0.0, -61.5), (1.0, -72.0)),))]
    draw_score_length(lines, [("1–2", 10), ("3–4", 3)], Path("drawn.png"), "nll", "length (steps)")
    low, high = sorted(figures[0].axes[0].get_ylim())
    assert low <= -72
    assert -61.5 <= high < 0


# what people see -----------------------------------------------------------------------------------------------------


class Recorder(Quiet):
    """A display that keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def begin(self, title: str) -> None:
        self.lines.append(title)

    say = note = begin


def test_the_reporter_shows_what_is_impossible_begins_and_ends(tiny_pairs: Path) -> None:
    plan = plan_of(tiny_pairs, ["bridge.kind=zeros,last", "decoder.attention.score=none,dot"], seeds=2)
    first, second, _ = plan.possible
    display = Recorder()
    reporter = ComparisonReporter(display, plan, [])
    reporter.start()
    assert display.lines[0] == "3 combinations × 2 seeds = 6 runs"
    assert display.lines[1].startswith("impossible: zeros, score none: ")
    reporter.begin(first, 1)
    assert display.lines[-1] == f"run 1 of 6: {first.label}, seed 1"
    reporter.end(Result(first.name, 1, "done", {}, metric="exact", score=12.5, parameters=1000))
    assert display.lines[-1] == "  exact 12.50, 0s, 0 tokens/s, 1,000 parameters"
    reporter.begin(second, 1)
    assert display.lines[-1].startswith("run 2 of 6 · about ")
    reporter.end(Result(second.name, 1, "done", {}, metric="exact", score=12.5))
    assert "leading so far" not in display.lines[-1]  # equal
    reporter.end(Result(second.name, 2, "done", {}, metric="exact", score=20.0))
    assert display.lines[-1].endswith(f" · leading so far: {second.label} 16.25")
    reporter.end(Result(first.name, 2, "failed", {}, reason="no memory"))
    assert display.lines[-1] == "  failed: no memory"


def test_a_note_of_the_runs_is_shown_once_and_shared_choices_are_not(tiny_pairs: Path) -> None:
    display = Recorder()
    reporter = ComparisonReporter(display, plan_of(tiny_pairs, ["decoder.cell=gru,elman"]), [])
    for text in ("a pair was skipped", "a pair was skipped", "chose train.rate = 0.001: it is usual"):
        reporter.note(text)
    assert display.lines == ["a pair was skipped"]


def test_the_headline_counts_the_runs_that_are_done(tiny_pairs: Path) -> None:
    plan = plan_of(tiny_pairs, ["decoder.cell=gru,elman"], seeds=2)
    display = Recorder()
    ComparisonReporter(display, plan, [Result("gru", 1, "done", {}, metric="exact", score=1.0)]).start()
    assert display.lines == ["2 combinations × 2 seeds = 4 runs; 1 is done"]


def test_plain_lines_report_each_run(tiny_pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare(
        tiny_pairs, tmp_path / "out", reporter=Plain(brief=True), settings=SMALL, vary=["embed.positions=none,rotary"]
    )
    shown = capsys.readouterr().err
    assert "note: chose train.select = exact for all" in shown
    assert "1 combination × 1 seed = 1 run" in shown
    assert "impossible: rotary: " in shown
    assert "run 1 of 1: positions none, seed 1" in shown
    assert "tokens/s" in shown
    assert "validation at step" not in shown


def test_the_command_line_prints_the_table_on_stdout_alone(
    tiny_pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from weft.cli.main import main

    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    words = ["compare", str(tiny_pairs), "--vary", "decoder.cell=gru,elman", "--steps", "2", "--seeds", "1", *settings]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["weft", *words])
    with pytest.raises(SystemExit) as end:
        main()
    shown = capsys.readouterr()
    assert end.value.code == 0, shown.err
    assert "tied" in shown.out
    assert "run 1 of 2" in shown.err
    assert "run 1 of 2" not in shown.out
    assert (tmp_path / "pairs-compare" / "README.md").exists()


def test_a_variants_layers_do_not_change_those_of_the_base(tiny_pairs: Path) -> None:
    request = Request((str(tiny_pairs),), (), {}, {"train": {"steps": 2}}, (), {})
    prepared = request.prepare()
    base = find_base(prepared.survey, None, {}, request.flag_layer, combinations({"decoder.cell": ["gru"]}))
    before = json.dumps(base.chosen.layer)
    layers_of(base, {"encoder.kind": "transformer"}).changed({"encoder.width": 8})
    assert json.dumps(base.chosen.layer) == before
    assert np.isfinite(base.spec.train.rate)


@pytest.mark.parametrize(
    "vary",
    [
        {"decoder.kind": ["recurrent", "transformer"]},
        {"bridge.kind": ["projected", "zeros"]},
        {"decoder.attention.score": ["none", "additive"]},
        {"decoder.attention.feed": [True, False]},
    ],
    ids=lambda vary: next(iter(vary)),
)
def test_choices_for_features_and_copying_do_not_prevent_a_comparison(
    vary: dict[str, list[Any]],
) -> None:
    data = survey([Pair(f"{i:05d}abcdefgh", f"{i:05d}abcdefg", features=("N", "PL")) for i in range(80)], 0)[0]
    variants = combinations(vary)
    base = find_base(data, None, {}, {}, variants)
    assert all(layers_of(base, variant.settings).compose() for variant in variants)
