"""Each part against a reference that somebody else wrote, or against its equation in DESIGN §6 in plain algebra."""

# B batch · S keys · T queries or steps · D width · I input width · H heads

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from byhand import JOINED, PROJECTED, SCORED, WEIGHED, Vector, array, attended, lengths_to_mask
from byhand import same as exactly
from byhand import shaken as shaken_in_double
from weft.core.emissions import Choice
from weft.core.kinds import Batch, Memory
from weft.core.lines import Lines
from weft.core.masks import causal
from weft.core.pair import PAD, UNKNOWN
from weft.core.shapes import Symbols
from weft.core.trace import trace
from weft.learn.objectives import CrossEntropy
from weft.nn.assemble import BRIDGES, CELLS, JOINS, PROJECTIONS, SCORES, WEIGHERS, assemble
from weft.nn.attention import ONWARDS, Attention
from weft.nn.cache import Cache
from weft.nn.cells import Elman, ElmanSigmoid, Gru, GruAfter, Mut1, Mut2, Mut3, Recurrence
from weft.nn.decoders.transformer import DecoderBlock, Seen, TransformerState
from weft.nn.encoders import EncoderBlock
from weft.nn.heads import Copy, copied_as
from weft.nn.lstm import Lstm, LstmB
from weft.nn.multihead import MultiHead
from weft.nn.positions import NoPositions
from weft.nn.readers import tokens as embedding
from weft.nn.unroll import LayerOptions, Reader, over_time
from weft.settings import compose

State = tuple[Tensor, ...]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(7)


def same(a: Tensor, b: Tensor, within: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, atol=within, rtol=1e-5)


def shaken(module: nn.Module) -> nn.Module:
    """With no bias left at zero."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return module


# --- recurrences


def torch_names(cell: Lstm, suffix: str = "") -> dict[str, Tensor]:
    """The weights under the names that torch's LSTM gives them, which has a second bias."""
    return {
        f"weight_ih{suffix}": cell.input.weight,
        f"weight_hh{suffix}": cell.hidden.weight,
        f"bias_ih{suffix}": cell.input.bias,
        f"bias_hh{suffix}": torch.zeros_like(cell.input.bias),
    }


def test_lstm_over_a_sequence_equals_torch() -> None:
    cell, theirs = shaken(Lstm(5, 6)), nn.LSTM(5, 6, batch_first=True)
    theirs.load_state_dict(torch_names(cell, "_l0"))
    x, h, c = torch.randn(3, 7, 5), torch.randn(3, 6), torch.randn(3, 6)
    out, (h_after, c_after) = over_time(cell, x, (h, c))
    their_out, (their_h, their_c) = theirs(x, (h[None], c[None]))
    same(out, their_out)
    same(h_after, their_h[0])
    same(c_after, their_c[0])


def test_lstm_step_by_step_equals_torch() -> None:
    cell, theirs = shaken(Lstm(5, 6)), nn.LSTMCell(5, 6)
    theirs.load_state_dict(torch_names(cell))
    state = their_state = (torch.randn(3, 6), torch.randn(3, 6))
    for x in torch.randn(7, 3, 5):
        h, state = cell(x, state)
        their_state = theirs(x, their_state)
        same(h, their_state[0])
        same(state[1], their_state[1])


@pytest.mark.parametrize("whole_state", [True, False])
def test_lstm_in_both_directions_and_two_layers_equals_torch_on_packed_rows(whole_state: bool) -> None:
    ahead, back = ([Lstm(5, 6), Lstm(12, 6)] for _ in range(2))
    reader = shaken(Reader(ahead, back, LayerOptions(), whole_state))
    theirs = nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True)
    weights = {}
    for layer in range(2):
        weights |= torch_names(ahead[layer], f"_l{layer}") | torch_names(back[layer], f"_l{layer}_reverse")
    theirs.load_state_dict(weights)
    lengths = torch.tensor([4, 7, 1])
    x, mask = torch.randn(3, 7, 5), lengths_to_mask(lengths)
    states, final, memories = reader(x, mask)
    packed, (their_final, their_memories) = theirs(
        pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    )
    same(states[mask], pad_packed_sequence(packed, batch_first=True)[0][mask])
    for layer in range(2):
        same(final[layer], torch.cat([their_final[2 * layer], their_final[2 * layer + 1]], dim=-1))
        if whole_state:
            same(memories[layer], torch.cat([their_memories[2 * layer], their_memories[2 * layer + 1]], dim=-1))
    assert len(memories) == 2 * whole_state


