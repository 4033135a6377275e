"""One contract over all variants, made from the tables in `nn/assemble.py`: a new line there is tested from then on."""

# B batch · S source length · T target length · V symbols

from __future__ import annotations

import random
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from weft.core.errors import UserError
from weft.core.kinds import END, PAD, START, Batch
from weft.learn.objectives import CrossEntropy
from weft.learn.snapshot import put_weights
from weft.nn.assemble import BRIDGES, CELLS, POSITIONS, SCORES, WEIGHERS, assemble
from weft.search.decode import Plan, decode
from weft.settings import compose, flatten, put
from weft.spec import Attention, Bridge, CellName, PositionName, ScoreName, Spec

Layer = dict[str, Any]
GIVES = get_args(Bridge.model_fields["give"].annotation)
FAMILIES = list(product(("recurrent", "transformer"), repeat=2))
SYMBOLS = 14  # 4 specials and 10 of text


def recurrent(**more: Any) -> Layer:
    return {"kind": "recurrent", "width": 16, **more}


def transformer(**more: Any) -> Layer:
    return {"kind": "transformer", "width": 16, "layers": 1, "heads": 2, "inner": 24, **more}


def layer(**more: Any) -> Layer:
    """A small recurrent model, with some dotted keys (dots written as __) changed."""
    tree: Layer = {"embed": {"width": 16}, "encoder": recurrent(), "decoder": recurrent(), "train": {"dropout": 0.3}}
    for key, value in more.items():
        name, _, rest = key.partition("__")
        put(tree, f"{name}.{rest.replace('__', '.')}" if rest else name, value)
    return tree


def sides(encoder: str, decoder: str, changes: Layer) -> Layer:
    """The two families, with sinusoids where a Transformer needs them, and then some changes."""
    make = {"recurrent": recurrent, "transformer": transformer}
    positions = "sinusoid" if "transformer" in (encoder, decoder) else "none"
    tree = layer(encoder=make[encoder](), decoder=make[decoder](), embed__positions=positions)
    for key, value in flatten(changes):
        put(tree, key, value)
    return tree


def candidates() -> dict[str, Layer]:
    """A name and settings for every variant; some do not fit together, and `weft.spec` says so."""
    made: dict[str, Layer] = {}
    for cell, directions, layers, reverse in product(CELLS, ("forward", "both"), (1, 2), (False, True)):
        part = recurrent(cell=cell, directions=directions, layers=layers, reverse=reverse)
        made[f"encoder-{cell}-{directions}-{layers}{'-reverse' if reverse else ''}"] = layer(encoder=part)
    for cell, score, feed in product(CELLS, ("none", *SCORES), (False, True)):
        look = {"score": score, "feed": feed}
        made[f"decoder-{cell}-{score}{'-feed' if feed else ''}"] = layer(decoder=recurrent(cell=cell, attention=look))
    for cell, feed, encoder_layers in product(CELLS, (False, True), (1, 2)):
        part = recurrent(cell=cell, layers=2, attention={"feed": feed})
        made[f"decoder-{cell}-2-over-{encoder_layers}{'-feed' if feed else ''}"] = layer(
            decoder=part, encoder__layers=encoder_layers
        )
    for weigh, feed in product(WEIGHERS, (False, True)):
        look = {"weigh": weigh, "feed": feed}
        made[f"weigh-{weigh}{'-feed' if feed else ''}"] = layer(decoder=recurrent(attention=look))
    for kind, give, score, layers in product(BRIDGES, GIVES, ("none", "additive"), (1, 2)):
        part = recurrent(layers=layers, attention={"score": score})
        made[f"bridge-{kind}-{give}-{score}-{layers}"] = layer(bridge={"kind": kind, "give": give}, decoder=part)
    for kind, cell in product(BRIDGES, CELLS):
        more = {"bridge": {"kind": kind}, "decoder": {"cell": cell}}
        made[f"bridge-{kind}-transformer-to-{cell}"] = sides("transformer", "recurrent", more)
    for (encoder, decoder), positions, layers in product(FAMILIES, POSITIONS, (1, 2)):
        more = {"encoder": {"layers": layers}, "decoder": {"layers": layers}, "embed": {"positions": positions}}
        made[f"{encoder}-to-{decoder}-{positions}-{layers}"] = sides(encoder, decoder, more)
    for (encoder, decoder), tied, shared in product(FAMILIES, (False, True), (False, True)):
        # three different widths, so that every projection between them is there
        more = {"encoder": {"width": 20}, "decoder": {"width": 24}, "embed": {"width": 18, "shared": shared}}
        made[f"widths-{encoder}-to-{decoder}-{'tied' if tied else 'untied'}{'-shared' if shared else ''}"] = sides(
            encoder, decoder, {"head": {"tied": tied}, **more}
        )
    return made


