"""GPUs of the simulated nodes of which jobs may hold parts (shards), given out as Slurm does.

A job's shards on a node are of one GPU: the first with as many free. A whole GPU is the first of which nothing is held.
So 22.05.8 and 26.05.5 were seen to do (docs/discussion/gavel-on-slurm.md), where SelectTypeParameters has neither
LL_SHARED_GRES nor MULTIPLE_SHARING_GRES_PJ.

In what is free of a node [resources] the column of GPUs counts those of which nothing is held, and that of shards the
most that are free of one GPU: a job fits where neither is below what it wants. Neither adds up over jobs, so what would
be free is worked out GPU by GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.column_layout import SHARD

from tesched_sim.workload import SimulatedNodes, Workload

#: of one job on one node: each GPU of which it holds a part, and how many shards
Part = tuple[tuple[int, int], ...]


class SharedGpus:
    """What each job holds of which GPU."""

    def __init__(self, workload: Workload) -> None:
        """Begin with GPUs of which nothing is held."""
        machines = workload.machines
        gpu, self.shard = (machines.resources.index(name) for name in ("gpu", SHARD))
        #: the columns of GPUs and shards
        self.columns = [gpu, self.shard]
        #: the same, and those of types of GPUs
        self.all_columns = [
            column for column, name in enumerate(machines.resources) if name.partition(":")[0] in {"gpu", SHARD}
        ]
        typed, _ = machines.typed_columns()
        #: [nodes] the columns of its GPUs
        self._columns = [[gpu, *typed[node : node + 1]] for node in range(len(machines.names))]
        self._each: list[int] = machines.shards_each.tolist()
        #: [nodes] by GPU the shards that are free; of one without shards, 1 if it is
        self._left = [
            [max(each, 1)] * count for each, count in zip(self._each, machines.total[:, gpu].tolist(), strict=True)
        ]
        self._gpus: list[int] = workload.demand[:, gpu].tolist()
        self._shards: list[int] = workload.demand[:, self.shard].tolist()
        self._held: dict[tuple[int, int], Part] = {}
        #: by node the waiting jobs for which resources are reserved there
        self._kept_for: dict[int, list[int]] = {}

    def take(self, row: int, node: int, free: NDArray[np.int64]) -> None:
        """Give a job what it wants of a node's GPUs, which must be there; `free` [nodes, resources] is kept true."""
        part = self.part_now(row, node)
        if part is None:
            raise ValueError(f"job {row + 1} does not fit on the GPUs of node {node}")
        self._held[row, node] = part
        _take(self._left[node], part)
        self.write(free[node], node, self._left[node])

    def give_back(self, row: int, node: int, free: NDArray[np.int64]) -> None:
        """Take from a job what it holds of a node's GPUs; `free` [nodes, resources] is kept true."""
        _give(self._left[node], self._held.pop((row, node)))
        self.write(free[node], node, self._left[node])

    def held_by(self, row: int, node: int) -> Part:
        """Return the part that a job holds of a node's GPUs."""
        return self._held[row, node]

    def keep(self, row: int, nodes: Iterable[int]) -> None:
        """Reserve on these nodes what a waiting job wants of their GPUs."""
        for node in nodes:
            self._kept_for.setdefault(node, []).append(row)

    def let_go(self, row: int, nodes: Iterable[int]) -> None:
        """Reserve nothing more for a job."""
        for node in nodes:
            self._kept_for[node].remove(row)

    def left(self, node: int, *, gone: Iterable[int] = (), beside_kept: bool = True) -> list[int]:
        """Return by GPU what is free once these jobs have left, `beside_kept`: beside what is reserved.

        A job for which GPUs are reserved and that has no place yet will have it when others have left: until then no
        GPU is given away.
        """
        left = list(self._left[node])
        for row in gone:
            _give(left, self._held[row, node])
        for row in self._kept_for.get(node, ()) if beside_kept else ():
            part = self.part_of(row, node, left)
            if part is None:
                return [0] * len(left)
            _take(left, part)
        return left

    def part_of(self, row: int, node: int, left: Sequence[int]) -> Part | None:
        """Return the part that a job would get of GPUs of which so much is free; None if it does not fit."""
        gpus, shards = self._gpus[row], self._shards[row]
        if shards:
            found = next((index for index, there in enumerate(left) if there >= shards), None)
            return None if found is None or not self._each[node] else ((found, shards),)
        unit = max(self._each[node], 1)
        whole = [index for index, there in enumerate(left) if there == unit]
        return tuple((index, unit) for index in whole[:gpus]) if len(whole) >= gpus else None

    def part_now(self, row: int, node: int) -> Part | None:
        """Return the part that a job would get now: beside what is reserved, as far as there is enough."""
        beside = self.part_of(row, node, self.left(node)) if self._kept_for.get(node) else None
        return self.part_of(row, node, self._left[node]) if beside is None else beside

    def write(self, free: NDArray[np.int64], node: int, left: Sequence[int]) -> None:
        """Write into what is free of a node [resources] what is free of its GPUs."""
        each = self._each[node]
        free[self._columns[node]] = left.count(max(each, 1))
        free[self.shard] = max(left, default=0) if each else 0

    @property
    def shards_held(self) -> int:
        """Number of shards that are not free, on all nodes."""
        return sum(each * len(left) - sum(left) for each, left in zip(self._each, self._left, strict=True) if each)


class GpusThen:
    """GPUs of the nodes on which a job will start, as they will be at that time."""

    def __init__(self, gpus: SharedGpus, row: int, left: dict[int, list[int]]) -> None:
        """Take in the job, and by node what will be free of each GPU."""
        self._gpus, self._row, self._left = gpus, row, left

    def spares(self, other: int, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return those of `among` [nodes] on which another job may start now, and stay, without delaying the one."""
        found = among.copy()
        for node, left in self._left.items():
            part = self._gpus.part_now(other, node) if found[node] else None
            if part is not None:
                then = list(left)
                _take(then, part)
                found[node] = min(then, default=0) >= 0 and self._gpus.part_of(self._row, node, then) is not None
        return found

    def take(self, other: int, nodes: Iterable[int]) -> None:
        """Let another job that stays start now."""
        for node in nodes:
            part = self._gpus.part_now(other, node) if node in self._left else None
            if part is not None:
                _take(self._left[node], part)


def _take(left: list[int], part: Part) -> None:
    for index, count in part:
        left[index] -= count


def _give(left: list[int], part: Part) -> None:
    for index, count in part:
        left[index] += count


def as_seen(
    held: NDArray[np.int64], nodes: NDArray[np.intp], machines: SimulatedNodes, each: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return [shares, resources] what jobs hold of these nodes [shares] as the core counts it (`ColumnLayout`).

    Of which GPU a shard is Slurm does not say, so each job's shards count as GPUs of their own. `each` [nodes] is the
    core's: shards of each GPU, 0 of a node with one.
    """
    names, each = machines.resources, each[nodes]
    gpu, shard = names.index("gpu"), names.index(SHARD)
    found = held.copy()
    found[:, shard] += held[:, gpu] * each
    gpus = np.where(each > 0, -(-held[:, shard] // np.maximum(each, 1)), 0)
    for column, name in enumerate(names):
        if name.partition(":")[0] == "gpu":
            found[:, column] += np.where(machines.total[nodes, column] > 0, gpus, 0)
    return found
