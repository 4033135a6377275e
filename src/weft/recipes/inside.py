"""Recipes that look inside a model, and compare no runs."""

from __future__ import annotations

from pathlib import Path

from weft.recipes.study import PUBLIC, Options, Recipe


def _field(folder: Path, options: Options) -> list[str]:
    from weft.recipes import field  # loads torch, which `weft recipe list` does not need

    return field.run(folder, options)


def _vanishing(folder: Path, options: Options) -> list[str]:
    from weft.recipes import vanishing

    return vanishing.run(folder, options)


def _quotes(folder: Path, options: Options) -> list[str]:
    from weft.recipes import tracking

    return tracking.run(tracking.QUOTES, folder, options)


def _indentation(folder: Path, options: Options) -> list[str]:
    from weft.recipes import tracking

    return tracking.run(tracking.INDENTATION, folder, options)


def _holds(folder: Path, options: Options) -> list[str]:
    from weft.recipes import holds

    return holds.run(folder, options)


def _heads(folder: Path, options: Options) -> list[str]:
    from weft.recipes import heads

    return heads.run(folder, options)


def _alignment(folder: Path, options: Options) -> list[str]:
    from weft.recipes import alignment

    return alignment.run(folder, options)


def _scaling(folder: Path, options: Options) -> list[str]:
    from weft.recipes import scaling

    return scaling.run(folder, options)


def _novel(folder: Path, options: Options) -> list[str]:
    from weft.recipes import novel

    return novel.run(folder, options)


LEARNED_OF_GRADIENTS = (
    "Before training, the product of an LSTM's forget gates follows σ(b_f)ᵏ at every lag, for each of the three "
    "biases, and the gradient of an Elman network is multiplied by its spectral radius at each step. What a cell can "
    "learn in 300 updates follows from the gradient that it starts with: with b_f = 0 it has fallen to 0.0006 after 20 "
    "steps, and the LSTM stays at chance (24 %); with b_f = 1 it is 0.12 (96 % right), with b_f = 2 it is above 1 (100 "
    "%). Without a forget gate (lstm-f) nothing fades, before or after. GRU, MUT2 and MUT3 start as low as the LSTM "
    "with b_f = 0 but in training they have begun to preserve their states (39 to 57 % right); the Elman networks and "
    "MUT1 have not."
)


def vanishing() -> Recipe:
    return Recipe(
        "vanishing",
        "How far do gradients reach back through each recurrent cell, before and after training, and does theory "
        "predict it?",
        "The recipe draws random symbols, of which a cell has to remember the first one for 20 steps.",
        LEARNED_OF_GRADIENTS,
        by_hand=_vanishing,
    )


def field() -> Recipe:
    return Recipe(
        "field",
        "How many positions can a node of a Transformer know after n layers, if each of its k heads attends to only "
        "one position?",
        "The recipe chooses the positions that the heads attend to, in three ways: at random, the neighbouring "
        "positions, or so that a node never reaches the same position by two paths. Then it counts, for each node, the "
        "positions that reach it.",
        "Where no two paths end at the same position, every node holds exactly (k+1)ⁿ positions: 625 of 700 with four "
        "heads and four layers. Heads that attend at random come near to it while (k+1)ⁿ is small compared with the "
        "number of positions (75 of 81 with two heads and four layers); beyond that, they reach fewer positions, "
        "because many paths meet (392 of 625 with four heads). Heads that look at their neighbours hold k·n + 1: their "
        "field grows with depth only as that of a convolution does.",
        by_hand=_field,
    )


def quotes() -> Recipe:
    return Recipe(
        "quotes",
        "Is there a single unit in a character language model that knows whether the text is inside a quotation?",
        "The text is *War and Peace* in English (Project Gutenberg), in lm_warpeace/train.txt and dev.txt. "
        f"{PUBLIC} A quotation is what stands between two quotation marks; an empty line ends one that was not closed.",
        "Yes. After 2,200 updates (3 minutes on one core), one cell unit of 256 tells text inside quotations from text "
        "outside with an AUC of 0.98 on text that was not used to select it; the best unit of an untrained model "
        "reaches 0.59. A probe that sees all units is no better (0.976): the model keeps this in one unit. The picture "
        "shows that the unit leaves zero at the first quotation mark and returns to it at the last. An earlier run "
        "with the cell `lstm` (whose forget bias starts at 0), a lower learning rate and longer windows had 0.84 after "
        "about as many updates; which of the three matters was not measured. The place in the word needs no learning, "
        "as the probe on an untrained model shows (0.94).",
        by_hand=_quotes,
    )


def novel() -> Recipe:
    return Recipe(
        "novel",
        "What does a language model of a novel write? And does a model that first learns from the novel, without "
        "labels, do better at another task of which there are only a few examples?",
        "The text is *War and Peace* in English (Project Gutenberg), in lm_warpeace/train.txt and dev.txt. "
        f"{PUBLIC} The pairs of the other task are made from lines of the same novel. The models are tested on "
        "lines of later chapters, which no model has read.",
        "The samples have the words and the tone of the novel, and quotations that open and close, but they make no "
        "sense: a model over characters learns little beyond the sentence. For the other task, learning to restore "
        "damaged lines of the novel first helps very much. With 250 pairs, the model that starts from the denoiser "
        "gets 29 % of the characters wrong, and the one that starts from random weights 94 %: in so few updates, the "
        "latter has not even learned where to look. With 16 times as many pairs, they get 18 % and 81 % wrong. What "
        "helps is to learn a similar task first. Starting with only the decoder of the language model gave more errors "
        "than random weights, because that model has never learned to look at a source (docs/LOG.md). There was one "
        "seed.",
        by_hand=_novel,
    )


