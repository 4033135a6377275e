"""ReadReport pairs: every format gives the same pairs, and every bad file says what, where and what to do."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.cli.common import column
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data import files
from weft.data.inputs import read_inputs
from weft.data.pairs import Columns, ReadReport, fingerprint, read_pairs, spool_stdin

PAIRS = [
    Pair("cat", "K AE T"),
    Pair(" zoë\u2028x ", "Z \x0b\x85 OW"),
    Pair('"quoted, word', "日本 語"),
    Pair("null", "1.50"),
]
ROWS = [(pair.source, pair.target) for pair in PAIRS]
SKIP = "--on-bad-line skip"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(name: str, content: str | bytes) -> str:
    raw = content.encode() if isinstance(content, str) else content
    Path(name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return name


def put_parquet(name: str, **columns: object) -> str:
    pq.write_table(pa.table(columns), name)
    return name


def put_stdin(monkeypatch: pytest.MonkeyPatch, content: str | bytes) -> None:
    raw = content.encode() if isinstance(content, str) else content
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))


def stops(*paths: str, columns: Columns | None = None, longest: int = 20_000, skip: bool = False) -> UserError:
    with pytest.raises(UserError) as caught:
        list(read_pairs(paths, columns or Columns(), longest=longest, on_bad_line="skip" if skip else "stop"))
    return whole(caught.value)


def stops_inputs(path: str, columns: Columns | None = None, longest: int = 20_000) -> UserError:
    with pytest.raises(UserError) as caught:
        list(read_inputs(path, columns or Columns(), longest=longest))
    assert "--on-bad-line" not in caught.value.todo  # predict has no such flag
    return whole(caught.value)


def whole(error: UserError) -> UserError:
    assert error.what
    assert error.where
    assert error.todo
    return error


def inputs(path: str, columns: Columns | None = None) -> list[Pair]:
    return list(read_inputs(path, columns or Columns()))


def skipping(path: str, columns: Columns | None = None) -> tuple[list[Pair], ReadReport]:
    report = ReadReport()
    return list(read_pairs([path], columns or Columns(), on_bad_line="skip", report=report)), report


# Formats


def as_tsv() -> str:
    return "".join(f"{source}\t{target}\n" for source, target in ROWS)


def as_csv() -> str:
    text = io.StringIO()
    csv.writer(text).writerows(ROWS)
    return text.getvalue()


def as_jsonl() -> str:
    return "".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in ROWS)


def as_json() -> str:
    return json.dumps([{"id": 1, "target": target, "source": source} for source, target in ROWS], indent=2)


WRITERS = {
    "p.tsv": as_tsv,
    "p.txt": as_tsv,
    "p": as_tsv,
    "p.pairs": as_tsv,
    "P.CSV": as_csv,
    "p.jsonl": as_jsonl,
    "p.ndjson": as_jsonl,
    "lines.json": as_jsonl,
    "list.json": as_json,
}


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("name", WRITERS)
def test_every_text_format_gives_the_same_pairs(name: str, packed: str) -> None:
    path = put(name + packed, WRITERS[name]())
    report = ReadReport()
    assert list(read_pairs([path], report=report)) == PAIRS
    assert (report.rows, report.skipped, report.blank, report.notes, report.bad) == (len(PAIRS), 0, 0, [], [])


@pytest.mark.parametrize("name", ["p.tsv", "P.CSV", "p.jsonl", "list.json"])
def test_a_byte_order_mark_is_not_part_of_the_first_cell(name: str) -> None:
    path = put(name, b"\xef\xbb\xbf" + WRITERS[name]().encode())
    assert list(read_pairs([path])) == PAIRS


def test_parquet_gives_the_same_pairs() -> None:
    sources, targets = zip(*ROWS)
    path = put_parquet("p.parquet", id=[1, 2, 3, 4], target=targets, source=sources)
    assert list(read_pairs([path])) == PAIRS
    assert list(read_pairs([put("p.parquet.gz", Path(path).read_bytes())])) == PAIRS


def test_parquet_reads_dictionaries_numbers_and_bytes_as_text() -> None:
    path = put_parquet("p.parquet", a=pa.array(["x", "y"]).dictionary_encode(), b=[b"u", b"v"], c=[1, 2])
    assert list(read_pairs([path])) == [Pair("x", "u"), Pair("y", "v")]
    assert list(read_pairs([path], Columns("c", 1))) == [Pair("1", "x"), Pair("2", "y")]


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_parallel_files_give_the_same_pairs(packed: str) -> None:
    one = put("a.en" + packed, "".join(f"{source}\r\n" for source, _ in ROWS))
    other = put("b.de", "\n".join(target for _, target in ROWS))
    assert list(read_pairs([f"{one}:{other}"])) == PAIRS
    assert next(read_pairs([f"{one}:{other}"], Columns(2, 1))) == Pair("K AE T", "cat")


def test_a_file_with_a_colon_in_its_name_is_one_file() -> None:
    put("a", "x\n")
    put("b", "y\n")
    assert list(read_pairs([put("a:b", "one\tfile\n")])) == [Pair("one", "file")]


def test_parallel_names_may_hold_colons_themselves() -> None:
    put("12:30.en", "x\n")
    put("b", "y\n")
    assert list(read_pairs(["12:30.en:b"])) == [Pair("x", "y")]


def test_several_files_are_read_one_after_the_other() -> None:
    paths = [put("a.tsv", "a\tb\n"), put("b.jsonl", '{"x": "c", "y": "d"}')]
    assert list(read_pairs(paths)) == [Pair("a", "b"), Pair("c", "d")]


def test_only_line_feeds_end_a_line_of_tsv() -> None:
    path = put("p.tsv", "a\u2028b\tc\x0bd\x85\r\r\ne\tf")
    assert list(read_pairs([path])) == [Pair("a\u2028b", "c\x0bd\x85\r"), Pair("e", "f")]


def test_quotes_mean_nothing_in_tsv() -> None:
    assert list(read_pairs([put("p.tsv", '"a\tb"\n""\t"\n')])) == [Pair('"a', 'b"'), Pair('""', '"')]


def test_csv_cells_may_hold_quoted_line_ends_and_the_line_number_goes_on() -> None:
    path = put("p.csv", '"a\nb","say ""hi"""\nc,d\ne,\n')
    pairs, report = skipping(path)
    assert pairs == [Pair("a\nb", 'say "hi"'), Pair("c", "d")]
    assert report.bad == ["p.csv:4: the target is empty"]


