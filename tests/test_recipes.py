"""The recipes: their data are as described, and each runs from data to page in two steps."""

from __future__ import annotations

import random
import re
import wave
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from weft.compare.rank import EXPLANATION
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.look.inspect import units
from weft.recipes import (
    alignment,
    continued,
    counts,
    drawn,
    field,
    heads,
    holds,
    ibm,
    languages,
    lookup,
    makers,
    memory,
    novel,
    scaling,
    spoken,
    vanishing,
)
from weft.recipes.book import RECIPES
from weft.recipes.makers import distinct, key
from weft.recipes.run import OTHER_SETTINGS, find, run
from weft.recipes.spearman import PUBLISHED, interval, ranks, spearman
from weft.recipes.study import Options, generated
from weft.settings import compose

ROOT = Path(__file__).parents[1]
NEEDS = {
    "exposure": "g2p_sigmorphon2020",
    "chorales": "pianoroll",
    "bottleneck": "tatoeba_en_fr",
    "pedestrians": "eth_ucy",
    "storms": "hurdat2",
    "sentiment": "classification",
    "quotes": "lm_warpeace",
    "indentation": "lm_linux",
    "heads": "multi30k",
    "alignment": "tatoeba_en_fr",
    "babi": "babi",
    "abstracts": "scitldr",
    "cranfield": "cranfield",
    "squad": "squad11",
    "tunes": "pianoroll",
    "speech-signal": "fsdd",
    "language-column": "lm_warpeace",
    "novel": "lm_warpeace",
    "digits-spoken": "fsdd",
    "digits-drawn": "mnist10k",
    "scenes": "nlvr",
    "languages": "multi30k",
}


LIMITS: list[tuple[ModuleType, str, Any]] = [  # how much data recipes make, and look at once their runs are trained
    (spoken, "STRINGS", 40),
    (spoken, "JUDGED", 8),
    (drawn, "STRIPS", 40),
    (drawn, "JUDGED", 8),
    (languages, "JUDGED", 2),
    (novel, "ROWS", (60,)),
    (novel, "JUDGED", 4),
    (novel, "SAMPLED", 5),
    (continued, "COLUMN_WORDS", 3_000),
    (continued, "COLUMN_JUDGED", 300),
    (units, "MOST_STATE_NUMBERS", 1_000_000),
    (holds, "TRAINING", 500),
    (holds, "JUDGED", 120),
    (heads, "TABLE_ROWS", 8),
    (alignment, "JUDGED", 8),
    (alignment, "TRAINING", 1_000),
]
DRAWN = ("lookup", "copy")  # one that draws itself, one that is drawn by `compare`


def sample(draw: makers.Draw, count: int = 300) -> list[Pair]:
    rng = random.Random(3)
    return [draw(rng) for _ in range(count)]


def test_cased_sentences_are_written_as_their_prompt_says() -> None:
    pairs = sample(makers.cased(5, 60))
    assert {pair.tag for pair in pairs} == {"U", "L"}
    for pair in pairs:
        assert pair.target == (pair.source.upper() if pair.tag == "U" else pair.source.lower())
        assert 1 <= len(pair.source) <= 60


def test_sentences_without_spaces_can_be_aligned_by_ctc() -> None:
    """No letter occurs twice in a row except across a space, so that every target can be aligned with its source."""
    for pair in sample(makers.spaced(5, 40)):
        assert pair.target == pair.source.replace(" ", "")
        assert not re.search(r"([a-z])\1", pair.source)


def test_arithmetic_is_right_once_the_letters_are_gone() -> None:
    for pair in sample(makers.arithmetic):
        task = re.sub("[a-z]", "", pair.source)
        first, sign, second = re.fullmatch(r"(-?\d+)([+-])(-?\d+)=", task).groups()  # type: ignore[union-attr]
        wanted = int(first) + int(second) if sign == "+" else int(first) - int(second)
        assert pair.target == f"{wanted}."


