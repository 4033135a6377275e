"""Requests that a server should survive: made up from a seed, as the bytes that are sent.

`made_up(random)` gives the bytes of one request. What comes back is none or HTTP, and never a 5xx but 503 and 504.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from typing import Any

PATHS = [
    "/predict",
    "/inspect",
    "/translate",
    "/detect",
    "/v2/models/ab-cd/infer",
    "/runs",
    "/languages",
    "/metrics",
    "/",
    "/docs",
]
NAMES = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a" * 5000,
    "ab-cd",
    "\x7f",
    "%ff",
    "con",
    ".",
    "ab-cd/..",
]
TYPES = ["application/json", "text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data", "a/b; c=d"]
TEXTS = [
    "a",
    "",
    "\x00",
    "abc\x00def",
    "\u202e",
    "e\u0301" * 50,
    "😀" * 20,
    "a" * 5000,
    "\n\r\t",
    "\ud800",
    "\ufffe",
    "ابجد",
]
NUMBERS: list[Any] = [0, -1, 1, 1.5, 10**30, -(10**18), 1e308, True, None]
FIELDS = [
    "inputs",
    "run",
    "nbest",
    "search",
    "prefix",
    "tokens",
    "alignment",
    "q",
    "source",
    "target",
    "__proto__",
    "id",
]
SETTINGS = [
    "kind",
    "width",
    "seed",
    "temperature",
    "top_k",
    "top_p",
    "max_extra",
    "max_ratio",
    "no_repeat",
    "x",
    "length",
]
STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
Request = bytes


def value(draw: random.Random, depth: int = 0) -> Any:
    """Any JSON value."""
    kind = draw.randrange(6 if depth < 4 else 3)
    if kind < 2:
        return draw.choice(TEXTS)
    if kind == 2:
        return draw.choice(NUMBERS)
    if kind == 3:
        return [value(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {draw.choice([*FIELDS, *SETTINGS]): value(draw, depth + 1) for _ in range(draw.randrange(4))}


def head(draw: random.Random, path: str, length: int | None, kind: str, *more: str) -> bytes:
    method = draw.choice(["POST"] * 50 + ["GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "BREW"])
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *more]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"Content-Length: {length}"] if length is not None else []
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass")


def whole(draw: random.Random, body: bytes, kind: str = "application/json", path: str = "") -> Request:
    return head(draw, path or draw.choice(PATHS), len(body), kind) + body


def plausible(draw: random.Random) -> Request:
    """A request of the right shape with any values."""
    asked = {"run": "ab-cd", "inputs": [value(draw, 2) for _ in range(draw.randrange(4))]}
    if draw.random() < 0.7:
        asked["search"] = {draw.choice(SETTINGS): value(draw, 3) for _ in range(draw.randrange(3))}
    for name in draw.sample(FIELDS, 2):
        asked[name] = value(draw, 2)
    return whole(draw, json.dumps(asked).encode(), path="/predict")


def inspected(draw: random.Random) -> Request:
    asked = {"run": "ab-cd", "input": draw.choice(["abcd", "a", value(draw, 2)])}
    changes = [
        "input:1=b",
        "input:0=",
        "output:9=x",
        "attention:1=2",
        "head:cross.1.1",
        "unit:decode.1.3",
        "x:",
        "input:a=b",
    ]
    for name, options in {"what_if": changes, "views": ["attention", "beam", "all", "heads", "?"]}.items():
        if draw.random() < 0.5:
            asked[name] = draw.choice([[draw.choice(options)], value(draw, 2)])
    if draw.random() < 0.3:
        asked["force"] = draw.choice(["ab", "", "☃", value(draw, 3)])
    return whole(draw, json.dumps(asked).encode(), path="/inspect")


def tensors(draw: random.Random) -> Request:
    tensor = {"name": draw.choice(["source", "tag", "x"]), "datatype": draw.choice(["BYTES", "FP32", "INT8", "?"])}
    tensor |= {"shape": draw.choice([[1], [0], [-1], [2, 2], [10**9, 10**9], [], "x"]), "data": value(draw, 2)}
    if draw.random() < 0.4:
        tensor["parameters"] = {"binary_data_size": draw.choice(NUMBERS)}
    body = json.dumps({"inputs": [tensor], "parameters": value(draw, 3)}).encode() + draw.choice([b"", b"\x01\x00"])
    more = draw.choice([(), ("Inference-Header-Content-Length: 5",), ("Inference-Header-Content-Length: x",)])
    return head(draw, "/v2/models/ab-cd/infer", len(body), "application/octet-stream", *more) + body


def broken_json(draw: random.Random) -> Request:
    body = json.dumps({"inputs": [value(draw)], "run": "ab-cd"}).encode()
    cut = draw.randrange(len(body))
    return whole(draw, body[:cut] + draw.randbytes(draw.randrange(4)) + body[cut + draw.randrange(3) :])


def deep(draw: random.Random) -> Request:
    depth = draw.choice([10, 900, 1100, 20_000])
    return whole(draw, draw.choice([b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth]))


def huge_number(draw: random.Random) -> Request:
    digits = draw.choice([b"9" * 400, b"9" * 5000, b"1e99999", b"-0." + b"3" * 3000, b"NaN", b"Infinity"])
    return whole(draw, b'{"run": "ab-cd", "inputs": ["a"], "nbest": ' + digits + b"}", path="/predict")


def wrong_type(draw: random.Random) -> Request:
    return whole(draw, json.dumps(value(draw)).encode(), draw.choice(TYPES))


def bomb(draw: random.Random) -> Request:
    body = gzip.compress(b"[" * 2_000_000)
    return head(draw, "/predict", len(body), "application/json", "Content-Encoding: gzip") + body


def traversal(draw: random.Random) -> Request:
    prefix = draw.choice(["/page/", "/v2/models/", "/", "//", "/v2/models/ab-cd/versions/"])
    name = "".join(c for c in draw.choice(NAMES) if c.isprintable() and c.isascii())
    return whole(draw, b"{}", path=prefix + name + draw.choice(["", "/infer", "?a=b"]))


def form(draw: random.Random) -> Request:
    parts = []
    for _ in range(draw.randrange(4)):
        name, file = draw.choice([*FIELDS, "context", "tag"]), draw.choice(["", '; filename="../../x.wav"'])
        content = json.dumps(value(draw)).encode() if draw.random() < 0.5 else draw.randbytes(50)
        parts.append(f'--x\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content + b"\r\n")
    body = b"".join(parts) + draw.choice([b"--x--\r\n", b"", b"--x"])
    return whole(draw, body, "multipart/form-data; boundary=x", path=draw.choice(["/predict", "/inspect"]))


def encoded(draw: random.Random) -> Request:
    fields = [b"q=a", b"q=%ff", b"source=ab", b"target=cd", b"=", b"q[]=", b"alternatives=9999999999"]
    body = b"&".join(draw.choice(fields) for _ in range(draw.randrange(6)))
    return whole(draw, body, "application/x-www-form-urlencoded", path=draw.choice(["/translate", "/detect"]))


def smuggled(draw: random.Random) -> Request:
    """Headers that two servers could read in two ways."""
    more = draw.choice(
        [
            ("Transfer-Encoding: chunked", "Content-Length: 6"),
            ("Content-Length: 6", "Content-Length: 5"),
            ("Transfer-Encoding: identity, chunked",),
            ("Transfer-Encoding : chunked",),
            ("X: a\r\n folded: b",),
            ("X: \x00",),
            (f"X: {'a' * 100_000}",),
            ("Host: evil.example",),
        ]
    )
    return head(draw, "/predict", None, "application/json", *more) + b"0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n"


def half(draw: random.Random) -> Request:
    """A request that ends too soon."""
    request = plausible(draw)
    return request[: draw.randrange(1, len(request))]


def noise(draw: random.Random) -> Request:
    return draw.randbytes(draw.randrange(1, 300))


WAYS: list[Callable[[random.Random], Request]] = [
    plausible, plausible, plausible, inspected, tensors, broken_json, deep, huge_number, wrong_type, bomb, traversal,
    form, encoded, smuggled, half, noise,
]  # fmt: skip


def made_up(draw: random.Random) -> Request:
    return draw.choice(WAYS)(draw)


def statuses(answer: bytes) -> list[int]:
    """The statuses of the answers that came back."""
    return [int(status) for status in STATUS.findall(answer)]
