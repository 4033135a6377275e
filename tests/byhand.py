"""The formulas of DESIGN §6 a second time, in plain NumPy: one vector and one number at a time.

A new line in a table of `nn/assemble/` fails its tests until its formula is written down here.
"""

# S keys · d width of a head

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from weft.nn.positions import BUCKETS, FARTHEST, PLACES

Vector = npt.NDArray[np.float64]


def lengths_to_mask(lengths: Tensor) -> Tensor:
    """(B,) lengths to a mask of the longest, True at the first `length` places."""
    return torch.arange(int(lengths.max())) < lengths[:, None]


def array(tensor: Tensor) -> Vector:
    """The numbers of a tensor."""
    found: Vector = tensor.detach().double().numpy()
    return found


def shaken(module: nn.Module) -> Any:
    """The module in float64, with no bias left at zero."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return module.double()


def same(ours: Tensor, wanted: Vector | Tensor, within: float = 1e-9) -> None:
    wanted = wanted if isinstance(wanted, Tensor) else torch.from_numpy(np.asarray(wanted))
    torch.testing.assert_close(ours.detach(), wanted.to(ours.dtype), atol=within, rtol=1e-6)


# --- scores of one query and one key


def _bilinear(score: Any, q: Vector, k: Vector) -> float:
    w = array(score.weight.weight)
    return sum(q[i] * w[i, j] * k[j] for i in range(len(q)) for j in range(len(k)))


def _additive(score: Any, q: Vector, k: Vector) -> float:
    inside = array(score.of_query.weight) @ q + array(score.of_key.weight) @ k + array(score.of_key.bias)
    return sum(w * math.tanh(i) for w, i in zip(array(score.weight), inside))


def _concat(score: Any, q: Vector, k: Vector) -> float:
    w = np.concatenate([array(score.of_key.weight), array(score.of_query.weight)], axis=1)
    return sum(v * math.tanh(i) for v, i in zip(array(score.weight), w @ np.concatenate([k, q])))


SCORED: dict[str, Callable[[Any, Vector, Vector], float]] = {
    "dot": lambda score, q, k: sum(a * b for a, b in zip(q, k)),
    "scaled": lambda score, q, k: sum(a * b for a, b in zip(q, k)) / math.sqrt(len(k)),
    "scaled-width": lambda score, q, k: sum(a * b for a, b in zip(q, k)) / len(k),
    "bilinear": _bilinear,
    "additive": _additive,
    "concat": _concat,
    "rbf": lambda score, q, k: -math.exp(float(score.log_gamma.detach())) * sum((a - b) ** 2 for a, b in zip(q, k)),
    "cosine": lambda score, q, k: sum(a * b for a, b in zip(q, k)) / (math.hypot(*q) * math.hypot(*k)),
}


# --- weights of real scores


def _softmax(scores: Vector) -> Vector:
    total = sum(math.exp(s) for s in scores)
    return np.array([math.exp(s) / total for s in scores])


def _best_alone(scores: Vector) -> Vector:
    best = max(range(len(scores)), key=lambda i: scores[i])
    return np.array([1.0 if i == best else 0.0 for i in range(len(scores))])


def _sparsemax(scores: Vector) -> Vector:
    """The nearest point of the simplex: for each set of keys that get something, the nearest; the nearest of those."""
    found = []
    for size in range(1, len(scores) + 1):
        for chosen in combinations(range(len(scores)), size):
            tau = (sum(scores[i] for i in chosen) - 1) / size
            point = np.array([s - tau if i in chosen else 0.0 for i, s in enumerate(scores)])
            if (point >= 0).all():
                found.append((float(((point - scores) ** 2).sum()), point.tolist()))
    return np.array(min(found)[1])


def _kernel(scores: Vector) -> Vector:
    of_each = [math.exp(s) if s <= 0 else 1 + s for s in scores]
    return np.array([k / sum(of_each) for k in of_each])


def _exact(scores: Vector) -> Vector:
    matches = [s == 0 for s in scores]
    return np.array([1 / sum(matches) if match else 0.0 for match in matches])


WEIGHED: dict[str, Callable[[Vector], Vector]] = {
    "softmax": _softmax,
    "nearest": _best_alone,
    "straight-through": _best_alone,
    "exact": _exact,
    "sparsemax": _sparsemax,
    "kernel": _kernel,
}


# --- what is done to query, key and value first; how state and context become one


def _mlp(module: Any, x: Vector) -> Vector:
    first, _, second = module
    return array(second.weight) @ np.tanh(array(first.weight) @ x + array(first.bias))


PROJECTED: dict[str, Callable[[Any, Vector], Vector]] = {
    "none": lambda module, x: x,
    "linear": lambda module, x: array(module.weight) @ x,
    "mlp": _mlp,
}


def logistic(x: Vector) -> Vector:
    return 1 / (1 + np.exp(-x))


def _gated(join: Any, s: Vector, c: Vector) -> Vector:
    g = logistic(array(join.gate.weight) @ np.concatenate([s, c]) + array(join.gate.bias))
    return g * s + (1 - g) * np.tanh(array(join.of_context.weight) @ c)


JOINED: dict[str, Callable[[Any, Vector, Vector], Vector]] = {
    "concat": lambda join, s, c: np.tanh(array(join.both.weight) @ np.concatenate([s, c]) + array(join.both.bias)),
    "gate": _gated,
    "context": lambda join, s, c: np.tanh(array(join.of_context.weight) @ c + array(join.of_context.bias)),
}


# --- a whole look of one query at the real keys


def attended(
    attention: Any, names: tuple[str, str, str], query: Vector, states: Sequence[Vector]
) -> tuple[Vector, list[Vector]]:
    """The context, and the weights of each head, by the names of score, weigher and projection."""
    score, weigh, project = names
    q = PROJECTED[project](attention.query, query)
    keys = [PROJECTED[project](attention.key, s) for s in states]
    values = [PROJECTED[project](attention.value, s) for s in states]
    contexts, weights = [], []
    for head, own in enumerate(attention.scores):
        sliced = [np.split(x, attention.heads)[head] for x in (q, *keys, *values)]
        q_own, k_own, v_own = sliced[0], sliced[1 : len(keys) + 1], sliced[len(keys) + 1 :]
        weights.append(WEIGHED[weigh](np.array([SCORED[score](own, q_own, k) for k in k_own])))
        contexts.append(sum(w * v for w, v in zip(weights[-1], v_own)))
    return np.concatenate(contexts), weights


# --- positions: what a scheme adds to a symbol's vector, how it turns a query or key, what it adds to a score

Placed = Callable[[Any, Vector, int], Vector]
Biased = Callable[[Any, int, int, int], float]  # scheme, head, place of the query, place of the key


def _wave(place: int, i: int, width: int) -> float:
    even = width + width % 2
    angle = place / 10000 ** ((i - i % 2) / even)
    return math.cos(angle) if i % 2 else math.sin(angle)


def _with_waves(scheme: Any, x: Vector, place: int) -> Vector:
    return x + np.array([_wave(place, i, len(x)) for i in range(len(x))])


def _beside_waves(scheme: Any, x: Vector, place: int) -> Vector:
    room = len(x) // 3  # the waves are a quarter of the whole
    return np.concatenate([x, [_wave(place, i, room) for i in range(room)]])


def _turned(scheme: Any, x: Vector, place: int) -> Vector:
    """Values i and i + d/2 are a point of a plane, turned by place · 10000^{−2i/d}."""
    half = len(x) // 2
    out = np.empty_like(x)
    for i in range(half):
        angle = place * 10000 ** (-2 * i / len(x))
        out[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        out[i + half] = x[i] * math.sin(angle) + x[i + half] * math.cos(angle)
    return out


def _relative(scheme: Any, head: int, query: int, key: int) -> float:
    k = (scheme.table.shape[-1] - 1) // 2
    return float(scheme.table.detach()[head, min(max(key - query, -k), k) + k])


def bucket(distance: int, both_ways: bool) -> int:
    """Raffel 2020: half of a side's buckets hold one distance each; the others grow as powers up to FARTHEST.

    The bounds (FARTHEST / singles)^{j / logarithmic} are compared in whole numbers.
    """
    count = BUCKETS // 2 if both_ways else BUCKETS
    far = abs(distance) if both_ways else max(-distance, 0)
    singles = logarithmic = count // 2
    side = count if both_ways and distance > 0 else 0
    if far < singles:
        return side + far
    reached = [
        j
        for j in range(logarithmic)
        if Fraction(far, singles) ** logarithmic >= Fraction(FARTHEST, singles) ** j  # far ≥ singles · (…)^{j/log}
    ]
    return side + singles + max(reached)


def _bucketed(scheme: Any, head: int, query: int, key: int) -> float:
    return float(scheme.table.detach()[head, bucket(key - query, scheme.both_ways)])


def _alibi(scheme: Any, head: int, query: int, key: int) -> float:
    return -(2 ** (-8 * (head + 1) / len(scheme.slopes))) * abs(query - key)


def _unchanged(scheme: Any, x: Vector, place: int) -> Vector:
    return x


POSITIONED: dict[str, tuple[Placed, Placed, Biased | None]] = {
    "none": (_unchanged, _unchanged, None),
    "sinusoid": (_with_waves, _unchanged, None),
    "sinusoid-concat": (_beside_waves, _unchanged, None),
    "learned": (lambda scheme, x, place: x + array(scheme.table.weight)[min(place, PLACES - 1)], _unchanged, None),
    "relative": (_unchanged, _unchanged, _relative),
    "bucketed": (_unchanged, _unchanged, _bucketed),
    "rotary": (_unchanged, _turned, None),
    "alibi": (_unchanged, _unchanged, _alibi),
}
