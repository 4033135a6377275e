"""The commands that use a finished run, as its card and the end of `weft train` show them."""

from __future__ import annotations

from weft.spec import Spec
from weft.tasks import TASKS

SYMBOLS = {
    "numbers": "numbers",
    "notes": "notes",
    "audio": "sound",
    "image": "pictures",
}  # by kind, of columns that are not text


def commands(spec: Spec, folder: object) -> list[str]:
    """Return the commands that use a finished run: to predict, to evaluate and, where that is possible, to inspect."""
    if spec.task == "retrieve":
        return [f"weft predict {folder} QUERIES --among DOCUMENTS", f"weft evaluate {folder} PAIRS"]
    evaluate = f"weft evaluate {folder} {table_name(spec)}"
    return [f"weft predict {folder} FILE", evaluate, f"weft inspect {folder} {looked_at(spec)}"]


def table_name(spec: Spec) -> str:
    """Return what the file is called that a run can be evaluated on."""
    if not TASKS[spec.task].alone:
        return "PAIRS"
    return "FILE" if spec.target.kind in SYMBOLS else "TEXT"


def looked_at(spec: Spec) -> str:
    """Return an input for `weft inspect`, as it is written on the command line."""
    kind = spec.target.kind if TASKS[spec.task].alone else spec.source.kind
    return {"audio": "FILE.wav", "image": "FILE.png"}.get(kind) or (
        f"--table {table_name(spec)}" if kind in SYMBOLS else '"a line"'
    )
