"""Losses from what people write already: JSON lines, CSV, TensorBoard's event files. Fed piece by piece, as it grows.

A line or record that says no loss is passed over; so is one that cannot be read, and one that is longer than any
metrics are.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import isfinite
from typing import NamedTuple, Protocol

#: Longest line, bytes.
LONGEST_LINE = 1 << 20
#: Names that are tried, in this order, unless others are given.
ITERATION_KEYS = ("iteration", "iter", "global_step", "step", "epoch")
LOSS_KEYS = ("loss", "train_loss", "train/loss", "loss/train", "training_loss", "Loss/train", "Train/Loss", "Loss")
#: Longest number in a file, characters.
_LONGEST_NUMBER = 40


class LossFormat(StrEnum):
    """Kind of a file of losses."""

    JSONL = "jsonl"
    CSV = "csv"
    TENSORBOARD = "tensorboard"


class Loss(NamedTuple):
    """Values that a reader finds."""

    iteration: int
    loss: float


class ReadError(Exception):
    """The file is not of this format, at least not from here on. The text says where."""

    def __init__(self, text: str, *, whole: int = 0) -> None:
        """Say it. `whole` is the number of bytes before it, which have been read as they are meant."""
        super().__init__(text)
        self.whole = whole


class LossReader(Protocol):
    """Reads one file."""

    #: names that were found beside those that were wanted
    seen: set[str]

    def feed(self, data: bytes) -> Iterator[Loss]:
        """Yield the losses that are whole with these further bytes.

        Raises ReadError if this is another format; what is fed next begins behind what its `whole` counts.
        """
        ...


class _Lines:
    """Whole lines from pieces; a line that is too long is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[str]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            if not self._skipping and len(line) <= LONGEST_LINE:
                yield line.decode(errors="replace").rstrip("\r")
            self._skipping = False
        if len(self._rest) > LONGEST_LINE:
            self._rest, self._skipping = b"", True


class JsonLines:
    """One JSON object a line: {"step": 10, "loss": 0.5, …}."""

    def __init__(self, *, iteration_key: str = "", loss_key: str = "") -> None:
        """Read these keys, or for the usual ones."""
        self._keys = _Keys(iteration_key, loss_key)
        self._lines = _Lines()
        self.seen = self._keys.seen

    def feed(self, data: bytes) -> Iterator[Loss]:
        """Yield the losses of whole lines."""
        for line in self._lines.feed(data):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict) and (loss := self._keys.loss_of(found)):
                yield loss


class Csv:
    """A head line with names, then one line for each iteration; a cell may be empty."""

    def __init__(self, *, iteration_key: str = "", loss_key: str = "") -> None:
        """Read these columns, or for the usual ones."""
        self._keys = _Keys(iteration_key, loss_key)
        self._lines = _Lines()
        self._head: Sequence[str] = ()
        self.seen = self._keys.seen

    def feed(self, data: bytes) -> Iterator[Loss]:
        """Yield the losses of whole lines."""
        for line in self._lines.feed(data):
            cells = _cells(line)
            if not cells:
                continue
            if not self._head:
                self._head = [cell.strip() for cell in cells]
            elif loss := self._keys.loss_of(dict(zip(self._head, cells, strict=False))):
                yield loss


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line.removeprefix("\ufeff")]), [])
    except csv.Error:
        return []


class _Keys:
    """Finds iteration and loss among names."""

    def __init__(self, iteration_key: str, loss_key: str) -> None:
        self._iteration_keys: Iterable[str] = (iteration_key,) if iteration_key else ITERATION_KEYS
        self._loss_keys: Iterable[str] = (loss_key,) if loss_key else LOSS_KEYS
        self.seen: set[str] = set()

    def loss_of(self, values: Mapping[str, object]) -> Loss | None:
        iteration = _first(values, self._iteration_keys, _number)
        loss = _first(values, self._loss_keys, _number)
        if iteration is None or loss is None:
            if len(self.seen) < 100:
                self.seen.update(str(name)[:100] for name in list(values)[:20])
            return None
        # 1e3 is an iteration, 0.5 (of an epoch) is none.
        return Loss(int(iteration), loss) if iteration == int(iteration) and iteration >= 0 else None


def _first(values: Mapping[str, object], keys: Iterable[str], read: Callable[[object], float | None]) -> float | None:
    return next((found for key in keys if key in values and (found := read(values[key])) is not None), None)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > _LONGEST_NUMBER:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None
