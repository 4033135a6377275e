"""multi30k English to German as all read it: cut into pieces by one shared BPE of 8,000, learned by Weft's tokeniser.

    python bench/corpus.py [--data $WEFT_DATA]

Under .bench/data: {train,val,flickr2016}.{en,de} with pieces set apart by spaces, vocabulary.txt with a piece a line
(the format of Joey NMT and of OpenNMT-py; transformers numbers its lines), and pieces.json, the tokeniser itself.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from weft.data.text.tokens import Tokeniser, from_json, learn

BENCH = Path(__file__).parent.parent / ".bench"
PIECES = BENCH / "data"
SIZE = 8000
PARTS, LANGUAGES = ("train", "val", "flickr2016"), ("en", "de")


def data_folder() -> Path:
    return Path(os.environ.get("WEFT_DATA", Path(__file__).parent.parent / "../shared/data"))


def prepare(data: Path) -> Path:
    """The folder with the pieces; made if it is not there."""
    names = [f"{part}.{language}" for part in PARTS for language in LANGUAGES]
    return cut(PIECES, {name: lambda name=name: read(data / "multi30k" / name) for name in names})


def cut(folder: Path, texts: dict[str, Callable[[], list[str]]]) -> Path:
    """Files of pieces by their names, learned on those of the training part; made if they are not there."""
    if not (folder / "vocabulary.txt").exists():
        folder.mkdir(parents=True, exist_ok=True)
        learned = [line for name, lines in texts.items() if name.startswith("train.") for line in lines()]
        learn("bpe", SIZE, learned).save(folder / "pieces.json")
        for name, lines in texts.items():
            write(folder / name, to_pieces(lines(), folder))
        write(folder / "vocabulary.txt", _names(folder))
    return folder


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


@cache
def tokeniser(folder: Path = PIECES) -> Tokeniser:
    path = folder / "pieces.json"
    return from_json(path.read_text(encoding="utf-8"), str(path))


@cache
def _names(folder: Path) -> list[str]:
    """Each piece as byte-level BPE spells it, which has no spaces in it."""
    vocabulary = json.loads(tokeniser(folder).to_json())["model"]["model"]["vocab"]
    return sorted(vocabulary, key=vocabulary.__getitem__)


def to_pieces(texts: list[str], folder: Path = PIECES) -> list[str]:
    names, first = _names(folder), tokeniser(folder).first
    return [" ".join(names[i - first] for i in ids) for ids in tokeniser(folder).encode_all(texts)]


def to_texts(lines: list[str], folder: Path = PIECES) -> list[str]:
    """The way back; what is no piece, such as a peer's `<unk>`, is left out."""
    own = tokeniser(folder)
    place = {name: own.first + i for i, name in enumerate(_names(folder))}
    return [own.decode(place[piece] for piece in line.split() if piece in place) for line in lines]


def count(texts: list[str]) -> int:
    """Pieces in all: whatever wrote the texts, its tokens are counted alike."""
    return sum(len(ids) for ids in tokeniser().encode_all(texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder())
    print(prepare(parser.parse_args().data))


if __name__ == "__main__":
    main()
