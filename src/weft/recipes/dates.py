"""Generated pairs for the demo and for tests: dates as people write them in ten locales, and the same in ISO 8601.

The locale is the pair's tag, because 03/04/26 is the third of April or the fourth of March depending on it. Years run
from 1950 to 2049, so that two digits name one year; within a locale the order of day, month and year is fixed, so
that (tag, source) decides the target. White space is always the plain space, whatever the locale prints.

Limits: the words come from Babel, so another release of Babel (another CLDR) can make other rows from the same seed;
at most MOST rows, so that drawing distinct ones stays quick.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cache
from itertools import islice, product
from pathlib import Path

from weft.core.errors import UserError
from weft.core.pair import Pair

ORDERS = {
    "en_US": "Mdy",
    "en_GB": "dMy",
    "de": "dMy",
    "fr": "dMy",
    "es": "dMy",
    "pt_BR": "dMy",
    "pl": "dMy",
    "ru": "dMy",
    "fi": "dMy",
    "hu": "yMd",
}
"""The locales, and the order in which each writes a date in numbers."""

FIRST, LAST = date(1950, 1, 1).toordinal(), date(2049, 12, 31).toordinal()
MOST = 1_000_000


def dates(count: int, seed: int = 1) -> list[Pair]:
    """Return `count` distinct (tag, source) pairs; a longer list begins with the rows of a shorter one."""
    if not 0 <= count <= MOST:
        raise UserError(f"cannot make {count} dates", where="count", todo=f"ask for 0 to {MOST}")
    return list(islice(_distinct(_draws(random.Random(seed))), count))


def _draws(rng: random.Random) -> Iterator[Pair]:
    from babel.dates import format_date  # only this needs Babel

    names = tuple(ORDERS)
    while True:
        name = rng.choice(names)
        day = date.fromordinal(rng.randint(FIRST, LAST))
        pattern = rng.choice(rng.choice(_styles(name)))
        source = _recased(format_date(day, pattern, locale=name), rng)
        yield Pair(" ".join(source.split()), day.isoformat(), tag=name)


def _recased(text: str, rng: random.Random) -> str:
    """Return the text in lower or in upper case now and then, as people type it."""
    chance = rng.random()
    return text.lower() if chance < 0.1 else text.upper() if chance < 0.15 else text


def _distinct(pairs: Iterable[Pair]) -> Iterator[Pair]:
    seen: set[tuple[str, str]] = set()
    for pair in pairs:
        key = (pair.tag, pair.source)
        if key not in seen:
            seen.add(key)
            yield pair


@cache
def _styles(name: str) -> tuple[tuple[str, ...], ...]:
    """Return three groups of CLDR patterns, drawn equally often: standard ones, looser forms of them, and numbers."""
    from babel import Locale

    locale = Locale.parse(name)
    standard = [locale.date_formats[length].pattern for length in ("full", "long", "medium", "short")]
    standard += [locale.datetime_skeletons[fields].pattern for fields in ("yMMMEd", "yMEd")]
    return tuple(standard), _looser(standard[:2]), _numeric(ORDERS[name])


def _looser(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return patterns with short names, two-digit years and no punctuation: `EEEE, d. MMMM y` → `EEE d MMM yy`."""
    variants = []
    for pattern, brief, century, bare in product(patterns, (True, False), (True, False), (True, False)):
        text = pattern.replace("MMMM", "MMM").replace("EEEE", "EEE").replace("cccc", "ccc") if brief else pattern
        text = text if century else re.sub(r"\by\b", "yy", text)
        variants.append(re.sub(r"[.,]", "", text) if bare else text)
    return tuple(dict.fromkeys(variants))


def _numeric(order: str) -> tuple[str, ...]:
    """Return numeric patterns in the locale's order, padded or not, with two or four digits of the year; and ISO."""
    patterns = []
    for (day, month), year, mark in product((("d", "M"), ("dd", "MM")), ("y", "yy"), ".-/ "):
        fields = {"d": day, "M": month, "y": year}
        patterns.append(mark.join(fields[letter] for letter in order))
    return tuple(dict.fromkeys([*patterns, "y-MM-dd"]))


def split_by_target(pairs: Sequence[Pair], shares: tuple[float, float]) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Split into train, valid and test by the `shares` of the first two; pairs of the same target stay together.

    The part is a hash of the target alone, so it is the same in every process and for every list.
    """
    train, valid = shares
    if not (train >= 0 and valid >= 0 and train + valid <= 1):
        raise UserError(f"shares {shares} do not fit into 1", where="shares", todo="give shares that sum to 1 at most")
    parts: tuple[list[Pair], list[Pair], list[Pair]] = ([], [], [])
    for pair in pairs:
        position = _position(pair.target)
        parts[(position >= train) + (position >= train + valid)].append(pair)
    return parts


def _position(text: str) -> float:
    """Return a pseudo-random number in [0, 1) that depends on the text alone."""
    digest = hashlib.blake2b(text.encode(), digest_size=6).digest()  # 48 bits: exact in a float, never rounded up to 1
    return int.from_bytes(digest) / 2**48


def write_tsv(pairs: Iterable[Pair], path: Path) -> None:
    """Write source, target and, if any pair has a tag, the tag on each line, without a header."""
    pairs = list(pairs)
    tagged = any(pair.tag for pair in pairs)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number, pair in enumerate(pairs, start=1):
            columns = (pair.source, pair.target, *([pair.tag] if tagged else []))
            if any(mark in column for column in columns for mark in "\t\n\r"):
                raise UserError("a tab or line break cannot be written to TSV", f"{path}:{number}", "remove it")
            file.write("\t".join(columns) + "\n")
