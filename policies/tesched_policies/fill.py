"""fill: left-over resources go to the job that fits, has waited longest for its length, and delays none before it.

Definitions
    first          the first job in the best-effort queue that does not fit now.
    ahead          TE jobs that wait and have no victims (`patient`).
    shadow         when and where such a job will start, if every running job ends when expected: by what is known of
                   its run time, else by its time limit.
    ratio(j)       response ratio, (waited_j + run_j) / run_j, without unit; run_j is the expected run time, seconds.
                   Where that is learned from runs like it, the median: for the ratio, and for jobs that run (the
                   shadow). Whether j ends before the shadow is answered by what 4 in 5 such runs do not exceed.

Principle
    A TE job that ends, and a victim that frees more than the TE job takes, leave holes. Slurm fills them by time
    limits, of which people ask for several times what they need; so it finds that hardly any job fits before the first
    job's turn. Here it is the expected run time that counts. Of those that fit into a hole and

        end before the shadow, or leave the job its nodes at that time (EASY), for the first and for all that are ahead,

    the one with the highest ratio is brought to the head of the best-effort queue (highest response ratio next), then
    the next, until none fits. Resources that are reserved for a TE job are not given away.
    Where nothing is known of run times it counts by time limits, like Slurm's own backfill, but for the order.

Worked example
    One node of 8 GPUs, 4 of them free; the job that holds the others is expected to end in 600 s. First is j1, which
    wants 8. j2 wants 4 for 300 s and has waited 600 s, j3 wants 4 for 60 s and has waited 240 s, j4 wants 4 for 900 s.
    j4 would delay j1. ratio: j2 (600 + 300) / 300 = 3, j3 (240 + 60) / 60 = 5. j3 is next; 60 s later it is j2.

Parameters
    none. At most `MOST` jobs are brought forward in one cycle.

Source
    tesched's own. EASY: Lifka, JSSPP 1995. Expected run times instead of limits: Tsafrir, Etsion, Feitelson,
    "Backfilling using system-generated predictions rather than user runtime estimates", IEEE TPDS 2007. Response
    ratio: Brinch Hansen, "An analysis of response ratio scheduling", IFIP 1971.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.change import By
from tesched_core.model.decision import Refusal, RefusalCode, Refusals
from tesched_core.model.resources import JobId
from tesched_core.policy import BoostJob, Policy, Proposal, View

if TYPE_CHECKING:
    from tesched_core.model.columns import Waiting
    from tesched_core.placement.shadow_time import Shadow

#: Most jobs that are brought forward in one cycle, each by a call to Slurm.
MOST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill(Policy[None]):
    """The policy; see the head of this file."""

    name: ClassVar[str] = "fill"
    reads_run_times: ClassVar[bool] = True

    def propose(self, view: View, state: None) -> Proposal[None]:
        """Return boosts for the jobs that fit into what is left over."""
        waiting, free = view.columns.waiting, view.capacity.free.copy()
        going = _starts_by_itself(view, free)
        first = next((row for row in range(len(waiting)) if row not in going), None)
        if first is None:
            return Proposal()
        shadows: list[Shadow] = []
        forward: list[BoostJob] = []
        refusals: list[Refusal] = []
        for row in _in_order(view, going, first, free):
            if _place(waiting, row, free) is None:
                continue
            shadows = shadows or [_shadow(view, first, free), *_shadows_ahead(view, free)]
            nodes = _without_delay(view, row, free, shadows)
            if nodes is None:
                refusals.append(_would_delay(waiting, row, first))
                continue
            free[list(nodes)] -= waiting.demand[row]
            forward.append(_forward(view, row, first, nodes))
            if len(forward) == MOST:
                break
        return Proposal(intents=tuple(forward), refusals=Refusals(refusals))


def _starts_by_itself(view: View, free: NDArray[np.int64]) -> dict[int, None]:
    """Take from `free` the resources of jobs that start without help.

    Those are the jobs before the first that does not fit, and the boosted. Changes `free`.
    """
    waiting = view.columns.waiting
    going: dict[int, None] = {}
    boosted = view.memory.raised(By.QUEUE)
    blocked = False
    for row, job_id in enumerate(waiting.job_id.tolist()):
        helped = job_id in boosted
        if blocked and not helped:
            if not boosted:
                break
            continue
        nodes = _place(waiting, row, free)
        if nodes is None:
            blocked = True
            continue
        going[row] = None
        free[list(nodes)] -= waiting.demand[row]
    return going


def _in_order(view: View, going: dict[int, None], first: int, free: NDArray[np.int64]) -> list[int]:
    """Return the jobs that might fit, the highest response ratio first, then the queue's order."""
    waiting = view.columns.waiting
    may = (waiting.demand <= free.max(axis=0, initial=0)).all(axis=1)
    may[[*going, first]] = False
    may[may] = _managed(view, waiting.job_id[may])
    boosted = view.memory.raised(By.QUEUE)
    may[[row for row, job_id in enumerate(waiting.job_id.tolist()) if job_id in boosted]] = False
    rows = np.flatnonzero(may)
    ratio = _ratio(view, rows)
    return [int(row) for row in rows[np.argsort(-ratio, kind="stable")]]


