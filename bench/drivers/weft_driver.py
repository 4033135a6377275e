"""Weft from file to file through its Python interface: what `weft predict` does, with the start-up left out."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import measure
import torch
from torch import Tensor

import weft
from weft import Pair
from weft.core import memory
from weft.core.kinds import END
from weft.predict.engines import Translator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--exported", type=Path, help="what `weft export` wrote, to be computed by CTranslate2")


def never_end(model: Any) -> None:
    """Make it say END where there is no room for more, and only there."""
    advance = model.advance

    def go_on(y: Tensor, state: Any) -> tuple[Tensor, Any]:
        log_probs, state = advance(y, state)
        log_probs[:, END] = -torch.inf
        return log_probs, state

    model.advance = go_on


def translator(options: argparse.Namespace) -> Callable[[list[str]], list[str]]:
    run = weft.load(options.model_folder)
    memory.keep()  # as the command does
    predictor = run.predictor
    engine = None if options.exported is None else Translator(options.exported, predictor, scored=False)
    search = {"kind": "greedy"} if options.beam == 1 else {"kind": "beam", "width": options.beam}
    plan = predictor.plan(run.search(search))
    if options.length is not None:
        plan = replace(plan, max_ratio=0.0, max_extra=options.length)
        never_end(predictor.model)

    def translate(lines: list[str]) -> list[str]:
        found = predictor.predict([Pair(line) for line in lines], plan, batch_lines=options.batch, engine=engine)
        return [prediction.text for prediction in found]

    return translate


if __name__ == "__main__":
    measure.run(None, translator, add_arguments)
