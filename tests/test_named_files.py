"""Cells that name files: where they are looked for, which are refused, and that a changed file is noticed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.core.shapes import Vectors
from weft.data.cells import Kinds
from weft.data.files import stamp
from weft.data.formats import Fault
from weft.data.inputs import read_inputs
from weft.data.named_files import content_of, file_fault, in_folder, name_of, path_of, seconds_of
from weft.data.pairs import Columns, ReadReport, read_pairs
from weft.data.prepare import Files, Prepared, keep_given
from weft.data.sides.side import NamesFiles, Rows, block_cells, cells
from weft.data.sides.table import KINDS, is_file_name, recognised

ENDINGS = (".dat",)


@dataclass(frozen=True)
class Bytes:
    """A side of files of bytes."""

    kind = "bytes"

    @property
    def shape(self) -> Vectors:
        return Vectors(1)

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        return [np.frombuffer(Path(c).read_bytes(), np.uint8).astype(np.float32)[:, None] for c in cells(pairs, role)]

    def text(self, row: Any, pair: Pair) -> str:
        return ""

    def to_json(self) -> str:
        return json.dumps({"format": 1, "kind": self.kind})


class Sizes:
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def add(self, block: Any, role: str) -> None:
        self.sizes += [os.path.getsize(cell) for cell in block_cells(block, role)]

    def result(self) -> dict[str, Any]:
        return {"bytes": sum(self.sizes)}


class BytesKind:
    endings = ENDINGS

    def resolve(self, cell: str, folder: str) -> str:
        return in_folder(cell, folder)

    def fault(self, role: str, cell: str, longest: int) -> Fault | None:
        return file_fault(role, cell, self.endings, largest=1000)

    def collector(self) -> Sizes:
        return Sizes()

    def describe(self, survey: Mapping[str, Any]) -> dict[str, str]:
        return {"bytes": str(survey["bytes"])}

    def load(self, content: Mapping[str, Any]) -> Bytes:
        return Bytes()


@pytest.fixture(autouse=True)
def _bytes_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(KINDS, "bytes", BytesKind)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))


def table(folder: Path, rows: int = 60) -> Path:
    """Write a table of small files, with names relative to its folder."""
    (folder / "files").mkdir(parents=True)
    for row in range(rows):
        (folder / "files" / f"{row}.dat").write_bytes(bytes([row] * 8))
    path = folder / "table.tsv"
    path.write_text("".join(f"files/{row}.dat\t{row % 3}\n" for row in range(rows)))
    return path


def prepared(path: Path, skip: bool = False) -> Prepared:
    return Prepared(Files((str(path),), on_bad_line="skip" if skip else "stop", kinds=Kinds(None, "text")))


def test_a_kind_that_names_files_is_one_by_its_hook() -> None:
    assert isinstance(BytesKind(), NamesFiles)
    assert not isinstance(KINDS["text"](), NamesFiles)


def test_names_are_relative_to_the_folder_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path / "data")
    monkeypatch.chdir("/")
    report = ReadReport()
    pairs = list(read_pairs([str(path)], kinds=Kinds(None, "text"), report=report))
    assert report.kinds["source"] == "bytes"
    assert Path(pairs[7].source).read_bytes() == bytes([7] * 8)
    assert name_of(pairs[7].source) == "files/7.dat"
    assert "'files/0.dat'" in next(iter(report.columns.values())) or str(tmp_path) not in str(report.columns)


def test_names_to_predict_are_relative_to_the_table_or_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data" / "files")
    kinds = Kinds("bytes", "text")
    (tmp_path / "lines.txt").write_text("3.dat\n\n5.dat\n")
    plain = list(read_inputs(str(tmp_path / "lines.txt"), Columns(), kinds=kinds))
    assert [Path(pair.source).read_bytes()[:1] if pair.source else b"" for pair in plain] == [b"\3", b"", b"\5"]
    rows = list(read_inputs(str(path), Columns(), kinds=kinds))
    assert Path(rows[4].source).read_bytes()[:1] == b"\4"


def test_a_missing_file_is_told_with_its_line_and_where_it_was_looked_for(tmp_path: Path) -> None:
    path = table(tmp_path / "data")
    moved = tmp_path / "elsewhere" / "table.tsv"
    moved.parent.mkdir()
    shutil.copy(path, moved)
    with pytest.raises(UserError) as error:
        list(read_pairs([str(moved)], kinds=Kinds(None, "text")))
    assert error.value.what == f"there is no file 'files/0.dat' for the source, looked for in {moved.parent}"
    assert error.value.where == f"{moved}:1"
    assert "source.kind=text" in error.value.todo


def test_rows_of_bad_files_are_counted_and_left_out(tmp_path: Path) -> None:
    path = table(tmp_path)
    (tmp_path / "files" / "3.dat").unlink()
    (tmp_path / "files" / "9.dat").write_bytes(b"")
    (tmp_path / "files" / "11.dat").write_bytes(b"x" * 2000)
    (tmp_path / "files" / "13.dat").unlink()
    (tmp_path / "files" / "13.dat").mkdir()
    (tmp_path / "files" / "17.dat").unlink()
    os.mkfifo(tmp_path / "files" / "17.dat")
    report = prepared(path, skip=True).scan.report
    assert (report.rows, report.skipped) == (55, 5)
    reasons = ["there is no file", "is an empty file", "but the limit is", "is a folder", "is a device or a pipe"]
    for line, reason, told in zip((4, 10, 12, 14, 18), reasons, report.bad, strict=True):
        assert told.startswith(f"{path}:{line}: ")
        assert reason in told


def test_the_hold_out_does_not_depend_on_where_the_folder_lies(tmp_path: Path) -> None:
    first, second = prepared(table(tmp_path / "a")), prepared(table(tmp_path / "b" / "deeper"))
    assert first.valid
    assert [name_of(p.source) for p in first.valid] == [name_of(p.source) for p in second.valid]
    assert first.fingerprint == second.fingerprint
    assert first.valid[0].source != second.valid[0].source


def test_a_changed_file_is_never_read_from_the_cache(tmp_path: Path) -> None:
    path = table(tmp_path / "data")
    before = prepared(path)
    assert prepared(path).folder == before.folder
    changed = tmp_path / "data" / "files" / "5.dat"
    status = os.stat(changed)
    os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert prepared(path).folder == before.folder  # a new time alone changes nothing
    changed.write_bytes(bytes([99] * 8))
    after = prepared(path)
    assert after.folder != before.folder
    assert after.fingerprint != before.fingerprint
    changed.write_bytes(bytes([5] * 8))
    assert prepared(path).folder == before.folder


def test_the_same_table_in_another_folder_has_the_files_of_that_folder(tmp_path: Path) -> None:
    first = prepared(table(tmp_path / "a"))
    assert first.folder
    path = table(tmp_path / "b")
    (tmp_path / "b" / "files" / "1.dat").write_bytes(b"other!!!")
    assert all(str(tmp_path / "b") in pair.source for pair in prepared(path).training())


def test_validation_files_are_compared_by_what_they_hold(tmp_path: Path) -> None:
    train, valid = table(tmp_path / "a"), table(tmp_path / "b", rows=4)
    (tmp_path / "b" / "files" / "2.dat").write_bytes(b"another file")
    files = Files((str(train),), (str(valid),), kinds=Kinds(None, "text"))
    assert Prepared(files).repeats() == 3


def test_pairs_given_in_memory_name_files_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data" / "files")
    given = keep_given([Pair("3.dat", "x"), Pair("not a file.dat", "y")])
    monkeypatch.chdir("/")
    sources = [json.loads(line)["source"] for line in Path(given).read_text().splitlines()]
    assert sources == [str(tmp_path / "data" / "files" / "3.dat"), "not a file.dat"]


def test_parts_of_a_file_differ_where_their_times_do(tmp_path: Path) -> None:
    path = str(tmp_path / "a.dat")
    Path(path).write_bytes(b"content")
    cells = [f"{path}#t=0.5,2", f"{path}#t=0.5,", path]
    assert [path_of(cell) for cell in cells] == [path] * 3
    assert [seconds_of(cell) for cell in cells] == [(0.5, 2.0), (0.5, None), (0.0, None)]
    assert len(set(content_of(cells, {path: stamp(path)}))) == 3


def test_columns_are_names_of_files_only_if_every_cell_ends_like_one() -> None:
    assert recognised(["a.dat", "b/c.DAT"]) == "bytes"
    assert recognised(["a.dat", "no file"]) == recognised(["one\ntwo.dat"]) == "text"
    assert is_file_name("x.dat")
    assert not is_file_name("x.tsv")


@pytest.mark.parametrize("cell", ["/tmp/\0.dat", "/tmp/" + "x" * 5000 + ".dat", "/tmp/a.txt", "/work/./"])
def test_names_that_no_file_can_have_are_faults(cell: str) -> None:
    assert file_fault("source", cell, ENDINGS) is not None