def test_a_json_number_is_written_as_text() -> None:
    assert list(read_pairs([put("p.jsonl", '{"a": 12, "b": 1.5}')])) == [Pair("12", "1.5")]


def test_json_fields_are_found_by_name_whatever_their_order() -> None:
    path = put("p.jsonl", '{"x": "a", "y": "b"}\n{"y": "d", "x": "c"}\n')
    assert list(read_pairs([path])) == [Pair("a", "b"), Pair("c", "d")]


def test_blank_lines_are_passed_over_and_counted() -> None:
    for path in (put("p.tsv", "\na\tb\n  \n\r\nc\td\n"), put("p.csv", "\na,b\n  \n\r\nc,d\n")):
        pairs, report = skipping(path)
        assert pairs == [Pair("a", "b"), Pair("c", "d")]
        assert (report.rows, report.blank, report.skipped) == (2, 3, 0)
    _, report = skipping(put("p.jsonl", '\n{"a": "x", "b": "y"}\n\n'))
    assert (report.rows, report.blank) == (1, 2)


# Columns and headers


def test_a_column_on_the_command_line_is_a_number_or_a_name() -> None:
    assert [column(text) for text in ("3", "word", "-1", "", None)] == [3, "word", -1, "", None]


@pytest.mark.parametrize("number", [0, -1, ""])
def test_a_column_that_cannot_be_is_refused(number: int | str) -> None:
    with pytest.raises(UserError) as caught:
        Columns(1, number)
    error = whole(caught.value)
    assert error.where == "--target"
    assert "is not a column" in error.what
    assert "from 1" in error.todo


def test_features_and_tags_are_split_and_stripped() -> None:
    path = put("p.tsv", "a\tb\tV;PST;; 3 \t en \nc\td\tN  PL\t\n")
    expected = [Pair("a", "b", "en", ("V", "PST", "3")), Pair("c", "d", "", ("N", "PL"))]
    assert list(read_pairs([path], Columns(features=3, tag=4))) == expected


@pytest.mark.parametrize("name", ["p.tsv", "p.csv"])
def test_a_named_column_makes_line_1_a_header(name: str) -> None:
    content = "id\tword\tphones\n1\tcat\tK\n"
    path = put(name, content.replace("\t", ",") if name.endswith("csv") else content)
    assert list(read_pairs([path], Columns("word", "phones"))) == [Pair("cat", "K")]
    assert list(read_pairs([path], Columns("word", 1))) == [Pair("cat", "1")]


def test_an_unknown_name_shows_the_nearest() -> None:
    error = stops(put("p.tsv", "word\tphones\na\tb\n"), columns=Columns("wrod", "phones"))
    assert error.what == "there is no column 'wrod' for the source"
    assert error.where == "p.tsv:1"
    known = "did you mean 'word'? Choose from: word, phones (the first line of the file)"
    assert error.todo == f"{known}; without a header, give a number from 1 to 2: --source 2"


