"""Jobs of `benchmarks.twin`: drawn from a seed, as the simulator has them, and what each needs on a real Slurm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError
from tesched_sim.workloads.beyond import Beyond, extended, types_of

from tesched_testcluster.definition import NodeGroup

#: of each job; job.sh has to be in the folder that it writes to
JOB_SCRIPT = Path(__file__).with_name("job.sh")
NODES, GPUS = 84, 8
#: sizes in GPUs: about a hundred jobs run at once, which two cores can bear
BE_GPUS, TE_GPUS = (8, 8, 4), (2, 4, 8)
#: seconds of work
BE_RUN_S, TE_RUN_S = (10, 40), (3, 6)
#: seconds that a victim takes to save
SAVES_S = 1.0
#: what is offered, as a part of the cluster's GPUs
LOAD = 1.3
#: seconds
GRACE_S, LIMIT_S = 6.0, 60.0
#: of a training: iterations, seconds of one worker for one of them, most workers at once, and seconds of a worker
ITERATIONS, ITERATION_S, MOST_WORKERS, TASK_S = 60, 10.0, 16, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """All that says which jobs come to which nodes; a record names it."""

    jobs: int
    seed: int = 0
    #: every time is so many times as long
    slower: int = 1
    #: as the workload's keys of the same names (docs/reference/workloads.md)
    types: str = ""
    workers: int = 1
    trainings: int = 0

    @property
    def arguments(self) -> str:
        """The options that draw it."""
        added = {"types": self.types, "workers": self.workers, "trainings": self.trainings}
        given = [
            f"--{name} {value}" for name, value in added.items() if value != Draw.__dataclass_fields__[name].default
        ]
        return " ".join([f"--jobs {self.jobs} --slower {self.slower} --seed {self.seed}", *given])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is submitted at once: a job, or a training, which is an array of tasks."""

    name: str
    #: rows of the workload: one, or those of the tasks
    rows: range
    te: bool
    #: its training; -1: it is none
    array: int
    #: seconds of work, in ticks of one second on its fewest nodes, of its fastest type
    ticks: int


def drawn(of: Draw) -> Workload:
    """Draw the jobs; their times of submission offer the load.

    Raises WorkloadError for types that there cannot be, and for jobs of one class alone; it names the option.
    """
    rng = np.random.default_rng(of.seed)
    te, gpus, run_s = [], [], []
    for _ in range(of.jobs):
        te.append(bool(rng.random() < 0.3))
        gpus.append(int(rng.choice(TE_GPUS if te[-1] else BE_GPUS)))
        run_s.append(int(rng.integers(*(TE_RUN_S if te[-1] else BE_RUN_S), endpoint=True)) * of.slower)
    offered = sum(each * seconds for each, seconds in zip(gpus, run_s, strict=True))
    span_s = offered / (LOAD * NODES * GPUS)
    workload = Workload.of(
        "twin",
        SimulatedNodes.alike(NODES, cpus=32, mem_mib=256_000, gpus=GPUS),
        submit_s=np.sort(rng.uniform(0, span_s, of.jobs)),
        run_s=run_s,
        limit_s=LIMIT_S * of.slower,
        demand=[[each, each * 1000, each] for each in gpus],
        te=te,
        grace_s=GRACE_S * of.slower,
        yield_s=SAVES_S * of.slower,
    )
    beyond = Beyond(
        types=of.types,
        workers=of.workers,
        trainings=of.trainings,
        iterations=ITERATIONS,
        iteration_min=ITERATION_S * of.slower / 60,
        most_workers=MOST_WORKERS,
        task_min=TASK_S * of.slower / 60,
    )
    try:
        beyond.check()
        found = extended(workload, beyond, of.seed)
    except WorkloadError as error:
        raise WorkloadError(str(error).replace("workload.types", "--types")) from None
    for kind, some in (("TE", found.te), ("BE", ~found.te)):
        if not some.any():
            raise WorkloadError(f"{of.arguments} draws no {kind} job; take another --seed, or more --jobs")
    limit_s, speed = found.limit_s, found.speed
    if speed is not None:
        # Trials are as fast everywhere: of a few of them the waits would say but on which type they came to run.
        speed, limit_s = speed.copy(), limit_s.copy()
        speed[found.te], limit_s[found.te] = 1.0, LIMIT_S * of.slower
    # sbatch takes minutes.
    return replace(found, speed=speed, limit_s=np.ceil(limit_s / 60) * 60)


