"""Recipes of models that continue what they read: tunes, waveforms, text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.recipes.spearman import PUBLISHED, beside_published
from weft.recipes.spoken import waveforms
from weft.recipes.study import PUBLIC, Files, Recipe, Study, public, public_paths

COLUMN_WORDS, COLUMN_JUDGED, COLUMN_LEAST = 100_000, 20_000, 3
CHUNG = {"tanh": "elman", "GRU": "gru", "LSTM": "lstm"}


def piano_rolls(name: str) -> Callable[[Path], Files]:
    """Return tunes of Boulanger-Lewandowski 2012, as tables of notes."""

    def write(folder: Path) -> Files:
        tunes = json.loads(Path(public(f"pianoroll/{name}.json")(folder).train).read_text(encoding="utf-8"))
        folder.mkdir(parents=True, exist_ok=True)
        files = {part: folder / f"{part}.jsonl" for part in ("train", "valid")}
        for part, path in files.items():
            rows = [json.dumps({"notes": [[int(note) for note in step] for step in tune]}) for tune in tunes[part]]
            path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        return Files(str(files["train"]), str(files["valid"]))

    return write


def music(name: str, question: str, about: str, learns: str, data: str, budget: str) -> Recipe:
    """Return a comparison of three cells with equal numbers of parameters, as in Chung 2014."""
    settings: dict[str, Any] = {"task": "language-model", "decoder.width": 64, "embed.width": 64, "train.dropout": 0.2}
    variants = {label: {"decoder.cell": cell} for label, cell in CHUNG.items()}
    study = Study(name, piano_rolls(data), variants, {**settings, "train.rate": 0.005}, budget, match=True)
    return Recipe(name, question, f"{about} {PUBLIC}", learns, (study,))


def chorales() -> Recipe:
    return music(
        "chorales",
        "Which notes sound next in a chorale by Bach? A tanh network, a GRU and an LSTM with equal numbers of "
        "parameters learn from 229 chorales, as in Chung 2014.",
        "The data are the JSB chorales of Boulanger-Lewandowski 2012, in pianoroll/JSB_Chorales.json. The score is "
        "−log p of the 88 notes of a step, given the steps before it, as in the literature: the mean over all steps.",
        "After 36 passes over the chorales with 44,000 parameters each, tanh (8.43 nats per step) and GRU (8.44) are "
        "tied, and the LSTM (8.63) is significantly behind. With equal parameters, the tanh network has the widest "
        "state (134), the GRU 76 and the LSTM 64. One seed: a tie is no proof that they are equal. Published models of "
        "this kind reach 8.4 to 8.9 on the test set; the figures here are those of the validation set.",
        "JSB_Chorales",
        "500ktokens",
    )


def tunes() -> Recipe:
    return music(
        "tunes",
        "Which notes sound next in a folk tune? A tanh network, a GRU and an LSTM with equal numbers of parameters "
        "learn from 694 tunes with chords, as in Chung 2014.",
        "The data are the Nottingham tunes of Boulanger-Lewandowski 2012, in pianoroll/Nottingham.json. The score is "
        "−log p of the 88 notes of a step, given the steps before it, averaged over all steps, as in the "
        "literature; the lower, the better.",
        TUNES_LEARN,
        "Nottingham",
        "6Mtokens",
    )


def speech_signal() -> Recipe:
    settings: dict[str, Any] = {
        **{"task": "language-model", "data.target": "sound", "target.kind": "numbers", "decoder.width": 96},
        **{"objective.kind": "mixture", "objective.components": 10, "train.dropout": 0.0, "train.rate": 0.003},
        **{"train.select": "nll", "train.batch_tokens": 2048},
    }
    variants = {label: {"decoder.cell": cell} for label, cell in CHUNG.items()}
    return Recipe(
        "speech-signal",
        "How will a speech signal go on? A tanh network, a GRU and an LSTM with equal numbers of parameters predict "
        "the next 20 samples of a waveform from all samples before, as a mixture of 10 Gaussians. Chung 2014 "
        "made a similar comparison on other recordings.",
        "The data are the recordings of the free spoken digit dataset (Jackson 2018, CC BY-SA 4.0) at 8,000 samples a "
        "second, in fsdd/wav_train.zip and wav_dev.zip: 2,400 recordings for training and 300 for validation, each "
        "about half a second long. "
        f"{PUBLIC} The score `nll` is −log p of the 20 samples of a step, whose values are between −1 and 1: the lower "
        "the better.",
        SPEECH_SIGNAL_LEARNS,
        (Study("speech-signal", waveforms, variants, settings, "4Mtokens", match=True),),
    )


def running_words(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, in lower case."""
    return re.findall(r"[\w']+|[^\w\s]", text.lower())


