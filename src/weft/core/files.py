"""Files in folders that may come from anyone: regular files only, inside the folder, and written whole or not at all.

A run folder, an export and a cache entry are read through `open_regular`, after `check_plain` has looked at the whole
of a run folder. Nothing here follows a link, waits for a pipe, or reads more than it was told to.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from weft.core.errors import UserError

MOST_BYTES = 1 << 28  # of a file that is read whole
MOST_ENTRIES, MOST_LEVELS = 20_000, 12  # files and folders of a run folder, and how deep they are nested
LINKS = ("best", "last")  # the only links of a run folder, which lead to its own checkpoints
LINKED = re.compile(r"checkpoints/step-[0-9]{1,18}")


def check_writable(path: Path, where: str = "") -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        what = "this is a folder" if path.is_dir() else f"the folder {str(folder)!r} does not exist"
        what = "this folder cannot be written to" if not path.is_dir() and folder.is_dir() else what
        raise UserError(what, where or str(path), "give the name of a file in a folder that you may write to")


def open_regular(folder: Path, name: str) -> BufferedReader:
    """Open a file below `folder` (`name` may have slashes) for reading.

    OSError if the name leads outside, or if the file, or a folder on the way to it, is a link or anything else.
    """
    *folders, last = name.split("/")
    if not all((*folders, last)) or {".", ".."} & {*folders, last}:
        raise OSError(errno.EINVAL, "this name leads out of its folder", str(folder / name))
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in folders:
                outer, handle = handle, os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
                os.close(outer)
            file = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
        finally:
            os.close(handle)
    except OSError as error:
        what = "it is a link, or lies in one" if error.errno == errno.ELOOP else error.strerror
        raise OSError(error.errno, what, str(folder / name)) from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", str(folder / name))
    return os.fdopen(file, "rb")


def read_regular(folder: Path, name: str, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file below `folder`; OSError as of `open_regular`, or for more bytes than `most`."""
    with open_regular(folder, name) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(folder / name))
    return content


def parse_json(content: bytes | str) -> Any:
    """Return what JSON says; ValueError for text that is not JSON, or is nested too deeply to be read."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def write_whole(folder: Path, name: str, content: str | bytes, aside: str = "") -> None:
    """Write a file whole or not at all, synced to the disk; a link of that name is replaced, not followed.

    `aside` is the name that it has until it is whole.
    """
    part = folder / (aside or f".{name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / name)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_plain(folder: Path) -> None:
    """Refuse a run folder that holds a link (but `best` and `last`), a pipe or a device, or more than any run does."""
    for number, (entry, level) in enumerate(_entries(folder, 1)):
        if number >= MOST_ENTRIES or level > MOST_LEVELS:
            what = (
                f"this folder holds more than {MOST_ENTRIES:,} files, or nests them deeper than {MOST_LEVELS} folders"
            )
            raise UserError(what, str(folder), "give a folder that `weft train` created")
        if entry.is_symlink() and not _leads_to_checkpoint(entry):
            todo = (
                "if you trust what the link points to, make a copy that has the files themselves in place of links: "
                f"cp -RL {folder} COPY; otherwise remove the link"
            )
            raise UserError("this folder holds a link, and links are not followed", entry.path, todo)
        if not (entry.is_symlink() or entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)):
            what = "this folder holds something that is neither a file nor a folder"
            raise UserError(what, entry.path, "remove it")


def _entries(folder: Path | str, level: int) -> Iterator[tuple[os.DirEntry[str], int]]:
    """Yield everything below a folder, with its level; links are not followed."""
    try:
        with os.scandir(folder) as entries:
            listed = list(entries)
    except FileNotFoundError:
        if level == 1:
            raise
        return  # a process that trains there has removed it meanwhile
    except OSError as error:
        what = f"this folder cannot be read: {error.strerror}"
        raise UserError(what, str(folder), "check its permissions") from None
    for entry in listed:
        yield entry, level
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(entry.path, level + 1)


def _leads_to_checkpoint(entry: os.DirEntry[str]) -> bool:
    """Return whether a link is `best` or `last`, or what a kill left while one of them was changed."""
    name = entry.name.removeprefix(".").removesuffix(".part") if entry.name.endswith(".part") else entry.name
    if name not in LINKS:
        return False
    try:
        return LINKED.fullmatch(os.readlink(entry.path)) is not None
    except FileNotFoundError:
        return True  # a process that trains there has renamed it meanwhile
