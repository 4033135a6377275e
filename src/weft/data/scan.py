"""The scan: one pass over the training files that fingerprints, surveys and spools them, and counts their characters.

Validation files are small, and are read before it. What the scan finds is kept as `scan.json` beside the spool, so that
a second start reads nothing but the bytes that tell whether the files are the same.
"""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from weft.core.pair import Pair
from weft.data.blocks import Block, blocks, unswapped
from weft.data.cells import TEXT, Kinds
from weft.data.files import Stamps, display_name, new_digest, sides
from weft.data.formats import kind_of
from weft.data.named_files import NamedFiles, content_of
from weft.data.pairs import Columns, ReadReport, read_rows
from weft.data.sides.side import ROLES, block_cells
from weft.data.spool import write_block
from weft.data.survey import Survey, Surveyor, shuffle_keys

SPOOL, SCAN, NAMED = "pairs.spool", "scan.json", "named.json"
LAST_KEY = 2**32 - 1
HASH_BITS = 2**64 - 1
Progress = Callable[[int, float], None]  # rows so far, share


@dataclass(frozen=True)
class Files:
    """Which rows of which files are the data; each validation file is a set of its own, and the first selects."""

    pairs: tuple[str, ...]
    valid: tuple[str, ...] = ()
    columns: Columns = field(default_factory=Columns)
    on_bad_line: Literal["stop", "skip"] = "stop"
    longest: int = 20_000
    hold_out: float = 0.05
    kinds: Kinds = TEXT

    @property
    def names(self) -> list[str]:
        """Return the name of each file as the user knows it."""
        return [display_name(side) for path in (*self.pairs, *self.valid) for side in sides(path)]


