"""Nodes on which a round's jobs start, and the jobs without a turn there that leave for them.

Two jobs that are to share a GPU get there one after the other: the first takes a free GPU, or one that victims leave,
as a job that wants it whole; the other is bound to the same node. A pair is not taken apart for its own sake: a job
that should be alone, or wait, keeps its part of the GPU until another has a turn on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.column_layout import SHARD
from tesched_core.model.order import OrderState
from tesched_core.policy import ChosenVictim, MakeRoom, View

from tesched_policies.gavel.jobs import NOWHERE, GavelJobs, Kinds

#: jobs that leave a node together: one, or the two that share a GPU
_Unit = tuple[int, ...]

_NO_TURN = "it has no turn there in this round"
_MOVES = "its turn in this round is on another type of accelerator"


@dataclass(slots=True, kw_only=True)
class Places:
    """Works out the plans of one poll."""

    view: View
    kinds: Kinds
    managed: GavelJobs
    #: [jobs] the type of this round, and the job that should share the GPU, or NOWHERE
    want: NDArray[np.intp]
    beside: NDArray[np.intp]
    #: [nodes, resources] free, less what the plans of this poll take
    free: NDArray[np.int64] = field(init=False)
    #: rows of jobs without a turn where they run, and that may be victims, by node
    going: dict[int, list[int]] = field(init=False)
    #: [jobs, resources] what each wants: a job that asks for shards wants a GPU, unless it comes to another's
    need: NDArray[np.int64] = field(init=False)
    _claimed: set[int] = field(init=False, default_factory=set)
    #: jobs that move by a plan of this poll: no other plan may ask them
    _moving: set[int] = field(init=False, default_factory=set)
    #: where jobs are to be by the plans of this poll, and by orders
    _host: dict[int, int] = field(init=False, default_factory=dict)
    #: columns of GPUs, of all types, and of shards
    _gpus: list[int] = field(init=False)
    _shards: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with the resources that are free now."""
        capacity, managed = self.view.capacity, self.managed
        self.free = capacity.free.copy()
        names = [name.partition(":")[0] for name in capacity.resources]
        self._gpus = [column for column, name in enumerate(names) if name == "gpu"]
        self._shards = [column for column, name in enumerate(names) if name == SHARD]
        self.need = np.array([demand.per_node for demand in managed.demands], dtype=np.int64).reshape(
            len(managed), len(names)
        )
        shares = managed.shards > 0
        if shares.any():
            for column in self._shards:
                self.need[shares, column] = 0
            self.need[shares, capacity.resources.index("gpu")] = 1
            self._keep_promised()
        self.going = {}
        for row in np.flatnonzero(managed.movable & ((self.want != managed.on) | self._apart())).tolist():
            for name in managed.jobs[row].nodes:
                if name in capacity.index:
                    self.going.setdefault(capacity.index[name], []).append(row)

    def _keep_promised(self) -> None:
        """Take away the GPUs of which an order has reserved shards."""
        row_of = {job.job_id: row for row, job in enumerate(self.managed.jobs)}
        for order in self.view.memory.open_orders():
            row = row_of.get(order.preemptor)
            if row is None or not self.managed.shards[row] or order.state is not OrderState.OPEN:
                continue
            for name in order.nodes:
                node = self.view.capacity.index.get(name)
                if node is not None:
                    self._host[row] = node
                    self.free[node, self._gpus] = np.minimum(self.free[node, self._gpus], 0)

    def _apart(self) -> NDArray[np.bool_]:
        """Return the jobs on the right type, but not beside the right one, that came later than the one that stays."""
        managed, beside = self.managed, self.beside
        found = np.zeros(len(managed), dtype=np.bool_)
        stays = (managed.on != NOWHERE) & (managed.on == self.want)
        for row in np.flatnonzero(stays & (managed.shards > 0)).tolist():
            other, mate = int(beside[row]), int(managed.mate[row])
            if mate == other:
                continue
            elsewhere = other != NOWHERE and bool(stays[other]) and row > other
            # Two that should be alone may stay where they are; with a pair to come there is no place for another.
            pairs = mate != NOWHERE and bool(stays[mate]) and (other != NOWHERE or int(beside[mate]) != NOWHERE)
            found[row] = elsewhere or (pairs and row > mate)
        return found

    def plans(self) -> tuple[MakeRoom, ...]:
        """Return a plan for each job that has a turn, does not have it yet and can be placed."""
        managed, want = self.managed, self.want
        starts = np.flatnonzero((want != NOWHERE) & managed.ready & ~managed.served)
        away = (want != managed.on) | self._apart()
        moves = np.flatnonzero((want != NOWHERE) & managed.movable & away & ~managed.served)
        found: list[MakeRoom] = []
        # A job that comes to another's GPU comes after it; the largest first: it finds a place least easily.
        for rows in (starts, moves):
            for row in sorted(rows.tolist(), key=lambda row: (self._follows(row), -int(managed.gpus[row]), row)):
                if row in self._claimed:
                    continue  # it leaves for another, and starts when it is back in the queue
                plan = self._plan(row)
                if plan is not None:
                    found.append(plan)
        return tuple(found)

    def _follows(self, row: int) -> bool:
        other = int(self.beside[row])
        return other != NOWHERE and (row > other or self._where(other) is not None)

    def _where(self, row: int) -> int | None:
        """Return the node on which the job is for this round, or will be; None as long as that is not known."""
        if row in self._host:
            return self._host[row]
        managed = self.managed
        stays = managed.on[row] != NOWHERE and managed.on[row] == self.want[row] and row not in self._claimed
        return self.view.capacity.index[managed.jobs[row].nodes[0]] if stays and not self._apart()[row] else None

    def _plan(self, row: int) -> MakeRoom | None:
        other = int(self.beside[row])
        host = None if other == NOWHERE else self._where(other)
        placed = self._own_nodes(row) if host is None else self._join(row, other, host)
        if placed is None:
            return None
        chosen, asked = placed
        for unit in asked:
            self._leave(unit)
        need = self.need[row] if host is None else self._beside_need(row)
        self.free[chosen] -= need
        if self.managed.shards[row]:
            self._host[row] = chosen[0]
        leaves = [victim for unit in asked for victim in unit]
        if self.managed.on[row] != NOWHERE:
            leaves.append(row)
            self._moving.add(row)
        names, jobs = self.view.capacity.names, self.managed.jobs
        victims = tuple(ChosenVictim(job_id=jobs[one].job_id, why=_MOVES if one == row else _NO_TURN) for one in leaves)
        nodes = tuple(names[node] for node in sorted(chosen))
        return MakeRoom(preemptor=jobs[row].job_id, nodes=nodes, victims=victims)

    def _own_nodes(self, row: int) -> tuple[list[int], list[_Unit]] | None:
        """Nodes that take it alone, and the jobs that have to go for that."""
        demand = self.managed.demands[row]
        there = np.flatnonzero(demand.allowed & (self.kinds.of_node == self.want[row]))
        chosen: list[int] = []
        asked: list[_Unit] = []
        # Nodes with free resources first; then those on which the fewest have to go.
        offers = [(units, node) for node in there.tolist() if (units := self._victims(row, node)) is not None]
        for units, node in sorted(offers, key=lambda offer: (sum(map(len, offer[0])), offer[1])):
            if set(units) & set(asked):
                continue  # of several nodes; it is notified once, and its resources are counted
            chosen.append(node)
            asked += units
            if len(chosen) == demand.nodes:
                return chosen, asked
        return None

    def _join(self, row: int, other: int, node: int) -> tuple[list[int], list[_Unit]] | None:
        """Return the node of the partner's GPU, and the jobs that have to go so that this one has a part of it."""
        managed, capacity = self.managed, self.view.capacity
        mate = int(managed.mate[other])
        asked: list[_Unit] = []
        free = self.free[node].copy()
        if not managed.demands[row].allowed[node]:
            return None
        if mate not in (NOWHERE, row):
            if mate not in self._others(node, row):
                return None
            asked.append((mate,))
            free += self._freed((mate,), node)
        elif self._is_on(other, node) and (capacity.free[node, self._shards] < managed.shards[row]).all():
            return None  # a job has them that may not be a victim
        need = self._beside_need(row)
        return ([node], asked) if bool((free >= need)[need > 0].all()) else None

    def _is_on(self, row: int, node: int) -> bool:
        names = self.managed.jobs[row].nodes
        return bool(self.managed.on[row] != NOWHERE) and node == self.view.capacity.index[names[0]]

    def _beside_need(self, row: int) -> NDArray[np.int64]:
        need: NDArray[np.int64] = self.need[row].copy()
        need[self._gpus] = 0
        return need

    def _victims(self, row: int, node: int) -> list[_Unit] | None:
        """Return the jobs that have to go from this node, none of them superfluous; None if it does not fit anyway."""
        free, need = self.free[node].copy(), self.need[row]
        asked: list[_Unit] = []

        def fits() -> bool:
            return bool((free >= need)[need > 0].all())

        units = self._units(node, row)
        for unit in sorted(units, key=lambda unit: (-int(self.managed.gpus[unit[0]]), unit)):
            if fits():
                break
            asked.append(unit)
            free += self._freed(unit, node)
        if not fits():
            return None
        for unit in list(asked):
            free -= self._freed(unit, node)
            if fits():
                asked.remove(unit)
            else:
                free += self._freed(unit, node)
        return asked

    def _units(self, node: int, row: int) -> list[_Unit]:
        """Return the jobs that could leave the node: those that share a GPU leave together, or it stays taken."""
        others = self._others(node, row)
        found: list[_Unit] = []
        for other in others:
            mate = int(self.managed.mate[other])
            if mate in others:
                if other < mate:
                    found.append((other, mate))
            else:
                found.append((other,))
        return found

    def _others(self, node: int, row: int) -> list[int]:
        taken = self._claimed | self._moving | {row}
        return [other for other in self.going.get(node, ()) if other not in taken]

    def _freed(self, unit: _Unit, node: int) -> NDArray[np.int64]:
        running, managed = self.view.columns.running, self.managed
        freed: NDArray[np.int64] = np.zeros(self.free.shape[1], dtype=np.int64)
        for row in unit:
            shares = running.shares_of(running.row_of[managed.jobs[row].job_id])
            freed += running.frees[shares[running.share_node[shares] == node]].sum(axis=0)
        stays = {int(managed.mate[row]) for row in unit} - {NOWHERE, *unit, *self._claimed}
        if managed.shards[unit[0]] and not stays:
            freed[self._gpus] += self.view.capacity.total[node, self._gpus] > 0
        return freed

    def _leave(self, unit: _Unit) -> None:
        index = self.view.capacity.index
        for node in {index[name] for row in unit for name in self.managed.jobs[row].nodes if name in index}:
            self.free[node] += self._freed(unit, node)
        self._claimed |= set(unit)
