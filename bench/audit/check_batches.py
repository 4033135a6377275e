"""The same lines are predicted in batches of different sizes: no prediction depends on its batch-mates."""

from __future__ import annotations

import random
from pathlib import Path

from ground import Ground, made_ground
from runner import FellShort

TITLE = "lines predicted in batches of 1, 3 and 64: the same outputs"
SAMPLE, FULL = 20, 60
SECONDS, MEGABYTES = 300.0, 4096
CLOSE = 1e-4  # of scores: the order in which a product is summed up depends on the size of a batch
SEARCHES = ({"kind": "greedy"}, {"kind": "beam", "width": 4}, {"kind": "sample", "seed": 3})


def prepare(work: Path) -> Ground:
    return made_ground(work)


def attempt(ground: Ground, number: int, folder: Path) -> str:
    import weft

    draw = random.Random(number)
    run = weft.load(draw.choice([ground.plain, ground.transformer, ground.members]))
    search = draw.choice(SEARCHES)
    nbest = 1 if search["kind"] == "greedy" else draw.choice([1, 3])
    lines = ["".join(draw.choices("abcdefgh", k=draw.randint(1, 30))) for _ in range(draw.randint(2, 40))]
    plan = run.predictor.plan(run.search(search), nbest)
    pairs = [weft.Pair(line, "") for line in lines]
    what = f"{run.path.name} {search} nbest {nbest}, {len(lines)} lines"
    first, *others = (run.predictor.predict(pairs, plan, batch_lines=size) for size in (1, 3, 64))
    for other in others:
        for alone, together in zip(first, other, strict=True):
            outputs = list(zip(alone.outputs, together.outputs, strict=True))
            if any(a.text != b.text or abs(a.score - b.score) > CLOSE for a, b in outputs):
                raise FellShort(f"{what}\n{alone.source}: {alone.outputs} ≠ {together.outputs}")
    return what
