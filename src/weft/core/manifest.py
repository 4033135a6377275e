"""manifest.json: the name, size and checksum of each file of a folder, so that damage is noticed before it is used.

Runs, exports and cache entries have one. A file that is not in it is unknown: it was made by an earlier version, or the
process that made it was killed before it wrote the manifest. A manifest is written whole, and has a checksum of itself.
Limits: it finds damage and edits, not forgery: who can write the files can write the manifest, too.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from weft.core.files import open_regular, parse_json, read_regular, write_whole

NAME, FORMAT = "manifest.json", 1
MOST_BYTES = 1 << 24


class Damaged(Exception):
    """A file or a checkpoint is not whole, with the reason."""


class Entry(NamedTuple):
    """What is known of a file."""

    size: int
    sha256: str


Entries = dict[str, Entry]  # by name


def entry_of(content: bytes) -> Entry:
    return Entry(len(content), hashlib.sha256(content).hexdigest())


def entry_of_file(folder: Path, name: str) -> Entry:
    """Return what a file is now; OSError if it cannot be read."""
    with open_regular(folder, name) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Entry(file.tell(), digest)


def size_of(folder: Path, name: str) -> int:
    with open_regular(folder, name) as file:
        return os.fstat(file.fileno()).st_size


def read(folder: Path) -> Entries:
    """Return the entries of a folder's manifest, none if it has no manifest; Damaged if that is not whole."""
    try:
        content = parse_json(read_regular(folder, NAME, MOST_BYTES))
        if content.pop("sum") != sum_of(content):
            raise Damaged(f"{NAME} does not match its own checksum")
        return {name: Entry(int(entry["size"]), str(entry["sha256"])) for name, entry in content["files"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise Damaged(f"{NAME} cannot be read ({reason})") from None


def write(folder: Path, entries: Mapping[str, Entry]) -> None:
    """Write a manifest, whole or not at all."""
    files = {name: entry._asdict() for name, entry in sorted(entries.items())}
    content: dict[str, Any] = {"format": FORMAT, "files": files}
    content["sum"] = sum_of(content)
    write_whole(folder, NAME, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def update(folder: Path, changes: Mapping[str, Entry], drop: Callable[[str], bool]) -> None:
    """Add entries to a folder's manifest, and drop those of some names; it is left alone where nothing changes."""
    try:
        before = read(folder)
    except Damaged:  # the files that it listed are unknown from now on
        before = {}
    after = {**{name: entry for name, entry in before.items() if not drop(name)}, **changes}
    if after != before:
        write(folder, after)


def seal(folder: Path, names: Iterable[str]) -> None:
    """Write the manifest of files that are there and whole."""
    write(folder, {name: entry_of_file(folder, name) for name in names})


def check(entries: Mapping[str, Entry], name: str, content: bytes) -> None:
    """Compare the content of a file with its entry, if it has one; Damaged if they differ."""
    if name in entries and entries[name] != entry_of(content):
        raise Damaged(f"{name} does not match its checksum in {NAME}")


def check_files(folder: Path, names: Iterable[str] | None = None) -> None:
    """Compare files with the folder's manifest, by default all that it lists; Damaged at the first that differs."""
    entries = read(folder)
    for name in entries if names is None else names:
        if (reason := damage_of(folder, name, entries.get(name))) is not None:
            raise Damaged(reason)


def damage_of(folder: Path, name: str, entry: Entry | None) -> str | None:
    """Return why a file is not whole; None where it is, or where nothing is known of it."""
    try:
        if entry is not None and (size_of(folder, name) != entry.size or entry_of_file(folder, name) != entry):
            return f"{name} does not match its checksum in {NAME}"
    except OSError as error:
        return f"{name} is missing" if error.errno == errno.ENOENT else f"{name} cannot be read: {error.strerror}"
    return None


def sum_of(content: dict[str, Any]) -> str:
    """Return the checksum of JSON content, which files that hold their own are checked by."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
