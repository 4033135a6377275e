"""Run the two-minute example of the README and put what it prints into the README: `python docs/tools/example.py`.

It trains for a minute, so do it on a machine that nothing else uses: on a busy one the model sees less data.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
NOTES = 5  # notes that are shown
SCRIPT = re.compile(r"```bash\n(python3 - > roman\.tsv.*?)```", re.DOTALL)
PRINTED = re.compile(r"```text\n(note: .*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def main() -> None:
    text = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        trained = _run(_only(SCRIPT, text), folder)
        commands = re.findall(r"^\$ (.*)$", _only(CONSOLE, text), re.MULTILINE)
        predicted = [f"$ {command}\n{_run(command, folder).stdout}" for command in commands]
    text = _put(text, PRINTED, excerpt(trained.stderr, trained.stdout))
    README.write_text(_put(text, CONSOLE, "".join(predicted)), encoding="utf-8")


def excerpt(progress: str, summary: str) -> str:
    """Return the first notes, two validations and the summary of a run."""
    notes = [line for line in progress.splitlines() if line.startswith("note: ")][:NOTES]
    validations = re.findall(r"^validation .* ← best so far\n(?:  .*\n)+", progress, re.MULTILINE)
    middle = next(text for text in validations if "exact 0.00" not in text)
    table = summary.partition("\ntime: ")[0]
    lines = [line.rstrip() for line in table.splitlines() if line.strip()]
    return "\n".join([*notes, "…", f"{middle}{validations[-1]}…", *lines, ""])


def _run(script: str, folder: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=True)


def _only(pattern: re.Pattern[str], text: str) -> str:
    (found,) = pattern.findall(text)
    return str(found)


def _put(text: str, pattern: re.Pattern[str], block: str) -> str:
    """Return the text with another block in place of the one that the pattern finds."""
    return text.replace(_only(pattern, text), block)


if __name__ == "__main__":
    main()
