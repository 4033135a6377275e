"""A Transformer in CTranslate2 says what it says in torch; what CTranslate2 does not know is refused by name."""

from __future__ import annotations

import math
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import Weft, refused
from conftest import made_up_pairs
from weft.api import Run
from weft.core import manifest
from weft.core.errors import UserError
from weft.core.pair import END, Pair
from weft.core.shapes import Symbols
from weft.data.sides.sides import Sides
from weft.data.text.tokens import learn
from weft.export import ctranslate2 as exporting
from weft.nn.assemble import assemble
from weft.predict import engines
from weft.predict.engines import Translator, is_wanted, why_not
from weft.predict.predictor import Predictor
from weft.search.rules import Rules
from weft.settings import compose, put
from weft.spec import Search

SIZE = {"width": 32, "layers": 2, "heads": 4, "inner": 48, "kind": "transformer"}
TRANSFORMER = {"embed.width": 32, **{f"{side}.{k}": v for side in ("encoder", "decoder") for k, v in SIZE.items()}}


def predictor(**settings: Any) -> Predictor:
    """A Transformer with shaken weights."""
    tree: dict[str, Any] = {}
    for key, value in {**TRANSFORMER, **{name.replace("__", "."): value for name, value in settings.items()}}.items():
        put(tree, key, value)
    spec = compose(("flag", tree)).spec
    words = [source for source, _ in made_up_pairs()]
    source, target = learn("characters", 0, words), learn("characters", 0, words)
    torch.manual_seed(4)
    model = assemble(spec, Symbols(len(source)), Symbols(len(target)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        model.head.bias[END] += 1.5  # or no line would ever end
        model.head.bias[:END] -= 20  # CTranslate2 leaves out what may not be said before it normalises
    return Predictor(spec, Sides(source, target), model.eval(), torch.device("cpu"))


def lines() -> list[Pair]:
    draw = random.Random(3)
    return [Pair("".join(draw.choices("abcdefgh", k=draw.randint(1, 9)))) for _ in range(40)]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", engines.POSITIONS)
def test_both_engines_say_the_same(positions: str, norm: str, tmp_path: Path) -> None:
    made = predictor(embed__positions=positions, encoder__norm=norm, decoder__norm=norm)
    engine = Translator(exporting.export(made, tmp_path, tmp_path / "out"), made)
    greedy, beam = made.plan(Search(kind="greedy")), made.plan(Search(kind="beam", width=4, length_penalty=0.0))
    by_torch = made.predict(lines(), greedy)
    assert [one.text for one in made.predict(lines(), greedy, engine=engine)] == [one.text for one in by_torch]
    ended = 0
    for said in made.predict(lines(), beam, engine=engine):
        if len(said.outputs[0].tokens) <= 2 * len(said.source) + 20:  # what is cut off has no score for its end
            assert said.score == pytest.approx(scored_by_torch(made, said.source, said.text), abs=1e-4)
            ended += 1
    assert ended > 10


def test_without_scores_the_texts_are_the_same(tmp_path: Path) -> None:
    made = predictor()
    out, found = exporting.export(made, tmp_path, tmp_path / "out"), []
    for scored in (True, False):
        engine = Translator(out, made, scored)
        found.append(made.predict(lines(), made.plan(Search(kind="greedy")), engine=engine))
    assert [one.text for one in found[0]] == [one.text for one in found[1]]
    assert not any(math.isnan(one.score) for one in found[0])
    assert all(math.isnan(one.score) for one in found[1])


def scored_by_torch(made: Predictor, source: str, target: str) -> float:
    """The log-probability of a target's symbols and its end."""
    return -made.teacher_forced([Pair(source, target)])["loss"] * (len(target) + 1)


def test_a_prefix_and_several_outputs(tmp_path: Path) -> None:
    made = predictor(embed__positions="rotary")
    engine = Translator(exporting.export(made, tmp_path, tmp_path / "out", "int8"), made)
    plan = made.plan(Search(kind="beam", width=4), nbest=3, prefix="ab")
    found = made.predict([Pair("abc"), Pair("")], plan, engine=engine)
    assert len(found[0].outputs) == 3
    assert all(output.text.startswith("ab") for output in found[0].outputs)
    assert found[1].text == "", "an empty source has an empty output here too"


def searched(places: int) -> Search:
    """An output has at most so many symbols, however long its source is."""
    return Search(kind="greedy", max_ratio=1e-9, max_extra=places - 1)


@pytest.mark.parametrize("positions", engines.POSITIONS)
def test_only_turned_positions_go_on_for_ever(positions: str, tmp_path: Path) -> None:
    made, last = predictor(embed__positions=positions), engines.POSITIONS_IN_TABLE - 1
    engine = Translator(exporting.export(made, tmp_path, tmp_path / "out"), made)
    short = made.plan(searched(9))
    assert engine.takes([5] * (last - 1), short), "and its end"
    assert engine.takes([5] * last, short) is (positions == "rotary")
    assert engine.takes([5], made.plan(searched(last)))
    assert engine.takes([5], made.plan(searched(last + 1))) is (positions == "rotary")


@pytest.mark.parametrize("positions", ["sinusoid", "rotary"])
def test_lines_too_long_for_its_table_are_predicted_by_torch_and_all_stay_in_order(
    positions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = predictor(embed__positions=positions)
    short, long = lines()[:6], Pair("abcdefgh" * 256)
    mixed = [short[0], long, Pair(""), *short[1:3], Pair(long.source[1:]), Pair(long.source[8:]), *short[3:]]
    plan, ticks = made.plan(searched(9)), list[int]()
    by_torch = [one.text for one in made.predict(mixed, plan)]
    given, decode = list[int](), Translator.decode

    def noting(self: Translator, sources: Any, *how: Any) -> Any:
        given.extend(map(len, sources))
        return decode(self, sources, *how)

    monkeypatch.setattr(Translator, "decode", noting)
    engine = Translator(exporting.export(made, tmp_path, tmp_path / "out"), made)
    found = made.predict(mixed, plan, tick=ticks.append, engine=engine)
    assert [one.text for one in found] == by_torch
    assert sum(ticks) == len(mixed) - 1, "all but the empty one"
    assert max(given) == (2040 if positions == "sinusoid" else 2048)
    assert len(given) == (7 if positions == "sinusoid" else 9)
    scores = [made.predict([pair], plan, engine=engine)[0].score for pair in mixed]
    assert [one.score for one in found] == pytest.approx(scores, abs=1e-4)
    assert len({round(score, 2) for score in scores}) > 5


def test_lines_of_very_different_limits_are_searched_apart_and_say_what_they_do_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = predictor(embed__positions="rotary")
    with torch.no_grad():
        made.model.head.bias[END] -= 4  # many lines go on until they may not
    draw = random.Random(5)
    pairs = [Pair("".join(draw.choices("abcdefgh", k=k))) for k in (1, 120, 3, 30, 2, 60, 5, 15, 100, 8)]
    plan, calls, call = (
        made.plan(Search(kind="greedy", max_extra=1)),
        list[tuple[list[int], int]](),
        Translator._call,
    )

    def noting(self: Translator, sources: Any, longest: int, *how: Any) -> Any:
        calls.append(([plan.longest(len(ids)) for ids in sources], longest))
        return call(self, sources, longest, *how)

    monkeypatch.setattr(Translator, "_call", noting)
    engine = Translator(exporting.export(made, tmp_path, tmp_path / "out"), made)
    together = [one.text for one in made.predict(pairs, plan, engine=engine)]
    assert sum(len(limits) for limits, _ in calls) == len(pairs)
    assert all(longest == max(limits) < 2 * min(limits) for limits, longest in calls)
    assert together == [made.predict([pair], plan, engine=engine)[0].text for pair in pairs]
    assert any(len(text) == plan.longest(len(pair.source)) for text, pair in zip(together, pairs)), "cut off"


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"embed__positions": "alibi"}, "embed.positions=alibi"),
        ({"head__kind": "copy"}, "head.kind=copy"),
        ({"encoder__attention__score": "additive"}, "encoder.attention.score=additive"),
        ({"decoder__attention__weigh": "sparsemax"}, "decoder.attention.weigh=sparsemax"),
        ({"decoder__norm": "post"}, "decoder.norm=post"),
        ({"encoder__width": 64, "encoder__heads": 4}, "encoder.width=64"),
    ],
)
def test_what_it_does_not_know_is_named(settings: dict[str, Any], part: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="CTranslate2 does not support") as told:
        exporting.export(predictor(**settings), tmp_path, tmp_path / "out")
    assert part in str(told.value)
    assert not (tmp_path / "out").exists()