def test_an_unknown_parquet_column_shows_the_nearest() -> None:
    error = stops(put_parquet("p.parquet", word=["a"], phones=["b"]), columns=Columns("word", "phone"))
    assert (error.what, error.where) == ("there is no column 'phone' for the target", "p.parquet")
    assert "did you mean 'phones'?" in error.todo


def test_ordinary_data_makes_no_note() -> None:
    assert skipping(put("p.tsv", "text\ttext\ncat\tK\n"))[1].notes == []


def test_a_column_number_beyond_the_width_stops_even_when_skipping() -> None:
    error = stops(put("p.tsv", "a\tb\tc\n"), columns=Columns(1, 5), skip=True)
    assert error.what == "the target should be in column 5, but there are only 3 columns"
    assert error.where == "p.tsv:1"
    assert "--target" in error.todo
    assert "column 7" in stops(put("p.jsonl", '{"a": "x", "b": "y"}'), columns=Columns(features=7)).what
    assert "column 2" in stops(put_parquet("p.parquet", a=["x"])).what


def test_one_column_stops_and_names_other_separators() -> None:
    error = stops(put("p.tsv", "cat;K, AE\n"), skip=True)
    assert (error.what, error.where) == ("there is only one column, but source<TAB>target is expected", "p.tsv:1")
    for part in ("';' and ','", "name the file .csv", "a:b", "--source", "--target"):
        assert part in error.todo
    assert "contains" not in stops(put("p.tsv", "cat\n")).todo
    assert stops(put("p.csv", "cat\n")).what == "there is only one column, but source,target is expected"


def test_one_column_may_be_both_source_and_target() -> None:
    assert list(read_pairs([put("p.tsv", "cat\n")], Columns(1, 1))) == [Pair("cat", "cat")]


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (Columns(features=2), "target and features would both be column 2"),
        (Columns(tag=1), "source and tag would both be column 1"),
        (Columns(features=3, tag=3), "tag and features would both be column 3"),
        (Columns("word", "phones", features=2), "target and features would both be column 2"),
        (Columns("word", 1), "source and target would both be column 1"),
    ],
    ids=str,
)
def test_a_column_with_two_roles_is_refused(columns: Columns, what: str) -> None:
    error = stops(put("p.tsv", "word\tphones\ttags\na\tb\tc\n"), columns=columns, skip=True)
    assert (error.what, error.where) == (what, "p.tsv:1")
    assert all(f"--{role}" in error.todo for role in what.split()[:3:2])


@pytest.mark.parametrize("columns", [Columns(features="target"), Columns(features=2), Columns("source", tag="source")])
def test_a_field_with_two_roles_is_refused(columns: Columns) -> None:
    record = '{"source": "a", "target": "b", "tags": "c"}'
    for path in (put("p.jsonl", record), put_parquet("p.parquet", source=["a"], target=["b"], tags=["c"])):
        error = stops(path, columns=columns)
        assert "would both be the field" in error.what
        assert "there are: source, target, tags" in error.todo
    error = stops_inputs("p.jsonl", Columns("tags", features="tags"))
    assert "--" not in error.todo  # predict has no flags for columns


def test_a_number_that_another_role_does_not_resolve_to_is_free() -> None:
    path = put("p.jsonl", '{"tags": "V;PST", "source": "a", "target": "b"}')
    assert list(read_pairs([path], Columns(features=1))) == [Pair("a", "b", features=("V", "PST"))]


def test_columns_that_nobody_uses_are_told_once() -> None:
    paths = [put("a.tsv", "a\tb\tV;PST\nc\td\tV\n"), put("b.csv", "a,b,V\n")]
    report = ReadReport()
    assert len(list(read_pairs(paths, report=report))) == 3
    sentence = "a.tsv: source is column 1 ('a'), target is column 2 ('b')"
    unused = "; column 3 is not used (if 3 holds features or a tag: --features 3 or --tag 3)"
    assert list(report.columns.values()) == [sentence + unused]
    (sentence,) = skipping(put("c.tsv", "a\tb\tc\td\n"))[1].columns.values()
    assert "columns 3, 4 are not used" in sentence


def test_columns_that_are_left_out_on_purpose_are_not_told() -> None:
    path = put("p.tsv", "key\tword\tphone\tlang\n1\ta\tb\ten\n")
    for columns in (Columns("word", "phone"), Columns(2, 3), Columns(2, 3, tag=4), Columns(features=4)):
        assert not any("not used" in sentence for sentence in skipping(path, columns)[1].columns.values())
    assert skipping(put("p.jsonl", '{"source": "a", "target": "b", "id": "1"}'))[1].notes == []


# Bad rows


def test_a_row_with_too_few_columns_stops_with_its_line_number() -> None:
    error = stops(put("p.tsv", "a\tb\nc\nd\te\n"))
    assert (error.what, error.where) == ("this row has 1 column, but the first row has 2", "p.tsv:2")
    assert SKIP in error.todo


