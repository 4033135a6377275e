"""How fast a model learns on this machine: measured in a few real steps, or estimated from its matrices."""

from __future__ import annotations

import time

import torch

from weft.choose.pace import Pace, Typical
from weft.core.kinds import Batch
from weft.core.machine import Speed
from weft.core.pair import SPECIALS
from weft.learn.effort import THERE_AND_BACK, weights
from weft.learn.objectives import OBJECTIVES
from weft.learn.optimise import Average, adamw, shorten
from weft.learn.world import pick_device
from weft.nn.assemble import assemble
from weft.nn.model import Model
from weft.spec import Spec

USE = 0.6  # the share of the machine's matrix speed that training reaches, where nothing is measured
HALVES = 0.7  # the share of bfloat16's speed which is left where the rest is not in bfloat16
SHARE = 0.003  # of a budget, that one measurement may take; SHORTEST seconds at least
SHORTEST, LONGEST = 0.1, 0.6
LONGEST_LINE = 300
MOST_PARAMETERS = 30_000_000  # of a model that is tried
MOST_SCORES = 8_000_000  # numbers in a batch's scores


def estimated(speed: Speed) -> Pace:
    """From the weights that each symbol meets."""

    def pace(spec: Spec, typical: Typical, threads: int) -> float:
        with torch.device("meta"):
            reading, writing = weights(assemble(spec, *typical.symbols))
        read = reading * typical.lengths[0] / typical.lengths[1]
        return USE * _products(speed, spec, threads) / (THERE_AND_BACK * (read + writing))

    return pace


def _products(speed: Speed, spec: Spec, threads: int) -> float:
    together = speed.float32
    if spec.train.precision == "bfloat16":
        together = max(together, HALVES * speed.bfloat16)
    fewer = threads < speed.cores and spec.train.precision == "float32"
    return min(together, threads * speed.one_core) if fewer else together


def measured(budget_seconds: float, otherwise: Pace) -> Pace:
    """By learning for a moment from lines of chance symbols; the first step, which is slow, does not count.

    What is too large to be tried in a moment is told by `otherwise`.
    """
    least = min(LONGEST, max(SHORTEST, SHARE * budget_seconds))

    def pace(spec: Spec, typical: Typical, threads: int) -> float:
        with torch.device("meta"):
            if assemble(spec, *typical.symbols).parameter_count > MOST_PARAMETERS:
                return otherwise(spec, typical, threads)
        before, state = torch.get_num_threads(), torch.get_rng_state()
        torch.set_num_threads(threads)
        try:
            return _timed(spec, typical, least)
        finally:
            torch.set_num_threads(before)
            torch.set_rng_state(state)

    return pace


def _timed(spec: Spec, typical: Typical, least: float) -> float:
    device = pick_device(spec.train.device)
    model, batch = assemble(spec, *typical.symbols).to(device), _batch(spec, typical).to(device)
    optimiser, average = (
        adamw(model, spec.train.weight_decay, spec.train.embed_rate),
        Average(model, spec.train.average),
    )

    def learn() -> None:
        _gradients(model, batch, spec)
        shorten(model, spec.train.clip)
        optimiser.step()
        average.update()

    learn()
    steps, began = 0, time.perf_counter()
    while steps == 0 or time.perf_counter() - began < least:
        learn()
        steps += 1
    return steps * batch.target_tokens * _cut_short(typical) / (time.perf_counter() - began)


def _cut_short(typical: Typical) -> float:
    """What lines that are longer than those measured leave of the pace: a target symbol goes with more of a source."""
    real, tried = typical.lengths, _lengths(typical)
    return (sum(tried) / tried[1]) / (sum(real) / real[1])


def _lengths(typical: Typical) -> tuple[int, int]:
    source, target = (min(length, LONGEST_LINE) for length in typical.lengths)
    return source, target


def _batch(spec: Spec, typical: Typical) -> Batch:
    """Of the size that it learns from, but with fewer rows where the scores over all symbols would need much room."""
    lengths = _lengths(typical)
    room = MOST_SCORES // (typical.symbols[1] * lengths[1])
    rows = max(1, min(spec.train.batch_tokens // max(typical.lengths), room))
    known = max(len(SPECIALS) + 1, min(typical.symbols))  # to both sides: one may be read as the other's
    return Batch.of(*(torch.randint(len(SPECIALS), known, (rows, length - 1)).tolist() for length in lengths))


def _gradients(model: Model, batch: Batch, spec: Spec) -> None:
    half = torch.autocast(batch.source.device.type, torch.bfloat16, enabled=spec.train.precision == "bfloat16")
    model.zero_grad(set_to_none=True)
    with half:
        emission = model(batch)
    loss = OBJECTIVES[spec.objective.kind](spec.objective.smoothing)(emission, batch)
    (loss.total / loss.count).backward()  # type: ignore[no-untyped-call]
    if batch.source.device.type != "cpu":
        float(loss.total)  # waits until it is done
