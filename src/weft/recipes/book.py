"""The recipes, by name: each is a question, data, and variants one setting apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.recipes import makers
from weft.recipes.makers import symbols
from weft.recipes.spearman import PUBLISHED, beside_published
from weft.recipes.study import Files, Options, Recipe, Study, given, made

ELMAN = {"encoder.cell": "elman", "decoder.cell": "elman"}
NO_ATTENTION = {"decoder.attention.score": "none"}
SMALL = {"encoder.width": 128, "decoder.width": 128, "embed.width": 64}
CHARACTERS = {"source.tokens": "characters", "target.tokens": "characters", "data.unseen": "unknown"}
EXACT = {"train.select": "exact"}
PUBLIC = "The folder that `WEFT_DATA` names must hold them; they are not part of Weft."


def transformer(positions: str, width: int = 128, layers: int = 2) -> dict[str, Any]:
    """A small Transformer with one position scheme."""
    part = {"kind": "transformer", "width": width, "layers": layers, "heads": 4, "inner": 2 * width}
    sides = {f"{side}.{name}": value for side in ("encoder", "decoder") for name, value in part.items()}
    return {**sides, "embed.positions": positions, "embed.width": width, "train.rate": 0.0015}


def case() -> Recipe:
    settings = {**ELMAN, **SMALL, **CHARACTERS, **EXACT, "train.dropout": 0.0, "objective.smoothing": 0.0}
    attention = {"decoder.attention.score": "additive"}
    last = {**NO_ATTENTION, "bridge.kind": "last"}
    data = made(makers.cased(5, 60), 20_000, 600)
    ladder = {
        "last state alone": {**last, "bridge.give": "first"},
        "summary at every step": {**last, "bridge.give": "every"},
        "attention": attention,
        "attention and positions": {**attention, "embed.positions": "sinusoid"},
    }
    places = {f"prompt at {place}": {**attention, "data.tag_at": place} for place in ("start", "end", "decoder")}
    return Recipe(
        "case",
        "A sentence and a prompt, `<U>` or `<L>`: write it in upper or lower case. How does an Elman network get a "
        "long sentence through, and does it matter where the prompt stands?",
        "Made by the recipe: 20,000 sentences of 5 to 60 characters out of invented words.",
        "One state of fixed width must hold the whole sentence. With the last state alone no sentence of the "
        "validation set came out right, not even short ones; with the summary at every step 3 %, all of them of at "
        "most 10 characters. With attention 99.3 % are right, and what is lost is lost among the long ones; with "
        "positions all are. Where the prompt stands makes no difference that is more than chance.",
        (
            Study("ladder", data, ladder, settings, "6Mtokens", tag=3),
            Study("prompt", data, places, settings, "3Mtokens", tag=3),
        ),
    )


def spaces() -> Recipe:
    variants: dict[str, dict[str, Any]] = {
        "plain vocabulary, no attention": {**NO_ATTENTION, "decoder.width": 128},
        "plain vocabulary, attention": {"decoder.attention.score": "additive", "decoder.width": 128},
        "with a blank (CTC)": {"head.kind": "ctc"},
    }
    settings = {**CHARACTERS, **EXACT, "encoder.width": 128, "embed.width": 64, "train.dropout": 0.05}
    tests = {"twice as long": (makers.spaced(41, 80), 300)}
    return Recipe(
        "spaces",
        "Take all spaces out of a sentence. Must the output's symbols be told one by one, or is it enough to say at "
        "each place of the input what to write there, or nothing: a blank?",
        "Made by the recipe: 20,000 sentences of 5 to 40 characters out of invented words; tested also on 41 to 80. "
        "No word has the same letter twice in a row: CTC melts equal neighbours, and needs a place between them.",
        "An encoder alone that says a letter or a blank at each place learns this in seconds, and works on inputs "
        "twice as long as any it saw: what it says at a place hangs on what stands there. A decoder must find its "
        "place by itself: with attention it learns the trained lengths nearly as well, with four times the "
        "parameters, and loses its way now and then beyond them; without attention one state cannot hold the "
        "sentence.",
        (Study("spaces", made(makers.spaced(5, 40), 20_000, 600, tests), variants, settings, "800ktokens"),),
    )


JOZEFOWICZ = {
    **NO_ATTENTION,
    **CHARACTERS,
    "encoder.directions": "forward",
    "bridge.kind": "last",
    "encoder.width": 192,
    "decoder.width": 192,
    "embed.width": 48,
    "train.select": "accuracy",
    "train.dropout": 0.0,
    "train.batch_tokens": 2048,
    "train.evaluations": 8,
    "train.valid_pairs": 200,
    "search.kind": "greedy",
}


def ten_architectures(name: str, data: Callable[[Path], Files], column: int) -> Study:
    """Each recurrence that was published, with the same number of parameters, beside a column of that table."""
    cells = {cell: {"encoder.cell": cell, "decoder.cell": cell} for cell in PUBLISHED}
    more = beside_published(column)
    return Study(name, data, cells, JOZEFOWICZ, "600ktokens", seeds=2, match=True, also=more)


def arithmetic() -> Recipe:
    return Recipe(
        "arithmetic",
        "Two numbers with distracting letters between the digits, as in `3e36d9-h1h39f94eeh43keg3c=`: which "
        "recurrence learns to say the sum? Ten architectures at equal numbers of parameters, beside the published "
        "column.",
        "Made by the recipe as Jozefowicz 2015 describes it: 60,000 tasks. One network reads the task and another of "
        "the same kind says the answer, with the last state handed over; the score is the share of characters that "
        "are the most probable given the right ones before. Each learns from the same number of symbols.",
        "At this small budget there are two groups: lstm-f, mut2, gru and mut3 say 43 to 47 % of the characters "
        "right, the others 33 to 37 %. That tells how soon a network learns, not how far it would come: lstm-f, first "
        "here, is last in the published column, which was found with far longer training and a search over settings "
        "for each. Hence the low rank correlation. Give it `--budget 20Mtokens` to see more.",
        (ten_architectures("arithmetic", made(makers.arithmetic, 60_000, 600), 0),),
    )


def xml() -> Recipe:
    return Recipe(
        "xml",
        "Nested tags such as `<ab><cde></cde></ab>`: which recurrence remembers what is open, and how it was spelled? "
        "Ten architectures at equal numbers of parameters, beside the published column.",
        "Made by the recipe as Jozefowicz 2015 describes it: 20,000 documents of 12 to 240 characters. The first half "
        "is read, the second is said; the score is next-character accuracy on the second half.",
        "Letters of new tags cannot be known, so no score comes near 100 %. What can be known is which tag must be "
        "closed and how it was spelled: that asks for a stack. At the recipe's small budget all stay between 31 and "
        "34 %, below most of the published figures, and most still rise where it ends (see the picture): the order "
        "says little, and its correlation with the published one, which was found with far longer training and a "
        "search over settings, is low. Give it `--budget 20Mtokens` to see more.",
        (ten_architectures("xml", made(makers.xml, 20_000, 600), 1),),
    )


def order() -> Recipe:
    schemes = ("none", "sinusoid", "sinusoid-concat", "learned", "relative", "rotary", "alibi")
    words = {"source.tokens": "words", "target.tokens": "words", **EXACT, "train.batch_tokens": 1024}
    return Recipe(
        "order",
        "`the old dog sees the shy cat` is not `the shy cat sees the old dog`. What does a Transformer make of "
        "sentences whose meaning hangs on word order, without positions, and with each way of telling places apart?",
        "Made by the recipe: 4,000 sentences of two nouns, two adjectives and a verb, to `sees ( old dog , shy cat )`.",
        "Without positions the encoder sees a bag of words: it cannot know who is old, nor who sees whom, and is "
        "right about one time in four, as chance would have it. Sinusoids, added or concatenated, and rotary solve it "
        "at once. In the same short time alibi is nearly there, learned vectors are on the way, and the relative "
        "bias has barely begun.",
        (
            Study(
                "order", made(makers.ordered, 4_000, 500), {s: transformer(s, 64) for s in schemes}, words, "400ktokens"
            ),
        ),
    )


def lengths(name: str, does: str, change: Any, learns: str) -> Recipe:
    variants: dict[str, dict[str, Any]] = {
        "lstm, no attention": {**NO_ATTENTION, "decoder.cell": "lstm", **SMALL},
        "lstm, attention": {"decoder.cell": "lstm", **SMALL},
        "gru, attention": {"encoder.cell": "gru", "decoder.cell": "gru", **SMALL},
        "elman, attention": {"encoder.cell": "elman", "decoder.cell": "elman", **SMALL},
        **{f"transformer, {s}": transformer(s) for s in ("sinusoid", "rotary", "relative", "alibi")},
    }
    settings = {**CHARACTERS, **EXACT, "train.dropout": 0.05, "train.batch_tokens": 1536, "search.kind": "greedy"}
    tests = {"to 100": (symbols(1, 100, change), 400)}
    return Recipe(
        name,
        f"{does} a string of letters. Trained on up to 20 letters and tested on up to 100: what carries over, by cell, "
        "attention and position scheme?",
        "Made by the recipe: 20,000 strings of 1 to 20 letters, each letter as likely as any other; tests of 1 to 100.",
        learns,
        (Study(name, made(symbols(1, 20, change), 20_000, 500, tests), variants, settings, "500ktokens"),),
    )


def exposure() -> Recipe:
    kinds: dict[str, dict[str, Any]] = {
        "teacher forcing": {"feeding.kind": "teacher"},
        "scheduled, linear": {"feeding.kind": "scheduled", "feeding.schedule": "linear"},
        "scheduled, inverse sigmoid": {"feeding.kind": "scheduled", "feeding.schedule": "inverse-sigmoid"},
        "free running": {"feeding.kind": "own"},
        "teacher, token dropout": {"feeding.token_dropout": 0.1},
    }
    g2p = given("g2p_sigmorphon2020/data/train/gre_train.tsv", "g2p_sigmorphon2020/data/dev/gre_dev.tsv")
    size = {"encoder.width": 128, "decoder.width": 128, "embed.width": 128}
    spoken = {**size, **EXACT, "source.tokens": "characters", "target.tokens": "words", "train.dropout": 0.05}
    return Recipe(
        "exposure",
        "In training the decoder reads the right symbols, in use its own. Does it pay to let it read its own output "
        "while it learns: by a coin per symbol whose odds change over training time, or altogether?",
        "Greek words to phones, gre_train.tsv and gre_dev.tsv of github.com/sigmorphon/2020, task 1 (from WikiPron, "
        "CC BY-SA 3.0), in g2p_sigmorphon2020/data/train and dev. "
        f"{PUBLIC} And made by the recipe: 8,000 strings of 10 to 40 digits, spoken with equal ones taken together.",
        "With these budgets it does not pay. On words, teacher forcing (66 %), with some symbols hidden (66 %) and "
        "linearly scheduled sampling (65 %) are not apart beyond chance, while the inverse sigmoid has 58 % and free "
        "running 46 %. On the long outputs teacher forcing is ahead of all (87 %; scheduled 80 and 60 %), and free "
        "running has learned nothing: it reads its own mistakes from the start. What must first say its own output "
        "also takes twice the time for as many symbols.",
        (
            Study("g2p", g2p, kinds, {**size, **EXACT}, "600ktokens"),
            Study("spoken", made(makers.spelled(10, 40), 8_000, 400), kinds, spoken, "1500ktokens"),
        ),
    )


def bottleneck() -> Recipe:
    plain = {**NO_ATTENTION, "bridge.kind": "projected"}
    attention = {"decoder.attention.score": "additive"}
    forward = {"encoder.directions": "forward"}
    variants: dict[str, dict[str, Any]] = {
        "no attention, forwards": {**plain, **forward},
        "no attention, reversed": {**plain, **forward, "encoder.reverse": True},
        "no attention, bidirectional": plain,
        "attention, forwards": {**attention, **forward},
        "attention, bidirectional": attention,
    }
    pieces = {
        f"{side}.{key}": value for side in ("source", "target") for key, value in (("tokens", "bpe"), ("size", 3000))
    }
    settings = {"encoder.kind": "recurrent", "decoder.kind": "recurrent", "train.select": "bleu", **pieces}
    data = given("tatoeba_en_fr/train.tsv", "tatoeba_en_fr/dev.tsv")
    return Recipe(
        "bottleneck",
        "English to French with a GRU: what does the one state between encoder and decoder cost as sentences grow, "
        "and what do reading backwards, reading both ways, and attention give back?",
        "160,379 short sentences of Tatoeba (CC BY 2.0 FR; fra-eng of manythings.org/anki, English and French in two "
        f"columns), in tatoeba_en_fr/train.tsv, and 1,752 others in dev.tsv. {PUBLIC}",
        "After a million target symbols nothing is learned well yet, but the order is clear. Through one state, read "
        "forwards, next to nothing comes (1.2 BLEU); reading backwards (Sutskever 2014) and reading both ways help "
        "alike (4.1 and 4.0); attention gives 11.7, with both ways 13.1. Without attention BLEU falls from eight "
        "words on; with it the curve stays level to twelve. Beyond that there are too few pairs to say.",
        (Study("bottleneck", data, variants, {**settings, "encoder.cell": "gru", "decoder.cell": "gru"}, "1Mtokens"),),
    )


def _lookup(folder: Path, options: Options) -> list[str]:
    from weft.recipes import lookup  # torch, which a list of recipes need not wait for

    return lookup.run(folder, options)


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        case(),
        spaces(),
        Recipe(
            "lookup",
            "Attention is a dictionary that can be learned. Of the ways to look up, exact, nearest and soft, which "
            "learn, and what gradients reach query, key and value?",
            "Made by the recipe: each of 24 words has to be answered with another one.",
            "Exact match gives no gradient at all and stays at chance. Nearest match gives one to the values only: a "
            "query can never move to another entry, and words that fall on the same entry share its answer for good, "
            "so half are right. Straight-through and sparsemax reach all three, but what has no weight is not pulled: "
            "they come further and get stuck. Soft lookup pulls at everything and learns nearly all, by inner "
            "product slower than by rbf; by cosine the weights stay almost even (the largest is 0.09), and the values "
            "learn to be read off the mixture.",
            by_hand=_lookup,
        ),
        arithmetic(),
        xml(),
        order(),
        lengths(
            "copy",
            "Copy",
            str,
            "In half a million symbols the recurrences with attention learn it (elman 95.8 %, lstm 88.8 %, gru 81.0 "
            "%), and a Transformer with sinusoids nearly (73.8 %); rotary is on its way (24 %), and relative and "
            "alibi, which know distances and no places, have barely begun. One state alone holds a few letters. "
            "Little carries over: of 21 to 30 letters, elman with attention copies 16 % and lstm 7 %; of more than 30 "
            "nothing copies any.",
        ),
        lengths(
            "reverse",
            "Reverse",
            lambda text: text[::-1],
            "With attention gru reverses 98.4 %, lstm 92.0 % and elman 77.2 % of the trained lengths after half a "
            "million symbols. Of the Transformers rotary, which was behind sinusoids at copying, is well ahead of "
            "them here (61 and 14 %). One state alone does not reverse better than it copies (8 and 11 %). Beyond 20 "
            "letters nearly nothing carries over: gru gets 7 % of 21 to 30 letters right, and nothing any beyond 30.",
        ),
        lengths(
            "sort",
            "Sort",
            lambda text: "".join(sorted(text)),
            "Where a letter stands does not matter for sorting, only how often it comes: so the Transformers, "
            "whatever their positions, learn it far sooner than copying (65 to 78 % after half a million symbols), "
            "relative and alibi among them. lstm with attention is ahead (83 %), one state alone has nothing right. "
            "Little carries over to longer inputs: of all lengths to 100, a fifth of which were trained, 14 to 19 % "
            "are right.",
        ),
        exposure(),
        bottleneck(),
    )
}
