"""A small inspection of the examples in a model card: one page beside it, made without decoding anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.core.errors import UserError
from weft.learn.validate import shown_input
from weft.predict.predictor import Predictor
from weft.runs.folder import INSPECTION, RunFolder
from weft.runs.ready import Ready


def write_inspection(ready: Ready, folder: RunFolder, final: Mapping[str, Any], predictor: Predictor) -> bool:
    """Write what the model attended to in the examples of the last line of the log; return whether there is a page.

    Runs without attention, and those that do not turn text into text, have none.
    """
    from weft.look.inspect import attention, report  # what draws pages is not needed before a run ends
    from weft.look.inspect.subject import Subject

    known = {(shown_input(pair), target): pair for pair in ready.prepared.valid for target in pair.targets}
    rows = [
        (known[source, wanted], output) for source, wanted, output in final["examples"] if (source, wanted) in known
    ]
    if not rows:
        return False
    subject = Subject(predictor)
    reads_and_writes = subject.reads_text and subject.writes_text and subject.has_decoder
    if not reads_and_writes or subject.is_language_model or attention.why_not(subject):
        return False
    pairs, outputs = zip(*rows, strict=True)
    try:
        page = report.inspect(predictor, folder, pairs, written=outputs, views=[attention.VIEW.name]).page
    except UserError:  # a line that is too long to be looked at
        return False
    folder.write(INSPECTION, page)
    return True
