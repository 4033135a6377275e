"""What separates the columns of a CSV file: comma, semicolon, tab or bar, found from its first lines.

The separator is the character that cuts the most lines into the same number of cells, more than one. Commas and
semicolons that stand in prose are followed by a space, and decimal commas stand between digits: neither is counted.
"""

from __future__ import annotations

import csv
import re
from collections import Counter

DELIMITERS = ",;\t|"  # of equals, the first
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars (|)"}
SAMPLE_LINES = 200


def delimiter_of(start: bytes) -> str:
    """Return the delimiter of a CSV file that begins with these bytes."""
    lines = start.decode(errors="replace").splitlines(keepends=True)
    whole = lines[:-1] if len(lines) > 1 and not lines[-1].endswith("\n") else lines  # the last may be cut
    return max(DELIMITERS, key=lambda delimiter: evenness(whole[:SAMPLE_LINES], delimiter))


def evenness(lines: list[str], delimiter: str) -> tuple[float, float]:
    """Return the share of rows that have the most frequent width, 0 if that is 1, and the share of separators."""
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:
        return 0.0, 0.0
    widths = Counter(map(len, rows))
    width, count = widths.most_common(1)[0] if rows else (1, 0)
    return (count / len(rows), _separating(lines, delimiter)) if width > 1 else (0.0, 0.0)


def _separating(lines: list[str], delimiter: str) -> float:
    """Return the share of a delimiter's uses outside of quotes that are neither prose nor a decimal mark."""
    text = re.sub(r'"[^"]*"', '""', "".join(lines))
    uses = text.count(delimiter)
    escaped = re.escape(delimiter)
    others = len(re.findall(rf"{escaped} |(?<=[0-9]){escaped}(?=[0-9])", text))
    return 1 - others / uses if uses else 0.0
