"""Ways in which a TE job may be given nodes: as it asks for them, and as they are planned for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.request import takes_fewest_nodes
from tesched_core.placement.allowed import is_bindable
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand, counts_for_demands, demands_of, rests_on_site_alone
from tesched_core.placement.modelled import has_gres, left_out, wants_shards
from tesched_core.placement.node_count import by_itself, demands_if_fixed, is_open
from tesched_core.placement.spread import can_ever_be_met, large_enough, spreads
from tesched_core.policy import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Demands of one TE job that could be met on empty nodes."""

    #: as its request stands: what Slurm takes if it has a choice
    as_asked: tuple[Demand, ...]
    #: with a number of nodes that is set when it is bound for them; empty if that can't be done, or need not
    fixed: tuple[Demand, ...] = ()
    #: how long it may be bound, seconds from now: victims that take longer leave for a job whose number is open again
    bound_for_s: float = 0.0
    #: as Slurm may start it if it is bound to no nodes, where that may be more: on what is free alone, no victim leaves
    #: for it
    by_itself: tuple[Demand, ...] = ()
    #: why it can never start, where there are none of these
    impossible: str = ""

    @property
    def any(self) -> tuple[Demand, ...]:
        """Return all of them, as it asks for them first."""
        return self.as_asked + self.fixed

    @property
    def where(self) -> NDArray[np.bool_]:
        """Return [nodes] where the job may run, in any of these ways; there is at least one."""
        demands = self.any + self.by_itself
        uneven = [one.uneven.allowed for one in demands if one.uneven is not None]
        found: NDArray[np.bool_] = np.any([one.allowed for one in demands] + uneven, axis=0)
        return found


def counts_for_candidates(job: Job, view: View, capacity: Capacity) -> Hashable | None:
    """Key that TE jobs share which have the same candidates, if they have any; None: it is not known which do."""
    snapshot = view.snapshot
    if not rests_on_site_alone(job, snapshot, capacity):
        return None
    of_binding = can_be_fixed(job, view), _may_be_bound_for_s(job, view), view.memory.is_bound(job.job_id)
    return *counts_for_demands(job, snapshot), *of_binding


def candidates_of(job: Job, view: View, capacity: Capacity) -> Candidates:
    """Return the ways to give a TE job its nodes.

    Raises UnsupportedRequestError for a request that is not modelled.
    """
    fixable, snapshot, left_s = can_be_fixed(job, view), view.snapshot, _may_be_bound_for_s(job, view)
    try:
        demands = demands_of(job, snapshot, capacity)
    except UnsupportedRequestError:
        fixed = tuple(demands_if_fixed(job, snapshot, capacity)) if fixable else ()
        alone = _by_itself(job, view, capacity)
        if not fixed and first_free(alone, capacity) is None:
            raise
        return Candidates(as_asked=(), fixed=fixed, bound_for_s=left_s, by_itself=alone)
    impossible = [why_impossible(demand, capacity) for demand in demands]
    missing = left_out(job, snapshot) if len(job.partitions) > 1 else ""
    possible = tuple(demand for demand, why in zip(demands, impossible, strict=True) if not why)
    fixed = ()
    # On more nodes than one its GPUs may bring more CPUs than its tasks want, with --threads-per-core; and devices for
    # each task may be certain for a fixed number alone.
    by_number = bool(job.request.threads_per_core or job.request.gres_per_task) and has_gres(job.request)
    by_number = by_number or (_takes_fewest_nodes(job, view) and any(one.allowed.any() for one in demands))
    by_number = by_number or bool(missing)
    if fixable and (possible or by_number):
        first = min((demand.nodes for demand in possible), default=1)
        fixed = tuple(demands_if_fixed(job, snapshot, capacity, first))
    by_default = next((one.counted_first for one in demands if one.counted_first), "")
    # One task in one partition is read alike.
    several = job.request.tasks > 1 or len(job.partitions) > 1 or bool(job.request.threads_per_core or by_default)
    alone = _by_itself(job, view, capacity) if several else ()
    if possible or fixed or first_free(alone, capacity) is not None:
        return Candidates(as_asked=possible, fixed=fixed, bound_for_s=left_s, by_itself=alone)
    if not missing and any(can_ever_be_met(one, capacity) for one in alone):
        missing = f"bound to nodes, it needs {by_default}" if by_default else _BOUND_TO_NONE
    if missing:
        raise UnsupportedRequestError(missing)
    return Candidates(as_asked=(), impossible=impossible[0])


