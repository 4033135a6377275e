"""Characters of a source that training never had: they would all be the same UNKNOWN, and nothing of them be left.

`nearest`: they are read as the nearest that training had: ÿ as y, É as é, an accent that stands by itself not at all.
`carried`: they are read as stand-ins, which a model learns to write where the character belongs, and which the
character then takes the place of (after Luong 2015, for words). It learns that from pairs whose own characters are
hidden so.

Either way, text that is composed otherwise than in training (e and an accent, or é) is first tried the other way.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from weft.core.pair import Pair

STAND_INS = "".join(map(chr, range(0x10FFF0, 0x10FFF4)))  # private use
ONE_IN = 8  # pairs, one comes again with characters hidden
MOST_HIDDEN = 2  # of its characters
WAY = 1  # another number whenever the same pairs are hidden otherwise: what is kept on disk is theirs


class Strangers:
    """What is done about characters that are not among the `known`: "unknown" (nothing), "nearest" or "carried"."""

    def __init__(self, way: str, known: Collection[str]) -> None:
        self._way, self._known = way, known
        self._stand_ins = [stand_in for stand_in in STAND_INS if stand_in in known]

    def hide(self, pair: Pair) -> Pair:
        """The pair as the model is to see it."""
        if self._way == "unknown" or all(character in self._known for character in pair.source):
            return pair
        source = self._composed(pair.source)
        if self._way == "nearest":
            read = "".join(self._kin(character) for character in source)
            return replace(pair, source=read or source)
        hidden = {ord(stranger): stand_in for stand_in, stranger in self._standing_in(source).items()}
        return replace(pair, source=source.translate(hidden), target=pair.target.translate(hidden))

    def restore(self, source: str, text: str) -> str:
        """What the model wrote for this source, with the source's own characters where stand-ins stand."""
        if not any(stand_in in text for stand_in in self._stand_ins):
            return text
        standing_in = self._standing_in(self._composed(source))
        return text.translate({ord(one): standing_in.get(one, "") for one in self._stand_ins})

    def _strange(self, text: str) -> list[str]:
        """Each once, in order."""
        return [character for character in dict.fromkeys(text) if character not in self._known]

    def _composed(self, source: str) -> str:
        """As it is, or its letters and accents put together or taken apart: what has the fewest strangers."""
        forms = source, unicodedata.normalize("NFC", source), unicodedata.normalize("NFD", source)
        return min(forms, key=lambda form: len(self._strange(form)))

    def _standing_in(self, source: str) -> dict[str, str]:
        """The stranger that each stand-in is for."""
        return dict(zip(self._stand_ins, self._strange(source)))

    def _kin(self, character: str) -> str:
        """What is known of its parts, or its other case, or of that one's parts; itself, if nothing is."""
        for form in (character, character.lower(), character.upper()):
            if form in self._known:
                return form
            parts = [part for part in unicodedata.normalize("NFKD", form) if part in self._known]
            if parts:
                return "".join(parts)
        return "" if unicodedata.category(character).startswith("M") else character


def with_hidden(pairs: Iterable[Pair], seed: int = 1) -> Iterator[Pair]:
    """All pairs, and some of the different ones once more with a character or two hidden on both sides."""
    draw, seen = random.Random(seed), set[Pair]()
    for pair in pairs:
        yield pair
        if draw.randrange(ONE_IN) == 0 and pair not in seen:
            seen.add(pair)
            yield _with_hidden(pair, draw)


def _with_hidden(pair: Pair, draw: random.Random) -> Pair:
    there = list(dict.fromkeys(pair.source))
    some = set(draw.sample(there, min(len(there), draw.randint(1, MOST_HIDDEN))))
    hidden = {ord(c): stand_in for c, stand_in in zip((c for c in there if c in some), STAND_INS)}
    references = tuple(reference.translate(hidden) for reference in pair.references)
    source, target = pair.source.translate(hidden), pair.target.translate(hidden)
    return replace(pair, source=source, target=target, references=references)
