"""Metrics against sacrebleu and hand-made numbers; the bootstrap against what it must say in clear cases."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from sacrebleu.metrics import BLEU, CHRF

import weft as package
from weft.cli.evaluate import evaluate
from weft.runs.log import LogFile
from weft.score.metrics import TABLES, table_of, with_current_names
from weft.score.significance import Comparison, interval, paired_bootstrap
from weft.score.table import Table
from weft.settings import compose
from weft.spec import MetricName

TABLE = table_of()
METRICS = {metric.name: metric for metric in TABLE.from_outputs}

TEXT = "the a cat dog sat ran on under mat, house. Über naïve 3.5 don't (so) — 猫 saw quickly"
WORDS = TEXT.split()


def spoiled(line: str, rate: float, rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) if rng.random() < rate else word for word in line.split())


def corpus(lines: int = 60, rate: float = 0.3, most: int = 1) -> tuple[list[str], list[list[str]]]:
    """Outputs and one to `most` references a line; `rate` is how often an output word is wrong."""
    rng = random.Random(lines)
    truths = [" ".join(rng.choices(WORDS, k=rng.randint(1, 12))) for _ in range(lines)]
    references = [[t] + [spoiled(t, 0.3, rng) + " extra" for _ in range(rng.randrange(most))] for t in truths]
    return [spoiled(t, rate, rng) for t in truths], references


def corpus_score(name: str, outputs: list[str], references: list[list[str]]) -> float:
    score = METRICS[name].corpus
    assert score is not None
    return score(outputs, references)


def test_exact_counts_outputs_that_equal_any_reference() -> None:
    assert corpus_score("exact", ["a", "b", "c", "d "], [["a"], ["x", "b"], ["x"], ["d"]]) == 50.0


def test_cer_is_edits_over_reference_characters() -> None:
    # kitten → sitting: 3 edits of 7; abc is right: 0 of 3
    assert corpus_score("cer", ["kitten", "abc"], [["sitting"], ["abc"]]) == pytest.approx(100 * 3 / 10)


def test_token_error_rate_is_edits_over_reference_tokens() -> None:
    # one phone wrong and one missing, of 4; one too many, of 2
    assert corpus_score("token_error_rate", ["K AE P", "D AO G"], [["K AH P S"], ["D AO"]]) == pytest.approx(
        100 * 3 / 6
    )


def test_token_error_rate_does_not_see_how_wide_the_spaces_are() -> None:
    assert corpus_score("token_error_rate", ["K  AE T "], [["K AE T"]]) == 0.0


def test_the_nearest_reference_gives_the_edits_and_the_length() -> None:
    assert corpus_score("cer", ["abcd"], [["zzzzzzzzzz", "abce"]]) == pytest.approx(100 * 1 / 4)


def test_the_order_of_equally_near_references_does_not_change_cer() -> None:
    assert corpus_score("cer", ["ab"], [["a", "abc"]]) == corpus_score("cer", ["ab"], [["abc", "a"]])
    assert corpus_score("cer", ["ab"], [["a", "abc"]]) == pytest.approx(100 / 3)


def test_empty_references_do_not_divide_by_zero() -> None:
    assert TABLE.score(["", ""], [[""], [""]])["cer"] == 0.0
    assert corpus_score("token_error_rate", ["a b"], [[""]]) == 200.0


def test_bleu_and_chrf_equal_sacrebleu_with_one_reference() -> None:
    outputs, references = corpus()
    stream = [[targets[0] for targets in references]]
    assert corpus_score("bleu", outputs, references) == BLEU().corpus_score(outputs, stream).score
    assert corpus_score("chrf", outputs, references) == CHRF().corpus_score(outputs, stream).score


def test_a_line_with_fewer_references_scores_as_if_its_own_were_repeated() -> None:
    # A repeated reference changes neither BLEU nor chrF, so this padding is an independent right answer.
    outputs, references = corpus(most=3)
    streams = [[targets[min(i, len(targets) - 1)] for targets in references] for i in range(3)]
    assert {len(targets) for targets in references} == {1, 2, 3}
    assert corpus_score("bleu", outputs, references) == BLEU().corpus_score(outputs, streams).score
    assert corpus_score("chrf", outputs, references) == CHRF().corpus_score(outputs, streams).score


def test_an_empty_reference_is_a_reference_and_not_a_missing_one() -> None:
    values = TABLE.score(["", "one two three four"], [["", "something"], ["one two three four"]])
    assert values == {
        "exact": 100.0,
        "cer": 0.0,
        "token_error_rate": 0.0,
        "bleu": pytest.approx(100),
        "chrf": pytest.approx(100),
        **dict.fromkeys(("rouge1", "rouge2", "rougeL"), 100.0),
    }


def test_score_has_all_metrics_under_their_own_names() -> None:
    assert list(TABLE.score(["a"], [["a"]])) == [
        *("exact", "cer", "token_error_rate", "bleu", "chrf", "rouge1", "rouge2", "rougeL")
    ]
    assert all(metric.name == name for name, metric in METRICS.items())


def test_right_outputs_score_best_by_every_metric() -> None:
    _, references = corpus()
    values = TABLE.score([targets[0] for targets in references], references)
    wanted = {name: 100.0 if metric.better == "higher" else 0.0 for name, metric in METRICS.items()}
    rouge = {name for name in values if name.startswith("rouge")}  # a line of one word has no pairs of words
    others = [name for name in values if name not in rouge]
    assert {name: values[name] for name in others} == pytest.approx({name: wanted[name] for name in others})


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    ("outputs", "references", "message"),
    [
        ([], [], "no outputs"),
        (["a"], [["a"], ["b"]], "1 outputs but 2 lists"),
        (["a", "b"], [["a"], []], "line 2: .*non-empty"),
        (["ab"], ["ab"], "line 1: .*list of strings, got 'ab'"),
    ],
)
def test_lines_that_cannot_be_scored_are_refused(
    name: str, outputs: list[str], references: list[list[str]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        corpus_score(name, outputs, references)
    with pytest.raises(ValueError, match=message):
        paired_bootstrap(outputs, outputs, references, METRICS[name])
    with pytest.raises(ValueError, match=message):
        interval(outputs, references, METRICS[name])


@pytest.mark.parametrize("name", TABLE)
def test_better_follows_the_direction_of_the_metric(name: str) -> None:
    higher = name in {"exact", "bleu", "chrf", "accuracy", "rouge1", "rouge2", "rougeL"}
    assert TABLE[name].is_better(2.0, 1.0) is higher
    assert TABLE[name].is_better(1.0, 2.0) is not higher
    assert not TABLE[name].is_better(1.0, 1.0)


@pytest.mark.parametrize("name", TABLE)
def test_nan_is_never_better_and_any_number_beats_none_and_nan(name: str) -> None:
    assert not TABLE[name].is_better(math.nan, None)
    assert not TABLE[name].is_better(math.nan, 1.0)
    assert not TABLE[name].is_better(math.nan, math.nan)
    assert TABLE[name].is_better(0.0, None)
    assert TABLE[name].is_better(0.0, math.nan)


def test_an_unknown_metric_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(KeyError, match="'blue' is not known; did you mean 'bleu'"):
        TABLE["blue"]


@pytest.mark.parametrize("name", [name for name, metric in TABLE.items() if not metric.from_outputs])
def test_what_the_model_measures_is_not_scored_from_outputs(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is measured by the model"):
        paired_bootstrap(["a"], ["a"], [["a"]], TABLE[name])
    with pytest.raises(ValueError, match=f"{name} is measured by the model"):
        TABLE[name].of_line("a", ["a"])


def test_every_metric_that_selects_a_checkpoint_is_a_setting_and_no_other() -> None:
    selecting = [metric.name for table in TABLES.values() for metric in table.values() if metric.selects]
    assert set(get_args(MetricName)) == set(selecting)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_an_alias_is_understood_everywhere_and_names_no_other_metric(table: Table) -> None:
    for metric in table.values():
        for alias in metric.aliases:
            assert alias not in set(table)
            assert table[alias] is metric
            assert compose(("flag", {"train": {"select": alias}})).spec.train.select == metric.name


def test_a_line_of_an_old_log_has_the_names_of_today() -> None:
    line = {"kind": "evaluation", "ter": 3.0, "cer": 1.0, "metric": "ter", "score": 3.0}
    wanted = {"kind": "evaluation", "token_error_rate": 3.0, "cer": 1.0, "metric": "token_error_rate", "score": 3.0}
    assert with_current_names(line) == wanted
    assert with_current_names({"kind": "report", "loss": 1.0}) == {"kind": "report", "loss": 1.0}


def test_a_log_of_an_earlier_version_is_read_with_the_names_of_today(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"kind": "final", "ter": 3.0, "metric": "ter"}\n', encoding="utf-8")
    assert LogFile(log).last() == LogFile(log).lines()[0]
    assert LogFile(log).last() == {"kind": "final", "token_error_rate": 3.0, "metric": "token_error_rate"}


def test_scores_with_aliases_have_each_value_under_both_names() -> None:
    assert TABLE.with_aliases({"token_error_rate": 2.0, "n": 3}) == {"token_error_rate": 2.0, "n": 3, "ter": 2.0}
    assert TABLE.with_aliases({"cer": 2.0}) == {"cer": 2.0}


@pytest.mark.parametrize("name", METRICS)
def test_the_score_of_a_line_is_that_of_a_corpus_of_one(name: str) -> None:
    output, references = "the cat sat on a mat", ["the cat sat on the mat", "a cat"]
    assert METRICS[name].of_line(output, references) == pytest.approx(corpus_score(name, [output], [references]))


def test_no_module_but_the_table_and_the_settings_lists_the_metrics() -> None:
    root = Path(package.__file__).parent
    files = {path for path in root.rglob("*.py") if path.parent.name not in ("score", "spec")}
    assert [
        str(path) for path in files if all(f'"{name}"' in path.read_text("utf-8") for name in ("cer", "chrf"))
    ] == []


def test_help_of_evaluate_names_every_metric() -> None:
    assert all(name in str(evaluate.__doc__) for name in TABLE)


def test_signatures_are_those_of_sacrebleu_for_the_same_references() -> None:
    outputs, references = corpus()
    stream = [[targets[0] for targets in references]]
    bleu, chrf = BLEU(), CHRF()
    bleu.corpus_score(outputs, stream)
    chrf.corpus_score(outputs, stream)
    signatures = TABLE.signatures(references)
    assert (signatures["bleu"], signatures["chrf"]) == (str(bleu.get_signature()), str(chrf.get_signature()))
    assert "nrefs:var" in TABLE.signatures(corpus(most=3)[1])["bleu"]


def test_signatures_without_references_do_not_guess_their_number() -> None:
    assert "tok:13a" in TABLE.signatures()["bleu"]
    assert all("nrefs" not in signature for signature in TABLE.signatures().values())


@pytest.mark.parametrize(
    ("references", "without"),
    [
        ([["four"], ["7 8 9"]], ["bleu"]),
        ([["four"], ["7"]], ["bleu", "rouge2"]),
        ([["one two, three"]], []),  # the comma is a token of BLEU
        ([["ab"], ["x", "one of these four"]], []),
        ([["три слова тут есть"]], ["rouge1", "rouge2", "rougeL"]),
    ],
)
def test_metrics_that_can_only_be_0_are_not_shown(references: list[list[str]], without: list[str]) -> None:
    assert TABLE.not_applicable(references) == without
    scores = {**TABLE.score([targets[-1] for targets in references], references), "not_applicable": without}
    assert [metric.name for metric, value in TABLE.present(scores) if value == 0 and metric.better == "higher"] == []


def test_importing_metrics_does_not_load_torch_or_sacrebleu() -> None:
    code = "import sys, weft.score.metrics; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"torch", "sacrebleu", "rapidfuzz", "numpy"} & set(done.stdout.split())


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_the_statistics_of_all_lines_give_the_corpus_metric(name: str, most: int, rate: float) -> None:
    outputs, references = corpus(rate=rate, most=most)
    outputs[3:6] = ["", "x", "  Q "]
    references[5:7] = [[""], ["y", ""]]
    found = paired_bootstrap(outputs, outputs[::-1], references, METRICS[name], samples=1)
    assert found.first == pytest.approx(corpus_score(name, outputs, references), abs=1e-9)
    assert found.second == pytest.approx(corpus_score(name, outputs[::-1], references), abs=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_a_single_line_gives_the_corpus_metric_and_no_width(name: str) -> None:
    outputs, references = ["the cat sat on a mat"], [["the cat sat on the mat", "a cat"]]
    value = pytest.approx(corpus_score(name, outputs, references))
    assert interval(outputs, references, METRICS[name], samples=5) == (value, value)


@pytest.mark.parametrize("name", METRICS)
def test_identical_systems_differ_by_nothing_and_p_is_one(name: str) -> None:
    outputs, references = corpus(most=2)
    value = pytest.approx(corpus_score(name, outputs, references))
    found = paired_bootstrap(outputs, list(outputs), references, METRICS[name], samples=50)
    assert found == Comparison(name, value, value, 0.0, 0.0, 0.0, 1.0)
    assert not found.significant


@pytest.mark.parametrize("name", METRICS)
def test_a_clearly_better_system_is_significant_and_the_interval_leaves_out_zero(name: str) -> None:
    good, references = corpus(rate=0.05)
    bad, _ = corpus(rate=0.6)
    found = paired_bootstrap(good, bad, references, METRICS[name])
    assert found.p < 0.01
    assert found.significant
    assert TABLE[name].is_better(found.first, found.second)
    assert found.low < found.difference < found.high
    assert found.low > 0 or found.high < 0


@pytest.mark.parametrize("name", METRICS)
def test_exchanging_the_systems_turns_the_difference_and_keeps_p(name: str) -> None:
    first, references = corpus(rate=0.25)
    second, _ = corpus(rate=0.3)
    there = paired_bootstrap(first, second, references, METRICS[name], samples=100)
    back = paired_bootstrap(second, first, references, METRICS[name], samples=100)
    assert back.p == there.p
    assert (back.difference, back.low, back.high) == pytest.approx((-there.difference, -there.high, -there.low))


def test_one_lucky_line_is_not_significant() -> None:
    references = [[str(i)] for i in range(100)]
    first = [str(i) for i in range(50)] + ["no"] * 50
    second = ["no", *first[1:]]
    found = paired_bootstrap(first, second, references, METRICS["exact"])
    assert found.difference == 1.0
    assert not found.significant


def test_the_interval_of_exact_is_close_to_the_binomial_one() -> None:
    references = [["a"]] * 400
    low, high = interval(["a"] * 100 + ["b"] * 300, references, METRICS["exact"], samples=4000)
    half = 100 * 1.96 * math.sqrt(0.25 * 0.75 / 400)
    assert (low, high) == pytest.approx((25 - half, 25 + half), abs=0.6)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    outputs, references = corpus()
    assert interval(outputs, references, METRICS["cer"], seed=1) == interval(
        outputs, references, METRICS["cer"], seed=1
    )
    assert interval(outputs, references, METRICS["cer"], seed=1) != interval(
        outputs, references, METRICS["cer"], seed=2
    )


def test_fewer_than_one_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="samples must be at least 1, got 0"):
        interval(["a"], [["a"]], METRICS["exact"], samples=0)


def test_the_metric_that_selects_is_always_shown() -> None:
    scores = {"exact": 0.0, "rouge1": 12.0, "rouge2": 3.0}
    assert "rouge1" not in TABLE.reported(scores)
    assert TABLE.reported(scores, selects="rouge1")["rouge1"] == "12.00"
