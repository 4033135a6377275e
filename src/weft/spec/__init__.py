"""What a run is: a tree of typed, frozen, strict settings.

The text under a field is its help, on the command line and in the documentation. The names of parts are checked here;
`nn/assemble/` turns each into a class, and a test holds the two lists together. How settings are put together from
a file, `--set` and the autopilot is in `settings.py`; which of them go together, in `compatibility/`; what a task
fixes, in `tasks.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from weft.spec.columns import Answer, Audio, Column, Context, Corrupt, Data, Image, Numbers, Retrieve, Side
from weft.spec.model import (
    Attention,
    Bridge,
    Embed,
    Head,
    NoDecoder,
    NoEncoder,
    Pool,
    RecurrentDecoder,
    RecurrentEncoder,
    SelfAttention,
    Transformer,
    TransformerDecoder,
    TransformerEncoder,
)
from weft.spec.names import (
    SPELLED,
    CellName,
    HeadScoreName,
    MetricName,
    Part,
    PositionName,
    ScoreName,
    TokensName,
    WeigherName,
)
from weft.spec.training import Feeding, Objective, Search, Train
from weft.tasks import TASKS

__all__ = [
    "SPELLED",
    "Answer",
    "Attention",
    "Audio",
    "Bridge",
    "CellName",
    "Column",
    "Context",
    "Corrupt",
    "Data",
    "Embed",
    "Feeding",
    "Head",
    "HeadScoreName",
    "Image",
    "MetricName",
    "NoDecoder",
    "NoEncoder",
    "Numbers",
    "Objective",
    "Part",
    "Pool",
    "PositionName",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "Retrieve",
    "ScoreName",
    "Search",
    "SelfAttention",
    "Side",
    "Spec",
    "TokensName",
    "Train",
    "Transformer",
    "TransformerDecoder",
    "TransformerEncoder",
    "WeigherName",
]


class Spec(Part):
    """Every setting of a run."""

    task: Literal[
        "transduce", "classify", "classify-tokens", "answer", "retrieve", "language-model", "masked-lm", "denoise"
    ] = "transduce"
    """What is learned: the target from the source, a label for each source or for each of its words, the span of a
    document that answers a question, which document belongs to a query, how a sequence continues, hidden tokens, or a
    text from its corruption."""
    data: Data = Data()
    """The files, their columns, and how their rows are used."""
    source: Side = Side()
    """How the source is split into tokens."""
    target: Side = Side()
    """How the target is split into tokens."""
    context: Context = Context()
    """A further sequence that the target depends on."""
    numbers: Numbers = Numbers()
    """How columns of numbers are read and predicted."""
    corrupt: Corrupt = Corrupt()
    """How masked-lm and denoise corrupt the texts that they learn to restore."""
    audio: Audio = Audio()
    """How sound is read, and how recordings are changed in training."""
    image: Image = Image()
    """How pictures are read, and how they are changed in training."""
    answer: Answer = Answer()
    """How answers are selected from documents."""
    retrieve: Retrieve = Retrieve()
    """How documents are retrieved."""
    embed: Embed = Embed()
    """Embeddings and positions."""
    encoder: Annotated[RecurrentEncoder | TransformerEncoder | NoEncoder, Field(discriminator="kind")] = (
        RecurrentEncoder()
    )
    """The encoder, which reads the source."""
    bridge: Bridge = Bridge()
    """What the decoder gets from the encoder besides attention."""
    decoder: Annotated[RecurrentDecoder | TransformerDecoder | NoDecoder, Field(discriminator="kind")] = (
        RecurrentDecoder()
    )
    """The decoder, which writes the target."""
    pool: Pool = Pool()
    """How a classifier summarises what the encoder read."""
    head: Head = Head()
    """How states become predictions."""
    objective: Objective = Objective()
    """The loss."""
    feeding: Feeding = Feeding()
    """What the decoder reads in training."""
    train: Train = Train()
    """Budget, batches, optimiser, validation, device."""
    search: Search = Search()
    """How outputs are found."""

    @property
    def factor(self) -> int:
        """How many positions of the source become one that the encoder reads."""
        if self.source.kind == "image":
            return self.image.factor
        return self.audio.factor if self.source.kind == "audio" else 1

    @property
    def one_table(self) -> bool:
        """Whether source and target have one tokeniser and one table of embeddings."""
        return self.embed.shared or TASKS[self.task].corrupts

    @property
    def backward(self) -> bool:
        """Whether it writes from the end."""
        return not isinstance(self.decoder, NoDecoder) and self.decoder.reverse

    @property
    def whole_state(self) -> bool:
        """Whether the bridge hands over h and c, from an LSTM to an LSTM."""
        parts = (self.encoder, self.decoder)
        lstms = all(isinstance(p, RecurrentEncoder | RecurrentDecoder) and p.cell.startswith("lstm") for p in parts)
        given = self.bridge.kind in ("last", "projected", "mlp") and self.bridge.give != "none"
        return lstms and given and self.bridge.state == "whole"

    @model_validator(mode="after")
    def _fits_together(self) -> Spec:
        """Refuse combinations that make no sense; the error names both settings and what to change."""
        from weft import compatibility  # which knows these classes

        compatibility.check(self)
        return self
