"""A recurrence over all steps in one call of compiled code: the same equations, gradients by hand.

The matrices' gradients are one product over all steps, not one a step. It counts in float32, under autocast too. What
has no place here runs in plain torch: models in another number format, another device, and whatever `note` should see.
"""

# B batch · T steps · I input width · D width · P blocks that inputs decide · S source length · K key · C value width

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core import native
from weft.core.trace import tracing

State = tuple[Tensor, ...]


@dataclass(frozen=True)
class Weights:
    """A cell as the compiled code takes it: pre = W x + b, and the matrices that meet the state."""

    cell: str  # a name in `native.CELLS`
    weight: Tensor  # (P D, I)
    bias: Tensor  # (P D)
    first: Tensor  # meets h'
    second: Tensor | None = None  # meets r∘h'
    extra: Tensor | None = None


@dataclass(frozen=True)
class Sight:
    """A look at the source as the compiled code takes it: softmax of wᵀφ(Q h + k) or of scale · h·k, values mixed."""

    keys: Tensor  # (B, S, K)
    values: Tensor  # (B, S, C)
    mask: Tensor  # (B, S)
    of_query: Tensor | None = None  # (K, D)
    weight: Tensor | None = None  # (K)
    scale: float = 1.0
    moves: Tensor | None = None  # (4) what a score gains by the weights of the step before, see `Attention`


def possible(x: Tensor) -> bool:
    """Whether the compiled code is there and made for this."""
    known = x.dtype == torch.float32 or (x.dtype == torch.bfloat16 and torch.is_autocast_enabled("cpu"))
    return known and x.device.type == "cpu" and not tracing() and native.recurrence() is not None


def over_time(weights: Weights, x: Tensor, state: State) -> tuple[Tensor, State]:
    """(B, T, I) → every h (B, T, D), and the state after the last place."""
    out, c, _ = _unrolled(weights, None, x, state)
    return out, (out[:, -1], c)[: len(state)]


def looking(weights: Weights, sight: Sight, x: Tensor, state: State) -> tuple[Tensor, Tensor]:
    """Each step reads x and the context of the step before, and looks: every h (B, T, D) and context (B, T, C)."""
    out, _, contexts = _unrolled(weights, sight, x, state)
    return out, contexts


def _unrolled(weights: Weights, sight: Sight | None, x: Tensor, state: State) -> Any:
    """What gets gradients is given one by one, in the order of `_Unrolled.forward`."""
    look = [sight.of_query, sight.weight, sight.keys, sight.values, sight.moves] if sight is not None else [None] * 5
    cell = [weights.weight, weights.bias, weights.first, weights.second, weights.extra]
    given = [x, *cell, state[0], state[1] if len(state) > 1 else None, *look]
    apply: Any = _Unrolled.apply
    with torch.autocast("cpu", enabled=False):
        return apply(weights.cell, sight, *(one if one is None else one.float() for one in given))


class _Unrolled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        kind: str,
        sight: Sight | None,
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
        moves: Tensor | None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        rows, steps, inputs = x.shape
        width, blocks = h.shape[1], weight.shape[0] // h.shape[1]
        by_time = x.transpose(0, 1).reshape(steps * rows, inputs)
        sizes = {"steps": steps, "rows": rows, "width": width, "blocks": blocks, "cell": native.CELLS.index(kind)}
        saved: dict[str, Tensor | None] = {
            "x": by_time,
            "weight_in": weight,
            "first": first.contiguous(),
            "second": second,
            "extra": extra,
            "h": _begun(h, steps),
            "c": None if c is None else _begun(c, steps),
            "acts": x.new_empty(steps, rows, blocks * width),
            "mid": x.new_empty(steps, rows, width),
            "news": x.new_empty(steps, rows, width) if kind == "mut1" else None,
            "scratch": x.new_empty(rows, width),
        }
        ctx.scale = 1.0 if sight is None else sight.scale
        if sight is not None and keys is not None and values is not None:
            saved |= _for_looks(sight.mask, of_query, score_weight, keys, values, steps)
            saved |= {"of_context": weight[:, inputs:], "moves": None if moves is None else moves.contiguous()}
            sizes |= _sizes_of_looks(keys, values, dot=of_query is None)
            sizes["context_stride"] = weight.shape[1]
        pre = torch.addmm(bias, by_time, weight[:, :inputs].t())  # the way back does not need it
        compiled = native.recurrence()
        assert compiled is not None
        compiled.forward(sizes, ctx.scale, pre=pre, **_arrays(saved))
        ctx.kind, ctx.sizes, ctx.names = kind, sizes, list(saved)
        ctx.save_for_backward(*saved.values())
        out, contexts = saved["h"], saved.get("contexts")
        assert out is not None
        last = None if saved["c"] is None else saved["c"][-1].clone()
        return out[1:].transpose(0, 1), last, None if contexts is None else contexts.transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor | None, d_last: Tensor | None, d_contexts: Tensor | None) -> Any:
        saved: dict[str, Tensor] = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        h, sizes = saved["h"], ctx.sizes
        steps, rows, width, blocks = (sizes[name] for name in ("steps", "rows", "width", "blocks"))
        back: dict[str, Tensor | None] = {
            "dh": torch.zeros_like(h),
            "dc": None if saved["c"] is None else torch.zeros_like(h[0]),
            "dpre": h.new_empty(steps, rows, blocks * width),
            # these two hold gradients afterwards: a second way back must find them as they were
            "mid": saved["mid"].clone() if ctx.kind == "gru-after" else saved["mid"],
            "news": None if saved["news"] is None else saved["news"].clone(),
        }
        if d_out is not None:
            back["dh"][1:] = d_out.transpose(0, 1)  # type: ignore[index]
        if d_last is not None and back["dc"] is not None:
            back["dc"].copy_(d_last)
        if "keys" in saved:
            back |= _room_for_looks(saved, d_contexts)
        compiled = native.recurrence()
        assert compiled is not None
        compiled.backward(sizes, ctx.scale, **_arrays(saved | back))
        done = {**saved, **{name: tensor for name, tensor in back.items() if tensor is not None}}
        of_looks = _of_looks(done) if "keys" in saved else [None] * 5
        return (
            None,
            None,
            *_of_inputs(done, sizes),
            *_of_state(ctx.kind, done, width),
            done["dh"][0],
            back["dc"],
            *of_looks,
        )


