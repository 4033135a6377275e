"""The run folder: what is in it, who may write to it, and whether it fits what is asked."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from weft.core.errors import UserError
from weft.data.tokens import Tokeniser, from_json
from weft.settings import compose, flatten
from weft.spec import Spec

FORMAT = 1
OWN = {"lock", "choices.json", "source.json", "target.json", "data.json"}  # what a start that was killed may leave


class RunFolder:
    """Paths and small files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.spec_file = self.path / "spec.yaml"
        self.facts_file = self.path / "data.json"
        self.log = self.path / "log.jsonl"
        self.checkpoints = self.path / "checkpoints"

    @property
    def is_run(self) -> bool:
        return self.spec_file.is_file()

    def check_free(self) -> None:
        """Refuse a folder that is in use for something else."""
        if self.is_run:
            todo = "add --resume to go on with it, or choose another --out"
            raise UserError("this folder holds a run already", str(self.path), todo)
        if self.path.exists() and not self.path.is_dir():
            raise UserError("the output folder is a file", str(self.path), "choose another --out")
        try:
            strangers = [p.name for p in self.path.iterdir() if p.name not in OWN and not p.name.endswith(".part")]
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unusable(error) from None
        if strangers:
            raise UserError(
                f"the output folder is not empty (it holds {', '.join(sorted(strangers)[:3])})",
                str(self.path),
                "choose a new or empty folder for --out",
            )

    def create(self) -> None:
        self.check_free()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from None

    def give_up(self) -> None:
        """A start that failed before its first checkpoint leaves the folder free for another try."""
        if not any(self.checkpoints.glob("step-*")):
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            for path in (self.spec_file, self.log, self.path / "curves.png"):
                path.unlink(missing_ok=True)

    def _unusable(self, error: OSError) -> UserError:
        return UserError(f"the output folder cannot be used: {error.strerror}", str(self.path), "choose another --out")

    def need_run(self) -> None:
        if not self.path.exists():
            raise UserError("there is no such run folder", str(self.path), "check the name given as RUN")
        if not self.is_run:
            raise UserError(
                "this is not a run folder: it has no spec.yaml", str(self.path), "name a folder that `weft train` made"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else trains in this folder meanwhile; the lock ends with the process, however that ends."""
        try:
            file = (self.path / "lock").open("a+")
        except OSError as error:
            raise self._unusable(error) from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(
                    "another process is training in this run folder",
                    str(self.path),
                    "wait for it, or choose another --out",
                ) from None
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
                f"this run was made by a newer Weft (format {made_by}; this one reads up to {FORMAT})",
                str(self.spec_file),
                "update Weft",
            )
        return compose(("file", content)).spec

    def _yaml(self) -> dict[str, Any]:
        try:
            content = yaml.safe_load(self.spec_file.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
            raise UserError(
                f"the settings of this run cannot be read: {' '.join(str(error).split())}",
                str(self.spec_file),
                "restore the file from a copy",
            ) from None
        return content if isinstance(content, dict) else {}

    def read_choices(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self.path / "choices.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {"origins": {}, "reasons": []}
        return content

    def write_tokenisers(self, source: Tokeniser, target: Tokeniser) -> None:
        self.write("source.json", source.to_json())
        self.write("target.json", target.to_json())

    def read_tokenisers(self) -> tuple[Tokeniser, Tokeniser]:
        sides = []
        for name in ("source.json", "target.json"):
            path = self.path / name
            if not path.is_file():
                raise UserError("a tokeniser of this run is missing", str(path), "restore the file, or train again")
            sides.append(from_json(path.read_text(encoding="utf-8"), str(path)))
        return sides[0], sides[1]

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """What the data were: fingerprints and counts."""
        self.write("data.json", json.dumps(facts, indent=1, ensure_ascii=False) + "\n")

    def read_facts(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.facts_file.read_text(encoding="utf-8"))
        return content

    def write(self, name: str, text: str) -> None:
        """Whole or not at all."""
        aside = self.path / f".{name}.part"
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self.path / name)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """`train.rate: 0.002 → 0.001` for every dotted key whose value differs."""
    before, after = dict(flatten(old)), dict(flatten(new))
    keys = [*before, *(k for k in after if k not in before)]
    return [f"{k}: {before.get(k)} → {after.get(k)}" for k in keys if before.get(k) != after.get(k)]
