"""The first table of docs/performance.md: how Weft compares with its peers and with what the machine could do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from figures import Line, newest, number, ratio, shown, table, told

OPERATIONS = {"transformer": 55.6e6, "lstm": 52.6e6, "gru": 47.1e6}  # of matrix products, per target symbol
Row = tuple[str, str]
Lines = dict[tuple[Any, ...], Line]


def summary(lines: list[Line]) -> str:
    rows = [
        *_training(newest(lines, "training", "model", "system")),
        *_words(newest(lines, "words", "language", "width", "system")),
        *_decoding(newest(lines, "decoding", "model", "system", "beam", "batch")),
        *_bleu(newest(lines, "ten minutes", "model", "system", "minutes", "threads")),
        *_cells(newest(lines, "cells", "width", "batch", "cell")),
    ]
    return table(["comparison", "measured"], [list(row) for row in rows])


def limit_share(model: str, line: Line | None) -> float | None:
    """Return the share of the speed that matrix products alone would allow."""
    speed, products = number(line, "tokens_per_second"), number(line, "gflops")
    operations = OPERATIONS.get(model)
    return None if not (speed and products and operations) else speed * operations / products / 1e9


def _times(value: float | None, form: str = ".2f") -> str:
    return "" if value is None else f"{value:{form}} ×"


def _training(lines: Lines) -> Iterator[Row]:
    def against(model: str, system: str, field: str = "tokens_per_second", ours: str = "weft") -> str:
        return _times(ratio(number(lines.get((model, ours)), field), number(lines.get((model, system)), field)))

    default = "Weft in its default precision, others in float32"
    for how, ours in ((default, "weft"), ("all in float32", "weft, in float32")):
        for system in ("joeynmt", "opennmt", "transformers"):
            yield (
                f"training a Transformer ({how}), tokens/s relative to {shown(system)}",
                against("transformer", system, ours=ours),
            )
    share = limit_share("transformer", lines.get(("transformer", "weft, in float32")))
    yield "training a Transformer in float32, share of the matrix limit", told(share, ".0%")
    for model, name in (("lstm", "an LSTM"), ("gru", "a GRU")):
        share = limit_share(model, lines.get((model, "weft")))
        yield f"training {name}, tokens/s relative to OpenNMT-py", against(model, "opennmt")
        yield f"training {name}, share of the matrix limit", told(share, ".0%")
    yield (
        "training a Transformer, peak memory relative to OpenNMT-py",
        against("transformer", "opennmt", "peak_megabytes"),
    )


def _words(lines: Lines) -> Iterator[Row]:
    for language in dict.fromkeys(key[0] for key in lines):
        speeds = (number(lines.get((language, 256, system)), "pairs_per_second") for system in ("weft", "yoyodyne"))
        yield f"training on words ({language}), width 256, pairs/s relative to yoyodyne", _times(ratio(*speeds))


def _decoding(lines: Lines) -> Iterator[Row]:
    def against(model: str, ours: str, theirs: str, beam: int, batch: int, form: str = ".2f") -> str:
        field = "milliseconds" if batch == 1 else "sentences_per_second"
        figures = (number(lines.get((model, system, beam, batch)), field) for system in (ours, theirs))
        return _times(ratio(*figures), form)

    for beam, search in ((1, "greedy"), (5, "beam 5")):
        for theirs in ("opennmt", "transformers", "ctranslate2, float32, 2 threads"):
            what = f"decoding with a Transformer, {search}, sentences/s relative to {shown(theirs)}"
            yield what, against("transformer", "weft", theirs, beam, 64)
        for kind in ("float32", "int8"):
            what = f"… exported to CTranslate2 ({kind}), sentences/s relative to CTranslate2, 2 workers"
            yield what, against("transformer", f"weft, {kind}", f"ctranslate2, {kind}", beam, 64, ".3f")
    yield "decoding with an LSTM, beam 5, sentences/s relative to OpenNMT-py", against("lstm", "weft", "opennmt", 5, 64)
    for theirs in ("transformers", "ctranslate2, float32"):
        what = f"decoding one line with a Transformer, greedy, milliseconds relative to {shown(theirs)}"
        yield what, against("transformer", "weft", theirs, 1, 1)


def _bleu(lines: Lines) -> Iterator[Row]:
    """Yield the advantage over the best peer; only runs of ten minutes on two cores count."""
    bleu = {key[:2]: line["bleu"] for key, line in lines.items() if key[2:] == (10, 2) and line.get("bleu") is not None}
    peers = [score for (model, system), score in bleu.items() if model == "transformer" and system != "weft"]
    for what, model in (("the same Transformer", "transformer"), ("the autopilot's choice", "autopilot")):
        ours = bleu.get((model, "weft"))
        ahead = ours - max(peers) if ours is not None and len(peers) == 3 else None  # all of them, or none
        yield f"BLEU after ten minutes, {what}, minus that of the best other toolkit", told(ahead, "+.1f")


def _cells(lines: Lines) -> Iterator[Row]:
    for width, batch in dict.fromkeys((w, b) for w, b, _ in lines):
        times = {cell: line["seconds"] for (w, b, cell), line in lines.items() if (w, b) == (width, batch)}
        ratios = {cell: seconds["weft"] / seconds["products"] for cell, seconds in times.items()}
        slowest = max(ratios, key=lambda cell: ratios[cell])
        yield (
            f"the cell with the largest overhead ({slowest}), width {width}: time relative to its matrix products",
            _times(ratios[slowest]),
        )
        if width == 128 and "lstm" in times:
            yield (
                "lstm, width 128, time relative to torch.nn.LSTM",
                _times(ratio(times["lstm"]["weft"], times["lstm"].get("torch"))),
            )
