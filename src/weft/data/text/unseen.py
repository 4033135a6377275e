"""Characters of a source that training never saw: as UNKNOWN they would all look the same.

`nearest`: each is read as the nearest character that training saw: ÿ as y, É as é; an accent by itself is dropped.
`carried`: each is read as a stand-in, which the model learns to copy to where the character belongs, and which is then
replaced by the character (after Luong 2015, for words). It learns that from pairs in which known characters are hidden.

In both cases text that is composed differently than in training (e and an accent, or é) is recomposed first.
"""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from weft.core.pair import Pair

STAND_INS = "".join(map(chr, range(0x10FFF0, 0x10FFF4)))  # private use
ONE_IN = 8  # one pair in so many comes again with characters hidden
MOST_HIDDEN = 2  # of its characters
VERSION = 1  # another number whenever the same pairs are hidden differently: it is part of the cache's key
WORTH_A_NOTE = 0.01  # the share of unknown characters from which on the user is told
LISTED = 8  # unknown characters that are shown


class UnseenCharacters:
    """Replaces characters that are not `known`, by "nearest" or "carried"; "unknown" leaves them as they are."""

    def __init__(self, method: str, known: frozenset[str]) -> None:
        self._method, self._known = method, known
        self._stand_ins = [stand_in for stand_in in STAND_INS if stand_in in known]

    def hide(self, pair: Pair) -> Pair:
        """Return the pair as the model is to see it."""
        if self.has_none(pair.source):
            return pair
        source = self._composed(pair.source)
        if self._method == "nearest":
            nearest = "".join(self._nearest(character) for character in source)
            return replace(pair, source=nearest or source)
        hidden = {ord(character): stand_in for stand_in, character in self._standing_in(source).items()}
        return replace(pair, source=source.translate(hidden), target=pair.target.translate(hidden))

    def has_none(self, text: str) -> bool:
        """Return whether nothing in the text would be replaced."""
        return self._method == "unknown" or self._known.issuperset(text)

    def read(self, source: str) -> str:
        """Return a source in the characters that it is read as, with unseen ones that are left as they are."""
        if self.has_none(source):
            return source
        return self.hide(Pair(source)).source if self._method == "nearest" else self._composed(source)

    def restore(self, source: str, output: str) -> str:
        """Return the model's output for a source, with the source's own characters in the place of stand-ins."""
        if not self._stand_ins or frozenset(self._stand_ins).isdisjoint(output):
            return output
        standing_in = self._standing_in(self._composed(source))
        return output.translate({ord(stand_in): standing_in.get(stand_in, "") for stand_in in self._stand_ins})

    def _unseen(self, text: str) -> list[str]:
        """Return each unseen character once, in order."""
        return [character for character in dict.fromkeys(text) if character not in self._known]

    def _composed(self, source: str) -> str:
        """Return the text as it is, composed or decomposed: the form with the fewest unseen characters."""
        forms = source, unicodedata.normalize("NFC", source), unicodedata.normalize("NFD", source)
        return min(forms, key=lambda form: len(self._unseen(form)))

    def _standing_in(self, source: str) -> dict[str, str]:
        """Return the character that each stand-in is for."""
        return dict(zip(self._stand_ins, self._unseen(source)))

    def _nearest(self, character: str) -> str:
        """Return the known parts of a character or of its other case; the character itself if there are none."""
        for form in (character, character.lower(), character.upper()):
            if form in self._known:
                return form
            parts = [part for part in unicodedata.normalize("NFKD", form) if part in self._known]
            if parts:
                return "".join(parts)
        return "" if unicodedata.category(character).startswith("M") else character


def with_hidden(pairs: Iterable[Pair], seed: int = 1) -> Iterator[Pair]:
    """Yield all pairs, and some of the different ones once more with a character or two hidden on both sides."""
    draw, seen = random.Random(seed), set[Pair]()
    for pair in pairs:
        yield pair
        if draw.randrange(ONE_IN) == 0 and pair not in seen:
            seen.add(pair)
            yield _with_hidden(pair, draw)


def _with_hidden(pair: Pair, draw: random.Random) -> Pair:
    characters = list(dict.fromkeys(pair.source))
    drawn = set(draw.sample(characters, min(len(characters), draw.randint(1, MOST_HIDDEN))))
    hidden = {ord(c): stand_in for c, stand_in in zip((c for c in characters if c in drawn), STAND_INS)}
    references = tuple(reference.translate(hidden) for reference in pair.references)
    source, target = pair.source.translate(hidden), pair.target.translate(hidden)
    return replace(pair, source=source, target=target, references=references)


@dataclass
class UnknownShare:
    """Counts the characters of texts, and those that are neither `known` nor white space (None: nothing is known)."""

    known: frozenset[str] | None
    total: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        self.total += len(text)
        if self.known is not None and not self.known.issuperset(text):
            unknown = (character for character in text if character not in self.known and not character.isspace())
            self.unknown.update(unknown)

    @property
    def share(self) -> float:
        return self.unknown.total() / max(1, self.total)

    def note(self, texts: str, training: str = "the training sources") -> str:
        """Return a sentence on `texts` where it is worth one, else nothing."""
        if self.share < WORTH_A_NOTE:
            return ""
        frequent = [c if c.isprintable() else repr(c) for c, _ in self.unknown.most_common(LISTED)]
        more = " …" if len(self.unknown) > LISTED else ""
        return (
            f"{self.share:.0%} of the characters of {texts} never occur in {training}, "
            f"so the model has learned nothing about them: {' '.join(frequent)}{more}"
        )
