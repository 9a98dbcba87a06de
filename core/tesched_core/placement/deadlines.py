"""Deadlines: until when TE jobs may delay each BE job, so that none is delayed by more than `guard.bound` allows.

Definitions
    D           by how much other users' TE jobs have delayed a BE job so far, seconds (`intake/delays.py`)
    R           its run time: the longest that is known, of its runs so far and of what it is expected to run at least
                (its owner's word, else the low quantile of what was learned)
    limit       a TE job's time limit; Slurm ends it within 30 s and KillWait after that
    T           guard.bound.te_time_limit_s, and what one preemption costs by itself: grace period, KillWait, Slurm's
                requeue delay, the end of a TE job at its limit (30 s and KillWait), guard.min_run_time_s of lost run
                time, three polls
    bound       max((B - 1) R, T), with B = guard.bound.slowdown
    deadline    now + bound - D

Principle
    D grows by at most one second a second, and by the lost run time of a preemption at once. So no job is delayed by
    more than its bound if each TE job ends, by its time limit, before the deadline of every BE job that it may keep
    waiting, and if a victim has enough left for its lost run, its notice, the TE job and its way back.

    A TE job may keep a pending BE job waiting if both may run on one node, and if the BE job awaits nothing but nodes
    that are up: what a victim waits for besides (a hold of its user's, a limit, a dependency) is no part of D.
    Only jobs that have been delayed already can be in its way: the bound of any other is long enough for one TE job.

Worked example
    B = 3, a job of 100 s, T = 150 s: it may be delayed by 200 s. It was, by 120 s, and is back in the queue. A TE job
    of 60 s may start, if it does within 20 s; after that the BE job runs first. Before it becomes a victim again it
    must not have run for longer than 80 s less 60 s and what a preemption costs.

Source
    tesched's own; docs/reference/delays.md.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from tesched_core.intake.bounds import bound_s, delays_of, known_run_s
from tesched_core.intake.job_times import most_run_s
from tesched_core.intake.pending_reason import begins_within, shows_no_other_hold, starts_by_itself
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.columns import Running
from tesched_core.model.decision import MOST_LEFT, Admission, BoundNow, LeftOfBound, Refusal, RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, Purpose, VictimState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.places import PlacesOfCycle, StartPlaces

#: Seconds after which slurmctld checks time limits again (22.05: PERIODIC_TIMEOUT).
TIME_LIMITS_EACH_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """How long one BE job may yet be delayed."""

    job: Job
    #: D, and the bound, seconds
    delayed_s: float
    bound_s: float
    #: Unix seconds
    at: UnixSeconds


@dataclass(kw_only=True, eq=False)
class Deadlines:
    """Deadlines of one cycle."""

    memory: Memory
    snapshot: Snapshot
    #: B, and the longest time limit of a TE job, seconds
    slowdown: float
    te_time_limit_s: float
    min_run_time_s: float
    capacity: Capacity
    #: the longest time between two polls, seconds
    poll_s: float
    #: BE jobs that TE jobs have delayed already, and by how much, seconds
    delayed: Mapping[JobId, float] = field(init=False)
    #: victims that have left and are yet to run again
    away: frozenset[JobId] = field(init=False)
    #: those whose begin times tesched has set
    put_off: frozenset[JobId] = field(init=False)
    #: those that tesched holds
    held: frozenset[JobId] = field(init=False)
    #: delayed jobs that wait for resources, the earliest deadline first
    waiting: tuple[Deadline, ...] = field(init=False)
    #: of those the ones for which a TE job has had to wait in this cycle
    due: dict[JobId, Deadline] = field(init=False, default_factory=dict)
    _of: dict[JobId, Deadline] = field(init=False, default_factory=dict)
    #: where jobs may start
    places: PlacesOfCycle = field(init=False)
    _places_of_job: dict[JobId, StartPlaces] = field(init=False, default_factory=dict)

    @staticmethod
    def of(memory: Memory, snapshot: Snapshot, limits: Limits, capacity: Capacity, poll_s: float) -> Deadlines | None:
        """Return the deadlines by these limits; None: they bound nothing."""
        bound = limits.bound
        if not bound.is_set:
            return None
        return Deadlines(
            memory=memory,
            snapshot=snapshot,
            slowdown=bound.slowdown,
            te_time_limit_s=bound.te_time_limit_s,
            min_run_time_s=limits.min_run_time_s,
            capacity=capacity,
            poll_s=poll_s,
        )

    def __post_init__(self) -> None:
        """Work out what has been delayed."""
        self.places = PlacesOfCycle(snapshot=self.snapshot, capacity=self.capacity)
        self.delayed = delays_of(self.memory, self.snapshot.taken_at)
        victims = [victim for order in self.memory.open_orders() for victim in order.victims]
        self.away = frozenset(one.job_id for one in victims if one.awaited)
        self.put_off = frozenset(self.memory.changes_of(Field.BEGIN))
        holds = self.memory.changes_of(Field.HOLD).items()
        self.held = frozenset(job_id for job_id, one in holds if one.by is None and not one.restored)
        suspended = {one.job_id for one in victims if one.state is VictimState.SUSPENDED}
        jobs = (self.snapshot.jobs.get(job_id) for job_id in self.delayed)
        found = [self.deadline(job) for job in jobs if job is not None and self._waits(job, suspended)]
        self.waiting = tuple(sorted(found, key=lambda one: (one.at, one.job.job_id)))
        for victim in victims:
            job = self.snapshot.jobs.get(victim.job_id)
            if job is not None and job.on_nodes and victim.state in HOLDS_RESOURCES and victim.purpose is Purpose.TE:
                self.will_wait(job, of_own_user=victim.of_own_user)

    def will_wait(self, job: Job, *, of_own_user: bool) -> None:
        """Take a victim that holds its nodes yet for one that waits: TE jobs that start by then may be in its way."""
        delayed_s, bound_s = self.delayed.get(job.job_id, 0.0), self.bound_s(job)
        delayed_s += 0.0 if of_own_user else self._lost_s(job)
        one = Deadline(job=job, delayed_s=delayed_s, bound_s=bound_s, at=self.now + bound_s - delayed_s)
        self.waiting = tuple(sorted([*self.waiting, one], key=lambda one: (one.at, one.job.job_id)))

    def deadline(self, job: Job) -> Deadline:
        """Return until when TE jobs may delay a BE job, and by how much they have."""
        known = self._of.get(job.job_id)
        if known is None:
            delayed_s, bound_s = self.delayed.get(job.job_id, 0.0), self.bound_s(job)
            known = Deadline(job=job, delayed_s=delayed_s, bound_s=bound_s, at=self.now + bound_s - delayed_s)
            self._of[job.job_id] = known
        return known

    def bound_s(self, job: Job) -> float:
        """Return by how much TE jobs may delay a BE job in all, seconds."""
        return bound_s(
            slowdown=self.slowdown,
            te_time_limit_s=self.te_time_limit_s,
            costs_s=self._least_costs_s(job.job_id),
            run_s=self._run_s(job),
        )

    def why_te_waits(
        self, te: Job, *, after_s: float = 0.0, on: tuple[str, ...] = (), counts: bool = True
    ) -> Refusal | None:
        """Reason that a TE job must not start, within two polls and `after_s` seconds; None: it may.

        Bound to nodes by tesched it may be set free in this cycle, unless it is to start `on` some. The BE job that it
        waits for is `due` if that `counts`.
        """
        if self.memory.is_bound(te.job_id):
            own = self.memory.own_request(te)
            te = replace(te, request=replace(own, required_nodes=on) if on else own)
        ends = self.now + after_s + 2 * self.poll_s + most_run_s(te) + self._ends_within_s
        mine: StartPlaces | None = None
        for one in self.waiting:
            if one.at >= ends:
                return None
            if one.job.user == te.user:
                continue
            if mine is None:
                mine = self.places.of(te)
            if self.places.may_meet(mine, self._places_by_job(one.job)):
                if counts:
                    self.due.setdefault(one.job.job_id, one)
                return Refusal(
                    job_id=te.job_id,
                    preemptor=te.job_id,
                    code=RefusalCode.BOUND,
                    text=_in_words(one, te),
                    behind=one.job.label,
                )
        return None

    def why_no_victims(self, te: Job, victims: Sequence[Job], on: tuple[str, ...]) -> Refusal | None:
        """Reason that these must not leave for a TE job, as it starts `on` their nodes after the last; None: they may.

        Each of them alone may be its victim.
        """
        grace_s = max(self._grace_s(victim.job_id) for victim in victims)
        refusal = self.why_te_waits(te, after_s=grace_s + self.snapshot.settings.kill_wait_s, on=on)
        if refusal is not None:
            return refusal
        for victim in victims:
            longer_s = grace_s - self._grace_s(victim.job_id)
            if victim.user != te.user and self._most_te_s(victim) - longer_s < most_run_s(te):
                text = f"job {victim.label} would be away too long, as another victim takes {grace_s:.0f} s to leave"
                return Refusal(job_id=te.job_id, preemptor=te.job_id, code=RefusalCode.BOUND, text=text)
        return None

    def most_te_s(self, running: Running) -> NDArray[np.float64]:
        """Return [running] the longest time limit of a TE job for which each may be a victim now; below 0: of none."""
        most = np.full(len(running), inf)
        for row, job_id in enumerate(running.job_id.tolist()):
            most[row] = self._most_te_s(self.snapshot.jobs[JobId(job_id)])
        return most

    def victim_until(self, job: Job) -> UnixSeconds | None:
        """Return until when a job that may be a victim now, of any TE job, may be one; None: as long as it runs."""
        spare_s = self._most_te_s(job) - self.te_time_limit_s
        start, growth = self._started(job), self.slowdown - 1
        by_run_s = growth * max(self.now - start, 0.0)
        if by_run_s < self.bound_s(job):
            return self.now + spare_s
        if growth >= 1:
            return None  # each second that it runs for lets it be delayed by one more at least
        # By whole minutes: marks that change at each poll would be written at each.
        return (self.now + spare_s) // 60 * 60

    def admission(self) -> Admission:
        """Return until when TE jobs may start by themselves."""
        most_s = self.te_time_limit_s
        # One that was not delayed yet has at least so much left, beside the TE job.
        until = self.now + self._least_costs_s(None) - 2 * self.poll_s
        if self.waiting:
            until = min(until, self.waiting[0].at - most_s - self._ends_within_s - 2 * self.poll_s)
        return Admission(until=until, most_s=most_s)

    def is_near(self, job_id: JobId) -> bool:
        """Check whether one more TE job of the longest time limit might delay a pending BE job beyond its bound."""
        job = self.snapshot.jobs.get(job_id)
        last = self.now + self.te_time_limit_s + self._ends_within_s + 2 * self.poll_s
        return job is not None and job.pending and job_id in self.delayed and self.deadline(job).at < last

    def summary(self, te_waiting: int) -> BoundNow:
        """Summarise what is left of the bounds; so many TE jobs wait for them."""
        found: list[tuple[float, str, bool, Deadline]] = []
        for job_id in self.delayed:
            job = self.snapshot.jobs.get(job_id)
            if job is None or job.finished or self.snapshot.job_class(job_id) is not JobClass.BE:
                continue
            one = self.deadline(job)
            near = self.is_near(job_id) if job.pending else self._most_te_s(job) < self.te_time_limit_s
            found.append((one.bound_s - one.delayed_s, job.label, near, one))
        found.sort(key=itemgetter(0, 1))
        return BoundNow(
            slowdown=self.slowdown,
            te_time_limit_s=self.te_time_limit_s,
            costs_s=self._least_costs_s(None),
            te_waiting=te_waiting,
            near=sum(near for _, _, near, _ in found),
            jobs=tuple(
                LeftOfBound(job=label, user=one.job.user, delayed_s=one.delayed_s, bound_s=one.bound_s, near=near)
                for _, label, near, one in found[:MOST_LEFT]
            ),
        )

    @property
    def _ends_within_s(self) -> float:
        return TIME_LIMITS_EACH_S + self.snapshot.settings.kill_wait_s

    @property
    def now(self) -> UnixSeconds:
        """Return the snapshot's time."""
        return self.snapshot.taken_at

    def _most_te_s(self, job: Job) -> float:
        left_s = self.bound_s(job) - self.delayed.get(job.job_id, 0.0)
        return left_s - self._lost_s(job) - self._costs_s(job.job_id) - 2 * self.poll_s

    def _lost_s(self, job: Job) -> float:
        """Return the run time that a running job would lose now."""
        reported = self.snapshot.reported.get(job.job_id)
        saved_at = reported.saved_at if reported is not None and reported.saved_at is not None else -inf
        return max(self.now - max(self._started(job), saved_at), 0.0)

    def _started(self, job: Job) -> UnixSeconds:
        return self.now if job.start_time is None else job.start_time  # a simulated cluster begins at 0

    def _run_s(self, job: Job) -> float:
        expected, past = self.snapshot.expected_run(job.job_id), self.memory.job(job.job_id).past
        runs = job.state is JobState.RUNNING and not job.completing  # what it does after its notice is no run time
        ran_s = self.now - job.start_time if runs and job.start_time is not None else 0.0
        return known_run_s(runs_for_s=ran_s, past=past, expected_s=expected.low_s if expected else 0.0)

    def _costs_s(self, job_id: JobId | None) -> float:
        """Cost of a preemption beside the TE job's limit and the lost run time, polls apart, seconds."""
        settings = self.snapshot.settings
        return self._grace_s(job_id) + settings.kill_wait_s + settings.requeue_delay_s + self._ends_within_s

    def _grace_s(self, job_id: JobId | None) -> float:
        traits = self.snapshot.traits.get(job_id) if job_id is not None else None
        return traits.grace_period_s if traits is not None else 0.0

    def _least_costs_s(self, job_id: JobId | None) -> float:
        """Least delay of any job beside one TE job: by one preemption, as soon as it may be a victim."""
        return self._costs_s(job_id) + self.min_run_time_s + 3 * self.poll_s

    def _waits(self, job: Job, suspended: Container[JobId]) -> bool:
        if self.snapshot.job_class(job.job_id) is not JobClass.BE:
            return False
        if job.job_id in suspended and job.state is JobState.SUSPENDED:
            return True
        delay_s = self.snapshot.settings.requeue_delay_s if job.job_id in self.away else 0.0
        if job.job_id in self.put_off:
            delay_s = inf  # it may be lifted in this cycle
        # One that is held for its turn may be released in this cycle.
        in_turn = job.job_id in self.held and shows_no_other_hold(job) and begins_within(job, self.now, delay_s)
        starts = in_turn or starts_by_itself(job, self.now, delay_s)
        return job.pending and starts and self.places.of(job).can_start

    def _places_by_job(self, job: Job) -> StartPlaces:
        """Places where a BE job may start: each TE job is held against it."""
        known = self._places_of_job.get(job.job_id)
        if known is None:
            known = self._places_of_job[job.job_id] = self.places.of(job)
        return known


def _in_words(one: Deadline, te: Job) -> str:
    left_s = max(one.bound_s - one.delayed_s, 0.0)
    limit = "no time limit" if te.time_limit_s is None else f"a time limit of {te.time_limit_s:.0f} s"
    return (
        f"job {one.job.label} of {one.job.user} comes first: TE jobs have delayed it by {one.delayed_s:.0f} s of at "
        f"most {one.bound_s:.0f} s (guard.bound); {left_s:.0f} s are left, and this job has {limit}"
    )
