"""The slot problem: the cheapest machines, in one slot, for W workers and S servers at given prices.

Principle
    internal   one machine for all: of those that suffice the cheapest. A comparison.
    external   min sum_h (pw_h w_h + ps_h s_h) with w_h alpha + s_h beta <= free_h on each machine, W <= sum w <= F and
               sum s >= S, all whole: a mixed packing and covering program.
        bound      workers alone fill up the cheapest machines, servers alone too. No answer is cheaper; and if both
                   fit together, it is the answer. Of machines with equal prices servers take the last and workers
                   the first, so that they seldom meet.
        else       its linear program (HiGHS), over the cheapest machines only: if its shadow prices show that no
                   other machine would be used, these are all that matter. Then randomised rounding (rounding.py),
                   several trials, and of those that hold, the cheapest.
        repair     a vertex of the linear program leaves rows without slack, so that of a few dozen trials often none
                   holds. Then what is too much goes from the dearest machines, what is missing comes to the cheapest
                   that can take it, and what is beyond W and S is given back. Ours; without it (`repair=False`), the
                   paper's.

Worked example
    Two machines with 2 free GPUs each; a worker takes 1, a server none; W = 3. pw = (1, 4), ps = (0.5, 0.1).
    Bound: workers 2 at 1 and 1 at 4, the server at 0.1: 6.1. Both fit together, so that is the answer.

Source
    PD-ORS (model.py), sections on the sub-problem and its rounding. The bound and the choice of machines are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tesched_policies.pdors.model import SLACK, TrainingJob

from tesched_papers.pdors.algorithm.rounding import rounded

#: Gives the generator of random numbers for a slot and a number of workers. The same ones for the same arguments, so
#: that a plan does not depend on the order in which slots are solved.
Draws: TypeAlias = Callable[[int, int], np.random.Generator]
_Ints: TypeAlias = NDArray[np.int64]
_Floats: TypeAlias = NDArray[np.float64]
#: how many trials are mended, if none holds
_MENDED = 8
#: HiGHS's dual tolerance
_REACHED = 1e-7


class External(StrEnum):
    """Methods for the external case where the bound is not the answer."""

    #: linear program and randomised rounding
    ROUNDED = "rounded"
    #: the integer program itself, by branch and bound; to compare with
    EXACT = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSettings:
    """Settings of the solution of slot problems."""

    external: External = External.ROUNDED
    #: G_delta: above 0; 1 is the value that works best (docs/discussion/pdors.md)
    gain: float = 1.0
    #: how often an answer is rounded before the cheapest that holds is taken
    trials: int = 40
    #: mend what does not hold
    repair: bool = True
    #: take the bound where it is the answer; off only to see what it saves
    bound: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotView:
    """Free resources of one slot, and the cost of a worker and a server of a job there."""

    #: the slot, from 0
    slot: int
    #: (H, R)
    free: _Floats
    #: (H,), utility; inf where the job's workers, or servers, may not be
    worker_price: _Floats
    server_price: _Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """An answer: so many workers and servers on each of these machines."""

    cost: float
    machines: _Ints
    workers: _Ints
    servers: _Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bound:
    """Workers alone and servers alone on the cheapest machines, for each of K pairs (W, S)."""

    #: (K,): no answer costs less; inf: there is none
    cost: _Floats
    #: (K,): whether both fit together, so that it is the answer
    fits: NDArray[np.bool_]


def most_units(free: _Floats, price: _Floats, amounts: _Floats) -> _Ints:
    """Return how many workers (or servers) that take these amounts fit on each machine alone, (H,)."""
    takes = amounts > 0
    holds = np.floor((free[:, takes] / amounts[takes]).min(axis=1) + SLACK)
    return np.asarray(np.where(np.isfinite(price), np.maximum(holds, 0), 0), dtype=np.int64)


def on_one_machine(view: SlotView, job: TrainingJob, workers: _Ints, servers: _Ints) -> tuple[_Floats, _Ints]:
    """Return the cost and the machine of the internal case for each of K pairs (W, S); inf where none suffices."""
    demand = np.outer(workers, job.worker) + np.outer(servers, job.server)
    fits = np.ones((len(workers), len(view.free)), dtype=np.bool_)
    for resource in range(demand.shape[1]):
        fits &= demand[:, resource, np.newaxis] <= view.free[:, resource] + SLACK * demand[:, resource, np.newaxis]
    with np.errstate(invalid="ignore"):
        cost = np.outer(workers, view.worker_price) + np.outer(servers, view.server_price)
    cost = np.where(fits, cost, np.inf)
    machine = np.asarray(np.argmin(cost, axis=1), dtype=np.int64)
    return cost[np.arange(len(machine)), machine], machine


class SlotProblem:
    """The external case of one job in one slot. What does not depend on W and S is reckoned once."""

    def __init__(self, view: SlotView, job: TrainingJob, settings: SlotSettings) -> None:
        """Sort the machines by price."""
        self.view = view
        self.job = job
        self.settings = settings
        self.holds_w = most_units(view.free, view.worker_price, job.worker)
        self.holds_s = most_units(view.free, view.server_price, job.server)
        rows = np.arange(len(view.free))
        self.order_w = np.lexsort((rows, view.worker_price))
        self.order_s = np.lexsort((-rows, view.server_price))
        self.upto_w = np.cumsum(self.holds_w[self.order_w])
        self.upto_s = np.cumsum(self.holds_s[self.order_s])

    def bound(self, workers: _Ints, servers: _Ints) -> Bound:
        """Return the bound for each of K pairs (W, S)."""
        cost_w, placed_w = self._cheapest(workers, self.order_w, self.upto_w, self.view.worker_price)
        cost_s, placed_s = self._cheapest(servers, self.order_s, self.upto_s, self.view.server_price)
        cost = cost_w + cost_s
        fits = np.isfinite(cost)
        if self.settings.bound:
            for resource in range(len(self.job.worker)):
                taken = placed_w * self.job.worker[resource] + placed_s * self.job.server[resource]
                fits &= (taken <= self.view.free[:, resource] + SLACK * taken).all(axis=1)
        else:
            fits[:] = False
        return Bound(cost=cost, fits=fits)

    def solve(self, workers: int, servers: int, draws: Draws) -> Spread | None:
        """Return an answer for W and S, at least 1 each; None if there is none, or none was found."""
        bound = self.bound(np.array([workers]), np.array([servers]))
        if not np.isfinite(bound.cost[0]):
            return None
        if bound.fits[0]:
            _, placed_w = self._cheapest(np.array([workers]), self.order_w, self.upto_w, self.view.worker_price)
            _, placed_s = self._cheapest(np.array([servers]), self.order_s, self.upto_s, self.view.server_price)
            everywhere = np.arange(len(self.view.free))
            return self.answer(everywhere, placed_w[0], placed_s[0])
        program = _Program(self, workers, servers, unit=float(bound.cost[0]) / (workers + servers))
        if self.settings.external is External.EXACT:
            return program.exact()
        return program.rounded(draws(self.view.slot, workers))

    def _cheapest(self, wanted: _Ints, order: _Ints, upto: _Ints, price: _Floats) -> tuple[_Floats, _Ints]:
        """Return the cost, (K,), and how many go to each machine, (K, H), if they go to the cheapest ones."""
        before = np.concatenate(([0], upto[:-1]))
        placed = np.clip(wanted[:, np.newaxis] - before, 0, upto - before)
        cost = placed @ np.where(np.isfinite(price[order]), price[order], 0.0)
        by_machine = np.empty_like(placed)
        by_machine[:, order] = placed
        return np.where(wanted <= upto[-1], cost, np.inf), by_machine

    def answer(self, machines: _Ints, workers: _Ints, servers: _Ints) -> Spread:
        """Return the answer with so many workers and servers on each of these machines, which may be none."""
        held = (workers > 0) | (servers > 0)
        rows, w, s = machines[held], workers[held], servers[held]
        # A machine without workers may be one where workers may not be, at an infinite price.
        cost = float(self.view.worker_price[rows[w > 0]] @ w[w > 0] + self.view.server_price[rows[s > 0]] @ s[s > 0])
        return Spread(cost=cost, machines=rows, workers=w, servers=s)


class _Program:
    """The mixed packing and covering program for W workers and S servers, over some of the machines."""

    def __init__(self, problem: SlotProblem, workers: int, servers: int, *, unit: float) -> None:
        self.problem = problem
        self.wanted = (workers, servers)
        #: utility, about what one worker or server costs
        self.unit = unit
        view, job = problem.view, problem.job
        chosen = np.zeros(len(view.free), dtype=np.bool_)
        for wanted, order, upto in (
            (workers, problem.order_w, problem.upto_w),
            (servers, problem.order_s, problem.upto_s),
        ):
            chosen[order[: int(np.searchsorted(upto, 2 * wanted)) + 1]] = True
        self.useful = (problem.holds_w > 0) | (problem.holds_s > 0)
        self.demand = np.stack([job.worker, job.server])
        self._choose(chosen)

    def _choose(self, chosen: NDArray[np.bool_]) -> None:
        problem = self.problem
        view = problem.view
        self.machines = np.flatnonzero(chosen & self.useful)
        rows = self.machines
        #: (2, n): workers, then servers
        self.holds = np.stack([problem.holds_w[rows], problem.holds_s[rows]])
        price = np.stack([view.worker_price[rows], view.server_price[rows]])
        self.price = np.where(np.isfinite(price), price, 0.0)
        self.free = view.free[rows]
        # HiGHS reckons costs to within 1e-7, and prices may be far below; so costs are in units of what is paid.
        self.scaled = self.price.ravel() / self.unit

    def exact(self) -> Spread | None:
        """Return the optimum of the integer program over all machines."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - only plans need it

        self._choose(np.ones_like(self.useful))
        matrix, limits = self._rows()
        found = milp(
            self.scaled,
            integrality=np.ones(self.price.size),
            bounds=Bounds(0, self.holds.ravel()),
            constraints=LinearConstraint(matrix, -np.inf, limits),
            options={"mip_rel_gap": 0.0},
        )
        return None if found.x is None else self._spread(np.rint(found.x).astype(np.int64).reshape(2, -1))

    def rounded(self, random: np.random.Generator) -> Spread | None:
        """Return the cheapest of several roundings of the linear program."""
        best = self._relaxed()
        if best is None:
            return None
        settings = self.problem.settings
        drawn = rounded(best, settings.gain, random.random((settings.trials, *best.shape)))
        costs = (drawn * self.price).sum(axis=(1, 2))
        holding = next((trial for trial in np.argsort(costs, kind="stable") if self._holds(drawn[trial])), None)
        if not settings.repair:
            return None if holding is None else self._spread(drawn[holding])
        tried = np.unique(drawn[:_MENDED] if holding is None else drawn[holding : holding + 1], axis=0)
        mended = [one for one in map(self._mended, tried) if one is not None]
        if not mended:
            return None
        return min((self._spread(one) for one in mended), key=lambda spread: spread.cost)

    def _relaxed(self) -> _Floats | None:
        """Return the linear program's optimum, (2, n), or None. Widens the choice of machines until it is optimal."""
        from scipy.optimize import linprog  # noqa: PLC0415 - only plans need it

        view = self.problem.view
        while True:
            matrix, limits = self._rows()
            bounds = np.stack([np.zeros(self.holds.size), self.holds.ravel()], axis=1)
            found: Any = linprog(self.scaled, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
            chosen = np.zeros_like(self.useful)
            chosen[self.machines] = True
            if found.x is None:
                missing = self.useful & ~chosen
            else:
                cover_w, cover_s, most = found.ineqlin.marginals[:3]
                gains = (view.worker_price / self.unit + cover_w - most < -_REACHED) & (self.problem.holds_w > 0)
                gains |= (view.server_price / self.unit + cover_s < -_REACHED) & (self.problem.holds_s > 0)
                missing = gains & ~chosen
            if not missing.any():
                return None if found.x is None else np.asarray(found.x, dtype=np.float64).reshape(2, -1)
            self._choose(chosen | missing)

    def _rows(self) -> tuple[_Floats, _Floats]:
        """Return matrix and limits of all rows, each as "at most": W and S covered, no more than F workers, packing."""
        machines = len(self.machines)
        head = np.zeros((3, 2 * machines))
        head[0, :machines] = head[1, machines:] = -1.0
        head[2, :machines] = 1.0
        workers, servers = self.wanted
        blocks = [head]
        limits = [np.array([-workers, -servers, self.problem.job.batch], dtype=np.float64)]
        for resource, (alpha, beta) in enumerate(self.demand.T):
            # With one of both only, the bounds of the variables say it already.
            if alpha > 0 and beta > 0:
                blocks.append(np.hstack([alpha * np.eye(machines), beta * np.eye(machines)]))
                limits.append(self.free[:, resource])
        return np.vstack(blocks), np.concatenate(limits)

    def _holds(self, counts: _Ints) -> bool:
        return bool((counts.sum(axis=1) >= self.wanted).all()) and self._packs(counts)

    def _packs(self, counts: _Ints) -> bool:
        taken = counts.T @ self.demand
        within = bool((counts <= self.holds).all() and (taken <= self.free + SLACK * taken).all())
        return within and int(counts[0].sum()) <= self.problem.job.batch

    def _mended(self, counts: _Ints) -> _Ints | None:
        """Return counts that hold, made from these, or None."""
        counts = np.minimum(counts, self.holds)
        taken = counts.T @ self.demand
        for machine in map(int, np.flatnonzero((taken > self.free + SLACK * taken).any(axis=1))):
            # The dearer kind is reduced first where there is too much.
            dearer = int(self.price[1, machine] > self.price[0, machine])
            while not self._fits(counts[:, machine], machine):
                kind = dearer if counts[dearer, machine] else 1 - dearer
                counts[kind, machine] -= 1
        # Servers first: there are fewer of them, and a job without one cannot run.
        for kind in (1, 0):
            self._give_back(counts, kind)
            missing = self.wanted[kind] - int(counts[kind].sum())
            for machine in np.argsort(self.price[kind], kind="stable"):
                added = min(missing, self._more(counts[:, machine], kind, int(machine)))
                counts[kind, machine] += added
                missing -= added
                if not missing:
                    break
            if missing:
                return None
        return counts

    def _give_back(self, counts: _Ints, kind: int) -> None:
        """Take what is more than wanted from the dearest machines."""
        surplus = int(counts[kind].sum()) - self.wanted[kind]
        for machine in np.argsort(-self.price[kind], kind="stable"):
            if surplus <= 0:
                break
            gone = min(surplus, int(counts[kind, machine]))
            counts[kind, machine] -= gone
            surplus -= gone

    def _more(self, held: _Ints, kind: int, machine: int) -> int:
        """Return how many more of a kind the machine can take."""
        amounts = self.demand[kind]
        takes = amounts > 0
        left = self.free[machine] - held @ self.demand
        holds = int(np.floor((left[takes] / amounts[takes]).min() + SLACK))
        return max(min(holds, int(self.holds[kind, machine] - held[kind])), 0)

    def _fits(self, held: _Ints, machine: int) -> bool:
        taken = held @ self.demand
        return bool((taken <= self.free[machine] + SLACK * taken).all())

    def _spread(self, counts: _Ints) -> Spread:
        return self.problem.answer(self.machines, counts[0], counts[1])