def test_xml_closes_every_tag_it_opens_innermost_first() -> None:
    for pair in sample(makers.xml):
        open_: list[str] = []
        for close, name in re.findall(r"<(/?)([a-z]{2,10})>", pair.source + pair.target):
            if close:
                assert open_.pop() == name
            else:
                open_.append(name)
        assert open_ == []


def test_the_same_words_in_another_order_mean_something_else() -> None:
    by_words: dict[tuple[str, ...], set[str]] = {}
    for pair in sample(makers.ordered, 20_000):
        by_words.setdefault(tuple(sorted(pair.source.split())), set()).add(pair.target)
    assert max(len(targets) for targets in by_words.values()) == 4


def test_runs_of_digits_are_counted() -> None:
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    assert list(makers._runs("77720", names)) == ["three seven", "two", "zero"]
    assert list(makers._runs("0" * 12, names)) == ["nine zero", "three zero"]
    assert all(10 <= len(pair.source) <= 40 for pair in sample(makers.spelled(10, 40)))


@pytest.mark.parametrize(
    ("letters", "number", "source", "labels"),
    [
        ("ab", 1, "a b", "? end"),
        ("ab", 3, "a a a b b b", "? ? ? b b end"),
        ("abc", 2, "a a b b c c", "? ? b c c end"),
    ],
)
def test_counted_symbols_have_the_next_one_as_their_label(letters: str, number: int, source: str, labels: str) -> None:
    assert counts.counted(letters, number) == (source, labels)


def test_strings_that_are_longer_than_in_training_are_tested(tmp_path: Path) -> None:
    files = counts.counting("ab")(tmp_path)
    rows = {
        path: {line.split("\t")[0].count("a") for line in Path(path).read_text().splitlines()[1:]}
        for path in (files.train, files.valid or "", *files.tests.values())
    }
    assert max(rows[files.train]) < 51 <= min(min(rows[path]) for path in files.tests.values())
    assert not rows[files.train] & rows[files.valid or ""]


