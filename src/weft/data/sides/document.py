"""Documents: texts that are found for a query, not written. A target whose source is its beginning loses it.

For documents without queries, pairs are made of the documents themselves: a sentence is the query for the rest.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.core.pair import Pair
from weft.core.shapes import Symbols
from weft.data.sides.side import Row, Rows, Side
from weft.data.sides.span import sentences
from weft.data.sides.text import TextKind
from weft.data.text.tokens import Tokeniser, from_json

FORMAT = 1
VERSION = 1  # of how excerpts are drawn
FEWEST_WORDS = 4  # of a sentence that can be a query


class Document:
    """Texts in tokens of a tokeniser, at most `longest` of them each."""

    kind = "document"

    def __init__(self, tokeniser: Tokeniser, longest: int) -> None:
        self.tokeniser, self.longest = tokeniser, longest

    @property
    def shape(self) -> Symbols:
        return self.tokeniser.shape

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        """Encode the documents of pairs, each without its source."""
        return [row[: self.longest] for row in self.tokeniser.encode_all([body(pair) for pair in pairs])]

    def text(self, row: Row, pair: Pair) -> str:
        return self.tokeniser.decode([int(token) for token in row])

    def to_json(self) -> str:
        content = {"format": FORMAT, "kind": self.kind, "longest": self.longest}
        return json.dumps({**content, "tokeniser": json.loads(self.tokeniser.to_json())}, ensure_ascii=False) + "\n"


def body(pair: Pair) -> str:
    """Return the target without the source, where it begins with it, as a text begins with its title."""
    rest = pair.target[len(pair.source) :] if pair.source and pair.target.startswith(pair.source) else ""
    return rest if rest.strip() else pair.target


def with_excerpts(pairs: Iterable[Pair], count: int, seed: int = 1) -> Iterator[Pair]:
    """Yield the pairs and, for each different target, so many pairs of a sentence of it and the rest.

    A pair whose source is its target has no query: it is only used in this way.
    """
    drawn, seen = random.Random(seed), set()
    for pair in pairs:
        if pair.source != pair.target:
            yield pair
        for target in pair.targets:
            if target not in seen:
                seen.add(target)
                yield from _excerpts(replace(pair, target=target, references=()), count, drawn)


def _excerpts(pair: Pair, count: int, drawn: random.Random) -> Iterator[Pair]:
    text = body(pair)
    title = pair.target[: len(pair.target) - len(text)] if pair.source != pair.target else ""
    spans = sentences(text)
    queries = [span for span in spans if len(text[slice(*span)].split()) >= FEWEST_WORDS]
    if len(spans) < 2:
        return
    for begin, end in drawn.sample(queries, min(count, len(queries))):
        yield replace(pair, source=text[begin:end], target=title + text[:begin] + text[end:].lstrip())


class DocumentKind(TextKind):
    """Reads and surveys a column of documents."""

    def load(self, content: Mapping[str, Any]) -> Side:
        if content["format"] != FORMAT:
            raise ValueError(f"the format is {content['format']}, but this version of Weft reads format {FORMAT}")
        longest = content["longest"]
        if type(longest) is not int or not 1 <= longest <= 1_000_000:
            raise ValueError(f"longest must be a length, not {longest}")
        return Document(from_json(json.dumps(content["tokeniser"]), "tokeniser"), longest)
