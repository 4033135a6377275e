"""A recurrence over all steps in one call of compiled code: the same equations, with gradients derived by hand.

The gradients of the matrices are one product over all steps instead of one a step. Everything is computed in float32,
under autocast too. Plain torch computes what the compiled code does not support: other dtypes, other devices, and
whatever is recorded by `note` while somebody traces.
"""

# B batch · T steps · I input width · D width · P blocks of D in W x · S source length · K key width · C value width

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core import native
from weft.core.native.recurrence import Problem
from weft.core.trace import tracing

State = tuple[Tensor, ...]
Arrays = dict[str, Tensor | None]


@dataclass(frozen=True)
class FusedCell:
    """The parameters of a cell for the compiled code: pre = W x + b, and the matrices that multiply the state."""

    name: str  # in `weft.core.native.recurrence.CELLS`
    weight: Tensor  # (P D, I)
    bias: Tensor  # (P D)
    first: Tensor  # multiplies h'
    second: Tensor | None = None  # multiplies r∘h'
    extra: Tensor | None = None


@dataclass(frozen=True)
class FusedAttention:
    """Attention for the compiled code: softmax of wᵀφ(Q h + k) or of scale · h·k, and the mean of the values."""

    keys: Tensor  # (B, S, K)
    values: Tensor  # (B, S, C)
    mask: Tensor  # (B, S), may have holes
    of_query: Tensor | None = None  # (K, D)
    weight: Tensor | None = None  # (K)
    scale: float = 1.0
    location: Tensor | None = None  # (4) the filter over the weights of the step before, see `Attention`


def available(x: Tensor) -> bool:
    """Whether the compiled code can be used for such an input."""
    supported = x.dtype == torch.float32 or (x.dtype == torch.bfloat16 and torch.is_autocast_enabled("cpu"))
    return supported and x.device.type == "cpu" and not tracing() and native.recurrence() is not None


def over_time(cell: FusedCell, x: Tensor, state: State) -> tuple[Tensor, State]:
    """(B, T, I) → every h (B, T, D), and the state after the last step."""
    out, c, _ = _apply(cell, None, x, state)
    return out, (out[:, -1], c)[: len(state)]


def with_attention(cell: FusedCell, attention: FusedAttention, x: Tensor, state: State) -> tuple[Tensor, Tensor]:
    """Each step reads x and the context of the step before, and attends: every h (B, T, D) and context (B, T, C)."""
    out, _, contexts = _apply(cell, attention, x, state)
    return out, contexts


def _apply(cell: FusedCell, attention: FusedAttention | None, x: Tensor, state: State) -> Any:
    """Call `_Unrolled` with everything that gets gradients as an argument of its own, contiguous and in float32."""
    looks = (
        [None] * 5
        if attention is None
        else [attention.of_query, attention.weight, attention.keys, attention.values, attention.location]
    )
    cells = [cell.weight, cell.bias, cell.first, cell.second, cell.extra]
    tensors = [*cells, state[0], state[1] if len(state) > 1 else None, *looks]
    apply: Any = _Unrolled.apply
    with torch.autocast("cpu", enabled=False):
        ready = (None if tensor is None else tensor.float().contiguous() for tensor in tensors)
        return apply(cell.name, attention, x.float(), *ready)


class _Unrolled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        cell: str,
        attention: FusedAttention | None,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        first: Tensor,
        second: Tensor | None,
        extra: Tensor | None,
        h: Tensor,
        c: Tensor | None,
        of_query: Tensor | None,
        score_weight: Tensor | None,
        keys: Tensor | None,
        values: Tensor | None,
        location: Tensor | None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        rows, steps, inputs = x.shape
        width = h.shape[1]
        by_time = x.transpose(0, 1).reshape(steps * rows, inputs)
        pre = torch.addmm(bias, by_time, weight[:, :inputs].t()).view(
            steps, rows, len(weight)
        )  # backward does not need it
        problem = Problem(cell, steps, rows, width)
        saved: Arrays = {
            "x": by_time,
            "weight_in": weight,
            "first": first,
            "second": second,
            "extra": extra,
            "h": _with_start(h, steps),
            "c": None if c is None else _with_start(c, steps),
            "acts": torch.empty_like(pre),
            "mid": x.new_empty(steps, rows, width),
            "news": x.new_empty(steps, rows, width) if cell == "mut1" else None,
            "scratch": x.new_empty(rows, width),
        }
        if attention is not None and keys is not None and values is not None:
            saved |= {"of_query": of_query, "weight": score_weight, "keys": keys, "values": values}
            saved |= {"of_context": weight[:, inputs:], "location": location}
            saved |= _room_for_attention(keys, values, steps, additive=of_query is not None)
            problem = _with_attention(problem, attention, keys, values, weight.shape[1])
        compiled = native.recurrence()
        assert compiled is not None
        mask = None if attention is None else attention.mask.contiguous()
        compiled.forward(problem, {**saved, "pre": pre, "mask": mask})
        ctx.problem, ctx.names = problem, list(saved)
        ctx.save_for_backward(*saved.values())
        out, contexts = saved["h"], saved.get("contexts")
        assert out is not None
        last = None if saved["c"] is None else saved["c"][-1].clone()
        return out[1:].transpose(0, 1), last, None if contexts is None else contexts.transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor | None, d_last: Tensor | None, d_contexts: Tensor | None) -> Any:
        saved: dict[str, Tensor] = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        h, problem = saved["h"], ctx.problem
        back: Arrays = {
            "dh": torch.zeros_like(h),
            "dc": None if saved["c"] is None else torch.zeros_like(h[0]),
            "dpre": torch.empty_like(saved["acts"]),
            # these two hold gradients afterwards, and a second backward pass needs their values
            "mid": saved["mid"].clone() if problem.cell == "gru-after" else saved["mid"],
            "news": None if saved["news"] is None else saved["news"].clone(),
        }
        if d_out is not None:
            back["dh"][1:] = d_out.transpose(0, 1)  # type: ignore[index]
        if d_last is not None and back["dc"] is not None:
            back["dc"].copy_(d_last)
        if "keys" in saved:
            back |= _room_for_attention_gradients(saved, d_contexts)
        compiled = native.recurrence()
        assert compiled is not None
        compiled.backward(problem, {**saved, **back})
        done = {**saved, **{name: tensor for name, tensor in back.items() if tensor is not None}}
        return (
            None,
            None,
            *_input_gradients(done, problem),
            *_state_gradients(done, problem),
            done["dh"][0],
            back["dc"],
            *(_attention_gradients(done) if "keys" in saved else [None] * 5),
        )


