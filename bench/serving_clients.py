"""Do clients that exist work with `weft serve`, unchanged?

    python bench/serving_clients.py RUN [--python VENV/bin/python] [--npm FOLDER]

RUN translates from English to German. The clients are libretranslatepy and tritonclient[http] (in another Python, so
that Weft's own environment stays as it is), the npm package `translate` (in FOLDER/node_modules) and curl. Each
translates two lines, and has to get what `Run.predict` gives; what is not installed is reported as missing. Install:

    python3 -m venv /tmp/clients && /tmp/clients/bin/pip install libretranslatepy 'tritonclient[http]'
    mkdir -p /tmp/npm && cd /tmp/npm && npm init -y && npm install translate
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from load import serving

LINES = ["A man is riding a bike.", "Two dogs run through the grass."]
LIBRETRANSLATEPY = """
import json, sys
from libretranslatepy import LibreTranslateAPI
api = LibreTranslateAPI(sys.argv[1] + "/")
assert {each["code"] for each in api.languages()} == {"en", "de"}, api.languages()
assert api.detect("A man.")[0]["language"] == "en"
print(json.dumps([api.translate(line, "en", "de") for line in sys.argv[2:]]))
"""
TRITON = """
import json, sys
import numpy
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
client = InferenceServerClient(sys.argv[1].removeprefix("http://"))
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("en-de")
assert client.get_model_metadata("en-de")["inputs"][0]["name"] == "source"
texts = []
for binary in (True, False):
    given = InferInput("source", [len(sys.argv) - 2], "BYTES")
    given.set_data_from_numpy(numpy.array([line.encode() for line in sys.argv[2:]], dtype=object), binary_data=binary)
    wanted = [InferRequestedOutput("output", binary_data=binary), InferRequestedOutput("score", binary_data=binary)]
    answer = client.infer("en-de", [given], outputs=wanted)
    texts.append([each.decode() if isinstance(each, bytes) else each for each in answer.as_numpy("output")])
    assert answer.as_numpy("score").shape == (len(sys.argv) - 2,)
assert texts[0] == texts[1], texts
print(json.dumps(texts[0]))
"""
NPM = """
import translate from "translate";
translate.engine = "libre";
translate.url = process.argv[2] + "/translate";
translate.from = "en";
const texts = [];
for (const line of process.argv.slice(3)) texts.push(await translate(line, "de"));
console.log(JSON.stringify(texts));
"""


def by_python(python: str, script: str) -> Callable[[str], list[str]]:
    return lambda address: said([python, "-c", script, address, *LINES])


def by_npm(folder: Path) -> Callable[[str], list[str]]:
    script = folder / "translate-with-weft.mjs"

    def ask(address: str) -> list[str]:
        script.write_text(NPM, encoding="utf-8")
        return said(["node", str(script), address, *LINES])

    return ask


def by_curl(address: str) -> list[str]:
    """Ask with JSON, with a form, with a stream and as tensors; all have to say the same."""
    body = json.dumps({"q": LINES, "source": "en", "target": "de"})
    curl, kind = ["curl", "-sS", "--fail-with-body"], ["-H", "content-type: application/json"]
    texts: list[str] = told([*curl, f"{address}/translate", *kind, "-d", body])["translatedText"]
    form = ["--data-urlencode", f"q={LINES[0]}", "-d", "source=en", "-d", "target=de"]
    assert told([*curl, f"{address}/translate", *form])["translatedText"] == texts[0]
    stream = [*curl, f"{address}/predict", *kind, "-H", "accept: application/x-ndjson"]
    answer = subprocess.run([*stream, "-d", json.dumps({"inputs": LINES})], capture_output=True, text=True, check=True)
    assert [json.loads(line)["outputs"][0]["text"] for line in answer.stdout.splitlines()] == texts
    tensor = {"name": "source", "datatype": "BYTES", "shape": [len(LINES)], "data": LINES}
    inferred = told([*curl, f"{address}/v2/models/en-de/infer", *kind, "-d", json.dumps({"inputs": [tensor]})])
    assert inferred["outputs"][0]["data"] == texts
    return texts


def said(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    texts: list[str] = json.loads(done.stdout.splitlines()[-1])
    return texts


def told(command: list[str]) -> dict[str, object]:
    content: dict[str, object] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return content


def missing(python: str, npm: Path) -> dict[str, str]:
    """Return what is not installed."""
    modules = {"libretranslatepy": "libretranslatepy", "tritonclient": "tritonclient.http"}
    absent = {
        name: f"pip install it for {python}"
        for name, module in modules.items()
        if not shutil.which(python)
        or subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode
    }
    if not (npm / "node_modules" / "translate").is_dir() or not shutil.which("node"):
        absent["translate (npm)"] = f"npm install translate in {npm}"
    return absent if shutil.which("curl") else {**absent, "curl": "install curl"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--python", default="/tmp/clients/bin/python")
    parser.add_argument("--npm", type=Path, default=Path("/tmp/npm"))
    given = parser.parse_args()
    import weft

    wanted = weft.load(given.run).predict(LINES).texts
    clients = {
        "libretranslatepy": by_python(given.python, LIBRETRANSLATEPY),
        "tritonclient": by_python(given.python, TRITON),
        "translate (npm)": by_npm(given.npm),
        "curl": by_curl,
    }
    absent, failed = missing(given.python, given.npm), False
    with tempfile.TemporaryDirectory() as folder, serving([f"en-de={given.run}"], Path(folder) / "log") as server:
        for name, ask in clients.items():
            if name in absent:
                print(f"{name:20} missing: {absent[name]}")
                continue
            try:
                texts = ask(f"http://127.0.0.1:{server.port}")
                result = "as Run.predict" if texts == wanted else f"DIFFERS: {texts}, wanted {wanted}"
            except (RuntimeError, AssertionError, subprocess.SubprocessError, ValueError) as error:
                result = f"FAILS: {error!r}"
            failed |= result != "as Run.predict"
            print(f"{name:20} {result}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
