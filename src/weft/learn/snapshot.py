"""Between training and a checkpoint: take everything out as tensors, and put it back exactly."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft.core import manifest
from weft.core.errors import UserError
from weft.core.manifest import Damaged
from weft.learn import checkpoint
from weft.learn.checkpoint import Checkpoint
from weft.learn.optimise import Average
from weft.learn.progress import Progress
from weft.learn.world import World

MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def random_state(device: torch.device) -> Tensor:
    """Return the random states of this process as bytes: the CPU's, and then the device's if it is another one."""
    return torch.cat([torch.get_rng_state(), _device_random_state(device)])


def restore_random_state(state: Tensor, device: torch.device) -> None:
    """Restore what `random_state` returned; the part of another kind of device is ignored."""
    length = torch.get_rng_state().numel()
    torch.set_rng_state(state[:length])
    rest = state[length:]
    if rest.numel() != _device_random_state(device).numel():
        return
    if device.type == "cuda":
        torch.cuda.set_rng_state(rest, device)
    elif device.type == "mps":
        torch.mps.set_rng_state(rest)


def _device_random_state(device: torch.device) -> Tensor:
    if device.type == "cuda":
        return torch.cuda.get_rng_state(device)
    if device.type == "mps":
        return torch.mps.get_rng_state()
    return torch.empty(0, dtype=torch.uint8)


def take(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    average: Average,
    random: list[Tensor],
    progress: Progress,
    carried: Sequence[Sequence[Tensor]] = (),
) -> Checkpoint:
    """Return everything that a run is at this moment. `weights` are what predicts: the averages, if there are any.

    `random` and `carried` have each process's random states, and the states that its next batch goes on from.
    """
    raw = {name: p.detach().cpu() for name, p in model.named_parameters()}
    weights = dict(zip(raw, (a.cpu() for a in average.weights))) if average.weights else raw
    rest: dict[str, Tensor] = {f"random.{rank}": state for rank, state in enumerate(random)}
    for rank, states in enumerate(carried):
        rest |= {f"carried.{rank}.{number}": state.detach().cpu() for number, state in enumerate(states)}
    rest["average.updates"] = torch.tensor(average.updates)
    for name, parameter in model.named_parameters():
        if average.weights:
            rest[f"raw.{name}"] = raw[name]
        for moment, value in optimiser.state.get(parameter, {}).items():
            rest[f"adam.{moment}.{name}"] = value.detach().cpu()
    return Checkpoint(
        {name: w.contiguous() for name, w in weights.items()},
        {name: w.contiguous() for name, w in rest.items()},
        copy.deepcopy(progress),
    )


def carried_of(saved: Checkpoint, rank: int) -> list[Tensor]:
    """Return the states that the next batch of a process goes on from; none where it does not."""
    names = [name for name in saved.optimiser if name.startswith(f"carried.{rank}.")]
    return [saved.optimiser[name] for name in sorted(names, key=lambda name: int(name.rpartition(".")[2]))]


def put(saved: Checkpoint, model: nn.Module, optimiser: torch.optim.Optimizer, average: Average, world: World) -> None:
    """Restore everything as it was when the checkpoint was taken."""
    put_weights(saved.weights, model)
    if average.weights:
        for averaged, parameter in zip(average.weights, model.parameters()):
            averaged.copy_(parameter.detach())
        put_weights({name[4:]: w for name, w in saved.optimiser.items() if name.startswith("raw.")}, model)
    average.updates = int(saved.optimiser["average.updates"])
    for name, parameter in model.named_parameters():
        state: dict[str, Any] = {}
        for moment in MOMENTS:
            value = saved.optimiser.get(f"adam.{moment}.{name}")
            if value is not None:
                state[moment] = value.to(parameter.device, copy=True)
        if state:
            optimiser.state[parameter] = state
    restore_random_state(saved.optimiser[f"random.{world.rank}"], world.device)


def check_optimiser(saved: Checkpoint, model: nn.Module, rank: int, path: Path) -> None:
    """Refuse a state of training that is not this model's, before anything of it is used."""
    state, wrong = saved.optimiser, []
    for name, parameter in model.named_parameters():
        for key in (f"raw.{name}", *(f"adam.{moment}.{name}" for moment in MOMENTS)):
            single = key.startswith("adam.step.")
            if key in state and state[key].shape != (torch.Size(()) if single else parameter.shape):
                wrong.append(key)
    for key, kind, numel in (
        ("average.updates", torch.int64, 1),
        (f"random.{rank}", torch.uint8, torch.get_rng_state().numel()),
    ):
        if key not in state or state[key].dtype != kind or state[key].numel() < numel:
            wrong.append(key)
    if wrong:
        what = f"the state of training does not fit the settings: {', '.join(wrong[:3])}"
        raise UserError(what, str(path), "restore the folder from a copy, or train again")


def put_weights(weights: dict[str, Tensor], model: nn.Module) -> None:
    """Load saved weights into a model; they must fit by name and shape."""
    wanted = {name: tuple(p.shape) for name, p in model.named_parameters()}
    misfits = [name for name, shape in wanted.items() if name not in weights or tuple(weights[name].shape) != shape]
    if misfits:
        raise UserError(
            f"the weights do not fit the settings: {', '.join(misfits[:3])}",
            "checkpoint and spec.yaml",
            "use the settings and the version of Weft with which the weights were trained",
        )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


class Snapshots:
    """Saves into a run folder; keeps the last two checkpoints and the best as of each, lists them and sets the links.

    A checkpoint is written, then listed in the manifest; then older ones are removed. So all that the manifest lists is
    there at any instant, and a checkpoint that it does not list is new.
    """

    def __init__(self, path: Path, writes: bool) -> None:
        self.path, self._folder, self._writes = path, path / checkpoint.FOLDER, writes
        self._kept: list[tuple[int, int]] = []  # (step, best step as of then), newest last

    def restored(self, progress: Progress) -> None:
        """Set the links after a run was restored, and keep the checkpoint before; later ones, if any, are damaged."""
        if self._writes:
            self._kept = list(self._older(progress.step))[-1:]
            self._remember(progress)

    def _older(self, step: int) -> Iterator[tuple[int, int]]:
        """Yield the checkpoints before a step whose progress is whole."""
        for older in checkpoint.steps(self._folder):
            with suppress(Damaged):
                if older < step:
                    yield older, checkpoint.progress_of(self._folder / checkpoint.name_of(older)).best_step

    def save(self, taken: Checkpoint) -> None:
        """Write a checkpoint; one of the same step is not listed while it is replaced."""
        manifest.update(self.path, {}, drop=lambda name: checkpoint.step_of(name) == taken.progress.step)
        checkpoint.save(self._folder, taken)
        self._remember(taken.progress)

    def _remember(self, progress: Progress) -> None:
        step = progress.step
        self._kept = [*(pair for pair in self._kept if pair[0] < step), (step, progress.best_step)][-2:]
        kept = {step for pair in self._kept for step in pair}
        listed = checkpoint.entries_of(self._folder / checkpoint.name_of(step))
        manifest.update(self.path, listed, drop=lambda name: checkpoint.step_of(name) not in (None, *kept))
        checkpoint.point(self.path, "last", step)
        if progress.best_step >= 0:
            checkpoint.point(self.path, "best", progress.best_step)
        checkpoint.prune(self._folder, kept)
