"""The training throughput of a model on this machine: measured in a few real steps, or estimated from its matrices."""

from __future__ import annotations

import time

import numpy as np
import torch

from weft.choose.numbers import NUMBERS
from weft.choose.throughput import BatchShape, Throughput
from weft.core.batching import batch_of
from weft.core.kinds import Batch, Column
from weft.core.machine import Speed
from weft.core.pair import SPECIALS
from weft.learn.effort import FLOPS_PER_WEIGHT, weights
from weft.learn.objectives import OBJECTIVES
from weft.learn.optimise import Average, adamw, clip_gradient
from weft.learn.snapshot import random_state, restore_random_state
from weft.learn.world import pick_device
from weft.nn.assemble import assemble
from weft.nn.model import Model
from weft.spec import Spec


def estimated(speed: Speed) -> Throughput:
    """Return a throughput that is computed from the weights that each token is multiplied with."""

    def throughput(spec: Spec, shape: BatchShape, threads: int) -> float:
        with torch.device("meta"):
            reading, writing = weights(assemble(spec, shape.shapes.source, shape.shapes.target))
        read = reading * shape.lengths[0] / shape.lengths[1]
        return NUMBERS.matrix_share * _matrix_speed(speed, spec, threads) / (FLOPS_PER_WEIGHT * (read + writing))

    return throughput


def target_weights(spec: Spec, shape: BatchShape) -> int:
    """Return how many weights each target token is multiplied with."""
    with torch.device("meta"):
        return weights(assemble(spec, shape.shapes.source, shape.shapes.target))[1]


def _matrix_speed(speed: Speed, spec: Spec, threads: int) -> float:
    """Return the operations per second in the number format of the spec, with so many threads."""
    all_cores = speed.float32
    if spec.train.precision == "bfloat16":
        all_cores = max(all_cores, NUMBERS.bfloat16_share * speed.bfloat16)
    fewer = threads < speed.cores and spec.train.precision == "float32"
    return min(all_cores, threads * speed.one_core) if fewer else all_cores


def measured(budget_seconds: float, fallback: Throughput) -> Throughput:
    """Return a throughput that is measured by training on random tokens for a moment.

    The first step, which is slow, does not count. Models that are too large to be tried in a moment get `fallback`.
    """
    share = NUMBERS.measuring_share * budget_seconds
    seconds = min(NUMBERS.longest_measuring, max(NUMBERS.shortest_measuring, share))

    def throughput(spec: Spec, shape: BatchShape, threads: int) -> float:
        with torch.device("meta"):
            if assemble(spec, shape.shapes.source, shape.shapes.target).parameter_count > NUMBERS.measured_parameters:
                return fallback(spec, shape, threads)
        device, threads_before = pick_device(spec.train.device), torch.get_num_threads()
        before = random_state(device)
        torch.set_num_threads(threads)
        try:
            return _train_briefly(spec, shape, seconds, device)
        finally:
            torch.set_num_threads(threads_before)
            restore_random_state(before, device)

    return throughput


def _train_briefly(spec: Spec, shape: BatchShape, seconds: float, device: torch.device) -> float:
    """Train a new model on one random batch for so many seconds; return target tokens per second."""
    model, batch = (
        assemble(spec, shape.shapes.source, shape.shapes.target).to(device),
        _random_batch(spec, shape).to(device),
    )
    optimiser, average = (
        adamw(model, spec.train.weight_decay, spec.train.embed_rate),
        Average(model, spec.train.average),
    )

    def step() -> None:
        _backpropagate(model, batch, spec)
        clip_gradient(model, spec.train.clip)
        optimiser.step()
        average.update()

    step()
    steps, start = 0, time.perf_counter()
    while steps == 0 or time.perf_counter() - start < seconds:
        step()
        steps += 1
    return steps * batch.target_tokens * _length_correction(shape) / (time.perf_counter() - start)


def _length_correction(shape: BatchShape) -> float:
    """Return the factor that corrects the measured throughput for lines that are longer than those measured.

    Where sources are cut, a target token of the real data comes with more source tokens.
    """
    real, measured_at = shape.lengths, _measured_lengths(shape)
    return (sum(measured_at) / measured_at[1]) / (sum(real) / real[1])


def _measured_lengths(shape: BatchShape) -> tuple[int, int]:
    source, target = (min(length, NUMBERS.longest_measured_line) for length in shape.lengths)
    return source, target


def _random_batch(spec: Spec, shape: BatchShape) -> Batch:
    """Return a batch of the size used in training; of fewer rows where the scores over the vocabulary are large."""
    lengths = _measured_lengths(shape)
    rows_that_fit = NUMBERS.measured_scores // (shape.vocabulary[1] * lengths[1])
    rows = max(1, min(spec.train.batch_tokens // max(shape.lengths), rows_that_fit))
    if shape.series is not None:
        drawn = torch.rand(rows, lengths[1], shape.series.width).round()  # numbers or notes, which take as long
        return Batch.between(Column.of_nothing(rows), Column(drawn, torch.ones(rows, lengths[1], dtype=torch.bool)))
    if shape.alone:
        target = torch.randint(len(SPECIALS), shape.vocabulary[1], (rows, lengths[1] - 1)).tolist()
        return Batch.between(Column.of_nothing(rows), Column.of_ids(target))
    if shape.hidden:
        text = torch.randint(len(SPECIALS) + 1, shape.vocabulary[1], (rows, lengths[0] - 1)).numpy()
        hidden = np.arange(min(lengths[1], lengths[0] - 1))
        return batch_of(list(text), [np.stack([hidden, row[hidden]], axis=1) for row in text], None, shape.shapes)
    ids = max(len(SPECIALS) + 1, min(shape.vocabulary))  # valid on both sides: one may be read as the other
    source, target = (torch.randint(len(SPECIALS), ids, (rows, length - 1)).tolist() for length in lengths)
    if shape.ended:
        return Batch.of(source, target)
    labels = torch.randint(len(SPECIALS), shape.vocabulary[1], (rows, lengths[1])).tolist()
    return Batch.between(Column.of_ids(source), Column.of_labels(labels))


def _backpropagate(model: Model, batch: Batch, spec: Spec) -> None:
    half = torch.autocast(batch.source.device.type, torch.bfloat16, enabled=spec.train.precision == "bfloat16")
    model.zero_grad(set_to_none=True)
    with half:
        emission = model(batch)
    loss = OBJECTIVES[spec.objective.kind](spec.objective.smoothing)(emission, batch)
    (loss.total / loss.count).backward()  # type: ignore[no-untyped-call]
    if batch.source.device.type != "cpu":
        float(loss.total)  # wait until the device has finished