def test_what_it_cannot_answer_is_said(tmp_path: Path) -> None:
    made = predictor()
    assert why_not(made, made.plan(Search(kind="beam")), "text") is None
    assert "each token" in why_not(made, made.plan(Search(kind="beam")), "tokens")[0]
    ends_open = replace(made.plan(Search(kind="beam")), rules=Rules(4, (5,), joining=(6,)))
    assert "prefix" in why_not(made, ends_open, "text")[0]
    assert "draws" in why_not(made, made.plan(Search(kind="sample")), "text")[0]
    made.join(predictor(), "other")
    assert "single model" in why_not(made, made.plan(Search(kind="beam")), "text")[0]


def test_the_command_line(weft: Weft, tmp_path: Path, tiny_run: Run) -> None:
    import weft as package

    settings = {**TRANSFORMER, "source.tokens": "characters", "target.tokens": "characters"}
    run = package.train(made_up_pairs(60), out=tmp_path / "run", steps=6, settings=settings).path
    (tmp_path / "in.txt").write_text("abc\n\nhgfe\n", encoding="utf-8")
    by_torch = weft("predict", run, "in.txt", "--greedy")
    assert not (run / "ctranslate2").exists(), "auto exports nothing by itself"
    done = weft("export", run, "--to", "ctranslate2")
    assert (done.code, "ctranslate2 · float32" in done.out) == (0, True)
    assert weft("predict", run, "in.txt", "--greedy", "--engine", "ctranslate2").out == by_torch.out
    assert weft("predict", run, "in.txt", "--greedy", "--format", "jsonl").code == 0, "auto goes on with torch"
    refused = weft("predict", run, "in.txt", "--format", "jsonl", "--engine", "ctranslate2")
    assert (refused.code, "score of each token" in refused.err) == (2, True)
    recurrent = weft("predict", tiny_run.path, "in.txt", "--engine", "ctranslate2")
    assert (recurrent.code, "encoder.kind=recurrent" in recurrent.err) == (2, True)
    assert weft("predict", run, "in.txt", "--engine", "gpu").code == 2
    wrong = weft("export", run, "--to", "onnx")
    assert (wrong.code, "onnx" in wrong.err) == (2, True)
    format = weft("export", run, "--to", "ctranslate2", "--format", "int3")
    assert (format.code, "int3" in format.err) == (2, True)


