"""Clocks of a simulated site that are set: the daemon's host's, and slurmctld's.

Time passes evenly in the simulation, as a stopwatch's. Each clock differs from it, since it was last set, by some
seconds. A time in a job's record is what slurmctld's clock showed when it was written, whatever was set since.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from math import inf
from random import Random

from tesched_core.model.cluster import Job
from tesched_core.model.snapshot import Snapshot

from tesched_sim.slurm import Slurm

#: seconds by which a clock is set, forward or back: by time servers and by hand
LEAPS_S = (5.0, 60.0, 3_600.0, 7_200.0, 14_400.0)


class Clocks:
    """Both clocks."""

    def __init__(self, slurm: Slurm) -> None:
        """Let both be right."""
        self.slurm = slurm
        #: seconds by which the daemon's clock is ahead of the simulation's time, or behind
        self.daemon_s = 0.0
        #: when slurmctld's clock was set, and by how much it was ahead from then on
        self._set_at, self._ahead_s = [-inf], [0.0]
        #: jobs that may start sooner or later than they were to, as slurmctld's clock was set meanwhile
        self.moved: set[int] = set()
        #: called when the daemon's clock is set
        self.watchers: list[Callable[[], None]] = []

    def now(self) -> float:
        """Time by the daemon's clock."""
        return self.slurm.now + self.daemon_s

    def daemons_is_set(self, dice: Random) -> None:
        """Set the daemon's clock; next time it may be right again."""
        self.daemon_s = 0.0 if self.daemon_s and dice.random() < 0.5 else self.daemon_s + _leap_s(dice)
        for watcher in self.watchers:
            watcher()

    def slurms_is_set(self, dice: Random) -> None:
        """Set slurmctld's clock: a job that waits for a time waits for that time by the new one."""
        slurm, before = self.slurm, self._ahead_s[-1]
        after = 0.0 if before and dice.random() < 0.5 else before + _leap_s(dice)
        self._set_at.append(slurm.now)
        self._ahead_s.append(after)
        slurm.ahead_s = after
        for row in sorted(slurm.ineligible):
            self.moved.add(row)
            slurm.put_off(row, slurm.eligible_s[row] - (after - before))

    def slurms_ahead_s(self, at_s: float = inf) -> float:
        """Seconds by which slurmctld's clock was ahead then."""
        return self._ahead_s[bisect_right(self._set_at, at_s) - 1]

    def dated(self, seen: Snapshot) -> Snapshot:
        """Date what the daemon sees: each time by the clock that showed it."""
        if not self.daemon_s and len(self._set_at) == 1:
            return seen
        return replace(
            frozen(seen),
            taken_at=self.now(),
            jobs={job_id: self._dated(job) for job_id, job in seen.jobs.items()},
        )

    def _dated(self, job: Job) -> Job:
        row = job.job_id - 1
        eligible_s = job.eligible_time
        if eligible_s is not None:
            when = inf if row in self.slurm.ineligible else job.submit_time
            eligible_s += self.slurms_ahead_s(when)
        return replace(
            job,
            submit_time=self._shown(job.submit_time),
            eligible_time=eligible_s,
            start_time=None if job.start_time is None else self._shown(job.start_time),
            end_time=None if job.end_time is None else self._shown(job.end_time),
        )

    def _shown(self, at_s: float) -> float:
        return at_s + self.slurms_ahead_s(at_s)


def frozen(seen: Snapshot) -> Snapshot:
    """Return a snapshot that stays as it is when the clock moves on."""
    return replace(
        seen,
        jobs=dict(seen.jobs.items()),
        traits={job_id: seen.traits[job_id] for job_id in seen.jobs},
        reported_by_array=dict(seen.reported_by_array),
        columns=None,
    )


def _leap_s(dice: Random) -> float:
    return dice.choice(LEAPS_S) * dice.choice((1, -1))
