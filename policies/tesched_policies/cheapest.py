"""Search for one TE job over all the ways to give it its nodes: partition by partition, with one victim or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.capacity import Capacity
from tesched_core.model.columns import Running
from tesched_core.model.resources import JobId
from tesched_core.placement.demand import Demand
from tesched_core.placement.spread import fewer_may_do, spreads

from tesched_policies.among_equals import Prices
from tesched_policies.candidates import Candidates
from tesched_policies.ground import FoundVictims, Ground


def cheapest_victims(
    ground: Ground, candidates: Candidates, pool: NDArray[np.bool_], asker: str, prices: Prices
) -> tuple[tuple[Demand, FoundVictims] | None, bool, Prices]:
    """Return the cheapest victims, whether only such may leave for nothing, and the prices that they go by."""
    return _Asking(ground=ground, candidates=candidates, pool=pool, asker=asker).no_more_for_the_steps(prices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """All that a search for one TE job needs."""

    ground: Ground
    candidates: Candidates
    #: [running] who may be a victim
    pool: NDArray[np.bool_]
    #: the TE user that has fewer eligible victims
    asker: str

    def no_more_for_the_steps(self, prices: Prices) -> tuple[tuple[Demand, FoundVictims] | None, bool, Prices]:
        """Cheapest victims by the policy's own price alone where fewer leave so, else by steps.

        In an order by steps many own jobs may come before the one of another's that is enough.
        """
        ground = self.ground
        pair, may_shrink = self._cheapest(prices.price)
        count = len(pair[1].victims) if pair else 0
        least = (ground.least(one, self.pool) for one in self.candidates.any)
        if prices.steps is None or not (may_shrink or (count > 1 and min(least) < count)):
            return pair, may_shrink, prices
        other, _ = self._cheapest(prices.score)
        if other is None or (pair and count <= len(other[1].victims)):
            return pair, may_shrink, prices
        return other, False, Prices(score=prices.score, price=prices.score)

    def _cheapest(self, price: NDArray[np.float64]) -> tuple[tuple[Demand, FoundVictims] | None, bool]:
        """Return the fewest and cheapest victims, and whether there are only such as may leave for nothing.

        With a fixed number of nodes the job is bound to, it starts there; its victims have to leave while it is bound.
        """
        ground, candidates = self.ground, self.candidates
        found = self._all(candidates.fixed, candidates.any, price) if candidates.fixed else []
        certain = [pair for pair in found if self._leave_within(pair[1], candidates.bound_for_s)]
        if not certain:
            as_asked = self._all(candidates.as_asked, candidates.as_asked, price)
            certain = [pair for pair in as_asked if not _may_shrink(pair, ground.capacity, ground.running)]
            found += as_asked
        if not certain:
            return None, bool(found)
        return min(certain, key=lambda pair: _price(pair[1], price)), False

    def _all(
        self, demands: Sequence[Demand], uneven: Sequence[Demand], price: NDArray[np.float64]
    ) -> list[tuple[Demand, FoundVictims]]:
        """Return victims for each of the demands, and unevenly spread where one victim is not enough."""
        ground, asker = self.ground, self.asker
        answers: list[tuple[Demand, FoundVictims]] = []
        for one in demands:  # each partition alone, as Slurm tries them
            if any(one.nodes > demand.nodes and len(found.victims) == 1 for demand, found in answers):
                break  # no larger number of nodes costs less
            hopeless = ground.hopeless(one)
            if asker not in hopeless:
                victims = ground.search(one, self.pool, price)
                if victims is None:
                    hopeless[asker] = None
                else:
                    answers.append((one, victims))
        if min((len(found.victims) for _, found in answers), default=2) > 1:
            for demand in uneven:
                for one in spreads(demand, ground.capacity, ground.running, self.pool):
                    victims = ground.search(one, self.pool, price)
                    if victims is not None:
                        answers.append((one, victims))
        return answers

    def _leave_within(self, found: FoundVictims, limit_s: float) -> bool:
        """Check whether victims that save their work have left by then; one that is ending is awaited in any case."""
        view = self.ground.view
        jobs = (JobId(int(view.running.job_id[row])) for row in found.victims)
        traits = (view.snapshot.traits[job_id] for job_id in jobs)
        return all(not one.notice_signal or one.grace_period_s <= limit_s for one in traits)


def _may_shrink(pair: tuple[Demand, FoundVictims], capacity: Capacity, running: Running) -> bool:
    demand, found = pair
    return bool(found.victims) and fewer_may_do(demand, found.nodes, capacity, running, found.victims)


def _price(found: FoundVictims, score: NDArray[np.float64]) -> tuple[int, float]:
    return len(found.victims), sum(float(score[row]) for row in found.victims)
