"""Weft from file to file through its Python interface: what `weft predict` does, with the start-up left out."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import measure

import weft
from weft import Pair
from weft.serve.ctranslate2 import Translator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--exported", type=Path, help="what `weft export` wrote, to be computed by CTranslate2")


def translator(options: argparse.Namespace) -> Callable[[list[str]], list[str]]:
    run = weft.load(options.model_folder)
    predictor = run.predictor
    if options.exported is not None:
        predictor.engine = Translator(options.exported, predictor, scored=False)
    search = {"kind": "greedy"} if options.beam == 1 else {"kind": "beam", "width": options.beam}
    plan = predictor.plan(run.search(search))

    def translate(lines: list[str]) -> list[str]:
        found = predictor.predict([Pair(line) for line in lines], plan, batch_lines=options.batch)
        return [prediction.text for prediction in found]

    return translate


if __name__ == "__main__":
    measure.run(None, translator, add_arguments)
