"""The JSON of SQuAD, versions 1.1 and 2.0: articles of paragraphs with questions → a record for each question.

Records have the fields document, question, answer (a list; "" where the question has none) and id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from weft.core.errors import UserError
from weft.core.pair import OFFSET

LOOKS_LIKE = (b'"data"', b'"paragraphs"')  # what such a file has near its start
EMPTY = re.compile(rb'"data"\s*:\s*\[\s*\]')
TODO = "give the file as SQuAD publishes it, or a table with the columns document, question and answer"


def is_squad(start: bytes) -> bool:
    """Return whether the first bytes of a JSON file look like SQuAD's."""
    has_marks = all(mark in start for mark in LOOKS_LIKE) or EMPTY.search(start) is not None
    return start.lstrip()[:1] == b"{" and has_marks


def records(
    text: str, name: str, spans: bool, note: Callable[[str], None] = lambda note: None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each question and its record; with `spans`, answers say where they begin.

    `note` is told how many answers do not stand where the file says: these are found by their text.
    """
    number, elsewhere = 0, 0
    try:
        for article in json.loads(text)["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    record, wrong = _record(paragraph["context"], question, spans)
                    number, elsewhere = number + 1, elsewhere + wrong
                    yield number, record
    except KeyError as error:
        what = f"this looks like SQuAD's JSON, but question {number + 1} or its paragraph has no field {error}"
        raise UserError(what, name, TODO) from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        what = (
            f"this looks like SQuAD's JSON, but question {number + 1} cannot be read ({type(error).__name__}: {error})"
        )
        raise UserError(what, name, TODO) from None
    if not number:
        raise UserError("this file has the form of SQuAD's JSON, but no questions", name, TODO)
    if elsewhere:
        are = "answer is" if elsewhere == 1 else "answers are"
        where = "not where answer_start says, so every occurrence of the text in its document counts as correct"
        note(f"{name}: {elsewhere:,} {are} {where}")


def _record(document: str, question: dict[str, Any], spans: bool) -> tuple[dict[str, Any], int]:
    """Return the record of a question, and how many of its answers stand elsewhere in the document than they say."""
    given = [] if question.get("is_impossible") else question["answers"]
    answers = [_answer(document, answer, spans) for answer in given]
    texts = [str(answer["text"]) for answer in given if "answer_start" in answer]
    wrong = sum(text in answers and text in document for text in dict.fromkeys(texts)) if spans else 0
    record = {
        "document": document,
        "question": question["question"],
        "answer": list(dict.fromkeys(answers)) or "",
        "id": str(question.get("id", "")),
    }
    return record, wrong


def _answer(document: str, answer: dict[str, Any], spans: bool) -> str:
    """Return the text of an answer, with where it begins if it stands there."""
    text, begin = str(answer["text"]), answer.get("answer_start")
    placed = spans and isinstance(begin, int) and begin >= 0 and document[begin : begin + len(text)] == text
    return f"{text}{OFFSET}{begin}" if placed else text
