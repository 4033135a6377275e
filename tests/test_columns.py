"""Which columns are read: by name, by number or by themselves; headers that nobody declared; delimiters of CSV."""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import Weft
from weft.api import train
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.delimiters import delimiter_of
from weft.data.headers import CERTAIN, DOUBTFUL, SAMPLE_ROWS, evidence
from weft.data.inputs import read_inputs
from weft.data.names import paired
from weft.data.pairs import Columns, ReadReport, read_pairs
from weft.runs.report import Quiet

SHARED = Path(os.environ.get("WEFT_DATA", "/nowhere"))
TINY = {"encoder.width": 8, "decoder.width": 8, "embed.width": 8, "train.evaluations": 1}
WORDS = ["cat", "dog", "bird", "fish", "horse", "cow", "duck", "goose", "hen", "pig"]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def put_records(name: str, *records: dict[str, object]) -> str:
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(list(records)), name)
        return name
    return put(name, "".join(json.dumps(record) + "\n" for record in records))


def read(path: str, columns: Columns | None = None) -> tuple[list[Pair], ReadReport]:
    report = ReadReport()
    return list(read_pairs([path], columns or Columns(), report=report)), report


def sentence(path: str, columns: Columns | None = None) -> str:
    (text,) = read(path, columns)[1].columns.values()
    return text


def refused(path: str, columns: Columns | None = None) -> UserError:
    with pytest.raises(UserError) as caught:
        read(path, columns)
    return caught.value


# Names

NAMES = [
    (["id", "src", "tgt"], ("src", "tgt")),
    (["target", "source"], ("source", "target")),
    (["label", "text"], ("text", "label")),
    (["Input", "idx", "Output"], ("Input", "Output")),
    (["context", "question", "answer"], ("question", "answer")),
    (["word", "note", "pron"], ("word", "pron")),
    (["Word", "IPA, narrow", "note"], ("Word", "IPA, narrow")),
    (["id", "translation.en", "translation.ro"], ("translation.en", "translation.ro")),
    (["nr", "de", "en"], ("de", "en")),
    (["text_de", "score", "text_en"], ("text_de", "text_en")),
    (["sourceText", "n", "targetText"], ("sourceText", "targetText")),
    (["lemma", "tags", "form"], ("lemma", "form")),
    (["a", "b", "c"], None),
    (["is_correct", "my_label", "en_score"], None),
    (["answer_start", "answer_text", "title"], None),
]


@pytest.mark.parametrize(("names", "expected"), NAMES, ids=str)
def test_usual_names_tell_source_and_target(names: list[str], expected: tuple[str, str] | None) -> None:
    assert paired(names) == expected


@pytest.mark.parametrize("name", ["p.jsonl", "p.parquet"])
def test_an_id_is_never_learned_from(name: str) -> None:
    records = [{"id": f"q{n}", "src": f"s{n}", "tgt": f"t{n}"} for n in range(3)]
    path = put_records(name, *records)
    assert read(path)[0] == [Pair(f"s{n}", f"t{n}") for n in range(3)]
    assert sentence(path) == f"{name}: source is src ('s0'), target is tgt ('t0'); not used: id"
    other = put_records(name, *({"uuid": n, "flemish": "x", "walloon": "y"} for n in range(3)))
    assert read(other)[0] == [Pair("x", "y")] * 3


def test_an_id_in_a_table_is_never_learned_from() -> None:
    rows = "".join(f"{n},x{n},y{n}\n" for n in range(5))
    assert read(put("p.csv", "id,src,tgt\n" + rows))[0][0] == Pair("x0", "y0")
    assert read(put("p.csv", "id,flemish,walloon\n" + rows))[0][0] == Pair("x0", "y0")
    pairs, report = read(put("p.csv", rows))  # no header: the numbers tell it
    assert pairs[0] == Pair("x0", "y0")
    assert "column 1 only numbers the rows" in report.notes[0]
    assert read("p.csv", Columns(1, 2))[0][0] == Pair("0", "x0")


