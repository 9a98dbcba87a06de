"""Early turn: a new TE job is served before a poll that takes long.

Definitions
    new jobs       those with the ids after the highest one that a poll has shown. They are read one by one.
    those before   the TE jobs that waited at the last poll: at rest none of them for resources, but for a release, a
                   dependency, a begin time or a limit. By now one may wait for resources, and was there first.
    uncertain      jobs on a node that, by its own record as it is now, holds more or less than the jobs that are known
                   there: one has started, ended or changed since the last poll.

Principle
    With 100,000 jobs a poll takes seconds, and one at rest becomes three. What a decision for a new TE job rests on is
    little of that: the job, the nodes, and the victims. So where polls take longer than `FROM_S`, and the cluster is at
    rest (`rest.py`), a poke reads the new jobs first, and where a TE job is among them, those before and the nodes.
    `step` decides on the last poll with these, without the uncertain jobs; what those held is free or not by their
    nodes' records. So TE jobs are served in their order, as a poll would. Each job that the decision is about is then
    read again, and nothing is done if one is not as it was decided on. A poll follows each early turn.

    The waits of other jobs are left to the polls; so are guard.bound and guard.te, for which all jobs count. How much
    ends (guard.wait_for_free_s) is judged by the time before the last poll (`orders/turnover.py`), where that began at
    most `FRESH_S` ago; else there is no early turn. An early turn begins no read once it has taken as long as a poll.
    After one of which the reads take so long, or those before would take more than half of the time, or before which
    more than `MOST_NEW` jobs have come, there is none until the next poll; nor is there any while more than
    `MOST_BEFORE` TE jobs wait. How many come is bounded (`wakeup.py`), and one of many reads counts as several.

Worked example
    A poll takes 5 s. Job 4711 comes 1 s after one: it, 4712 and 4713 (there are none) are read, and the nodes, in
    0.2 s. Its victim is job 99 on n7. By n7's record 32 of its CPUs are in use, as many as job 99 has by the last poll.
    Jobs 99 and 4711 are read again, are as they were, and job 99 has its notice. Had n7 had 16 CPUs in use, job 99
    would have been no victim.

Source
    tesched's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType

from tesched_core.intake.classify import classify
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Decision
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId, Tres, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.clock_jump import ClockReadings, jumped_s
from tesched_core.ports import SingleReads

from tesched_daemon.early_fit import FRESH_S, hindrances, said
from tesched_daemon.rest import all_is_due, waiting_te
from tesched_daemon.set_aside import blank
from tesched_daemon.settings import Mode, Rules

#: Seconds that polls take where early turns are worth their reads.
FROM_S = 2.0
#: Seconds by which the next poll may begin later than was announced: a standby takes the lead 10 s after that.
LATER_S = 3.0
#: New jobs that are read; where there are more, the poll reads them all.
MOST_NEW = 10
#: TE jobs that wait for another reason and are read before any new one is served; where there are more, the poll is.
MOST_BEFORE = 100
#: Part of the time left in which those must be read: the nodes, the decision and the reads again come after them.
PART = 0.5
#: Jobs that are read, two calls to Slurm each, in what counts as one early turn.
READS = 70
#: Ids in a row that Slurm does not know, behind which no job is searched for: a submission that failed may use one up.
GAPS = 2

_UNCERTAIN = "the record of its node differs from the jobs that are known there"
_LATE = Failure(kind=FailureKind.UNREACHABLE, message="an early turn would take as long as a poll")


@dataclass(kw_only=True)
class EarlyTurns:
    """What early turns read, and what they know of the polls."""

    #: None: there are none
    reads: SingleReads | None = None
    stopwatch: Callable[[], float]
    #: a whole poll counts as taking so many seconds at least
    least_poll_s: float = 0.0
    #: how long the last whole poll took, and the last one, seconds
    _poll_s: float = field(default=0.0, init=False)
    _took_s: float = field(default=0.0, init=False)
    #: the highest id of a job that a poll has shown; once Slurm's ids begin anew, new jobs wait for the poll
    _highest: int = field(default=0, init=False)
    #: too many new jobs have come since the last poll
    _too_many: bool = field(default=False, init=False)
    #: a poll has failed since the last one
    _in_trouble: bool = field(default=False, init=False)
    #: the reads since the last poll take too long
    _too_slow: bool = field(default=False, init=False)
    #: how many jobs the early turn under way, or the last one, has read, and how long that took, seconds
    _count: int = field(default=0, init=False)
    _reading_s: float = field(default=0.0, init=False)
    #: by the stopwatch, when the early turn under way must have read all
    _until: float = field(default=0.0, init=False)

    def polled(self, seen: Snapshot, took_s: float, *, whole: bool) -> None:
        """Take in a poll, how long it took, and whether all was read."""
        self._took_s, self._too_many, self._too_slow, self._in_trouble = took_s, False, False, False
        self._poll_s = max(took_s, self.least_poll_s) if whole else self._poll_s
        if self.reads is not None:
            self._highest = max(self._highest, max(seen.jobs, default=0))

    def next_in_s(self, announced_in_s: float) -> float:
        """Return the seconds until the next poll, which was announced: that much later if it can't begin sooner."""
        return max(announced_in_s, self._took_s)

    def troubled(self) -> None:
        """Take in that a poll failed, or was not believed."""
        self._in_trouble = True

    def are_worth_it(self, rules: Rules) -> bool:
        """Check whether the site wants them, and polls take so long that an early turn is sooner done."""
        return (
            self.reads is not None
            and rules.pace.early_turn
            # They hold for all that wait or run, and these are not read.
            and not (rules.limits.bound.is_set or rules.limits.te.is_set)
            and self._poll_s > FROM_S
            and not (self._too_many or self._too_slow)
        )

    def hindered(self, rules: Rules, seen: Snapshot | None) -> str:
        """Reason that there are none by the settings, though polls take so long; empty: there are, or need not be.

        `seen` is the last poll's snapshot; None: Slurm could not be seen.
        """
        if self._poll_s <= FROM_S:
            return ""
        found = hindrances(
            mode=rules.mode,
            limits=rules.limits,
            policies=rules.policies,
            pace=rules.pace,
            reads_jobs=self.reads is not None,
            is_limited=seen is not None and seen.settings.rate_limit is not None,
        )
        return said([*found])

    def may_come(
        self, rules: Rules, memory: Memory, last: Snapshot, before: ClockReadings | None, now: ClockReadings
    ) -> bool:
        """Check whether the cluster is at rest since the `last` poll, and nothing but a new TE job is at stake.

        The memory was written `before`.
        """
        return (
            self.are_worth_it(rules)
            and not self._in_trouble
            and not jumped_s(before, now)
            and rules.mode is not Mode.OBSERVE
            and last.settings.rate_limit is None
            and self._may_judge(last, rules.limits, now.wall)
            and not all_is_due(memory, last, rules.policies, rules.limits, rules.mode)
        )

    @staticmethod
    def _may_judge(last: Snapshot, limits: Limits, now: UnixSeconds) -> bool:
        """Check whether the last poll is fresh enough for all that a decision goes by."""
        jobs_at = _jobs_at(last)
        return now >= jobs_at and (limits.wait_for_free_s <= 0 or now - jobs_at <= FRESH_S)

    def begin(self) -> None:
        """Begin an early turn, which has read nothing so far."""
        self._count, self._reading_s = 0, 0.0

    @property
    def counts_as(self) -> int:
        """Return as how many early turns the last one counts, by what it has read."""
        return max(1, ceil(self._count / READS))

    def _is_late(self) -> bool:
        """Check whether the early turn under way has taken as long as a poll."""
        late = self.stopwatch() >= self._until
        self._too_slow |= late
        return late

    @property
    def left_s(self) -> float:
        """Return the seconds that the early turn under way has left for a read."""
        return max(self._until - self.stopwatch(), 0.01)

    def seen(self, rules: Rules, last: Snapshot, now: UnixSeconds, next_at: float) -> Snapshot | None:
        """Return the last poll, unclassified, with the new jobs, the TE jobs that wait and the nodes as they are `now`.

        The next poll was announced for `next_at`, by the stopwatch: it begins at most `LATER_S` later.

        None where no new TE job waits, where too many jobs have come or wait, and where they cannot be read in time.
        """
        waiting = [job.job_id for job in waiting_te(last)]
        if len(waiting) > MOST_BEFORE:
            return None
        began = self.stopwatch()
        self._until = min(began + self._poll_s, max(next_at, began) + LATER_S)
        new = self._new_jobs()
        if not any(job.pending and classify(job, rules.classes).job_class is JobClass.TE for job in new.values()):
            return None
        if self._is_in_vain(len(waiting), self.left_s * PART):
            return None
        before = self._read(waiting)
        if isinstance(before, Failure) or not before.keys() >= set(waiting) or self.reads is None:
            return None
        jobs = MappingProxyType({**last.jobs, **new, **before})
        stood = replace(last, taken_at=now, jobs_at=_jobs_at(last), jobs=jobs, columns=None, controller_changed=False)
        seen = self.reads.site(stood, self.left_s)
        if isinstance(seen, Failure) or seen.settings.rate_limit is not None or self._is_late():
            return None
        return seen

    def _new_jobs(self) -> Mapping[JobId, Job]:
        """Return the new jobs; none where there are too many, or one cannot be read."""
        found: dict[JobId, Job] = {}
        highest = self._highest
        while True:
            ids = [JobId(highest + step) for step in range(1, GAPS + 2)]
            highest = ids[-1]
            # The tasks of an array have come with it.
            read = self._read([job_id for job_id in ids if job_id not in found])
            if isinstance(read, Failure):
                return {}
            found |= read
            if len({job.array_job_id or job.job_id for job in found.values()}) > MOST_NEW or self._count > READS:
                self._too_many = True
                return {}
            if found.keys().isdisjoint(ids[-GAPS:]):
                return found

    def are_as_decided(self, job_ids: Collection[JobId], snapshot: Snapshot) -> bool:
        """Read these jobs again, and check whether each is as it is in the snapshot."""
        if self._is_in_vain(len(job_ids), self._until - self.stopwatch()):
            return False
        read = self._read(sorted(job_ids))
        return not isinstance(read, Failure) and all(
            (job := read.get(job_id)) is not None
            and (decided_on := snapshot.jobs.get(job_id)) is not None
            and _lasting(job) == _lasting(decided_on)
            for job_id in job_ids
        )

    def _is_in_vain(self, count: int, within_s: float) -> bool:
        """Check whether so many reads would take longer, as long as those before took; then so would another try."""
        in_vain = count * self._reading_s / max(self._count, 1) > within_s
        self._too_slow |= in_vain
        return in_vain

    def _read(self, job_ids: Sequence[JobId]) -> Mapping[JobId, Job] | Failure:
        if not job_ids:
            return {}
        if self.reads is None or self._is_late():
            return _LATE
        began = self.stopwatch()
        read = self.reads.records(job_ids, self.left_s)
        self._count += len(job_ids)
        self._reading_s += self.stopwatch() - began
        return _LATE if self._is_late() else read