def _managed(view: View, job_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each of these jobs is the policy's to boost."""
    jobs = view.snapshot.jobs
    found = (view.scope.covers(jobs[JobId(job_id)]) for job_id in job_ids.tolist())
    return np.fromiter(found, dtype=np.bool_, count=len(job_ids))


def _ratio(view: View, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    run_s = view.columns.waiting.run_s[rows]
    return 1 + np.maximum(view.now - view.columns.waiting.since[rows], 0) / np.maximum(run_s, 1)


def _place(
    waiting: Waiting, row: int, free: NDArray[np.int64], among: NDArray[np.bool_] | None = None
) -> tuple[int, ...] | None:
    fits = (free >= waiting.demand[row]).all(axis=1) & waiting.allowed[waiting.kind[row]]
    if among is not None:
        fits &= among
    nodes = np.flatnonzero(fits)
    count = int(waiting.nodes[row])
    return tuple(nodes[:count].tolist()) if len(nodes) >= count else None


def _shadow(view: View, first: int, free: NDArray[np.int64]) -> Shadow:
    from tesched_core.placement.shadow_time import shadow_of  # noqa: PLC0415 - a configuration needs none

    waiting = view.columns.waiting
    allowed = waiting.allowed[waiting.kind[first]]
    return shadow_of(
        waiting.demand[first], int(waiting.nodes[first]), allowed, free, ends=view.columns.ends, now=view.now
    )


def _shadows_ahead(view: View, free: NDArray[np.int64]) -> Iterator[Shadow]:
    from tesched_core.placement.constraint import UnsupportedRequestError  # noqa: PLC0415 - as above
    from tesched_core.placement.demand import demand_of  # noqa: PLC0415 - as above
    from tesched_core.placement.shadow_time import shadow_of  # noqa: PLC0415 - as above

    for job in view.ahead:
        try:
            demand = demand_of(job, view.snapshot, view.capacity)
        except UnsupportedRequestError:
            continue  # it is left to Slurm
        yield shadow_of(demand.per_node, demand.nodes, demand.allowed, free, ends=view.columns.ends, now=view.now)


def _without_delay(view: View, row: int, free: NDArray[np.int64], shadows: Sequence[Shadow]) -> tuple[int, ...] | None:
    """Return nodes on which it delays no other job, and take of what the shadows spare; None if there are none."""
    waiting = view.columns.waiting
    demand = waiting.demand[row]
    outlasted = [shadow for shadow in shadows if not view.now + waiting.may_run_s[row] <= shadow.at]
    among = np.ones(len(free), dtype=np.bool_)
    for shadow in outlasted:
        among &= shadow.spared(len(free), demand)
    nodes = _place(waiting, row, free, among)
    if nodes is not None:
        for shadow in outlasted:
            shadow.take(nodes, demand)
    return nodes


def _forward(view: View, row: int, first: int, nodes: tuple[int, ...]) -> BoostJob:
    waiting, names = view.columns.waiting, view.capacity.names
    ratio = float(_ratio(view, np.array([row], dtype=np.intp))[0])
    text = (
        f"it fits into what is left over, has waited longest for its length (ratio {ratio:.1f}) "
        f"and does not delay job {waiting.job_id[first]}, which is first"
    )
    where = ",".join(names[node] for node in nodes)
    return BoostJob(job_id=JobId(int(waiting.job_id[row])), why=f"on {where} {text}")


def _would_delay(waiting: Waiting, row: int, first: int) -> Refusal:
    return Refusal(
        job_id=JobId(int(waiting.job_id[row])),
        preemptor=JobId(int(waiting.job_id[first])),
        code=RefusalCode.WOULD_DELAY,
        text=f"it fits now, and would delay job {waiting.job_id[first]}, which is first in the queue",
    )