def entries(workload: Workload) -> Iterator[Entry]:
    """Yield what is submitted, in its order."""
    array = np.full(len(workload), -1) if workload.array is None else workload.array
    most = workload.nodes if workload.most_nodes is None else workload.most_nodes
    row = number = 0
    while row < len(workload):
        mine = int(array[row])
        count = int((array == mine).sum()) if mine >= 0 else 1
        kind = "te" if workload.te[row] else "be"
        yield Entry(
            name=f"{kind}-{number}",
            rows=range(row, row + count),
            te=bool(workload.te[row]),
            array=mine,
            ticks=max(round(float(workload.run_s[row]) * int(most[row]) / int(workload.nodes[row])), 1),
        )
        row, number = row + count, number + 1


def submitted_at(workload: Workload, at_s: Sequence[float]) -> Workload:
    """Return the jobs with other times of submission, one an entry, ascending."""
    rows = np.concatenate([[at] * len(one.rows) for at, one in zip(at_s, entries(workload), strict=True)])
    return workload.submitted_at(rows)


def node_groups(workload: Workload) -> tuple[NodeGroup, ...]:
    """Return the real cluster's nodes, one group a type; names and order are the simulated ones."""
    machines = workload.machines
    if machines.type_of is None:
        return (NodeGroup(count=len(machines.names), gres={"gpu": GPUS}),)
    groups: list[NodeGroup] = []
    for kind, name in enumerate(machines.types):
        count = int((machines.type_of == kind).sum())
        groups.append(NodeGroup(first=sum(one.count for one in groups) + 1, count=count, gres={f"gpu:{name}": GPUS}))
    return tuple(groups)


def fastest_first(of: Draw) -> list[str]:
    """Names of the types, fastest first."""
    return [one.name for one in sorted(types_of(of.types), key=lambda one: -one.speed)] if of.types else []


def pace_lines(workload: Workload) -> str:
    """Return what the jobs read to know how fast they are: empty where all are as fast everywhere.

    A line for each type in order, `type LAST_NODE`: its last node's number. One for each job, `NAME FEWEST SPEED …`:
    the fewest nodes that it takes, and its speed on each type.
    """
    if workload.speed is None and workload.most_nodes is None:
        return ""
    groups = node_groups(workload)
    lasts = [f"type {one.first + one.count - 1}" for one in groups]
    speed = np.ones((len(workload), len(groups))) if workload.speed is None else workload.speed
    jobs = [
        " ".join([one.name, str(int(workload.nodes[one.rows[0]])), *(f"{each:.6f}" for each in speed[one.rows[0]])])
        for one in entries(workload)
    ]
    return "\n".join([*lasts, *jobs, ""])


def throughput_table(workload: Workload) -> str:
    """Return what `tesched throughputs import` reads: each job's speed on each type, by the name of the job."""
    lines = ["workload,scale,accelerator,steps_per_s"]
    if workload.speed is not None:
        gpus = workload.demand[:, workload.machines.resources.index("gpu")] * workload.nodes
        for one in entries(workload):
            row = one.rows[0]
            if one.te or one.array >= 0:
                continue
            lines += [
                f"{one.name},{int(gpus[row])},{name},{speed:.6f}"
                for name, speed in zip(workload.machines.types, workload.speed[row].tolist(), strict=True)
            ]
    return "\n".join([*lines, ""])


def minutes(limit_s: float) -> int:
    """Return a time limit as sbatch takes it."""
    return max(ceil(limit_s / 60), 1)