def _jobs_at(last: Snapshot) -> UnixSeconds:
    """Return since when jobs may have started or ended unseen."""
    return last.taken_at if last.jobs_at is None else last.jobs_at


def _lasting(job: Job) -> Job:
    """Return the job without what a poll at rest may leave out."""
    return replace(job, allocation=tuple(replace(share, cpu_ids="") for share in job.allocation))


def without_uncertain(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with each job blank that is on a node whose record does not add up with the jobs there."""
    parts: dict[str, list[Tres]] = {}
    holders = [job for job in snapshot.jobs.values() if job.allocation]
    for job in holders:
        for share in job.allocation:
            parts.setdefault(share.node, []).append(share.tres)
    off = {name for name, node in snapshot.nodes.items() if not _adds_up(node.held, parts.get(name, ()))}
    aside = {
        job.job_id: _UNCERTAIN
        for job in holders
        if any(share.node in off or share.node not in snapshot.nodes for share in job.allocation)
    }
    return blank(snapshot, aside) if aside else snapshot


def _adds_up(held: Tres | None, parts: Sequence[Tres]) -> bool:
    """Check whether these are what is held, without a sum of each two: there may be tens of thousands."""
    if held is None or (held.cpus, held.mem_mib) != (sum(p.cpus for p in parts), sum(p.mem_mib for p in parts)):
        return False
    gres: dict[str, int] = {}
    for one in parts:
        for name, count in one.gres:
            gres[name] = gres.get(name, 0) + count
    return tuple(sorted(gres.items())) == held.gres


def named(memory: Memory, decision: Decision) -> set[JobId]:
    """Return the jobs that the decision is about, where it serves TE jobs and does nothing else; else none."""
    if any(action.reason.order_id is None for action in decision.actions):
        return set()
    ids = {action.job_id for action in decision.actions}
    if not ids:
        return set()
    for order in memory.open_orders():
        ids |= {order.preemptor, *(victim.job_id for victim in order.victims)}
    return ids
