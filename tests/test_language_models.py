"""Language models, line by line: what they learn, how they are scored, and how they continue prompts."""

# B lines · T length · V symbols

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from commands import Weft, refused
from processes import Started
from weft.api import Run, load, train
from weft.core.kinds import Batch, Column
from weft.core.pair import Pair
from weft.core.shapes import Nothing, Symbols
from weft.core.trace import trace
from weft.data.prepare import Prepared
from weft.nn.assemble import assemble
from weft.nn.model import LanguageModel
from weft.runs.job import files_of
from weft.runs.report import Quiet
from weft.score.language import LANGUAGE_MODEL
from weft.score.table import Likelihood
from weft.search.decode import SearchPlan, decode
from weft.settings import compose

SMALL = {"decoder.width": 24, "embed.width": 24, "train.rate": 0.02, "train.evaluations": 2, "data.lines": True}
TRANSFORMER = {"decoder.kind": "transformer", "decoder.layers": 2, "decoder.heads": 2, "decoder.inner": 32}
FAMILIES: dict[str, dict[str, Any]] = {
    "lstm": {"decoder.cell": "lstm", "decoder.layers": 2},
    "gru": {"decoder.cell": "gru"},
    "transformer": {**TRANSFORMER, "embed.positions": "rotary"},
}
VOCABULARY = 9
each = pytest.mark.parametrize("name", FAMILIES)


def lines(count: int = 150, seed: int = 1) -> list[str]:
    """Words that count upwards from a letter: what comes next is nearly always certain."""
    draw = random.Random(seed)
    return ["abcdefgh"[(first := draw.randrange(4)) : first + draw.randint(3, 5)] for _ in range(count)]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("language") / "words.txt"
    path.write_text("\n".join(lines()) + "\n", encoding="utf-8")
    return path


def trained(text: Path, name: str, steps: int = 60, **more: Any) -> Run:
    settings = {**SMALL, "train.dropout": 0, **more}
    out = text.with_name(name)
    return train(text, task="language-model", out=out, steps=steps, settings=settings, reporter=Quiet(), seed=1)


@pytest.fixture(scope="module")
def run(text: Path) -> Run:
    return trained(text, "run")


def build(name: str) -> LanguageModel[Any]:
    torch.manual_seed(1)
    settings = {"task": "language-model", "decoder.width": 16, "embed.width": 16, **FAMILIES[name]}
    model = assemble(compose(("flag", settings)).spec, Nothing(), Symbols(VOCABULARY))
    assert isinstance(model, LanguageModel)
    return model.eval()


def batch_of(rows: list[list[int]]) -> Batch:
    return Batch.between(Column.of_nothing(len(rows)), Column.of_ids(rows))


# the model ---------------------------------------------------------------------------------------------------------


@each
def test_a_prompt_and_its_continuation_have_the_probabilities_of_the_whole_line(name: str) -> None:
    model, whole = build(name), [[4, 5, 6, 7, 8, 4], [5, 5, 8, 6, 4, 7]]
    log_probs = model(batch_of(whole)).log_probs  # (B, T, V)
    for known in range(5):
        state = model.begin(Column.of_labels([row[:known] for row in whole]))
        for place in range(known, 6):
            y = torch.tensor([row[place - 1] if place > known else 2 for row in whole])
            after, state = model.advance(y, state)
            torch.testing.assert_close(after, log_probs[:, place], atol=1e-5, rtol=1e-4)


@each
def test_nothing_later_and_no_padding_changes_a_prediction(name: str) -> None:
    model = build(name)
    short, other = model(batch_of([[4, 5, 6]])).logits, model(batch_of([[4, 5, 7, 8, 8], [4, 5, 6]])).logits
    torch.testing.assert_close(short[0], other[1, :4])
    torch.testing.assert_close(short[0, :2], other[0, :2])


