"""Running text: pieces and windows of a file, carried states, windows that overlap, continuations without an end."""

from __future__ import annotations

import io
import math
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from commands import Weft, refused
from processes import Started
from weft.api import Run, train
from weft.core.kinds import Batch, Column
from weft.core.pair import START, Pair
from weft.core.shapes import Nothing, Symbols
from weft.data.batches import too_long
from weft.data.corpus import write_corpus
from weft.data.files import File
from weft.data.pieces import PIECE, pieces
from weft.data.running import RandomOrder, RunningText, Streams
from weft.data.sides.nothing import NoColumn
from weft.data.text.tokens import learn
from weft.learn.running import BEFORE, LONG, running_scores
from weft.nn.assemble import assemble
from weft.nn.model import LanguageModel
from weft.runs.report import Quiet
from weft.search.decode import SearchPlan, decode
from weft.search.endless import Endless
from weft.search.rules import Rules
from weft.settings import compose

SMALL = {"decoder.width": 16, "embed.width": 16, "train.rate": 0.02, "train.evaluations": 2, "train.window": 20}
TRANSFORMER = {"decoder.kind": "transformer", "decoder.layers": 1, "decoder.heads": 2, "decoder.inner": 32}
FAMILIES: dict[str, dict[str, Any]] = {"lstm": {"decoder.layers": 2}, "gru": {"decoder.cell": "gru"}}
FAMILIES["transformer"] = {**TRANSFORMER, "embed.positions": "rotary"}
VOCABULARY = 9


def prose(words: int, seed: int = 1) -> str:
    draw = random.Random(seed)
    return "".join(draw.choice(["the ", "cat ", "sat.\n", "\n", "a\t", "mat "]) for _ in range(words))


def opened(text: str) -> File:
    raw = io.BytesIO(text.encode())
    return File("book.txt", "book.txt", io.BufferedReader(raw), raw, len(text))  # type: ignore[arg-type]


def build(name: str, width: int = 16) -> LanguageModel[Any]:
    torch.manual_seed(1)
    settings = {"task": "language-model", "decoder.width": width, "embed.width": width, **FAMILIES[name]}
    model = assemble(compose(("flag", settings)).spec, Nothing(), Symbols(VOCABULARY, ended=False))
    assert isinstance(model, LanguageModel)
    return model.eval()


def text_of(folder: Path, text: str, window: int, carried: bool) -> RunningText:
    parts = [part for _, part in pieces(opened(text))]
    target = learn("characters", 0, parts)
    corpus = write_corpus([Pair("", part) for part in parts], NoColumn(window, carried), target, folder)
    return RunningText(corpus.folder, window, carried)


# reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [prose(3000), "x" * 5000, "", "one", "\n\n\n" * 2000, "ß" * 70_000 + "\nend"])
@pytest.mark.parametrize("by_line", [False, True])
def test_every_character_is_in_one_piece_and_no_piece_is_long(text: str, by_line: bool) -> None:
    parts = [part for _, part in pieces(opened(text), by_line)]
    assert "".join(parts) == text
    assert all(0 < len(part) <= PIECE for part in parts)
    if by_line:
        assert all("\n" not in part[:-1] for part in parts)


def test_pieces_end_after_a_line_and_know_where_they_begin() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    for line, part in pieces(opened(text)):
        assert part.startswith(f"line {line - 1}\n")
        assert part.endswith("\n")


@pytest.mark.parametrize("carried", [True, False])
def test_an_epoch_reads_every_token_once(carried: bool, tmp_path: Path) -> None:
    text = text_of(tmp_path / "corpus", prose(900), 32, carried)
    for epoch in range(2):
        plan = text.epoch(epoch, 128, seed=1)
        windows = np.concatenate([plan[number] for number in range(len(plan))])
        read = np.concatenate([np.arange(begin, end) for begin, end, _ in windows])
        assert len(set(read.tolist())) == len(read)
        assert len(read) > text.tokens - 32 - 4  # but those before the random offset, and a rest of the streams


def test_carried_windows_go_on_where_those_before_ended(tmp_path: Path) -> None:
    text = text_of(tmp_path / "corpus", prose(900), 32, carried=True)
    plan = text.epoch(0, 128, seed=1)
    batches = [text.batch(plan[number]) for number in range(len(plan))]
    assert batches[0].given.values[:, 0].tolist() == [START] * 4
    for before, after in pairwise(batches):
        assert torch.equal(after.given.values[:, 0], before.wanted.values[:, -1])
        assert torch.equal(after.given.values[:, 1:], after.wanted.values[:, :-1])


