"""From the decoder's states to the numbers or notes of the next step."""

# B batch · T length · D width · F features · M components · K notes

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from weft.core.densities import Bits, Mixture, Point, Track
from weft.core.kinds import Memory

SELDOM = -3.0  # the logit that an untrained model gives a note: most are silent at most steps
LEAST_SCALE = 1e-3  # of a Gaussian, where the data have a scale of about 1


class NumberHead(nn.Module):
    """W o + b, split into what a kind of emission needs, and the logit of stopping where that is learned."""

    sees_source = False

    def __init__(self, width: int, features: int, sizes: list[int], stop: bool) -> None:
        super().__init__()
        self.features, self.sizes = features, [*sizes, 1] if stop else sizes
        self.symbols = sum(self.sizes)
        self.out = nn.Linear(width, self.symbols)
        self.has_stop = stop

    def parts(self, out: Tensor) -> tuple[list[Tensor], Tensor | None]:
        """Return each part (B, T, size), and the logits of stopping (B, T)."""
        parts = list(self.out(out).split(self.sizes, dim=-1))
        stop = parts.pop()[..., 0] if self.has_stop else None
        return parts, stop


class PointHead(NumberHead):
    """One value for each feature, to be learned by squared error."""

    def __init__(self, width: int, features: int, components: int, stop: bool, steps: bool) -> None:
        super().__init__(width, features, [features], stop)

    def forward(self, out: Tensor, memory: Memory | None) -> Point:
        (centre,), stop = self.parts(out)
        return Point(centre, None, stop)


class TrackHead(PointHead):
    """One value for each feature, to be learned by distance; the values are steps where `steps` is set."""

    def __init__(self, width: int, features: int, components: int, stop: bool, steps: bool) -> None:
        super().__init__(width, features, components, stop, steps)
        self.steps = steps

    def forward(self, out: Tensor, memory: Memory | None) -> Track:
        (centre,), stop = self.parts(out)
        return Track(centre, None, stop, self.steps)


class GaussianHead(NumberHead):
    """A mean and a standard deviation for each feature; s = log(1 + exp(W o + b))."""

    def __init__(self, width: int, features: int, components: int, stop: bool, steps: bool) -> None:
        super().__init__(width, features, [features, features], stop)

    def forward(self, out: Tensor, memory: Memory | None) -> Point:
        (centre, raw), stop = self.parts(out)
        return Point(centre, _scale(raw), stop)


class MixtureHead(NumberHead):
    """Weights, means and standard deviations of several Gaussians (Bishop 1994)."""

    def __init__(self, width: int, features: int, components: int, stop: bool, steps: bool) -> None:
        super().__init__(width, features, [components, components * features, components * features], stop)
        self.components = components

    def forward(self, out: Tensor, memory: Memory | None) -> Mixture:
        (weights, centres, raw), stop = self.parts(out)
        shape = (*weights.shape, self.features)
        return Mixture(weights, centres.reshape(shape), _scale(raw).reshape(shape), stop)


class NotesHead(NumberHead):
    """The logit of each note."""

    def __init__(self, width: int, features: int, components: int, stop: bool, steps: bool) -> None:
        super().__init__(width, features, [features], stop)
        with torch.no_grad():
            self.out.bias.fill_(SELDOM)

    def forward(self, out: Tensor, memory: Memory | None) -> Bits:
        (logits,), stop = self.parts(out)
        return Bits(logits, stop)


def _scale(raw: Tensor) -> Tensor:
    return softplus(raw.float()) + LEAST_SCALE
