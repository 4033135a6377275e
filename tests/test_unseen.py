"""Characters of a source that training never had: unknown, read as the nearest known ones, or carried over."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import pytest

import weft as package
from commands import Weft, refused
from conftest import SMALL
from weft.api import Run
from weft.choose import choose
from weft.core.pair import UNKNOWN, Pair
from weft.data.prepare import Files, Prepared
from weft.data.sides.sides import Sides
from weft.data.survey import survey
from weft.data.text.relation import kept
from weft.data.text.tokens import LOST, encode_pairs, from_json, learn
from weft.data.text.unseen import ONE_IN, STAND_INS, UnseenCharacters, with_hidden
from weft.runs.report import Quiet
from weft.settings import compose

KNOWN = frozenset("abcyeéIi")


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("abc", "abc"),
        ("aÿc", "ayc"),  # without its accent
        ("aBc", "abc"),  # in the other case
        ("Éa", "éa"),
        ("a\u0308c", "ac"),  # an accent by itself
        ("e\u0301a", "éa"),  # composed otherwise
        ("ﬁa", "ia"),  # of a ligature what is known
        ("a7c", "a7c"),  # nothing is near: stays unknown
        ("\u0308", "\u0308"),  # nothing would be left
    ],
)
def test_a_character_never_seen_is_read_as_the_nearest(source: str, read: str) -> None:
    assert UnseenCharacters("nearest", KNOWN).hide(Pair(source, "x")) == Pair(read, "x")


def test_text_that_was_learned_in_parts_is_taken_apart() -> None:
    known = frozenset(unicodedata.normalize("NFD", "é"))
    assert UnseenCharacters("nearest", known).hide(Pair("é")).source == "e\u0301"


def test_what_is_carried_stands_in_the_output_again() -> None:
    unseen = UnseenCharacters("carried", KNOWN | set(STAND_INS))
    hidden = unseen.hide(Pair("1a2b1", "b1a2"))
    one, two = STAND_INS[:2]
    assert hidden == Pair(f"{one}a{two}b{one}", f"b{one}a{two}")
    assert unseen.hide(hidden) == hidden, "hiding twice is hiding once"
    assert unseen.restore("1a2b1", hidden.target) == "b1a2"
    assert unseen.restore("1a2b1", f"a{STAND_INS[2]}b") == "ab", "a stand-in for nothing is left out"
    assert unseen.restore("abc", "cba") == "cba"


def test_more_unseen_characters_than_there_are_stand_ins_stay_unknown() -> None:
    unseen = UnseenCharacters("carried", KNOWN | set(STAND_INS))
    hidden = unseen.hide(Pair("123456", "65"))
    assert hidden == Pair(f"{STAND_INS}56", "65")
    assert unseen.restore("123456", STAND_INS) == "1234"


def test_more_unseen_characters_than_there_are_stand_ins_are_learned_from_as_they_are_read_later() -> None:
    source, target = (learn("characters", 0, ["abc", STAND_INS]) for _ in range(2))
    source.unseen = "carried"
    pair = Pair("a123456", "5a1")
    read, written = encode_pairs([pair], source, target)
    assert read == source.encode_sources([pair])
    assert read[0] == [*source.encode(f"a{STAND_INS}"), UNKNOWN, UNKNOWN]
    assert source.unseen_characters.restore(pair.source, target.decode(written[0])) == f"{LOST}a1", (
        "not the first for the fifth"
    )


def test_nothing_is_done_unless_it_is_asked_for() -> None:
    pair = Pair("a7ÿ", "7")
    assert UnseenCharacters("unknown", KNOWN).hide(pair) is pair


def test_both_sides_of_a_pair_have_the_same_stand_in_and_a_tokeniser_keeps_its_way() -> None:
    source, target = (learn("characters", 0, ["abc", STAND_INS]) for _ in range(2))
    source.unseen = "carried"
    read, written = encode_pairs([Pair("a7", "7a")], source, target)
    assert read == [[source.encode("a")[0], source.encode(STAND_INS[0])[0]]]
    assert target.decode(written[0]) == f"{STAND_INS[0]}a"
    assert from_json(source.to_json(), "x").encode_sources([Pair("a7")]) == read
    source = from_json(source.to_json().replace('"unseen": "carried",', ""), "x")
    assert source.encode_sources([Pair("a7")])[0][1] == UNKNOWN, "runs of an older Weft go on as they were"


def test_some_pairs_come_again_with_characters_hidden_on_both_sides() -> None:
    pairs = [Pair(f"{n:04d}", f"x{n:04d}") for n in range(400)]
    found = list(with_hidden([*pairs, *pairs]))
    assert found == list(with_hidden([*pairs, *pairs]))
    real = [pair for pair in found if not set(pair.source) & set(STAND_INS)]
    hidden = [pair for pair in found if set(pair.source) & set(STAND_INS)]
    assert real == [*pairs, *pairs]
    assert len(pairs) / ONE_IN / 2 < len(hidden) < 2 * len(pairs) / ONE_IN, "each different pair at most once"
    assert all(pair.target == f"x{pair.source}" for pair in hidden)
    assert {len(set(pair.source) & set(STAND_INS)) for pair in hidden} == {1, 2}


def test_rare_characters_decide_what_is_done() -> None:
    keeps = [Pair(word, word + "s") for word in ("abc", "abd", "aqb", "azb", "abx")]
    loses = [Pair(pair.source, "".join(c for c in pair.source if c in "ab")) for pair in keeps]
    assert kept(keeps) == 1.0
    assert kept(loses) == 0.0
    many = [Pair(f"{a}{b}{c}", f"{a}{b}{c}s") for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh"]
    spelled, lost, phones = (
        survey(pairs, 0)[0]
        for pairs in (
            many,
            [Pair(p.source, "xyz" + p.source.translate(str.maketrans("abcdefgh", "ijklmnop"))) for p in many],
            [Pair(p.source, " ".join(p.source)) for p in many],
        )
    )
    chosen = [choose(found, {}) for found in (spelled, lost, phones)]
    assert [compose(("autopilot", one.layer)).spec.data.unseen for one in chosen] == ["carried", "nearest", "nearest"]
    assert [why for key, _, why in chosen[0].reasons if key == "data.unseen"] == [
        "targets keep 100% of the rare characters of their sources (corrected for chance), so unseen characters are "
        "copied to the output"
    ]
    asked = compose(("autopilot", choose(spelled, given := {"data": {"unseen": "unknown"}}).layer), ("flag", given))
    assert asked.spec.data.unseen == "unknown"
    in_bytes = choose(spelled, given := {"source": {"tokens": "bytes"}, "target": {"tokens": "bytes"}})
    assert compose(("autopilot", in_bytes.layer), ("flag", given)).spec.data.unseen == "unknown"


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["data.unseen=nearest", "source.tokens=bytes"], ["data.unseen=nearest", "source.tokens=bytes", "leave"]),
        (["data.unseen=carried", "source.tokens=parts"], ["data.unseen=carried", "source.tokens=parts"]),
        (["data.unseen=carried", "target.tokens=words"], ["data.unseen=carried", "target.tokens=words"]),
        (["data.unseen=copied"], ["data.unseen", "unknown", "nearest", "carried"]),
    ],
)
def test_what_cannot_be_done_about_unseen_characters_is_refused(
    weft: Weft, tiny_pairs: Path, sets: list[str], said: list[str]
) -> None:
    words = [word for setting in sets for word in ("--set", setting)]
    refused(weft("train", tiny_pairs, "--steps", 1, *words), *said)


# Input that training never saw


@pytest.mark.parametrize(
    ("kind", "text", "share"),
    [
        ("characters", "abba", 0.0),
        ("characters", "abжж", 0.5),
        ("parts", "e\u0301b", 0.0),
        ("parts", "\u00e9\u00f6", 0.25),  # e, acute, o, and an unknown diaeresis
        ("words", "ba ab", 0.0),
        ("words", "ab \u0436\u0436", 0.4),
        ("bytes", "\u0436", 0.0),  # nobody has written down what training saw
    ],
)
def test_the_share_of_unknown_characters_is_counted(kind: str, text: str, share: float) -> None:
    tokens = learn(kind, 0, ["ab ba \u00e9o"])
    assert tokens.unknown_share([Pair(text)]).share == share


def test_an_alphabet_that_was_written_down_tells_what_is_unknown() -> None:
    tokens = learn("bytes", 0, [])
    tokens.alphabet = "ab"
    assert from_json(tokens.to_json(), "here").unknown_share([Pair("ab\u0436\u0436")]).share == 0.5
    assert "alphabet" not in learn("bytes", 0, []).to_json()


def test_characters_that_are_read_as_others_are_not_unknown_but_those_that_are_carried_are() -> None:
    for way, share in (("unknown", 0.5), ("nearest", 0.0), ("carried", 0.5)):
        tokens = learn("characters", 0, ["ay", STAND_INS])
        tokens.unseen = way
        assert tokens.unknown_share([Pair("a\u00ff")]).share == share


def test_unknown_characters_are_noted_once_with_their_share() -> None:
    counted = learn("characters", 0, ["ab"]).unknown_share([Pair("ab" * 60)])
    assert counted.note("the input") == ""
    counted.add("\u0436\u0434\u0436")
    assert counted.note("the input") == (
        "2% of the characters of the input never occur in the training sources, "
        "so the model has learned nothing about them: \u0436 \u0434"
    )
    counted.add("".join(map(chr, range(0x400, 0x420))))
    assert counted.note("the input").endswith("\u2026")


def test_predicting_in_another_alphabet_is_noted_once(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("\u0436\u0434\u0436\n\u0434\u0434\n" * 3, encoding="utf-8")
    done = weft("predict", tiny_run.path, path, "--greedy")
    assert done.code == 0
    assert len(done.lines) == 6
    assert done.err.count("100% of the characters of the input never occur in the training sources") == 1
    with pytest.warns(UserWarning, match="100% of the characters of the input"):
        tiny_run.predict(["\u0436"], search={"kind": "greedy"})


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A model that has learned to write a word and an s."""
    draw = random.Random(1)
    words = sorted({"".join(draw.choices("abcdef", k=draw.randint(3, 5))) for _ in range(400)})
    path = tmp_path_factory.mktemp("unseen_characters") / "pairs.tsv"
    path.write_text("".join(f"{word}\t{word}s\n" for word in words), encoding="utf-8")
    settings = {**SMALL, "train.rate": 0.01, "train.batch_tokens": 256, "train.evaluations": 1}
    return package.train(path, out=path.with_name("run"), steps=500, settings=settings, reporter=Quiet())


