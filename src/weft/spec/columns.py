"""Settings of the data: files, columns and what each column holds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from weft.spec.names import Part, Share, TokensName, VocabularySize


def _check_column(column: str | int | None) -> str | int | None:
    if isinstance(column, int) and not 1 <= column <= 100_000:
        raise ValueError(f"{str(column)[:30]} is not the number of a column; columns are numbered from 1: give 1, 2, …")
    if column == "":
        raise ValueError("the name of the column is empty; give its name or its number, or leave the setting out")
    return column


COLUMN_HALVINGS = 2  # how often the width of columns is halved at most
Column = Annotated[str | int | None, AfterValidator(_check_column)]


class Data(Part):
    pairs: tuple[str, ...] = ()
    """The training files, as given on the command line."""
    valid: tuple[str, ...] = ()
    """The validation files. None: a share of the training pairs is held out."""
    source: Column = None
    """The source column: a number from 1, a name, or object.name in JSON. None: found by name, otherwise column 1."""
    target: Column = None
    """The target column. None: found by name, otherwise column 2."""
    features: Column = None
    """The column of features, such as V;PST;3;SG, which the model reads together with the source."""
    tag: Column = None
    """The column of tags. A tag is a word that tells the model what to do, such as a language."""
    context: Column = None
    """The column of the context: a further sequence that the target depends on; none: there is none (task=answer)."""
    start: Column = None
    """Sound: the column with the start of the part of a recording that is used, in seconds."""
    end: Column = None
    """Sound: the column with the end of that part, in seconds; an empty cell means the end of the recording."""
    tag_at: Literal["start", "end", "decoder", "both"] = "start"
    """Where the tag is put: before the source, after it, as the decoder's first token, or before both (both)."""
    tag_from: Literal["column", "extension"] = "column"
    """Where tags come from: a column (data.tag), or the extension of the target file (de of train.en:train.de)."""
    tag_temperature: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Use rare tags more often: a tag with n rows counts n ** (1 / tag_temperature) times; 1: no change."""
    swap_pairs: bool = False
    """Learn each pair in both directions: also to write the source, given the target."""
    back_translate: bool = False
    """With tags: also learn from sources in other languages, which the model itself translates during training."""
    hold_out: Share = 0.05
    """The share of the training pairs that is held out when no validation file is given (at most 1,000 pairs)."""
    augmented: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """The number of pairs to make up, by replacing the letters that a source and its target have in common."""
    repeat_power: Annotated[float, Field(ge=0, le=1)] = 1.0
    """A source with n rows counts n ** repeat_power times per epoch; 1: every row counts."""
    unseen: Literal["unknown", "nearest", "carried"] = "unknown"
    """Characters that never occur in training: read as unknown or as the nearest one (ÿ as y), or copied (carried)."""
    on_bad_line: Literal["stop", "skip"] = "stop"
    """Stop at a row that cannot be used, or skip it (--on-bad-line)."""
    lines: bool = False
    """Tasks of one column: each line of a plain text file is a sequence of its own; false: it is running text."""
    longest: Annotated[int, Field(ge=1, le=100_000_000)] = 20_000
    """A row is bad if its source or target has more characters than this."""

    @property
    def tagged(self) -> bool:
        """Whether every row has a tag."""
        return self.tag is not None or self.tag_from == "extension"

    @property
    def prompted(self) -> bool:
        """Whether the decoder reads the tag."""
        return self.tagged and self.tag_at in ("decoder", "both")


class Side(Part):
    kind: Literal["auto", "text", "numbers", "notes", "audio", "image", "label", "span", "document", "none"] = "auto"
    """The column: text, numbers, notes, files of sound or pictures, labels, spans, documents; none: no source."""
    tokens: TokensName = "characters"
    """How text is split. parts: letters and accents apart, Korean syllables into sounds; words: split at spaces;
    stems: the first six letters of each word, to compare."""
    size: VocabularySize = 4000
    """The size of the vocabulary that bpe and unigram learn."""


class Context(Part):
    kind: Literal["auto", "text", "numbers", "notes", "audio"] = "auto"
    """What the column of the context (data.context) holds; auto: found from the first rows."""
    use: Literal["auto", "step", "attend", "flow", "joint", "hops"] = "auto"
    """Read it step by step, attend to it, attend in both directions (flow), join it with the source (joint), or let it
    attend to the sentences of the source several times (hops)."""
    hops: Annotated[int, Field(ge=1, le=20)] = 3
    """With use=hops: how often the context attends to the sentences of the source."""
    lexical: bool = False
    """With use=flow: also read which words source and context have in common, by their stems, and how many are near."""
    shared: bool = False
    """Use the tokeniser, the embeddings and the encoder of the source for the context."""
    tokens: TokensName = "characters"
    """How text is split, as for the source."""
    size: VocabularySize = 4000
    """The size of the vocabulary that bpe and unigram learn."""

    @property
    def needs_facts(self) -> bool:
        """Whether tokens are compared or cut into sentences by how they are written."""
        return self.use == "hops" or self.lexical


class Answer(Part):
    unit: Literal["span", "sentence"] = "span"
    """What is selected: any span, or the sentence that has most words in common with the target."""
    longest: Annotated[int, Field(ge=1, le=10_000)] = 30
    """The largest number of tokens in a predicted span."""
    window: Annotated[int, Field(ge=16, le=10_000)] = 512
    """The number of tokens of a document that are read together; longer documents are read in overlapping windows."""
    stride: Annotated[int, Field(ge=1, le=10_000)] = 256
    """The number of tokens between the starts of two windows."""


class Corrupt(Part):
    share: Annotated[float, Field(gt=0, le=1)] = 0.15
    """masked-lm: the share of tokens that are chosen and predicted."""
    hidden: Annotated[float, Field(ge=0, le=1)] = 0.8
    """masked-lm: the share of the chosen tokens that are hidden."""
    replaced: Annotated[float, Field(ge=0, le=1)] = 0.1
    """masked-lm: the share of the chosen tokens that are replaced by random ones; the others are left."""
    positions: Literal["kept", "hidden"] = "kept"
    """masked-lm: hidden tokens keep their positions; hidden: they lose them, so all get the same prediction."""
    spans: Share = 0.15
    """denoise: the share of tokens in spans that one mask replaces."""
    span: Annotated[float, Field(ge=1, le=1000)] = 3.0
    """denoise: the mean length of such a span."""
    dropped: Share = 0.1
    """denoise: the share of words that are left out (of tokens, in lines with fewer than 4 words)."""
    shuffled: Annotated[float, Field(ge=0, le=1000)] = 3.0
    """denoise: the largest number of places that a word moves; 0: none moves."""


class Retrieve(Part):
    shared: bool = True
    """Use the same weights for queries and documents."""
    temperature: Annotated[float, Field(ge=0.01, le=1)] = 0.05
    """The initial temperature: the cosine of two vectors is divided by it, and training adjusts it."""
    negatives: Annotated[int, Field(ge=0, le=32)] = 0
    """The number of hard negatives per query, chosen by the last checkpoint; 0: only those of the batch."""
    excerpts: Annotated[int, Field(ge=0, le=100)] = 0
    """The number of sentences of each document that also serve as queries for the rest of the document."""
    longest: Annotated[int, Field(ge=8, le=100_000)] = 2000
    """The maximum number of tokens of a document; the rest is not read."""
    latent: bool = False
    """Start embeddings from the words that documents have in common (singular vectors); needs encoder.kind=none."""
    lexical: Annotated[float, Field(ge=0, le=1000)] | None = None
    """The weight of BM25 beside the cosine; 0: no BM25; null: the best on validation, if bm25s is installed."""


class Numbers(Part):
    differences: bool = False
    """Read and predict the differences between steps instead of the values, which suits trajectories better."""
    values: bool = True
    """With differences: also read the values of the source and of an attended context."""
    momentum: bool = False
    """With differences: predict changes of the last step of the source, so that an untrained model continues it."""
    rotate: bool = False
    """Augmentation: rotate source and target by the same random angle; for positions in a plane (2 numbers a step)."""
    mirror: bool = False
    """Augmentation: mirror source and target at random, independently in each dimension."""
    missing: Literal["auto", "stop", "interpolate", "mask"] = "auto"
    """A missing value (null): stop, interpolate, or also tell the model where (mask). auto: mask; stop in a target."""
    stop: Literal["fixed", "source", "context", "learned"] = "fixed"
    """The number of steps to predict: as in the longest training target, as in the source or context, or learned."""


class Audio(Part):
    bands: Annotated[int, Field(ge=4, le=512)] = 40
    """The number of mel bands whose energy is read in each frame of 25 ms; there is a frame every 10 ms."""
    lowest: Annotated[float, Field(ge=0, le=20_000)] = 50.0
    """The lowest frequency of the bands, in Hz."""
    highest: Annotated[float, Field(ge=0, le=100_000)] = 0.0
    """The highest frequency of the bands, in Hz; 0: half of the lowest sampling rate in training, at most 8,000."""
    deltas: bool = False
    """Also read how fast the energy of each band changes."""
    normalise: Literal["recording", "level", "corpus", "none"] = "recording"
    """Mean 0 and deviation 1: of each band in each recording (recording), of all bands of a recording together
    (level), or of each band in the training data (corpus); none: no scaling."""
    trim: Annotated[float, Field(ge=0, le=200)] = 0.0
    """Leave out silence at both ends: frames so many decibels quieter than the loudest of the recording; 0: none."""
    range: Annotated[float, Field(ge=0, le=200)] = 0.0
    """Raise energies that are more decibels than this below the strongest of the recording; 0: leave them."""
    longest: Annotated[float, Field(gt=0, le=36_000)] = 60.0
    """A row is bad if its recording has more seconds than this."""
    reader: Literal["stack", "convolve"] = "stack"
    """How frames become fewer vectors: neighbouring frames are joined, or convolved."""
    factor: Literal[1, 2, 4] = 4
    """The number of frames for each vector that the encoder reads."""
    speed: Share = 0.0
    """Augmentation: the largest share by which a recording is played faster or slower."""
    pitch: Share = 0.0
    """Augmentation: the largest share by which frequencies are raised or lowered, as with another speaker."""
    volume: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Augmentation: the largest change of loudness, in standard deviations; audio.normalise=recording undoes it."""
    noise: Share = 0.0
    """Augmentation: the share of recordings to which noise is added."""
    time_masks: Annotated[int, Field(ge=0, le=100)] = 0
    """Augmentation: the number of intervals, of 0.1 seconds at most, that are hidden."""
    frequency_masks: Annotated[int, Field(ge=0, le=100)] = 0
    """Augmentation: the number of intervals of bands, of 15 % at most, that are hidden."""


