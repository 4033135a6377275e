"""`weft serve`: what clients get, what they may ask for, and what the server does when they ask too much."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

import malformed
from commands import Weft, refused
from processes import Started
from serving import Running, received, told, wait_until_ready
from weft.search.clock import Clock
from weft.serve.settings import explained

if TYPE_CHECKING:
    from weft.api import Run

WORDS = ["abcd", "hgfedcba", "", "bad", "feed", "cabbage", "a", "deadbeef"]


@pytest.fixture(scope="module")
def server(tiny_run: Run) -> Iterator[Running]:
    settings = {"limits": {"items": 40, "characters": 200, "body_seconds": 0.6, "body": 60_000}}
    with Running({"ab-cd": tiny_run.path, "other": tiny_run.path}, settings) as running:
        yield running


def predict(server: Running, **asked: Any) -> httpx.Response:
    content = json.dumps({"run": "ab-cd", **asked})  # which writes half of a surrogate pair as an escape
    return server.client.post("/predict", content=content, headers={"content-type": "application/json"})


def texts(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [prediction["outputs"][0]["text"] for prediction in response.json()["predictions"]]


def test_predict_answers_what_the_run_predicts(server: Running, tiny_run: Run) -> None:
    response = predict(server, inputs=WORDS, nbest=3, tokens=True)
    for shown, prediction in zip(response.json()["predictions"], tiny_run.predict(WORDS, nbest=3), strict=True):
        assert [output["text"] for output in shown["outputs"]] == [output.text for output in prediction.outputs]
        for output, wanted in zip(shown["outputs"], prediction.outputs):
            assert output["score"] == pytest.approx(wanted.score, abs=1e-5)
            assert [name for name, _ in output["tokens"]] == list(wanted.tokens)


@pytest.mark.parametrize(
    "search", [{"kind": "greedy"}, {"kind": "beam", "width": 3}, {"kind": "sample", "seed": 7, "temperature": 1.5}]
)
def test_an_answer_does_not_depend_on_requests_at_the_same_time(
    server: Running, tiny_run: Run, search: dict[str, Any]
) -> None:
    """Lines of many clients at once have the texts and scores of `Run.predict`, also where they are drawn."""
    wanted = {word: tiny_run.predict([word], search=search)[0] for word in WORDS}
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda word: (word, predict(server, inputs=[word], search=search)), WORDS * 4))
    for word, answer in answers:
        output = answer.json()["predictions"][0]["outputs"][0]
        assert output["text"] == wanted[word].text
        assert output["score"] == pytest.approx(wanted[word].score, abs=1e-5)


def test_requests_at_the_same_time_share_batches(server: Running) -> None:
    with ThreadPoolExecutor(8) as clients:
        list(clients.map(lambda word: predict(server, inputs=[word]), WORDS * 8))
    lines = server.client.get("/metrics").text.splitlines()
    counts = {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("weft_batch_requests")}
    assert counts["weft_batch_requests_sum"] > 1.2 * counts["weft_batch_requests_count"]


def test_a_stream_has_a_line_for_each_input_in_order(server: Running, tiny_run: Run) -> None:
    headers = {"accept": "application/x-ndjson"}
    response = server.client.post("/predict", json={"run": "other", "inputs": WORDS * 4}, headers=headers)
    lines = [json.loads(line)["outputs"][0]["text"] for line in response.text.splitlines()]
    assert lines == tiny_run.predict(WORDS).texts * 4
    told(server.client.post("/predict", json={"run": "ab-cd", "inputs": [1]}, headers=headers), 422)


def test_an_alignment_has_a_row_for_each_token_of_the_output(server: Running) -> None:
    alignment = predict(server, inputs=["abcd"], alignment=True).json()["predictions"][0]["alignment"]
    weights = np.array(alignment["weights"])
    assert weights.shape == (len(alignment["target"]), len(alignment["source"]))
    assert weights.sum(1) == pytest.approx(1, abs=0.01)


def test_a_run_is_named_where_there_are_several(server: Running) -> None:
    told(server.client.post("/predict", json={"inputs": ["a"]}), 422, "several runs", "ab-cd, other")
    told(predict(server, run="elsewhere", inputs=["a"]), 404, "no run 'elsewhere'")
    described = server.client.get("/runs").json()
    assert [run["name"] for run in described["runs"]] == ["ab-cd", "other"]
    assert described["limits"]["items"] == 40


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"inputs": ["a"] * 41}, 413, "at most 40 inputs"),
    ({"inputs": ["a" * 201]}, 413, "at most 200 characters"),
    ({"inputs": ["a"], "search": {"width": 33}}, 422, "search.width is at most 32"),
    ({"inputs": ["a"], "nbest": 33}, 422, "nbest is at most 32"),
    ({"inputs": ["a"], "nbest": 0}, 422, "nbest"),
    ({"inputs": ["a"], "search": {"wdith": 3}}, 422, "did you mean 'width'"),
    ({"inputs": ["a"], "search": {"seconds": 0}}, 422, "the server sets the time"),
    ({"inputs": ["a"], "nbest": 2, "search": {"kind": "greedy"}}, 422, "greedy search finds only one"),
    ({"inputs": ["a"], "prefix": "☃"}, 422, "the prefix"),
    ({"inputs": ["a"], "beam": 3}, 422, "there is no field 'beam'"),
    ({"inputs": "a"}, 422, "inputs"),
    ({}, 422, "the field 'inputs' is missing"),
    ({"inputs": [3]}, 422, "inputs.0.source"),
    ({"inputs": [None]}, 422, "a JSON null was given"),
    ({"inputs": [{"source": "a", "tag": "b"}]}, 422, "no field 'tag'"),
    ({"inputs": [{"source": "a", "context": "b"}]}, 422, "no field 'context'"),
    ({"inputs": ["a", "\ud800"]}, 422, "inputs.1.source"),
    ({"inputs": ["a"], "run": "\ud800"}, 422, "surrogate"),
    ({"inputs": ["a"], "prefix": "\ud800"}, 422, "surrogate"),
    ({"inputs": ["a"], "search": {"\ud800": 1}}, 422, "search"),
    ({"inputs": [{"\ud800": "a"}]}, 422, "no field"),
    ({"inputs": ["a"] * 33, "alignment": True}, 413, "alignments"),
    ({"inputs": ["a"], "search": {"width": 10**300}}, 422, "at most 32"),
]


@pytest.mark.parametrize(("asked", "status", "words"), REFUSED)
def test_what_cannot_be_answered_is_refused_in_three_parts(
    server: Running, asked: dict[str, Any], status: int, words: str
) -> None:
    error = told(predict(server, **asked), status)
    assert words in " ".join(error.values())


def test_no_answer_tells_of_paths_or_versions(server: Running, tiny_run: Run) -> None:
    answers = [predict(server, **asked) for asked, _, _ in REFUSED]
    answers += [server.client.get(path) for path in ("/", "/docs", "/runs", "/v2", "/openapi.json", "/nothing")]
    for answer in answers:
        told_of = answer.text + str(answer.headers)
        for secret in (
            str(tiny_run.path),
            tiny_run.path.name + "/",
            "Traceback",
            "uvicorn",
            "starlette",
            "prometheus_",
        ):
            assert secret not in told_of, answer.text
        assert "server" not in answer.headers


BODIES: list[tuple[bytes, dict[str, str], int, str]] = [
    (b"{", {}, 400, "not JSON"),
    (b"", {}, 400, "not JSON"),
    (b"[]", {}, 422, "not an object"),
    (b'{"inputs": [NaN]}', {}, 400, "NaN"),
    (b'{"inputs": [1e999]}', {}, 400, "too large"),
    (b'{"inputs": [' + b"9" * 5000 + b"]}", {}, 400, "digits"),
    (b"[" * 50_000, {}, 400, "nested too deeply"),
    (b'{"inputs": ["\xff"]}', {}, 400, "UTF-8"),
    (b"{}", {"content-type": "text/plain"}, 415, "application/json"),
    (b"{}", {"content-type": ""}, 415, "content type"),
    (b"{}", {"content-encoding": "gzip"}, 415, "compressed"),
    (b" " * 60_001, {}, 413, "60,000 bytes"),
    (b"{}", {"origin": "http://evil.example"}, 403, "origins"),
    (b"{}", {"host": "evil.example"}, 400, "host name"),
    (b"no form", {"content-type": "multipart/form-data; boundary=x"}, 400, "form"),
    (b"--x--\r\n", {"content-type": "multipart/form-data; boundary=x"}, 422, "no input"),
]


@pytest.mark.parametrize(("content", "headers", "status", "words"), BODIES)
def test_a_body_that_cannot_be_read_is_refused(
    server: Running, content: bytes, headers: dict[str, str], status: int, words: str
) -> None:
    headers = {"content-type": "application/json", **headers}
    told(server.client.post("/predict", content=content, headers=headers), status, words)
    assert texts(predict(server, inputs=["abcd"]))  # and the next request is answered


def test_unknown_paths_and_methods_are_refused(server: Running) -> None:
    told(server.client.get("/nothing"), 404, "nothing at this path")
    told(server.client.get("/page/..%2f..%2fapp.py"), 404)
    told(server.client.get("/predict"), 405, "no method GET")
    told(server.client.get("/v2/models/..%2f/ready"), 404)


def head(*lines: str) -> bytes:
    return "\r\n".join(["POST /predict HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def test_a_slow_client_is_told_so_and_does_not_hold_a_connection(server: Running) -> None:
    started = time.monotonic()
    assert b" 408 " in server.send(head("content-type: application/json", "content-length: 50") + b"{")
    assert b" 408 " in server.send(b"POST /predict HTTP/1.1\r\nHost:")
    assert b" 408 " in server.send(b"")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "content",
    [
        b"\x16\x03\x01\x02\x00nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        head("content-length: 5", "content-length: 6") + b"{}",
        head("transfer-encoding: chunked", "content-type: application/json") + b"zz\r\n",
        head("transfer-encoding: xchunked") + b"0\r\n\r\n",
        head("a" * 300_000)[:-4],
        head("bad header"),
        head("transfer-encoding: chunked", "content-length: 2") + b"{}",
        head("host: elsewhere"),
        b"GET health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_and_the_connection_closed(server: Running, content: bytes) -> None:
    answer = server.send(content)
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431", b"HTTP/1.1 501")), answer
    assert b'"todo"' in answer or answer.startswith(b"HTTP/1.1 501")
    assert texts(predict(server, inputs=["abcd"]))


def test_a_head_that_never_ends_is_refused_before_it_fills_the_memory(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.suppress(ConnectionError):
            for number in range(200):
                connection.sendall(f"x-{number}: {'a' * 1000}\r\n".encode())
        assert received(connection).startswith(b"HTTP/1.1 431")


def test_requests_that_are_sent_before_the_last_is_answered_are_answered_in_order(server: Running) -> None:
    content = json.dumps({"run": "ab-cd", "inputs": ["abcd"]}).encode()
    asked = head("content-type: application/json", f"content-length: {len(content)}") + content
    answer = server.send(asked + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nnonsense\r\n\r\n", seconds=5)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer)[0] == b"200"
    assert b"outputs" in answer.partition(b"HTTP/1.1 200")[2].partition(b"HTTP/1.1")[0]


def test_a_client_that_closes_its_side_does_no_harm(server: Running) -> None:
    server.send(head("content-type: application/json", "content-length: 500") + b"{", half_close=True)
    server.send(head("content-type: application/json", "content-length: 2") + b"{}", half_close=True)
    assert texts(predict(server, inputs=["abcd"]))


def test_requests_that_are_made_up_at_random_do_no_harm(server: Running, capfd: pytest.CaptureFixture[str]) -> None:
    """bench/serving_fuzz.py sends ten thousand of them."""
    draw = random.Random(27)
    requests = [malformed.made_up(draw) for _ in range(150)]
    with ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(server.send, requests))
    for request, answer in zip(requests, answers):
        assert b"Traceback" not in answer
        assert malformed.statuses(answer), request
        assert all(status < 500 or status in (503, 504) for status in malformed.statuses(answer)), (request, answer)
    assert texts(predict(server, inputs=["abcd"]))
    assert "Traceback" not in capfd.readouterr().err


# LibreTranslate


def test_translate_answers_as_libretranslate_does(server: Running, tiny_run: Run) -> None:
    asked = {"q": "abcd\nbad", "source": "ab", "target": "cd"}
    wanted = tiny_run.predict(["abcd", "bad"]).texts
    for sent in ({"json": asked}, {"data": asked}):
        assert server.client.post("/translate", **sent).json() == {"translatedText": "\n".join(wanted)}  # type: ignore[arg-type]
    several = server.client.post("/translate", json={**asked, "q": ["abcd", "bad"], "alternatives": 2}).json()
    assert several["translatedText"] == wanted
    assert [len(others) for others in several["alternatives"]] == [2, 2]
    guessed = server.client.post("/translate", json={**asked, "source": "auto"}).json()
    assert guessed["detectedLanguage"]["language"] == "ab"


def test_languages_are_those_of_the_names_of_runs(server: Running) -> None:
    assert [(each["code"], each["targets"]) for each in server.client.get("/languages").json()] == [
        ("ab", ["cd"]),
        ("cd", []),
    ]
    assert server.client.post("/detect", data={"q": "abcd"}).json()[0]["language"] == "ab"
    assert server.client.get("/spec").json()["openapi"].startswith("3.")
    told(server.client.post("/translate", json={"q": "a", "source": "xx", "target": "cd"}), 400, "from ab to cd")
    told(server.client.post("/translate", json={"q": "a", "source": "auto", "target": "xx"}), 400, "xx")
    told(server.client.post("/translate", json={"q": 3, "source": "ab", "target": "cd"}), 422, "q")
    told(server.client.post("/translate", json={"q": "a", "source": "ab", "target": "cd", "format": "html"}), 422)
    told(server.client.post("/translate", data={"q": "a"}), 422, "source")


# Open Inference Protocol


def tensor(*cells: Any, name: str = "source", datatype: str = "BYTES", **more: Any) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": [len(cells)], "data": list(cells), **more}


def infer(server: Running, *tensors: dict[str, Any], **more: Any) -> httpx.Response:
    return server.client.post("/v2/models/ab-cd/infer", json={"inputs": list(tensors), **more})


def test_a_model_is_described_and_computed_as_the_open_inference_protocol_says(server: Running, tiny_run: Run) -> None:
    assert server.client.get("/v2/health/live").status_code == server.client.get("/v2/health/ready").status_code == 200
    described = server.client.get("/v2/models/ab-cd").json()
    assert [each["name"] for each in described["inputs"] + described["outputs"]] == ["source", "output", "score"]
    assert server.client.get("/v2/models/ab-cd/versions/1/ready").json()["ready"]
    answer = infer(server, tensor("abcd", "bad"), id="7", parameters={"kind": "greedy"}).json()
    wanted = tiny_run.predict(["abcd", "bad"], search={"kind": "greedy"})
    assert answer["id"] == "7"
    assert answer["outputs"][0]["data"] == wanted.texts
    assert answer["outputs"][1]["data"] == pytest.approx([each.score for each in wanted], abs=1e-5)
    several = infer(server, tensor("abcd"), parameters={"nbest": 3}, outputs=[{"name": "output"}]).json()["outputs"]
    assert [(each["name"], each["shape"]) for each in several] == [("output", [1, 3])]


def test_binary_tensors_are_read_and_written(server: Running, tiny_run: Run) -> None:
    packed = b"".join(len(text).to_bytes(4, "little") + text for text in (b"abcd", b"bad"))
    asked = {"name": "source", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": len(packed)}}
    content = json.dumps({"inputs": [asked], "parameters": {"binary_data_output": True}}).encode()
    headers = {"inference-header-content-length": str(len(content)), "content-type": "application/octet-stream"}
    answer = server.client.post("/v2/models/ab-cd/infer", content=content + packed, headers=headers)
    size = int(answer.headers["inference-header-content-length"])
    outputs, binary = json.loads(answer.content[:size])["outputs"], answer.content[size:]
    texts, position = [], 0
    while position < outputs[0]["parameters"]["binary_data_size"]:
        length = int.from_bytes(binary[position : position + 4], "little")
        texts.append(binary[position + 4 : position + 4 + length].decode())
        position += 4 + length
    assert texts == tiny_run.predict(["abcd", "bad"]).texts
    assert len(np.frombuffer(binary[position:], "<f8")) == 2
    for damaged in (packed[:-1], packed + b"x"):
        told(server.client.post("/v2/models/ab-cd/infer", content=content + damaged, headers=headers), 400)
    headers["inference-header-content-length"] = "99999999"
    told(server.client.post("/v2/models/ab-cd/infer", content=content, headers=headers), 400, "length")


@pytest.mark.parametrize(
    ("tensors", "more", "words"),
    [
        ([], {}, "no tensor 'source'"),
        ([tensor("a", shape=[2])], {}, "2"),
        ([tensor("a", shape=[-1])], {}, "shape"),
        ([tensor(3)], {}, "no texts"),
        ([tensor(3, datatype="FP32")], {}, "number"),
        ([tensor("a", datatype="COLOUR")], {}, "COLOUR"),
        ([tensor("a"), tensor("b", "c", name="tag")], {}, "equally long"),
        ([tensor("a")], {"outputs": [{"name": "x"}]}, "no output 'x'"),
        ([tensor("a")], {"parameters": {"nbest": "x"}}, "nbest"),
        ([tensor("a")], {"parameters": {"colour": 1}}, "colour"),
    ],
)
def test_tensors_that_cannot_be_read_are_refused(
    server: Running, tensors: list[dict[str, Any]], more: dict[str, Any], words: str
) -> None:
    told(infer(server, *tensors, **more), 422, words)


# Limits and states


def test_keys_are_needed_where_there_is_a_file_of_keys(tiny_run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("# ours\n0123456789abcdef\nfedcba9876543210\n", encoding="utf-8")
    with Running({"ab-cd": tiny_run.path}, key_file=keys) as server:
        told(predict(server, inputs=["a"]), 401, "needs a key", "Bearer")
        wrong = {"authorization": "Bearer 0123456789abcdeX"}
        told(server.client.post("/predict", json={"inputs": ["a"]}, headers=wrong), 401, "not known")
        for right in ({"authorization": "Bearer fedcba9876543210"}, {"x-api-key": "0123456789abcdef"}):
            assert server.client.post("/predict", json={"inputs": ["a"]}, headers=right).status_code == 200
        asked = {"q": "a", "source": "ab", "target": "cd"}
        told(server.client.post("/translate", json=asked), 401)
        assert server.client.post("/translate", json={**asked, "api_key": "0123456789abcdef"}).status_code == 200
        for path in ("/", "/health", "/v2/health/ready", "/openapi.json"):
            assert server.client.get(path).status_code == 200
        told(server.client.get("/metrics"), 401)
        keys.write_text("a-new-key-of-the-server\n", encoding="utf-8")
        server.reload()
        told(server.client.post("/predict", json={"inputs": ["a"]}, headers=right), 401)


class Slow:
    """A run that takes its time until it is let go."""

    def __init__(self, server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.calls, served = threading.Event(), [0], server.service.runs["ab-cd"]
        predict, clock = served.predict, Clock()

        def slowly(*given: Any) -> Any:
            self.calls[0] += 1
            while not self.go.wait(0.01):
                clock.is_over()  # as every step of a search does
            return predict(*given)

        monkeypatch.setattr(served, "predict", slowly)


def test_a_client_that_goes_away_cancels_its_work(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(server, monkeypatch)
    content = json.dumps({"run": "ab-cd", "inputs": ["abcd"]}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head("content-type: application/json", f"content-length: {len(content)}") + content)
        until = time.monotonic() + 10
        while not slow.calls[0] and time.monotonic() < until:
            time.sleep(0.01)
    other = server.client.post("/predict", json={"run": "other", "inputs": ["abcd"]})  # the thread is free again
    assert other.status_code == 200
    assert slow.calls == [1]


def test_a_request_that_takes_too_long_is_ended_with_504(tiny_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Running({"ab-cd": tiny_run.path}, {"limits": {"seconds": 0.2}}) as server:
        slow = Slow(server, monkeypatch)
        told(predict(server, inputs=["abcd"]), 504, "0.2 s")
        slow.go.set()
        assert predict(server, inputs=["abcd"]).status_code == 200


def test_too_many_requests_and_too_many_inputs_are_told_to_come_back(
    tiny_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"requests": 3, "queue": 4, "items": 4}
    with Running({"ab-cd": tiny_run.path}, {"limits": limits, "batch": {"lines": 1}}) as server:
        slow = Slow(server, monkeypatch)
        with ThreadPoolExecutor(8) as clients:
            asked = [clients.submit(predict, server, inputs=["abcd", "bad", "feed"])]
            until = time.monotonic() + 10
            while not slow.calls[0] and time.monotonic() < until:
                time.sleep(0.01)
            full = told(predict(server, inputs=["abcd"] * 3), 429, "too many inputs")
            assert "try again" in full["todo"]
            asked += [clients.submit(predict, server, inputs=["abcd"]) for _ in range(6)]
            while server.service.running < 3 and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(0.2)
            assert server.client.get("/health").status_code == 200
            slow.go.set()
            answers = [each.result() for each in asked]
        statuses = sorted({answer.status_code for answer in answers})
        assert statuses == [200, 429]
        refused_ = [answer for answer in answers if answer.status_code == 429]
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused_)
        told(refused_[0], 429, "too many")


def test_only_the_request_that_fails_is_told_so(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    served = server.service.runs["ab-cd"]
    predict_ = served.predict

    def failing(pairs: Any, *given: Any) -> Any:
        if any(pair.source == "bad" for pair in pairs):
            raise ValueError("a secret")
        return predict_(pairs, *given)

    monkeypatch.setattr(served, "predict", failing)
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda word: (word, predict(server, inputs=[word])), WORDS * 2))
    for word, answer in answers:
        assert answer.status_code == (500 if word == "bad" else 200)
        assert "secret" not in answer.text


def test_cors_is_off_unless_it_is_asked_for(tiny_run: Run, server: Running) -> None:
    headers = {"origin": "http://page.example"}
    with Running({"ab-cd": tiny_run.path}, {"cors": ["http://page.example"]}) as other:
        allowed = other.client.get("/health", headers=headers)
        assert allowed.headers["access-control-allow-origin"] == "http://page.example"
    assert "access-control-allow-origin" not in server.client.get("/health", headers=headers).headers


def test_a_run_that_disappears_answers_on_and_a_reload_takes_what_is_new(tiny_run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(tiny_run.path, folder, symlinks=True)
    with Running({"ab-cd": folder}) as server:
        first = server.service.runs["ab-cd"]
        before = texts(predict(server, inputs=WORDS))
        folder.rename(tmp_path / "gone")
        server.reload()
        assert texts(predict(server, inputs=WORDS)) == before
        assert server.service.runs["ab-cd"] is first
        (tmp_path / "gone").rename(folder)
        server.reload()
        assert server.service.runs["ab-cd"] is not first
        assert texts(predict(server, inputs=WORDS)) == before


def test_labels_and_numbers_are_served_like_texts(tmp_path: Path) -> None:
    import weft

    small = {"encoder.width": 16, "embed.width": 16, "train.evaluations": 1, "train.members": 1}
    rows = [(f"{'ab' * (n % 5 + 1)}{n % 7}", "even" if n % 2 else "odd") for n in range(60)]
    labels = weft.train(rows, out=tmp_path / "labels", steps=2, task="classify", settings=small)
    series = [(str([n / 10, n / 5, 1.0]), str([n / 10, 2.0])) for n in range(60)]
    numbers = weft.train(series, out=tmp_path / "numbers", steps=2, settings={**small, "decoder.width": 16})
    with Running({"labels": labels.path, "numbers": numbers.path}) as server:
        outputs = predict(server, run="labels", inputs=["abab3"], nbest=2).json()["predictions"][0]["outputs"]
        assert sum(output["probability"] for output in outputs) == pytest.approx(1, abs=0.01)
        told(predict(server, run="labels", inputs=["ab"], search={"kind": "sample"}), 422, "labels")
        cell = [0.5, 1.0, 1.0]
        value = predict(server, run="numbers", inputs=[cell]).json()["predictions"][0]["outputs"][0]["value"]
        wanted = json.loads(numbers.predict([json.dumps(cell)]).texts[0])
        assert np.array(value) == pytest.approx(np.array(wanted), abs=1e-4)
        sent = {"inputs": [{"name": "source", "datatype": "FP32", "shape": [1, 3], "data": cell}]}
        answer = server.client.post("/v2/models/numbers/infer", json=sent).json()["outputs"][0]["data"][0]
        assert np.array(json.loads(answer)) == pytest.approx(np.array(wanted), abs=1e-4)
        for name in ("/etc/passwd", "../secret.npy", "x.csv"):
            told(predict(server, run="numbers", inputs=[name]), 422, "upload a file")
        told(predict(server, run="numbers", inputs=[[1, "x"]]), 422, "inputs.0")


# The command


def test_a_port_in_use_and_other_mistakes_are_told_before_anything_is_loaded(
    weft: Weft, tiny_run: Run, server: Running, tmp_path: Path
) -> None:
    run = str(tiny_run.path)
    refused(weft("serve", run, "--port", server.port), f"cannot listen on port {server.port}", "another port")
    refused(weft("serve", tmp_path / "nothing"), "nothing")
    refused(weft("serve", run, run), "two runs have the name")
    refused(weft("serve", run, "--host", "192.0.2.1"), "not an address of this machine")
    refused(weft("serve", run, "--set", "limits.itms=3"), "did you mean 'items'")
    refused(weft("serve", run, "--set", "limits.items=0"), "limits.items")
    refused(weft("serve", run, "--key-file", tmp_path / "no.txt"), "file of keys")
    (tmp_path / "short.txt").write_text("1234\n", encoding="utf-8")
    refused(weft("serve", run, "--key-file", tmp_path / "short.txt"), "can be guessed")


def test_sigterm_ends_what_has_begun_and_sighup_loads_again(tiny_run: Run, tmp_path: Path) -> None:
    lines = [f"{'cabbage' * 6}{number:b}" for number in range(200)]  # different, so that each takes its time
    port = free_port()
    started = Started(tmp_path / "streams", "serve", tiny_run.path, "--port", port, "--log-texts")
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        wait_until_ready(client)
        started.signal(signal.SIGHUP)
        started.wait_for(lambda: '"reloaded"' in started.errors)
        with ThreadPoolExecutor(4) as clients:
            asked = [clients.submit(client.post, "/predict", json={"inputs": lines, "nbest": 5}) for _ in range(4)]
            started.wait_for(lambda: "weft_requests_running 5" in client.get("/metrics").text, seconds=10)
            started.terminate()
            assert [each.result().status_code for each in asked] == [200] * 4
    assert started.end(30) == 0, started.errors
    entries = [json.loads(line) for line in started.errors.splitlines() if line.startswith("{")]
    assert entries[-1]["event"] == "stopped"
    assert any(entry.get("texts") == lines for entry in entries)


def test_a_worker_that_is_killed_is_started_again_and_all_end_together(tiny_run: Run, tmp_path: Path) -> None:
    port = free_port()
    started = Started(tmp_path / "streams", "serve", tiny_run.path, "--port", port, "--workers", 2)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        wait_until_ready(client)
        workers = children_of(started.pid)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        started.wait_for(lambda: "started again" in started.errors)
        assert texts(client.post("/predict", json={"inputs": ["abcd"]})) == tiny_run.predict(["abcd"]).texts
        started.wait_for(lambda: len(children_of(started.pid)) == 2)
        assert "weft_requests_total" in client.get("/metrics").text
        started.terminate()
    assert started.end(60) == 0, started.errors
    assert not [worker for worker in workers if Path(f"/proc/{worker}/stat").exists()]


def children_of(process: int) -> list[int]:
    """The processes that a process has started and that run; without those that it is forked from."""
    listed = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    return [int(child) for child in listed if b"weft.serve.worker" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_metrics_of_a_worker_have_their_room_before_the_disk_is_full(tmp_path: Path) -> None:
    code = "from weft.serve.metrics import Metrics; Metrics()"
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    sizes = [path.stat() for path in tmp_path.glob("*.db")]
    assert len(sizes) == 3  # counters, gauges and histograms
    assert all(512 * size.st_blocks >= size.st_size for size in sizes)


def test_the_guide_lists_every_setting_with_its_default_and_meaning() -> None:
    guide = (Path(__file__).parents[1] / "docs/guides/serving.md").read_text(encoding="utf-8")
    for name, default, meaning in explained():
        shown = "" if default in ((), None, {}) else str(default).lower() if isinstance(default, bool) else str(default)
        assert f"| `{name}` | {shown} | {meaning} |".replace("|  |", "| |") in guide, name


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
