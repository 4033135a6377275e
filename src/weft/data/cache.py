"""The cache on disk: where it is, files that are whole or absent, and how old entries go.

Deleting `corpora` costs time and nothing else; `given` holds pairs that were given in memory, which their runs need to
resume.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.core.errors import UserError
from weft.core.pair import Pair

KEEP_DAYS = 30


def cache_root() -> Path:
    """Return the folder that WEFT_CACHE names, or the user's cache folder."""
    if given := os.environ.get("WEFT_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"


def digest_of(content: Any) -> str:
    """Return a name for some JSON content."""
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=10).hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all, also when two runs do it at once."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(text, encoding="utf-8")
        aside.rename(path)
    except OSError as error:
        raise unwritable(path.parent, error) from error


def unwritable(folder: Path, error: OSError) -> UserError:
    """Return the error of a cache that cannot be written."""
    todo = "free some space there, or set the variable WEFT_CACHE to a folder that can be written"
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
            what = f"the tag {pair.tag!r} or the features {pair.features!r} cannot be stored in a file without a change"
            raise UserError(
                what, f"pair {number}", "remove spaces at their ends, empty features, and any ';' in a feature"
            )
    text = "".join(json.dumps(_as_record(pair), ensure_ascii=False) + "\n" for pair in pairs)
    path = cache_root() / "given" / f"{digest_of(text)}.jsonl"
    write_whole(path, text)
    return str(path)


def _as_record(pair: Pair) -> dict[str, Any]:
    """Return a pair as a line of JSON has it; a ';' after each feature, as one with a space in it is not two."""
    target = pair.targets if pair.references else pair.target
    features = "".join(f"{feature};" for feature in pair.features)
    return {"source": pair.source, "target": target, "tag": pair.tag, "features": features, "context": pair.context}
