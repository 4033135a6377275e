"""`make audit`: try to break Weft in many ways, and print how often it was tried, held, and fell short.

    python bench/audit                 a sample of every check (minutes)
    python bench/audit --full          all of it (hours)
    python bench/audit flips kills     some checks

Each attempt has a number, which seeds everything that is random in it, and is written down when it is over, so that an
audit that was stopped goes on where it was. `--fresh` begins again; `flips --only 17` repeats one attempt. A check is a
module check_NAME.py beside this one; runner.Check says what it has.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

from runner import Check, Tally, run_check

ROOT = Path(__file__).resolve().parents[2]
CHECKS = tuple(sorted(path.stem.removeprefix("check_") for path in Path(__file__).parent.glob("check_*.py")))


def main() -> int:
    options = parsed()
    tallies = []
    with tempfile.TemporaryDirectory(prefix="weft-audit-") as folder:
        for name in options.checks or CHECKS:
            tallies.append(audited(name, Path(folder) / name, options))
            print(tallies[-1].line(), flush=True)
    print("\n".join(["", Tally.HEADER, *(tally.line() for tally in tallies)]))
    return 1 if any(tally.fell_short for tally in tallies) else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Try to break Weft, and count what held.")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)}; default: all")
    parser.add_argument("--full", action="store_true", help="all attempts, not a sample")
    parser.add_argument("--count", type=int, help="this many attempts of each check")
    parser.add_argument("--fresh", action="store_true", help="forget the attempts of earlier audits")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="repeat one attempt, and show what it says")
    parser.add_argument("--out", type=Path, default=ROOT / ".audit", help="the folder of results; default: .audit/")
    options = parser.parse_args()
    if unknown := set(options.checks) - set(CHECKS):
        parser.error(f"there is no check {', '.join(sorted(unknown))}: they are {', '.join(CHECKS)}")
    return options


def audited(name: str, work: Path, options: argparse.Namespace) -> Tally:
    """Run one check, as far as it has not been run before."""
    work.mkdir()
    check: Check = importlib.import_module(f"check_{name}")  # type: ignore[assignment]
    count = options.count or (check.FULL if options.full else check.SAMPLE)
    numbers = range(count) if options.only is None else range(options.only, options.only + 1)
    results = options.out / f"{name}.jsonl"
    if options.only is not None:
        results = work / "only.jsonl"
    elif options.fresh:
        results.unlink(missing_ok=True)
    results.parent.mkdir(parents=True, exist_ok=True)
    return run_check(name, check, numbers, work, results)


if __name__ == "__main__":
    sys.exit(main())
