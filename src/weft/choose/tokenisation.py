"""How each side is tokenised, and how large its vocabulary is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.choose.choices import Choices, uses_ctc
from weft.choose.numbers import NUMBERS
from weft.choose.sides import is_composed, is_label, is_spaced_letters, is_symbol_list, is_text, is_unspaced, parts_of
from weft.data.sides.text import SideSurvey
from weft.data.survey import Survey
from weft.data.text.tokens import SUBWORDS
from weft.spec import SPELLED


def tokenise_each(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> list[str]:
    """Choose how each side is tokenised by its own statistics; return the kinds of source and target."""
    both = {"source": survey.source, "target": survey.target}
    return [_tokenise(choices, name, side, survey.pairs, given) for name, side in both.items()]


def _tokenise(choices: Choices, name: str, side: SideSurvey, pairs: int, given: Mapping[str, Any]) -> str:
    if kind := given.get(name, {}).get("tokens"):
        return str(kind)
    written, ctc = name == "target", uses_ctc(given)
    if is_spaced_letters(side) and is_composed(side, written, ctc):
        kind, why = "parts", f"letters separated by spaces; {_parts(side)}"
    elif is_symbol_list(side, pairs):
        kind, why = "words", f"lists of symbols ({side.distinct_words} distinct, {side.mean_words:.1f} per line)"
    elif written and is_label(side, pairs):
        kind, why = "words", f"each target is one of {side.distinct_words} words"
    elif side.mean <= NUMBERS.short_line or side.mean_words <= NUMBERS.few_words:
        kind, why = _spelled(side, written, ctc)
    else:
        kind, why = (
            "bpe",
            f"running text ({side.mean_words:.0f} words per line, {side.distinct_words:,} distinct words)",
        )
    choices.set(f"{name}.tokens", kind, why)
    return str(kind)


def _spelled(side: SideSurvey, written: bool, ctc: bool) -> tuple[str, str]:
    """Return characters or their parts, with the reason."""
    if is_composed(side, written, ctc):
        return "parts", _parts(side)
    if side.mean <= NUMBERS.short_line:
        return "characters", f"lines are short ({side.mean:.0f} characters on average)"
    return "characters", f"there are few spaces ({side.mean_words:.1f} words per line)"


def _parts(side: SideSurvey) -> str:
    return f"{len(side.characters):,} distinct characters are composed of {len(parts_of(side))} parts"


def tokenise_together(choices: Choices, survey: Survey, kinds: list[str], given: Mapping[str, Any]) -> list[str]:
    """Change how the sides are tokenised where they depend on each other, unless the user has said how."""
    together, why = _together(survey, kinds)
    changes = {name: new for name, old, new in zip(("source", "target"), kinds, together) if new != old}
    if any("tokens" in given.get(name, {}) for name in changes):
        return kinds
    for name, kind in changes.items():
        choices.replace(f"{name}.tokens", kind, why)
    return together


def _together(survey: Survey, kinds: list[str]) -> tuple[list[str], str]:
    """Return how both sides are tokenised, and why otherwise than each by itself.

    Both become subwords where one is running text and the other may be (it has no spaces, or is shorter), and where
    both are short sentences. Where the target is a word of its source, inflected, both become characters.
    """
    spelled, many = [kind in SPELLED for kind in kinds], survey.pairs >= NUMBERS.many_texts
    copied = survey.relation.copied
    if all(spelled):
        if many and is_text(survey.source) and is_text(survey.target) and copied < NUMBERS.copied:
            return ["bpe", "bpe"], f"short sentences, and there are {survey.pairs:,} pairs"
    elif any(spelled) and "bpe" in kinds:
        if spelled[1] and _is_word_of_source(survey):
            why = f"each target is one word, and {copied:.0%} of it is in its source (corrected for chance)"
            return [_spelled(survey.source, written=False, ctc=False)[0], kinds[1]], why
        if many:
            return ["bpe", "bpe"], f"the other side is running text, and there are {survey.pairs:,} pairs"
    return kinds, ""


def _is_word_of_source(survey: Survey) -> bool:
    short = survey.target.mean_words < 2 and survey.source.mean <= NUMBERS.longest_naming_source
    return short and survey.relation.copied >= NUMBERS.copied_word


def nearly_equal(survey: Survey, kinds: Sequence[str]) -> bool:
    """Return whether subword targets nearly equal their sources (case, accents, spelling), in lines of some length."""
    short = max(survey.source.mean, survey.target.mean) <= NUMBERS.longest_spelled
    return are_subwords(kinds) and survey.relation.copied >= NUMBERS.nearly_equal and short


def are_subwords(kinds: Sequence[str]) -> bool:
    """Return whether both sides are running text, tokenised into subwords."""
    return all(kind in SUBWORDS for kind in kinds)


def size_vocabularies(choices: Choices, survey: Survey, kinds: Sequence[str], given: Mapping[str, Any]) -> None:
    """Choose the number of subwords, and whether source and target share them.

    A size that the user gives for one side is that of both. A side that is alone in being tokenised into subwords gets
    as many as its own words call for.
    """
    if not are_subwords(kinds):
        for name, side, kind in zip(("source", "target"), (survey.source, survey.target), kinds):
            if kind in SUBWORDS:
                words = _words(survey, side)
                choices.set(f"{name}.size", _subwords(words), f"{words:,.0f} words in all")
        return
    words = _words(survey, survey.target)
    given_sizes = [given.get(name, {}).get("size") for name in ("source", "target")]
    given_size = next((size for size in given_sizes if size is not None), None)
    size = int(given_size or _subwords(words))
    why = f"{words:,.0f} words in all targets" if given_size is None else ""
    choices.set("source.size", size)
    choices.set("target.size", size, why)
    equal = kinds[0] == kinds[1] and {size, *(s for s in given_sizes if s is not None)} == {size}
    why = f"{survey.shared_characters:.0%} of the characters of the targets are in the sources too"
    choices.set("embed.shared", equal and survey.shared_characters >= NUMBERS.shared_characters, why if equal else "")


def _words(survey: Survey, side: SideSurvey) -> float:
    """Return the number of words of one side; without spaces, two characters are about one word."""
    return survey.pairs * (side.mean / NUMBERS.unspaced_characters if is_unspaced(side) else side.mean_words)


def _subwords(words: float) -> int:
    """Return a vocabulary size for so many words of text."""
    rounded = round(words / NUMBERS.words_per_subword / NUMBERS.subword_step) * NUMBERS.subword_step
    return min(NUMBERS.most_subwords, max(NUMBERS.fewest_subwords, rounded))
