"""What a unit could keep track of: a number for each symbol of a text, after that symbol has been read.

Each rule reads the text of a line, character by character; whoever wants another one adds it to the table.
"""

# N symbols · C characters

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from weft.look.inspect.plots import Array
from weft.look.inspect.units import Reading

OPEN, CLOSE = "([{", ")]}"
TAB = 8  # columns
LEAST_COLUMNS = 2  # of an indentation: a single space, as before the star of a comment in C, aligns a line


def inside_quotes(text: str) -> Array:
    """1 from an opening quotation mark until the closing one; an empty line ends a quotation that was not closed."""
    values, inside = np.zeros(len(text)), False
    for i, character in enumerate(text):
        if character == '"':
            inside = not inside
        elif character in "“«„":
            inside = True
        elif character in "”»" or (character == "\n" and text[i - 1 : i] == "\n"):
            inside = False
        values[i] = inside
    return values


def bracket_depth(text: str) -> Array:
    """How many brackets are open."""
    steps = np.array([(c in OPEN) - (c in CLOSE) for c in text], dtype=np.float64)
    depth = np.cumsum(steps) if len(steps) else steps
    return depth - np.minimum(np.minimum.accumulate(depth), 0) if len(depth) else depth


def indentation(text: str) -> Array:
    """How many columns of white space the line begins with, as far as it has been read; a single one does not count."""
    values, columns, leading = np.zeros(len(text)), 0, True
    for i, character in enumerate(text):
        if character == "\n":
            columns, leading = 0, True
            continue
        leading = leading and character in " \t"
        if leading:
            columns = (columns // TAB + 1) * TAB if character == "\t" else columns + 1
        values[i] = columns if columns >= LEAST_COLUMNS else 0
    return values


def indented(text: str) -> Array:
    """1 in a line that is indented: from its second column of white space, or its first tab, until its end."""
    return (indentation(text) > 0).astype(np.float64)


def in_comment(text: str) -> Array:
    """1 after // until the end of the line, and from /* to */."""
    values, sign = np.zeros(len(text)), ""
    for i in range(len(text)):
        two = text[max(0, i - 1) : i + 1]
        if not sign and two in ("//", "/*"):
            sign = two
        elif (sign == "/*" and two == "*/") or (sign == "//" and text[i] == "\n"):
            sign = ""
        values[i] = bool(sign)
    return values


def place_in_line(text: str) -> Array:
    """How many characters the line has so far."""
    return _since(text, lambda character: character == "\n")


def place_in_word(text: str) -> Array:
    """How many letters or digits the word has so far."""
    return _since(text, lambda character: not character.isalnum())


def _since(text: str, ends: Callable[[str], bool]) -> Array:
    values, count = np.zeros(len(text)), 0
    for i, character in enumerate(text):
        count = 0 if ends(character) else count + 1
        values[i] = count
    return values


@dataclass(frozen=True)
class Rule:
    """How something is read off a text, and whether it is there or not: then a unit is judged by AUC."""

    of_text: Callable[[str], Array]
    binary: bool = False


RULES: dict[str, Rule] = {
    "inside quotes": Rule(inside_quotes, binary=True),
    "indented line": Rule(indented, binary=True),
    "in a comment": Rule(in_comment, binary=True),
    "bracket depth": Rule(bracket_depth),
    "indentation": Rule(indentation),
    "place in the line": Rule(place_in_line),
    "place in the word": Rule(place_in_word),
}


@dataclass(frozen=True)
class Tracked:
    """Something to keep track of: its value at each symbol (N,)."""

    name: str
    values: Array
    binary: bool = False

    def at(self, rows: npt.NDArray[np.int64]) -> Tracked:
        """Return the same at some symbols only."""
        return replace(self, values=self.values[rows])


def tracked_in(reading: Reading, running: bool) -> list[Tracked]:
    """Return what can be tracked in a text: of a running text, lines go on from one piece to the next."""
    if reading.ends is None:
        return [Tracked("place in the line", _places(reading))]
    texts = ["".join(reading.texts)] if running else reading.texts
    before = np.cumsum([0, *map(len, reading.texts)])[:-1] if running else np.zeros(len(reading.texts), dtype=int)
    characters = np.cumsum([0, *map(len, texts)])[:-1]
    lines = np.zeros(len(reading.texts), dtype=int) if running else np.arange(len(texts))
    at = characters[lines[reading.line]] + before[reading.line] + reading.ends  # characters read, of all texts
    begun = (reading.ends > 0) | (before[reading.line] > 0)  # before the first character there is nothing to track
    every = []
    for name, rule in RULES.items():
        values = np.concatenate([[0.0], *(rule.of_text(text) for text in texts)])
        every.append(Tracked(name, values[np.minimum(at, len(values) - 1)] * begun, rule.binary))
    return _different([each for each in every if each.values.size and np.ptp(each.values) > 0])


def _different(every: Sequence[Tracked]) -> list[Tracked]:
    """Return each thing once: in lines of single words, the place in the word is the place in the line."""
    kept: list[Tracked] = []
    for each in every:
        if not any(np.array_equal(each.values, other.values) for other in kept):
            kept.append(each)
    return kept


def _places(reading: Reading) -> Array:
    first = np.flatnonzero(np.diff(reading.line, prepend=-1))
    return np.asarray(np.arange(len(reading)) - np.repeat(first, np.diff([*first, len(reading)])), dtype=np.float64)
