"""A job's report as a file: what it holds, how it stays small, how it is written and read again.

JSON in one piece: {"version": 1, "points": [[iteration, loss, at, work], …], "samples": [[at, type, steps_per_s], …],
"workload": "…", "target_loss": x, "saved_at": t}. Times are in Unix seconds; work (done per core-second) and
saved_at may be null. The reader checks it by its own rules (`tesched_core.model.job_report`).
"""

from __future__ import annotations

import json
import os
import time
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

VERSION = 1
#: The reader takes no file that is larger.
MOST_BYTES = 65_536
MOST_POINTS = 1000
MOST_SAMPLES = 32
#: Most characters of an accelerator's type, and of a workload's name.
LONGEST_NAME = 100
#: A file of a job that has ended is removed by its user's next job after so long, seconds.
FORGOTTEN_AFTER_S = 30 * 86_400.0
#: Most entries of the folder that are read for that.
_SWEPT = 1000
#: Of the points, so many of the newest are kept when the others are thinned.
_KEPT_WHOLE = 500
_DIGITS = 9


class Point(NamedTuple):
    """One loss."""

    iteration: int
    loss: float
    #: Unix seconds
    at: float
    #: work done per core-second; None if the job does not say
    work: float | None = None


class Sample(NamedTuple):
    """One measured speed."""

    at: float
    #: the accelerator's type; empty: the one that Slurm gave the job
    accelerator: str
    steps_per_s: float


class Saved(NamedTuple):
    """All work up to then is saved."""

    at: float


@dataclass
class Document:
    """Losses and samples of a job. Iterations go up: a lower one means that the training went back to there."""

    points: list[Point] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    workload: str = ""
    target_loss: float | None = None
    #: up to when all work is saved, Unix seconds; None if the job does not say
    saved_at: float | None = None

    def add(self, point: Point) -> None:
        """Add a loss; those of the same and of later iterations are forgotten."""
        if not isfinite(point.loss):
            return
        if self.points and point.iteration <= self.points[-1].iteration:
            del self.points[bisect_left(self.points, point.iteration, key=lambda known: known.iteration) :]
        self.points.append(point)
        if len(self.points) > MOST_POINTS:
            self._thin()

    def _thin(self) -> None:
        """Drop every second point but for the newest: the curve's beginning stays, with fewer points."""
        kept = min(_KEPT_WHOLE, len(self.points) // 2)
        self.points = self.points[:-kept:2] + self.points[-kept:]

    def measured(self, sample: Sample) -> None:
        """Add a speed."""
        self.samples = [*self.samples, sample][-MOST_SAMPLES:]

    def text(self) -> bytes:
        """Return the file's content, which is never longer than `MOST_BYTES`."""
        while len(made := self._text()) > MOST_BYTES:
            self._thin()
        return made

    def _text(self) -> bytes:
        content: dict[str, Any] = {
            "version": VERSION,
            "points": [[p.iteration, _short(p.loss), round(p.at, 2), _short(p.work)] for p in self.points],
            "samples": [[round(s.at, 2), s.accelerator, _short(s.steps_per_s)] for s in self.samples],
            "workload": self.workload,
            "target_loss": self.target_loss,
            "saved_at": None if self.saved_at is None else round(self.saved_at, 2),
        }
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def load(path: Path, *, since: float) -> Document:
    """Load what this job has said before, in an earlier process or run; an empty document if nothing.

    A file from before `since` (Unix seconds) is of an earlier job that had the same id.
    """
    try:
        found = path.lstat()
        if not S_ISREG(found.st_mode) or found.st_mtime < since or found.st_size > MOST_BYTES:
            return Document()
        content = json.loads(path.read_bytes())
        document = Document(
            samples=[Sample(float(at), str(name), float(speed)) for at, name, speed in content["samples"]],
            workload=str(content["workload"]),
            target_loss=content["target_loss"],
            saved_at=None if content.get("saved_at") is None else float(content["saved_at"]),
        )
        for iteration, loss, at, work in content["points"]:
            document.add(Point(int(iteration), float(loss), float(at), work))
    except (OSError, ValueError, OverflowError, KeyError, TypeError, RecursionError):
        return Document()
    return document


def write(path: Path, content: bytes) -> None:
    """Put the content there in one piece: a reader sees the old file or the new one. Raises OSError."""
    inherits_group = bool(path.parent.stat().st_mode & 0o2000)
    made = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        made.unlink()
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            # Whatever the umask is: the daemon has to read it.
            os.fchmod(file.fileno(), 0o640 if inherits_group else 0o644)
            file.write(content)
        made.replace(path)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise


def sweep(folder: Path, *, now: Callable[[], float] = time.time) -> None:
    """Remove what this user's jobs left there long ago, as far as that can be done.

    Another job may rename its file meanwhile, or remove the same one.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for _, entry in zip(range(_SWEPT), entries, strict=False):
            with suppress(OSError):
                if now() - entry.stat(follow_symlinks=False).st_mtime > FORGOTTEN_AFTER_S:
                    Path(entry.path).unlink()