_BOUND_TO_NONE = "Slurm may start it on one node only if it is bound to none"


def _by_itself(job: Job, view: View, capacity: Capacity) -> tuple[Demand, ...]:
    """Demands of the job where Slurm starts it bound to no nodes, as far as they may be more than else.

    Not of one that Slurm has declined so. Of which GPU free shards are is not known, so with shards it is not tried.
    """
    request, family = job.request, job.job_id if job.array_job_id is None else job.array_job_id
    if (
        not has_gres(request)
        or wants_shards(request)
        or family in view.snapshot.declined
        or view.memory.is_bound(job.job_id)
    ):
        return ()
    return by_itself(job, view.snapshot, capacity)


def can_be_fixed(job: Job, view: View) -> bool:
    """Check whether the job's number of nodes is open, and can be set when it is bound for a plan of this cycle."""
    return is_open(job, view.snapshot.settings.release) and may_be_bound(job, view)


def may_be_bound(job: Job, view: View) -> bool:
    """Check whether tesched can bind the job to the nodes of a plan of this cycle."""
    refused = view.memory.refused.get(Field.NODES)
    may_be_set = refused is None or not refused.holds(job.user, view.now)
    return is_bindable(job) and _may_be_bound_for_s(job, view) > 0 and may_be_set


def _may_be_bound_for_s(job: Job, view: View) -> float:
    """Return for how long the job may be bound from now on (`guard.bind_for_s` from its first binding in this wait)."""
    one = view.memory.changes_of(Field.NODES).get(job.job_id)
    return view.limits.bind_for_s - (0.0 if one is None or one.since is None else view.now - one.since)


def _takes_fewest_nodes(job: Job, view: View) -> bool:
    """Check whether of a job with an open number the fewest nodes alone are modelled (`placement/demand.py`)."""
    parts = (view.snapshot.partitions.get(name) for name in job.partitions)
    return any(takes_fewest_nodes(job.request, part) for part in parts)


def why_impossible(demand: Demand, capacity: Capacity) -> str:
    """Reason that the demand can't be met on empty nodes either, in words; empty if it can."""
    if demand.unknown_gres:
        return f"no node has the GRES {demand.unknown_gres}"
    if not can_ever_be_met(demand, capacity):
        text = (
            f"it wants {demand.nodes} node(s), and only {large_enough(demand, capacity)} of those that it may use now "
            "(partition, constraint, node list, reservation, node state) are large enough, even empty"
        )
        return f"{text}, for {demand.counted_first}" if demand.counted_first else text
    return ""


def first_free(
    demands: Iterable[Demand], capacity: Capacity, fitting: Callable[[Demand], NDArray[np.bool_]] | None = None
) -> tuple[Demand, tuple[int, ...]] | None:
    """Return the first of the demands that fits on what is free, evenly spread or not, and its nodes; None if none.

    `fitting` says where a demand fits, if that is known.
    """
    demands = tuple(demands)
    for demand in demands:
        rows = _free_rows(demand, demand.fits(capacity) if fitting is None else fitting(demand))
        if rows is not None:
            return demand, rows
    # With shares of their own for each node.
    for spread in (one for demand in demands for one in spreads(demand, capacity)):
        rows = _free_rows(spread, spread.fits(capacity))
        if rows is not None:
            return spread, rows
    return None


def _free_rows(demand: Demand, fitting: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """Return nodes on which the job fits at once, the required ones before others; None if there are too few."""
    if not fitting.any() or not fitting[list(demand.required)].all():
        return None
    rows = np.flatnonzero(fitting)
    if len(rows) < demand.nodes:
        return None
    if not demand.required:
        return tuple(rows[: demand.nodes].tolist())
    others = [row for row in rows.tolist() if row not in demand.required]
    return tuple(sorted([*demand.required, *others][: demand.nodes]))
