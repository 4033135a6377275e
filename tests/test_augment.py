"""Pairs made up from real ones, and what the survey says of how targets hang together with sources."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase

import pytest

import weft as package
from conftest import SMALL
from weft.choose import choose
from weft.core.pair import Pair
from weft.data.blocks import blocks_of
from weft.data.corpus import Corpus
from weft.data.prepare import Files, Prepared
from weft.data.survey import Survey, shuffle_keys, survey
from weft.data.text import relation
from weft.data.text.augment import augmented, kept_letters, stretches, with_augmented
from weft.data.text.relation import Relation, RelationSurvey, copied
from weft.runs.report import Quiet
from weft.settings import compose

VERBS = [Pair(stem + "en", f"ge{stem}t", features=("V", "PST")) for stem in ("spiel", "frag", "such", "lach", "mach")]


def test_what_both_sides_share_changes_and_the_rest_stays() -> None:
    for made in augmented(VERBS, 200, seed=1):
        assert made.features == ("V", "PST")
        assert made.source.endswith("en")
        assert made.target.startswith("ge")
        assert made.target == f"ge{made.source[:-2]}t"
    made = list(augmented(VERBS, 400, seed=1))
    assert len({one.source for one in made}) > 200
    assert len({len(one.source) for one in augmented(VERBS[:1], 50, seed=1)}) > 3, "words are of any length"
    before = [one.source[-3] for one in made]
    assert 0.5 < sum(letter in "lgh" for letter in before) / len(before) < 1, "what the ending follows is real, mostly"


def test_the_letters_are_those_of_the_sources() -> None:
    letters = set("".join(pair.source for pair in VERBS))
    assert {c for made in augmented(VERBS, 100, seed=2) for c in made.source} <= letters


def test_the_same_seed_makes_the_same_pairs() -> None:
    assert list(augmented(VERBS, 20, seed=3)) == list(augmented(VERBS, 20, seed=3))
    assert list(augmented(VERBS, 20, seed=3)) != list(augmented(VERBS, 20, seed=4))


@pytest.mark.parametrize(("source", "target"), [("abc", "xyz"), ("", "abc"), ("ab", "ab"), ("go", "went")])
def test_where_too_little_is_shared_nothing_is_made_up(source: str, target: str) -> None:
    assert stretches(source, target) == []
    assert list(augmented([Pair(source, target)], 5, seed=1)) == []


def test_real_pairs_are_repeated_until_they_are_a_fair_share() -> None:
    both = list(with_augmented(VERBS, 100))
    assert both[:25] == VERBS * 5
    assert len(both) == 125
    assert list(with_augmented(VERBS, 2))[:5] == VERBS


def test_a_run_learns_from_them_and_says_how_many_are_real(tmp_path: Path) -> None:
    words = [(f"{a}{b}{c}en", f"ge{a}{b}{c}t") for a in "bdfg" for b in "aeiou" for c in "klmnprst"]
    settings = {**SMALL, "data.augmented": 50, "data.unseen": "nearest"}  # no pairs with hidden characters besides
    run = package.train(words, out=tmp_path / "run", steps=2, settings=settings, reporter=Quiet())
    facts = run.folder.read_facts()
    assert facts["augmented_pairs"] == 50
    assert facts["training_pairs"] + facts["valid_pairs"] == len(words)
    prepared = Prepared(Files((str(run.spec.data.pairs[0]),)))
    sides = run.folder.read_sides()
    plain, more = prepared.corpus(sides), prepared.corpus(sides, 50)
    assert isinstance(more, Corpus)
    assert len(more) == len(plain) + 50


# --- how targets hang together with sources


def test_the_share_that_is_copied() -> None:
    assert copied([Pair("abcd", "abcd")]) == 1
    assert copied([Pair("abcd", "xaxb")]) == 0.5
    assert copied([Pair("abcd", "wxyz"), Pair("a", "")]) == 0


def relation_of(pairs: list[Pair]) -> Relation:
    related = RelationSurvey()
    for block in blocks_of(pairs):
        related.add(block, shuffle_keys(block.sources))
    return related.result()


def test_rows_with_an_earlier_source_and_target_are_counted_as_repeated() -> None:
    pairs = [Pair("a", "1"), Pair("a", "2"), Pair("b", "1"), Pair("b", "1"), Pair("c", "1", features=("X",))]
    assert relation_of(pairs).repeated == pytest.approx(0.2)


def test_of_many_sources_some_are_counted_wholly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation, "SOURCES", 100)
    pairs = [Pair(f"word {number}", "x") for number in range(1000) for _ in range(1 + number % 3)]  # sorted by source
    assert relation_of(pairs).repeated == pytest.approx(0.5, abs=0.07)


def test_the_sample_is_the_same_whatever_the_blocks_are(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [Pair(f"word {number}", f"{number}") for number in range(5000)]
    samples = []
    for rows in (4096, 700, 1):
        monkeypatch.setattr("weft.data.blocks.ROWS", rows)
        related = RelationSurvey()
        for block in blocks_of(pairs):
            related.add(block, shuffle_keys(block.sources))
        samples.append(related._sample)
    expected, draw = pairs[: relation.SAMPLE], random.Random(1)
    for row in range(relation.SAMPLE, len(pairs)):
        if (index := draw.randrange(row + 1)) < relation.SAMPLE:
            expected[index] = pairs[row]
    assert samples == [expected] * 3


def test_it_is_kept_with_the_survey() -> None:
    found = survey([replace(pair) for pair in VERBS], 0)[0]
    assert (found.relation.copied > 0.4, found.relation.stem > 0.6) == (True, True)
    assert Survey.from_json(found.to_json()) == found
    assert Relation() == Relation(0, 0, 0, 0, 0)


def test_what_is_shared_by_chance_is_not_copied() -> None:
    draw = random.Random(1)
    bits = ["".join(draw.choices("01", k=20)) for _ in range(300)]
    turned = survey([Pair(text, text[::-1]) for text in bits], 0)[0].relation
    assert copied([Pair(text, text[::-1]) for text in bits]) > 0.6
    assert max(turned.copied, turned.stem, turned.kept) < 0.3
    same = survey([Pair(text, text) for text in bits], 0)[0].relation
    assert (same.copied, same.stem) == (pytest.approx(1), pytest.approx(1))
    constant = survey([Pair(text, "01") for text in bits], 0)[0].relation
    assert (constant.copied, constant.stem) == (0, 0)


def test_neighbours_that_are_forms_of_one_word_do_not_hide_what_is_copied() -> None:
    stems = ["".join(random.Random(seed).sample(ascii_lowercase, 6)) for seed in range(20)]
    forms = [Pair(stem, f"{stem}{ending}") for stem in stems for ending in ("s", "ed", "ing", "er", "est", "ly")]
    assert survey(forms, 0)[0].relation.copied > 0.5


def test_long_endings_are_no_less_copying_and_get_pairs_that_are_made_up() -> None:
    stems = ["".join(random.Random(seed).sample(ascii_lowercase, 4)) for seed in range(100)]
    found = survey([Pair(stem, f"{stem}{'LERIMIZDEN'[: 6 + i % 5]}") for i, stem in enumerate(stems)], 0)[0]
    assert found.relation.copied < 0.5 < 0.9 < found.relation.stem
    spec = compose(("autopilot", choose(found, {}).layer)).spec
    assert (spec.data.augmented, spec.decoder.attention.location_aware) == (4900, True)


def test_a_word_of_a_sentence_can_be_made_up() -> None:
    draw = random.Random(1)
    lines = [["".join(draw.sample(ascii_lowercase, 5)) for _ in range(9)] for _ in range(60)]
    pairs = [Pair(" ".join(words), words[4]) for words in lines]
    made = list(augmented(pairs, 50, seed=1))
    assert len(made) == 50
    assert all(pair.target in pair.source for pair in made)


def test_blocks_of_the_same_words_do_not_hide_what_is_copied() -> None:
    stems = ["".join(random.Random(seed).sample(ascii_lowercase, 6)) for seed in range(100)]
    forms = [Pair(stem, f"{stem}{ending}") for ending in ("s", "ed") for stem in stems]
    found = survey([*forms, *forms], 0)[0].relation
    assert (found.copied > 0.6, found.stem > 0.9) == (True, True)


def test_letters_that_targets_never_keep_are_not_made_up() -> None:
    old = [Pair(f"{a}ſ{b}haus", f"{a}s{b}haus") for a in "abcdefg" for b in "hiklm"]
    assert kept_letters(old) == set("abcdefghiklmus")
    tagged = [Pair(f"{a}{b}haus V SG", f"{a}{b}häuser und noch viel mehr") for a in "abcdefg" for b in "hiklm"]
    assert not kept_letters(tagged) & set("VSG")
    assert kept_letters([Pair("abc", "xyz")]) == set("abc"), "none are: then any"
    assert all(made.source.count("ſ") <= 1 for made in augmented(old, 300, seed=1))
    assert not any("ſ" in made.target for made in augmented(old, 300, seed=1))
