"""`weft verify`: the state of every file of a run, of its members and exports, and of the cache entries it uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from weft.core import manifest
from weft.core.errors import UserError
from weft.core.files import check_plain, read_regular
from weft.core.manifest import Damaged, Entries
from weft.data.cache import cache_root
from weft.learn import checkpoint
from weft.predict.engines import FOLDER as EXPORT
from weft.runs.folder import FINISHED, PICTURES, SIDES, WORDS, RunFolder
from weft.runs.weights import newest_progress

State = Literal["whole", "damaged", "unknown"]
SKIPPED = {"lock", manifest.NAME}  # an empty file, and what the others are compared with
CACHED = re.compile(r"[0-9a-f]{1,64}(-[0-9a-f]{1,64}){1,2}(/corpus-[0-9a-f]{1,64})?")


@dataclass(frozen=True)
class FileState:
    """A file, named from the run folder (or from the root, if it is in the cache), and whether it is whole."""

    name: str
    state: State
    reason: str = ""


def verify(run: RunFolder) -> list[FileState]:
    """Return the state of every file; one that the manifest lists and that is missing is damaged."""
    run.need_run()
    states = list(_run_states(run))
    for member in sorted((run.path / "members").glob("*"), key=lambda path: (len(path.name), path.name)):
        home = f"members/{member.name}"
        states += [replace(state, name=f"{home}/{state.name}") for state in _run_states(RunFolder(member))]
    return states + list(_cache_states(run))


def _run_states(run: RunFolder) -> Iterator[FileState]:
    """Yield the files of one run folder, without its members."""
    names = [name for name in _files(run.path) if not name.startswith((f"{EXPORT}/", "members/"))]
    yield from _folder_states(run.path, names, lambda name: _unlisted(run, name))
    export = run.path / EXPORT
    if export.is_dir():
        for state in _folder_states(export, _files(export), lambda name: FileState(name, "unknown")):
            yield replace(state, name=f"{EXPORT}/{state.name}")


def _folder_states(folder: Path, names: list[str], unlisted: Callable[[str], FileState]) -> Iterator[FileState]:
    """Yield the state of each file by the folder's manifest; `unlisted` tells that of files that are not in it."""
    entries: Entries = {}
    try:
        entries = manifest.read(folder)
        if entries:
            yield FileState(manifest.NAME, "whole")
    except Damaged as error:
        yield FileState(manifest.NAME, "damaged", str(error))
    for name in sorted({*names, *entries} - SKIPPED):
        if name not in entries:
            yield unlisted(name)
            continue
        reason = manifest.damage_of(folder, name, entries[name])
        yield FileState(name, "whole" if reason is None else "damaged", reason or "")


def _files(folder: Path) -> list[str]:
    """Return the names of all files below a folder, as a manifest has them; half-written ones are left out."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in paths if not any(part.endswith(".part") for part in path.parts)]


def _unlisted(run: RunFolder, name: str) -> FileState:
    """Return the state of a file of a run that its manifest does not list, as far as other files tell."""
    step = checkpoint.step_of(name)
    if step is not None:
        return _state(name, lambda: _check_checkpoint(run, name, step))
    if name == run.log.name:
        return _log_state(run)
    sums = _facts(run).get("sums", {})
    if name in SIDES and name in sums:
        return _state(name, lambda: _check_side(run, name, sums[name]))
    return FileState(name, "unknown")


def _facts(run: RunFolder) -> dict[str, Any]:
    """Return the facts about the data; none where they, or the manifest, are damaged, which is listed."""
    try:
        return run.known_facts()
    except UserError:
        return {}


def _state(name: str, check: Callable[[], None]) -> FileState:
    try:
        check()
    except (Damaged, OSError) as reason:
        return FileState(name, "damaged", str(reason))
    return FileState(name, "whole")


def _check_checkpoint(run: RunFolder, name: str, step: int) -> None:
    """Compare a file of a checkpoint that is newer than the manifest with what its own progress.json says."""
    entries = checkpoint.entries_of(run.checkpoints / checkpoint.name_of(step))
    if (reason := manifest.damage_of(run.path, name, entries.get(name))) is not None:
        raise Damaged(reason)


def _check_side(run: RunFolder, name: str, known: object) -> None:
    if manifest.entry_of(read_regular(run.path, name)).sha256 != known:
        raise Damaged(f"{name} does not match its checksum in {run.facts_file.name}")


def _log_state(run: RunFolder) -> FileState:
    """Return the state of the log of a run that is not finished: its newest checkpoint knows the first part."""
    progress, content = newest_progress(run), read_regular(run.path, run.log.name)
    if not progress.log_sum:
        return FileState(run.log.name, "unknown")
    if manifest.entry_of(content[: progress.log_bytes]).sha256 != progress.log_sum:
        return FileState(run.log.name, "damaged", "it does not match the checksum in the newest checkpoint")
    return FileState(run.log.name, "whole", "" if len(content) == progress.log_bytes else "up to the newest checkpoint")


def _cache_states(run: RunFolder) -> Iterator[FileState]:
    """Yield the files of the cache entries that the run used; one that is gone is made again when it is needed."""
    names = _facts(run).get("cache", [])
    for name in names if isinstance(names, list) else []:
        folder = cache_root() / "corpora" / str(name)
        if not CACHED.fullmatch(str(name)) or not folder.is_dir():
            yield FileState(str(folder), "unknown", "not in the cache; it is rebuilt when it is needed")
            continue
        files = [path.name for path in folder.iterdir() if path.is_file()]
        for state in _folder_states(folder, files, lambda name: FileState(name, "unknown")):
            yield replace(state, name=str(folder / state.name))


def accept(run: RunFolder) -> list[str]:
    """List spec.yaml in the manifest as it is now, if it can be read; all files, if the manifest is damaged.

    Return the names that were not listed so before.
    """
    run.need_run()
    run.spec_of(read_regular(run.path, run.spec_file.name))
    check_plain(run.path)
    with run.locked():
        try:
            before, names = manifest.read(run.path), [run.spec_file.name]
        except Damaged:
            before, names = {}, [run.spec_file.name, "choices.json", "data.json", *SIDES, *FINISHED, *PICTURES, WORDS]
        now = {name: manifest.entry_of_file(run.path, name) for name in names if (run.path / name).is_file()}
        manifest.write(run.path, {**before, **now})
    return [name for name in now if before.get(name) != now[name]]
