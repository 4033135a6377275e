"""One contract over all variants, made from the tables in `nn/assemble/`: a new line there is tested from then on."""

# B batch · S source length · T target length · V symbols

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from variants import ANSWERS, CTC, HOPS, LABELS, NOTES, NUMBERS, RESTORED, STEPPING, TOWERS, fits, layer, transformer
from weft.core.errors import UserError
from weft.core.kinds import Batch, Column
from weft.core.pair import END, PAD, START
from weft.core.shapes import Symbols
from weft.core.trace import trace
from weft.learn.feeding import SCHEDULES
from weft.learn.objectives import OBJECTIVES, CrossEntropy, Ctc
from weft.learn.snapshot import put_weights
from weft.nn.assemble import (
    BRIDGES,
    CELLS,
    HEADS,
    JOINS,
    POOLS,
    POSITIONS,
    PROJECTIONS,
    SCORES,
    WEIGHERS,
    assemble,
)
from weft.nn.positions import BUCKETS, PLACES
from weft.search.decode import SearchPlan, decode
from weft.settings import Layer, compose, flatten, put
from weft.spec import (
    Attention,
    Bridge,
    CellName,
    Context,
    Feeding,
    Head,
    Objective,
    Pool,
    PositionName,
    ScoreName,
    Spec,
)

SYMBOLS = 14  # 4 specials and 10 of text
VARIANTS = {**STEPPING, **CTC}
everywhere = pytest.mark.parametrize("name", VARIANTS)
stepping = pytest.mark.parametrize("name", STEPPING)


def member_spec(name: str) -> Spec:
    return compose(("flag", VARIANTS[name])).spec


def build(name: str, seed: int = 1) -> nn.Module:
    """The variant with every weight shaken, so that nothing passes because a bias or the PAD vector starts at zero."""
    torch.manual_seed(seed)
    model = assemble(member_spec(name), Symbols(SYMBOLS), Symbols(SYMBOLS))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


@cache
def built(name: str) -> nn.Module:
    """One model for the tests that only look at it."""
    return build(name)


def rows(lengths: list[int], seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(END + 1, SYMBOLS) for _ in range(length)] for length in lengths]


SOURCES, TARGETS = rows([3, 7, 1, 5], seed=1), rows([6, 2, 4, 1], seed=2)
BATCH = Batch.of(SOURCES, TARGETS)


def same(a: Tensor, b: Tensor, within: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, atol=within, rtol=1e-5)


# --- the tables and the settings


def names_of(part: type[Any], field: str) -> tuple[str, ...]:
    return get_args(part.model_fields[field].annotation)


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (get_args(CellName), tuple(CELLS)),
        (get_args(ScoreName), ("none", *SCORES)),
        (get_args(PositionName), tuple(POSITIONS)),
        (names_of(Bridge, "kind"), tuple(BRIDGES)),
        (names_of(Attention, "weigh"), tuple(WEIGHERS)),
        (names_of(Attention, "project"), tuple(PROJECTIONS)),
        (names_of(Attention, "join"), tuple(JOINS)),
        (names_of(Pool, "kind"), tuple(POOLS)),
        (names_of(Head, "kind"), tuple(HEADS)),
        (names_of(Objective, "kind"), tuple(OBJECTIVES)),
        (names_of(Feeding, "schedule"), tuple(SCHEDULES)),
    ],
    ids=[
        "cells",
        "scores",
        "positions",
        "bridges",
        "weighers",
        "projections",
        "joins",
        "pools",
        "heads",
        "objectives",
        "feeding",
    ],
)
def test_the_names_in_the_settings_are_those_of_the_tables(names: tuple[str, ...], table: tuple[str, ...]) -> None:
    assert sorted(names) == sorted(table)


def test_every_line_of_every_table_is_in_some_variant() -> None:
    trees = {**VARIANTS, **LABELS, **NUMBERS, **NOTES, **ANSWERS, **RESTORED, **TOWERS, "hops": HOPS}.values()
    seen = {(key, value) for tree in trees for key, value in flatten(compose(("flag", tree)).spec.model_dump())}
    wanted = [("encoder.cell", c) for c in CELLS] + [("decoder.cell", c) for c in CELLS]
    wanted += [("decoder.attention.score", s) for s in ("none", *SCORES)]
    wanted += [("decoder.attention.weigh", w) for w in WEIGHERS]
    wanted += [("decoder.attention.project", p) for p in PROJECTIONS] + [("decoder.attention.join", j) for j in JOINS]
    wanted += [("embed.positions", p) for p in POSITIONS] + [("head.kind", h) for h in HEADS]
    wanted += [("pool.kind", p) for p in POOLS] + [("objective.kind", o) for o in OBJECTIVES]
    wanted += [("context.use", use) for use in names_of(Context, "use")]
    wanted += [("bridge.kind", b) for b in BRIDGES] + [("bridge.give", g) for g in names_of(Bridge, "give")]
    wanted += [(f"{side}.norm", n) for side in ("encoder", "decoder") for n in ("pre", "post")]
    wanted += [
        (f"{side}.{k}", True) for side in ("encoder", "decoder") for k in ("residual", "layer_norm", "variational")
    ]
    assert [line for line in wanted if line not in seen] == []