def test_spoken_digits_are_joined_with_pauses_and_named_by_their_phones(tmp_path: Path) -> None:
    clips = {"ann": [(digit, np.full(100, 1000 * (digit + 1), np.float32)) for digit in range(10)]}
    table = Path(spoken.strings(clips, ["ann"], 5, tmp_path / "train.tsv", seed=1))
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert rows[0] == ["audio", "phones", "speaker"]
    for name, phones, speaker in rows[1:]:
        with wave.open(str(tmp_path / name)) as file:
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        heard = [int(value) // 1000 for value in samples if value and value % 1000 == 0]
        assert " ".join(spoken.PHONES[value - 1] for value in heard[::100]) == phones
        assert (speaker, file.getframerate()) == ("ann", spoken.RATE)


def test_a_strip_shows_its_digits_beside_each_other() -> None:
    drawings = [np.full((28, 28), value, np.uint8) for value in (50, 100, 150)]
    rng = random.Random(2)
    for _ in range(20):
        pixels = drawn.strip(drawings, rng)
        assert pixels.shape[0] == 28
        assert [int(value) for value in dict.fromkeys(pixels[0]) if value] == [50, 100, 150]


def test_no_sentence_is_in_two_languages_beside_english() -> None:
    parallel = {name: [f"{name}{number}" for number in range(9)] for name in languages.LANGUAGES}
    rows = [row.rstrip("\n").split("\t") for row in languages.blocks(parallel)]
    others = [(text[2:], tag) for _, text, tag in rows if tag != "en"]
    assert len(others) == len(dict(others)) == 9
    assert {(source, target) for source, target, _ in rows} >= {("en3", "de3"), ("de3", "en3"), ("cs5", "en5")}
    assert len(languages.TRAINED) == len(languages.UNTRAINED) == 6


def test_words_of_running_text_are_known_or_unknown() -> None:
    words = continued.running_words("Well, Prince! He didn't.")
    assert words == ["well", ",", "prince", "!", "he", "didn't", "."]
    known = frozenset({"well", "!", "he", "."})
    assert continued.with_unknown([*words, "he"], known) == "well <unk> <unk> !\nhe <unk> .\nhe\n"


def test_lines_of_a_novel_lose_their_vowels(tmp_path: Path) -> None:
    assert novel.without_vowels("Anna is ill.") == "nn s ll."
    text = tmp_path / "text.txt"
    text.write_text("Short.\n" + "as long as a line of a book should be here\n" + "too long " * 20, encoding="utf-8")
    assert novel.lines(str(text)) == ["as long as a line of a book should be here"]


def test_outputs_of_several_words_are_compared_with_each_other() -> None:
    assert memory.alike(["a", "b b", "c d", "e e e", ""]) == (3, 2)


def test_draws_are_distinct_seeded_and_avoid_given_ones() -> None:
    draw = makers.symbols(1, 3, str)
    first = distinct(draw, 200, seed=1)
    assert first == distinct(draw, 200, seed=1)
    assert len({key(pair) for pair in first}) == 200
    others = distinct(draw, 100, seed=2, avoid=frozenset(key(pair) for pair in first))
    assert not {key(pair) for pair in first} & {key(pair) for pair in others}


def test_generated_data_do_not_repeat_training_rows(tmp_path: Path) -> None:
    files = generated(makers.symbols(1, 4, str), 300, 50, {"to 9": (makers.symbols(1, 9, str), 60)})(tmp_path)
    read = [
        Path(f).read_text(encoding="utf-8").splitlines() for f in (files.train, files.valid or "", files.tests["to 9"])
    ]
    assert [len(lines) for lines in read] == [300, 50, 60]
    assert not set(read[0]) & (set(read[1]) | set(read[2]))


# --- rank correlation


def test_equal_values_share_their_ranks() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]).tolist() == [3.5, 1.0, 3.5, 2.0]


@pytest.mark.parametrize("sign", [1, -1])
def test_an_interval_of_ranks_that_no_resampling_changes_is_a_point(sign: int) -> None:
    sums = {name: [[(sign * number * 10.0 + part, 10.0) for part in (0, 1)]] for number, name in enumerate("abc")}
    assert interval(sums, {"a": 0.1, "b": 0.2, "c": 0.3}, sign) == (pytest.approx(1), pytest.approx(1))


def test_spearman_by_hand() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 2, 3], [1, 3, 2]) == pytest.approx(1 - 6 * 2 / (3 * 8))


def test_the_published_table_names_the_ten_architectures() -> None:
    assert len(PUBLISHED) == 10


# --- lookup


def test_the_gradients_of_each_lookup_are_those_of_theory() -> None:
    gradients = {name: lookup.learn(*parts, steps=1).gradients for name, parts in lookup.LOOKUPS.items()}
    assert gradients["exact"] == {"query": 0.0, "key": 0.0, "value": 0.0}
    for name in ("nearest (inner product)", "nearest (rbf)"):
        assert gradients[name]["query"] == gradients[name]["key"] == 0.0
        assert gradients[name]["value"] > 0
    for name in ("straight-through", "soft, inner product", "soft, rbf", "soft, cosine", "sparsemax"):
        assert min(gradients[name].values()) > 0


# --- every recipe


@pytest.mark.parametrize(("heads", "layers"), [(1, 4), (2, 3), (4, 2)])
def test_fields_are_full_where_paths_never_meet_and_narrow_among_neighbours(heads: int, layers: int) -> None:
    assert set(field.counts(field.apart(layers, heads, 200))) == {(heads + 1) ** layers}
    assert set(field.counts(field.nearby(layers, heads, 200))) == {heads * layers + 1}
    assert max(field.counts(field.at_random(layers, heads, 200, seed=1))) <= (heads + 1) ** layers


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_an_untrained_lstm_forgets_as_its_bias_says(bias: float) -> None:
    cells = [vanishing.new_cell("lstm", bias, seed) for seed in (1, 2, 3)]
    reaches = [vanishing.reach(cell, torch.randn(1, 21, vanishing.INPUTS)) for cell in cells]
    assert vanishing.follows(reaches, bias)
    assert not vanishing.follows(reaches, 1.0)