def _with_start(start: Tensor, steps: int) -> Tensor:
    """Room for the state before the first step, which is filled in, and after each step."""
    states = start.new_empty(steps + 1, *start.shape)
    states[0] = start
    return states


def _room_for_attention(keys: Tensor, values: Tensor, steps: int, additive: bool) -> Arrays:
    """Room for what attention computes."""
    rows, source, key_width = keys.shape
    return {
        "lengths": torch.empty(rows, dtype=torch.int64),
        "queries": keys.new_empty(steps, rows, key_width) if additive else None,
        "weights": keys.new_empty(steps, rows, source),
        "contexts": keys.new_empty(steps, rows, values.shape[2]),
    }


def _with_attention(
    problem: Problem, attention: FusedAttention, keys: Tensor, values: Tensor, context_stride: int
) -> Problem:
    return problem._replace(
        score="dot" if attention.of_query is None else "additive",
        source=keys.shape[1],
        key_width=keys.shape[2],
        value_width=values.shape[2],
        context_stride=context_stride,
        scale=attention.scale,
    )


def _room_for_attention_gradients(saved: dict[str, Tensor], d_contexts: Tensor | None) -> Arrays:
    """Room for the gradients; those of the contexts hold what later layers pass back."""
    additive, of_contexts, location = (
        saved["queries"] is not None,
        torch.zeros_like(saved["contexts"]),
        saved["location"],
    )
    if d_contexts is not None:
        of_contexts.copy_(d_contexts.transpose(0, 1))
    return {
        "dcontexts": of_contexts,
        "dscores": torch.empty_like(saved["weights"]),
        "dqueries": torch.empty_like(saved["queries"]) if additive else None,
        "dkeys": torch.zeros_like(saved["keys"]) if additive else None,
        "dweight": torch.zeros_like(saved["queries"][0]) if additive else None,
        "dlocation": None if location is None else location.new_zeros(of_contexts.shape[1], len(location)),
    }


def _input_gradients(done: dict[str, Tensor], problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x (B, T, I), W and b."""
    by_time, weight, inputs = done["dpre"].flatten(0, 1), done["weight_in"], done["x"].shape[1]
    of_weight = torch.empty_like(weight)
    torch.mm(by_time.t(), done["x"], out=of_weight[:, :inputs])
    if "contexts" in done:
        later, before = by_time[problem.rows :], done["contexts"][:-1].flatten(0, 1)
        torch.mm(later.t(), before, out=of_weight[:, inputs:])
    of_x = (by_time @ weight[:, :inputs]).view(problem.steps, problem.rows, inputs).transpose(0, 1)
    return of_x, of_weight, by_time.sum(0)


def _state_gradients(done: dict[str, Tensor], problem: Problem) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of the matrices that multiply the state, and of `extra`."""
    cell, width = problem.cell, problem.width
    by_time, before = done["dpre"].flatten(0, 1), done["h"][:-1].flatten(0, 1)
    if cell.startswith(("elman", "lstm")):
        return by_time.t() @ before, None, None
    mid = done["mid"].flatten(0, 1)
    if cell == "gru-after":  # mid is the gradient of U h' + c by now
        return torch.cat([by_time[:, : 2 * width].t() @ before, mid.t() @ before]), None, mid.sum(0)
    if cell == "mut1":  # news is the gradient of the candidate's argument by now
        new = done["news"].flatten(0, 1)
        return by_time[:, width : 2 * width].t() @ before, new.t() @ mid, new.sum(0)
    second = by_time[:, 2 * width :].t() @ mid
    if cell == "mut3":
        of_z, of_r = by_time[:, :width].t() @ torch.tanh(before), by_time[:, width : 2 * width].t() @ before
        return torch.cat([of_z, of_r]), second, None
    return by_time[:, : 2 * width].t() @ before, second, None


def _attention_gradients(done: dict[str, Tensor]) -> list[Tensor | None]:
    """Gradients of the query's matrix, the score's weight, the keys, the values and the location filter."""
    of_values = torch.bmm(done["weights"].permute(1, 2, 0), done["dcontexts"].transpose(0, 1))
    after, of_location = done["h"][1:], done["dlocation"].sum(0) if "dlocation" in done else None
    if "dqueries" not in done:
        of_keys = torch.bmm(done["dscores"].permute(1, 2, 0), after.transpose(0, 1))
        return [None, None, of_keys, of_values, of_location]
    of_query = done["dqueries"].flatten(0, 1).t() @ after.flatten(0, 1)
    return [of_query, done["dweight"].sum(0), done["dkeys"], of_values, of_location]
