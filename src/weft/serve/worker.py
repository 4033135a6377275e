"""A worker process of a server (`python -m weft.serve.worker`; see supervisor.py).

Its order is one line of JSON on stdin, which stays open: when it closes, the supervisor is gone, and this process ends
as on SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

COULD_NOT_LOAD = 3  # the exit code of a worker whose runs cannot be loaded


def main() -> int:
    content = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch, daemon=True).start()
    from weft.core.errors import WeftError
    from weft.serve import access
    from weft.serve.lifecycle import Order, run
    from weft.serve.settings import read_settings

    access.to_stderr(content["number"])
    order = Order(
        runs={name: Path(path) for name, path in content["runs"].items()},
        settings=read_settings(content["settings"], {}),
        host=content["host"],
        key_file=None if content["key_file"] is None else Path(content["key_file"]),
        strict=content["strict"],
        early=content["early"],
    )
    try:
        run(order, socket.socket(fileno=content["socket"]))
    except WeftError as error:
        sys.stderr.write(f"error: {error}\n")
        return COULD_NOT_LOAD
    return 0


def _watch() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
