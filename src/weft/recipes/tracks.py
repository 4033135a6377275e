"""Trajectories for the recipes: a simulated plant, pedestrians and storms, as tables of JSON lines."""

from __future__ import annotations

import csv
import json
import math
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from weft.recipes.study import Files, public_paths

Row = dict[str, Any]
SEEN, AHEAD = 8, 12  # steps of pedestrians and storms: what is known, and what is predicted
PLANT_SEEN, PLANT_AHEAD = 5, 20  # steps of the plant
SCENES = ("biwi_eth", "biwi_hotel", "students001", "students003", "uni_examples", "crowds_zara01", "crowds_zara03")
SIX_HOURS = 21_600  # seconds between two fixes of a storm
DEV_STORMS = 10  # one storm in so many is for validation


def write_rows(rows: Iterable[Row], path: Path) -> str:
    """Write JSON lines, unless the file is there already; return its name."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


# --- a plant


def course(rng: random.Random, context: bool = True) -> Row:
    """Return one course of the plant: where it was, where it goes, and what its sensors read at each of these steps.

    The plant is a vehicle in the plane. Its two sensors read the slope along its way, which changes its speed, and a
    pull to the side, which turns it: speed ← 0.9 speed + 0.1 + 0.2 slope, heading ← heading + 0.4 tanh(pull). Readings
    change slowly at random, so that those to come cannot be told from the past.
    """
    x, y, heading, speed = rng.gauss(0, 3), rng.gauss(0, 3), rng.uniform(-math.pi, math.pi), rng.uniform(0.5, 1.5)
    slope, pull, points, readings = rng.gauss(0, 1), rng.gauss(0, 1), [], []
    for _ in range(PLANT_SEEN + PLANT_AHEAD):
        slope, pull = (0.7 * value + 0.7 * rng.gauss(0, 1) for value in (slope, pull))
        speed = 0.9 * speed + 0.1 + 0.2 * slope
        heading += 0.4 * math.tanh(pull)
        x, y = x + speed * math.cos(heading), y + speed * math.sin(heading)
        points.append([round(x, 3), round(y, 3)])
        readings.append([round(slope, 3), round(pull, 3)])
    row = {"past": points[:PLANT_SEEN], "future": points[PLANT_SEEN:]}
    return {**row, "sensors": readings[PLANT_SEEN:]} if context else row


def plant(context: bool, train: int = 4000, valid: int = 400) -> Callable[[Path], Files]:
    """Return data of the plant, with or without the column of its sensors."""

    def write(folder: Path) -> Files:
        names = []
        for part, (count, seed) in {"train": (train, 1), "valid": (valid, 2)}.items():
            rng = random.Random(seed)
            rows = (course(rng, context) for _ in range(count))
            names.append(write_rows(rows, folder / f"{part}.jsonl"))
        return Files(names[0], names[1])

    return write


# --- pedestrians


def scene_windows(path: Path) -> Iterator[Row]:
    """Yield every window of 20 steps of 0.4 seconds in which a pedestrian of the scene is seen, in metres."""
    tracks: dict[float, dict[int, list[float]]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        frame, person, x, y = (float(cell) for cell in line.split()[:4])
        tracks[person][int(frame)] = [round(x, 3), round(y, 3)]
    for frames in tracks.values():
        run: list[int] = []
        for frame in sorted(frames):
            run = [*run, frame] if run and frame - run[-1] == 10 else [frame]
            if len(run) >= SEEN + AHEAD:
                points = [frames[number] for number in run[-SEEN - AHEAD :]]
                yield {"past": points[:SEEN], "future": points[SEEN:]}


def pedestrians(scene: str) -> Callable[[Path], Files]:
    """Return all scenes but one to train on, and that one to validate on."""

    def write(folder: Path) -> Files:
        paths = dict(zip(SCENES, public_paths(*(f"eth_ucy/{name}.txt" for name in SCENES))))
        others = (row for name, path in paths.items() if name != scene for row in scene_windows(path))
        train = write_rows(others, folder / "train.jsonl")
        return Files(train, write_rows(scene_windows(paths[scene]), folder / "valid.jsonl"))

    return write


# --- storms


def storm_windows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the storm and each window of 20 fixes, six hours apart: positions, and wind, pressure, day of the year."""
    storms: dict[str, list[tuple[datetime, Row]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            when = datetime.fromisoformat(row["date"])
            if when.hour % 6 == 0 and when.minute == 0:
                storms[row["id"]].append((when, row))
    for name, fixes in storms.items():
        run: list[tuple[datetime, Row]] = []
        for fix in sorted(fixes, key=lambda each: each[0]):
            follows = run and (fix[0] - run[-1][0]).total_seconds() == SIX_HOURS
            run = [*run, fix] if follows else [fix]
            if len(run) >= SEEN + AHEAD:
                yield name, _storm_row(run[-SEEN - AHEAD :])


def _storm_row(fixes: list[tuple[datetime, Row]]) -> Row:
    points: list[list[float]] = []
    for _, row in fixes:
        longitude = (float(row["longitude"]) + 270) % 360 - 270  # from −270 to 90: no ocean with storms is cut there
        points.append([float(row["latitude"]), round(longitude, 3)])
    columns = ("maximum_sustained_wind_knots", "maximum_pressure")
    state = [[*(_measured(row[name]) for name in columns), when.timetuple().tm_yday] for when, row in fixes[:SEEN]]
    return {"past": points[:SEEN], "future": points[SEEN:], "past_state": state}


def _measured(cell: str) -> float | None:
    """Return a measured number; None where it is missing, which the data write as −99 or −999."""
    return float(cell) if cell and float(cell) > -90 else None


def storms(ocean: str) -> Callable[[Path], Files]:
    """Return the storms of an ocean; one in ten is for validation."""

    def write(folder: Path) -> Files:
        (path,) = public_paths(f"hurdat2/{ocean}.csv")
        return storm_files(path, folder)

    return write


def storm_files(path: Path, folder: Path) -> Files:
    """Write the windows of a file of storms, those of one storm in ten apart from the others."""
    rows = list(storm_windows(path))
    held_out = [zlib.crc32(name.encode()) % DEV_STORMS == 0 for name, _ in rows]
    train = (row for (_, row), out in zip(rows, held_out) if not out)
    valid = (row for (_, row), out in zip(rows, held_out) if out)
    return Files(write_rows(train, folder / "train.jsonl"), write_rows(valid, folder / "valid.jsonl"))


def labelled(train: str, valid: str) -> Callable[[Path], Files]:
    """Return public files of lines `label text` as tables with the columns text and label."""

    def write(folder: Path) -> Files:
        folder.mkdir(parents=True, exist_ok=True)
        names = []
        for part, path in zip(("train", "valid"), public_paths(train, valid)):
            lines = (line.split(" ", 1) for line in path.read_text(encoding="utf-8").splitlines() if " " in line)
            table = folder / f"{part}.tsv"
            rows = "".join(f"{' '.join(text.split())}\t{label}\n" for label, text in lines)
            table.write_text(f"text\tlabel\n{rows}", encoding="utf-8")
            names.append(str(table))
        return Files(names[0], names[1])

    return write