def fits(tree: Layer) -> bool:
    try:
        compose(("flag", tree))
    except UserError:
        return False
    return True


VARIANTS = {name: tree for name, tree in candidates().items() if fits(tree)}
everywhere = pytest.mark.parametrize("name", VARIANTS)


def spec_of(name: str) -> Spec:
    return compose(("flag", VARIANTS[name])).spec


def build(name: str, seed: int = 1) -> nn.Module:
    """The variant with every weight shaken, so that nothing passes because a bias or the PAD vector starts at zero."""
    torch.manual_seed(seed)
    model = assemble(spec_of(name), SYMBOLS, SYMBOLS)
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


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (get_args(CellName), tuple(CELLS)),
        (get_args(ScoreName), ("none", *SCORES)),
        (get_args(PositionName), tuple(POSITIONS)),
        (get_args(Bridge.model_fields["kind"].annotation), tuple(BRIDGES)),
        (get_args(Attention.model_fields["weigh"].annotation), tuple(WEIGHERS)),
    ],
    ids=["cells", "scores", "positions", "bridges", "weighers"],
)
def test_the_names_in_the_settings_are_those_of_the_tables(names: tuple[str, ...], table: tuple[str, ...]) -> None:
    assert sorted(names) == sorted(table)


def test_every_line_of_every_table_is_in_some_variant() -> None:
    seen = {(key, value) for name in VARIANTS for key, value in flatten(spec_of(name).model_dump())}
    wanted = [("encoder.cell", c) for c in CELLS] + [("decoder.cell", c) for c in CELLS]
    wanted += [("decoder.attention.score", s) for s in ("none", *SCORES)]
    wanted += [("decoder.attention.weigh", w) for w in WEIGHERS]
    wanted += [("embed.positions", p) for p in POSITIONS]
    wanted += [("bridge.kind", b) for b in BRIDGES] + [("bridge.give", g) for g in GIVES]
    assert [line for line in wanted if line not in seen] == []


def test_only_the_combinations_that_make_no_sense_are_refused() -> None:
    def makes_sense(tree: Layer) -> bool:
        kinds = {tree["encoder"]["kind"], tree["decoder"]["kind"]}
        positions = tree["embed"].get("positions", "none")
        bridge, look = tree.get("bridge", {}), tree["decoder"].get("attention", {})
        no_summary = bridge.get("kind") == "zeros" or bridge.get("give") == "none"
        blind = look.get("score") == "none" and no_summary
        nothing_to_give = bridge.get("kind") == "zeros" and bridge.get("give") == "every"
        placeless = "transformer" in kinds and positions == "none"
        turns_nothing = positions == "rotary" and kinds == {"recurrent"}
        return not (blind or nothing_to_give or placeless or turns_nothing)

    refused = set(candidates()) - set(VARIANTS)
    assert refused == {name for name, tree in candidates().items() if not makes_sense(tree)}