def elman(cell: Elman, x: Tensor, state: State) -> State:
    w, u, b = cell.input.weight, cell.hidden.weight, cell.input.bias
    return (torch.tanh(w @ x + u @ state[0] + b),)


def elman_sigmoid(cell: ElmanSigmoid, x: Tensor, state: State) -> State:
    w, u, b = cell.input.weight, cell.hidden.weight, cell.input.bias
    return (logistic(w @ x + u @ state[0] + b),)


def lstm(cell: Lstm, x: Tensor, state: State) -> State:
    (wi, wf, wc, wo), (ui, uf, uc, uo) = cell.input.weight.chunk(4), cell.hidden.weight.chunk(4)
    bi, bf, bc, bo = cell.input.bias.chunk(4)
    h, c = state
    i, f, o = logistic(wi @ x + ui @ h + bi), logistic(wf @ x + uf @ h + bf), logistic(wo @ x + uo @ h + bo)
    c = i * torch.tanh(wc @ x + uc @ h + bc) + f * c
    return o * torch.tanh(c), c


def gru(cell: Gru, x: Tensor, state: State) -> State:
    (wz, wr, wh), (bz, br, bh) = cell.input.weight.chunk(3), cell.input.bias.chunk(3)
    (uz, ur), uh, h = cell.gates.weight.chunk(2), cell.candidate.weight, state[0]
    z, r = logistic(wz @ x + uz @ h + bz), logistic(wr @ x + ur @ h + br)
    return ((1 - z) * h + z * torch.tanh(wh @ x + uh @ (r * h) + bh),)


