"""The autopilot: what it decides follows from the data, the budget and what the user said."""

from __future__ import annotations

import random
from dataclasses import replace
from string import ascii_lowercase
from typing import Any

import pytest

from weft.choose import choose, size
from weft.choose.measure import _length_correction, _measured_lengths, _random_batch, estimated, measured
from weft.choose.numbers import NUMBERS
from weft.choose.throughput import BatchShape, Throughput
from weft.core.machine import Speed
from weft.core.pair import Pair
from weft.data.survey import Survey, survey
from weft.data.text.relation import copied_words
from weft.runs import job
from weft.settings import compose
from weft.spec import Spec

WORDS = ["the", "small", "dog", "runs", "under", "green", "old", "houses", "of", "and", "with", "trees", "in"]


def phones() -> Survey:
    return survey([Pair(f"word{i}", " ".join("ptkaeiou"[(i * 7 + j) % 8] for j in range(4))) for i in range(300)], 0)[0]


def sentences(rows: int = 400) -> Survey:
    def line(i: int) -> str:
        return " ".join(f"{WORDS[(i * 13 + j * j) % len(WORDS)]}{(i * 31 + j * 17) % 97 or ''}" for j in range(12))

    return survey([Pair(line(i), line(i + 1)) for i in range(rows)], 0)[0]


def chosen(stats: Survey, given: dict[str, Any] | None = None, speed: float | None = None, halves: float = 0) -> Spec:
    given, known = given or {}, None if speed is None else Speed(speed, halves)
    return compose(("autopilot", choose(stats, given, known).layer), ("flag", given)).spec


def test_lists_of_symbols_are_split_at_spaces_and_words_into_characters() -> None:
    spec = chosen(phones())
    assert (spec.source.tokens, spec.target.tokens) == ("characters", "words")
    assert spec.encoder.kind == "recurrent"
    assert spec.train.select == "exact"


def set_apart(first: int) -> list[Pair]:
    letters = [chr(first + i) for i in range(900)]
    return [Pair(f"word{i}", " ".join(letters[(i * 7 + j * 331) % 900] for j in range(3))) for i in range(400)]


def test_letters_separated_by_spaces_are_a_list_of_symbols_however_many_there_are() -> None:
    chinese = set_apart(0x4E00)
    assert chosen(survey(chinese, 0)[0]).target.tokens == "words"
    words = [Pair(p.source, p.target.replace(" ", "x ")) for p in chinese]
    assert chosen(survey(words, 0)[0]).target.tokens == "characters"


def test_korean_syllables_separated_by_spaces_are_split_into_their_parts_but_for_ctc() -> None:
    korean = survey(set_apart(0xAC00), 0)[0]
    assert chosen(korean).target.tokens == "parts"
    assert chosen(korean, {"head": {"kind": "ctc"}}).target.tokens == "words"
    assert chosen(replace(korean, source=korean.target)).source.tokens == "parts"


def test_long_lines_of_separated_characters_are_running_text() -> None:
    signs = [chr(0x4E00 + i) for i in range(900)]
    rows = [Pair(" ".join(WORDS), " ".join(signs[(i * 7 + j * 331) % 900] for j in range(20))) for i in range(400)]
    assert chosen(survey(rows, 0)[0]).target.tokens == "bpe"


def test_commands_with_names_and_numbers_are_no_list_of_symbols() -> None:
    closed = [Pair(f"{i}", f"wake me at {i % 24} o'clock") for i in range(1000)]
    opened = [Pair(p.source, f"{p.target} in {i}{i}" if i % 10 == 0 else p.target) for i, p in enumerate(closed)]
    assert [chosen(survey(rows, 0)[0]).target.tokens for rows in (closed, opened)] == ["words", "characters"]


def test_korean_is_split_into_the_parts_of_its_syllables_and_accents_stay_on_their_letters() -> None:
    words = ["".join(chr(0xAC00 + (i * 631 + j * 7919) % 11172) for j in range(3)) for i in range(200)]
    korean = survey([Pair(word, f"word{i}") for i, word in enumerate(words)], 0)[0]
    spec = chosen(korean)
    assert (spec.source.tokens, spec.target.tokens, spec.data.unseen) == ("parts", "characters", "nearest")
    reason = next(why for key, _, why in choose(korean, {}).reasons if key == "source.tokens")
    assert reason.startswith(f"{len(set(''.join(words)))} distinct characters are composed of 6")
    assert chosen(survey([Pair(f"word{i}", word) for i, word in enumerate(words)], 0)[0]).target.tokens == "parts"
    assert chosen(replace(korean, target=korean.source), {"head": {"kind": "ctc"}}).target.tokens == "characters"
    mixed = {**korean.source.characters, "\u11ab": 1, "\u1161": 1}  # a final consonant and a vowel by themselves
    loose = replace(korean, target=replace(korean.source, characters=mixed))
    assert chosen(loose).target.tokens == "characters", "they would not come back as they were"
    french = survey([Pair(f"éàü{i}", f"été{i}") for i in range(200)], 0)[0]
    assert chosen(french).source.tokens == "characters"


