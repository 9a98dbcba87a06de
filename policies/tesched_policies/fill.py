"""fill: left-over resources go to the job that fits, has waited longest for its length, and delays none before it.

Definitions
    first          the first job in the queue that does not fit now, of those that may use a node: one for each node,
                   as a rule the same for all nodes of a partition (`queue_heads.py`). TE jobs apart, it may be any
                   job that starts once it fits: exempt, an array's next task, exclusive, for certain nodes.
    ahead          TE jobs that wait and have no victims (`patient`), or that Slurm has yet to consider.
    shadow         when and where such a job will start, if every running job ends when expected: by what is known of
                   its run time, else by its time limit. Where that is not known of enough jobs, the time is not
                   known, and the place is all nodes on which it would fit if they were empty. Then those of them
                   of which no end is known may be free at once, and it starts when as many others are as it wants
                   beside them, at the earliest: what ends by then does not delay it.
    ratio(j)       response ratio, (waited_j + run_j) / run_j, without unit; run_j is the expected run time, seconds.
                   Where that is learned from runs like it, the median: for the ratio, and for jobs that run (the
                   shadow). Whether j ends before the shadow is answered by what 4 in 5 such runs do not exceed.

Principle
    A TE job that ends, and a victim that frees more than the TE job takes, leave holes. Slurm fills them by time
    limits, of which people ask for several times what they need; so it finds that hardly any job fits before the first
    job's turn. Here it is the expected run time that counts. Of those that fit into a hole and

        end before the shadow, or leave the job its nodes at that time (EASY), for each first and all that are ahead,

    the one with the highest ratio is brought to the head of the best-effort queue (highest response ratio next), then
    the next, until none fits. Resources that are reserved for a TE job are not given away; nor are nodes for which a
    job waits that cannot be weighed: its request is not modelled, it is heterogeneous, or its record was not read.
    Where nothing is known of run times it counts by time limits, like Slurm's own backfill, but for the order.

Worked example
    One node of 8 GPUs, 4 of them free; the job that holds the others is expected to end in 600 s. First is j1, which
    wants 8. j2 wants 4 for 300 s and has waited 600 s, j3 wants 4 for 60 s and has waited 240 s, j4 wants 4 for 900 s.
    j4 would delay j1. ratio: j2 (600 + 300) / 300 = 3, j3 (240 + 60) / 60 = 5. j3 is next; 60 s later it is j2.

Parameters
    none. At most `MOST` jobs are brought forward in one cycle. Of the first jobs the shadows of at most `MOST_WEIGHED`
    are considered; nodes of further ones are left alone. So it is with TE jobs of more than `MOST_KINDS` different
    requests (`queue_heads.py`).

Source
    tesched's own. EASY: Lifka, JSSPP 1995. Expected run times instead of limits: Tsafrir, Etsion, Feitelson,
    "Backfilling using system-generated predictions rather than user runtime estimates", IEEE TPDS 2007. Response
    ratio: Brinch Hansen, "An analysis of response ratio scheduling", IFIP 1971.
"""

from __future__ import annotations

from collections.abc import Sequence
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

    from tesched_policies.queue_heads import Head, QueueHeads, WantedNodes

#: Most jobs that are brought forward in one cycle, each by a call to Slurm.
MOST = 20
#: Most first jobs whose shadows are considered; nodes of further ones are left alone.
MOST_WEIGHED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill(Policy[None]):
    """The policy; see the head of this file."""

    name: ClassVar[str] = "fill"
    reads_run_times: ClassVar[bool] = True

    def propose(self, view: View, state: None) -> Proposal[None]:
        """Return boosts for the jobs that fit into what is left over."""
        from tesched_policies.queue_heads import of_row, queue_of  # noqa: PLC0415 - a configuration needs none

        waiting, free = view.columns.waiting, view.capacity.free.copy()
        queue = queue_of(view, free)
        if not queue.heads:
            return Proposal()
        before: list[tuple[WantedNodes, Shadow | None]] = []
        forward: list[BoostJob] = []
        refusals: list[Refusal] = []
        for row in _in_order(view, queue.going, free):
            wanted = of_row(waiting, row)
            job = view.snapshot.jobs[wanted.job_id]
            if queue.throttles.left(job) == 0 or wanted.place(free) is None:
                continue
            first = _first_for(wanted, queue.heads)
            before = before or _with_shadows(view, queue, free)
            nodes = _without_delay(view, row, wanted, free, before)
            if nodes is None:
                refusals.append(_would_delay(wanted, first))
                continue
            wanted.take(nodes, free)
            queue.throttles.take(job, 1)
            forward.append(_forward(view, row, first, nodes))
            if len(forward) == MOST:
                break
        return Proposal(intents=tuple(forward), refusals=Refusals(refusals))


