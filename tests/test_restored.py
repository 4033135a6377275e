"""Masked language models and denoising: how texts are corrupted, what restores them, and how that is scored."""

# B lines · S length · K hidden symbols · V symbols

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from commands import Weft, refused
from test_going_on import Stopper, assert_same_run
from variants import RESTORED, transformer
from weft.api import Run, load, train
from weft.core.batching import batch_of
from weft.core.errors import Interrupted, UserError
from weft.core.kinds import Batch, Column
from weft.core.pair import HIDDEN, MASK, UNKNOWN, Pair
from weft.core.shapes import Hidden, Shapes, Symbols
from weft.data.corrupt import Masking, Noising, generator, word_marks
from weft.data.sides.corrupted import Corrupted, HiddenSymbols
from weft.data.sides.sides import Sides
from weft.data.sides.table import side_from_json
from weft.data.text.tokens import learn
from weft.learn.objectives import CrossEntropy
from weft.nn.assemble import assemble
from weft.runs.report import Quiet
from weft.settings import Layer, compose

VOCABULARY = 14
MASKING = {"share": 0.15, "hidden": 0.8, "replaced": 0.1}
NOISING = {"spans": 0.15, "span": 3.0, "dropped": 0.1, "shuffled": 3.0}
SMALL = {"encoder.width": 24, "embed.width": 24, "train.rate": 0.02, "train.evaluations": 2, "train.dropout": 0}
masked = pytest.mark.parametrize("name", [name for name in RESTORED if name.startswith("masked")])
each = pytest.mark.parametrize("name", RESTORED)


# how texts are corrupted -------------------------------------------------------------------------------------------


def test_masking_is_a_function_of_seed_epoch_and_row() -> None:
    masking, ids = Masking(50, **MASKING), np.arange(5, 45)
    first = masking.source(ids, generator(1, 2, 3))
    assert (masking.source(ids, generator(1, 2, 3)) == first).all()
    for other in (generator(2, 2, 3), generator(1, 3, 3), generator(1, 2, 4)):
        assert (masking.source(ids, other) != first).any()


def test_masking_keeps_positions_and_asks_for_what_it_changed() -> None:
    masking, random_ids = Masking(50, **MASKING), np.random.default_rng(1)
    for row in range(50):
        ids = random_ids.integers(HIDDEN + 1, 50, random_ids.integers(1, 60))
        source, target = masking.source(ids, generator(1, 0, row)), masking.target(ids, generator(1, 0, row))
        assert len(source) == len(ids)
        assert len(target) == max(1, round(0.15 * len(ids)))
        assert (ids[target[:, 0]] == target[:, 1]).all()
        assert set(np.flatnonzero(source != ids)) <= set(target[:, 0])


def test_of_chosen_symbols_80_percent_are_hidden_10_replaced_and_10_left() -> None:
    masking, ids, ways = Masking(1000, **MASKING), np.arange(5, 905), Counter[str]()
    for row in range(100):
        source, target = masking.source(ids, generator(1, 0, row)), masking.target(ids, generator(1, 0, row))
        read = source[target[:, 0]]
        ways["hidden"] += int((read == HIDDEN).sum())
        ways["left"] += int((read == target[:, 1]).sum())
        ways["all"] += len(target)
    assert ways["all"] == 100 * 135
    assert ways["hidden"] / ways["all"] == pytest.approx(0.8, abs=0.02)
    assert ways["left"] / ways["all"] == pytest.approx(0.1, abs=0.01)


def test_unknown_symbols_are_not_asked_for_unless_there_are_no_others() -> None:
    masking = Masking(50, **{**MASKING, "share": 1.0})
    some = np.array([UNKNOWN, 7, UNKNOWN, 9])
    assert masking.target(some, generator(1, 1, 1)).tolist() == [[1, 7], [3, 9]]
    assert masking.target(np.array([UNKNOWN]), generator(1, 1, 1)).tolist() == [[0, UNKNOWN]]


def noising(text: str, **amounts: float) -> tuple[Noising, Any]:
    tokeniser = learn("characters", 0, [text], (MASK,))
    none = {"spans": 0.0, "span": 3.0, "dropped": 0.0, "shuffled": 0.0}
    return Noising(*word_marks(tokeniser.names, "characters"), **{**none, **amounts}), tokeniser


def test_words_are_dropped_and_shuffled_whole_and_move_few_places() -> None:
    text = " ".join(f"w{chr(97 + number)}" for number in range(20)) + " "
    noise, tokeniser = noising(text, dropped=0.3, shuffled=2.0)
    ids = np.array(tokeniser.encode(text))
    for row in range(30):
        words = tokeniser.decode(noise.source(ids, generator(1, 0, row))).split(" ")[:-1]
        assert set(words) <= set(text.split())
        kept = [word for word in text.split() if word in words]
        assert all(abs(words.index(word) - place) <= 2 for place, word in enumerate(kept))
    assert tokeniser.decode(noising(text)[0].source(ids, generator(1, 0, 0))) == text  # of nothing, nothing changes


