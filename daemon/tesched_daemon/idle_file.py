"""Idle file: which jobs are idle and since when, as a script of the site's writes it (docs/reference/idle.md).

Principle
    What the file says only changes which of two victims of like price leaves, so a file that is not believed costs
    nothing: no job is idle then, and `tesched status` says why. A line that is not understood makes the whole file
    one that is not believed, since half of a list of idle jobs would be read as the rest being busy.

Source
    tesched's own; the lines are "JOBID SINCE", the id Slurm's own (SLURM_JOB_ID), the time in Unix seconds.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tesched_core.model.cluster import JobState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot

from tesched_daemon.config_trust import distrusted
from tesched_daemon.own_file import opened
from tesched_daemon.settings import IdleConfig

#: Largest file that is read, bytes, and the most lines in it.
MOST_BYTES, MOST_LINES = 1_048_576, 50_000
#: Seconds by which another host's clock may be ahead.
AHEAD_S = 60.0
_LINE = re.compile(rb"([1-9][0-9]{0,9})[ \t]+([0-9]{1,11}(?:\.[0-9]{1,9})?)", re.ASCII)

log = logging.getLogger(__name__)


class IdleFileError(Exception):
    """The file is not believed. The text says which line or property is wrong, and what would be right."""


@dataclass(kw_only=True)
class IdleFile:
    """The site's file, read anew where it has changed."""

    config: IdleConfig
    clock: Callable[[], float] = time.time
    #: why no job is idle, in words; empty if the file is believed, or none is configured
    trouble: str = field(default="", init=False)
    #: inode, change time and size of the file that was read last, and what it said
    _seen: tuple[int, int, int] | None = field(default=None, init=False)
    _since: Mapping[JobId, UnixSeconds] = field(default_factory=dict, init=False)

    def configure(self, config: IdleConfig) -> None:
        """Go on with another file, or with other times."""
        if config != self.config:
            self.config, self._seen, self.trouble = config, None, ""

    def read(self, snapshot: Snapshot) -> Mapping[JobId, UnixSeconds]:
        """Running best-effort jobs that have been idle for `after_s`, each with the time since which, Unix seconds.

        An idle time begins no earlier than the job's present run. Never raises for what is in the file.
        """
        if not self.config.file:
            return {}
        try:
            since = self._listed()
        except IdleFileError as error:
            self._say(f"no job counts as idle: {self.config.file}: {error}")
            return {}
        self._say("")
        now = snapshot.taken_at
        found: dict[JobId, UnixSeconds] = {}
        for job_id, listed in since.items():
            job = snapshot.jobs.get(job_id)
            if job is None or job.state is not JobState.RUNNING or snapshot.job_class(job_id) is not JobClass.BE:
                continue
            at = max(listed, now if job.start_time is None else job.start_time)
            if now - at >= self.config.after_s:
                found[job_id] = at
        return found

    def _listed(self) -> Mapping[JobId, UnixSeconds]:
        """Return all that the file says. Raises IdleFileError."""
        try:
            with opened(Path(self.config.file)) as handle:
                status = os.fstat(handle)
                self._check(status)
                seen = status.st_ino, status.st_mtime_ns, status.st_size
                if seen != self._seen:
                    text = os.read(handle, MOST_BYTES + 1)
                    self._seen, self._since = None, _parsed(text)
                    self._seen = seen
        except OSError as error:
            raise IdleFileError(f"{error.strerror}; the site's script must write it there (idle.file)") from None
        return self._since

    def _check(self, status: os.stat_result) -> None:
        """Raise IdleFileError for a file that another user can have written, or that nothing has written lately."""
        if why := distrusted(status, os.geteuid()):
            raise IdleFileError(f"{why}; it must belong to root or to the daemon's user, who alone may write to it")
        age_s = self.clock() - status.st_mtime
        if age_s > self.config.stale_s:
            text = (
                f"it was last written {age_s:.0f} s ago, and is believed for {self.config.stale_s:g} s (idle.stale_s)"
            )
            raise IdleFileError(f"{text}; the site's script must write it anew")
        if age_s < -AHEAD_S:
            raise IdleFileError(f"it was written {-age_s:.0f} s in the future; the clocks must agree")

    def _say(self, trouble: str) -> None:
        if bool(trouble) != bool(self.trouble):
            log.warning("%s", trouble or f"jobs count as idle again by {self.config.file}")
        self.trouble = trouble


def _parsed(text: bytes) -> Mapping[JobId, UnixSeconds]:
    """Return the idle jobs of the text; of a job that stands there twice the later time. Raises IdleFileError."""
    if len(text) > MOST_BYTES:
        raise IdleFileError(f"it has more than {MOST_BYTES} bytes; only idle jobs belong there")
    lines = text.split(b"\n")
    if len(lines) > MOST_LINES:
        raise IdleFileError(f"it has more than {MOST_LINES} lines; only idle jobs belong there")
    found: dict[JobId, UnixSeconds] = {}
    for number, line in enumerate(lines, 1):
        said = line.strip(b" \t\r")
        if not said or said.startswith(b"#"):
            continue
        match = _LINE.fullmatch(said)
        if match is None:
            shown = ascii(line[:40].decode("ascii", "backslashreplace"))
            right = 'a line must read "JOBID SINCE", such as "1234 1760000000" (Unix seconds)'
            raise IdleFileError(f"line {number}: {shown} is no idle job; {right}")
        job_id = JobId(int(match[1]))
        found[job_id] = max(float(match[2]), found.get(job_id, 0.0))
    return found
