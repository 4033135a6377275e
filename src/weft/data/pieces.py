"""Running text in pieces: newlines, tabs and blank lines are data; memory is that of a piece, however long a line."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from weft.core.errors import UserError
from weft.data.files import BOM, File

PIECE = 1024  # characters, at most
PASSAGE = 256  # the same of a text whose pieces are restored: each is a sequence of its own
BLOCK = 1 << 16  # bytes that are read at once


def pieces(file: File, by_line: bool = False, most: int = PIECE) -> Iterator[tuple[int, str]]:
    """Yield the pieces of a text with the line in which each begins; every character is in one of them.

    A piece has at most `most` characters, and ends after a line or a word where that is possible; `by_line`: after
    each line.
    """
    line, rest = 1, ""
    for text in _decoded(file):
        rest += text
        while len(rest) > most or (by_line and "\n" in rest):
            end = _end_of_piece(rest, by_line, most)
            yield line, rest[:end]
            line, rest = line + rest.count("\n", 0, end), rest[end:]
    if rest:
        yield line, rest


def _end_of_piece(text: str, by_line: bool, most: int) -> int:
    """Return where the first piece of a text ends."""
    if by_line:
        first = text.find("\n", 0, most)
        return first + 1 if first >= 0 else most
    for separator in ("\n", " "):
        last = text.rfind(separator, 1, most)
        if last > 0:
            return last + 1 if separator == "\n" else last  # a space begins a word, as subwords have it
    return most


def _decoded(file: File) -> Iterator[str]:
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    block = file.stream.read(BLOCK).removeprefix(BOM)
    while True:
        try:
            yield decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            what = f"byte {done + error.start + 1} (0x{error.object[error.start]:02x}) is not UTF-8"
            todo = "save the file as UTF-8 (`iconv -f LATIN1 -t UTF-8`, if it is LATIN1)"
            raise UserError(what, file.name, todo) from error
        if not block:
            return
        done += len(block)
        block = file.stream.read(BLOCK)