def test_a_span_becomes_one_mask() -> None:
    text = "abcdefghijklmnopqrstuvwxyz"
    noise, tokeniser = noising(text, spans=0.5)
    ids, masks, left = np.array(tokeniser.encode(text)), 0, 0
    for row in range(200):
        source = noise.source(ids, generator(1, 0, row))
        assert not ((source[1:] == HIDDEN) & (source[:-1] == HIDDEN)).any()
        masks, left = masks + int((source == HIDDEN).sum()), left + int((source != HIDDEN).sum())
    assert 0.5 < left / (200 * 26) < 0.75  # spans may overlap
    assert masks < 200 * 26 * 0.5 / 2


@pytest.mark.parametrize("kind", ["characters", "bytes", "words", "bpe"])
def test_every_tokeniser_knows_where_words_begin(kind: str) -> None:
    text = "ab abc ba bac cab aab"
    tokeniser = learn(kind, 300, [text] * 9, (MASK,))
    noise = Noising(*word_marks(tokeniser.names, kind), spans=0.0, span=3.0, dropped=0.0, shuffled=9.0)
    shuffled = tokeniser.decode(noise.source(np.array(tokeniser.encode(text)), generator(1, 0, 0)))
    assert sorted(shuffled.replace(" ", "")) == sorted(text.replace(" ", ""))
    assert shuffled != text
    assert any(word in shuffled for word in ("abc", "bac", "cab"))


def test_sides_come_back_from_their_files_and_corrupt_alike() -> None:
    tokeniser = learn("words", 0, ["the cat sat on the mat"], (MASK,))
    sides = Sides(Corrupted("masked-lm", MASKING, running=True), HiddenSymbols(tokeniser))
    again = Sides(side_from_json(sides.source.to_json(), "s"), side_from_json(sides.target.to_json(), "t"))
    pairs = [Pair("", "the cat sat"), Pair("", "on the mat the cat"), Pair("", "the cat sat")]
    first, second = sides.encode(pairs), again.encode(pairs)
    assert first.source == second.source
    assert first.source[0] == first.source[2]  # the same text, wherever it stands
    assert [row.tolist() for row in first.target] == [row.tolist() for row in second.target]
    assert again.kinds.running == "passages"


# the model ---------------------------------------------------------------------------------------------------------


def build(tree: Layer, vocabulary: int = VOCABULARY) -> Any:
    torch.manual_seed(1)
    target = Hidden(vocabulary) if tree["task"] == "masked-lm" else Symbols(vocabulary)
    model = assemble(compose(("flag", tree)).spec, Symbols(vocabulary), target)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def rows(lengths: list[int], seed: int = 1) -> list[Any]:
    draw = random.Random(seed)
    return [np.array([draw.randrange(HIDDEN + 1, VOCABULARY) for _ in range(length)]) for length in lengths]


def batch(task: str, texts: list[Any]) -> Batch:
    if task == "denoise":
        return Batch.of([text[::-1] for text in texts], texts)
    masking = Masking(VOCABULARY, 0.4, 0.8, 0.1)
    sources = [masking.source(text, generator(1, 0, len(text))) for text in texts]
    targets = [masking.target(text, generator(1, 0, len(text))) for text in texts]
    return batch_of(sources, targets, None, Shapes(Symbols(VOCABULARY), Hidden(VOCABULARY)))


@each
def test_padding_and_batch_mates_change_no_prediction(name: str) -> None:
    model, texts, task = build(RESTORED[name]), rows([3, 9, 1, 6]), RESTORED[name]["task"]
    together = model(batch(task, texts)).logits
    for number, text in enumerate(texts):
        alone = model(batch(task, [text])).logits[0]
        torch.testing.assert_close(together[number, : len(alone)], alone, atol=2e-5, rtol=1e-4)


@each
def test_every_parameter_gets_a_gradient_and_one_table_serves_both_sides(name: str) -> None:
    model = build(RESTORED[name]).double()
    learned = batch(RESTORED[name]["task"], rows([8] * 12))
    CrossEntropy()(model(learned), learned).total.backward()
    silent = [key for key, p in model.named_parameters() if p.grad is None or float(p.grad.abs().amax()) < 1e-12]
    assert [key for key in silent if not key.endswith("key.bias")] == []  # a softmax does not see a key's bias
    assert sum(key.endswith("table.weight") for key, _ in model.named_parameters()) == 1


