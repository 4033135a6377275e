"""The Open Inference Protocol, version 2 (KServe, Triton): every run is a model that reads and writes tensors.

Inputs are BYTES tensors `source` and, as far as the run has them, `context`, `tag` and `features` (separated by
spaces); numbers may also be tensors of numbers. Outputs are `output` (BYTES) and `score` (FP64). Tensors are JSON, or
binary as Triton's clients send them. Parameters of a request are settings of the search, `nbest` and `prefix`.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from weft.predict.predictions import Prediction
from weft.serve import body, tensors
from weft.serve.answering import Question, answer
from weft.serve.body import Text
from weft.serve.errors import Problem, invalid, of_validation, unavailable
from weft.serve.outputs import number
from weft.serve.served import Served
from weft.serve.service import Service
from weft.serve.tensors import Tensor

HEADER = "inference-header-content-length"
VERSION = "1"  # of every model: a run has no other
PLAIN = ("nbest", "prefix")  # parameters that are no settings of a search
BINARY = "binary_data_output"


class Wanted(BaseModel):
    """An output that a client asks for."""

    model_config = ConfigDict(extra="ignore")
    name: str
    parameters: dict[str, Any] = {}


class InferRequest(BaseModel):
    """What /v2/models/NAME/infer reads."""

    model_config = ConfigDict(extra="ignore")
    inputs: list[Tensor]
    id: Text = ""
    parameters: dict[str, Any] = {}
    outputs: list[Wanted] = []


async def server(request: Request, service: Service) -> Response:
    return JSONResponse({"name": "weft", "version": "2", "extensions": ["binary_tensor_data"]})


async def live(request: Request, service: Service) -> Response:
    return JSONResponse({"live": True})


async def ready(request: Request, service: Service) -> Response:
    if not service.is_ready:
        raise unavailable("the server is stopping" if service.draining else "the runs are being loaded")
    return JSONResponse({"ready": True})


async def model(request: Request, service: Service) -> Response:
    """Describe a run as a model with its tensors."""
    served = _served(request, service)
    return JSONResponse(
        {
            "name": served.name,
            "versions": [VERSION],
            "platform": "weft",
            "inputs": [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in served.fields],
            "outputs": [
                {"name": "output", "datatype": "BYTES", "shape": [-1]},
                {"name": "score", "datatype": "FP64", "shape": [-1]},
            ],
        }
    )


async def model_ready(request: Request, service: Service) -> Response:
    return JSONResponse({"name": _served(request, service).name, "ready": True})


def _served(request: Request, service: Service) -> Served:
    version = request.path_params.get("version", VERSION)
    if version != VERSION:
        raise Problem(404, f"there is no version '{version[:20]}'", "version", f"a run has the version {VERSION} only")
    return service.served(request.path_params["name"])


async def infer(request: Request, service: Service) -> Response:
    served = _served(request, service)
    asked = await _read(request, service)
    columns = {tensor.name: tensors.cells(tensor) for tensor in asked.inputs}
    if "source" not in columns or len({len(cells) for cells in columns.values()}) > 1:
        raise invalid("the inputs have no tensor 'source', or are not equally long", "inputs", "see /v2/models/NAME")
    if "features" in columns:
        columns["features"] = [str(cell).split() for cell in columns["features"]]
    search = {name: value for name, value in asked.parameters.items() if name not in (*PLAIN, BINARY)}
    nbest, prefix = asked.parameters.get("nbest", 1), asked.parameters.get("prefix", "")
    if isinstance(nbest, bool) or not isinstance(nbest, int) or nbest < 1 or not isinstance(prefix, str):
        raise invalid("nbest is a whole number from 1, and prefix a text", "parameters", "correct it")
    inputs = [dict(zip(columns, cells)) for cells in zip(*columns.values())]
    _, answers = await answer(request, service, Question(served, inputs, search, nbest, prefix))
    outputs = _outputs([each.prediction for each in answers], nbest)
    return _response(served, asked, outputs)


async def _read(request: Request, service: Service) -> InferRequest:
    """Return the request; the binary tensors after its JSON are read, too."""
    content = await body.read(request, service.settings.limits)
    declared = request.headers.get(HEADER)
    if declared is None:
        body.require_type(request, body.JSON, "application/octet-stream", "")
    if declared is not None and (not declared.isdecimal() or len(declared) > 12 or int(declared) > len(content)):
        raise Problem(400, "the length of the JSON is not that of the body", f"header {HEADER}", "send its length")
    length = len(content) if declared is None else int(declared)
    fields = body.parse_object(content[:length])
    try:
        asked = InferRequest.model_validate(fields)
    except ValidationError as error:
        raise of_validation(error.errors(include_url=False)) from None
    tensors.attach(asked.inputs, content[length:])
    return asked


def _outputs(predictions: list[Prediction], nbest: int) -> list[Tensor]:
    """Return texts and scores, as rows of `nbest` where several were asked for; what is missing is empty."""
    shape = [len(predictions)] if nbest == 1 else [len(predictions), nbest]
    texts, scores = [], []
    for prediction in predictions:
        for rank in range(nbest):
            there = rank < len(prediction.outputs)
            texts.append(prediction.outputs[rank].text if there else "")
            scores.append(number(prediction.outputs[rank].score) if there else None)
    return [
        Tensor(name="output", datatype="BYTES", shape=shape, data=texts),
        Tensor(name="score", datatype="FP64", shape=shape, data=scores),
    ]


def _response(served: Served, asked: InferRequest, outputs: list[Tensor]) -> Response:
    """Return the outputs that were asked for, as JSON or binary as each was asked for."""
    parameters = {wanted.name: wanted.parameters for wanted in asked.outputs}
    known = [tensor.name for tensor in outputs]
    for name in parameters:
        if name not in known:
            raise invalid(f"there is no output '{name[:40]}'", "outputs", f"choose from: {', '.join(known)}")
    all_binary = bool(asked.parameters.get(BINARY))
    described, binary = [], []
    for tensor in outputs if not parameters else [each for each in outputs if each.name in parameters]:
        entry: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape}
        if parameters.get(tensor.name, {}).get("binary_data", all_binary):
            binary.append(tensors.to_binary(tensor))
            entry["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            entry["data"] = tensor.data
        described.append(entry)
    content: dict[str, Any] = {"model_name": served.name, "model_version": VERSION, "outputs": described}
    if asked.id:
        content["id"] = asked.id
    if not binary:
        return JSONResponse(content)
    head = json.dumps(content).encode()
    headers = {HEADER: str(len(head)), "content-type": "application/octet-stream"}
    return Response(head + b"".join(binary), headers=headers)
