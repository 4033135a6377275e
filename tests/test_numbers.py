"""The table of the numbers that the autopilot decides by: complete, used, and with evidence that exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import weft
from weft.choose import numbers

CHOOSE = Path(weft.__file__).parent / "choose"
RULES = sorted(path for path in CHOOSE.glob("*.py") if path.name != "numbers.py")
LOG = Path(__file__).parents[1] / "docs" / "LOG.md"
PLAIN = {0, 1, 2, 60, 1e-6}  # counting, seconds of a minute, division by zero


def literals(tree: ast.AST) -> Iterator[ast.Constant]:
    """Every number that is written out, but for the digits that `round` keeps."""
    digits = {
        id(node.args[1])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "round" and node.args[1:]
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and id(node) not in digits:
            yield node


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_no_rule_of_the_autopilot_writes_out_a_number_of_its_own(path: Path) -> None:
    own = [(node.lineno, node.value) for node in literals(ast.parse(path.read_text())) if node.value not in PLAIN]
    assert own == [], "put it into choose/numbers.py, with its evidence"


def test_a_number_that_a_rule_writes_out_would_be_seen() -> None:
    tree = ast.parse("LIMIT = 0.35\ndef rule(x):\n    return x[-1] >= 20 and round(x[0], 5) > 1")
    assert [node.value for node in literals(tree) if node.value not in PLAIN] == [0.35, 20]


def test_every_number_is_read_by_a_rule() -> None:
    text = "".join(path.read_text() for path in RULES)
    read = set(re.findall(r"NUMBERS\.(\w+)", text))
    assert read == {field.name for field in fields(numbers.Numbers)}


def test_the_evidence_of_every_number_is_a_heading_of_the_log_or_says_that_nobody_measured() -> None:
    headings = set(re.findall(r"^#+ (.*)$", LOG.read_text(encoding="utf-8"), re.M))
    missing = {row.name: row.evidence for row in numbers.rows() if row.evidence not in headings}
    assert [name for name, evidence in missing.items() if not evidence.startswith("not measured: ")] == []
    quoted = {heading for evidence in missing.values() for heading in re.findall("«(.*?)»", evidence)}
    assert quoted <= headings


def test_every_number_has_a_meaning_of_its_own() -> None:
    rows = numbers.rows()
    assert len(rows) == len({row.meaning for row in rows})
    assert all(row.value == vars(numbers.NUMBERS)[row.name] and len(row.meaning) > 10 for row in rows)
