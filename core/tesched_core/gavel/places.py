"""On which nodes a round's jobs start, and who of those without a turn there makes room for them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tesched_core.gavel.crew import NOWHERE, Crew, Kinds
from tesched_core.policy import Plan
from tesched_core.resources import JobId
from tesched_core.rounds import RoundView


@dataclass(slots=True, kw_only=True)
class Places:
    """Works out the plans of one look."""

    view: RoundView
    kinds: Kinds
    crew: Crew
    #: [jobs] the type of this round
    want: NDArray[np.intp]
    #: [nodes, resources] free, as far as this look has given it away
    free: NDArray[np.int64] = field(init=False)
    #: rows of jobs without a turn where they run, who may be asked, by node
    going: dict[int, list[int]] = field(init=False)
    _claimed: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        """Begin with the room that is free now."""
        self.free = self.view.room.free.copy()
        crew = self.crew
        self.going = {}
        for row in np.flatnonzero(crew.movable & (self.want != crew.on)).tolist():
            for name in crew.jobs[row].nodes:
                self.going.setdefault(self.view.room.index[name], []).append(row)

    def plans(self) -> tuple[Plan, ...]:
        """Return a plan for whoever has a turn, does not have it yet and can be placed."""
        crew, want = self.crew, self.want
        starts = np.flatnonzero((want != NOWHERE) & crew.ready & ~crew.served)
        moves = np.flatnonzero((want != NOWHERE) & crew.movable & (want != crew.on) & ~crew.served)
        found: list[Plan] = []
        # The largest first: it finds a place least easily.
        for rows in (starts, moves):
            for row in sorted(rows.tolist(), key=lambda row: (-int(crew.gpus[row]), row)):
                if row in self._claimed:
                    continue  # it leaves for somebody else, and starts when it is back in the queue
                plan = self._plan(row)
                if plan is not None:
                    found.append(plan)
        return tuple(found)

    def _plan(self, row: int) -> Plan | None:
        crew, job_id = self.crew, self.crew.jobs[row].job_id
        demand = crew.demands[row]
        there = np.flatnonzero(demand.allowed & (self.kinds.of_node == self.want[row]))
        chosen: list[int] = []
        asked: list[int] = []
        # Nodes with room first; then those on which the fewest have to go.
        offers = [(victims, node) for node in there.tolist() if (victims := self._victims(row, node)) is not None]
        for victims, node in sorted(offers, key=lambda offer: (len(offer[0]), offer[1])):
            if set(victims) & set(asked):
                continue  # of several nodes; once is enough to ask, and its room was counted
            chosen.append(node)
            asked += victims
            if len(chosen) == demand.nodes:
                break
        else:
            return None
        for victim in asked:
            self._goes(victim)
        self.free[chosen] -= demand.per_node
        leaves = [*asked, row] if crew.on[row] != NOWHERE else asked
        names = self.view.room.names
        victims_of: tuple[tuple[JobId, float], ...] = tuple((crew.jobs[victim].job_id, 0.0) for victim in leaves)
        return Plan(preemptor=job_id, nodes=tuple(names[node] for node in sorted(chosen)), victims=victims_of)

    def _victims(self, row: int, node: int) -> list[int] | None:
        """Return who has to go from this node, none of them superfluous; None if it does not fit whoever goes."""
        demand = self.crew.demands[row]
        free, total = self.free[node].copy(), self.view.room.total[node]
        asked: list[int] = []

        def fits() -> bool:
            return bool(demand.fits_into(free[None], total[None])[0])

        others = [other for other in self.going.get(node, ()) if other not in self._claimed and other != row]
        for other in sorted(others, key=lambda other: (-int(self.crew.gpus[other]), other)):
            if fits():
                break
            asked.append(other)
            free += self._freed(other, node)
        if not fits():
            return None
        for other in list(asked):
            free -= self._freed(other, node)
            if fits():
                asked.remove(other)
            else:
                free += self._freed(other, node)
        return asked

    def _freed(self, row: int, node: int) -> NDArray[np.int64]:
        running = self.view.overview.running
        shares = running.shares_of(running.row_of[self.crew.jobs[row].job_id])
        freed: NDArray[np.int64] = running.frees[shares[running.share_node[shares] == node]].sum(axis=0)
        return freed

    def _goes(self, row: int) -> None:
        self._claimed.add(row)
        for name in self.crew.jobs[row].nodes:
            node = self.view.room.index[name]
            self.free[node] += self._freed(row, node)
