"""What the decoder sees of the source, whether it copies, in which direction members write, how long outputs may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.choose.choices import Choices, uses_ctc
from weft.choose.examples import most_copied
from weft.choose.numbers import NUMBERS
from weft.choose.sides import mean_tokens
from weft.choose.throughput import BatchShape
from weft.data.survey import Survey


def choose_bridge_and_attention(choices: Choices, given: Mapping[str, Any], survey: Survey, shape: BatchShape) -> None:
    """Choose what a recurrent decoder reads at each step."""
    if survey.marks and "bridge" not in given:
        choices.set("bridge.give", "every", "tags and features matter for every output token")
    copied = most_copied(survey)
    long_enough = shape.lengths[1] >= NUMBERS.location_aware_target
    if copied >= NUMBERS.copied and long_enough and "attention" not in given.get("decoder", {}):
        why = (
            f"{copied:.0%} of a source or target is copied (corrected for chance), so attention moves along the source"
        )
        choices.set("decoder.attention.location_aware", True, why)


def choose_head(choices: Choices, survey: Survey, kinds: Sequence[str], given: Mapping[str, Any]) -> None:
    """Choose a head that copies source tokens where targets take many of their words from the source."""
    share = survey.relation.copied_words
    decided = "kind" in given.get("head", {}) or uses_ctc(given)
    if list(kinds) == ["bpe", "bpe"] and share >= NUMBERS.copied_words and not decided:
        choices.set(
            "head.kind", "copy", f"{share:.0%} of the words of a target are also in its source (corrected for chance)"
        )


def reverse_members(choices: Choices, given: Mapping[str, Any], shape: BatchShape) -> None:
    """Let every second of several recurrent models write from the end, where a beam can combine both directions."""
    train = choices.merged("train", given)
    decided = "reversed_members" in train or "reverse" in given.get("decoder", {})
    by_beam = given.get("search", {}).get("kind", "beam") == "beam"
    several = train.get("members", 1) > 1 and shape.lengths[1] >= NUMBERS.shortest_reversed
    if several and by_beam and not decided:
        why = "models that write from the start and models that write from the end make different errors"
        choices.set("train.reversed_members", True, why)


def limit_outputs(choices: Choices, survey: Survey, kinds: Sequence[str]) -> None:
    """Let an output be half as long again as the longest training target for its source."""
    source, target = (mean_tokens(side, kind) for side, kind in zip((survey.source, survey.target), kinds))
    mean_ratio = survey.target.mean / max(1.0, survey.source.mean)
    spread = min(survey.longest_ratio / max(1e-6, mean_ratio), NUMBERS.longest_spread)
    ratio = NUMBERS.output_margin * target / max(1.0, source) * spread
    choices.set("search.max_ratio", round(max(1.0, ratio), 2))
    choices.set("search.max_extra", NUMBERS.extra_tokens)
