"""Text encodings: a stream of bytes → the same text as UTF-8, or an error that says what the file is.

UTF-16 and UTF-32 are recognised by their byte order mark. Everything else is taken as UTF-8, in which a zero byte is
refused: it means UTF-16 without a mark, or no text at all. The check costs one search per buffer.

Limits: other encodings are not guessed; a line that is not UTF-8 is a bad row (see `formats`).
"""

from __future__ import annotations

import codecs
import io
from typing import Any

from weft.core.errors import UserError

BUFFER = 1 << 20

MARKS = (  # the longer first: that of UTF-16 begins that of UTF-32
    (b"\xff\xfe\x00\x00", "UTF-32", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "UTF-32", "utf-32-be"),
    (b"\xff\xfe", "UTF-16", "utf-16-le"),
    (b"\xfe\xff", "UTF-16", "utf-16-be"),
)


def as_utf8(stream: io.BufferedReader[Any], name: str) -> tuple[io.BufferedReader, str]:
    """Return the text of a stream as UTF-8, and the encoding that its byte order mark names ("" if it has none)."""
    start = stream.peek(4)
    for mark, encoding, codec in MARKS:
        if start.startswith(mark):
            stream.read(len(mark))
            return _buffered(_Recoded(stream, name, encoding, codec)), encoding
    return _buffered(_Checked(stream, name)), ""


def _buffered(raw: io.RawIOBase) -> io.BufferedReader:
    return io.BufferedReader(raw, BUFFER)


class NotText(UserError):
    """A zero byte: the file is binary, or UTF-16 or UTF-32 without a byte order mark."""


class _Checked(io.RawIOBase):
    """Bytes as they are, without zeros."""

    def __init__(self, stream: io.BufferedReader[Any], name: str) -> None:
        self._stream, self._name = stream, name
        self._lines = 0  # ended so far

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        block = self._next(len(view))
        zero = block.find(b"\x00")
        if zero >= 0:
            raise self._not_text(self._lines + block.count(b"\n", 0, zero) + 1)
        self._lines += block.count(b"\n")
        view[: len(block)] = block
        return len(block)

    def _next(self, most: int) -> bytes:
        """Return what can be had at once, at least a byte unless the stream is at its end."""
        return self._stream.read1(most)

    def _not_text(self, line: int) -> UserError:
        return NotText(
            "the file has a zero byte here: it is not text in UTF-8",
            f"{self._name}:{line}",
            "save it as UTF-8 (`iconv -f UTF-16 -t UTF-8`, if it is UTF-16); unpack it first if it is an archive",
        )


class _Recoded(_Checked):
    """Text of another encoding as UTF-8."""

    def __init__(self, stream: io.BufferedReader[Any], name: str, encoding: str, codec: str) -> None:
        super().__init__(stream, name)
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(codec)()
        self._rest = b""  # decoded already, but not asked for yet
        self._ended = False

    def _next(self, most: int) -> bytes:
        while not self._rest and not self._ended:
            block = self._stream.read1(most)
            self._ended = not block
            try:
                self._rest = self._decoder.decode(block, final=self._ended).encode()
            except UnicodeError as error:
                raise self._broken(error) from error
        block, self._rest = self._rest[:most], self._rest[most:]
        return block

    def _broken(self, error: UnicodeError) -> UserError:
        reason = error.reason if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else str(error)
        encoding = self._encoding
        return UserError(
            f"the file begins with the byte order mark of {encoding}, but is not valid {encoding}: {reason}",
            self._name,
            "save the file again, preferably as UTF-8",
        )
