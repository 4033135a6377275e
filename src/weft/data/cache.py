"""The cache on disk: where it is, files that are whole or absent, checksums, and how old entries go.

Nothing in it is believed: what is read is first compared with the manifest of its folder, and made again if it differs.

Deleting `corpora` costs time and nothing else; `given` holds pairs that were given in memory, which their runs need to
resume.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.core import manifest
from weft.core.errors import UserError
from weft.core.files import write_whole
from weft.core.pair import Pair
from weft.data.sides.table import is_file_name

KEEP_DAYS = 30


def cache_root() -> Path:
    """Return the folder that WEFT_CACHE names, or the user's cache folder."""
    if given := os.environ.get("WEFT_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"


def digest_of(content: Any) -> str:
    """Return a name for some JSON content."""
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=10).hexdigest()


def write_cached(path: Path, text: str) -> None:
    """Write a file whole or not at all, also when two runs do it at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path.parent, path.name, text, aside=f"{path.name}.{os.getpid()}.part")
    except OSError as error:
        raise unwritable(path.parent, error) from error


def seal_cached(folder: Path, names: Sequence[str]) -> None:
    """Write the manifest of a folder of the cache."""
    try:
        manifest.seal(folder, names)
    except OSError as error:
        raise unwritable(folder, error) from error


def usable(folder: Path, names: Sequence[str] | None = None) -> bool:
    """Return whether a folder of the cache is whole (or files in it); one that is damaged is told, and removed."""
    if not (folder / manifest.NAME).exists():
        return False
    try:
        manifest.check_files(folder, names)
    except manifest.Damaged as reason:
        warnings.warn(f"the cache is damaged and will be rebuilt: {folder} ({reason})", stacklevel=2)
        shutil.rmtree(folder, ignore_errors=True)
        return False
    return True


def unwritable(folder: Path, error: OSError) -> UserError:
    """Return the error of a cache that cannot be written."""
    todo = "set the variable WEFT_CACHE to a folder that can be written"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        todo = f"free some space there, or {todo}"
    return UserError(f"the cache cannot be written: {error.strerror or error}", str(folder), todo)


def forget_old(root: Path) -> None:
    """Drop the entries that no run has used for a month."""
    if not root.is_dir():
        return
    for entry in root.iterdir():
        if entry.is_dir() and time.time() - entry.stat().st_mtime > KEEP_DAYS * 86_400:
            shutil.rmtree(entry, ignore_errors=True)


def given_in_memory(paths: Sequence[str]) -> bool:
    """Return whether the pairs were given in memory: the user does not know the file that holds them."""
    return all(Path(path).parent == cache_root() / "given" for path in paths)


def keep_given(pairs: Sequence[Pair]) -> str:
    """Write pairs that were given in memory to a file in the cache, and return its name."""
    if not pairs:
        raise UserError("no pairs are given", "the list of pairs", "give at least one (source, target)")
    for number, pair in enumerate(pairs, 1):
        if pair.tag != pair.tag.strip() or any(f != f.strip() or not f or ";" in f for f in pair.features):
            marks = f"the tag {pair.tag!r} or the features {pair.features!r}"
            what = f"{marks} cannot be stored in a file unchanged"
            raise UserError(
                what, f"pair {number}", "remove spaces at their ends, empty features, and any ';' in a feature"
            )
    pairs = [replace(pair, source=_absolute(pair.source), context=_absolute(pair.context)) for pair in pairs]
    text = "".join(json.dumps(_as_record(pair), ensure_ascii=False) + "\n" for pair in pairs)
    path = cache_root() / "given" / f"{digest_of(text)}.jsonl"
    write_cached(path, text)
    return str(path)


def _absolute(cell: str) -> str:
    """Return a name of a file, which is relative to the current folder, as one that is good anywhere."""
    return os.path.abspath(cell) if is_file_name(cell) and os.path.isfile(cell) else cell


def _as_record(pair: Pair) -> dict[str, Any]:
    """Return a pair as a line of JSON has it; a ';' after each feature, as one with a space in it is not two."""
    target = pair.targets if pair.references else pair.target
    features = "".join(f"{feature};" for feature in pair.features)
    return {"source": pair.source, "target": target, "tag": pair.tag, "features": features, "context": pair.context}
