"""Ground of one cycle's plans: what is free and who may still be a victim, and what was found out about it.

Many waiting TE jobs want the same. What depends on the kind of a job alone is worked out once a kind; what depends on
what is free, once until a plan changes that, and then anew for the nodes that the plan has changed
(`placement/node_prices.py`). An answer stands until a plan changes a node where the job may run (`until_touched.py`).
What a TE user's own jobs make cheaper is worked out for their nodes alone; all else is what strangers pay. A memo of
pure functions: with it and without, the plans are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job
from tesched_core.model.columns import Running
from tesched_core.placement.demand import Demand, share_of
from tesched_core.placement.eligibility import Eligibility
from tesched_core.placement.fewest import fewest_of, least_on
from tesched_core.placement.node_prices import ByNode, NodePrices, fit_alone
from tesched_core.policy import View

from tesched_policies.among_equals import Prices, price_for_strangers, prices_for
from tesched_policies.candidates import Candidates, candidates_of, counts_for_candidates, first_free
from tesched_policies.ledger import Ledger
from tesched_policies.until_touched import UntilTouched

#: what is found for strangers is taken over for a TE user whose own jobs are on fewer than every fourth node
FEW = 4

T = TypeVar("T")
K = TypeVar("K")


class FoundVictims(NamedTuple):
    """Victims, as rows of `Running` in the order in which they are notified, and the nodes that they free, as rows."""

    victims: tuple[int, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VictimQuestion:
    """Question to a search: the victims for one demand."""

    demand: Demand
    running: Running
    #: [running] who may be a victim, and each one's price
    pool: NDArray[np.bool_]
    score: NDArray[np.float64]
    capacity: Capacity
    #: prices of the nodes for it, which are others' too: a search that changes them takes a copy
    prices: Callable[[], NodePrices]
    #: [nodes] numbers of victims below which no set of them is enough there (`placement/fewest.py`)
    least: Callable[[], NDArray[np.int64]]


#: Finds victims, and the nodes that they free; None if there is no such set.
Search: TypeAlias = Callable[[VictimQuestion], FoundVictims | None]


@dataclass(slots=True, kw_only=True, eq=False)
class _Kept(Generic[T]):
    """Answer by node, as it was after some plans."""

    value: T
    ledger: Ledger
    plans: int


class Ground:
    """The ground of one policy's plans."""

    def __init__(self, view: View, search: Search, *, drawn: bool) -> None:
        """Begin without a plan."""
        self._search, self._drawn = search, drawn
        self._capacity = view.capacity_after_orders
        #: kinds of jobs by number, and the kind of each job by its identity
        self._kinds: dict[Hashable, int] = {}
        self._kind_of_job: dict[int, tuple[Job, int | None]] = {}
        #: the candidates of each kind, and [nodes] where these may run
        self._candidates: dict[int, tuple[Candidates, NDArray[np.bool_]]] = {}
        #: identities of the demands of these
        self._lasting: set[int] = set()
        self._score: NDArray[np.float64] | None = None
        self._prices: dict[tuple[str, str], Prices] = {}
        self._by_node: dict[int, ByNode] = {}
        #: what jobs cost TE users of whose own none runs; and nodes where they cost others less, by that price
        self._strangers: NDArray[np.float64] | None = None
        self._own_nodes: dict[int, NDArray[np.intp]] = {}
        #: masks of the running jobs that may be victims before the first plan, each once
        self._masks: dict[bytes, NDArray[np.bool_]] = {}
        #: by the identities of a demand, a price and a mask
        self._nodes: dict[tuple[int, int, int], _Kept[NodePrices]] = {}
        #: by the identities of a demand and a mask
        self._least: dict[tuple[int, int], _Kept[NDArray[np.int64]]] = {}
        #: numbers of the shapes of demands, and of those that last, by their identities
        self._shapes: dict[tuple[object, ...], int] = {}
        self._shape_of: dict[int, int] = {}
        #: by a demand's identity: where it fits
        self._fitting: dict[int, _Kept[NDArray[np.bool_]]] = {}
        #: by a demand's identity: which shares are enough by themselves
        self._alone: dict[int, _Kept[NDArray[np.bool_]]] = {}
        self.begin(view)

    @staticmethod
    def of(view: View, search: Search, *, drawn: bool) -> Ground:
        """Return the ground without a plan, with what was found when the policy proposed for this view before.

        `drawn`: scores are draws from 0 to 1.
        """
        key = Ground, search, drawn
        found = view.kept.get(key)
        if isinstance(found, Ground) and found.is_of(view):
            found.begin(view)
        else:
            found = view.kept[key] = Ground(view, search, drawn=drawn)
        return found

    def is_of(self, view: View) -> bool:
        """Check whether the view is of the same moment."""
        mine = self.view
        return (
            mine.snapshot is view.snapshot
            and mine.columns is view.columns
            and mine.memory is view.memory
            and mine.limits is view.limits
            and mine.reserving is view.reserving
        )

    def begin(self, view: View) -> None:
        """Begin anew without a plan, for some of the same TE jobs."""
        self.view = view
        self.running = view.running
        self.ledger = Ledger(running=view.running, capacity=self._capacity)
        self.capacity = self._capacity
        self._eligible: dict[int, tuple[Eligibility, NDArray[np.bool_]]] = {}
        #: who is left of each mask, by its identity; and back
        self._pools: dict[int, NDArray[np.bool_]] = {}
        #: and how many these are, by the identity of who is left
        self._left: dict[int, int] = {}
        self._mask_of: dict[int, int] = {}
        #: what was found, by kind of job, since a plan has last changed a node where these may run
        self._answers = UntilTouched[Hashable, object]()
        #: by shape: the TE users with fewer eligible victims that have none for it
        self._hopeless = UntilTouched[str, None]()

    def plan(self, demand: Demand, found: FoundVictims, *, stay: bool) -> None:
        """Take in a plan: its victims go, unless they `stay` for now, and the job comes."""
        running, nodes, by = self.running, [np.array(found.nodes, dtype=np.intp)], [-share_of(demand, found.nodes)]
        for victim in found.victims:
            shares = running.shares_of(victim)
            nodes.append(running.share_node[shares])
            by.append(np.zeros_like(running.frees[shares]) if stay else running.frees[shares])
        touched = self.ledger.add(np.concatenate(nodes), np.concatenate(by), found.victims)
        self.capacity = self.ledger.capacity_at(self.ledger.plans)
        self._answers.touch(touched)
        self._hopeless.touch(touched)
        victims = list(found.victims)
        for pool in self._pools.values() if victims else ():
            self._left[id(pool)] -= int(np.count_nonzero(pool[victims]))
            pool[victims] = False

    def of_kind(self, kind: int, key: Hashable, work_out: Callable[[], T]) -> T:
        """Answer under this key for a kind of jobs, worked out once until a plan changes a node where they may run."""
        answers = self._answers.group(kind, self._candidates[kind][1])
        if key not in answers:
            answers[key] = work_out()
        found: T = answers[key]  # type: ignore[assignment]  # as it was worked out under this key
        return found

    def hopeless(self, demand: Demand) -> dict[str, None]:
        """TE users with fewer eligible victims that have none for such a demand now, to be added to."""
        return self._hopeless.group(self._number_of(demand), demand.allowed)

    def candidates(self, job: Job) -> tuple[Candidates, int | None]:
        """Return the ways to give the job its nodes, and the number of its kind; None: it has none.

        Raises UnsupportedRequestError for a request that is not modelled.
        """
        kind = self._kind_of(job)
        known = None if kind is None else self._candidates.get(kind)
        if known is not None:
            found = known[0]
        else:
            found = candidates_of(job, self.view, self.capacity)
            # Where there is none but on what is free, that may change.
            if kind is not None and found.any:
                self._candidates[kind] = found, found.where
                self._lasting.update(id(demand) for demand in found.any + found.by_itself)
        return found, kind if found.any else None

    def _number_of(self, demand: Demand) -> int:
        """Return the number of the demand's shape: demands share it which fit into the same places."""
        known = self._shape_of.get(id(demand))
        if known is None:
            known = self._shapes.setdefault(demand.shape, len(self._shapes))
            if id(demand) in self._lasting:
                self._shape_of[id(demand)] = known
        return known

    def _kind_of(self, job: Job) -> int | None:
        """Return the number of the kind of a job; None: it is not known which jobs have the same candidates."""
        known = self._kind_of_job.get(id(job))
        if known is None:
            key = counts_for_candidates(job, self.view, self.capacity)
            kind = None if key is None else self._kinds.setdefault(key, len(self._kinds))
            known = self._kind_of_job[id(job)] = job, kind
        return known[1]

    def at_once(self, candidates: Candidates, kind: int | None) -> tuple[Demand, tuple[int, ...]] | None:
        """Return the first demand that fits on what is free, and its nodes; None if none does."""

        def find() -> tuple[Demand, tuple[int, ...]] | None:
            by_itself = candidates.by_itself
            found = first_free(candidates.any, self.capacity, self._fits)
            return found or first_free(by_itself, self.capacity, self._fits)

        return find() if kind is None else self.of_kind(kind, first_free, find)

    def pool_of(self, eligibility: Eligibility) -> NDArray[np.bool_]:
        """Candidates, [running], of which each may still be a victim; the same object where that is the same."""
        known = self._eligible.get(id(eligibility))
        if known is None:
            mask = eligibility.may_be_asked
            mask = self._masks.setdefault(mask.tobytes(), mask)
            if id(mask) not in self._pools:
                pool = self._pools[id(mask)] = mask.copy()
                pool[self.ledger.taken] = False
                self._mask_of[id(pool)] = id(mask)
                self._left[id(pool)] = int(np.count_nonzero(pool))
            known = self._eligible[id(eligibility)] = eligibility, self._pools[id(mask)]
        return known[1]

    def left_in(self, pool: NDArray[np.bool_]) -> int:
        """Count the candidates of a pool."""
        return self._left[id(pool)]

    def prices(self, job: Job, score: NDArray[np.float64]) -> Prices:
        """Prices of the running BE jobs for this TE job, by their `score`."""
        if score is not self._score:
            if self._score is None or not np.array_equal(score, self._score):
                for known in (self._prices, self._by_node, self._nodes, self._own_nodes):
                    known.clear()
                self._strangers = None
                self._answers.clear()
            # A policy gives the same array for all jobs of a proposal: the next one is not compared.
            self._score = score
        owner = job.user, job.account
        if owner not in self._prices:
            self._prices[owner] = prices_for(job, self.view, self._score, drawn=self._drawn)
        return self._prices[owner]

    def search(self, demand: Demand, pool: NDArray[np.bool_], price: NDArray[np.float64]) -> FoundVictims | None:
        """Return victims of this pool for the demand."""
        return self._search(
            VictimQuestion(
                demand=demand,
                running=self.running,
                pool=pool,
                score=price,
                capacity=self.capacity,
                prices=lambda: self._node_prices(demand, pool, price),
                least=lambda: self._least_on(demand, pool),
            )
        )

    def _node_prices(self, demand: Demand, pool: NDArray[np.bool_], price: NDArray[np.float64]) -> NodePrices:
        free = self.capacity.free

        def begin() -> NodePrices:
            by_node = self._shares_by_node(price)
            like = self._like_strangers(price) if id(demand) in self._lasting else None
            if like is not None:
                strangers, nodes = like
                usual = self._node_prices(demand, pool, strangers)
                usual.cheapest()  # what is needed for that is needed for this, too
                found = usual.copy()
                found.reprice(by_node, nodes)
                return found
            return NodePrices(demand, by_node, free, pool, self._fits(demand), self._fits_alone(demand, by_node))

        def follow(found: NodePrices, nodes: NDArray[np.intp]) -> None:
            found.update(nodes, free, pool)

        key = id(demand), id(price), self._mask_of[id(pool)]
        return self._up_to_date(self._nodes, key, demand, begin, follow)

    def _shares_by_node(self, price: NDArray[np.float64]) -> ByNode:
        """Return the shares of the running jobs by node, in the order of this price."""
        if id(price) not in self._by_node:
            like = self._like_strangers(price)
            self._by_node[id(price)] = (
                ByNode(self.running, price, len(self.capacity.free))
                if like is None
                else self._shares_by_node(like[0]).repriced(price, like[1])
            )
        return self._by_node[id(price)]

    def _like_strangers(self, price: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp]] | None:
        """Return the price for strangers and the nodes with jobs of which this one is another; None: they are many."""
        if self._strangers is None and self._score is not None:
            self._strangers = price_for_strangers(self.view, self._score, drawn=self._drawn)
        strangers = self._strangers
        if strangers is None or price is strangers:
            return None
        if id(price) not in self._own_nodes:
            differ = np.zeros(len(self.capacity.free), dtype=np.bool_)
            differ[self.running.share_node[(price != strangers)[self.running.share_job]]] = True
            self._own_nodes[id(price)] = np.flatnonzero(differ)
        nodes = self._own_nodes[id(price)]
        return (strangers, nodes) if len(nodes) * FEW < len(self.capacity.free) else None

    def _fits_alone(self, demand: Demand, by_node: ByNode) -> NDArray[np.bool_]:
        """Return [shares] whether the demand fits on its node once that share is free; `by_node` of any prices."""
        running, free = self.running, self.capacity.free

        def follow(found: NDArray[np.bool_], nodes: NDArray[np.intp]) -> None:
            shares = by_node.on(nodes)
            found[shares] = fit_alone(demand, running, free, shares)

        return self._up_to_date(self._alone, id(demand), demand, partial(fit_alone, demand, running, free), follow)

    def least(self, demand: Demand, pool: NDArray[np.bool_]) -> int:
        """Return a number of victims below which no set of them is enough (`placement/fewest.py`)."""
        if demand.uneven is not None:
            return 0
        return fewest_of(demand, self._least_on(demand, pool))

    def _least_on(self, demand: Demand, pool: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return [nodes] such a number for each of them."""
        find = partial(least_on, demand, self.running, pool, self.capacity)

        def follow(found: NDArray[np.int64], nodes: NDArray[np.intp]) -> None:
            by_node = next(iter(self._by_node.values()), None)
            found[nodes] = find(nodes, None if by_node is None else by_node.on(nodes))

        key = id(demand), self._mask_of[id(pool)]
        return self._up_to_date(self._least, key, demand, find, follow)

    def _fits(self, demand: Demand) -> NDArray[np.bool_]:
        """Return [nodes] whether the demand fits on what is free."""

        def follow(found: NDArray[np.bool_], nodes: NDArray[np.intp]) -> None:
            found[nodes] = demand.fits(self.capacity, nodes)

        return self._up_to_date(self._fitting, id(demand), demand, partial(demand.fits, self.capacity), follow)

    def _up_to_date(
        self,
        kept: dict[K, _Kept[T]],
        key: K,
        demand: Demand,
        begin: Callable[[], T],
        follow: Callable[[T, NDArray[np.intp]], None],
    ) -> T:
        """Answer that is kept for a demand, after it has followed the plans."""
        if id(demand) not in self._lasting:
            return begin()
        ledger, one = self.ledger, kept.get(key)
        if one is None:
            one = kept[key] = _Kept(value=begin(), ledger=ledger, plans=ledger.plans)
        elif one.ledger is not ledger or one.plans != ledger.plans:
            follow(one.value, ledger.nodes_since(one.ledger, one.plans))
            one.ledger, one.plans = ledger, ledger.plans
        return one.value
