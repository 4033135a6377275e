"""Cells that name files of numbers: .npy and .csv, relative to the folder of the table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from commands import Weft, refused
from weft.core.errors import UserError
from weft.data.cells import Kinds
from weft.data.inputs import read_inputs
from weft.data.pairs import Columns, read_pairs
from weft.data.prepare import Prepared
from weft.data.scan import Files

ANY = Kinds()


def save(path: Path, content: object) -> Path:
    """Write an array, or the text of a table."""
    path.parent.mkdir(exist_ok=True)
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        np.save(path, np.asarray(content))
    return path


def table(folder: Path, rows: list[tuple[str, str]]) -> str:
    path = folder / "rows.tsv"
    path.write_text("past\tfuture\n" + "".join(f"{past}\t{future}\n" for past, future in rows), encoding="utf-8")
    return str(path)


def test_a_column_of_file_names_holds_what_the_files_do(tmp_path: Path) -> None:
    save(tmp_path / "tracks" / "a.npy", [[1, 2], [3, 4]])
    save(tmp_path / "tracks" / "b.csv", "x,y\n1,2\n,4.5\n")
    save(tmp_path / "later.npy", [5.0, np.nan])
    path = table(tmp_path, [("tracks/a.npy", "later.npy"), ("tracks/b.csv", "[6, 7]")])
    pairs = list(read_pairs([path], kinds=Kinds(None, "numbers", missing=("source", "target"))))
    assert [json.loads(pair.source) for pair in pairs] == [[[1, 2], [3, 4]], [[1, 2], [None, 4.5]]]
    assert [json.loads(pair.target) for pair in pairs] == [[5, None], [6, 7]]


@pytest.mark.parametrize(("content", "what"), [
    ("1,2\n3\n", "rows of a.csv have 1 to 2 numbers"),
    ("1,2\nthree,4\n", "line 2 of a.csv holds 'three', which is not a number"),
    ("x,y\n", "a.csv holds no numbers"),
    ("1,inf\n", "a.csv contains an infinite value"),
    ("", "the source 'a.csv' is an empty file"),
], ids=["widths", "word", "nothing", "infinite", "empty"])  # fmt: skip
def test_a_table_that_holds_something_else_is_a_bad_row(tmp_path: Path, content: str, what: str) -> None:
    save(tmp_path / "a.csv", content)
    with pytest.raises(UserError, match=r"rows\.tsv:2") as caught:
        list(read_pairs([table(tmp_path, [("a.csv", "[1]")])], kinds=ANY))
    assert what in caught.value.what


@pytest.mark.parametrize(("content", "what"), [
    ("not an array", "a.npy is not a NumPy array that can be read"),
    (np.zeros((2, 2, 2)), "a.npy is an array of float64 with 3 dimensions"),
    (np.array(["a", "b"]), "a.npy is an array of <U1 with 1 dimensions"),
    (np.zeros((0, 2)), "a.npy holds no numbers"),
], ids=["text", "cube", "words", "nothing"])  # fmt: skip
def test_an_array_that_holds_something_else_is_a_bad_row(tmp_path: Path, content: object, what: str) -> None:
    save(tmp_path / "a.npy", content)
    with pytest.raises(UserError) as caught:
        list(read_pairs([table(tmp_path, [("a.npy", "[1]")])], kinds=ANY))
    assert what in caught.value.what


def test_a_missing_file_is_named_with_its_line_and_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"rows\.tsv:2") as caught:
        list(read_pairs([table(tmp_path, [("gone.npy", "[1]")])], kinds=ANY))
    assert "there is no file 'gone.npy' for the source" in caught.value.what
    assert str(tmp_path) in caught.value.what


def test_another_content_of_a_file_is_other_data(tmp_path: Path) -> None:
    path = table(tmp_path, [("a.npy", f"[{n}]") for n in range(30)])
    prints = []
    for value in (1.0, 2.0):
        save(tmp_path / "a.npy", [value])
        prepared = Prepared(Files((path,), kinds=ANY), root=tmp_path / "cache")
        prints.append((prepared.fingerprint, prepared.survey.columns["source"]["mean"]))
    assert prints[0][0] != prints[1][0]
    assert [mean for _, mean in prints] == [[1.0], [2.0]]


def test_a_run_learns_from_files_and_predicts_for_a_file(tmp_path: Path, weft: Weft) -> None:
    for n in range(40):
        save(tmp_path / f"{n}.npy", [n, n + 1])
    path = table(tmp_path, [(f"{n}.npy", f"[{n + 2}]") for n in range(40)])
    run = tmp_path / "run"
    assert weft("train", path, "--steps", 2, "--out", run).code == 0
    done = weft("predict", run, stdin="7.npy\n[7, 8]\n")
    assert done.lines[0] == done.lines[1], done.err
    refused(weft("predict", run, stdin="nowhere.npy\n"), "there is no file 'nowhere.npy'", "<stdin>:1")
    inputs = read_inputs(path, Columns("past", "future"), kinds=Kinds("numbers", "numbers"))
    assert next(iter(inputs)).source == "[0.0, 1.0]"
