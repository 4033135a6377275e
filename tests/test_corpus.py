"""Corpora on disk and what is prepared from files: whole or absent, made once, validation kept out of training."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weft.core.errors import UserError
from weft.core.pair import END, Pair
from weft.data import corpus as corpora
from weft.data import files, prepare
from weft.data.blocks import ROWS, blocks_of
from weft.data.corpus import Corpus, is_corpus, write_corpus
from weft.data.pairs import Columns, read_pairs
from weft.data.prepare import Files, Prepared, cache_root, keep_given
from weft.data.sides.sides import Sides
from weft.data.spool import read_blocks, write_block
from weft.data.survey import FEWEST_PAIRS, LARGEST_HOLD_OUT, SMALLEST_HOLD_OUT, shuffle_keys, survey
from weft.data.text.tokens import COUNTED, Tokeniser, learn, learn_counted

CHARACTERS = ("characters", 400)


def some_pairs(count: int = 60, sources: int | None = None, seed: int = 1) -> list[Pair]:
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(3, 9))) for _ in range(sources or count)]
    return [Pair(words[i % len(words)], f"{words[i % len(words)][::-1]}{i}") for i in range(count)]


def tokenisers(pairs: list[Pair]) -> tuple[Tokeniser, Tokeniser]:
    return learn(*CHARACTERS, (p.source for p in pairs)), learn(*CHARACTERS, (p.target for p in pairs))


def write_tsv(path: Path, pairs: list[Pair]) -> str:
    path.write_text("".join(f"{p.source}\t{p.target}\n" for p in pairs), encoding="utf-8")
    return str(path)


def rows_of(corpus: Corpus) -> list[tuple[list[int], list[int]]]:
    """Every row's ids, read through batches of one, END taken off."""
    found = []
    for row in range(len(corpus)):
        batch = corpus.batch([row])
        source, wanted = batch.source.values[0].tolist(), batch.wanted.values[0].tolist()
        assert (source.pop(), wanted.pop()) == (END, END)
        found.append((source, wanted))
    return found


# corpus --------------------------------------------------------------------------------------------------------------


def test_the_rows_of_a_corpus_are_the_encoded_pairs_in_order(tmp_path: Path) -> None:
    pairs = some_pairs()
    source, target = tokenisers(pairs)
    corpus = write_corpus(pairs, source, target, tmp_path / "corpus")
    assert rows_of(corpus) == [(source.encode(p.source), target.encode(p.target)) for p in pairs]
    assert corpus.source_lengths.tolist() == [len(source.encode(p.source)) + 1 for p in pairs]
    assert corpus.target_lengths.tolist() == [len(target.encode(p.target)) + 1 for p in pairs]


def test_a_batch_holds_the_rows_that_were_asked_for_in_that_order(tmp_path: Path) -> None:
    pairs = some_pairs()
    source, target = tokenisers(pairs)
    corpus = write_corpus(pairs, source, target, tmp_path / "corpus")
    batch = corpus.batch([9, 2, 30])
    assert [source.decode(row.tolist()) for row in batch.source.values] == [pairs[i].source for i in (9, 2, 30)]
    assert [target.decode(row.tolist()) for row in batch.wanted.values] == [pairs[i].target for i in (9, 2, 30)]


def test_a_corpus_of_several_chunks_is_whole(tmp_path: Path) -> None:
    pairs = [Pair(f"{i}", f"{i * 2}") for i in range(ROWS + 3)]
    source, target = tokenisers(pairs)
    corpus = write_corpus(iter(pairs), source, target, tmp_path / "corpus")
    assert len(corpus) == len(pairs)
    last = corpus.batch([ROWS - 1, ROWS, ROWS + 2])
    assert [source.decode(row.tolist()) for row in last.source.values] == ["4095", "4096", "4098"]


def test_more_than_65536_symbols_are_kept_apart(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(40_000)]
    marks = tuple(f"<+{i}>" for i in range(30_000))
    source = learn("words", 400, [" ".join(words)], marks)
    corpus = write_corpus([Pair(words[-1], words[0])], source, source, tmp_path / "corpus")
    assert rows_of(corpus) == [(source.encode(words[-1]), source.encode(words[0]))]


