"""Starting from a run of another task or vocabulary (--init): what is taken, held still and refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file

from commands import Weft, refused
from test_going_on import Stopper, assert_same_run
from weft.api import Run, train
from weft.choose import Choices, choose
from weft.choose.numbers import NUMBERS
from weft.choose.pretraining import propose_pretraining
from weft.choose.timing import TimeBudget
from weft.core.errors import Interrupted, UserError
from weft.core.pair import MASK
from weft.data.prepare import Prepared
from weft.data.sides.text import SideSurvey
from weft.data.survey import Survey
from weft.data.text.tokens import joined, learn
from weft.learn.optimise import adamw, freeze, set_rate
from weft.runs.folder import RunFolder
from weft.runs.job import files_of
from weft.runs.report import Quiet
from weft.settings import compose

SMALL = {"encoder.width": 16, "embed.width": 16, "train.evaluations": 2}
WORDS = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]


class Notes(Quiet):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def lines(count: int, words: list[str], seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(3, 6))) for _ in range(count)]


def write_text(path: Path, words: list[str]) -> Path:
    path.write_text("\n".join(lines(120, words)) + "\n", encoding="utf-8")
    return path


def write_labels(path: Path, words: list[str]) -> Path:
    rows = [f"{line}\t{'yes' if line[0] in 'bd' else 'no'}" for line in lines(80, words, seed=2)]
    path.write_text("source\ttarget\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def write_pairs(path: Path) -> Path:
    rows = [f"{line}\t{' '.join(reversed(line.split()))}" for line in lines(80, WORDS, seed=3)]
    path.write_text("source\ttarget\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pretraining")


def pretrained(folder: Path, task: str, words: list[str], name: str, **more: Any) -> Run:
    text = write_text(folder / f"{name}.txt", words)
    settings = {**SMALL, "target.tokens": "words", "data.lines": True, **more}
    if task == "language-model":
        settings |= {"decoder.width": 16}
        del settings["encoder.width"]
    if task == "denoise":
        settings |= {"decoder.width": 16}
    return train(text, task=task, out=folder / name, steps=3, settings=settings, reporter=Quiet())


@pytest.fixture(scope="module")
def masked(folder: Path) -> Run:
    return pretrained(folder, "masked-lm", WORDS[:20], "masked")


def best(run: Run) -> dict[str, torch.Tensor]:
    return dict(load_file(run.path / "best" / "weights.safetensors"))


def fine_tuned(init: Run, table: Path, out: Path, task: str = "classify", **more: Any) -> tuple[Run, list[str]]:
    reporter = Notes()
    run = train(table, task=task, out=out, steps=3, init=init.path, settings=more, reporter=reporter)
    return run, [note for note in reporter.notes if note.startswith("--init")]


def test_a_classifier_takes_the_encoder_and_the_embeddings_of_known_words(
    masked: Run, folder: Path, tmp_path: Path
) -> None:
    labels = write_labels(folder / "labels.tsv", WORDS[5:])
    held = {"train.freeze": ["encoder", "embed"]}
    run, notes = fine_tuned(masked, labels, tmp_path / "run", **held)
    old, new = best(masked), best(run)
    for name in (name for name in old if name.startswith("encoder.")):
        assert torch.equal(old[name], new[name]), name  # taken, and not trained
    ours, theirs = run.predictor.source, masked.predictor.source
    assert set(ours.symbols) == set(WORDS)  # its tokens, and those that only the new data have
    table = "source_reader.table.weight"
    for word in WORDS[:20]:
        assert torch.equal(new[table][ours.encode(word)[0]], old[table][theirs.encode(word)[0]]), word
    assert notes == [
        f"--init {masked.path}: takes embeddings of 24 of 29 tokens, encoder",
        f"--init {masked.path}: starts the rest from random weights (head)",
    ]
    assert MASK not in ours.names
    assert RunFolder(run.path).read_choices()["origins"]["encoder.width"] == "init"


def test_what_is_taken_is_trained_on_unless_it_is_held_still(masked: Run, folder: Path, tmp_path: Path) -> None:
    labels = write_labels(folder / "labels.tsv", WORDS[5:])
    run, _ = fine_tuned(masked, labels, tmp_path / "run", **{"train.freeze": ["embed"]})
    old, new = best(masked), best(run)
    assert all(not torch.equal(old[name], new[name]) for name in old if name.startswith("encoder."))


def test_few_labels_do_not_change_embeddings_that_were_held_from_latent_directions(
    masked: Run, folder: Path, tmp_path: Path
) -> None:
    labels = write_labels(folder / "labels.tsv", WORDS[5:])
    latent = pretrained(folder, "masked-lm", WORDS[:20], "latent", **{"embed.latent": True, "train.freeze": ["embed"]})
    run, _ = fine_tuned(latent, labels, tmp_path / "run")
    assert run.spec.train.freeze == ("embed",)
    assert RunFolder(run.path).read_choices()["origins"]["train.freeze"] == "init"
    assert fine_tuned(latent, labels, tmp_path / "own", **{"train.freeze": []})[0].spec.train.freeze == ()
    assert fine_tuned(masked, labels, tmp_path / "other")[0].spec.train.freeze == ()


def test_a_model_of_pairs_takes_all_of_a_denoising_one(folder: Path, tmp_path: Path) -> None:
    denoising = pretrained(folder, "denoise", WORDS, "denoise")
    pairs = write_pairs(folder / "pairs.tsv")
    run, notes = fine_tuned(denoising, pairs, tmp_path / "run", "transduce", **{"train.freeze": ["encoder", "decoder"]})
    old, new = best(denoising), best(run)
    names = [name for name in old if name.startswith(("encoder.", "decoder."))]
    assert len(names) > 5
    assert all(torch.equal(old[name], new[name]) for name in names)
    assert run.spec.embed.shared
    assert run.predictor.source.symbols == run.predictor.target.symbols == denoising.predictor.target.symbols
    assert notes == [f"--init {denoising.path}: takes embeddings of 29 of 29 tokens, encoder, bridge, decoder, head"]


def test_a_classifier_takes_the_cells_of_a_language_model(folder: Path, tmp_path: Path) -> None:
    language = pretrained(folder, "language-model", WORDS, "language")
    labels = write_labels(folder / "labels.tsv", WORDS[5:])
    run, _ = fine_tuned(language, labels, tmp_path / "run", **{"train.freeze": ["encoder"]})
    old, new = best(language), best(run)
    assert run.spec.encoder.directions == "forward"
    assert torch.equal(old["decoder.stack.cells.0.hidden.weight"], new["encoder.reader.forwards.0.hidden.weight"])


def test_a_masked_model_goes_on_from_a_masked_model(masked: Run, folder: Path, tmp_path: Path) -> None:
    more = write_text(folder / "more.txt", WORDS[:20])
    run = train(
        more, task="masked-lm", out=tmp_path / "run", steps=2, init=masked.path, settings={"data.lines": True},
        reporter=Quiet(),
    )  # fmt: skip
    assert run.predictor.source.names == masked.predictor.source.names


def test_of_another_vocabulary_the_encoder_is_taken_and_no_embeddings(folder: Path, tmp_path: Path) -> None:
    greek = pretrained(folder, "masked-lm", ["αβ", "γδ", "εζ", "ηθ", "ικ"], "greek")
    run, notes = fine_tuned(greek, write_labels(folder / "labels.tsv", WORDS[5:]), tmp_path / "run")
    assert set(run.predictor.source.symbols) == set(WORDS[5:])
    assert notes == [
        f"--init {greek.path}: takes encoder",
        f"--init {greek.path}: starts the rest from random weights (embeddings, head)",
    ]


def test_what_the_user_sets_is_not_taken_from_the_other_run(masked: Run, folder: Path, tmp_path: Path) -> None:
    labels = write_labels(folder / "labels.tsv", WORDS[5:])
    run, notes = fine_tuned(masked, labels, tmp_path / "run", **{"encoder.width": 24})
    assert run.spec.encoder.width == 24
    assert notes[0].endswith("takes embeddings of 24 of 29 tokens")
    assert notes[1].endswith("starts the rest from random weights (encoder, head)")
    bag, notes = fine_tuned(masked, labels, tmp_path / "bag", **{"encoder.kind": "none"})
    assert bag.spec.encoder.kind == "none"
    assert notes[0].endswith("takes embeddings of 24 of 29 tokens")
    with pytest.raises(UserError, match="nothing of the run that --init names"):
        fine_tuned(masked, labels, tmp_path / "two", **{"encoder.width": 24, "source.tokens": "characters"})


def test_runs_that_share_nothing_or_are_still_training_are_refused(
    weft: Weft, masked: Run, folder: Path, tmp_path: Path
) -> None:
    tunes = tmp_path / "tunes.jsonl"
    tunes.write_text("".join(json.dumps({"notes": [[60, 64], [62], [60, 67]]}) + "\n" for _ in range(60)))
    small = {"decoder.width": 12, "embed.width": 12}
    music = train(tunes, task="language-model", out=tmp_path / "music", steps=1, settings=small, reporter=Quiet())
    labels = write_labels(folder / "labels.tsv", WORDS[5:])
    asked = ("train", labels, "--task", "classify", "--steps", "1", "--out", tmp_path / "out", "--init")
    refused(weft(*asked, music.path), "nothing of the run that --init names (--task language-model) fits")
    with RunFolder(masked.path).locked():
        refused(weft(*asked, masked.path), "is still being trained", "Ctrl-C")
    assert not (tmp_path / "out").exists()


def test_a_run_with_slow_and_held_parts_goes_on_to_the_same_end(masked: Run, folder: Path, tmp_path: Path) -> None:
    labels = write_labels(folder / "labels.tsv", WORDS[5:])
    settings = {"train.init_rate": 0.3, "train.freeze": ["embed"], "train.dropout": 0.3}

    def run(name: str, reporter: Quiet, resume: bool = False) -> None:
        more: dict[str, Any] = {"resume": True} if resume else {"init": masked.path}
        train(
            labels, task="classify", out=tmp_path / name, steps=20, settings=settings, reporter=reporter, **more
        )  # fmt: skip

    run("whole", Quiet())
    with pytest.raises(Interrupted):
        run("stopped", Stopper())
    run("stopped", Quiet(), resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


# the parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["characters", "words", "bytes", "bpe"])
def test_joined_tokenisers_know_what_both_know(kind: str) -> None:
    first, second = learn(kind, 300, ["ab bc ca"] * 9, (MASK,)), learn(kind, 300, ["ab cd de"] * 9, ("<en>",))
    both = joined(first, second)
    assert both.marks == ["<en>"]
    for text in ("ab bc ca", "ab cd de"):
        assert both.decode(both.encode(text)) == text
    assert joined(first, learn("parts", 0, ["xy"])).kind == "parts"  # of another kind: as it is


def test_taken_parameters_learn_at_their_own_rate() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    slow = set(model[1].parameters()) | set(model[0].parameters())
    optimiser = adamw(model, 0.01, 8.0, slow, 0.1)
    set_rate(optimiser, 0.01)
    rates = {id(p): group["lr"] for group in optimiser.param_groups for p in group["params"]}
    assert [rates[id(p)] for p in model.parameters()] == pytest.approx([0.008, 0.001, 0.001, 0.01, 0.01])
    assert len(adamw(model, 0.01, 8.0).param_groups) == 3  # as without --init


def test_a_model_of_which_nothing_learns_is_refused() -> None:
    model = torch.nn.ModuleDict({"encoder": torch.nn.Linear(2, 2), "head": torch.nn.Linear(2, 2)})
    with pytest.raises(UserError, match="nothing is learned"):
        freeze(model, ("encoder", "head"))
    with pytest.raises(UserError) as caught:
        compose(("flag", {"task": "classify", "train.freeze": ["decoder"]}))
    assert "there is no decoder" in caught.value.what


def proposed(rows: int, task: str, kind: str, seconds: float) -> list[str]:
    survey = Survey(rows, SideSurvey(mean=40, mean_words=8), SideSurvey(), kinds={"source": "text", "target": kind})
    choices, time = Choices(), cast(TimeBudget, SimpleNamespace(seconds=seconds))
    propose_pretraining(choices, survey, {"task": task}, time)
    return choices.notes


def test_pretraining_is_proposed_where_labels_are_few_and_there_is_time() -> None:
    note = proposed(500, "classify", "label", 300)[0]
    assert "few labels (500)" in note
    assert "--task masked-lm" in note
    assert "--task denoise" in proposed(500, "transduce", "text", 300)[0]
    assert proposed(5000, "classify", "label", 300) == []
    assert proposed(500, "classify", "label", 60) == []
    assert proposed(500, "language-model", "text", 300) == []


@pytest.mark.parametrize("task", ["masked-lm", "denoise"])
def test_the_autopilot_chooses_settings_that_go_together(task: str, folder: Path) -> None:
    path = str(write_text(folder / "auto.txt", WORDS))
    for lines_ in (True, False):
        requested = compose(("flag", {"task": task, "data.lines": lines_})).spec
        survey = Prepared(files_of(requested, [path], [])).survey
        chosen = choose(survey, {"task": task})
        spec = compose(("autopilot", chosen.layer), ("flag", {"task": task, "data.lines": lines_})).spec
        assert spec.train.members == 1
        assert spec.decoder.kind == ("none" if task == "masked-lm" else "recurrent")


@pytest.mark.parametrize(("words", "latent"), [(2_000, True), (NUMBERS.masked_words + 1, False)])
def test_masked_texts_are_split_into_words_where_these_are_not_too_many(words: int, latent: bool) -> None:
    side = SideSurvey(mean=90, longest=200, long=180, mean_words=16, distinct_words=words, mean_word=5, spaced=1.0)
    survey = Survey(5_000, SideSurvey(), side, kinds={"source": "none", "target": "text"})
    chosen = choose(survey, {"task": "masked-lm"})
    layer = chosen.layer
    assert not any("label" in why for key, _, why in chosen.reasons if key == "target.tokens")
    assert (layer["target"]["tokens"] == "words") is latent
    assert layer["embed"].get("latent", False) is latent
    assert layer["train"].get("freeze", []) == (["embed"] if latent else [])
    own = choose(survey, {"task": "masked-lm", "target": {"tokens": "bpe"}}).layer
    assert "latent" not in own["embed"]