@each
def test_a_continuation_does_not_depend_on_its_batch_mates(name: str) -> None:
    model, prompts = build(name), [[4, 5], [], [6, 7, 8], [8, 4], [5]]
    for plan in (
        SearchPlan(kind="greedy", continues=True, length=6),
        SearchPlan(kind="beam", width=3, continues=True, length=6),
        SearchPlan(kind="sample", continues=True, length=6, seed=3),
        SearchPlan(kind="sample", nbest=3, continues=True, length=6, seed=3),
    ):
        together = decode(model, prompts, plan, torch.device("cpu"))
        for line, prompt in enumerate(prompts):
            alone = decode(model, [prompt], plan, torch.device("cpu"), lines=[line])[0]
            assert [h.ids for h in alone] == [h.ids for h in together[line]], plan.kind


def test_the_states_of_a_recurrent_language_model_can_be_traced() -> None:
    with trace() as seen:
        build("lstm")(batch_of([[4, 5, 6]]))
    assert seen["decode.states"][0].shape == (1, 4, 16)


def test_the_prompt_of_another_line_is_never_attended_to() -> None:
    """Prompts of a batch are equally long, so that no model reads padding."""
    model = build("transformer")
    state = model.begin(Column.of_labels([[4, 5], [6, 7]]))
    both, _ = model.advance(torch.tensor([2, 2]), state)
    one, _ = model.advance(torch.tensor([2]), model.begin(Column.of_labels([[6, 7]])))
    torch.testing.assert_close(both[1], one[0])


# scores ------------------------------------------------------------------------------------------------------------


def test_perplexity_and_bits_are_those_of_the_equations() -> None:
    outputs = [Likelihood(3 * math.log(4), 3, True), Likelihood(1 * math.log(2), 1, False)]
    scores = LANGUAGE_MODEL.score(outputs, [["ab"], ["xyz"]])
    assert scores["perplexity"] == pytest.approx(math.exp((3 * math.log(4) + math.log(2)) / 4))
    assert scores["bits_per_character"] == pytest.approx((3 * 2 + 1) / (3 + 3))
    assert (scores["symbols"], scores["characters"]) == (4, 6)


def test_bits_per_character_do_not_depend_on_how_a_text_is_cut_into_tokens() -> None:
    """A fair coin for each character: by characters, or by pairs of them, which are one token of four."""
    characters, pairs = Likelihood(8 * math.log(2), 8, False), Likelihood(4 * math.log(4), 4, False)
    by_characters, by_pairs = (LANGUAGE_MODEL.score([output], [["abbabaab"]]) for output in (characters, pairs))
    assert by_characters["bits_per_character"] == pytest.approx(by_pairs["bits_per_character"]) == pytest.approx(1)
    assert by_pairs["perplexity"] == pytest.approx(4)


def test_the_perplexity_of_a_known_distribution_is_its_entropy(tmp_path: Path) -> None:
    draw = random.Random(1)
    path = tmp_path / "coins.txt"
    path.write_text("".join("".join(draw.choices("ab", [3, 1], k=20)) + "\n" for _ in range(400)), encoding="utf-8")
    bits = trained(path, "coins", steps=150).evaluate(path)["bits_per_character"]
    entropy = 20 / 21 * -(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25))  # the end of a line is certain
    assert bits == pytest.approx(entropy, rel=0.03)


