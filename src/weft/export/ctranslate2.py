"""A Transformer in the format of CTranslate2, a fast engine for CPUs: `weft export RUN --to ctranslate2`.

CTranslate2 names symbols, Weft numbers them: a symbol's name is its own, with its number where two share one.
"""

# V symbols · D width

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from weft.core import manifest
from weft.core.errors import UserError
from weft.core.files import write_whole
from weft.core.pair import END, START, UNKNOWN
from weft.nn.decoders.transformer import TransformerDecoder
from weft.nn.encoders import TransformerEncoder
from weft.nn.heads import Tokens
from weft.nn.model import Seq2Seq
from weft.nn.multihead import FeedForward, MultiHead, ResidualNorm
from weft.nn.positions import Learned, NoPositions, Rotary, Sinusoid
from weft.nn.readers.tokens import TokenReader
from weft.predict.engines import (
    FACTS,
    FOLDER,
    POSITIONS_IN_TABLE,
    best_checkpoint,
    exported_format,
    is_fresh,
    names_of,
    the_package,
    unknown_part,
)
from weft.predict.predictor import Predictor
from weft.runs.folder import RunFolder

FORMATS = ("float32", "int8", "int8_float32", "float16", "bfloat16", "int16")
VOCABULARIES = tuple(f"{side}_vocabulary.json" for side in ("source", "target", "shared"))
TOKENISERS = ("source.json", "target.json")
WRITTEN = ("model.bin", "config.json", *VOCABULARIES, *TOKENISERS, manifest.NAME, FACTS)


def export(predictor: Predictor, run: Path, out: Path, format: str = "float32") -> Path:
    """Write the model, its vocabularies and Weft's tokenisers to a folder, which is returned."""
    if format not in FORMATS:
        raise UserError(f"'{format}' is not a number format of CTranslate2", "format", f"use {', '.join(FORMATS)}")
    unknown = unknown_part(predictor.spec)
    if unknown is not None:
        part, instead = unknown
        raise UserError(
            f"CTranslate2 does not support {part}", str(run), f"train with {instead}, or predict with torch"
        )
    if predictor.others:
        what = f"CTranslate2 runs a single model, but this run is an ensemble of {1 + len(predictor.others)} models"
        raise UserError(what, str(run), "train with --set train.members=1, or predict with torch")
    package, model = the_package(), predictor.model
    assert isinstance(model, Seq2Seq)
    spec = _spec(package, model)
    for tokeniser, register in (
        (predictor.source, spec.register_source_vocabulary),
        (predictor.target, spec.register_target_vocabulary),
    ):
        register(names_of(tokeniser))
    names = names_of(predictor.target)
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = (names[i] for i in (UNKNOWN, START, END))
    config.decoder_start_token, config.layer_norm_epsilon = names[START], 1e-5
    spec.validate()
    if format != "float32":
        spec.optimize(quantization=format)
    out.mkdir(parents=True, exist_ok=True)
    for name in reversed(WRITTEN):  # the facts first: without them there is no export, however this process ends
        (out / name).unlink(missing_ok=True)
    spec.save(str(out))
    for name, tokeniser in zip(TOKENISERS, (predictor.source, predictor.target)):
        tokeniser.save(out / name)
    facts = {"run": str(run.resolve()), "checkpoint": best_checkpoint(run), "format": format}
    _seal(out, json.dumps(facts) + "\n")
    return out


def _seal(out: Path, facts: str) -> None:
    """Write the manifest of an export, then the facts that make it one."""
    names = [name for name in WRITTEN if name not in (FACTS, manifest.NAME) and (out / name).exists()]
    entries = {name: manifest.entry_of_file(out, name) for name in names}
    manifest.write(out, {**entries, FACTS: manifest.entry_of(facts.encode())})
    write_whole(out, FACTS, facts)


def refresh(folder: RunFolder, predictor: Predictor) -> None:
    """Export a run into its own folder if it has no export, or one of older weights; the number format stays."""
    if not is_fresh(folder):
        export(predictor, folder.path, folder.path / FOLDER, exported_format(folder))


