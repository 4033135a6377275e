"""Settings for sound: recordings whose words, phones or labels are to be found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.choose.choices import ENOUGH_EPOCHS, Choices, writes_by_decoder
from weft.choose.labels import choose_labels
from weft.choose.numbers import NUMBERS
from weft.choose.sides import is_symbol_list, long_line_tokens
from weft.choose.timing import TimeBudget
from weft.core.errors import UserError
from weft.data.sides.audio import FRAMES_PER_SECOND, duration
from weft.data.survey import Survey


def choose_sound(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None) -> None:
    """Choose what is read of recordings, by which model, and how it is trained."""
    sound, target = survey.columns["source"], survey.kind("target")
    choices.set("source.kind", "audio", f"the source column names recordings, {sound['recordings']:,} of them")
    if target == "label":
        choose_labels(choices, survey, given, time)
    elif target == "text":
        _choose_text(choices, survey, given)
    else:
        what = f"Weft cannot predict {target} from recordings yet"
        raise UserError(what, "--target", "choose a column of text, or of labels with --task classify")
    _choose_model(choices, survey, given)
    _choose_augmentation(choices, survey, given)
    if target == "label":
        _choose_levels(choices)
    if target == "label" and _are_words(survey) and not _has_other_parts(given):
        _choose_words(choices, survey, given, time)


def _choose_text(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Choose tokens, the head, and what selects the checkpoint."""
    symbols = is_symbol_list(survey.target, survey.pairs)
    why = "the target is a list of symbols" if symbols else "letters are heard one after the other"
    choices.set("target.tokens", "words" if symbols else "characters", why)
    tokens = str(choices.merged("target", given)["tokens"])
    if not writes_by_decoder(given):
        choices.set("head.kind", "ctc", "what is heard and what is written have the same order")
        choices.set("objective.smoothing", 0.0)
    choices.set("train.select", "token_error_rate" if tokens == "words" else "cer", "outputs can be partly right")
    longest = long_line_tokens(survey.target, tokens)
    choices.set("search.max_ratio", NUMBERS.sound_ratio)
    choices.set("search.max_extra", round(NUMBERS.output_margin * longest) + NUMBERS.extra_tokens)


def _choose_model(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    sound = survey.columns["source"]
    frames = FRAMES_PER_SECOND * sound["seconds"] / sound["recordings"]
    choices.set("audio.factor", NUMBERS.sound_factor)
    choices.set("encoder.kind", "recurrent")
    choices.set("encoder.layers", NUMBERS.sound_layers)
    for key in ("encoder.width", "embed.width"):
        choices.set(key, NUMBERS.sound_width)
    choices.replace("train.dropout", NUMBERS.sound_dropout)
    choices.set("train.rate", NUMBERS.sound_rate)
    choices.set("train.max_epochs", NUMBERS.max_epochs, ENOUGH_EPOCHS)
    longest = NUMBERS.long_line_margin * FRAMES_PER_SECOND * sound["longest"]
    batch = int(max(NUMBERS.sound_recordings * frames, longest))
    choices.set("train.batch_tokens", batch, f"about {max(1, round(batch / frames))} recordings in a batch")


def _choose_levels(choices: Choices) -> None:
    """Choose what is kept of a recording whose label is wanted: the sound of its bands, but no silence around it."""
    choices.set("audio.normalise", "level", "a short recording is recognised by which bands are strong")
    choices.set("audio.trim", NUMBERS.label_trim, "in case recordings begin or end with silence")
    choices.set("audio.range", NUMBERS.label_range, "in case the silence of only some recordings has noise")


def _are_words(survey: Survey) -> bool:
    sound = survey.columns["source"]
    return bool(sound["seconds"] <= NUMBERS.word_seconds * sound["recordings"])


def _has_other_parts(given: Mapping[str, Any]) -> bool:
    """Return whether the user asks for an encoder or another summary."""
    return bool(given.get("encoder")) or "kind" in given.get("pool", {}) or "reader" in given.get("audio", {})


def _choose_words(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None) -> None:
    """Choose a model that knows what sounds when in a word, and nothing else: it suits speakers it never heard."""
    for key in ("encoder.layers", "encoder.width"):
        choices.drop(key)
    choices.replace("encoder.kind", "none", "with few recordings, an encoder could overfit, for example to speakers")
    choices.replace(
        "pool.kind", "parts", "recordings are short, and equal parts of them fit words that are spoken fast or slowly"
    )
    choices.set("pool.parts", NUMBERS.word_parts)
    choices.replace("audio.factor", 1)
    for key in ("encoder.width", "embed.width"):
        choices.set(key, NUMBERS.word_width)
    choices.replace("train.rate", NUMBERS.word_rate)
    choices.replace("train.max_epochs", NUMBERS.word_epochs, ENOUGH_EPOCHS)
    sound = survey.columns["source"]
    frames = FRAMES_PER_SECOND * sound["seconds"] / sound["recordings"]
    longest = NUMBERS.long_line_margin * FRAMES_PER_SECOND * sound["longest"]
    batch = int(max(NUMBERS.word_recordings * frames, longest))
    choices.replace("train.batch_tokens", batch, f"about {max(1, round(batch / frames))} recordings in a batch")
    if time is not None and time.seconds >= NUMBERS.shortest_ensemble:
        _choose_members(choices, survey, given, time)


def _choose_members(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget) -> None:
    """Train several models where there is time for all epochs of each."""
    if {"steps", "epochs", "members"} & set(given.get("train", {})):
        return
    epochs = float(choices.merged("train", given)["max_epochs"])
    if not epochs:  # each may use all of the time
        return
    cores = time.cores if time.parallel else 1
    each = epochs * survey.columns["source"]["recordings"] * NUMBERS.word_cost / cores
    count = int(min(NUMBERS.most_members, NUMBERS.word_share * time.seconds / each))
    if count > 1:
        choices.set("train.members", count, f"there is time for {count} models of {epochs:.0f} epochs")


def _choose_augmentation(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    seconds = survey.columns["source"]["seconds"]
    if seconds > NUMBERS.enough_sound:
        return
    why = f"there are only {duration(seconds)} of sound, so recordings are varied at random in each epoch"
    choices.set("audio.speed", NUMBERS.sound_speed, why)
    choices.set("audio.pitch", NUMBERS.sound_pitch)
    choices.set("audio.noise", NUMBERS.sound_noise)
    choices.set("audio.time_masks", NUMBERS.sound_time_masks)
    choices.set("audio.frequency_masks", NUMBERS.sound_frequency_masks)