def test_a_run_is_scored_by_the_probability_of_each_line(run: Run, text: Path, weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "scored.jsonl"
    result = json.loads(weft("evaluate", run.path, text, "--json", "--lines", file).out)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert result["n"] == len(rows) == 150
    assert (str(rows[0]["symbols"]), str(rows[0]["characters"])) == (str(len(lines()[0]) + 1),) * 2  # no 16.0
    assert "150 pieces" in weft("evaluate", run.path, text).out
    assert result["symbols"] == result["characters"] == sum(len(line) + 1 for line in lines())
    nats = -sum(row["log_prob"] for row in rows)
    assert result["loss"] == pytest.approx(nats / result["symbols"], abs=1e-4)
    assert result["perplexity"] == pytest.approx(math.exp(result["loss"]))
    assert result["bits_per_character"] == pytest.approx(nats / math.log(2) / result["characters"], abs=1e-4)
    assert result["bits_per_character"] < 1.2
    assert set(rows[0]) == {
        "target", "bits_per_character", "perplexity", "symbols", "characters", "loss", "log_prob",
    }  # fmt: skip


def test_an_unlikely_line_is_less_probable(run: Run) -> None:
    likely, unlikely = run.predictor.log_probs([Pair("", "abcd"), Pair("", "dbca")])
    assert likely > unlikely + 3


def test_two_runs_are_compared_line_by_line(run: Run, text: Path, weft: Weft) -> None:
    other = trained(text, "other", steps=4)
    result = json.loads(weft("evaluate", run.path, text, "--against", other.path, "--json").out)
    assert result["against"]["bits_per_character"]["high"] < 0
    assert "symbols" not in result["against"]


def test_scores_are_split_by_another_column(run: Run, text: Path, weft: Weft, tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("text\thalf\nabcd\tx\ndcba\ty\nbcde\tx\n", encoding="utf-8")
    by = json.loads(weft("evaluate", run.path, table, "--by", "half", "--json").out)["by"]
    assert by["x"]["n"] == 2
    assert by["x"]["bits_per_character"] < by["y"]["bits_per_character"]
    refused(weft("evaluate", run.path, text, "--by", "half"), "a plain text has no column")


# continuations -----------------------------------------------------------------------------------------------------


def test_prompts_are_continued_and_not_repeated(run: Run, weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("abc\n\ncde\n", encoding="utf-8")
    greedy = weft("predict", run.path, file, "--greedy").lines
    assert len(greedy) == 3
    assert greedy[0] == "" or "defgh".startswith(greedy[0])
    assert greedy[1], "an empty prompt is continued, too"
    assert weft("predict", run.path, file, "--beam", "3").code == 0
    sampled = weft("predict", run.path, file, "--sample", "--seed", "4", "--nbest", "3", "--format", "tsv").lines
    assert len(sampled) == 9
    assert len({line for line in sampled if line.startswith("abc\t")}) == 3
    usual = [weft("predict", run.path, file, "--seed", "4").out for _ in range(2)]  # sampling is what they do unasked
    assert usual[0] == usual[1] == weft("predict", run.path, file, "--sample", "--seed", "4").out
    long = weft("predict", run.path, file, "--sample", "--temperature", "50", "--length", "7").lines
    assert max(map(len, long)) <= 7


def test_a_prompt_of_unknown_characters_is_read_as_unknown(run: Run, weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("ÆØ\n", encoding="utf-8")
    done = weft("predict", run.path, file, "--greedy")
    assert (done.code, len(done.lines)) == (0, 1)
    assert "of the input never occur in the training data, so" in done.err


def test_prompts_may_be_a_column_of_a_table(run: Run, weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"id": 1, "text": "abc"}\n{"id": 2, "text": ""}\n', encoding="utf-8")
    plain = tmp_path / "prompts.txt"
    plain.write_text("abc\n\n", encoding="utf-8")
    outputs = [weft("predict", run.path, each, "--greedy").lines for each in (file, plain)]
    assert outputs[0] == outputs[1]


def test_several_models_continue_together(text: Path) -> None:
    both = trained(text, "both", steps=20, **{"train.members": 2})
    assert len(both.predictor.others) == 1
    assert len(both.predict(["abc", ""], search={"kind": "greedy"}).texts) == 2
    alone = [part.evaluate([Pair("", "abcd")])["loss"] for part in (load(both.path / "members/2"), both)]
    assert alone[0] != alone[1]


@pytest.mark.parametrize("tokens", ["bytes", "words", "bpe"])
def test_any_tokens_can_be_continued(tokens: str, text: Path) -> None:
    run = trained(text, tokens, steps=8, **{"target.tokens": tokens, "target.size": 300})
    scores = run.evaluate(text)
    assert scores["characters"] == sum(len(line) + 1 for line in lines())
    assert (scores["symbols"] == scores["characters"]) == (tokens == "bytes")
    assert len(run.predict(["abc", ""], search={"kind": "greedy", "length": 5}).texts) == 2


# data --------------------------------------------------------------------------------------------------------------


def test_the_column_may_be_named_or_the_only_one(tmp_path: Path, weft: Weft) -> None:
    rows = lines(60)
    (tmp_path / "one.tsv").write_text("".join(f"{line}\n" for line in rows), encoding="utf-8")
    (tmp_path / "named.csv").write_text("id,text\n" + "".join(f"{n},{r}\n" for n, r in enumerate(rows)), "utf-8")
    (tmp_path / "other.csv").write_text("id,word\n" + "".join(f"{n},{r}\n" for n, r in enumerate(rows)), "utf-8")
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"text": r, "by": "me"}) + "\n" for r in rows), "utf-8")
    for name, *flags in (("one.tsv",), ("named.csv",), ("other.csv", "--target", "word"), ("x.jsonl",)):
        done = weft("data", tmp_path / name, "--task", "language-model", *flags)
        assert done.code == 0, done.err
        assert "60 " in done.out
        assert ("60 pieces" in done.out, "pair" in done.out, "→" in done.out) == (True, False, False)
    done = weft("data", tmp_path / "other.csv", "--task", "language-model")
    refused(done, "which column is the target", "--target word")


