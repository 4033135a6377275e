"""How far is each recurrence from its matrix products alone? Forward and backward over a sequence.

    python bench/cells.py [--width 512 --batch 64] [--width 128 --batch 32] [--threads 2]

«products» does the same matrix products and nothing else, in the shapes of the sequence: those of the inputs for all
steps at once, those of the state step by step, and the matrices' gradients at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from timing import in_turns, matrix_speed, middle, record, spread
from torch import Tensor, nn

from weft.nn import fused
from weft.nn.assemble import CELLS
from weft.nn.cells import Recurrence
from weft.nn.unroll import over_time

STEPS = 50
TORCHS = {"lstm": nn.LSTM, "gru-after": nn.GRU, "elman": nn.RNN}


def there_and_back(run: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    def once() -> None:
        run(x).sum().backward()

    return once


@contextmanager
def plain() -> Iterator[None]:
    """Without compiled recurrences."""
    kept, fused.available = fused.available, lambda x: False
    try:
        yield
    finally:
        fused.available = kept


def in_plain_torch(cell: Recurrence, x: Tensor) -> Tensor:
    with plain():
        return over_time(cell, x, cell.start(x.shape[0]))[0]


def products(cell: Recurrence, batch: int, width: int) -> Callable[[], None]:
    given = cell.fused()
    weight, first, second = (m if m is None else m.detach() for m in (given.weight, given.first, given.second))
    flat, over_inputs = torch.randn(STEPS * batch, width), torch.randn(STEPS * batch, weight.shape[0])
    h, of_first = torch.randn(batch, width), torch.randn(batch, first.shape[0])
    up, down = torch.empty(batch, first.shape[0]), torch.empty(batch, width)

    def once() -> None:
        torch.mm(flat, weight.t())
        for _ in range(STEPS):
            torch.mm(h, first.t(), out=up)
            if second is not None:
                torch.mm(h, second.t(), out=down)
        for _ in range(STEPS):
            torch.mm(of_first, first, out=down)
            if second is not None:
                torch.mm(h, second, out=down)
        torch.mm(over_inputs, weight)
        torch.mm(over_inputs.t(), flat)
        torch.mm(over_inputs[:, : first.shape[0]].t(), flat)
        if second is not None:
            torch.mm(over_inputs[:, :width].t(), flat)

    return once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--windows", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for width, batch in zip(options.width or [512, 128], options.batch or [64, 32], strict=True):
        speed = matrix_speed()
        print(f"\nT={STEPS}, B={batch}, width {width}, {options.threads} threads, {speed:.0f} GFLOP/s\n")
        print("| cell | products, ms | Weft | plain torch | torch's own | spread |\n|---|---:|---:|---:|---:|---:|")
        for name, kind in CELLS.items():
            cell, x = kind(width, width), torch.randn(batch, STEPS, width, requires_grad=True)
            jobs = {
                "products": products(cell, batch, width),
                "weft": there_and_back(lambda x, cell=cell: over_time(cell, x, cell.start(x.shape[0]))[0], x),
                "plain": there_and_back(lambda x, cell=cell: in_plain_torch(cell, x), x),
            }
            if name in TORCHS:
                own = TORCHS[name](width, width, batch_first=True)
                jobs["torch"] = there_and_back(lambda x, own=own: own(x)[0], x)
            found = in_turns(jobs, options.windows)
            seconds = {job: middle(figures) for job, figures in found.items()}
            ratio = {job: seconds[job] / seconds["products"] for job in seconds}
            theirs = f"{ratio['torch']:.2f}" if "torch" in ratio else ""
            print(
                f"| {name} | {seconds['products'] * 1e3:.1f} | {ratio['weft']:.2f} | {ratio['plain']:.2f} | {theirs} "
                f"| {spread(found['weft']):.0%} |",
                flush=True,
            )
            record("cells", cell=name, width=width, batch=batch, gflops=speed, seconds=seconds)


if __name__ == "__main__":
    main()
