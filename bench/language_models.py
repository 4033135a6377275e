"""How fast do language models train? Against nanoGPT's own step, and against torch.nn.LSTM in a plain loop, in turns.

    git clone https://github.com/karpathy/nanoGPT /tmp/nanoGPT
    python bench/language_models.py --nanogpt /tmp/nanoGPT --text book.txt

The Transformer has nanoGPT's settings for CPUs (4 layers of 128, 4 heads, windows of 64, 12 in a batch, no dropout).
Both sides learn from the same batches of characters, with AdamW and a clipped gradient; Weft also keeps its
average of the weights. The figure is the median over the rounds of the ratio of tokens per second. The others compute
in float32, which is all that nanoGPT knows on a CPU; with --precision bfloat16, Weft computes as it chooses to where
the machine multiplies such matrices faster.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.core.kinds import Batch, Column
from weft.core.shapes import Nothing, Symbols
from weft.learn.backward import Backward
from weft.learn.objectives import OBJECTIVES
from weft.learn.optimise import Average, adamw, clip_gradient, set_rate
from weft.nn.assemble import assemble
from weft.settings import compose

Step = Callable[[Tensor], None]  # from ids (B, W + 1)
ALONE = {"task": "language-model", "objective.smoothing": 0.0, "train.dropout": 0.0}
GPT = {"layers": 4, "heads": 4, "width": 128, "window": 64, "rows": 12}
LSTMS = [  # as wide as its embeddings; and as the autopilot chooses it for characters
    {"width": 256, "embed": 256, "window": 64, "rows": 32},
    {"width": 256, "embed": 128, "window": 64, "rows": 32},
]
SPECIAL = 4  # ids of Weft before those of characters


def weft_step(settings: dict[str, Any], symbols: int, precision: str) -> tuple[Step, int]:
    """Return a step of Weft's training, and the number of parameters."""
    spec = compose(("flag", {**ALONE, **settings})).spec
    torch.manual_seed(1)
    model = assemble(spec, Nothing(), Symbols(symbols + SPECIAL, ended=False)).train()
    backward = Backward(model, OBJECTIVES["cross-entropy"](0.0), precision, torch.device("cpu"))
    optimiser, average = adamw(model, 0.01, 1.0), Average(model, 0.998)

    def step(ids: Tensor) -> None:
        rows = [row + SPECIAL for row in ids[:, 1:].numpy()]
        before = (ids[:, 0] + SPECIAL).tolist()
        batch = Batch.between(Column.of_nothing(len(rows)), Column.of_labels(rows)).begun_with(before)
        optimiser.zero_grad(set_to_none=True)
        set_rate(optimiser, 1e-3)
        backward(batch, torch.tensor(ids[:, 1:].numel()))
        clip_gradient(model, 1.0)
        optimiser.step()
        average.update()

    return step, model.parameter_count


def nanogpt_step(folder: Path, symbols: int) -> tuple[Step, int]:
    """Return a step as nanoGPT's train.py makes it, without scaling and accumulation, which a CPU does not need."""
    sys.path.insert(0, str(folder))
    from model import GPT as Model
    from model import GPTConfig

    torch.manual_seed(1)
    model = Model(GPTConfig(
        block_size=GPT["window"], vocab_size=symbols, n_layer=GPT["layers"], n_head=GPT["heads"],
        n_embd=GPT["width"], dropout=0.0, bias=False,
    ))  # fmt: skip
    optimiser = model.configure_optimizers(0.1, 1e-3, (0.9, 0.99), "cpu")

    def step(ids: Tensor) -> None:
        _, loss = model(ids[:, :-1], ids[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step, sum(p.numel() for p in model.parameters())


def plain_lstm_step(symbols: int, width: int, embed: int) -> tuple[Step, int]:
    """Return a step of torch.nn.LSTM in a plain loop; as in Weft, a narrower output matrix is behind a projection."""
    torch.manual_seed(1)
    table, lstm = nn.Embedding(symbols, embed), nn.LSTM(embed, width, batch_first=True)
    project = nn.Linear(width, embed) if width != embed else nn.Identity()
    head = nn.Linear(embed, symbols)
    parameters = [p for part in (table, lstm, project, head) for p in part.parameters()]
    optimiser = torch.optim.AdamW(parameters, 1e-3, fused=True)

    def step(ids: Tensor) -> None:
        out, _ = lstm(table(ids[:, :-1]))
        loss = nn.functional.cross_entropy(head(project(out)).flatten(0, 1), ids[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()

    return step, sum(p.numel() for p in parameters)


def tokens_per_second(step: Step, ids: Tensor, rows: int, window: int, steps: int, seed: int) -> float:
    """Return the speed over so many steps on random windows of the text; with one thread, by its CPU time."""
    random = torch.Generator().manual_seed(seed)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    begin = clock()
    for _ in range(steps):
        places = torch.randint(len(ids) - window - 1, (rows,), generator=random)
        step(torch.stack([ids[place : place + window + 1] for place in places.tolist()]))
    return steps * rows * window / (clock() - begin)


def in_turns(title: str, ours: Step, theirs: Step, ids: Tensor, shape: dict[str, int], rounds: int, steps: int) -> None:
    """Measure both in turns, and print the speeds of each round and the median of their ratio."""
    speeds = []
    for number in range(rounds + 1):  # the first round warms both up
        both = [tokens_per_second(s, ids, shape["rows"], shape["window"], steps, number) for s in (ours, theirs)]
        if number:
            speeds.append(both)
            print(f"{title}: weft {both[0]:,.0f} tokens/s, other {both[1]:,.0f}", flush=True)
    print(f"{title}: median ratio {statistics.median(a / b for a, b in speeds):.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--nanogpt", type=Path, help="a checkout; without it only the LSTM is measured")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32", help="of Weft's products")
    options = parser.parse_args()
    text = options.text.read_text(encoding="utf-8")[:1_000_000]
    letters, ids = np.unique(np.array(list(text)), return_inverse=True)
    tensor, symbols = torch.from_numpy(ids.astype(np.int64)), len(letters)
    cells = {"decoder.kind": "recurrent", "decoder.attention.score": "none", "decoder.cell": "lstm"}
    for shape in LSTMS:
        ours = weft_step(
            {**cells, "decoder.width": shape["width"], "embed.width": shape["embed"]}, symbols, options.precision
        )
        theirs = plain_lstm_step(symbols, shape["width"], shape["embed"])
        title = f"LSTM {shape['width']}, embeddings {shape['embed']}"
        print(f"{title}: {ours[1]:,} and {theirs[1]:,} parameters, {torch.get_num_threads()} threads")
        in_turns(title, ours[0], theirs[0], tensor, shape, options.rounds, options.steps)
    if options.nanogpt is not None:
        part = {f"decoder.{name}": GPT[name] for name in ("layers", "heads", "width")}
        more = {"decoder.kind": "transformer", "decoder.inner": 4 * GPT["width"], "embed.width": GPT["width"]}
        more |= {"head.tied": False}  # a tied one would have a product more than nanoGPT's
        ours = weft_step({**part, **more, "embed.positions": "learned"}, symbols, options.precision)
        theirs = nanogpt_step(options.nanogpt, symbols)
        print(f"Transformer: {ours[1]:,} and {theirs[1]:,} parameters")
        in_turns("Transformer", ours[0], theirs[0], tensor, GPT, options.rounds, options.steps)


if __name__ == "__main__":
    main()
