"""Sentences as memories of a question, words that two texts have in common, sentences that are selected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import weft as package
from resuming import resumed_copy, weights_of
from test_answers import SMALL, questions, sides_of, write
from variants import HOPS
from weft.api import Run
from weft.choose import choose
from weft.core.batching import batch_of
from weft.core.errors import UserError
from weft.core.facts import TokenFacts
from weft.core.kinds import Column, Memory
from weft.core.pair import Pair
from weft.data.cells import Kinds
from weft.data.columns import Columns
from weft.data.prepare import Files, Prepared
from weft.data.sides.label import Label
from weft.data.text.facts import token_facts
from weft.data.text.porter import porter
from weft.data.text.tokens import learn
from weft.learn.model import model_of
from weft.nn.lexical import LexicalMatch, nearby
from weft.nn.sentences import numbered
from weft.nn.span_head import SentenceHead
from weft.recipes.documents import stories
from weft.runs.report import Quiet
from weft.settings import compose

STEMS = {  # the examples of Porter (1980)
    **{"caresses": "caress", "ponies": "poni", "ties": "ti", "cats": "cat", "feed": "feed", "agreed": "agre"},
    **{"plastered": "plaster", "bled": "bled", "motoring": "motor", "sing": "sing", "conflated": "conflat"},
    **{"troubled": "troubl", "sized": "size", "hopping": "hop", "falling": "fall", "hissing": "hiss", "fizzed": "fizz"},
    **{
        "failing": "fail",
        "filing": "file",
        "happy": "happi",
        "sky": "sky",
        "relational": "relat",
        "rational": "ration",
    },
    **{
        "conditional": "condit",
        "digitizer": "digit",
        "vietnamization": "vietnam",
        "operator": "oper",
        "rational": "ration",
    },
    **{"hopefulness": "hope", "formality": "formal", "sensibility": "sensibl", "triplicate": "triplic"},
    **{"electrical": "electr", "revival": "reviv", "allowance": "allow", "replacement": "replac", "adoption": "adopt"},
    **{"effective": "effect", "probate": "probat", "rate": "rate", "cease": "ceas", "controlling": "control"},
    **{"roll": "roll", "connections": "connect", "is": "is", "straße": "straße", "x25": "x25"},
}


@pytest.mark.parametrize(("word", "stem"), STEMS.items())
def test_stems_are_those_of_porters_paper(word: str, stem: str) -> None:
    assert porter(word) == stem


def test_tokens_tell_where_sentences_end_and_which_are_forms_of_one_word() -> None:
    tokeniser = learn("words", 0, ["Cats ran. The cat stops! 3 times (so"])
    facts, names = token_facts(tokeniser), tokeniser.names
    assert [name for name, ends in zip(names, facts.ends) if ends] == ["ran.", "stops!"]
    assert facts.families[names.index("Cats")] == facts.families[names.index("cat")]
    assert facts.families[names.index("Cats")] != facts.families[names.index("times")]
    assert facts.families[0] == -1, "special tokens are no words"
    assert facts.looks[names.index("Cats")][1] == 1.0
    assert facts.looks[names.index("3")][3] == 1.0


def test_the_end_of_a_sentence_belongs_to_it() -> None:
    ends = torch.tensor([[False, True, False, True, False]])
    numbers, inside = numbered(ends, torch.tensor([[True, True, True, True, False]]))
    assert numbers.tolist() == [[0, 0, 1, 1, 0]]
    assert inside[0, :4].tolist() == [0, 1, 0, 1]


def test_matches_near_a_token_are_summed() -> None:
    assert nearby(torch.tensor([[1.0, 0.0, 0.0, 2.0]]), 1).tolist() == [[1.0, 1.0, 2.0, 2.0]]


def test_a_word_matches_other_forms_of_itself_and_no_padding() -> None:
    facts = TokenFacts((False,) * 8, (-1, -1, -1, -1, 0, 0, 1, -1), ((0.0,),) * 8)
    match = LexicalMatch(facts)
    source, real = torch.tensor([[4, 6, 7, 0]]), torch.tensor([[True, True, True, False]])
    features = match(source, real, Column(torch.tensor([[5, 7, 6]]), torch.tensor([[True, True, False]])))
    assert features.shape == (1, 4, match.width)
    assert features[0, :, 0].tolist() == [0, 0, 1, 0], "the same token"
    assert features[0, :, 1].tolist() == [1, 0, 0, 0], "the same stem"


def hops_model() -> tuple[Any, Any]:
    sides = sides_of("Ann went home. Bob left. Ann slept. where is Bob Ann")
    sides = replace(sides, target=Label(["x", "y"], [1, 1]))
    torch.manual_seed(1)
    return model_of(compose(("flag", HOPS)).spec, sides), sides


def test_hops_read_sentences_padding_changes_nothing_and_every_parameter_learns() -> None:
    model, sides = hops_model()
    pairs = [Pair("Ann went home. Bob left.", "x", context="where is Bob"), Pair("Bob left.", "y", context="where Ann")]
    pairs += [Pair("Ann slept. Ann went home. Bob left.", "y", context="where is Ann")]
    rows = sides.encode(pairs)
    together = batch_of(rows.source, rows.target, rows.context, sides.shapes)
    for row in range(3):
        only = slice(row, row + 1)
        alone = batch_of(rows.source[only], rows.target[only], rows.context[only], sides.shapes)
        torch.testing.assert_close(model(together).log_probs[row], model(alone).log_probs[0], atol=1e-5, rtol=1e-5)
    model(together).nll(together.wanted).sum().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None]
    assert not [name for name in idle if not name.startswith("pool")]


def test_the_order_of_sentences_counts() -> None:
    model, sides = hops_model()
    texts = "Ann went home. Ann slept. Bob left.", "Ann slept. Ann went home. Bob left."
    rows = sides.encode([Pair(text, "x", context="where is Ann") for text in texts])
    first, second = model(batch_of(rows.source, rows.target, rows.context, sides.shapes)).log_probs
    assert not torch.allclose(first, second, atol=1e-4)


def test_a_sentence_is_selected_whole() -> None:
    head = SentenceHead(4, 10, False, [False, True], 0.0)
    source, mask = torch.tensor([[0, 0, 1, 0, 0, 1, 0]]), torch.ones(1, 7, dtype=torch.bool)
    states = torch.zeros(1, 7, 4)
    states[:, 3:6] = 1.0
    with torch.no_grad():
        head.mix.weight.fill_(1.0)
        head.score.weight.fill_(1.0)
    assert head(states, Memory(states, mask, (), source=source)).best().tolist() == [[3, 5]]


# --- what the autopilot chooses


def choices(path: Path, rows: list[dict[str, Any]], kinds: Kinds, columns: Columns) -> Any:
    prepared = Prepared(Files((str(write(path / "q.jsonl", rows)),), (), columns, kinds=kinds))
    return choose(prepared.survey, {"task": "classify" if kinds.target == "label" else "answer"})


def test_sources_of_several_sentences_are_asked_and_single_sentences_are_read_with_the_context(tmp_path: Path) -> None:
    columns, kinds = Columns("document", "answer", context="question"), Kinds("text", "label", "text")
    assert choices(tmp_path, questions(60), kinds, columns).layer["context"]["use"] == "hops"
    single = [{**row, "document": row["document"].replace(". ", " and ")} for row in questions(60)]
    layer = choices(tmp_path, single, kinds, columns).layer
    assert layer["context"]["use"] == "joint"
    assert layer["encoder"]["kind"] == "recurrent"


def test_summaries_teach_which_sentence_to_select(tmp_path: Path) -> None:
    rows = [{**row, "answer": f"Somebody there has a house in {row['answer']} today."} for row in questions(60)]
    chosen = choices(tmp_path, rows, Kinds("text", "span"), Columns("document", "answer"))
    assert chosen.layer["answer"]["unit"] == "sentence"
    assert chosen.layer["encoder"]["kind"] == "none"
    assert "context" not in chosen.layer


def test_short_answers_that_do_not_occur_are_still_refused(tmp_path: Path) -> None:
    rows = [{**row, "answer": "Mars"} for row in questions(60)]
    with pytest.raises(UserError) as caught:
        choices(tmp_path, rows, Kinds("text", "span", "text"), Columns("document", "answer", context="question"))
    assert "no answer occurs in its document" in caught.value.what


def test_answers_need_no_question() -> None:
    spec = compose(("flag", {"task": "answer", "data": {"context": "none"}})).spec
    assert spec.data.context is None
    assert spec.context.use == "auto"
    again = compose(("file", spec.model_dump())).spec
    assert again == spec


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "answer", "context": {"use": "hops"}}, "context.use to flow or joint"),
        (
            {"data": {"context": "question"}, "context": {"kind": "text", "use": "hops"}},
            "context.use=hops finds a label in the sentences of a text, but task=transduce",
        ),
        ({**HOPS, "context": {"kind": "text", "use": "attend", "hops": 2}}, "context.hops=2 has no effect"),
        ({"task": "answer", "context": {"use": "joint", "lexical": True}}, "context.lexical=true compares the tokens"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        compose(("flag", settings))


def test_a_run_without_questions_predicts_a_sentence(tmp_path: Path) -> None:
    rows = [{**row, "answer": f"Somebody there has a house in {row['answer']} today."} for row in questions(60)]
    table = write(tmp_path / "q.jsonl", rows)
    run = package.train(
        table, task="answer", source="document", target="answer", context="none", out=tmp_path / "run", steps=2,
        settings=SMALL, reporter=Quiet(),
    )  # fmt: skip
    document = "Ann lives in Rome. Bob lives in Oslo."
    assert run.predict([document])[0].text in ("Ann lives in Rome.", "Bob lives in Oslo.")
    assert package.load(tmp_path / "run").predict([document])[0].text == run.predict([document])[0].text


@pytest.fixture(scope="module")
def story_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("stories")
    return package.train(
        write(folder / "q.jsonl", questions(60)), task="classify", source="document", target="answer",
        context="question", out=folder / "run", steps=6, settings={**SMALL, "train.evaluations": 3}, reporter=Quiet(),
    )  # fmt: skip


def test_a_run_of_hops_is_resumed_bit_by_bit(story_run: Run, tmp_path: Path) -> None:
    assert weights_of(resumed_copy(story_run.path, tmp_path / "copy")) == weights_of(story_run.path)


def test_a_label_by_hops_does_not_depend_on_the_other_lines(story_run: Run) -> None:
    pairs = [Pair(row["document"], context=row["question"]) for row in questions(7, seed=5)]
    pairs.append(Pair("Ann lives.", context="Where does Ann live?"))
    together = story_run.predict(pairs)
    for pair, each in zip(pairs, together):
        assert story_run.predict([pair])[0].score == each.score


def test_stories_of_babi_are_read() -> None:
    lines = "1 Ann left.\n2 Where is Ann? \taway\t1\n3 Bob left.\n4 Who left?\tBob\t3\n1 Cid ran.\n2 Who ran?\tCid\t1\n"
    assert list(stories(iter(lines.splitlines(keepends=True)))) == [
        ("Ann left.", "Where is Ann?", "away"),
        ("Ann left. Bob left.", "Who left?", "Bob"),
        ("Cid ran.", "Who ran?", "Cid"),
    ]