REFUSED: dict[str, tuple[Layer, str]] = {
    "blind": (
        layer(decoder__attention__score="none", bridge__give="none"),
        "gives the decoder no access to the source",
    ),
    "nothing to give": (layer(bridge={"kind": "zeros", "give": "every"}), "bridge.give=every has no effect"),
    "bridge to a Transformer": (layer(decoder=transformer(), bridge__kind="last"), "bridge has no effect"),
    "last of another width": (layer(bridge__kind="last", decoder__width=24), "bridge.kind=last passes"),
    "dot of other widths": (layer(decoder__attention__score="dot", decoder__width=24), "decoder.attention.score=dot"),
    "rbf of other widths": (layer(decoder__attention__score="rbf", decoder__width=24), "decoder.attention.score=rbf"),
    "heads": (layer(decoder__attention__heads=3), "decoder.attention.heads=3 must divide"),
    "exact without rbf": (layer(decoder__attention__weigh="exact"), "decoder.attention.weigh=exact needs"),
    "exact with projections": (
        layer(decoder__attention={"score": "rbf", "weigh": "exact", "project": "linear"}),
        "decoder.attention.weigh=exact needs",
    ),
    "context before the step": (
        layer(decoder__attention={"join": "context", "query": "before"}),
        "the next output could not depend on that symbol",
    ),
    "context by argmax": (
        layer(decoder__attention={"join": "context", "weigh": "nearest"}),
        "no gradient would reach the decoder's state",
    ),
    "a distance without relative positions": (layer(embed__max_distance=8), "embed.max_distance belongs to"),
    "weigh of nothing": (
        layer(decoder__attention={"score": "none", "weigh": "sparsemax", "heads": 2}),
        "decoder.attention.weigh and decoder.attention.heads have no effect",
    ),
    "rotary without a Transformer": (layer(embed__positions="rotary"), "embed.positions=rotary acts within"),
    "alibi without a Transformer": (layer(embed__positions="alibi"), "embed.positions=alibi acts within"),
    "rotary with odd heads": (
        layer(encoder=transformer(width=6), decoder=transformer(width=6), embed__positions="rotary"),
        "embed.positions=rotary needs an even width",
    ),
    "no room for waves": (layer(embed={"width": 3, "positions": "sinusoid-concat"}), "sinusoid-concat keeps a quarter"),
    "residual of one layer": (layer(decoder__residual=True), "decoder.residual=true has no effect"),
    "residual encoder of one layer": (layer(encoder__residual=True), "encoder.residual=true has no effect"),
    "ctc with a decoder": ({"head": {"kind": "ctc"}, "decoder": {"kind": "recurrent"}}, "are not compatible"),
    "ctc objective alone": (layer(objective__kind="ctc"), "are not compatible"),
    "ctc with a bridge": ({"head": {"kind": "ctc"}, "bridge": {"kind": "mean"}}, "bridge has no effect"),
    "ctc with feeding": ({"head": {"kind": "ctc"}, "feeding": {"kind": "own"}}, "feeding has no effect"),
    "ctc with a tag in the decoder": (
        {"head": {"kind": "ctc"}, "data": {"tag": 3, "tag_at": "decoder"}},
        "data.tag_at=decoder with head.kind=ctc",
    ),
    "ctc by accuracy": ({"head": {"kind": "ctc"}, "train": {"select": "accuracy"}}, "train.select=accuracy needs"),
    "schedule without sampling": (
        layer(feeding__schedule="exponential"),
        "feeding.schedule has no effect",
    ),
    "own with token dropout": (layer(feeding={"kind": "own", "token_dropout": 0.1}), "feeding.token_dropout hides"),
    "shared but cut otherwise": (layer(embed__shared=True, source__tokens="bytes"), "embed.shared=true needs"),
    "a label as a source": (layer(source__kind="label"), "a source cannot be of this kind"),
    "a label written by a decoder": (layer(target__kind="label"), "target.kind=label needs task=classify or task=cl"),
    "a label head alone": (layer(head__kind="label"), "head.kind=label needs task=classify or task=classify-tokens"),
    "a task of labels with a decoder": (
        {"task": "classify", "decoder": {"kind": "recurrent"}},
        "decoder.kind=recurrent does not fit task=classify, which sets decoder.kind=none",
    ),
    "a task of labels with tokens": (
        {"task": "classify", "head": {"kind": "tokens"}},
        "head.kind=tokens does not fit task=classify, which sets head.kind=label",
    ),
    "a pool without labels": (layer(pool__kind="query"), "pool.kind=query has no effect with task=transduce"),
    "a pool for each token": ({"task": "classify-tokens", "pool": {"kind": "last"}}, "pool.kind=last has no effect"),
    "class weights of tokens": (layer(objective__class_power=0.5), "objective.class_power=0.5 weighs labels"),
    "labels by exact": ({"task": "classify", "train": {"select": "exact"}}, "train.select=exact is not measured"),
    "tokens by macro_f1": (layer(train__select="macro_f1"), "train.select=macro_f1 is not measured"),
    "labels by span_f1": ({"task": "classify", "train": {"select": "span_f1"}}, "train.select=span_f1 is not measured"),
    "labels with a bridge": ({"task": "classify", "bridge": {"kind": "mean"}}, "bridge has no effect"),
    "labels with feeding": ({"task": "classify", "feeding": {"noise": 0.1}}, "feeding has no effect"),
    "labels with both": ({"task": "classify", "bridge": {"give": "every"}, "feeding": {"noise": 0.1}}, "bridge and f"),
    "labels with a tag in the decoder": (
        {"task": "classify", "data": {"tag": 3, "tag_at": "decoder"}},
        "data.tag_at=decoder with head.kind=label",
    ),
    "labels from the end": (
        {"task": "classify", "train": {"members": 2, "reversed_members": True}},
        "train.reversed_members=true has no effect",
    ),
    "labels and a shared table": ({"task": "classify", "embed": {"shared": True}}, "embed.shared=true needs text"),
    "labels and carried characters": ({"task": "classify", "data": {"unseen": "carried"}}, "data.unseen=carried needs"),
    "labels and augmented pairs": ({"task": "classify", "data": {"augmented": 5}}, "data.augmented=5 needs text"),
    "numbers by cross-entropy": (
        layer(target__kind="numbers", objective__kind="cross-entropy"),
        "a target of numbers needs objective.kind=squared or distance or gaussian or mixture",
    ),
    "notes by squared error": (
        layer(target__kind="notes", objective__kind="squared"),
        "a target of numbers needs objective.kind=squared or distance or gaussian or mixture",
    ),
    "notes as tokens": (
        layer(target__kind="notes", head__kind="tokens"),
        "a target of notes needs",
    ),
    "notes from the end": (layer(target__kind="notes", decoder__reverse=True), "decoder.reverse=true cannot"),
    "a copy of notes": (layer(source__kind="notes", head__kind="copy"), "head.kind=copy needs a source that"),
    "notes by bleu": (layer(target__kind="notes", train__select="bleu"), "train.select=bleu is not measured"),
    "as long as a text": (
        layer(target__kind="notes", source__kind="text", numbers__stop="source"),
        "numbers.stop=source needs a source of steps",
    ),
    "numbers as tokens": (layer(target__kind="numbers", head__kind="tokens"), "head.kind=tokens and objective.kind"),
    "text by squared error": (layer(target__kind="text", objective__kind="squared"), "a target of numbers needs"),
    "text by a head of numbers": (
        layer(target__kind="text", head__kind="numbers", objective__kind="squared"),
        "are not",
    ),
    "components of one Gaussian": (
        layer(target__kind="numbers", objective={"kind": "gaussian", "components": 3}),
        "objective.components=3 has no effect",
    ),
    "the length of no context": (layer(numbers__stop="context"), "numbers.stop=context needs a context"),
    "the length of an attended context": (
        layer(numbers__stop="context", data__context=3, context__use="attend"),
        "numbers.stop=context needs a context",
    ),
    "numbers without a decoder": (
        {"target": {"kind": "numbers"}, "decoder": {"kind": "none"}},
        "decoder.kind=none cannot be used with head.kind=numbers",
    ),
    "numbers from the end": (layer(target__kind="numbers", decoder__reverse=True), "decoder.reverse=true cannot"),
    "members of numbers from the end": (
        layer(target__kind="numbers", train={"members": 2, "reversed_members": True}),
        "train.reversed_members=true cannot",
    ),
    "hidden numbers": (layer(target__kind="numbers", feeding__token_dropout=0.1), "feeding.token_dropout=0.1 cannot"),
    "a tag before numbers": (
        layer(target__kind="numbers", data={"tag": 3, "tag_at": "decoder"}),
        "data.tag_at=decoder cannot",
    ),
    "a copy of numbers": (
        layer(source__kind="numbers", head__kind="copy"),
        "head.kind=copy needs a source that",
    ),
    "unseen numbers": (
        layer(source__kind="numbers", data__unseen="nearest"),
        "data.unseen=nearest needs a source that",
    ),
    "a tag beside numbers": (layer(source__kind="numbers", data__tag=3), "data.tag=3 needs a source that"),
    "features beside numbers": (
        layer(source__kind="numbers", data__features=3),
        "data.features=3 needs a source that",
    ),
    "numbers and a shared table": (layer(source__kind="numbers", embed__shared=True), "embed.shared=true needs text"),
    "numbers by exact": (layer(target__kind="numbers", train__select="exact"), "train.select=exact is not measured"),
    "text by mse": (layer(target__kind="text", train__select="mse"), "train.select=mse is not measured"),
    "a context without a column": (
        layer(context__use="step"),
        "context.use has no effect without a column",
    ),
    "text step by step": (
        layer(data__context=3, context={"kind": "text", "use": "step"}),
        "context.use=step reads numbers",
    ),
    "a context of ctc": ({"head": {"kind": "ctc"}, "data": {"context": 3}}, "has no decoder to read the context"),
    "a context of tags": ({"task": "classify-tokens", "data": {"context": 3}}, "has no decoder to read the context"),
    "a label of steps": (
        {"task": "classify", "data": {"context": 3}, "context": {"use": "step"}},
        "has no decoder to read the context",
    ),
    "a context that nothing attends to": (
        layer(decoder__attention__score="none", data__context=3, context__use="attend"),
        "attends to nothing",
    ),
    "a question that is only attended to": (
        {"task": "answer", "context": {"use": "attend"}},
        "context.use=attend with task=answer",
    ),
    "answers in parts of letters": (
        {"task": "answer", "source": {"tokens": "parts"}},
        "the position of a token in its document is not known",
    ),
    "windows with gaps": ({"task": "answer", "answer": {"stride": 600}}, "words between the windows"),
    "windows without answers": (layer(answer={"window": 100}), "answer.window has no effect without task=answer"),
    "spans without the task": (layer(head__kind="span"), "head.kind=span needs task=answer"),
    "joint distances": (
        {"task": "answer", "context": {"use": "joint"}, "encoder": transformer(), "embed": {"positions": "rotary"}},
        "would depend on padding",
    ),
    "a shared context of text": (
        layer(data__context=3, context={"kind": "text", "use": "attend", "shared": True}),
        "context.shared=true is for",
    ),
    "tag at the decoder without a tag": (layer(data__tag_at="decoder"), "data.tag_at=decoder needs a tag"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused_with_the_reason_and_the_way_out(name: str) -> None:
    tree, reason = REFUSED[name]
    with pytest.raises(UserError) as caught:
        compose(("flag", tree))
    assert reason in caught.value.what
    assert caught.value.exit_code == 2
    assert len(caught.value.todo) > 10


def test_a_transformer_may_go_without_positions() -> None:
    assert fits(layer(encoder=transformer(), decoder=transformer(), embed__positions="none"))


@pytest.mark.parametrize(
    ("key", "typo", "meant"),
    [
        ("decoder.cell", "lsmt", "lstm"),
        ("encoder.cell", "gruu", "gru"),
        ("decoder.attention.score", "aditive", "additive"),
        ("bridge.kind", "projekted", "projected"),
        ("embed.positions", "sinusoids", "sinusoid"),
        ("decoder.attention.weigh", "sparse-max", "sparsemax"),
        ("head.kind", "cpy", "copy"),
        ("feeding.kind", "schedule", "scheduled"),
        ("encoder.kind", "transfomer", "transformer"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(key: str, typo: str, meant: str) -> None:
    tree: Layer = {}
    put(tree, key, typo)
    with pytest.raises(UserError) as caught:
        compose(("flag", tree))
    assert caught.value.what.startswith(f"{key}: '{typo}' is not known; did you mean '{meant}'")
    assert "hoose from: " in caught.value.what
    assert caught.value.exit_code == 2


# --- the batch


def test_the_target_is_shifted_by_one_and_ends_with_end() -> None:
    batch = Batch.of([[5, 6, 7], [8]], [[9], [10, 11]])
    assert batch.source.values.tolist() == [[5, 6, 7, END], [8, END, PAD, PAD]]
    assert batch.source.mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.given.values.tolist() == [[START, 9, PAD], [START, 10, 11]]
    assert batch.wanted.values.tolist() == [[9, END, PAD], [10, 11, END]]
    assert batch.wanted.mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.target_tokens == 5


def test_an_empty_line_is_one_end() -> None:
    batch = Batch.of([[]], [[]])
    columns = (batch.source, batch.given, batch.wanted)
    assert [column.values.tolist() for column in columns] == [[[END]], [[START]], [[END]]]


# --- the contract


def read(model: nn.Module, batch: Batch) -> Any:
    """What encoder and bridge make of the sources."""
    memory = model.encode(batch.source)
    return model.bridge(memory) if hasattr(model, "bridge") else memory


@everywhere
def test_padding_changes_nothing(name: str) -> None:
    model = built(name)
    with torch.inference_mode():
        together, logits = read(model, BATCH), model(BATCH).logits
        for row, (source, target) in enumerate(zip(SOURCES, TARGETS)):
            alone = Batch.of([source], [target])
            memory, said = read(model, alone), model(alone).logits[0]
            same(together.states[row, : len(source) + 1], memory.states[0])
            for ours, theirs in zip(together.final + together.cells, memory.final + memory.cells, strict=True):
                same(ours[row], theirs[0])
            same(logits[row, : len(said)], said, within=2e-5)


@stepping
def test_a_symbol_changes_its_own_place_and_none_before_it(name: str) -> None:
    model = built(name)
    batch = Batch.of(rows([4, 4], seed=3), rows([5, 5], seed=4))
    with torch.inference_mode():
        before = model(batch).logits
        for place in range(1, batch.given.values.shape[1]):
            given = batch.given.values.clone()
            given[:, place] = (given[:, place] - END) % (SYMBOLS - END - 1) + END + 1  # another symbol of text
            after = model(replace(batch, given=Column(given, batch.given.mask))).logits
            same(after[:, :place], before[:, :place], within=1e-6)
            assert context_alone_by_argmax(name) or (after[:, place] - before[:, place]).abs().amax() > 1e-4


def context_alone_by_argmax(name: str) -> bool:
    """Whether the output changes only where another key becomes the closest."""
    look = look_of(name)
    return look.get("join") == "context" and look.get("weigh") == "straight-through"


def finds_no_match(name: str) -> bool:
    """Exact match between states that are never equal: the context is nothing."""
    return look_of(name).get("weigh") == "exact"


def look_of(name: str) -> Layer:
    look: Layer = member_spec(name).model_dump()["decoder"].get("attention", {})
    return look


def sees_nothing(name: str) -> bool:
    """Whether no way leads from the source to the output: nothing matches, is handed over or is copied."""
    spec = member_spec(name)
    handed_over = spec.bridge.give != "none" and spec.bridge.kind != "zeros"
    return finds_no_match(name) and not handed_over and spec.head.kind != "copy"


def difference(name: str, source: list[int]) -> float:
    """How far the logits for a source are from those for [4, 5, 6]."""
    model = built(name)
    with torch.inference_mode():
        logits, other = (model(Batch.of([line], [[7, 8]])).logits for line in ([4, 5, 6], source))
    return float((logits - other).abs().amax())


@everywhere
def test_the_source_is_seen(name: str) -> None:
    if sees_nothing(name):
        assert difference(name, [9, 8, 7]) == 0
    elif look_of(name).get("weigh") in ("nearest", "straight-through"):
        assert difference(name, [9, 8, 7]) > 1e-5  # it attends to one place, which may be any of them
    else:
        assert min(difference(name, line) for line in ([9, 5, 6], [4, 9, 6], [4, 5, 9])) > 1e-5


@stepping
def test_step_by_step_equals_all_at_once(name: str) -> None:
    model = built(name)
    with torch.inference_mode():
        whole = model(BATCH).log_probs
        state = model.begin(BATCH.source)
        for place, y in enumerate(BATCH.given.values.unbind(1)):
            log_probs, state = model.advance(y, state)
            real = BATCH.wanted.mask[:, place]
            same(log_probs[real], whole[:, place][real])
    assert torch.allclose(whole.exp().sum(-1), torch.ones(()))


@stepping
def test_all_at_once_goes_on_from_steps_already_taken(name: str) -> None:
    model, batch = built(name), Batch.of(rows([4, 4], seed=3), rows([5, 5], seed=4))
    with torch.inference_mode():
        state = model.decoder.start(model.bridge(model.encode(batch.source)))
        x = model.target_reader(batch.given.values)
        whole = model.decoder.unroll(x, state)
        for step in x[:, :2].unbind(1):
            _, state = model.decoder.step(step, state)
        assert state.place == 2
        same(model.target_reader(batch.given.values[:, 2:], 2), x[:, 2:])
        same(model.decoder.unroll(x[:, 2:], state), whole[:, 2:], within=5e-5)


@stepping
def test_select_reorders_repeats_and_drops_hypotheses(name: str) -> None:
    model, order = built(name), torch.tensor([3, 0, 0, 1])
    first, second, third = torch.tensor([4, 5, 6, 7]), torch.tensor([8, 9, 4, 5]), torch.tensor([6, 6, 7, 8])
    with torch.inference_mode():
        _, state = model.advance(first, model.begin(BATCH.source))
        straight, after = model.advance(second, state)
        chosen, after_chosen = model.advance(second[order], state.select(order))
        same(chosen, straight[order])
        same(model.advance(third[order], after_chosen)[0], model.advance(third, after)[0][order])
        same(model.advance(second, state)[0], straight, within=0)  # a state is a value: stepping leaves it as it was


@stepping
def test_a_step_of_no_hypotheses_is_empty(name: str) -> None:
    model, none = built(name), torch.empty(0, dtype=torch.long)
    with torch.inference_mode():
        state = model.begin(BATCH.source).select(none)
        assert model.advance(none, state)[0].shape == (0, SYMBOLS)


def without_gradient(name: str, key: str) -> bool:
    """Where the mathematics gives none.

    - nearest and exact hand no gradient to what scores are made of: only the values learn;
    - a bias on keys moves all products of a query alike, which softmax and its kin do not see;
    - an exact match that never comes is a context of zeros: nothing that acts on the context alone learns, and
      nothing in the encoder if no summary is handed over either.
    """
    spec = member_spec(name)
    if sees_nothing(name) and key.startswith(("encoder.", "source_reader.")):
        return not (spec.embed.shared and key.endswith("reader.table.weight"))
    if key.endswith(("around_cross.norm.weight", "around_cross.norm.bias")) and look_of(name)["weigh"] == "nearest":
        return getattr(spec.decoder, "norm", "") == "pre"  # it makes queries alone
    look = look_of(name) if key.startswith("decoder.") else getattr(spec.encoder, "attention", None)
    look = look if isinstance(look, dict) else look.model_dump() if look is not None else {}
    within = [part for part in ("attention", "own", "cross") if f".{part}." in f".{key}"]
    part = key.split(f"{within[-1]}.")[-1] if within else ""
    if not part or not look:
        return key.endswith("join.of_context.weight") and look_of(name).get("weigh") == "exact"
    if look["weigh"] in ("nearest", "exact"):
        return part.startswith(("query.", "key.", "scores.", "moves"))
    turned = spec.embed.positions == "rotary" and within[-1] != "cross"
    blind = look["weigh"] in ("softmax", "sparsemax", "straight-through") and not turned
    products = look["score"] in ("dot", "scaled", "scaled-width", "bilinear")
    return part == "key.bias" and blind and products


def positions_without_gradient(name: str, key: str) -> bool:
    """A bias of scores learns nothing where scores get no gradient."""
    side = member_spec(name).model_dump()["encoder" if key.startswith(("encoder.", "source_reader.")) else "decoder"]
    look = side.get("attention", {})
    return (
        key.endswith("positions.table")
        and "norm" in side
        and look.get("weigh") == "nearest"
        and (member_spec(name).embed.positions in ("relative", "bucketed"))
    )


@everywhere
def test_every_parameter_gets_a_gradient(name: str) -> None:
    torch.manual_seed(1)
    model = build(name).double()
    batch = Batch.of(rows([6] * 8, seed=5), rows([6] * 8, seed=6))
    objective = Ctc() if name.startswith("ctc-") else CrossEntropy()
    objective(model(batch), batch).total.backward()
    for key, parameter in model.named_parameters():
        most = 0.0 if parameter.grad is None else float(parameter.grad.abs().amax())
        if without_gradient(name, key) or positions_without_gradient(name, key):
            assert most < 1e-9, f"{key} has a gradient"
        else:
            assert most > 1e-9, f"{key} has no gradient"


@stepping
def test_attention_rows_sum_to_one(name: str) -> None:
    with torch.inference_mode(), trace() as seen:
        built(name)(BATCH)
    kinds = ("decode.cross", "decode.self", "encode.self", "decode.copy")
    rows_of = {kind: noted for kind, noted in seen.items() if kind.startswith(kinds)}
    assert ("decode.cross" in rows_of) == (look_of(name).get("score") != "none")
    for kind, noted in rows_of.items():
        total = 0.0 if kind == "decode.cross" and finds_no_match(name) else 1.0
        for weights in noted:
            assert (weights >= 0).all()
            same(weights.sum(-1), torch.full_like(weights[..., 0], total))


@everywhere
def test_saved_and_loaded_weights_give_the_same_output(name: str, tmp_path: Path) -> None:
    model, other = built(name), build(name, seed=2)
    file = tmp_path / "weights.safetensors"
    save_file({key: p.detach().contiguous() for key, p in model.named_parameters()}, file)
    with torch.inference_mode():
        assert not torch.allclose(other(BATCH).logits, model(BATCH).logits, atol=1e-2)
    put_weights(load_file(file), other)
    with torch.inference_mode():
        same(other(BATCH).logits, model(BATCH).logits, within=0)


@everywhere
def test_dropout_acts_in_training_only(name: str) -> None:
    model = build(name)
    same(model(BATCH).logits, model(BATCH).logits, within=0)
    model.train()
    assert (model(BATCH).logits - model(BATCH).logits).abs().amax() > 1e-4


def test_a_tied_head_is_the_embedding_and_an_untied_one_is_not() -> None:
    tied, untied = build("widths-recurrent-to-recurrent-tied"), build("widths-recurrent-to-recurrent-untied")
    assert tied.head.weight is tied.target_reader.table.weight
    assert untied.head.weight is not untied.target_reader.table.weight


def test_a_shared_table_serves_both_sides() -> None:
    def model(shared: bool) -> Any:
        return assemble(compose(("flag", layer(embed__shared=shared))).spec, Symbols(SYMBOLS), Symbols(SYMBOLS))

    one, two = model(True), model(False)
    assert one.source_reader.table is one.target_reader.table
    assert two.source_reader.table is not two.target_reader.table


# --- how many parameters


def count(tree: Layer) -> int:
    return assemble(compose(("flag", tree)).spec, Symbols(SYMBOLS), Symbols(SYMBOLS)).parameter_count


def with_positions(name: str, heads: int) -> int:
    return count(layer(encoder=transformer(heads=heads), decoder=transformer(heads=heads), embed__positions=name))


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("name", POSITIONS)
def test_a_position_scheme_has_as_many_parameters_as_its_formula(name: str, heads: int) -> None:
    width, room = 16, 4
    wanted = {
        "relative": 2 * (2 * 16 + 1) * heads,  # for the encoder and for the decoder, of one layer each
        "bucketed": 2 * BUCKETS * heads,
        "learned": 2 * PLACES * width,
        "sinusoid-concat": 2 * (width + 1) * (width - room),  # the rest of the vector is projected
    }
    assert with_positions(name, heads) - with_positions("none", heads) == wanted.get(name, 0)


@pytest.mark.parametrize("name", SCORES)
def test_a_score_has_as_many_parameters_as_its_formula(name: str) -> None:
    q, k = (6, 6) if SCORES[name].same_width else (6, 4)
    wanted = {
        "bilinear": q * k,
        "additive": q * q + q * k + q + q,
        "concat": q * (q + k) + q,
        "rbf": 1,
    }
    assert sum(p.numel() for p in SCORES[name](q, k).parameters()) == wanted.get(name, 0)


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_has_as_many_parameters_as_its_equations(name: str) -> None:
    i, d = 5, 7
    gate, direct = d * i + d * d + d, d * i
    wanted = {
        "elman": gate,
        "elman-sigmoid": gate,
        "lstm": 4 * gate,
        "lstm-b": 4 * gate,
        "gru": 3 * gate,
        "gru-after": 3 * gate + d,  # c, inside the reset
        "mut1": (d * i + d) + gate + (direct + d * d + d),
        "mut2": gate + (direct + d * d + d) + gate,
        "mut3": 3 * gate,
        **{f"lstm-{ablated}": 3 * gate for ablated in "fio"},
    }
    assert sum(p.numel() for p in CELLS[name](i, d).parameters()) == wanted[name]


# --- learning


def recurrent(**more: Any) -> Layer:
    return {"kind": "recurrent", "width": 32, **more}


def copiers() -> dict[str, Layer]:
    """Each cell, score, weigher, join, projection, head, and each family with its positions at least once."""
    looks: list[Layer] = [{"score": score} for score in SCORES if score not in ("cosine", "scaled-width")]
    looks += [{"score": "cosine", "project": "mlp"}, {"project": "linear"}, {"heads": 4}, {"query": "before"}]
    looks += [{"weigh": weigh} for weigh in ("straight-through", "sparsemax")] + [{"join": "gate"}]
    looks += [{"weigh": "kernel", "score": "rbf"}, {"score": "scaled-width"}, {"join": "context"}]
    assert len(looks) >= len(CELLS)
    made = {}
    for cell, look in zip(cycle(CELLS), looks):
        tree = layer(encoder=recurrent(cell=cell), decoder=recurrent(cell=cell, attention=look))
        made["-".join([cell, *(f"{key}-{value}" for key, value in look.items())])] = tree
    plain = recurrent(attention={"score": "none"})
    made["no-attention"] = layer(encoder=recurrent(), decoder=plain, bridge__give="every")
    made["mlp-bridge"] = layer(encoder=recurrent(), decoder=plain, bridge={"kind": "mlp", "give": "every"})
    made["copy-head"] = layer(encoder=recurrent(), decoder=recurrent(), head__kind="copy")
    deep = {"layers": 2, "residual": True, "layer_norm": True}
    made["deep"] = layer(encoder=recurrent(**deep), decoder=recurrent(**deep))
    parts = {"recurrent": recurrent(), "transformer": transformer(width=32)}
    for encoder, decoder in (("recurrent", "transformer"), ("transformer", "recurrent")):
        tree = layer(encoder=parts[encoder], decoder=parts[decoder], embed__positions="sinusoid")
        made[f"{encoder}-to-{decoder}"] = tree
    for positions in POSITIONS:
        if positions != "none":
            both = {"encoder": parts["transformer"], "decoder": parts["transformer"]}
            made[f"transformer-{positions}"] = layer(**both, embed__positions=positions)
    post = transformer(width=32, norm="post")
    made["transformer-post"] = layer(encoder=post, decoder=post, embed__positions="rotary")
    return made


COPIERS = copiers()
ALPHABET = range(END + 1, END + 7)


Draw = Callable[[int, random.Random], tuple[list[list[int]], list[list[int]]]]


def strings(count: int, rng: random.Random) -> tuple[list[list[int]], list[list[int]]]:
    """Strings, and the same again."""
    return ([[rng.choice(ALPHABET) for _ in range(rng.randint(2, 4))] for _ in range(count)],) * 2


def taught(tree: Layer, draw: Draw, steps: int) -> nn.Module:
    """A model after `steps` updates on fresh random pairs, the rate rising for 20 and then falling."""
    torch.manual_seed(1)
    spec = compose(("flag", {**tree, "train": {"dropout": 0.0}})).spec
    model, rng = assemble(spec, Symbols(ALPHABET.stop), Symbols(ALPHABET.stop)), random.Random(1)
    objective = OBJECTIVES[spec.objective.kind]()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min((step + 1) / 20, 1.05 - step / steps))
    for _ in range(steps):
        batch = Batch.of(*draw(64, rng))
        loss = objective(model(batch), batch)
        optimiser.zero_grad()
        (loss.total / loss.count).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return model.eval()


def share_right(model: nn.Module, pairs: list[tuple[list[int], list[int]]], kind: str) -> float:
    hypotheses = decode(model, [source for source, _ in pairs], SearchPlan(kind=kind), torch.device("cpu"))
    return sum(list(best[0].ids) == target for (_, target), best in zip(pairs, hypotheses, strict=True)) / len(pairs)


STEPS = 160
SLOW_TO_LEARN = {
    "no-attention": 280,
    "transformer-bucketed": 280,
    "transformer-relative": 280,
    "transformer-alibi": 400,
}


@pytest.mark.parametrize("name", COPIERS)
def test_it_learns_to_copy(name: str) -> None:
    model = taught(COPIERS[name], strings, steps=SLOW_TO_LEARN.get(name, STEPS))
    assert share_right(model, list(zip(*strings(200, random.Random(99)))), "greedy") > 0.9


GONE = END + 1


def shortened(count: int, rng: random.Random) -> tuple[list[list[int]], list[list[int]]]:
    """Strings, and the same without the letter GONE: shorter, and equal letters may come to stand together."""
    sources = [[rng.choice(ALPHABET) for _ in range(rng.randint(2, 6))] for _ in range(count)]
    return sources, [[s for s in line if s != GONE] for line in sources]


@pytest.fixture(scope="module")
def taught_by_ctc() -> nn.Module:
    tree: Layer = {"embed": {"width": 16}, "encoder": recurrent(cell="gru"), "head": {"kind": "ctc"}}
    return taught(tree, shortened, steps=400)


@pytest.mark.parametrize("kind", ["greedy", "beam"])
def test_an_encoder_alone_learns_by_ctc_to_take_a_symbol_away(kind: str, taught_by_ctc: nn.Module) -> None:
    pairs = zip(*shortened(200, random.Random(2)))
    possible = [(source, target) for source, target in pairs if len(target) + repeats(target) <= len(source) + 1]
    assert len(possible) > 150
    assert share_right(taught_by_ctc, possible, kind) > 0.9


def repeats(line: list[int]) -> int:
    return sum(a == b for a, b in pairwise(line))


def test_a_head_begins_with_the_frequencies_that_it_is_told() -> None:
    head = assemble(compose(("flag", {})).spec, Symbols(9), Symbols(9)).head
    counts = torch.tensor([0, 0, 0, 10, 40, 20, 20, 5, 5])
    head.expect(counts)
    said = torch.softmax(head(torch.zeros(1, 1, 256), None).logits, -1)[0, 0]
    assert torch.allclose(said, (counts + 0.5) / (counts.sum() + 4.5), atol=1e-5)
