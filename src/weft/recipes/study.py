"""What a recipe is: a question, its data, and variants that are trained under equal conditions and compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.recipes.dates import write_tsv
from weft.recipes.makers import Draw, distinct, key

if TYPE_CHECKING:
    from weft.compare.compare import Compared
    from weft.runs.report import Display

Settings = Mapping[str, Any]

PUBLIC = "The data are not part of Weft: put them into the folder that the variable `WEFT_DATA` names."


@dataclass(frozen=True)
class Files:
    """The files of a study."""

    train: str
    valid: str | None = None
    tests: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """What the command line sets in place of the study's budget and seeds."""

    budget: str | None = None
    steps: int | None = None
    seeds: int | None = None
    command: str = ""
    reporter: Display | None = None

    @property
    def flags(self) -> str:
        """The flags that change the recipe, as they are typed; empty if there are none."""
        values = {"--budget": self.budget, "--steps": self.steps, "--seeds": self.seeds}
        return "".join(f" {flag} {value}" for flag, value in values.items() if value is not None)


@dataclass(frozen=True)
class Study:
    """One comparison: the same data and budget for every variant."""

    name: str
    data: Callable[[Path], Files]
    variants: Mapping[str, Settings]
    settings: Settings
    budget: str
    seeds: int = 1
    match: bool = False
    tag: int | None = None
    also: Callable[[Compared], list[str]] | None = None  # more lines for the page, in Markdown

    def run(self, folder: Path, options: Options) -> Compared:
        """Compare the variants in FOLDER/NAME, with the data in FOLDER/data/NAME."""
        from weft.compare.compare import compare  # loads torch, which `weft recipe list` does not need

        files = self.data(folder / "data" / self.name)
        by_steps = options.steps is not None
        return compare(
            files.train,
            variants=self.variants,
            out=folder / self.name,
            valid=files.valid,
            tests=files.tests,
            budget=None if by_steps else options.budget or self.budget,
            steps=options.steps,
            seeds=options.seeds or self.seeds,
            match_parameters=self.match,
            settings=self.settings,
            tag=self.tag,
            reporter=options.reporter,
            command=options.command,
        )


def generated(
    draw: Draw, train: int, valid: int = 500, tests: Mapping[str, tuple[Draw, int]] | None = None, seed: int = 1
) -> Callable[[Path], Files]:
    """Return data that a maker draws: distinct sources, and no validation or test source among those of training."""

    def write(folder: Path) -> Files:
        folder.mkdir(parents=True, exist_ok=True)
        training = distinct(draw, train, seed)
        known = frozenset(key(pair) for pair in training)
        parts: dict[str, Sequence[Pair]] = {"train": training, "valid": distinct(draw, valid, seed + 1, known)}
        for name, (other, count) in (tests or {}).items():
            parts[name] = distinct(other, count, seed + 2, known)
        files = {name: folder / f"{name.replace(' ', '-')}.tsv" for name in parts}
        for name, pairs in parts.items():
            if not files[name].exists():
                write_tsv(pairs, files[name])
        return Files(str(files["train"]), str(files["valid"]), {name: str(files[name]) for name in tests or {}})

    return write


def public(train: str, valid: str | None = None) -> Callable[[Path], Files]:
    """Return a public data set in the folder that the variable WEFT_DATA names."""

    def find(folder: Path) -> Files:
        paths = public_paths(*(name for name in (train, valid) if name))
        return Files(str(paths[0]), str(paths[1]) if valid else None)

    return find


def public_paths(*names: str) -> list[Path]:
    """Return files in the folder of public data; a UserError says where it should be, or which file is missing."""
    home = os.environ.get("WEFT_DATA")
    if not home:
        raise UserError(
            f"this recipe reads {names[0]} from the folder of public data, but WEFT_DATA is not set",
            "WEFT_DATA",
            "set WEFT_DATA to the folder that holds the file (docs/recipes says where to get it)",
        )
    paths = [Path(home) / name for name in names]
    for path in paths:
        if not path.exists():
            todo = "get the data (docs/recipes says where), or set WEFT_DATA to the folder that holds them"
            raise UserError("the data of this recipe are missing", str(path), todo)
    return paths


@dataclass(frozen=True)
class Recipe:
    """A named experiment. `about` says where the data come from; `learns` is what the results show."""

    name: str
    question: str
    about: str
    learns: str
    studies: tuple[Study, ...] = ()
    by_hand: Callable[[Path, Options], list[str]] | None = None  # an experiment that compares no runs
