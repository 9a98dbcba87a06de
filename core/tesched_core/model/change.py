"""Change: what tesched has set of one field of one job in Slurm, kept until it is seen to be reverted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from dataclasses import field as with_default
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from tesched_core.model.actions import CameBack, OrderId
from tesched_core.model.cluster import Job, Request
from tesched_core.model.field import Field, Nodes
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.size import Size

#: Seconds after which slurmctld has written a change to its state: it begins after five, and a large state takes some
#: (22.05.8). One that is killed before is followed by one that has not made the change.
WRITTEN_WITHIN_S = 15.0


class By(StrEnum):
    """Purpose that a field was set for, where there are several."""

    #: nice value of a preemptor: it is first in its queue
    PREEMPTOR = "preemptor"
    #: nice value of a victim that waits to run again
    VICTIM = "victim"
    #: nice value of a best-effort job that is next among its kind
    QUEUE = "queue"
    #: hold that a requeue has left, and that nothing wants
    REQUEUE = "requeue"


#: Values of a hold: it is to end; it was set; slurmctld has it after a restart, too; another hand has ended it.
FREE, HELD, STANDS, LET_THROUGH = 0, 1, 2, 3
#: Time of the command for a hold that only the submission hook has set.
NEVER = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Mark of a running job that Slurm's plugin may preempt: in which order, and the run that is meant."""

    #: lowest first
    order: int
    score: float
    grace_s: float
    #: the run that may be preempted: Slurm's count of its restarts
    restarts: int
    #: where it runs, and since when
    nodes: tuple[str, ...]
    started_at: UnixSeconds
    #: what it has; None: not known
    size: Size | None = None
    #: after that it would be delayed by more than the bound; None: it would not
    until: UnixSeconds | None = None
    #: it is to be taken out of the file
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TeRules:
    """Rules for TE jobs that go with the marks."""

    #: users whose TE jobs preempt no job: they have made others leave as often as the limits allow
    barred: frozenset[str] = frozenset()
    #: seconds for which a TE job awaits resources that come free by themselves before Slurm preempts for it
    wait_s: int = 0
    #: TE jobs that came back from their starts, ascending: the plugin preempts none for them yet, if it has before
    came_back: tuple[CameBack, ...] = ()


#: An int for all fields but the nodes and the mark.
Value: TypeAlias = int | Nodes | Mark
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[V]):
    """A value that tesched has set, and the one that it is to be put back to."""

    #: of a throttle, the array
    job_id: JobId
    #: `PRIORITY` where Slurm ignores nice values: it stands for that
    field: Field
    by: By | None = None
    #: the job's own value, which is put back
    previous: V
    #: what was requested last
    value: V
    #: what was in place then, where that was neither: it is not known of every command whether it arrived; of a nice
    #: value that was set again, always
    before: V | None = None
    #: when it was last requested
    at: UnixSeconds
    #: since when the job has had such a change in this wait in the queue; None: it has run meanwhile
    since: UnixSeconds | None
    order_id: OrderId | None = None
    #: shadow mode: it was only said what would be done, and nothing is to be put back
    dry: bool = False
    #: nothing is to be put back (any more); kept as long as it keeps the field from being set anew
    restored: bool = False
    #: when Slurm took the command; of a hold when it was first seen, or was seen to be ended by another hand; None:
    #: that is not known
    taken_at: UnixSeconds | None = with_default(default=None, compare=False)
    #: of a nice value: the priority that the job had with `previous`, which Slurm does not work out anew; None: it does
    own: int | None = None
    #: of a nice value: the priority that the job showed when `value` was requested, and its restarts when it had `own`;
    #: of a hold: the highest job id that was known when it was requested; and of one that stands, or that another hand
    #: has ended: the job's restarts
    shown: int | None = None
    restarts: int = 0
    #: of a hold that stands: the job's nice value, and whether it had the submission hook's mark
    nice: int | None = None
    marked: bool = False
    #: of such a hold: it is that of a job array, of which several tasks wait
    of_array: bool = False
    #: how often it was set again because others had put it back
    undone: int = 0
    #: how often Slurm has taken the command that puts it back, and when it was counted last: those in quick succession
    #: count once. Counted anew by a new process
    put_back_sent: int = with_default(default=0, compare=False)
    put_back_at: UnixSeconds | None = with_default(default=None, compare=False)


def first_change(
    job_id: JobId,
    field: Field,
    previous: V,
    value: V,
    at: UnixSeconds,
    *,
    by: By | None = None,
    order_id: OrderId | None = None,
) -> Change[V]:
    """Change of a field of which tesched has set nothing yet."""
    return Change(job_id=job_id, field=field, by=by, previous=previous, value=value, at=at, since=at, order_id=order_id)


def lets_through(one: Change[int], job: Job) -> bool:
    """Check whether another hand has ended this hold for a job, or for its array: until it is requeued."""
    is_its = job.job_id == one.job_id or (one.of_array and job.array_job_id == one.job_id)
    return one.value == LET_THROUGH and is_its and job.restarts == one.restarts


def own_request(job: Job, binding: Change[Nodes] | None) -> Request:
    """Request of the job itself, without the nodes to which tesched has bound it.

    Nodes, or a number of them, that are neither its own nor those that were set are its user's, and what it asks for.
    """
    if binding is None or binding.restored:
        return job.request
    is_bound = any(sorted(job.request.required_nodes) == sorted(one.names) for one in _set_lately(binding))
    request = replace(job.request, required_nodes=binding.previous.names) if is_bound else job.request
    own = binding.previous.count
    if own is None or not is_as_set(job, binding):
        return request
    # Without numbers of these Slurm has left them alone (`fields/node_binding.py`).
    return replace(
        request,
        min_nodes=own.least,
        max_nodes=own.most,
        tasks=own.tasks or request.tasks,
        cpus=own.cpus or request.cpus,
    )


def is_as_set(job: Job, binding: Change[Nodes]) -> bool:
    """Check whether the job asks for the number of nodes that tesched has set, and for another one by itself."""
    own, asked = binding.previous.count, (job.request.min_nodes, job.request.max_nodes)
    if own is None or asked == (own.least, own.most):
        return False
    return any(asked == (len(one.names),) * 2 for one in _set_lately(binding))


def _set_lately(binding: Change[Nodes]) -> list[Nodes]:
    """Nodes that tesched has set: those of a binding before it, too, until the new one has arrived."""
    return [binding.value] if binding.before is None else [binding.value, binding.before]
