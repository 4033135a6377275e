"""The numbers that the autopilot decides by, in one table: value, meaning, evidence.

The evidence of a number is the heading in docs/LOG.md under which it, or the rule that it belongs to, was measured.
Where nobody measured, the evidence begins with "not measured:" and says where the number comes from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

NOT_MEASURED = "not measured: "
BY_EYE = NOT_MEASURED + "drawn so that the data sets at hand are divided as a person would"
GUESS = NOT_MEASURED + "a guess"
BY_HAND = NOT_MEASURED + "worked out by hand for data beyond the data sets at hand"
CONVENTION = NOT_MEASURED + "a convention"
SAFETY = NOT_MEASURED + "a limit that keeps time or memory in bounds"


def number(value: Any, meaning: str, evidence: str) -> Any:
    """Return a field of the table."""
    return field(default=value, metadata={"meaning": meaning, "evidence": evidence})


# fmt: off
@dataclass(frozen=True)
class Numbers:
    """Means are over all lines of one side of the training pairs. Shares are between 0 and 1."""

    # What kind of text a side holds (sides.py)
    spaced_share: float = number(0.5, "lines have words where at least this share of them has a space", BY_EYE)
    unspaced_word: float = number(12, "longer mean words (characters) are no words: the text has no spaces", BY_EYE)
    symbol_uses: int = number(20, "a closed list of symbols or labels: mean uses of each", GUESS)
    most_symbols: int = number(500, "a closed list of symbols or labels: the most distinct ones", BY_EYE)
    unique_words: float = number(0.02, "a closed list: the most words per line that occur only once", BY_HAND)
    short_symbol: float = number(2.5, "words up to this mean length (characters) are symbols, however rare", BY_EYE)
    spaced_letter: float = number(1.2, "words up to this mean length (characters) are single letters", BY_EYE)
    most_spaced_letters: float = number(12, "letters per line; more are a text whose characters are spaced", BY_HAND)
    text_words: float = number(3.5, "mean words per line, from which on lines are sentences", BY_HAND)
    text_distinct_words: int = number(2000, "distinct words, above which lines are sentences", BY_HAND)
    text_characters: float = number(8, "the same without spaces: mean characters per line", BY_HAND)
    text_distinct_characters: int = number(500, "the same without spaces: distinct characters", BY_HAND)
    composed_parts: float = number(
        1.5, "characters with so many parts on average are learned by their parts (Korean)", "What readers found")

    # How sides are tokenised (tokenisation.py)
    short_line: float = number(25, "lines up to this mean length (characters) are split into characters", BY_EYE)
    few_words: float = number(4, "so are lines with at most so many words, on average", BY_EYE)
    many_texts: int = number(20_000, "pairs from which on short sentences become subwords", BY_HAND)
    copied: float = number(0.6, "share of a target or source that counts as mostly copied", "What readers found")
    copied_word: float = number(0.5, "share of a one-word target that makes it a word of its source", BY_HAND)
    longest_naming_source: float = number(150, "mean characters of a source that is searched for a word", GUESS)
    nearly_equal: float = number(0.8, "share of a target, from its source, that makes them equal", "Letter by letter")
    longest_spelled: float = number(200, "mean characters of such lines that become characters", GUESS)
    spelled_epochs: float = number(5, "epochs that characters of such lines need instead of subwords",
                                   NOT_MEASURED + "a guess; only one budget was tried, see «Letter by letter»")

    # How large vocabularies are (tokenisation.py, sides.py, training.py)
    words_per_subword: float = number(80, "words of text for each subword of the vocabulary", GUESS)
    subword_step: int = number(500, "vocabulary sizes are multiples of this", CONVENTION)
    fewest_subwords: int = number(1000, "the smallest vocabulary of subwords", GUESS)
    most_subwords: int = number(16_000, "the largest vocabulary of subwords", GUESS)
    unspaced_characters: float = number(2, "characters that count as a word where there are no spaces", GUESS)
    subword_characters: float = number(4, "characters of a subword, on average", GUESS)
    shared_characters: float = number(0.8, "share of target characters that the source has, to share subwords", GUESS)
    byte_values: int = number(256, "the values of a byte", CONVENTION)

    # Which examples there are (examples.py)
    enough_pairs: int = number(5000, "fewer pairs are filled up to this by augmentation", "Pairs made up")
    longest_augmented: float = number(60, "mean characters of sources that are augmented: words, not texts", SAFETY)
    repeated_rows: float = number(0.3, "share of repeated rows from which on frequent sources count less", "Types")
    repeat_power: float = number(0.5, "data.repeat_power: a source of n rows counts this power of n", "Types")
    kept_characters: float = number(
        0.35, "share of rare characters kept in targets, to copy unseen ones", "Characters never seen")
    all_characters_seen: int = number(100_000, "pairs from which on unseen characters hardly occur", GUESS)

    # Batches, validation, selection (training.py)
    transformer_batch: int = number(1536, "train.batch_tokens of a Transformer", "The embeddings' rate")
    recurrent_batch: int = number(256, "train.batch_tokens of a recurrent model, at least", "Small models, and many")
    largest_recurrent_batch: int = number(
        512, "train.batch_tokens of a recurrent model, at most", "Several models of one run")
    updates_per_epoch: int = number(250, "updates in an epoch from which on these batches grow", GUESS)
    fewest_lines: int = number(8, "lines of mean length that a batch holds at least", GUESS)
    long_line_margin: float = number(1.2, "times the length that 99 % of lines have: fits into a batch", GUESS)
    most_marks: int = number(32, "tags and features of a line that are counted as tokens", SAFETY)
    largest_batch: int = number(8192, "tokens: long lines make no larger batches", SAFETY)
    valid_pairs_per_second: float = number(3, "validation pairs per second of the budget", GUESS)
    short_target: float = number(20, "tokens; where targets are longer, fewer pairs are decoded", GUESS)
    fewest_valid_pairs: int = number(20, "the fewest validation pairs that are decoded", CONVENTION)
    most_valid_pairs: int = number(1000, "the most validation pairs that are decoded", CONVENTION)
    long_target: float = number(25, "mean characters; longer spelled targets are selected by chrF", BY_HAND)
    bleu_words: float = number(5, "mean words of a target from which on BLEU selects: it counts four in a row", BY_HAND)

    # The decoder (decoding.py)
    copied_words: float = number(0.2, "share of target words in the source, beyond chance, to copy them",
                                 "A rule instead of a race")
    location_aware_target: float = number(
        8, "tokens of a target from which on location-aware attention helps copying", "Features at every step")
    shortest_reversed: float = number(
        3, "tokens of a target, END included, that are another sequence from the end", CONVENTION)
    output_margin: float = number(1.5, "an output may be so many times as long as the longest target", GUESS)
    longest_spread: float = number(4, "the longest target is at most so many times the mean, per source", SAFETY)
    extra_tokens: int = number(20, "search.max_extra: tokens that every output may have besides", CONVENTION)

    # Transformers (families.py, size.py)
    transformer_widths: tuple[int, ...] = number((128, 192, 256, 384, 512), "widths of a Transformer", CONVENTION)
    transformer_width: int = number(192, "its width where the time is not known", "Acceptance of the foundation")
    transformer_width_per_root: float = number(0.3, "its widest, in square roots of the target tokens", GUESS)
    transformer_epochs: float = number(10, "epochs that a wider Transformer must have", "Acceptance of the foundation")
    transformer_enough: float = number(30, "epochs after which a second Transformer helps more", GUESS)
    layers: int = number(3, "layers of its encoder and of its decoder", GUESS)
    heads: int = number(4, "its attention heads", CONVENTION)
    inner_widths: int = number(2, "its inner width, in multiples of its width", CONVENTION)
    rate_width: int = number(128, "the width that the learning rates below are for", "The embeddings' rate")
    transformer_rate: float = number(0.005, "its learning rate; falls with width and depth", "The Transformer's rate")
    embed_rate: float = number(8.0, "that of embeddings, in multiples; grows with √width", "The embeddings' rate")
    high_dropout: float = number(0.3, "dropout of a Transformer that sees the data often", GUESS)
    many_epochs: float = number(20, "epochs from which on dropout is that high", GUESS)
    bfloat16_gain: float = number(1.5, "times as fast as float32: bfloat16 is used from there on", GUESS)

    # Recurrent models (families.py, size.py)
    recurrent_widths: tuple[int, ...] = number((128, 256), "widths of a recurrent model", "Small models, and many")
    recurrent_width: int = number(256, "the width of a recurrent model where the time is not known", GUESS)
    recurrent_width_per_root: float = number(
        0.5, "the widest recurrent model, in square roots of the target tokens", "Small models, and many")
    recurrent_tokens: float = number(6.5e6, "target tokens that a wider one must see in all",
                                     NOT_MEASURED + "25 epochs of English words, see «What readers found»")
    recurrent_enough: float = number(25, "epochs after which a second one helps more", "Several models of one run")
    recurrent_rate: float = number(0.002, "learning rate of a recurrent model", "Words, once more")
    dropout: float = number(0.2, "dropout of both families", "Dropout of small models")
    low_dropout: float = number(0.1, "dropout where a model sees the data only a few times", "The Transformer's rate")
    few_epochs: float = number(5, "epochs below which dropout is that low", GUESS)
    width_step: int = number(8, "a given width is rounded to multiples of this, which all parts can have", CONVENTION)

    # Time (timing.py, size.py, measure.py)
    default_budget: float = number(600.0, "seconds, where no length of training is given", CONVENTION)
    training_share: float = number(0.85, "share of the budget that is left for steps",
                                   NOT_MEASURED + "validation may take the rest")
    most_members: int = number(8, "models of one run, at most", GUESS)
    shortest_ensemble: float = number(60, "seconds of a budget from which on there may be several models", GUESS)
    epochs_of_two: float = number(6, "epochs that each of two models must have", GUESS)
    gain_of_two: float = number(1.4, "times as fast as one model on all cores: two are trained from there on", GUESS)
    max_epochs: float = number(
        300.0, "epochs after which training ends", NOT_MEASURED + "a guess; 211 were the most that was tried")
    early_end_margin: float = number(1.1, "times max_epochs: a note says from there on that a run ends early", GUESS)
    matrix_share: float = number(0.6, "share of matrix speed that training is estimated at", "The pace, measured")
    bfloat16_share: float = number(0.7, "share of the speed of bfloat16 that is left beside float32 parts", GUESS)
    measuring_share: float = number(0.003, "share of the budget for one measurement of throughput", GUESS)
    shortest_measuring: float = number(0.1, "seconds of one measurement, at least", "The pace, measured")
    longest_measuring: float = number(0.6, "seconds of one measurement, at most", "The pace, measured")
    longest_measured_line: int = number(300, "tokens; longer lines are measured at this length", SAFETY)
    measured_parameters: int = number(30_000_000, "larger models are estimated instead of measured", SAFETY)
    measured_scores: int = number(8_000_000, "scores of a batch that is measured, at most", SAFETY)
# fmt: on


NUMBERS = Numbers()


@dataclass(frozen=True)
class Row:
    """One number, for a page of documentation and the tests."""

    name: str
    value: Any
    meaning: str
    evidence: str  # a heading of docs/LOG.md, or "not measured: …"


def rows() -> list[Row]:
    """Return the table."""
    return [Row(f.name, f.default, f.metadata["meaning"], f.metadata["evidence"]) for f in fields(Numbers)]
