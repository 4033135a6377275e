"""transformers' MarianMTModel with the training loop that a careful user writes, and its `generate`.

Batches are sorted by both lengths and counted with padding on the longer side, as the others'; the loss is torch's.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import measure
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianConfig, MarianMTModel

PAD, UNKNOWN, END = 0, 1, 2
FIRST = 3  # the id of the vocabulary's first piece
Pair = tuple[Tensor, Tensor]


def train(options: argparse.Namespace, meter: measure.Meter) -> None:
    torch.manual_seed(1)
    random.seed(1)
    names = measure.read_lines(options.data / "vocabulary.txt")
    pairs = list(zip(*(encode(measure.read_lines(options.data / f"train.{side}"), names) for side in ("en", "de"))))
    model = MarianMTModel(config(len(names))).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=measure.PEAK_RATE, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, warm_up_then_inverse_root)
    for source, target in batches(pairs, options.batch_tokens):
        meter.begin()
        if meter.over:
            break
        step(model, source, target)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        meter.add(int((target != PAD).sum()))
    model.save_pretrained(options.out)
    shutil.copy(options.data / "vocabulary.txt", options.out)


def config(pieces: int) -> MarianConfig:
    return MarianConfig(
        vocab_size=FIRST + pieces,
        decoder_vocab_size=FIRST + pieces,
        d_model=measure.WIDTH,
        encoder_layers=measure.LAYERS,
        decoder_layers=measure.LAYERS,
        encoder_attention_heads=measure.HEADS,
        decoder_attention_heads=measure.HEADS,
        encoder_ffn_dim=measure.INNER,
        decoder_ffn_dim=measure.INNER,
        activation_function="relu",
        dropout=measure.DROPOUT,
        attention_dropout=measure.DROPOUT,
        activation_dropout=measure.DROPOUT,
        max_position_embeddings=512,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
    )


def encode(lines: list[str], names: list[str]) -> list[Tensor]:
    place = {name: FIRST + i for i, name in enumerate(names)}
    return [torch.tensor([*(place.get(piece, UNKNOWN) for piece in line.split()), END]) for line in lines]


def warm_up_then_inverse_root(step: int) -> float:
    return min((step + 1) / measure.WARMUP_STEPS, (measure.WARMUP_STEPS / (step + 1)) ** 0.5)


def step(model: MarianMTModel, source: Tensor, target: Tensor) -> None:
    read = functional.pad(target[:, :-1], (1, 0), value=PAD)
    logits = model(input_ids=source, attention_mask=source != PAD, decoder_input_ids=read, use_cache=False).logits
    loss = functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=measure.SMOOTHING
    )
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), measure.CLIP)


def batches(pairs: list[Pair], batch_tokens: int) -> Iterator[Pair]:
    """Without end: rows sorted by length (those of equal length shuffled), cut where full, and the batches shuffled."""
    while True:
        random.shuffle(pairs)
        pairs.sort(key=lambda pair: (len(pair[1]), len(pair[0])))
        cut = list(cuts(pairs, batch_tokens))
        random.shuffle(cut)
        for rows in cut:
            yield tuple(pad_sequence(side, batch_first=True, padding_value=PAD) for side in zip(*rows))


def cuts(pairs: list[Pair], batch_tokens: int) -> Iterator[list[Pair]]:
    rows: list[Pair] = []
    longest = 0
    for pair in pairs:
        longest = max(longest, *map(len, pair))
        if rows and longest * (len(rows) + 1) > batch_tokens:
            yield rows
            rows, longest = [], max(map(len, pair))
        rows.append(pair)
    yield rows


def translator(options: argparse.Namespace) -> Callable[[list[str]], list[str]]:
    folder: Path = options.model_folder
    names = measure.read_lines(folder / "vocabulary.txt")
    model = MarianMTModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    def translate(lines: list[str]) -> list[str]:
        """In batches of similar length, the order restored."""
        sources, found = encode(lines, names), [""] * len(lines)
        order = sorted(range(len(lines)), key=lambda place: len(sources[place]))
        for first in range(0, len(order), options.batch):
            some = order[first : first + options.batch]
            rows = pad_sequence([sources[place] for place in some], batch_first=True, padding_value=PAD)
            limit = 2 * rows.shape[1] + 20
            ids = model.generate(
                rows, attention_mask=(rows != PAD).long(), num_beams=options.beam, do_sample=False, max_new_tokens=limit
            )
            for place, line in zip(some, ids.tolist()):
                found[place] = " ".join(names[i - FIRST] for i in line if i >= FIRST)
        return found

    return translate


if __name__ == "__main__":
    measure.run(train, translator)
