"""Waiting and running times of a job over all its restarts, and slowdown, bounded slowdown and JCT from them.

A job waits from its submission to its end whenever it does not run: before its first start, between a preemption and
the restart, and while it is suspended. So, for a job that has ended, JCT = waiting + running.

Worked example: submitted at 0, started at 100, requeued at 160, started again at 200, ended at 300. It ran 60 + 100 s
and waited 100 + 40 s: slowdown 1 + 140/160 = 1.875, bounded slowdown the same, JCT 300 s. Had the first 60 s been on
4 nodes, the requeue would have lost 240 node-seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from tesched_core.model.cluster import FINISHED, Job, JobState
from tesched_core.model.order import PREEMPTED, Victim
from tesched_core.model.resources import UnixSeconds

#: Run times below this count as this in the bounded slowdown, seconds (Feitelson et al., JSSPP 1997).
BOUND_S = 10.0


def most_run_s(job: Job) -> float:
    """Return a job's time limit, seconds; without one it may run for ever."""
    return inf if job.time_limit_s is None else job.time_limit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """One poll at which a job's state, run or nodes were other than at the poll before."""

    at: UnixSeconds
    state: JobState
    restarts: int
    #: its processes are being ended
    completing: bool = False
    #: of the present run; each requeue resets it
    submit_time: UnixSeconds = 0.0
    #: start of the present run, or of the last
    start_time: UnixSeconds | None = None
    #: end of a finished job
    end_time: UnixSeconds | None = None
    nodes: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A stretch of time in which the job ran. A suspension ends one, and the resumption starts another."""

    restarts: int
    start: UnixSeconds
    #: None while it runs; of a job that Slurm forgot meanwhile, when it was last seen
    end: UnixSeconds | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspensions:
    """Time for which the present run, or the last, was suspended."""

    #: seconds, without the suspension that goes on
    past_s: float = 0.0
    #: since when it is suspended; None: it is not
    since: UnixSeconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times of one job, up to its end or to now."""

    submitted_at: UnixSeconds
    #: None for a job that has not ended
    ended_at: UnixSeconds | None
    waited_s: float
    ran_s: float
    #: it was seen before any restart, so nothing is missing from the two above
    whole: bool

    @property
    def slowdown(self) -> float | None:
        """Return 1 + waiting / running; None for a job that never ran."""
        return slowdown(self.waited_s, self.ran_s)

    @property
    def bounded_slowdown(self) -> float:
        """Return the bounded slowdown."""
        return bounded_slowdown(self.waited_s, self.ran_s)

    @property
    def jct_s(self) -> float | None:
        """Return the job completion time: end - first submission, seconds; None for a job that has not ended."""
        return None if self.ended_at is None else self.ended_at - self.submitted_at


def slowdown(waited_s: float, ran_s: float) -> float | None:
    """Return 1 + waiting / running (FitGpp, section 2); None where nothing ran. Both in seconds."""
    return 1 + waited_s / ran_s if ran_s > 0 else None


def bounded_slowdown(waited_s: float, ran_s: float) -> float:
    """Return max(1, (waiting + running) / max(running, 10 s)) (Feitelson et al., JSSPP 1997). Both in seconds."""
    return max(1.0, (waited_s + ran_s) / max(ran_s, BOUND_S))


def lost_node_s(victim: Victim) -> float:
    """Return the node-seconds of the victim's run that its requeue threw away, as if nothing of it had been saved.

    0 for a victim that has not left, and for one that finished or was cancelled: tesched did not end it.
    """
    if victim.left_at is None or victim.departure not in PREEMPTED:
        return 0.0
    return len(victim.nodes) * max(victim.left_at - victim.started_at, 0.0)


