"""Pictures for the recipes: strips of drawn digits, and scenes with a sentence that describes them."""

# H, W pixels

from __future__ import annotations

import random
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.recipes.seen import as_seen
from weft.recipes.study import PUBLIC, Files, Recipe, Study, public_paths

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Pixels = npt.NDArray[np.uint8]

SIDE, LEAST_GAP, MOST_GAP = 28, -6, 10  # pixels: a digit, and what is between two of them
HELD_OUT = 1_000  # drawings, the last ones, of which no training strip is made
STRIPS, JUDGED = 5_000, 300
DEV_SCENES = 10  # one scene in so many is for validation


def strip(drawings: Sequence[Pixels], rng: random.Random) -> Pixels:
    """Return digits beside each other (28, W), which may overlap a little."""
    import numpy as np

    gaps = [rng.randint(LEAST_GAP, MOST_GAP) for _ in range(len(drawings) + 1)]
    gaps[0], gaps[-1] = max(0, gaps[0]), max(0, gaps[-1])
    pixels = np.zeros((SIDE, SIDE * len(drawings) + sum(gaps)), np.uint8)
    left = gaps[0]
    for drawing, gap in zip(drawings, gaps[1:]):
        part = pixels[:, left : left + SIDE]
        np.maximum(part, drawing, out=part)
        left += SIDE + gap
    return pixels


def strips(
    drawings: Pixels, labels: Sequence[int], lengths: tuple[int, int], count: int, table: Path, seed: int
) -> str:
    """Write COUNT strips, and a table of their names and digits."""
    from PIL import Image  # the extra `image`

    folder = table.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    rng, rows = random.Random(seed), ["image\tdigits\n"]
    for number in range(count):
        chosen = [rng.randrange(len(labels)) for _ in range(rng.randint(*lengths))]
        name = f"{folder.name}/{number:05}.png"
        Image.fromarray(strip([drawings[i] for i in chosen], rng)).save(table.parent / name)
        rows.append(f"{name}\t{''.join(str(labels[i]) for i in chosen)}\n")
    table.write_text("".join(rows), encoding="utf-8")
    return str(table)


def digits(folder: Path) -> Files:
    """Return strips of 3 to 6 digits, and a test set of longer ones."""
    import numpy as np

    (path,) = public_paths("mnist10k/train8000.npz")
    with np.load(path) as arrays:
        drawings, labels = arrays["x"].reshape(-1, SIDE, SIDE).astype(np.uint8), arrays["y"].astype(int).tolist()
    seen, new = (drawings[:-HELD_OUT], labels[:-HELD_OUT]), (drawings[-HELD_OUT:], labels[-HELD_OUT:])
    return Files(
        strips(*seen, (3, 6), STRIPS, folder / "train.tsv", 1),
        strips(*new, (3, 6), JUDGED, folder / "valid.tsv", 2),
        {"7 to 10 digits": strips(*new, (7, 10), JUDGED, folder / "longer.tsv", 3)},
    )


