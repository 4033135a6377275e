"""Checkpoints: complete or absent, checked by sum, nothing pickled.

A checkpoint is a folder `step-001200` with `weights.safetensors` (what predicts), `optimiser.safetensors` (what
training needs besides: raw weights, moments, random states) and `progress.json`, which holds the sums of the other two
and of itself. It is written aside, synced and renamed, and only then listed in the run's manifest: one that is not
listed yet is as good as one that is. The one before the last is kept, so that a damaged last costs little.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from weft.core import manifest
from weft.core.errors import UserError
from weft.core.files import parse_json, read_regular, sync_folder
from weft.core.manifest import Damaged, Entries, Entry
from weft.learn.progress import Progress

FORMAT = 1
RENAMED = {"encoder.embed.": "source_reader.", "decoder.embed.": "target_reader."}  # weights of earlier versions
FOLDER = "checkpoints"  # of a run
WEIGHTS, OPTIMISER, PROGRESS = "weights.safetensors", "optimiser.safetensors", "progress.json"
MOST_BYTES = 1 << 24  # of progress.json
STEP = re.compile(r"step-([0-9]{6,15})")
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError)


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
        sums = {name: manifest.entry_of_file(aside, name).sha256 for name in (WEIGHTS, OPTIMISER)}
        content = {"format": FORMAT, "sums": sums, "progress": checkpoint.progress.to_dict()}
        content["sum"] = manifest.sum_of(content)
        (aside / PROGRESS).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        _sync(aside)
        if final.exists():
            shutil.rmtree(final)
        aside.rename(final)
        sync_folder(folder)
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


def load(path: Path, entries: Mapping[str, Entry], *, weights_only: bool = False) -> Checkpoint:
    """Read a checkpoint, checking its sums, and its own in the run's manifest; Damaged if anything does not fit."""
    content = _sealed(path, entries)
    try:
        for name in (WEIGHTS,) if weights_only else (WEIGHTS, OPTIMISER):
            _check_size(path / name)
            if manifest.entry_of_file(path, name).sha256 != content["sums"][name]:
                raise Damaged(f"{name} does not match its checksum")
        optimiser = {} if weights_only else _read(path / OPTIMISER)
        return Checkpoint(_read(path / WEIGHTS), optimiser, Progress.from_dict(content["progress"]))
    except UNREADABLE as error:
        raise _cannot_be_read(error) from error


def progress_of(path: Path, entries: Mapping[str, Entry] | None = None) -> Progress:
    """Read how far a checkpoint's run had come; Damaged if that is not whole."""
    content = _sealed(path, entries or {})
    try:
        return Progress.from_dict(content["progress"])
    except UNREADABLE as error:
        raise _cannot_be_read(error) from error


def _sealed(path: Path, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Return what progress.json holds, if it matches its checksum."""
    try:
        text = read_regular(path, PROGRESS, MOST_BYTES)
        manifest.check(entries, f"{FOLDER}/{path.name}/{PROGRESS}", text)
        content: dict[str, Any] = parse_json(text)
        if content.pop("sum") != manifest.sum_of(content):
            raise Damaged(f"{PROGRESS} does not match its checksum")
    except UNREADABLE as error:
        raise _cannot_be_read(error) from error
    return content


def _cannot_be_read(error: Exception) -> Damaged:
    reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
    return Damaged(f"it cannot be read ({type(error).__name__}: {reason})")


def _check_size(path: Path) -> None:
    """Refuse a file that is larger than the machine's memory before it is read."""
    size, memory = path.stat().st_size, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > memory:
        raise Damaged(f"{path.name} has {size / 1e9:,.1f} GB, and this machine has {memory / 1e9:,.1f} GB of memory")


def entries_of(path: Path) -> Entries:
    """Return what the run's manifest says of a checkpoint, by what its progress.json says."""
    sums, home = _sealed(path, {})["sums"], f"{FOLDER}/{path.name}"
    files = {f"{home}/{name}": Entry((path / name).stat().st_size, sums[name]) for name in (WEIGHTS, OPTIMISER)}
    return {**files, f"{home}/{PROGRESS}": manifest.entry_of_file(path, PROGRESS)}


def step_of(name: str) -> int | None:
    """Return the step of a file that a manifest lists, if it is a checkpoint's."""
    home, _, rest = name.partition("/")
    match = STEP.fullmatch(rest.partition("/")[0])
    return int(match[1]) if home == FOLDER and match else None


def best_step(folder: Path) -> int | None:
    """Return the best step, as the newest checkpoint whose progress is whole has it; None if there is none yet.

    The link `best` is for people: a process may be killed before it sets it.
    """
    for step in reversed(steps(folder)):
        try:
            progress = progress_of(folder / name_of(step))
        except Damaged:
            continue
        return progress.best_step if progress.best_step >= 0 else None
    return None


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
    named = [(match[1], path) for path in folder.iterdir() if (match := STEP.fullmatch(path.name)) and path.is_dir()]
    return sorted(int(step) for step, path in named if path.name == name_of(int(step)))


def load_last(folder: Path, say: Callable[[str], None], entries: Mapping[str, Entry]) -> Checkpoint | None:
    """Return the newest checkpoint that is whole; `say` is told of each that is not."""
    present = steps(folder)
    for step in reversed(present):
        try:
            return load(folder / name_of(step), entries)
        except Damaged as reason:
            say(f"checkpoint {folder / name_of(step)} is damaged: {reason}; trying the one before it")
    if present:
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


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(folder)