@pytest.mark.parametrize("name", ["p.jsonl", "p.parquet"])
def test_among_three_fields_without_usual_names_the_user_has_to_choose(name: str) -> None:
    path = put_records(name, {"id": 1, "one": "a", "two": "b", "three": "c"})
    error = refused(path)
    assert error.what == (
        "it is not clear which column is the source and which the target: there are id, one, two, three"
    )
    assert (error.where, error.todo) == (name, "choose them, for example with --source one --target two")
    assert read(path, Columns("three", "one"))[0] == [Pair("c", "a")]
    error = refused(path, Columns("three"))
    assert error.what.startswith("it is not clear which column is the target")
    assert error.todo == "choose it, for example with --target one"


def test_fields_that_hold_no_text_are_not_in_question() -> None:
    record = {"size": 3, "one": "a", "two": "b", "ok": True, "at": None}
    assert read(put_records("p.jsonl", record))[0] == [Pair("a", "b")]


def test_one_side_that_is_chosen_finds_its_partner() -> None:
    path = put_records("p.jsonl", {"id": 1, "tgt": "b", "src": "a"})
    assert read(path, Columns("src"))[0] == read(path, Columns(target="tgt"))[0] == [Pair("a", "b")]
    path = put("p.tsv", "phones\tword\nK\tcat\n")
    assert read(path, Columns("word"))[0] == [Pair("cat", "K")]
    path = put_records("p.jsonl", {"lemma": "a", "tags": "V", "form": "b"})
    assert read(path, Columns(features="tags"))[0] == [Pair("a", "b", features=("V",))]


def test_columns_of_inputs_are_found_without_a_target() -> None:
    for record in ({"id": "1", "src": "a"}, {"label": "x", "text": "a"}, {"id": "1", "b": "a"}):
        assert list(read_inputs(put_records("in.jsonl", record), Columns())) == [Pair("a")]


# Fields inside of objects


@pytest.mark.parametrize("name", ["p.jsonl", "p.parquet"])
def test_dots_lead_into_objects(name: str) -> None:
    record = {"id": "1", "translation": {"en": "yes", "ro": "da", "fr": "oui"}}
    path = put_records(name, record, record)
    assert read(path, Columns("translation.ro", "translation.en"))[0] == [Pair("da", "yes")] * 2
    assert "--source" in refused(path).todo
    error = refused(path, Columns("translation.rp", "translation.en"))
    assert "did you mean 'translation.ro'?" in error.todo
    assert "translation.fr" in refused(path, Columns("translation", "translation.en")).todo


@pytest.mark.parametrize("name", ["p.jsonl", "p.parquet"])
def test_a_translation_of_two_languages_needs_no_flags(name: str) -> None:
    path = put_records(name, {"id": "1", "translation": {"en": "yes", "ro": "da"}})
    assert read(path)[0] == [Pair("yes", "da")]
    assert "source is translation.en ('yes'), target is translation.ro ('da')" in sentence(path)


def test_a_field_with_a_dot_in_its_name_is_found_before_an_object() -> None:
    path = put_records("p.jsonl", {"a.b": "x", "a": {"b": "y"}, "c": "z"})
    assert read(path, Columns("a.b", "c"))[0] == [Pair("x", "z")]


def test_a_null_object_is_a_bad_row() -> None:
    path = put_records("p.parquet", {"t": {"en": "a", "ro": "b"}}, {"t": None})
    with pytest.raises(UserError, match=r"the field 't\.en' is null"):
        read(path, Columns("t.en", "t.ro"))


# What is said


def test_every_file_says_which_columns_it_reads() -> None:
    assert sentence(put("p.tsv", "cat\tK AE T\n")) == "p.tsv: source is column 1 ('cat'), target is column 2 ('K AE T')"
    path = put("p.tsv", "word\tphones\ttags\ncat\tK\tN\n")
    assert sentence(path, Columns("word", "phones", features="tags")) == (
        "p.tsv: source is column 1, word ('cat'), target is column 2, phones ('K'), features is column 3, tags ('N')"
    )
    put("a.en", "cat\n")
    put("a.de", f"{'Katze ' * 9}\n")
    assert (
        sentence("a.en:a.de") == "a.en:a.de: source is a.en ('cat'), target is a.de ('Katze Katze Katze Katze Katze…')"
    )


