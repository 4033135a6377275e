"""Sound: filterbanks against an independent implementation, formats, bad files, augmentation, readers, whole runs."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import load_file

from commands import Weft, refused
from processes import Started
from weft.api import Run, train
from weft.choose import choose
from weft.core.errors import UserError
from weft.core.kinds import Column
from weft.core.pair import Pair
from weft.data.cells import Kinds
from weft.data.columns import Columns
from weft.data.formats import Fault
from weft.data.inputs import read_inputs
from weft.data.pairs import ReadReport, read_pairs
from weft.data.prepare import Files, Prepared
from weft.data.sides.audio import Audio, AudioKind
from weft.data.sides.table import shown
from weft.data.sound.augment import SoundAugmentation
from weft.data.sound.filterbank import Filterbank, deltas
from weft.data.sound.recordings import read
from weft.learn.ahead import BatchesAhead
from weft.learn.augmentation import Augmentation
from weft.look.inspect.sources import source_picture
from weft.look.inspect.subject import Subject
from weft.nn.dropout import Dropout
from weft.nn.positions import NoPositions
from weft.nn.readers.sound import Convolved, SoundReader, Stacked
from weft.predict.looks import look
from weft.runs.job import Job, files_of, requested_spec
from weft.runs.ready import learn_sides
from weft.runs.report import Quiet
from weft.settings import compose

soundfile = pytest.importorskip("soundfile", reason="sound needs weft[audio]")
Floats = npt.NDArray[np.float32]
SMALL: dict[str, Any] = {
    "encoder.width": 24, "encoder.layers": 1, "embed.width": 24, "audio.bands": 12, "train.rate": 0.01,
    "train.evaluations": 2, "train.dropout": 0.1,
}  # fmt: skip
PITCHES = {"a": 400, "b": 900, "c": 1700, "d": 2900}


def tone(pitch: float, seconds: float, rate: int = 8000, loudness: float = 0.3) -> Floats:
    return (loudness * np.sin(2 * np.pi * pitch * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def melody(letters: str, seed: int = 0, rate: int = 8000) -> Floats:
    """A tone of 0.08 s for each letter, with silence between them, and a little noise."""
    random = np.random.default_rng(seed)
    silence = np.zeros(rate // 50, dtype=np.float32)
    parts = [part for letter in letters for part in (tone(PITCHES[letter], 0.08, rate), silence)]
    samples = np.concatenate(parts)
    return samples + 0.003 * random.standard_normal(len(samples)).astype(np.float32)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of melodies, and the letters of their tones."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "clips").mkdir()
    random, rows = np.random.default_rng(1), ["audio\tletters\theight"]
    for number in range(64):
        letters = "".join(random.choice(list(PITCHES), size=random.integers(2, 5)))
        soundfile.write(folder / "clips" / f"{number:02}.wav", melody(letters, number), 8000)
        height = "high" if letters[0] in "cd" and letters[1] in "cd" else "low"
        rows.append(f"clips/{number:02}.wav\t{' '.join(letters)}\t{height}")
    path = folder / "melodies.tsv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def run(table: Path) -> Run:
    roles = {"source": "audio", "target": "letters"}
    return train(table, **roles, out=table.with_name("run"), steps=120, settings=SMALL, reporter=Quiet(), seed=1)


# --- features ---------------------------------------------------------------------------------------------------------


def written_out(samples: Floats, rate: int, bank: Filterbank) -> npt.NDArray[np.float64]:
    """The definition, number by number: nothing of it is shared with the code that is tested."""
    window, hop = round(bank.window * rate), round(bank.hop * rate)
    size = 1
    while size < window:
        size *= 2
    hann = [math.sin(math.pi * (n + 1) / (window + 1)) ** 2 for n in range(window)]
    signal = [float(sample) for sample in samples] + [0.0] * max(0, window - len(samples))
    mel = [2595 * math.log10(1 + f / 700) for f in (bank.lowest, bank.highest)]
    edges = [
        700 * (10 ** ((mel[0] + (mel[1] - mel[0]) * i / (bank.bands + 1)) / 2595) - 1) for i in range(bank.bands + 2)
    ]
    turns = np.exp(-2j * np.pi * np.outer(np.arange(size // 2 + 1), np.arange(window)) / size)
    frames = []
    for begin in range(0, len(signal) - window + 1, hop):
        power = np.abs(turns @ (np.array(signal[begin : begin + window]) * hann)) ** 2
        energies = []
        for low, middle, high in zip(edges, edges[1:], edges[2:]):
            total = 0.0
            for k in range(size // 2 + 1):
                f = k * rate / size
                weight = (f - low) / (middle - low) if f <= middle else (high - f) / (high - middle)
                total += max(0.0, weight) * float(power[k])
            energies.append(math.log(max(1e-9, total / (size * sum(w * w for w in hann)))))
        frames.append(energies)
    return np.array(frames)


@pytest.mark.parametrize(("rate", "seconds"), [(8000, 0.3), (16000, 0.1), (11025, 0.09), (8000, 0.01)])
def test_filterbanks_are_those_of_the_definition(rate: int, seconds: float) -> None:
    samples = np.random.default_rng(2).standard_normal(round(rate * seconds)).astype(np.float32) * 0.1
    bank = Filterbank(bands=10, highest=3800)
    expected = written_out(samples, rate, bank)
    assert bank(samples, rate).shape == expected.shape
    np.testing.assert_allclose(bank(samples, rate), expected, atol=2e-4)


def test_features_hardly_depend_on_the_rate_of_a_recording() -> None:
    bank = Filterbank(bands=20, highest=3800)
    low, high = (bank(tone(700, 0.5, rate), rate)[5:-5].mean(0) for rate in (8000, 32000))
    loud = low > low.max() - 6
    assert loud.any()
    assert np.abs(low - high)[loud].max() < 0.3
    assert low.argmax() == high.argmax()


def test_deltas_are_slopes() -> None:
    steady = np.arange(12, dtype=np.float32)[:, None] * np.float32([1, -2])
    np.testing.assert_allclose(deltas(steady)[2:-2], np.tile([1, -2], (8, 1)), atol=1e-6)
    assert Audio(bands=8, deltas=True).shape.width == 16


def test_features_are_made_two_hundred_times_faster_than_the_sound_lasts() -> None:
    samples, side = np.random.default_rng(1).standard_normal(60 * 8000).astype(np.float32), Audio()
    side.raw(samples[:8000], 8000)
    began = time.process_time()
    side.raw(samples, 8000)
    assert time.process_time() - began < 60 / 200


@pytest.mark.parametrize("way", ["recording", "level", "corpus", "none"])
def test_means_and_deviations_are_those_that_the_settings_ask_for(way: str, table: Path) -> None:
    files = sorted(str(path) for path in (table.parent / "clips").iterdir())[:8]
    side = Audio(bands=12, normalise=way)
    side = side.fitted(files) if way == "corpus" else side
    rows = [side.features(file) for file in files]
    whole, one = np.concatenate(rows), rows[0]
    assert (np.abs(one.mean(0)).max() < 1e-3) == (way == "recording")
    assert (abs(one.mean()) < 1e-3 and abs(one.std() - 1) < 1e-3) == (way in ("recording", "level"))
    assert (np.abs(whole.mean(0)).max() < 1e-3) == (way in ("recording", "corpus"))
    assert AudioKind().load(json.loads(side.to_json())) == side


def test_silence_at_the_ends_is_left_out_and_quiet_energies_are_raised() -> None:
    silence, sound = np.zeros(4000, dtype=np.float32), tone(900, 0.3)
    pause = np.concatenate([sound, silence[:800], sound])
    plain, side = Audio(bands=12, normalise="none"), Audio(bands=12, normalise="none", trim=30, range=45)
    alone = plain.raw(pause, 8000)
    around = side.raw(np.concatenate([silence, pause, silence]), 8000)
    assert abs(len(around) - len(alone)) <= 8  # the pause in the middle stays
    assert around.max() - around.min() == pytest.approx(4.5 * math.log(10), abs=1e-3)
    assert alone.max() - alone.min() > 1.2 * (around.max() - around.min())
    assert len(side.raw(silence, 8000)) == len(plain.raw(silence, 8000))


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "mp3"])
@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (44100, 2)])
def test_every_format_is_read(ending: str, rate: int, channels: int, tmp_path: Path) -> None:
    path = tmp_path / f"tone.{ending}"
    soundfile.write(path, np.stack([tone(440, 1.0, rate)] * channels, axis=1), rate)
    samples, read_rate = read(str(path), 60)
    assert read_rate == rate
    assert samples.ndim == 1
    assert abs(len(samples) - rate) < 0.1 * rate
    assert 0.2 < float(np.abs(samples).max()) < 0.4


def test_unusual_recordings_are_read(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "eight.wav", np.stack([tone(440, 0.2)] * 8, axis=1), 8000)
    soundfile.write(tmp_path / "high.wav", tone(440, 0.2, 192_000), 192_000)
    soundfile.write(tmp_path / "bits.wav", tone(440, 0.2), 8000, subtype="PCM_24")
    soundfile.write(tmp_path / "short.wav", tone(440, 0.001), 8000)
    for path in tmp_path.iterdir():
        assert AudioKind().fault("source", str(path), 0) is None
        assert len(Audio().features(str(path))) >= 1


def bad_file(name: str, folder: Path) -> Path:
    """Write a file that cannot be used; its name says why."""
    path = folder / f"{name}.wav"
    if name == "empty":
        path.write_bytes(b"")
    elif name == "text":
        path.write_text("this is no sound, whatever its name says\n" * 20)
    elif name == "zero":
        soundfile.write(path, np.zeros(0, dtype=np.float32), 8000)
    elif name == "long":
        soundfile.write(path, np.zeros(8000 * 61, dtype=np.int16), 8000)
    elif name == "numbers":
        soundfile.write(path, np.full(800, np.nan, dtype=np.float32), 8000, subtype="FLOAT")
    elif name == "truncated":
        soundfile.write(path, tone(440, 1.0), 8000)
        path.write_bytes(path.read_bytes()[:5000])
    elif name == "half":
        path = folder / "half.flac"
        soundfile.write(path, np.random.default_rng(1).standard_normal(8000) * 0.1, 8000)
        path.write_bytes(path.read_bytes()[:4000])
    return path


BAD = {
    "missing": "there is no file 'missing.wav' for the source, looked for in",
    "empty": "is an empty file",
    "text": "cannot be read as sound",
    "zero": "has no samples",
    "long": "is 61 seconds long, but the limit is 60",
    "numbers": "has samples that are not numbers",
    "truncated": "is truncated",
    "half": "half.flac",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "good.wav", tone(440, 0.2), 8000)
    bad = bad_file(name, tmp_path)
    path = tmp_path / "table.tsv"
    path.write_text(f"good.wav\ta\n{bad.name}\tb\n")
    with pytest.raises(UserError) as error:
        list(read_pairs([str(path)], kinds=Kinds(None, "text")))
    assert error.value.where == f"{path}:2"
    assert BAD[name] in error.value.what
    assert error.value.todo


def test_bad_files_are_counted_and_left_out(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "good.wav", tone(440, 0.2), 8000)
    rows = ["good.wav", *(bad_file(name, tmp_path).name for name in BAD)]
    path = tmp_path / "table.tsv"
    path.write_text("".join(f"{name}\tx\n" for name in rows))
    report = ReadReport()
    kinds = Kinds("audio", "text")
    assert len(list(read_pairs([str(path)], kinds=kinds, on_bad_line="skip", report=report))) == 1
    assert report.skipped == len(BAD)
    assert [told.split(":")[1] for told in report.bad] == [str(line) for line in range(2, 2 + len(BAD))]


def test_a_limit_of_seconds_can_be_raised(tmp_path: Path) -> None:
    path = bad_file("long", tmp_path)
    with pytest.raises(Fault, match=r"the limit is 60"):
        read(str(path), 60)
    assert len(read(str(path), 100)[0]) == 8000 * 61
    assert len(read(f"{path}#t=10,12.5", 60)[0]) == 20_000


@pytest.mark.parametrize("part", ["#t=3,2", "#t=100,101", "#t=0,99"])
def test_a_part_that_is_not_in_the_recording_is_told(part: str, tmp_path: Path) -> None:
    with pytest.raises(Fault, match="it has no part from"):
        read(f"{bad_file('long', tmp_path)}{part}", 100)


def test_without_the_extra_the_command_that_installs_it_is_told(
    table: Path, weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    copy = Path("copy.tsv")
    shutil.copytree(table.parent / "clips", "clips")
    copy.write_text(table.read_text())
    refused(weft("train", copy, "--source", "audio", "--target", "letters"), "soundfile", "pip install 'weft[audio]'")


def test_silence_and_clipping_are_told(table: Path, weft: Weft) -> None:
    folder = Path("data")
    folder.mkdir()
    soundfile.write(folder / "silent.wav", np.zeros(4000, dtype=np.float32), 8000)
    soundfile.write(folder / "clipped.flac", np.clip(tone(440, 0.5, 16000, loudness=3), -1, 1), 16000)
    soundfile.write(folder / "fine.wav", np.stack([tone(440, 0.5)] * 2, axis=1), 8000)
    (folder / "t.tsv").write_text("silent.wav\ta\nclipped.flac\tb\nfine.wav\tc\nmissing.wav\td\n")
    told = weft("data", folder / "t.tsv").out
    for words in ("1 (silent.wav)", "1 (clipped.flac)", "8,000 Hz: 2, 16,000 Hz: 1", "1: 2, 2: 1", "0.50 to 0.50"):
        assert words in told
    assert "t.tsv:4: there is no file 'missing.wav' for the source, looked for in" in told


# --- augmentation -----------------------------------------------------------------------------------------------------

CHANGES: dict[str, dict[str, Any]] = {
    "speed": {"speed": 0.2},
    "pitch": {"pitch": 0.2},
    "volume": {"volume": 1.0, "normalise": "none"},
    "level": {"speed": 0.2, "pitch": 0.2, "noise": 1.0, "normalise": "level"},
    "noise": {"noise": 1.0},
    "time": {"time_masks": 2},
    "frequency": {"frequency_masks": 2},
}


@pytest.mark.parametrize("name", CHANGES)
def test_augmentation_depends_on_the_generator_alone(name: str) -> None:
    frames = np.random.default_rng(1).standard_normal((80, 20)).astype(np.float32)
    frames = (frames - frames.mean(0)) / frames.std(0)
    before = frames.copy()
    change = SoundAugmentation(50, 4000, **CHANGES[name])
    first, again, other = (change(frames, np.random.default_rng((1, 2, row))) for row in (7, 7, 8))
    assert np.array_equal(frames, before)
    assert np.array_equal(first, again)
    assert first.shape != other.shape or not np.array_equal(first, other)
    assert first.dtype == np.float32
    assert abs(len(first) - 80) <= (20 if name in ("speed", "level") else 0)
    if name == "level":
        assert [round(float(value), 4) for value in (first.mean(), first.std())] == [0, 1]
        assert np.abs(first.mean(0)).max() > 0.01


def test_no_augmentation_changes_nothing() -> None:
    frames = np.random.default_rng(1).standard_normal((30, 20)).astype(np.float32)
    unchanged = SoundAugmentation(50, 4000, normalise="none")(frames, np.random.default_rng(1))
    np.testing.assert_allclose(unchanged, frames, atol=1e-5)


def test_a_higher_pitch_moves_energy_to_higher_bands() -> None:
    side = Audio(bands=30, normalise="none")
    low, high = (side.raw(tone(pitch, 0.3), 8000)[5:-5] for pitch in (1000, 1200))
    from weft.data.sound.augment import _warped

    moved = _warped(low, side.lowest, side.highest, 1.2)
    assert abs(int(moved.mean(0).argmax()) - int(high.mean(0).argmax())) <= 1
    assert int(moved.mean(0).argmax()) > int(low.mean(0).argmax())


# --- readers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1, 2, 4])
@pytest.mark.parametrize("network", [Stacked, Convolved])
def test_padding_changes_nothing_that_a_reader_returns(network: type[Stacked] | type[Convolved], factor: int) -> None:
    torch.manual_seed(1)
    reader = SoundReader(network(6, 16, factor), 16, NoPositions(), Dropout(0.0)).eval()
    rows = [np.random.default_rng(n).standard_normal((n, 6)).astype(np.float32) for n in (13, 9, 1)]
    together, mask = reader.read(Column.of_vectors(rows))
    for number, row in enumerate(rows):
        alone, own = reader.read(Column.of_vectors([row]))
        assert int(mask[number].sum()) == int(own.sum()) == -(-len(row) // factor)
        torch.testing.assert_close(together[number][mask[number]], alone[0], atol=1e-6, rtol=1e-5)


def test_frames_of_padding_have_no_influence() -> None:
    torch.manual_seed(1)
    reader = SoundReader(Convolved(6, 16, 4), 16, NoPositions(), Dropout(0.0)).eval()
    column = Column.of_vectors([np.ones((11, 6), np.float32), np.ones((5, 6), np.float32)])
    spoilt = Column(column.values.masked_fill(~column.mask[..., None], 99.0), column.mask)
    (clean, mask), (other, _) = reader.read(column), reader.read(spoilt)
    assert torch.equal(clean[mask], other[mask])


# --- runs -------------------------------------------------------------------------------------------------------------


def test_the_card_shows_what_was_heard_and_where(run: Run) -> None:
    assert "![recordings and outputs, with positions](seen.png)" in (run.path / "README.md").read_text()
    assert (run.path / "seen.png").exists()


def test_a_spectrogram_stands_above_the_positions_that_read_it(run: Run, table: Path) -> None:
    recording = Pair(str(table.parent / "clips" / "05.wav"))
    (line,) = Subject(run.predictor).written([recording], ["a b"])
    seen = look(run.predictor, recording, "a b")
    track = source_picture(line).track
    assert track.shape == (12, seen.weights.shape[1])
    assert (track.min(), track.max()) == (0, 1)
    low, high = seen.picture.mean(axis=1)[[0, -1]]
    assert (low > high) == (track[-1].mean() > track[0].mean())  # high tones are above


def test_a_run_learns_to_write_what_it_hears(run: Run) -> None:
    assert run.spec.source.kind == "audio"
    assert run.spec.head.kind == "ctc"
    assert run.evaluate(run.path.parent / "melodies.tsv")["token_error_rate"] < 50


def test_a_file_a_folder_a_table_and_samples_are_predicted_alike(run: Run, table: Path, weft: Weft) -> None:
    clips = table.parent / "clips"
    every = [line.split("\t") for line in weft("predict", run.path, clips, "--format", "tsv").lines]
    assert [cells[0] for cells in every] == [f"{n:02}.wav" for n in range(64)]
    assert weft("predict", run.path, clips / "05.wav").lines == [every[5][1]]
    rows = weft("predict", run.path, table, "--format", "tsv").lines
    assert [row.split("\t")[:2] for row in rows] == [[f"clips/{cells[0]}", cells[1]] for cells in every]
    os.chdir(clips)
    assert weft("predict", run.path, stdin="05.wav\n07.wav\n").lines == [every[5][1], every[7][1]]
    samples, rate = soundfile.read(clips / "05.wav", dtype="int16")
    outputs = run.predict([str(clips / "05.wav"), (samples, rate), Pair(str(clips / "07.wav"))])
    assert [output.text for output in outputs] == [every[5][1], every[5][1], every[7][1]]


def test_inputs_that_are_no_sound_are_refused(run: Run, weft: Weft, tmp_path: Path) -> None:
    refused(weft("predict", run.path, tmp_path), "no file in this folder that ends in .wav")
    refused(weft("predict", run.path, stdin="nowhere.wav\n"), "there is no file 'nowhere.wav'", "looked for in")
    with pytest.raises(UserError, match="there is no file"):
        run.predict(["nowhere.wav"])
    with pytest.raises(UserError, match="neither a file name nor a recording"):
        run.predict([np.zeros(3)])


def test_a_prediction_does_not_depend_on_its_batch_mates(run: Run, table: Path) -> None:
    clips = [str(path) for path in sorted((table.parent / "clips").iterdir())[:12]]
    together = run.predict(clips)
    for clip, prediction in zip(clips, together):
        alone = run.predict([clip])[0]
        assert alone.text == prediction.text
        assert alone.outputs[0].log_prob == pytest.approx(prediction.outputs[0].log_prob, abs=1e-4)


def test_a_run_of_sound_that_is_killed_and_resumed_ends_with_the_same_weights(table: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "audio.speed": 0.1, "audio.time_masks": 1, "train.evaluations": 10}
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    flags += ["--source", "audio", "--target", "letters"]
    whole, killed, threads = tmp_path / "whole", tmp_path / "killed", str(torch.get_num_threads())
    process = Started(
        tmp_path / "streams", "train", table, "--out", killed, "--steps", 60, *flags, OMP_NUM_THREADS=threads
    )
    process.wait_for(lambda: any((killed / "checkpoints").glob("step-*")))
    process.kill()
    assert not (killed / "README.md").exists(), "the run was over before it was killed: make it longer"
    train(out=killed, resume=True, reporter=Quiet())
    train(table, source="audio", target="letters", out=whole, steps=60, settings=settings, reporter=Quiet())
    ours, theirs = (load_file(run / "last" / "weights.safetensors") for run in (whole, killed))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_labels_of_sound_are_learned(table: Path, tmp_path: Path, weft: Weft) -> None:
    roles = {"source": "audio", "target": "height", "task": "classify"}
    labelled = train(table, **roles, out=tmp_path / "labels", steps=60, settings=SMALL, reporter=Quiet())
    clips = [str(path) for path in sorted((table.parent / "clips").iterdir())[:6]]
    assert {prediction.text for prediction in labelled.predict(clips)} <= {"high", "low"}
    scores = json.loads(weft("evaluate", labelled.path, table, "--json").out)
    assert scores["accuracy"] > 70


def test_words_are_told_apart_by_what_sounds_in_each_part(table: Path) -> None:
    words = {"task": "classify", "data": {"source": "audio", "target": "height"}}
    prepared = Prepared(files_of(requested_spec(Job(flag_layer=words)), [str(table)], []))
    settings = choose(prepared.survey, words).layer
    assert (settings["encoder"]["kind"], settings["pool"]["kind"], settings["audio"]["normalise"]) == (
        "none",
        "parts",
        "level",
    )
    shown_values = {key: value for key, value, _ in choose(prepared.survey, words).reasons}
    assert shown_values == {key: str(settings[key.split(".")[0]][key.split(".")[1]]) for key in shown_values}
    reasons = {key: why for key, _, why in choose(prepared.survey, words).reasons}
    assert reasons["audio.trim"] == "in case recordings begin or end with silence"  # which nobody has looked for
    assert reasons["audio.range"].startswith("in case ")
    by_encoder = choose(prepared.survey, {**words, "encoder": {"kind": "recurrent"}}).layer
    assert by_encoder["pool"]["kind"] == "mean"
    long = replace(
        prepared.survey, columns={**prepared.survey.columns, "source": {**prepared.survey.columns["source"]}}
    )
    long.columns["source"]["seconds"] *= 100
    assert choose(long, words).layer["encoder"]["kind"] == "recurrent"


def test_a_recording_is_shown_by_its_name() -> None:
    assert shown("/data/here/./clips/a.wav") == "clips/a.wav"
    assert shown("/data/./text") == "/data/./text"
    assert shown("a.wav") == "a.wav"


def test_features_are_made_once(table: Path) -> None:
    files = Files(
        (str(table),),
        columns=__import__("weft.data.pairs", fromlist=["Columns"]).Columns("audio", "letters"),
        kinds=Kinds(),
    )
    prepared = Prepared(files)
    sides = learn_sides(prepared, compose(("flag", {"audio": {"bands": 12}})).spec)
    first = prepared.corpus(sides)
    modified = (first.folder / "source.vectors").stat().st_mtime_ns
    assert Prepared(files).corpus(sides).folder == first.folder
    assert (first.folder / "source.vectors").stat().st_mtime_ns == modified


# --- parts, deltas, batches ahead -------------------------------------------------------------------------------------


def test_columns_of_starts_and_ends_name_parts_of_recordings(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "long.wav", tone(440, 3.0), 8000)
    path = tmp_path / "parts.tsv"
    path.write_text("audio\tletters\tfrom\tto\nlong.wav\ta\t0.5\t1.25\nlong.wav\tb\t\t0.5\nlong.wav\tc\t2\t\n")
    columns = Columns("audio", "letters", start="from", end="to")
    pairs = list(read_pairs([str(path)], columns, kinds=Kinds()))
    assert [len(read(pair.source, 60)[0]) for pair in pairs] == [6000, 4000, 8000]
    inputs = list(read_inputs(str(path), columns, kinds=Kinds("audio")))
    assert [pair.source for pair in inputs] == [pair.source for pair in pairs]
    rows = [{"audio": "long.wav", "letters": "a", "from": 0.5, "to": 1.25}]
    lines = path.with_name("parts.jsonl")
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert next(iter(read_pairs([str(lines)], columns, kinds=Kinds()))).source == pairs[0].source


def test_a_start_that_is_no_number_is_told_with_its_line(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "long.wav", tone(440, 3.0), 8000)
    path = tmp_path / "parts.tsv"
    path.write_text("audio\tletters\tfrom\nlong.wav\ta\t1\nlong.wav\tb\tsoon\n")
    columns = Columns("audio", "letters", start="from")
    with pytest.raises(UserError, match="the start 'soon' is not a number of seconds") as error:
        list(read_pairs([str(path)], columns, kinds=Kinds()))
    assert error.value.where == f"{path}:3"
    path.write_text("text\tletters\tfrom\nabc\ta\t1\n")
    with pytest.raises(UserError, match="start select part of a recording, but the source is text"):
        list(read_pairs([str(path)], Columns("text", "letters", start="from"), kinds=Kinds()))


@pytest.mark.parametrize("way", ["recording", "corpus", "none"])
def test_deltas_are_augmented_with_their_bands(way: str, table: Path) -> None:
    files = sorted(str(path) for path in (table.parent / "clips").iterdir())[:8]
    side = Audio(bands=12, normalise=way, deltas=True)
    side = side.fitted(files) if way == "corpus" else side
    frames = side.features(files[0])
    np.testing.assert_allclose(side.slopes(frames[:, :12]), frames[:, 12:], atol=2e-3)
    change = SoundAugmentation(50, 4000, 0.2, 0.2, normalise=way, slopes=side.slopes)
    changed = change(frames, np.random.default_rng(1))
    assert changed.shape[1] == 24
    assert not np.allclose(changed[:20, :12], frames[:20, :12], atol=0.05)
    np.testing.assert_allclose(changed[:, 12:], side.slopes(changed[:, :12]), atol=1e-4)
    hiding = SoundAugmentation(50, 4000, frequency_masks=3, normalise="none", slopes=side.slopes)
    hidden = (hiding(frames, np.random.default_rng(1)) == 0).all(0)
    assert hidden[:12].any()
    assert np.array_equal(hidden[:12], hidden[12:])


def test_batches_that_are_prepared_ahead_are_those_that_are_taken(table: Path) -> None:
    files = Files((str(table),), columns=Columns("audio", "letters"), kinds=Kinds())
    spec = compose(("flag", {"audio": {"bands": 12, "speed": 0.2}, "source": {"kind": "audio"}})).spec
    prepared = Prepared(files)
    sides = learn_sides(prepared, spec)
    corpus, augmentation = prepared.corpus(sides, 0), Augmentation.of(spec, sides)
    ahead, rows = BatchesAhead(corpus, augmentation), [np.arange(4), np.arange(4, 9), np.arange(3)]
    for epoch, taken, begun in ((0, 0, 1), (0, 1, 2), (0, 0, 2), (1, 2, 1)):  # what was begun is not always taken
        batch = ahead.take(epoch, rows[taken])
        expected = corpus.batch(rows[taken], augmentation.of_epoch(epoch))
        assert torch.equal(batch.source.values, expected.source.values)
        ahead.begin(epoch, rows[begun])