@masked
def test_a_hidden_symbol_is_found_from_both_sides_and_never_seen(name: str) -> None:
    model, text = build(RESTORED[name]), [5, 6, HIDDEN, 8, 9]
    at = Column(torch.tensor([[2]]), torch.ones(1, 1, dtype=torch.bool))

    def logits(*ids: int) -> torch.Tensor:
        return model(Batch(Column.of_ids([list(ids)]), at, at)).logits

    usual = logits(*text)
    assert (logits(7, 6, HIDDEN, 8, 9) - usual).abs().amax() > 1e-5  # from the left
    assert (logits(5, 6, HIDDEN, 8, 7) - usual).abs().amax() > 1e-5  # from the right


def test_where_positions_are_hidden_too_all_hidden_places_get_the_same_answer() -> None:
    tree: Layer = {**RESTORED["masked-transformer-tied"], "encoder": transformer(layers=2)}
    lines = Column.of_ids([[5, HIDDEN, 7, HIDDEN, 9, HIDDEN]])
    everywhere = Column(torch.tensor([[1, 3, 5]]), torch.ones(1, 3, dtype=torch.bool))
    for positions in ("sinusoid", "learned"):
        part = {**tree, "embed": {"width": 16, "positions": positions}}
        kept = build(part)(Batch(lines, everywhere, everywhere)).log_probs[0]
        hidden = build({**part, "corrupt": {"positions": "hidden"}})(Batch(lines, everywhere, everywhere)).log_probs[0]
        torch.testing.assert_close(hidden[0], hidden[1])
        torch.testing.assert_close(hidden[0], hidden[2])
        assert min((kept[0] - kept[1]).abs().amax(), (kept[1] - kept[2]).abs().amax()) > 1e-3


# runs --------------------------------------------------------------------------------------------------------------

LETTERS = "abcdefgh"


def write_lines(path: Path, count: int = 150) -> Path:
    """Write lines in which each symbol follows from its neighbours: words that count upwards from a letter."""
    draw = random.Random(1)
    lines = [" ".join(LETTERS[(first := draw.randrange(4)) : first + draw.randint(3, 5)]) for _ in range(count)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def trained(text: Path, name: str, task: str = "masked-lm", steps: int = 120, **more: Any) -> Run:
    settings = {**SMALL, "target.tokens": "words", "data.lines": True, **more}
    if task == "denoise":
        settings |= {"decoder.width": 24, "corrupt.shuffled": 0, "corrupt.dropped": 0.05}
    out = text.with_name(name)
    return train(text, task=task, out=out, steps=steps, settings=settings, reporter=Quiet(), seed=1)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("restored") / "lines.txt")


@pytest.fixture(scope="module")
def masked_run(text: Path) -> Run:
    return trained(text, "masked")


@pytest.fixture(scope="module")
def denoise_run(text: Path) -> Run:
    return trained(text, "denoise", "denoise", steps=200)


def test_a_masked_language_model_finds_hidden_symbols(masked_run: Run, text: Path) -> None:
    outputs = masked_run.predict([f"a {MASK} c", f"{MASK} d e", f"b c {MASK} e", "a b", ""])
    assert outputs.texts == ["b", "c", "d", "", ""]
    assert outputs[0].outputs[0].tokens == ("b",)
    assert outputs[0].outputs[0].probability > 0.5
    scores = masked_run.evaluate(text)
    assert scores["accuracy"] > 70
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"]))


def test_the_best_of_several_hidden_symbols_are_combined(masked_run: Run) -> None:
    best = masked_run.predict([f"{MASK} b {MASK}"], nbest=4)[0].outputs
    assert len({output.text for output in best}) == 4
    assert [o.score for o in best] == sorted((o.score for o in best), reverse=True)
    assert all(output.log_prob == pytest.approx(sum(output.token_scores)) for output in best)


def test_denoising_restores_a_line(denoise_run: Run, text: Path) -> None:
    assert denoise_run.predict([f"b {MASK} d e", f"c {MASK} e f"]).texts == ["b c d e", "c d e f"]
    assert denoise_run.evaluate(text)["exact"] > 40


def test_the_card_of_a_denoiser_shows_corrupted_lines_and_what_it_writes(text: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "decoder.width": 16, "data.lines": True, "corrupt.spans": 0.5, "target.tokens": "words"}
    run = train(text, task="denoise", out=tmp_path / "run", steps=2, settings=settings, reporter=Quiet())
    card = (run.path / "README.md").read_text(encoding="utf-8")
    assert "Prompts from" not in card
    rows = card.partition("| corrupted text | output | original |\n|---|---|---|\n")[2].partition("\n\n")[0]
    assert len(rows.splitlines()) == 6
    assert any(MASK in row.split(" | ")[0] for row in rows.splitlines())


