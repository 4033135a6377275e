"""From files to a survey, tokenisers and an encoded corpus, each made once and kept in a cache.

The cache is keyed by what the files hold (not by their names or dates) and by the settings that matter, so that a
second start, a resumed run or another run on the same pairs begins at once. On a first start each file is read once:
an entry's name begins with what is known before reading (sizes, formats, settings), so that it is clear without a
fingerprint that there is none yet, and `scan` takes the fingerprint while it reads.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from weft.core import manifest
from weft.core.counts import counted
from weft.core.errors import UserError
from weft.core.files import sync_folder
from weft.core.pair import Pair
from weft.data.blocks import Block, blocks_of
from weft.data.cache import (
    cache_root,
    digest_of,
    forget_old,
    given_in_memory,
    keep_given,
    seal_cached,
    unwritable,
    usable,
    write_cached,
)
from weft.data.corpus import Corpus, is_corpus, write_blocks
from weft.data.files import display_name, fingerprint, sides, size_of
from weft.data.formats import ReadReport, kind_of
from weft.data.named_files import NamedFiles
from weft.data.pairs import folder_of
from weft.data.resemblance import differences
from weft.data.scan import NAMED, SCAN, SPOOL, Files, Scan, scan
from weft.data.sides import document
from weft.data.sides.side import block_cells
from weft.data.sides.sides import Sides
from weft.data.sides.table import names_files
from weft.data.spool import read_blocks
from weft.data.survey import FEWEST_PAIRS, LARGEST_HOLD_OUT, SMALLEST_HOLD_OUT, Survey
from weft.data.text import augment, unseen
from weft.data.text.tokens import COUNTED, PROMPTED, SUBWORDS, Tokeniser, from_json, learn, learn_counted
from weft.data.text.unseen import STAND_INS

__all__ = ["Files", "Prepared", "cache_root", "counted", "given_in_memory", "keep_given"]

FORMAT = 24
SUBWORD_ROWS = 200_000  # bpe and unigram are learned on at most so many rows, evenly spread

Progress = Callable[[str, int, float], None]  # what is being done, rows so far, share
Role = Literal["source", "target", "context"]


class Prepared:
    """The data of a run: read, tokenised and encoded when they are needed."""

    def __init__(self, files: Files, root: Path | None = None, progress: Progress | None = None) -> None:
        self.files, self._progress = files, progress
        if "-" in files.valid:
            raise UserError(
                "validation pairs are read several times, but stdin can be read only once",
                "--valid -",
                "give them as a file",
            )
        shapes = [(kind_of(path), size_of(path)) for path in (*files.pairs, *files.valid)]
        rows = [asdict(files.columns), files.on_bad_line, files.longest, files.hold_out, asdict(files.kinds)]
        self._root = (root or cache_root()) / "corpora"
        self._key = digest_of([FORMAT, len(files.valid), shapes, rows])

    @cached_property
    def _fingerprints(self) -> tuple[str, str]:
        return fingerprint(self.files.pairs), fingerprint(self.files.valid) if self.files.valid else ""

    @property
    def fingerprint(self) -> str:
        """Return a hash of the training files, and of the files that they name."""
        return self._named.fingerprints(*self._fingerprints)[0]

    @property
    def valid_fingerprint(self) -> str:
        """Return a hash of all validation files, and of the files that they name; "" if there are none."""
        return self._named.fingerprints(*self._fingerprints)[1]

    @property
    def _named(self) -> NamedFiles:
        """Return the files that the tables name; text names none, so that the tables need not be read to know it."""
        kinds, columns = self.files.kinds, self.files.columns
        roles = ["source", "target", *(["context"] if columns.context is not None else [])]
        return self.scan.named if any(names_files(kinds.of(role)) for role in roles) else NamedFiles()

    @cached_property
    def folder(self) -> Path:
        """Return the cache entry of these data; on a first start they are read for it."""
        forget_old(self._root)
        if "_fingerprints" in self.__dict__ or any(self._root.glob(f"{self._key}-*")):
            for folder in self._entries():
                if usable(folder, [SCAN]) and self._is_current(folder):
                    os.utime(folder)
                    return folder
        try:
            return self._scanned()
        except OSError as error:
            raise unwritable(self._root, error) from error

    def _entries(self) -> list[Path]:
        """Return the entries that may hold these tables: where they name files, one for each content of those."""
        name = self._entry(NamedFiles()).name
        return [self._root / name, *sorted(self._root.glob(f"{name}-*"))]

    def _entry(self, named: NamedFiles) -> Path:
        content = f"-{digest_of([named.digest, self._folders])}" if named else ""
        return self._root / f"{self._key}-{digest_of(self._fingerprints)}{content}"

    def _is_current(self, folder: Path) -> bool:
        """Return whether the files that the tables name, if they name any, are as they were."""
        if not (folder / NAMED).exists():
            return True
        if not usable(folder, [NAMED]):
            return False
        return NamedFiles.from_json((folder / NAMED).read_text(encoding="utf-8")).unchanged(self._folders)

    @property
    def _folders(self) -> list[str]:
        """Return the folders that names of files are relative to."""
        tables = (*self.files.pairs, *self.files.valid)
        return [folder_of(side) for path in tables for side in sides(path)]

    def _scanned(self) -> Path:
        """Read the files into a new entry, which is written aside and renamed."""
        aside = self._root / f"{self._key}.{os.getpid()}.part"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            tell = self._progress
            progress = None if tell is None else lambda rows, share: tell("reading", rows, share)
            result = scan(self.files, aside, progress)
            write_cached(aside / SCAN, result.to_json())
            if result.named:
                write_cached(aside / NAMED, result.named.to_json())
            seal_cached(aside, [SCAN, SPOOL, *([NAMED] if result.named else [])])
            self._fingerprints = result.fingerprint, result.valid_fingerprint
            folder = self._entry(result.named)
            if not (folder / manifest.NAME).exists():  # another run may have made the same meanwhile
                shutil.rmtree(folder, ignore_errors=True)
                aside.rename(folder)
                sync_folder(self._root)
            return folder
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    @cached_property
    def scan(self) -> Scan:
        """Return what is known of the files."""
        known = Scan.from_json((self.folder / SCAN).read_text(encoding="utf-8")).speaking_of(self.files.names)
        path = self.folder / NAMED
        return replace(known, named=NamedFiles.from_json(path.read_text(encoding="utf-8"))) if path.exists() else known

    @property
    def survey(self) -> Survey:
        return self.scan.survey

    @cached_property
    def valid(self) -> list[Pair]:
        """Return the pairs that select the checkpoint: of the first validation file, held out, or of the training."""
        pairs = self.scan.valid[0]
        return pairs or list(islice(self.training(), 0, None, max(1, -(-self.survey.pairs // LARGEST_HOLD_OUT))))

    @property
    def further_valid(self) -> list[list[Pair]]:
        """Return the pairs of each further validation file."""
        return self.scan.valid[1:]

    @property
    def held_out(self) -> int:
        """Return how many training pairs are not learned from, so that there are some to validate on."""
        return 0 if self.files.valid else len(self.scan.valid[0])

    @property
    def training_pairs(self) -> int:
        """Return how many pairs are learned from."""
        return self.survey.pairs - self.held_out

    @property
    def columns(self) -> list[str]:
        """Return sentences that say which columns are read, each layout once."""
        training, valid = self.scan.report.columns, self.scan.valid_report.columns
        return list({**training, **valid, **training}.values())

    @property
    def column_names(self) -> dict[str, str]:
        """Return the names of the columns that are read, by role, where they have names."""
        return self.scan.report.names

    @property
    def doubts(self) -> list[str]:
        """Return what makes it doubtful that these are the right columns."""
        sides = {"source": self.survey.source, "target": self.survey.target}
        same = [name for name, side in sides.items() if side.same and self.survey.pairs > 1]
        return [f"every {name} is the same text: is --{name} the right column?" for name in same]

    @property
    def notes(self) -> list[str]:
        """Return what the user should know about the data."""
        read = (*_notes_of(self.scan.report, "training"), *_notes_of(self.scan.valid_report, "validation"))
        notes = [*dict.fromkeys(read), *self.doubts]
        unit = self.survey.unit
        if not self.scan.valid[0]:
            few = f"only {counted(self.survey.pairs, unit)}: " if self.survey.pairs < FEWEST_PAIRS else ""
            notes.append(f"{few}nothing is held out, so the run is validated on its training {unit}s")
        if 0 < self.held_out < SMALLEST_HOLD_OUT:
            few_pairs = counted(self.held_out, unit)
            notes.append(f"only {few_pairs} could be held out for validation (use --valid to give a file with more)")
        return [*notes, *self._valid_notes()]

    def _valid_notes(self) -> Iterator[str]:
        for path, pairs, repeats in zip(self.files.valid, self.scan.valid, self.scan.repeated):
            yield from differences(self.scan, pairs, display_name(path))
            unit = self.survey.unit
            which = f"validation {unit}s" if len(self.files.valid) == 1 else f"{unit}s of {display_name(path)}"
            if repeats:
                yield f"{repeats:,} of {len(pairs):,} {which} are also training {unit}s: scores will be optimistic"

    def repeats(self) -> int:
        """Return how many pairs of the first validation file are training pairs too."""
        return self.scan.repeated[0] if self.files.valid else 0

    def training(self, stage: str = "reading") -> Iterator[Pair]:
        """Yield the training pairs, without those held out."""
        return chain.from_iterable(block.pairs() for block in self._blocks(stage))

    @cached_property
    def _spool(self) -> Path:
        """Return the file of all pairs; the data are read again if it is damaged."""
        if not usable(self.folder, [SPOOL]):
            self.folder = self._scanned()
        return self.folder / SPOOL

    def _blocks(self, stage: str) -> Iterator[Block]:
        """Return the training pairs in blocks; before anything is made of them, the file of all pairs is checked."""
        return self._learned(stage, self._spool)

    def _learned(self, stage: str, spool: Path) -> Iterator[Block]:
        below, rows = self.survey.hold_out_below, 0
        for block, keys, share in read_blocks(spool):
            rows += len(block)
            if self._progress is not None:
                self._progress(stage, rows, share)
            learned = keys >= below
            yield block if learned.all() else block.only(learned.tolist())

    def tokeniser(
        self,
        role: Role,
        tokens: str,
        size: int,
        tag_at: str = "start",
        unseen: str = "unknown",
        also: Role | None = None,
        marks: tuple[str, ...] = (),
    ) -> Tokeniser:
        """Return the tokeniser of one column, where the other side is not text; `also`: of a further column, too.

        `marks` are symbols that it has besides those of the text and its tags.
        """
        marks = (*marks, *(self.survey.marks if role == "source" else ()))
        roles: tuple[Role, ...] = (role,) if also is None else (role, also)
        path = self.folder / f"tokens-{digest_of(['+'.join(roles), tokens, size, *marks])}" / f"{role}.json"
        if not usable(path.parent):
            write_cached(path, self._learn_one(tokens, size, roles, "", marks).to_json())
            seal_cached(path.parent, [path.name])
        tokeniser = from_json(path.read_text(encoding="utf-8"), str(path))
        tokeniser.tag_at, tokeniser.unseen = tag_at, unseen
        return tokeniser

    def tokenisers(
        self,
        source: tuple[str, int],
        target: tuple[str, int],
        shared: bool,
        tag_at: str = "start",
        unseen: str = "unknown",
    ) -> tuple[Tokeniser, Tokeniser]:
        """Return tokenisers (kind, size) learned on the training pairs; shared: one for both sides.

        A tag that the decoder reads is a symbol of the target, too, and so are stand-ins.
        """
        prompted, more = tag_at in PROMPTED, STAND_INS if unseen == "carried" else ""
        folder = self.folder / f"tokens-{digest_of([source, target, shared, prompted, more])}"
        paths = folder / "source.json", folder / "target.json"
        if not usable(folder):
            for path, tokeniser in zip(paths, self._learn(source, target, shared, prompted, more), strict=True):
                write_cached(path, tokeniser.to_json())
            seal_cached(folder, [path.name for path in paths])
        loaded = [from_json(path.read_text(encoding="utf-8"), str(path)) for path in paths]
        for tokeniser in loaded:
            tokeniser.tag_at, tokeniser.unseen = tag_at, unseen
        return loaded[0], loaded[1]

    def _learn(
        self, source: tuple[str, int], target: tuple[str, int], shared: bool, prompted: bool, more: str
    ) -> tuple[Tokeniser, Tokeniser]:
        """Learn the tokenisers; `more` are characters that both sides have besides those of the pairs."""
        marks = self.survey.marks
        if shared:
            both = self._learn_one(*source, ("source", "target"), more, marks)
            return both, both
        return (
            self._learn_one(*source, ("source",), more, marks),
            self._learn_one(*target, ("target",), more, marks if prompted else ()),
        )

    def _learn_one(self, kind: str, size: int, sides: tuple[Role, ...], more: str, marks: tuple[str, ...]) -> Tokeniser:
        counts = Counter(more)
        for side in sides:
            counts.update(self.scan.characters[side])
        if kind in COUNTED:
            return learn_counted(kind, counts, marks)
        texts = chain(*(self._texts(side, kind) for side in sides), [more])
        tokeniser = learn(kind, size, texts, marks)
        tokeniser.alphabet = "" if kind == "words" else "".join(sorted(counts))
        return tokeniser

    def _texts(self, side: Role, kind: str) -> Iterator[str]:
        blocks: Iterable[Block] = self._blocks(f"learning {side} tokens")
        if kind in SUBWORDS:
            step = max(1, -(-self.survey.pairs // SUBWORD_ROWS))
            pairs = islice(chain.from_iterable(block.pairs() for block in blocks), 0, None, step)
            blocks = blocks_of(pairs) if step > 1 else blocks
        return chain.from_iterable(block_cells(block, side) for block in blocks)

    def entries_used(self, corpus: Corpus) -> list[str]:
        """Return the names of the cache folders that hold these data and their encoded pairs."""
        return [self.folder.name, f"{self.folder.name}/{corpus.folder.name}"]

    def corpus(self, sides: Sides, augmented: int = 0, excerpts: int = 0) -> Corpus:
        """Return the training pairs encoded, with synthetic ones, and some whose characters are hidden, if wanted.

        `excerpts`: for each document, so many pairs of a sentence and the rest.
        """
        carried = isinstance(sides.source, Tokeniser) and sides.source.unseen == "carried"
        versions = [*([augmented, augment.VERSION] if augmented else []), *([unseen.VERSION] if carried else [])]
        versions += [excerpts, document.VERSION, 0] if excerpts else []
        contents = [side.to_json() for side in sides.by_role.values()]
        folder = self.folder / f"corpus-{digest_of([*contents, *versions])}"
        if usable(folder) and is_corpus(folder):
            return Corpus(folder)
        blocks = self._blocks("encoding")
        if augmented or carried:
            pairs = self.training("encoding")
            pairs = augment.with_augmented(list(pairs), augmented) if augmented else pairs
            blocks = blocks_of(unseen.with_hidden(pairs) if carried else pairs)
        if excerpts:
            blocks = blocks_of(document.with_excerpts(self.training("encoding"), excerpts))
        try:
            return write_blocks(blocks, sides, folder, self.files.columns.swap)
        except OSError as error:
            raise unwritable(folder, error) from error


def _notes_of(report: ReadReport, which: str) -> list[str]:
    notes = list(report.notes)
    if report.skipped:
        notes.append(f"bad {which} rows left out: {report.skipped:,}; the first is {report.bad[0]}")
    if report.blank:
        notes.append(f"blank lines in the {which} data skipped: {report.blank:,}")
    return notes