def true_sentences(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield the pictures and the sentences of a table of judgements, where the sentence is true."""
    for line in lines:
        name, judgement, sentence, *_ = line.rstrip("\n").split("\t")
        if judgement.lower() == "true":
            yield name, " ".join(sentence.split())


def captions(folder: Path) -> Files:
    """Return pictures with a sentence that is true of them; both arrangements of a scene are in the same part."""
    archive, table = public_paths("nlvr/images_train.zip", "nlvr/train.tsv")
    pictures = folder / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as zipped:
        for name in (name for name in zipped.namelist() if name.endswith(".png")):
            with zipped.open(name) as packed, (pictures / Path(name).name).open("wb") as file:
                shutil.copyfileobj(packed, file)
    rows: dict[str, list[str]] = {"train": ["image\tsentence\n"], "valid": ["image\tsentence\n"]}
    with table.open(encoding="utf-8") as lines:
        for name, sentence in true_sentences(lines):
            scene = "-".join(name.split("-")[:2])
            part = "valid" if zlib.crc32(scene.encode()) % DEV_SCENES == 0 else "train"
            rows[part].append(f"pictures/{name}\t{sentence}\n")
    for part, each in rows.items():
        (folder / f"{part}.tsv").write_text("".join(each), encoding="utf-8")
    return Files(str(folder / "train.tsv"), str(folder / "valid.tsv"))


def digits_drawn() -> Recipe:
    decoder: dict[str, Any] = {"decoder.kind": "recurrent", "head.kind": "tokens", "objective.kind": "cross-entropy"}
    decoder |= {"decoder.attention.score": "additive", "decoder.width": 96, "decoder.layers": 1}
    variants: dict[str, dict[str, Any]] = {
        "CTC": {"head.kind": "ctc", "objective.kind": "ctc"},
        "attention": {**decoder, "objective.ctc_share": 0.0},
        "attention and CTC": {**decoder, "objective.ctc_share": 0.3},
        "one state": {**decoder, "decoder.attention.score": "none", "bridge.kind": "last", "bridge.give": "every"},
    }
    settings = {
        **{"data.source": "image", "data.target": "digits", "source.kind": "image", "image.layout": "columns"},
        **{"image.height": 28, "encoder.kind": "recurrent", "encoder.width": 96, "encoder.layers": 1},
        **{"embed.width": 32, "target.tokens": "characters"},
        **{"train.rate": 0.003, "train.dropout": 0.1, "train.batch_tokens": 2048, "train.select": "exact"},
    }
    return Recipe(
        "digits-drawn",
        "Read a strip of drawn digits. A convolutional network turns the picture into one vector for every few "
        "columns of pixels, and an LSTM reads these. Which is the best way from there to the digits: CTC, attention, "
        "both together, or a single state for the whole strip? And does any of them read strips that are longer than "
        "those in training?",
        "The recipe puts drawings of MNIST (LeCun 1998) side by side. The first 7,000 drawings make "
        f"{STRIPS:,} strips of 3 to 6 digits for training; {HELD_OUT:,} others make {JUDGED} such strips for "
        f"validation, and {JUDGED} strips of 7 to 10 digits for a test. These 8,000 drawings are the first of a subset "
        f"of 10,000, in mnist10k/train8000.npz (x: pixels, y: labels). {PUBLIC}",
        DIGITS_DRAWN_LEARNS,
        (Study("digits-drawn", digits, variants, settings, "100ktokens", also=as_seen),),
    )


def scenes() -> Recipe:
    variants: dict[str, dict[str, Any]] = {
        "summary alone": {"decoder.attention.score": "none", "bridge.give": "every"},
        "attention": {"decoder.attention.score": "additive"},
    }
    settings = {
        **{"data.source": "image", "data.target": "sentence", "source.kind": "image", "image.layout": "grid"},
        **{"encoder.kind": "none", "encoder.width": 128, "decoder.kind": "recurrent", "decoder.width": 128},
        **{"embed.width": 128, "target.tokens": "words"},
        **{"train.dropout": 0.2, "train.rate": 0.002, "train.select": "bleu", "bridge.kind": "mean"},
    }
    return Recipe(
        "scenes",
        "Describe a picture in a sentence. Is a summary of the picture enough (as in Show and Tell, Vinyals 2015), or "
        "should the decoder attend to its parts (as in Show, Attend and Tell, Xu 2015)?",
        "The data are drawn scenes of coloured blocks, each with a sentence (NLVR, Suhr 2017, CC BY 4.0), in "
        "nlvr/images_train.zip and train.tsv (columns: picture, judgement, sentence). Only sentences that are judged "
        f"true of their picture are used, and one scene in ten is for validation. {PUBLIC} A convolutional network, "
        "which learns from scratch, turns a picture into a grid of vectors.",
        SCENES_LEARN,
        (Study("scenes", captions, variants, settings, "200ktokens", also=as_seen),),
    )


DIGITS_DRAWN_LEARNS = (
    "Digits and columns have the same order, and CTC is made for that: after five passes over the data, 98.0 % of the "
    "strips are read without an error, and 97.0 % of those with 7 to 10 digits, although it has never seen one. "
    "Attention has to learn this order first. Attention alone has only begun to learn it: it reads 39.7 % of the "
    "strips without an error, and hardly any of the longer ones. If the encoder is also trained with CTC, and the "
    "search uses the scores of attention and of CTC, 90.0 % of the strips are right, and 27.7 % of the longer ones. "
    "One state for the whole strip is not enough (2.0 %). In the pictures, each digit stands where CTC emits it, or "
    "where its attention is largest. There was one seed."
)
SCENES_LEARN = (
    "From 2,561 pictures, both learn little. BLEU is 15.8 with attention and 15.0 with the summary alone; the "
    "difference is not significant. These are the scores of the best checkpoints: by the end of training, the BLEU of "
    "the variant with attention has fallen to about 10. Both tell towers from scattered objects, but then write one of "
    "a few frequent sentences, whatever the colours are. Most of the sentences above are wrong, and the others are "
    "true only by chance (✗ means only that a sentence differs from the reference). BLEU flatters them, because many "
    "true sentences have the same words. Attention, in red, lies mostly around the objects and partly on the grey "
    "between the boxes, but not on the object that the sentence is about. There was one seed."
)