def runs(changes: Iterable[StateChange]) -> tuple[Run, ...]:
    """Return the job's runs, oldest first, given its changes in their order.

    Slurm's own times are taken where it gives them; else the time of the poll. A run that began and ended between two
    polls is known only if the job ended with it.
    """
    found: list[Run] = []
    #: when the open run was put in the queue
    queued_at = 0.0
    for change in changes:
        open_run = found[-1] if found and found[-1].end is None else None
        running = change.state is JobState.RUNNING and not change.completing
        if open_run and not (running and change.restarts == open_run.restarts):
            found[-1] = replace(open_run, end=_end(open_run, change, queued_at))
            open_run = None
        if running and open_run is None:
            resumed = bool(found) and found[-1].restarts == change.restarts
            start = change.at if resumed or change.start_time is None else change.start_time
            found.append(Run(restarts=change.restarts, start=_after_last(found, start), nodes=change.nodes))
            queued_at = change.submit_time
        elif _unseen_run(change, found):
            start = _after_last(found, change.start_time or 0.0)
            end = max(change.end_time or start, start)
            found.append(Run(restarts=change.restarts, start=start, end=end, nodes=change.nodes))
    return tuple(found)


def seen_until(found: Sequence[Run], last_seen: UnixSeconds | None) -> tuple[Run, ...]:
    """Runs of a job, of which the one that has no end lasts until Slurm forgot the job; None: it knows it."""
    if last_seen is None or not found or found[-1].end is not None:
        return tuple(found)
    return (*found[:-1], replace(found[-1], end=max(last_seen, found[-1].start)))


def suspensions(changes: Iterable[StateChange]) -> Suspensions:
    """How long the run of the last change was suspended, given the changes in their order."""
    past_s, since, restarts = 0.0, None, None
    for change in changes:
        if change.restarts != restarts:
            past_s, since, restarts = 0.0, None, change.restarts
        if change.state is JobState.SUSPENDED:
            since = change.at if since is None else since
        elif since is not None:
            until = change.end_time if change.state in FINISHED and change.end_time is not None else change.at
            past_s, since = past_s + max(until - since, 0.0), None
    return Suspensions(past_s=past_s, since=since)


def last_run_s(changes: Sequence[StateChange]) -> float:
    """Seconds that a finished job ran since it last started; while it was suspended it did not run."""
    last = changes[-1].restarts
    return sum(run.end - run.start for run in runs(changes) if run.restarts == last and run.end is not None)


def times(changes: Iterable[StateChange], *, now: UnixSeconds) -> Times:
    """Times of the job, given its changes in their order (at least one)."""
    changes = tuple(changes)
    first, last = changes[0], changes[-1]
    ended_at = None
    if last.state in FINISHED:
        ended_at = last.end_time if last.end_time is not None else last.at
    until = now if ended_at is None else ended_at
    ran_s = sum((until if run.end is None else run.end) - run.start for run in runs(changes))
    ran_s = max(ran_s, 0.0)
    return Times(
        submitted_at=first.submit_time,
        ended_at=ended_at,
        waited_s=max(until - first.submit_time - ran_s, 0.0),
        ran_s=ran_s,
        whole=first.restarts == 0,
    )


def _end(run: Run, change: StateChange, queued_at: UnixSeconds) -> UnixSeconds:
    """End of the run that `change` shows to be over; it was put in the queue at `queued_at`."""
    said = None
    if change.restarts > run.restarts and change.submit_time > queued_at:
        # Slurm resets it when it puts the job back in the queue: after it has counted the restart, once all its nodes
        # are free. Until then it is the old one, which says nothing of the end.
        said = change.submit_time
    elif change.state in FINISHED:
        said = change.end_time
    return said if said is not None and run.start <= said <= change.at else max(change.at, run.start)


def _after_last(found: list[Run], start: UnixSeconds) -> UnixSeconds:
    """Return `start`, or the last run's end if that is later: two runs of one job do not overlap."""
    return max(start, found[-1].end) if found and found[-1].end is not None else start


def _unseen_run(change: StateChange, found: list[Run]) -> bool:
    """Check whether the job has ended with a run that no poll fell into."""
    known = found[-1].restarts if found else -1
    return (
        change.state in FINISHED
        and change.start_time is not None
        and change.end_time is not None
        and change.restarts > known
    )
