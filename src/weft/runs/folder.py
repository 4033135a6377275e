"""The run folder: its files, its lock, and how they are written whole or not at all."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import yaml

from weft.bounded_yaml import parse_yaml
from weft.compatibility import FORMAT
from weft.core import manifest
from weft.core.errors import UserError
from weft.core.files import check_plain, parse_json, read_regular, write_whole
from weft.data.sides.sides import Sides
from weft.data.sides.table import side_from_json
from weft.settings import compose, flatten, from_format
from weft.spec import Spec

FACTS = "the facts about the data"
FINISHED = ("log.jsonl", "README.md", "curves.png")  # files that change until the run is finished
CONFUSION, ROLLS, SERIES, SEEN, INSPECTION = PICTURES = (  # of labels, notes, numbers, sources that are seen; a page
    "confusion.png",
    "tunes.png",
    "series.png",
    "seen.png",
    "inspection.html",
)
WORDS = "words.json"  # what BM25 knows of words, of runs that find documents
SIDES = ("source.json", "target.json", "context.json")  # the last only where there is a context
NUMBER = re.compile(r"[2-9]|[1-9][0-9]{1,4}")  # of a member
MOST_BYTES = 1 << 28  # of a side; of the other small files a sixteenth
REPLACEABLE = {"lock", "choices.json", "data.json", manifest.NAME, *SIDES}  # files that a killed start may have left


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
        names = [path.name for path in (self.path / "members").glob("*")]
        most = self.read_spec().train.members if names else 1
        numbers = sorted(int(name) for name in names if NUMBER.fullmatch(name) and int(name) <= most)
        trained = [member for member in map(self.member, numbers) if any(member.checkpoints.glob("step-*"))]
        return [member for member in trained if not member.left_out.exists()]

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
        if self.path.exists():
            check_plain(self.path)

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
        check_plain(self.path)

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

    def is_locked(self) -> bool:
        """Return whether another process is training in this folder."""
        try:
            with (self.path / "lock").open("r") as file:
                return not _take(file)
        except OSError:
            return False

    def write_spec(self, spec: Spec, origins: Mapping[str, str], reasons: list[list[str]]) -> None:
        """Write the settings, and before them the manifest: what has a spec.yaml is a run, and has all its files."""
        self.write("choices.json", json.dumps({"origins": dict(origins), "reasons": reasons}, indent=1) + "\n")
        content = {"format": FORMAT, **spec.model_dump(mode="json")}
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        names = ("choices.json", "data.json", *SIDES)
        entries = {name: manifest.entry_of_file(self.path, name) for name in names if (self.path / name).exists()}
        manifest.write(self.path, {**entries, self.spec_file.name: manifest.entry_of(text.encode())})
        self.write(self.spec_file.name, text)

    def read_spec(self) -> Spec:
        self.need_run()
        return self.spec_of(self.read(self.spec_file.name, "the settings"))

    def spec_of(self, text: bytes) -> Spec:
        """Return the settings that a spec.yaml holds."""
        content = self._yaml(text)
        made_by = content.pop("format", None)
        if not isinstance(made_by, int):
            todo = "restore the file from a copy"
            what = "this is not a spec.yaml that Weft wrote: it has no entry `format`"
            raise UserError(what, str(self.spec_file), todo)
        if made_by > FORMAT:
            raise UserError(
                f"this run was written by a newer version of Weft (format {made_by}; this version reads formats up to "
                f"{FORMAT})",
                str(self.spec_file),
                "update Weft",
            )
        return compose(("file", from_format(_without_race(content), made_by))).spec

    def read(self, name: str, what: str, most: int = MOST_BYTES // 16) -> bytes:
        """Return the content of a file, compared with the manifest; `what` it is, is named if it cannot be read."""
        try:
            content = read_regular(self.path, name, most)
            manifest.check(self.entries(), name, content)
        except OSError as error:
            raise unreadable(what, self.path / name, error) from None
        except manifest.Damaged:
            raise self._damaged(name, what) from None
        return content

    def entries(self) -> manifest.Entries:
        """Return what is known of the run's files: nothing of a run of an earlier version."""
        try:
            return manifest.read(self.path)
        except manifest.Damaged as reason:
            todo = f"restore it from a copy; or accept the files as they are: weft verify {self.path} --accept"
            raise UserError(f"the manifest of this run is damaged: {reason}", str(self.path), todo) from None

    def seal(self, names: Collection[str]) -> None:
        """List files in the manifest as they are now."""
        manifest.update(self.path, {n: manifest.entry_of_file(self.path, n) for n in names}, drop=lambda name: False)

    def unseal(self, names: Collection[str]) -> list[str]:
        """Take files that will change off the manifest; return those that were not as it had them."""
        entries = self.entries()
        damaged = [name for name in names if manifest.damage_of(self.path, name, entries.get(name)) is not None]
        manifest.update(self.path, {}, drop=lambda name: name in names)
        return damaged

    def _damaged(self, name: str, what: str) -> UserError:
        if name == self.spec_file.name:
            what = "spec.yaml is not as training wrote it: it was edited, or is damaged"
            todo = f"restore it from a copy; or, if it is as you want it, accept it: weft verify {self.path} --accept"
            return UserError(what, str(self.spec_file), todo)
        todo = "restore the file from a copy, or train again"
        reason = "the file is damaged, its checksum does not match"
        return UserError(f"{what} of this run cannot be read: {reason}", str(self.path / name), todo)

    def _yaml(self, text: bytes) -> dict[str, Any]:
        try:
            tree = parse_yaml(text.decode("utf-8"))
        except (yaml.YAMLError, ValueError) as error:
            raise unreadable("the settings", self.spec_file, error) from None
        return tree if isinstance(tree, dict) else {}

    def read_choices(self) -> dict[str, Any]:
        """Return where each setting came from (`origins`), and the autopilot's `reasons`."""
        if not (self.path / "choices.json").exists():
            return {"origins": {}, "reasons": []}
        content = self._json("choices.json", "what the autopilot chose")
        origins, reasons = content.get("origins"), content.get("reasons")
        if not isinstance(origins, dict) or not isinstance(reasons, list) or not all(map(_is_reason, reasons)):
            raise unreadable("what the autopilot chose", self.path / "choices.json", ValueError("values are missing"))
        return {"origins": origins, "reasons": reasons}

    def _json(self, name: str, what: str) -> dict[str, Any]:
        content = self.read(name, what)
        try:
            tree = parse_json(content)
            if not isinstance(tree, dict):
                raise ValueError("it holds no keys and values")
        except ValueError as error:
            raise unreadable(what, self.path / name, error) from None
        return tree

    def write_sides(self, sides: Sides) -> None:
        for role, side in sides.by_role.items():
            self.write(f"{role}.json", side.to_json())

    def read_sides(self) -> Sides:
        sums = self.known_facts().get("sums", {})
        sides = []
        for name in SIDES:
            path, todo = self.path / name, "restore the file from a copy, or train again"
            if name == "context.json" and name not in {**sums, **self.entries()} and not path.exists():
                continue
            if not path.is_file():
                raise UserError(f"{name} is missing from this run", str(path), todo)
            content = self.read(name, name, MOST_BYTES)
            if name in sums and sums[name] != manifest.entry_of(content).sha256:  # runs that have no manifest
                raise self._damaged(name, name)
            sides.append(side_from_json(content, str(path)))
        return Sides(*sides)

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Write what the data were: fingerprints and counts."""
        self.write("data.json", json.dumps(facts, indent=1, ensure_ascii=False) + "\n")

    def read_facts(self) -> dict[str, Any]:
        content = self._json("data.json", FACTS)
        if reason := _wrong_fact(content):
            raise unreadable(FACTS, self.facts_file, ValueError(reason))
        return content

    def known_facts(self) -> dict[str, Any]:
        """Return the facts, or none: a run can predict without them."""
        return self.read_facts() if self.facts_file.exists() else {}

    def write(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        write_whole(self.path, name, text)


def _is_reason(reason: Any) -> bool:
    return isinstance(reason, list) and len(reason) == 3


def _wrong_fact(facts: Mapping[str, Any]) -> str:
    """Return what is missing from the facts about the data, or of another type than it should be; "" if nothing is."""
    if not {"pairs", "fingerprint", "valid_fingerprint"} <= set(facts):
        return "the fingerprints are not in it"
    lists = [name for name in ("pairs", "valid", "init_taken") if not _is_texts(facts.get(name, []))]
    columns = facts.get("columns", {})
    sums = [] if isinstance(facts.get("sums", {}), dict) else ["sums"]
    sums += [] if isinstance(columns, dict) and _is_texts(list(columns.values())) else ["columns"]
    texts = [name for name in ("init", "command", "folder") if not isinstance(facts.get(name), str | None)]
    return f"{', '.join(lists + texts + sums)}: not of the expected type" if lists + texts + sums else ""


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


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


def unreadable(what: str, path: Path, error: Exception) -> UserError:
    reason = (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split())
    todo = "restore the file from a copy, or train a new run with another --out"
    return UserError(f"{what} of this run cannot be read: {reason}", str(path), todo)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """`train.rate: 0.002 → 0.001` for every dotted key whose value differs."""
    before, after = dict(flatten(old)), dict(flatten(new))
    keys = [*before, *(k for k in after if k not in before)]
    return [f"{k}: {before.get(k)} → {after.get(k)}" for k in keys if before.get(k) != after.get(k)]