def test_a_prediction_does_not_depend_on_the_other_lines(masked_run: Run) -> None:
    lines = [f"a {MASK} c", f"{MASK} d e", f"b c {MASK} e {MASK}", f"{MASK}"]
    together = masked_run.predict(lines, nbest=3)
    for line, prediction in zip(lines, together):
        alone = masked_run.predict([line], nbest=3)[0]
        assert [(o.text, o.score) for o in alone.outputs] == [(o.text, o.score) for o in prediction.outputs]


def test_an_evaluation_does_not_depend_on_the_order_of_lines(masked_run: Run, text: Path, tmp_path: Path) -> None:
    lines = text.read_text(encoding="utf-8").splitlines()
    (tmp_path / "turned.txt").write_text("\n".join(lines[::-1]) + "\n", encoding="utf-8")
    turned = masked_run.evaluate(tmp_path / "turned.txt")
    assert dict(masked_run.evaluate(text)) == pytest.approx(dict(turned), rel=1e-5)


@pytest.mark.parametrize("task", ["masked-lm", "denoise"])
def test_a_stopped_run_goes_on_to_the_same_end(task: str, text: Path, tmp_path: Path) -> None:
    decoder = {"decoder.width": 16} if task == "denoise" else {}
    settings = {**SMALL, **decoder, "encoder.width": 16, "train.dropout": 0.3, "data.lines": True}

    def run(name: str, reporter: Quiet, resume: bool = False) -> None:
        out = tmp_path / name
        train(text, task=task, out=out, steps=20, settings=settings, reporter=reporter, resume=resume)

    run("whole", Quiet())
    with pytest.raises(Interrupted):
        run("stopped", Stopper())
    run("stopped", Quiet(), resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_running_text_is_read_in_passages(tmp_path: Path) -> None:
    prose = tmp_path / "prose"
    prose.write_text("\n\n".join(f"Part {n}.\tIt begins here, and it goes on and on." for n in range(120)))
    run = train(prose, task="masked-lm", out=tmp_path / "run", steps=2, settings=SMALL, reporter=Quiet())
    rows = json.loads((tmp_path / "run" / "data.json").read_text())["training_pairs"]
    assert rows == pytest.approx(prose.stat().st_size / 250, rel=0.2)
    ids = run.predictor.source.encode("here.\n\nPart")
    assert run.predictor.source.decode(ids) == "here.\n\nPart"  # newlines are data


def test_a_folder_says_how_to_write_what_is_hidden(masked_run: Run) -> None:
    card = (masked_run.path / "README.md").read_text(encoding="utf-8")
    assert MASK in card
    assert load(masked_run.path).spec.task == "masked-lm"


# mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"task": "masked-lm", "data.source": 1}, "leave --source out"),
        ({"task": "denoise", "data.tag": 2}, "leave --tag out"),
        ({"task": "masked-lm", "encoder.kind": "none"}, "leave encoder.kind out"),
        ({"task": "denoise", "train.members": 2}, "leave train.members out"),
        ({"task": "denoise", "head.kind": "ctc"}, "leave"),
        ({"head.kind": "hidden"}, "task=masked-lm"),
        ({"task": "masked-lm", "corrupt.hidden": 0.95}, "add up to more than 1"),
        ({"task": "masked-lm", "corrupt.positions": "hidden"}, "only positions that are added"),
        ({"task": "masked-lm", "corrupt.dropped": 0.2}, "corrupt.dropped has no effect"),
        ({"task": "denoise", "corrupt.share": 0.2}, "corrupt.share has no effect"),
        ({"corrupt.share": 0.2}, "set task=masked-lm"),
        ({"task": "denoise", "embed.latent": True}, "embed.latent=true has no effect with task=denoise"),
        ({"task": "masked-lm", "train.select": "bleu"}, "train.select=bleu is not measured"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Layer, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        compose(("flag", settings))
    assert reason in f"{caught.value.what} {caught.value.todo}"


def test_mistakes_on_the_command_line_are_told(weft: Weft, masked_run: Run, text: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("source\ttarget\n" + "a\tb\n" * 5, encoding="utf-8")
    out = tmp_path / "out"
    refused(weft("train", text, "--task", "masked-lm", "--source", "1", "--steps", "1", "--out", out), "--source")
    refused(weft("predict", masked_run.path, text, "--beam", "3"), "hidden tokens are predicted in one step")
    refused(weft("predict", masked_run.path, text, "--prefix", "a"), "which have no prefix")
    refused(weft("evaluate", masked_run.path, text, "--beam", "2"), "nothing is decoded")
