"""Marks file: the jobs that Slurm's plugin preempt/tesched may preempt, replaced whole (slurm_plugin/README.md)."""

from __future__ import annotations

import logging
import pwd
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tesched_core.model.actions import Action, CameBack, Failure, FailureKind, MarkLine, Outcome, SetMarks, Status
from tesched_core.orders.marking import MOST_BARRED
from tesched_core.ports import Actuator, Barred, never_barred

from tesched_daemon.own_file import OwnFile, beginning

#: the file's first word
WORD = "tesched-marks"
#: bytes that are read of a file to see that it has no mark
_MOST = 64
#: the largest numbers that the plugin takes (slurm_plugin/marks.h, marks.c)
MOST_ORDER, MOST_GRACE_S, MOST_TIME = 2_000_000_000, 7 * 24 * 3600, 99_999_999_999
MOST_LINES = 250_000
_UINT16, _INT32, _UINT32 = 2**16 - 1, 2**31 - 1, 2**32 - 1
#: users without an id that are named; of the others their number is said
_MOST_NAMED, _MOST_LETTERS = 3, 40

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class MarksFile:
    """The file, and what it was when it was last written."""

    path: Path
    #: why the last try to write it failed
    failure: str = ""
    #: barred users without an id on this host: their limits are not in the file
    unknown: tuple[str, ...] = ()
    #: excluded users, where they are more than the plugin takes
    too_many: int = 0
    _written: tuple[int, ...] | None = field(default=None)
    _own: OwnFile = field(init=False)

    def __post_init__(self) -> None:
        """Keep no other file at this path."""
        self._own = OwnFile(path=self.path, key="slurm.marks", word=WORD)

    def write(
        self,
        marks: Iterable[MarkLine],
        barred: Iterable[str] = (),
        wait_s: int = 0,
        came_back: Iterable[CameBack] = (),
    ) -> None:
        """Replace it. Raises OSError, and keeps why.

        A barred user without an id here is left out, and named: the marks and the other users' limits hold without.
        Of more than the plugin takes none is in it, and no mark.
        """
        ids = {name: _user_id(name) for name in barred}
        self.too_many = len(ids) if len(ids) > MOST_BARRED else 0
        unknown = tuple(sorted(name for name, user_id in ids.items() if user_id is None))
        if unknown and unknown != self.unknown:
            log.warning("%s", _without_id(unknown))
        self.unknown = unknown
        try:
            known = {each for each in ids.values() if each is not None}
            self._own.replace(text_of(() if self.too_many else marks, known, wait_s, came_back))
        except OSError as error:
            self.failure = f"the marks cannot be written: {self.path}: {error.strerror}"
            raise
        self.failure = ""
        self._written = self._now()

    def unnamed(self) -> str:
        """The barred users that the file does not name, in words; empty if none."""
        if self.too_many:
            return (
                f"no job is marked: {self.too_many} users may preempt no more "
                f"(guard.max_victims_for_te_user_hour and the like), and the plugin takes {MOST_BARRED}"
            )
        return _without_id(self.unknown) if self.unknown else ""

    def doubt(self) -> str:
        """Reason that it may not say what this process means it to say; empty if it does."""
        now = self._now()
        if self._written is None:
            return "" if now is None or self._is_empty() else f"{self.path} is from an earlier process"
        return self.tampered()

    def tampered(self) -> str:
        """Change that another process has made to it since this one has written it; empty if none."""
        now = self._now()
        if self._written is None or now == self._written:
            return ""
        return f"{self.path} was {'removed' if now is None else 'changed'} by another process"

    def _is_empty(self) -> bool:
        try:
            return beginning(self.path, _MOST) == text_of(()).encode()
        except OSError:
            return False

    def _now(self) -> tuple[int, ...] | None:
        try:
            seen = self.path.lstat()
        except OSError:
            return None
        return seen.st_ino, seen.st_mtime_ns, seen.st_size, seen.st_mode, seen.st_uid


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkingActuator:
    """Writes marks, besides what another actuator does."""

    actuator: Actuator
    file: MarksFile

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        """Perform it. A file that cannot be written is a failure that names it."""
        if not isinstance(action, SetMarks):
            return self.actuator.act(action, barred)
        began = time.time()
        if barred():
            return Outcome(action=action, status=Status.SKIPPED, at=began)
        try:
            self.file.write(action.marks, action.barred, action.wait_s, action.came_back)
        except OSError:
            failure = Failure(kind=FailureKind.BUSY, message=self.file.failure)
            return Outcome(action=action, status=Status.FAILED, at=time.time(), failure=failure)
        return Outcome(action=action, status=Status.SENT, at=time.time(), took_s=time.time() - began)


