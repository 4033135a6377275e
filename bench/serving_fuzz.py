"""Does anything that a client sends harm `weft serve`?

    python bench/serving_fuzz.py RUN [--requests 10000] [--seed 27]

Sends requests that tests/malformed.py makes up, with slow and half-closed connections among them, and those that
schemathesis makes of /openapi.json, where it is installed. No answer may be a 5xx but 503 and 504, nor hold a
traceback; the log may hold none; and the next request is answered. RUN is served under the name ab-cd.
"""

from __future__ import annotations

import argparse
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from load import serving

import malformed

CLIENTS = 16
FLAGS = ["--set", "limits.body_seconds=1", "--set", "limits.body=200000", "--set", "limits.seconds=10"]
SANE = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
SANE += b'Content-Length: 20\r\n\r\n{"inputs": ["abcd"]}'


def send(port: int, request: bytes, draw: random.Random) -> bytes:
    """Send a request, now and then slowly, in pieces, or closing one's own side; return what came back."""
    manner = draw.random()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=15) as connection:
            if manner < 0.02:  # byte by byte, until the server has had enough
                for position in range(min(len(request), 40)):
                    connection.sendall(request[position : position + 1])
                    time.sleep(0.05)
            else:
                connection.sendall(request)
            if manner > 0.95:
                connection.shutdown(socket.SHUT_WR)
            if manner > 0.98:
                return b""  # and away
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
            return answer
    except (OSError, TimeoutError):
        return b""


def fuzz(port: int, requests: int, seed: int) -> tuple[Counter[str], list[tuple[bytes, bytes]]]:
    draw = random.Random(seed)
    counts, bad = Counter[str](), []

    def one(number: int) -> tuple[bytes, bytes]:
        own = random.Random(seed * 1_000_003 + number)
        request = malformed.made_up(own)
        return request, send(port, request, own)

    with ThreadPoolExecutor(CLIENTS) as clients:
        for request, answer in clients.map(one, range(requests)):
            statuses = malformed.statuses(answer)
            counts.update(map(str, statuses) if statuses else ["no answer"])
            if b"Traceback" in answer or any(status >= 500 and status not in (503, 504) for status in statuses):
                bad.append((request, answer))
            if draw.random() < 0.01 and 200 not in malformed.statuses(send(port, SANE, random.Random(1))):
                bad.append((SANE, b"the next request was not answered"))
    return counts, bad


def by_schema(port: int, examples: int) -> str:
    """Let schemathesis make requests of our own description."""
    program = shutil.which("schemathesis") or str(Path(sys.executable).with_name("schemathesis"))
    if not Path(program).exists():
        return "schemathesis is not installed"
    command = [program, "run", f"http://127.0.0.1:{port}/openapi.json", "--checks", "not_a_server_error"]
    command += ["--max-examples", str(examples), "--no-color", "--seed", "27"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"exit code {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-25:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=27)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with serving([f"ab-cd={given.run}"], log, *FLAGS) as server:
            counts, bad = fuzz(server.port, given.requests, given.seed)
            print("statuses:", dict(sorted(counts.items())))
            print("schemathesis:", by_schema(server.port, max(10, given.requests // 100)))
            after = malformed.statuses(send(server.port, SANE, random.Random(1)))
            print("the next request:", after, "· memory", round(server.megabytes), "MB")
        text = log.read_text(encoding="utf-8")
    for request, answer in bad[:20]:
        print("BAD", request[:500], answer[:500])
    tracebacks = text.count("Traceback")
    print(f"{len(bad)} bad answers, {tracebacks} tracebacks in the log")
    if tracebacks:
        print(text[text.index("Traceback") - 300 :][:3000])
    sys.exit(bool(bad or tracebacks or after != [200]))


if __name__ == "__main__":
    main()
