"""`weft serve` with runs of every kind: what each reads, what each answers, and what it refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from every_kind import EXAMPLES, tone
from serving import Running, told
from weft.api import Run
from weft.core.pair import Pair
from weft.data.sides.table import KINDS

NAMES = list(EXAMPLES)
each = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("kinds")
    return {name: example.train(folder / name) for name, example in EXAMPLES.items()}


@pytest.fixture(scope="module")
def server(runs: dict[str, Run]) -> Iterator[Running]:
    with Running({name: run.path for name, run in runs.items()}) as running:
        yield running


def asked(server: Running, name: str, folder: Path, path: str = "/predict", **more: Any) -> httpx.Response:
    """Ask a run about its example: JSON, or a form where it is a file."""
    example = EXAMPLES[name]
    headers = more.pop("headers", {})
    if example.file is None:
        content = {"input": example.given} if path == "/inspect" else {"inputs": [example.given]}
        return server.client.post(path, json={"run": name, **content, **more}, headers=headers)
    data = {"run": name, **example.more, **{key: json.dumps(value) for key, value in more.items()}}
    with example.file(folder).open("rb") as file:
        return server.client.post(path, data=data, files={"source": file}, headers=headers)


def wanted(run: Run, name: str, folder: Path) -> str:
    """What the run itself predicts for its example."""
    example = EXAMPLES[name]
    given = example.given if isinstance(example.given, dict) else {"source": example.given}
    cells = {role: cell if isinstance(cell, str) else json.dumps(cell) for role, cell in given.items()}
    if "features" in given:
        cells["features"] = tuple(given["features"])
    if example.file is not None:
        cells["source"] = str(example.file(folder))
    return run.predict([Pair(**cells)])[0].text


@each
def test_a_run_of_any_kind_answers_what_it_predicts(
    server: Running, runs: dict[str, Run], name: str, tmp_path: Path
) -> None:
    answer = asked(server, name, tmp_path)
    assert answer.status_code == 200, answer.text
    output = answer.json()["predictions"][0]["outputs"][0]
    assert output["text"] == wanted(runs[name], name, tmp_path)
    if runs[name].predictor.sides.target_kind in ("numbers", "notes"):
        assert output["value"] == json.loads(output["text"])


@each
def test_a_stream_has_the_same_answer(server: Running, name: str, tmp_path: Path) -> None:
    whole = asked(server, name, tmp_path).json()["predictions"]
    streamed = asked(server, name, tmp_path, headers={"accept": "application/x-ndjson"})
    assert streamed.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line) for line in streamed.text.splitlines()] == whole


@each
def test_a_run_says_what_its_inputs_consist_of(server: Running, name: str) -> None:
    described = {run["name"]: run for run in server.client.get("/runs").json()["runs"]}[name]
    given = EXAMPLES[name].given
    roles = list(given) if isinstance(given, dict) else ["source"]
    assert [part["role"] for part in described["inputs"]] == roles
    for part in described["inputs"]:
        assert part["kind"] in KINDS
        assert part["kind"] == "text" or part["lists"] or part["endings"]
    tensors = server.client.get(f"/v2/models/{name}").json()["inputs"]
    assert [tensor["name"] for tensor in tensors] == roles


@each
def test_an_inspection_has_numbers_and_no_paths(
    server: Running, runs: dict[str, Run], name: str, tmp_path: Path
) -> None:
    answer = asked(server, name, tmp_path, "/inspect")
    if answer.status_code == 422:  # what `weft inspect` has no view for
        told(answer, 422)
        return
    content = answer.json()
    assert content["run"]["name"] == name
    assert set(content["lines"][0]["views"]) | set(content["left_out"])
    assert str(runs[name].path) not in answer.text
    assert "weft-serve-" not in answer.text


def test_an_inspection_is_a_page_where_the_client_accepts_one(server: Running) -> None:
    given = {"run": "forms", "input": EXAMPLES["forms"].given, "what_if": ["input:1=b"]}
    page = server.client.post("/inspect", json=given, headers={"accept": "text/html"})
    assert page.text.startswith("<!doctype html>")
    assert "sandbox" in page.headers["content-security-policy"]
    numbers = server.client.post("/inspect", json=given).json()
    assert "what-if" in numbers["lines"][0]["views"]
    forced = server.client.post("/inspect", json={**given, "force": "ab", "what_if": []}).json()
    assert forced["lines"][0]["output"] == "ab"


def test_an_inspection_that_cannot_be_computed_is_refused(server: Running, runs: dict[str, Run]) -> None:
    given = {"run": "forms", "input": EXAMPLES["forms"].given}
    told(server.client.post("/inspect", json={**given, "views": ["atention"]}), 422, "did you mean")
    told(server.client.post("/inspect", json={**given, "what_if": ["nonsense"]}), 422)
    told(server.client.post("/inspect", json={**given, "what_if": ["input:1=b"] * 9}), 422, "what_if")
    told(server.client.post("/inspect", json={**given, "input": ""}), 422, "empty")
    told(server.client.post("/inspect", json={"run": "forms"}), 422, "'input' is missing")
    with Running({"forms": runs["forms"].path}, {"limits": {"inspections": 0}}) as other:
        told(other.client.post("/inspect", json=given), 404, "does not compute inspections")


REFUSED: list[tuple[str, Any, str]] = [
    ("forms", "abab1", "no features"),
    ("answers", "Ann lives in Rome.", "no question"),
    ("answers", {"source": "Ann lives in Rome.", "context": " "}, "no question"),
    ("numbers", [0.5, 1.0, 1.0], "no context"),
    ("numbers", {"source": [[1, 2]], "context": [0.1]}, "inputs.0.source"),
    ("numbers", {"source": [1, 2], "context": [[1, 2]]}, "inputs.0.context"),
    ("tunes", [[500]], "inputs.0.source"),
    ("tunes", "[[60]", "prompt"),
    ("tunes", "a tune", "reads notes"),
    ("prompts", ["abc"], "a JSON list was given"),
    ("sounds", "clip.wav", "upload a file"),
    ("sounds", "[clip.wav", "upload a file"),
    ("sounds", [0.1, 0.2], "upload a file"),
]


@pytest.mark.parametrize(("name", "given", "words"), REFUSED)
def test_what_a_kind_cannot_read_is_refused(server: Running, name: str, given: Any, words: str) -> None:
    answer = server.client.post("/predict", json={"run": name, "inputs": [given]})
    told(answer, 422, words)
    assert str(Path.cwd()) not in answer.text


def test_a_prompt_may_be_empty_and_another_input_then_has_an_empty_output(server: Running) -> None:
    for name, text in (("prompts", True), ("labels", False)):
        output = server.client.post("/predict", json={"run": name, "inputs": [""]}).json()["predictions"][0]["outputs"]
        assert bool(output[0]["text"]) == text


def test_uploaded_files_go_away_with_their_request(server: Running, tmp_path: Path, monkeypatch: Any) -> None:
    served, seen = server.service.runs["sounds"], []
    predict = served.predict

    def looking(pairs: Any, *given: Any) -> Any:
        assert all(Path(pair.source).exists() for pair in pairs)
        seen.extend(Path(pair.source) for pair in pairs)
        return predict(pairs, *given)

    monkeypatch.setattr(served, "predict", looking)
    for headers in ({}, {"accept": "application/x-ndjson"}):
        sound = tone(tmp_path).read_bytes()
        files = [("source", (name, sound)) for name in ("../../x.WAV", "b.wav")]
        assert server.client.post("/predict", data={"run": "sounds"}, files=files, headers=headers).status_code == 200
    assert [path.name for path in seen] == ["1.wav", "2.wav"] * 2
    until = time.monotonic() + 5  # a stream ends for its client a moment before the server has cleaned up
    while any(path.parent.exists() for path in seen):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_files_that_cannot_be_read_are_refused_without_telling_where_they_were(server: Running, tmp_path: Path) -> None:
    whole = tone(tmp_path).read_bytes()
    wrong = {"noise.wav": b"noise", "empty.wav": b"", "half.wav": whole[: len(whole) // 2], "clip.exe": whole}
    for name, content in wrong.items():
        answer = server.client.post("/predict", data={"run": "sounds"}, files={"source": (name, content)})
        told(answer, 422, "inputs.0")
        assert "weft-serve-" not in answer.text
    told(server.client.post("/predict", data={"run": "forms"}, files={"source": ("a.wav", whole)}), 422, "reads text")
    np.save(tmp_path / "a.npy", np.array([0.5, 1.0, 1.0]))
    form = {"run": "numbers", "context": "[0.1, 1.0]"}
    file = {"source": ("a.npy", (tmp_path / "a.npy").read_bytes())}
    assert server.client.post("/predict", data=form, files=file).status_code == 200


def test_a_file_that_finds_no_room_is_told_so(server: Running, tmp_path: Path, monkeypatch: Any) -> None:
    def full(*given: Any, **more: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    answer = server.client.post("/predict", data={"run": "sounds"}, files={"source": tone(tmp_path).read_bytes()})
    told(answer, 503, "no room")
    monkeypatch.setattr("tempfile._TemporaryFileWrapper", full)
    monkeypatch.setattr("starlette.formparsers.SpooledTemporaryFile", full)
    told(server.client.post("/predict", data={"run": "sounds"}, files={"source": b"x" * 10}), 503, "no room")


def test_a_run_with_tags_translates_to_the_language_of_each_tag(tiny_languages: Run) -> None:
    tags = sorted(mark[1:-1] for mark in tiny_languages.predictor.source.marks)
    pairs = ",".join(f"en-{tag}" for tag in tags)
    with Running({"many": tiny_languages.path}, {"languages": {"many": pairs}}) as server:
        for tag in tags:
            asked = {"q": "abc", "source": "en", "target": tag}
            answer = server.client.post("/translate", json=asked).json()
            assert answer["translatedText"] == tiny_languages.predict([Pair("abc", tag=tag)])[0].text
        listed = {each["code"]: each["targets"] for each in server.client.get("/languages").json()}
        assert sorted(listed["en"]) == tags
        told(server.client.post("/predict", json={"inputs": ["abc"]}), 422, "no tag")