def logistic(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def lstm_without(open_gate: str) -> Callable[..., State]:
    """The LSTM with one gate at 1; the weights of the others stand in the order i, f, o, then the candidate's."""

    def equation(cell: Recurrence, x: Tensor, state: State) -> State:
        left = [gate for gate in "ifo" if gate != open_gate]
        w, u, b = (t.chunk(3) for t in (cell.input.weight, cell.hidden.weight, cell.input.bias))
        h, c = state
        gates = {gate: logistic(w[n] @ x + u[n] @ h + b[n]) for n, gate in enumerate(left)}
        gates[open_gate] = torch.ones(6)
        c = gates["i"] * torch.tanh(w[2] @ x + u[2] @ h + b[2]) + gates["f"] * c
        return gates["o"] * torch.tanh(c), c

    return equation


def gru_after(cell: GruAfter, x: Tensor, state: State) -> State:
    (wr, wz, wh), (br, bz, bh) = cell.input.weight.chunk(3), cell.input.bias.chunk(3)
    (ur, uz, uh), h = cell.hidden.weight.chunk(3), state[0]
    z, r = logistic(wz @ x + uz @ h + bz), logistic(wr @ x + ur @ h + br)
    return (z * h + (1 - z) * torch.tanh(wh @ x + bh + r * (uh @ h + cell.bias)),)


def mut1(cell: Mut1, x: Tensor, state: State) -> State:
    (wz, wr), (bz, br), h = cell.gates_in.weight.chunk(2), cell.gates_in.bias.chunk(2), state[0]
    z, r = logistic(wz @ x + bz), logistic(wr @ x + cell.reset.weight @ h + br)
    x = cell.direct.weight @ x  # 5 inputs, width 6: x is projected first
    return (torch.tanh(cell.candidate.weight @ (r * h) + torch.tanh(x) + cell.bias) * z + h * (1 - z),)


def mut2(cell: Mut2, x: Tensor, state: State) -> State:
    (wz, wh), (bz, bh), h = cell.input.weight.chunk(2), cell.input.bias.chunk(2), state[0]
    uz, ur = cell.gates.weight.chunk(2)
    z, r = logistic(wz @ x + uz @ h + bz), logistic(cell.direct.weight @ x + ur @ h + cell.bias)
    return (torch.tanh(cell.candidate.weight @ (r * h) + wh @ x + bh) * z + h * (1 - z),)


def mut3(cell: Mut3, x: Tensor, state: State) -> State:
    (wz, wr, wh), (bz, br, bh), h = cell.input.weight.chunk(3), cell.input.bias.chunk(3), state[0]
    uz, ur = cell.gates.weight.chunk(2)
    z, r = logistic(wz @ x + uz @ torch.tanh(h) + bz), logistic(wr @ x + ur @ h + br)
    return (torch.tanh(cell.candidate.weight @ (r * h) + wh @ x + bh) * z + h * (1 - z),)


EQUATIONS: dict[str, Callable[..., State]] = {
    "elman": elman,
    "elman-sigmoid": elman_sigmoid,
    "lstm": lstm,
    "lstm-f": lstm_without("f"),
    "lstm-i": lstm_without("i"),
    "lstm-o": lstm_without("o"),
    "lstm-b": lstm,
    "gru": gru,
    "gru-after": gru_after,
    "mut1": mut1,
    "mut2": mut2,
    "mut3": mut3,
}


def test_the_forget_bias_of_lstm_b_starts_at_one_and_of_lstm_at_zero() -> None:
    assert LstmB(5, 6).input.bias.chunk(4)[1].tolist() == [1.0] * 6
    assert LstmB(5, 6).input.bias.chunk(4)[0].tolist() == [0.0] * 6
    assert Lstm(5, 6).input.bias.chunk(4)[1].tolist() == [0.0] * 6


def test_a_cell_that_adds_x_itself_does_not_project_it_when_the_widths_agree() -> None:
    cell, x, state = shaken(Mut1(6, 6)), torch.randn(2, 6), (torch.randn(2, 6),)
    assert isinstance(cell.direct, nn.Identity)
    z, r = (logistic(t) for t in (cell.gates_in(x) + torch.cat([0 * state[0], cell.reset(state[0])], -1)).chunk(2, -1))
    wanted = torch.tanh(cell.candidate(r * state[0]) + torch.tanh(x) + cell.bias) * z + state[0] * (1 - z)
    same(cell(x, state)[0], wanted)


def test_gru_after_equals_torchs_gru() -> None:
    cell, theirs = shaken(GruAfter(5, 6)), nn.GRU(5, 6, batch_first=True)
    inside = torch.cat([torch.zeros(12), cell.bias.detach()])
    weights = {"weight_ih_l0": cell.input.weight, "bias_ih_l0": cell.input.bias}
    theirs.load_state_dict({**weights, "weight_hh_l0": cell.hidden.weight, "bias_hh_l0": inside})
    x, h = torch.randn(3, 7, 5), torch.randn(3, 6)
    out, (after,) = over_time(cell, x, (h,))
    their_out, their_after = theirs(x, h[None])
    same(out, their_out)
    same(after, their_after[0])


def made(name: str) -> tuple[Recurrence, State]:
    """A cell of 5 inputs and width 6, and a random state of two rows."""
    cell = shaken(CELLS[name](5, 6))
    return cell, tuple(torch.randn_like(s) for s in cell.start(2))


@pytest.mark.parametrize("name", CELLS)
def test_a_step_of_a_cell_is_its_equation(name: str) -> None:
    cell, state = made(name)
    x = torch.randn(2, 5)
    h, after = cell(x, state)
    for row in range(2):
        wanted = EQUATIONS[name](cell, x[row], tuple(s[row] for s in state))
        same(h[row], wanted[0])
        for ours, theirs in zip(after, wanted, strict=True):
            same(ours[row], theirs)


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_over_time_is_its_equation_again_and_again(name: str) -> None:
    cell, state = made(name)
    x = torch.randn(2, 9, 5)
    out, after = over_time(cell, x, state)
    for row in range(2):
        wanted = tuple(s[row] for s in state)
        for place in range(9):
            wanted = EQUATIONS[name](cell, x[row, place], wanted)
            same(out[row, place], wanted[0])
        same(after[0][row], wanted[0])


def test_gru_is_not_torchs_gru_where_the_reset_gate_acts_after_the_matrix() -> None:
    cell, theirs = shaken(Gru(5, 6)), nn.GRUCell(5, 6)
    z, r, n = (
        t.chunk(3) for t in (cell.input.weight, cell.input.bias, torch.cat([cell.gates.weight, cell.candidate.weight]))
    )
    weights = {
        "weight_ih": torch.cat([z[1], -z[0], z[2]]),
        "bias_ih": torch.cat([r[1], -r[0], r[2]]),
    }  # torch: r, 1 − z, n
    weights |= {"weight_hh": torch.cat([n[1], -n[0], n[2]]), "bias_hh": torch.zeros(18)}
    theirs.load_state_dict(weights)
    x, h = torch.randn(2, 5), torch.randn(2, 6)
    same(cell(x, (torch.zeros(2, 6),))[0], theirs(x, torch.zeros(2, 6)))  # with nothing to reset they agree
    assert (cell(x, (h,))[0] - theirs(x, h)).abs().max() > 1e-2


# --- attention


def looked(
    names: tuple[str, str, str], heads: int, query_width: int, key_width: int
) -> tuple[Attention, Tensor, Memory, list[int]]:
    """An attention by the names of score, weigher and projection, with queries and two sources of 5 and 2 places."""
    score, weigh, project = SCORES[names[0]], WEIGHERS[names[1]], PROJECTIONS[names[2]]
    attention = shaken_in_double(Attention(query_width, key_width, score, weigh, project, heads))
    lengths = [5, 2]
    states = torch.randn(2, 5, key_width).double()
    return (
        attention,
        torch.randn(2, 3, query_width).double(),
        Memory(states, lengths_to_mask(torch.tensor(lengths))),
        lengths,
    )


def check_by_loops(names: tuple[str, str, str], heads: int, query_width: int, key_width: int) -> None:
    attention, query, memory, lengths = looked(names, heads, query_width, key_width)
    with trace() as seen:
        context = attention(query, attention.prepare(memory))
    (weights,) = seen["decode.cross"]
    assert weights.shape == (2, heads, 3, 5)
    for row, place in product(range(2), range(3)):
        states = list(array(memory.states[row, : lengths[row]]))
        wanted, of_heads = attended(attention, names, array(query[row, place]), states)
        exactly(context[row, place], wanted)
        for head in range(heads):
            exactly(weights[row, head, place, : lengths[row]], of_heads[head])
            assert not weights[row, head, place, lengths[row] :].any()


@pytest.mark.parametrize("name", SCORES)
def test_attention_equals_loops_over_queries_and_keys(name: str) -> None:
    assert name in SCORED, f"write down the formula of {name} in byhand.py"
    check_by_loops((name, "softmax", "none"), 1, 6, 6 if SCORES[name].same_width else 4)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("heads", [2, 3])
def test_heads_look_with_their_slices_and_stand_side_by_side(score: str, heads: int) -> None:
    check_by_loops((score, "softmax", "none"), heads, 6, 6 if SCORES[score].same_width else 12)


@pytest.mark.parametrize("name", PROJECTIONS)
@pytest.mark.parametrize("heads", [1, 2])
def test_a_projection_acts_on_query_key_and_value(name: str, heads: int) -> None:
    assert name in PROJECTED, f"write down the formula of {name} in byhand.py"
    for score in ("dot", "additive") if name != "none" else ("bilinear",):
        check_by_loops((score, "softmax", name), heads, 6, 4)


@pytest.mark.parametrize("name", [name for name in WEIGHERS if name != "exact"])
def test_attention_weighs_by_the_formula(name: str) -> None:
    assert name in WEIGHED, f"write down the formula of {name} in byhand.py"
    check_by_loops(("rbf" if name == "kernel" else "additive", name, "none"), 2, 6, 6)


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_that_moves_adds_to_each_score_what_was_seen_around_it_before(heads: int) -> None:
    attention = shaken_in_double(Attention(4, 4, SCORES["dot"], WEIGHERS["softmax"], heads=heads, moves=ONWARDS))
    query, states = torch.randn(2, 1, 4).double(), torch.randn(2, 5, 4).double()
    memory, before = Memory(states, lengths_to_mask(torch.tensor([5, 3]))), torch.rand(2, heads, 5).double()
    before[1, :, 3:] = 0
    context, weights = attention.move(query, attention.prepare(memory), before)
    size = 4 // heads
    for row, length in ((0, 5), (1, 3)):
        for head in range(heads):
            part, scores = slice(head * size, (head + 1) * size), []
            for place in range(length):
                score = float(query[row, 0, part] @ states[row, place, part])
                for back, number in zip((2, 1, 0, -1), attention.moves[head].tolist()):
                    if 0 <= place - back < 5:
                        score += number * float(before[row, head, place - back])
                scores.append(score)
            wanted = torch.tensor(scores).double().softmax(0)
            exactly(weights[row, head, :length], wanted)
            exactly(context[row, 0, part], wanted @ states[row, :length, part])


def test_exact_attention_is_the_mean_of_the_values_that_equal_the_query() -> None:
    attention, query, memory, _ = looked(("rbf", "exact", "none"), 1, 6, 6)
    query[0, 0] = memory.states[0, 3]
    memory.states[1, 0] = memory.states[1, 1] = query[1, 2]
    context = attention(query, attention.prepare(memory))
    exactly(context[0, 0], memory.states[0, 3])
    exactly(context[1, 2], query[1, 2])
    assert not context[0, 1:].any()
    assert not context[1, :2].any()


@pytest.mark.parametrize("name", JOINS)
def test_state_and_context_are_joined_by_the_formula(name: str) -> None:
    assert name in JOINED, f"write down the formula of {name} in byhand.py"
    join, h, context = shaken_in_double(JOINS[name](6, 4)), torch.randn(2, 3, 6).double(), torch.randn(2, 3, 4).double()
    ours = join(h, context)
    for row, place in product(range(2), range(3)):
        exactly(ours[row, place], JOINED[name](join, array(h[row, place]), array(context[row, place])))


def heads(memory_width: int | None = None) -> MultiHead:
    made = shaken(MultiHead(8, 2, memory_width))
    assert isinstance(made, MultiHead)
    return made


def attend(ours: MultiHead, query: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
    q, k, v = ours.split(ours.query(query)), ours.split(ours.key(memory)), ours.split(ours.value(memory))
    return ours.attend(q, k, v, mask, "looked")


def test_multihead_equals_torch_on_padded_keys_of_another_width() -> None:
    ours, theirs = heads(memory_width=5), nn.MultiheadAttention(8, 2, batch_first=True, kdim=5, vdim=5)
    parts = [ours.query, ours.key, ours.value]
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    weights = {name: part.weight for name, part in zip(names, parts)}
    weights |= {"in_proj_bias": torch.cat([part.bias for part in parts])}
    weights |= {"out_proj.weight": ours.out.weight, "out_proj.bias": ours.out.bias}
    theirs.load_state_dict(weights)
    query, memory, mask = torch.randn(3, 4, 8), torch.randn(3, 6, 5), lengths_to_mask(torch.tensor([6, 2, 1]))
    same(attend(ours, query, memory, mask[:, None, None]), theirs(query, memory, memory, key_padding_mask=~mask)[0])


def test_multihead_equals_torch_on_itself_with_a_causal_mask() -> None:
    ours, theirs = heads(), nn.MultiheadAttention(8, 2, batch_first=True)
    parts = [ours.query, ours.key, ours.value]
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([part.weight for part in parts]),
            "in_proj_bias": torch.cat([part.bias for part in parts]),
            "out_proj.weight": ours.out.weight,
            "out_proj.bias": ours.out.bias,
        }
    )
    x, visible = torch.randn(3, 5, 8), causal(5, 0, torch.device("cpu"))
    same(attend(ours, x, x, visible), theirs(x, x, x, attn_mask=~visible)[0])


