"""OpenNMT-py as its own `onmt_train` and `onmt_translate` run it; batches are counted with padding, longer side."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import measure
import yaml

os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # its checkpoints hold a Namespace; torch 2.6 refuses that

from onmt import train_single
from onmt.bin import train as training
from onmt.bin import translate as translating
from onmt.constants import CorpusTask, DefaultTokens
from onmt.inference_engine import InferenceEnginePY
from onmt.utils.parse import ArgumentParser

NEVER = 1_000_000_000  # steps


def settings(model: str, data: Path, out: Path, batch_tokens: int) -> dict[str, Any]:
    width = measure.WIDTH if model == "transformer" else measure.DECODER
    return {
        "data": {"multi30k": {"path_src": str(data / "train.en"), "path_tgt": str(data / "train.de")}},
        "src_vocab": str(data / "vocabulary.txt"),
        "tgt_vocab": str(data / "vocabulary.txt"),
        "share_vocab": True,
        "share_embeddings": True,
        "save_model": str(out / "model"),
        "train_steps": NEVER,
        "save_checkpoint_steps": NEVER,
        "valid_steps": NEVER,
        "num_workers": 0,  # both cores compute already
        "bucket_size": len(measure.read_lines(data / "train.en")),  # all are sorted together
        "batch_type": "tokens",
        "batch_size": batch_tokens,
        "normalization": "tokens",
        "optim": "adam",
        "adam_beta2": 0.998,
        "decay_method": "noam",
        "warmup_steps": measure.WARMUP_STEPS,
        "learning_rate": measure.PEAK_RATE * (width * measure.WARMUP_STEPS) ** 0.5,  # noam's, to peak where asked
        "max_grad_norm": measure.CLIP,
        "label_smoothing": measure.SMOOTHING,
        "dropout": [measure.DROPOUT],
        "attention_dropout": [measure.DROPOUT],
        "param_init": 0,
        "param_init_glorot": True,
        "hidden_size": width,
        **(transformer() if model == "transformer" else recurrent(model)),
    }


def transformer() -> dict[str, Any]:
    return {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "enc_layers": measure.LAYERS,
        "dec_layers": measure.LAYERS,
        "heads": measure.HEADS,
        "transformer_ff": measure.INNER,
        "word_vec_size": measure.WIDTH,
        "position_encoding": True,
        "share_decoder_embeddings": True,
    }


def recurrent(cell: str) -> dict[str, Any]:
    return {
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": cell.upper(),
        "enc_layers": 1,
        "dec_layers": 1,
        "word_vec_size": measure.EMBED,
        "global_attention": "mlp",
        "input_feed": 1,
    }


def train(options: argparse.Namespace, meter: measure.Meter) -> None:
    """Its iterator of batches ends when the time is over, which ends training and saves."""
    build = train_single.build_dynamic_dataset_iter

    def metered(opt: Any, transforms: Any, vocabs: Any, task: str, **others: Any) -> Any:
        batches = build(opt, transforms, vocabs, task=task, **others)
        return counted(batches, vocabs["tgt"][DefaultTokens.PAD], meter) if task == CorpusTask.TRAIN else batches

    train_single.build_dynamic_dataset_iter = metered
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "config.yaml"
    chosen = settings(options.model, options.data, options.out, options.batch_tokens)
    file.write_text(yaml.safe_dump(chosen), encoding="utf-8")
    opt, _ = training._get_parser().parse_known_args(["-config", str(file)])
    for old in options.out.glob("model_step_*.pt"):
        old.unlink()
    training.train(opt)


def counted(batches: Iterator[tuple[dict[str, Any], int]], pad: int, meter: measure.Meter) -> Iterator[Any]:
    for batch, bucket in batches:
        meter.begin()
        if meter.over:
            return
        yield batch, bucket
        meter.add(int(batch["tgt"][:, 1:, 0].ne(pad).sum()))


def translator(options: argparse.Namespace) -> Callable[[list[str]], list[str]]:
    (model,) = options.model_folder.glob("model_step_*.pt")
    words = ["-model", model, "-src", options.file, "-output", os.devnull]
    words += ["-beam_size", options.beam, "-batch_size", options.batch]
    if options.length is not None:
        words += ["-min_length", options.length, "-max_length", options.length]
    opt = translating._get_parser().parse_args([str(word) for word in words])
    ArgumentParser.validate_translate_opts(opt)
    ArgumentParser._get_all_transform_translate(opt)
    ArgumentParser._validate_transforms_opts(opt)
    ArgumentParser.validate_translate_opts_dynamic(opt)
    engine = InferenceEnginePY(opt)

    def translate(lines: list[str]) -> list[str]:
        _, found = engine.infer_list(lines)
        return [best[0] for best in found]

    return translate


if __name__ == "__main__":
    measure.run(train, translator)
