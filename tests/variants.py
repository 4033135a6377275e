"""Models of every kind for the contract: tables of choices, and few models in which every two choices meet.

The rows of choices stand in `variants.jsonl`. `python tests/covering.py` makes that file again after a table changed;
`test_variants.py` fails as long as some two choices that go together do not meet in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

from weft.core.errors import UserError
from weft.nn.assemble import BRIDGES, CELLS, JOINS, POOLS, POSITIONS, PROJECTIONS, SCORES, WEIGHERS
from weft.settings import Layer, compose, put

Choices = Mapping[str, Sequence[Any]]
Row = dict[str, Any]
Choice = tuple[str, Any]
ROWS = Path(__file__).with_name("variants.jsonl")

STATE_OF = {name: ", ".join("hc"[: len(cell(1, 1).start(1))]) for name, cell in CELLS.items()}
STATES = list(dict.fromkeys(STATE_OF.values()))

RECURRENT_LAYERS = {
    "1": {"layers": 1},
    "2": {"layers": 2},
    "norm": {"layers": 1, "layer_norm": True},
    "residual": {"layers": 2, "residual": True},
    "all": {"layers": 2, "residual": True, "layer_norm": True, "variational": True},
}
OF_ATTENTION = ("weigh", "project", "heads", "query", "location_aware", "join")
ADDED = [name for name, scheme in POSITIONS.items() if not scheme.in_attention]

RECURRENT: Choices = {
    "state": STATES,
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
    "handed": ["whole", "hidden"],
    "noise": [0.0, 0.1],
    "positions": ADDED,
    "head": ["tied", "untied", "copy"],
    "shared": [False, True],
}
TRANSFORMER: Choices = {
    "positions": list(POSITIONS),
    "per_layer": [True, False],
    "noise": [0.0, 0.1],
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
    "state": STATES,
    "positions": list(POSITIONS),
    "bridge": list(BRIDGES),
    "score": ["additive", "rbf"],
    "norm": ["pre", "post"],
    "head": ["tied", "copy"],
}
ALONE: Choices = {
    "encoder": ["recurrent", "transformer"],
    "state": STATES,
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
        "noise": row.get("noise", 0.0),
        **RECURRENT_LAYERS[row["encoder layers"]],
    }
    look = {name: row[name] for name in ("score", "feed", *OF_ATTENTION) if name in row}
    decoder = {"kind": "recurrent", "cell": row["cell"], "width": 16, "attention": look}
    return layer(
        encoder=encoder,
        decoder={**decoder, **RECURRENT_LAYERS[row["decoder layers"]]},
        bridge={"kind": row["bridge"], "give": row["give"], "state": row.get("handed", "whole")},
        embed__positions=row["positions"],
        embed__shared=row["shared"],
        head=head(row),
    )


def transformer_tree(row: Row) -> Layer:
    look = {"score": row["score"], "weigh": row["weigh"]}
    part = transformer(layers=row["layers"], heads=row["heads"], norm=row["norm"], attention=look)
    return layer(
        encoder={**part, "noise": row.get("noise", 0.0)},
        decoder={**part, "width": row["width"]},
        embed__per_layer=row.get("per_layer", True),
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
    if "directions" in row:
        part["directions"] = row["directions"]
    tree = layer(encoder=part, embed__positions=row["positions"], head={"kind": "ctc", "tied": row["head"] == "tied"})
    del tree["decoder"]
    return tree


class Family(NamedTuple):
    choices: Choices
    tree: Callable[[Row], Layer]
    unused: dict[Choice, tuple[str, ...]]
    """With this choice, the settings that mean nothing."""


FAMILIES = {
    "recurrent": Family(RECURRENT, recurrent_tree, {("score", "none"): OF_ATTENTION}),
    "transformer": Family(TRANSFORMER, transformer_tree, {}),
    "mixed": Family(MIXED, mixed_tree, {("encoder", "recurrent"): ("bridge", "score")}),
    "ctc": Family(ALONE, alone_tree, {("encoder", "transformer"): ("cell", "directions")}),
}


def choices_in(row: Row) -> list[Choice]:
    """The choices of a row; of its cell, what counts is the state."""
    return [("state", STATE_OF[value]) if name == "cell" else (name, value) for name, value in row.items()]


def pairs_in(row: Row) -> set[frozenset[Choice]]:
    return {frozenset(pair) for pair in combinations(choices_in(row), 2)}


def read_rows() -> dict[str, dict[str, Row]]:
    """The rows of every family, by the names of their variants."""
    rows: dict[str, dict[str, Row]] = {family: {} for family in FAMILIES}
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        family = row.pop("family")
        rows[family]["-".join([family, f"{len(rows[family]):03}", *map(str, list(row.values())[:3])])] = row
    return rows


def sample() -> list[str]:
    """Names of few variants in which every choice of every family occurs, and every cell in some family."""
    choices = {
        name: {(family, *choice) for choice in choices_in(row)} | {("any", "cell", row.get("cell"))}
        for family, rows in read_rows().items()
        for name, row in rows.items()
    }
    missing, names = set[tuple[Any, ...]]().union(*choices.values()), []
    while missing:
        names.append(max(choices, key=lambda name: len(missing & choices[name])))
        missing -= choices[names[-1]]
    return names


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


TREES = {
    family: {name: FAMILIES[family].tree(row) for name, row in rows.items()} for family, rows in read_rows().items()
}
STEPPING: dict[str, Layer] = {
    **TREES["recurrent"],
    **TREES["transformer"],
    **TREES["mixed"],
    **widths(),
    "prompted": layer(data={"tag": 3, "tag_at": "decoder"}),
    "no-encoder-to-recurrent": layer(encoder={"kind": "none", "width": 16}, embed__positions="sinusoid"),
    "no-encoder-to-transformer": layer(
        encoder={"kind": "none", "width": 20}, decoder=transformer(), embed__positions="rotary"
    ),
}
CTC = TREES["ctc"]
ENCODERS: dict[str, Layer] = {
    "recurrent": {"kind": "recurrent", "width": 16, "cell": "gru"},
    "transformer": transformer(),
    "none": {"kind": "none", "width": 16},
}
SIMPLE: Layer = {"embed": {"width": 12, "positions": "sinusoid"}, "train": {"dropout": 0.3}}
DECODERS: dict[str, Layer] = {
    "recurrent": {"kind": "recurrent", "width": 16, "cell": "gru"},
    "variational": {"kind": "recurrent", "width": 16, "cell": "lstm", "layers": 2, "variational": True},
    "transformer": transformer(),
}
NUMBERS: dict[str, Layer] = {
    f"{objective}-{encoder}-to-{decoder}-{context}": {
        **SIMPLE,
        "data": {"context": None if context == "alone" else 3},
        "source": {"kind": "numbers"},
        "target": {"kind": "numbers"},
        "context": {} if context == "alone" else {"kind": "numbers", "use": context},
        "objective": {"kind": objective, **({"components": 3} if objective == "mixture" else {})},
        "numbers": {"stop": "learned" if objective == "gaussian" else "fixed", "differences": objective == "distance"},
        "feeding": {"kind": "none" if objective == "distance" else "teacher"},
        "encoder": ENCODERS[encoder],
        "decoder": DECODERS[decoder],
    }
    for (objective, context), (encoder, decoder) in product(
        [
            ("squared", "step"),
            ("gaussian", "attend"),
            ("mixture", "alone"),
            ("squared", "alone"),
            ("mixture", "step"),
            ("distance", "alone"),
        ],
        [("recurrent", "variational"), ("transformer", "transformer"), ("none", "recurrent")],
    )
}
NOTES: dict[str, Layer] = {
    f"notes-{encoder}-to-{decoder}-{context}": {
        **SIMPLE,
        "data": {"context": None if context == "alone" else 3},
        "source": {"kind": "notes"},
        "target": {"kind": "notes"},
        "context": {} if context == "alone" else {"kind": "notes", "use": context},
        "numbers": {"stop": "learned" if context == "attend" else "fixed"},
        "encoder": ENCODERS[encoder],
        "decoder": DECODERS[decoder],
    }
    for encoder, decoder, context in [
        ("recurrent", "variational", "alone"),
        ("transformer", "transformer", "attend"),
        ("none", "recurrent", "step"),
    ]
}
LABELS: dict[str, Layer] = {
    **{
        f"classify-{encoder}-{pool}": {**SIMPLE, "task": "classify", "encoder": part, "pool": {"kind": pool}}
        for (encoder, part), pool in product(ENCODERS.items(), POOLS)
    },
    **{f"tag-{encoder}": {**SIMPLE, "task": "classify-tokens", "encoder": part} for encoder, part in ENCODERS.items()},
}
ANSWERS: dict[str, Layer] = {
    **{
        f"answer-{encoder}-{use}": {**SIMPLE, "task": "answer", "encoder": part, "context": {"use": use}}
        for (encoder, part), use in product(ENCODERS.items(), ("flow", "joint"))
    },
    "answer-lexical": {**SIMPLE, "task": "answer", "context": {"use": "flow", "lexical": True}},
    "answer-sentence": {**SIMPLE, "task": "answer", "answer": {"unit": "sentence"}},
}
HOPS: Layer = {
    **{"task": "classify", "data": {"context": "question"}, "encoder": {"kind": "none", "width": 16}},
    **{"embed": {"width": 16}, "context": {"kind": "text", "use": "hops", "shared": True, "hops": 2}},
    **{"train": {"dropout": 0.0}, "source": {"tokens": "words"}},
}
RESTORED: dict[str, Layer] = {
    **{
        f"masked-{encoder}-{'tied' if tied else 'untied'}": {
            **SIMPLE,
            "task": "masked-lm",
            "encoder": part,
            "head": {"tied": tied},
        }
        for (encoder, part), tied in product(ENCODERS.items(), (True, False))
        if encoder != "none"
    },
    **{
        f"denoise-{encoder}-to-{decoder}-{head}": {
            **SIMPLE,
            "task": "denoise",
            "encoder": ENCODERS[encoder],
            "decoder": DECODERS[decoder],
            "head": {"kind": head},
        }
        for encoder, decoder, head in [
            ("recurrent", "variational", "tokens"),
            ("transformer", "transformer", "copy"),
            ("transformer", "recurrent", "tokens"),
        ]
    },
}
TOWERS: dict[str, Layer] = {
    f"retrieve-{encoder}-{pool}-{'shared' if shared else 'own'}": {
        **{**SIMPLE, "task": "retrieve", "encoder": part, "pool": {"kind": pool}, "retrieve": {"shared": shared}}
    }
    for ((encoder, part), pool), shared in zip(
        product([*ENCODERS.items(), ("none", {"kind": "none", "width": 16})], POOLS), [True, False] * 20
    )
}
