"""Files as bytes: opening (plain or .gz), stdin, parallel names, and errors that say which file and what to do.

Stdin is copied once to a temporary file, so that it can be read several times; the name of that file ends in
STDIN_SUFFIX, and by that alone every message knows to call it <stdin> (also in another process).

Limits: .gz is the only compression; a line is held whole in memory, however long it is.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import io
import itertools
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from weft.core.errors import UserError
from weft.data.encodings import as_utf8

STDIN_SUFFIX = ".weft-stdin"
BOM = b"\xef\xbb\xbf"
BUFFER = 1 << 20


class Digest(Protocol):
    """A hash that grows with the bytes it is given, such as hashlib's."""

    def update(self, data: Any, /) -> None: ...


class Stamp(NamedTuple):
    """What tells whether a file is the same."""

    size: int
    modified: int  # nanoseconds
    digest: str


Stamps = dict[str, Stamp]  # by path


def display_name(path: str) -> str:
    """Return the name of a file as the user knows it."""
    return "<stdin>" if path == "-" or path.endswith(STDIN_SUFFIX) else path


@dataclass
class File:
    """An open file: `stream` gives its contents (unpacked, text as UTF-8), `raw` the bytes on the disk."""

    name: str
    path: str
    stream: io.BufferedReader
    raw: BinaryIO
    size: int
    encoding: str = ""  # what a byte order mark says, unless it is UTF-8
    read_share: float | None = None  # where the reader knows better than the position in `raw`

    def share(self) -> float:
        """Return how much of the file has been read, from 0 to 1."""
        if self.read_share is not None:
            return self.read_share
        return min(1.0, self.raw.tell() / self.size) if self.size else 1.0

    def start(self) -> bytes:
        """Return the first bytes without reading on, as many as there are in the buffer."""
        return self.stream.peek(BUFFER).removeprefix(BOM)


@contextmanager
def opened(path: str, *, text: bool = True, digest: Digest | None = None) -> Iterator[File]:
    """Open a file, or say what is wrong with it; `digest` is given all bytes of the disk that are read."""
    try:
        raw = io.BufferedReader(io.FileIO(path) if digest is None else _HashedFile(path, digest), BUFFER)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise _unreadable(path, error) from error
    with raw:
        stream: io.BufferedReader[Any] = raw
        name, encoding = display_name(path), ""
        if path.lower().endswith(".gz"):
            # GzipFile has all that BufferedReader asks of a raw stream, but is not typed as one.
            stream = io.BufferedReader(cast(io.RawIOBase, _Gzip(raw, name)), BUFFER)
        if text:
            stream, encoding = as_utf8(stream, name)
        yield File(name, path, stream, raw, os.fstat(raw.fileno()).st_size, encoding)


class _HashedFile(io.FileIO):
    """A file that hands every block it reads to a hash."""

    def __init__(self, path: str, digest: Digest) -> None:
        super().__init__(path)
        self._digest = digest

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer)
        self._digest.update(memoryview(buffer)[:count])
        return count


class _Gzip(gzip.GzipFile):
    """A gzip stream that names its file when it is broken: once a buffer, so at no cost for a line."""

    def __init__(self, raw: BinaryIO, name: str) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self._name = name

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            return super().readinto(buffer)
        except EOFError as error:
            raise UserError(
                "the .gz file is truncated: it has no end marker",
                self._name,
                "download or compress the file again; `gzip -t` tests it",
            ) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise UserError(
                f"the file is not a gzip file, or it is damaged: {error}",
                self._name,
                "remove .gz from its name if it is not compressed; otherwise, download or compress it again",
            ) from error


def raw_lines(stream: BinaryIO) -> Iterable[bytes]:
    """Yield the lines of a stream with their ends, the first without a byte order mark. Only \\n ends a line."""
    first = stream.readline()
    return itertools.chain([first.removeprefix(BOM)] if first else [], stream)


def size_of(path: str) -> int:
    """Return the bytes of a file or of both parallel files; UserError if one is missing, before anything is read."""
    total = 0
    for side in sides(path):
        try:
            status = os.stat(side)
        except (OSError, ValueError) as error:
            raise _unreadable(side, error) from error
        if stat.S_ISDIR(status.st_mode):
            raise _unreadable(side, IsADirectoryError())
        total += status.st_size
    return total


def sides(path: str) -> tuple[str, ...]:
    """Split `a.en:b.de` into its two files, unless a file has that very name; any other path stays alone."""
    if os.path.exists(path):
        return (path,)
    splits = [(path[:at], path[at + 1 :]) for at, letter in enumerate(path) if letter == ":"]
    splits = [(left, right) for left, right in splits if left and right]
    # More than one colon (a drive letter, a time): the split with the most files that exist.
    return max(splits, key=lambda split: sum(map(os.path.exists, split)), default=(path,))


def _unreadable(path: str, error: OSError | ValueError) -> UserError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _missing(path)
    if isinstance(error, IsADirectoryError):
        return UserError("this is a folder, not a file", path, "give the files in it, one by one or as a pattern")
    if isinstance(error, PermissionError):
        return UserError("no permission to read this file", display_name(path), "ask its owner, or `chmod +r` it")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return UserError(f"the file cannot be opened: {reason}", display_name(path), "check the name and the disk")


def _missing(path: str) -> UserError:
    folder, name = os.path.split(path)
    try:
        near = difflib.get_close_matches(name, os.listdir(folder or "."), n=3)
    except OSError:
        return UserError("there is no such file: its folder does not exist", path, f"check the folder {folder!r}")
    names = " or ".join(repr(os.path.join(folder, n)) for n in near)
    todo = f"check the name; did you mean {names}?" if near else "check the name and the folder"
    return UserError("there is no such file", path, todo)


@contextmanager
def spool_stdin(paths: Sequence[str]) -> Iterator[list[str]]:
    """Replace `-` by a temporary file that holds all of stdin, for as long as the context lasts."""
    if "-" not in paths:
        yield list(paths)
        return
    if list(paths).count("-") > 1:
        raise UserError("stdin is given more than once", "-", "give `-` once, and the other data as files")
    handle, name = tempfile.mkstemp(prefix="weft-", suffix=STDIN_SUFFIX)
    try:
        with os.fdopen(handle, "wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out, BUFFER)
        yield [name if path == "-" else path for path in paths]
    finally:
        os.unlink(name)


def fingerprint(paths: Sequence[str]) -> str:
    """Return a hash of the files' bytes as they lie on the disk, the same as `cat FILES | b2sum --length 128`."""
    digest = new_digest()
    with spool_stdin(paths) as files:
        for side in itertools.chain.from_iterable(map(sides, files)):
            hash_file(side, digest)
    return digest.hexdigest()


def new_digest() -> hashlib.blake2b:
    """Return the hash that fingerprints are made with."""
    return hashlib.blake2b(digest_size=16)


def hash_file(path: str, digest: Digest) -> None:
    """Give all bytes of a file to a hash."""
    with opened(path, text=False, digest=digest) as file:
        drain(file)


def stamp(path: str) -> Stamp:
    """Return the size, the time and a hash of all bytes of a file."""
    status, digest = os.stat(path), new_digest()
    hash_file(path, digest)
    return Stamp(status.st_size, status.st_mtime_ns, digest.hexdigest())


def drain(file: File) -> None:
    """Read what is left of a file, so that its hash is that of all bytes."""
    while file.raw.read(BUFFER):
        pass
