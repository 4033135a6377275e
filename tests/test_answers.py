"""Answers that are selected from documents: reading, encoding, the model, windows, scores, and whole runs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import weft as package
from commands import Weft, refused
from resuming import resumed_copy, weights_of
from variants import ANSWERS as VARIANTS
from weft.api import Run
from weft.choose import choose
from weft.core.batching import batch_of
from weft.core.errors import UserError
from weft.core.kinds import Column
from weft.core.pair import OFFSET, Pair
from weft.core.shapes import Places, Shapes, Symbols
from weft.core.spans import Span as SpanEmission
from weft.data.cells import Kinds
from weft.data.columns import Columns
from weft.data.formats import Fault
from weft.data.pairs import ReadReport, read_pairs
from weft.data.prepare import Files, Prepared
from weft.data.sides.sides import Sides
from weft.data.sides.span import Span, in_windows, nearest_sentence, occurrences, sentences, span_cells
from weft.data.sides.table import side_from_json
from weft.data.text.tokens import learn
from weft.learn.model import model_of
from weft.learn.objectives import SpanLikelihood
from weft.runs.folder import RunFolder
from weft.runs.report import Quiet
from weft.score.answers import ANSWERS, f1
from weft.search.decode import SearchPlan
from weft.search.once import Inputs
from weft.search.spans import spans
from weft.settings import compose

SMALL: dict[str, Any] = {
    **{"encoder.width": 16, "embed.width": 16, "train.dropout": 0, "train.rate": 0.01, "train.evaluations": 2},
    "source.size": 400,
}
KINDS = Kinds("text", "span", "text")
COLUMNS = Columns(context="question")
NAMES, TOWNS = ["Ann", "Bob", "Cid", "Dan", "Eve"], ["Rome", "Oslo", "Bern", "Kiev", "Lima", "Riga"]


def questions(count: int = 60, seed: int = 1) -> list[dict[str, str]]:
    """Return documents that say who lives where, and a question about one of the people."""
    draw, rows = random.Random(seed), []
    for _ in range(count):
        people, towns = draw.sample(NAMES, 3), draw.sample(TOWNS, 3)
        document = " ".join(f"{who} lives in {town}." for who, town in zip(people, towns))
        at = draw.randrange(3)
        rows.append({"document": document, "question": f"Where does {people[at]} live?", "answer": towns[at]})
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("answers") / "questions.jsonl", questions())


@pytest.fixture(scope="module")
def run(table: Path) -> Run:
    settings = {**SMALL, "train.evaluations": 3}
    return package.train(
        table, task="answer", out=table.with_name("run"), steps=30, settings=settings, reporter=Quiet()
    )


def squad(**changes: Any) -> dict[str, Any]:
    question = {"id": "q1", "question": "Who?", "answers": [{"text": "Ann", "answer_start": 12}], **changes}
    return {
        "version": "2.0",
        "data": [{"title": "T", "paragraphs": [{"context": "Ann met him. Ann left.", "qas": [question]}]}],
    }


# --- reading


def test_squad_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text(
        json.dumps(squad(answers=[{"text": "Ann", "answer_start": 13}, {"text": "met him", "answer_start": 4}]))
    )
    (pair,) = read_pairs([str(path)], COLUMNS, kinds=KINDS)
    assert (pair.source, pair.context) == ("Ann met him. Ann left.", "Who?")
    assert pair.targets == ["Ann", "met him"]
    assert occurrences(pair.source, pair.target) == [(13, 16)]
    (plain,) = read_pairs([str(path)], COLUMNS, kinds=Kinds("text", "text", "text"))
    assert plain.target == "Ann", "for tasks that write the answer"


def test_a_question_of_squad_2_may_have_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text(json.dumps(squad(answers=[], is_impossible=True)))
    assert [pair.target for pair in read_pairs([str(path)], COLUMNS, kinds=KINDS)] == [""]


def test_answers_of_squad_that_stand_elsewhere_are_found_by_their_text_and_counted(tmp_path: Path) -> None:
    path, report = tmp_path / "train.json", ReadReport()
    path.write_text(json.dumps(squad(answers=[{"text": "left", "answer_start": 3}])))
    (pair,) = read_pairs([str(path)], COLUMNS, kinds=KINDS, report=report)
    assert occurrences(pair.source, pair.target) == [(17, 21)]
    assert any("1 answer is not where answer_start says" in note for note in report.notes)
    right = ReadReport()
    path.write_text(json.dumps(squad(answers=[{"text": "left", "answer_start": 17}])))
    list(read_pairs([str(path)], COLUMNS, kinds=KINDS, report=right))
    assert not right.notes


@pytest.mark.parametrize("name", ["q.jsonl", "q.tsv"])
def test_a_file_without_questions_needs_no_context(name: str, weft: Weft, tmp_path: Path) -> None:
    row = {"document": "A cat sat. It was red.", "summary": "A red cat"}
    lines = [json.dumps(row)] if name == "q.jsonl" else ["\t".join(row), "\t".join(row.values())]
    (tmp_path / name).write_text("\n".join([*lines, *lines[-1:] * 9]) + "\n", encoding="utf-8")
    refused(weft("train", name, "--task", "answer", "--steps", 1), "question", "add --context none")


def test_one_character_is_told_in_the_singular() -> None:
    with pytest.raises(Fault, match=r"the source has 1 character$"):
        span_cells("A", ["[0, 5]"])


def test_squad_without_questions_is_told(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    for data in ([], [{"title": "T", "paragraphs": []}]):
        path.write_text(json.dumps({"version": "2.0", "data": data}))
        with pytest.raises(UserError, match="no questions"):
            list(read_pairs([str(path)], COLUMNS, kinds=KINDS))


def test_damaged_squad_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text(json.dumps(squad()).replace('"answers"', '"replies"'))
    with pytest.raises(UserError) as caught:
        list(read_pairs([str(path)], COLUMNS, kinds=KINDS))
    assert "question 1 or its paragraph has no field 'answers'" in caught.value.what


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ("Ann", ["Ann"]),
        ("[0, 3]", [f"Ann{OFFSET}0"]),
        ("[[0, 3], [4, 7], [0, 3]]", [f"Ann{OFFSET}0", f"met{OFFSET}4"]),
        ("[not a list", ["[not a list"]),
        ("[1.5, 2]", ["[1.5, 2]"]),
        ("", [""]),
    ],
)
def test_an_answer_is_text_or_the_characters_where_it_begins_and_ends(cell: str, wanted: list[str]) -> None:
    assert span_cells("Ann met him.", [cell]) == wanted


@pytest.mark.parametrize("cell", ["[5, 90]", "[-1, 2]"])
def test_characters_outside_of_the_document_are_a_fault(cell: str) -> None:
    with pytest.raises(Fault, match="the source has 12 characters"):
        span_cells("Ann met him.", [cell])


@pytest.mark.parametrize(("cell", "what"), [("[3, 3]", "ends where it begins"), ("[9, 5]", "ends before it begins")])
def test_an_answer_that_does_not_end_after_its_begin_is_a_fault(cell: str, what: str) -> None:
    with pytest.raises(Fault, match=what):
        span_cells("Ann met him.", [cell])


def test_columns_are_found_by_their_usual_names(table: Path) -> None:
    pair = next(iter(read_pairs([str(table)], COLUMNS, kinds=KINDS)))
    assert pair.source.startswith(tuple(NAMES))
    assert pair.context.endswith("live?")
    assert pair.target in TOWNS


# --- encoding


def sides_of(source: str, tokens: str = "words", **options: Any) -> Sides:
    settings = {"longest": 4, "none": False, "window": 100, "stride": 50, **options}
    tokeniser = learn(tokens, 400, [source, "who"])
    return Sides(tokeniser, Span(**settings), tokeniser)


@pytest.mark.parametrize("tokens", ["words", "characters", "bpe"])
def test_an_encoded_answer_decodes_to_itself(tokens: str) -> None:
    document = "She said: «Ann met him», in  Zürich (1999)."
    sides = sides_of(document, tokens)
    for answer in ("Ann met", "Zürich", "1999", "in") if tokens != "words" else ("met",):
        rows = sides.encode([Pair(document, answer, context="who")])
        assert sides.text(rows.target[0][:2], Pair(document)) == answer


def test_every_occurrence_is_right_unless_the_cell_says_which() -> None:
    sides = sides_of("a b a c a")
    assert sides.encode([Pair("a b a c a", "a")]).target == [[0, 0, 2, 2, 4, 4]]
    assert sides.encode([Pair("a b a c a", f"a{OFFSET}4")]).target == [[2, 2]]
    assert sides.encode([Pair("a b a c a", "z")]).target == [[]]


def test_no_answer_is_the_position_after_the_last_token() -> None:
    sides = sides_of("a b c", none=True)
    assert sides.encode([Pair("a b c", "")]).target == [[3, 3]]
    assert sides.text([3, 3], Pair("a b c")) == ""


def test_a_long_document_is_cut_to_a_window_that_holds_the_answer() -> None:
    side = Span(longest=4, none=True, window=11, stride=5)
    source = list(range(100, 140))
    assert in_windows(source, [22, 23], side) == (source[15:25], [7, 8])
    assert in_windows(source, [40, 40], side) == (source[:10], [10, 10])
    assert in_windows(source, [], side) == (source[:10], [])
    assert in_windows(source[:8], [2, 3], side) == (source[:8], [2, 3])


def test_sentences_are_selected_by_the_words_that_they_share_with_a_text() -> None:
    document = 'We met. "It rained!" The new model beats all others, e.g. in speed.\nIt is fast.'
    assert [document[a:b] for a, b in sentences(document)][:2] == ["We met.", '"It rained!"']
    ((begin, end),) = nearest_sentence(document, "a model that beats others")
    assert document[begin:end].startswith("The new model")
    assert nearest_sentence(document, "xyz") == []


def test_a_side_of_spans_is_saved_and_loaded() -> None:
    side = Span(7, True, 99, 33, "sentence")
    loaded = side_from_json(side.to_json(), "target.json")
    assert isinstance(loaded, Span)
    assert loaded.shape == side.shape == Places(7, True, 99, 33, sentences=True)
    with pytest.raises(UserError):
        side_from_json(side.to_json().replace("99", "-1"), "target.json")


# --- the emission


def emission(begins: list[float], ends: list[float], none: bool = False, longest: int = 2) -> SpanEmission:
    return SpanEmission(torch.tensor([begins]), torch.tensor([ends]), torch.tensor([len(begins) - 1]), longest, none)


def test_the_loss_is_marginal_over_all_right_spans() -> None:
    spans_of = emission([1.0, 2.0, 0.0, -1.0], [0.5, 0.0, 1.0, 0.0])
    begins, ends = torch.log_softmax(spans_of.begins[0], 0), torch.log_softmax(spans_of.ends[0], 0)
    wanted = Column(torch.tensor([[0, 1, 2, 2]]), torch.ones(1, 4, dtype=torch.bool))
    p = torch.exp(begins[0] + ends[1]) + torch.exp(begins[2] + ends[2])
    assert spans_of.nll(wanted).item() == pytest.approx(-p.log().item(), abs=1e-6)
    nothing = Column(torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2, dtype=torch.bool))
    assert spans_of.nll(nothing).item() == 0


def test_the_best_span_is_the_best_of_all_that_are_allowed() -> None:
    torch.manual_seed(1)
    for longest, none in ((1, False), (3, False), (3, True)):
        spans_of = emission(torch.randn(7).tolist(), torch.randn(7).tolist(), none, longest)
        scores = {
            (b, e): float(spans_of.begins[0, b] + spans_of.ends[0, e])
            for b in range(7)
            for e in range(b, min(b + longest, 7))
            if e < 6 or (none and b == e)
        }
        ranked = sorted(scores, key=lambda span: -scores[span])[:3]
        assert [tuple(span) for span in spans_of.ranked(3)[1][0].tolist()] == ranked
        assert tuple(spans_of.best()[0].tolist()) == ranked[0]


class Fixed:
    """A model that scores each token by its id, and END by 0."""

    def label(self, source: Column, context: Column | None = None) -> SpanEmission:
        scores = source.values.float() * (source.values > 3)
        return SpanEmission(scores, scores, source.mask.sum(1) - 1, 1, True)


def test_windows_find_the_best_span_of_the_whole_document() -> None:
    source = [5, 6, 5, 7, 9, 5, 6, 5, 8, 5, 4]
    shapes = Shapes(Symbols(10), Places(1, True, window=5, stride=2))
    plan = SearchPlan(nbest=3)
    (found,) = spans([Fixed()], [Inputs([source])], shapes, plan, torch.device("cpu"))
    assert [hypothesis.ids for hypothesis in found] == [(4, 4), (8, 8), (3, 3)]
    whole = Shapes(Symbols(10), Places(1, True))
    (alone,) = spans([Fixed()], [Inputs([source])], whole, plan, torch.device("cpu"))
    assert [hypothesis.ids for hypothesis in alone] == [(4, 4), (8, 8), (3, 3)]


@pytest.mark.parametrize("name", VARIANTS)
def test_padding_changes_nothing_and_every_parameter_learns(name: str) -> None:
    sides = sides_of("a b c d e f g h")
    torch.manual_seed(1)
    model = model_of(compose(("flag", VARIANTS[name])).spec, sides).eval()
    pairs = [Pair("a b c", "b", context="c a"), Pair("a b c d e f g h", "d e", context="e")]
    rows = sides.encode(pairs)
    together = batch_of(rows.source, rows.target, rows.context, sides.shapes)
    alone = batch_of(rows.source[:1], rows.target[:1], rows.context[:1], sides.shapes)
    both, one = model(together), model(alone)
    torch.testing.assert_close(both.begins[0, :4], one.begins[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(both.ends[0, :4], one.ends[0], atol=1e-5, rtol=1e-5)
    SpanLikelihood()(both, together).total.backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None]
    assert not [name for name in idle if "begin.bias" not in name and "end.bias" not in name]


# --- scores


@pytest.mark.parametrize(
    ("output", "reference", "score"),
    [("the Cat!", "cat", 1.0), ("a cat sat", "cat", 2 / 3), ("dog", "cat", 0.0), ("", "", 1.0), ("", "cat", 0.0)],
)
def test_f1_is_that_of_squads_script(output: str, reference: str, score: float) -> None:
    assert f1(output, reference) == pytest.approx(score)


def test_the_best_reference_counts() -> None:
    scores = ANSWERS.score(["The Oslo.", "in Rome"], [["Bern", "oslo"], ["Rome"]])
    assert scores["exact"] == 50
    assert scores["f1"] == pytest.approx(100 * (1 + 2 / 3) / 2)


# --- whole runs


def test_a_run_selects_spans_of_its_documents(run: Run, table: Path) -> None:
    rows = questions(20, seed=2)
    inputs = [Pair(row["document"], context=row["question"]) for row in rows]
    for row, prediction in zip(rows, run.predict(inputs, nbest=2)):
        assert all(output.text in row["document"] for output in prediction.outputs)
        assert prediction.outputs[0].score >= prediction.outputs[1].score
    scores = run.evaluate(table)
    assert set(scores) >= {"exact", "f1", "loss"}
    assert scores["f1"] > 5


def test_an_answer_does_not_depend_on_the_other_lines(run: Run) -> None:
    inputs = [Pair(row["document"], context=row["question"]) for row in questions(30, seed=3)]
    together = [(p.text, p.score) for p in run.predict(inputs)]
    assert together[:4] == [(p.text, p.score) for pair in inputs[:4] for p in run.predict([pair])]


def test_a_run_of_answers_is_resumed_bit_by_bit(run: Run, tmp_path: Path) -> None:
    assert weights_of(resumed_copy(run.path, tmp_path / "copy")) == weights_of(run.path)


def test_the_command_line_answers_questions(weft: Weft, run: Run, table: Path, tmp_path: Path) -> None:
    done = weft("predict", str(run.path), stdin="Ann lives in Rome. Bob lives in Oslo.\tWhere does Bob live?\n")
    assert done.code == 0
    assert done.lines[0] in "Ann lives in Rome. Bob lives in Oslo."
    several = weft("predict", str(run.path), str(table), "--nbest", "3", "--format", "tsv")
    assert len(several.lines) == 3 * 60
    lines = tmp_path / "lines.tsv"
    scored = json.loads(weft("evaluate", str(run.path), str(table), "--json", "--lines", str(lines)).out)
    assert {"exact", "f1", "loss", "n"} <= set(scored)
    assert lines.read_text().splitlines()[0].split("\t") == [
        *("source", "target", "output", "exact", "f1", "rouge1", "rouge2", "rougeL", "log_prob")
    ]
    records = map(json.loads, weft("predict", str(run.path), str(table), "--format", "jsonl").lines)
    assert [record["context"] for record in records] == [row["question"] for row in questions()]
    refused(weft("predict", str(run.path), stdin="a document\n"), "this line has no context")
    refused(weft("predict", str(run.path), "--beam", "3", stdin="a\tb\n"), "predicted in one step")


def test_answers_that_are_not_in_their_document_are_counted_shown_and_left_out(tmp_path: Path) -> None:
    rows = [*questions(30), {"document": "Ann is here.", "question": "Who?", "answer": "Zoe"}]
    prepared = Prepared(
        Files((str(write(tmp_path / "q.jsonl", rows)),), columns=COLUMNS, kinds=KINDS), tmp_path / "cache"
    )
    chosen = choose(prepared.survey, {"task": "answer", "train": {"steps": 5}})
    (note,) = [note for note in chosen.notes if "left out" in note]
    assert "1 of 31 ('Zoe' is not in 'Ann is here.'…)" in note
    sides = sides_of(" ".join(f"{row['document']} {row['question']}" for row in rows), longest=3)
    corpus = prepared.corpus(sides)
    used = {int(row) for batch in corpus.epoch(0, 1000, 1) for row in batch}
    assert len(corpus) - len(used) == 1


def test_data_without_any_answer_in_its_document_is_refused(weft: Weft, tmp_path: Path) -> None:
    rows = [{**row, "answer": "Zoe"} for row in questions(60)]
    done = weft(
        "train",
        str(write(tmp_path / "q.jsonl", rows)),
        "--task",
        "answer",
        "--steps",
        "1",
        "--out",
        str(tmp_path / "r"),
    )
    refused(done, "no answer occurs in its document", "answer.unit=sentence", after_notes=done.err.count("note: "))


def test_an_empty_question_is_a_bad_row(weft: Weft, tmp_path: Path) -> None:
    table = write(tmp_path / "q.jsonl", [*questions(55), {"document": "Ann.", "question": "", "answer": "Ann"}])
    done = weft("train", str(table), "--task", "answer", "--steps", "1", "--out", str(tmp_path / "r"))
    refused(done, "the context is empty", "q.jsonl:56", after_notes=done.err.count("note: "))


def test_a_document_of_a_million_words_is_answered_in_windows(run: Run) -> None:
    document = "Ann lives in Rome. " * 1500 + "Bob lives in Oslo."
    (prediction,) = run.predict([Pair(document, context="Where does Bob live?")])
    assert prediction.text in document


def test_sentences_can_be_selected_where_targets_are_not_in_their_sources(tmp_path: Path) -> None:
    rows = [
        {"document": row["document"], "question": "What?", "answer": row["answer"] + " is nice"}
        for row in questions(60)
    ]
    settings = {**SMALL, "answer.unit": "sentence"}
    table = write(tmp_path / "q.jsonl", rows)
    run = package.train(table, task="answer", out=tmp_path / "run", steps=2, settings=settings, reporter=Quiet())
    for row, prediction in zip(rows, run.predict([Pair(row["document"], context="What?") for row in rows[:9]])):
        assert prediction.text in [row["document"][a:b] for a, b in sentences(row["document"])]


def test_reasons_and_views_speak_of_what_there_is(table: Path, run: Run, tmp_path: Path) -> None:
    settings = {**SMALL, "answer.unit": "sentence"}
    other = package.train(table, task="answer", out=tmp_path / "run", steps=1, settings=settings, reporter=Quiet())
    longest = [
        next(why for key, _, why in RunFolder(path).read_choices()["reasons"] if key == "answer.longest")
        for path in (run.path, other.path)
    ]
    assert longest == ["99 of 100 answers have at most 1 word", "enough for sentences of at most 80 words"]
    pair = Pair("Ann lives in Rome.", context="Where does Ann live?")
    with pytest.raises(UserError, match="not that between source and context"):
        run.inspect([pair], views=["attention"])


def test_each_of_several_outputs_is_another_sentence(tmp_path: Path) -> None:
    table = write(tmp_path / "q.jsonl", questions(60))
    settings = {**SMALL, "answer.unit": "sentence"}
    run = package.train(table, task="answer", out=tmp_path / "run", steps=2, settings=settings, reporter=Quiet())
    document = "Ann lives in Rome. Bob lives in Oslo. Cid lives in a house near Bern. Ann lives in Rome."
    (prediction,) = run.predict([Pair(document, context="Where does Bob live?")], nbest=9)
    assert sorted(output.text for output in prediction.outputs) == sorted(
        {document[begin:end] for begin, end in sentences(document)}
    )
    scores = [output.score for output in prediction.outputs]
    assert scores == sorted(scores, reverse=True)
    two = run.predict([Pair(document, context="Where does Bob live?")], nbest=2)[0].outputs
    assert [output.text for output in two] == [output.text for output in prediction.outputs[:2]]


def test_no_answer_is_learned_where_training_has_it(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{**row, "answer": []} if n % 2 else row for n, row in enumerate(questions(60))]
    table = write(tmp_path / "q.jsonl", rows)
    run = package.train(table, task="answer", out=tmp_path / "run", steps=2, settings=SMALL, reporter=Quiet())
    target = run.predictor.sides.target
    assert isinstance(target, Span)
    assert target.none
    outputs = run.predict([Pair("Ann lives in Rome.", context="Where does Bob live?")], nbest=40)[0].outputs
    assert "" in [output.text for output in outputs]


def test_the_same_data_teach_a_model_to_write_answers_with_a_copy_head(tmp_path: Path, table: Path) -> None:
    settings = {
        **{"encoder.width": 16, "embed.width": 16, "decoder.width": 16, "train.evaluations": 1},
        **{"head.kind": "copy", "source.tokens": "words", "target.tokens": "words", "context.tokens": "words"},
        **{"context.kind": "text", "context.use": "attend"},
    }
    run = package.train(
        table, source="document", target="answer", context="question", out=tmp_path / "run", steps=3,
        settings=settings, reporter=Quiet(),
    )  # fmt: skip
    assert run.spec.head.kind == "copy"
    assert run.predict([Pair("Ann lives in Rome.", context="Where does Ann live?")])[0] is not None


def test_labels_may_depend_on_a_question(tmp_path: Path) -> None:
    table = write(tmp_path / "q.jsonl", questions(60))
    run = package.train(
        table, task="classify", source="document", target="answer", context="question", out=tmp_path / "run", steps=4,
        settings={"encoder.width": 16, "embed.width": 16, "train.evaluations": 1}, reporter=Quiet(),
    )  # fmt: skip
    assert run.spec.context.use == "hops", "the documents have three sentences"
    pair = Pair("Ann lives in Rome.", context="Where does Ann live?")
    assert run.predict([pair])[0].text in TOWNS
