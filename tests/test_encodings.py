"""Encodings: UTF-16 and UTF-32 are read by their byte order marks, zero bytes are refused, and nothing is half read."""

from __future__ import annotations

import codecs
import gzip
import io
from pathlib import Path

import pytest

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.cells import Kinds
from weft.data.files import fingerprint, new_digest
from weft.data.inputs import read_inputs
from weft.data.pairs import Columns, ReadReport, read_pairs, read_rows

ENCODINGS = {
    "UTF-16": ("utf-16-le", codecs.BOM_UTF16_LE),
    "UTF-16 big": ("utf-16-be", codecs.BOM_UTF16_BE),
    "UTF-32": ("utf-32-le", codecs.BOM_UTF32_LE),
    "UTF-32 big": ("utf-32-be", codecs.BOM_UTF32_BE),
}
TEXTS = {
    "p.tsv": "caf\u00e9\tK AE\n\u65e5\u672c\t\U0001f600\u010a\r\n",
    "p.csv": 'caf\u00e9,"K AE"\r\n\u65e5\u672c,\U0001f600\u010a\r\n',
    "p.jsonl": '{"src": "caf\u00e9", "tgt": "K AE"}\n{"src": "\u65e5\u672c", "tgt": "\U0001f600\u010a"}\n',
    "p.json": '[{"src": "caf\u00e9", "tgt": "K AE"}, {"src": "\u65e5\u672c", "tgt": "\U0001f600\u010a"}]',
}
PAIRS = [Pair("caf\u00e9", "K AE"), Pair("\u65e5\u672c", "\U0001f600\u010a")]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def encoded(text: str, encoding: str, marked: bool = True) -> bytes:
    codec, mark = ENCODINGS[encoding]
    return (mark if marked else b"") + text.encode(codec)


def put(name: str, content: bytes) -> str:
    Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return name


def refused(path: str, skip: bool = False) -> UserError:
    with pytest.raises(UserError) as caught:
        list(read_pairs([path], on_bad_line="skip" if skip else "stop"))
    return caught.value


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_byte_order_mark_decides_the_encoding(encoding: str, name: str, packed: str) -> None:
    report = ReadReport()
    path = put(name + packed, encoded(TEXTS[name], encoding))
    assert list(read_pairs([path], report=report)) == PAIRS
    known = encoding.split()[0]
    assert report.notes == [f"{path}: read as {known}, because it begins with a {known} byte order mark"]


def test_parallel_files_may_have_different_encodings() -> None:
    put("a.en", encoded("caf\u00e9\n", "UTF-16"))
    put("a.de", "Stra\u00dfe\n".encode())
    assert list(read_pairs(["a.en:a.de"])) == [Pair("caf\u00e9", "Stra\u00dfe")]


def test_a_large_file_is_recoded_block_by_block() -> None:
    rows = [(f"{n} \U0001f600\u65e5" * 9, f"{n}\u00e9") for n in range(40_000)]
    path = put("p.tsv", encoded("".join(f"{a}\t{b}\n" for a, b in rows), "UTF-16"))
    assert list(read_pairs([path])) == [Pair(a, b) for a, b in rows]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", ["p.tsv", "p.tsv.gz", "p.csv", "p.jsonl", "p.json"])
def test_without_a_mark_it_is_refused_and_never_half_read(name: str, encoding: str) -> None:
    text = "".join(f"{n}\t{n}\n" for n in range(20))
    for skip in (False, True):
        error = refused(put(name, encoded(text, encoding, marked=False)), skip)
        assert error.what == "the file has a zero byte here: it is not text in UTF-8"
        assert error.where == f"{name}:1"
        assert "iconv -f UTF-16 -t UTF-8" in error.todo
        assert "--on-bad-line" not in error.todo


def test_a_zero_byte_anywhere_is_refused_with_its_line() -> None:
    content = b"a\tb\n" * 300_000 + b"c\tx\0y\n" + b"a\tb\n" * 1000
    error = refused(put("p.tsv", content), skip=True)
    assert error.where == "p.tsv:300001"


def test_a_file_that_breaks_its_encoding_is_refused() -> None:
    for content in (encoded("a\tb\n", "UTF-16")[:-1], codecs.BOM_UTF16_LE + b"a\0\t\0\x00\xd8b\0\n\0"):
        error = refused(put("p.tsv", content), skip=True)
        assert error.what.startswith("the file begins with the byte order mark of UTF-16, but is not valid UTF-16")
        assert error.where == "p.tsv"
        assert "UTF-8" in error.todo


def test_inputs_are_read_by_their_byte_order_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encoded("caf\u00e9\n\n\u65e5\n", "UTF-16")
    expected = [Pair("caf\u00e9"), Pair(""), Pair("\u65e5")]
    report = ReadReport()
    assert list(read_inputs(put("in.txt", content), Columns(), report=report)) == expected
    assert report.notes == ["in.txt: read as UTF-16, because it begins with a UTF-16 byte order mark"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert list(read_inputs("-", Columns())) == expected


def test_inputs_with_zero_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="zero byte"):
        list(read_inputs(put("in.txt", b"a\nb\0\n"), Columns()))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\0\n")))
    with pytest.raises(UserError, match="zero byte") as caught:
        list(read_inputs("-", Columns()))
    assert caught.value.where == "<stdin>:2"


@pytest.mark.parametrize(
    ("kind", "name", "what"),
    [
        ("image", "x.wav", "the file is not text but a recording; this run reads pictures"),
        ("audio", "x.png", "the file is not text but a picture; this run reads recordings"),
        ("audio", "x", "the file has a zero byte here: it is not text in UTF-8; this run reads recordings"),
        (
            "numbers",
            "x.wav",
            "the file is not text but a recording; this run reads numbers, or names of files with numbers",
        ),
        ("text", "x.wav", "the file is not text but a recording; this run reads text"),
        ("notes", "x.png", "the file is not text but a picture; this run reads lists of notes"),
    ],
)
def test_an_input_of_another_kind_is_told_with_what_the_run_reads(kind: str, name: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        list(read_inputs(put(name, b"RIFF\0\0"), Columns(), kinds=Kinds(kind, "label")))
    assert caught.value.what == what
    wanted = {"image": ".png", "audio": ".wav"}.get(kind, "text file")
    assert wanted in caught.value.todo
    assert "iconv" not in caught.value.todo


@pytest.mark.parametrize("name", ["p.tsv", "p.tsv.gz", "p.csv", "p.jsonl", "p.json"])
def test_the_fingerprint_can_be_taken_while_reading(name: str) -> None:
    text = TEXTS[name.removesuffix(".gz")]
    for content in (text.encode(), encoded(text, "UTF-16")):
        put(name, content)
        put("a.en", b"x\ny\n")
        put("a.de", b"z\nw\n")
        for paths in ([name], [name, "a.en:a.de"], ["a.en:a.de", name, name]):
            digest = new_digest()
            list(read_rows(paths, digest=digest))
            assert digest.hexdigest() == fingerprint(paths)
