"""Ground of one cycle's plans: what is free and who may still be a victim, and what was found out about it.

Many waiting TE jobs want the same. What depends on the kind of a job alone is worked out once a kind; what depends on
what is free, once until a plan changes that, and then anew for the nodes that the plan has changed
(`placement/node_prices.py`). A memo of pure functions: with it and without, the plans are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.cluster import Job
from tesched_core.model.columns import Running
from tesched_core.model.room import Room
from tesched_core.placement.demand import Demand, share_of
from tesched_core.placement.node_prices import ByNode, NodePrices
from tesched_core.policy import Eligibility, View

from tesched_policies.among_equals import Prices, prices_for
from tesched_policies.candidates import Candidates, candidates_of, counts_for_candidates, first_free

T = TypeVar("T")


class FoundVictims(NamedTuple):
    """Victims, as rows of `Running` in the order in which they are notified, and the nodes that they free, as rows."""

    victims: tuple[int, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """Question to a search: the victims for one demand."""

    demand: Demand
    running: Running
    #: [running] who may be a victim, and each one's price
    pool: NDArray[np.bool_]
    score: NDArray[np.float64]
    room: Room
    #: prices of the nodes for it, which are others' too: a search that changes them takes a copy
    prices: Callable[[], NodePrices]


#: Finds victims, and the nodes that they free; None if there is no such set.
Search: TypeAlias = Callable[[Question], FoundVictims | None]


@dataclass(kw_only=True, eq=False)
class Ledger:
    """What is free, and which victims are taken, after each number of plans."""

    running: Running
    room: Room
    #: of each plan: rows of nodes, by how much what is free there changes, and how many victims were taken before
    _changes: list[tuple[NDArray[np.intp], NDArray[np.int64], int]] = field(default_factory=list)
    #: rows of the victims that were taken
    taken: list[int] = field(default_factory=list)
    #: the number of plans that was asked for last, and what was free then
    _last: tuple[int, Room] | None = None

    @property
    def plans(self) -> int:
        """Return the number of plans so far."""
        return len(self._changes)

    def add(self, nodes: NDArray[np.intp], by: NDArray[np.int64], victims: Sequence[int]) -> None:
        """Add a plan."""
        self._changes.append((nodes, by, len(self.taken)))
        self.taken += victims

    def nodes_since(self, plans: int) -> NDArray[np.intp]:
        """Return the nodes that changed after so many plans."""
        return np.unique(np.concatenate([nodes for nodes, _, _ in self._changes[plans:]]))

    def room_at(self, plans: int) -> Room:
        """Return what is free after so many plans."""
        count, room = (0, self.room) if self._last is None or self._last[0] > plans else self._last
        later = self._changes[count:plans]
        if later:
            room = room.changed(*(np.concatenate([change[part] for change in later]) for part in (0, 1)))
        self._last = plans, room
        return room

    def taken_at(self, plans: int) -> Sequence[int]:
        """Return the victims that were taken after so many plans."""
        return self.taken[: self._changes[plans][2]] if plans < len(self._changes) else self.taken


class Ground:
    """The ground of one policy's plans."""

    def __init__(self, view: View, search: Search) -> None:
        """Begin without a plan."""
        self.view = view
        self.running = view.running
        self.ledger = Ledger(running=view.running, room=view.room_after_orders)
        self.room = self.ledger.room
        self._search = search
        self._eligible: dict[int, tuple[Eligibility, NDArray[np.bool_]]] = {}
        self._pools: dict[bytes, NDArray[np.bool_]] = {}
        self._kinds: dict[Hashable, Candidates] = {}
        #: identities of the demands of these
        self._lasting: set[int] = set()
        self._score: NDArray[np.float64] | None = None
        self._prices: dict[tuple[str, str], Prices] = {}
        self._by_node: dict[int, ByNode] = {}
        #: by the identities of demand, price and pool: prices of the nodes, and after how many plans
        self._nodes: dict[tuple[int, int, int], tuple[NodePrices, int]] = {}
        #: by a demand's identity: where it fits, and after how many plans
        self._fitting: dict[int, tuple[NDArray[np.bool_], int]] = {}
        #: what was found since the last plan
        self._answers: dict[Hashable, object] = {}

    def plan(self, demand: Demand, found: FoundVictims, *, stay: bool) -> None:
        """Take in a plan: its victims go, unless they `stay` for now, and the job comes."""
        running, nodes, by = self.running, [np.array(found.nodes, dtype=np.intp)], [-share_of(demand, found.nodes)]
        for victim in found.victims:
            shares = running.shares_of(victim)
            nodes.append(running.share_node[shares])
            by.append(np.zeros_like(running.frees[shares]) if stay else running.frees[shares])
        self.ledger.add(np.concatenate(nodes), np.concatenate(by), found.victims)
        self.room = self.ledger.room_at(self.ledger.plans)
        self._answers.clear()
        for pool in self._pools.values():
            pool[list(found.victims)] = False

    def since_last_plan(self, key: Hashable, work_out: Callable[[], T]) -> T:
        """Answer under this key, worked out once until there is another plan."""
        if key not in self._answers:
            self._answers[key] = work_out()
        found: T = self._answers[key]  # type: ignore[assignment]  # as it was worked out under this key
        return found

    def candidates(self, job: Job) -> tuple[Candidates, Hashable | None]:
        """Return the ways to give the job its nodes, and a key of jobs that have the same; None: there is none.

        Raises UnsupportedRequestError for a request that is not modelled.
        """
        kind = counts_for_candidates(job, self.view, self.room)
        found = None if kind is None else self._kinds.get(kind)
        if found is None:
            found = candidates_of(job, self.view, self.room)
            # Where there is none but on what is free, that may change.
            if kind is not None and found.any:
                self._kinds[kind] = found
                self._lasting.update(id(demand) for demand in found.any + found.by_itself)
        return found, kind if found.any else None

    def at_once(self, candidates: Candidates, kind: Hashable | None) -> tuple[Demand, tuple[int, ...]] | None:
        """Return the first demand that fits on what is free, and its nodes; None if none does."""

        def find() -> tuple[Demand, tuple[int, ...]] | None:
            by_itself = candidates.by_itself
            found = first_free(candidates.any, self.room, self._fits)
            return found or first_free(by_itself, self.room, self._fits)

        return find() if kind is None else self.since_last_plan((first_free, kind), find)

    def pool_of(self, eligibility: Eligibility) -> NDArray[np.bool_]:
        """Return [running] who may still be a victim; the same object where that is the same."""
        known = self._eligible.get(id(eligibility))
        if known is None:
            pool = eligibility.may_be_asked
            pool[self.ledger.taken] = False
            known = eligibility, self._pools.setdefault(pool.tobytes(), pool)
            self._eligible[id(eligibility)] = known
        return known[1]

    def prices(self, job: Job, score: NDArray[np.float64], *, drawn: bool) -> Prices:
        """Return what each running BE job costs this TE job, by its `score`."""
        if self._score is None or not (score is self._score or np.array_equal(score, self._score)):
            for known in (self._prices, self._by_node, self._nodes, self._answers):
                known.clear()
            self._score = score
        owner = job.user, job.account
        if owner not in self._prices:
            self._prices[owner] = prices_for(job, self.view, self._score, drawn=drawn)
        return self._prices[owner]

    def search(self, demand: Demand, pool: NDArray[np.bool_], price: NDArray[np.float64]) -> FoundVictims | None:
        """Return victims of this pool for the demand."""
        return self._search(
            Question(
                demand=demand,
                running=self.running,
                pool=pool,
                score=price,
                room=self.room,
                prices=lambda: self._node_prices(demand, pool, price),
            )
        )

    def _node_prices(self, demand: Demand, pool: NDArray[np.bool_], price: NDArray[np.float64]) -> NodePrices:
        plans, key = self.ledger.plans, (id(demand), id(price), id(pool))
        found, seen = self._nodes.get(key, (None, plans))
        if found is None:
            if id(price) not in self._by_node:
                self._by_node[id(price)] = ByNode(self.running, price, len(self.room.names))
            found = NodePrices(demand, self._by_node[id(price)], self.room.free, pool)
        elif seen < plans:
            found.update(self.ledger.nodes_since(seen), self.room.free, pool)
        if id(demand) in self._lasting:
            self._nodes[key] = found, plans
        return found

    def _fits(self, demand: Demand) -> NDArray[np.bool_]:
        """Return [nodes] whether the demand fits on what is free."""
        plans = self.ledger.plans
        found, seen = self._fitting.get(id(demand), (None, plans))
        if found is None:
            found = demand.fits(self.room)
        elif seen < plans:
            nodes = self.ledger.nodes_since(seen)
            found[nodes] = demand.fits(self.room, nodes)
        if id(demand) in self._lasting:
            self._fitting[id(demand)] = found, plans
        return found