def test_a_corpus_that_is_mapped_holds_what_one_that_is_read_whole_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = some_pairs(40)
    whole = write_corpus(pairs, *tokenisers(pairs), tmp_path / "corpus")
    monkeypatch.setattr(corpora, "SMALL", 0)
    assert rows_of(Corpus(whole.folder)) == rows_of(whole)


def test_rows_with_the_same_source_and_marks_share_a_pass(tmp_path: Path) -> None:
    pairs = [Pair("ab", "1"), Pair("ab", "2"), Pair("a", "1"), Pair("ab", "1", features=("X",))]
    marked = learn(*CHARACTERS, (p.source for p in pairs), ("X",))
    corpus = write_corpus(pairs, marked, tokenisers(pairs)[1], tmp_path / "corpus")
    kept = [sorted(corpus.epoch(n, 64, seed=1, repeat_power=0.0).rows.tolist()) for n in range(20)]
    assert {tuple(rows) for rows in kept} == {(0, 2, 3), (1, 2, 3)}
    assert sorted(corpus.epoch(0, 64, seed=1).rows.tolist()) == [0, 1, 2, 3]


def test_a_corpus_survives_being_opened_again(tmp_path: Path) -> None:
    pairs = some_pairs()
    first = write_corpus(pairs, *tokenisers(pairs), tmp_path / "corpus")
    assert is_corpus(tmp_path / "corpus")
    assert rows_of(Corpus(tmp_path / "corpus")) == rows_of(first)


def test_reading_many_batches_does_not_change_them(tmp_path: Path) -> None:
    pairs = some_pairs()
    corpus = write_corpus(pairs, *tokenisers(pairs), tmp_path / "corpus")
    first = corpus.batch([0, 1, 2]).source.values
    for _ in range(600):  # the pages are given back now and then
        again = corpus.batch([0, 1, 2]).source.values
    assert (first == again).all()


def test_a_corpus_that_another_run_made_meanwhile_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, made = some_pairs(), []
    first = write_corpus(pairs, *tokenisers(pairs), tmp_path / "corpus")
    known = corpora.is_corpus
    monkeypatch.setattr(corpora, "is_corpus", lambda folder: known(folder) if made else made.append(1))
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # so that the new one cannot take its place
    assert rows_of(write_corpus(pairs, *tokenisers(pairs), tmp_path / "corpus")) == rows_of(first)


def test_a_corpus_that_fails_while_it_is_written_leaves_nothing(tmp_path: Path) -> None:
    pairs = some_pairs()

    def breaking():
        yield from pairs
        raise UserError("bad row", "file:61", "mend it")

    with pytest.raises(UserError):
        write_corpus(breaking(), *tokenisers(pairs), tmp_path / "corpus")
    assert list(tmp_path.iterdir()) == []
    assert not is_corpus(tmp_path / "corpus")


@pytest.mark.parametrize("content", [None, "", "{", '{"format": 999}', "{}"])
def test_a_half_written_corpus_is_not_taken(tmp_path: Path, content: str | None) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "source.ids").write_bytes(b"\0\0")
    if content is not None:
        (folder / "corpus.json").write_text(content, encoding="utf-8")
    assert not is_corpus(folder)
    pairs = some_pairs()
    assert len(write_corpus(pairs, *tokenisers(pairs), folder)) == len(pairs)


def test_a_corpus_file_that_is_a_list_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "corpus.json").write_text("[]", encoding="utf-8")
    assert not is_corpus(tmp_path)


