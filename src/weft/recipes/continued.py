"""Recipes of models that continue what they read: tunes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.recipes.study import PUBLIC, Files, Recipe, Study, public

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
