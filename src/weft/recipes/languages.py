"""The recipe of many languages in one model: which directions it learned, and which it translates without pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.recipes.study import PUBLIC, Files, Recipe, Study, public_paths

if TYPE_CHECKING:
    from weft.api import Run
    from weft.compare.compare import Compared

PIVOT, OTHERS = "en", ("de", "fr", "cs")
LANGUAGES = (PIVOT, *OTHERS)
TRAINED = [pair for other in OTHERS for pair in ((PIVOT, other), (other, PIVOT))]
UNTRAINED = [(first, second) for first in OTHERS for second in OTHERS if first != second]
JUDGED = 200  # sentences of each direction
HEADER = "source\ttarget\ttag\n"
GREEDY = {"kind": "greedy"}
Bleu = dict[tuple[str, str], float]  # by source and target language
Texts = Mapping[str, Sequence[str]]  # the sentences of each language, in the same order


def texts(part: str) -> Texts:
    """Return the sentences of a part of Multi30k."""
    paths = public_paths(*(f"multi30k/{part}.{language}" for language in LANGUAGES))
    return {
        language: [" ".join(line.split()) for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n")]
        for language, path in zip(LANGUAGES, paths)
    }


def blocks(parallel: Texts) -> list[str]:
    """Return rows in which every third sentence is in English and German, French or Czech, in both directions."""
    rows = []
    for number, english in enumerate(parallel[PIVOT]):
        other = OTHERS[number % len(OTHERS)]
        foreign = parallel[other][number]
        rows += [f"{english}\t{foreign}\t{other}\n", f"{foreign}\t{english}\t{PIVOT}\n"]
    return rows


def data(folder: Path) -> Files:
    """Write English with each of the other languages, so that no sentence is there in two of these."""
    folder.mkdir(parents=True, exist_ok=True)
    train, valid = folder / "train.tsv", folder / "valid.tsv"
    for part, path in {"train": train, "val": valid}.items():
        path.write_text(HEADER + "".join(blocks(texts(part))), encoding="utf-8")
    return Files(str(train), str(valid))


def by_direction(compared: Compared) -> list[str]:
    """Return the BLEU of trained and untrained directions, the latter also through English."""
    from weft.api import load  # torch, which `weft recipe list` does not need
    from weft.compare.results import ComparisonFolder

    labels = {each.name: each.label for each in compared.plan.combinations}
    parallel = {language: lines[:JUDGED] for language, lines in texts("flickr2016").items()}
    scores = {
        labels[result.cell]: directions(
            load(ComparisonFolder(compared.path).run(result.cell, result.seed).path), parallel
        )
        for result in compared.results
        if result.valid and result.seed == 1
    }
    lines = [
        f"The table above is for the validation pairs. The next one is for {JUDGED} sentences of flickr2016 in each "
        "direction (BLEU). *Trained* is the mean of the six directions that have pairs. The other six are translated "
        "by the same model, either directly or first into English and from there into the target language:",
        "",
        "| | trained | untrained, directly | untrained, through English |",
        "|---|---:|---:|---:|",
    ]
    for label, each in scores.items():
        means = [sum(part.values()) / len(part) for part in each]
        lines.append(f"| {label} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")
    best = max(scores, key=lambda label: sum(scores[label][1].values()))
    names = [*TRAINED, *UNTRAINED]
    lines += [
        "",
        f"The BLEU of each direction, for the variant that is best in the untrained directions (*{best}*):",
        "",
    ]
    lines += ["| from | to | directly | through English |", "|---|---|---:|---:|"]
    trained, untrained, pivoted = scores[best]
    for source, target in names:
        bleu = (trained | untrained)[source, target]
        through = pivoted.get((source, target))
        lines.append(f"| {source} | {target} | {bleu:.1f} | {'' if through is None else f'{through:.1f}'} |")
    return [*lines, ""]


def directions(run: Run, parallel: Texts) -> tuple[Bleu, Bleu, Bleu]:
    """Return the BLEU of trained directions, of untrained ones, and of these through English."""

    def translated(lines: Sequence[str], target: str) -> list[str]:
        from weft.core.pair import Pair

        return [str(output) for output in run.predict([Pair(line, tag=target) for line in lines], search=GREEDY)]

    def bleu(outputs: Sequence[str], target: str) -> float:
        from weft.score.metrics import table_of

        return float(table_of("text").score(outputs, [[line] for line in parallel[target]])["bleu"])

    def direct(pairs: Sequence[tuple[str, str]]) -> Bleu:
        return {(a, b): bleu(translated(parallel[a], b), b) for a, b in pairs}

    english = {language: translated(parallel[language], PIVOT) for language in OTHERS}
    pivoted = {(a, b): bleu(translated(english[a], b), b) for a, b in UNTRAINED}
    return direct(TRAINED), direct(UNTRAINED), pivoted


def languages() -> Recipe:
    plain: dict[str, Any] = {"data.back_translate": False}
    variants: dict[str, dict[str, Any]] = {
        "tag at the start": {**plain, "data.tag_at": "start"},
        "tag at the decoder": {**plain, "data.tag_at": "decoder"},
        "start, own translations": {"data.back_translate": True, "data.tag_at": "start"},
    }
    part = {"kind": "transformer", "width": 128, "heads": 4, "inner": 256}
    settings: dict[str, Any] = {
        **{f"{side}.{name}": value for side in ("encoder", "decoder") for name, value in part.items()},
        **{"encoder.layers": 3, "decoder.layers": 2, "embed.width": 128, "embed.shared": True},
        **{"source.tokens": "bpe", "target.tokens": "bpe", "source.size": 6000, "target.size": 6000},
        **{"train.rate": 0.003, "train.dropout": 0.1, "train.select": "bleu", "train.evaluations": 4},
        **{"train.valid_pairs": 200, "search.kind": "greedy"},
    }
    return Recipe(
        "languages",
        "One model translates from English to German, French and Czech, and back. Can it also translate from German to "
        "French, for which it has never seen a pair? And is that better than going through English?",
        "The data are captions of pictures in four languages (Multi30k, Elliott 2016 and 2017, Barrault 2018), in "
        "multi30k/train.*, val.* and flickr2016.* with the endings en, de, fr and cs. Each of the 29,000 training "
        "sentences is used in English and in only one other language, so there are no pairs of German and French, "
        "German and Czech, or French and Czech. A tag tells the model which language to write. "
        f"{PUBLIC}",
        LANGUAGES_LEARN,
        (Study("languages", data, variants, settings, "3Mtokens", tag=3, also=by_direction),),
    )


LANGUAGES_LEARN = (
    "If all training pairs contain English, a model learns to translate every source that is not English into English, "
    "whatever the tag says: untrained directions have a BLEU of 0.6. If the tag is the first token of the decoder, "
    "they have 1.8. If the model also learns from sources that it has translated itself (`data.back_translate`), they "
    "have 14.3, which is 79 % of what the same model reaches through English (18.0). Compared with *tag at the start*, "
    "on which this variant builds, the trained directions lose 0.5 (26.7 instead of 27.2), because part of the time "
    "goes into the other directions. So the way through English is still better, but with more time its lead shrinks: "
    "after 20 minutes of `weft train`, direct translation reaches 87 % of the score through English (docs/LOG.md). "
    "There was one seed."
)
