"""Ways in which a TE job may be given nodes: as it asks for them, and as they are planned for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tesched_core.model.change import Field
from tesched_core.model.cluster import Job
from tesched_core.model.room import Room
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand, demands_of
from tesched_core.placement.node_count import demands_if_fixed, is_bindable, is_open
from tesched_core.placement.spread import can_ever_be_spread, spreads
from tesched_core.policy import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Demands of one TE job that could be met on empty nodes."""

    #: as its request stands: what Slurm takes if it has a choice
    as_asked: tuple[Demand, ...]
    #: what victims may leave for
    planned: tuple[Demand, ...]
    #: it will be bound with the number of nodes of the plan, and gets no fewer
    fixed: bool
    #: why it can never start, where there are none of these
    impossible: str = ""


def candidates_of(job: Job, view: View, room: Room) -> Candidates:
    """Return the ways to give a TE job its nodes.

    Raises UnsupportedRequestError if it asks for something that is not modelled.
    """
    fixed = tuple(demands_if_fixed(job, view.snapshot, room)) if can_be_fixed(job, view) else ()
    try:
        demands = demands_of(job, view.snapshot, room)
    except UnsupportedRequestError:
        if not fixed:
            raise
        return Candidates(as_asked=(), planned=fixed, fixed=True)
    impossible = [why_impossible(demand, room) for demand in demands]
    possible = tuple(demand for demand, why in zip(demands, impossible, strict=True) if not why)
    return Candidates(
        as_asked=possible,
        planned=fixed or possible,
        fixed=bool(fixed),
        impossible="" if possible or fixed else impossible[0],
    )


def can_be_fixed(job: Job, view: View) -> bool:
    """Check whether the job's number of nodes is open, and will be set when it is bound for a plan of this cycle."""
    refused = view.memory.refused.get(Field.NODES)
    return (
        is_open(job)
        and is_bindable(job)
        and not job.request.required_nodes
        and view.limits.bind_for_s > 0
        and not (refused is not None and refused.holds(job.user, view.now))
    )


def why_impossible(demand: Demand, room: Room) -> str:
    """Return why the demand can't be met on empty nodes either, in words; empty if it can."""
    if demand.unknown_gres:
        return f"no node has the GRES {demand.unknown_gres}"
    large_enough = int((demand.fits_into(room.total) & demand.allowed).sum())
    if large_enough < demand.nodes and not can_ever_be_spread(demand, room):
        return (
            f"it wants {demand.nodes} node(s), and only {large_enough} of those that it may use now "
            "(partition, constraint, node list, reservation, node state) are large enough, even empty"
        )
    return ""


def first_free(demands: Iterable[Demand], room: Room) -> tuple[Demand, tuple[int, ...]] | None:
    """Return the first of the demands that fits on what is free, evenly spread or not, and its nodes; None if none."""
    for demand in _ways(tuple(demands), room):
        rows = _free_rows(demand, room)
        if rows is not None:
            return demand, rows
    return None


def _ways(demands: Sequence[Demand], room: Room) -> Iterator[Demand]:
    """Yield the demands, then those with shares of their own for each node that fit on what is free."""
    yield from demands
    for demand in demands:
        yield from spreads(demand, room)


def _free_rows(demand: Demand, room: Room) -> tuple[int, ...] | None:
    """Return nodes on which the job fits at once, the required ones before others; None if there are too few."""
    rows = np.flatnonzero(demand.fits(room)).tolist()
    if len(rows) < demand.nodes or not set(demand.required) <= set(rows):
        return None
    others = [row for row in rows if row not in demand.required]
    return tuple(sorted([*demand.required, *others][: demand.nodes]))
