"""README.md of a run: the model card, with the measured numbers, the data's fingerprint and the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.score.metrics import table_of
from weft.spec import Spec


def card(
    name: str, spec: Spec, facts: Mapping[str, Any], reasons: Sequence[Sequence[str]], final: Mapping[str, Any]
) -> str:
    """Markdown."""
    return "\n".join(
        [
            f"# {name}",
            "",
            f"{_sentence(spec)} {_together(spec, final)} {facts['parameters']:,} parameters and was trained with Weft "
            f"{facts['weft']} on {facts['training_pairs']:,} pairs{_invented(facts)}.",
            "",
            *_scores(final),
            "![training curves](curves.png)",
            "",
            *_examples(final),
            *_data(facts),
            *_choices(reasons),
            "## Use",
            "",
            f"    weft predict {facts['folder']} FILE",
            f"    weft evaluate {facts['folder']} PAIRS",
            "",
            "Every setting is in `spec.yaml`; `weft config show` explains them.",
            "",
        ]
    )


def _sentence(spec: Spec) -> str:
    encoder, decoder = spec.encoder, spec.decoder
    if encoder.kind == "recurrent":
        way = "bidirectional" if encoder.directions == "both" else "forward"
        reads = f"a {way} {encoder.cell.upper()} of {encoder.layers}×{encoder.width}"
    else:
        reads = f"a Transformer of {encoder.layers}×{encoder.width}"
    if decoder.kind == "recurrent":
        look = decoder.attention.score
        attention = "without attention" if look == "none" else f"with {look} attention"
        article = "an" if decoder.cell[0] in "el" else "a"
        writes = f"{article} {decoder.cell.upper()} of {decoder.layers}×{decoder.width} {attention}"
    elif decoder.kind == "none":
        what = f"{reads} reads {spec.source.tokens} and says {spec.target.tokens} or a blank at each place (CTC)"
        return f"A sequence-to-sequence model: {what}."
    else:
        writes = f"a Transformer of {decoder.layers}×{decoder.width}"
    what = f"{spec.target.tokens}{' from the end' if spec.backward else ''}"
    return f"A sequence-to-sequence model: {reads} reads {spec.source.tokens}, {writes} writes {what}."


def _together(spec: Spec, final: Mapping[str, Any]) -> str:
    models = final.get("models", 1)
    ways = ", some of which write from the end," if spec.train.reversed_members else ","
    return "It has" if models == 1 else f"It is {models} such models{ways} which predict together, with"


def _invented(facts: Mapping[str, Any]) -> str:
    """Pairs that are nobody's data are told."""
    count = facts.get("invented_pairs", 0)
    return f", and {count:,} made up from them" if count else ""


def _scores(final: Mapping[str, Any]) -> list[str]:
    if not final:
        return []
    rows = [
        f"| {metric.name} | {metric.show(value)} | {metric.explain} |" for metric, value in table_of().present(final)
    ]
    return [
        "## Measured",
        "",
        f"Step {final['step']:,}, decoded by {final['search']}, on {final['pairs']:,} of "
        f"{final.get('of', final['pairs']):,} validation pairs:",
        "",
        "| metric | value | |",
        "|---|---:|---|",
        *rows,
        "",
        *(f"{name}: `{signature}`" + "  " for name, signature in final.get("signatures", {}).items()),
        "",
    ]


def _examples(final: Mapping[str, Any]) -> list[str]:
    if not final.get("examples"):
        return []
    rows = [
        f"| {_cell(s)} | {_cell(said)} | {'✓' if said == w else '✗ ' + _cell(w)} |" for s, w, said in final["examples"]
    ]
    return ["## Examples", "", "| source | output | |", "|---|---|---|", *rows, ""]


def _data(facts: Mapping[str, Any]) -> list[str]:
    rows = [("training files", ", ".join(facts["pairs"])), ("fingerprint", facts["fingerprint"])]
    if facts["valid"]:
        rows += [("validation files", ", ".join(facts["valid"])), ("their fingerprint", facts["valid_fingerprint"])]
    else:
        count = f"{facts['valid_pairs']:,} pairs"
        aside = facts.get("kept_aside", facts["valid_pairs"])
        rows.append(
            ("validation", f"{count} kept aside" if aside else f"{count} that were learned from: none is kept aside")
        )
    rows.append(("command", facts["command"]))
    return ["## Data and command", "", "| | |", "|---|---|", *(f"| {k} | `{v}` |" for k, v in rows), ""]


def _choices(reasons: Sequence[Sequence[str]]) -> list[str]:
    if not reasons:
        return []
    rows = [f"| {key} | {value} | {_cell(why)} |" for key, value, why in reasons]
    return ["## What the autopilot chose", "", "| setting | value | because |", "|---|---|---|", *rows, ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
