"""How hard the machine works: the operations that a batch's matrix products need, against what it can do."""

from __future__ import annotations

from torch import nn

from weft.core.kinds import Batch
from weft.core.machine import matrix_speed
from weft.nn.model import Model

THERE_AND_BACK = 6  # operations a weight and symbol: a product and a sum, once forth and twice back


class Effort:
    """Counts the weights of matrices that a symbol of the source meets, and those that one of the target meets.

    Attention's own products are left out: they grow with length, and are small beside these for sentences.
    """

    def __init__(self, model: Model, precision: str) -> None:
        self.reading = _weights(model.get_submodule("encoder"))
        self.writing = _weights(model) - self.reading
        speed = matrix_speed()
        self.most = speed.bfloat16 if precision == "bfloat16" else speed.float32

    def operations(self, batch: Batch) -> float:
        read = self.reading * int(batch.source_mask.sum())
        return THERE_AND_BACK * (read + self.writing * batch.target_tokens)


def _weights(module: nn.Module) -> int:
    """Of all matrices. A table of symbol vectors is none that is multiplied with, unless it is the head's too."""
    head = getattr(getattr(module, "head", None), "weight", None)
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)} - {id(head)}
    return sum(p.numel() for p in module.parameters() if p.dim() > 1 and id(p) not in tables)