def with_unknown(words: Sequence[str], known: frozenset[str]) -> str:
    """Return running text with `<unk>` for every word that is not known, a line for each sentence."""
    text = " ".join(word if word in known else "<unk>" for word in words)
    return re.sub(r" ([.!?]) ", r" \1\n", text) + "\n"


def words_of_a_novel(folder: Path) -> Files:
    """Return the beginning of War and Peace, and a part of its end, as words."""
    paths = public_paths("lm_warpeace/train.txt", "lm_warpeace/dev.txt")
    train, judged = (running_words(path.read_text(encoding="utf-8-sig")) for path in paths)
    train, judged = train[:COLUMN_WORDS], judged[:COLUMN_JUDGED]
    known = frozenset(word for word, count in Counter(train).items() if count >= COLUMN_LEAST)
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(str(folder / "train.txt"), str(folder / "valid.txt"))
    for path, words in ((files.train, train), (files.valid, judged)):
        Path(str(path)).write_text(with_unknown(words, known), encoding="utf-8")
    return files


def language_column() -> Recipe:
    cells: dict[str, dict[str, Any]] = {cell: {"decoder.cell": cell} for cell in PUBLISHED}
    settings: dict[str, Any] = {
        **{"task": "language-model", "target.tokens": "words", "decoder.width": 96, "embed.width": 96},
        **{"train.rate": 0.004, "train.batch_tokens": 1024, "train.window": 32, "train.evaluations": 8},
        **{"train.select": "perplexity", "head.tied": False},
    }
    beside = beside_published(2, "perplexity", -1)
    studies = (
        Study(
            name, words_of_a_novel, cells, {**settings, "train.dropout": share}, "400ktokens", match=True, also=beside
        )
        for name, share in (("plain", 0.0), ("dropout", 0.3))
    )
    return Recipe(
        "language-column",
        "Which recurrent cell predicts the next word best? The recipe compares ten cells with equal numbers of "
        "parameters, once without dropout and once with it, and shows the third column of the table of Jozefowicz 2015 "
        "beside them.",
        f"The text is the first {COLUMN_WORDS:,} words of *War and Peace* in English (Project Gutenberg) and "
        f"{COLUMN_JUDGED:,} of its later words, in lm_warpeace/train.txt and dev.txt. Words are in lower case, and "
        f"those that occur fewer than {COLUMN_LEAST} times are `<unk>`. {PUBLIC} The published figures are for the "
        "Penn Treebank. They are not perplexities, but a score that rises as the perplexity falls: the higher, the "
        "better.",
        LANGUAGE_COLUMN_LEARNS,
        tuple(studies),
    )


TUNES_LEARN = (
    "After 34 passes over the tunes with 44,000 parameters each, the tanh network is first (3.80 nats per step), "
    "significantly ahead of the GRU (3.97) and the LSTM (4.05). With equal parameters, the tanh network has the widest "
    "state (134; GRU 76, LSTM 64), and the next step of these tunes seldom depends on much more than the last bar. In "
    "the figures that the repository of TCN (Bai 2018) quotes for the test set, the gated cells are ahead (tanh 4.05, "
    "GRU 3.46, LSTM 3.29). The figures here are those of the validation set, from one seed."
)
SPEECH_SIGNAL_LEARNS = (
    "After 9.5 passes over the recordings with 116,000 parameters each, the GRU is first (−71.8), then the LSTM "
    "(−70.8) and the tanh network (−70.3); the differences are small, but the GRU is significantly better than both. "
    "Chung 2014 found gated cells far ahead of tanh, on longer recordings; there, the model read 20 samples at each "
    "step and predicted the next 10 samples. After a seventh of the budget, the LSTM was still first, ahead of the GRU "
    "and the tanh network. There was one seed."
)
LANGUAGE_COLUMN_LEARNS = (
    "For the next word, the choice of the cell matters little, as in the published column, whose scores lie between "
    "8.7 and 9.2. Here, eight of the ten cells have a perplexity of 107 to 110 without dropout: mut1 is first, and "
    "five others are not significantly worse. Only the Elman network (115) and the LSTM without a forget gate (124) "
    "are clearly behind; in the published column, these two share the second-to-last place (8.8, ahead of lstm-i with "
    "8.7). A rank correlation says little about scores that are so close to each other (0.11 without dropout, 0.44 "
    "with it). After four passes over 100,000 words, a dropout of 0.3 helps the Elman network only. It costs the other "
    "cells 0.3 to 7 points: most for lstm-b (6.9), lstm-f (6.3) and lstm (6.1). There was one seed."
)