@pytest.mark.parametrize(
    ("key", "typo", "meant"),
    [
        ("decoder.cell", "lsmt", "lstm"),
        ("encoder.cell", "gruu", "gru"),
        ("decoder.attention.score", "aditive", "additive"),
        ("bridge.kind", "projekted", "projected"),
        ("embed.positions", "sinusoidal", "sinusoid"),
        ("encoder.kind", "transfomer", "transformer"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(key: str, typo: str, meant: str) -> None:
    tree: Layer = {}
    put(tree, key, typo)
    with pytest.raises(UserError) as caught:
        compose(("flag", tree))
    assert caught.value.what.startswith(f"{key}: '{typo}' is not known; did you mean '{meant}'")
    assert "Known: " in caught.value.what
    assert caught.value.exit_code == 2


# --- the batch


def test_the_target_is_shifted_by_one_and_ends_with_end() -> None:
    batch = Batch.of([[5, 6, 7], [8]], [[9], [10, 11]])
    assert batch.source.tolist() == [[5, 6, 7, END], [8, END, PAD, PAD]]
    assert batch.source_mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.given.tolist() == [[START, 9, PAD], [START, 10, 11]]
    assert batch.wanted.tolist() == [[9, END, PAD], [10, 11, END]]
    assert batch.target_mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.target_tokens == 5


def test_an_empty_line_is_one_end() -> None:
    batch = Batch.of([[]], [[]])
    assert (batch.source.tolist(), batch.given.tolist(), batch.wanted.tolist()) == ([[END]], [[START]], [[END]])


# --- the contract


@everywhere
def test_padding_changes_nothing(name: str) -> None:
    model = built(name)
    with torch.inference_mode():
        together = model.bridge(model.encoder(BATCH.source, BATCH.source_mask))
        logits = model(BATCH).logits
        for row, (source, target) in enumerate(zip(SOURCES, TARGETS)):
            alone = Batch.of([source], [target])
            memory = model.bridge(model.encoder(alone.source, alone.source_mask))
            same(together.states[row, : len(source) + 1], memory.states[0])
            for ours, theirs in zip(together.final, memory.final, strict=True):
                same(ours[row], theirs[0])
            same(logits[row, : len(target) + 1], model(alone).logits[0])


@everywhere
def test_a_symbol_changes_its_own_place_and_none_before_it(name: str) -> None:
    model = built(name)
    batch = Batch.of(rows([4, 4], seed=3), rows([5, 5], seed=4))
    with torch.inference_mode():
        before = model(batch).logits
        for place in range(1, batch.given.shape[1]):
            given = batch.given.clone()
            given[:, place] = (given[:, place] - END) % (SYMBOLS - END - 1) + END + 1  # another symbol of text
            after = model(Batch(batch.source, batch.source_mask, given, batch.wanted, batch.target_mask)).logits
            same(after[:, :place], before[:, :place], within=1e-6)
            assert (after[:, place] - before[:, place]).abs().amax() > 1e-4


@everywhere
def test_the_source_is_seen(name: str) -> None:
    model = built(name)
    with torch.inference_mode():
        one = model(Batch.of([[4, 5, 6]], [[7, 8]])).logits
        for other in ([9, 5, 6], [4, 9, 6], [4, 5, 9]):
            assert (model(Batch.of([other], [[7, 8]])).logits - one).abs().amax() > 1e-5


@everywhere
def test_step_by_step_equals_all_at_once(name: str) -> None:
    model = built(name)
    with torch.inference_mode():
        whole = model(BATCH).log_probs
        state = model.begin(BATCH.source, BATCH.source_mask)
        for place, y in enumerate(BATCH.given.unbind(1)):
            log_probs, state = model.advance(y, state)
            real = BATCH.target_mask[:, place]
            same(log_probs[real], whole[:, place][real])
    assert torch.allclose(whole.exp().sum(-1), torch.ones(()))


@everywhere
def test_all_at_once_goes_on_from_steps_already_taken(name: str) -> None:
    model, batch = built(name), Batch.of(rows([4, 4], seed=3), rows([5, 5], seed=4))
    with torch.inference_mode():
        state = model.decoder.start(model.bridge(model.encoder(batch.source, batch.source_mask)))
        whole = model.decoder.unroll(batch.given, state)
        for y in batch.given[:, :2].unbind(1):
            _, state = model.decoder.step(y, state)
        same(model.decoder.unroll(batch.given[:, 2:], state), whole[:, 2:])


@everywhere
def test_select_reorders_repeats_and_drops_hypotheses(name: str) -> None:
    model, order = built(name), torch.tensor([3, 0, 0, 1])
    first, second, third = torch.tensor([4, 5, 6, 7]), torch.tensor([8, 9, 4, 5]), torch.tensor([6, 6, 7, 8])
    with torch.inference_mode():
        _, state = model.advance(first, model.begin(BATCH.source, BATCH.source_mask))
        straight, after = model.advance(second, state)
        chosen, after_chosen = model.advance(second[order], state.select(order))
        same(chosen, straight[order])
        same(model.advance(third[order], after_chosen)[0], model.advance(third, after)[0][order])
        same(model.advance(second, state)[0], straight, within=0)  # a state is a value: stepping leaves it as it was


@everywhere
def test_a_step_of_no_hypotheses_is_empty(name: str) -> None:
    model, none = built(name), torch.empty(0, dtype=torch.long)
    with torch.inference_mode():
        state = model.begin(BATCH.source, BATCH.source_mask).select(none)
        assert model.advance(none, state)[0].shape == (0, SYMBOLS)


@everywhere
def test_every_parameter_gets_a_gradient(name: str) -> None:
    torch.manual_seed(1)
    model = build(name).double()
    batch = Batch.of(rows([6] * 8, seed=5), rows([6] * 8, seed=6))
    CrossEntropy()(model(batch), batch).total.backward()
    rotary = spec_of(name).embed.positions == "rotary"
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{key} is not used"
        if key.endswith(".key.bias") and (".cross." in key or not rotary):
            # q·(k + b) moves all scores of a query alike, and softmax does not see that
            assert parameter.grad.abs().amax() < 1e-9
        else:
            assert parameter.grad.abs().amax() > 1e-9, f"{key} has no gradient"


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
    assert tied.head.weight is tied.decoder.embed.table.weight
    assert untied.head.weight is not untied.decoder.embed.table.weight


def test_a_shared_table_serves_both_sides() -> None:
    shared, own = (build(f"widths-recurrent-to-recurrent-tied{end}") for end in ("-shared", ""))
    assert shared.encoder.embed.table is shared.decoder.embed.table
    assert own.encoder.embed.table is not own.decoder.embed.table


# --- learning


def copiers() -> dict[str, Layer]:
    """Each cell, each score, each family and its positions once."""
    made = {}
    cells, scores = list(CELLS), list(SCORES)
    for number in range(max(len(cells), len(scores))):
        cell, score = cells[number % len(cells)], scores[number % len(scores)]
        part = recurrent(cell=cell, width=32, attention={"score": score})
        made[f"{cell}-{score}"] = layer(encoder=recurrent(cell=cell, width=32), decoder=part)
    made["no-attention"] = layer(
        encoder=recurrent(width=32), decoder=recurrent(width=32, attention={"score": "none"}), bridge__give="every"
    )
    width = {"encoder": {"width": 32}, "decoder": {"width": 32}}
    for encoder, decoder in FAMILIES[1:]:
        made[f"{encoder}-to-{decoder}"] = sides(encoder, decoder, width)
    for positions in POSITIONS:
        if positions not in ("none", "sinusoid"):
            made[f"transformer-{positions}"] = sides(
                "transformer", "transformer", {"embed": {"positions": positions}, **width}
            )
    return {name: {**tree, "train": {"dropout": 0.0}} for name, tree in made.items()}


COPIERS = copiers()
ALPHABET = range(END + 1, END + 7)


def strings(count: int, rng: random.Random) -> list[list[int]]:
    return [[rng.choice(ALPHABET) for _ in range(rng.randint(3, 5))] for _ in range(count)]


def taught(tree: Layer, steps: int, seed: int) -> nn.Module:
    """A model after `steps` updates on fresh random strings, the rate rising for 20 and then falling."""
    torch.manual_seed(seed)
    model, rng = assemble(compose(("flag", tree)).spec, ALPHABET.stop, ALPHABET.stop), random.Random(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min((step + 1) / 20, 1.05 - step / steps))
    for _ in range(steps):
        batch = Batch.of(*[strings(64, rng)] * 2)
        loss = CrossEntropy()(model(batch), batch)
        optimiser.zero_grad()
        (loss.total / loss.count).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return model.eval()


@pytest.mark.parametrize("name", COPIERS)
def test_it_learns_to_copy(name: str) -> None:
    model = taught(COPIERS[name], steps=600 if name == "no-attention" else 250, seed=1)
    unseen = strings(200, random.Random(99))
    found = decode(model, unseen, Plan(kind="greedy"), torch.device("cpu"))
    right = sum(list(best[0].ids) == line for best, line in zip(found, unseen))
    assert right > 0.9 * len(unseen)
