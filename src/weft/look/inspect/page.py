"""One self-contained page: a template, a style sheet, scripts and the numbers, all in one file.

Nothing is loaded from anywhere: the page's own security policy forbids it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

SCRIPTS = ("elements", "heat", "table", "facts", "curves", "shaded", "tree", "main")


def page_of(numbers: Mapping[str, Any]) -> str:
    """Return the page that shows these numbers."""
    text = json.dumps(numbers, ensure_ascii=False, separators=(",", ":"))
    parts = {
        "title": html.escape(f"weft inspect · {numbers['run']['name']}"),
        "style": style(),
        "report": text.replace("<", "\\u003c"),  # so that no text can end the element that holds it
        "script": script(),
    }
    head, *rest = _file("template.html").split("{{")
    pieces = [head]
    for piece in rest:  # each part is put in once, whatever it holds
        name, _, after = piece.partition("}}")
        pieces += [parts[name], after]
    return "".join(pieces)


def style() -> str:
    """Return the style sheet of the page."""
    return _file("style.css")


def script() -> str:
    """Return what draws the numbers that the element `report` holds."""
    return "\n".join(_file(f"{name}.js") for name in SCRIPTS)


@cache
def _file(name: str) -> str:
    return (files("weft.look.inspect") / "page" / name).read_text(encoding="utf-8")
