"""The numbers that the autopilot decides by, in one table: value, meaning, evidence.

The evidence of a number is the heading in docs/LOG.md under which it, or the rule that it belongs to, was measured.
Where nobody measured, the evidence begins with "not measured:" and says where the number comes from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

NOT_MEASURED = "not measured: "
BY_EYE = NOT_MEASURED + "chosen so that the rule divides our data sets as a person would"
GUESS = NOT_MEASURED + "a guess"
SHORT_RUNS = NOT_MEASURED + "a guess that a few short runs on trec and sst2 agree with"
BY_HAND = NOT_MEASURED + "worked out by hand for data that are not among our data sets"
CONVENTION = NOT_MEASURED + "a convention"
SPOKEN = NOT_MEASURED + "a guess that a few short runs on spoken digits agree with"
SPEAKERS = "Sound: what generalises to new speakers"
STORIES = "Labels for a story and a question"
SAFETY = NOT_MEASURED + "a limit that keeps time or memory in bounds"


def number(value: Any, meaning: str, evidence: str) -> Any:
    """Return a field of the table."""
    return field(default=value, metadata={"meaning": meaning, "evidence": evidence})


# fmt: off
@dataclass(frozen=True)
class Numbers:
    """Means are over all lines of one side of the training pairs. Shares are between 0 and 1."""

    # What kind of text a side holds (sides.py)
    spaced_share: float = number(
        0.5, "smallest share of lines with a space in a text whose words are separated by spaces", BY_EYE)
    unspaced_word: float = number(
        12, "mean word length (characters) above which spaces do not separate words, as in Chinese", BY_EYE)
    symbol_uses: int = number(20, "smallest mean number of uses per symbol or label in a closed list", GUESS)
    most_symbols: int = number(500, "largest number of distinct symbols or labels in a closed list", BY_EYE)
    unique_words: float = number(
        0.02, "largest mean number of words per line that occur only once, in a closed list", BY_HAND)
    short_symbol: float = number(
        2.5, "mean word length (characters) up to which words are symbols, however rare", BY_EYE)
    spaced_letter: float = number(1.2, "mean word length (characters) up to which words are single letters", BY_EYE)
    most_spaced_letters: float = number(
        12, "largest mean number of letters per line in words whose letters are separated by spaces", BY_HAND)
    text_words: float = number(3.5, "smallest mean number of words per line in sentences", BY_HAND)
    text_distinct_words: int = number(2000, "number of distinct words that sentences exceed", BY_HAND)
    text_characters: float = number(
        8, "smallest mean number of characters per line in sentences without spaces", BY_HAND)
    text_distinct_characters: int = number(
        500, "number of distinct characters that sentences without spaces exceed", BY_HAND)
    composed_parts: float = number(
        1.5, "mean number of parts per character from which characters are split into parts (Korean)",
        "What readers found")

    # How sides are tokenised (tokenisation.py)
    short_line: float = number(25, "mean line length (characters) up to which lines are split into characters", BY_EYE)
    few_words: float = number(4, "mean number of words per line up to which lines are split into characters", BY_EYE)
    many_texts: int = number(20_000, "number of pairs from which short sentences are split into subwords", BY_HAND)
    copied: float = number(
        0.6, "share of a target or source from which it counts as mostly copied", "What readers found")
    copied_word: float = number(
        0.5, "share of a one-word target in its source from which it counts as a word of the source", BY_HAND)
    longest_naming_source: float = number(
        150, "largest mean number of characters of a source that may contain the target word", GUESS)
    nearly_equal: float = number(
        0.8, "share of a target that is in its source, from which the two count as nearly equal", "Letter by letter")
    longest_spelled: float = number(
        200, "largest mean number of characters of nearly equal lines that are split into characters", GUESS)
    spelled_epochs: float = number(
        5, "epochs that must be possible to split nearly equal lines into characters",
        NOT_MEASURED + "a guess; only one budget was tried, see «Letter by letter»")

    # How large vocabularies are (tokenisation.py, sides.py, training.py)
    words_per_subword: float = number(80, "words of text per subword in the vocabulary", GUESS)
    subword_step: int = number(500, "vocabulary sizes are multiples of this", CONVENTION)
    fewest_subwords: int = number(1000, "the smallest vocabulary of subwords", GUESS)
    most_subwords: int = number(16_000, "the largest vocabulary of subwords", GUESS)
    unspaced_characters: float = number(2, "characters that count as one word in a text without spaces", GUESS)
    subword_characters: float = number(4, "mean number of characters in a subword", GUESS)
    shared_characters: float = number(
        0.8, "share of target characters that also occur in sources, from which both sides share subwords", GUESS)
    byte_values: int = number(256, "number of values of a byte", CONVENTION)

    # Which examples there are (examples.py)
    enough_pairs: int = number(5000, "number of pairs up to which augmentation adds pairs", "Pairs made up")
    longest_augmented: float = number(
        60, "largest mean number of characters of sources that are augmented (words, not texts)", SAFETY)
    repeated_rows: float = number(0.3, "share of repeated rows from which frequent sources count less", "Types")
    repeat_power: float = number(0.5, "data.repeat_power: a source with n rows counts n to this power", "Types")
    uneven_tags: float = number(
        5.0, "rows of the commonest tag, in multiples of those of the rarest, from which tags are evened out", GUESS)
    tag_temperature: float = number(
        5.0, "data.tag_temperature where tags are evened out", NOT_MEASURED + "the value of Arivazhagan 2019")
    fewest_languages: int = number(
        3, "tags from which a model of many languages writes sources for directions without pairs",
        "Many languages in one model")
    mirrored_sources: float = number(0.5, "share of sources that are also targets, from which this is so", BY_HAND)
    pivot_share: float = number(0.4, "share of targets in one language, from which this is so", BY_HAND)
    kept_characters: float = number(
        0.35, "share of rare characters kept in targets, from which unseen characters are copied",
        "Characters never seen")
    all_characters_seen: int = number(100_000, "number of pairs from which unseen characters hardly occur", GUESS)

    # Batches, validation, selection (training.py)
    transformer_batch: int = number(1536, "train.batch_tokens of a Transformer", "The embeddings' rate")
    recurrent_batch: int = number(256, "smallest train.batch_tokens of a recurrent model", "Small models, and many")
    largest_recurrent_batch: int = number(
        512, "largest train.batch_tokens of a recurrent model, except for long lines", "Several models of one run")
    updates_per_epoch: int = number(250, "updates per epoch above which the batches of a recurrent model grow", GUESS)
    fewest_lines: int = number(8, "number of lines of mean length that fit into every batch", GUESS)
    long_line_margin: float = number(
        1.2, "length of lines that fit into every batch, in multiples of the length that 1 % of lines exceed", GUESS)
    most_marks: int = number(32, "largest number of tags and features that count as tokens of a line", SAFETY)
    largest_batch: int = number(8192, "train.batch_tokens up to which batches grow with the length of lines", SAFETY)
    valid_pairs_per_second: float = number(3, "validation pairs that are decoded, per second of the budget", GUESS)
    short_target: float = number(20, "target length (tokens) above which fewer validation pairs are decoded", GUESS)
    fewest_valid_pairs: int = number(20, "smallest number of validation pairs that are decoded", CONVENTION)
    most_valid_pairs: int = number(1000, "largest number of validation pairs that are decoded", CONVENTION)
    long_target: float = number(
        25, "mean length (characters) above which chrF selects the checkpoint for targets split into characters",
        BY_HAND)
    bleu_words: float = number(
        5, "mean number of words per target from which BLEU selects the checkpoint (it counts 4-grams)", BY_HAND)

    # The decoder (decoding.py)
    copied_words: float = number(
        0.2, "share of target words that are in the source (corrected for chance), from which words are copied",
        "A rule instead of a race")
    location_aware_target: float = number(
        8, "target length (tokens) from which location-aware attention helps copying", "Features at every step")
    shortest_reversed: float = number(
        3, "target length (tokens, END included) from which some members write from the end", CONVENTION)
    output_margin: float = number(1.5, "longest output, in multiples of the longest target", GUESS)
    longest_spread: float = number(
        4, "largest ratio of the longest target to the mean target, both relative to their sources", SAFETY)
    extra_tokens: int = number(20, "search.max_extra: tokens that an output may always have in addition", CONVENTION)

    # Transformers (families.py, size.py)
    transformer_widths: tuple[int, ...] = number(
        (128, 192, 256, 384, 512), "widths to choose from for a Transformer", CONVENTION)
    transformer_width: int = number(
        192, "width of a Transformer if the time for training is not known", "Acceptance of the foundation")
    transformer_width_per_root: float = number(
        0.3, "largest width of a Transformer, per square root of the number of target tokens", GUESS)
    transformer_epochs: float = number(
        10, "epochs that must be possible to choose a wider Transformer", "Acceptance of the foundation")
    transformer_enough: float = number(
        30, "epochs after which a second Transformer helps more than further training", GUESS)
    layers: int = number(3, "layers of the encoder and of the decoder of a Transformer", GUESS)
    heads: int = number(4, "attention heads of a Transformer", CONVENTION)
    inner_widths: int = number(2, "inner width of a Transformer, in multiples of its width", CONVENTION)
    rate_width: int = number(
        128, "width of a Transformer for which the two following learning rates are given", "The embeddings' rate")
    transformer_rate: float = number(
        0.005, "learning rate of a Transformer; it falls with width and depth", "The Transformer's rate")
    embed_rate: float = number(
        8.0, "learning rate of the embeddings, in multiples of train.rate; it grows with √width",
        "The embeddings' rate")
    high_dropout: float = number(0.3, "dropout of a Transformer that sees the data often", GUESS)
    many_epochs: float = number(20, "epochs from which a Transformer gets this dropout", GUESS)
    bfloat16_gain: float = number(
        1.5, "speed of bfloat16, in multiples of that of float32, from which bfloat16 is used", GUESS)

    # Recurrent models (families.py, size.py)
    recurrent_widths: tuple[int, ...] = number(
        (128, 256), "widths to choose from for a recurrent model", "Small models, and many")
    recurrent_width: int = number(256, "width of a recurrent model if the time for training is not known", GUESS)
    recurrent_width_per_root: float = number(
        0.5, "largest width of a recurrent model, per square root of the number of target tokens",
        "Small models, and many")
    recurrent_tokens: float = number(
        6.5e6, "target tokens that must be possible to choose a wider recurrent model",
        NOT_MEASURED + "25 epochs of English words, see «What readers found»")
    recurrent_enough: float = number(
        25, "epochs after which a second recurrent model helps more than further training", "Several models of one run")
    recurrent_rate: float = number(0.002, "learning rate of a recurrent model", "Words, once more")
    dropout: float = number(0.2, "dropout of both families", "Dropout of small models")
    low_dropout: float = number(0.1, "dropout of a model that sees the data only a few times", "The Transformer's rate")
    few_epochs: float = number(5, "epochs below which a model gets this dropout", GUESS)
    width_step: int = number(8, "widths are rounded to multiples of this, which suit all parts", CONVENTION)

    # Labels (labels.py)
    label_width: int = number(128, "width of encoder and embeddings of a model that predicts labels", SHORT_RUNS)
    label_dropout: float = number(0.5, "dropout of a model that predicts labels", SHORT_RUNS)
    label_epochs: float = number(
        8.0, "smallest train.max_epochs of a model that predicts one label for a sequence", SHORT_RUNS)
    label_updates: int = number(
        1500, "updates after which a model that predicts one label for a sequence has learned enough", SHORT_RUNS)
    label_evaluations: int = number(
        12, "train.evaluations of a model that predicts labels",
        NOT_MEASURED + "a guess; with 20 of them a quarter of the time went into validation")
    tag_epochs: float = number(30.0, "train.max_epochs of a model that predicts a label for each word", GUESS)
    skewed_labels: float = number(
        0.8, "share of the most frequent label from which rare labels count more", BY_HAND)
    class_power: float = number(0.5, "objective.class_power where labels are skewed", CONVENTION)
    shown_labels: int = number(5, "labels that a note shows", CONVENTION)
    fewest_labels_checked: int = number(
        50, "number of different labels above which labels_per_row is checked", BY_HAND)
    labels_per_row: float = number(
        0.5, "number of different labels per row above which a target does not hold labels", BY_HAND)

    # Answers that are selected from documents (answers.py)
    answer_width: int = number(128, "width of encoder and embeddings of a model that selects answers", GUESS)
    answer_subwords: int = number(8000, "largest vocabulary of documents and questions", GUESS)
    answer_dropout: float = number(0.3, "dropout of a model that selects answers", GUESS)
    answer_epochs: float = number(30.0, "train.max_epochs of a model that selects answers", GUESS)
    answer_rows: int = number(16, "documents of mean length that fit into every batch", GUESS)
    document_width: int = number(256, "width of the vectors of queries and documents", GUESS)
    document_subwords: int = number(12_000, "largest vocabulary of documents where it is learned", GUESS)
    document_rows: int = number(256, "documents of mean length in a batch, whose others are the wrong ones", GUESS)
    document_batch: int = number(65_536, "largest train.batch_tokens of queries and documents", SAFETY)
    document_dropout: float = number(0.3, "share of words that are left out of queries and documents", GUESS)
    document_rate: float = number(0.001, "learning rate of the embeddings of queries and documents", GUESS)
    document_epochs: float = number(30.0, "train.max_epochs of queries and documents", GUESS)
    excerpts: int = number(2, "sentences of each document that are learned as queries", GUESS)
    excerpt_words: float = number(30.0, "mean words of documents from which on sentences are queries", GUESS)
    hard_negatives: int = number(1, "wrong documents for each query, by the last checkpoint", GUESS)
    hop_sentences: float = number(
        2.0, "sentences of a source from which on a question attends to them one after the other", STORIES)
    hops: int = number(3, "context.hops: how often", STORIES)
    hop_rows: int = number(64, "sources of mean length in a batch of such a model", STORIES)
    question_dropout: float = number(0.1, "dropout of a model that predicts a label for a text and a question", GUESS)
    question_epochs: float = number(100.0, "train.max_epochs of such a model", GUESS)
    summary_words: float = number(
        6.0, "mean words of targets from which on they are summaries, if hardly one occurs in its source", BY_HAND)
    absent_answers: float = number(0.9, "share of targets that do not occur in their sources, for that", BY_HAND)
    sentence_dropout: float = number(0.5, "dropout of a model that selects sentences", GUESS)
    sentence_epochs: float = number(8.0, "train.max_epochs of a model that selects sentences", GUESS)
    longest_sentence: int = number(80, "words of a sentence that is selected, at most", GUESS)

    # Series of numbers (series.py)
    continuing_targets: float = number(
        0.9, "share of targets that go on where their source ends, from which on steps are predicted", BY_HAND)
    position_gain: float = number(
        0.005, "share of the error that positions explain beyond steps, from which on they are read, too", BY_HAND)
    series_width: int = number(128, "width of a model that predicts numbers", GUESS)
    series_dropout: float = number(0.1, "dropout of a model that predicts numbers", GUESS)
    series_batch: int = number(1024, "steps of a batch of numbers", GUESS)
    series_epochs: float = number(60, "largest number of epochs of a model that predicts numbers", GUESS)

    # Notes (notes.py)
    note_width: int = number(128, "width of a model that predicts notes", GUESS)
    note_dropout: float = number(0.3, "dropout of a model that predicts notes", GUESS)
    note_batch: int = number(1024, "steps of a batch of notes", GUESS)
    note_epochs: float = number(100, "largest number of epochs of a model that predicts notes", GUESS)

    # Sound (sound.py)
    sound_width: int = number(128, "width of the encoder of sound", GUESS)
    sound_layers: int = number(2, "layers of the encoder of sound", GUESS)
    sound_factor: int = number(4, "audio.factor", SPOKEN)
    sound_dropout: float = number(0.2, "dropout of a model that reads sound", GUESS)
    sound_rate: float = number(0.003, "learning rate of a model that reads sound", GUESS)
    sound_recordings: float = number(9, "recordings of mean length in a batch", SPOKEN)
    sound_ratio: float = number(0.01, "search.max_ratio of a model that reads sound: tokens per frame", GUESS)
    enough_sound: float = number(180_000, "seconds of sound up to which recordings are augmented", GUESS)
    sound_speed: float = number(0.1, "audio.speed of augmentation", GUESS)
    sound_pitch: float = number(0.1, "audio.pitch of augmentation", GUESS)
    sound_noise: float = number(0.3, "audio.noise of augmentation", GUESS)
    sound_time_masks: int = number(2, "audio.time_masks of augmentation", GUESS)
    sound_frequency_masks: int = number(2, "audio.frequency_masks of augmentation", GUESS)

    word_seconds: float = number(
        2.0, "mean length (seconds) up to which recordings with labels are words", BY_EYE)
    word_parts: int = number(8, "pool.parts of words", SPEAKERS)
    word_width: int = number(256, "width of a model that tells words apart", GUESS)
    word_rate: float = number(0.002, "learning rate of a model that tells words apart", GUESS)
    word_epochs: float = number(
        10.0, "train.max_epochs of a model that tells words apart", SPEAKERS)
    word_recordings: float = number(32, "recordings of mean length in a batch of words", GUESS)
    word_cost: float = number(
        0.0006, "seconds that one recording takes in one epoch of a model that tells words apart",
        SPEAKERS)
    word_share: float = number(0.85, "share of the budget that such models are trained in", GUESS)
    label_trim: float = number(
        30, "audio.trim of recordings with labels (decibels)", SPEAKERS)
    label_range: float = number(
        45, "audio.range of recordings with labels (decibels)", SPEAKERS)

    # Pictures (pictures.py)
    line_ratio: float = number(2, "smallest median ratio of width to height of pictures of lines of text", BY_EYE)
    line_characters: float = number(
        5, "largest mean number of characters in a line of text, per width in multiples of its height", BY_EYE)
    line_height: int = number(32, "largest image.height of lines of text", GUESS)
    smallest_picture: int = number(8, "smallest image.height", SAFETY)
    picture_pixels: float = number(12_000, "largest number of pixels of a picture that is read as a grid", GUESS)
    picture_width: int = number(128, "width of a model that reads pictures", GUESS)
    picture_dropout: float = number(0.2, "dropout of a model that reads pictures", GUESS)
    picture_rate: float = number(0.002, "learning rate of a model that reads pictures", GUESS)
    picture_ratio: float = number(0.01, "search.max_ratio of a model that reads pictures: tokens per column", GUESS)
    judged_layers: int = number(2, "layers of the Transformer that reads a picture and a sentence together", GUESS)
    judged_rate: float = number(0.001, "learning rate of a model that reads a picture and a sentence together", GUESS)
    pictures_together: float = number(32, "pictures of mean width in a batch", GUESS)
    enough_pictures: float = number(100_000, "pictures up to which they are augmented", GUESS)
    picture_shift: float = number(0.05, "image.shift of augmentation", GUESS)
    picture_scale: float = number(0.1, "image.scale of augmentation", GUESS)
    picture_rotate: float = number(4, "image.rotate of augmentation", GUESS)
    picture_brightness: float = number(0.1, "image.brightness of augmentation", GUESS)

    # Time (timing.py, size.py, measure.py)
    default_budget: float = number(600.0, "seconds of training if no budget is given", CONVENTION)
    training_share: float = number(
        0.85, "share of the budget that is left for training steps", NOT_MEASURED + "the rest is for validation")
    most_members: int = number(8, "largest number of models in a run", GUESS)
    shortest_ensemble: float = number(60, "shortest budget (seconds) of a run with several models", GUESS)
    epochs_of_two: float = number(
        6, "epochs that must be possible for each of two models that are trained in parallel", GUESS)
    gain_of_two: float = number(
        1.4, "throughput of two models in parallel, in multiples of one model on all cores, from which two are trained",
        GUESS)
    max_epochs: float = number(
        300.0, "epochs after which training ends", NOT_MEASURED + "a guess; the most that was tried is 211 epochs")
    early_end_margin: float = number(
        1.1, "possible epochs, in multiples of max_epochs, from which a note says that the run ends early", GUESS)
    matrix_share: float = number(0.6, "estimated speed of training, as a share of matrix speed", "The pace, measured")
    bfloat16_share: float = number(
        0.7, "share of the bfloat16 speed that remains, because some parts are computed in float32", GUESS)
    measuring_share: float = number(0.003, "share of the budget for one measurement of throughput", GUESS)
    shortest_measuring: float = number(0.1, "shortest time of one measurement (seconds)", "The pace, measured")
    longest_measuring: float = number(0.6, "longest time of one measurement (seconds)", "The pace, measured")
    longest_measured_line: int = number(300, "length (tokens) to which lines are cut in measurements", SAFETY)
    measured_parameters: int = number(
        30_000_000, "number of parameters above which speed is estimated instead of measured", SAFETY)
    measured_scores: int = number(8_000_000, "largest number of scores in a batch that is measured", SAFETY)
    # Language models (language.py)
    language_batch: int = number(
        2048, "smallest train.batch_tokens of a language model", "Language models: what the autopilot chooses")
    language_window: int = number(
        64, "train.window of a recurrent language model, whose state is carried over windows",
        "Language models: what the autopilot chooses")
    language_rows: int = number(16, "windows of running text in a batch, at least", GUESS)
    language_rate: float = number(
        0.007, "learning rate of a recurrent language model of the usual width",
        "Language models: what the autopilot chooses")
    language_widths: tuple[int, ...] = number(
        (128, 192, 256, 384, 512, 768, 1024), "widths to choose from for a recurrent language model", CONVENTION)
    language_embedding: int = number(128, "largest width of the embeddings of characters, bytes or steps", GUESS)
    language_width_per_root: float = number(
        0.6, "largest width of a language model, per square root of the number of tokens", GUESS)
    language_tokens_per_weight: float = number(
        2.5, "tokens per weight that must be seen in the time to choose a wider language model",
        "Language models: what the autopilot chooses")
    language_valid_pieces: int = number(
        200, "train.valid_pairs of a running text: pieces of up to 1,024 characters", SAFETY)
    language_epochs: float = number(
        80, "epochs after which a language model has learned what few data hold, and begins to overfit", GUESS)
    # Texts that are restored from their corruption (pretraining.py)
    masked_words: int = number(
        25_000, "largest number of distinct words of texts that masked-lm splits into words",
        "Pretraining: few labels, few pairs, by the clock")
    latent_width: int = number(
        256, "width of embeddings that start from latent directions",
        "Pretraining: few labels, few pairs, by the clock")
    masked_batch: int = number(1024, "smallest train.batch_tokens of masked-lm", GUESS)
    few_rows: int = number(2000, "rows with labels, or pairs, up to which pretraining is proposed", GUESS)
    shortest_pretraining: float = number(
        120, "shortest budget (seconds) of a run for which pretraining is proposed", GUESS)
    shuffled_symbols: float = number(1.0, "corrupt.shuffled where lines have no words", GUESS)
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