def test_files_of_one_layout_say_it_once() -> None:
    report = ReadReport()
    paths = [put("a.tsv", "a\tb\n"), put("b.tsv", "c\td\n"), put_records("c.jsonl", {"src": "e", "tgt": "f"})]
    list(read_pairs(paths, report=report))
    assert [text.partition(":")[0] for text in report.columns.values()] == ["a.tsv", "c.jsonl"]


# Headers that nobody declared


@pytest.mark.parametrize(
    "text",
    [
        '"Word","IPA, narrow","note"\ncat,k æ t,\ndog,d ɒ ɡ,x\nbird,b ɜː d,\n',
        "a,sum\n3+4,7\n5+6,11\n10+2,12\n",
        "word,phones\ncat,K\n",
        "Source,Target\na,b\n",
        "review,stars\nGood film,5\nBad film,1\nThe worst of all,2\n",
        "audio,text\nclips/1.wav,ONE\nclips/2.wav,TWO\n",
        'series,shape\n"[0.1, 0.5]",round\n"[0.2, 0.1]",flat\n',
    ],
)
def test_a_header_that_nobody_declared_is_not_data(text: str) -> None:
    first, *rows = csv.reader(text.splitlines())
    pairs, report = read(put("p.csv", text))
    assert [pair.source for pair in pairs] == [row[0] for row in rows]
    assert report.notes[0].startswith(
        f"p.csv:1: the first line ({', '.join(first)}) is taken as the header; if it is data"
    )
    assert first[0] in next(iter(report.columns.values()))


def test_what_may_be_a_header_is_data_with_a_note() -> None:
    rows = "".join(f"{word}\t{word[::-1]}\n" for word in WORDS)
    pairs, report = read(put("p.tsv", "old_item\that\n" + rows))
    assert pairs[0] == Pair("old_item", "hat")
    assert report.notes == [
        "p.tsv:1: the first line (old_item, hat) is taken as data, but looks like a header; "
        "if it is one, choose columns by name: --source old_item --target hat"
    ]


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        (["walk", "walked"], [["cat", "cats"], ["talk", "talked"]]),
        (["Go.", "Va !"], [["Hi.", "Salut !"], ["Run!", "Cours !"]]),
        (["3", "4"], [["5", "6"], ["7", "8"]]),
        (["'bout", "B AW1 T"], [["cat", "K AE T"], ["'course", "K AO1 R S"]]),
        (["word", ""], [["cat", "x"], ["dog", "y"]]),
        (["word", "word"], [["cat", "cat"], ["dog", "dog"]]),
        (["good", "pos"], [["bad", "neg"], ["fine", "pos"], ["poor", "neg"]]),
    ],
    ids=str,
)
def test_an_ordinary_first_row_is_no_header(first: list[str], rows: list[list[str]]) -> None:
    assert evidence(first, rows) < DOUBTFUL


def test_labels_that_all_come_again_show_a_header() -> None:
    rows = [[f"some longer text number {n} of all of them", "pos" if n % 2 else "neg"] for n in range(200)]
    assert evidence(["remark", "polarity"], rows) >= CERTAIN
    assert evidence([rows[0][0][:30], "pos"], rows) < DOUBTFUL


def tables() -> list[Path]:
    return sorted(SHARED.rglob("*.tsv"))


