"""What does each idea bring that training is fast by? The same work with it and without it, in turns.

    python bench/ideas.py [--windows 7] [--rounds 3] [--seconds 30] [--only optimiser]

Small pieces of work are timed here, forward and backward, two threads; those that only whole runs can tell (processes,
malloc) by `weft train` on multi30k. A ratio above 1 speaks for the idea.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import corpus
import numpy as np
import torch
from cells import plain
from timing import in_turns, middle, record, spread, table
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from training import SETTINGS, SHARED, multi30k, weft_train

from weft.core.kinds import Batch, Emission
from weft.core.pair import PAD
from weft.data import batches
from weft.learn.objectives import CrossEntropy
from weft.learn.optimise import adamw, set_rate
from weft.nn.assemble import CELLS, SCORES, assemble
from weft.settings import compose, merge, put

BATCH, STEPS, WIDTH, SYMBOLS = 64, 25, 512, 8004
Job = Callable[[], object]
Idea = dict[str, Job]  # what is without it, and what is with it, which comes last


@dataclass(frozen=True)
class PerSymbol:
    """Work on so many symbols, of which the time of one is told."""

    job: Job
    symbols: int

    def __call__(self) -> None:
        self.job()


def model_of(kind: str, *more: str) -> nn.Module:
    """One of issue 5's models."""
    layer: dict[str, object] = {}
    for setting in [*SETTINGS[kind], *more]:
        key, _, value = setting.partition("=")
        put(layer, key, value)
    own = {"embed.width": 256, "embed.shared": True, "train.dropout": 0.1}
    return assemble(compose(("flag", merge(own, layer))).spec, SYMBOLS, SYMBOLS)


def rows_of(count: int, length: int) -> Batch:
    return Batch.of(*(torch.randint(4, SYMBOLS, (count, length)).tolist() for _ in range(2)))


def there_and_back(run: Callable[[], Tensor]) -> Job:
    return lambda: run().sum().backward()


def hoisted() -> Idea:
    cell, x = CELLS["gru"](WIDTH, WIDTH), torch.randn(BATCH, STEPS, WIDTH)

    def run(at_once: bool) -> Tensor:
        state, outs = cell.start(BATCH), []
        inputs = cell.inputs(x).unbind(1) if at_once else (cell.inputs(one) for one in x.unbind(1))
        for one in inputs:
            h, state = cell.step(one, state)
            outs.append(h)
        return torch.stack(outs, 1)

    return {
        "inputs multiplied step by step": there_and_back(lambda: run(False)),
        "… for all steps at once": there_and_back(lambda: run(True)),
    }


def gates() -> Idea:
    x, parts = torch.randn(BATCH, WIDTH), [nn.Linear(WIDTH, WIDTH) for _ in range(4)]
    whole = nn.Linear(WIDTH, 4 * WIDTH)
    return {
        "a matrix for each of four gates": there_and_back(lambda: torch.cat([part(x) for part in parts], 1)),
        "… one for all": there_and_back(lambda: whole(x)),
    }


def keys() -> Idea:
    score, states, queries = (
        SCORES["additive"](WIDTH, WIDTH),
        torch.randn(BATCH, 15, WIDTH),
        torch.randn(BATCH, STEPS, WIDTH),
    )

    def run(once: bool) -> Tensor:
        ready = score.keys(states) if once else None
        looks = (score(q[:, None], score.keys(states) if ready is None else ready) for q in queries.unbind(1))
        return torch.cat(list(looks), 1)

    return {
        "keys projected at every step": there_and_back(lambda: run(False)),
        "… once": there_and_back(lambda: run(True)),
    }


def unfed() -> Idea:
    model, batch = model_of("lstm", "decoder.attention.feed=false"), rows_of(BATCH, 15)

    def run(at_once: bool) -> Tensor:
        memory = model.bridge(model.encoder(batch.source, batch.source_mask))
        state, outs = model.decoder.start(memory), []
        if at_once:
            return model.decoder.unroll(batch.given, state)
        for y in batch.given.unbind(1):
            out, state = model.decoder.step(y, state)
            outs.append(out)
        return torch.stack(outs, 1)

    return {
        "a context that is not fed, step by step": there_and_back(lambda: run(False)),
        "… for all steps at once": there_and_back(lambda: run(True)),
    }


def compiled() -> Idea:
    model, batch = model_of("gru"), rows_of(BATCH, 15)

    def run() -> Tensor:
        return model.decode(batch)[0]

    def without() -> None:
        with plain():
            run().sum().backward()

    return {"recurrences in plain torch": without, "… in one compiled pass": there_and_back(run)}


def entropy() -> Idea:
    states, matrix = torch.randn(BATCH, 15, 256), nn.Linear(256, SYMBOLS)
    batch = rows_of(BATCH, 14)
    objective = CrossEntropy(0.1)

    def torchs() -> None:
        logits = matrix(states).flatten(0, 1)
        cross_entropy(logits, batch.wanted.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=0.1).backward()

    def own() -> None:
        objective(Emission(matrix(states)), batch).total.backward()

    return {"torch's cross-entropy": torchs, "… with its gradient in one compiled pass": own}


def optimiser() -> Idea:
    ways = {"AdamW, a loop over tensors": {"foreach": False}, "… of many tensors at once (foreach)": {"foreach": True}}
    jobs: Idea = {}
    for name, way in ways.items():
        theirs = torch.optim.AdamW(_with_gradients(model_of("transformer")).parameters(), lr=1e-4, **way)
        jobs[name] = theirs.step
    ours = adamw(_with_gradients(model_of("transformer")), 0.01, 1.0)
    set_rate(ours, 1e-4)
    return {**jobs, "… fused": ours.step}


