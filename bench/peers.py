"""The peers, each in an environment of its own under .bench/env, and their drivers.

    python bench/peers.py

The pins of most are older than the torch that all are compared with, so that comes first, the peer itself without what
it asks for, and then what it was found to need. What cannot be installed is left out, and the tables say so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import BENCH
from timing import THREADS

HERE = Path(__file__).parent
ENVIRONMENTS = BENCH / "env"
NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Peer:
    package: str
    needs: tuple[str, ...]


PEERS = {
    "joeynmt": Peer(
        "joeynmt==2.3.0",
        ("sacrebleu", "sentencepiece", "subword-nmt", "tensorboard", "matplotlib", "packaging", "pyyaml", "tqdm",
         "importlib_metadata", "setuptools<81"),
    ),
    "opennmt": Peer(
        "OpenNMT-py==3.5.1",
        ("configargparse", "pyonmttok", "sacrebleu", "rapidfuzz", "spacy", "pyahocorasick", "fasttext-wheel", "regex",
         "pyyaml", "six", "tensorboard", "setuptools<81"),
    ),
    "transformers": Peer(
        "transformers==5.22.2",
        ("tokenizers", "huggingface_hub", "safetensors", "regex", "requests", "tqdm", "filelock", "pyyaml", "packaging",
         "typer"),
    ),
    "ctranslate2": Peer("ctranslate2==4.8.4", ("pyyaml", "setuptools")),
    "yoyodyne": Peer(
        "yoyodyne==0.5.27",
        ("lightning", "wandb", "jsonargparse[signatures]", "omegaconf", "maxwell", "rich", "pandas", "setuptools<81"),
    ),
}  # fmt: skip


def torch_version() -> str:
    """The one that Weft is set up with."""
    lines = (HERE.parent / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def install(name: str) -> bool:
    """Make the environment, unless it is there already with the same packages; says whether it is there now."""
    peer, folder = PEERS[name], ENVIRONMENTS / name
    steps = [[torch_version(), "numpy"], ["--no-deps", peer.package], list(peer.needs)]
    stamp, wanted = folder / "installed.json", json.dumps(steps)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return True
    print(f"{name}: {peer.package} into {folder}", file=sys.stderr, flush=True)
    commands = [[sys.executable, "-m", "venv", "--clear", str(folder)]]
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (*commands, *([*pip, *packages] for packages in steps)):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{name}: {done.stderr.strip()[-600:]}", file=sys.stderr, flush=True)
            return False
    stamp.write_text(wanted, encoding="utf-8")
    return True


def is_installed(name: str) -> bool:
    return (ENVIRONMENTS / name / "installed.json").exists()


def drive(name: str, *words: object) -> dict[str, Any] | None:
    """What a peer's driver (or Weft's, by its own Python) says, with its peak memory; None where it cannot."""
    if name != "weft" and not is_installed(name):
        return None
    python = sys.executable if name == "weft" else str(ENVIRONMENTS / name / "bin/python")
    driver = str(HERE / f"drivers/{name}_driver.py")
    said, peak = watched([python, driver, *map(str, words)], {})
    answers = [line for line in said.splitlines() if line.startswith("{")]
    if not answers:
        print(f"{name} {' '.join(map(str, words))} failed:\n{said[-1500:]}", file=sys.stderr, flush=True)
        return None
    return {**json.loads(answers[-1]), "peak_megabytes": peak}


def watched(command: list[str], environment: dict[str, str]) -> tuple[str, float]:
    """All that a command says, and the peak resident memory of it and its children together, in MB."""
    peaks: dict[int, float] = {}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        own = {**os.environ, "OMP_NUM_THREADS": str(THREADS), **environment}
        process = subprocess.Popen(command, env=own, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        while process.poll() is None:
            for pid in family(process.pid):
                peaks[pid] = max(peaks.get(pid, 0.0), memory(pid))
            time.sleep(0.2)
        said.seek(0)
        return said.read(), sum(peaks.values())


def family(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return [pid]
    return [pid, *(one for child in children for one in family(child))]


def memory(pid: int, kind: str = "VmHWM") -> float:
    """Of a process, in MB: the most that it had so far, or what it has (VmRSS); 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/status").read_text().split()
        return int(fields[fields.index(f"{kind}:") + 1]) / 1024
    except (OSError, ValueError):
        return 0.0


def main() -> None:
    for name in PEERS:
        print(f"{name}: {PEERS[name].package if install(name) else NOT_INSTALLED}", flush=True)


if __name__ == "__main__":
    main()
