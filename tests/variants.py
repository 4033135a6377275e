"""Models of every kind for the contract: tables of choices, and few models in which every two choices meet."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

from weft.core.errors import UserError
from weft.nn.assemble import BRIDGES, CELLS, JOINS, POSITIONS, PROJECTIONS, SCORES, WEIGHERS
from weft.settings import Layer, compose, put

Choices = Mapping[str, Sequence[Any]]
Row = dict[str, Any]

RECURRENT_LAYERS = {
    "1": {"layers": 1},
    "2": {"layers": 2},
    "norm": {"layers": 1, "layer_norm": True},
    "residual": {"layers": 2, "residual": True},
    "all": {"layers": 2, "residual": True, "layer_norm": True, "variational": True},
}
ADDED = [name for name, scheme in POSITIONS.items() if not scheme.in_attention]

RECURRENT: Choices = {
    "cell": list(CELLS),
    "score": ["none", *SCORES],
    "weigh": list(WEIGHERS),
    "directions": ["forward", "both"],
    "reverse": [False, True],
    "encoder layers": list(RECURRENT_LAYERS),
    "decoder layers": list(RECURRENT_LAYERS),
    "project": list(PROJECTIONS),
    "heads": [1, 2],
    "query": ["after", "before"],
    "feed": [True, False],
    "location_aware": [False, True],
    "join": list(JOINS),
    "bridge": list(BRIDGES),
    "give": ["first", "every", "none"],
    "positions": ADDED,
    "head": ["tied", "untied", "copy"],
    "shared": [False, True],
}
TRANSFORMER: Choices = {
    "positions": list(POSITIONS),
    "score": list(SCORES),
    "weigh": [name for name in WEIGHERS if name != "exact"],
    "norm": ["pre", "post"],
    "layers": [1, 2],
    "heads": [1, 2, 4],
    "head": ["tied", "untied", "copy"],
    "shared": [False, True],
    "width": [16, 24],
}
MIXED: Choices = {
    "encoder": ["recurrent", "transformer"],
    "cell": ["elman", "lstm", "gru", "mut1"],
    "positions": list(POSITIONS),
    "bridge": list(BRIDGES),
    "score": ["additive", "rbf"],
    "norm": ["pre", "post"],
    "head": ["tied", "copy"],
}
ALONE: Choices = {
    "encoder": ["recurrent", "transformer"],
    "cell": ["elman", "lstm", "gru", "mut1"],
    "positions": list(POSITIONS),
    "directions": ["forward", "both"],
    "head": ["tied", "untied"],
}


def fits(tree: Layer) -> bool:
    try:
        compose(("flag", tree))
    except UserError:
        return False
    return True


def layer(**more: Any) -> Layer:
    """A small recurrent model, with some dotted keys (dots written as __) changed."""
    part = {"kind": "recurrent", "width": 16}
    tree: Layer = {"embed": {"width": 16}, "encoder": dict(part), "decoder": dict(part), "train": {"dropout": 0.3}}
    for key, value in more.items():
        name, _, rest = key.partition("__")
        put(tree, f"{name}.{rest.replace('__', '.')}" if rest else name, value)
    return tree


def transformer(**more: Any) -> Layer:
    return {"kind": "transformer", "width": 16, "layers": 1, "heads": 2, "inner": 24, **more}


def head(row: Row) -> Layer:
    return {"kind": "copy" if row["head"] == "copy" else "tokens", "tied": row["head"] != "untied"}


def recurrent_tree(row: Row) -> Layer:
    encoder = {
        "kind": "recurrent",
        "cell": row["cell"],
        "width": 16,
        "directions": row["directions"],
        "reverse": row["reverse"],
        **RECURRENT_LAYERS[row["encoder layers"]],
    }
    names = ("score", "weigh", "project", "heads", "query", "feed", "location_aware", "join")
    look = {name: row[name] for name in names} if row["score"] != "none" else {"score": "none", "feed": row["feed"]}
    decoder = {"kind": "recurrent", "cell": row["cell"], "width": 16, "attention": look}
    return layer(
        encoder=encoder,
        decoder={**decoder, **RECURRENT_LAYERS[row["decoder layers"]]},
        bridge={"kind": row["bridge"], "give": row["give"]},
        embed__positions=row["positions"],
        embed__shared=row["shared"],
        head=head(row),
    )


def transformer_tree(row: Row) -> Layer:
    look = {"score": row["score"], "weigh": row["weigh"]}
    part = transformer(layers=row["layers"], heads=row["heads"], norm=row["norm"], attention=look)
    return layer(
        encoder=part,
        decoder={**part, "width": row["width"]},
        embed__positions=row["positions"],
        embed__shared=row["shared"],
        head=head(row),
    )


def _side(row: Row, kind: str) -> Layer:
    if kind == "transformer":
        return transformer(norm=row.get("norm", "pre"))
    return {"kind": "recurrent", "cell": row["cell"], "width": 16}


def mixed_tree(row: Row) -> Layer:
    """One side of each family."""
    other = "recurrent" if row["encoder"] == "transformer" else "transformer"
    tree = layer(encoder=_side(row, row["encoder"]), decoder=_side(row, other), embed__positions=row["positions"])
    if other == "recurrent":
        tree["decoder"]["attention"] = {"score": row["score"]}
        tree["bridge"] = {"kind": row["bridge"]}
    tree["head"] = head(row)
    return tree


def alone_tree(row: Row) -> Layer:
    """An encoder alone, for CTC."""
    part = _side(row, row["encoder"])
    if row["encoder"] == "recurrent":
        part["directions"] = row["directions"]
    tree = layer(encoder=part, embed__positions=row["positions"], head={"kind": "ctc", "tied": row["head"] == "tied"})
    del tree["decoder"]
    return tree


def pairwise(prefix: str, choices: Choices, tree: Any, seed: int = 1) -> dict[str, Layer]:
    """Few rows in which every two choices that go together meet: the best of some random rows, again and again."""
    rng = random.Random(seed)
    names = list(choices)
    open_ = {(a, x, b, y) for a, b in combinations(names, 2) for x, y in product(choices[a], choices[b])}
    made: dict[str, Layer] = {}
    while open_:
        wanted = min(open_, key=lambda pair: tuple(str(p) for p in pair))
        rows = [_row(choices, wanted, rng) for _ in range(30)]
        rows = [row for row in rows if fits(tree(row))]
        if not rows:
            open_.discard(wanted)  # these two do not go together
            continue
        best = max(rows, key=lambda row: len(_pairs(row) & open_))
        open_ -= _pairs(best)
        told = [str(best[name]) for name in names[:3]]
        made["-".join([prefix, f"{len(made):03}", *told])] = tree(best)
    return made


def _row(choices: Choices, wanted: tuple[str, Any, str, Any], rng: random.Random) -> Row:
    row = {name: rng.choice(values) for name, values in choices.items()}
    row.update({wanted[0]: wanted[1], wanted[2]: wanted[3]})
    return row


def _pairs(row: Row) -> set[tuple[str, Any, str, Any]]:
    return {(a, row[a], b, row[b]) for a, b in combinations(row, 2)}


def widths() -> dict[str, Layer]:
    """Three different widths, so that every projection between them is there."""
    made = {}
    parts = {"recurrent": {"kind": "recurrent"}, "transformer": transformer()}
    for encoder, decoder, tied in product(parts, parts, (False, True)):
        tree = layer(
            encoder={**parts[encoder], "width": 20},
            decoder={**parts[decoder], "width": 24},
            embed__width=18,
            embed__positions="sinusoid",
            head__tied=tied,
        )
        made[f"widths-{encoder}-to-{decoder}-{'tied' if tied else 'untied'}"] = tree
    return made


STEPPING: dict[str, Layer] = {
    **pairwise("recurrent", RECURRENT, recurrent_tree),
    **pairwise("transformer", TRANSFORMER, transformer_tree),
    **pairwise("mixed", MIXED, mixed_tree),
    **widths(),
    "prompted": layer(data={"tag": 3, "tag_at": "decoder"}),
}
CTC = pairwise("ctc", ALONE, alone_tree)
