"""README.md of a run: the model card, with the measured numbers, the data's fingerprint and the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.core.pair import MASK
from weft.data.prepare import counted
from weft.data.sides.table import READ_ONLY
from weft.look.commands import SYMBOLS, commands
from weft.score.confusion import Confusion
from weft.score.metrics import applicable_signatures, table_for
from weft.score.table import Metric
from weft.spec import Side, Spec
from weft.tasks import TASKS, continues, unit_of


def card(
    name: str,
    spec: Spec,
    facts: Mapping[str, Any],
    reasons: Sequence[Sequence[str]],
    final: Mapping[str, Any],
    inspected: bool = False,
) -> str:
    """Return the model card, in Markdown; `inspected`: there is a page that shows what happened in its examples."""
    unit = unit_of(spec.task)
    training_rows = counted(facts["training_pairs"], unit)
    training = f"trained with Weft {facts['weft']} on {training_rows}{_augmented(facts)}"
    return "\n".join(
        [
            f"# {name}",
            "",
            f"{architecture(spec)} {_ensemble(spec, final)} {facts['parameters']:,} parameters and was {training}.",
            "",
            *_scores(final, unit, spec.target.kind, validated_on_training(facts)),
            *_lexical(final),
            *_ended(final),
            "![training curves](curves.png)",
            "",
            *_confusions(final),
            *_tunes(spec, final),
            *_series(final),
            *_seen(spec, final),
            *_continuations(spec, final),
            *([] if spec.target.kind == "notes" else _examples(spec, final)),
            *([INSPECTED, ""] if inspected else []),
            *_data(facts, unit),
            *_choices(reasons),
            "## Use",
            "",
            *(f"    {command}" for command in commands(spec, facts["folder"])),
            "",
            *_hints(spec),
            "Every setting is in `spec.yaml`; `weft config show` explains them.",
            "",
        ]
    )


def _lexical(final: Mapping[str, Any]) -> list[str]:
    """Return what the vectors of a retrieval model and BM25 bring together."""
    parts = final.get("lexical")
    if not parts:
        return []
    return [
        "These scores are those of the vectors alone, among the documents of the validation pairs. Searching also uses "
        f"BM25, with a weight of {parts['weight']:g}, the best one on the validation queries. Among these documents "
        f"and documents of training, the mrr is {parts['vectors']:.2f} for the vectors, {parts['bm25']:.2f} for BM25, "
        f"and {parts['both']:.2f} for both together.",
        "",
    ]


def _ended(final: Mapping[str, Any]) -> list[str]:
    """Return what ended the training before its time, if anything did."""
    return [f"{final['ended'][0].upper()}{final['ended'][1:]}.", ""] if "ended" in final else []


def architecture(spec: Spec) -> str:
    """Return one sentence about encoder, decoder and tokens."""
    facts = {
        "encoder": _encoder(spec),
        "decoder": _decoder(spec),
        "source": _symbols(spec.source),
        "target": _symbols(spec.target),
        "pool": POOLS[spec.pool.kind],
        "question": "" if spec.data.context is None else " and of its question",
        "direction": " from last to first" if spec.backward else "",
    }
    ways = {"none": CTC, "recurrent": TRANSDUCER, "transformer": TRANSDUCER}
    about = SELECTOR if spec.task == "answer" and spec.answer.unit == "sentence" else ABOUT.get(spec.task)
    return (about or ways[spec.decoder.kind]).format(**facts)


def _hints(spec: Spec) -> list[str]:
    """Return how inputs are written, where that is not obvious."""
    if not TASKS[spec.task].corrupts:
        return []
    hides = spec.task == "masked-lm"
    what = "each token that is to be found" if hides else "what is missing"
    example = 'echo "one of the <mask> films" | weft predict RUN -'
    return [f"In an input line, `{MASK}` stands for {what}:", "", f"    {example}", ""]


ROLL = "![tunes of the data and of the model](tunes.png)"
INSPECTED = "[What the model attended to](inspection.html) when it wrote these outputs; `weft inspect` shows more."
FENCE, GOES_ON = "```", " ▸"
SUBWORDS = {"bpe": "subwords (BPE)", "unigram": "subwords (unigram)", "parts": "parts of characters"}
NOT_NEW = " (there are too few to hold some out; expect worse scores on new data)"
STEPS_OF_NOTES = ": of all notes, those that sound and those that do not"  # what the probability of a step is
PLACES = {  # by what is drawn of positions: the end of a sentence, and the end of the picture's description
    "attended": (", with the positions that it attended to", ", with attention"),
    "emitted": (", each symbol below the position where it was emitted", ", with positions"),
    "": ("", ""),
}
MOST_CONFUSED = 5  # kinds of mistakes that are listed
TRANSDUCER = (
    "A sequence-to-sequence model: {encoder} reads the {source} of the source, and {decoder} writes the {target} of "
    "the target{direction}."
)
CTC = "A sequence-to-sequence model: {encoder} reads the {source} of the source and emits {target} or blanks (CTC)."
SELECTOR = (
    "A model that selects sentences: {encoder} reads the {source} of a document{question}, every sentence gets a "
    "score, and the best one is the output."
)
ABOUT = {  # by task, where it is not `transduce`
    "classify": "A classifier: {encoder} reads the {source} of the source, and the label is predicted from {pool}.",
    "classify-tokens": "A sequence labeller: {encoder} reads the {source} of the source and predicts a label for each.",
    "language-model": "A language model over {target}: {decoder} predicts each from those before it.",
    "masked-lm": "A masked language model: {encoder} reads the {target} of a text and predicts those that are hidden.",
    "denoise": "A model that restores texts: {encoder} reads corrupted {target}, {decoder} writes the correct ones.",
    "answer": (
        "A model that selects answers: {encoder} reads the {source} of a document{question}, and predicts where the "
        "answer begins and ends."
    ),
    "retrieve": "A retrieval model: {encoder} encodes the {source} of queries and of documents as vectors ({pool}).",
}
POOLS = {
    "last": "the last state",
    "mean": "the mean of the states",
    "query": "a summary of the states by a learned query",
    "parts": "the mean states of equal parts",
}


def _symbols(side: Side) -> str:
    """Return what a model reads or writes of a column."""
    return SYMBOLS.get(side.kind, SUBWORDS.get(side.tokens, side.tokens))


def _encoder(spec: Spec) -> str:
    if spec.source.kind == "image":
        network = f"a residual CNN over {'columns' if spec.image.layout == 'columns' else 'a grid'}"
        return network if spec.encoder.kind == "none" else f"{network} with {_layers(spec)}"
    return _layers(spec)


def _layers(spec: Spec) -> str:
    encoder = spec.encoder
    if encoder.kind == "none":
        return "an embedding layer" if spec.source.kind in ("text", "auto") else "a linear layer"
    size = _size(encoder.layers, encoder.width)
    if encoder.kind != "recurrent":
        return f"a Transformer {size}"
    direction = "bidirectional" if encoder.directions == "both" else "forward"
    return f"a {direction} {encoder.cell.upper()} {size}"


def _size(layers: int, width: int) -> str:
    return f"({layers} layer{'' if layers == 1 else 's'} of {width} units)"


def _decoder(spec: Spec) -> str:
    decoder = spec.decoder
    if decoder.kind == "none":
        return "no decoder"
    size = _size(decoder.layers, decoder.width)
    if decoder.kind != "recurrent":
        return f"a Transformer {size}"
    score = decoder.attention.score
    attention = " without attention" if score == "none" else f" with {score} attention"
    article = "an" if decoder.cell[0] in "el" else "a"
    return f"{article} {decoder.cell.upper()} {size}{'' if spec.task == 'language-model' else attention}"


def _ensemble(spec: Spec, final: Mapping[str, Any]) -> str:
    models = final.get("models", 1)
    if models == 1:
        return "It has"
    directions = ", some of which write from last to first," if spec.train.reversed_members else ""
    return f"It is an ensemble of {models} such models{directions} with"


def _augmented(facts: Mapping[str, Any]) -> str:
    """Return how many synthetic pairs there were in training, if any."""
    count = facts.get("augmented_pairs", facts.get("invented_pairs", 0))  # its name in earlier versions
    return f" and {count:,} synthetic pairs" if count else ""


def validated_on_training(facts: Mapping[str, Any]) -> bool:
    """Return whether a run is scored on data that it was trained on, because there are too few to hold any out."""
    return not facts["valid"] and not facts.get("kept_aside", facts["valid_pairs"])


def _scores(final: Mapping[str, Any], unit: str, kind: str, on_training: bool) -> list[str]:
    if not final:
        return []
    baseline = final.get("baseline") or {}
    which = "training" if on_training else "validation"
    more = STEPS_OF_NOTES if (final.get("target"), kind) == ("continued", "notes") else ""
    rows = [
        f"| {metric.name} | {metric.show(value)} | {_beside(metric, baseline)}{metric.explain}{more} |"
        for metric, value in table_for(final).present(final)
    ]
    return [
        "## Scores",
        "",
        f"Step {final['step']:,}, {_decoded(final)}on {final['pairs']:,} of "
        f"{counted(final.get('of', final['pairs']), f'{which} {unit}')}{NOT_NEW if on_training else ''}:",
        "",
        f"| metric | value | {'baseline | ' if baseline else ''}|",
        f"|---|---:|{'---:|' if baseline else ''}---|",
        *rows,
        "",
        *([f"Baseline: {baseline['name']}.", ""] if baseline else []),
        *(f"{name}: `{signature}`" + "  " for name, signature in applicable_signatures(final).items()),
        "",
        *_further_sets(final),
    ]


def _beside(metric: Metric, baseline: Mapping[str, Any]) -> str:
    """Return the cell of the baseline's score; empty where the metric is the model's alone."""
    if not baseline:
        return ""
    return f"{metric.show(baseline[metric.name])} | " if metric.name in baseline else "| "


def _decoded(final: Mapping[str, Any]) -> str:
    return f"decoded by {final['search']}, " if final.get("target", "text") == "text" else ""


def _further_sets(final: Mapping[str, Any]) -> list[str]:
    """Return a table with the scores of the validation sets after the first."""
    sets = final.get("further") or []
    if not sets:
        return []
    table = table_for(final)
    shown = [dict(table.present(scores)) for scores in sets]
    metrics = list(dict.fromkeys(metric for scores in shown for metric in scores))
    rows = [
        f"| {scores['file']} | {scores['pairs']:,} of {scores['of']:,} | "
        + " | ".join(metric.show(values[metric]) if metric in values else "" for metric in metrics)
        + " |"
        for scores, values in zip(sets, shown)
    ]
    names = " | ".join(metric.name for metric in metrics)
    head = [f"| further validation set | size | {names} |", "|---|---|" + "---:|" * len(metrics)]
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
    unit = "words" if final.get("target") == "labels" else "rows"
    table = [f"| label | validation {unit} | F1 (%) |", "|---|---:|---:|", *rows, ""]
    return [
        "## Labels",
        "",
        "![which labels are taken for which](confusion.png)",
        "",
        "Most frequent mistakes: " + "; ".join(mistakes) + "." if mistakes else "No label was mistaken.",
        "",
        *table,
    ]


def _seen(spec: Spec, final: Mapping[str, Any]) -> list[str]:
    """Return the picture of what was read and written and, where the model has it, of where in the source."""
    if spec.source.kind not in READ_ONLY or not final.get("examples"):
        return []
    names = READ_ONLY[spec.source.kind]
    written = "the label that the model predicted" if spec.task == "classify" else "what the model wrote"
    how = f"Some {names} of the validation data, and {written}"
    where, drawn = PLACES[_places(spec)]
    return ["## What it saw", "", f"{how}{where}:", "", f"![{names} and outputs{drawn}](seen.png)", ""]


def _places(spec: Spec) -> str:
    """Return what is drawn of the positions in a source: those that were attended to or emitted at, or nothing."""
    if spec.head.kind == "ctc":
        return "emitted"
    if spec.decoder.kind == "none":
        return "attended" if spec.pool.kind == "query" else ""
    without = spec.decoder.kind == "recurrent" and spec.decoder.attention.score == "none"
    return "" if without else "attended"


def _series(final: Mapping[str, Any]) -> list[str]:
    """Return the picture of predicted series, where there is one."""
    if not final.get("series"):
        return []
    how = "Validation rows from a small error to a large one, each the median of a sixth of them:"
    return ["## Predictions", "", how, "", "![predicted series and their truth](series.png)", ""]


def _examples(spec: Spec, final: Mapping[str, Any]) -> list[str]:
    near = final.get("target") == "numbers"  # which are near or far, not right or wrong

    def judged(output: str, target: str) -> str:
        if near:
            return _escaped(target)
        return "✓" if output == target else f"✗ {_escaped(target)}"

    rows = [
        f"| {_escaped(source)} | {_escaped(output)} | {judged(output, target)} |"
        for source, target, output in final.get("examples") or ()
    ]
    heading = f"| source | output | {'target' if near else ''} |"
    if spec.task == "denoise":
        heading = "| corrupted text | output | original |"
    return ["## Examples", "", heading, "|---|---|---|", *rows, ""] if rows else []


def tunes_of(final: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    """Return what is drawn of a run that predicts notes: what was given, the data's tune, and the model's."""
    rows: Sequence[Sequence[str]] = final.get("continuations", final.get("examples")) or ()
    return rows


def _tunes(spec: Spec, final: Mapping[str, Any]) -> list[str]:
    if spec.target.kind != "notes" or not tunes_of(final):
        return []
    given = "grey: the prompt" if spec.task == "language-model" else "grey: notes that the model reads"
    return ["## Tunes", "", f"Of the validation data, and as the model writes them ({given}):", "", ROLL, ""]


def _continuations(spec: Spec, final: Mapping[str, Any]) -> list[str]:
    """Return prompts from the validation data and how the model goes on, as blocks of text."""
    if spec.target.kind in SYMBOLS or not continues(spec.task) or not final.get("continuations"):
        return []
    blocks = [
        line
        for prompt, _, output in final["continuations"]
        for line in (FENCE, f"{prompt}{GOES_ON}{output}".replace("```", "'''"), FENCE, "")
    ]
    return [
        "## Samples",
        "",
        f"Prompts from the validation text and, after {GOES_ON}, how the model goes on:",
        "",
        *blocks,
    ]


def _data(facts: Mapping[str, Any], unit: str) -> list[str]:
    rows = [("training files", ", ".join(facts["pairs"])), ("fingerprint", facts["fingerprint"])]
    if facts["valid"]:
        rows += [("validation files", ", ".join(facts["valid"])), ("their fingerprint", facts["valid_fingerprint"])]
    else:
        origin = "of the training data: none are held out" if validated_on_training(facts) else "held out"
        rows.append(("validation", f"{counted(facts['valid_pairs'], unit)} {origin}"))
    rows.append(("command", facts["command"]))
    return ["## Data and command", "", "| | |", "|---|---|", *(f"| {k} | `{v}` |" for k, v in rows), ""]


def _choices(reasons: Sequence[Sequence[str]]) -> list[str]:
    if not reasons:
        return []
    rows = [f"| {key} | {value} | {_escaped(why)} |" for key, value, why in reasons]
    return ["## What the autopilot chose", "", "| setting | value | because |", "|---|---|---|", *rows, ""]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
