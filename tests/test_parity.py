"""Each part against a reference that somebody else wrote, or against its equation in DESIGN §6 in plain algebra."""

# B batch · S keys · T queries or steps · D width · I input width · H heads

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from weft.core.kinds import Batch, Emission, Memory
from weft.core.masks import causal, lengths_to_mask
from weft.core.trace import trace
from weft.learn.objectives import CrossEntropy
from weft.nn.assemble import CELLS, SCORES
from weft.nn.attention import Attention, softmax
from weft.nn.cells import Elman, Gru, GruAfter, Mut1, Mut2, Mut3, Recurrence
from weft.nn.lstm import Lstm, LstmB
from weft.nn.multihead import MultiHead
from weft.nn.positions import Rotary, Sinusoid
from weft.nn.scores import Additive, Bilinear
from weft.nn.unroll import Reader, over_time

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


def test_lstm_in_both_directions_and_two_layers_equals_torch_on_packed_rows() -> None:
    ahead, back = ([Lstm(5, 6), Lstm(12, 6)] for _ in range(2))
    reader, theirs = shaken(Reader(ahead, back, dropout=0.0)), nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True)
    weights = {}
    for layer in range(2):
        weights |= torch_names(ahead[layer], f"_l{layer}") | torch_names(back[layer], f"_l{layer}_reverse")
    theirs.load_state_dict(weights)
    lengths = torch.tensor([4, 7, 1])
    x, mask = torch.randn(3, 7, 5), lengths_to_mask(lengths)
    states, final = reader(x, mask)
    packed, (their_final, _) = theirs(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    same(states[mask], pad_packed_sequence(packed, batch_first=True)[0][mask])
    for layer in range(2):
        same(final[layer], torch.cat([their_final[2 * layer], their_final[2 * layer + 1]], dim=-1))


def elman(cell: Elman, x: Tensor, state: State) -> State:
    w, u, b = cell.input.weight, cell.hidden.weight, cell.input.bias
    return (torch.tanh(w @ x + u @ state[0] + b),)


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


def formula(name: str, score: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    """One query and one key to a number."""
    if name == "dot":
        return sum(a * b for a, b in zip(q, k))
    if name == "scaled":
        return sum(a * b for a, b in zip(q, k)) / math.sqrt(len(q))
    if isinstance(score, Bilinear):
        w = score.weight.weight
        return sum(q[i] * w[i, j] * k[j] for i in range(len(q)) for j in range(len(k)))
    assert isinstance(score, Additive), f"write down the formula of {name} here"
    inside = score.of_query.weight @ q + score.of_key.weight @ k + score.of_key.bias
    return sum(w * torch.tanh(i) for w, i in zip(score.weight, inside))


@pytest.mark.parametrize("name", SCORES)
def test_attention_equals_loops_over_queries_and_keys(name: str) -> None:
    query_width, key_width = (6, 6) if name in ("dot", "scaled") else (6, 4)
    score = shaken(SCORES[name](query_width, key_width))
    query, states = torch.randn(2, 3, query_width), torch.randn(2, 5, key_width)
    lengths = [5, 2]
    memory = Memory(states, lengths_to_mask(torch.tensor(lengths)))
    attention = Attention(score, softmax)
    with trace() as seen:
        context = attention(query, attention.prepare(memory))
    (weights,) = seen["decode.cross"]
    for row, place in ((r, p) for r in range(2) for p in range(3)):
        scores = [formula(name, score, query[row, place], states[row, s]) for s in range(lengths[row])]
        total = sum(torch.exp(s) for s in scores)
        wanted = [torch.exp(s) / total for s in scores]
        same(weights[row, place, : lengths[row]], torch.stack(wanted).detach())
        assert not weights[row, place, lengths[row] :].any()
        same(context[row, place], sum(w * states[row, s] for s, w in enumerate(wanted)))


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


# --- positions


@pytest.mark.parametrize("width", [8, 7])
def test_sinusoids_are_the_sines_and_cosines_of_the_paper(width: int) -> None:
    x, start = torch.randn(2, 5, width), 3
    added = Sinusoid().add(x, start) - x
    for place in range(5):
        for i in range(width):
            angle = (start + place) / 10000 ** ((i - i % 2) / (width + width % 2))
            assert float(added[0, place, i]) == pytest.approx(math.cos(angle) if i % 2 else math.sin(angle), abs=1e-5)
    same(added[0], added[1])


def test_rotary_products_depend_on_the_distance_only() -> None:
    turn = Rotary().turn
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)

    def product(query_place: int, key_place: int) -> float:
        return float((turn(q, query_place) * turn(k, key_place)).sum())

    for distance in range(-4, 5):
        values = [product(place + distance, place) for place in (4, 5, 11, 40)]
        assert values == pytest.approx([values[0]] * 4, abs=1e-4)
    assert len({round(product(place, 0), 3) for place in range(6)}) == 6
    assert product(0, 0) == pytest.approx(float((q * k).sum()), abs=1e-5)


def test_rotary_turns_places_together_as_one_by_one() -> None:
    x = torch.randn(2, 3, 6, 8)
    one_by_one = [Rotary().turn(x[:, :, place : place + 1], place + 2) for place in range(6)]
    same(Rotary().turn(x, 2), torch.cat(one_by_one, dim=2))


# --- objectives


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_label_smoothing_is_torchs_formula_summed_over_real_places(smoothing: float) -> None:
    batch = Batch.of([[4], [4]], [[5, 6, 4], [7]])
    logits = torch.randn(2, 4, 8)
    loss = CrossEntropy(smoothing)(Emission(logits), batch)
    wanted = 0.0
    for row, ids in enumerate([[5, 6, 4, 3], [7, 3]]):
        for place, symbol in enumerate(ids):
            exps = [math.exp(float(v)) for v in logits[row, place]]
            surprise = [-math.log(e / sum(exps)) for e in exps]
            wanted += (1 - smoothing) * surprise[symbol] + smoothing * sum(surprise) / 8
    assert float(loss.total) == pytest.approx(wanted, rel=1e-5)
    assert int(loss.count) == 6