def test_multihead_is_scaled_attention_of_each_slice_joined() -> None:
    ours, x = heads(), torch.randn(2, 5, 8)
    q, k, v = ours.query(x), ours.key(x), ours.value(x)
    slices = [scaled_dot_product_attention(q[..., s], k[..., s], v[..., s]) for s in (slice(0, 4), slice(4, 8))]
    same(attend(ours, x, x, None), ours.out(torch.cat(slices, dim=-1)))


@pytest.mark.parametrize("masked", [False, True])
def test_multihead_says_the_same_while_somebody_traces(masked: bool) -> None:
    ours, x = heads(), torch.randn(2, 5, 8)
    mask = lengths_to_mask(torch.tensor([5, 3]))[:, None, None] if masked else None
    unseen = attend(ours, x, x, mask)
    with trace() as seen:
        open_to_see = attend(ours, x, x, mask)
    same(open_to_see, unseen)
    (weights,) = seen["looked"]
    assert weights.shape == (2, 2, 5, 5)
    same(weights.sum(-1), torch.ones(2, 2, 5))
    assert bool(weights[1, :, :, 3:].any()) is not masked


@pytest.mark.parametrize("weigh", [name for name in WEIGHERS if name != "exact"])
@pytest.mark.parametrize("score", SCORES)
def test_multihead_with_any_score_and_weigher_equals_loops(score: str, weigh: str) -> None:
    ours = shaken_in_double(MultiHead(6, 2, None, SCORES[score], WEIGHERS[weigh]))
    x, lengths = torch.randn(2, 4, 6).double(), [4, 2]
    said = attend(ours, x, x, lengths_to_mask(torch.tensor(lengths))[:, None, None])
    for row, place in product(range(2), range(4)):
        q, keys, values = ours.query(x[row, place]), ours.key(x[row]), ours.value(x[row])
        parts = []
        for head, cut in enumerate((slice(0, 3), slice(3, 6))):
            of_keys = [SCORED[score](ours.scores[head], array(q[cut]), array(k[cut])) for k in keys[: lengths[row]]]
            weights = WEIGHED[weigh](np.array(of_keys))
            parts.append(sum(w * array(v[cut]) for w, v in zip(weights, values)))
        exactly(said[row, place], array(ours.out.weight) @ np.concatenate(parts) + array(ours.out.bias))