def short_sentences(pairs: int, copies: bool = False) -> Survey:
    def line(i: int, word: str) -> str:
        return " ".join(f"{word}{(i * 7919 + j * j * 104_729) % 5003}" for j in range(4))

    rows = [Pair(line(i, "a"), line(i if copies else i + 1, "a" if copies else "b")) for i in range(2000)]
    return replace(survey(rows, 0)[0], pairs=pairs)


def test_many_short_sentences_are_subwords_for_a_transformer_unless_targets_copy_sources() -> None:
    many = chosen(short_sentences(20_000))
    assert (many.source.tokens, many.target.tokens, many.encoder.kind) == ("bpe", "bpe", "transformer")
    for stats in (short_sentences(19_999), short_sentences(20_000, copies=True)):
        assert (chosen(stats).target.tokens, chosen(stats).encoder.kind) == ("characters", "recurrent")
    assert chosen(short_sentences(20_000), {"source": {"tokens": "characters"}}).target.tokens == "characters"


def test_a_target_that_is_an_inflected_word_of_its_source_makes_both_sides_characters() -> None:
    verbs = ["".join(random.Random(seed).sample(ascii_lowercase, 6)) for seed in range(300)]
    tagged = survey([Pair(f"{verb}ar V IND PST 3 SG PFV X Y", f"{verb}ó") for verb in verbs], 0)[0]
    spec = chosen(tagged)
    assert (spec.source.tokens, spec.target.tokens, spec.encoder.kind) == ("characters", "characters", "recurrent")
    assert chosen(tagged, {"source": {"tokens": "bpe"}}).source.tokens == "bpe"
    other = survey([Pair(f"{verb}ar V IND PST 3 SG PFV X Y", verb[::-1].upper()) for verb in verbs], 0)[0]
    assert chosen(other).source.tokens == "bpe"


def test_a_side_that_is_alone_in_subwords_has_as_many_as_its_own_words_call_for() -> None:
    stats = texts(3000, 40)
    assert (chosen(stats).source.size, chosen(stats).target.tokens) == (1000, "characters")
    assert chosen(replace(stats, pairs=19_999)).source.size > 1000
    assert chosen(stats, {"source": {"size": 700}}).source.size == 700


@pytest.mark.parametrize(
    ("stats", "metric"),
    [
        ("short sentences", "chrf"),
        ("sentences", "bleu"),
        ("unspaced", "chrf"),
        ("few unspaced", "chrf"),
        ("phones", "exact"),
        ("short", "exact"),
        ("long names", "exact"),
    ],
)
def test_the_metric_that_selects_checkpoints_can_tell_outputs_apart(stats: str, metric: str) -> None:
    surveys = {
        "short sentences": short_sentences(20_000),
        "sentences": sentences(),
        "unspaced": texts(20_000, 40),
        "few unspaced": texts(3000, 40),
        "phones": phones(),
        "short": inflected(300),
        "long names": survey(
            [Pair(f"{i}", f"FileInputStream.new{i % 3} LineReader.read{i % 5}") for i in range(400)], 0
        )[0],
    }
    assert chosen(surveys[stats]).train.select == metric


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("stats", [phones(), sentences()], ids=["phones", "sentences"])
def test_a_width_given_for_one_part_is_that_of_all_parts(stats: Survey, side: str) -> None:
    for speed in (None, 1e11):
        spec = chosen(stats, {side: {"width": 64}}, speed)
        assert (spec.encoder.width, spec.decoder.width, spec.embed.width) == (64, 64, 64)
    both = chosen(stats, {"encoder": {"width": 64}, "decoder": {"width": 96}})
    assert (both.encoder.width, both.decoder.width) == (64, 96)
    assert chosen(sentences(), {side: {"width": 64}}).encoder.inner == 128


@pytest.mark.parametrize(
    "given",
    [
        {"decoder": {"width": 255}},
        {"encoder": {"width": 90, "heads": 3, "kind": "transformer"}},
        {"encoder": {"kind": "transformer"}, "decoder": {"kind": "recurrent", "width": 250}},
        {"encoder": {"kind": "recurrent", "width": 250}, "decoder": {"kind": "transformer"}},
        {"decoder": {"width": 3, "kind": "recurrent"}},
    ],
)
def test_parts_that_cannot_have_a_given_width_get_one_close_to_it(given: dict[str, Any]) -> None:
    asked = next(part["width"] for part in given.values() if "width" in part)
    spec = chosen(phones() if asked == 255 else sentences(), given)
    widths = [spec.encoder.width, spec.decoder.width]
    assert asked in widths
    assert all(abs(width - asked) <= 5 for width in widths)


def test_a_recurrent_model_with_few_epochs_gets_less_dropout() -> None:
    stats = replace(phones(), pairs=1_000_000)
    short, long = (chosen(stats, {"train": {"budget_seconds": s}}, 1e11).train.dropout for s in (60.0, 1e6))
    assert (short, long) == (0.1, 0.2)


def test_targets_that_are_one_of_a_few_words_are_labels_and_others_are_characters() -> None:
    text = " ".join(WORDS)
    few = survey([Pair(f"{text} {i}", ("good", "bad", "mixed")[i % 3]) for i in range(300)], 0)[0]
    many = survey([Pair(f"{text} {i}", f"word{i % 40}") for i in range(300)], 0)[0]
    assert [chosen(stats).target.tokens for stats in (few, many)] == ["words", "characters"]


