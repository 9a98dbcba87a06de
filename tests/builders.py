"""Small clusters, written in one line each.

What is not said is the simplest: one partition `p`, nodes of 32 CPUs and 64,000 MiB, a running job that holds no
memory, a waiting job that wants 1 MiB of it (none at all would mean: all of the node's).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np
from tesched_core.guard.eligibility import eligible_victims
from tesched_core.model.actions import Action, Reason, SetField
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, JobState, Node, NodeShare, Partition, Request, Reservation, SlurmSettings
from tesched_core.model.decision import RefusalCode, Why
from tesched_core.model.draft import MemoryDraft
from tesched_core.model.field import Field, HoldState, Nodes
from tesched_core.model.job_memory import NOTHING, RecordFields
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.notice import ExitZero, Target
from tesched_core.model.resources import JobId, Tres, with_bare_names
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.eligibility import Eligibility
from tesched_core.policy import MakeRoom, Proposal, View

#: the instant at which most tests poll
NOW = 10_000.0
NODE_CPUS = 32
NODE_MEM_MIB = 64_000


class Extra(TypedDict, total=False):
    """Fields of a job that a test may set besides."""

    array_job_id: JobId | None
    array_task_id: int | None
    array_tasks: str
    het_job_id: JobId | None
    name: str
    user: str
    account: str
    partitions: tuple[str, ...]
    qos: str
    state: JobState
    flags: frozenset[str]
    reason: str
    priority: int
    nice: int
    batch: bool
    requeueable: bool
    of_crontab: bool | None
    federated: bool
    restarts: int
    submit_time: float
    eligible_time: float | None
    deadline: float | None
    start_time: float | None
    end_time: float | None
    time_limit_s: int | None
    reservation: str
    dependency: str
    comment: str
    admin_comment: str


def node(
    name: str, *, cpus: int = NODE_CPUS, mem_mib: int = NODE_MEM_MIB, gres: Mapping[str, int] | None = None
) -> Node:
    """Return an idle node."""
    return Node(
        name=name,
        state="IDLE",
        total=Tres(cpus=cpus, mem_mib=mem_mib, gres=with_bare_names((gres or {}).items())),
        partitions=frozenset({"p"}),
    )


def share(name: str, cpus: int = 0, mem_mib: int = 0, gres: Mapping[str, int] | None = None) -> NodeShare:
    """Return what a job holds on one node."""
    return NodeShare(node=name, tres=Tres(cpus=cpus, mem_mib=mem_mib, gres=with_bare_names((gres or {}).items())))


def running(job_id: int, *held: NodeShare, **extra: Unpack[Extra]) -> Job:
    """Return a job that has run since the beginning of time on what it holds."""
    plain = Job(
        job_id=JobId(job_id),
        state=JobState.RUNNING,
        partitions=("p",),
        priority=100,
        start_time=0.0,
        allocation=held,
    )
    return replace(plain, **extra)


def waiting(job_id: int, request: Request | None = None, *, cpus: int = 1, **extra: Unpack[Extra]) -> Job:
    """Return a job that would start if it fitted; without a request it wants `cpus` on one node and 1 MiB."""
    plain = Job(
        job_id=JobId(job_id),
        state=JobState.PENDING,
        partitions=("p",),
        priority=100,
        reason="Resources",
        submit_time=NOW - 10,
        request=request or Request(cpus=cpus, mem_per_node_mib=1),
    )
    return replace(plain, **extra)


def traits(job_class: JobClass, grace_period_s: float = 30.0) -> Traits:
    """Return traits, as if a rule named `test` had given them: a job that has declared USR1 to its batch shell."""
    return Traits(
        job_class=job_class,
        rule="test",
        grace_period_s=grace_period_s,
        grace_source="test",
        notice_signal="USR1",
        notice_target=Target.BATCH,
        notice_source="test",
        exit0=ExitZero.FINISHED,
    )


def cluster(
    nodes: Iterable[Node],
    jobs: Iterable[Job] = (),
    *,
    graces: Mapping[int, float] | None = None,
    exempt: Iterable[int] = (),
    at: float = NOW,
    partitions: Iterable[Partition] | None = None,
    reservations: Iterable[Reservation] = (),
    settings: SlurmSettings | None = None,
) -> Snapshot:
    """Return a classified snapshot: what holds nodes is best effort, what waits is trial and error.

    `graces` are grace periods by job id, 30 s for the others.
    """
    nodes, jobs, exempt = tuple(nodes), tuple(jobs), frozenset(exempt)

    def class_of(job: Job) -> JobClass:
        if job.job_id in exempt:
            return JobClass.EXEMPT
        return JobClass.BE if job.on_nodes else JobClass.TE

    everywhere = Partition(name="p", nodes=frozenset(node.name for node in nodes))
    return Snapshot.of(
        at,
        jobs=jobs,
        nodes=nodes,
        partitions=(everywhere,) if partitions is None else partitions,
        reservations=reservations,
        settings=settings,
        traits={job.job_id: traits(class_of(job), (graces or {}).get(job.job_id, 30.0)) for job in jobs},
    )


def view_of(snapshot: Snapshot, *, excused: Iterable[int] = (), capacity: Capacity | None = None) -> View:
    """Return the view of a policy: everything that waits is served, and `excused` are not eligible."""
    columns = columns_of(snapshot)
    spared = [columns.running.row_of[JobId(job_id)] for job_id in excused]
    why = np.full(len(columns.running), -1, dtype=np.intp)
    why[spared] = 0
    eligible = Eligibility(why=why, whys=((RefusalCode.COOL_DOWN, "it was just asked"),))
    view = View(
        snapshot=snapshot,
        memory=Memory(),
        columns=columns,
        limits=Limits(),
        waiting=tuple(job for _, job in sorted(snapshot.jobs.items()) if job.pending),
        find_eligible=lambda: eligible,
    )
    if capacity is not None:
        view.__dict__["capacity_after_orders"] = capacity
    return view


def plans_of(proposal: Proposal[Any]) -> tuple[MakeRoom, ...]:
    """Return the intents to free resources."""
    return tuple(one for one in proposal.intents if isinstance(one, MakeRoom))


def scored(capacity: MakeRoom) -> tuple[tuple[int, float], ...]:
    """Return the victims with their scores."""
    return tuple((int(victim.job_id), victim.score) for victim in capacity.victims)


def excused(snapshot: Snapshot, memory: Memory, limits: Limits) -> dict[JobId, Why]:
    """Return which running jobs the guard excuses, and why."""
    running = columns_of(snapshot).running
    found = eligible_victims(running, memory, limits, snapshot.taken_at, columns_of(snapshot).capacity.index)
    pairs = zip(running.job_id.tolist(), found.why.tolist(), strict=True)
    return {JobId(job_id): found.whys[why] for job_id, why in pairs if why >= 0}


def by_job(memory: Memory, name: str) -> dict[JobId, Any]:
    """One field of a memory's records by job, of the jobs of which it is set; `name` is a field of `JobMemory`."""
    values = {job_id: getattr(one, name) for job_id, one in memory.jobs.items()}
    return {job_id: value for job_id, value in values.items() if value != getattr(NOTHING, name)}


def remembered(memory: Memory, job_id: int, **fields: Unpack[RecordFields]) -> Memory:
    """Memory in which a job's record has these fields, too."""
    draft = MemoryDraft.of(memory)
    draft.update(JobId(job_id), **fields)
    return draft.written(memory)


def hold(job_id: JobId, reason: Reason) -> SetField:
    """Hold a job."""
    return SetField(job_id=job_id, reason=reason, field=Field.HOLD, value=HoldState.HELD, previous=HoldState.RELEASED)


def release(job_id: JobId, reason: Reason) -> SetField:
    """End a job's hold."""
    return SetField(job_id=job_id, reason=reason, field=Field.HOLD, value=HoldState.RELEASED, previous=HoldState.HELD)


def node_list(job_id: JobId, reason: Reason, value: Nodes, previous: Nodes) -> SetField:
    """Set the nodes of a job."""
    return SetField(job_id=job_id, reason=reason, field=Field.NODES, value=value, previous=previous)


def nodes_set(actions: Iterable[Action]) -> list[tuple[JobId, Nodes]]:
    """List the jobs whose nodes these actions set, each with what is set."""
    return [(one.job_id, one.value) for one in actions if isinstance(one, SetField) and isinstance(one.value, Nodes)]