# --- blocks of a Transformer, against torch's


def put_attention(theirs: nn.MultiheadAttention, ours: MultiHead) -> None:
    parts = [ours.query, ours.key, ours.value]
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def put_rest(theirs: Any, ours: Any, around: list[Any]) -> None:
    theirs.linear1.load_state_dict(ours.feed[0].state_dict())
    theirs.linear2.load_state_dict(ours.feed[3].state_dict())
    for norm, each in zip((theirs.norm1, theirs.norm2, *([theirs.norm3] if len(around) > 2 else [])), around):
        norm.load_state_dict(each.norm.state_dict())


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_of_the_encoder_equals_torchs(norm: str) -> None:
    ours = shaken_in_double(EncoderBlock(MultiHead(8, 2), 8, 12, norm, 0.0))
    theirs = nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True, norm_first=norm == "pre").double()
    put_attention(theirs.self_attn, ours.attention)
    put_rest(theirs, ours, [ours.around_attention, ours.around_feed])
    x, mask = torch.randn(2, 5, 8).double(), lengths_to_mask(torch.tensor([5, 3]))
    wanted = theirs(x, src_key_padding_mask=~mask)
    exactly(ours(x, mask[:, None, None], NoPositions())[mask], wanted[mask])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_of_the_decoder_equals_torchs(norm: str) -> None:
    ours = shaken_in_double(DecoderBlock(MultiHead(8, 2), MultiHead(8, 2), 8, 12, norm, 0.0))
    theirs = nn.TransformerDecoderLayer(8, 2, 12, 0.0, batch_first=True, norm_first=norm == "pre").double()
    put_attention(theirs.self_attn, ours.own)
    put_attention(theirs.multihead_attn, ours.cross)
    put_rest(theirs, ours, [ours.around_own, ours.around_cross, ours.around_feed])
    x, memory = torch.randn(2, 4, 8).double(), torch.randn(2, 5, 8).double()
    mask, visible = lengths_to_mask(torch.tensor([5, 3])), causal(4, 0, x.device)
    source = (ours.cross.split(ours.cross.key(memory)), ours.cross.split(ours.cross.value(memory)))
    begun = TransformerState((source,), mask[:, None, None], Lines(2), Cache.start(2, 1, 2, source[0]))
    said = ours(x, source, begun, Seen(NoPositions(), visible, None))
    exactly(said, theirs(x, memory, tgt_mask=~visible, memory_key_padding_mask=~mask))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_last_norm_stands_where_the_blocks_leave_their_sum_as_it_is(norm: str) -> None:
    part = {"kind": "transformer", "width": 8, "layers": 2, "heads": 2, "inner": 12, "norm": norm}
    spec = compose(("flag", {"embed": {"width": 8}, "encoder": part, "decoder": part})).spec
    model = assemble(spec, Symbols(9), Symbols(9)).eval()
    batch = Batch.of([[5, 6, 7]], [[8, 4]])
    memory = model.encode(batch.source)
    for states in (memory.states, model.decode(batch)[0]):
        same(states.mean(-1), torch.zeros(states.shape[:2]))
        same(states.var(-1, unbiased=False), torch.ones(states.shape[:2]), within=1e-3)


