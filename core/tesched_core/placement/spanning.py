"""Fewest victims for a job of several nodes, where running jobs span several of them.

Definitions
    spanning    a candidate that runs on several nodes where the job may run
    single      a spanning candidate that is enough by itself: on all nodes that the job still lacks
    worth       of a spanning candidate: over its nodes, the part of what is missing there that it frees

Principle
    A job that takes its nodes one by one, the cheapest first, sees what a candidate frees on one node alone. With a
    cheap job on each of two nodes, and a dear one that holds both, the cheap ones would go, though the dear one is
    enough. What is missing on certain nodes is one sum, though, whatever node it is missing on; so the fewest
    candidates for these nodes are found as those for one node are (`fewest.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.columns import Running
from tesched_core.placement.demand import Demand
from tesched_core.placement.fewest import MOST_JOBS, NEVER, fewest_of, fewest_that_free

#: a sum of parts may be below the exact one by that
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spanning:
    """The spanning candidates for one demand, as rows of `Running`."""

    #: most nodes of one candidate that count; 1: there is no spanning one
    widest: int
    #: the single that goes first; None: there is none
    single: int | None = None
    #: those that free what is missing on several nodes, by their worth, the highest first
    by_worth: tuple[int, ...] = ()

    @staticmethod
    def of(  # noqa: PLR0917 - what a search is given
        demand: Demand,
        running: Running,
        pool: NDArray[np.bool_],
        score: NDArray[np.float64],
        free: NDArray[np.int64],
        fitting: NDArray[np.bool_],
    ) -> Spanning:
        """Find those of `pool` [running]; `fitting` [nodes] says where the job fits now."""
        jobs = len(running)
        shares = np.flatnonzero(pool[running.share_job] & demand.allowed[running.share_node])
        of_each = np.bincount(running.share_job[shares], minlength=jobs)
        widest = min(int(of_each.max(initial=0)), demand.nodes)
        if widest < 2:
            return Spanning(widest=1)
        shares = shares[(of_each[running.share_job[shares]] > 1) & ~fitting[running.share_node[shares]]]
        job, where = running.share_job[shares], running.share_node[shares]
        missing = np.maximum(demand.takes[where] - free[where], 0)
        useful = np.minimum(running.frees[shares], missing)
        part = _parts(useful, missing) / (missing > 0).sum(axis=1)
        worth = np.bincount(job, weights=part, minlength=jobs)
        several = np.flatnonzero(np.bincount(job[part > 0], minlength=jobs) > 1)
        covers = (useful == missing).all(axis=1)
        in_need = np.zeros_like(fitting)
        in_need[list(demand.required)] = True
        in_need &= ~fitting
        enough = np.bincount(job[covers], minlength=jobs) + int((fitting & demand.allowed).sum()) >= demand.nodes
        enough &= np.bincount(job[covers & in_need[where]], minlength=jobs) == int(in_need.sum())
        singles = np.flatnonzero(enough & (of_each > 1))
        in_order = np.lexsort((running.job_id[singles], score[singles]))
        return Spanning(
            widest=widest,
            single=int(singles[in_order[0]]) if len(singles) else None,
            by_worth=tuple(several[np.lexsort((running.job_id[several], score[several], -worth[several]))].tolist()),
        )


def least_where_jobs_span(demand: Demand, least: NDArray[np.int64], widest: int) -> int:
    """Return a number of victims below which no set of them is enough, by the `least` of each node (`fewest.py`)."""
    cheapest = np.sort(least)[: demand.nodes]
    return max(fewest_of(demand, least), -(-int(cheapest.sum()) // widest))


def fewest_on(  # noqa: PLR0917 - what a search is given
    demand: Demand,
    nodes: Sequence[int],
    running: Running,
    pool: NDArray[np.bool_],
    score: NDArray[np.float64],
    free: NDArray[np.int64],
    *,
    less_than: int,
) -> tuple[int, ...]:
    """Return the fewest candidates, two or more, with which the job fits on all of these nodes; empty if none do.

    Sets of `less_than` and more are not tried.
    """
    place = np.full(len(free), -1, dtype=np.intp)
    place[list(nodes)] = np.arange(len(nodes))
    shares = np.flatnonzero(pool[running.share_job] & (place[running.share_node] >= 0))
    # Before the table of all jobs on all nodes, which is large for many.
    shares = _that_may_do(demand, nodes, running, shares, free, most=min(less_than - 1, MOST_JOBS))
    if not len(shares):
        return ()
    jobs, number = np.unique(running.share_job[shares], return_inverse=True)
    frees = np.zeros((len(jobs), len(nodes), free.shape[1]), dtype=np.int64)
    frees[number, place[running.share_node[shares]]] = running.frees[shares]
    order = np.lexsort((running.job_id[jobs], score[jobs]))
    jobs, of_each = jobs[order], frees[order].reshape(len(jobs), -1)
    wanted = (demand.takes[list(nodes)] - free[list(nodes)]).ravel()
    return tuple(int(jobs[row]) for row in fewest_that_free(wanted, of_each, score[jobs], less_than=less_than))


def _parts(useful: NDArray[np.int64], missing: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return for each row the sum, over the resources that are missing, of the part of it that is freed."""
    parts: NDArray[np.float64] = np.where(missing > 0, useful / np.maximum(missing, 1), 0.0).sum(axis=1)
    return parts


def _that_may_do(
    demand: Demand,
    nodes: Sequence[int],
    running: Running,
    shares: NDArray[np.intp],
    free: NDArray[np.int64],
    *,
    most: int,
) -> NDArray[np.intp]:
    """Return those of these shares whose jobs may be among `most` that are enough on all of the nodes.

    Each of a set of so many frees some parts of what is missing, and together all of it: one that is too small beside
    the largest of the others is in no such set.
    """
    rows, where = list(nodes), running.share_node[shares]
    wanted = int((demand.takes[rows] > free[rows]).sum())
    missing = np.maximum(demand.takes[where] - free[where], 0)
    part = _parts(np.minimum(running.frees[shares], missing), missing)
    of_each = np.bincount(running.share_job[shares], weights=part, minlength=len(running))
    others = float(np.sort(of_each)[::-1][: max(most - 1, 0)].sum())
    kept: NDArray[np.intp] = shares[of_each[running.share_job[shares]] + others >= wanted - _ROUNDING]
    return kept


def sets_of_nodes(
    demand: Demand, least: NDArray[np.int64], widest: int, *, less_than: int, most: int
) -> Iterator[tuple[int, ...]]:
    """Yield the sets of nodes on which fewer victims than that are conceivable; none if there may be more than `most`.

    `least` [nodes] is a number of victims below which no set of them is enough there.
    """
    others = [node for node in np.flatnonzero(least < min(less_than, NEVER)).tolist() if node not in demand.required]
    if comb(len(others), demand.nodes - len(demand.required)) > most:
        return
    for some in combinations(others, demand.nodes - len(demand.required)):
        nodes = (*demand.required, *some)
        if -(-int(least[list(nodes)].sum()) // widest) < less_than:
            yield nodes