@pytest.mark.slow
def test_characters_never_seen_are_carried_over(copying: Run) -> None:
    assert copying.spec.data.unseen == "carried"
    words = ["ab7de", "ÿbcd", "Xa", "abc"]
    found = copying.predict(words)
    assert [one.text for one in found] == [f"{word}s" for word in words]
    assert "7" in found[0].outputs[0].tokens, "the symbols that are shown are the real ones"
    measured = copying.evaluate([Pair(word, f"{word}s") for word in words])
    assert measured["exact"] == 100
    assert measured["loss"] < 1, "what is carried over counts as known"
    assert copying.folder.known_facts()["training_pairs"] < 400, "pairs with hidden characters are not told as pairs"
    source, target, weights = copying.predictor.alignment(Pair("ab7"), "ab7s")
    assert source[:3] == ["a", "b", "7"]
    assert target[:4] == ["a", "b", "7", "s"]
    assert weights.shape == (len(target), len(source))


@pytest.mark.slow
def test_a_run_that_starts_from_another_does_about_unseen_characters_as_that_did(
    copying: Run, tmp_path: Path, weft: Weft
) -> None:
    path = tmp_path / "more.tsv"
    path.write_text("".join(f"{word}7\t{word}7s\n" for word in ("abc", "fed", "cab", "bad")), encoding="utf-8")
    done = package.train(path, out=tmp_path / "on", steps=2, init=copying.folder.path, reporter=Quiet())
    assert done.spec.data.unseen == "carried"
    again = ["train", path, "--steps", 2, "--out", "other", "--init", copying.folder.path]
    done = weft(*again, "--set", "data.unseen=nearest")
    refused(done, "data.unseen=nearest", "data.unseen=carried", "leave data.unseen out")


def test_hidden_pairs_are_in_the_corpus_and_only_where_they_are_wanted(tiny_pairs: Path) -> None:
    prepared = Prepared(Files((str(tiny_pairs),)))
    cut = ("characters", 0)
    sizes = {}
    for way in ("unknown", "nearest", "carried"):
        source, target = prepared.tokenisers(cut, cut, False, unseen=way)
        sizes[way] = len(prepared.corpus(Sides(source, target))), len(source), len(target)
    assert sizes["unknown"] == sizes["nearest"]
    assert sizes["carried"][0] > sizes["nearest"][0]
    assert [a - b for a, b in zip(sizes["carried"][1:], sizes["nearest"][1:])] == [len(STAND_INS)] * 2
