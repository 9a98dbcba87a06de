"""Answers as the bytes that Slurm printed, of which a value is decoded when it is taken out.

Of 100,000 jobs the two answers are 210 MB. As texts they would be there once more while they are decoded, and Python
keeps a text with as many bytes a character as its widest one needs: one emoji in the name of one job makes it four. All
that Slurm's own words are searched for is ASCII, of which no byte is part of another character in UTF-8.

Of a whole poll not even the bytes are kept: an answer is read while the command prints it (`Pieces`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Answer: TypeAlias = bytes | bytearray


def as_text(said: Answer) -> str:
    """Decode what was printed: users' text may hold any bytes, and a carriage return is not a newline."""
    return said.decode("utf-8", "surrogateescape")


def as_printed(text: str) -> bytes:
    """Return the bytes of a text in an answer."""
    return text.encode("utf-8", "surrogateescape")


class AnswerReader(Protocol):
    """Reads an answer while it is printed."""

    def feed(self, piece: bytes) -> None:
        """Take what was printed next, cut anywhere. May block; raises nothing."""
        ...

    def end(self, *, well: bool) -> None:
        """Take that nothing more comes, and whether that is the whole answer. Called whatever has happened.

        Once, but a second time, from another thread, where not all commands could be run.
        """
        ...


class Pieces:
    """An answer in pieces, of which as much is kept as its reader can't read yet.

    `read` gets what is there, and whether that is the last of it; it returns how many bytes it has done with. It is
    called again when there is twice as much as it has left: a text of a user's is not searched again with each piece,
    however long it is.
    """

    def __init__(self, read: Callable[[bytes, bool], int]) -> None:
        """Begin with nothing."""
        self._read = read
        self._rest: list[bytes] = []
        self._left = self._size = 0

    def feed(self, piece: bytes) -> None:
        """Read on with this piece."""
        self._rest.append(piece)
        self._size += len(piece)
        if self._size >= 2 * self._left:
            self._go_on(ended=False)

    def end(self) -> None:
        """Read what is left."""
        self._go_on(ended=True)

    def _go_on(self, *, ended: bool) -> None:
        said = b"".join(self._rest)
        rest = said[self._read(said, ended) :]
        self._rest, self._left = [rest], len(rest)
        self._size = self._left
