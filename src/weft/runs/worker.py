"""A process that trains some models of a run beside another one (`python -m weft.runs.worker`; members.py starts it).

Its order is one line of JSON on stdin, which stays open: when it closes, whoever gave the order is gone, and this
process stops as on SIGTERM, everything saved.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading


def main() -> int:
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch, daemon=True).start()
    from weft.core.errors import Interrupted, WeftError
    from weft.runs.folder import RunFolder
    from weft.runs.report import Quiet
    from weft.runs.train import train_members

    folder = RunFolder(order["run"])
    try:
        try:
            train_members(folder, order["numbers"], order["pairs"], Quiet())
        except OSError as error:
            folder.explain(error)
    except Interrupted:
        return 0  # as it was asked
    except WeftError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


def _watch() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
