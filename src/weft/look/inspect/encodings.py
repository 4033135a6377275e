"""What a model makes of whole lines: the state that is handed over, and one vector for each line."""

# N lines · B batch · S source length · D width

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.kinds import Batch, Column, Memory
from weft.core.pair import END, START, Pair
from weft.look.inspect.plots import Array
from weft.look.inspect.subject import Subject
from weft.nn.assemble import AnyModel
from weft.nn.decoders.recurrent import RecurrentDecoder, RecurrentState
from weft.nn.model import Classifier, LanguageModel, Seq2Seq

AT_ONCE = 64  # lines in a batch


def handed_over(subject: Subject, model: AnyModel, pairs: Sequence[Pair]) -> Array:
    """Return for each line the numbers that the rest of the model starts from (N, D)."""
    return _over_batches(subject, pairs, lambda batch: _state(model, batch))


def encodings(subject: Subject, model: AnyModel, pairs: Sequence[Pair]) -> Array:
    """Return a vector for each line (N, D): the mean of what is attended to, or else the state that is handed over."""
    if has_bottleneck(model) or isinstance(model, LanguageModel | Classifier):
        return handed_over(subject, model, pairs)
    return _over_batches(subject, pairs, lambda batch: _mean(_memory(model, batch)))


def has_bottleneck(model: AnyModel) -> bool:
    """Return whether a decoder knows nothing of the source but a state of fixed size."""
    return (
        isinstance(model, Seq2Seq) and isinstance(model.decoder, RecurrentDecoder) and model.decoder.attention is None
    )


def what_is_handed_over(model: AnyModel) -> str:
    """Return in words what `handed_over` holds."""
    if isinstance(model, LanguageModel):
        return "the state after the last symbol of the text"
    if isinstance(model, Classifier):
        return "the pooled summary that the label is read from"
    if isinstance(model, Seq2Seq) and isinstance(model.decoder, RecurrentDecoder):
        attends = "" if model.decoder.attention is None else "; the attention also sees every position"
        return f"the state that the decoder begins with{attends}"
    return "the mean over all positions of what the encoder hands over, since there is no single state"


def _over_batches(subject: Subject, pairs: Sequence[Pair], act: Callable[[Batch], Tensor]) -> Array:
    """Apply something to lines of about equal length at a time, and return the results in the order of the lines."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i].source or pairs[i].target))
    results: list[Array] = [np.zeros(0)] * len(pairs)
    for first in range(0, len(order), AT_ONCE):
        chosen = order[first : first + AT_ONCE]
        with torch.no_grad():
            rows = act(subject.batch([pairs[i] for i in chosen])).float().cpu().numpy()
        for number, row in zip(chosen, rows, strict=True):
            results[number] = row
    return np.stack(results)


def _state(model: AnyModel, batch: Batch) -> Tensor:
    if isinstance(model, LanguageModel):
        return _after(model, batch)
    memory = _memory(model, batch)
    if isinstance(model, Classifier):
        pooled: Tensor = model.pool(memory)
        return pooled
    if isinstance(model, Seq2Seq) and isinstance(model.decoder, RecurrentDecoder) and memory.final:
        return torch.cat([*memory.final, *memory.cells], dim=-1)
    return _mean(memory)


def _memory(model: AnyModel, batch: Batch) -> Memory:
    """Return what the encoder hands over."""
    if isinstance(model, Seq2Seq):
        return model.read(batch.source, batch.context)
    return model.encode(batch.source, batch.context)


def _mean(memory: Memory) -> Tensor:
    real = memory.mask[..., None].to(memory.states.dtype)
    return (memory.states * real).sum(1) / real.sum(1).clamp(min=1)


def _whole(one: Batch) -> Column:
    """Return a single text with START in front, to its last symbol: what is given to predict running text lacks it."""
    if one.wanted.values.dim() > 2:
        real = int(one.given.mask.sum())
        return Column(one.given.values[:, :real], one.given.mask[:, :real])
    written = one.wanted.values[one.wanted.mask]
    values = torch.cat([written.new_tensor([START]), written[written != END]])[None]
    return Column(values, torch.ones_like(values, dtype=torch.bool))


def _after(model: LanguageModel[Any], batch: Batch) -> Tensor:
    """Return the state after the last symbol of each text, which are read one by one."""
    rows = []
    for row in range(batch.size):
        one = batch.rows(slice(row, row + 1))
        out, _, state = model.decode_from(Batch(one.source, _whole(one), one.wanted), None)
        rows.append(torch.cat(state.tensors(), dim=-1)[0] if isinstance(state, RecurrentState) else out[0, -1])
    return torch.stack(rows)
