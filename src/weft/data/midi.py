"""Tunes as Standard MIDI Files, for players and notation programs.

A step is a sixteenth, and the tempo says how long it takes. A note of several steps in a row is held, not struck again:
lists of notes do not tell the two apart. The file ends where the last step does, so that rests at the end are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

from weft.core.errors import UserError

STEP_TICKS, STEPS_PER_BEAT = 120, 4
VELOCITY = 80  # how loudly a note is struck, 1 to 127
MICROSECONDS = 1_000_000
SHORTEST_STEP, LONGEST_STEP = 0.01, 4.0  # seconds; a tempo is a number of 24 bits
Event = tuple[int, bool, int]  # the step before which it happens, whether a note begins, and the note


def library() -> Any:
    """Return the package that writes MIDI."""
    try:
        import mido
    except ImportError:
        what = "writing MIDI needs the Python package mido, which is not installed"
        raise UserError(what, "--format midi", "pip install 'weft[midi]'") from None
    return mido


def events(tune: Sequence[Sequence[int]]) -> Iterator[Event]:
    """Yield where notes begin and end, in order; at a step, those that end come first."""
    before: set[int] = set()
    for number, step in enumerate([*tune, []]):
        now = set(step)
        yield from ((number, False, note) for note in sorted(before - now))
        yield from ((number, True, note) for note in sorted(now - before))
        before = now


def midi_bytes(tune: Sequence[Sequence[int]], step_seconds: float) -> bytes:
    """Return the MIDI file of a tune, each step of which takes so many seconds."""
    mido = library()
    track, last = mido.MidiTrack(), 0
    track.append(mido.MetaMessage("set_tempo", tempo=round(STEPS_PER_BEAT * step_seconds * MICROSECONDS)))
    track.append(mido.Message("program_change", program=0))
    for step, begins, note in events(tune):
        kind, velocity = ("note_on", VELOCITY) if begins else ("note_off", 0)
        track.append(mido.Message(kind, note=note, velocity=velocity, time=STEP_TICKS * (step - last)))
        last = step
    track.append(mido.MetaMessage("end_of_track", time=STEP_TICKS * (len(tune) - last)))
    file, content = mido.MidiFile(type=0, ticks_per_beat=STEP_TICKS * STEPS_PER_BEAT, tracks=[track]), BytesIO()
    file.save(file=content)
    return content.getvalue()
