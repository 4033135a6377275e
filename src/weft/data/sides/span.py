"""Spans: a target that stands in its source, as text or as the characters [start, end] where it begins and ends.

An empty cell says that the source has no answer. Where only the text is known and it stands in the source several
times, every occurrence is right. With `unit="sentence"` the target need not stand in the source: the sentence with the
most words in common (F1) is right, so that any summary teaches which sentence to select.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weft.core.counts import counted
from weft.core.pair import OFFSET, Pair
from weft.core.shapes import Places
from weft.data.blocks import Block
from weft.data.formats import Fault
from weft.data.sides.side import Row, Rows
from weft.data.text.tokens import Tokeniser

FORMAT = 1
MOST_OCCURRENCES = 50  # of an answer in its document that are all right
SHOWN = 3  # answers that do not stand in their document
SHOWN_CHARACTERS = 60
_SENTENCE = re.compile(r"\S(?:.*?[.!?][\"')\]]*(?=\s|$)|.*$)", re.DOTALL)
_WORD = re.compile(r"\w+")


def span_cells(source: str, cells: Sequence[str]) -> list[str]:
    """Return the cells of one target as text, with where each begins if it is given; Fault if that is not possible."""
    texts = [text for cell in cells for text in _texts(source, cell)]
    return list(dict.fromkeys(texts))


def _texts(source: str, cell: str) -> Iterator[str]:
    for begin, end in _offsets(cell):
        if end <= begin:
            same = "ends where it begins" if end == begin else "ends before it begins"
            what = f"the target is [{begin}, {end}], which {same}"
            raise Fault(what, "give [start, end]: characters are counted from 0, and end is one after the last")
        if not 0 <= begin < end <= len(source):
            what = f"the target is [{begin}, {end}], but the source has {counted(len(source), 'character')}"
            raise Fault(what, "give [start, end]: characters are counted from 0, and end is one after the last")
        yield f"{source[begin:end]}{OFFSET}{begin}"
    if not _offsets(cell):
        yield cell


def _offsets(cell: str) -> list[tuple[int, int]]:
    """Return the pairs of integers of a JSON list; none where the cell is text."""
    if not cell.startswith("["):
        return []
    try:
        value = json.loads(cell)
    except ValueError:
        return []
    pairs = [value] if value and not isinstance(value[0], list) else value
    whole = all(len(pair) == 2 and all(type(n) is int for n in pair) for pair in pairs if isinstance(pair, list))
    return [(pair[0], pair[1]) for pair in pairs] if whole and all(isinstance(pair, list) for pair in pairs) else []


def occurrences(source: str, cell: str) -> list[tuple[int, int]]:
    """Return the characters where an answer begins and ends in its source, at most MOST_OCCURRENCES times."""
    text, _, begin = cell.partition(OFFSET)
    if begin:
        return [(int(begin), int(begin) + len(text))]
    spans: list[tuple[int, int]] = []
    at = source.find(text) if text else -1
    while at >= 0 and len(spans) < MOST_OCCURRENCES:
        spans.append((at, at + len(text)))
        at = source.find(text, at + 1)
    return spans


def sentences(source: str) -> list[tuple[int, int]]:
    """Return the characters where the sentences of a text begin and end; a line break ends one, too."""
    spans = []
    for line in re.finditer(r"[^\n]+", source):
        spans += [(line.start() + s.start(), line.start() + s.end()) for s in _SENTENCE.finditer(line[0])]
    return spans


def overlap(first: str, second: str) -> float:
    """Return the F1 score of the words that two texts have in common."""
    ours, theirs = (Counter(word.lower() for word in _WORD.findall(text)) for text in (first, second))
    return 2 * (ours & theirs).total() / max(1, ours.total() + theirs.total())


def nearest_sentence(source: str, cell: str) -> list[tuple[int, int]]:
    """Return the sentence that has most in common with a text; none where no sentence has a word of it."""
    text = cell.partition(OFFSET)[0]
    spans = sentences(source)
    scores = [overlap(source[begin:end], text) for begin, end in spans]
    return [spans[scores.index(max(scores))]] if scores and max(scores) > 0 else []


class Span:
    """Where targets stand in their sources, in tokens of the source's tokeniser, which `read_by` names."""

    kind = "span"

    def __init__(self, longest: int, none: bool, window: int, stride: int, unit: str = "span") -> None:
        self.longest, self.none, self.window, self.stride, self.unit = longest, none, window, stride, unit
        self._tokeniser: Tokeniser | None = None

    def read_by(self, tokeniser: Tokeniser) -> None:
        """Say how sources are split into tokens."""
        self._tokeniser = tokeniser

    @property
    def shape(self) -> Places:
        return Places(self.longest, self.none, self.window, self.stride, self.unit == "sentence")

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        """Return the first and last token of every right span, one after the other; nothing where there is none."""
        return [self._encoded(pair) for pair in pairs]

    def _encoded(self, pair: Pair) -> list[int]:
        tokens = self._tokens(pair.source)
        if not pair.target:
            return [len(tokens)] * 2 if self.none else []
        find = nearest_sentence if self.unit == "sentence" else occurrences
        spans = [_in_tokens(tokens, *span) for span in find(pair.source, pair.target)]
        return [place for span in spans if span is not None for place in span]

    def text(self, row: Row, pair: Pair) -> str:
        tokens = self._tokens(pair.source)
        first, last = (int(place) for place in row)
        if first >= len(tokens):
            return ""
        begin, end = tokens[first][0], tokens[min(last, len(tokens) - 1)][1]
        if self.unit == "sentence":
            begin, end = _sentence_of(tokens[first], sentences(pair.source)) or (begin, end)
        return pair.source[begin:end].strip()

    def first_of_each(self, rows: Sequence[Row], pair: Pair) -> list[int]:
        """Return which of some spans are the first of those that are written in the same way."""
        if self.unit != "sentence":
            return list(range(len(rows)))
        tokens, spans = self._tokens(pair.source), sentences(pair.source)
        firsts: dict[str, int] = {}
        for number, row in enumerate(rows):
            begin = int(row[0])
            span = _sentence_of(tokens[begin], spans) if begin < len(tokens) else (0, 0)
            firsts.setdefault(pair.source[slice(*span)] if span else self.text(row, pair), number)
        return list(firsts.values())

    def _tokens(self, source: str) -> list[tuple[int, int]]:
        assert self._tokeniser is not None, "the sides of a run are put together before they are used"
        return self._tokeniser.offsets(source)

    def to_json(self) -> str:
        content = {"format": FORMAT, "kind": self.kind, "longest": self.longest, "none": self.none}
        return json.dumps({**content, "window": self.window, "stride": self.stride, "unit": self.unit}, indent=1) + "\n"


