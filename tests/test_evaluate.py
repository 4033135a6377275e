"""weft evaluate row by row: --lines writes a row for each pair, --by splits the scores by a column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from commands import Weft, refused
from weft.api import Run
from weft.core.emissions import Choice
from weft.core.kinds import Batch
from weft.core.pair import Pair
from weft.learn.objectives import ctc_log_probs
from weft.score.metrics import table_of
from weft.search.ctc import scored

ROWS = [("abcd", "dcba", "x"), ("hgf", "fgh", "y"), ("abcd", "wrong", "x"), ("dd", "d\\d", "")]
PER_LINE = ["exact", "cer", "token_error_rate", "chrf", "rouge1", "rouge2", "rougeL"]


def table(path: Path, rows: list[tuple[str, str, str]] = ROWS) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_lines_are_a_table_of_outputs_scores_and_log_probabilities(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    done = weft("evaluate", tiny_run.path, table(tmp_path / "a.tsv"), "--lines", "lines.tsv")
    assert done.code == 0, done.err
    head, *rows = [line.split("\t") for line in (tmp_path / "lines.tsv").read_text(encoding="utf-8").splitlines()]
    assert head == ["source", "target", "output", *PER_LINE, "log_prob"]
    pairs = [Pair(source, target) for source, target, _ in ROWS]
    outputs = tiny_run.predict(pairs).texts
    assert [row[:3] for row in rows] == [[p.source, p.target, output] for p, output in zip(pairs, outputs)]
    for row, pair, output in zip(rows, pairs, outputs):
        scores = [table_of()[name].of_line(output, [pair.target]) for name in PER_LINE]
        assert [float(cell) for cell in row[3:-1]] == pytest.approx(scores, abs=1e-3)
        loss = tiny_run.predictor.teacher_forced([pair])["loss"]
        symbols = len(tiny_run.predictor.target.encode(pair.target)) + 1
        assert float(row[-1]) == pytest.approx(-loss * symbols, rel=1e-3)


def test_lines_that_end_in_jsonl_are_objects_with_every_reference(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    records = [{"source": "abcd", "target": ["dcba", "abcd"]}, {"source": "hg", "target": "gh"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    done = weft("evaluate", tiny_run.path, "a.jsonl", "--source", "source", "--target", "target", "--lines", "o.jsonl")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["target"] for row in rows] == [["dcba", "abcd"], "gh"]
    assert set(rows[0]) == {"source", "target", "output", *PER_LINE, "log_prob"}
    assert all(row["log_prob"] < 0 for row in rows)


def test_lines_breaks_and_tabs_do_not_break_the_table(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"source": "a\tb", "target": "a\nb"}) + "\n", encoding="utf-8")
    weft("evaluate", tiny_run.path, "a.jsonl", "--source", "source", "--target", "target", "--lines", "o.tsv")
    (row,) = (tmp_path / "o.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert row.split("\t")[:2] == ["a\\tb", "a\\nb"]


def test_a_file_for_lines_that_cannot_be_written_is_refused_before_the_run_is_loaded(
    weft: Weft, tmp_path: Path
) -> None:
    pairs = table(tmp_path / "a.tsv")
    refused(
        weft("evaluate", "no-run", pairs, "--lines", "nowhere/a.tsv"), "the folder 'nowhere' does not exist", "--lines"
    )
    refused(weft("evaluate", "no-run", pairs, "--lines", tmp_path), "this is a folder", "--lines")


def test_scores_by_a_column_are_those_of_its_rows(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    done = weft("evaluate", tiny_run.path, table(tmp_path / "a.tsv"), "--by", 3, "--json")
    found = json.loads(done.out)
    assert list(found["by"]) == ["", "x", "y"]
    assert [found["by"][value]["n"] for value in ("", "x", "y")] == [1, 2, 1]
    for value, scores in found["by"].items():
        alone = tiny_run.evaluate([Pair(s, t) for s, t, by in ROWS if by == value])
        assert {name: scores[name] for name in alone} == pytest.approx(dict(alone), abs=1e-3)
        assert scores["ter"] == scores["token_error_rate"]


def test_scores_by_a_column_are_shown_as_a_table(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    rows = [("source", "target", "kind"), *ROWS[:3]]
    done = weft("evaluate", tiny_run.path, table(tmp_path / "a.tsv", rows), "--by", "kind", "--target", "target")
    assert done.code == 0, done.err
    last = done.out.split("nrefs")[-1]
    assert "kind" in last
    assert [line.split()[:2] for line in last.splitlines() if line.split()[:1] in (["x"], ["y"])] == [
        ["x", "2"],
        ["y", "1"],
    ]


def test_a_column_that_is_not_there_is_refused_as_that_of_by(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    pairs = table(tmp_path / "a.tsv")
    for column in ("9", "kind"):
        done = weft("evaluate", tiny_run.path, pairs, "--by", column)
        assert done.code == 2
        assert "--by" in done.err
        assert "tag" not in done.err
    named = table(
        tmp_path / "named.tsv", [("source", "target", "direction", "language"), *[("ab", "ba", "x", "y")] * 9]
    )
    done = weft("evaluate", tiny_run.path, named, "--by", "nosuch")
    refused(done, "no column 'nosuch' (given with --by)", "choose from: source, target, direction, language")
    refused(weft("evaluate", tiny_run.path, "-", "--by", 3, stdin="a\tb\tc\n"), "read only once", "--by 3")


def test_a_tag_column_can_be_what_scores_are_split_by(weft: Weft, tmp_path: Path) -> None:
    rows = [("ab" * n, "ba" * n, "even" if n % 2 == 0 else "odd") for n in range(1, 21)]
    pairs = table(tmp_path / "a.tsv", rows)
    size = [part for side in ("encoder", "embed", "decoder") for part in ("--set", f"{side}.width=8")]
    assert weft("train", pairs, "--tag", 3, "--steps", 1, "--out", "run", *size).code == 0
    found = json.loads(weft("evaluate", "run", pairs, "--by", 3, "--json").out)
    assert {value: scores["n"] for value, scores in found["by"].items()} == {"even": 10, "odd": 10}


def test_the_log_probability_of_a_target_by_ctc_is_the_sum_over_its_alignments() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(3, 6, 9, generator=generator)
    targets = [[5, 6, 6], [], [5, 5, 5, 5]]
    batch = Batch.of([[4] * 5, [4] * 5, [4] * 2], targets)
    logs = ctc_log_probs(Choice(logits), batch)
    for row, (target, length) in enumerate(zip(targets, (6, 6, 3))):
        frames = torch.log_softmax(logits[row, :length], -1).double().numpy()
        assert float(logs[row]) == pytest.approx(scored(frames, tuple(target)).log_prob, abs=1e-4)
    assert logs[2] == -torch.inf


def test_scores_that_can_only_be_0_are_in_json_but_not_in_tables(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", ROWS[:3])
    done = weft("evaluate", tiny_run.path, path)
    assert ("bleu" in done.out, "rouge2" in done.out, "chrf" in done.out) == (False, False, True)
    found = json.loads(weft("evaluate", tiny_run.path, path, "--json").out)
    assert (found["bleu"], found["not_applicable"]) == (0, ["bleu", "rouge2"])
    card = (tiny_run.path / "README.md").read_text(encoding="utf-8")
    assert ("| bleu |" in card, "| rouge2 |" in card, "| chrf |" in card) == (False, False, True)
    assert "bleu: `" not in card
