"""The model is one sentence: head(decode(bridge(encode(x)), y))."""

# N hypotheses · V symbols

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from torch import Tensor, nn

from weft.core.kinds import Batch, Decoder, Emission, Encoder, Head, Memory, S


@dataclass(frozen=True)
class Going(Generic[S]):
    """Hypotheses under way: the decoder's state, and the source for heads that look at it."""

    state: S
    memory: Memory | None

    def select(self, rows: Tensor) -> Going[S]:
        return Going(self.state.select(rows), None if self.memory is None else self.memory.select(rows))


class Seq2Seq(nn.Module, Generic[S]):
    """Any encoder, bridge, decoder and head, trained on whole batches and searched step by step."""

    def __init__(self, encoder: Encoder, bridge: nn.Module, decoder: Decoder[S], head: Head) -> None:
        super().__init__()
        self.encoder, self.bridge, self.decoder, self.head = encoder, bridge, decoder, head

    def forward(self, batch: Batch) -> Emission:
        return self.head(*self.decode(batch))

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        """The decoder's outputs (B, T, D) and the memory: all but the head."""
        memory = self.bridge(self.encoder(batch.source, batch.source_mask))
        return self.decoder.unroll(batch.given, self.decoder.start(memory)), memory

    def begin(self, source: Tensor, mask: Tensor) -> Going[S]:
        memory = self.bridge(self.encoder(source, mask))
        return Going(self.decoder.start(memory), memory if self.head.sees_source else None)

    def advance(self, y: Tensor, going: Going[S]) -> tuple[Tensor, Going[S]]:
        out, state = self.decoder.step(y, going.state)
        return self.head(out[:, None], going.memory).log_probs[:, 0], Going(state, going.memory)  # (N, V)

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())