def test_a_row_with_too_many_columns_stops_with_its_line_number() -> None:
    error = stops(put("p.csv", "a,b\nc,d,e\n"))
    assert (error.what, error.where) == ("this row has 3 columns, but the first row has 2", "p.csv:2")
    assert SKIP in error.todo


@pytest.mark.parametrize(("row", "what"), [("\tb", "the source is empty"), ("a\t \u3000", "the target is empty")])
def test_an_empty_side_stops(row: str, what: str) -> None:
    error = stops(put("p.tsv", f"x\ty\n{row}\n"))
    assert (error.what, error.where) == (what, "p.tsv:2")
    assert SKIP in error.todo


@pytest.mark.parametrize("name", ["p.tsv", "p.csv", "p.jsonl"])
def test_bytes_that_are_not_utf8_stop_with_line_and_byte(name: str) -> None:
    row = {"p.tsv": b"a\tb\n", "p.csv": b"a,b\n", "p.jsonl": b'{"a": "x", "b": "y"}\n'}[name]
    bad = row.replace(b"b", b"b\xe9", 1)
    error = stops(put(name, row + bad + row))
    at = bad.index(b"\xe9") + 1
    assert (error.what, error.where) == (f"byte {at} of this line (0xe9) is not UTF-8", f"{name}:2")
    assert "iconv" in error.todo
    assert SKIP in error.todo
    pairs, report = skipping(name)
    assert (len(pairs), report.skipped) == (2, 1)


def test_bad_bytes_inside_a_quoted_csv_record_leave_out_that_record_alone() -> None:
    pairs, report = skipping(put("p.csv", b'a,b\n"c\n\xe9","d"\ne,f\n'))
    assert pairs == [Pair("a", "b"), Pair("e", "f")]
    assert report.bad == ["p.csv:3: byte 1 of this line (0xe9) is not UTF-8"]


@pytest.mark.parametrize(("row", "role"), [("x" * 1001 + "\tb", "source"), ("a\t" + "x" * 1001, "target")])
def test_a_side_that_is_too_long_stops_without_showing_it(row: str, role: str) -> None:
    error = stops(put("p.tsv", f"a\tb\n{row}\n"), longest=1000)
    assert (error.what, error.where) == (f"the {role} has 1,001 characters, but the limit is 1,000", "p.tsv:2")
    assert "shorten" in error.todo
    assert SKIP in error.todo
    assert "xx" not in str(error)
    assert len(list(read_pairs(["p.tsv"], longest=1001))) == 2


def test_a_csv_cell_may_be_as_long_as_the_limit_says() -> None:
    path = put("p.csv", "a," + "x" * 200_000 + "\n")
    limit = csv.field_size_limit()
    try:
        error = stops(path)
        assert error.where == "p.csv:1"
        assert "131,072 characters" in error.what
        assert "quotes" in error.todo
        assert len(list(read_pairs([path], longest=200_000))) == 1
    finally:
        csv.field_size_limit(limit)


def test_a_csv_quote_that_is_never_closed_stops_where_it_opens() -> None:
    error = stops(put("p.csv", 'a,b\nc,"d\ne,f\n'))
    assert error.what == "this is not valid CSV: a quote that opens here is never closed"
    assert error.where == "p.csv:2"
    assert SKIP in error.todo


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ('{"a": "x"', "this is not valid JSON: Expecting ',' delimiter at character 10"),
        ('["x", "y"]', "this is a list, not an object"),
        ("12", "this is a number, not an object"),
        ('{"a": "x"}', "the field 'b' is missing"),
        ('{"a": "x", "b": null}', "the field 'b' is null, not text"),
        ('{"a": ["x"], "b": "y"}', "the field 'a' is a list, not text"),
        ('{"a": true, "b": "y"}', "the field 'a' is true or false, not text"),
        ('{"a": "\\ud800", "b": "y"}', "the field 'a' is not valid Unicode"),
        ('{"a": ' + "1" * 5000 + ', "b": "y"}', "this is not valid JSON: Exceeds the limit"),
        ("[" * 100_000, "this is not valid JSON: "),
    ],
)
def test_a_bad_json_line_stops_with_its_line_number(row: str, what: str) -> None:
    path = put("p.jsonl", '{"a": "x", "b": "y"}\n' + row + "\n")
    error = stops(path)
    assert error.what.startswith(what)
    assert error.where == "p.jsonl:2"
    assert SKIP in error.todo
    pairs, report = skipping(path)
    assert (pairs, report.skipped) == ([Pair("x", "y")], 1)