def test_gradients_of_an_elman_network_fall_by_its_spectral_radius() -> None:
    rate, radius = vanishing.elman_decay(0.9, seed=1)
    assert rate == pytest.approx(radius, abs=0.005)


def test_an_aligner_learns_which_words_belong_together_against_the_diagonal() -> None:
    rng = random.Random(1)
    source = [rng.sample("abcdefghijklmnop", rng.randint(5, 7)) for _ in range(300)]
    pairs = [(each, [word.upper() for word in (each[1], each[0], *each[2:])]) for each in source]
    each = list(ibm.aligned(pairs, pairs[:20]))
    assert each == [frozenset({(1, 0), (0, 1), *((i, i) for i in range(2, len(a)))}) for a, _ in pairs[:20]]
    assert ibm.learn(pairs).posteriors((["a", "new"], ["A", "NEW"])).shape == (2, 3)
    assert ibm.agreement(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0)})) == (1, 2, 1)


def test_probabilities_of_translations_are_those_of_one_round_by_hand() -> None:
    learned = ibm.learn([(["a"], ["x"]), (["a"], ["y"]), (["b"], ["y"])], rounds=1)
    given = dict(zip(learned.keys.tolist(), learned.shares.tolist(), strict=True))
    two = len(learned.targets)
    assert given[learned.sources["a"] * two + learned.targets["x"]] == pytest.approx(0.5)
    assert given[learned.sources["b"] * two + learned.targets["y"]] == pytest.approx(1)
    assert sum(given[learned.targets[word]] for word in "xy") == pytest.approx(1)  # the empty word


def test_scores_that_are_not_scaled_leave_softmax_at_one_key_and_those_by_width_at_all() -> None:
    starts = {name: scaling.learn(256, by(256), steps=0, seed=1).before for name, by in scaling.DIVISORS.items()}
    assert starts["1"].largest > 0.8
    assert starts["d"].entropy > 0.99
    assert 0.5 < starts["√d"].entropy < 0.95
    assert scaling.learn(16, 4.0, steps=300, seed=1).right > 0.9


