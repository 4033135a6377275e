"""The description of the interface, as OpenAPI 3.1: the routes and the types that they read."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import BaseModel

from weft.serve.routes.inference import InferRequest
from weft.serve.routes.inspect import InspectRequest
from weft.serve.routes.libretranslate import DetectRequest, TranslateRequest
from weft.serve.routes.own import PredictRequest
from weft.serve.settings import Limits

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
ERRORS = {
    "400": "The request cannot be read.",
    "401": "A key is missing or not known.",
    "404": "There is no such route or run.",
    "408": "The request was sent too slowly.",
    "413": "The request is larger than a limit allows.",
    "415": "The content type is not supported.",
    "422": "The request can be read, but not answered.",
    "429": "The server has too much to do; Retry-After says when to come back.",
    "503": "The server is loading or stopping.",
    "504": "The answer took too long.",
}
READ_ERRORS = ("400", "401", "404", "503")


def document(limits: Limits, keys: bool) -> dict[str, Any]:
    """Return the document for a server with these limits."""
    content: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Weft", "version": "1", "description": "Trained runs that answer."},
        "paths": _paths(limits),
        "components": {"schemas": {"Error": ERROR}},
    }
    if keys:
        content["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        content["security"] = [{"key": []}]
    return content


def _paths(limits: Limits) -> dict[str, Any]:
    predict_types = {JSON: _schema(PredictRequest), "multipart/form-data": {"type": "object", "properties": UPLOAD}}
    inspect_types = {JSON: _schema(InspectRequest)}
    infer = partial(_post, "Compute tensors (Open Inference Protocol, version 2).", {JSON: _schema(InferRequest)})
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "/predict": {"post": _post("Predict outputs for inputs.", predict_types, PREDICTED, PREDICT_EXAMPLE)},
        "/inspect": {"post": _post("Show what the model did with an input.", inspect_types, {"type": "object"})},
        "/runs": {"get": _get("List the runs and the limits.")},
        "/translate": {"post": _post("Translate (LibreTranslate).", _both(TranslateRequest), {"type": "object"})},
        "/detect": {"post": _post("Guess a language (LibreTranslate).", _both(DetectRequest), {"type": "array"})},
        "/languages": {"get": _get("List the languages (LibreTranslate).")},
        "/health": {"get": _get("Say whether requests are answered.")},
        "/metrics": {"get": _get("Numbers for Prometheus.", "text/plain")},
        "/v2/models/{name}": {"get": _get("Describe a run as a model."), "parameters": [name]},
        "/v2/models/{name}/infer": {"post": infer({"type": "object"}), "parameters": [name]},
    }


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a type, with its parts in place."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})
    inlined: dict[str, Any] = _inline(schema, parts)
    return inlined


def _inline(node: Any, parts: dict[str, Any]) -> Any:
    if isinstance(node, dict):
        if "$ref" in node:
            return _inline(parts[str(node["$ref"]).rpartition("/")[2]], parts)
        return {key: _inline(value, parts) for key, value in node.items()}
    return [_inline(value, parts) for value in node] if isinstance(node, list) else node


def _both(model: type[BaseModel]) -> dict[str, Any]:
    return {JSON: _schema(model), FORM: _schema(model)}


def _post(summary: str, read: dict[str, Any], written: dict[str, Any], example: Any = None) -> dict[str, Any]:
    content = {kind: {"schema": schema} for kind, schema in read.items()}
    if example is not None:
        content[JSON]["example"] = example
    responses = {"200": {"description": "The answer.", "content": {JSON: {"schema": written}}}}
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": content},
        "responses": responses | _errors(tuple(ERRORS)),
    }


def _get(summary: str, kind: str = JSON) -> dict[str, Any]:
    answer = {"200": {"description": "The answer.", "content": {kind: {"schema": {}}}}}
    return {"summary": summary, "responses": answer | _errors(READ_ERRORS)}


def _errors(statuses: tuple[str, ...]) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {
        status: {"description": ERRORS[status], "content": {JSON: {"schema": schema}}} for status in statuses
    }  # fmt: skip


ERROR = {
    "type": "object",
    "required": ["error", "where", "todo"],
    "properties": {
        "error": {"type": "string", "description": "What is wrong."},
        "where": {"type": "string", "description": "Where it is wrong."},
        "todo": {"type": "string", "description": "What to do."},
    },
}
UPLOAD = {
    "source": {"type": "array", "items": {"type": "string", "format": "binary"}, "description": "A file an input."},
    "search": {"type": "string", "description": "The settings of the search, as JSON."},
}
OUTPUT = {
    "type": "object",
    "required": ["text", "score"],
    "properties": {
        "text": {"type": "string"},
        "score": {"type": ["number", "null"]},
        "value": {"description": "Of runs that write no text: the value."},
        "probability": {"type": ["number", "null"], "description": "Of labels."},
        "log_prob": {"type": ["number", "null"]},
        "tokens": {"type": "array", "description": "Each token and its log-probability."},
    },
}
PREDICTED = {
    "type": "object",
    "required": ["run", "predictions", "notes"],
    "properties": {
        "run": {"type": "string"},
        "predictions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["outputs"],
                "properties": {
                    "outputs": {"type": "array", "items": OUTPUT},
                    "alignment": {"type": "object", "description": "Source tokens, target tokens and weights."},
                },
            },
        },
        "notes": {"type": "array", "items": {"type": "string"}, "description": "What is unusual about the inputs."},
    },
}
PREDICT_EXAMPLE = {"inputs": ["a line"], "nbest": 3, "search": {"kind": "beam", "width": 5}}
