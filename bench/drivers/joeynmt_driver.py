"""Joey NMT as its own `train` and `predict` run it; its batches are counted with padding on the longer side."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import yaml

os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # its checkpoints hold more than tensors; torch 2.6 refuses that

from joeynmt import training
from joeynmt.batch import Batch
from joeynmt.config import load_config, parse_global_args
from joeynmt.helpers import make_model_dir
from joeynmt.prediction import predict, prepare

NEVER = 1_000_000_000  # steps


def settings(model: str, data: Path, out: Path, batch_tokens: int) -> dict[str, Any]:
    side = {"level": "word", "voc_file": str(data / "vocabulary.txt")}  # the files are cut into pieces already
    return {
        "name": model,
        "model_dir": str(out),
        "use_cuda": False,
        "data": {
            "train": str(data / "train"),
            "dev": str(data / "val"),
            "dataset_type": "plain",
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
        },
        "training": {
            "optimizer": "adam",
            "normalization": "tokens",
            "scheduling": "warmupinversesquareroot",
            "learning_rate": measure.PEAK_RATE,
            "learning_rate_warmup": measure.WARMUP_STEPS,
            "learning_rate_min": 1e-9,
            "label_smoothing": measure.SMOOTHING,
            "clip_grad_norm": measure.CLIP,
            "batch_size": batch_tokens,
            "batch_type": "token",
            "epochs": NEVER,
            "validation_freq": NEVER,
            "overwrite": True,
        },
        "testing": {"batch_type": "sentence", "beam_alpha": 1.0},
        "model": transformer() if model == "transformer" else recurrent(model),
    }


def transformer() -> dict[str, Any]:
    part = {
        "type": "transformer",
        "num_layers": measure.LAYERS,
        "num_heads": measure.HEADS,
        "hidden_size": measure.WIDTH,
        "ff_size": measure.INNER,
        "dropout": measure.DROPOUT,
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": measure.WIDTH, "scale": True, "dropout": measure.DROPOUT},
    }
    return {"tied_embeddings": True, "tied_softmax": True, "encoder": part, "decoder": part}


def recurrent(cell: str) -> dict[str, Any]:
    embeddings = {"embedding_dim": measure.EMBED, "scale": False, "dropout": measure.DROPOUT}
    part = {"type": "recurrent", "rnn_type": cell, "num_layers": 1, "dropout": 0.0, "embeddings": embeddings}
    decoder = {"hidden_size": measure.DECODER, "attention": "bahdanau", "hidden_dropout": measure.DROPOUT}
    return {
        "tied_embeddings": True,
        "encoder": {**part, "hidden_size": measure.DECODER // 2, "bidirectional": True},
        "decoder": {**part, **decoder, "init_hidden": "bridge", "input_feeding": True},
    }


def train(options: argparse.Namespace, meter: measure.Meter) -> None:
    class Metered(training.TrainManager):
        """Counts a step when its successor begins, and ends as Ctrl-C ends it: with the weights saved."""

        pending = 0

        def _train_step(self, batch: Batch) -> tuple[float, int]:
            meter.begin()
            if self.pending:
                meter.add(self.pending)
            if meter.over:
                raise KeyboardInterrupt
            self.pending = batch.ntokens
            return super()._train_step(batch)

    training.TrainManager = Metered
    config = settings(options.model, options.data.resolve(), options.out.resolve(), options.batch_tokens)
    make_model_dir(options.out, overwrite=True)
    (options.out / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    training.train(rank=0, world_size=None, cfg=config, skip_test=True)


def translator(options: argparse.Namespace) -> Callable[[list[str]], list[str]]:
    config = load_config(options.model_folder / "config.yaml")
    config["model_dir"] = str(options.model_folder)
    config["testing"] |= {"beam_size": options.beam, "batch_size": options.batch}
    args = parse_global_args(config, rank=0, mode="translate")
    model, _, _, stream = prepare(args, rank=0, mode="translate")

    def translate(lines: list[str]) -> list[str]:
        for line in lines:
            stream.set_item(line)
        found = predict(model, stream, args.device, args.n_gpu, args=args.test, autocast=args.autocast)[3]
        stream.reset_cache()
        return [" ".join(piece for piece in pieces if piece != "</s>") for pieces in found]

    return translate


if __name__ == "__main__":
    logging.disable(logging.INFO)
    measure.run(train, translator)
