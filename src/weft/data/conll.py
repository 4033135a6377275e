"""CoNLL files: a token and its tags on each line, blank lines between sentences → a row for each sentence.

Columns are given by number. Without numbers, the token is in the first column and its tag in the last; in .conllu
files, FORM (2) and UPOS (4). Columns are separated by tabs, or by spaces where a line has no tab. Comments of .conllu
files, words that only name a range (1-2) or an empty node (3.1), and -DOCSTART- lines are left out.

Limits: columns have no names, and only source and target are read. A space inside a token becomes a no-break space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.core.errors import UserError
from weft.data.columns import Columns
from weft.data.files import File, raw_lines
from weft.data.formats import BadRowPolicy, Fault, Layout, Rows, decoded

FORM, UPOS = 2, 4  # columns of .conllu, counted from 1
FIRST, LAST = 1, 0  # 0: the last column of each line
DOCUMENT = "-DOCSTART-"


def conll_rows(file: File, columns: Columns, roles: Sequence[str], policy: BadRowPolicy, universal: bool) -> Rows:
    """Yield a row for each sentence, with the number of its first line; `universal` is the format of .conllu."""
    numbers = _numbers(columns, roles, file.name, universal)
    names = {role: f"column {number}" if number else "the last column" for role, number in numbers.items()}
    policy.report.layout = Layout(file.name, names)
    first, sentence = 1, list[list[str]]()
    for line, cells in _lines(file, policy, universal):
        if not cells:
            if sentence:
                yield first, [" ".join(column) for column in zip(*sentence)]
            first, sentence = line + 1, []
            continue
        if max(2 * (len(numbers) > 1), *numbers.values()) > len(cells):
            wanted = " and ".join(f"the {role} should be in {name}" for role, name in names.items())
            what = f"this line has {len(cells)} column{'s' * (len(cells) > 1)}, but {wanted}"
            policy.bad(f"{file.name}:{line}", Fault(what, "give a token and its tag on each line"))
            continue
        sentence.append([cells[number - 1].replace(" ", "\u00a0") for number in numbers.values()])
    if sentence:
        yield first, [" ".join(column) for column in zip(*sentence)]


def _numbers(columns: Columns, roles: Sequence[str], name: str, universal: bool) -> dict[str, int]:
    """Return the column of each role, counted from 1; 0 is the last."""
    usual = {"source": FORM if universal else FIRST, "target": UPOS if universal else LAST}
    given = {"source": columns.source, "target": columns.target}
    for role in columns.present(roles):
        if role not in usual:
            raise UserError(f"a CoNLL file has no {role}", name, f"leave --{role} out, or give a table")
        if isinstance(given[role], str):
            what = f"the columns of a CoNLL file have no names, but the {role} is {given[role]!r}"
            raise UserError(what, name, f"give the number of the column: --{role} {usual[role] or 2}")
    return {role: int(given[role] or usual[role]) for role in columns.present(roles)}


def _lines(file: File, policy: BadRowPolicy, universal: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line, none for a blank one, without what is no token."""
    for line, raw in enumerate(raw_lines(file.stream), 1):
        try:
            text = decoded(raw)
        except Fault as fault:
            policy.bad(f"{file.name}:{line}", fault)
            continue
        cells = [cell.strip() for cell in text.split("\t")] if "\t" in text else text.split()
        if not any(cells):
            yield line, []
        elif not _is_no_token(cells, text, universal):
            yield line, cells


def _is_no_token(cells: Sequence[str], text: str, universal: bool) -> bool:
    if universal:
        return text.startswith("#") or not cells[0].isdigit()
    return cells[0] == DOCUMENT