@dataclass(frozen=True)
class Scan:
    """What is known of the files after a pass over them."""

    fingerprint: str
    valid_fingerprint: str  # of all validation files
    survey: Survey
    valid: list[list[Pair]]  # of each validation file, or those held out
    repeated: list[int]  # how many pairs of each validation file are training pairs
    characters: dict[str, dict[str, int]]  # by side, of the training pairs
    report: ReadReport
    valid_report: ReadReport
    files: list[str] = field(default_factory=list)  # the names that the reports speak of
    named: NamedFiles = field(default_factory=NamedFiles)  # which is kept in a file of its own

    def speaking_of(self, files: Sequence[str]) -> Scan:
        """Return the same with reports that speak of these files, which hold what the files of the scan held."""
        if self.files == files:
            return self
        names = dict(zip(self.files, files))
        report, valid_report = (report.renamed(names) for report in (self.report, self.valid_report))
        return replace(self, report=report, valid_report=valid_report, files=list(files))

    def to_json(self) -> str:
        content = {**asdict(self)}
        del content["named"]
        return json.dumps(content, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Scan:
        content: dict[str, Any] = json.loads(text)
        reports = {name: ReadReport(**content[name]) for name in ("report", "valid_report")}
        valid = [[_pair(row) for row in pairs] for pairs in content["valid"]]
        return cls(**{**content, **reports, "valid": valid, "survey": Survey.from_dict(content["survey"])})


def _pair(row: dict[str, Any]) -> Pair:
    """Return a pair as `asdict` and JSON have left it."""
    return Pair(**{**row, "features": tuple(row["features"]), "references": tuple(row["references"])})


def scan(files: Files, folder: Path, progress: Progress | None) -> Scan:
    """Read all files once, and write the spool of the training pairs into the folder."""
    kinds: dict[str, str] = {}  # of all files the same, recognised by the first
    valid_report, report = ReadReport(kinds=kinds), ReadReport(kinds=kinds)
    valid_digest, digest = new_digest(), new_digest()
    read = _reader(files)
    valid = [
        [pair for block in read([path], valid_report, valid_digest, None) for pair in block.pairs()]
        for path in files.valid
    ]
    repeats, surveyor = _Repeats(valid, valid_report.stamps), Surveyor(0 if files.valid else files.hold_out, kinds)
    counts, rows, tags = {role: CharacterCounts() for role in ROLES}, 0, Counter[str]()
    written, mirror = Counter[str](), _Mirror()
    with (folder / SPOOL).open("wb", buffering=1 << 20) as spool:
        for block in read(files.pairs, report, digest, progress):
            originals = unswapped(block) if files.columns.swap else block
            contents = content_of(block.sources, report.stamps) if report.stamps else block.sources
            keys = _keys(files, block, originals.sources if files.columns.swap else contents, rows, kinds)
            rows += len(block)
            write_block(spool, block, keys)
            surveyor.add(block, keys)
            for row, extras in originals.extras.items():
                tags[extras.tag] += not (files.columns.swap and row % 2)  # a swapped row repeats the one before it
            written.update(extras.tag for extras in block.extras.values())
            if block.extras and not files.columns.swap:
                mirror.add(block)
            repeats.add(block, contents)
            for role in [role for role, kind in kinds.items() if kind in ("text", "document")]:
                counts[role].add(block_cells(block, role))
        spool.flush()
        os.fsync(spool.fileno())
    survey, held_out = surveyor.result()
    mirrored = 1.0 if files.columns.swap else mirror.share() if len(written) > 1 else 0.0
    survey = replace(
        survey, running=bool(files.kinds.running), mirrored=mirrored, written=dict(sorted(written.items()))
    )
    report.layout = valid_report.layout = None
    named = NamedFiles(report.stamps, valid_report.stamps)
    report.stamps, valid_report.stamps = {}, {}
    return Scan(
        fingerprint=digest.hexdigest(),
        valid_fingerprint=valid_digest.hexdigest() if files.valid else "",
        survey=replace(survey, tags=dict(sorted(tags.items()))),
        valid=valid or [held_out],
        repeated=repeats.counts(),
        characters={
            "source": counts["source"].without(pair.source for pair in held_out),
            "target": counts["target"].without(target for pair in held_out for target in pair.targets),
            "context": counts["context"].without(pair.context for pair in held_out),
        },
        report=report,
        valid_report=valid_report,
        files=files.names,
        named=named,
    )


def _keys(files: Files, block: Block, contents: Sequence[str], before: int, kinds: Mapping[str, str]) -> list[int]:
    """Return the keys that decide which rows are held out: those of the same source (`contents`) together.

    Where the target is alone, it decides; of the lines of a plain text, the last are held out. Documents are held out
    with all their queries: those to be searched later are new, too.
    """
    if kinds.get("target") == "document":
        return shuffle_keys(block.targets)
    if kinds.get("source") != "none":
        return shuffle_keys(contents)
    if any(kind_of(path) not in ("", "stdin") for path in files.pairs):
        return shuffle_keys(block.targets)
    return [LAST_KEY - before - row for row in range(len(block))]


def _reader(files: Files) -> Callable[..., Iterable[Block]]:
    """Return a function that reads files by the settings."""

    def read(paths: Sequence[str], report: ReadReport, digest: Any, progress: Progress | None) -> Iterable[Block]:
        return blocks(
            read_rows(
                paths,
                files.columns,
                on_bad_line=files.on_bad_line,
                longest=files.longest,
                report=report,
                progress=progress,
                digest=digest,
                kinds=files.kinds,
            )
        )

    return read


class _Mirror:
    """How many sources are targets of other rows, as where pairs come in both directions."""

    def __init__(self) -> None:
        self._sources, self._targets = array("Q"), array("Q")

    def add(self, block: Block) -> None:
        self._sources.extend(hash(text) & HASH_BITS for text in block.sources)
        self._targets.extend(hash(text) & HASH_BITS for text in block.targets)

    def share(self) -> float:
        sources, targets = (np.frombuffer(each, dtype=np.uint64) for each in (self._sources, self._targets))
        return float(np.isin(sources, targets).mean()) if len(sources) else 0.0


class _Repeats:
    """Finds validation pairs among the training pairs; of several references one is enough.

    A source that names a file is compared by what the file holds.
    """

    def __init__(self, valid: Sequence[Sequence[Pair]], stamps: Stamps) -> None:
        self._valid = [[_by_content(pair, stamps) for pair in pairs] for pairs in valid] if stamps else valid
        valid = self._valid
        self._sources = {pair.source for pairs in valid for pair in pairs}
        self._wanted = {single for pairs in valid for pair in pairs for single in pair.single()}
        self._seen: set[Pair] = set()

    def add(self, block: Block, contents: Sequence[str]) -> None:
        """Add training pairs, and what the source of each holds."""
        if not self._sources:
            return
        for row in [row for row, source in enumerate(contents) if source in self._sources]:
            pair = replace(block.pair(row), source=contents[row])
            self._seen.update(single for single in pair.single() if single in self._wanted)

    def counts(self) -> list[int]:
        return [sum(any(single in self._seen for single in p.single()) for p in pairs) for pairs in self._valid]


def _by_content(pair: Pair, stamps: Stamps) -> Pair:
    return replace(pair, source=content_of([pair.source], stamps)[0])


class CharacterCounts:
    """Counts every character of many texts."""

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # by code point

    def add(self, texts: Iterable[str]) -> None:
        codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        counts = np.bincount(codes)
        if len(counts) > len(self._counts):
            self._counts = np.pad(self._counts, (0, len(counts) - len(self._counts)))
        self._counts[: len(counts)] += counts

    def without(self, texts: Iterable[str]) -> dict[str, int]:
        """Return the counts of the characters that are left when those of some texts are taken away."""
        fewer = Counter(character for text in texts for character in text)
        counts = {chr(code): int(self._counts[code]) for code in np.flatnonzero(self._counts).tolist()}
        return {character: left for character, n in counts.items() if (left := n - fewer[character])}
