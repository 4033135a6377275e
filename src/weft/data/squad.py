"""The JSON of SQuAD, versions 1.1 and 2.0: articles of paragraphs with questions → a record for each question.

Records have the fields document, question, answer (a list; "" where the question has none) and id.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from weft.core.errors import UserError
from weft.core.pair import OFFSET

LOOKS_LIKE = (b'"data"', b'"paragraphs"')  # what such a file has near its start
TODO = "give the file as SQuAD publishes it, or a table with the columns document, question and answer"


def is_squad(start: bytes) -> bool:
    """Return whether the first bytes of a JSON file look like SQuAD's."""
    return start.lstrip()[:1] == b"{" and all(mark in start for mark in LOOKS_LIKE)


def records(text: str, name: str, spans: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each question and its record; with `spans`, answers say where they begin."""
    number = 0
    try:
        for article in json.loads(text)["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    record = _record(paragraph["context"], question, spans)
                    number += 1
                    yield number, record
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = (
            f"this looks like SQuAD's JSON, but question {number + 1} cannot be read ({type(error).__name__}: {error})"
        )
        raise UserError(what, name, TODO) from None


def _record(document: str, question: dict[str, Any], spans: bool) -> dict[str, Any]:
    answers = (
        [] if question.get("is_impossible") else [_answer(document, answer, spans) for answer in question["answers"]]
    )
    return {
        "document": document,
        "question": question["question"],
        "answer": list(dict.fromkeys(answers)) or "",
        "id": str(question.get("id", "")),
    }


def _answer(document: str, answer: dict[str, Any], spans: bool) -> str:
    """Return the text of an answer, with where it begins if it stands there."""
    text, begin = str(answer["text"]), answer.get("answer_start")
    placed = spans and isinstance(begin, int) and document[begin : begin + len(text)] == text
    return f"{text}{OFFSET}{begin}" if placed else text
