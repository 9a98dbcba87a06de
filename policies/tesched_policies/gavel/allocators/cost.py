"""cost: the most work for the money, with or without deadlines; throughput: the most work.

Definitions
    price_j          price of an hour of one accelerator of type j.
    need_m           left_m / deadline_m, the steps per second with which job m just keeps its deadline.

Principle
    cost         max over x of  sum_m throughput(m, x) / sum_mj price_j sf_m x_mj
    throughput   max over x of  sum_m throughput(m, x)
    cost-sum     max over x of  sum_mj T_mj / price_j x_mj
    under the constraints of constraints.py; with `-slo` also throughput(m, x) >= need_m for every job with a deadline.

    cost is linear-fractional. With y = x s and s > 0 such that the cost of y is 1 it is a linear program, exactly
    (Charnes, Cooper 1962): maximise sum_m throughput(m, y) where y keeps to the constraints with their bounds times s.
    The ratio of sums is at most the best single ratio. So without deadlines cost lets no job run but where a step is
    cheapest, and any fraction of that has the same ratio. Of the optimal x the one with the greatest sum of throughput
    is taken, by a second linear program. cost-sum, which the paper's authors run in their experiments, fills the
    accelerators.

    A deadline that the job cannot keep even alone on its fastest type is left out; if the others cannot be kept
    together, all are left out, as the authors do, and the answer says so.

    Steps of different models are added as if they were alike, as in the paper: a model with small steps counts more.

Worked example
    One V100 at 1.00 an hour and one K80 at 0.20. Job a does 4 and 1 steps/s on them, b 3 and 0.5.
    Steps per second per price: a 4 and 5, b 3 and 2.5.
    cost: a has the K80, b nothing: 5. cost-sum: a has the K80, b the V100: 5 + 3 = 8.
    throughput: a has the V100, b the K80: 4 + 0.5 = 4.5.
    If b has 1800 steps left and 600 s to do them, it needs the V100 all the time. cost-slo: a has the K80 and b the
    V100: (1 + 3) / (0.2 + 1) = 3.33.

Parameters
    what         the objective: "cost", "throughput" or "cost-sum".
    deadlines    True (`-slo`): keep deadlines.

Source
    Narayanan et al., OSDI 2020, section 4.2; the paper's cost has no sf_m, which is 1 there.
    Charnes, Cooper, "Programming with linear fractional functionals", Naval Research Logistics 1962.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tesched_policies.gavel.allocators.constraints import Combinations
from tesched_policies.gavel.allocators.fallback import solved
from tesched_policies.gavel.allocators.lp import LinearProgram, UnsolvedError, maximise
from tesched_policies.gavel.allocators.problem import Allocation, Problem

#: How far below the best ratio the second program of cost may stay, as a part of it.
SLACK = 1e-9
#: Between the two bills that the first program of cost can end with, 0 and 1.
HALF = 0.5


What = Literal["cost", "throughput", "cost-sum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The policies; see the head of this file. The objective's unit: (steps/s) / (price/h), or steps/s (throughput)."""

    name: str = "cost"
    what: What = "cost"
    deadlines: bool = False

    def allocate(self, problem: Problem) -> Allocation:
        """Return the allocation with the greatest ratio or sum."""
        return solved(problem, lambda space: self._best(problem, space))

    def _best(self, problem: Problem, space: Combinations) -> Allocation:
        if self.deadlines:
            job, need = _deadlines(problem)
            try:
                return self._under(problem, space, _Limits.of(space, job, need))
            except UnsolvedError as why:
                note = f"the deadlines cannot all be kept, so none is required ({why})"
                return replace(self._under(problem, space, _Limits.of(space)), fallback=note)
        return self._under(problem, space, _Limits.of(space))

    def _under(self, problem: Problem, space: Combinations, limits: _Limits) -> Allocation:
        work = np.asarray(space.throughput.sum(axis=0)).ravel()
        price = problem.price[space.column]
        if self.what == "cost":
            bill = price * problem.scale_factor[space.row]
            z = space.feasible(_best_ratio(limits, work, bill))
            return space.answer(z, float(work @ z) / float(bill @ z))
        gain = work if self.what == "throughput" else work / price
        z = space.feasible(maximise(LinearProgram(gain=gain / gain.max(), rows=limits.rows, bounds=limits.bounds)).z)
        return space.answer(z, float(gain @ z))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """rows z <= bounds: the constraints, and the deadlines that are to be kept."""

    rows: sparse.csc_array
    bounds: NDArray[np.float64]

    @classmethod
    def of(
        cls, space: Combinations, job: NDArray[np.int64] | None = None, need: NDArray[np.float64] | None = None
    ) -> _Limits:
        """Return the limits, with so many steps per second for these jobs."""
        if job is None or need is None or not len(job):
            return cls(rows=space.limits, bounds=space.bounds)
        # Divided by the need: HiGHS's tolerance then means the same for each.
        kept = sparse.diags_array(-1 / need) @ space.throughput.tocsr()[job]
        return cls(
            rows=sparse.vstack([space.limits.tocsr(), kept], format="csc"),
            bounds=np.concatenate((space.bounds, np.full(len(job), -1.0))),
        )


def _deadlines(problem: Problem) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the jobs that can keep their deadline if they are alone, and the steps per second that it needs."""
    dated = (problem.steps_left > 0) & (problem.deadline_s > 0) & np.isfinite(problem.deadline_s)
    need = np.divide(problem.steps_left, problem.deadline_s, out=np.full(len(dated), np.inf), where=dated)
    job = np.flatnonzero(need <= problem.fitting().max(axis=1))
    return job, need[job]


def _best_ratio(limits: _Limits, work: NDArray[np.float64], bill: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the z with the greatest ratio of work to bill, and of those the one with the most work."""
    work, bill = work / work.max(), bill / bill.max()
    scaled = maximise(
        LinearProgram(
            gain=np.append(work, 0.0),
            rows=sparse.vstack(
                [
                    sparse.hstack([limits.rows, -limits.bounds[:, None]]),
                    sparse.csr_array(np.append(bill, 0.0)[None, :]),
                ],
                format="csc",
            ),
            bounds=np.append(np.zeros(len(limits.bounds)), 1.0),
        )
    ).z[:-1]
    paid = float(bill @ scaled)
    # It is 1, unless the deadlines let nothing but zeros through.
    if paid < HALF:
        raise UnsolvedError("the problem is infeasible")
    ratio = float(work @ scaled) / paid
    lost = ratio * (1 - SLACK) * bill - work
    return maximise(
        LinearProgram(
            gain=work,
            rows=sparse.vstack([limits.rows, sparse.csr_array(lost[None, :] / np.abs(lost).max())], format="csc"),
            bounds=np.append(limits.bounds, 0.0),
        )
    ).z
