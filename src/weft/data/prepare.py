"""From files to a survey, tokenisers and an encoded corpus, each made once and kept in a cache.

The cache is keyed by what the files hold (not by their names or dates) and by the settings that matter, so that a
second start, a resumed run or another run on the same pairs begins at once. Deleting `corpora` costs time and nothing
else; `given` holds pairs that were given in memory, which their runs need to go on.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.corpus import Corpus, is_corpus, write_corpus
from weft.data.files import size_of
from weft.data.formats import kind_of
from weft.data.pairs import Columns, ReadReport, fingerprint, read_pairs
from weft.data.survey import FEWEST_PAIRS, LARGEST_HOLD_OUT, SMALLEST_HOLD_OUT, Survey, place, survey
from weft.data.text import augment, unseen
from weft.data.text.tokens import Tokeniser, from_json, learn
from weft.data.text.unseen import STAND_INS

FORMAT = 12
SUBWORD_ROWS = 200_000  # bpe and unigram are learned on at most so many rows, evenly spread
KEEP_DAYS = 30

Progress = Callable[[str, int, float], None]  # what is being done, rows so far, share


@dataclass(frozen=True)
class Files:
    """Which rows of which files are the data."""

    pairs: tuple[str, ...]
    valid: tuple[str, ...] = ()
    columns: Columns = field(default_factory=Columns)
    on_bad_line: Literal["stop", "skip"] = "stop"
    longest: int = 20_000
    hold_out: float = 0.05


def cache_root() -> Path:
    """WEFT_CACHE, or the user's cache folder."""
    if given := os.environ.get("WEFT_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"


class Prepared:
    """The data of a run, looked at, cut and encoded when it is asked for."""

    def __init__(self, files: Files, root: Path | None = None, progress: Progress | None = None) -> None:
        self.files, self._progress = files, progress
        if "-" in files.valid:
            raise UserError("validation pairs are read several times", "--valid -", "give them as a file, not by stdin")
        self.fingerprint = fingerprint(files.pairs)
        self.valid_fingerprint = fingerprint(files.valid) if files.valid else ""
        shapes = [(kind_of(path), size_of(path)) for path in (*files.pairs, *files.valid)]
        rows = [asdict(files.columns), files.on_bad_line, files.longest, files.hold_out]
        key = _digest([FORMAT, self.fingerprint, self.valid_fingerprint, shapes, rows])
        self.folder = (root or cache_root()) / "corpora" / key
        _forget_old(self.folder.parent)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            os.utime(self.folder)
        except OSError as error:
            raise _unwritable(self.folder, error) from error

    @cached_property
    def _looked(self) -> dict[str, Any]:
        """The survey, the validation pairs and the notes of reading, from the cache or anew."""
        path = self.folder / "survey.json"
        if not path.exists():
            _write(path, json.dumps(self._look(), ensure_ascii=False))
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content

    def _look(self) -> dict[str, Any]:
        report, valid_report = ReadReport(), ReadReport()
        found, kept = survey(
            self._read("reading", self.files.pairs, report), 0 if self.files.valid else self.files.hold_out
        )
        valid = list(self._read("reading", self.files.valid, valid_report)) if self.files.valid else kept
        return {
            "survey": json.loads(found.to_json()),
            "valid": [asdict(pair) for pair in valid],
            "columns": list({**report.columns, **valid_report.columns, **report.columns}.values()),  # each layout once
            "notes": list(dict.fromkeys([*_notes_of(report, "training"), *_notes_of(valid_report, "validation")])),
        }

    @property
    def survey(self) -> Survey:
        return Survey.from_json(json.dumps(self._looked["survey"]))

    @cached_property
    def valid(self) -> list[Pair]:
        """The validation pairs: the file's, those kept aside, or where there are none some of the training pairs."""
        pairs = [_loaded(row) for row in self._looked["valid"]]
        return pairs or list(islice(self.training(), 0, None, max(1, -(-self.survey.pairs // LARGEST_HOLD_OUT))))

    @property
    def kept_aside(self) -> int:
        """The training pairs that are not learned from, so that there are some to validate on."""
        return 0 if self.files.valid else len(self._looked["valid"])

    @property
    def training_pairs(self) -> int:
        """The pairs that are learned from."""
        return self.survey.pairs - self.kept_aside

    @property
    def columns(self) -> list[str]:
        """Return which columns are read, as sentences."""
        return list(self._looked["columns"])

    @property
    def doubts(self) -> list[str]:
        """What makes it doubtful that these are the right columns."""
        found = {"source": self.survey.source, "target": self.survey.target}
        same = [name for name, side in found.items() if side.same and self.survey.pairs > 1]
        return [f"every {name} is the same text: is --{name} the right column?" for name in same]

    @property
    def notes(self) -> list[str]:
        """What the user should know about the data."""
        notes = [*self._looked["notes"], *self.doubts]
        if not self._looked["valid"]:
            few = f"only {counted(self.survey.pairs, 'pair')}: " if self.survey.pairs < FEWEST_PAIRS else ""
            notes.append(f"{few}nothing is kept aside, and validation is on the training pairs")
        elif 0 < self.kept_aside < SMALLEST_HOLD_OUT:
            kept = counted(self.kept_aside, "pair")
            notes.append(f"only {kept} could be kept aside for validation (--valid names a file of more)")
        return notes

    def training(self, doing: str = "reading") -> Iterator[Pair]:
        """The training pairs, without those kept aside."""
        below = self.survey.hold_out_below
        return (p for p in self._read(doing, self.files.pairs, ReadReport()) if place(p) >= below)

    def tokenisers(
        self,
        source: tuple[str, int],
        target: tuple[str, int],
        shared: bool,
        tag_at: str = "start",
        unseen: str = "unknown",
    ) -> tuple[Tokeniser, Tokeniser]:
        """Tokenisers (kind, size) learned on the training pairs; shared: one for both sides.

        A tag that the decoder reads is a symbol of the target, too, and so are stand-ins.
        """
        prompted, more = tag_at == "decoder", STAND_INS if unseen == "carried" else ""
        folder = self.folder / f"tokens-{_digest([source, target, shared, prompted, more])}"
        paths = folder / "source.json", folder / "target.json"
        if not all(path.exists() for path in paths):
            for path, made in zip(paths, self._learn(source, target, shared, prompted, more), strict=True):
                _write(path, made.to_json())
        loaded = [from_json(path.read_text(encoding="utf-8"), str(path)) for path in paths]
        for made in loaded:
            made.tag_at, made.unseen = tag_at, unseen
        return loaded[0], loaded[1]

    def _learn(
        self, source: tuple[str, int], target: tuple[str, int], shared: bool, prompted: bool, more: str
    ) -> tuple[Tokeniser, Tokeniser]:
        """`more` are characters that both sides have besides those of the pairs."""
        marks = self.survey.marks
        if shared:
            both = chain(self._texts("source", source[0]), self._texts("target", source[0]), [more])
            one = learn(*source, both, marks)
            return one, one
        return (
            learn(*source, chain(self._texts("source", source[0]), [more]), marks),
            learn(*target, chain(self._texts("target", target[0]), [more]), marks if prompted else ()),
        )

    def _texts(self, side: Literal["source", "target"], kind: str) -> Iterator[str]:
        pairs = self.training(f"learning {side} symbols")
        if kind in ("bpe", "unigram"):
            pairs = islice(pairs, 0, None, max(1, -(-self.survey.pairs // SUBWORD_ROWS)))
        if side == "source":
            return (pair.source for pair in pairs)
        return chain.from_iterable(pair.targets for pair in pairs)

    def corpus(self, source: Tokeniser, target: Tokeniser, augmented: int = 0) -> Corpus:
        """The training pairs, encoded, and so many that are made up from them; of some, characters are hidden."""
        carried = source.unseen == "carried"
        versions = [*([augmented, augment.VERSION] if augmented else []), *([unseen.VERSION] if carried else [])]
        folder = self.folder / f"corpus-{_digest([source.to_json(), target.to_json(), *versions])}"
        if is_corpus(folder):
            return Corpus(folder)
        pairs = self.training("encoding")
        if augmented:
            pairs = augment.with_augmented(list(pairs), augmented)
        try:
            return write_corpus(unseen.with_hidden(pairs) if carried else pairs, source, target, folder)
        except OSError as error:
            raise _unwritable(folder, error) from error

    def repeats(self) -> int:
        """How many validation pairs are training pairs too."""
        path = self.folder / "repeats.json"
        if not path.exists():
            wanted = {single for pair in self.valid for single in pair.single()}
            seen = {single for pair in self.training("comparing") for single in pair.single() if single in wanted}
            _write(path, json.dumps(sum(any(single in seen for single in pair.single()) for pair in self.valid)))
        return int(json.loads(path.read_text(encoding="utf-8")))

    def _read(self, doing: str, paths: tuple[str, ...], report: ReadReport) -> Iterator[Pair]:
        tell = self._progress
        return read_pairs(
            paths,
            self.files.columns,
            on_bad_line=self.files.on_bad_line,
            longest=self.files.longest,
            report=report,
            progress=None if tell is None else lambda rows, share: tell(doing, rows, share),
        )


def _loaded(row: dict[str, Any]) -> Pair:
    """Return a pair as `asdict` and JSON have left it."""
    return Pair(**{**row, "features": tuple(row["features"]), "references": tuple(row["references"])})


def counted(count: int, what: str) -> str:
    """`1 pair`, `2 pairs`"""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def given_in_memory(paths: Sequence[str]) -> bool:
    """Return whether the pairs were given in memory: the user does not know the file that holds them."""
    return all(Path(path).parent == cache_root() / "given" for path in paths)


def keep_given(pairs: Sequence[Pair]) -> str:
    """Pairs that were given in memory, as a file in the cache; its name."""
    if not pairs:
        raise UserError("no pairs are given", "the list of pairs", "give at least one (source, target)")
    for number, pair in enumerate(pairs, 1):
        if pair.tag != pair.tag.strip() or any(f != f.strip() or not f or ";" in f for f in pair.features):
            what = f"the tag {pair.tag!r} or the features {pair.features!r} could not be read again as they are"
            raise UserError(what, f"pair {number}", "leave out spaces around them, empty features, and ';'")
    text = "".join(json.dumps(_as_record(pair), ensure_ascii=False) + "\n" for pair in pairs)
    path = cache_root() / "given" / f"{_digest(text)}.jsonl"
    _write(path, text)
    return str(path)


def _as_record(pair: Pair) -> dict[str, Any]:
    """Return a pair as a line of JSON has it; a ';' after each feature, as one with a space in it is not two."""
    target = pair.targets if pair.references else pair.target
    return {
        "source": pair.source,
        "target": target,
        "tag": pair.tag,
        "features": "".join(f"{f};" for f in pair.features),
    }


def _notes_of(report: ReadReport, which: str) -> list[str]:
    notes = list(report.notes)
    if report.skipped:
        notes.append(f"bad {which} rows left out: {report.skipped:,}; the first is {report.bad[0]}")
    if report.blank:
        notes.append(f"blank lines in the {which} data passed over: {report.blank:,}")
    return notes


def _digest(content: Any) -> str:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=10).hexdigest()


def _write(path: Path, text: str) -> None:
    """Whole or not at all, also when two runs do it at once."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(text, encoding="utf-8")
        aside.rename(path)
    except OSError as error:
        raise _unwritable(path.parent, error) from error


def _unwritable(folder: Path, error: OSError) -> UserError:
    todo = "make room there, or name a folder that can be written in the variable WEFT_CACHE"
    return UserError(f"the cache cannot be written: {error.strerror or error}", str(folder), todo)


def _forget_old(root: Path) -> None:
    """Drop what no run has used for a month."""
    if not root.is_dir():
        return
    for entry in root.iterdir():
        if entry.is_dir() and time.time() - entry.stat().st_mtime > KEEP_DAYS * 86_400:
            shutil.rmtree(entry, ignore_errors=True)
