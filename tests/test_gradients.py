"""Gradients against differences in float64, for every line of every table; where there is none, that too is tested."""

# B batch · S source length · T target length · D width · V symbols

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck

from byhand import lengths_to_mask, shaken
from weft.core.emissions import Choice
from weft.core.kinds import Batch, Memory
from weft.core.pair import END
from weft.learn.objectives import OBJECTIVES
from weft.nn.assemble import BRIDGES, CELLS, JOINS, POSITIONS, PROJECTIONS, SCORES, WEIGHERS
from weft.nn.attention import Attention
from weft.nn.dropout import Dropout
from weft.nn.heads import Copy, Ctc, Tokens
from weft.nn.multihead import MultiHead
from weft.nn.positions import Attended
from weft.nn.readers import tokens
from weft.nn.readers.tokens import TokenReader
from weft.nn.unroll import LayerOptions, Reader, Stack, over_time

WITHOUT = ("nearest", "exact")  # no gradient to scores, by definition
SMOOTH = [name for name in WEIGHERS if name not in (*WITHOUT, "straight-through")]  # that one lies about its gradient


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(7)


@pytest.fixture
def _in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads and objectives compute in float32 at least, and `float()` makes it so; here float64 stays what it is."""
    monkeypatch.setattr(torch.Tensor, "float", lambda x: x.double())


def free(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def check(call: Callable[[], Any], module: nn.Module, *inputs: Tensor) -> None:
    """Of everything that `call` returns, by every input and every parameter."""
    leaves = (*inputs, *module.parameters())
    assert gradcheck(lambda *_: call(), leaves, atol=1e-6)


@pytest.mark.parametrize("width", [3, 4])
@pytest.mark.parametrize("name", CELLS)
def test_a_step_of_a_cell(name: str, width: int) -> None:
    """Three inputs: at width 3 a cell that adds x itself does not project it."""
    cell = shaken(CELLS[name](3, width))
    x, state = free(2, 3), tuple(free(2, width) for _ in cell.start(2))
    check(lambda: cell(x, state)[1], cell, x, *state)


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_over_time(name: str) -> None:
    cell = shaken(CELLS[name](2, 3))
    x, state = free(2, 4, 2), tuple(free(2, 3) for _ in cell.start(2))

    def run() -> tuple[Tensor, ...]:
        out, after = over_time(cell, x, state)
        return out, *after

    check(run, cell, x, *state)


def test_layers_with_residuals_and_norms() -> None:
    options = LayerOptions(residual=True, norm=True)
    stack, x = shaken(Stack([CELLS["gru"](3, 4), CELLS["gru"](4, 4)], options)), free(2, 3, 3)
    check(lambda: stack.sequence(x, stack.start(2, ())), stack, x)
    check_reader("lstm", options, whole_state=False)


@pytest.mark.parametrize("name", [name for name in CELLS if name.startswith("lstm")])
def test_a_reader_that_hands_over_h_and_c(name: str) -> None:
    check_reader(name, LayerOptions(), whole_state=True)


def check_reader(name: str, options: LayerOptions, whole_state: bool) -> None:
    cells = [[CELLS[name](3, 2), CELLS[name](4, 2)] for _ in range(2)]
    reader, x, mask = shaken(Reader(*cells, options, whole_state)), free(2, 3, 3), lengths_to_mask(torch.tensor([3, 1]))

    def read() -> tuple[Tensor, ...]:
        states, final, memories = reader(x, mask)
        return states[mask], *final, *memories

    check(read, reader, x)


@pytest.mark.parametrize("name", SCORES)
def test_a_score(name: str) -> None:
    score = shaken(SCORES[name](3, 3 if SCORES[name].same_width else 2))
    query, keys = free(2, 2, 3), free(2, 4, 3 if SCORES[name].same_width else 2)
    check(lambda: score(query, score.keys(keys)), score, query, keys)


@pytest.mark.parametrize("name", SMOOTH)
def test_a_weigher(name: str) -> None:
    scores, mask = free(3, 5), lengths_to_mask(torch.tensor([5, 3, 1]))
    check(lambda: WEIGHERS[name](scores.masked_fill(~mask, float("-inf"))), nn.Identity(), scores)


def looking(name: str, project: str = "none", heads: int = 2) -> tuple[Attention, Tensor, Tensor, Memory]:
    score = SCORES["rbf" if name == "exact" else "bilinear"]
    attention = shaken(Attention(4, 4, score, WEIGHERS[name], PROJECTIONS[project], heads))
    query, states = free(2, 2, 4), free(2, 3, 4)
    return attention, query, states, Memory(states, lengths_to_mask(torch.tensor([3, 2])))


@pytest.mark.parametrize("project", PROJECTIONS)
@pytest.mark.parametrize("weigh", SMOOTH)
def test_attention_with_projections_and_heads(weigh: str, project: str) -> None:
    attention, query, states, memory = looking(weigh, project)
    check(lambda: attention(query, attention.prepare(memory)), attention, query, states)


@pytest.mark.parametrize("name", WITHOUT)
def test_no_gradient_reaches_queries_keys_and_scores_but_values_learn(name: str) -> None:
    attention, query, states, _ = looking(name, "none" if name == "exact" else "linear")
    with torch.no_grad():
        query[0, 0] = states[0, 1]  # one exact match
    memory = Memory(states, lengths_to_mask(torch.tensor([3, 2])))
    prepared = attention.prepare(memory)
    (attention(query, prepared) ** 2).sum().backward()
    assert query.grad is None
    assert all(p.grad is None for part in (attention.query, attention.key, attention.scores) for p in part.parameters())
    assert states.grad is not None
    assert states.grad.any()
    chosen = states.grad.abs().sum(-1) > 0
    assert chosen.sum() <= (1 if name == "exact" else 8)
    assert not chosen[1, 2]  # not real
    if name == "exact":
        assert chosen[0, 1]
    else:
        assert attention.value.weight.grad.any()


@pytest.mark.parametrize("name", [*SMOOTH, "nearest"])
def test_multihead_in_the_open_and_on_the_fused_kernel(name: str) -> None:
    heads, x = shaken(MultiHead(4, 2, None, SCORES["scaled"], WEIGHERS[name])), free(2, 3, 4)
    mask = lengths_to_mask(torch.tensor([3, 2]))[:, None, None]

    def attend() -> Tensor:
        q, k, v = (heads.split(part(x)) for part in (heads.query, heads.key, heads.value))
        return heads.attend(q, k, v, mask, "looked")

    check(attend, heads, x)


@pytest.mark.parametrize("name", JOINS)
def test_a_join(name: str) -> None:
    join, h, context = shaken(JOINS[name](3, 2)), free(2, 2, 3), free(2, 2, 2)
    check(lambda: join(h, context), join, h, context)


@pytest.mark.parametrize("name", [name for name in BRIDGES if name != "zeros"])
def test_a_bridge(name: str) -> None:
    bridge, states, final = shaken(BRIDGES[name](3, 3, 2)), free(2, 3, 3), free(2, 3)
    memory = Memory(states, lengths_to_mask(torch.tensor([3, 1])), (final,))
    check(lambda: bridge(memory).final, bridge, *([states] if name == "mean" else [final]))


@pytest.mark.parametrize("name", ["last", "projected", "mlp"])
def test_a_bridge_that_hands_over_h_and_c(name: str) -> None:
    bridge, states, final, cell = shaken(BRIDGES[name](3, 3, 2, True)), free(2, 3, 3), free(2, 3), free(2, 3)
    memory = Memory(states, lengths_to_mask(torch.tensor([3, 1])), (final,), cells=(cell,))
    check(lambda: bridge(memory).final + bridge(memory).cells, bridge, final, cell)


def test_a_bridge_of_zeros_hands_nothing_back() -> None:
    final = free(2, 3)
    assert BRIDGES["zeros"](3, 3, 2)(Memory(free(2, 3, 3), torch.ones(2, 3).bool(), (final,))).final == ()


@pytest.mark.parametrize("name", POSITIONS)
def test_a_position_scheme(name: str) -> None:
    scheme = shaken(POSITIONS[name](8, Attended(2, layers=2)))
    x, heads = free(1, 3, 8 - scheme.room), free(1, 2, 3, 4)
    start = 510 if name == "learned" else 20  # the last place of the table is among them

    def act() -> tuple[Tensor, ...]:
        bias = scheme.bias(3, 23, 20)
        learned = bias is not None and bias.requires_grad
        return scheme.add(x, start), scheme.turn(heads, start), *([bias] if learned else [])

    assert gradcheck(lambda *_: act(), (x, heads, *scheme.parameters()), fast_mode=True)  # tables have many numbers


def test_symbols_through_a_projection_and_learned_places() -> None:
    embed = TokenReader(tokens.table(5, 3), 4, POSITIONS["learned"](4), Dropout(0.0))
    embed = shaken(embed)
    ids = torch.tensor([[4, 1, 2], [3, 4, 4]])
    check(lambda: embed(ids), embed.project)
    assert gradcheck(lambda *_: embed(ids), (embed.table.weight,))


@pytest.mark.usefixtures("_in_double")
@pytest.mark.parametrize("tied", [True, False])
def test_the_head_that_copies(tied: bool) -> None:
    table = tokens.table(7, 2)
    head = shaken(Copy(3, 2, table, tied, turned=False, copies=[0, 1, 2, 3, 5, 5, 1]))
    source, mask = torch.tensor([[4, 5, 6, END], [6, END, 0, 0]]), lengths_to_mask(torch.tensor([4, 2]))
    out, states = free(2, 2, 3), free(2, 4, 2)
    seen = Memory(states, mask, source=source)
    check(lambda: head(out, seen).log_probs, head, out, states)


@pytest.mark.usefixtures("_in_double")
@pytest.mark.parametrize("kind", [Tokens, Ctc])
def test_the_heads_that_write(kind: type[Tokens]) -> None:
    head, out = shaken(kind(3, 3, tokens.table(6, 2), False, turned=False)), free(2, 2, 3)
    check(lambda: head(out, None).log_probs, head, out)


@pytest.mark.usefixtures("_in_double")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["cross-entropy", "ctc"])
def test_an_objective(kind: str, smoothing: float) -> None:
    batch = Batch.of([[4, 5, 6, 4], [4, 5], [4]], [[5, 5], [6], []])
    length = batch.source.values.shape[1] if kind == "ctc" else batch.wanted.values.shape[1]
    logits = free(3, length, 7)
    check(lambda: OBJECTIVES[kind](smoothing)(Choice(logits), batch).total, nn.Identity(), logits)


@pytest.mark.parametrize("kind", ["cross-entropy", "ctc"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_no_gradient_comes_from_places_that_are_not_real(kind: str, smoothing: float) -> None:
    batch = Batch.of([[4, 5, 6, 4], [4, 5], [4]], [[5, 5], [6], []])
    mask = batch.source.mask if kind == "ctc" else batch.wanted.mask
    logits = free(*mask.shape, 7)
    OBJECTIVES[kind](smoothing)(Choice(logits), batch).total.backward()
    assert not logits.grad[~mask].any()
    assert logits.grad[mask].abs().amax(-1).gt(0).all()
