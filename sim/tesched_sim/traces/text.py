"""Lines and tables of text files, and errors that name the file and the line."""

from __future__ import annotations

import csv
import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import TextIOWrapper
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from tesched_sim.traces.drawn import records_below, separator_of
from tesched_sim.workload import WorkloadError

T = TypeVar("T")

#: characters of the longest line: one without an end would fill the memory
_LONGEST_LINE = 1 << 24


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, line) without line ends; a file that ends in .gz is unpacked. Raises WorkloadError.

    A byte that is no UTF-8 stands in a name that a user typed, and is replaced; among numbers it is no number.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
                raise WorkloadError(f"{path}: it is neither a plain file nor a pipe")
            unpacked: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            # A carriage return within a line is a user's. Some editors put a mark before the first column's name.
            lines = TextIOWrapper(unpacked, encoding="utf-8-sig", errors="replace", newline="\n")
            for number, line in enumerate(iter(lambda: lines.readline(_LONGEST_LINE + 2), ""), 1):
                if len(line.rstrip("\r\n")) > _LONGEST_LINE:
                    raise WorkloadError(f"{path}:{number}: a line has more than {_LONGEST_LINE} characters")
                yield number, line.rstrip("\r\n")
    except FileNotFoundError:
        raise WorkloadError(f"{path}: there is no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise WorkloadError(f"{path}: cannot be read: {error}") from None


class TableLine:
    """One line of a table, by the names of its columns."""

    def __init__(self, path: Path, number: int, values: Mapping[str, str]) -> None:
        """Take a line."""
        self._where = f"{path}:{number}"
        self._values = values

    def text(self, name: str) -> str:
        """Return a column's text; empty if the table has no such column."""
        return self._values.get(name, "")

    def read(self, name: str, kind: Callable[[str], T], what: str) -> T:
        """Return a column's value. Raises WorkloadError, naming the line, if it is not `what`."""
        word = self._values[name]
        try:
            return kind(word)
        except (ValueError, OverflowError):
            raise WorkloadError(f"{self._where}: {name} is {word!r}; it must be {what}") from None

    def number(self, name: str) -> float:
        """Return a column's number. Raises WorkloadError, naming the line."""
        return self.read(name, finite, "a number")

    def whole(self, name: str) -> int:
        """Return a column's whole number, at least 0. Raises WorkloadError, naming the line."""
        return self.read(name, whole, "a whole number")


def finite(word: str) -> float:
    """Return the number. Raises ValueError for another word, `nan` and `inf` among them."""
    number = float(word)
    if not isfinite(number):
        raise ValueError(word)
    return number


#: the greatest whole number that a column may have: what a float still counts exactly
_MOST = 2**53


def whole(word: str) -> int:
    """Return the whole number, at least 0. Raises ValueError for another word, and for one beyond all bounds."""
    number = finite(word)
    if number != int(number) or not 0 <= number <= _MOST:
        raise ValueError(word)
    return int(number)


def table(
    path: Path,
    delimiter: str,
    needed: tuple[str, ...],
    numbered: Iterator[tuple[int, str]] | None = None,
    *,
    head: Callable[[list[str], str], None] | None = None,
) -> Iterator[TableLine]:
    """Yield the lines of a table; its first line names the columns; `head` gets them and their separator.

    Where the delimiter is `|`, as Slurm's is, the first line may show another one that was drawn.

    `numbered` are its lines where they are in no file; `path` is what errors name.
    Raises WorkloadError if a needed column is missing, or a line has another number of fields than the first.
    """
    numbered = lines_of(path) if numbered is None else numbered
    _, first = next(numbered, (1, ""))
    slurms = delimiter == "|"
    delimiter = separator_of(first) if slurms else delimiter
    names = first.split(delimiter)
    missing = [name for name in needed if name not in names]
    if missing:
        raise WorkloadError(f"{path}:1: there is no column {missing[0]}; there are {', '.join(names) or 'none'}")
    if head is not None:
        head(names, delimiter)
    if slurms and delimiter != "|":
        numbered = records_below(path, names, delimiter, numbered)
    for number, line in numbered:
        if not line.strip():
            continue
        # Slurm's parsable output quotes nothing.
        values = line.split(delimiter) if slurms else _unquoted(path, number, line, delimiter)
        if len(values) != len(names):
            raise WorkloadError(f"{path}:{number}: it has {len(values)} fields; the first line has {len(names)}")
        yield TableLine(path, number, dict(zip(names, values, strict=True)))


def _unquoted(path: Path, number: int, line: str, delimiter: str) -> list[str]:
    try:
        # A carriage return in a name is no end of the line here, and would be to the reader.
        return next(csv.reader([line.replace("\r", " ")], delimiter=delimiter))
    except csv.Error as error:
        raise WorkloadError(f"{path}:{number}: it is no line of CSV: {error}") from None
