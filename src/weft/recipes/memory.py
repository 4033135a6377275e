"""Recipes about what a model keeps: a count, and the positions of what is hidden from it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.core.pair import MASK
from weft.recipes import counts, makers
from weft.recipes.study import Recipe, Study, generated

if TYPE_CHECKING:
    from weft.compare.compare import Compared

SENTENCES, SENTENCES_SEED = 200, 9  # whose noun and verb are hidden


def counting() -> Recipe:
    cells: dict[str, dict[str, Any]] = {name.upper(): {"encoder.cell": name} for name in ("lstm", "gru")}
    settings: dict[str, Any] = {
        "task": "classify-tokens",
        "encoder.kind": "recurrent",
        "encoder.directions": "forward",
        "encoder.width": 32,
        "embed.width": 8,
        "train.dropout": 0.0,
        "train.rate": 0.01,
        "train.batch_tokens": 1024,
        "train.select": "exact",
        "data.repeat_power": 1.0,
        "objective.smoothing": 0.0,
    }
    return Recipe(
        "counting",
        "Can a recurrent network count? It reads aⁿbⁿ or aⁿbⁿcⁿ symbol by symbol, and predicts the next symbol "
        "wherever only one is possible: for example, after the last b of aⁿbⁿ the string must end. An LSTM and a "
        f"GRU learn with n up to {counts.LONGEST}. Which of them goes on counting to 500?",
        "The recipe makes the strings, with one n in five held out for validation, and longer ones for three tests. "
        "Every symbol has a label (`--task classify-tokens`): `?` for an a, the next symbol for a b or c, `end` for "
        "the last one; the network reads forwards only. A string is right if all of its labels are.",
        COUNTING_LEARNS,
        tuple(
            Study(letters, counts.counting(letters), cells, settings, budget, seeds=2)
            for letters, budget in (("ab", "1Mtokens"), ("abc", "1500ktokens"))
        ),
    )


def masking() -> Recipe:
    part = {"kind": "transformer", "width": 64, "layers": 2, "heads": 4, "inner": 128}
    settings: dict[str, Any] = {
        "task": "masked-lm",
        "data.target": 1,
        "target.tokens": "words",
        "embed.width": 64,
        "embed.positions": "sinusoid",
        **{f"encoder.{name}": value for name, value in part.items()},
        "corrupt.share": 0.3,
        "train.dropout": 0.1,
        "train.rate": 0.003,
        "train.batch_tokens": 1024,
        "train.select": "accuracy",
    }
    variants = {f"positions {value}": {"corrupt.positions": value} for value in ("kept", "hidden")}
    return Recipe(
        "masking",
        "A Transformer predicts the words that are hidden in a sentence. What if a hidden word loses its position, "
        "too?",
        "The recipe makes 6,000 sentences of seven words, such as `the old dog sees the small cat`, from 14 nouns, 8 "
        "verbs and 8 adjectives. No noun and no adjective occurs twice in a sentence. 30 % of the words are chosen, "
        "and most of these are hidden: the model reads a mask in their place, with its position or without. The "
        "position of a mask tells whether an article, an adjective, a noun or a verb is hidden.",
        MASKING_LEARNS,
        (Study("masking", generated(makers.ordered, 6_000, 500), variants, settings, "300ktokens", also=same_answers),),
    )


def same_answers(compared: Compared) -> list[str]:
    """Return how often two hidden words of a sentence, a noun and a verb, get the same answer, for each variant."""
    from weft.api import load  # torch, which `weft recipe list` does not need
    from weft.compare.results import ComparisonFolder

    labels = {each.name: each.label for each in compared.plan.combinations}
    rng = random.Random(SENTENCES_SEED)
    sentences = [hide_two(makers.ordered(rng).source) for _ in range(SENTENCES)]
    table = ["| | sentences | the same answer twice | such as |", "|---|---:|---:|---|"]
    for result in (result for result in compared.results if result.valid):
        run = load(ComparisonFolder(compared.path).run(result.cell, result.seed).path)
        outputs = [str(output) for output in run.predict(sentences)]
        several, same = alike(outputs)
        share = f"{100 * same / max(1, several):.1f} %"
        table.append(f"| {labels[result.cell]} | {several:,} | {share} | `{sentences[0]}`: {outputs[0]} |")
    return ["The noun and the verb of new sentences are hidden. Do both get the same answer?", "", *table, ""]


def hide_two(sentence: str) -> str:
    """Return a sentence with a mask for its first noun and for its verb."""
    words = sentence.split()
    return " ".join([*words[:2], MASK, MASK, *words[4:]])


def alike(outputs: Sequence[str]) -> tuple[int, int]:
    """Return how many outputs have several words, and in how many of these all are the same."""
    several = [words for output in outputs if len(words := output.split()) > 1]
    return len(several), sum(len(set(words)) == 1 for words in several)


COUNTING_LEARNS = (
    "The LSTM counts, the GRU does not. After training with n up to 50, both LSTMs (two seeds) get every aⁿbⁿ up to n "
    "= 200 right, four in ten of those from 201 to 350, and none beyond. aⁿbⁿcⁿ needs two counters: both get every "
    "string up to n = 100 right, and one of them every string up to 200. The GRU learns only some of the lengths that "
    "it has seen (35 % of the held-out aⁿbⁿ), and almost nothing beyond 50. The state of a GRU stays between −1 and 1, "
    "while the memory of an LSTM can grow by the same amount with every symbol (Weiss 2018). None of them counts to "
    "500: small errors of each step add up. With aⁿbⁿcⁿ, the ten held-out strings of each seed are too few to show a "
    "difference between LSTM and GRU, but the longer test strings show it."
)
MASKING_LEARNS = (
    "A hidden word must keep its position. With positions, the model knows that the first mask is a noun and the "
    "second a verb, and never gives both the same answer. Without them, it reads the same vector at both places, and "
    "so gives both the same answer in every sentence. The accuracy falls only from 42.5 to 39.2 %, though "
    "significantly: most sentences have only one or two hidden words, and the positions of the visible words tell what "
    "is missing."
)
