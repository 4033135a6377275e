"""Resuming a run: it is checked against what is asked for now, and goes on as it was."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from weft.core.errors import UserError
from weft.core.reporting import Reporter
from weft.data.files import sides
from weft.data.prepare import Prepared
from weft.runs.folder import RunFolder, differences
from weft.runs.job import Job, files_of
from weft.runs.ready import Ready
from weft.runs.weights import refuse_damaged
from weft.settings import compose, implied_kind, merge
from weft.spec import Spec


def reopen(job: Job, folder: RunFolder, pairs: Sequence[str], reporter: Reporter) -> Ready:
    """Open a run again; UserError if settings or data have changed."""
    spec = folder.read_spec()
    if job.strict:
        refuse_damaged(folder)
    changed = _changed(spec, job)
    if changed:
        raise UserError(
            f"the settings differ from those of the run: {'; '.join(changed)}",
            str(folder.spec_file),
            "leave them out to resume, or train a new run with another --out (--init starts from these weights)",
        )
    if not pairs and "-" in spec.data.pairs:
        todo = f"pipe the same pairs in again: … | weft train - --out {folder.path} --resume"
        raise UserError("the pairs of this run came from stdin, which can be read only once", str(folder.path), todo)
    if not pairs:
        _check_regular(folder, [*spec.data.pairs, *(job.valid or spec.data.valid)])
    prepared = Prepared(files_of(spec, pairs or spec.data.pairs, job.valid or spec.data.valid), progress=reporter.stage)
    _check_same_data(folder, prepared)
    _check_same_init(folder, job.init)
    return Ready.of(spec, folder.read_sides(), prepared)


def _check_regular(folder: RunFolder, paths: Sequence[str]) -> None:
    """Refuse a run that names anything but files as its data: a pipe or a device could be read for ever."""
    for path in chain.from_iterable(map(sides, paths)):
        if Path(path).exists() and not Path(path).is_file():
            what = f"the run was trained on {path}, which is not a regular file, so it cannot be read again"
            raise UserError(what, str(folder.spec_file), "name the files: weft train PAIRS --out RUN --resume")


def _changed(spec: Spec, job: Job) -> list[str]:
    """Return the settings that the user asks for now and that the run does not have."""
    own, asked = spec.model_dump(mode="json"), merge(job.file_layer, job.flag_layer)
    kinds = {f"{side}.kind": implied_kind(side, asked) for side in ("encoder", "decoder")}
    other = {key: kind for key, kind in kinds.items() if kind not in (None, own[key.split(".")[0]]["kind"])}
    if other:  # another family has other settings: there is no need to look at them one by one
        return differences({key: own[key.split(".")[0]]["kind"] for key in other}, other)
    files = {"data": {name: own["data"][name] for name in ("pairs", "valid")}}  # which are known by what they hold
    layers = ("run", own), ("file", job.file_layer), ("flag", job.flag_layer), ("run", files)
    now = compose(*layers).spec.model_dump(mode="json")
    return differences(own, now)


def _check_same_data(folder: RunFolder, prepared: Prepared) -> None:
    facts = folder.read_facts()
    now = {"fingerprint": prepared.fingerprint, "valid_fingerprint": prepared.valid_fingerprint}
    changed = differences({k: facts[k] for k in now}, now)
    if changed:
        raise UserError(
            f"the data differ from those that the run was started with: {'; '.join(changed)}",
            ", ".join([*prepared.files.pairs, *prepared.files.valid]),
            f"give the files as they were ({', '.join(facts['pairs'])}), or train a new run with another --out",
        )


def _check_same_init(folder: RunFolder, init: Path | None) -> None:
    begun = folder.read_facts().get("init")
    if init is not None and os.path.abspath(init) != begun:
        raise UserError(
            f"the run has weights of its own (it was started from {begun or 'random weights'}), so it cannot "
            "start from another run",
            f"--init {init}",
            "leave --init out to continue, or train a new run with another --out",
        )
