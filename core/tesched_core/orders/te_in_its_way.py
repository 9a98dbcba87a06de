"""TE jobs of other users that run, or are ordered to, where a BE job may run: it waits for them, held or not.

So do those that have left their nodes since the last poll: short ones, one after the other, may lie between polls.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from tesched_core.context import CycleContext
from tesched_core.model.arrays import NDArray, np
from tesched_core.model.cluster import Job
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState
from tesched_core.model.snapshot import JobClass
from tesched_core.placement.alike import kind_of
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import demands_of
from tesched_core.placement.places import PlacesOfCycle
from tesched_core.placement.te_runs import left_since


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TeInItsWay:
    """The TE jobs of one cycle that hold nodes, have held them since the last poll, or are to have them by an order."""

    context: CycleContext
    #: each user's number
    users: Mapping[str, int]
    #: [job and node] the node's row, and the user's number
    row: NDArray[np.intp]
    user: NDArray[np.intp]
    #: those whose orders wait for whatever is released, on no certain nodes
    anywhere: tuple[Job, ...]
    places: PlacesOfCycle
    #: [nodes] where jobs of a kind may run; None: not known
    _nodes: dict[Hashable, NDArray[np.bool_] | None] = field(default_factory=dict)
    #: by user and kind
    _meets: dict[tuple[str, Hashable], bool] = field(default_factory=dict)

    @staticmethod
    def of(memory: Memory, context: CycleContext) -> TeInItsWay:
        """Return those of this cycle."""
        snapshot, capacity = context.snapshot, context.columns.capacity
        te = [job for job_id, job in snapshot.jobs.items() if snapshot.job_class(job_id) is JobClass.TE]
        orders: dict[int, Order] = {
            order.preemptor: order for order in memory.open_orders() if order.state is OrderState.OPEN
        }
        last = context.now if memory.seen_at is None else memory.seen_at
        held = frozenset() if memory.examined is None else memory.examined.te
        runs = [(job, job.nodes) for job in te if job.on_nodes]
        left = [(job, job.ran_on) for job in left_since(last, held, snapshot)]
        waits = [(job, orders[job.job_id].nodes) for job in te if job.pending and job.job_id in orders]
        users: dict[str, int] = {}
        there = [
            (capacity.index[name], users.setdefault(job.user, len(users)))
            for job, nodes in (*runs, *left, *waits)
            for name in nodes
            if name in capacity.index
        ]
        entries = np.array(there, dtype=np.intp).reshape(len(there), 2)
        return TeInItsWay(
            context=context,
            users=users,
            row=entries[:, 0],
            user=entries[:, 1],
            anywhere=tuple(job for job, nodes in waits if not nodes),
            places=PlacesOfCycle(snapshot=snapshot, capacity=capacity),
        )

    def meets(self, job: Job) -> bool:
        """Check whether one of them is where the job may run, or may come to be there."""
        own = replace(job, request=self.context.own_request(job))
        kind = kind_of(own, self.context.snapshot, self.context.columns.capacity)
        known = self._meets.get((job.user, kind))
        if known is None:
            known = self._meets[job.user, kind] = self._find(own, kind)
        return known

    def _find(self, own: Job, kind: Hashable) -> bool:
        rows = self.row[self.user != self.users.get(own.user, -1)]
        others = [te for te in self.anywhere if te.user != own.user]
        if not rows.size and not others:
            return False
        if kind not in self._nodes:
            self._nodes[kind] = _nodes_large_enough(own, self.context)
        mine = self._nodes[kind]
        if mine is None or bool(mine[rows].any()):
            return True
        places = self.places.of(own)
        return any(self.places.may_meet(places, self.places.of(te)) for te in others)


def _nodes_large_enough(job: Job, context: CycleContext) -> NDArray[np.bool_] | None:
    """Return [nodes] where the job may run if they are empty, or a part of its tasks; None: not known."""
    capacity = replace(context.columns.capacity, kept_by=())
    try:
        demands = demands_of(job, replace(context.snapshot, jobs={}), capacity, binds=False)
    except UnsupportedRequestError:
        return None
    there = [one.allowed & (one.fits_into(capacity.total) | (one.uneven is not None)) for one in demands]
    return np.any(there, axis=0) if there else None
