"""Bad tables of numbers, labels and contexts: each is refused in three parts, or has a defined result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import Weft, refused

GOOD = [{"source": [n, n + 1.0], "target": [n + 2.0, n + 3.0]} for n in range(60)]
SMALL = [f"--set={part}.width=8" for part in ("encoder", "decoder", "embed")]


def write(path: Path, rows: list[Any]) -> str:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


BAD_ROWS = {
    "a word": ({"source": [1, "two"], "target": [1, 2]}, "item 2 holds 'two', which is not a number"),
    "another width": ({"source": [[1, 2], [3, 4]], "target": [1, 2]}, "the source has 2 numbers per step"),
    "steps of other widths": ({"source": [[1, 2], [3]], "target": [1, 2]}, "step 2 has 1 number, but step 1 has 2"),
    "NaN": ('{"source": [1, NaN], "target": [1, 2]}', "the source: the list holds NaN or an infinite value"),
    "infinity": ('{"source": [1, 2], "target": [1, Infinity]}', "the target: the list holds NaN or an infinite value"),
    "a number that is too large": ('{"source": [1, 2], "target": [1, 1e400]}', "an infinite value"),
    "an empty source": ({"source": [], "target": [1, 2]}, "the field 'source' is an empty list"),
    "an empty target": ({"source": [1], "target": []}, "the field 'target' is an empty list"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_of_numbers_is_named_and_can_be_left_out(name: str, tmp_path: Path, weft: Weft) -> None:
    row, message = BAD_ROWS[name]
    table = write(tmp_path / "table.jsonl", [*GOOD, row])
    done = weft("train", table, "--steps", "1", "--out", str(tmp_path / "run"))
    notes = done.err.count("note: ")
    refused(done, message, "table.jsonl:61", "--on-bad-line skip", after_notes=notes)
    assert not (tmp_path / "run").exists()
    assert weft("data", table, "--on-bad-line", "skip").code == 0


BAD_CELLS = {  # among the rows by which the kinds of the columns are recognised
    "a word": ("[0.1, x]", "'[0.1, x]' is not a list of numbers"),
    "an empty list": ("[]", "the list is empty"),
    "NaN": ("[NaN, 1.5]", "the list holds NaN"),
    "another width": ("[[1.5, 2], [3]]", "step 2 has 1 number"),
}


@pytest.mark.parametrize("name", BAD_CELLS)
def test_a_bad_cell_among_the_first_rows_does_not_make_a_column_of_numbers_text(
    name: str, tmp_path: Path, weft: Weft
) -> None:
    cell, message = BAD_CELLS[name]
    table = write(tmp_path / "table.tsv", [f"[0.5, {n}]\t[{n}.5]" for n in range(4)] + [f"{cell}\t[1.5]"])
    done = weft("train", table, "--steps", "1", "--out", str(tmp_path / "run"))
    refused(done, message, "table.tsv:5", after_notes=done.err.count("note: "))


@pytest.mark.parametrize(
    ("cell", "message"), [("[[60], [200, 1]]", "there is no such note"), ("[]", "the tune is empty")]
)
def test_a_bad_tune_among_the_first_rows_does_not_make_a_column_of_notes_text(
    cell: str, message: str, tmp_path: Path, weft: Weft
) -> None:
    table = write(tmp_path / "table.tsv", ["[[60, 64], [62]]\t[[60], []]", f"[[60, 64], [62]]\t{cell}"])
    done = weft("train", table, "--steps", "1", "--out", str(tmp_path / "run"))
    refused(done, message, "table.tsv:2", after_notes=done.err.count("note: "))


def with_context(short: bool) -> list[dict[str, Any]]:
    return [{**row, "context": [1.0] if short and n == 7 else [1.0, 2.0]} for n, row in enumerate(GOOD)]


def test_a_context_that_is_read_in_step_must_not_be_shorter_than_its_target(tmp_path: Path, weft: Weft) -> None:
    table = write(tmp_path / "table.jsonl", with_context(short=True))
    step = "--set=context.use=step"
    done = weft("train", table, "--context", "context", step, "--steps", "1", "--out", str(tmp_path / "run"))
    message = "the context has 1 step, but the target has 2"
    refused(done, message, "table.jsonl:8", "context.use=attend", after_notes=done.err.count("note: "))


def test_contexts_of_other_lengths_are_attended_to(tmp_path: Path, weft: Weft) -> None:
    table = write(tmp_path / "table.jsonl", with_context(short=True))
    done = weft("train", table, "--context", "context", "--steps", "1", "--out", str(tmp_path / "run"), *SMALL)
    assert done.code == 0
    assert "chose context.use = attend: 1 of 60 contexts are not as long as their targets; to find them" in done.err


def test_a_run_of_numbers_does_not_start_from_a_run_of_text(tmp_path: Path, weft: Weft, tiny_run: Any) -> None:
    table = write(tmp_path / "table.jsonl", GOOD)
    done = weft("train", table, "--init", str(tiny_run.path), "--steps", "1", "--out", str(tmp_path / "run"))
    refused(done, after_notes=done.err.count("note: "))


def test_thousands_of_labels_for_hardly_more_rows_are_refused(tmp_path: Path, weft: Weft) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("".join(f"line {n}\tlabel{n % 5000}\n" for n in range(6000)), encoding="utf-8")
    done = weft("train", str(table), "--task", "classify", "--steps", "1", "--out", str(tmp_path / "run"))
    message = "the target column has 5,000 different values in"
    refused(done, message, "use --task transduce", after_notes=done.err.count("note: "))


def test_classes_that_are_running_text_are_refused_with_what_was_seen(tmp_path: Path, weft: Weft) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("".join(f"line {n}\tthe sentence number {n} of it\n" for n in range(200)), encoding="utf-8")
    done = weft("train", str(table), "--task", "classify", "--steps", "1", "--out", str(tmp_path / "run"))
    message = "that is running text rather than labels"
    refused(done, message, "such as 'the sentence number", "--task transduce", after_notes=done.err.count("note: "))
