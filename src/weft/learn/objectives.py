"""What is minimised: an Emission and a Batch to a sum and a count."""

# B batch · T target length · V symbols

from __future__ import annotations

from dataclasses import dataclass

from torch.nn.functional import cross_entropy

from weft.core.kinds import PAD, Batch, Emission, Loss


@dataclass(frozen=True)
class CrossEntropy:
    """−log p(wanted), with probability ε spread over all symbols (torch's formula), summed over real places."""

    smoothing: float = 0.0

    def __call__(self, emission: Emission, batch: Batch) -> Loss:
        total = cross_entropy(
            emission.logits.flatten(0, 1).float(),
            batch.wanted.flatten(),
            ignore_index=PAD,
            reduction="sum",
            label_smoothing=self.smoothing,
        )
        return Loss(total, batch.target_mask.sum())
