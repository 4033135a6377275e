"""An index of documents: vectors, ids, texts and words in files that are memory-mapped, made once for a run and a file.

Documents are read and encoded some at a time, so that memory does not grow with their number. Words are indexed
(lexical.py) for up to LEXICAL_ROWS documents, which takes about a kilobyte for each; for more, only vectors count.
"""

# M documents · D width

from __future__ import annotations

import json
import mmap
import os
import shutil
import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from weft.core.files import parse_json, sync_folder
from weft.data.cache import cache_root, digest_of, forget_old, seal_cached, unwritable, usable
from weft.data.documents import Text, check_ids
from weft.predict.lexical import Lexical
from weft.predict.lexicon import Lexicon

FORMAT = 2
TOGETHER = 4096  # documents that are read and encoded at a time
LEXICAL_ROWS = 500_000  # documents whose words are indexed, at most
FACTS, VECTORS, LEXICAL = "index.json", "vectors.f32", "words"
Vectors = npt.NDArray[np.float32]
Encode = Callable[[list[str]], Vectors]


class Index:
    """Documents that can be searched."""

    def __init__(self, folder: Path, lexicon: Lexicon | None) -> None:
        facts = parse_json((folder / FACTS).read_text(encoding="utf-8"))
        self.rows, width = int(facts["rows"]), int(facts["width"])
        self.vectors: Vectors = np.memmap(folder / VECTORS, np.float32, "r", shape=(self.rows, width))
        self._ids, self._texts = _Strings(folder, "ids"), _Strings(folder, "texts")
        has_words = lexicon is not None and (folder / LEXICAL).is_dir()
        self.lexical = Lexical.load(folder / LEXICAL, lexicon) if has_words and lexicon else None

    def id(self, row: int) -> str:
        return self._ids[row]

    def text(self, row: int) -> str:
        return self._texts[row]

    def rows_by_id(self) -> dict[str, int]:
        """Return where each id stands."""
        return {self._ids[row]: row for row in range(self.rows)}


class ListedIndex:
    """Documents in memory."""

    def __init__(self, texts: Sequence[str], encode: Encode, lexicon: Lexicon | None) -> None:
        self.rows, self.vectors, self._texts = len(texts), encode(list(texts)), texts
        self.lexical = None if lexicon is None else Lexical.of(texts, lexicon)

    def id(self, row: int) -> str:
        return str(row + 1)

    def text(self, row: int) -> str:
        return self._texts[row]

    def rows_by_id(self) -> dict[str, int]:
        return {self.id(row): row for row in range(self.rows)}


AnyIndex = Index | ListedIndex


class _Strings:
    """Texts one after the other in a file, and where each ends in another."""

    def __init__(self, folder: Path, name: str) -> None:
        self._ends = np.memmap(folder / f"{name}.ends", np.int64, "r")
        with (folder / f"{name}.utf8").open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __getitem__(self, row: int) -> str:
        begin = int(self._ends[row - 1]) if row else 0
        return self._bytes[begin : int(self._ends[row])].decode("utf-8")


def index_of(
    documents: Callable[[], Iterable[Text]], encode: Encode, key: list[str], where: str,
    lexicon: Lexicon | None, tick: Callable[[int], None] | None = None,
) -> Index:  # fmt: skip
    """Return the index that is in the cache for this key, or build it."""
    root = cache_root() / "indexes"
    forget_old(root)
    folder = root / digest_of([FORMAT, key, lexicon.stemmer if lexicon else None])
    if not usable(folder):
        try:
            _build(folder, documents(), encode, where, lexicon, tick)
        except OSError as error:
            raise unwritable(folder, error) from error
    os.utime(folder)
    return Index(folder, lexicon)


def _build(
    folder: Path, documents: Iterable[Text], encode: Encode, where: str, lexicon: Lexicon | None,
    tick: Callable[[int], None] | None,
) -> None:  # fmt: skip
    """Write an index aside, and rename it."""
    aside = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        rows, width, texts = _write(aside, documents, encode, where, tick)
        names = [VECTORS, FACTS, *(f"{name}.{end}" for name in ("ids", "texts") for end in ("utf8", "ends"))]
        if lexicon is not None and texts is not None:
            (aside / LEXICAL).mkdir()
            names += [f"{LEXICAL}/{name}" for name in Lexical.of(texts, lexicon).save(aside / LEXICAL)]
        elif lexicon is not None:
            warnings.warn(
                f"BM25 is left out: there are more than {LEXICAL_ROWS:,} documents, and their words would not fit "
                "into memory",
                stacklevel=2,
            )
        (aside / FACTS).write_text(json.dumps({"format": FORMAT, "rows": rows, "width": width}), encoding="utf-8")
        seal_cached(aside, names)
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write(
    folder: Path, documents: Iterable[Text], encode: Encode, where: str, tick: Callable[[int], None] | None
) -> tuple[int, int, list[str] | None]:
    """Write vectors, ids and texts; return how many, how wide, and the texts if their words can be indexed."""
    rows = width = 0
    kept: list[str] | None = []
    ends = {name: array("q") for name in ("ids", "texts")}
    positions, hashes = dict.fromkeys(ends, 0), array("q")
    with (folder / VECTORS).open("wb") as vectors, _opened(folder, "ids") as ids, _opened(folder, "texts") as texts:
        for block in _blocks(documents):
            for name, file, strings in (("ids", ids, [d[0] for d in block]), ("texts", texts, [d[1] for d in block])):
                for each in (string.encode("utf-8", errors="replace") for string in strings):
                    positions[name] += file.write(each)
                    ends[name].append(positions[name])
            hashes.extend(hash(document[0]) for document in block)
            encoded = encode([text for _, text in block])
            vectors.write(encoded.astype(np.float32).tobytes())
            rows, width = rows + len(block), encoded.shape[1]
            if kept is not None:
                kept.extend(text for _, text in block)
            kept = kept if rows <= LEXICAL_ROWS else None
            if tick is not None:
                tick(len(block))
    for name, positions_of in ends.items():
        (folder / f"{name}.ends").write_bytes(positions_of.tobytes())
    if len(np.unique(np.frombuffer(hashes, np.int64))) < rows:
        written = _Strings(folder, "ids")
        counts = Counter(written[row] for row in range(rows))
        check_ids({each: count for each, count in counts.items() if count > 1}, "document id", where)
    return rows, width, kept


def _opened(folder: Path, name: str) -> BinaryIO:
    return (folder / f"{name}.utf8").open("wb")


def _blocks(documents: Iterable[Text]) -> Iterator[list[Text]]:
    iterator = iter(documents)
    while block := list(islice(iterator, TOGETHER)):
        yield block
