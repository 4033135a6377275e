"""Tokenisers: what was seen comes back letter by letter, what was not has a defined result."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pytest

from weft.core.errors import UserError
from weft.core.pair import SPECIALS, UNKNOWN, Pair
from weft.data.prepare import Files, Prepared
from weft.data.text.tokens import LOST, Tokeniser, from_json, learn, marks_of

KINDS = ["characters", "bytes", "words", "bpe", "unigram", "parts"]
AWKWARD = [
    "two  spaces   and four    more",
    " leading and trailing ",
    "   ",
    " ",
    "👩‍👩‍👧‍👦 family 🇩🇪",
    "e\u0301 is not é, n\u0303 is not ñ",
    "▁ is a letter ▁▁ too",
    "tab\there\t\tand there\t",
    "Ġ Ċ ð 日本語 ไทย עברית",
    "quotes \" ' \\ \\n <unknown> <pad>",
    "\u200bzero width\u200d\ufeff",
    "no\u00a0break\u2028line",
]
ORDINARY = [f"the {size} {animal} sat on a {thing}" for size in ("big", "small") for animal in ("cat", "dog", "owl")
            for thing in ("mat", "wall", "tree", "roof")]  # fmt: skip


def learned(kind: str, texts: Iterable[str] = (*AWKWARD, *ORDINARY), marks: tuple[str, ...] = ()) -> Tokeniser:
    return learn(kind, 400, texts, marks)


@pytest.fixture(scope="module", params=KINDS)
def tokeniser(request: pytest.FixtureRequest) -> Tokeniser:
    return learned(request.param)


@pytest.mark.parametrize("text", [*AWKWARD, ""])
def test_text_that_was_seen_comes_back_exactly(tokeniser: Tokeniser, text: str) -> None:
    if tokeniser.kind == "parts":
        text = unicodedata.normalize("NFC", text)
    assert tokeniser.decode(tokeniser.encode(text)) == text


def test_parts_of_characters_are_few_and_are_put_together_again() -> None:
    made = learned("parts", ["한국어", "가나다"])
    assert len(made.encode("한국")) == 6
    assert made.decode(made.encode("각")) == "각", "a syllable that was never seen, of parts that were"
    assert made.encode("e\u0301") == made.encode("é") == [UNKNOWN, UNKNOWN]
    assert made.decode(made.encode("가")[:1]) == "ᄀ"
    assert made.show(made.joining("하")) == ["ᆨ", "ᆫ"], "which would make 학 or 한 of it"
    assert made.joining("한") == made.joining("") == []
    again = from_json(made.to_json(), "here")
    assert (again.kind, again.encode("한국")) == ("parts", made.encode("한국"))


def test_ids_are_within_the_tokeniser_and_never_a_special(tokeniser: Tokeniser) -> None:
    ids = [i for row in tokeniser.encode_all(AWKWARD) for i in row]
    assert min(ids) >= len(SPECIALS)
    assert max(ids) < len(tokeniser)


def test_every_id_has_a_name_to_show(tokeniser: Tokeniser) -> None:
    names = tokeniser.show(range(len(tokeniser)))
    assert len(names) == len(tokeniser)
    assert names[: len(SPECIALS)] == list(SPECIALS)


def test_encoding_all_equals_encoding_one_by_one(tokeniser: Tokeniser) -> None:
    assert tokeniser.encode_all(AWKWARD) == [tokeniser.encode(text) for text in AWKWARD]


def test_an_empty_text_has_no_symbols(tokeniser: Tokeniser) -> None:
    assert tokeniser.encode("") == []
    assert tokeniser.decode([]) == ""


def test_specials_are_left_out_when_decoding(tokeniser: Tokeniser) -> None:
    ids = tokeniser.encode("the big cat")
    assert tokeniser.decode([2, *ids, 3, 0, 0]) == "the big cat"


@pytest.mark.parametrize(("kind", "seen", "new", "back"), [
    ("characters", "abc", "aЖc", f"a{LOST}c"),
    ("words", "big cat", "big dog cat", f"big {LOST} cat"),
])  # fmt: skip
def test_a_symbol_never_seen_is_unknown_and_shows_as_a_lost_sign(kind: str, seen: str, new: str, back: str) -> None:
    made = learned(kind, [seen])
    ids = made.encode(new)
    assert ids.count(UNKNOWN) == 1
    assert made.decode(ids) == back
    assert "<unknown>" in made.show(ids)


@pytest.mark.parametrize("kind", ["bytes", "bpe", "unigram"])
def test_tokenisers_over_bytes_know_every_text(kind: str) -> None:
    made = learned(kind, ORDINARY)
    for text in AWKWARD:
        ids = made.encode(text)
        assert UNKNOWN not in ids
        assert made.decode(ids) == text


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_ids_decode_to_lost_signs_in_every_kind(kind: str) -> None:
    made = learned(kind, ORDINARY)
    ids = made.encode("the big cat")
    assert made.decode([UNKNOWN]) == LOST
    assert LOST in made.decode([*ids, UNKNOWN, *ids])


def test_a_broken_byte_sequence_decodes_to_a_lost_sign() -> None:
    made = learned("bytes")
    assert made.decode(made.encode("é")[:1]) == LOST


def test_the_list_of_characters_does_not_depend_on_the_order_of_the_texts() -> None:
    assert learned("characters", ["ab", "cd"]).to_json() == learned("characters", ["dc", "ba"]).to_json()


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokeniser_is_the_same_when_read_again(kind: str, tmp_path: Path) -> None:
    made = learned(kind, marks=("<de>", "<+PST>"))
    made.save(tmp_path / "tokens.json")
    text = (tmp_path / "tokens.json").read_text(encoding="utf-8")
    again = from_json(text, "tokens.json")
    assert again.to_json() == made.to_json() == text
    assert (again.kind, len(again), again.marks) == (kind, len(made), ["<de>", "<+PST>"])
    assert again.encode_all(AWKWARD) == made.encode_all(AWKWARD)


def test_a_tokeniser_of_a_run_that_does_not_say_where_the_tag_stands_has_it_first() -> None:
    content = json.loads(learn("characters", 0, ["abc"], ["<fr>"]).to_json())
    del content["tag_at"]
    ids = from_json(json.dumps(content), "tokens.json").encode_sources([Pair("abc", tag="fr")])[0]
    assert ids[0] == len(SPECIALS)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_have_at_most_the_size_that_was_asked(kind: str) -> None:
    made = learned(kind)
    assert 256 < len(made) - made.first <= 400


def test_a_saved_tokeniser_is_readable_json() -> None:
    text = learned("characters", ["é日"]).to_json()
    assert json.loads(text)["symbols"] == ["é", "日"]
    assert "é" in text  # not é as an escape


# marks --------------------------------------------------------------------------------------------------------------

INFLECTED = Pair("gehen", "ging", tag="de", features=("V", "PST"))
MARKS = tuple(sorted(marks_of(INFLECTED)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_is_its_tag_then_its_features_then_its_text(kind: str) -> None:
    made = learned(kind, ["gehen"], MARKS)
    ids = made.encode_sources([INFLECTED])[0]
    assert made.show(ids[:3]) == ["<de>", "<+V>", "<+PST>"]
    assert ids[3:] == made.encode("gehen")
    assert made.decode(ids) == "gehen"


def test_a_mark_that_was_never_seen_is_unknown() -> None:
    made = learned("characters", ["gehen"], MARKS)
    ids = made.encode_sources([Pair("gehen", tag="fr", features=("V", "FUT"))])[0]
    assert made.show(ids[:3]) == ["<unknown>", "<+V>", "<unknown>"]


def test_a_tag_and_a_feature_of_the_same_name_are_different_marks() -> None:
    tag, feature = marks_of(Pair("x", tag="V", features=("V",)))
    assert tag != feature


def test_text_that_looks_like_a_mark_is_text() -> None:
    made = learned("words", ["<de> <+V>"], MARKS)
    ids = made.encode("<de> <+V>")
    assert min(ids) >= made.first
    assert made.decode(ids) == "<de> <+V>"


def test_without_marks_tags_and_features_are_not_read() -> None:
    made = learned("characters", ["gehen"])
    assert made.encode_sources([INFLECTED])[0] == made.encode("gehen")


# what is learned from ------------------------------------------------------------------------------------------------


def prepared(folder: Path, train: str, valid: str) -> Prepared:
    (folder / "train.tsv").write_text(train, encoding="utf-8")
    (folder / "valid.tsv").write_text(valid, encoding="utf-8")
    return Prepared(Files((str(folder / "train.tsv"),), (str(folder / "valid.tsv"),)), root=folder / "cache")


def test_symbols_are_learned_from_their_own_side_of_the_training_pairs_only(tmp_path: Path) -> None:
    data = prepared(tmp_path, "ab\txy\nba\tyx\n", "Q\tZ\n")
    source, target = data.tokenisers(("characters", 400), ("characters", 400), shared=False)
    assert source.symbols == ["a", "b"]
    assert target.symbols == ["x", "y"]
    assert target.marks == []


def test_a_shared_tokeniser_knows_both_sides(tmp_path: Path) -> None:
    data = prepared(tmp_path, "ab\txy\nba\tyx\n", "Q\tZ\n")
    source, target = data.tokenisers(("characters", 400), ("characters", 400), shared=True)
    assert source.symbols == ["a", "b", "x", "y"]
    assert source.to_json() == target.to_json()


def test_rows_held_out_do_not_teach_symbols(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{chr(0x4E00 + i)}\tx\n" for i in range(100)), encoding="utf-8")
    data = Prepared(Files((str(path),)), root=tmp_path / "cache")
    source, _ = data.tokenisers(("characters", 400), ("characters", 400), shared=False)
    assert data.valid
    assert not {pair.source for pair in data.valid} & set(source.symbols)


# files that are not tokenisers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "",
    "{",
    "[]",
    "null",
    "5",
    "{}",
    '{"kind": "characters"}',
    '{"kind": "characters", "marks": []}',
    '{"kind": "characters", "marks": [], "symbols": 5}',
    '{"kind": "characters", "marks": null, "symbols": []}',
    '{"kind": "bytes"}',
    '{"kind": "klingon", "marks": []}',
    '{"kind": "bpe", "marks": []}',
    '{"kind": "bpe", "marks": [], "model": {}}',
    '{"kind": "unigram", "marks": [], "model": {"version": "1.0"}}',
    '{"kind": "klingon", "marks": [], "model": {}}',
    learn("characters", 400, ["abc"]).to_json()[:-20],
])  # fmt: skip
def test_a_file_that_is_no_tokeniser_is_an_error_in_three_parts(text: str) -> None:
    with pytest.raises(UserError) as caught:
        from_json(text, "RUN/source.json")
    assert "tokeniser" in caught.value.what
    assert caught.value.where == "RUN/source.json"
    assert "train again" in caught.value.todo
