"""What is known of tokens before anything is learned. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenFacts:
    """Facts about each token, in the order of their ids."""

    ends: tuple[bool, ...]  # whether it ends a sentence
    families: tuple[int, ...]  # the same number for words with the same stem; −1 for what is no word
    looks: tuple[tuple[float, ...], ...]  # how it is written: begins a word, with a capital, has digits, is no word
