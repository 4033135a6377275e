"""A process that trains some models of a run beside another one (`python -m weft.runs.worker`; see processes.py).

Its order is one line of JSON on stdin, which stays open: when it closes, the process that gave the order is gone, and
this one stops as on SIGTERM, everything saved.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence


def main() -> int:
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch, daemon=True).start()
    from weft.core.errors import Interrupted, WeftError
    from weft.runs.folder import RunFolder

    folder = RunFolder(order["run"])
    try:
        try:
            _train(order["run"], order["numbers"], order["pairs"])
        except OSError as error:
            folder.explain(error)
    except Interrupted:
        return 0  # as it was asked to
    except WeftError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


def _train(run: str, numbers: Sequence[int], pairs: Sequence[str]) -> None:
    """Train, or go on training, some models of a run that another process has opened."""
    from weft.learn.world import join_world
    from weft.runs.folder import RunFolder
    from weft.runs.job import Job
    from weft.runs.members import train_share
    from weft.runs.report import Quiet
    from weft.runs.resume import reopen

    folder, quiet = RunFolder(run), Quiet()
    with join_world(folder.read_spec().train.device) as world:
        train_share(reopen(Job(), folder, pairs, quiet), folder, numbers, world, quiet)


def _watch() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
