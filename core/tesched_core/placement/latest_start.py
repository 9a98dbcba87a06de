"""Latest start of a job for which victims leave: it has to end before a reservation of others, and by its own deadline.

Definitions
    run           how long Slurm takes a job to run where it holds it against a reservation: its time limit; without
                  one, a year
    deadline      a time by which it must have ended (sbatch --deadline)
    latest start  on a reservation's nodes: the reservation's begin less the run; on any: its deadline less its time
                  limit
    floating      (TIME_FLOAT) of a reservation whose begin stays as far ahead as it is: Slurm gives it as so many
                  seconds from each query, and a job whose run is no longer than that may start whenever it likes
    leaves within of a victim: its grace period, if it gets a notice, and KillWait, after which Slurm kills it. One that
                  is suspended leaves at once

Principle
    Slurm starts no job on a node that is reserved for others before it would end. That has to be so when the last
    victim has left, and not only when it is notified: else it leaves, and the job does not start there. A waiting job
    that could not end by its deadline any more Slurm ends at once (DEADLINE), and its victims would have left in vain.

    It is held against three times, as each time more is known:

    a victim    (`guard/eligibility.py`) is none if it leaves late on each of its nodes. One with a shorter grace period
                may leave in time where it would not: a policy that first took it would not find that one on the same
                nodes, nor any for a job that has to end by a deadline, or that cannot be bound to other nodes
    a plan      (`guard/admission.py`) is refused if its slowest victim, which counts for all of its nodes, is late for
                one of them. Whether victims are suspended, and leave at once, is known of a plan alone, too
    an order    (`orders/in_time.py`) ends before one more of its victims is notified: it has waited, or a reservation
                has been made since

    Where the slowest victim of a plan is too slow for some of its nodes, the job is planned anew without these, if it
    can be bound to the others: else Slurm might start it there in time, and a victim elsewhere would leave for nothing.
    Where that is no plan, such victims alone leave as meet each reservation.

Worked example
    A reservation of n1 begins in 700 s, a TE job has a limit of 600 s, and KillWait is 30 s: it has to start there
    within 100 s. A job on n1 may be its victim with a grace period of 70 s, and not with one of 71 s.

Source
    Slurm's job_test_resv; tried on 22.05: with a maintenance of all nodes in 100 days a job without a time limit does
    not start, and with one in 400 days it does; a job of 10 minutes that had to end within 11 was ended after 61 s in
    the queue, and not one without a time limit, nor while it was held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.cluster import Job, Reservation
from tesched_core.model.columns import Running
from tesched_core.model.decision import RefusalCode, Why
from tesched_core.model.order import Victim
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot, Traits

#: for how long Slurm takes a job without a time limit to run where it holds it against a reservation
YEAR_S = 365 * 86400


def planned_run_s(job: Job) -> int:
    """Seconds for which Slurm takes a job to run where it holds it against a reservation."""
    return YEAR_S if job.time_limit_s is None else job.time_limit_s


def floats_clear_of(reservation: Reservation, run_s: float, taken_at: UnixSeconds) -> bool:
    """Check whether it floats, and so far ahead that a job with this run may start at any time.

    Slurm gives its begin in whole seconds from the query, which comes after `taken_at`.
    """
    return "TIME_FLOAT" in reservation.flags and reservation.start_time - run_s >= math.floor(taken_at)


def leaves_within_s(victim: Traits | Victim, kill_wait_s: int) -> float:
    """Seconds within which a victim leaves its nodes once it is notified, or requeued without a notice."""
    return (victim.grace_period_s if victim.gets_notice else 0.0) + kill_wait_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestStart:
    """Latest start of a job on some nodes, to end in time."""

    at: UnixSeconds
    #: None: on all
    nodes: frozenset[str] | None
    #: what it has to end before, in words, and the code of a refusal for that
    before: str
    code: RefusalCode


def latest_starts(job: Job, snapshot: Snapshot) -> Iterator[LatestStart]:
    """Latest starts of a pending job, by its deadline and by each reservation that is not its own."""
    if job.deadline is not None and job.time_limit_s is not None:
        at = job.deadline - job.time_limit_s
        yield LatestStart(at=at, nodes=None, before="its own deadline (--deadline)", code=RefusalCode.LIMIT)
    run_s = planned_run_s(job)
    for one in snapshot.reservations.values():
        if floats_clear_of(one, run_s, snapshot.taken_at):
            continue  # as far ahead when the last victim has left
        if one.name != job.reservation and one.end_time > snapshot.taken_at:
            at, before = one.start_time - run_s, f"reservation {one.name} begins"
            yield LatestStart(at=at, nodes=one.nodes, before=before, code=RefusalCode.RESERVATION)


def why_too_late(job: Job, nodes: Iterable[str], at: UnixSeconds, snapshot: Snapshot) -> Why | None:
    """Reason that Slurm would not start a pending job on these nodes at this time; None: none is known."""
    nodes = frozenset(nodes)
    for one in latest_starts(job, snapshot):
        if at > one.at and (one.nodes is None or not nodes.isdisjoint(one.nodes)):
            within_s = at - snapshot.taken_at
            return one.code, f"it would start within {within_s:.0f} s only, and might not end before {one.before}"
    return None


def late_nodes(job: Job, at: UnixSeconds, snapshot: Snapshot) -> frozenset[str]:
    """Nodes on which Slurm would not start a pending job at this time, as they are reserved from then on.

    Without what bars it from all nodes, its deadline.
    """
    late = (one.nodes for one in latest_starts(job, snapshot) if at > one.at and one.nodes is not None)
    return frozenset().union(*late)


def _leave_s(running: Running, snapshot: Snapshot) -> NDArray[np.float64]:
    """Seconds within which each leaves, [running]."""
    found: NDArray[np.float64] = np.where(running.gets_notice, running.grace_s, 0.0) + snapshot.settings.kill_wait_s
    return found


def too_slow_for_any(te: Job, running: Running, snapshot: Snapshot) -> NDArray[np.intp]:
    """Rows of victims that leave too late for some node of a coming reservation, which another may meet."""
    ahead = (one.at - snapshot.taken_at for one in latest_starts(te, snapshot) if one.nodes is not None)
    left_s = min((left_s for left_s in ahead if left_s >= 0), default=np.inf)
    return np.flatnonzero(_leave_s(running, snapshot) > left_s)


def leaves_too_late(
    running: Running, snapshot: Snapshot, rows_of: Mapping[str, int]
) -> Callable[[Job], Iterator[tuple[NDArray[np.intp], Why]]]:
    """Search for victims that leave too late for a TE job: rows of `running`, and why.

    `rows_of` are the nodes' rows, by name. Each reservation's are found once, however many TE jobs there are.
    """
    leaves_s = _leave_s(running, snapshot)
    longest_s = float(leaves_s.max(initial=0.0))
    jobs, where = running.share_job, running.share_node
    rows_at: dict[frozenset[str], NDArray[np.intp]] = {}

    def rows(names: frozenset[str]) -> NDArray[np.intp]:
        if names not in rows_at:
            rows_at[names] = np.array([rows_of[name] for name in names if name in rows_of], dtype=np.intp)
        return rows_at[names]

    def because(one: LatestStart) -> Why:
        return RefusalCode.NOT_ALLOWED_NODE, f"it leaves too late: the TE job would not end before {one.before}"

    def find(te: Job) -> Iterator[tuple[NDArray[np.intp], Why]]:
        left_of_node = np.full(max(len(rows_of), int(where.max(initial=-1)) + 1), np.inf)
        by = np.full(len(left_of_node), -1)
        ahead: list[LatestStart] = []
        for one in latest_starts(te, snapshot):
            left_s = one.at - snapshot.taken_at
            if left_s >= longest_s:
                continue
            if one.nodes is None:
                yield np.flatnonzero(leaves_s > left_s), because(one)
            elif left_s >= 0:  # else its nodes are none of the TE job's, whatever leaves
                nodes = rows(one.nodes)
                nodes = nodes[left_of_node[nodes] > left_s]
                left_of_node[nodes], by[nodes] = left_s, len(ahead)
                ahead.append(one)
        if not ahead:
            return
        is_late = leaves_s[jobs] > left_of_node[where]
        which = np.full(len(running), -1)
        which[jobs[is_late]] = by[where[is_late]]
        which[jobs[~is_late]] = -1
        for number, one in enumerate(ahead):
            late = np.flatnonzero(which == number)
            if len(late):
                yield late, because(one)

    return find