# --- a recurrent decoder as a whole


def decoded_by_hand(
    model: Any, before: bool, feed: bool, join: str, source: list[int], given: list[int]
) -> list[Vector]:
    """sₜ = cell([yₜ; summary; c], sₜ₋₁), oₜ = join(sₜ, cₜ), one symbol after the other, for one line."""
    batch = Batch.of([source], [[]])
    memory = model.read(batch.source)
    decoder, table, states = model.decoder, model.target_reader.table, list(array(memory.states[0]))
    state, summary = memory.final[0][0].detach(), array(memory.final[-1][0])
    context, outs = np.zeros(len(states[0])), []

    def look(query: Tensor) -> Vector:
        return attended(decoder.attention, ("additive", "softmax", "none"), array(query), states)[0]

    for symbol in given:
        x = array(table.weight[symbol]) * math.sqrt(table.embedding_dim)
        if before:
            context = look(state)
        parts = [x, summary, *([context] if feed else [])]
        (state,) = gru(decoder.stack.cells[0], torch.from_numpy(np.concatenate(parts)), (state,))
        if not before:
            context = look(state)
        outs.append(JOINED[join](decoder.join, array(state), context))
    return outs


@pytest.mark.parametrize(
    ("query", "feed", "join"),
    [(q, f, j) for q in ("before", "after") for f in (True, False) for j in JOINS if (q, j) != ("before", "context")],
)
def test_a_recurrent_decoder_is_its_equations(query: str, feed: bool, join: str) -> None:
    look = {"query": query, "feed": feed, "join": join}
    part = {"cell": "gru", "width": 6}
    tree = {"embed": {"width": 5}, "encoder": part, "decoder": {**part, "attention": look}, "bridge": {"give": "every"}}
    model = shaken_in_double(assemble(compose(("flag", tree)).spec, Symbols(9), Symbols(9))).eval()
    sources, targets = [[5, 6, 7], [8]], [[4, 5], [7, 7]]
    batch = Batch.of(sources, targets)
    out, _ = model.decode(batch)
    for row in range(2):
        wanted = decoded_by_hand(model, query == "before", feed, join, sources[row], batch.given.values[row].tolist())
        exactly(out[row], np.stack(wanted))


