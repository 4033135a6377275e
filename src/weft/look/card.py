"""README.md of a run: the model card, with the measured numbers, the data's fingerprint and the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.score.confusion import Confusion
from weft.score.metrics import table_for
from weft.spec import Spec


def card(
    name: str, spec: Spec, facts: Mapping[str, Any], reasons: Sequence[Sequence[str]], final: Mapping[str, Any]
) -> str:
    """Return the model card, in Markdown."""
    training = f"trained with Weft {facts['weft']} on {facts['training_pairs']:,} pairs{_augmented(facts)}"
    return "\n".join(
        [
            f"# {name}",
            "",
            f"{_architecture(spec)} {_ensemble(spec, final)} {facts['parameters']:,} parameters and was {training}.",
            "",
            *_scores(final),
            "![training curves](curves.png)",
            "",
            *_confusions(final),
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


def _architecture(spec: Spec) -> str:
    """Return one sentence about encoder, decoder and tokens."""
    encoder, decoder = _encoder(spec), _decoder(spec)
    source, target = spec.source.tokens, spec.target.tokens
    if spec.task == "classify":
        return f"A classifier: {encoder} reads {source}, and its {POOLS[spec.pool.kind]} becomes a label."
    if spec.task == "classify-tokens":
        return f"A sequence labeller: {encoder} reads {source} and predicts a label for each."
    if spec.decoder.kind == "none":
        return f"A sequence-to-sequence model: {encoder} reads {source} and emits {target} or blanks (CTC)."
    direction = " from last to first" if spec.backward else ""
    return f"A sequence-to-sequence model: {encoder} reads {source}, {decoder} writes {target}{direction}."


MOST_CONFUSED = 5  # kinds of mistakes that are listed
POOLS = {"last": "last state", "mean": "mean state", "query": "summary by a learned query"}


def _encoder(spec: Spec) -> str:
    encoder = spec.encoder
    if encoder.kind == "none":
        return "no encoder"
    size = f"{encoder.layers}×{encoder.width}"
    if encoder.kind != "recurrent":
        return f"a Transformer of {size}"
    direction = "bidirectional" if encoder.directions == "both" else "forward"
    return f"a {direction} {encoder.cell.upper()} of {size}"


def _decoder(spec: Spec) -> str:
    decoder = spec.decoder
    if decoder.kind == "none":
        return "no decoder"
    size = f"{decoder.layers}×{decoder.width}"
    if decoder.kind != "recurrent":
        return f"a Transformer of {size}"
    score = decoder.attention.score
    attention = "without attention" if score == "none" else f"with {score} attention"
    article = "an" if decoder.cell[0] in "el" else "a"
    return f"{article} {decoder.cell.upper()} of {size} {attention}"


def _ensemble(spec: Spec, final: Mapping[str, Any]) -> str:
    models = final.get("models", 1)
    if models == 1:
        return "It has"
    directions = ", some of which write from last to first," if spec.train.reversed_members else ""
    return f"It is an ensemble of {models} such models{directions} with"


def _augmented(facts: Mapping[str, Any]) -> str:
    """Return how many training pairs are augmented, if any."""
    count = facts.get("augmented_pairs", facts.get("invented_pairs", 0))  # its name in earlier versions
    return f" and {count:,} augmented pairs" if count else ""


def _scores(final: Mapping[str, Any]) -> list[str]:
    if not final:
        return []
    rows = [
        f"| {metric.name} | {metric.show(value)} | {metric.explain} |"
        for metric, value in table_for(final).present(final)
    ]
    return [
        "## Scores",
        "",
        f"Step {final['step']:,}, {_decoded(final)}on {final['pairs']:,} of "
        f"{final.get('of', final['pairs']):,} validation pairs:",
        "",
        "| metric | value | |",
        "|---|---:|---|",
        *rows,
        "",
        *(f"{name}: `{signature}`" + "  " for name, signature in final.get("signatures", {}).items()),
        "",
        *_further_sets(final),
    ]


def _decoded(final: Mapping[str, Any]) -> str:
    return f"decoded by {final['search']}, " if final.get("target", "text") == "text" else ""


def _further_sets(final: Mapping[str, Any]) -> list[str]:
    """Return a table with the scores of the validation sets after the first."""
    sets = final.get("further") or []
    if not sets:
        return []
    table = table_for(final)
    names = [metric.name for metric, _ in table.present(sets[0])]
    rows = [
        f"| {scores['file']} | {scores['pairs']:,} of {scores['of']:,} | "
        + " | ".join(metric.show(value) for metric, value in table.present(scores))
        + " |"
        for scores in sets
    ]
    head = ["| further validation set | pairs | " + " | ".join(names) + " |", "|---|---|" + "---:|" * len(names)]
    return [*head, *rows, ""]


def _confusions(final: Mapping[str, Any]) -> list[str]:
    """Return the picture of which labels are taken for which, the most frequent mistakes, and the F1 of each label."""
    if "confusion" not in final:
        return []
    confusion = Confusion.from_dict(final["confusion"])
    wrong = confusion.most_confused(MOST_CONFUSED)
    mistakes = [f"`{_escaped(a)}` taken for `{_escaped(b)}` ({count:,})" for a, b, count in wrong]
    rows = [
        f"| {_escaped(label)} | {sum(counts):,} | {f1:.1f} |"
        for label, counts, f1 in zip(confusion.labels, confusion.counts, confusion.f1())
    ]
    table = ["| label | validation rows | F1 (%) |", "|---|---:|---:|", *rows, ""]
    return [
        "## Labels",
        "",
        "![which labels are taken for which](confusion.png)",
        "",
        "Most frequent mistakes: " + "; ".join(mistakes) + "." if mistakes else "No label was mistaken.",
        "",
        *table,
    ]


def _examples(final: Mapping[str, Any]) -> list[str]:
    rows = [
        f"| {_escaped(source)} | {_escaped(output)} | {'✓' if output == target else '✗ ' + _escaped(target)} |"
        for source, target, output in final.get("examples") or ()
    ]
    return ["## Examples", "", "| source | output | |", "|---|---|---|", *rows, ""] if rows else []


def _data(facts: Mapping[str, Any]) -> list[str]:
    rows = [("training files", ", ".join(facts["pairs"])), ("fingerprint", facts["fingerprint"])]
    if facts["valid"]:
        rows += [("validation files", ", ".join(facts["valid"])), ("their fingerprint", facts["valid_fingerprint"])]
    else:
        held_out = facts.get("kept_aside", facts["valid_pairs"])
        origin = "held out" if held_out else "that are training pairs too: none are held out"
        rows.append(("validation", f"{facts['valid_pairs']:,} pairs {origin}"))
    rows.append(("command", facts["command"]))
    return ["## Data and command", "", "| | |", "|---|---|", *(f"| {k} | `{v}` |" for k, v in rows), ""]


def _choices(reasons: Sequence[Sequence[str]]) -> list[str]:
    if not reasons:
        return []
    rows = [f"| {key} | {value} | {_escaped(why)} |" for key, value, why in reasons]
    return ["## What the autopilot chose", "", "| setting | value | because |", "|---|---|---|", *rows, ""]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