def _in_order(view: View, going: frozenset[int], free: NDArray[np.int64]) -> list[int]:
    """Return the jobs that might fit, the highest response ratio first, then the queue's order."""
    waiting = view.columns.waiting
    may = (waiting.demand <= free.max(axis=0, initial=0)).all(axis=1)
    may[[*going]] = False
    boosted = view.memory.raised(By.QUEUE)
    may[[row for row, job_id in enumerate(waiting.job_id.tolist()) if job_id in boosted]] = False
    # What does not fit now does not after others have taken their part of it either.
    may[may] = _fitting(waiting, np.flatnonzero(may), free)
    may[may] = _managed(view, waiting.job_id[may])
    rows = np.flatnonzero(may)
    ratio = _ratio(view, rows)
    return [int(row) for row in rows[np.argsort(-ratio, kind="stable")]]


def _fitting(waiting: Waiting, rows: NDArray[np.intp], free: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Check of each of these rows whether it fits into what is free on as many nodes as it wants."""
    fits = waiting.allowed[waiting.kind[rows]]
    for resource in range(free.shape[1]):
        fits &= free[:, resource] >= waiting.demand[rows, resource, None]
    found: NDArray[np.bool_] = np.count_nonzero(fits, axis=1) >= waiting.nodes[rows]
    return found


def _managed(view: View, job_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Check of each of these jobs whether it is the policy's to boost."""
    jobs = view.snapshot.jobs
    found = (view.scope.covers(job) and not job.left_to_slurm for job in (jobs[JobId(one)] for one in job_ids.tolist()))
    return np.fromiter(found, dtype=np.bool_, count=len(job_ids))


def _ratio(view: View, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    run_s = view.columns.waiting.run_s[rows]
    return 1 + np.maximum(view.now - view.columns.waiting.since[rows], 0) / np.maximum(run_s, 1)


def _with_shadows(view: View, queue: QueueHeads, free: NDArray[np.int64]) -> list[tuple[WantedNodes, Shadow | None]]:
    """Return the jobs that must not be delayed."""
    from tesched_core.placement.shadow_time import EndsInTurn  # noqa: PLC0415 - a configuration needs none

    from tesched_policies.queue_heads import trials_of  # noqa: PLC0415 - a configuration needs none

    leaving, total = EndsInTurn(queue.ends(view), free, view.now), view.capacity.total
    heads = [head.wanted for head in queue.heads]
    weighed, trials = heads[:MOST_WEIGHED], trials_of(view)
    known = [(one, one.shadow(leaving, total)) for one in (*weighed, *trials)]
    return known + [(one, None) for one in heads[MOST_WEIGHED:]]


def _first_for(wanted: WantedNodes, heads: Sequence[Head]) -> JobId:
    """Return the first job that does not fit of those that may use the same nodes."""
    others = [head for head in heads if head.wanted.job_id != wanted.job_id] or heads
    return next((one for one in others if (one.allowed & wanted.allowed).any()), others[0]).wanted.job_id


def _without_delay(
    view: View,
    row: int,
    wanted: WantedNodes,
    free: NDArray[np.int64],
    before: Sequence[tuple[WantedNodes, Shadow | None]],
) -> tuple[int, ...] | None:
    """Return nodes on which it delays no other job, and take of what the shadows spare; None if there are none."""
    others = [(one, shadow) for one, shadow in before if one.job_id != wanted.job_id]
    ends_at = view.now + float(view.columns.waiting.may_run_s[row])
    outlasted = [shadow for _, shadow in others if shadow is not None and shadow.is_met_by(ends_at)]
    among = np.ones(len(free), dtype=np.bool_)
    for one, shadow in others:
        if shadow is None:
            among &= ~one.allowed
    for shadow in outlasted:
        among &= shadow.spared(len(free), wanted.each)
    nodes = wanted.place(free, among)
    if nodes is not None:
        for shadow in outlasted:
            shadow.take(nodes, wanted.each)
    return nodes


def _forward(view: View, row: int, first: JobId, nodes: tuple[int, ...]) -> BoostJob:
    waiting, names = view.columns.waiting, view.capacity.names
    ratio = float(_ratio(view, np.array([row], dtype=np.intp))[0])
    text = (
        f"it fits into what is left over, has waited longest for its length (ratio {ratio:.1f}) "
        f"and does not delay job {first}, which is first"
    )
    where = ",".join(names[node] for node in nodes)
    return BoostJob(job_id=JobId(int(waiting.job_id[row])), why=f"on {where} {text}")


def _would_delay(wanted: WantedNodes, first: JobId) -> Refusal:
    return Refusal(
        job_id=wanted.job_id,
        preemptor=first,
        code=RefusalCode.WOULD_DELAY,
        text=f"it fits now, and would delay job {first}, which is first in the queue",
    )
