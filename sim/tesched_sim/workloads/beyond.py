"""What can be added to any workload: jobs that save nothing, shards, types of accelerators, workers, trainings.

Each is a key of every workload, and none is there by default. What is drawn has a seed of its own, so that the jobs,
and what else is drawn of them, are the same with and without it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.column_layout import SHARD

from tesched_sim.arrays import TrainingModel
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError
from tesched_sim.workloads.shards import check_shards

_TYPE = re.compile(r"([A-Za-z]\w{0,30}):(\d{1,6}):(\d{1,6}(?:\.\d{1,9})?)", re.ASCII)
#: least speed of a job on a type, as a part of its fastest: below it a job would seem to stand still
SLOWEST = 0.01
#: seconds; without a grace period the daemon sends no signal, so that a job which saves at once declares this
LEAST_GRACE_S = 1.0
#: greatest counts, and minutes; greatest spread of speeds; tasks of all trainings, each of which is a job
MOST, MOST_SPREAD, MOST_TASKS = 1_000_000, 10, 1_000_000
#: jobs, each of which takes 0.4 KiB while the workload is drawn: 7 GiB; and nodes, as many as Slurm allows
MOST_JOBS, MOST_NODES = 2**24, 65_536


def check_size(jobs: int, nodes: int) -> None:
    """Raise WorkloadError for more jobs than a computer's memory holds, or more nodes than a cluster has."""
    for name, count, most in (("jobs", jobs, MOST_JOBS), ("nodes", nodes, MOST_NODES)):
        if count > most:
            raise WorkloadError(f"workload.{name} must be at most {most}; it is {count}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """The parameters that all workloads have."""

    #: part of the best-effort jobs that declare a signal, and save their work at it; the others declare none, and what
    #: they did in a run is lost when they are preempted
    saving: float = 1.0
    #: types of accelerators, how many of the nodes have each, in any unit, and how fast it is: NAME:NODES:SPEED/…,
    #: as in v100:1:1/k80:2:0.3; empty: the nodes are alike
    types: str = ""
    #: standard deviation of the logarithm of how fast a job is on a type, beside the type's own speed
    type_spread: float = 0.3
    #: best-effort jobs take up to so many times their nodes, and are that much faster; their run time is with fewest
    workers: int = 1
    #: shards of each GPU (gres.conf, Name=shard): jobs may want some of them instead of a GPU; 0: GPUs are given whole
    shards: int = 0
    #: part of the jobs of one GPU that do, where a trace does not say how much of a GPU each uses
    shard_share: float = 0.5
    #: so many trainings beside the jobs, each an elastic array of tasks of one GPU, or one CPU where there are none
    trainings: int = 0
    #: of a training: iterations, minutes of one worker for one of them, and most workers at once (sbatch --array=…%N)
    iterations: int = 60
    iteration_min: float = 2.0
    most_workers: int = 16
    #: minutes after which a worker ends and the next one starts
    task_min: float = 5.0

    def check(self) -> None:
        """Raise WorkloadError for what makes no sense."""
        for name, least in (("workers", 1), ("trainings", 0), ("iterations", 1), ("most_workers", 1)):
            if not least <= getattr(self, name) <= MOST:
                raise WorkloadError(f"workload.{name} must be from {least} to {MOST}")
        for name in ("iteration_min", "task_min"):
            if not 0 < getattr(self, name) <= MOST:
                raise WorkloadError(f"workload.{name} must be above 0, and at most {MOST}")
        if not 0 <= self.saving <= 1:
            raise WorkloadError("workload.saving must be from 0 to 1")
        if not 0 <= self.type_spread <= MOST_SPREAD:
            raise WorkloadError(f"workload.type_spread must be from 0 to {MOST_SPREAD}")
        check_shards(self.shards, self.shard_share)
        if self.types:
            types_of(self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorType:
    """One type of accelerators."""

    name: str
    #: its nodes, in any unit
    weight: int
    #: beside the others, in any unit
    speed: float


def types_of(text: str) -> tuple[AcceleratorType, ...]:
    """Read `workload.types`. Raises WorkloadError."""
    found = [_TYPE.fullmatch(word) for word in text.split("/")]
    types = tuple(
        AcceleratorType(name=one[1], weight=int(one[2]), speed=float(one[3])) for one in found if one is not None
    )
    if len(types) < len(found) or min(min(one.weight, one.speed) for one in types) <= 0:
        right = "must be NAME:NODES:SPEED/NAME:NODES:SPEED, such as v100:1:1/k80:2:0.3, with numbers above 0"
        raise WorkloadError(f"workload.types {right}; it is {text!r}")
    if len({one.name for one in types}) < len(types):
        raise WorkloadError(f"workload.types names a type twice: {text!r}")
    return types


def extended(workload: Workload, beyond: Beyond, seed: int) -> Workload:
    """Add to a workload what its parameters say. Raises WorkloadError for what it cannot have."""
    rng = np.random.default_rng([seed, 0xB])
    workload = _with_notice(workload, beyond, seed)
    if beyond.trainings:
        workload = _with_trainings(workload, beyond, rng)
    if beyond.types:
        workload = _with_types(workload, beyond, rng)
    if beyond.workers > 1:
        workload = _with_workers(workload, beyond)
    if workload.array is not None or beyond.types or beyond.workers > 1:
        workload.check()
    return workload


def _with_notice(workload: Workload, beyond: Beyond, seed: int) -> Workload:
    """Say which best-effort jobs declare a signal: a part of them, each with a grace period."""
    grace_s = np.where(workload.te, 0.0, np.maximum(workload.grace_s, LEAST_GRACE_S))
    if beyond.saving == 1:
        return replace(workload, grace_s=grace_s)
    lost = ~workload.te & (np.random.default_rng([seed, 0xC]).random(len(workload)) >= beyond.saving)
    return replace(
        workload,
        grace_s=np.where(lost, 0.0, grace_s),
        yield_s=np.where(lost, np.inf, workload.yield_s),
        saves_on_notice=workload.saves_on_notice & ~lost,
        notes=(
            *workload.notes,
            f"{beyond.saving:.0%} of the best-effort jobs save their work when they get their notice",
        ),
    )


def _with_types(workload: Workload, beyond: Beyond, rng: np.random.Generator) -> Workload:
    """Give the nodes types, in their order, and each job its speed on each type."""
    types, nodes = types_of(beyond.types), workload.machines
    if "gpu" not in nodes.resources or not nodes.total[:, nodes.resources.index("gpu")].all():
        raise WorkloadError("workload.types: there are nodes without GPUs, which have no type; set workload.gpus")
    ends = np.cumsum([one.weight for one in types]) / sum(one.weight for one in types) * len(nodes.names)
    type_of = np.searchsorted(np.rint(ends), np.arange(len(nodes.names)), side="right").astype(np.intp)
    missing = [one.name for kind, one in enumerate(types) if not (type_of == kind).any()]
    if missing:
        raise WorkloadError(f"workload.types: of {len(nodes.names)} nodes none is left for {missing[0]}")
    typed = np.where(type_of[:, np.newaxis] == np.arange(len(types)), nodes.total[:, [nodes.resources.index("gpu")]], 0)
    machines = SimulatedNodes(
        names=nodes.names,
        resources=(*nodes.resources, *(f"gpu:{one.name}" for one in types)),
        total=np.hstack([nodes.total, typed]),
        types=tuple(one.name for one in types),
        type_of=type_of,
    )
    drawn = rng.lognormal(np.log([one.speed for one in types]), beyond.type_spread, (len(workload), len(types)))
    speed = np.maximum(drawn / drawn.max(axis=1, keepdims=True), SLOWEST)
    # A worker's part of an iteration is the same on each type: its training has one pace. CPUs are as fast beside any.
    gpus = [column for column, name in enumerate(nodes.resources) if name in {"gpu", SHARD}]
    on_gpus = workload.demand[:, gpus].any(axis=1)
    speed[_tasks(workload) | ~on_gpus] = 1.0
    demand = np.hstack([workload.demand, np.zeros((len(workload), len(types)), dtype=np.int64)])
    return replace(
        workload,
        machines=machines,
        demand=demand,
        speed=speed,
        limit_s=workload.limit_s / speed.min(axis=1),
        notes=(*workload.notes, f"types of GPUs: {beyond.types}; jobs' speeds on them are drawn, and are not measured"),
    )


def _tasks(workload: Workload) -> NDArray[np.bool_]:
    return np.zeros(len(workload), dtype=np.bool_) if workload.array is None else workload.array >= 0


def _with_workers(workload: Workload, beyond: Beyond) -> Workload:
    """Let best-effort jobs take more nodes, and say how long they run with most of them."""
    there = int(workload.allowed.sum(axis=1).min())
    most = np.where(workload.te | _tasks(workload), workload.nodes, workload.nodes * beyond.workers)
    most = np.maximum(np.minimum(most, there), workload.nodes).astype(np.int32)
    return replace(
        workload,
        most_nodes=most,
        run_s=workload.run_s * workload.nodes / most,
        notes=(*workload.notes, f"best-effort jobs take up to {beyond.workers} times their nodes, and scale with them"),
    )


def _new_name(name: str, known: Sequence[str]) -> str:
    return name if name not in known else _new_name(f"{name}_", known)


def _with_trainings(workload: Workload, beyond: Beyond, rng: np.random.Generator) -> Workload:
    """Add elastic arrays, submitted at random while the other jobs are."""
    count = beyond.trainings
    models = tuple(
        TrainingModel(iterations=beyond.iterations, worker_s=beyond.iteration_min * 60.0 * scale, rate=rate)
        for scale, rate in zip(rng.lognormal(0.0, 0.5, count), rng.uniform(0.8, 0.98, count), strict=True)
    )
    task_s = beyond.task_min * 60.0
    # Twice what the work takes: a worker that is preempted is not there for a while, and no task comes after the last.
    tasks = [int(np.ceil(2 * one.iterations * one.worker_s / task_s)) + beyond.most_workers for one in models]
    if sum(tasks) > MOST_TASKS:
        raise WorkloadError(
            f"workload: {count} trainings have {sum(tasks)} tasks together, and {MOST_TASKS} at most; set fewer "
            "workload.trainings, workload.iterations or workload.most_workers, or a larger workload.task_min"
        )
    added = np.repeat(np.arange(count, dtype=np.int32), tasks)
    at = np.sort(rng.uniform(0.0, float(workload.submit_s[-1]), count))
    names = list(workload.machines.resources)
    wants = np.zeros(len(names), dtype=np.int64)
    wants[names.index("cpu")] = 1
    if "gpu" in names and workload.machines.total[:, names.index("gpu")].any():
        wants[names.index("gpu")] = 1
    rows, names_of_users = len(added), workload.user_names
    # Where users are known the trainings have one of their own: no user's limits are to count them.
    own = _new_name("trainings", names_of_users) if any(names_of_users) else ""
    users = (*names_of_users, own) if own else names_of_users

    def joined(old: NDArray[np.generic], new: object) -> NDArray[np.generic]:
        return np.concatenate([old, np.broadcast_to(np.asarray(new, dtype=old.dtype), (rows,))])

    return Workload.of(
        workload.name,
        workload.machines,
        submit_s=joined(workload.submit_s, at[added]),
        run_s=joined(workload.run_s, task_s),
        limit_s=joined(workload.limit_s, 2 * task_s),
        nodes=joined(workload.nodes, 1),
        demand=np.vstack([workload.demand, np.tile(wants, (rows, 1))]),
        te=joined(workload.te, False),
        grace_s=joined(workload.grace_s, 60.0),
        yield_s=joined(workload.yield_s, 1.0),
        saves_on_notice=joined(workload.saves_on_notice, True),
        checkpoint_s=joined(workload.checkpoint_s, np.inf),
        restart_s=joined(workload.restart_s, 0.0),
        constraint=joined(workload.constraint, 0),
        allowed=workload.allowed,
        user=joined(workload.user, users.index(own)),
        user_names=users,
        array=np.concatenate([np.full(len(workload), -1, dtype=np.int32), added]),
        throttle=np.full(count, beyond.most_workers, dtype=np.int32),
        trainings=models,
        left_out=workload.left_out,
        notes=(*workload.notes, f"{count} trainings: elastic arrays of at most {beyond.most_workers} tasks at once"),
    )
