"""Cells that name files: where a name is looked for, which files are refused unread, and how changed ones are noticed.

A name is relative to the folder of its table. In a Pair it is a path that can be opened from anywhere, with `/./`
between the folder and the name as it stands in the table (as rsync writes it): people are shown the name alone.
A part of a recording is its path and `#t=START,END`, in seconds, as in media fragments of the web.
"""

from __future__ import annotations

import json
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.data.files import Stamp, Stamps, new_digest, stamp
from weft.data.formats import Fault

MARK = "/./"
PART = re.compile(r"#t=([0-9.]*),([0-9.]*)$")
SECONDS = re.compile(r"(\d+\.?\d*|\.\d+)?")
LARGEST = 1 << 30  # bytes of a file that is read, unless a kind has a limit of its own
SHOWN = 60  # characters of a name in a message


def in_folder(name: str, folder: str) -> str:
    """Return a name as a path that can be opened from anywhere; an absolute one stays as it is."""
    name = name.strip()
    return name if os.path.isabs(name) else f"{os.path.abspath(folder)}{MARK}{name}"


def name_of(cell: str) -> str:
    """Return the name as it stands in the table."""
    return cell.rpartition(MARK)[2]


def path_of(cell: str) -> str:
    """Return the file of a cell, without the part of it that is meant."""
    return PART.sub("", cell)


def part_of(name: str, begin: str, end: str) -> str:
    """Return the name of a part of a recording; a time that is no number of seconds is a Fault."""
    begin, end = begin.strip(), end.strip()
    for role, seconds in (("start", begin), ("end", end)):
        if not SECONDS.fullmatch(seconds):
            raise Fault(f"the {role} {seconds!r} is not a number of seconds", "write it as 12.5, or leave it empty")
    return f"{name}#t={begin},{end}" if begin or end else name


def seconds_of(cell: str) -> tuple[float, float | None]:
    """Return where the part that is meant begins and ends; (0, None) for the whole file."""
    match = PART.search(cell)
    if match is None:
        return 0.0, None
    begin, end = match.groups()
    return float(begin or 0), float(end) if end else None


def has_ending(cell: str, endings: Sequence[str]) -> bool:
    """Return whether a cell looks like the name of a file with one of these endings."""
    return path_of(cell.strip()).lower().endswith(tuple(endings)) and "\n" not in cell


def file_fault(role: str, cell: str, endings: Sequence[str], largest: int = LARGEST) -> Fault | None:
    """Return why a file cannot be used, if it can be told without reading it."""
    path, name = path_of(cell), _shown(name_of(path_of(cell)))
    if not path.rpartition(MARK)[2]:
        return Fault(f"the {role} is empty", "give the name of a file")
    if not has_ending(path, endings):
        return Fault(f"the {role} {name} does not end in {', '.join(endings)}", "give the name of such a file")
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        return _missing(role, path, error)
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or a pipe"
        return Fault(f"the {role} {name} is {what}, not a file", "give the name of a file")
    if status.st_size == 0:
        return Fault(f"the {role} {name} is an empty file", "copy or download it again")
    if status.st_size > largest:
        size = f"{status.st_size / 1e6:,.0f} MB, but the limit is {largest / 1e6:,.0f} MB"
        return Fault(f"the {role} {name} has {size}", "make it smaller, or split it")
    if not os.access(path, os.R_OK):
        return Fault(f"there is no permission to read the {role} {name}", "ask its owner, or `chmod +r` it")
    return None


def _missing(role: str, path: str, error: OSError | ValueError) -> Fault:
    folder, mark, name = path.rpartition(MARK)
    looked = f", looked for in {folder}" if mark else ""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        todo = (
            "names are relative to the folder of the table: correct the names, or move the table beside the files; "
            f"if the column holds text and no names of files, set {role}.kind=text"
        )
        return Fault(f"there is no file {_shown(name)} for the {role}{looked}", todo)
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return Fault(f"the {role} {_shown(name)} cannot be opened: {reason}", "check the name and the disk")


def _shown(name: str) -> str:
    return repr(name if len(name) <= SHOWN else f"…{name[-SHOWN:]}")


def are_same(stamps: Mapping[str, Stamp]) -> bool:
    """Return whether all files are as they were; the bytes are compared where only the time differs."""
    return all(_is_same(path, before) for path, before in stamps.items())


def _is_same(path: str, before: Stamp) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    if (status.st_size, status.st_mtime_ns) == (before.size, before.modified):
        return True
    return status.st_size == before.size and stamp(path).digest == before.digest


def content_of(cells: Iterable[str], stamps: Mapping[str, Stamp]) -> list[str]:
    """Return texts that are equal where the content is: of a file its hash, wherever it lies, and the part meant."""
    return [stamps[path].digest + cell[len(path) :] if (path := path_of(cell)) in stamps else cell for cell in cells]


@dataclass(frozen=True)
class NamedFiles:
    """The files that training and validation tables name, in the order they are named."""

    training: Stamps = field(default_factory=dict)
    valid: Stamps = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.training or self.valid)

    @property
    def digest(self) -> str:
        """A hash of what all of them hold."""
        return _combined(_combined("", self.training), self.valid)

    def fingerprints(self, training: str, valid: str) -> tuple[str, str]:
        """Return the fingerprints of the tables, each together with what the files hold that it names."""
        return _combined(training, self.training), _combined(valid, self.valid)

    def unchanged(self, folders: Sequence[str]) -> bool:
        """Return whether tables in these folders name the same files, and they hold the same."""
        stamps = {**self.training, **self.valid}
        homes = {os.path.abspath(folder) for folder in folders}
        return all(path.rpartition(MARK)[0] in ("", *homes) for path in stamps) and are_same(stamps)

    def to_json(self) -> str:
        return json.dumps({"training": self.training, "valid": self.valid}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> NamedFiles:
        content = json.loads(text)
        sets = ({path: Stamp(*each) for path, each in content[name].items()} for name in ("training", "valid"))
        return cls(*sets)


def _combined(fingerprint: str, stamps: Mapping[str, Stamp]) -> str:
    if not stamps:
        return fingerprint
    digest = new_digest()
    digest.update(fingerprint.encode())
    for each in stamps.values():
        digest.update(each.digest.encode())
    return digest.hexdigest()


class FileKind(ABC):
    """What the kinds of columns share whose cells name files of sound or pictures."""

    endings: Sequence[str]

    @abstractmethod
    def check(self, path: str) -> None:
        """Raise a Fault if a file that is there cannot be used."""

    def resolve(self, cell: str, folder: str) -> str:
        return in_folder(cell, folder)

    def fault(self, role: str, cell: str, longest: int) -> Fault | None:
        """Return what is wrong with a cell, or with the file that it names."""
        fault = file_fault(role, cell, self.endings)
        if fault is not None:
            return fault
        try:
            self.check(cell)
        except Fault as problem:
            return Fault(f"the {role} {problem.what}", problem.todo)
        return None
