"""Price of each node for one demand: the victims that must leave there, cheapest first.

Definitions
    single      on a node where the job fits once one more has left: the cheapest such
    several     on any other node: the cheapest first until it fits, less those that turn out not to be needed, or fewer
                dear ones (`fewest.py`)
    promising   of the nodes where several must go: by how many would go if none were given back, then by their scores

Principle
    Of many waiting TE jobs most want the same, and a plan changes one node or a few. So the
    prices are worked out for all nodes once, and after a plan for the nodes that it has changed. A node's price depends
    on what is free there and on the candidates there alone, so that both ways give the same.

Bound
    For a job for which several must go on each node, `MOST_WEIGHED` nodes are compared, the most promising ones.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.columns import Running
from tesched_core.placement.demand import Demand
from tesched_core.placement.fewest import fewest_that_free

#: Nodes that are weighed one by one for a job for which several victims must go; more cost time and gain nothing.
MOST_WEIGHED = 200
#: promising nodes that are kept in order, and those that are weighed before they are needed: a plan removes few
_KEPT, _AHEAD = 1000, 100
#: nodes that have changed at once above which the most promising ones are found anew
_MANY = 100
#: how promising a node is: jobs that would go but for one, the sum of their scores, its row
_Promise: TypeAlias = tuple[int, float, int]
#: number of victims, the sum of their scores, the lowest job id, the node's row
_Price: TypeAlias = tuple[int, float, int, int]
#: a node's price, and the victims there in the order in which they are notified
_Priced: TypeAlias = tuple[_Price, tuple[int, ...]]
_ALL = slice(None)
_NO_PRICE: _Priced = (0, 0.0, 0, -1), ()


class ByNode:
    """The shares of the running jobs by node, and on each node in the order in which candidates are notified."""

    def __init__(self, running: Running, score: NDArray[np.float64], nodes: int) -> None:
        """Sort them by `score` [running]; there are so many `nodes`."""
        place = np.empty(len(running), dtype=np.intp)
        place[np.lexsort((running.job_id, score))] = np.arange(len(running))
        self.running = running
        self.score = score
        self.shares = np.lexsort((place[running.share_job], running.share_node))
        self._where = running.share_node[self.shares]
        self._first = np.searchsorted(self._where, np.arange(nodes + 1))

    def repriced(self, score: NDArray[np.float64], nodes: NDArray[np.intp]) -> ByNode:
        """Return the same by another `score` [running], which differs for jobs on these nodes alone."""
        new = object.__new__(ByNode)
        new.__dict__.update(self.__dict__)
        new.score, new.shares = score, self.shares.copy()
        places = self._places(nodes)
        shares = self.shares[places]
        jobs = self.running.share_job[shares]
        new.shares[places] = shares[np.lexsort((self.running.job_id[jobs], score[jobs], self._where[places]))]
        return new

    def on(self, nodes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the shares on some nodes, node by node."""
        if len(nodes) * 8 < len(self._first):
            found: NDArray[np.intp] = self.shares[self._places(nodes)]
            return found
        there = np.zeros(len(self._first) - 1, dtype=np.bool_)
        there[nodes] = True
        return self.shares[there[self._where]]

    def _places(self, nodes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the places in `shares` of those on some nodes, node by node."""
        first = self._first[nodes]
        counts = self._first[nodes + 1] - first
        places: NDArray[np.intp] = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        return places


def fit_alone(
    demand: Demand, running: Running, free: NDArray[np.int64], shares: NDArray[np.intp] | slice = _ALL
) -> NDArray[np.bool_]:
    """Return for each of some shares (or of all) whether the job may run on its node, and fits once it is free."""
    where = running.share_node[shares]
    return demand.fits_into(free[where] + running.frees[shares], where) & demand.allowed[where]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Candidates:
    """Shares of candidates on some nodes, node by node and in order."""

    shares: NDArray[np.intp]
    #: [shares] the job's row, and the node's
    jobs: NDArray[np.intp]
    where: NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cheapest:
    """The cheapest candidates with which the job fits on a node, of each node where it fits if all of them leave."""

    #: [nodes] rows
    nodes: NDArray[np.intp]
    #: [nodes] places of the first and the last of them, and where the next node's candidates begin
    first: NDArray[np.intp]
    last: NDArray[np.intp]
    end: NDArray[np.intp]
    #: [nodes, resources] what is free once they have left
    free: NDArray[np.int64]
    #: [nodes] sum of their scores
    score: NDArray[np.float64]


class NodePrices:
    """Prices of the nodes for one demand, of candidates in one order."""

    def __init__(  # noqa: PLR0917 - what a search is given
        self,
        demand: Demand,
        by_node: ByNode,
        free: NDArray[np.int64],
        pool: NDArray[np.bool_],
        fitting: NDArray[np.bool_],
        alone: NDArray[np.bool_],
    ) -> None:
        """Work them out; `free` is [nodes, resources], `pool` [running] says who may be a victim.

        `fitting` [nodes] and `alone` [shares] (`fit_alone`) hold whatever the prices are.
        """
        nodes = len(free)
        self.demand = demand
        #: [nodes] whether the job fits without a victim
        self.fitting = fitting.copy()
        self._by_node, self._running, self._score = by_node, by_node.running, by_node.score
        self._free, self._pool = free, pool
        #: [nodes] where it may run, and is not yet to run
        self._open = demand.allowed.copy()
        #: [nodes] the row of the single victim that is enough, or -1
        self._single = np.full(nodes, -1, dtype=np.intp)
        #: [nodes] its score; infinite where there is none
        self._single_score = np.full(nodes, np.inf)
        #: [nodes] how promising each is, -1: it isn't; None: not needed so far
        self._counts: NDArray[np.intp] | None = None
        self._sums = np.zeros(nodes)
        #: the most promising ones in order, and whether these are all
        self._best: list[_Promise] = []
        self._has_all = False
        #: victims on nodes where several must go, as far as they were needed
        self._several: dict[int, _Priced | None] = {}
        #: the nodes that are compared where several must go; None: to be found
        self._weighed: list[int] | None = None
        shares = by_node.shares[alone[by_node.shares]]
        jobs, where = self._running.share_job[shares], self._running.share_node[shares]
        kept = pool[jobs] & ~fitting[where]
        self._take_singles(where[kept], jobs[kept])

    def copy(self) -> NodePrices:
        """Return prices that change by themselves."""
        new = object.__new__(NodePrices)
        new.__dict__.update(self.__dict__)
        new.fitting, new._open = self.fitting.copy(), self._open.copy()
        new._single, new._single_score = self._single.copy(), self._single_score.copy()
        new._counts, new._sums = None if self._counts is None else self._counts.copy(), self._sums.copy()
        new._best, new._several = [*self._best], {**self._several}
        new._weighed = None if self._weighed is None else [*self._weighed]
        return new

    def reprice(self, by_node: ByNode, nodes: NDArray[np.intp]) -> None:
        """Go by the prices of `by_node`, which are others for jobs on these nodes alone."""
        self._by_node, self._score = by_node, by_node.score
        self.update(nodes, self._free, self._pool)

    def update(self, nodes: NDArray[np.intp], free: NDArray[np.int64], pool: NDArray[np.bool_]) -> None:
        """Take in what is free now, and who may be a victim, where that has changed on these nodes alone."""
        self._free, self._pool = free, pool
        nodes = nodes[self._open[nodes]]
        if len(nodes):
            self._weighed = None
            if len(nodes) > _MANY:
                self._best, self._has_all = [], False
            self._forget(nodes)
            self._work_out(nodes)

    def close(self, node: int) -> None:
        """Leave out a node that the job has already. Nodes that are compared where several must go stay the same."""
        self._forget(np.array([node], dtype=np.intp))
        self._open[node] = False
        if self._weighed is not None and node in self._weighed:
            self._weighed.remove(node)

    def cheapest(self) -> tuple[int, tuple[int, ...]] | None:
        """Return the cheapest node and its victims; None if not all that may be victims are enough anywhere."""
        if self.fitting.any():
            return int(np.argmax(self.fitting)), ()
        nodes = np.flatnonzero((self._single_score == self._single_score.min(initial=np.inf)) & (self._single >= 0))
        if len(nodes):
            node = int(nodes[np.argmin(self._running.job_id[self._single[nodes]])])
            return node, (int(self._single[node]),)
        if self._weighed is None:
            self._weighed = [node for _, _, node in self._most_promising()]
            if any(node not in self._several for node in self._weighed):
                self._weigh([node for _, _, node in self._best[: MOST_WEIGHED + _AHEAD]])
        return _least([self._several[node] for node in self._weighed])

    def cheapest_of(self, nodes: Iterable[int]) -> tuple[int, tuple[int, ...]] | None:
        """Return the same of these nodes alone."""
        nodes = list(nodes)
        self._weigh(nodes)
        return _least([self._priced(node) for node in nodes])

    def _priced(self, node: int) -> _Priced | None:
        if self.fitting[node]:
            return (0, 0.0, 0, node), ()
        single = int(self._single[node])
        return self._price(node, (single,)) if single >= 0 else self._several[node]

    def _price(self, node: int, victims: tuple[int, ...]) -> _Priced:
        first = min(int(self._running.job_id[victim]) for victim in victims)
        return (len(victims), sum(float(self._score[victim]) for victim in victims), first, node), victims

    def _forget(self, nodes: NDArray[np.intp]) -> None:
        """Forget what was worked out of these nodes, as if the job might not run there."""
        self.fitting[nodes] = False
        self._single[nodes], self._single_score[nodes] = -1, np.inf
        for node in nodes.tolist() if self._several else ():
            self._several.pop(node, None)
        if self._counts is None:
            return
        of_each = self._counts[nodes].tolist(), self._sums[nodes].tolist(), nodes.tolist()
        for promise in zip(*of_each, strict=True) if self._best else ():
            place = bisect_left(self._best, promise)
            if self._best[place : place + 1] == [promise]:
                del self._best[place]
        self._counts[nodes] = -1

    def _work_out(self, nodes: NDArray[np.intp]) -> None:
        """Work out where the job fits at once or after one more has left, of these nodes that were forgotten."""
        self.fitting[nodes] = self.demand.fits_into(self._free[nodes], nodes)
        there = self._candidates_on(nodes)
        then = self._free[there.where] + self._running.frees[there.shares]
        enough = self.demand.fits_into(then, there.where) & ~self.fitting[there.where]
        self._take_singles(there.where[enough], there.jobs[enough])
        if self._counts is not None:
            self._promise(there, self._counts)

    def _take_singles(self, where: NDArray[np.intp], jobs: NDArray[np.intp]) -> None:
        """Take in candidates of which each is enough on its node, the cheapest of a node first."""
        # The cheapest comes last, so that it stays.
        self._single[where[::-1]] = jobs[::-1]
        self._single_score[where] = self._score[self._single[where]]

    def _candidates_on(self, nodes: NDArray[np.intp]) -> _Candidates:
        shares = self._by_node.on(nodes)
        jobs = self._running.share_job[shares]
        kept = self._pool[jobs]
        shares = shares[kept]
        return _Candidates(shares=shares, jobs=jobs[kept], where=self._running.share_node[shares])

    def _cheapest_first(self, there: _Candidates) -> _Cheapest:
        """Let the cheapest of a node's candidates leave until the job fits there."""
        where = there.where
        begins = np.ones(len(where), dtype=np.bool_)
        begins[1:] = where[1:] != where[:-1]
        first = np.flatnonzero(begins)
        end = np.append(first[1:], len(where))[: len(first)]
        number = np.repeat(np.arange(len(first)), end - first)
        frees = self._running.frees[there.shares]
        free = np.cumsum(frees, axis=0)
        free += (self._free[where[first]] - free[first] + frees[first])[number]
        last = np.full(len(first), -1, dtype=np.intp)
        enough = np.flatnonzero(self.demand.fits_into(free, where))[::-1]
        last[number[enough]] = enough
        found = last >= 0
        # One by one, so that rounding on a node is the same whatever other nodes there are.
        going = np.arange(len(where)) <= last[number]
        scores = self._score[there.jobs[going]]
        score = np.bincount(number[going], weights=scores, minlength=len(first)).astype(np.float64)
        first, last, end = first[found], last[found], end[found]
        return _Cheapest(nodes=where[first], first=first, last=last, end=end, free=free[last], score=score[found])

    def _promise(self, there: _Candidates, counts: NDArray[np.intp]) -> None:
        """Work out how promising the nodes of these candidates are, and put them in order."""
        cheapest = self._cheapest_first(there)
        counts[cheapest.nodes] = cheapest.last - cheapest.first
        self._sums[cheapest.nodes] = cheapest.score
        if not self._best and not self._has_all:
            return
        of_each = counts[cheapest.nodes].tolist(), cheapest.score.tolist(), cheapest.nodes.tolist()
        for promise in zip(*of_each, strict=True):
            if self._has_all or promise < self._best[-1]:
                insort(self._best, promise)

    def _most_promising(self) -> list[_Promise]:
        """Return at most `MOST_WEIGHED` nodes on which the job would fit if cheap ones went, best first."""
        counts = self._counts
        if counts is None:
            counts = self._counts = np.full(len(self._open), -1, dtype=np.intp)
            self._promise(self._candidates_on(np.flatnonzero(self._open)), counts)
        if len(self._best) < MOST_WEIGHED and not self._has_all:
            nodes = np.flatnonzero(counts >= 0)
            count = len(nodes)
            if count > _KEPT:  # those that are sorted at all
                nodes = nodes[counts[nodes] <= np.partition(counts[nodes], _KEPT)[_KEPT]]
            order = nodes[np.lexsort((self._sums[nodes], counts[nodes]))[:_KEPT]]
            self._best = [*zip(counts[order].tolist(), self._sums[order].tolist(), order.tolist(), strict=True)]
            self._has_all = len(order) == count
        return self._best[:MOST_WEIGHED]

    def _weigh(self, nodes: Iterable[int]) -> None:
        """Find the victims on each of these nodes where several must go: cheap ones, none of them superfluous.

        Where fewer are enough, those.
        """
        new = np.array([node for node in nodes if node not in self._several], dtype=np.intp)
        new = new[~self.fitting[new] & (self._single[new] < 0)]
        self._several |= dict.fromkeys(new.tolist())
        there = self._candidates_on(new)
        cheapest = self._cheapest_first(there)
        rows, left, frees = cheapest.nodes, cheapest.free.copy(), self._running.frees
        stays = np.zeros(len(there.shares), dtype=np.bool_)
        for back in range(int((cheapest.last - cheapest.first).max(initial=-1)) + 1):  # dearest first
            places = cheapest.last - back
            some = np.flatnonzero(places >= cheapest.first)
            without = left[some] - frees[there.shares[places[some]]]
            superfluous = self.demand.fits_into(without, rows[some])
            left[some[superfluous]] = without[superfluous]
            stays[places[some[superfluous]]] = True
        self._keep_prices(there, cheapest, stays)

    def _keep_prices(self, there: _Candidates, cheapest: _Cheapest, stays: NDArray[np.bool_]) -> None:
        """Keep the price of each of these nodes: of the cheapest candidates but for those that stay, or of fewer."""
        if not len(cheapest.nodes):
            return
        counts = cheapest.last - cheapest.first + 1
        number = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(len(number)) - (np.cumsum(counts) - counts - cheapest.first)[number]
        leaves = ~stays[places]
        number, places = number[leaves], places[leaves]
        jobs = there.jobs[places]
        counts = np.bincount(number, minlength=len(counts))
        sums = np.bincount(number, weights=self._score[jobs])
        begins = np.cumsum(counts) - counts
        first_ids = np.minimum.reduceat(self._running.job_id[jobs], begins)
        nodes, leaving = cheapest.nodes.tolist(), jobs.tolist()
        prices = zip(counts.tolist(), sums.tolist(), first_ids.tolist(), nodes, strict=True)
        victims = (
            tuple(leaving[begin:end]) for begin, end in zip(begins.tolist(), np.cumsum(counts).tolist(), strict=True)
        )
        self._several.update(zip(nodes, zip(prices, victims, strict=True), strict=True))
        for place in np.flatnonzero(counts > 2).tolist():
            fewer = self._fewer(there, cheapest, place, less_than=int(counts[place]))
            if fewer:
                self._several[nodes[place]] = self._price(nodes[place], fewer)

    def _fewer(self, there: _Candidates, cheapest: _Cheapest, place: int, *, less_than: int) -> tuple[int, ...]:
        """Return fewer candidates of one of the nodes that are enough there, or none."""
        node, some = int(cheapest.nodes[place]), slice(cheapest.first[place], cheapest.end[place])
        jobs, wanted = there.jobs[some], self.demand.takes[node] - self._free[node]
        frees = self._running.frees[there.shares[some]]
        return tuple(jobs[[*fewest_that_free(wanted, frees, self._score[jobs], less_than=less_than)]].tolist())


def _least(priced: Iterable[_Priced | None]) -> tuple[int, tuple[int, ...]] | None:
    """Return the cheapest node and its victims; None if no node has a price."""
    (_, _, _, node), victims = min((one for one in priced if one is not None), default=_NO_PRICE)
    return None if node < 0 else (node, victims)
