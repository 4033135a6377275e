"""Strings of counted symbols, and what comes next in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from weft.recipes.study import Files


def _write_lines(lines: Iterable[str], path: Path) -> str:
    """Write lines, unless the file is there already; return its name."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def counted(letters: str, number: int) -> tuple[str, str]:
    """Return the symbols aⁿbⁿ… and a label for each: what comes next, where the symbols before it decide that.

    While the first letter is read, nobody knows: its label is `?`.
    """
    source = [letter for letter in letters for _ in range(number)]
    labels = ["?"] * number + [*source[number + 1 :], "end"]
    return " ".join(source), " ".join(labels)


LONGEST, HELD_OUT, COPIES = 50, 5, 100  # lengths in training, one of so many is held out, and how often each comes
FARTHER = {"51 to 100": range(51, 101, 2), "101 to 200": range(101, 201, 4), "201 to 500": range(201, 501, 12)}


def counting(letters: str) -> Callable[[Path], Files]:
    """Return strings of up to 50 of each letter, and others that are longer."""

    def write(folder: Path) -> Files:
        held_out = [n for n in range(1, LONGEST + 1) if n % HELD_OUT == 0]
        learned = [n for n in range(1, LONGEST + 1) if n % HELD_OUT] * COPIES
        parts = {"train": learned, "valid": held_out, **FARTHER}
        files = {
            name: _write_lines(
                ["source\ttarget", *("\t".join(counted(letters, n)) for n in numbers)],
                folder / f"{name.replace(' ', '-')}.tsv",
            )
            for name, numbers in parts.items()
        }
        return Files(files["train"], files["valid"], {name: files[name] for name in FARTHER})

    return write