def test_running_text_gets_subwords_a_transformer_and_bleu() -> None:
    spec = chosen(sentences())
    assert (spec.source.tokens, spec.target.tokens, spec.embed.shared) == ("bpe", "bpe", True)
    assert spec.encoder.kind == spec.decoder.kind == "transformer"
    assert spec.train.select == "bleu"


@pytest.mark.parametrize(("letters", "wanted"), [(8, 256), (600, 8 * 601), (5000, 8192)])
def test_long_lines_get_batches_that_hold_several_of_them(letters: int, wanted: int) -> None:
    stats = survey([Pair("acgt" * (letters // 4), "tgca" * (letters // 4)) for _ in range(60)], 0)[0]
    assert chosen(stats).source.tokens == "characters"
    assert chosen(stats).train.batch_tokens == wanted
    assert chosen(stats, {"train": {"batch_tokens": 99}}).train.batch_tokens == 99


def test_one_very_long_line_does_not_make_batches_large() -> None:
    rows = [Pair(f"word{i}", f"words{i}") for i in range(500)]
    assert chosen(survey([*rows, Pair("a" * 6000, "b")], 0)[0]).train.batch_tokens <= 512


@pytest.mark.parametrize("given", [{"source": {"size": 500}}, {"target": {"size": 500}}])
def test_a_vocabulary_size_given_for_one_side_is_that_of_both(given: dict[str, Any]) -> None:
    spec = chosen(sentences(), given)
    assert (spec.source.size, spec.target.size, spec.embed.shared) == (500, 500, True)


def test_sides_that_the_user_tokenises_differently_share_no_embeddings() -> None:
    spec = chosen(sentences(), {"source": {"size": 500}, "target": {"size": 600}})
    assert (spec.source.size, spec.target.size, spec.embed.shared) == (500, 600, False)
    other = chosen(sentences(), {"source": {"tokens": "unigram"}})
    assert (other.target.tokens, other.embed.shared, other.encoder.kind) == ("bpe", False, "transformer")


@pytest.mark.parametrize("given", [{"decoder": {"cell": "gru"}}, {"decoder": {"kind": "transformer"}}])
def test_a_family_that_the_user_has_chosen_gets_no_reason(given: dict[str, Any]) -> None:
    for stats in (phones(), sentences()):
        assert "encoder.kind" not in {key for key, _, _ in choose(stats, given).reasons}


def test_a_setting_that_is_null_counts_as_not_given() -> None:
    given = {"train": {"budget_seconds": None, "steps": 20, "epochs": None}, "source": {"size": None}}
    assert choose(sentences(), given).layer == choose(sentences(), {"train": {"steps": 20}}).layer
    assert choose(phones(), {"train": {"steps": None}}).layer["train"]["budget_seconds"] == 600


def test_bytes_are_counted_as_bytes() -> None:
    stats = survey([Pair("word", "शब्द") for _ in range(60)], 0)[0]
    by_letter, by_byte = (chosen(stats, {"target": {"tokens": kind}}).search for kind in ("characters", "bytes"))
    assert by_byte.max_ratio == pytest.approx(3 * by_letter.max_ratio, rel=0.01)


def test_more_time_and_a_faster_machine_never_make_the_model_narrower() -> None:
    stats = replace(sentences(), pairs=500_000)
    widths = [
        chosen(stats, {"train": {"budget_seconds": seconds}}, speed).encoder.width
        for speed in (1e10, 1e11, 1e12)
        for seconds in (30, 600, 7200)
    ]
    assert widths[:3] == sorted(widths[:3])
    assert widths[1::3] == sorted(widths[1::3])
    assert widths[0] < widths[-1]


def test_few_pairs_get_a_narrow_model_however_much_time_there_is_but_several_of_them() -> None:
    spec = chosen(sentences(100), {"train": {"budget_seconds": 86_400.0}}, 1e12)
    assert (spec.encoder.width, spec.train.members) == (128, 8)


def test_a_transformer_with_more_epochs_gets_more_dropout() -> None:
    stats = replace(sentences(), pairs=500_000)
    spent = [chosen(stats, {"train": {"budget_seconds": s}}, 1e11).train.dropout for s in (60.0, 3600.0, 1e6)]
    assert spent == sorted(spent)
    assert spent[0] < spent[-1]


def test_a_wider_or_deeper_transformer_that_is_asked_for_gets_lower_rates_and_fewer_epochs() -> None:
    stats, hour = replace(sentences(), pairs=20_000), {"train": {"budget_seconds": 3600}}

    def with_parts(**part: int) -> Spec:
        return chosen(stats, {**hour, "encoder": dict(part), "decoder": dict(part)}, 1e11)

    plain, wide, deep = with_parts(heads=4, width=128), with_parts(heads=4, width=512), with_parts(heads=4, layers=12)
    assert wide.train.rate < plain.train.rate
    assert deep.train.rate < chosen(stats, hour, 1e11).train.rate
    assert plain.train.embed_rate < wide.train.embed_rate
    assert wide.train.dropout < plain.train.dropout  # fewer epochs


def test_bfloat16_is_used_where_it_is_much_faster_and_the_model_may_be_wider() -> None:
    stats, hour = sentences(20_000), {"train": {"budget_seconds": 3600}}
    plain, halved = chosen(stats, hour, 1e10), chosen(stats, hour, 1e10, 3e10)
    assert (plain.train.precision, halved.train.precision) == ("float32", "bfloat16")
    assert plain.encoder.width <= halved.encoder.width
    assert chosen(stats, hour, 1e10, 1.2e10).train.precision == "float32"
    assert chosen(stats, {"train": {"precision": "float32"}}, 1e10, 3e10).train.precision == "float32"
    assert chosen(phones(), hour, 1e10, 3e10).train.precision == "float32", "a recurrence counts in float32 anyway"
    alone = {"task": "language-model", **hour}
    assert [chosen(stats, alone, 1e10, fast).train.precision for fast in (1.2e10, 3e10)] == ["float32", "bfloat16"]


@pytest.mark.parametrize(
    ("train", "by_the_clock"),
    [({"steps": 5}, False), ({"epochs": 2.0}, False), ({"budget_seconds": 60.0}, True), ({}, True)],
)
def test_the_machine_is_measured_only_for_budgets_of_time(
    train: dict[str, Any], by_the_clock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "matrix_speed", lambda device: Speed(1e11, 0))
    asked = compose(("flag", {"train": train})).spec
    assert (job.speed_for(asked) is not None) == by_the_clock
    assert (job.pace_for(asked) is not None) == by_the_clock


@pytest.mark.parametrize(
    ("given", "family"),
    [
        ({"decoder": {"cell": "mut1"}}, "recurrent"),
        ({"encoder": {"heads": 2}}, "transformer"),
        ({"decoder": {"kind": "transformer"}}, "transformer"),
        ({"decoder": {"attention": {"score": "none"}}}, "recurrent"),
    ],
)
@pytest.mark.parametrize("stats", [phones(), sentences()], ids=["phones", "sentences"])
def test_settings_of_a_family_that_the_user_gives_decide_the_family(
    stats: Survey, given: dict[str, Any], family: str
) -> None:
    assert chosen(stats, given).decoder.kind == family


def test_a_choice_that_the_user_made_has_no_reason_from_the_autopilot() -> None:
    reasons = choose(phones(), {"target": {"tokens": "characters"}}).reasons
    assert "target.tokens" not in [key for key, _, _ in reasons]
    assert "source.tokens" in [key for key, _, _ in reasons]


def test_outputs_may_be_as_long_as_the_training_targets_were() -> None:
    stats = survey([Pair("ab", "x" * (90 + i)) for i in range(60)], 0)[0]
    spec = chosen(stats)
    assert spec.search.max_ratio * 2 + spec.search.max_extra >= 149


@pytest.mark.parametrize(
    ("letters", "seconds", "wanted"),
    [(4, 100, 300), (19, 100, 300), (39, 100, 150), (199, 100, 30), (1999, 100, 20), (4, 1, 20), (4, 9999, 1000)],
)
def test_the_longer_the_targets_the_fewer_pairs_are_used_for_validation(
    letters: int, seconds: float, wanted: int
) -> None:
    stats = survey([Pair(f"word{i}", "acgt" * (letters // 4) + "acgt"[: letters % 4]) for i in range(60)], 0)[0]
    given = {"target": {"tokens": "characters"}, "train": {"budget_seconds": float(seconds)}}
    assert chosen(stats, given).train.valid_pairs == wanted
    given["train"]["valid_pairs"] = 7
    assert chosen(stats, given).train.valid_pairs == 7


def texts(pairs: int, characters: int, back: bool = False) -> Survey:
    """English and a language that is written without spaces."""

    def english(i: int) -> str:
        return " ".join(f"{WORDS[(i * 13 + j * j) % len(WORDS)]}{(i * 31 + j * 17) % 97 or ''}" for j in range(12))

    def unspaced(i: int) -> str:
        return "".join(chr(0x4E00 + (i * 7 + j * j * 31) % 900) for j in range(characters))

    rows = [Pair(english(i), unspaced(i)) for i in range(600)]
    stats = survey([Pair(p.target, p.source) if back else p for p in rows], 0)[0]
    return replace(stats, pairs=pairs)


@pytest.mark.parametrize("back", [False, True], ids=["from English", "to English"])
@pytest.mark.parametrize("characters", [15, 40])
def test_many_texts_without_spaces_on_one_side_are_subwords_for_a_transformer(characters: int, back: bool) -> None:
    spec = chosen(texts(20_000, characters, back))
    assert (spec.source.tokens, spec.target.tokens) == ("bpe", "bpe")
    assert spec.encoder.kind == spec.decoder.kind == "transformer"
    reasons = [why for key, _, why in choose(texts(20_000, characters, back), {}).reasons if key.endswith(".tokens")]
    assert "the other side is running text, and there are 20,000 pairs" in reasons
    assert len(reasons) == 2


def test_few_texts_without_spaces_on_one_side_are_characters_on_that_side() -> None:
    for back, wanted in ((False, ("bpe", "characters")), (True, ("characters", "bpe"))):
        spec = chosen(texts(19_999, 40, back))
        assert (spec.source.tokens, spec.target.tokens, spec.encoder.kind) == (*wanted, "recurrent")


@pytest.mark.parametrize(("side", "kind"), [("target", "characters"), ("target", "words"), ("source", "unigram")])
def test_the_tokens_that_the_user_gives_for_many_texts_stay(side: str, kind: str) -> None:
    spec = chosen(texts(20_000, 40), {side: {"tokens": kind}})
    other = {"source": spec.target.tokens, "target": spec.source.tokens}[side]
    assert getattr(spec, side).tokens == kind
    assert other == ("bpe" if side == "target" else "characters")


def test_short_words_are_characters_however_many_there_are() -> None:
    spec = chosen(replace(inflected(1000), pairs=50_000))
    assert (spec.source.tokens, spec.target.tokens) == ("characters", "characters")


def inflected(rows: int, longer: int = 0) -> Survey:
    """Words that get another ending; those that are `longer` have so many letters more before the stem."""
    stems = [f"{a}{b}{c}{d}" for a in "bdfgklmn" for b in "aeiou" for c in "klmnprst" for d in "aeiou"]
    return survey([Pair("a" * longer + stem + "en", "a" * longer + f"{stem}te") for stem in stems[:rows]], 0)[0]


def test_few_pairs_whose_targets_copy_their_sources_are_augmented() -> None:
    assert chosen(inflected(100)).data.augmented == 4900
    assert chosen(inflected(1000)).data.augmented == 4000
    assert chosen(inflected(20)).data.augmented == 0, "too few to know what may change"
    assert chosen(phones()).data.augmented == 0, "nothing is copied"
    assert chosen(inflected(100), {"data": {"augmented": 7}}).data.augmented == 7


@pytest.mark.parametrize(("letters", "wanted"), [(60, 4900), (61, 0)])
def test_words_are_augmented_and_long_texts_are_not(letters: int, wanted: int) -> None:
    stats = inflected(100, longer=letters - 6)
    assert stats.source.mean == letters
    assert chosen(stats).data.augmented == wanted
    assert chosen(stats, {"data": {"augmented": 7}}).data.augmented == 7


def test_repeated_rows_count_less_unless_the_user_decides() -> None:
    tokens = survey([Pair(word, word.upper()) for n in range(1, 60) for word in [f"{n}th"] * (60 // n)], 0)[0]
    assert chosen(tokens).data.repeat_power == 0.5
    assert [reason for key, _, reason in choose(tokens, {}).reasons if key == "data.repeat_power"] == [
        "77% of the rows are repeats of other rows, so rare sources should count more"
    ]
    assert chosen(tokens, {"data": {"repeat_power": 1.0}}).data.repeat_power == 1.0
    assert chosen(tokens).data.augmented == 0, "made-up pairs do not help there"
    assert chosen(phones()).data.repeat_power == 1.0


def members(seconds: float, one_core: float = 1e10, cores: int = 2, given: dict[str, Any] | None = None) -> int:
    given = {"train": {"budget_seconds": seconds}} if given is None else given
    speed = Speed(cores * one_core, one_core, one_core, cores)
    return compose(("autopilot", choose(phones(), given, speed).layer), ("flag", given)).spec.train.members


def test_more_time_than_one_model_can_use_trains_several() -> None:
    counts = [members(seconds) for seconds in (1, 10, 60, 600, 86_400)]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, 8)
    assert all(count % 2 == 0 for count in counts if count > 2), "no core is left idle"
    assert members(60, one_core=1e9) < members(60, one_core=1e11)


def test_a_budget_of_less_than_a_minute_trains_one_model() -> None:
    assert members(59.9, one_core=1e13) == 1
    assert members(60.0, one_core=1e13) == 8


@pytest.mark.parametrize(("gain", "count"), [(1.0, 2), (1.9, 1)])
def test_a_second_model_is_trained_where_one_cannot_use_all_cores(gain: float, count: int) -> None:
    stats, given = replace(phones(), pairs=100_000), {"train": {"budget_seconds": 60.0}}
    choices = choose(stats, given, Speed(1e11, 0, 1e11, 2), lambda spec, shape, threads: 8e4 * gain ** (threads - 1))
    assert choices.layer["train"].get("members", 1) == count
    own = {"train": {"budget_seconds": 60.0, "members": 3}}
    assert "members" not in choose(stats, own, Speed(1e11, 0, 1e11, 2), lambda *_: 8e4).layer["train"]


@pytest.mark.parametrize("train", [{"steps": 100}, {"epochs": 10.0}])
def test_steps_and_epochs_train_one_model(train: dict[str, Any]) -> None:
    assert members(0, given={"train": train}) == 1


def test_ctc_trains_one_model() -> None:
    assert members(0, given={"head": {"kind": "ctc"}, "train": {"budget_seconds": 86_400.0}}) == 1


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"train": {"budget_seconds": 86_400.0}}, True),
        ({"train": {"budget_seconds": 86_400.0, "members": 2}}, True),
        ({"train": {"steps": 10, "members": 2}}, True),
        ({"train": {"steps": 10}}, None),
        ({"train": {"budget_seconds": 86_400.0, "members": 1}}, None),
        ({"train": {"budget_seconds": 86_400.0, "reversed_members": False}}, None),
        ({"train": {"budget_seconds": 86_400.0}, "search": {"kind": "greedy"}}, None),
        ({"train": {"budget_seconds": 86_400.0}, "decoder": {"reverse": False}}, None),
        ({"train": {"budget_seconds": 86_400.0}, "head": {"kind": "ctc"}}, None),
    ],
)
def test_of_several_recurrent_models_every_second_is_reversed(given: dict[str, Any], wanted: bool | None) -> None:
    choices = choose(phones(), given, Speed(2e10, 0, 1e10, 2))
    assert choices.layer["train"].get("reversed_members") is wanted
    assert ("train.reversed_members" in [key for key, *_ in choices.reasons]) is bool(wanted)


def test_models_of_labels_are_not_reversed() -> None:
    stats = survey([Pair(f"word{i}", ("good", "bad")[i % 2]) for i in range(300)], 0)[0]
    choices = choose(stats, {"train": {"steps": 10, "members": 2}})
    assert "reversed_members" not in choices.layer["train"]


@pytest.mark.parametrize("stats", [phones(), sentences(2000)], ids=["phones", "sentences"])
def test_a_note_says_that_a_budget_is_too_short_for_one_epoch(stats: Survey) -> None:
    slow = Speed(1e8, 0, 1e8, 1)
    assert "of one epoch" in choose(stats, {"train": {"budget_seconds": 1.0}}, slow).notes[0]
    notes = choose(stats, {"train": {"budget_seconds": 86_400.0}}, Speed(1e12, 0, 1e12, 1)).notes
    assert not any("of one epoch" in note for note in notes)


def test_training_ends_after_the_most_epochs_that_help_and_a_note_says_when() -> None:
    choices = choose(many_phones(), {"train": {"budget_seconds": 12_000.0}}, ONE_CORE, evenly(2.5e7))  # 1,992 of one
    assert choices.layer["train"]["members"] == 8, "249 of each"
    assert (choices.layer["train"]["max_epochs"], choices.notes) == (300.0, [])
    twice = choose(many_phones(), {"train": {"budget_seconds": 24_000.0}}, ONE_CORE, evenly(2.5e7))
    assert twice.layer["train"]["max_epochs"] == 300.0
    assert twice.notes == [
        "training ends after 300 epochs, which may take only 241 minutes of the 400 minutes "
        "(train.max_epochs=0: use all of the time)"
    ]
    soon = choose(many_phones(), {"train": {"budget_seconds": 30.0}}, ONE_CORE, evenly(2e9)).notes
    assert soon[-1].endswith("seconds of the 30 seconds (train.max_epochs=0: use all of the time)")


@pytest.mark.parametrize("most", [0.0, 500.0])
def test_the_number_of_epochs_that_the_user_allows_stays(most: float) -> None:
    given = {"train": {"budget_seconds": 86_400.0, "max_epochs": most}}
    choices = choose(many_phones(), given, ONE_CORE, evenly(2e8))
    assert ("max_epochs" in choices.layer["train"], choices.notes) == (False, [])


@pytest.mark.parametrize("train", [{"steps": 100}, {"epochs": 1000.0}])
def test_a_run_by_steps_or_epochs_has_no_limit_of_epochs(train: dict[str, Any]) -> None:
    assert "max_epochs" not in choose(many_phones(), {"train": train}).layer["train"]
    assert "max_epochs" not in choose(many_phones(), {"train": train}, ONE_CORE, evenly(2e8)).layer["train"]


ONE_CORE = Speed(1e11, 0, 1e11, 1)


def many_phones() -> Survey:
    """262,500 target symbols, the ends counted: enough for the width of 256, if each is seen 24.8 times."""
    return replace(phones(), pairs=52_500)


def evenly(speed: float, gain: float = 0.0) -> Throughput:
    """The wider the slower, and each further thread brings so much of the first one's; of 500,000 symbols."""
    return lambda spec, shape, threads: 0.525 * speed / spec.encoder.width * (1 + gain * (threads - 1))


def epochs_of_each(spec: Spec, speed: float, cores: int) -> float:
    """How often each of a run's models sees `many_phones`, where threads bring nothing."""
    assert spec.train.budget_seconds is not None
    rounds = -(-spec.train.members // min(spec.train.members, cores))
    return NUMBERS.training_share * speed / spec.encoder.width * spec.train.budget_seconds / 500_000 / rounds


@pytest.mark.parametrize("cores", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("seconds", [60, 180, 190, 250, 370, 390, 1200, 7200])
def test_a_recurrent_model_is_wide_only_where_each_member_has_enough_epochs(seconds: float, cores: int) -> None:
    given = {"train": {"budget_seconds": float(seconds)}}
    layer = choose(many_phones(), given, Speed(1e11, 0, 1e11, cores), evenly(1e7)).layer
    spec = compose(("autopilot", layer), ("flag", given)).spec
    often = epochs_of_each(spec, 1e7, cores) >= 25
    assert spec.decoder.width == (256 if seconds > 372.9 else 128), "as on one core, where cores bring nothing"
    assert often == (seconds > 188.2)


@pytest.mark.parametrize(
    ("given", "gain", "width"),
    [
        ({}, 0.0, 128),
        ({}, 1.0, 128),
        ({"train": {"members": 1}}, 0.0, 128),
        ({"train": {"members": 1}}, 1.0, 256),
        ({"train": {"members": 2}}, 1.0, 128),
        ({"head": {"kind": "ctc"}}, 0.0, 128),
        ({"head": {"kind": "ctc"}}, 1.0, 256),
    ],
)
def test_the_width_suits_the_expected_number_of_members(given: dict[str, Any], gain: float, width: int) -> None:
    """In 300 s a wide one has 20 epochs on one of two cores, and 40 on both if they are of use to it."""
    asked = {**given, "train": {**given.get("train", {}), "budget_seconds": 300.0}}
    assert choose(many_phones(), asked, Speed(1e11, 0, 1e11, 2), evenly(1e7, gain)).layer["encoder"]["width"] == width


def test_members_that_train_one_after_the_other_share_the_time() -> None:
    asked = {"train": {"budget_seconds": 400.0, "members": 4}}
    narrow, wide = (
        choose(many_phones(), asked, Speed(1e11, 0, 1e11, cores), evenly(1e7)).layer["decoder"]["width"]
        for cores in (2, 4)
    )
    assert (narrow, wide) == (128, 256)


def never(*_: object) -> float:
    raise AssertionError("what can be measured is not estimated")


def test_the_throughput_of_very_large_models_is_estimated() -> None:
    spec = compose(("flag", {"encoder": {"width": 8}, "decoder": {"width": 8}})).spec
    assert measured(20.0, lambda *_: 7.0)(spec, BatchShape((300_000, 300_000), (9, 9)), 1) == 7.0


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_a_wider_model_is_measured_and_estimated_to_be_slower(kind: str) -> None:
    shape = BatchShape((40, 30), (9, 8))

    def throughputs(width: int) -> tuple[float, float]:
        part = {"kind": kind, "width": width}
        layer = {"encoder": part, "decoder": part, "embed": {"width": width}, "train": {"batch_tokens": 256}}
        spec = compose(("autopilot", layer)).spec
        return measured(20.0, never)(spec, shape, 1), estimated(Speed(1e10, 0, 1e10, 1))(spec, shape, 1)

    narrow, wide = throughputs(16), throughputs(512)
    assert narrow[0] > wide[0] > 0
    assert narrow[1] > wide[1] > 0


def test_measuring_restores_the_random_state_and_the_threads() -> None:
    import torch

    torch.manual_seed(3)
    wanted, threads = torch.rand(1), torch.get_num_threads()
    torch.manual_seed(3)
    measured(20.0, never)(
        compose(("flag", {"encoder": {"width": 8}, "decoder": {"width": 8}})).spec, BatchShape((9, 9), (4, 4)), 1
    )
    assert torch.equal(torch.rand(1), wanted)
    assert torch.get_num_threads() == threads


def test_very_long_lines_can_be_measured() -> None:
    spec = compose(("flag", {"encoder": {"width": 8}, "decoder": {"width": 8}})).spec
    assert measured(20.0, never)(spec, BatchShape((9, 9), (20_000, 20_000)), 1) > 0


@pytest.mark.parametrize(
    ("lengths", "left"),
    [((9, 8), 1.0), ((300, 300), 1.0), ((20_000, 20_000), 1.0), ((3000, 300), 2 / 11), ((2700, 100), 4 / 28)],
)
def test_sources_that_are_longer_than_those_measured_lower_the_throughput(
    lengths: tuple[int, int], left: float
) -> None:
    assert _length_correction(BatchShape((9, 9), lengths)) == pytest.approx(left)


def test_long_lines_are_shortened_for_measuring_and_batches_keep_their_rows() -> None:
    assert _measured_lengths(BatchShape((9, 9), (20_000, 8))) == (300, 8)
    spec = compose(("flag", {"train": {"batch_tokens": 6000}})).spec
    assert _random_batch(spec, BatchShape((9, 9), (3000, 8))).source.values.shape == (2, 300)
    assert _random_batch(spec, BatchShape((9, 9), (200, 8))).source.values.shape == (30, 200)


def test_a_measured_throughput_decides_the_width_and_how_many_models() -> None:
    stats, hour = replace(sentences(), pairs=50_000), {"train": {"budget_seconds": 3600.0}}
    speed = Speed(1e11, 0, 1e11, 2)
    slow, fast = (choose(stats, hour, speed, lambda *_, rate=rate: rate).layer for rate in (10.0, 1e6))
    assert slow["encoder"]["width"] < fast["encoder"]["width"]
    assert "members" not in slow["train"]
    assert fast["train"]["members"] > 1


def test_a_recurrent_decoder_reads_features_at_every_step_unless_the_user_sets_the_bridge() -> None:
    stats = survey([Pair(f"word{i}", f"words{i}", features=("N", "PL")) for i in range(60)], 0)[0]
    assert chosen(stats).bridge.give == "every"
    assert chosen(stats, {"bridge": {"kind": "mean"}}).bridge.give == "first"
    assert chosen(stats, {"head": {"kind": "ctc"}}).bridge.give == "first"
    assert chosen(phones()).bridge.give == "first", "there are none"


def test_a_recurrent_model_is_wider_where_there_is_more_to_learn_and_time_for_it() -> None:
    few, many = phones(), replace(phones(), pairs=200_000)
    hours = {"train": {"budget_seconds": 50_000.0}}
    assert chosen(few, hours, 1e11).decoder.width == 128
    assert chosen(many, hours, 1e11).decoder.width == 256
    assert chosen(many, {"train": {"budget_seconds": 60.0}}, 1e11).decoder.width == 128


def test_attention_is_location_aware_where_long_targets_copy() -> None:
    long = survey([Pair(f"{i:05d}abcdefgh", f"{i:05d}abcdefg") for i in range(60)], 0)[0]
    short = survey([Pair(f"a{i}", f"a{i}") for i in range(60)], 0)[0]
    assert chosen(long).decoder.attention.location_aware
    assert not chosen(short).decoder.attention.location_aware
    assert not chosen(phones()).decoder.attention.location_aware
    assert not chosen(long, {"decoder": {"attention": {"feed": False}}}).decoder.attention.location_aware
    assert chosen(long, {"head": {"kind": "ctc"}}).decoder.kind == "none"


@pytest.mark.parametrize(
    "given",
    [
        {"head": {"kind": "copy"}},
        {"embed": {"shared": True}},
        {"data": {"tag": 3, "tag_at": "decoder"}},
        {"head": {"kind": "ctc"}},
        {"embed": {"shared": True}, "head": {"kind": "copy"}, "encoder": {"kind": "transformer"}},
    ],
)
def test_models_whose_sides_share_token_ids_can_be_measured(given: dict[str, Any]) -> None:
    pairs = [Pair(f"{chr(0x4E00 + i)}abcdefgh", "abc"[: 1 + i % 3] * 2, tag="x") for i in range(120)]
    stats = survey(pairs, 0)[0]  # the source has many more symbols than the target
    asked = {**given, "source": {"tokens": "characters"}, "target": {"tokens": "characters"}}
    chosen = choose(stats, asked, Speed(1e10, 0, 1e10, 1), measured(20.0, never))
    assert any("there is time for" in why for _, _, why in chosen.reasons)


def test_numbers_of_epochs_are_written_in_words() -> None:
    assert [size.about(epochs) for epochs in (0.06, 1.0, 1.4, 1.6, 12.3)] == [
        "about 6% of an epoch",
        "about 1 epoch",
        "about 1 epoch",
        "about 2 epochs",
        "about 12 epochs",
    ]


def test_lines_that_nearly_equal_their_source_are_characters_if_there_is_time() -> None:
    sources = [" ".join(WORDS[(i * k + i // 3) % len(WORDS)] for k in (1, 2, 3, 5, 7)) + f" {i}" for i in range(2000)]
    almost = survey([Pair(source, source.capitalize()) for source in sources], 0)[0]
    assert almost.relation.copied > 0.8

    def cut(seconds: float, stats: Survey = almost, **given: Any) -> tuple[str, str]:
        asked = {"train": {"budget_seconds": seconds}, **given}
        layer = choose(stats, asked, Speed(1e11, 0, 1e11, 2), lambda *_: 10_000.0).layer
        spec = compose(("autopilot", layer), ("flag", asked)).spec
        return spec.target.tokens, spec.decoder.kind

    assert cut(600.0) == ("characters", "recurrent")
    assert cut(5.0) == ("bpe", "transformer")
    assert cut(600.0, replace(almost, source=replace(almost.source, mean=201.0))) == ("bpe", "transformer")
    assert cut(600.0, decoder={"kind": "transformer"}) == ("bpe", "transformer")
    assert cut(600.0, target={"tokens": "bpe"}) == ("bpe", "transformer")
    assert (
        choose(almost, {"train": {"steps": 9}})
        .notes[-1]
        .endswith("with a --budget for 5 epochs, tokens are characters")
    )


def copied_words_of(source: str, target: str) -> float:
    return copied_words([Pair(source, target)])


def test_words_that_are_in_the_source_count_as_copied() -> None:
    assert copied_words_of("call self.get_name, please", "self . get_name ( )") == 1.0
    assert copied_words_of("a dog runs", "ein Hund runs") == pytest.approx(1 / 3)
    assert copied_words_of("ab", "cd") == 0.0


def head(share: float, given: dict[str, Any] | None = None, stats: Survey | None = None) -> str:
    stats = stats or sentences()
    relation = replace(stats.relation, copied=0.5, copied_words=share)
    return chosen(replace(stats, relation=relation), given or {"train": {"budget_seconds": 600.0}}).head.kind


def test_a_model_copies_where_targets_take_many_words_from_their_source() -> None:
    assert (head(0.2), head(0.19)) == ("copy", "tokens")
    assert head(0.2, {"train": {"steps": 9}}) == "copy"
    assert head(0.9, stats=phones()) == "tokens", "only pieces of words are copied"


@pytest.mark.parametrize(
    "given",
    [
        {"head": {"kind": "tokens"}},
        {"head": {"kind": "ctc"}},
        {"source": {"tokens": "characters"}},
    ],
)
def test_no_copying_head_is_chosen_where_the_user_has_decided(given: dict[str, Any]) -> None:
    assert head(0.9, given) != "copy"


def test_words_that_sources_and_targets_share_by_chance_are_not_copied() -> None:
    draw = random.Random(1)
    names = ["".join(draw.sample(ascii_lowercase, 8)) for _ in range(200)]
    chance = survey([Pair(f"the dog and {name}", f"the old dog and {i}") for i, name in enumerate(names)], 0)[0]
    copies = survey([Pair(f"the dog and {name}", f"the old dog and {name}") for name in names], 0)[0]
    assert chance.relation.copied_words == 0.0
    assert copies.relation.copied_words == pytest.approx(0.5), "the name, of what other targets do not share"