def test_lines_are_held_out_from_the_end_of_a_text(run: Run) -> None:
    facts = run.folder.read_facts()
    assert facts["kept_aside"] == 10
    held_out = Prepared(files_of(run.spec, run.spec.data.pairs, ())).valid
    assert [pair.target for pair in held_out] == lines()[-10:]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--source", "1"), "has one column and no source"),
        (("--set", "bridge.kind=last"), "bridge cannot be used"),
        (("--set", "head.kind=copy"), "head.kind=copy cannot be used"),
        (("--set", "decoder.reverse=true"), "decoder.reverse=true cannot be used"),
        (("--set", "decoder.attention.score=dot"), "decoder.attention cannot be used"),
        (("--set", "source.kind=text"), "does not fit task=language-model"),
        (("--set", "train.select=bleu"), "choose one of bits_per_character, perplexity, loss"),
    ],
)
def test_what_needs_a_source_is_refused(flags: tuple[str, ...], said: str, text: Path, weft: Weft) -> None:
    base = ("train", text, "--task", "language-model", "--set", "data.lines=true", "--steps", "2")
    refused(weft(*base, "--out", text.with_name("never"), *flags), said)


def test_settings_of_other_tasks_do_not_know_lines(text: Path, weft: Weft) -> None:
    refused(weft("train", text, "--set", "data.lines=true", "--steps", "2"), "data.lines=true has no effect")


def test_nothing_is_decoded_where_a_language_model_is_evaluated(run: Run, text: Path, weft: Weft) -> None:
    refused(weft("evaluate", run.path, text, "--beam", "3"), "nothing is decoded", "--beam")


# resuming ----------------------------------------------------------------------------------------------------------


def test_a_language_model_that_is_killed_and_resumed_ends_with_the_same_weights(text: Path, tmp_path: Path) -> None:
    flags = [f"--set={key}={value}" for key, value in SMALL.items()]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    threads = str(torch.get_num_threads())
    process = Started(
        tmp_path / "streams", "train", text, "--task", "language-model", "--out", killed, "--steps", 300, *flags,
        "--set=train.evaluations=20", OMP_NUM_THREADS=threads,
    )  # fmt: skip
    process.wait_for(lambda: any((killed / "checkpoints").glob("step-*")))
    process.kill()
    assert not (killed / "README.md").exists(), "the run was over before it was killed: make it longer"
    train(out=killed, resume=True, reporter=Quiet())
    settings = {**SMALL, "train.evaluations": 20}
    train(text, task="language-model", out=whole, steps=300, settings=settings, reporter=Quiet())
    ours, theirs = (load_file(folder / "last" / "weights.safetensors") for folder in (killed, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(("flags", "metric"), [((), "bits_per_character"), (("--set", "target.tokens=bpe"), "loss")])
def test_language_models_are_compared_by_likelihood(
    flags: tuple[str, ...], metric: str, text: Path, weft: Weft, tmp_path: Path
) -> None:
    small = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    more = ("--set", "task=language-model", "--set", f"train.select={metric}", "--seeds", "1", "--steps", "3")
    done = weft("compare", text, "--vary", "decoder.cell=gru,lstm", "--out", tmp_path / "both", *more, *small, *flags)
    assert done.code == 0, done.err
    results = [json.loads(line) for line in (tmp_path / "both/results.jsonl").read_text().splitlines()]
    assert [line["valid"]["metrics"][metric] > 0 for line in results] == [True, True]
    assert results[0]["valid"]["lengths"][-1]["high"] == (1 if flags else 5), "of words, or of characters"