class Image(Part):
    layout: Literal["grid", "columns"] = "grid"
    """What is read: a grid of vectors, or a vector for every few columns, as for lines of text."""
    height: Annotated[int, Field(ge=8, le=2048)] = 32
    """The height that pictures are scaled to, in pixels."""
    width: Annotated[int, Field(ge=0, le=8192)] = 0
    """The width; 0: from the median ratio of the training pictures; with columns, from the ratio of each picture."""
    fit: Literal["pad", "stretch"] = "pad"
    """A picture of another ratio: fill the rest with the colour of its border, or stretch it."""
    colour: Literal["auto", "grey", "colour"] = "auto"
    """Read grey or coloured pixels; auto: coloured if any training picture is."""
    largest: Annotated[float, Field(gt=0, le=10_000)] = 50.0
    """A row is bad if its picture has more million pixels than this."""
    filters: Annotated[int, Field(ge=1, le=1024)] = 16
    """The number of filters of the first convolution; it doubles twice."""
    halvings: Annotated[int, Field(ge=1, le=6)] = 3
    """How often the convolutions halve the picture; with columns, the width is halved at most twice."""
    shift: Share = 0.0
    """Augmentation: the largest shift, as a share of the height."""
    scale: Share = 0.0
    """Augmentation: the largest share by which a picture is enlarged or reduced."""
    rotate: Annotated[float, Field(ge=0, le=180)] = 0.0
    """Augmentation: the largest rotation, in degrees."""
    brightness: Share = 0.0
    """Augmentation: the largest change of brightness and contrast."""
    flip: bool = False
    """Augmentation: mirror every second picture; wrong for pictures of text, and if targets mention left or right."""

    @property
    def factor(self) -> int:
        """How many columns of pixels become one position, where columns are read."""
        return 1 << min(self.halvings, COLUMN_HALVINGS)