@pytest.mark.parametrize(("name", "path"), [("source", ".source"), ("the text", '.["the text"]')])
def test_a_list_in_the_place_of_a_source_says_how_to_make_text_of_it(name: str, path: str) -> None:
    error = stops(put("p.jsonl", json.dumps({name: ["one", "two"], "target": "x"})), columns=Columns(name, "target"))
    assert error.what == f"the field {name!r} is a list, not text"
    assert "only a target can be a list" in error.todo
    assert f"jq -c '{path} |= join(\" \")'" in error.todo
    assert f"jq -c '{path} |= .[0]'" in error.todo


def test_a_missing_json_field_shows_the_nearest() -> None:
    error = stops(put("p.jsonl", '{"word": "x", "phones": "y"}'), columns=Columns("wrod", "phones"))
    assert error.where == "p.jsonl:1"
    assert "did you mean 'word'?" in error.todo


def test_rows_of_a_json_list_have_line_numbers() -> None:
    pairs, report = skipping(put("p.json", '[\n{"a": "x", "b": "y"},\n{"a": "x"},\n3]\n'))
    assert pairs == [Pair("x", "y")]
    assert report.bad == ["p.json:3: the field 'b' is missing", "p.json:4: this is a number, not an object"]


@pytest.mark.parametrize(
    "content",
    ['[\n{"a": "x", "b": "y"}', '[\n{"a": "x" "b"}]', '[{"a": "x", "b": "y"}\n;]', '[{"a": "x", "b": "y"}\n] x'],
)
def test_a_broken_json_list_stops_even_when_skipping(content: str) -> None:
    error = stops(put("p.json", content), skip=True)
    assert (error.what, error.where) == ("the JSON list is not valid here", "p.json:2")
    assert ".jsonl" in error.todo


def test_bad_bytes_in_a_json_list_stop_with_line_and_byte() -> None:
    error = stops(put("p.json", b'[\n{"a": "\xe9"}]'))
    assert (error.what, error.where) == ("byte 8 of this line (0xe9) is not UTF-8", "p.json:2")
    assert "iconv" in error.todo


def test_a_null_in_parquet_stops_with_its_row() -> None:
    path = put_parquet("p.parquet", source=["a", None, "c"], target=["x", "y", "z"])
    error = stops(path)
    assert (error.what, error.where) == ("the field 'source' is null, not text", "p.parquet:2")
    assert SKIP in error.todo
    assert skipping(path)[0] == [Pair("a", "x"), Pair("c", "z")]


def test_parquet_text_that_is_not_utf8_makes_only_its_row_bad() -> None:
    raw = pa.array([b"a", b"\xe9", b"c"])
    text = pa.StringArray.from_buffers(3, raw.buffers()[1], raw.buffers()[2])
    pairs, report = skipping(put_parquet("p.parquet", source=text, target=["x", "y", "z"]))
    assert pairs == [Pair("a", "x"), Pair("c", "z")]
    assert report.bad == ["p.parquet:2: the field 'source' is not valid Unicode"]


def test_skipping_counts_all_bad_rows_and_shows_ten() -> None:
    pairs, report = skipping(put("p.tsv", "a\tb\n" + "c\n" * 12 + "d\te\n"))
    assert pairs == [Pair("a", "b"), Pair("d", "e")]
    assert (report.rows, report.skipped, len(report.bad)) == (2, 12, 10)
    assert report.bad[0] == "p.tsv:2: this row has 1 column, but the first row has 2"


def test_a_blank_line_in_parallel_files_is_a_bad_row() -> None:
    put("a.en", "x\n\nz\n\n")
    put("b.de", "x\ny\n\n\n")
    error = stops("a.en:b.de")
    assert (error.what, error.where) == ("the source is empty", "a.en:2")
    assert SKIP in error.todo
    _, report = skipping("a.en:b.de")
    expected = ["a.en:2: the source is empty", "b.de:3: the target is empty", "a.en:4: the source is empty"]
    assert (report.bad, report.blank) == (expected, 0)


def test_bad_bytes_in_a_parallel_file_name_that_file() -> None:
    put("a.en", b"x\n\xff\n")
    put("b.de", b"x\n\xff\n")
    assert stops("a.en:b.de").where == "a.en:2"
    assert skipping("a.en:b.de")[1].skipped == 1


# Files that cannot be read at all


def test_a_missing_file_suggests_near_names() -> None:
    put("train.tsv", "a\tb\n")
    error = stops("trian.tsv")
    assert (error.what, error.where) == ("there is no such file", "trian.tsv")
    assert error.todo == "check the name; did you mean 'train.tsv'?"
    assert "check the name" in stops("zzz").todo


def test_a_missing_file_is_said_before_any_other_file_is_read() -> None:
    with pytest.raises(UserError, match="no such file"):
        next(read_pairs([put("a.tsv", "a\tb\n"), "b.tsv"]))


