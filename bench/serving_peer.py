"""LibreTranslate's own server with the weights of a Weft run, to measure `weft serve` beside it.

    VENV/bin/python bench/serving_peer.py RUN --port 5055 [--threads 1]

VENV has the PyPI package libretranslate; RUN has been exported (`weft export RUN --to ctranslate2`). The export is
packed as an Argos package: the same weights, and a SentencePiece model that holds the run's BPE (its merges, in their
order, with ▁ for a space). The sentence splitter, whose model is downloaded from the network, is left out, which is in
the peer's favour. Runs until it is ended.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

SPECIAL = 4  # tokens that stand for no text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--port", type=int, default=5055)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="weft-peer-"))
    packages = home / "packages"
    for languages in (("en", "de"), ("de", "en")):  # with fewer than two packages, it looks for more in the network
        pack(given.run / "ctranslate2", packages / f"translate-{'_'.join(languages)}-1_0", *languages)
    os.environ |= {
        "HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"), "ARGOS_INTRA_THREADS": str(given.threads),
        "OMP_NUM_THREADS": str(given.threads), "ARGOS_PACKAGES_DIR": str(packages),
    }  # fmt: skip
    serve(given.port, given.threads)


def pack(export: Path, package: Path, source: str, target: str) -> None:
    """Write an Argos package with the weights of an export."""
    model = package / "model"
    model.mkdir(parents=True)
    shutil.copy(export / "model.bin", model)
    config = json.loads((export / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps({**config, "add_source_eos": True}), encoding="utf-8")
    tokens = json.loads((export / "shared_vocabulary.json").read_text(encoding="utf-8"))
    renamed = [*tokens[:SPECIAL], *(token.replace(" ", "▁") for token in tokens[SPECIAL:])]
    (model / "shared_vocabulary.json").write_text(json.dumps(renamed, ensure_ascii=False), encoding="utf-8")
    (package / "sentencepiece.model").write_bytes(pieces(renamed[SPECIAL:]))
    metadata = {"package_version": "1.0", "argos_version": "1.9", "from_code": source, "from_name": source}
    metadata |= {"to_code": target, "to_name": target, "type": "translate"}
    (package / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")


def pieces(tokens: list[str]) -> bytes:
    """Return a SentencePiece model whose merges are these tokens, the first first."""
    from sentencepiece import sentencepiece_model_pb2 as format_

    model = format_.ModelProto()
    model.trainer_spec.model_type = format_.TrainerSpec.BPE
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    entries = [
        ("<unk>", 2),
        ("<s>", 3),
        ("</s>", 3),
        *((token, 1) for token in dict.fromkeys(tokens) if "\0" not in token),
    ]
    for number, (token, kind) in enumerate(entries):
        model.pieces.add(piece=token, score=-float(number), type=kind)
    content: bytes = model.SerializeToString()
    return content


def serve(port: int, threads: int) -> None:
    from argostranslate import sbd

    sbd.MiniSBDSentencizer.__init__ = lambda self, package: None
    sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
    from libretranslate.main import main as run

    sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", str(port), "--load-only", "en,de"]
    sys.argv += ["--disable-web-ui", "--disable-files-translation", "--threads", "4"]
    run()


if __name__ == "__main__":
    main()
