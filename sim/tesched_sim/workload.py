"""Input of a simulation: a cluster's nodes, and jobs in order of submission, as columns.

Times are seconds after the workload's beginning. A job's row, counted from 1, is its id. Arrays are never changed once
a workload is made; `Workload.of` checks them, so that a mistake shows at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tesched_core.model.column_layout import SHARD
from tesched_core.model.told_error import ToldError

from tesched_sim.arrays import TrainingModel


class WorkloadError(ToldError, ValueError):
    """A workload that cannot be run. The text names the file, the line or the parameter, and what would be right."""


_FORMS = {"int": "a whole number", "float": "a number", "bool": "true or false"}


def in_words(said: str) -> str:
    """Text of msgspec's on a value of another type, in words; any other text as it is."""
    found = re.fullmatch(r"Expected `(int|float|bool)(?: \| null)?`, got `\w+`", said)
    return f"must be {_FORMS[found[1]]}" if found else said


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedNodes:
    """The simulated cluster's nodes."""

    names: tuple[str, ...]
    #: "cpu", "mem_mib", then GRES as the core names them: "gpu", "gpu:a100" (typed ones also under the bare name),
    #: "shard" (parts of GPUs, as many of each)
    resources: tuple[str, ...]
    #: [nodes, resources]
    total: NDArray[np.int64]
    #: types of accelerators, and the type of each node [nodes], a row of them; none: all are alike
    types: tuple[str, ...] = ()
    type_of: NDArray[np.intp] | None = None

    def typed_columns(self) -> tuple[list[int], int]:
        """Columns of each node's own type of accelerators [nodes], and of all of them; of nodes without types none."""
        if self.type_of is None:
            return [], 0
        columns = [self.resources.index(f"gpu:{name}") for name in self.types]
        return [columns[kind] for kind in self.type_of.tolist()], self.resources.index("gpu")

    @property
    def most(self) -> NDArray[np.int64]:
        """[nodes, resources] what a job may have of each node at most: shards of one GPU, for Slurm gives no others."""
        if SHARD not in self.resources:
            return self.total
        found = self.total.copy()
        found[:, self.resources.index(SHARD)] = self.shards_each
        return found

    @property
    def shards_each(self) -> NDArray[np.int64]:
        """[nodes] shards of each of a node's GPUs; 0: they are given whole alone."""
        if SHARD not in self.resources:
            return np.zeros(len(self.names), dtype=np.int64)
        gpus, shards = (self.total[:, self.resources.index(name)] for name in ("gpu", SHARD))
        each: NDArray[np.int64] = shards // np.maximum(gpus, 1)
        return each

    @staticmethod
    def alike(count: int, *, cpus: int, mem_mib: int, gpus: int = 0) -> SimulatedNodes:
        """Return `count` equal nodes, n1 and so on."""
        total = np.tile(np.array([[cpus, mem_mib, gpus]], dtype=np.int64), (count, 1))
        total.setflags(write=False)
        return SimulatedNodes(
            names=tuple(f"n{number}" for number in range(1, count + 1)),
            resources=("cpu", "mem_mib", "gpu"),
            total=total,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """Jobs in order of submission, one entry a job in each column."""

    name: str
    machines: SimulatedNodes
    #: when it is submitted, ascending
    submit_s: NDArray[np.float64]
    #: how long it would run undisturbed; above 0
    run_s: NDArray[np.float64]
    #: the time limit that its user gave; inf for none. Never below `run_s`
    limit_s: NDArray[np.float64]
    #: on how many nodes at once
    nodes: NDArray[np.int32]
    #: [jobs, resources] what it takes on each of its nodes
    demand: NDArray[np.int64]
    #: trial and error; the others are best effort
    te: NDArray[np.bool_]
    #: its grace period; 0 for a TE job
    grace_s: NDArray[np.float64]
    #: how long after its notice it has saved its work and leaves by itself; inf: it never does, and is requeued when
    #: its grace period is over
    yield_s: NDArray[np.float64]
    #: it saves its work when it gets its notice
    saves_on_notice: NDArray[np.bool_]
    #: seconds of work between the checkpoints that it writes anyway; inf for none
    checkpoint_s: NDArray[np.float64]
    #: seconds that a restart takes before work goes on (reading the checkpoint)
    restart_s: NDArray[np.float64]
    #: row of `allowed` that says where it may run
    constraint: NDArray[np.int32]
    #: [constraints, nodes]; row 0 is everywhere
    allowed: NDArray[np.bool_]
    #: row of `user_names`; an empty name: not known, and no job's user is another's
    user: NDArray[np.int32]
    user_names: tuple[str, ...] = ("",)
    #: [jobs, 3] what the daemon has learned to expect of each job's run time: the low quantile, the median and the high
    #: one (`ExpectedRun`); None: nothing
    expected_s: NDArray[np.float64] | None = None
    #: [jobs, types] how fast each job is on each type of node, as a part of its speed on its fastest, on which it
    #: runs `run_s`: above 0, 1 at most. One that is on several is as fast as on the slowest. None: the same everywhere
    speed: NDArray[np.float64] | None = None
    #: [jobs] most nodes that it takes, with which it runs `run_s`; half of them do half the work. None: its `nodes`
    most_nodes: NDArray[np.int32] | None = None
    #: [jobs] it is no victim of any job's, and counts to no class: neither TE nor best effort. None: no job is
    exempt: NDArray[np.bool_] | None = None
    #: [jobs] the array of which it is a task, -1 for none; tasks of one are neighbours, and its training's workers
    array: NDArray[np.int32] | None = None
    #: [arrays] how many tasks its user lets run at once, 0: any number; and what the tasks train
    throttle: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    trainings: tuple[TrainingModel, ...] = ()
    #: jobs of its trace that are not in it, since they do not fit on its nodes, even on empty ones
    left_out: int = 0
    #: what was made up and how, one line each, for reports: "grace periods: uniform 30 to 600 s, seed 1"
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_s)

    def speed_on(self, row: int, nodes: Sequence[int]) -> float:
        """Speed of a job on these nodes: seconds of work, as `run_s` counts them, in a second."""
        found = 1.0
        if self.speed is not None and self.machines.type_of is not None:
            found = float(self.speed[row, self.machines.type_of[list(nodes)]].min())
        if self.most_nodes is not None:
            found *= len(nodes) / int(self.most_nodes[row])
        return found

    @property
    def be(self) -> NDArray[np.bool_]:
        """Best-effort jobs [jobs]."""
        return ~self.te if self.exempt is None else ~self.te & ~self.exempt

    @property
    def most_run_s(self) -> NDArray[np.float64]:
        """Run time of each job on its fewest nodes, on its slowest type [jobs]."""
        found = self.run_s if self.most_nodes is None else self.run_s * self.most_nodes / self.nodes
        return found if self.speed is None else found / self.speed.min(axis=1)

    @staticmethod
    def of(
        name: str,
        machines: SimulatedNodes,
        *,
        submit_s: ArrayLike,
        run_s: ArrayLike,
        demand: ArrayLike,
        te: ArrayLike,
        nodes: ArrayLike = 1,
        limit_s: ArrayLike = np.inf,
        grace_s: ArrayLike = 0.0,
        yield_s: ArrayLike | None = None,
        saves_on_notice: ArrayLike = True,
        checkpoint_s: ArrayLike = np.inf,
        restart_s: ArrayLike = 0.0,
        constraint: ArrayLike = 0,
        allowed: ArrayLike | None = None,
        user: ArrayLike = 0,
        user_names: Sequence[str] = ("",),
        speed: ArrayLike | None = None,
        exempt: ArrayLike | None = None,
        array: ArrayLike | None = None,
        throttle: ArrayLike = (),
        trainings: Sequence[TrainingModel] = (),
        left_out: int = 0,
        notes: Sequence[str] = (),
    ) -> Workload:
        """Return a workload, each column as long as `submit_s` (single values are spread), sorted by submission.

        A job without a given `yield_s` uses its whole grace period. Raises WorkloadError for a column that is not
        right, or for a job that no node could ever hold; it names the first such job.
        """
        when = np.asarray(submit_s, dtype=np.float64)
        count = len(when)

        def column(values: ArrayLike, dtype: type[np.generic]) -> NDArray[np.generic]:
            return np.broadcast_to(np.asarray(values, dtype=dtype), (count,)).copy()

        grace = np.where(column(te, np.bool_), 0.0, column(grace_s, np.float64)).astype(np.float64)
        order = np.argsort(when, kind="stable")
        everywhere = np.ones((1, len(machines.names)), dtype=np.bool_)
        what = np.asarray(demand, dtype=np.int64)
        columns = {
            "submit_s": when,
            "run_s": column(run_s, np.float64),
            "limit_s": column(limit_s, np.float64),
            "nodes": column(nodes, np.int32),
            "demand": np.broadcast_to(what, (count, len(machines.resources))).copy(),
            "te": column(te, np.bool_),
            "grace_s": grace,
            "yield_s": grace.copy() if yield_s is None else column(yield_s, np.float64),
            "saves_on_notice": column(saves_on_notice, np.bool_),
            "checkpoint_s": column(checkpoint_s, np.float64),
            "restart_s": column(restart_s, np.float64),
            "constraint": column(constraint, np.int32),
            "user": column(user, np.int32),
        }
        sorted_columns = {key: values[order] for key, values in columns.items()}
        workload = Workload(
            name=name,
            machines=machines,
            allowed=everywhere if allowed is None else np.asarray(allowed, dtype=np.bool_),
            user_names=tuple(user_names),
            speed=None if speed is None else np.asarray(speed, dtype=np.float64)[order],
            exempt=None if exempt is None else column(exempt, np.bool_)[order].astype(np.bool_),
            array=None if array is None else column(array, np.int32)[order].astype(np.int32),
            throttle=np.asarray(throttle, dtype=np.int32),
            trainings=tuple(trainings),
            left_out=left_out,
            notes=tuple(notes),
            **sorted_columns,  # type: ignore[arg-type]
        )
        workload.check()
        for values in (*sorted_columns.values(), workload.allowed):
            values.setflags(write=False)
        return workload

    def submitted_at(self, submit_s: NDArray[np.float64]) -> Workload:
        """Return the same jobs, in the same order, submitted at these times (ascending)."""
        again = replace(self, submit_s=submit_s)
        again.check()
        return again

    def first(self, count: int) -> Workload:
        """Return the first `count` jobs."""
        return self.part(slice(count))

    def part(self, rows: slice | NDArray[np.int64]) -> Workload:
        """Return these jobs of it, in order of submission."""
        columns = ((name, getattr(self, name)) for name in (*_COLUMNS, *_OPTIONAL))
        return replace(self, **{name: values[rows] for name, values in columns if values is not None})

    def check(self) -> None:
        """Raise WorkloadError for the first value that is not right."""
        for name in (*_COLUMNS, *_OPTIONAL):
            values = getattr(self, name)
            if values is not None and len(values) != len(self):
                raise WorkloadError(f"{self.name}: {name} has {len(values)} entries; there are {len(self)} jobs")
        finite = {"submit_s": self.submit_s, "run_s": self.run_s, "grace_s": self.grace_s, "restart_s": self.restart_s}
        for name, values in finite.items():
            self._first(~np.isfinite(values), f"{name} is not a number")
        self._first(self.run_s <= 0, "run_s must be above 0")
        self._first(self.limit_s < self.most_run_s, "limit_s is below run_s on its fewest and slowest nodes")
        self._first(self.nodes < 1, "nodes must be at least 1")
        for name in ("grace_s", "yield_s", "restart_s"):
            self._first(~(getattr(self, name) >= 0), f"{name} must be at least 0")
        self._first(~(self.checkpoint_s > 0), "checkpoint_s must be above 0")
        self._first(np.any(self.demand < 0, axis=1), "a demand is below 0")
        self._first(np.all(self.demand == 0, axis=1), "it asks for nothing")
        if len(self) and (np.diff(self.submit_s) < 0).any():
            raise WorkloadError(f"{self.name}: the jobs are not in order of submission")
        self._first(
            (self.constraint < 0) | (self.constraint >= len(self.allowed)), "constraint is not a row of allowed"
        )
        self._first((self.user < 0) | (self.user >= len(self.user_names)), "user is not a row of user_names")
        if self.exempt is not None:
            self._first(self.te & self.exempt, "it is TE and exempt")
        self._check_shards()
        self._check_fit()

    def _check_shards(self) -> None:
        """Raise WorkloadError for shards that no Slurm has, or gives."""
        machines = self.machines
        if SHARD not in machines.resources:
            return
        if "gpu" not in machines.resources:
            raise WorkloadError(f"{self.name}: the nodes have shards and no GPUs, of which shards are parts")
        gpu, shard = (machines.resources.index(name) for name in ("gpu", SHARD))
        for name, (gpus, shards) in zip(machines.names, machines.total[:, [gpu, shard]].tolist(), strict=True):
            if shards % gpus if gpus else shards:
                such = f", such as {gpus * (shards // gpus or 1)}" if gpus else ""
                raise WorkloadError(
                    f"{self.name}: {name} has {shards} shards of {gpus} GPUs; each GPU must have as many{such}"
                )
        both = (self.demand[:, gpu] > 0) & (self.demand[:, shard] > 0)
        self._first(both, "it wants GPUs and shards; Slurm takes one of the two")

    def _check_fit(self) -> None:
        fits = fitting(self.machines, self.demand, self.nodes, self.constraint, self.allowed)
        self._first(~fits, "it fits on no node (or not on as many as it wants), even an empty one")

    def _first(self, bad: NDArray[np.bool_], text: str) -> None:
        rows = np.flatnonzero(bad)
        if len(rows):
            raise WorkloadError(f"{self.name}: job {rows[0] + 1}: {text}")


def fitting(
    machines: SimulatedNodes,
    demand: NDArray[np.int64],
    nodes: NDArray[np.integer[Any]],
    constraint: NDArray[np.integer[Any]] | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Jobs [jobs] that the nodes could hold if they were empty: each on as many as it wants, of those it may use."""
    row = np.zeros(len(demand), dtype=np.int64) if constraint is None else constraint
    where = np.ones((1, len(machines.names)), dtype=np.bool_) if allowed is None else allowed
    most = machines.most
    kinds, which = np.unique(np.column_stack([demand, row, nodes]), axis=0, return_inverse=True)
    fits = np.array(
        [(np.all(most >= kind[:-2], axis=1) & where[kind[-2]]).sum() >= kind[-1] for kind in kinds],
        dtype=np.bool_,
    )
    return fits[which.reshape(-1)]


#: columns that a workload may lack
_OPTIONAL = ("expected_s", "speed", "most_nodes", "exempt", "array")
_COLUMNS = (
    "submit_s",
    "run_s",
    "limit_s",
    "nodes",
    "demand",
    "te",
    "grace_s",
    "yield_s",
    "saves_on_notice",
    "checkpoint_s",
    "restart_s",
    "constraint",
    "user",
)