def test_a_missing_folder_is_said() -> None:
    error = stops("nowhere/p.tsv")
    assert error.what == "there is no such file: its folder does not exist"
    assert error.where == "nowhere/p.tsv"
    assert "nowhere" in error.todo


def test_a_missing_parallel_file_is_named_alone() -> None:
    put("a.en", "x\n")
    assert stops("a.en:a.de").where == "a.de"


def test_a_folder_is_not_a_file() -> None:
    Path("folder").mkdir()
    for error in (stops("folder"), stops_inputs("folder")):
        assert (error.what, error.where) == ("this is a folder, not a file", "folder")
        assert "files in it" in error.todo


def test_a_file_without_permission_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.io, "FileIO", refuse)  # root, in containers, may read everything
    error = stops(put("p.tsv", "a\tb\n"))
    assert (error.what, error.where) == ("no permission to read this file", "p.tsv")
    assert "chmod" in error.todo


def test_a_name_that_cannot_be_opened_says_why() -> None:
    error = stops("x" * 5000)
    assert "cannot be opened: File name too long" in error.what
    assert "check the name" in error.todo


@pytest.mark.parametrize("content", ["", "\n\n", "source\ttarget\n"])
@pytest.mark.parametrize("name", ["p.tsv", "p.tsv.gz"])
def test_an_empty_file_stops_even_when_skipping(name: str, content: str) -> None:
    error = stops(put(name, content), skip=True)
    assert (error.what, error.where) == ("the file is empty: it has no row of data", name)
    assert "one pair on each line" in error.todo


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl", "p.json"])
def test_an_empty_file_of_any_format_stops(name: str) -> None:
    assert "empty" in stops(put(name, "")).what


def test_an_empty_list_or_table_or_pair_of_files_stops() -> None:
    assert "empty" in stops(put("p.json", "[]")).what
    assert "empty" in stops(put_parquet("p.parquet", a=pa.array([], pa.string()), b=pa.array([], pa.string()))).what
    put("a", "")
    assert "empty" in stops("a:a").what


def test_a_file_of_bad_rows_only_stops_even_when_skipping() -> None:
    error = stops(put("good.tsv", "a\tb\n"), put("p.tsv", "\tb\na\t\n"), skip=True)
    assert error.what == "every row is bad (2 were left out); the last one: p.tsv:2: the target is empty"
    assert error.where == "p.tsv"
    assert "fill in the target" in error.todo
    assert "--source" in error.todo


@pytest.mark.parametrize(("left", "right", "counts"), [(2, 5, "2 and 5"), (5, 2, "5 and 2"), (0, 1, "0 and 1")])
def test_parallel_files_of_different_length_stop_with_both_counts(left: int, right: int, counts: str) -> None:
    put("a.en", "x\n" * left)
    put("b.de", "y\n" * right)
    error = stops("a.en:b.de", skip=True)
    assert error.what == f"the parallel files differ in length: {counts} lines"
    assert error.where == "a.en:b.de"
    assert "wc -l" in error.todo


@pytest.mark.parametrize("columns", [Columns("en", "de"), Columns(1, 3), Columns(features="f"), Columns(tag=2)])
def test_parallel_files_have_two_columns_without_names(columns: Columns) -> None:
    put("a.en", "x\n")
    put("b.de", "y\n")
    error = stops("a.en:b.de", columns=columns)
    assert "parallel files have only two columns" in error.what
    assert error.where == "a.en:b.de"
    assert "TSV" in error.todo


def test_a_truncated_gz_stops_and_names_the_file() -> None:
    whole_file = gzip.compress(os.urandom(3000).hex().encode())
    Path("a.gz").write_bytes(whole_file[:1000])
    put("b", "x\n")
    for path in ("a.gz", "a.gz:b"):
        error = stops(path, skip=True)
        assert error.what == "the .gz file is truncated: it has no end marker"
        assert error.where == "a.gz"
        assert "gzip -t" in error.todo


def test_a_gz_that_is_not_gzip_stops() -> None:
    Path("p.tsv.gz").write_bytes(b"a\tb\n")
    for error in (stops("p.tsv.gz"), stops_inputs("p.tsv.gz")):
        assert error.what.startswith("the file is not a gzip file, or it is damaged")
        assert error.where == "p.tsv.gz"
        assert "remove .gz from its name" in error.todo


def test_a_gz_with_broken_bytes_stops() -> None:
    packed = bytearray(gzip.compress(os.urandom(5000).hex().encode()))
    packed[500:520] = bytes(20)
    Path("p.tsv.gz").write_bytes(bytes(packed))
    assert "damaged" in stops("p.tsv.gz").what


