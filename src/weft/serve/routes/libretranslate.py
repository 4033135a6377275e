"""The protocol of LibreTranslate: /translate, /languages and /detect, for the clients that exist for it.

Each line of a text is an input of its own. Languages are those of the runs: by their names (en-de), by the names of
their columns, or by the setting languages.NAME.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from weft.core.pair import Pair
from weft.data.text.tokens import Tokeniser
from weft.serve import body
from weft.serve.answering import Question, answer
from weft.serve.batching import Answer
from weft.serve.body import Text
from weft.serve.errors import Problem, of_validation
from weft.serve.served import Served
from weft.serve.service import Service

Asked = TypeVar("Asked", bound=BaseModel)
MOST_DETECTED = 1000  # characters that are looked at


class TranslateRequest(BaseModel):
    """What /translate reads."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    q: Text | list[Text]
    """The text, or several."""
    source: Text
    """The language of the text, or auto."""
    target: Text
    """The language to translate to."""
    format: str = "text"
    """Only text."""
    alternatives: Annotated[int, Field(ge=0)] = 0
    """How many further translations of each text are wanted."""
    api_key: str = ""
    """A key, if the server needs one."""


class DetectRequest(BaseModel):
    """What /detect reads."""

    q: Text
    api_key: str = ""


async def translate(request: Request, service: Service) -> Response:
    asked = await _read(request, service, TranslateRequest)
    if asked.format != "text":
        what = f"the format '{asked.format[:40]}' is not supported"
        raise Problem(422, what, "format", "send plain text, with the format text")
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    source = _detected(service, asked.target, texts) if asked.source == "auto" else asked.source
    served = _run_for(service, source, asked.target)
    lines = [text.split("\n") for text in texts]
    tag = served.languages[source, asked.target]
    inputs: list[Any] = [{"source": line, "tag": tag} if tag else line for text in lines for line in text]
    _, answers = await answer(request, service, Question(served, inputs, nbest=1 + asked.alternatives))
    rest = iter(answers)
    translated = [[next(rest) for _ in text] for text in lines]
    result: dict[str, Any] = {"translatedText": _as_asked(asked.q, [_joined(text, 0) for text in translated])}
    if asked.alternatives:
        others = [[_joined(text, rank) for rank in range(1, 1 + asked.alternatives)] for text in translated]
        result["alternatives"] = _as_asked(asked.q, others)
    if asked.source == "auto":
        guess: Any = {"language": source, "confidence": _confidence(served, texts)}
        result["detectedLanguage"] = _as_asked(asked.q, [guess] * len(texts))
    return JSONResponse(result)


def _as_asked(q: str | list[str], results: list[Any]) -> Any:
    return results[0] if isinstance(q, str) else results


def _joined(lines: Sequence[Answer], rank: int) -> str:
    """Return the outputs of this rank, line by line; where a line has fewer, its last."""
    outputs = [line.prediction.outputs for line in lines]
    return "\n".join(each[min(rank, len(each) - 1)].text for each in outputs)


async def languages(request: Request, service: Service) -> Response:
    """List the languages that can be translated, each with those that it can be translated to."""
    targets: dict[str, list[str]] = {}
    for source, target in service.by_languages():
        targets.setdefault(source, []).append(target)
        targets.setdefault(target, [])
    return JSONResponse([{"code": code, "name": _name(code), "targets": to} for code, to in targets.items()])


def _name(code: str) -> str:
    """Return the English name of a language; its code where it has none."""
    from babel import Locale, UnknownLocaleError

    try:
        return Locale.parse(code, sep="-" if "-" in code else "_").get_display_name("en") or code
    except (UnknownLocaleError, ValueError):
        return code


async def detect(request: Request, service: Service) -> Response:
    """Guess the language of a text among those that the runs read."""
    asked = await _read(request, service, DetectRequest)
    guesses = _guesses(service, [asked.q], None)
    if not guesses:
        raise _no_languages()
    return JSONResponse([{"language": language, "confidence": share} for language, share in guesses])


async def _read(request: Request, service: Service, model: type[Asked]) -> Asked:
    """Return a request, as JSON or as a form, once its key is accepted and its types are right."""
    if body.require_type(request, body.JSON, body.FORM) == body.JSON:
        content = await body.read_object(request, service.settings.limits)
    else:
        content = _fields(await body.read(request, service.settings.limits))
    key = content.get("api_key") or ""
    service.keys.check(request.headers, key if isinstance(key, str) else "")
    content.pop("api_key", None)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise of_validation(error.errors(include_url=False)) from None


def _fields(content: bytes) -> dict[str, Any]:
    """Return the fields of a form; a field that comes several times is a list."""
    try:
        pairs = parse_qsl(content.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=5000)
    except ValueError:
        raise Problem(400, "the form cannot be read", "the body", "send it in UTF-8, URL-encoded") from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            before = fields[name]
            fields[name] = [*before, value] if isinstance(before, list) else [before, value]
        else:
            fields[name] = value
    return fields


def _run_for(service: Service, source: str, target: str) -> Served:
    runs = service.by_languages()
    if not runs:
        raise _no_languages()
    if (source, target) not in runs:
        known = ", ".join(f"{first} to {second}" for first, second in runs)
        what = f"this server does not translate from '{source[:20]}' to '{target[:20]}'"
        raise Problem(400, what, "source and target", f"it translates from {known}")
    return runs[source, target]


def _no_languages() -> Problem:
    todo = "use /predict, or ask its operator to start it with --set languages.NAME=en-de"
    return Problem(400, "this server does not know the languages of its runs", "the server", todo)


def _detected(service: Service, target: str, texts: Sequence[str]) -> str:
    guesses = _guesses(service, texts, target)
    if not guesses:
        raise (
            _no_languages()
            if not service.by_languages()
            else Problem(400, f"this server does not translate to '{target[:20]}'", "target", "see /languages")
        )
    return guesses[0][0]


def _guesses(service: Service, texts: Sequence[str], target: str | None) -> list[tuple[str, float]]:
    """Return the source languages of the runs, the likeliest first, with a confidence from 0 to 100.

    A language is likely if a tokeniser that was trained on it knows the characters, and needs few tokens.
    """
    sources = {source: run for (source, to), run in service.by_languages().items() if target in (None, to)}
    counts = {language: _tokens(run, texts) for language, run in sources.items()}
    fewest = min((count for count in counts.values() if count), default=1)
    shares = {
        language: round(_confidence(run, texts) * fewest / (counts[language] or fewest), 1)
        for language, run in sources.items()
    }
    return sorted(shares.items(), key=lambda guess: -guess[1])


def _tokens(served: Served, texts: Sequence[str]) -> int:
    source = served.predictor.sides.source
    if not isinstance(source, Tokeniser):
        return 0
    return sum(len(source.encode(text[:MOST_DETECTED])) for text in texts)


def _confidence(served: Served, texts: Sequence[str]) -> float:
    """Return the percentage of characters that the run knows."""
    source = served.predictor.sides.source
    if not isinstance(source, Tokeniser):
        return 0.0
    seen = source.unknown_share([Pair(text[:MOST_DETECTED]) for text in texts])
    return round(100 * (1 - seen.share), 1)
