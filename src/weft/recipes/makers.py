"""Pairs for the recipes, drawn by a seeded random generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import groupby, islice, pairwise

from weft.core.pair import Pair

Draw = Callable[[random.Random], Pair]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ONSETS, VOWELS, CODAS = (
    ["b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "sh", "th", "br", "st"],
    ["a", "e", "i", "o", "u"],
    ["n", "r", "s", "t", "l", "m"],
)


def distinct(draw: Draw, count: int, seed: int, avoid: frozenset[str] = frozenset()) -> list[Pair]:
    """Return `count` pairs with different sources (and tags), none of them in `avoid`."""
    return list(islice(_fresh(draw, random.Random(seed), avoid), count))


def _fresh(draw: Draw, rng: random.Random, avoid: frozenset[str]) -> Iterator[Pair]:
    seen = set(avoid)
    while True:
        pair = draw(rng)
        if key(pair) not in seen:
            seen.add(key(pair))
            yield pair


def key(pair: Pair) -> str:
    return f"{pair.tag}\t{pair.source}"


def word(rng: random.Random) -> str:
    """Return a word of one to three syllables, no letter twice in a row."""
    while True:
        letters = "".join(
            rng.choice(ONSETS) + rng.choice(VOWELS) + (rng.choice(CODAS) if rng.random() < 0.4 else "")
            for _ in range(rng.randint(1, 3))
        )
        if all(a != b for a, b in pairwise(letters)):
            return letters


def sentence(rng: random.Random, shortest: int, longest: int) -> str:
    """Return words of a total length drawn between the two."""
    length, words = rng.randint(shortest, longest), [word(rng)]
    while len(" ".join(words)) < length:
        words.append(word(rng))
    return " ".join(words)[:length].strip()


def cased(shortest: int, longest: int) -> Draw:
    """Draw a sentence with random capitals, and a prompt: write it in upper or in lower case."""

    def draw(rng: random.Random) -> Pair:
        mixed = "".join(c.upper() if rng.random() < 0.3 else c for c in sentence(rng, shortest, longest))
        up = rng.random() < 0.5
        return Pair(mixed, mixed.upper() if up else mixed.lower(), tag="U" if up else "L")

    return draw


def cased_in_step(shortest: int, longest: int) -> Draw:
    """Draw the same with characters as words: the prompt first, `_` for a space, and a label for each."""

    def draw(rng: random.Random) -> Pair:
        pair = cased(shortest, longest)(rng)
        source, target = (" ".join(text.replace(" ", "_")) for text in (pair.source, pair.target))
        return Pair(f"<{pair.tag}> {source}", f"<{pair.tag}> {target}")

    return draw


def spaced(shortest: int, longest: int, blank: str = "", doubled: float = 0.0) -> Draw:
    """Draw a sentence; the target has `blank` in place of each space. `doubled`: how many letters are written twice."""

    def draw(rng: random.Random) -> Pair:
        text = sentence(rng, shortest, longest)
        if doubled:
            twice = (c * 2 if c != " " and rng.random() < doubled else c for c in text)
            text = "".join(twice)[:longest].strip()
        return Pair(text, text.replace(" ", blank))

    return draw


def symbols(shortest: int, longest: int, change: Callable[[str], str]) -> Draw:
    """Draw a string of letters; the target is what `change` makes of it."""

    def draw(rng: random.Random) -> Pair:
        text = "".join(rng.choice(LETTERS) for _ in range(rng.randint(shortest, longest)))
        return Pair(text, change(text))

    return draw


def arithmetic(rng: random.Random) -> Pair:
    """Draw a sum or difference of two numbers of up to 8 digits, with distracting letters between (Jozefowicz 2015)."""
    first, second = (rng.choice((-1, 1)) * rng.randrange(10 ** rng.randint(1, 8)) for _ in range(2))
    plus = rng.random() < 0.5
    task = f"{first}{'+' if plus else '-'}{second}"
    letters = "".join(c + "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 2))) for c in task)
    return Pair(f"{letters}=", f"{first + second if plus else first - second}.")


def xml(rng: random.Random) -> Pair:
    """Draw nested tags of 2–10 letters; the source is their first half, the target the second (Jozefowicz 2015)."""
    while True:
        text = _tags(rng)
        if 12 <= len(text) <= 240:
            middle = len(text) // 2
            return Pair(text[:middle], text[middle:])


def _tags(rng: random.Random) -> str:
    """Draw tags: with probability ½, or after 50 steps, close the innermost open tag (or end), else open another."""
    open_: list[str] = []
    tags: list[str] = []
    for step in range(200):
        if rng.random() < 0.5 or step >= 50:
            if not open_:
                break
            tags.append(f"</{open_.pop()}>")
        else:
            open_.append("".join(rng.choice(LETTERS) for _ in range(rng.randint(2, 10))))
            tags.append(f"<{open_[-1]}>")
    return "".join(tags)


NOUNS = ["dog", "cat", "fox", "owl", "bear", "wolf", "goat", "duck", "crow", "hare", "mole", "toad", "swan", "lion"]
VERBS = ["sees", "hears", "bites", "helps", "finds", "leads", "calls", "fears"]
ADJECTIVES = ["old", "young", "quick", "slow", "tall", "small", "brave", "shy"]


def ordered(rng: random.Random) -> Pair:
    """Draw a sentence about who does what to whom: another order of the same words has another target."""
    who, whom = rng.sample(NOUNS, 2)
    first, second = rng.sample(ADJECTIVES, 2)
    verb = rng.choice(VERBS)
    return Pair(f"the {first} {who} {verb} the {second} {whom}", f"{verb} ( {first} {who} , {second} {whom} )")


def spelled(shortest: int, longest: int) -> Draw:
    """Draw digits; the target is how they are read aloud: long outputs, in which an early error has consequences.

    Runs of the same digit are counted: `77720` is `three seven two zero`.
    """
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]

    def draw(rng: random.Random) -> Pair:
        digits = "".join(rng.choice("0123456789") * rng.choice((1, 1, 2, 3)) for _ in range(longest))
        digits = digits[: rng.randint(shortest, longest)]
        return Pair(digits, " ".join(_runs(digits, names)))

    return draw


def _runs(digits: str, names: list[str]) -> Iterator[str]:
    for digit, run in groupby(digits):
        left = len(list(run))
        while left:
            count = min(left, 9)  # a longer run is read in parts
            left -= count
            yield f"{names[count]} {names[int(digit)]}" if count > 1 else names[int(digit)]
