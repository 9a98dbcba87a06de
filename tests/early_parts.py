"""A site whose polls take seconds, and single reads of it, for tests of early turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tesched_core.model.actions import Failure, FailureKind, Notify
from tesched_core.model.cluster import Job, Node, NodeShare, Partition, SlurmSettings
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.slurm_limits import SlurmLimits
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import Journal
from tesched_daemon.loop import Loop
from tesched_daemon.settings import Mode

from tests.loop_parts import FULL, TRIAL, VICTIM, Cluster, Notebook, loop_of

#: seconds of a poll here, and of one read
POLL_S, READ_S = 5.0, 0.1
#: job 1 goes first, as the policy has it
OTHER = replace(VICTIM, job_id=JobId(3), start_time=500.0, allocation=(NodeShare(node="n2", tres=FULL),))
NEW = replace(TRIAL, job_id=JobId(4), submit_time=1006.0, eligible_time=1006.0)
#: what Slurm says of job 4, and that before it has considered it
REASON = ContextVar("REASON", default="Resources")
AWAY = Failure(kind=FailureKind.UNREACHABLE, message="slurmctld does not answer")


def node(name: str, held: Tres | None = FULL) -> Node:
    return Node(name=name, state="ALLOCATED", total=FULL, held=held)


@dataclass
class Site(Cluster):
    """A cluster of two full nodes, a clock that polls and reads move on, and single reads."""

    now: Snapshot | None = None
    time: float = 1000.0
    jobs: dict[JobId, Job] = field(default_factory=lambda: {job.job_id: job for job in (VICTIM, OTHER)})
    nodes: dict[str, Node] = field(default_factory=lambda: {name: node(name) for name in ("n1", "n2")})
    settings: SlurmSettings = SlurmSettings(limits_enforced=False)
    limits: SlurmLimits = field(default_factory=SlurmLimits)
    poll_s: float = POLL_S
    read_s: float = READ_S
    jobs_at: float | None = None
    #: of job 4; `reason` makes a test one for each
    reason: str = field(default_factory=REASON.get)
    #: ids that were read, in order; and what happens after that many reads
    reads: list[JobId] = field(default_factory=list)
    after: dict[int, Callable[[], object]] = field(default_factory=dict)
    fails: Exception | Failure | None = None

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:
        super().observe(whole=whole, ends=ends)
        if isinstance(self.seen, Failure):
            return self.seen
        seen = Snapshot.of(
            self.time,
            jobs=self.jobs.values(),
            nodes=self.nodes.values(),
            partitions=[Partition(name="main", nodes=frozenset(self.nodes))],
            settings=self.settings,
        )
        self.time += self.poll_s
        return replace(seen, jobs_at=self.jobs_at, limits=self.limits)

    def records(self, job_ids: Sequence[JobId], within_s: float) -> Mapping[JobId, Job] | Failure:
        until = self.time + within_s
        read: dict[JobId, Job] = {}
        for job_id in job_ids:
            if self.time >= until:
                return AWAY
            self.reads.append(job_id)
            self.time += self.read_s
            read |= {one.job_id: one for one in self.jobs.values() if job_id in {one.job_id, one.array_job_id}}
            self.after.pop(len(self.reads), lambda: None)()
            if isinstance(self.fails, Exception):
                raise self.fails
            if self.fails is not None:
                return self.fails
        return read

    def site(self, last: Snapshot, within_s: float) -> Snapshot | Failure:
        assert within_s > 0
        self.time += self.read_s
        return replace(last, nodes=dict(self.nodes))

    def change(self, job: Job, **fields: object) -> None:
        self.jobs[job.job_id] = replace(self.jobs[job.job_id], **fields)  # type: ignore[arg-type]

    def noticed(self) -> list[JobId]:
        """Return the victims that had their notice."""
        return [action.job_id for action in self.acted if isinstance(action, Notify)]


def polled(
    site: Site,
    notebook: Journal | None = None,
    mode: Mode = Mode.ENFORCE,
    pace: Mapping[str, object] = MappingProxyType({}),
    **limits: object,
) -> Loop:
    """Return a loop that has polled the site once, a second ago, before job 4 came."""
    loop = replace(loop_of(site, Notebook(), mode), journal=notebook or Notebook())
    loop.pace = replace(loop.pace, **pace)  # type: ignore[arg-type]
    parts = {"single_reads": site, "clock": lambda: site.time, "stopwatch": lambda: site.time}
    loop = replace(loop, limits=replace(loop.limits, **limits), **parts)  # type: ignore[arg-type]
    assert not loop.turn().trouble
    site.time += 1
    site.jobs[NEW.job_id] = replace(NEW, reason=site.reason)
    site.reads.clear()
    return loop


def left_to_the_poll(loop: Loop, site: Site) -> bool:
    """Make an early turn; return whether it read jobs and did nothing."""
    site.reads.clear()
    return loop.early_turn() is None and bool(site.reads) and not site.acted


def noticed(loop: Loop, site: Site) -> bool:
    """Make an early turn; return whether a victim had its notice."""
    return loop.early_turn() is not None and bool(site.noticed())


def none_comes(loop: Loop, site: Site) -> bool:
    """Make an early turn; return whether there was none to be made, so that nothing was read."""
    site.reads.clear()
    return loop.early_turn() is None and not site.reads and not site.acted
