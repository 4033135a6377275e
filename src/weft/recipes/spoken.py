"""Recordings for the recipes: spoken digits, alone and one after the other."""

# T samples

from __future__ import annotations

import io
import json
import random
import wave
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.recipes.seen import as_seen
from weft.recipes.study import PUBLIC, Files, Recipe, Study, public_paths

PHONES = ["Z IH R OW", "W AH N", "T UW", "TH R IY", "F AO R", "F AY V", "S IH K S", "S EH V AH N", "EY T", "N AY N"]
RATE = 8000  # samples a second
MOST_PAUSE, NOISE = 0.2, 5.0  # seconds between two digits, and the deviation of the noise there, of 32,768
STRINGS, JUDGED = 2_000, 300
UNSEEN = "yweweler"  # the last of six speakers, whose recordings are for the test alone
ARCHIVES = "fsdd/wav_train.zip", "fsdd/wav_dev.zip"
Samples = npt.NDArray[np.float32]
Clips = Mapping[str, Sequence[tuple[int, Samples]]]  # digits and their recordings, by speaker


def clips(path: Path) -> Clips:
    """Return the recordings of an archive, whose files are named DIGIT_SPEAKER_NUMBER.wav."""
    by_speaker: dict[str, list[tuple[int, Samples]]] = defaultdict(list)
    with zipfile.ZipFile(path) as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".wav")):
            digit, speaker, _ = Path(name).stem.split("_")
            with wave.open(io.BytesIO(archive.read(name))) as file:
                samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
            by_speaker[speaker].append((int(digit), samples))
    return by_speaker


def save(samples: Samples, path: Path) -> None:
    """Write a recording of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.clip(samples, -32768, 32767).astype("<i2").tobytes())


def joined(spoken: Sequence[Samples], noise: np.random.Generator) -> Samples:
    """Return recordings one after the other, with a short pause of faint noise before each and after the last."""

    def pause() -> Samples:
        return (noise.standard_normal(1 + noise.integers(int(MOST_PAUSE * RATE))) * NOISE).astype(np.float32)

    return np.concatenate([*(part for samples in spoken for part in (pause(), samples)), pause()])


def strings(by_speaker: Clips, speakers: Sequence[str], count: int, table: Path, seed: int) -> str:
    """Write COUNT strings of 3 to 5 digits of one speaker each, and a table of their names, phones and speakers."""
    folder = table.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    rng, noise, rows = random.Random(seed), np.random.default_rng(seed), ["audio\tphones\tspeaker\n"]
    for number in range(count):
        speaker = rng.choice(speakers)
        chosen = [rng.choice(by_speaker[speaker]) for _ in range(rng.randint(3, 5))]
        name = f"{folder.name}/{number:04}.wav"
        save(joined([samples for _, samples in chosen], noise), table.parent / name)
        rows.append(f"{name}\t{' '.join(PHONES[digit] for digit, _ in chosen)}\t{speaker}\n")
    table.write_text("".join(rows), encoding="utf-8")
    return str(table)


def digits(folder: Path) -> Files:
    """Return strings of digits of five speakers, and a test set of the sixth."""
    training, held_out = (clips(path) for path in public_paths(*ARCHIVES))
    seen = sorted(set(training) - {UNSEEN})
    test = strings(training, [UNSEEN], JUDGED, folder / "unseen.tsv", 3)
    return Files(
        strings(training, seen, STRINGS, folder / "train.tsv", 1),
        strings(held_out, seen, JUDGED, folder / "valid.tsv", 2),
        {"unseen speaker": test},
    )


def waveforms(folder: Path) -> Files:
    """Return every recording as a file, and tables that name them."""
    tables = []
    for part, path in zip(("train", "valid"), public_paths(*ARCHIVES)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        names = []
        for speaker, each in clips(path).items():
            for number, (digit, samples) in enumerate(each):
                names.append(f"{part}/{digit}_{speaker}_{number}.wav")
                save(samples, folder / names[-1])
        random.Random(1).shuffle(names)
        tables.append(folder / f"{part}.jsonl")
        tables[-1].write_text("".join(json.dumps({"sound": name}) + "\n" for name in names), encoding="utf-8")
    return Files(str(tables[0]), str(tables[1]))


def digits_spoken() -> Recipe:
    decoder: dict[str, Any] = {"decoder.kind": "recurrent", "head.kind": "tokens", "objective.kind": "cross-entropy"}
    decoder |= {"decoder.attention.score": "additive", "decoder.width": 96, "decoder.layers": 1}
    variants: dict[str, dict[str, Any]] = {
        "CTC": {"head.kind": "ctc", "objective.kind": "ctc"},
        "attention": {**decoder, "objective.ctc_share": 0.0},
        "both": {**decoder, "objective.ctc_share": 0.3},
    }
    settings = {
        **{"data.source": "audio", "data.target": "phones", "target.tokens": "words", "source.kind": "audio"},
        **{"encoder.kind": "recurrent", "encoder.width": 96, "encoder.layers": 2, "train.dropout": 0.1},
        **{"embed.width": 32},
        **{"train.rate": 0.003, "train.batch_tokens": 2048, "train.select": "token_error_rate"},
    }
    return Recipe(
        "digits-spoken",
        "Which phones are spoken in a recording of three to five digits? Sound and phones have the same order, so CTC, "
        "which emits a phone or a blank for each vector of the encoder, could be enough. Is attention better, or both "
        "together? And what happens with a voice that training never heard?",
        "The recordings are those of the free spoken digit dataset (Jackson 2018, CC BY-SA 4.0), in fsdd/wav_train.zip "
        "and wav_dev.zip; the files in them are named DIGIT_SPEAKER_NUMBER.wav. The recipe joins them into strings of "
        "digits: 2,000 for training and 300 for validation, spoken by five speakers, and 300 for a test, spoken by the "
        f"sixth, {UNSEEN}. The phones are those of CMUdict. {PUBLIC} `token_error_rate` is the phone error rate.",
        DIGITS_SPOKEN_LEARNS,
        (Study("digits-spoken", digits, variants, settings, "400ktokens", also=as_seen),),
    )


DIGITS_SPOKEN_LEARNS = (
    "CTC is enough: 2.1 % of its phones are wrong after 14 passes over the data, and it learns fastest, with the "
    "smallest model. Both together are as good (2.1 %). Attention alone has 5.5 %, because it must also learn that "
    "phones and sound have the same order, which CTC takes for granted. In the pictures, each phone stands where CTC "
    "emits it, or where its attention is largest. CTC emits each phone close to where it is spoken. Attention often "
    "lies elsewhere, sometimes at the other end of the recording: the states of a bidirectional encoder know what "
    "comes before and after, so the model can write a phone without attending to its sound. With a voice that training "
    "never heard, CTC gets 22 % of the phones wrong, and the three variants rank as before. Five voices are not enough "
    "to learn what voices have in common. There was one seed."
)
