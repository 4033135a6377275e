"""How hard the machine works: the operations that a batch's matrix products need, against what it can do."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from weft.core.kinds import Batch
from weft.core.machine import matrix_speed
from weft.learn.progress import Progress
from weft.nn.model import Model

FLOPS_PER_WEIGHT = 6  # and token: a product and a sum, in the forward pass and twice in the backward pass
WELL_USED = 0.4  # of the matrix speed: below it, what is between the products takes longer than they do


class Effort:
    """Counts the weights of matrices that a symbol of the source meets, and those that one of the target meets.

    Attention's own products are left out: they grow with length, and are small beside these for sentences.
    """

    def __init__(self, model: Model, precision: str) -> None:
        self.reading, self.writing = weights(model)
        speed, threads = matrix_speed(next(model.parameters()).device.type), torch.get_num_threads()
        together = speed.bfloat16 if precision == "bfloat16" else speed.float32
        alone = threads == 1 < speed.cores and precision == "float32"
        self.most = speed.one_core if alone else together * min(1.0, threads / speed.cores)

    def operations(self, batch: Batch) -> float:
        read = self.reading * batch.source.real
        return FLOPS_PER_WEIGHT * (read + self.writing * batch.target_tokens)


def share_of_speed(operations: float, seconds: float, most: float) -> float:
    """Of the matrix speed; that may have been measured while others wanted the cores, so it is at most all of it."""
    return min(1.0, operations / max(1e-9, seconds) / most)


def limits(progress: Progress, most: float, augmented: bool = False) -> tuple[dict[str, float], str]:
    """Where a run's time went, in shares; and what to change for it to go faster."""
    seconds = {**progress.spent, "learning": progress.spent.get("steps", 0.0) - progress.spent.get("batches", 0.0)}
    names = ["learning", "batches", "validation", "saving", *({"translation"} & set(progress.spent))]
    total = max(1e-9, progress.seconds, sum(seconds.get(name, 0.0) for name in names))  # the last save comes after all
    spent = {name: round(seconds.get(name, 0.0) / total, 3) for name in names}
    effort = share_of_speed(progress.operations, seconds["learning"], most)
    if spent["validation"] + spent["saving"] > 0.25:
        return spent, "validation and saving: lower train.evaluations or train.valid_pairs"
    if spent["batches"] > 0.1 and augmented:
        return spent, "augmentation, which is computed anew for every row: a free core, or less of it, would help"
    if spent["batches"] > 0.1:
        return spent, "reading batches: keep the cache (WEFT_CACHE) on a faster disk"
    if effort < WELL_USED:
        return (
            spent,
            f"many small matrix products ({effort:.0%} of matrix speed): a larger train.batch_tokens would be more "
            "efficient",
        )
    return (
        spent,
        f"matrix products ({effort:.0%} of matrix speed): a narrower model would see more tokens in the same time",
    )


def weights(model: Model) -> tuple[int, int]:
    """That a symbol of the source meets, and one of the target."""
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    reading = _matrices([part for name, part in model.named_children() if name in ("source_reader", "encoder")], tables)
    return reading, _matrices([model], tables - {id(getattr(model.head, "weight", None))}) - reading


def _matrices(modules: Sequence[nn.Module], tables: set[int]) -> int:
    """Return how many weights products are taken with: of all matrices that are no tables of vectors to look up."""
    parameters = {id(p): p for module in modules for p in module.parameters()}
    return sum(p.numel() for p in parameters.values() if p.dim() > 1 and id(p) not in tables)
