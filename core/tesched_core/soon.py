"""When room comes free by itself, if everybody who runs ends when he is expected to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tesched_core.fit import Demand, Room
from tesched_core.overview import Running
from tesched_core.resources import JobId, UnixSeconds


class Soon(NamedTuple):
    """Where and when a waiting job would fit, and after whose end."""

    at: UnixSeconds
    #: rows of the room
    nodes: tuple[int, ...]
    awaits: tuple[JobId, ...]


def soonest(
    demand: Demand, room: Room, running: Sequence[Running], before: UnixSeconds, now: UnixSeconds
) -> Soon | None:
    """Return the soonest place for the job before that time, without anybody's being asked to yield; None if none."""
    frees, nodes, ends, ids = [], [], [], []
    for jobs in running:
        of = jobs.share_job
        soon = np.flatnonzero((jobs.ends_at[of] <= before) & demand.allowed[jobs.share_node])
        frees.append(jobs.frees[soon])
        nodes.append(jobs.share_node[soon])
        ends.append(jobs.ends_at[of[soon]])
        ids.append(jobs.job_id[of[soon]])
    where, until, job_ids = np.concatenate(nodes), np.concatenate(ends), np.concatenate(ids)
    order = np.lexsort((job_ids, until, where))
    where, until, job_ids = where[order], until[order], job_ids[order]
    freed = np.cumsum(np.concatenate(frees)[order], axis=0)
    if len(where):
        first = np.r_[0, np.flatnonzero(np.diff(where)) + 1]
        lengths = np.diff(np.r_[first, len(where)])
        before_node = np.vstack([np.zeros((1, freed.shape[1]), dtype=freed.dtype), freed])[first]
        freed = freed - np.repeat(before_node, lengths, axis=0)
    enough = np.flatnonzero(demand.fits_into(room.free[where] + freed, room.total[where]))[::-1]
    when = np.full(len(room.names), np.inf)
    when[where[enough]] = until[enough]  # of each node the earliest is written last, and stays
    when[demand.fits(room)] = now
    when[list(demand.required)] -= 1e12  # they come first, whenever they come free
    rows = np.argsort(when, kind="stable")[: demand.nodes]
    when[list(demand.required)] += 1e12
    if len(rows) < demand.nodes or not set(demand.required) <= set(rows.tolist()) or not np.isfinite(when[rows]).all():
        return None
    awaited = np.isin(where, rows) & (until <= when[where])
    return Soon(
        at=float(when[rows].max()),
        nodes=tuple(sorted(rows.tolist())),
        awaits=tuple(JobId(job_id) for job_id in sorted(set(job_ids[awaited].tolist()))),
    )