def _begun(start: Tensor, steps: int) -> Tensor:
    """Room for a state before and after each step, with the first filled in."""
    made = start.new_empty(steps + 1, *start.shape)
    made[0] = start
    return made


def _arrays(known: dict[str, Any]) -> dict[str, Tensor | None]:
    return {name: tensor for name, tensor in known.items() if name in native.ARRAYS}


def _for_looks(
    mask: Tensor, of_query: Tensor | None, weight: Tensor | None, keys: Tensor, values: Tensor, steps: int
) -> dict[str, Tensor | None]:
    """What attention reads, and room for what it finds."""
    rows, source, key_width = keys.shape
    return {
        "lengths": mask.sum(1),
        "of_query": None if of_query is None else of_query.contiguous(),
        "weight": weight,
        "keys": keys.contiguous(),
        "values": values.contiguous(),
        "queries": None if of_query is None else keys.new_empty(steps, rows, key_width),
        "weights": keys.new_empty(steps, rows, source),
        "contexts": keys.new_empty(steps, rows, values.shape[2]),
    }


def _sizes_of_looks(keys: Tensor, values: Tensor, dot: bool) -> dict[str, int]:
    _, source, key_width = keys.shape
    score = native.SCORES.index("dot" if dot else "additive")
    return {"score": score, "source": source, "key_width": key_width, "value_width": values.shape[2]}


def _room_for_looks(saved: dict[str, Tensor], d_contexts: Tensor | None) -> dict[str, Tensor | None]:
    """Room for the gradients of looking; those of the contexts come filled with what later layers say."""
    additive, of_contexts = saved["queries"] is not None, torch.zeros_like(saved["contexts"])
    moves = saved["moves"]
    if d_contexts is not None:
        of_contexts.copy_(d_contexts.transpose(0, 1))
    return {
        "dcontexts": of_contexts,
        "dscores": torch.empty_like(saved["weights"]),
        "dqueries": torch.empty_like(saved["queries"]) if additive else None,
        "dkeys": torch.zeros_like(saved["keys"]) if additive else None,
        "dweight": torch.zeros_like(saved["queries"][0]) if additive else None,
        "dmoves": None if moves is None else moves.new_zeros(of_contexts.shape[1], len(moves)),
    }


def _of_inputs(done: dict[str, Tensor], sizes: dict[str, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x (B, T, I), W and b."""
    by_time, weight, inputs = done["dpre"].flatten(0, 1), done["weight_in"], done["x"].shape[1]
    of_weight = torch.empty_like(weight)
    torch.mm(by_time.t(), done["x"], out=of_weight[:, :inputs])
    if "contexts" in done:
        later, seen = by_time[sizes["rows"] :], done["contexts"][:-1].flatten(0, 1)
        torch.mm(later.t(), seen, out=of_weight[:, inputs:])
    of_x = (by_time @ weight[:, :inputs]).view(sizes["steps"], sizes["rows"], inputs).transpose(0, 1)
    return of_x, of_weight, by_time.sum(0)


def _of_state(cell: str, done: dict[str, Tensor], width: int) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of the matrices that meet the state, and of what else the cell has."""
    by_time, before = done["dpre"].flatten(0, 1), done["h"][:-1].flatten(0, 1)
    if cell.startswith(("elman", "lstm")):
        return by_time.t() @ before, None, None
    mid = done["mid"].flatten(0, 1)
    if cell == "gru-after":  # mid is the gradient of U h' + c by now
        return torch.cat([by_time[:, : 2 * width].t() @ before, mid.t() @ before]), None, mid.sum(0)
    if cell == "mut1":  # news is the gradient of the candidate's sum by now
        new = done["news"].flatten(0, 1)
        return by_time[:, width : 2 * width].t() @ before, new.t() @ mid, new.sum(0)
    second = by_time[:, 2 * width :].t() @ mid
    if cell == "mut3":
        of_z, of_r = by_time[:, :width].t() @ torch.tanh(before), by_time[:, width : 2 * width].t() @ before
        return torch.cat([of_z, of_r]), second, None
    return by_time[:, : 2 * width].t() @ before, second, None


def _of_looks(done: dict[str, Tensor]) -> list[Tensor | None]:
    """Gradients of the query's matrix, the score's weight, the keys, the values and the moves."""
    of_values = torch.bmm(done["weights"].permute(1, 2, 0), done["dcontexts"].transpose(0, 1))
    after, of_moves = done["h"][1:], done["dmoves"].sum(0) if "dmoves" in done else None
    if "dqueries" not in done:
        return [None, None, torch.bmm(done["dscores"].permute(1, 2, 0), after.transpose(0, 1)), of_values, of_moves]
    of_query = done["dqueries"].flatten(0, 1).t() @ after.flatten(0, 1)
    return [of_query, done["dweight"].sum(0), done["dkeys"], of_values, of_moves]
