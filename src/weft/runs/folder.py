"""The run folder: its files, its lock, and how they are written whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import yaml
from torch import Tensor

from weft.core.errors import UserError
from weft.data.sides.sides import Sides
from weft.data.sides.table import side_from_json
from weft.learn import checkpoint
from weft.settings import compose, flatten
from weft.spec import Spec

FORMAT = 1
SIDES = ("source.json", "target.json", "context.json")  # the last only where there is a context
REPLACEABLE = {"lock", "choices.json", "data.json", *SIDES}  # files that a killed start may have left


class RunFolder:
    """The paths and small files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.spec_file = self.path / "spec.yaml"
        self.facts_file = self.path / "data.json"
        self.log = self.path / "log.jsonl"
        self.checkpoints = self.path / "checkpoints"

    @property
    def is_run(self) -> bool:
        return self.spec_file.is_file()

    def member(self, number: int) -> RunFolder:
        """Return the folder of another model of the run, from number 2: the first is the run itself."""
        return RunFolder(self.path / "members" / str(number))

    def trained_members(self) -> list[RunFolder]:
        """Return the members that have a checkpoint and are not left out of the ensemble."""
        checkpoints = (self.path / "members").glob("*/checkpoints/step-*")
        members = [self.member(number) for number in sorted({int(path.parent.parent.name) for path in checkpoints})]
        return [member for member in members if not member.left_out.exists()]

    @property
    def left_out(self) -> Path:
        """The file that says why this member does not predict with the others."""
        return self.path / "left-out.txt"

    @property
    def diverged(self) -> Path:
        """The file that says why this member could not be trained to the end."""
        return self.path / "diverged.txt"

    def check_free(self) -> None:
        """Refuse a folder that holds something else."""
        if self.is_run:
            todo = "add --resume to continue it, or choose another --out"
            raise UserError("this folder already holds a run", str(self.path), todo)
        if self.checkpoints.exists():
            todo = "restore spec.yaml from a copy, or choose another --out"
            raise UserError("this folder holds a run whose spec.yaml is missing", str(self.path), todo)
        refuse_other_files(self.path, REPLACEABLE)

    def create(self) -> None:
        self.check_free()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(self.path, error) from None

    def give_up(self) -> None:
        """Free the folder for another try, after a start that failed before its first checkpoint."""
        if not any(self.checkpoints.glob("step-*")):
            for path in (self.checkpoints, self.path / "members"):
                shutil.rmtree(path, ignore_errors=True)
            for path in (self.spec_file, self.log, self.path / "curves.png"):
                path.unlink(missing_ok=True)

    def explain(self, error: Exception) -> None:
        """Raise an error in three parts if training ended because of its files."""
        if not self.path.exists():
            what = "the run folder was removed during training"
            raise UserError(what, str(self.path), "train again, and keep the folder until training is done") from error
        if isinstance(error, OSError):
            what = f"training can no longer use a file: {error.strerror or error}"
            todo = "check the file, its folder and the disk, then continue with --resume"
            raise UserError(what, str(error.filename or self.path), todo) from error

    def need_run(self) -> None:
        if not self.path.exists():
            raise UserError("there is no such run folder", str(self.path), "check the name of the run")
        if not self.is_run:
            raise UserError(
                "this is not a run folder: it has no spec.yaml",
                str(self.path),
                "give a folder that `weft train` created",
            )

    @contextmanager
    def locked(self, patience: float = 0.0) -> Iterator[None]:
        """Lock the folder, so that no other process trains in it; the lock ends with the process, however that ends.

        Wait `patience` seconds for a process that holds it.
        """
        try:
            file = (self.path / "lock").open("a+")
        except OSError as error:
            raise _unusable(self.path, error) from None
        until = time.monotonic() + patience
        with file:
            while not _take(file):
                if time.monotonic() > until:
                    raise UserError(
                        "another process is training in this run folder",
                        str(self.path),
                        "wait for it, or choose another --out",
                    )
                time.sleep(0.1)
            yield

    def write_spec(self, spec: Spec, origins: Mapping[str, str], reasons: list[list[str]]) -> None:
        self.write("choices.json", json.dumps({"origins": dict(origins), "reasons": reasons}, indent=1) + "\n")
        content = {"format": FORMAT, **spec.model_dump(mode="json")}
        self.write("spec.yaml", yaml.safe_dump(content, sort_keys=False, allow_unicode=True))

    def read_spec(self) -> Spec:
        self.need_run()
        content = self._yaml()
        made_by = content.pop("format", None)
        if not isinstance(made_by, int):
            todo = "restore the file from a copy"
            raise UserError("this is not a spec.yaml that Weft wrote: it has no format", str(self.spec_file), todo)
        if made_by > FORMAT:
            raise UserError(
                f"this run was written by a newer version of Weft (format {made_by}; this version reads formats up to "
                f"{FORMAT})",
                str(self.spec_file),
                "update Weft",
            )
        return compose(("file", _without_race(content))).spec

    def _yaml(self) -> dict[str, Any]:
        try:
            content = yaml.safe_load(self.spec_file.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError, ValueError) as error:
            raise _unreadable("the settings", self.spec_file, error) from None
        return content if isinstance(content, dict) else {}

    def read_choices(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self.path / "choices.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {"origins": {}, "reasons": []}
        return content

    def write_sides(self, sides: Sides) -> None:
        for role, side in sides.by_role.items():
            self.write(f"{role}.json", side.to_json())

    def read_sides(self) -> Sides:
        sums = self.known_facts().get("sums", {})
        sides = []
        for name in SIDES:
            path, todo = self.path / name, "restore the file from a copy, or train again"
            if name == "context.json" and name not in sums and not path.exists():
                continue
            if not path.is_file():
                raise UserError("a side of this run is missing", str(path), todo)
            content = path.read_bytes()
            if name in sums and sums[name] != _sum(content):  # runs of earlier versions have no checksums
                raise UserError("a side of this run is damaged: its checksum does not match", str(path), todo)
            sides.append(side_from_json(content, str(path)))
        return Sides(*sides)

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Write what the data were (fingerprints and counts), and the checksums of the sides, written before."""
        sums = {name: _sum((self.path / name).read_bytes()) for name in SIDES if (self.path / name).exists()}
        self.write("data.json", json.dumps({**facts, "sums": sums}, indent=1, ensure_ascii=False) + "\n")

    def read_facts(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self.facts_file.read_text(encoding="utf-8"))
            if not {"pairs", "fingerprint", "valid_fingerprint"} <= set(content):
                raise ValueError("the fingerprints are not in it")
        except (OSError, ValueError, TypeError) as error:
            raise _unreadable("the facts about the data", self.facts_file, error) from None
        return content

    def known_facts(self) -> dict[str, Any]:
        """Return the facts, or none: a run can predict without them."""
        return self.read_facts() if self.facts_file.exists() else {}

    def write(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        aside = self.path / f".{name}.part"
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self.path / name)


def _without_race(content: dict[str, Any]) -> dict[str, Any]:
    """Count the seconds that earlier versions spent on comparing settings (train.raced) off the budget."""
    train = content.get("train")
    if not isinstance(train, dict) or "raced" not in train:
        return content
    train = dict(train)
    raced = train.pop("raced")
    if raced and train.get("budget_seconds") is not None:
        train["budget_seconds"] = max(1.0, train["budget_seconds"] - raced)
    return {**content, "train": train}


def refuse_other_files(path: Path, own: Collection[str]) -> None:
    """Refuse an output folder that holds other files than those that may be overwritten."""
    if path.exists() and not path.is_dir():
        raise UserError("the output folder is a file", str(path), "choose another --out")
    try:
        others = sorted(p.name for p in path.iterdir() if p.name not in own and not p.name.endswith(".part"))
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, error) from None
    if others:
        what = f"the output folder is not empty (it holds {', '.join(others[:3])})"
        raise UserError(what, str(path), "choose a new or empty folder for --out")


def _unusable(path: Path, error: OSError) -> UserError:
    return UserError(f"the output folder cannot be used: {error.strerror}", str(path), "choose another --out")


def _take(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unreadable(what: str, path: Path, error: Exception) -> UserError:
    reason = (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split())
    todo = "restore the file from a copy, or train a new run with another --out"
    return UserError(f"{what} of this run cannot be read: {reason}", str(path), todo)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """`train.rate: 0.002 → 0.001` for every dotted key whose value differs."""
    before, after = dict(flatten(old)), dict(flatten(new))
    keys = [*before, *(k for k in after if k not in before)]
    return [f"{k}: {before.get(k)} → {after.get(k)}" for k in keys if before.get(k) != after.get(k)]


def best_weights(folder: RunFolder) -> dict[str, Tensor]:
    """Return the weights that `best` links to; if damaged, those of the newest whole checkpoint, with a warning."""
    best = folder.path / "best"
    newest = [folder.checkpoints / checkpoint.name_of(step) for step in reversed(checkpoint.steps(folder.checkpoints))]
    damage = ""
    for path in ([best.resolve()] if best.exists() else []) + newest:
        try:
            weights = checkpoint.load(path, weights_only=True).weights
        except checkpoint.Damaged as reason:
            damage = damage or f"{path} is damaged: {reason}"
            continue
        if damage:
            warnings.warn(f"checkpoint {damage}; {path.name} is used instead", stacklevel=2)
        return weights
    if damage:
        todo = "train again, or restore the folder from a copy"
        raise UserError(f"every checkpoint of this run is damaged: {damage}", str(folder.checkpoints), todo)
    raise UserError(
        "this run has no checkpoint yet",
        str(folder.path),
        "wait for its training, or continue it with `weft train --resume`",
    )
