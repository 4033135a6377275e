"""Sounds as numbers: frames of samples that a language model continues."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from commands import Weft, refused
from weft.data.formats import Fault
from weft.data.number_files import FRAME
from weft.data.sides.number_cells import parse

soundfile = pytest.importorskip("soundfile")
SMALL = ("--set", "decoder.width=16", "--set", "embed.width=16", "--set", "train.evaluations=1")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table that names sounds: sines of many lengths."""
    rows = []
    for number in range(12):
        name = f"{number}.{'flac' if number % 2 else 'wav'}"
        samples = np.sin(np.arange(200 + 7 * number) / (3 + number % 4)) / 2
        soundfile.write(tmp_path / name, np.stack([samples, samples], axis=1), 8000, subtype="PCM_16")
        rows.append({"sound": name})
    path = tmp_path / "sounds.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_sound_is_frames_of_its_samples(table: Path) -> None:
    frames = parse(str(table.with_name("1.flac")))
    assert frames.shape == (207 // FRAME, FRAME)
    assert np.allclose(frames.ravel(), np.sin(np.arange(200) / 4)[: frames.size] / 2, atol=1e-4)
    assert len(parse(f"{table.with_name('0.wav')}#t=0.005,0.015")) == 80 // FRAME


def test_a_sound_of_less_than_a_frame_is_a_fault(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "short.wav", np.zeros(FRAME - 1), 8000)
    with pytest.raises(Fault, match=r"short\.wav has 19 samples, but at least 20"):
        parse(str(tmp_path / "short.wav"))


def test_a_waveform_is_learned_scored_and_continued(table: Path, weft: Weft, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = weft("train", table, "--task", "language-model", "--steps", "2", "--out", run, *SMALL)
    assert done.code == 0, done.err
    card = (run / "README.md").read_text()
    assert "over numbers: an LSTM" in card
    assert "| target.kind | numbers | the column holds numbers, in lists or in files that it names |" in card
    assert "| −log p of a step, given the correct steps before it |" in card
    assert "nll" in json.loads(weft("evaluate", run, table, "--json").out)
    outputs = weft("predict", run, table, "--length", "3").lines
    assert [np.shape(json.loads(line)) for line in outputs] == [(3, FRAME)] * 12


def test_a_damaged_sound_is_named(table: Path, weft: Weft, tmp_path: Path) -> None:
    table.with_name("2.wav").write_bytes(b"RIFF")
    done = weft("train", table, "--task", "language-model", "--steps", "2", "--out", tmp_path / "run", *SMALL)
    refused(done, "2.wav", "sounds.jsonl:3")


@pytest.fixture
def labelled(table: Path) -> Path:
    """The same sounds, each with a word before it."""
    path = table.with_name("labelled.tsv")
    names = [json.loads(line)["sound"] for line in table.read_text().splitlines()]
    path.write_text("word\tsound\n" + "".join(f"{'ab'[k % 2]}\t{name}\n" for k, name in enumerate(names)))
    return path


def test_sounds_cannot_be_predicted(labelled: Path, weft: Weft, tmp_path: Path) -> None:
    flags = ("--source", "word", "--target", "sound", "--steps", "2")
    done = weft("train", labelled, *flags, "--out", tmp_path / "run")
    refused(done, "the target column names recordings, which Weft reads but does not predict", "the other way round")


def test_verify_knows_the_cache_of_a_run_of_sounds(labelled: Path, weft: Weft, tmp_path: Path) -> None:
    flags = ("--source", "sound", "--target", "word", "--steps", "2")
    assert weft("train", labelled, *flags, "--out", tmp_path / "run").code == 0
    assert "not in the cache" not in weft("verify", tmp_path / "run").out
