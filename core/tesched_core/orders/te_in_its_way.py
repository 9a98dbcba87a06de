"""TE jobs of other users that run, or are ordered to, where a BE job may run: it waits for them, held or not."""

from __future__ import annotations

from collections.abc import Hashable
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TeInItsWay:
    """The TE jobs of one cycle that hold nodes, or are to have them by an order."""

    context: CycleContext
    #: (job, nodes); of an order that waits for whatever is released: none
    there: tuple[tuple[Job, tuple[str, ...]], ...]
    places: PlacesOfCycle
    #: [nodes] where jobs of a kind may run; None: not known
    _nodes: dict[Hashable, NDArray[np.bool_] | None] = field(default_factory=dict)

    @staticmethod
    def of(memory: Memory, context: CycleContext) -> TeInItsWay:
        """Return those of this cycle."""
        snapshot = context.snapshot
        te = [job for job_id, job in snapshot.jobs.items() if snapshot.job_class(job_id) is JobClass.TE]
        runs = [(job, job.nodes) for job in te if job.on_nodes]
        orders: dict[int, Order] = {
            order.preemptor: order for order in memory.open_orders() if order.state is OrderState.OPEN
        }
        waits = [(job, orders[job.job_id].nodes) for job in te if job.pending and job.job_id in orders]
        places = PlacesOfCycle(snapshot=snapshot, capacity=context.columns.capacity)
        return TeInItsWay(context=context, there=(*runs, *waits), places=places)

    def meets(self, job: Job) -> bool:
        """Check whether one of them is where the job may run, or may come to be there."""
        others = [(te, nodes) for te, nodes in self.there if te.user != job.user]
        if not others:
            return False
        own = replace(job, request=self.context.own_request(job))
        kind = kind_of(own, self.context.snapshot, self.context.columns.capacity)
        if kind not in self._nodes:
            self._nodes[kind] = _nodes_large_enough(own, self.context)
        mine = self._nodes[kind]
        if mine is None:
            return True
        index = self.context.columns.capacity.index
        rows = [index[name] for _, nodes in others for name in nodes if name in index]
        if bool(mine[np.array(rows, dtype=np.intp)].any()):
            return True
        places = self.places.of(own)
        return any(not nodes and self.places.may_meet(places, self.places.of(te)) for te, nodes in others)


def _nodes_large_enough(job: Job, context: CycleContext) -> NDArray[np.bool_] | None:
    """Return [nodes] where the job may run if they are empty, or a part of its tasks; None: not known."""
    capacity = replace(context.columns.capacity, kept_by=())
    try:
        demands = demands_of(job, replace(context.snapshot, jobs={}), capacity, binds=False)
    except UnsupportedRequestError:
        return None
    there = [one.allowed & (one.fits_into(capacity.total) | (one.uneven is not None)) for one in demands]
    return np.any(there, axis=0) if there else None
