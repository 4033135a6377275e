"""CTranslate2's own translator on what Weft exported. Lines are ids, so that it has nothing else to do."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import ctranslate2
import measure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--compute", choices=["float32", "int8"], required=True)
    parser.add_argument("--inter", type=int, required=True)
    parser.add_argument("--intra", type=int, required=True)


def translator(options: argparse.Namespace) -> Callable[[list[str]], list[str]]:
    model = ctranslate2.Translator(
        str(options.model_folder),
        compute_type=options.compute,
        inter_threads=options.inter,
        intra_threads=options.intra,
    )
    names = json.loads((options.model_folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    ids = {name: str(place) for place, name in enumerate(names)}

    def translate(lines: list[str]) -> list[str]:
        sources = [[names[int(place)] for place in line.split()] for line in lines]
        limit = 2 * max(map(len, sources)) + 20
        found = model.translate_batch(
            sources, max_batch_size=options.batch, beam_size=options.beam, max_decoding_length=limit
        )
        return [" ".join(ids[name] for name in result.hypotheses[0]) for result in found]

    return translate


if __name__ == "__main__":
    measure.run(None, translator, add_arguments)
