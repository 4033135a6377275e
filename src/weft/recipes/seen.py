"""What the models of a comparison read and wrote, and where they looked: the pictures that their runs have drawn."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.compare.compare import Compared


def as_seen(compared: Compared) -> list[str]:
    """Return pictures of what each variant read and wrote, and of where it looked, if its run has drawn them."""
    from weft.compare.results import ComparisonFolder  # torch, which `weft recipe list` does not need
    from weft.compare.variants import folder_name
    from weft.runs.folder import SEEN

    labels = {each.name: each.label for each in compared.plan.combinations}
    lines = []
    for result in (result for result in compared.results if result.valid and result.seed == 1):
        drawn = ComparisonFolder(compared.path).run(result.cell, result.seed).path / SEEN
        if drawn.exists():
            label = labels[result.cell]
            name = f"seen-{folder_name(label)}.png"
            shutil.copyfile(drawn, compared.path / name)
            lines += [f"What the variant *{label}* reads and writes:", ""]
            lines += [f"![what {label} reads and writes]({compared.path.name}/{name})", ""]
    return lines
