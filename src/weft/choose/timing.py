"""How many epochs there is time for on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.choose.numbers import NUMBERS
from weft.choose.throughput import BatchShape, Throughput, cached
from weft.core.errors import UserError
from weft.core.machine import Speed
from weft.settings import Layer, compose


@dataclass(frozen=True)
class EpochEstimator:
    """Estimates how many epochs a model gets in the budget."""

    seconds: float
    cores: int
    parallel: bool  # whether several models train at the same time, one per core
    throughput: Throughput
    shape: BatchShape
    target_tokens: float  # in one epoch

    def epochs(self, layer: Layer, given: Mapping[str, Any], members: int) -> float | None:
        """Return how many epochs each of so many models gets; None where the settings clash."""
        try:
            spec = compose(("autopilot", layer), ("flag", dict(given))).spec
        except UserError:
            return None  # reported when the run's settings are composed
        at_once = min(members, self.cores) if self.parallel else 1
        rounds = -(-members // at_once)
        throughput = self.throughput(spec, self.shape, self.cores // at_once)
        return NUMBERS.training_share * throughput * self.seconds / self.target_tokens / rounds

    def weights(self, layer: Layer, given: Mapping[str, Any]) -> int:
        """Return how many weights each target token is multiplied with, in a model whose settings do not clash."""
        from weft.choose.measure import target_weights  # torch, which `weft data` need not load

        return target_weights(compose(("autopilot", layer), ("flag", dict(given))).spec, self.shape)


class TimeBudget:
    """A budget in seconds on this machine, before it is known how text is tokenised."""

    def __init__(self, seconds: float, speed: Speed, throughput: Throughput | None, given: Mapping[str, Any]) -> None:
        from weft.choose.measure import estimated  # torch, which `weft data` need not load
        from weft.learn.world import pick_device

        self.seconds, self.speed, self.cores = seconds, speed, speed.cores
        self.parallel = pick_device(given.get("train", {}).get("device", "auto")).type == "cpu"
        self._throughput = cached(throughput or estimated(speed))

    def estimator(self, shape: BatchShape, target_tokens: float) -> EpochEstimator:
        return EpochEstimator(self.seconds, self.cores, self.parallel, self._throughput, shape, target_tokens)
