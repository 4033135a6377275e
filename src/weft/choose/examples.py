"""Which training examples there are besides the given ones, and how often each is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.choose.choices import Choices
from weft.choose.numbers import NUMBERS
from weft.data.survey import FEWEST_PAIRS, Survey
from weft.spec import SPELLED


def most_copied(survey: Survey) -> float:
    """Return the share of a target that is copied from its source or, for long endings, the share of the source."""
    return max(survey.relation.copied, survey.relation.stem)


def augment(choices: Choices, survey: Survey, kinds: Sequence[str], given: Mapping[str, Any]) -> int:
    """Add synthetic pairs where there are too few to learn copying from; return how many."""
    if (count := given.get("data", {}).get("augmented")) is not None:
        return int(count)
    if given.get("data", {}).get("swap_pairs"):
        return 0
    copied = most_copied(survey)
    few = FEWEST_PAIRS <= survey.pairs < NUMBERS.enough_pairs
    if list(kinds) != ["characters", "characters"] or copied < NUMBERS.copied or not few:
        return 0
    if survey.source.mean > NUMBERS.longest_augmented or survey.relation.repeated >= NUMBERS.repeated_rows:
        return 0
    count = NUMBERS.enough_pairs - survey.pairs
    why = f"{survey.pairs:,} pairs are few, and {copied:.0%} of a source or target is copied (corrected for chance)"
    choices.set("data.augmented", count, why)
    return count


def flatten_repeats(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Use frequent sources less often where rows are the words of a running text.

    An epoch is shorter then, but a model needs as many updates: epochs that there is time for are counted in all rows.
    """
    repeated = survey.relation.repeated
    if repeated >= NUMBERS.repeated_rows and "repeat_power" not in given.get("data", {}):
        why = f"{repeated:.0%} of the rows are repeats of other rows, so rare sources should count more"
        choices.set("data.repeat_power", NUMBERS.repeat_power, why)


def even_out_tags(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Use rows of rare tags more often where some tags, such as languages, have many times the rows of others."""
    counts = survey.tags.values()
    if len(counts) < 2 or "tag_temperature" in given.get("data", {}):
        return
    if max(counts) >= NUMBERS.uneven_tags * min(counts):
        most, fewest = (choose(survey.tags, key=survey.tags.__getitem__) for choose in (max, min))
        why = f"{survey.tags[most]:,} rows have the tag {most}, {survey.tags[fewest]:,} the tag {fewest}"
        choices.set("data.tag_temperature", NUMBERS.tag_temperature, why)


def back_translate(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Let the model write sources that the data do not have, where all pairs contain one of several languages."""
    data, total = given.get("data", {}), sum(survey.written.values())
    if {"back_translate", "tag_at"} & set(data) or len(survey.written) < NUMBERS.fewest_languages:
        return
    pivot = max(survey.written, key=survey.written.__getitem__)
    if survey.mirrored >= NUMBERS.mirrored_sources and survey.written[pivot] >= NUMBERS.pivot_share * total:
        why = f"nearly all pairs contain {pivot}, so the model writes sources for the directions without pairs"
        choices.set("data.back_translate", True, why)


def handle_unseen_characters(choices: Choices, survey: Survey, kinds: Sequence[str], given: Mapping[str, Any]) -> None:
    """Choose what happens to source characters that training never had."""
    if kinds[0] not in SPELLED or "unseen" in given.get("data", {}):
        return
    kept = survey.relation.kept
    by_character = kinds[0] == kinds[1] == "characters" and not given.get("data", {}).get("swap_pairs")
    if by_character and kept >= NUMBERS.kept_characters and survey.pairs < NUMBERS.all_characters_seen:
        kept_ones = f"targets keep {kept:.0%} of the rare characters of their sources (corrected for chance)"
        why = f"{kept_ones}, so unseen characters are copied to the output"
        choices.set("data.unseen", "carried", why)
    else:
        choices.set("data.unseen", "nearest")
