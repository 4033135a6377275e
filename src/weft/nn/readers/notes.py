"""Notes: from bits to vectors of a model's width."""

# B batch · T length · K notes · D width handed on

from __future__ import annotations

from torch import nn

from weft.nn.dropout import Dropout
from weft.nn.positions import NoPositions
from weft.nn.readers.frames import FrameReader

SPREAD = 0.5  # of the numbers in a note's vector: a step of four notes begins with numbers of about 1


class NoteReader(FrameReader):
    """Σ vectors of the notes that sound + b at each position; then positions and dropout.

    A note's vector begins as large as an embedding, not as small as a column of a matrix that reads K numbers: only a
    few of the K are not 0.
    """

    def __init__(
        self,
        features: int,
        width: int,
        positions: NoPositions,
        dropout: Dropout,
        noise: float = 0.0,
        starts: bool = False,
    ) -> None:
        super().__init__(features, width, positions, dropout, noise, starts)
        nn.init.normal_(self.project.weight, std=SPREAD)