# --- bridges


def summaries(name: str, bridge: Any, memory: Memory, row: int) -> list[Vector]:
    """What each of three decoder layers is given of an encoder of two."""
    lasts = [array(memory.final[layer][row]) for layer in (0, 1, 1)]
    if name == "zeros":
        return []
    if name == "last":
        return lasts
    if name == "mean":
        real = array(memory.states[row][memory.mask[row]])
        return [sum(real) / len(real)] * 3
    if name == "mlp":
        return [np.tanh(affine(out, np.tanh(affine(first, s)))) for (first, _, out), s in zip(bridge.project, lasts)]
    assert name == "projected", f"write down the formula of {name} here"
    return [np.tanh(affine(layer, s)) for layer, s in zip(bridge.project, lasts)]


def affine(layer: Any, x: Vector) -> Vector:
    out: Vector = array(layer.weight) @ x + array(layer.bias)
    return out


@pytest.mark.parametrize("name", BRIDGES)
def test_a_bridge_hands_over_what_its_formula_says(name: str) -> None:
    bridge = shaken_in_double(BRIDGES[name](6, 6, 3))
    final = (torch.randn(2, 6).double(), torch.randn(2, 6).double())
    memory = Memory(torch.randn(2, 4, 6).double(), lengths_to_mask(torch.tensor([4, 2])), final)
    given = bridge(memory).final
    for row in range(2):
        wanted = summaries(name, bridge, memory, row)
        assert len(given) == len(wanted)
        for ours, theirs in zip(given, wanted):
            exactly(ours[row], theirs)


@pytest.mark.parametrize("name", ["last", "projected", "mlp"])
def test_a_bridge_hands_over_the_cell_state_of_an_lstm_too(name: str) -> None:
    bridge = shaken_in_double(BRIDGES[name](6, 6, 3, True))
    h, c = (tuple(torch.randn(2, 6).double() for _ in range(2)) for _ in range(2))
    memory = Memory(torch.randn(2, 4, 6).double(), torch.ones(2, 4).bool(), h, cells=c)
    given = bridge(memory).cells
    for row in range(2):
        cells = [array(c[layer][row]) for layer in (0, 1, 1)]
        if name == "projected":
            cells = [affine(layer, cell) for layer, cell in zip(bridge.project_cell, cells)]
        if name == "mlp":
            layers = zip(bridge.project_cell, cells)
            cells = [affine(out, np.tanh(affine(first, cell))) for (first, _, out), cell in layers]
        for ours, theirs in zip(given, cells, strict=True):
            exactly(ours[row], theirs)
    assert len(bridge(memory).final) == 3


@pytest.mark.parametrize("kind", ["last", "projected", "mlp"])
def test_a_decoder_of_lstms_starts_from_what_the_bridge_hands_over(kind: str) -> None:
    part = {"cell": "lstm", "width": 6}
    tree = {"embed": {"width": 5}, "encoder": part, "decoder": part, "bridge": {"kind": kind}}
    model = shaken_in_double(assemble(compose(("flag", tree)).spec, Symbols(9), Symbols(9))).eval()
    batch = Batch.of([[5, 6, 7], [8]], [[4], [7]])
    memory = model.read(batch.source)
    ((h, c),) = model.decoder.start(memory).layers
    assert torch.equal(h, memory.final[0])
    assert torch.equal(c, memory.cells[0])
    assert not torch.allclose(h, c)


