"""Checkpoints: complete or absent, checked by sum, nothing pickled.

A checkpoint is a folder `step-001200` with `weights.safetensors` (what predicts), `optimiser.safetensors` (what
training needs besides: raw weights, moments, random states) and `progress.json`, which holds the sums of the other two
and of itself. It is written aside, synced and renamed. The one before the last is kept, so that a damaged last costs
little.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from weft.core.errors import UserError
from weft.learn.progress import Progress

FORMAT = 1
RENAMED = {"encoder.embed.": "source_reader.", "decoder.embed.": "target_reader."}  # weights of earlier versions
FOLDER = "checkpoints"  # of a run
WEIGHTS, OPTIMISER, PROGRESS = "weights.safetensors", "optimiser.safetensors", "progress.json"


class Damaged(Exception):
    """A checkpoint that is not whole, with the reason."""


@dataclass(frozen=True)
class Checkpoint:
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    progress: Progress


def name_of(step: int) -> str:
    return f"step-{step:06d}"


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint into `folder` (checkpoints/) as a whole; what was there before stays if that fails."""
    final = folder / name_of(checkpoint.progress.step)
    aside = folder / f".{final.name}.part"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        folder.mkdir(exist_ok=True)  # and not the run folder: if that is gone, it was removed
        aside.mkdir()
        save_file(checkpoint.weights, aside / WEIGHTS)
        save_file(checkpoint.optimiser, aside / OPTIMISER)
        _readable(aside)
        sums = {name: _sum(aside / name) for name in (WEIGHTS, OPTIMISER)}
        content = {"format": FORMAT, "sums": sums, "progress": checkpoint.progress.to_dict()}
        content["sum"] = _sum_of(content)
        (aside / PROGRESS).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        _sync(aside)
        if final.exists():
            shutil.rmtree(final)
        aside.rename(final)
        _sync_folder(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise _unwritten(error, final, steps(folder)) from error
    return final


def _readable(folder: Path) -> None:
    """safetensors writes for the owner alone; others may read what the user's umask lets them."""
    mask = os.umask(0)
    os.umask(mask)
    for path in folder.iterdir():
        path.chmod(0o666 & ~mask)


def _unwritten(error: Exception, path: Path, whole: list[int]) -> UserError:
    reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    kept = f"the checkpoint before it, {name_of(whole[-1])}, is intact" if whole else "no checkpoint was written before"
    return UserError(
        f"a checkpoint could not be written: {reason}; {kept}",
        str(path),
        "free some disk space, then continue with --resume" if whole else "free some disk space, then start again",
    )


def load(path: Path, *, weights_only: bool = False) -> Checkpoint:
    """Read a checkpoint, checking its sums; Damaged if anything does not fit."""
    try:
        content: dict[str, Any] = json.loads((path / PROGRESS).read_text(encoding="utf-8"))
        own = content.pop("sum")
        if own != _sum_of(content):
            raise Damaged(f"{PROGRESS} does not match its checksum")
        for name in (WEIGHTS,) if weights_only else (WEIGHTS, OPTIMISER):
            if _sum(path / name) != content["sums"][name]:
                raise Damaged(f"{name} does not match its checksum")
        optimiser = {} if weights_only else _read(path / OPTIMISER)
        return Checkpoint(_read(path / WEIGHTS), optimiser, Progress.from_dict(content["progress"]))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise Damaged(f"it cannot be read ({type(error).__name__}: {error})") from error


def _read(path: Path) -> dict[str, Tensor]:
    """Read named tensors; names of earlier versions become those of today, in `raw.` and `adam.` entries too."""
    return {_current_name(name): tensor for name, tensor in load_file(path).items()}


def _current_name(name: str) -> str:
    for old, new in RENAMED.items():
        prefix, found, rest = name.partition(old)
        if found and (not prefix or prefix == "raw." or prefix.startswith("adam.")):
            return f"{prefix}{new}{rest}"
    return name


def steps(folder: Path) -> list[int]:
    """The steps that have a checkpoint, in order."""
    if not folder.is_dir():
        return []
    return sorted(int(p.name[5:]) for p in folder.iterdir() if p.name.startswith("step-") and p.name[5:].isdigit())


def load_last(folder: Path, say: Any) -> Checkpoint | None:
    """The newest checkpoint that is whole; `say` is told of each that is not."""
    found = steps(folder)
    for step in reversed(found):
        try:
            return load(folder / name_of(step))
        except Damaged as reason:
            say(f"checkpoint {folder / name_of(step)} is damaged: {reason}; trying the one before it")
    if found:
        raise UserError(
            "every checkpoint of this run is damaged", str(folder), "train again, or restore the folder from a copy"
        )
    return None


def point(folder: Path, link: str, step: int) -> None:
    """Let RUN/best or RUN/last lead to a step's checkpoint; the change is at once or not at all."""
    aside = folder / f".{link}.part"
    aside.unlink(missing_ok=True)
    aside.symlink_to(Path(FOLDER) / name_of(step))
    aside.replace(folder / link)


def prune(folder: Path, keep: Iterable[int]) -> None:
    """Remove the checkpoints of all other steps, and what a kill left half written."""
    kept = {name_of(step) for step in keep}
    for entry in folder.iterdir():
        if entry.name not in kept:
            shutil.rmtree(entry, ignore_errors=True)


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sum_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
