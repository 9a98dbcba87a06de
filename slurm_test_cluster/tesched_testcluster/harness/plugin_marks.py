"""The marks file of preempt/tesched, as tests write it (`slurm_plugin/marks.h` says what is in it)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tesched_testcluster.local import LocalCluster


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One mark; times are in seconds from now."""

    job_id: int
    preemptor: int | None = None
    prio: int = 1
    grace_s: int = 0
    mode: str = "requeue"
    max_restarts: int = 100
    least_run_s: int = 0
    after_s: int = -60
    until_s: int = 3600

    def line(self, now: int) -> str:
        preemptor = "*" if self.preemptor is None else self.preemptor
        return (
            f"{self.job_id} {preemptor} {self.prio} {self.grace_s} {self.mode} {self.max_restarts} {self.least_run_s} "
            f"{now + self.after_s} {now + self.until_s}\n"
        )


@dataclass(frozen=True, kw_only=True)
class Delay:
    """The line of a TE job that came back: it has no further victims, if it had any at so many restarts or more."""

    job_id: int
    restarts: int = 0
    until_s: int = 3600
    #: when its last victim left, Unix seconds; 0: none is known
    left_at: int = 0

    def line(self, now: int) -> str:
        return f"{self.job_id} {self.job_id} {self.restarts} 0 requeue 0 0 {self.left_at} {now + self.until_s}\n"


def marks_text(marks: Iterable[Mark | Delay], barred: Iterable[int] = ()) -> str:
    """Return the text of a marks file; TE jobs of the `barred` users, by id, preempt none."""
    now = int(time.time())
    users = [f"barred {user}\n" for user in barred]
    lines = [mark.line(now) for mark in sorted(marks, key=lambda mark: mark.job_id)]
    return "".join(["tesched-marks 1\n", *users, *lines, f"end {len(lines)}\n"])


def put_text(cluster: LocalCluster, text: str, *, mode: int = 0o644, owner: int | None = None, size: int = 0) -> None:
    """Replace the marks file at once by another; zeros fill it up to `size`."""
    new = cluster.marks.with_name("marks.new")
    new.write_text(text)
    new.chmod(mode)
    if owner is not None:
        os.chown(new, owner, owner)
    if size:
        with new.open("r+b") as file:
            file.truncate(size)
    new.rename(cluster.marks)


def put_marks(cluster: LocalCluster, *marks: Mark | Delay) -> None:
    """Replace the marks by these."""
    put_text(cluster, marks_text(marks))
