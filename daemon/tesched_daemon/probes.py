"""Probes between two polls: of one job each, where a poll is worth its cost only after a change.

Definitions
    first pass     a TE job waits that Slurm has not considered yet, which it may do any moment.
    end of a run   a victim had its notice, and may end of it. Its state is an end then until it is put back in the
                   queue, and who waits for it (`sbatch --wait`) goes by that: that moment is to be short.

Principle
    A TE job is probed every `SOON_S`. A victim is as soon as that at first, and then less and less often: when it
    has had its notice for t seconds, t * `PAUSE` seconds apart, so its end is seen within a tenth of the time that it
    took. Probes are bounded, those of victims by themselves: they keep no TE job from being seen.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from tesched_core.model.memory import Memory
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.ports import Watcher

from tesched_daemon.rates import Allowance, Bucket

#: Seconds until the next probe, or poll, while a TE job waits that Slurm has not considered.
SOON_S = 0.05
#: Part of the time since a victim's notice that lies between two probes of it.
PAUSE = 0.1
#: Number of the victims that are probed: those that had their notice last.
MOST_VICTIMS = 5
#: Probes of TE jobs: those at four new jobs at once, and 300 a minute in the long run, whatever users submit.
PROBES = Allowance(burst=400, every_s=0.2)
#: Probes of victims: those at five until their tenth second, and 60 a minute in the long run.
VICTIM_PROBES = Allowance(burst=200, every_s=1.0)


@dataclass(kw_only=True)
class Probes:
    """Jobs to probe until the next poll. All times but a notice's are by a stopwatch, in seconds."""

    _until: float = 0.0
    #: when to probe which job, soonest first, and since when it had its notice; None: Slurm has yet to consider it
    _due: list[tuple[float, JobId, float | None]] = field(default_factory=list)
    _bucket: Bucket = field(default_factory=lambda: Bucket(allowance=PROBES))
    _victims: Bucket = field(default_factory=lambda: Bucket(allowance=VICTIM_PROBES))

    def forget(self) -> None:
        """Forget the jobs: a poll is next."""
        self._due = []

    def plan(
        self,
        new_te: JobId | None,
        notices: Mapping[JobId, UnixSeconds],
        *,
        clock: UnixSeconds,
        now: float,
        to: float,
    ) -> float:
        """Take the jobs to probe before `to`, and return the seconds until the first probe, or until `to`.

        `notices` are of the victims that may end any moment: when each was given, by the `clock`.
        """
        self._due, self._until = [], to
        if new_te is not None:
            self._add(new_te, None, now)
        latest = sorted(notices.items(), key=lambda one: (-one[1], one[0]))
        for job_id, noticed_at in latest[:MOST_VICTIMS]:
            self._add(job_id, now - max(clock - noticed_at, 0.0), now)
        return self._next_in_s(now)

    def probe(self, watcher: Watcher, now: float) -> float | None:
        """Probe a job if one is due, and return the seconds until the next time; None: a poll is due."""
        if not self._due or now >= self._until:
            return None
        due_at, job_id, since = self._due[0]
        if due_at > now:
            return due_at - now
        heapq.heappop(self._due)
        if not (self._bucket if since is None else self._victims).take(now):
            return self._next_in_s(now)  # until the next poll it is probed no more
        if watcher.looked_at(job_id) if since is None else watcher.has_ended(job_id):
            return None
        self._add(job_id, since, now)
        return self._next_in_s(now)

    def _next_in_s(self, now: float) -> float:
        return max((self._due[0][0] if self._due else self._until) - now, 0.0)

    def _add(self, job_id: JobId, since: float | None, now: float) -> None:
        pause_s = SOON_S if since is None else max(SOON_S, (now - since) * PAUSE)
        if now + pause_s < self._until:
            heapq.heappush(self._due, (now + pause_s, job_id, since))


def notices_of(memory: Memory) -> dict[JobId, UnixSeconds]:
    """Return the victims that had their notice and go on running, as far as was seen, and when they had it."""
    return {
        victim.job_id: victim.noticed_at
        for order in memory.open_orders()
        for victim in order.victims
        if victim.state is VictimState.NOTICED and victim.noticed_at is not None and victim.ending_since is None
    }
