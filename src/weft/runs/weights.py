"""The weights of a run folder: which are the best, whether they are whole, and whether they fit the settings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from weft.core.errors import UserError
from weft.core.manifest import Damaged
from weft.data.sides.sides import Sides
from weft.learn import checkpoint
from weft.learn.model import model_of
from weft.learn.progress import Progress
from weft.runs.folder import RunFolder
from weft.settings import flatten
from weft.spec import Spec

SIZES = (".width", ".inner", ".heads", ".layers")  # how the settings end that weights have the size of
NOT_SIZES = ("search.",)  # the width of a beam
FEWEST_TENSORS = 2  # of a layer


def best_weights(folder: RunFolder, strict: bool = False) -> dict[str, Tensor]:
    """Return the best weights; if they are damaged, those of the newest whole checkpoint, with a warning.

    `strict`: damage is an error.
    """
    entries, best = folder.entries(), checkpoint.best_step(folder.checkpoints)
    newest = [step for step in reversed(checkpoint.steps(folder.checkpoints)) if step != best]
    damage = _newest_damage(folder)
    if damage and strict:
        raise _refused(damage, folder)
    for step in newest if best is None else (best, *newest):
        path = folder.checkpoints / checkpoint.name_of(step)
        try:
            weights = checkpoint.load(path, entries, weights_only=True).weights
        except Damaged as reason:
            damage = damage or f"{path} is damaged: {reason}"
            if strict:
                raise _refused(damage, folder) from None
            continue
        if damage:
            warnings.warn(f"checkpoint {damage}; {path.name} is used instead", stacklevel=2)
        check_finite(weights, path)
        return weights
    if damage:
        todo = "train again, or restore the folder from a copy"
        raise UserError(f"every checkpoint of this run is damaged: {damage}", str(folder.checkpoints), todo)
    todo = "wait until training has saved one, or continue the run with `weft train --out RUN --resume`"
    raise UserError("this run has no checkpoint yet", str(folder.path), todo)


def _newest_damage(folder: RunFolder) -> str:
    """Return why the newest checkpoint cannot tell which one is the best; "" if it can, or if there is none."""
    for step in checkpoint.steps(folder.checkpoints)[-1:]:
        path = folder.checkpoints / checkpoint.name_of(step)
        try:
            checkpoint.progress_of(path, folder.entries())
        except Damaged as reason:
            return f"{path} is damaged: {reason}"
    return ""


def _refused(damage: str, folder: RunFolder) -> UserError:
    todo = "restore the folder from a copy, or leave --strict out to use an older checkpoint"
    return UserError(f"checkpoint {damage}", str(folder.checkpoints), todo)


def newest_progress(folder: RunFolder) -> Progress:
    """Return how far a run has come, by its newest checkpoint that is whole; nowhere, where there is none."""
    for step in reversed(checkpoint.steps(folder.checkpoints)):
        with suppress(Damaged):
            return checkpoint.progress_of(folder.checkpoints / checkpoint.name_of(step))
    return Progress()


def refuse_damaged(folder: RunFolder) -> None:
    """Refuse a run whose newest checkpoint, or that of another member, is not whole."""
    for run in (folder, *folder.trained_members()):
        for step in checkpoint.steps(run.checkpoints)[-1:]:
            path = run.checkpoints / checkpoint.name_of(step)
            try:
                checkpoint.load(path, run.entries())
            except Damaged as reason:
                raise _refused(f"{path} is damaged: {reason}", run) from None


def check_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Refuse weights that are not numbers: whatever they predict is meaningless."""
    bad = [name for name, weight in weights.items() if not bool(torch.isfinite(weight.sum()))]  # a sum hides no NaN
    if bad:
        what = f"{len(bad)} of the {len(weights)} weights of this run hold NaN or infinity, such as {bad[0]}"
        raise UserError(what, str(path), "train again, or restore the folder from a copy")


def check_fit(weights: Mapping[str, Tensor], spec: Spec, sides: Sides, path: Path) -> None:
    """Refuse settings that make another model than the weights are of, before anything of its size is allocated."""
    if wrong := _too_large(weights, spec):
        raise _misfit(wrong, path)
    with torch.device("meta"):  # shapes without numbers
        wanted = {name: tuple(p.shape) for name, p in model_of(spec, sides).named_parameters()}
    shapes = {name: tuple(weight.shape) for name, weight in weights.items() if weight.is_floating_point()}
    misfits = [name for name, shape in wanted.items() if shapes.get(name) != shape]
    if misfits:
        raise _misfit(", ".join(misfits[:3]), path)


def _too_large(weights: Mapping[str, Tensor], spec: Spec) -> str:
    """Return the first setting that is larger than these weights allow; "" if none is."""
    numbers = sum(weight.numel() for weight in weights.values())
    sizes = [(k, v) for k, v in flatten(spec.model_dump()) if k.endswith(SIZES) and not k.startswith(NOT_SIZES)]
    for key, value in sizes:
        most = len(weights) // FEWEST_TENSORS if key.endswith(".layers") else numbers
        if isinstance(value, int) and value > max(1, most):
            return f"{key}={value}"
    return ""


def _misfit(what: str, path: Path) -> UserError:
    return UserError(
        f"the weights do not fit the settings: {what}",
        f"{path} and spec.yaml",
        "use the settings and the version of Weft with which the weights were trained",
    )