def test_a_corpus_whose_ids_are_cut_short_is_not_taken(tmp_path: Path) -> None:
    pairs = some_pairs()
    write_corpus(pairs, *tokenisers(pairs), tmp_path / "corpus")
    path = tmp_path / "corpus" / "source.ids"
    os.truncate(path, path.stat().st_size // 2)
    assert not is_corpus(tmp_path / "corpus")


def test_what_a_killed_process_of_the_same_number_left_does_not_stop_the_next(tmp_path: Path) -> None:
    """In a container the process numbers come again: the same one after a kill is the rule there."""
    left = tmp_path / f"corpus.{os.getpid()}.part"
    left.mkdir()
    (left / "source.ids").write_bytes(b"\0\0")
    pairs = some_pairs()
    assert len(write_corpus(pairs, *tokenisers(pairs), tmp_path / "corpus")) == len(pairs)


# prepare: the cache --------------------------------------------------------------------------------------------------


def everything(files: Files, root: Path) -> tuple[Prepared, Corpus]:
    made = Prepared(files, root=root)
    corpus = made.corpus(Sides(*made.tokenisers(CHARACTERS, CHARACTERS, shared=False)))
    assert made.valid
    made.repeats()
    return made, corpus


def place(pair: Pair) -> int:
    return shuffle_keys([pair.source])[0]


def fail(*_: object, **__: object) -> None:
    raise AssertionError("this was made before and should come from the cache")


def test_a_second_start_reads_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files((write_tsv(tmp_path / "a.tsv", some_pairs()),))
    first, corpus = everything(files, tmp_path / "cache")
    for name in ("scan", "write_blocks", "learn", "learn_counted"):
        monkeypatch.setattr(prepare, name, fail)
    second, again = everything(files, tmp_path / "cache")
    assert rows_of(again) == rows_of(corpus)
    assert (second.survey, second.valid, second.notes) == (first.survey, first.valid, first.notes)


def test_a_first_start_reads_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def counting(path: str, **how: Any) -> Any:
        opened.append(Path(path).name)
        return files.opened(path, **how)

    monkeypatch.setattr("weft.data.pairs.opened", counting)
    monkeypatch.setattr("weft.data.pairs.hash_file", fail)
    monkeypatch.setattr("weft.data.prepare.fingerprint", fail)
    paths = [write_tsv(tmp_path / name, some_pairs(seed=len(name))) for name in ("a.tsv", "bb.tsv", "valid.tsv")]
    made, _ = everything(Files((paths[0], paths[1]), (paths[2],)), tmp_path / "cache")
    assert opened == ["valid.tsv", "a.tsv", "bb.tsv"]
    assert made.fingerprint == files.fingerprint(paths[:2])
    assert made.valid_fingerprint == files.fingerprint(paths[2:])


def test_another_file_of_the_same_size_is_not_taken_for_the_first(tmp_path: Path) -> None:
    pairs = [Pair(f"a{n:03}", f"b{n:03}") for n in range(60)]
    other = [replace(pair, target=pair.target.replace("b", "c")) for pair in pairs]
    one, two = (Files((write_tsv(tmp_path / name, rows),)) for name, rows in (("a.tsv", pairs), ("b.tsv", other)))
    first, second = (Prepared(each, root=tmp_path / "cache") for each in (one, two))
    assert first.folder != second.folder
    assert {pair.target[0] for pair in second.training()} == {"c"}
    assert Prepared(one, root=tmp_path / "cache").folder == first.folder


def test_a_scan_that_stops_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\n" * 9000 + "c\n", encoding="utf-8")
    with pytest.raises(UserError, match="this row has 1 column"):
        Prepared(Files((str(path),)), root=tmp_path / "cache").folder  # noqa: B018
    assert list((tmp_path / "cache" / "corpora").iterdir()) == []


def test_pairs_come_back_from_the_spool_as_they_were(tmp_path: Path) -> None:
    pairs = [
        Pair(
            f"s\u00e9\n{n}\t",
            f"\U0001f600 {n}",
            "en" if n % 7 == 0 else "",
            ("V", "P;L") if n % 5 == 0 else (),
            ("x", "y") if n % 11 == 0 else (),
        )
        for n in range(2 * ROWS + 100)
    ]
    path = tmp_path / "spool"
    with path.open("wb") as file:
        for block in blocks_of(pairs):
            write_block(file, block, shuffle_keys(block.sources))
    read = list(read_blocks(path))
    assert [pair for block, _, _ in read for pair in block.pairs()] == pairs
    assert [place for _, places, _ in read for place in places.tolist()] == list(map(place, pairs))
    assert read[-1][2] == 1.0
    assert max(len(block) for block, _, _ in read) == ROWS


@pytest.mark.parametrize("kind", ["characters", "parts", "words", "bytes", "bpe"])
@pytest.mark.parametrize("backward", [False, True])
def test_flat_ids_are_those_of_each_text(kind: str, backward: bool) -> None:
    texts = ["abc", "\u00e9a\u0436", "", "b a  c", "\U0001f600\ud55c", "\u0301a"]
    tokens = learn(kind, 400, [*texts[:4], "\ud55c"] * 3, ("<en>",)).written(backward)
    ids, lengths = tokens.encode_flat(texts)
    rows = tokens.encode_all(texts)
    assert lengths.tolist() == list(map(len, rows))
    assert ids.tolist() == [i for row in rows for i in row]


def test_counts_of_characters_teach_the_same_symbols_as_texts() -> None:
    texts = ["abc\u00e9", "\ud55c\uae00 a", "a\u0323\u0302\u0301", "\u1ed9"]
    for kind in COUNTED:
        counts = Counter(character for text in texts for character in text)
        assert learn_counted(kind, counts, ("<x>",)).to_json() == learn(kind, 0, texts, ("<x>",)).to_json()


def test_the_alphabet_of_subwords_is_that_of_the_training_sources(tmp_path: Path) -> None:
    pairs = [Pair(f"ab{n}", f"xy{n}") for n in range(60)]
    made = Prepared(Files((write_tsv(tmp_path / "a.tsv", pairs),)), root=tmp_path / "cache")
    source, _ = made.tokenisers(("bpe", 300), ("bpe", 300), shared=False)
    assert source.alphabet == "0123456789ab"
    assert source.unknown_share([Pair("ab\u0436\u0436")]).share == 0.5


def test_the_cache_knows_a_file_by_what_it_holds_not_by_its_name(tmp_path: Path) -> None:
    one, two = (Files((write_tsv(tmp_path / name, some_pairs()),)) for name in ("a.tsv", "b.tsv"))
    assert Prepared(one, root=tmp_path / "cache").folder == Prepared(two, root=tmp_path / "cache").folder


def test_what_the_cache_knows_speaks_of_the_file_that_was_given(tmp_path: Path) -> None:
    rows = Path(write_tsv(tmp_path / "before.tsv", some_pairs())).read_text(encoding="utf-8") + "one column\n"
    paths = [tmp_path / name for name in ("before.tsv", "after.tsv")]
    for path in paths:
        path.write_text(rows, encoding="utf-8")
        read = Prepared(Files((str(path),), on_bad_line="skip"), root=tmp_path / "cache")
        report = read.scan.report
        assert [text.split(":")[0] for text in (*read.columns, *report.bad)] == [str(path)] * 2
        assert f"the first is {path}:{report.rows + 1}: " in " ".join(read.notes)
        assert "before.tsv" not in " ".join(read.notes) or path == paths[0]


def test_changed_data_or_settings_are_read_anew(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    path = write_tsv(tmp_path / "a.tsv", some_pairs())
    valid = write_tsv(tmp_path / "v.tsv", some_pairs(5, seed=2))
    asked = [
        Files((path,)),
        Files((path,), (valid,)),
        Files((path,), columns=Columns(2, 1)),
        Files((path,), on_bad_line="skip"),
        Files((path,), longest=100),
        Files((path,), hold_out=0.2),
    ]
    folders = [Prepared(files, root=root).folder for files in asked]
    write_tsv(tmp_path / "a.tsv", some_pairs(61))
    folders.append(Prepared(Files((path,)), root=root).folder)
    assert len(set(folders)) == len(folders)


def test_a_file_of_another_format_with_the_same_bytes_is_read_anew(tmp_path: Path) -> None:
    text = "".join(f'"a{i},b"\t"c{i},d"\n' for i in range(20))
    folders = []
    for name in ("a.tsv", "a.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        folders.append(Prepared(Files((str(tmp_path / name),)), root=tmp_path / "cache").folder)
    assert folders[0] != folders[1]


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "here"))
    assert cache_root() == tmp_path / "here"
    assert Prepared(Files((write_tsv(tmp_path / "a.tsv", some_pairs()),))).folder.is_relative_to(tmp_path / "here")
    monkeypatch.delenv("WEFT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "weft"


def test_what_was_not_used_for_a_month_is_dropped_and_what_is_used_stays(tmp_path: Path) -> None:
    files = Files((write_tsv(tmp_path / "a.tsv", some_pairs()),))
    used = Prepared(files, root=tmp_path / "cache").folder
    other = Prepared(Files(files.pairs, hold_out=0.5), root=tmp_path / "cache").folder
    month_ago = time.time() - 31 * 86_400
    os.utime(other, (month_ago, month_ago))
    assert Prepared(files, root=tmp_path / "cache").folder == used
    assert used.is_dir()
    assert not other.exists()


def test_a_folder_that_is_not_of_the_cache_is_never_dropped(tmp_path: Path) -> None:
    """WEFT_CACHE=~ or WEFT_CACHE=/tmp must not cost anyone their files."""
    strange = tmp_path / "my photographs"
    strange.mkdir()
    month_ago = time.time() - 31 * 86_400
    os.utime(strange, (month_ago, month_ago))
    for name in ("a.tsv", "b.tsv"):  # the second finds the cache already there
        assert Prepared(Files((write_tsv(tmp_path / name, some_pairs(60 + len(name))),)), root=tmp_path).folder.is_dir()
    assert strange.is_dir()


# prepare: what is held out -----------------------------------------------------------------------------------------


def test_rows_held_out_are_not_in_training_and_share_no_source_with_it(tmp_path: Path) -> None:
    pairs = some_pairs(600, sources=150)  # every source four times
    made = Prepared(Files((write_tsv(tmp_path / "a.tsv", pairs),)), root=tmp_path / "cache")
    training = list(made.training())
    assert 0 < len(made.valid) <= 30
    assert not {p.source for p in made.valid} & {p.source for p in training}
    assert sorted([*made.valid, *training], key=repr) == sorted(pairs, key=repr)
    assert len(everything(made.files, tmp_path / "cache")[1]) == len(training)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_about_the_share_that_was_asked_for_is_held_out(share: float) -> None:
    found, kept = survey(some_pairs(1000), share)
    assert len(kept) == pytest.approx(share * 1000, abs=3)
    assert found.pairs == 1000


@pytest.mark.parametrize("seed", range(31))
def test_of_tokens_of_a_text_half_to_twice_the_share_is_held_out(seed: int) -> None:
    """Less only where the source at the border is more than that by itself: it is held out whole or not at all."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghij", k=6)) for _ in range(60)]
    rows = draw.choices(words, [1 / (2 + rank) for rank in range(1, 61)], k=1000)
    _, kept = survey([Pair(word, word) for word in rows], 0.05)
    first_left = min(set(rows) - {pair.source for pair in kept}, key=lambda word: place(Pair(word)))
    assert len(kept) < 100
    assert len(kept) >= 25 or rows.count(first_left) > 75


def standing_at(count: int, others: list[str]) -> str:
    """A source that stands after so many of the others."""
    names = (f"source {n}" for n in range(10_000))
    return next(name for name in names if sum(place(Pair(o)) < place(Pair(name)) for o in others) == count)


@pytest.mark.parametrize(("before", "times", "kept"), [(4, 15, 19), (4, 16, 4), (5, 15, 5), (0, 19, 19), (0, 20, 0)])
def test_a_frequent_source_at_the_border_is_held_out_if_little_else_would_be_and_it_is_not_too_much(
    before: int, times: int, kept: int
) -> None:
    others = [f"s{n}" for n in range(60)]
    rows = [Pair(source, "x") for source in [*others, *[standing_at(before, others)] * times]]
    found, aside = survey(rows, 0.1)  # which is ten, where none is frequent
    assert len(aside) == kept
    assert {pair.source for pair in aside} == {pair.source for pair in rows if place(pair) < found.hold_out_below}


@pytest.mark.parametrize(("before", "said"), [(1, "only 1 pair could"), (3, "only 3 pairs could"), (10, "")])
def test_that_little_could_be_held_out_is_told(before: int, said: str, tmp_path: Path) -> None:
    others = [f"s{n}" for n in range(20)]
    rows = [Pair(source, f"x{n}") for n, source in enumerate([*others, *[standing_at(before, others)] * 50])]
    path = write_tsv(tmp_path / "a.tsv", rows)
    made = Prepared(Files((path,)), root=tmp_path / "cache")
    assert len(made.valid) == before
    assert made.notes == ([f"{said} be held out for validation (use --valid to give a file with more)"] if said else [])
    given = Prepared(Files((path,), (write_tsv(tmp_path / "v.tsv", rows[:3]),)), root=tmp_path / "cache")
    assert not any("held out" in note for note in given.notes), "the user has said what to validate on"


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_side_that_is_always_the_same_is_told_unless_there_is_one_pair(side: str, tmp_path: Path) -> None:
    pairs = [replace(pair, **{side: "yes"}) for pair in some_pairs(60)]

    def notes(rows: list[Pair]) -> list[str]:
        return Prepared(Files((write_tsv(tmp_path / f"{len(rows)}.tsv", rows),)), root=tmp_path / "cache").notes

    said = f"every {side} is the same text: is --{side} the right column?"
    assert said in notes(pairs)
    assert said not in notes([*pairs, Pair("no", "no")])
    assert said not in notes(pairs[:1])


def test_no_more_than_a_thousand_rows_are_held_out() -> None:
    _, kept = survey((Pair(f"s{i}", "t") for i in range(30_000)), 0.5)
    assert len(kept) == LARGEST_HOLD_OUT


def test_what_is_held_out_does_not_depend_on_the_order_of_the_rows() -> None:
    pairs = some_pairs(500)
    shuffled = random.Random(3).sample(pairs, len(pairs))
    assert set(survey(pairs, 0.05)[1]) == set(survey(shuffled, 0.05)[1])


def test_what_is_held_out_is_nearly_the_same_when_a_row_is_added() -> None:
    pairs = some_pairs(500)
    before, after = set(survey(pairs, 0.05)[1]), set(survey([*pairs, Pair("one more", "x")], 0.05)[1])
    assert len(before ^ after) <= 2


def test_a_hold_out_of_nearly_all_rows_leaves_some_to_train_on() -> None:
    pairs = some_pairs(60)
    _, kept = survey(pairs, 0.99)
    assert len(kept) == pytest.approx(len(pairs) / 2, abs=3)


def test_with_fewer_than_fifty_pairs_nothing_is_held_out_and_then_at_least_ten() -> None:
    assert survey((Pair(f"s{i}", "t") for i in range(FEWEST_PAIRS - 1)), 0.05)[1] == []
    assert len(survey((Pair(f"s{i}", "t") for i in range(FEWEST_PAIRS)), 0.05)[1]) == SMALLEST_HOLD_OUT
    assert survey((Pair(f"s{i}", "t") for i in range(FEWEST_PAIRS)), 0)[1] == []


def test_with_few_pairs_validation_is_on_the_training_pairs_and_a_note_says_so(tmp_path: Path) -> None:
    pairs = some_pairs(6)
    made = Prepared(Files((write_tsv(tmp_path / "a.tsv", pairs),)), root=tmp_path / "cache")
    assert list(made.training()) == pairs
    assert made.valid == pairs
    assert made.notes == ["only 6 pairs: nothing is held out, so the run is validated on its training pairs"]


def test_the_note_about_nothing_held_out_does_not_blame_the_number_when_the_user_asked_for_it(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", some_pairs(500))
    notes = Prepared(Files((path,), hold_out=0), root=tmp_path / "cache").notes
    assert notes == ["nothing is held out, so the run is validated on its training pairs"]


def test_where_nothing_is_held_out_validation_is_on_some_of_many_training_pairs(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", some_pairs(2500))
    valid = Prepared(Files((path,), hold_out=0), root=tmp_path / "cache").valid
    assert valid == some_pairs(2500)[::3]
    assert len(valid) <= LARGEST_HOLD_OUT


def test_with_a_validation_file_nothing_is_held_out(tmp_path: Path) -> None:
    pairs, valid = some_pairs(100), some_pairs(7, seed=9)
    files = Files((write_tsv(tmp_path / "a.tsv", pairs),), (write_tsv(tmp_path / "v.tsv", valid),))
    made = Prepared(files, root=tmp_path / "cache")
    assert list(made.training()) == pairs
    assert made.valid == valid
    assert made.notes == []


def test_validation_pairs_that_are_training_pairs_too_are_counted(tmp_path: Path) -> None:
    pairs = some_pairs(100)
    valid = [*pairs[:4], pairs[0], Pair(pairs[5].source, "another target"), Pair("new", "new")]
    files = Files((write_tsv(tmp_path / "a.tsv", pairs),), (write_tsv(tmp_path / "v.tsv", valid),))
    assert Prepared(files, root=tmp_path / "cache").repeats() == 5


def test_skipped_rows_are_counted_in_a_note_with_the_first_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\nc\n" + "d\te\n" * 20 + "f\t\n\n", encoding="utf-8")
    notes = Prepared(Files((str(path),), on_bad_line="skip", hold_out=0.05), root=tmp_path / "cache").notes
    assert notes[0].startswith(f"bad training rows left out: 2; the first is {path}:2: ")
    assert notes[1] == "blank lines in the training data skipped: 1"


def test_reading_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[str, int, float]] = []
    files = Files((write_tsv(tmp_path / "a.tsv", some_pairs()),))
    made = Prepared(files, root=tmp_path / "cache", progress=lambda *state: told.append(state))
    made.corpus(Sides(*made.tokenisers(CHARACTERS, CHARACTERS, shared=False)))
    assert {doing for doing, _, _ in told} >= {"reading", "encoding"}
    assert told[-1][2] == 1.0


# pairs that are given in memory --------------------------------------------------------------------------------------


def test_pairs_given_in_memory_come_back_from_the_file_they_are_kept_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    pairs = [Pair("a\tb", "line\nbreak", tag="de", features=("V", "PST")), Pair('"', "\\", tag="fr", features=("N",))]
    path = keep_given(pairs)
    assert Path(path).is_relative_to(tmp_path)
    assert list(read_pairs([path], Columns("source", "target", "features", "tag"))) == pairs


def test_a_feature_with_a_space_is_one_and_what_could_not_be_read_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    pairs = [Pair("a", "b", features=("New York",)), Pair("c", "d", features=("Rome", "old town"))]
    assert list(read_pairs([keep_given(pairs)], Columns("source", "target", "features"))) == pairs
    for wrong in (Pair("a", "b", features=("x;y",)), Pair("a", "b", tag=" de"), Pair("a", "b", features=("",))):
        with pytest.raises(UserError, match="cannot be stored in a file unchanged") as caught:
            keep_given([*pairs, wrong])
        assert caught.value.where == "pair 3"


def test_the_same_pairs_are_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    assert keep_given(some_pairs()) == keep_given(some_pairs())
    assert keep_given(some_pairs()) != keep_given(some_pairs(seed=2))
    assert len(list((tmp_path / "given").iterdir())) == 2


def test_no_pairs_given_is_an_error_in_three_parts() -> None:
    with pytest.raises(UserError) as caught:
        keep_given([])
    assert (caught.value.what, caught.value.where) == ("no pairs are given", "the list of pairs")
    assert "at least one" in caught.value.todo


def test_a_survey_is_the_same_when_read_again(tmp_path: Path) -> None:
    found, _ = survey([Pair("ab cd", "x", tag="t", features=("F",)), Pair("ef", "ef")], 0)
    assert type(found).from_json(found.to_json()) == found
    assert found.marks == ("<+F>", "<t>")
    assert (found.source.longest, found.source.distinct_words) == (5, 3)
    assert json.loads(found.to_json())["pairs"] == 2


def test_target_symbols_are_counted_with_an_end_after_every_row(tmp_path: Path) -> None:
    pairs = [Pair("a", "xyx"), Pair("b", "y"), Pair("c", "")]
    source, target = (learn("characters", 0, texts) for texts in (["abc"], ["xy"]))
    counts = write_corpus(pairs, source, target, tmp_path / "corpus").target_counts(len(target))
    assert counts[target.encode("x")[0]] == 2
    assert counts[target.encode("y")[0]] == 2
    assert counts[END] == 3
