"""Are short runs still what they were? Hashes of weights and predictions of this checkout against those of another.

    python bench/guard.py record guard.json            # with the checkout that is the yardstick
    python bench/guard.py compare guard.json           # with the one in question; exit code 1 if anything differs

Each run is a few steps on made-up data with one thread; the same machine and the same torch give the same bits. Which
Weft is asked is decided by PYTHONPATH. `--only WORD` runs those whose names contain the word.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

CELLS = [
    "elman",
    "lstm",
    "lstm-f",
    "lstm-i",
    "lstm-o",
    "lstm-b",
    "gru",
    "gru-after",
    "mut1",
    "mut2",
    "mut3",
    "elman-sigmoid",
]
SCORES = ["dot", "scaled", "scaled-width", "bilinear", "additive", "concat", "rbf", "cosine", "none"]
POSITIONS = ["none", "sinusoid", "sinusoid-concat", "learned", "relative", "bucketed", "rotary", "alibi"]
BRIDGES = ["last", "mean", "projected", "mlp"]
TRANSFORMER = {
    f"{side}.{key}": value
    for side in ("encoder", "decoder")
    for key, value in {"kind": "transformer", "width": 32, "layers": 2, "inner": 64}.items()
}
SMALL = {"encoder.width": 32, "decoder.width": 32, "embed.width": 32, "train.evaluations": 1, "train.members": 1}


def variants() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the name, the kind of data and the settings of each run."""
    for cell in CELLS:
        yield f"cell {cell}", "words", {**SMALL, "encoder.cell": cell, "decoder.cell": cell}
    for score in SCORES:
        yield f"score {score}", "words", {**SMALL, "decoder.attention.score": score}
    for bridge in BRIDGES:
        yield f"bridge {bridge}", "words", {**SMALL, "bridge.kind": bridge}
    for scheme in POSITIONS:
        yield f"positions {scheme}", "words", {**SMALL, **TRANSFORMER, "embed.positions": scheme}
    for weigher in ("nearest", "straight-through", "sparsemax", "kernel"):
        yield f"weigher {weigher}", "words", {**SMALL, "decoder.attention.weigh": weigher}
    for kind in ("scheduled", "own"):
        yield f"feeding {kind}", "words", {**SMALL, "feeding.kind": kind}
    yield "both layers", "words", {**SMALL, "encoder.layers": 2, "decoder.layers": 2, "encoder.residual": True}
    yield "copy", "words", {**SMALL, "head.kind": "copy"}
    yield "copy transformer", "words", {**SMALL, **TRANSFORMER, "head.kind": "copy", "embed.positions": "rotary"}
    yield "ctc", "words", {"encoder.width": 32, "embed.width": 32, "head.kind": "ctc", "train.evaluations": 1}
    yield "members", "words", {**SMALL, "train.members": 2, "train.side_by_side": 1}
    yield "augmented", "words", {**SMALL, "data.augmented": 50}
    yield "bpe", "sentences", {**SMALL, **TRANSFORMER, "source.tokens": "bpe", "target.tokens": "bpe",
                               "source.size": 300, "target.size": 300, "embed.positions": "rotary"}  # fmt: skip
    yield "autopilot words", "words", {}
    yield "autopilot sentences", "sentences", {"train.members": 1}
    yield "labels", "labels", {"task": "classify", "train.members": 1}
    yield "labels in step", "tags", {"task": "classify-tokens", "train.members": 1}
    yield "numbers", "numbers", {"train.members": 1}


def rows(kind: str) -> list[str]:
    """Return the lines of a made-up table."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(3, 9))) for _ in range(240)]
    if kind == "words":
        return [f"{word}\t{word[::-1]}" for word in words]
    texts = [" ".join(draw.choices(words[:60], k=draw.randint(3, 8))) for _ in range(240)]
    if kind == "sentences":
        return [f"{text}\t{' '.join(reversed(text.split()))}" for text in texts]
    if kind == "labels":
        return [f"{text}\t{'long' if len(text.split()) > 5 else 'short'}" for text in texts]
    if kind == "tags":
        return [f"{text}\t{' '.join('A' if 'a' in word else 'O' for word in text.split())}" for text in texts]
    starts = [(draw.random(), draw.random()) for _ in range(240)]
    return [f"{[[x + t * y, y] for t in range(6)]}\t{[[x + t * y, y] for t in range(6, 10)]}" for x, y in starts]


def hashes(folder: Path, name: str, kind: str, settings: dict[str, Any], steps: int) -> dict[str, str]:
    """Train one run; return the hashes of its weights, its log of losses and its predictions."""
    import weft

    table, out = folder / f"{kind}.tsv", folder / name.replace(" ", "-")
    lines = rows(kind)
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = weft.train(str(table), out=str(out), steps=steps, settings=settings)
    outputs = [prediction.text for prediction in run.predict([line.split("\t")[0] for line in lines[:20]])]
    weights = sorted(Path(out).rglob("checkpoints/*/weights.safetensors"))
    return {
        "weights": digest(b"".join(path.read_bytes() for path in weights)),
        "outputs": digest("\n".join(outputs).encode()),
    }


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    known = json.loads(options.file.read_text()) if options.file.exists() else {}
    different = []
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["WEFT_CACHE"] = f"{temporary}/cache"
        for name, kind, settings in variants():
            if options.only not in name or (options.mode == "record" and name in known):
                continue
            got = hashes(Path(temporary), name, kind, settings, options.steps)
            if options.mode == "record":
                known[name] = got
                options.file.write_text(json.dumps(known, indent=1))
            elif got != known.get(name):
                different.append(name)
            state = "recorded" if options.mode == "record" else "different" if name in different else "equal"
            print(f"{name:24} {state}", flush=True)
    if options.mode == "compare":
        print(f"{len(different)} different: {', '.join(different) or 'none'}")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
