"""From the decoder's states to an emission."""

# B batch · T length · D width · E embedding width · V symbols

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid

from weft.core.emissions import Choice
from weft.core.kinds import Memory
from weft.core.masks import hide
from weft.core.pair import PAD, SPECIALS, UNKNOWN
from weft.core.trace import note

NOT_LABELS = tuple(range(len(SPECIALS)))


class Tokens(nn.Module):
    """Scores over the target's symbols: W o + b, with W the embedding itself when tied (Press 2017).

    With `turned`, o goes through a matrix of its own first: a Transformer's outputs still hold the vector of the token
    that it has just read, and a tied W would repeat that token.
    """

    sees_source = False

    def __init__(
        self, width: int, memory_width: int, table: nn.Embedding, tied: bool, turned: bool, copies: Sequence[int] = ()
    ) -> None:
        """For outputs of `width`; `memory_width` and `copies` matter only to heads that see the source."""
        super().__init__()
        own, self.symbols = table.embedding_dim, table.num_embeddings
        self.project: nn.Module = nn.Linear(width, own) if turned or width != own else nn.Identity()
        self.weight = table.weight if tied else nn.Parameter(torch.empty_like(table.weight).normal_(std=own**-0.5))
        self.bias = nn.Parameter(torch.zeros(self.symbols))

    def forward(self, out: Tensor, memory: Memory | None) -> Choice:
        return Choice(self.product(self.project(out)))  # (…, V)

    def product(self, out: Tensor) -> Tensor:
        return linear(out, self.weight, self.bias)

    @torch.no_grad()
    def expect(self, counts: Tensor) -> None:
        """Start the bias from the token frequencies, so that the matrix need not learn them.

        A tied matrix would learn them by moving all rare vectors in one direction, which makes them alike as inputs.
        """
        self.bias.copy_(((counts + 0.5) / (counts.sum() + 0.5 * len(counts))).log())


class Copy(Tokens):
    """A mixture of writing and copying (See 2017): p(y) = g softmax(W o + b)ᵧ + (1 − g) Σ αᵢ over positions i of y.

    α is a scaled dot-product attention of its own; g = σ(w·[o; context] + b). `copies` says which target symbol
    each source symbol is; others are copied as UNKNOWN.
    """

    sees_source = True

    def __init__(
        self, width: int, memory_width: int, table: nn.Embedding, tied: bool, turned: bool, copies: Sequence[int] = ()
    ) -> None:
        super().__init__(width, memory_width, table, tied, turned)
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(memory_width, width, bias=False)
        self.gate = nn.Linear(width + memory_width, 1)
        self.copies: Tensor
        self.register_buffer("copies", torch.tensor(copies), persistent=False)

    def forward(self, out: Tensor, memory: Memory | None) -> Choice:
        """(B, T, D) and a memory of B rows → log-probabilities (B, T, V)."""
        assert memory is not None
        assert memory.source is not None
        scores = self.query(out) @ self.key(memory.states).transpose(1, 2) / out.shape[-1] ** 0.5  # (B, T, S)
        look = torch.softmax(hide(scores, memory.mask[:, None]).float(), dim=-1)
        look = note("decode.copy", look)
        gate = self.gate(torch.cat([out, look.to(memory.states) @ memory.states], dim=-1)).float()  # (B, T, 1)
        written = torch.log_softmax(super().forward(out, memory).logits.float(), dim=-1)
        tokens = self.copies[memory.source][:, None].expand(look.shape)  # (B, T, S)
        copied = torch.zeros_like(written).scatter_add(-1, tokens, look).clamp(min=1e-10).log()
        return Choice(torch.logaddexp(logsigmoid(gate) + written, logsigmoid(-gate) + copied))


class Ctc(Tokens):
    """Scores over the target's symbols and a blank, which is PAD, for each position of the source (Graves 2006)."""

    blank = PAD

    def forward(self, out: Tensor, memory: Memory | None) -> Choice:
        return Choice(self.product(self.project(out)), mask=None if memory is None else memory.mask)  # (B, S', V)


class Joint(Tokens):
    """Scores of a decoder and, beside them, of CTC on the encoder's states (Watanabe 2017).

    Without a memory there are only those of the decoder: a search computes those of CTC once.
    """

    sees_source = True

    def __init__(
        self, width: int, memory_width: int, table: nn.Embedding, tied: bool, turned: bool, copies: Sequence[int] = ()
    ) -> None:
        super().__init__(width, memory_width, table, tied, turned)
        self.aligner = Ctc(memory_width, memory_width, table, tied=False, turned=False)

    def forward(self, out: Tensor, memory: Memory | None) -> Choice:
        choice = super().forward(out, memory)
        return choice if memory is None else replace(choice, frames=self.aligner(memory.states, memory))


class Label(nn.Module):
    """Scores over labels: W o + b. The special symbols have columns as well, and are never predicted.

    While a model learns, they are part of the softmax, which learns to avoid them. After that they have a probability
    of nearly nothing, so that the probabilities of the labels add up to one; not of nothing, because a label that
    training never had is one of them, and its loss has to be finite.
    """

    sees_source = False
    NEARLY_NOTHING = math.log(1e-9)

    def __init__(self, width: int, symbols: int) -> None:
        super().__init__()
        self.symbols, self.out = symbols, nn.Linear(width, symbols)

    def forward(self, out: Tensor, memory: Memory | None) -> Choice:
        logits: Tensor = self.out(out)  # (…, V)
        return Choice(logits if self.training else self._of_labels(logits), NOT_LABELS)

    def _of_labels(self, logits: Tensor) -> Tensor:
        special = torch.tensor(NOT_LABELS, device=logits.device)
        labels = logits.index_fill(-1, special, float("-inf"))
        nearly_nothing = labels.logsumexp(-1, keepdim=True) + self.NEARLY_NOTHING
        return torch.where(torch.isinf(labels), nearly_nothing, labels)


def copied_as(source: Sequence[str], target: Sequence[str]) -> list[int]:
    """Return for each source token the only target token of that name, or UNKNOWN; specials map to themselves."""
    first = len(SPECIALS)
    often = Counter(target[first:])  # pieces of several bytes may all show as �
    ids = {name: number for number, name in enumerate(target) if number >= first and often[name] == 1}
    return [*range(first), *(ids.get(name, UNKNOWN) for name in source[first:])]