def _with_gradients(model: nn.Module) -> nn.Module:
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    return model


def padding(options: argparse.Namespace) -> Idea:
    """The same number of padded places a batch, of rows as they come and of rows of like length; per real symbol."""
    folder = corpus.prepare(options.data)
    lines = [corpus.read(folder / f"train.{language}")[:6000] for language in corpus.LANGUAGES]
    lengths = [np.array([1 + len(line.split()) for line in side], dtype=np.int32) for side in lines]
    model = model_of("lstm")

    def work(sets: list[np.ndarray]) -> PerSymbol:
        made = [Batch.of(*([[5] * (n - 1) for n in side[rows]] for side in lengths)) for rows in sets]

        def once() -> None:
            for batch in made:
                model.decode(batch)[0].sum().backward()

        return PerSymbol(once, sum(batch.target_tokens for batch in made))

    order = np.random.default_rng(1).permutation(len(lengths[0]))
    longest = np.maximum(*lengths)[order]
    ends = list(batches.cuts(longest, 4096))[:4]
    mixed = [order[begin:end] for begin, end in zip([0, *ends], ends)]
    alike = list(batches.plan(*lengths, 4096, 1, 0))[:4]
    return {"batches of rows as they come": work(mixed), "… of like length": work(alike)}


def ahead(options: argparse.Namespace) -> Idea:
    tokeniser, texts = corpus.tokeniser(), corpus.read(options.data / "multi30k/train.en")[:250]
    ids = [tokeniser.encode(text) for text in texts]
    return {
        "250 lines cut into pieces while training": lambda: Batch.of([tokeniser.encode(t) for t in texts], ids),
        "… ahead of time": lambda: Batch.of(ids, ids),
    }


IDEAS = {
    "hoisted": hoisted, "gates": gates, "keys": keys, "unfed": unfed, "compiled": compiled, "entropy": entropy,
    "optimiser": optimiser,
}  # fmt: skip
WITH_DATA = {"padding": padding, "ahead": ahead}
TWO = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "2000000000", "MALLOC_TOP_PAD_": "64000000"}
RUNS: dict[str, tuple[str, list[str], dict[str, str]]] = {  # model, launcher, environment
    "transformer": ("transformer", [], {}),
    "transformer, two processes with a thread each": ("transformer", TWO, {"OMP_NUM_THREADS": "1"}),
    "transformer, malloc that keeps what is freed": ("transformer", [], MALLOC),
    "lstm": ("lstm", [], {}),
    "lstm, two processes with a thread each": ("lstm", TWO, {"OMP_NUM_THREADS": "1"}),
    "lstm, malloc that keeps what is freed": ("lstm", [], MALLOC),
}


def small(name: str, jobs: Idea, windows: int) -> list[list[str]]:
    found = in_turns(jobs, windows)
    symbols = {job: work.symbols if isinstance(work, PerSymbol) else 1 for job, work in jobs.items()}
    each = {job: middle(figures) / symbols[job] for job, figures in found.items()}
    before = next(iter(each.values()))
    record("ideas", idea=name, seconds=each, ratio={job: before / each[job] for job in each})
    return [[job, f"{each[job] * 1e3:.3g}", f"{before / each[job]:.2f}", f"{spread(found[job]):.0%}"] for job in each]


def runs(options: argparse.Namespace) -> list[list[str]]:
    """Whole runs, in turns; target tokens a second beside the plain run of the same model."""
    found: dict[str, list[float]] = {name: [] for name in RUNS}
    for _ in range(options.rounds):
        for name, (model, launcher, environment) in RUNS.items():
            settings = [*SHARED, *SETTINGS[model], "train.precision=float32"]
            run = corpus.BENCH / "ideas"
            figures = weft_train(multi30k(options.data), settings, options.seconds, run, environment, launcher)
            if figures is not None:
                found[name].append(middle(figures["windows"]))
    each = {name: middle(figures) for name, figures in found.items() if figures}
    ratio = {name: each[name] / each[RUNS[name][0]] for name in each}
    record("ideas", idea="runs", tokens_per_second=found, ratio=ratio)
    return [[name, f"{each[name]:,.0f}", f"{ratio[name]:.2f}", f"{spread(found[name]):.0%}"] for name in each]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=corpus.Path, default=corpus.data_folder())
    parser.add_argument("--windows", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=3, help="of whole runs; 0: none")
    parser.add_argument("--seconds", type=float, default=30, help="of a whole run")
    parser.add_argument("--only", action="append", choices=[*IDEAS, *WITH_DATA, "runs"])
    options = parser.parse_args()
    asked = options.only or [*IDEAS, *WITH_DATA, "runs"]
    torch.manual_seed(1)
    rows = []
    for name in (n for n in asked if n != "runs"):
        rows += small(name, IDEAS[name]() if name in IDEAS else WITH_DATA[name](options), options.windows)
    if rows:
        table(["", "ms (batches: ms a symbol)", "times as fast", "spread"], rows)
    if "runs" in asked and options.rounds:
        print(flush=True)
        table(["`weft train`", "target tokens/s", "times as fast", "spread"], runs(options))


if __name__ == "__main__":
    main()
