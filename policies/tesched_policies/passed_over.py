"""Refusals of the candidates that a TE job's plan does not take, worked out when they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.capacity import Capacity, mask_of
from tesched_core.model.columns import Running
from tesched_core.model.decision import Block, BlockOnRead, RefusalCode, Why
from tesched_core.model.resources import JobId
from tesched_core.placement.demand import Demand
from tesched_core.placement.eligibility import Eligibility

from tesched_policies.ground import FoundVictims
from tesched_policies.ledger import Ledger

_LATE = (
    "it runs on a node that is reserved too soon: the slowest of the trial-and-error job's victims would not meet that"
)
_TAKEN: Why = (RefusalCode.ALREADY_LEAVING, "it yields already, to another trial-and-error job of this cycle")


class Pool:
    """The running BE jobs as one TE job may have them as victims, after the plans so far."""

    def __init__(self, ledger: Ledger, eligibility: Eligibility, late: frozenset[str] = frozenset()) -> None:
        """Remember how many plans there are; `late` are nodes that its slowest victim would leave too late for it."""
        self._ledger, self._plans = ledger, ledger.plans
        self._eligibility, self._late = eligibility, late

    def excused(self, preemptor: JobId) -> Iterator[BlockOnRead]:
        """Yield, for each running BE job that may not be a victim at all, the reason."""
        yield BlockOnRead(preemptor, partial(self._not_eligible, preemptor))
        yield BlockOnRead(preemptor, partial(self._taken, preemptor))

    def not_taken(
        self, preemptor: JobId, demand: Demand, score: NDArray[np.float64], found: FoundVictims, *, equals: bool
    ) -> BlockOnRead:
        """Return, for each candidate that was weighed and not taken, why; `equals`: one goes first among equals."""
        return BlockOnRead(preemptor, partial(self._not_taken, preemptor, demand, score, found, equals=equals))

    def _not_eligible(self, preemptor: JobId) -> Block:
        why, whys = self._eligibility.why, self._eligibility.whys
        return self._block(preemptor, np.flatnonzero(why >= 0), why, whys)

    def _taken(self, preemptor: JobId) -> Block:
        rows = np.array(self._ledger.taken_at(self._plans), dtype=np.intp)
        return self._block(preemptor, rows, np.zeros(len(self._ledger.running), dtype=np.intp), (_TAKEN,))

    def _block(self, preemptor: JobId, rows: NDArray[np.intp], why: NDArray[np.intp], whys: Sequence[Why]) -> Block:
        job_id = self._ledger.running.job_id
        in_order_of_id = rows[np.argsort(job_id[rows])]
        return Block(
            preemptor=preemptor,
            job_id=job_id[in_order_of_id],
            why=why[in_order_of_id],
            whys=whys,
            score=np.full(len(rows), np.nan),
        )

    def _not_taken(
        self, preemptor: JobId, demand: Demand, score: NDArray[np.float64], found: FoundVictims, *, equals: bool
    ) -> Block:
        running, capacity = self._ledger.running, self._ledger.capacity_at(self._plans)
        where = running.share_node
        may_run = demand.allowed[where]
        enough = demand.fits_into(capacity.free[where] + running.frees, where) & may_run
        nowhere = np.ones(len(running), dtype=np.bool_)
        nowhere[running.share_job[may_run]] = False
        alone = np.zeros(len(running), dtype=np.bool_)
        alone[running.share_job[enough]] = True
        dearest = max((float(score[row]) for row in found.victims), default=0.0)
        outscored = f"it would do too; its score {{score}} is not below the chosen one's {dearest:.3f}"
        whys: tuple[Why, ...] = (
            (RefusalCode.NOT_ALLOWED_NODE, "it runs where the trial-and-error job may not (partition, constraint, …)"),
            (RefusalCode.FREES_TOO_LITTLE, "its resources, and those that are free beside them, are not enough"),
            (RefusalCode.OUTSCORED, outscored),
            (RefusalCode.GIVEN_BACK, "its resources alone do not reach the number of nodes that the job requests"),
            (RefusalCode.OUTSCORED, "it would do too, by its score {score}; the chosen one goes first among equals"),
            (RefusalCode.NOT_ALLOWED_NODE, _LATE),
        )
        why = np.where(nowhere, 0, np.where(~alone, 1, 2 if found.victims else 3))
        if self._late:
            there = mask_of(self._late, capacity.index)[where]
            why[np.intersect1d(running.share_job[there], np.flatnonzero(nowhere))] = 5
        if equals:
            why[(why == 2) & (score <= dearest)] = 4
        weighed = self._eligibility.may_be_asked
        weighed[[*self._ledger.taken_at(self._plans), *found.victims]] = False
        rows = np.flatnonzero(weighed)
        rows = rows[np.lexsort((running.job_id[rows], score[rows]))]
        return Block(preemptor=preemptor, job_id=running.job_id[rows], why=why[rows], whys=whys, score=score[rows])


def would_do(  # noqa: PLR0917 - what a search is given, and what it found
    demand: Demand,
    running: Running,
    pool: NDArray[np.bool_],
    found: FoundVictims,
    capacity: Capacity,
    some: NDArray[np.bool_],
) -> NDArray[np.intp]:
    """Return those of `some` that were not taken and free resources where the job may run; enough, where one does."""
    weighed = pool & some
    weighed[list(found.victims)] = False
    shares = np.flatnonzero(weighed[running.share_job])
    shares = shares[demand.allowed[running.share_node[shares]]]
    if len(found.victims) == 1:
        where = running.share_node[shares]
        shares = shares[demand.fits_into(capacity.free[where] + running.frees[shares], where)]
    would = np.zeros(len(running), dtype=np.bool_)
    would[running.share_job[shares]] = True
    return np.flatnonzero(would)
