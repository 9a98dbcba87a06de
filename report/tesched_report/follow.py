"""Follows a file that a training writes, and reports what is added to it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from tesched_report.readers import Csv, JsonLines, LossFormat, LossReader, ReadError
from tesched_report.reporter import Reporter
from tesched_report.tensorboard import TensorBoard

#: Seconds between two reads of the file.
PAUSE_S = 1.0
#: Bytes that are read at once.
PIECE = 1 << 16
#: Bytes at the beginning of a file by which it is known; an event file's first record has the time in it.
_HEAD = 64


def reader_of(form: LossFormat, *, iteration_key: str = "", loss_key: str = "") -> LossReader:
    """Return a reader of this format that finds these names; empty: for the usual ones.

    TensorBoard's steps have no name.
    """
    if form is LossFormat.TENSORBOARD:
        return TensorBoard(loss_key=loss_key)
    kind = JsonLines if form is LossFormat.JSONL else Csv
    return kind(iteration_key=iteration_key, loss_key=loss_key)


class Follower:
    """One file, and how far it has been read."""

    def __init__(self, path: Path, make_reader: Callable[[], LossReader], reporter: Reporter) -> None:
        """Take the file, which need not be there yet; a folder stands for its newest event file."""
        self._path = path
        self._make_reader = make_reader
        self._reporter = reporter
        self._reader = make_reader()
        #: device and inode of the file that is being read
        self._file: tuple[int, int] | None = None
        #: its first bytes, as far as they were there
        self._head = b""
        self._offset = 0
        #: losses found so far
        self.found = 0

    @property
    def seen(self) -> frozenset[str]:
        """Return names that were found where no loss was."""
        return frozenset(self._reader.seen)

    def look(self) -> int:
        """Report the losses that are new, and count them. A file that is not there has none.

        Raises OSError if it cannot be read, and ReadError if it is of another format; the next one begins where that
        was found, since it may have been half written.
        """
        before = self.found
        path = _newest(self._path)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return 0
        with file:
            # Whatever is read is of this file, also if another one takes its name meanwhile.
            identity, size = _identity(file.fileno()), file.seek(0, 2)
            file.seek(0)
            head = file.read(_HEAD)
            if identity != self._file or size < self._offset or not head.startswith(self._head):
                # Another file, or the same one written anew.
                self._file, self._offset, self._reader = identity, 0, self._make_reader()
            self._head = head
            file.seek(self._offset)
            while piece := file.read(PIECE):
                self._offset += len(piece)
                try:
                    for loss in self._reader.feed(piece):
                        self.found += 1
                        self._reporter.report(iteration=loss.iteration, loss=loss.loss)
                except ReadError as error:
                    self._offset = error.whole
                    raise
        return self.found - before


def follow(
    follower: Follower, *, say: Callable[[str], None], once: bool = False, pause: Callable[[float], None] = time.sleep
) -> None:
    """Follow the file for ever, or read what is there `once`. What is wrong with the file is said once.

    Raises ReadError for a file of another format, and OSError for one that cannot be read, if `once`.
    """
    said = False
    while True:
        try:
            follower.look()
        except (OSError, ReadError) as error:
            if once:
                raise
            if not said:
                said = True
                say(f"{error}; it is read again")
        if once:
            return
        if not said and not follower.found and follower.seen:
            said = True
            say(f"no loss was found yet, only {', '.join(sorted(follower.seen)[:20])}; --loss-key names it")
        pause(PAUSE_S)


def _newest(path: Path) -> Path:
    if not path.is_dir():
        return path
    events = sorted(path.glob("events.out.tfevents.*"), key=lambda each: each.stat().st_mtime)
    return events[-1] if events else path / "events.out.tfevents"


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
