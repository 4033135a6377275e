"""Tunes as MIDI files and as piano rolls, and what the card of a language model shows."""

from __future__ import annotations

import json
import sys
from io import BytesIO
from pathlib import Path

import mido
import pytest
from matplotlib.image import imread

from commands import Weft, refused
from weft.api import Run, train
from weft.data.midi import events, midi_bytes
from weft.look.roll import draw_rolls
from weft.predict.continuations import cut_text, cut_tune
from weft.runs.log import LogFile
from weft.runs.report import Quiet

SMALL = {"decoder.width": 16, "embed.width": 16, "train.evaluations": 1}
SCALE = [[60], [60, 64], [], [62, 62], [62]]


def sounding(content: bytes, step_seconds: float) -> list[list[int]]:
    """Return the notes of each step of a MIDI file, as a player hears them."""
    file = mido.MidiFile(file=BytesIO(content))
    now, seconds, steps, heard = set[int](), 0.0, round(file.length / step_seconds), list[list[int]]()
    for message in file:
        while message.time and len(heard) < round((seconds + message.time) / step_seconds):
            heard.append(sorted(now))
        seconds += message.time
        if message.type == "note_on":
            now.add(message.note)
        elif message.type == "note_off":
            now.remove(message.note)
    assert (now, len(heard)) == (set(), steps)
    return heard


@pytest.mark.parametrize("step_seconds", [0.01, 0.25, 4.0])
@pytest.mark.parametrize("tune", [SCALE, [[]], [[21, 108]], [[60], [], []]])
def test_a_midi_file_sounds_as_the_tune_has_it(tune: list[list[int]], step_seconds: float) -> None:
    assert sounding(midi_bytes(tune, step_seconds), step_seconds) == [sorted(set(step)) for step in tune]


def test_a_held_note_is_struck_once() -> None:
    assert list(events([[60], [60], [60, 62]])) == [(0, True, 60), (2, True, 62), (3, False, 60), (3, False, 62)]


def test_prompts_are_cut_at_most_in_the_middle_of_a_row() -> None:
    assert cut_text("to be or not to be") == ("to be or", " not to be")
    assert cut_text("a" * 1000) == ("a" * 80, "a" * 200)
    assert cut_tune("[[1], [2], [3]]") == ("[[1]]", "[[2], [3]]")
    assert cut_tune("[[60]]")[0] == "[]"


@pytest.mark.usefixtures("rendered")
def test_rolls_of_any_tunes_are_drawn(tmp_path: Path) -> None:
    draw_rolls([(SCALE, SCALE, [[127]] * 200), ([], [[]], [])], tmp_path / "rolls.png", "a_title", continued=False)
    assert imread(tmp_path / "rolls.png").shape[:2] == (530, 1200)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    table = tmp_path_factory.mktemp("midi") / "tunes.jsonl"
    tunes = [[[60 + (n + step) % 5] for step in range(4 + n % 3)] + [[]] for n in range(60)]
    table.write_text("".join(json.dumps({"notes": tune}) + "\n" for tune in [*tunes, [[60, 64]]]))
    out = table.with_name("run")
    return train(table, task="language-model", out=out, steps=4, settings=SMALL, reporter=Quiet())


def test_tunes_are_written_as_midi(run: Run, weft: Weft, tmp_path: Path) -> None:
    prompts, folder = "[[60], [61]]\n\n", tmp_path / "listen"
    done = weft("predict", run.path, "--length", "6", "--format", "midi", "--out", folder, "--step", 0.5, stdin=prompts)
    assert done.code == 0, done.err
    assert done.lines == [str(folder / "0001.mid"), str(folder / "0002.mid")]
    text = weft("predict", run.path, "--length", "6", stdin=prompts).lines
    for name, line in zip(done.lines, text):
        assert sounding(Path(name).read_bytes(), 0.5) == json.loads(line)
    more = ("--sample", "--nbest", "2", "--format", "midi", "--out", tmp_path / "two")
    assert [Path(name).name for name in weft("predict", run.path, *more, stdin="[[60]]").lines] == [
        "0001-1.mid",
        "0001-2.mid",
    ]


@pytest.mark.parametrize(("flags", "said"), [
    (("--format", "midi"), "MIDI files need a folder"),
    (("--out", "x"), "--out has an effect only with --format midi"),
    (("--step", "1"), "--step has an effect only with --format midi"),
    (("--format", "midi", "--out", "x", "--step", "5"), "a step of 5 seconds cannot be written"),
    (("--format", "midi", "--out", "."), "exists and is not an empty folder"),
])  # fmt: skip
def test_flags_of_midi_are_checked(flags: tuple[str, ...], said: str, run: Run, weft: Weft) -> None:
    Path("something").touch()
    refused(weft("predict", run.path, *flags, stdin="[[60]]\n"), said)


def test_only_notes_become_midi_and_only_with_mido(
    run: Run, weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "book"
    text.write_text("to be or not to be, that is the question\n" * 20)
    train(text, task="language-model", out=tmp_path / "text", steps=1, settings=SMALL, reporter=Quiet())
    refused(weft("predict", tmp_path / "text", "--format", "midi", "--out", "x", stdin="to\n"), "the run predicts text")
    card = (tmp_path / "text" / "README.md").read_text()
    assert "A language model over characters: an LSTM" in card
    assert "```\nto be or" in card
    assert " ▸" in card
    monkeypatch.setitem(sys.modules, "mido", None)
    refused(weft("predict", run.path, "--format", "midi", "--out", "x", stdin="[[60]]\n"), "pip install 'weft[midi]'")


def test_the_card_of_a_run_of_notes_speaks_of_notes_and_shows_them(run: Run) -> None:
    card = (run.path / "README.md").read_text()
    assert "A language model over notes: an LSTM" in card
    assert "(tunes.png)" in card
    assert (run.path / "tunes.png").exists()
    shown = LogFile(run.folder.log).last()["continuations"]
    assert shown
    for _, rest, output in shown:
        assert len(json.loads(output)) <= len(json.loads(rest))  # no further than the tune of the data
