"""Make `variants.jsonl`, the rows of choices for the contract: run `python tests/covering.py` after a table changed."""

from __future__ import annotations

import json
import random
from itertools import combinations, cycle, product

from variants import FAMILIES, ROWS, STATE_OF, STATES, Choice, Family, Row, fits, pairs_in
from weft.nn.assemble import CELLS

CANDIDATES = 30  # random rows with the same two choices, of which the best is taken
ATTEMPTS = 1000  # if none of so many fits, the two do not go together


def all_pairs(family: Family) -> set[frozenset[Choice]]:
    """Every two choices of two settings of a family."""
    settings = [[(name, value) for value in values] for name, values in family.choices.items()]
    return {frozenset(pair) for a, b in combinations(settings, 2) for pair in product(a, b)}


def random_row(pair: frozenset[Choice], family: Family, rng: random.Random) -> Row:
    row = {name: rng.choice(values) for name, values in family.choices.items()} | dict(pair)
    if "state" in row:
        state = row.pop("state")
        row = {"cell": next(cell for cell in CELLS if STATE_OF[cell] == state), **row}
    unused = {name for choice, names in family.unused.items() if choice in row.items() for name in names}
    return {name: value for name, value in row.items() if name not in unused}


def rows_with(pair: frozenset[Choice], family: Family, rng: random.Random, attempts: int) -> list[Row]:
    """Random rows with these two choices, as far as they describe a possible model in which both have an effect."""
    rows = [random_row(pair, family, rng) for _ in range(attempts)]
    return [row for row in rows if pair in pairs_in(row) and fits(family.tree(row))]


def cover(family: Family, seed: int = 1) -> list[Row]:
    """Few rows in which every two choices that go together meet: the best of some random rows, again and again.

    The cells that have the same kind of state take turns.
    """
    rng, missing, rows = random.Random(seed), all_pairs(family), []
    turns = {state: cycle([cell for cell in CELLS if STATE_OF[cell] == state]) for state in STATES}
    while missing:
        pair = min(missing, key=lambda pair: sorted(map(str, pair)))
        possible = rows_with(pair, family, rng, CANDIDATES) or rows_with(pair, family, rng, ATTEMPTS)
        if not possible:
            missing.discard(pair)
            continue
        best = max(possible, key=lambda row: len(pairs_in(row) & missing))
        missing -= pairs_in(best)
        if "cell" in best:
            best["cell"] = next(turns[STATE_OF[best["cell"]]])
        rows.append(best)
    return rows


def main() -> None:
    rows = [{"family": name, **row} for name, family in FAMILIES.items() for row in cover(family)]
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} rows written to {ROWS}")


if __name__ == "__main__":
    main()