def _spec(package: Any, model: Seq2Seq[Any]) -> Any:
    encoder, decoder, head = model.encoder, model.decoder, model.head
    assert isinstance(encoder, TransformerEncoder)
    assert isinstance(decoder, TransformerDecoder)
    assert isinstance(head, Tokens)
    specs, heads = package.specs, decoder.heads
    norm_first = isinstance(encoder.norm, nn.LayerNorm)
    rotary: dict[str, Any] = {}
    if isinstance(encoder.positions, Rotary):
        rotary = {"rotary_dim": 0, "rotary_interleave": False}
    spec = specs.TransformerSpec(
        specs.transformer_spec.TransformerEncoderSpec(len(encoder.blocks), heads, pre_norm=norm_first, **rotary),
        specs.transformer_spec.TransformerDecoderSpec(len(decoder.blocks), heads, pre_norm=norm_first, **rotary),
    )
    for part, ours, reader, embeddings in (
        (spec.encoder, encoder, model.source_reader, spec.encoder.embeddings[0]),
        (spec.decoder, decoder, model.target_reader, spec.decoder.embeddings),
    ):
        assert isinstance(reader, TokenReader)
        embeddings.weight = _array(reader.table.weight)
        _positions(part, reader.positions, ours.width)
        if norm_first:
            _norm(part.layer_norm, ours.norm)
    encoder_blocks: Any = encoder.blocks
    decoder_blocks: Any = decoder.blocks
    for theirs, block in zip(spec.encoder.layer, encoder_blocks, strict=True):
        _self_attention(theirs.self_attention, block.attention, block.around_attention)
        _feed(theirs.ffn, block.feed, block.around_feed)
    for theirs, block in zip(spec.decoder.layer, decoder_blocks, strict=True):
        _self_attention(theirs.self_attention, block.own, block.around_own)
        _cross_attention(theirs.attention, block.cross, block.around_cross)
        _feed(theirs.ffn, block.feed, block.around_feed)
    _head(spec.decoder.projection, head)
    return spec


@torch.no_grad()
def _head(theirs: Any, ours: Tokens) -> None:
    """Copy the output matrix; a projection before it is multiplied into it."""
    weight, bias, project = ours.weight.detach(), ours.bias.detach(), ours.project
    if isinstance(project, nn.Linear):
        weight, bias = weight @ project.weight, bias + weight @ project.bias
    theirs.weight, theirs.bias = _array(weight), _array(bias)


def _positions(theirs: Any, ours: NoPositions, width: int) -> None:
    if isinstance(ours, Rotary):
        if hasattr(theirs, "position_encodings"):
            delattr(theirs, "position_encodings")
        return
    table = torch.zeros(1, POSITIONS_IN_TABLE, width)
    if isinstance(ours, Sinusoid | Learned):
        table = ours.add(table, 0)
    theirs.position_encodings.encodings = _array(table[0])


def _self_attention(theirs: Any, ours: MultiHead, around: ResidualNorm) -> None:
    _norm(theirs.layer_norm, around.norm)
    _linear(theirs.linear[0], ours.query, ours.key, ours.value)
    _linear(theirs.linear[1], ours.out)


def _cross_attention(theirs: Any, ours: MultiHead, around: ResidualNorm) -> None:
    _norm(theirs.layer_norm, around.norm)
    _linear(theirs.linear[0], ours.query)
    _linear(theirs.linear[1], ours.key, ours.value)
    _linear(theirs.linear[2], ours.out)


def _feed(theirs: Any, ours: FeedForward, around: ResidualNorm) -> None:
    _norm(theirs.layer_norm, around.norm)
    _linear(theirs.linear_0, ours[0])
    _linear(theirs.linear_1, ours[-1])


def _linear(theirs: Any, *ours: nn.Module) -> None:
    """Copy a matrix and its bias; several with the same input are stacked."""
    layers: Sequence[Any] = ours
    theirs.weight = _array(torch.cat([layer.weight for layer in layers]))
    theirs.bias = _array(torch.cat([layer.bias for layer in layers]))


def _norm(theirs: Any, ours: Any) -> None:
    theirs.gamma, theirs.beta = _array(ours.weight), _array(ours.bias)


def _array(tensor: Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = tensor.detach().float().cpu().numpy().copy()
    return array