def _user_id(name: str) -> int | None:
    """Return the id of a user; Slurm writes the id itself for one that it does not know. None: there is none."""
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):  # ValueError: a text that can't be a name
        is_id = name.isascii() and name.isdecimal() and len(name) <= len(str(_UINT32))
        return int(name) if is_id and int(name) <= _UINT32 else None


def _without_id(users: Sequence[str]) -> str:
    named = ", ".join(ascii(name[:_MOST_LETTERS])[1:-1] for name in users[:_MOST_NAMED])
    who = f"user {named} has" if len(users) == 1 else f"{len(users)} users, among them {named}, have"
    return (
        f"{who} no id on this host, so the plugin does not know that TE jobs of such a user may preempt no more "
        f"(guard.max_victims_for_te_user_hour and the like)"
    )


def text_of(
    marks: Iterable[MarkLine], barred: Collection[int] = (), wait_s: int = 0, came_back: Iterable[CameBack] = ()
) -> str:
    """Return the file's text: what goes for TE jobs (how long they wait, ids of users), then a line a job, by its id.

    A mark that the plugin would not read is left out: its job is not preemptable, the others are. So are TE jobs that
    came back where there are more lines than it takes. Of more excluded users than it takes, which would make the file
    wrong as a whole, none is in it, and so no mark.
    """
    if len(barred) > MOST_BARRED:
        marks, barred = (), ()
    by_job = {one.job_id: ("*", one) for one in marks if _is_read(one)}
    for each in came_back:
        as_mark = _as_mark(each)
        if len(by_job) < MOST_LINES and _is_read(as_mark):
            by_job.setdefault(each.job_id, (str(each.job_id), as_mark))
    lines = [
        f"{job_id} {preemptor} {one.order} {one.grace_s} requeue {one.max_restarts} {one.least_run_s} "
        f"{one.after} {one.until}"
        for job_id, (preemptor, one) in sorted(by_job.items())
    ]
    wait = [f"wait {wait_s}"] if wait_s else []
    users = [f"barred {user}" for user in sorted(barred)]
    return "\n".join([f"{WORD} 1", *wait, *users, *lines, f"end {len(lines)}", ""])


def _as_mark(one: CameBack) -> MarkLine:
    """Return the line of a TE job that came back. As a mark it never holds: so a plugin of an earlier form takes it."""
    until = MOST_TIME if one.until is None else one.until
    return MarkLine(
        job_id=one.job_id,
        order=one.restarts,
        grace_s=0,
        max_restarts=0,
        least_run_s=0,
        after=one.victim_left_at,
        until=until,
    )


def _is_read(mark: MarkLine) -> bool:
    """Check whether each number of it is one that the plugin takes."""
    bounds = (
        (mark.job_id, 1, _INT32),
        (mark.order, 0, MOST_ORDER),
        (mark.grace_s, 0, MOST_GRACE_S),
        (mark.max_restarts, 0, _UINT16),
        (mark.least_run_s, 0, _INT32),
        (mark.after, 0, MOST_TIME),
        (mark.until, 0, MOST_TIME),
    )
    return all(low <= number <= high for number, low, high in bounds)
