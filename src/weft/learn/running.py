"""The probability of a running text, in windows that overlap: each token is predicted once, after some text before it.

A Transformer sees half a window and more before every token but the first ones. For a recurrent model, windows are
long, and what it has forgotten after so many tokens is all that it does not know.
"""

# N tokens · B windows · T length of a window

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from weft.core.kinds import Batch, Column
from weft.data.sides.nothing import NoColumn
from weft.data.sides.side import Rows
from weft.nn.model import Model

LONG, BEFORE = 2048, 512  # tokens of a window of a recurrent model, and of those that are read and not scored
AT_ONCE = 16_384  # tokens in a batch
Ints = npt.NDArray[np.int64]


@torch.inference_mode()
def running_scores(
    models: Sequence[Model], rows: Rows, running: NoColumn, device: torch.device
) -> list[tuple[float, ...]]:
    """Return the log-probability of every token of rows that follow each other."""
    tokens = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    length, before = (LONG, BEFORE) if running.carried else (running.window, running.window // 2)
    scores = np.zeros(len(tokens), dtype=np.float64)
    begins = np.arange(0, max(1, len(tokens) - before), length - before)
    at_once = max(1, AT_ONCE // length)
    for first in range(0, len(begins), at_once):
        windows = [tokens[begin : begin + length] for begin in begins[first : first + at_once]]
        for begin, each in zip(begins[first : first + at_once], _scores(models, windows, device)):
            unscored = before if begin else 0
            scores[begin + unscored : begin + len(each)] = each[unscored:]
    ends = np.cumsum([len(row) for row in rows])
    return [tuple(part.tolist()) for part in np.split(scores, ends[:-1])]


def _scores(models: Sequence[Model], windows: Sequence[Ints], device: torch.device) -> list[npt.NDArray[np.float32]]:
    """Return the log-probabilities of the tokens of each window."""
    batch = Batch.between(Column.of_nothing(len(windows)), Column.of_labels(windows)).to(device)
    emissions = [model(batch) for model in models]
    scores = -emissions[0].mean(emissions[1:]).nll(batch.wanted).cpu().numpy()  # (B, T)
    return [row[: len(window)] for row, window in zip(scores, windows)]
