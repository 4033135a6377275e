"""Facts about the tokens of a tokeniser: which end a sentence, which are forms of one word, how they are written."""

from __future__ import annotations

import re

from weft.core.facts import TokenFacts
from weft.core.pair import SPECIALS
from weft.data.text.porter import porter
from weft.data.text.tokeniser import Tokeniser

_END = re.compile(r"[.!?。！？]+[\"')\]»”’]*\s*$|\n\s*$")
_WORD = re.compile(r"\w+")


def token_facts(tokeniser: Tokeniser) -> TokenFacts:
    """Return the facts about all tokens; special ones and marks have none."""
    marks = len(SPECIALS) + len(tokeniser.marks)
    texts = ["" if place < marks else name for place, name in enumerate(tokeniser.names)]
    numbers: dict[str, int] = {}
    families = []
    for text in texts:
        word = _WORD.search(text.lower())
        families.append(numbers.setdefault(porter(word[0]), len(numbers)) if word else -1)
    return TokenFacts(
        tuple(bool(_END.search(text)) for text in texts),
        tuple(families),
        tuple(_looks(text, tokeniser.kind) for text in texts),
    )


def _looks(text: str, kind: str) -> tuple[float, ...]:
    word = text.strip()
    begins = text != word or kind == "words"
    facts = begins, word[:1].isupper(), len(word) > 1 and word.isupper(), word[:1].isdigit(), not word[:1].isalnum()
    return tuple(float(fact) for fact in facts)