def indentation() -> Recipe:
    return Recipe(
        "indentation",
        "Is there a single unit in a character language model of C code that knows whether the line is indented?",
        "The text is the folder kernel/ of the Linux source (GPL-2.0) in lm_linux/linux_kernel_dir.txt; its last "
        f"200,000 characters are held out. {PUBLIC} A line is indented if it begins with a tab or with two spaces or "
        "more: a single space, as before the star of a comment, is no indentation.",
        "Yes. After 2,800 updates, one cell unit of 256 tells indented lines from others with an AUC of 0.977 on code "
        "that was not used to select it (0.65 in an untrained model), and a probe on all units with 0.998. The same "
        "unit also follows the depth: its correlation with the indentation is 0.69, and in the picture it is darker "
        "the deeper a line is indented. Other units track comments (0.967) and strings (0.931). A probe on an "
        "untrained model reaches 0.88 to 0.92 for all three, so a probe alone would prove little.",
        by_hand=_indentation,
    )


def bottleneck_holds() -> Recipe:
    return Recipe(
        "bottleneck-holds",
        "What does the final state of an encoder contain: the prompt, the letters, their positions? And what is "
        "left of it if the decoder has attention?",
        "The recipe makes 20,000 sentences of 3 to 12 characters, to be written in upper or lower case as a prompt "
        "says (as in the recipe `case`), and 2,000 others. Half of these train the probes, and the other half test "
        "them.",
        "Without attention, the state has to hold the beginning of the sentence above all, because the decoder writes "
        "the beginning first. A linear probe reads the prompt (the first symbol) from it without an error, the next "
        "three characters with an accuracy of 60 %, and the last character of the sentence with only 48 %; 80 % of the "
        "sentences are right. With attention, all sentences are right, and the state holds what an untrained one "
        "holds: the last characters (98 %; untrained 99 %) and little of the start (12 % for the first character after "
        "the prompt), since the decoder can look everything up. Length is learned by both (69 and 70 %, untrained 23 "
        "%), the order of two symbols only without attention (selectivity 32 points against 18, untrained 20). Which "
        "characters occur (the bag) can be read better from the untrained state than from both trained ones; this "
        "probe therefore says nothing about learning.",
        by_hand=_holds,
    )


def heads() -> Recipe:
    return Recipe(
        "heads",
        "What do the attention heads of a small Transformer for translation attend to, and which of them does it need?",
        "The data are captions of pictures in English and German (Multi30k, Elliott 2016) in multi30k/train.en, "
        f"train.de, val.en and val.de. {PUBLIC}",
        "After 700 updates, the decoder needs its attention to the input most: if one of these heads is removed, the "
        "loss rises by 0.03 to 0.06 nats. The heads of the decoder over its own output come next (0.01 to 0.04), and "
        "they have habits: the symbol before, or the symbol itself, with three to four times the weight that uniform "
        "attention would give them. The heads of the encoder attend almost evenly, and removing any one of them raises "
        "the loss by 0.005 at most: so early in training, the encoder hardly uses its attention. No head does a job "
        "alone: the 24 increases in loss add up to 0.6 nats, and the largest is a tenth of that.",
        by_hand=_heads,
    )


def alignment() -> Recipe:
    return Recipe(
        "alignment",
        "Is attention an alignment? The recipe compares it with the known order of reversed letters, and with a "
        "statistical aligner: once for letters and sounds, and once for English and French words.",
        "The recipe makes 10,000 strings of 5 to 15 letters. Greek words and their phones are gre_train.tsv and "
        "gre_dev.tsv of github.com/sigmorphon/2020, task 1 (from WikiPron, CC BY-SA 3.0), in "
        "g2p_sigmorphon2020/data/train and dev; 20,000 sentences of up to 12 words come from tatoeba_en_fr/train.tsv "
        f"and dev.tsv (CC BY 2.0 FR). {PUBLIC} The aligner is IBM model 1 with a preference for the diagonal. It is "
        "run in both directions, and its links are symmetrised in the same way as those of the attention.",
        "For reversed letters, yes: every step attends most to the letter that it writes (13 % in an untrained model). "
        "For sounds, almost: the links agree with those of the aligner with an F1 of 0.965, and 98 % of the steps do "
        "not look back. For translation, partly: after 1,200 updates and with 21.7 BLEU, F1 is 0.66 (0.17 untrained). "
        "Function words spread their attention, and some words attend to a neighbour of their counterpart: in the "
        "picture, `fiable` attends to `source` and not to `reliable`. So attention says where a word probably comes "
        "from, and is no substitute for an aligner. The aligner is itself a model, not the truth.",
        by_hand=_alignment,
    )


def scaling() -> Recipe:
    return Recipe(
        "scaling",
        "A Transformer divides q·k by √d. Why not by d, or not at all? How sharp can the softmax be at the start, "
        "and does training change that?",
        "The recipe makes a dictionary of 32 words, in which the answer to each word is another word; queries, keys "
        "and values are learned, and begin with mean 0 and variance 1.",
        "Without a divisor, the scores grow with √d, and softmax already puts nearly all weight on one key at the "
        "start: at width 256, its entropy is 5 % of the maximum, and the largest weight is 0.93. What is not attended "
        "to gets no gradient, so words stay with the entry where they began, and 71 % of the answers are right (99 % "
        "at width 16). Divided by √d, softmax starts the same at every width (87 % of the entropy), all answers are "
        "learned, and the largest weight rises to about 0.7. Divided by d, softmax starts with nearly equal weights "
        "for all keys; all answers are learned here too, but at width 256 the largest weight is still 0.07 after "
        "training: the answers are read off tiny differences between mixtures of all values, and the attention says "
        "nothing about where they come from.",
        by_hand=_scaling,
    )