@pytest.mark.parametrize("name", RECIPES)
def test_every_variant_of_a_recipe_is_a_possible_model(name: str) -> None:
    for study in RECIPES[name].studies:
        for settings in study.variants.values():
            more = {"data.tag": study.tag} if study.tag else {}
            compose(("flag", {**study.settings, **more, **settings}))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs_from_data_to_page(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in NEEDS:
        data = request.getfixturevalue("data_folder")
        if not (data / NEEDS[name]).exists():
            pytest.skip(f"{NEEDS[name]} is not in WEFT_DATA")
        monkeypatch.setenv("WEFT_DATA", str(data))
    if name in DRAWN:
        request.getfixturevalue("rendered")
    for module, limit, few in LIMITS:
        monkeypatch.setattr(module, limit, few)
    recipe = small(RECIPES[name])
    page = run(recipe, tmp_path / name, Options(steps=2, seeds=1)).read_text(encoding="utf-8")
    assert recipe.question in page
    assert recipe.learns in page
    pictures = re.findall(r"\]\((.*?\.png)\)", page)
    assert pictures
    for picture in pictures:
        assert (tmp_path / name / picture).stat().st_size > (5000 if name in DRAWN else 0)
    assert page.count("\n| ") >= 3


def small(recipe: Any) -> Any:
    """The same with two of the variants, little data and outputs of a few symbols."""
    from dataclasses import replace

    few = {"train.valid_pairs": 4, "data.hold_out": 0.05, "search.kind": "greedy", "search.max_extra": 1}
    few |= {"search.max_ratio": 0.1}
    studies = []
    for study in recipe.studies:
        names = list(study.variants)
        variants = {name: study.variants[name] for name in (names[0], names[-1])}
        changed = replace(study, data=shortened(study.data), variants=variants, settings={**study.settings, **few})
        studies.append(changed)
    return replace(recipe, studies=tuple(studies))


def shortened(data: Any) -> Any:
    """The first lines of each file."""
    from weft.recipes.study import Files

    def write(folder: Path) -> Files:
        folder.mkdir(parents=True)
        files = data(folder / "whole")
        paths = {"train": files.train, **({"valid": files.valid} if files.valid else {}), **files.tests}
        cut = {}
        for name, path in paths.items():
            lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
            named = [each for each in (folder / "whole").glob("*") if each.is_dir()]  # folders of sounds or pictures
            file = f"{name.replace(' ', '-')}{Path(path).suffix or '.tsv'}"
            cut[name] = folder / "whole" / f"cut-{file}" if named else folder / file  # whose names begin at the table
            cut[name].write_text("".join(lines[: 300 if name == "train" else 12]), encoding="utf-8")
        valid = str(cut["valid"]) if files.valid else None
        return Files(str(cut["train"]), valid, {name: str(cut[name]) for name in files.tests})

    return write


def test_a_page_made_with_flags_says_so_and_shows_its_command(tmp_path: Path) -> None:
    page = run(RECIPES["lookup"], tmp_path / "one", Options(steps=2, seeds=1)).read_text(encoding="utf-8")
    assert "    weft recipe run lookup --steps 2 --seeds 1\n" in page
    assert OTHER_SETTINGS in page
    assert Options().flags == ""


def test_a_recipe_without_runs_refuses_a_budget(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no budget"):
        run(RECIPES["lookup"], tmp_path, Options(budget="20ktokens"))


def test_a_recipe_overwrites_only_its_own_files(tmp_path: Path) -> None:
    quick = Options(steps=2, seeds=1)
    page = tmp_path / "README.md"
    page.write_text("# My project\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"not empty \(it holds README.md\)"):
        run(RECIPES["lookup"], tmp_path, quick)
    assert page.read_text(encoding="utf-8") == "# My project\n"
    own = tmp_path / "own"
    assert run(RECIPES["lookup"], own, quick) == run(RECIPES["lookup"], own, quick) == own / "README.md"
    with pytest.raises(UserError, match="not empty"):
        run(RECIPES["copy"], own, quick)


def test_an_unknown_recipe_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'copy'") as caught:
        find("coppy")
    assert "weft recipe list" in caught.value.todo


def test_a_recipe_without_its_data_says_where_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_DATA", raising=False)
    with pytest.raises(UserError, match="WEFT_DATA is not set"):
        run(RECIPES["bottleneck"], tmp_path, Options(steps=2))
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    with pytest.raises(UserError, match="the data of this recipe are missing"):
        run(RECIPES["bottleneck"], tmp_path, Options(steps=2))


@pytest.mark.parametrize("name", RECIPES)
def test_the_page_of_every_recipe_has_its_texts_and_pictures(name: str) -> None:
    page = (ROOT / f"docs/recipes/{name}.md").read_text(encoding="utf-8")
    recipe = RECIPES[name]
    assert f"weft recipe run {name}" in page
    assert [text for text in (recipe.question, recipe.about, recipe.learns) if text not in page] == []
    assert page.count(EXPLANATION.replace("*", "\\*")) == len(recipe.studies)
    pictures = re.findall(r"\]\((.*?\.png)\)", page)
    assert pictures
    assert [picture for picture in pictures if not (ROOT / "docs/recipes" / picture).exists()] == []
