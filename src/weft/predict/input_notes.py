"""What is unusual about the inputs of a run: collected while they are read, told once, as a warning.

Python shows a warning; the command line shows it as a note on stderr.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

from weft.core.pair import Pair
from weft.data.text.tokens import Tokeniser, marks_of
from weft.data.text.unseen import UnknownShare

SHOWN_MARKS = 5


class InputNotes:
    """Watches the inputs of one prediction or evaluation; `sources` are the source tokenisers of the run's models."""

    def __init__(self, sources: Sequence[Tokeniser], training: str = "the training sources") -> None:
        """`training` is what the characters that a run knows come from."""
        self._training = training
        self._known_marks = [set(source.marks) for source in sources if source.marks]  # one without any ignores them
        self.unseen_marks: set[str] = set()
        self._source = sources[0] if sources else None  # the members of a run have the same characters
        self._unknown_share = UnknownShare(None) if self._source is None else self._source.unknown_share([])

    def see(self, pairs: Sequence[Pair]) -> None:
        """Look at some more inputs."""
        if self._source is None:
            return
        self._source.unknown_share(pairs, self._unknown_share)
        marks = {mark for pair in pairs if pair.tag or pair.features for mark in marks_of(pair)}
        self.unseen_marks = self.unseen_marks.union(*(marks - known for known in self._known_marks))

    def tell(self, stacklevel: int = 2) -> None:
        """Warn about what is unusual; `stacklevel` is that of `warnings.warn`, seen from the caller."""
        for text in self.texts():
            warnings.warn(text, stacklevel=stacklevel + 1)

    def texts(self) -> Iterator[str]:
        """Yield what is unusual, in words."""
        if self.unseen_marks:
            shown = " ".join(sorted(self.unseen_marks)[:SHOWN_MARKS])
            more = " …" if len(self.unseen_marks) > SHOWN_MARKS else ""
            count = len(self.unseen_marks)
            what = "1 tag or feature" if count == 1 else f"{count:,} tags and features"
            yield f"{what} did not occur in training: {shown}{more}"
        if note := self._unknown_share.note("the input", self._training):
            yield note