def test_with_hidden_alone_the_cell_state_is_the_summary_as_in_earlier_versions() -> None:
    part, bridge = {"cell": "lstm", "width": 6}, {"kind": "last", "state": "hidden"}
    tree = {"embed": {"width": 5}, "encoder": part, "decoder": part, "bridge": bridge}
    model = shaken_in_double(assemble(compose(("flag", tree)).spec, Symbols(9), Symbols(9))).eval()
    batch = Batch.of([[5, 6, 7], [8]], [[4], [7]])
    memory = model.read(batch.source)
    ((h, c),) = model.decoder.start(memory).layers
    assert memory.cells == ()
    assert torch.equal(c, memory.final[0])
    assert torch.equal(h, torch.tanh(c))


# --- the head that copies

COPIES = [0, 1, 2, 3, 5, 6, 6, UNKNOWN, 7]  # two source symbols are 6 in the target, one is none


def copied_by_hand(head: Copy, out: Vector, states: list[Vector], source: list[int]) -> Vector:
    """Probabilities of all target symbols after one state."""
    q = array(head.query.weight) @ out
    scores = [float(q @ (array(head.key.weight) @ s)) / math.sqrt(len(out)) for s in states]
    look = WEIGHED["softmax"](np.array(scores))
    context = sum(a * s for a, s in zip(look, states))
    said = float((array(head.gate.weight) @ np.concatenate([out, context]) + array(head.gate.bias))[0])
    write = 1 / (1 + math.exp(-said))
    symbols = array(head.weight) @ (array(head.project.weight) @ out + array(head.project.bias)) + array(head.bias)
    chances = write * WEIGHED["softmax"](symbols)
    for place, symbol in enumerate(source):
        chances[COPIES[symbol]] += (1 - write) * look[place]
    return chances


def test_the_copy_head_is_a_mixture_of_writing_and_of_the_places_that_hold_a_symbol() -> None:
    head = shaken_in_double(Copy(6, 4, embedding.table(9, 5), tied=False, turned=False, copies=COPIES))
    sources = [[4, 6, 4, 5, 3], [7, 3]]  # a symbol twice, two symbols that are one, an unknown one; END at the end
    lengths = [len(source) for source in sources]
    ids = torch.tensor([sources[0], [*sources[1], PAD, PAD, PAD]])
    memory = Memory(torch.randn(2, 5, 4).double(), lengths_to_mask(torch.tensor(lengths)), source=ids)
    out = torch.randn(2, 3, 6).double()
    ours = head(out, memory).log_probs.exp()
    for row, place in product(range(2), range(3)):
        states = list(array(memory.states[row, : lengths[row]]))
        wanted = copied_by_hand(head, array(out[row, place]), states, sources[row])
        assert wanted.sum() == pytest.approx(1)
        exactly(ours[row, place], wanted, within=1e-6)  # it computes in float32


def test_a_source_symbol_is_copied_as_the_target_symbol_of_its_name() -> None:
    specials = ["<pad>", "<unknown>", "<start>", "<end>"]
    assert copied_as([*specials, "<de>", "a", "b", "ä"], [*specials, "b", "x", "a"]) == [0, 1, 2, 3, UNKNOWN, 6, 4, 1]


def test_text_that_is_named_like_a_special_is_not_copied_as_one() -> None:
    specials = ["<pad>", "<unknown>", "<start>", "<end>"]
    assert copied_as([*specials, "<end>", "a"], [*specials, "a"]) == [0, 1, 2, 3, UNKNOWN, 4]
    assert copied_as([*specials, "<end>", "a"], [*specials, "a", "<end>"]) == [0, 1, 2, 3, 5, 4]


def test_symbols_that_look_alike_are_not_copied_for_one_another() -> None:
    specials = ["<pad>", "<unknown>", "<start>", "<end>"]
    assert copied_as([*specials, "�", "a"], [*specials, "�", "a", "�"]) == [0, 1, 2, 3, UNKNOWN, 5]


# --- objectives


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_label_smoothing_is_torchs_formula_summed_over_real_places(smoothing: float) -> None:
    batch = Batch.of([[4], [4]], [[5, 6, 4], [7]])
    logits = torch.randn(2, 4, 8)
    loss = CrossEntropy(smoothing)(Choice(logits), batch)
    wanted = 0.0
    for row, ids in enumerate([[5, 6, 4, 3], [7, 3]]):
        for place, symbol in enumerate(ids):
            exps = [math.exp(float(v)) for v in logits[row, place]]
            surprise = [-math.log(e / sum(exps)) for e in exps]
            wanted += (1 - smoothing) * surprise[symbol] + smoothing * sum(surprise) / 8
    assert float(loss.total) == pytest.approx(wanted, rel=1e-5)
    assert int(loss.count) == 6
