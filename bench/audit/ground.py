"""The runs that the checks of the audit start from: small ones, trained in seconds, one of each kind that matters."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

SMALL = {"encoder.width": 32, "decoder.width": 32, "embed.width": 32, "train.evaluations": 3, "train.batch_tokens": 256}
TRANSFORMER = {
    **SMALL,
    **{
        f"{side}.{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("kind", "transformer"), ("layers", 1))
    },
}


@dataclass(frozen=True)
class Ground:
    """Good runs, and their pairs."""

    pairs: Path
    cache: Path
    plain: Path
    transformer: Path  # exported
    members: Path


def write_pairs(path: Path, count: int = 200) -> Path:
    draw = random.Random(1)
    words = sorted({"".join(draw.choices("abcdefgh", k=draw.randint(3, 8))) for _ in range(count)})
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words), encoding="utf-8")
    return path


def made_ground(work: Path) -> Ground:
    """Train the runs, in a cache of their own; the process is warm afterwards."""
    import torch

    import weft
    from weft.export import ctranslate2
    from weft.runs.report import Quiet

    torch.set_num_threads(1)
    os.environ["WEFT_CACHE"] = str(work / "cache")
    pairs = write_pairs(work / "pairs.tsv")
    ground = Ground(pairs, work / "cache", work / "plain", work / "transformer", work / "members")
    weft.train(pairs, out=ground.plain, steps=12, settings=SMALL, reporter=Quiet())
    run = weft.train(pairs, out=ground.transformer, steps=12, settings=TRANSFORMER, reporter=Quiet())
    ctranslate2.export(run.predictor, run.path, run.path / "ctranslate2")
    members = {**SMALL, "train.members": 2, "train.side_by_side": 1}
    weft.train(pairs, out=ground.members, steps=12, settings=members, reporter=Quiet())
    return ground