def rows_of(path: Path) -> list[Sequence[str]]:
    with path.open(encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return [row for row in rows if len(row) == len(rows[0]) > 1]


@pytest.mark.skipif(not tables(), reason="needs the shared data")
def test_no_file_without_a_header_loses_its_first_row() -> None:
    for path in tables():
        first, *rest = rows_of(path)
        assert evidence(first, rest[:SAMPLE_ROWS]) < DOUBTFUL, path


@pytest.mark.skipif(not tables(), reason="needs the shared data")
def test_hardly_a_row_of_real_data_looks_like_a_header() -> None:
    draw, looked_at, certain = random.Random(1), 0, 0
    for path in tables():
        rows = rows_of(path)
        for count in (5, 20, 100):
            for _ in range(20):
                first, *rest = draw.sample(rows, min(len(rows), count + 1))
                looked_at += 1
                certain += evidence(first, rest) >= CERTAIN
    assert looked_at > 2000
    assert certain <= looked_at // 1000


# Delimiters


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("cat,K\ndog,D\n", ","),
        ("cat;K\ndog;D\n", ";"),
        ("cat\tK\ndog\tD\n", "\t"),
        ("cat|K\ndog|D\n", "|"),
        ("yes, sir;ja, mein Herr\nno, sir;nein, mein Herr\n", ";"),
        ("a;1,5;2,5\nb;2,5;3,5\n", ";"),
        ("walk,walked,V;PST\ncat,cats,N;PL\n", ","),
        ('"a;b",c\n"d;e",f\n', ","),
        ("1,2\n3,4\n", ","),
        ("one column\nonly\n", ","),
        ("a,b\nc,d\ne,f,g\nh,i\n", ","),
        ("", ","),
    ],
)
def test_the_delimiter_is_what_cuts_lines_evenly(text: str, delimiter: str) -> None:
    assert delimiter_of(text.encode()) == delimiter


@pytest.mark.parametrize(("mark", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars (|)")])
def test_a_csv_with_another_delimiter_is_read_and_said(mark: str, name: str) -> None:
    pairs, report = read(put("p.csv", f'cat{mark}"K, AE"\ndog{mark}"D{mark} AO"\n'))
    assert pairs == [Pair("cat", "K, AE"), Pair("dog", f"D{mark} AO")]
    assert report.notes == [f"p.csv: the columns are separated by {name}, not by commas"]


# Plain files that belong together


def test_two_plain_files_suggest_a_parallel_pair() -> None:
    put("train.en", "a cat\n")
    put("train.de", "eine Katze\n")
    with pytest.raises(UserError) as caught:
        list(read_pairs(["train.en", "train.de"]))
    assert caught.value.what == "there is only one column, but source<TAB>target is expected"
    assert "train.en:train.de" in caught.value.todo


def test_a_run_on_pairs_in_memory_names_no_file_of_the_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import weft

    small = {"encoder.width": 16, "decoder.width": 16, "embed.width": 16}
    weft.train([("ab", "ba"), ("ba", "ab")] * 5, steps=1, out=tmp_path / "run", settings=small)
    assert "jsonl" not in capsys.readouterr().err


def test_a_single_field_is_told_in_the_singular(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"a": "x"}\n', encoding="utf-8")
    with pytest.raises(UserError, match="but there is only 1 field"):
        list(read_pairs([str(path)]))


# the columns of a run ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def named_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a table whose second column has a name that a source often has."""
    folder = tmp_path_factory.mktemp("named")
    rows = "".join(f"{number}{number}\t{'ab'[number % 2]}\n" for number in range(40))
    (folder / "table.tsv").write_text("signal\twords\n" + rows, encoding="utf-8")
    train(folder / "table.tsv", out=folder / "run", steps=2, settings=TINY, reporter=Quiet())
    return folder / "run"


@pytest.mark.parametrize(
    "table",
    [
        "signal\twords\n11\tb\n22\ta\n",
        "words\tsignal\nb\t11\na\t22\n",
        "signal\twords\n11\t\n22\t\n",
        "signal\n11\n22\n",
    ],
    ids=["as in training", "in another order", "without targets", "alone"],
)
def test_columns_to_predict_are_those_that_had_the_same_names_in_training(
    table: str, named_run: Path, tmp_path: Path, weft: Weft
) -> None:
    path = tmp_path / "new.tsv"
    path.write_text(table, encoding="utf-8")
    done = weft("predict", named_run, path, "--format", "jsonl")
    assert [json.loads(line)["source"] for line in done.lines] == ["11", "22"]


def test_columns_to_evaluate_are_those_that_had_the_same_names_in_training(
    named_run: Path, tmp_path: Path, weft: Weft
) -> None:
    path = tmp_path / "new.tsv"
    path.write_text("words\tsignal\nb\t11\na\t22\n", encoding="utf-8")
    done = weft("evaluate", named_run, path, "--lines", tmp_path / "lines.tsv", "--json")
    assert json.loads(done.out)["n"] == 2
    assert (tmp_path / "lines.tsv").read_text().splitlines()[1].startswith("11\tb\t")
