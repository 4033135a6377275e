"""How long until a command answers? Each in turns, from the shell's start of it to its end.

    python bench/startup.py [--rounds 5] [--quick]

Every command of Weft with --help, those that do something at once on a run of two steps, and beside them Python alone,
`import torch` alone (which whatever runs a model must pay), and the --help of the peers that are in .bench/env.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from peers import ENVIRONMENTS, is_installed
from timing import in_turns, middle, record, spread

from weft.cli.main import app

ALONE = {f"python -c '{code}'": [sys.executable, "-c", code] for code in ("pass", "import torch")}
HELP = {  # environment: the name shown, and what stands in its bin/
    "joeynmt": ("joeynmt", ["python", "-m", "joeynmt", "--help"]),
    "opennmt": ("OpenNMT-py", ["onmt_train", "--help"]),
    "transformers": ("transformers", ["transformers", "--help"]),
    "yoyodyne": ("yoyodyne", ["yoyodyne", "--help"]),
}


def weft(*words: str) -> list[str]:
    """The installed command, not `python -m`: its own start is a part of it."""
    return [str(Path(sys.executable).parent / "weft"), *words]


def commands() -> list[str]:
    """The name of every command, as `weft --help` lists them."""
    single = [command.name or str(command.callback.__name__) for command in app.registered_commands if command.callback]
    return single + [str(group.name) for group in app.registered_groups]


def run_of_two_steps(folder: Path) -> Path:
    """The smallest run there is, so that loading it shows and not its size."""
    pairs = folder / "pairs.tsv"
    pairs.write_text("".join(f"{word}\t{word[::-1]}\n" for word in (f"{n:05}" for n in range(400))), encoding="utf-8")
    small = ["embed.width=16", "encoder.width=16", "decoder.width=16", "train.evaluations=1", "train.valid_pairs=2"]
    sets = [word for setting in small for word in ("--set", setting)]
    words = weft("train", str(pairs), "--steps", "2", "--out", str(folder / "run"), *sets)
    subprocess.run(words, check=True, capture_output=True)
    return folder / "run"


def ours(run: Path, line: Path, pairs: Path) -> dict[str, list[str]]:
    helps = {f"weft {name} --help": weft(name, "--help") for name in commands()}
    return {
        "weft --help": weft("--help"),
        **helps,
        "weft config show": weft("config", "show"),
        "weft recipe list": weft("recipe", "list"),
        "weft data FILE (400 pairs)": weft("data", str(pairs)),
        "weft predict RUN (one line)": weft("predict", str(run), str(line)),
        "weft evaluate RUN (one pair)": weft("evaluate", str(run), str(line)),
    }


def theirs() -> dict[str, list[str]]:
    """--help of the peers that are installed."""
    found = {}
    for folder, (name, words) in HELP.items():
        program = ENVIRONMENTS / folder / "bin" / words[0]
        if is_installed(folder) and program.exists():
            found[f"{name}: {' '.join(words)}"] = [str(program), *words[1:]]
    return found


def job(name: str, words: list[str], failed: set[str]) -> Callable[[], None]:
    """A peer whose command does not work is told once and left out; the others go on."""

    def once() -> None:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace")
        if done.returncode and name not in failed:
            print(f"{name} failed: {done.stderr[-300:]}", file=sys.stderr, flush=True)
            failed.add(name)

    return once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        run, line = run_of_two_steps(folder), folder / "line.tsv"
        line.write_text("00012\t21000\n", encoding="utf-8")
        words = {**ALONE, **ours(run, line, folder / "pairs.tsv"), **theirs()}
        failed: set[str] = set()
        jobs = {name: job(name, own, failed) for name, own in words.items()}
        timed = in_turns(jobs, 1 if options.quick else options.rounds, least=0)
        found = {name: figures for name, figures in timed.items() if name not in failed}
    print("| command | seconds | spread |\n|---|---:|---:|")
    for name, figures in found.items():
        print(f"| `{name}` | {middle(figures):.2f} | {spread(figures):.0%} |")
    record("startup", seconds=found)


if __name__ == "__main__":
    main()
