"""What the checks of the audit share: attempts in forked processes with limits, and the file of their results."""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol


class FellShort(Exception):
    """What Weft did and should not have done."""


class Check(Protocol):
    """A module of the audit."""

    TITLE: str  # what is tried
    SAMPLE: int  # attempts of a sample
    FULL: int  # attempts of the whole audit
    SECONDS: float  # of processor time that an attempt may take; ten times as many by the clock
    MEGABYTES: int  # that an attempt may allocate, beyond what the warm parent has

    def prepare(self, work: Path) -> Any:
        """Make what all attempts share, once, in the process that attempts are forked from: a warm one."""
        ...

    def attempt(self, subject: Any, number: int, folder: Path) -> str:
        """Try once, in a process and an empty folder of its own; return what was tried. FellShort if it fell short.

        `number` seeds everything that is random. Any other exception is a traceback, and falls short, too.
        """
        ...


@dataclass
class Tally:
    """The count of one check."""

    HEADER: ClassVar[str] = f"{'check':<10}{'tried':>8}{'held':>8}{'fell short':>12}  what"
    name: str
    title: str
    tried: int = 0
    fell_short: int = 0

    def add(self, outcome: dict[str, Any]) -> None:
        self.tried += 1
        self.fell_short += not outcome["held"]

    def line(self) -> str:
        held = self.tried - self.fell_short
        return f"{self.name:<10}{self.tried:>8,}{held:>8,}{self.fell_short:>12,}  {self.title}"


def run_check(name: str, check: Check, numbers: Iterable[int], work: Path, results: Path) -> Tally:
    """Make the attempts that are not in the file of results, and count all."""
    done = read_results(results)
    tally, subject = Tally(name, check.TITLE), None
    for number in numbers:
        if number not in done:
            subject = check.prepare(work) if subject is None else subject
            done[number] = {"number": number, **attempted(check, subject, number, work / f"attempt-{number}")}
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[number], ensure_ascii=False) + "\n")
            report(name, done[number])
        tally.add(done[number])
    return tally


def read_results(path: Path) -> dict[int, dict[str, Any]]:
    """Return the attempts of an earlier audit by their numbers; a line that was cut off is dropped."""
    outcomes = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            outcome = json.loads(line)
            outcomes[outcome["number"]] = outcome
        except (ValueError, KeyError):
            continue
    return outcomes


def report(name: str, outcome: dict[str, Any]) -> None:
    if not outcome["held"]:
        print(f"{name}:{outcome['number']} fell short: {outcome['tried']}: {outcome['reason']}", flush=True)


def attempted(check: Check, subject: Any, number: int, folder: Path) -> dict[str, Any]:
    """Make one attempt in a forked process; what it leaves is removed."""
    folder.mkdir()
    began = time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _in_child(check, subject, number, folder, writer)
    os.close(writer)
    outcome = _awaited(child, reader, check.SECONDS)
    if not outcome["tried"] and (folder / "tried.txt").exists():
        outcome["tried"] = (folder / "tried.txt").read_text(encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    return {**outcome, "seconds": round(time.monotonic() - began, 2)}


def _in_child(check: Check, subject: Any, number: int, folder: Path, writer: int) -> None:
    """Try, tell the parent, and end at once: nothing of the parent's is to be cleaned up here."""
    os.setsid()
    limit_memory(check.MEGABYTES)
    outcome: dict[str, Any] = {"tried": "", "held": True, "reason": ""}
    try:
        outcome["tried"] = check.attempt(subject, number, folder)
    except FellShort as error:
        tried, _, reason = str(error).partition("\n")
        outcome = {"tried": tried, "held": False, "reason": reason.strip() or tried}
    except BaseException:
        outcome = {"tried": "", "held": False, "reason": traceback.format_exc()[-2000:]}
    os.write(writer, json.dumps(outcome).encode()[:60_000])
    os._exit(0)


def limit_memory(megabytes: int) -> None:
    """Let this process allocate so much more than it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    most = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _awaited(child: int, reader: int, seconds: float) -> dict[str, Any]:
    """Return what the child says; if it says nothing in time, or dies, that is what fell short.

    Time is that of the processor, so that a busy machine does not count as a slow Weft; a child that waits for ever
    uses none, and is ended by the clock.
    """
    latest = time.monotonic() + 10 * seconds
    ready: list[int] = []
    while not ready and time.monotonic() < latest and processor_seconds(child) < seconds:
        ready, _, _ = select.select([reader], [], [], 1.0)
    content = os.read(reader, 1 << 16) if ready else b""
    if not ready:
        os.killpg(child, signal.SIGKILL)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if content:
        outcome: dict[str, Any] = json.loads(content)
        return outcome
    reason = f"it took longer than {seconds:g} s" if not ready else f"the process died (status {status})"
    return {"tried": "", "held": False, "reason": reason}


def processor_seconds(child: int) -> float:
    """Return the processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
