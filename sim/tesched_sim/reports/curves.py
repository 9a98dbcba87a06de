"""Much data as few points, without distortion: distributions, series over time, and the victims.

A distribution keeps at most 500 of its own points, and is nowhere more than 1/399 of the jobs away from all of them
(twice that when distributions are pooled, which are thinned before and after). A series that is too long becomes means
over equal stretches of time, so that the area under it stays. Of too many victims every n-th is kept, and how many
there were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_sim.reports.summary import lost_node_s
from tesched_sim.result import Result

#: Points of a distribution: so many evenly spaced in share, and so many in its tail, ever closer to the end.
EVEN_POINTS, TAIL_POINTS = 400, 100
#: Stretches of a series, and victims in a plot.
MOST_STRETCHES = 600
MOST_VICTIMS = 400


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distribution:
    """The share of jobs, 0 to 1, with at most this value; it stays below 1 if some have none (not finished)."""

    #: distinct values, ascending, and the share of all jobs up to each
    at: NDArray[np.float64]
    share: NDArray[np.float64]
    #: jobs, those without a value too
    count: int

    @staticmethod
    def of(values: NDArray[np.float64]) -> Distribution:
        """Return the distribution of the values; nan for a job that has none."""
        known = values[np.isfinite(values)]
        return _distribution(known, np.ones(len(known)), len(values))

    @staticmethod
    def pooled(several: Sequence[Distribution]) -> Distribution:
        """Return the distribution of all their jobs together (those of several seeds)."""
        at = np.concatenate([np.empty(0), *(one.at for one in several)])
        weights = np.concatenate([np.empty(0), *(np.diff(one.share, prepend=0.0) * one.count for one in several)])
        return _distribution(at, weights, sum(one.count for one in several))


def _distribution(values: NDArray[np.float64], weights: NDArray[np.float64], count: int) -> Distribution:
    at, place = np.unique(values, return_inverse=True)
    jobs = np.cumsum(np.bincount(place, weights=weights, minlength=len(at)))
    share = jobs / max(count, 1)
    if len(at) > EVEN_POINTS + TAIL_POINTS:
        even = np.linspace(share[0], share[-1], EVEN_POINTS)
        # 1, … jobs from the end: a tail is drawn for its last per cent.
        tail = share[-1] - np.geomspace(1, jobs[-1], TAIL_POINTS) / count
        keep = np.unique(np.searchsorted(share, np.concatenate([even, tail])).clip(0, len(at) - 1))
        keep[-1] = len(at) - 1  # rounding may have missed the last
        at, share = at[keep], share[keep]
    return Distribution(at=at, share=share, count=count)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """Queues and use over time; each value holds until the next, the last one to the end."""

    at_s: NDArray[np.float64]
    te_waiting: NDArray[np.float64]
    be_waiting: NDArray[np.float64]
    #: by resource that the cluster has, the part of it that is held, 0 to 1
    held_share: dict[str, NDArray[np.float64]]
    #: seconds that each value is the mean of; None: nothing was thinned
    stretch_s: float | None

    @staticmethod
    def of(result: Result) -> Series:
        """Return a run's series, at most 600 stretches long."""
        use, machines = result.use, result.workload.machines
        total = machines.total.sum(axis=0)
        columns = {"te": use.te_waiting.astype(np.float64), "be": use.be_waiting.astype(np.float64)}
        shares = {
            name: use.held[:, column] / total[column]
            for column, name in enumerate(machines.resources)
            if total[column] > 0 and ":" not in name
        }
        at_s, stretch_s = use.at_s, None
        if len(at_s) > MOST_STRETCHES + 1:
            edges_s = np.linspace(at_s[0], at_s[-1], MOST_STRETCHES + 1)
            columns = {name: _means(use.at_s, values, edges_s) for name, values in columns.items()}
            shares = {name: _means(use.at_s, values, edges_s) for name, values in shares.items()}
            at_s, stretch_s = edges_s, float(edges_s[1] - edges_s[0])
        return Series(
            at_s=at_s, te_waiting=columns["te"], be_waiting=columns["be"], held_share=shares, stretch_s=stretch_s
        )


def _means(at_s: NDArray[np.float64], values: NDArray[np.float64], edges_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means of a step function between the edges, and its last value."""
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(at_s))])
    means = np.diff(np.interp(edges_s, at_s, area)) / np.diff(edges_s)
    return np.append(means, values[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPaid:
    """Preemptions of one user's jobs."""

    name: str
    jobs: int
    preemptions: int
    lost_node_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Payers:
    """The jobs that were requeued, and their users."""

    #: how many there were; the columns hold every n-th
    count: int
    run_s: NDArray[np.float64]
    #: nodes times the greatest part of a node's resource that the job takes on each
    size_nodes: NDArray[np.float64]
    lost_node_s: NDArray[np.float64]
    #: users with a preempted job, in order of the workload
    users: tuple[UserPaid, ...]

    @staticmethod
    def of(result: Result) -> Payers:
        """Return the victims of a run."""
        workload = result.workload
        rows = np.flatnonzero(result.preempted > 0)
        kept = rows[:: -(-len(rows) // MOST_VICTIMS) or 1]
        lost = lost_node_s(result)
        per_node = np.maximum(workload.machines.total.mean(axis=0), 1.0)
        kinds = len(workload.user_names)
        jobs = np.bincount(workload.user, minlength=kinds)
        preemptions = np.bincount(workload.user, weights=result.preempted, minlength=kinds)
        lost_by_user = np.bincount(workload.user, weights=lost, minlength=kinds)
        return Payers(
            count=len(rows),
            run_s=workload.run_s[kept],
            size_nodes=workload.nodes[kept] * (workload.demand[kept] / per_node).max(axis=1),
            lost_node_s=lost[kept],
            users=tuple(
                UserPaid(
                    name=workload.user_names[user] or "not known",
                    jobs=int(jobs[user]),
                    preemptions=int(preemptions[user]),
                    lost_node_s=float(lost_by_user[user]),
                )
                for user in np.flatnonzero(preemptions)
            ),
        )
