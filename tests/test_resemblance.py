"""Validation files that do not look like the training data are noted; ordinary ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.pair import Pair
from weft.data.pairs import Columns
from weft.data.prepare import Files, Prepared

TRAINING = [Pair(f"{a}{b}{c}", f"{c} {b} {a}".upper()) for a in "abcd" for b in "efgh" for c in "ijkl"]


def notes(folder: Path, *valid: list[Pair], tags: bool = False) -> list[str]:
    paths = []
    for number, pairs in enumerate([TRAINING, *valid]):
        path = folder / f"{number}.tsv"
        path.write_text("".join(f"{p.source}\t{p.target}\t{p.tag or 'en'}\n" for p in pairs), encoding="utf-8")
        paths.append(str(path))
    columns = Columns(1, 2, tag=3) if tags else Columns(1, 2)
    made = Prepared(Files((paths[0],), tuple(paths[1:]), columns), root=folder / "cache")
    return [note.replace(f"{folder}/", "") for note in made.notes]


def test_validation_pairs_like_the_training_pairs_make_no_note(tmp_path: Path) -> None:
    assert notes(tmp_path, [Pair(f"a{n % 3}".replace("0", "e") * 2, "I E A") for n in (0, 3)]) == []


def test_another_alphabet_is_noted_with_its_share(tmp_path: Path) -> None:
    pairs = [Pair("ж" * 3, "I E A")] * 3 + [Pair("aei", "I E A")]
    assert notes(tmp_path, pairs)[0] == (
        "75% of the characters of the sources of 1.tsv never occur in the training sources, "
        "so the model has learned nothing about them: ж"
    )


def test_columns_the_other_way_round_are_noted(tmp_path: Path) -> None:
    (note,) = notes(tmp_path, [Pair(p.target, p.source) for p in TRAINING[:20]])
    assert note.endswith("are the columns the other way round?")


def test_other_lengths_are_noted(tmp_path: Path) -> None:
    (note,) = notes(tmp_path, [Pair("aei" * 10, "I E A")] * 10)
    assert note == (
        "the sources of 1.tsv have 30 characters on average, but those of the training pairs have 3: "
        "is it the same kind of data?"
    )


def test_tags_that_training_never_sees_are_noted(tmp_path: Path) -> None:
    (note,) = notes(tmp_path, [Pair("aex", "I E A".replace("I", "K"), tag="fr")] * 2, tags=True)[-1:]
    assert note == "1.tsv has tags or features that training never sees: 1: <fr>"


@pytest.mark.parametrize("count", [1, 2])
def test_validation_pairs_that_are_training_pairs_are_noted_for_each_file(tmp_path: Path, count: int) -> None:
    sets = [TRAINING[: 5 + n] for n in range(count)]
    expected = [
        f"{5 + n} of {5 + n} {'validation pairs' if count == 1 else f'pairs of {n + 1}.tsv'} "
        "are also training pairs: scores will be optimistic"
        for n in range(count)
    ]
    assert notes(tmp_path, *sets) == expected
