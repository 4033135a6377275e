"""The recipes, by name: each is a question, its data, and variants that differ in one setting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from weft.recipes import columns, continued, documents, drawn, inside, languages, makers, memory, spoken
from weft.recipes.cranfield import cranfield
from weft.recipes.makers import symbols
from weft.recipes.spearman import PUBLISHED, beside_published
from weft.recipes.study import PUBLIC, Files, Options, Recipe, Study, generated, public

ELMAN = {"encoder.cell": "elman", "decoder.cell": "elman"}
NO_ATTENTION = {"decoder.attention.score": "none"}
SMALL = {"encoder.width": 128, "decoder.width": 128, "embed.width": 64}
CHARACTERS = {"source.tokens": "characters", "target.tokens": "characters", "data.unseen": "unknown"}
EXACT = {"train.select": "exact"}


def transformer(positions: str, width: int = 128, layers: int = 2) -> dict[str, Any]:
    """Return the settings of a small Transformer with one position scheme."""
    part = {"kind": "transformer", "width": width, "layers": layers, "heads": 4, "inner": 2 * width}
    sides = {f"{side}.{name}": value for side in ("encoder", "decoder") for name, value in part.items()}
    return {**sides, "embed.positions": positions, "embed.width": width, "train.rate": 0.0015}


def case() -> Recipe:
    settings = {**ELMAN, **SMALL, **CHARACTERS, **EXACT, "train.dropout": 0.0, "objective.smoothing": 0.0}
    attention = {"decoder.attention.score": "additive"}
    alone = {**NO_ATTENTION, "bridge.kind": "last", "bridge.give": "first"}
    data = generated(makers.cased(5, 60), 20_000, 600)
    ladder = {
        "last state alone": alone,
        "summary at every step": {**alone, "bridge.give": "every"},
        "attention": attention,
        "attention and positions": {**attention, "embed.positions": "sinusoid"},
    }
    places = ("start", "end", "decoder")
    prompts = {f"prompt at {where}": {**attention, "data.tag_at": where} for where in places}
    short = {
        f"{name}, prompt at {where}": {**alone, "encoder.directions": directions, "data.tag_at": where}
        for name, directions in (("forward", "forward"), ("both directions", "both"))
        for where in places
    }
    return Recipe(
        "case",
        "Write a sentence in upper or lower case, as a prompt (`<U>` or `<L>`) says. What does an Elman network need "
        "to reproduce a long sentence, and does the position of the prompt matter?",
        "The recipe makes 20,000 sentences of 5 to 60 characters from made-up words; 20,000 of 3 to 12 characters for "
        "the third study (*Short*), whose models have no attention; and 8,000 with a space between characters for the "
        "last one (*Step*), in which each input character has an output.",
        "Without attention, one state of fixed width must hold the whole sentence. With the last state of the encoder "
        "alone, 1 % of the sentences are right, and if the decoder gets this state as an input at every step, 7 %; the "
        "sentences that are right all have at most 10 characters. With attention, 99.7 % are right, and with attention "
        "and positions, all. The position of the prompt makes no significant difference to a model with attention. "
        "*Short* shows what one state holds, given sentences of up to 12 characters. A plain Elman network that reads "
        "forwards gets 1 % right or less, wherever the prompt is: it has forgotten the first characters, which the "
        "decoder must write first. If the encoder also reads backwards, the first characters are the last that it "
        "reads, and 67 to 76 % of the sentences are right: nearly all sentences of up to 8 characters, and few of 11 "
        "or 12. There the prompt is better at the end or at the decoder (75 to 76 %) than at the start (67 %). In "
        "*Step*, each character has a label, its upper- or lower-case form (`--task classify-tokens`), and nothing has "
        "to be remembered but the prompt: a forward Elman network that reads the prompt first gets every line right, "
        "and so does a bidirectional one.",
        (
            Study("ladder", data, ladder, settings, "6Mtokens", tag=3),
            Study("prompt", data, prompts, settings, "3Mtokens", tag=3),
            Study("short", generated(makers.cased(3, 12), 20_000, 600), short, settings, "2Mtokens", tag=3),
            columns.in_step(),
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
    plain, blank = (partial(makers.spaced, blank=sign, doubled=0.15) for sign in ("", "_"))
    longer = {"twice as long": (plain(41, 80), 300)}, {"twice as long": (blank(41, 80), 300)}
    attention, ctc = (variants[name] for name in ("plain vocabulary, attention", "with a blank (CTC)"))
    return Recipe(
        "spaces",
        "Remove all spaces from a sentence. Is a decoder needed, or is it enough if an encoder emits a letter or a "
        "blank at each position of the input?",
        "The recipe makes 20,000 sentences of 5 to 40 characters from made-up words, and a test set with 41 to 80. In "
        "the first study no word has the same letter twice in a row, because CTC merges equal neighbours unless a "
        "blank is between them; in the other two, 15 % of the letters are doubled. In the last one the decoder, too, "
        "has a blank in its vocabulary: it writes `_` for each space, so one symbol for each position of the input.",
        "An encoder that emits a letter or a blank at each position gets every sentence right, also those twice as "
        "long as any in training, because each output depends only on the letter at its position. A decoder with "
        "attention and four times as many parameters is as good on the lengths seen in training (99.8 %), and gets "
        "95.7 % of the longer sentences right. Without attention, one state cannot hold the sentence (21 %). With "
        "doubled letters the ranking is reversed: CTC needs a blank between two equal letters, and only the positions "
        "of spaces are free for it. That is enough room in 66 % of the sentences, but the encoder then has to move "
        "letters away from their own positions, and gets only 33.5 % right; the decoder is not affected (100 %). A "
        "blank for each space makes no difference to it (99.8 %; 97.3 against 96.7 % on longer sentences): attention "
        "counts positions well enough without that help.",
        (
            Study("spaces", generated(makers.spaced(5, 40), 20_000, 600, tests), variants, settings, "800ktokens"),
            Study(
                "doubled",
                generated(plain(5, 40), 20_000, 600, longer[0]),
                {"attention": attention, "CTC": ctc},
                settings,
                "800ktokens",
            ),
            Study(
                "in-place",
                generated(blank(5, 40), 20_000, 600, longer[1]),
                {"attention, a blank for each space": attention},
                settings,
                "800ktokens",
            ),
        ),
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
    """Return a comparison of the ten published cells with equal numbers of parameters, beside a published column."""
    cells = {cell: {"encoder.cell": cell, "decoder.cell": cell} for cell in PUBLISHED}
    more = beside_published(column)
    return Study(name, data, cells, JOZEFOWICZ, "6Mtokens", match=True, also=more)


def arithmetic() -> Recipe:
    return Recipe(
        "arithmetic",
        "Add or subtract two numbers with distracting letters between the digits, as in `3e36d9-h1h39f94eeh43keg3c=`. "
        "Which recurrent cell learns this best? The recipe compares ten cells with equal numbers of parameters, and "
        "shows published results beside them.",
        "The recipe makes 60,000 tasks as Jozefowicz 2015 describes them. One network reads the task and another of "
        "the same kind writes the answer, starting from the last state of the first. The score is next-character "
        "accuracy with teacher forcing. All cells learn from the same number of characters.",
        "MUT2, GRU and MUT3 are first (70 to 71 %) and not significantly different; lstm-b, whose forget gate starts "
        "open, follows with 69.6 %, in two thirds of their time. With a forget bias of 0, an LSTM has 64.5 %. Of the "
        "three gates, the input gate matters most here: without it (lstm-i), a model begins to learn much later, and "
        "has 52 %. The Elman network learns almost nothing (33 %). The curves are nearly flat at the end, because the "
        "learning rate falls to 0. The published order agrees that MUT3, lstm-b, MUT2 and GRU are near the top, and "
        "lstm-i and the Elman network near the end. It differs in lstm-f, which is last there (29.3 %) and has 67.9 % "
        "here, and in MUT1, which is first there. The rank correlation is 0.41, from one seed and one learning rate "
        "for all cells. The published figures are about 20 points higher: they come from far longer training and from "
        "a search over settings for each cell.",
        (ten_architectures("arithmetic", generated(makers.arithmetic, 60_000, 600), 0),),
    )


def xml() -> Recipe:
    return Recipe(
        "xml",
        "Continue nested tags such as `<ab><cde></cde></ab>`. Which recurrent cell remembers best which tags are open, "
        "and how they are spelled? The recipe compares ten cells with equal numbers of parameters, and shows published "
        "results beside them.",
        "The recipe makes 20,000 documents of 12 to 240 characters as Jozefowicz 2015 describes them. The model reads "
        "the first half and writes the second; the score is next-character accuracy on the second half.",
        "The letters of new tags cannot be predicted, so no score comes near 100 %. Which tag is closed next, and how "
        "it is spelled, can be predicted, but only with a stack. The LSTM whose forget gate starts open (lstm-b) is "
        "first with 59.6 %, followed by GRU, MUT3 and MUT2 (58.5 to 58.7 %). The same LSTM with a forget bias of 0 has "
        "53.9 %, and without a forget gate (lstm-f) 49.6 %, the least of all cells with gates. The Elman network, "
        "which has none, stays at 32.1 %. The published column has the same two cells at its end, lstm-f and Elman, "
        "and the Elman network has the same score there. The other places differ: MUT1, which is first in the "
        "published column, is seventh here. All published figures but that of the Elman network are lower than ours. "
        "The rank correlation is 0.54, from one seed and one learning rate for all cells; the published figures come "
        "from a search over settings for each cell.",
        (ten_architectures("xml", generated(makers.xml, 20_000, 600), 1),),
    )


def order() -> Recipe:
    schemes = ("none", "sinusoid", "sinusoid-concat", "learned", "relative", "rotary", "alibi")
    variants = {scheme: transformer(scheme, 64) for scheme in schemes}
    words = {"source.tokens": "words", "target.tokens": "words", **EXACT, "train.batch_tokens": 1024}
    return Recipe(
        "order",
        "`the old dog sees the shy cat` is not `the shy cat sees the old dog`. How does a Transformer handle sentences "
        "whose meaning depends on word order, without positions and with each position scheme?",
        "The recipe makes 4,000 sentences of two nouns, two adjectives and a verb; the target has the form "
        "`sees ( old dog , shy cat )`.",
        "Without positions the encoder sees a bag of words. It cannot know who is old or who sees whom, and is right "
        "about one time in four, as by chance. Sinusoids, added or concatenated, and rotary solve the task. In the "
        "same short time, alibi nearly solves it, learned positions solve part of it, and the relative bias has hardly "
        "begun to learn.",
        (Study("order", generated(makers.ordered, 4_000, 500), variants, words, "400ktokens"),),
    )


def lengths(name: str, verb: str, change: Any, learns: str) -> Recipe:
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
        f"{verb} a string of letters. Models are trained on strings of up to 20 letters and tested on strings of up to "
        "100. Which cells and position schemes generalise to longer strings, and does attention help?",
        "The recipe makes 20,000 strings of 1 to 20 random letters, and test strings of 1 to 100 letters.",
        learns,
        (Study(name, generated(symbols(1, 20, change), 20_000, 500, tests), variants, settings, "500ktokens"),),
    )


def exposure() -> Recipe:
    kinds: dict[str, dict[str, Any]] = {
        "teacher forcing": {"feeding.kind": "teacher"},
        "scheduled, linear": {"feeding.kind": "scheduled", "feeding.schedule": "linear"},
        "scheduled, inverse sigmoid": {"feeding.kind": "scheduled", "feeding.schedule": "inverse-sigmoid"},
        "free running": {"feeding.kind": "own"},
        "teacher, token dropout": {"feeding.token_dropout": 0.1},
    }
    g2p = public("g2p_sigmorphon2020/data/train/gre_train.tsv", "g2p_sigmorphon2020/data/dev/gre_dev.tsv")
    size = {"encoder.width": 128, "decoder.width": 128, "embed.width": 128}
    spoken = {**size, **EXACT, "source.tokens": "characters", "target.tokens": "words", "train.dropout": 0.05}
    return Recipe(
        "exposure",
        "In training, the decoder reads the correct symbols; in prediction, it reads its own output. Does it help to "
        "let it read its own output in training, sometimes (scheduled sampling) or always (free running)?",
        "The data are Greek words and their phones, gre_train.tsv and gre_dev.tsv of github.com/sigmorphon/2020, task "
        f"1 (from WikiPron, CC BY-SA 3.0), in g2p_sigmorphon2020/data/train and dev. {PUBLIC} The recipe also makes "
        "8,000 strings of 10 to 40 digits, which the model writes as words. A run of equal digits is written as how "
        "many there are, followed by the digit; a single digit is written as itself: `77720` becomes `three seven two "
        "zero` (three sevens, a two, a zero).",
        "With these budgets, it does not help. On words, teacher forcing (66 %), teacher forcing with token dropout "
        "(66 %) and linear scheduled sampling (65 %) do not differ significantly; the inverse sigmoid schedule reaches "
        "58 % and free running 46 %. On the long outputs, teacher forcing is ahead of all others (87 %; scheduled "
        "sampling 80 and 60 %), and free running learns nothing, because it reads its own errors from the start. "
        "Reading its own output also takes twice the time for the same number of symbols.",
        (
            Study("g2p", g2p, kinds, {**size, **EXACT}, "600ktokens"),
            Study("spoken", generated(makers.spelled(10, 40), 8_000, 400), kinds, spoken, "1500ktokens"),
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
    data = public("tatoeba_en_fr/train.tsv", "tatoeba_en_fr/dev.tsv")
    return Recipe(
        "bottleneck",
        "English to French with a GRU: how much does a single state between encoder and decoder cost as sentences "
        "grow, and how much do reversed sources, a bidirectional encoder and attention recover?",
        "The data are 160,379 short sentences from Tatoeba (CC BY 2.0 FR; fra-eng of manythings.org/anki, English and "
        f"French in two columns) in tatoeba_en_fr/train.tsv, and 1,752 others in dev.tsv. {PUBLIC}",
        "After a million target symbols no model is good yet, but the order is clear. With a single state and a "
        "forward encoder the score is 1.2 BLEU. Reversed sources (Sutskever 2014) and a bidirectional encoder help "
        "equally (4.1 and 4.0). Attention gives 11.7, and 13.1 with a bidirectional encoder. Without attention, BLEU "
        "falls once sentences have eight words or more; with attention, the curve stays level up to twelve words. "
        "There are too few longer sentences to judge.",
        (Study("bottleneck", data, variants, {**settings, "encoder.cell": "gru", "decoder.cell": "gru"}, "1Mtokens"),),
    )


def _lookup(folder: Path, options: Options) -> list[str]:
    from weft.recipes import lookup  # loads torch, which `weft recipe list` does not need

    return lookup.run(folder, options)


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        case(),
        spaces(),
        Recipe(
            "lookup",
            "Attention is a dictionary that can be learned. Which ways of looking up an entry (exact, nearest, soft) "
            "can be learned, and which gradients reach query, key and value?",
            "The recipe makes a dictionary of 24 words, in which the answer to each word is another word.",
            "Exact match gives no gradient and does no better than chance. Nearest match gives a gradient to the "
            "values only: a query stays with the entry that was nearest to it at the start. Where several words start "
            "nearest to the same entry, all get the same answer, which is right for only one of them, so half of the "
            "answers are right. Straight-through and sparsemax give a gradient to all three, but none to entries "
            "without weight: they learn more and then get stuck. Soft lookup gives a gradient to every entry and "
            "learns nearly all answers, more slowly with the inner product than with rbf. With cosine, the weights "
            "stay almost equal (the largest is 0.09), and the answer is read from the mixture of values.",
            by_hand=_lookup,
        ),
        arithmetic(),
        xml(),
        order(),
        lengths(
            "copy",
            "Copy",
            str,
            "After half a million symbols, recurrent models with attention have learned the task (elman 95.8 %, lstm "
            "88.8 %, gru 81.0 %), and a Transformer with sinusoids has nearly learned it (73.8 %). Rotary has learned "
            "part of it (24 %); relative and alibi, which encode distances but not positions, have hardly begun. A "
            "single state without attention holds only a few letters. The models hardly generalise: of strings of 21 "
            "to 30 letters, elman with attention copies 16 % and lstm 7 %; no model copies a string of more than 30 "
            "letters.",
        ),
        lengths(
            "reverse",
            "Reverse",
            lambda text: text[::-1],
            "After half a million symbols, gru with attention reverses 98.4 % of the strings of up to 20 letters, lstm "
            "92.0 % and elman 77.2 %. Rotary, which is behind sinusoids at copying, is well ahead of them here (61 and "
            "14 %). A single state without attention reverses no better than it copies (8 and 11 %). The models hardly "
            "generalise beyond 20 letters: gru reverses 7 % of strings of 21 to 30 letters, and no model reverses a "
            "longer string.",
        ),
        lengths(
            "sort",
            "Sort",
            lambda text: "".join(sorted(text)),
            "Sorting depends on how often each letter occurs, not on its position. So the Transformers learn sorting "
            "far faster than copying, with every position scheme (65 to 78 % after half a million symbols). lstm with "
            "attention is ahead (83 %); a single state without attention gets nothing right. The models hardly "
            "generalise to longer strings: on strings of up to 100 letters, a fifth of which are no longer than those "
            "in training, 14 to 19 % are right.",
        ),
        exposure(),
        bottleneck(),
        continued.chorales(),
        continued.tunes(),
        continued.speech_signal(),
        continued.language_column(),
        inside.novel(),
        memory.counting(),
        memory.masking(),
        columns.robot(),
        columns.pedestrians(),
        columns.storms(),
        columns.sentiment(),
        spoken.digits_spoken(),
        drawn.digits_drawn(),
        drawn.scenes(),
        languages.languages(),
        documents.squad(),
        documents.babi(),
        documents.abstracts(),
        cranfield(),
        inside.vanishing(),
        inside.field(),
        inside.quotes(),
        inside.indentation(),
        inside.bottleneck_holds(),
        inside.heads(),
        inside.alignment(),
        inside.scaling(),
    )
}