@pytest.mark.parametrize("name", ["p.parquet", "p.parquet.gz"])
def test_a_broken_parquet_file_stops(name: str) -> None:
    content = Path(put_parquet("whole.parquet", source=["a"] * 100, target=["b"] * 100)).read_bytes()
    for broken in (content[:-20], b"not parquet", b""):
        error = stops(put(name, broken), skip=True)
        assert error.what.startswith("this is not a Parquet file, or it is damaged")
        assert error.where == name
        assert "write the file again" in error.todo


# Progress, stdin, fingerprint


def test_progress_rises_over_all_files_and_ends_at_1() -> None:
    content = "some words\tto read\n" * 50_000
    put("a.en", "x\n" * 50_000)
    paths = [put("p.tsv", content), put("q.tsv.gz", content), "a.en:a.en"]
    paths.append(put_parquet("p.parquet", a=["x"] * 50_000, b=["y"] * 50_000))
    told: list[tuple[int, float]] = []
    list(read_pairs(paths, progress=lambda rows, share: told.append((rows, share))))
    shares = [share for _, share in told]
    assert [rows for rows, _ in told] == [*range(20_000, 200_001, 20_000), 200_000]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.9
    assert shares[-1] == 1.0


def test_settled_stdin_can_be_read_twice_and_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    put_stdin(monkeypatch, "a\tb\n")
    with spool_stdin(["x.tsv", "-"]) as paths:
        assert paths[0] == "x.tsv"
        assert list(read_pairs(paths[1:])) == list(read_pairs(paths[1:])) == [Pair("a", "b")]
        assert Path(paths[1]).exists()
    assert not Path(paths[1]).exists()


def test_stdin_that_begins_with_a_brace_is_jsonl(monkeypatch: pytest.MonkeyPatch) -> None:
    put_stdin(monkeypatch, '\ufeff\n {"target": "b", "source": "a"}\n')
    assert list(read_pairs(["-"])) == [Pair("a", "b")]


def test_errors_and_notes_about_stdin_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    put_stdin(monkeypatch, "source\ttarget\na\tb\nc\n")
    report = ReadReport()
    with spool_stdin(["-"]) as paths, pytest.raises(UserError) as caught:
        list(read_pairs(paths, report=report))
    assert whole(caught.value).where == "<stdin>:3"
    assert report.notes[0].startswith("<stdin>:1: ")


def test_stdin_twice_is_refused() -> None:
    error = stops("-", "-")
    assert (error.what, error.where) == ("stdin is given more than once", "-")
    assert "once" in error.todo


