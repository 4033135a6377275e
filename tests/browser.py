"""Scripts that look at a page in Chromium and print what they saw as JSON; without a browser, tests skip and say so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CACHED = Path.home() / ".cache/weft-browser/node_modules"  # where .ci/run installs playwright-core
MODULES = [os.environ.get("NODE_PATH", ""), str(CACHED), "/work/node/node_modules"]


def browsed(script: str, *arguments: object) -> dict[str, Any]:
    """Run a script of this folder in a browser, and return what it saw."""
    chromium, node = shutil.which("chromium"), shutil.which("node")
    modules = next((path for path in MODULES if path and (Path(path) / "playwright-core").is_dir()), None)
    if chromium is None or node is None or modules is None:
        missing = {"chromium": chromium, "node": node, "playwright-core": modules}
        pytest.skip(f"no browser: {', '.join(name for name, path in missing.items() if path is None)} is missing")
    environment = {**os.environ, "NODE_PATH": modules, "CHROMIUM": chromium}
    command = [node, str(Path(__file__).with_name(script)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen
