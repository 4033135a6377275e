"""From attention weights to word alignments, and how much they agree with an order that is known."""

# T target length · S source length

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.look.inspect.plots import Array

Links = frozenset[tuple[int, int]]  # (source, target) positions
NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def forward_links(weights: Array) -> Links:
    """Link each target position to the source position with the largest weight (T, S)."""
    return frozenset((int(row.argmax()), t) for t, row in enumerate(weights))


def backward_links(weights: Array) -> Links:
    """Link each source position to the target position that gives it the largest weight."""
    return frozenset((s, int(column.argmax())) for s, column in enumerate(weights.T))


def symmetrised(forward: Links, backward: Links) -> Links:
    """Grow the intersection by neighbours of the union, then add links of words that have none (Koehn 2005).

    This is grow-diag-final-and.
    """
    union = forward | backward
    links = set(forward & backward)
    growing = True
    while growing:
        free = [link for link in sorted(union - links) if _touches(link, links) and _has_free_end(link, links)]
        growing = bool(free)
        links.update(free[:1])
    for link in sorted(forward) + sorted(backward):
        if all(link[side] not in {other[side] for other in links} for side in (0, 1)):
            links.add(link)
    return frozenset(links)


def _touches(link: tuple[int, int], links: set[tuple[int, int]]) -> bool:
    return any((link[0] + ds, link[1] + dt) in links for ds, dt in NEIGHBOURS)


def _has_free_end(link: tuple[int, int], links: set[tuple[int, int]]) -> bool:
    return any(link[side] not in {other[side] for other in links} for side in (0, 1))


def pharaoh(links: Links) -> str:
    """Write links as `source-target` pairs, counted from 0."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links, key=lambda link: (link[1], link[0])))


def in_words(links: Links, source: Sequence[str], target: Sequence[str]) -> str:
    """Write links as text: each target symbol with what it is linked to; spaces around a subword are left out."""
    source, target = ([symbol.strip() or "␣" for symbol in symbols] for symbols in (source, target))
    each = [(word, [source[s] for s, linked in sorted(links) if linked == t]) for t, word in enumerate(target)]
    return "  ".join(f"{word}←{'+'.join(words)}" if words else f"{word}←∅" for word, words in each)


def known_order(source: Sequence[str], target: Sequence[str]) -> tuple[str, list[int]] | None:
    """Return the source position of each target symbol, if the target is the source copied, reversed or sorted."""
    read, written = [s.casefold() for s in source], [t.casefold() for t in target]
    positions = list(range(len(read)))
    orders = {
        "copied": positions,
        "reversed": positions[::-1],
        "sorted": sorted(positions, key=lambda i: read[i]),
    }
    for name, order in orders.items():
        if len(read) > 1 and [read[i] for i in order] == written:
            return name, order
    return None


def agreement(weights: Array, order: Sequence[int], names: Sequence[str]) -> float:
    """Return the share of steps whose largest weight is at the known position, or at one of the same symbol."""
    best = weights[: len(order)].argmax(axis=1)
    return float(np.mean([names[b] == names[o] for b, o in zip(best, order, strict=True)]))