def test_stdin_is_removed_when_reading_stops_early(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    put_stdin(monkeypatch, "a\tb\n" * 3)
    pairs = read_pairs(["-"])
    next(pairs)
    assert len(list(tmp_path.iterdir())) == 1
    pairs.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_a_fingerprint_is_that_of_all_bytes() -> None:
    paths = [put("a", "x\n"), put("b.gz", "y\n")]
    expected = subprocess.run("cat a b.gz | b2sum --length 128", shell=True, capture_output=True, text=True, check=True)
    assert fingerprint(paths) == fingerprint(["a:b.gz"]) == expected.stdout.split()[0]
    put("a", "z\n")
    assert fingerprint(paths) != expected.stdout.split()[0]
    with pytest.raises(UserError, match="no such file"):
        fingerprint(["missing"])


# Inputs


def test_plain_inputs_give_one_pair_a_line_also_for_empty_ones() -> None:
    for name in ("in.txt", "in", "in.txt.gz"):
        assert inputs(put(name, "\ufeffa\tb\n\n  \r\nc")) == [Pair("a\tb"), Pair(""), Pair("  "), Pair("c")]
    assert inputs(put("in.txt", "")) == []


def test_inputs_from_stdin_stream_line_by_line() -> None:
    code = (
        "import sys; from weft.data.columns import Columns; from weft.data.inputs import read_inputs\n"
        "for pair in read_inputs('-', Columns()): sys.stdout.write(pair.source + '\\n'); sys.stdout.flush()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    for word in ("one", "", "two"):
        child.stdin.write(word + "\n")
        child.stdin.flush()
        assert child.stdout.readline() == word + "\n"
    child.communicate()
    assert child.returncode == 0


def test_plain_inputs_carry_the_tag_and_features_of_the_training() -> None:
    path = put("in.txt", "a\t en\tV;PST\n\nb\tde\t\n")
    expected = [Pair("a", "", "en", ("V", "PST")), Pair(""), Pair("b", "", "de")]
    assert inputs(path, Columns(tag=4, features=3)) == expected
    assert inputs(put("in.txt", "a\tV PST\n"), Columns(features=3)) == [Pair("a", features=("V", "PST"))]


def test_a_plain_input_without_its_tag_stops_with_its_line_number(monkeypatch: pytest.MonkeyPatch) -> None:
    error = stops_inputs(put("in.txt", "a\ten\tV\nb\ten\n"), Columns(tag=3, features=4))
    assert (error.what, error.where) == ("this line has no features", "in.txt:2")
    assert "source<TAB>tag<TAB>features" in error.todo
    put_stdin(monkeypatch, "a\n")
    error = stops_inputs("-", Columns(tag=3))
    assert (error.what, error.where) == ("this line has no tag", "<stdin>:1")
    error = stops_inputs(put("in.txt", "a\tb\tc\n"), Columns(tag=3))
    assert error.what == "this line has 3 columns, but source<TAB>tag is expected"
    assert "tabs" in error.todo


def test_inputs_that_are_too_long_or_not_utf8_stop_with_their_line_number() -> None:
    for name in ("in.txt", "in.tsv"):
        error = stops_inputs(put(name, "a\n" + "x" * 11 + "\n"), longest=10)
        assert (error.what, error.where) == ("the source has 11 characters, but the limit is 10", f"{name}:2")
        assert "shorten" in error.todo
        error = stops_inputs(put(name, b"a\nb\xff\n"))
        assert (error.what, error.where) == ("byte 2 of this line (0xff) is not UTF-8", f"{name}:2")


def test_a_missing_input_suggests_near_names() -> None:
    put("words.txt", "a\n")
    assert stops_inputs("word.txt").todo == "check the name; did you mean 'words.txt'?"


def test_a_table_of_inputs_uses_the_columns_of_the_training() -> None:
    columns = Columns(2, 4, features=3, tag=1)
    expected = [Pair("a", "", "en", ("V",)), Pair(""), Pair("b", "", "de", ("N",))]
    assert inputs(put("in.tsv", "en\ta\tV\n\nde\tb\tN\n"), columns) == expected
    assert inputs(put("in.csv.gz", "en,a,V,x\n\nde,b,N,y\n"), columns) == expected


def test_a_table_of_inputs_may_have_a_header() -> None:
    columns = Columns("word", "phones", tag="lang")
    assert inputs(put("in.tsv", "lang\tword\nen\ta\n"), columns) == [Pair("a", tag="en")]
    assert inputs(put("in.tsv", "source\ttarget\na\tb\n")) == [Pair("a")]
    assert inputs(put("in.tsv", "target\tsource\na\tb\n")) == [Pair("b")]
    error = stops_inputs(put("in.tsv", "lang\twords\nen\ta\n"), columns)
    assert (error.what, error.where) == ("there is no column 'word' for the source", "in.tsv:1")
    assert error.todo.startswith("the run was trained with this column: add it, or give another one this name")
    assert "'words'" in error.todo


def test_the_only_column_of_a_table_of_inputs_is_the_source() -> None:
    assert inputs(put("in.tsv", "\na\n\nb\n"), Columns(2, 1)) == [Pair(""), Pair("a"), Pair(""), Pair("b")]
    assert inputs(put("in.tsv", "a\nb\n"), Columns("word", "phones")) == [Pair("a"), Pair("b")]
    assert inputs(put("in.tsv", "word\nb\n"), Columns("word", "phones")) == [Pair("b")]


def test_an_empty_source_in_a_table_of_inputs_is_yielded() -> None:
    assert inputs(put("in.tsv", "a\tb\n\tc\n")) == [Pair("a"), Pair("")]


def test_a_table_of_inputs_without_the_features_column_says_so() -> None:
    error = stops_inputs(put("in.tsv", "a\tb\n"), Columns(features=3))
    assert error.what == "the features should be in column 3, but there are only 2 columns"
    assert error.where == "in.tsv:1"
    assert "trained" in error.todo
    assert "tag should be in column 2" in stops_inputs(put("in.tsv", "a\n"), Columns(tag=2)).what


def test_an_uneven_row_of_inputs_stops() -> None:
    error = stops_inputs(put("in.tsv", "a\tb\nc\n"))
    assert (error.what, error.where) == ("this row has 1 column, but the first row has 2", "in.tsv:2")


def test_json_and_parquet_inputs_need_no_target() -> None:
    content = '{"word": "a"}\n\n{"word": ""}\n'
    assert inputs(put("in.jsonl", content), Columns("word", "phones")) == [Pair("a"), Pair(""), Pair("")]
    assert inputs(put("in.json", '[{"source": "a"}]')) == [Pair("a")]
    assert inputs(put_parquet("in.parquet", source=["a", ""], tag=["x", "y"]), Columns(tag="tag")) == [
        Pair("a", tag="x"),
        Pair("", tag="y"),
    ]
    assert stops_inputs(put("in.jsonl", '{"w": "a"}'), Columns("word")).what == "the field 'word' is missing"