def test_many_windows_are_put_into_random_order_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = RandomOrder(100, np.random.default_rng(1))
    assert whole[0:100].tolist() == np.random.default_rng(1).permutation(100).tolist()
    monkeypatch.setattr("weft.data.running.TOGETHER", 16)
    grouped = RandomOrder(100, np.random.default_rng(1))
    order = np.concatenate([grouped[first : first + 7] for first in range(0, 100, 7)])
    assert sorted(order.tolist()) == list(range(100))
    assert order.tolist() != sorted(order.tolist())
    assert np.array_equal(grouped[20:30], order[20:30])
    for first in range(0, 100, 16):
        assert len(set(order[first : first + 16] // 16)) == 1


def test_the_plan_of_a_text_of_billions_of_symbols_takes_no_memory() -> None:
    length = 10**8
    plan = Streams(length * np.arange(32), length, 64)
    assert len(plan) == 10**8 // 64
    assert plan[1][1].tolist() == [length + 64, length + 128, 1]
    assert plan[len(plan) - 1][0].tolist() == [length - 64, length, 1]
    lengths = np.broadcast_to(np.int32(64), 10**7)
    assert too_long(np.broadcast_to(np.int32(0), 10**7), lengths, 63) == 10**7
    assert too_long(np.broadcast_to(np.int32(0), 10**7), lengths, 64) == 0


# models ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_windows_with_a_carried_state_equal_the_whole_text(name: str) -> None:
    model, ids = build(name), torch.randint(4, VOCABULARY, (2, 30))
    whole = Batch.between(Column.of_nothing(2), Column(ids, torch.ones(2, 30, dtype=torch.bool)))
    expected, state, outs = model.decode(whole)[0], None, []
    for first in range(0, 30, 7):
        part = Column(ids[:, first : first + 7], torch.ones_like(ids[:, first : first + 7], dtype=torch.bool))
        batch = Batch.between(Column.of_nothing(2), part)
        batch = batch.begun_with(ids[:, first - 1].tolist()) if first else batch
        out, _, after = model.decode_from(batch, state)
        outs.append(out)
        state = after.detached()
    torch.testing.assert_close(torch.cat(outs, dim=1), expected)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_token_of_a_text_is_scored_once_in_windows_that_overlap(name: str) -> None:
    model, draw, running = build(name), np.random.default_rng(1), NoColumn(16, carried=name != "transformer")
    length, before = (LONG, BEFORE) if running.carried else (16, 8)
    tokens = draw.integers(4, VOCABULARY, size=2 * length + 3)
    rows = np.split(tokens, [5, 6, len(tokens) - 2])
    scores = running_scores([model], rows, running, torch.device("cpu"))
    assert [len(row) for row in scores] == [len(row) for row in rows]
    flat = [score for row in scores for score in row]
    second = tokens[length - before : 2 * length - before]  # the second window, of which the end is scored
    for begin, window, first in ((0, tokens[:length], 0), (length - before, second, before)):
        batch = Batch.between(Column.of_nothing(1), Column.of_labels([window]))
        expected = -model(batch).nll(batch.wanted)[0, first:]
        torch.testing.assert_close(torch.tensor(flat[begin + first : begin + length]), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_continuation_is_as_long_as_asked_and_alone_as_in_a_batch(name: str) -> None:
    model = Endless(build(name), 8 if name == "transformer" else 0)
    prompts = [[4, 5], [], [6, 7, 8, 4, 5, 6, 7, 8, 4, 5, 6], [8, 4]]
    for kind, more in (("greedy", {}), ("beam", {"width": 3}), ("sample", {"nbest": 2})):
        rules = Rules(endless=True)
        plan = SearchPlan(kind=kind, continues=True, length=21, rules=rules, **more)  # type: ignore[arg-type]
        together = decode(model, prompts, plan, torch.device("cpu"))
        for line, prompt in enumerate(prompts):
            alone = decode(model, [prompt], plan, torch.device("cpu"), lines=[line])[0]
            assert [h.ids for h in alone] == [h.ids for h in together[line]]
            assert all(len(h.ids) == 21 and h.token_scores[-1] == 0 for h in alone)


def test_a_transformer_sees_the_end_of_a_prompt_that_is_longer_than_its_window() -> None:
    model, plan = build("transformer"), SearchPlan(kind="greedy", continues=True, length=3, rules=Rules(endless=True))
    long = [4, 5, 6, 7, 8, 4, 5, 6, 7, 8, 4, 5, 6]
    whole, end = (decode(Endless(model, 8), [ids], plan, torch.device("cpu"))[0][0] for ids in (long, long[-5:]))
    assert whole.ids == end.ids


# runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text(prose(20_000), encoding="utf-8")
    return path


def trained(book: Path, name: str, steps: int = 30, **more: Any) -> Run:
    settings = {**SMALL, "train.dropout": 0, **more}
    out = book.with_name(name)
    return train(book, task="language-model", out=out, steps=steps, settings=settings, reporter=Quiet(), seed=1)


def test_data_shows_a_book_in_pieces_with_escaped_line_breaks(book: Path, weft: Weft) -> None:
    done = weft("data", book, "--task", "language-model")
    assert done.code == 0, done.err
    assert ("Columns:" in done.out, "pair" in done.out, "→" in done.out) == (False, False, False)
    begin = done.lines.index("as the model reads them, with spaces between tokens:")
    assert all(line.startswith("  ") for line in done.lines[begin + 1 :])
    assert any("\\n" in line for line in done.lines[begin + 1 :])


def test_a_book_is_learned_scored_and_continued(book: Path, weft: Weft, tmp_path: Path) -> None:
    run = trained(book, "run")
    scores = run.evaluate(book)
    assert scores["characters"] == scores["symbols"] == len(book.read_text())
    assert scores["bits_per_character"] == pytest.approx(scores["loss"] / math.log(2))
    assert scores["bits_per_character"] < 2.5
    file, prompts = tmp_path / "lines.tsv", tmp_path / "prompts.txt"
    assert weft("evaluate", run.path, book, "--lines", file).code == 0
    assert len(file.read_text().splitlines()) == book.read_text().count("\n") + 1 + (
        not book.read_text().endswith("\n")
    )
    prompts.write_text("the cat\n\n" + "a mat " * 50 + "\n", encoding="utf-8")
    outputs = weft("predict", run.path, prompts, "--length", "30").lines
    assert [len(line.replace("\\n", "n").replace("\\t", "t")) for line in outputs] == [30] * 3


def test_the_end_of_the_text_is_held_out(book: Path) -> None:
    run = trained(book, "held", steps=1)
    count = run.folder.read_facts()["kept_aside"]
    assert count >= 3
    parts = [part for _, part in pieces(opened(book.read_text()))]
    learned = run.folder.read_facts()["training_pairs"]
    assert learned == len(parts) - count


@pytest.mark.parametrize("tokens", ["bytes", "bpe"])
def test_other_tokens_have_the_same_characters(tokens: str, book: Path) -> None:
    run = trained(book, tokens, steps=2, **{"target.tokens": tokens, "target.size": 300})
    scores = run.evaluate(book)
    assert scores["characters"] == len(book.read_text())
    assert run.predict(["the "], search={"kind": "greedy", "length": 4}).texts[0]


@pytest.mark.parametrize("family", [{}, TRANSFORMER], ids=["recurrent", "transformer"])
def test_a_run_that_is_killed_and_resumed_carries_its_state_on(
    family: dict[str, Any], book: Path, tmp_path: Path
) -> None:
    settings = {**SMALL, **family, "train.evaluations": 20, "train.batch_tokens": 80}
    flags = [f"--set={key}={value}" for key, value in settings.items()]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = Started(
        tmp_path / "streams", "train", book, "--task", "language-model", "--out", killed, "--steps", 300, *flags,
        OMP_NUM_THREADS=str(torch.get_num_threads()),
    )  # fmt: skip
    process.wait_for(lambda: any((killed / "checkpoints").glob("step-*")))
    process.kill()
    assert not (killed / "README.md").exists(), "the run was over before it was killed: make it longer"
    train(out=killed, resume=True, reporter=Quiet())
    train(book, task="language-model", out=whole, steps=300, settings=settings, reporter=Quiet())
    ours, theirs = (load_file(folder / "last" / "weights.safetensors") for folder in (killed, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_run_killed_while_a_link_was_changed_can_be_resumed(book: Path) -> None:
    run = trained(book, "linked", steps=2)
    (run.path / ".best.part").symlink_to((run.path / "best").readlink())
    train(out=run.path, resume=True, reporter=Quiet())
    assert Run(run.path).predict(["the "], search={"length": 3}).texts[0]


# bad input ---------------------------------------------------------------------------------------------------------


def learn_from(weft: Weft, path: Path) -> Any:
    flags = [f"--set={key}={value}" for key, value in SMALL.items()]
    return weft("train", path, "--task", "language-model", "--steps", "2", "--out", path.with_suffix(".run"), *flags)


@pytest.mark.parametrize("content", [b"word", "Wörter und Sätze\n".encode("utf-16") * 3, b"x" * 30_000])
def test_texts_of_one_word_in_utf16_and_without_lines_are_learned(content: bytes, tmp_path: Path, weft: Weft) -> None:
    path = tmp_path / "book.txt"
    path.write_bytes(content)
    assert learn_from(weft, path).code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "the file is empty"), (b"a\x00b", "zero byte"), (b"abc \xff", "byte 5 (0xff) is not UTF-8")],
)
def test_what_is_no_text_is_refused(content: bytes, said: str, tmp_path: Path, weft: Weft) -> None:
    path = tmp_path / "book.txt"
    path.write_bytes(content)
    refused(learn_from(weft, path), said)


def test_a_text_and_a_table_do_not_go_together(book: Path, tmp_path: Path, weft: Weft) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("text\nabc\n", encoding="utf-8")
    done = weft("train", book, table, "--task", "language-model", "--steps", "1", "--out", tmp_path / "run")
    refused(done, "is running text", "data.lines=true")