def test_nothing_but_an_export_is_written_over(weft: Weft, tiny_run: Run) -> None:
    export = "export", tiny_run.path, "--to", "ctranslate2", "--out"
    refused(weft(*export, tiny_run.path), "the output folder is not empty", str(tiny_run.path))
    refused(weft(*export, tiny_run.path / "spec.yaml"), "the output folder is a file")


def test_new_weights_are_exported_anew(tmp_path: Path) -> None:
    import weft as package
    from weft.predict.engines import is_fresh

    run = package.train(made_up_pairs(60), out=tmp_path / "run", steps=4, settings=TRANSFORMER)
    assert not is_fresh(run.folder)
    exporting.refresh(run.folder, run.predictor)
    assert is_fresh(run.folder)
    facts = run.path / "ctranslate2" / engines.FACTS
    facts.write_text('{"checkpoint": "step-999999", "format": "int8"}', encoding="utf-8")
    manifest.seal(facts.parent, [engines.FACTS])
    assert not is_fresh(run.folder)
    exporting.refresh(run.folder, run.predictor)
    assert '"int8"' in facts.read_text(encoding="utf-8"), "in the format that was asked for"


def test_auto_takes_only_what_loses_nothing_and_is_whole(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import weft as package

    run = package.train(made_up_pairs(60), out=tmp_path / "run", steps=4, settings=TRANSFORMER)
    plan = run.predictor.plan(Search(kind="greedy"))
    exporting.export(run.predictor, run.path, run.path / "ctranslate2", "int8")
    assert not is_wanted("auto", run.folder, run.predictor, plan, "text")
    assert is_wanted("ctranslate2", run.folder, run.predictor, plan, "text")
    exporting.export(run.predictor, run.path, run.path / "ctranslate2")
    assert is_wanted("auto", run.folder, run.predictor, plan, "text")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ctranslate2", None)
        assert not is_wanted("auto", run.folder, run.predictor, plan, "text"), "exported on another machine"
    model = run.path / "ctranslate2" / "model.bin"
    model.write_bytes(model.read_bytes()[:1000])
    (tmp_path / "in.txt").write_text("abc\n", encoding="utf-8")
    done = weft("predict", run.path, "in.txt")
    assert (done.code, "torch is used instead" in done.err) == (0, True)
    refused = weft("predict", run.path, "in.txt", "--engine", "ctranslate2")
    assert (refused.code, "damaged" in refused.err, "weft export" in refused.err) == (2, True, True)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match="not installed") as told:
        engines.the_package()
    assert "pip install ctranslate2" in str(told.value)


def test_several_models_are_not_exported_as_one(tmp_path: Path) -> None:
    made = predictor()
    made.join(predictor(), "another")
    with pytest.raises(UserError, match="this run is an ensemble of 2 models"):
        exporting.export(made, tmp_path, tmp_path / "out")


def test_an_output_matrix_of_its_own_is_exported(tmp_path: Path) -> None:
    made = predictor(head__tied=False)
    by_torch = made.predict(lines(), made.plan(Search(kind="greedy")))
    engine = Translator(exporting.export(made, tmp_path, tmp_path / "out"), made)
    found = made.predict(lines(), made.plan(Search(kind="greedy")), engine=engine)
    assert [one.text for one in found] == [one.text for one in by_torch]


@pytest.mark.parametrize("name", ["source", "target", "shared"])
def test_a_vocabulary_of_other_tokens_is_noticed(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}_vocabulary.json").write_text('["b", "a"]', encoding="utf-8")
    with pytest.raises(manifest.Damaged, match=f"{name}_vocabulary.json does not hold the tokens of this run"):
        engines._check_vocabularies(tmp_path, ["a", "b"], ["a", "b"])