def _sentence_of(token: tuple[int, int], spans: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the sentence that a token stands in, or the next one."""
    number = bisect_right(spans, token[1] - 1, key=lambda span: span[1])
    return spans[number] if number < len(spans) else None


def _in_tokens(tokens: Sequence[tuple[int, int]], begin: int, end: int) -> tuple[int, int] | None:
    """Return the first and last of the tokens that some characters stand in."""
    first = bisect_right(tokens, begin, key=lambda token: token[1])
    last = bisect_left(tokens, end, key=lambda token: token[0]) - 1
    return (first, last) if first <= last else None


def in_windows(source: Sequence[int], target: Sequence[int], side: Span) -> tuple[Sequence[int], Sequence[int]]:
    """Return the first window of a long source that holds one of the spans whole, with the spans of that window."""
    if len(source) < side.window:
        return source, target
    spans = [(target[n], target[n + 1]) for n in range(0, len(target), 2)]
    starts = range(0, len(source), side.stride)
    for start in starts:
        after = min(start + side.window - 1, len(source))  # END follows
        inside = [place - start for span in spans if start <= span[0] and span[1] < after for place in span]
        if inside:
            return source[start:after], inside
    none = [side.window - 1] * 2 if spans and spans[0][0] == len(source) else []
    return source[: side.window - 1], none


class SpanCollector:
    """Counts answers: how long, how many stand in their document, how often, and how many there are none."""

    def __init__(self) -> None:
        self._rows = self._none = self._missing = self._several = 0
        self._longest: Counter[int] = Counter()  # words of an answer
        self._shown: list[str] = []

    def add(self, block: Block, role: str) -> None:
        for row, source in enumerate(block.sources):
            cells = [block.targets[row], *(block.extras[row].references if row in block.extras else ())]
            self._rows += 1
            self._none += not cells[0]
            counts = [len(occurrences(source, cell)) for cell in cells if cell]
            self._several += any(count > 1 for count in counts)
            if counts and not any(counts):
                self._missing += 1
                self._show(cells[0], source)
            self._longest.update(len(cell.partition(OFFSET)[0].split()) for cell in cells)

    def _show(self, cell: str, source: str) -> None:
        if len(self._shown) < SHOWN:
            answer, document = (text[:SHOWN_CHARACTERS] for text in (cell, source))
            self._shown.append(f"{answer!r} is not in {document!r}…")

    def result(self) -> dict[str, Any]:
        lengths = sorted(self._longest.elements())
        return {
            "rows": self._rows,
            "none": self._none,
            "missing": self._missing,
            "several": self._several,
            "shown": self._shown,
            "mean words": sum(lengths) / max(1, len(lengths)),
            "long words": lengths[min(len(lengths) - 1, int(0.99 * len(lengths)))] if lengths else 0,
        }


class SpanKind:
    """Reads and surveys a column of answers that stand in their sources."""

    def fault(self, role: str, cell: str, longest: int) -> Fault | None:
        if role != "target":
            return Fault(f"the {role} cannot be a span", f"set {role}.kind=text")
        if len(cell) > longest:
            what = f"the {role} has {len(cell):,} characters, but the limit is {longest:,}"
            return Fault(what, "shorten it")
        return None

    def collector(self) -> SpanCollector:
        return SpanCollector()

    def describe(self, survey: Mapping[str, Any]) -> dict[str, str]:
        rows = max(1, survey["rows"])
        return {
            "mean words": f"{survey['mean words']:.1f}",
            "not in the document": f"{survey['missing']:,}",
            "several times in it": f"{survey['several'] / rows:.1%}",
            "no answer": f"{survey['none'] / rows:.1%}",
        }

    def load(self, content: Mapping[str, Any]) -> Span:
        if content["format"] != FORMAT:
            raise ValueError(f"the format is {content['format']}, but this version of Weft reads format {FORMAT}")
        sizes = {name: content[name] for name in ("longest", "window", "stride")}
        if not all(type(size) is int and 1 <= size <= 1_000_000 for size in sizes.values()):
            raise ValueError(f"{', '.join(sizes)} must be whole numbers from 1 to 1,000,000")
        return Span(sizes["longest"], bool(content["none"]), sizes["window"], sizes["stride"], str(content["unit"]))
