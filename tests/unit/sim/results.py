"""Small results of simulations, written job by job.

What is not said is the simplest: a best-effort job on one node of 4 CPUs that takes 1 of them, and is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from tesched_sim.result import Preemptions, Result, Use
from tesched_sim.workload import SimulatedNodes, Workload

NODE_CPUS = 4


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A job, and what came of it."""

    submit: float = 0.0
    start: float = 0.0
    #: nan: it did not end
    end: float = nan
    run: float = 100.0
    te: bool = False
    nodes: int = 1
    cpus: int = 1
    preempted: int = 0
    lost: float = 0.0
    user: int = 0


@dataclass(frozen=True, kw_only=True)
class Noticed:
    """A victim's notice, and what came of it."""

    victim: int
    preemptor: int
    notice: float = 0.0
    left: float = nan
    back: float = nan
    #: seconds of its run that did not last
    lost: float = 0.0
    futile: bool = False


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The cluster from one instant on."""

    at: float
    cpus: int = 0
    te_waiting: int = 0
    be_waiting: int = 0


def result(
    *jobs: Ran,
    noticed: Sequence[Noticed] = (),
    samples: Sequence[Sample] = (Sample(at=0.0),),
    policy: str = "fifo",
    name: str = "by hand",
    user_names: Sequence[str] = ("user",),
    notes: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
    nodes: int = 2,
    busy_s: float = 0.0,
    held_cpu_s: float = 0.0,
) -> Result:
    """Return a result; jobs must be given in order of submission."""
    workload = Workload.of(
        name,
        SimulatedNodes.alike(nodes, cpus=NODE_CPUS, mem_mib=1000),
        submit_s=[job.submit for job in jobs],
        run_s=[job.run for job in jobs],
        demand=np.array([[job.cpus, 0, 0] for job in jobs], dtype=np.int64).reshape(-1, 3),
        te=[job.te for job in jobs],
        nodes=[job.nodes for job in jobs],
        user=[job.user for job in jobs],
        user_names=user_names,
        notes=notes,
    )
    return Result(
        workload=workload,
        policy=policy,
        settings=settings or {},
        start_s=np.array([job.start for job in jobs]),
        end_s=np.array([job.end for job in jobs]),
        preempted=np.array([job.preempted for job in jobs], dtype=np.int32),
        held_node_s=np.array([(job.run + job.lost) * job.nodes for job in jobs]),
        lost_node_s=np.array([job.lost * job.nodes for job in jobs]),
        preemptions=Preemptions(
            victim=np.array([one.victim for one in noticed], dtype=np.int64),
            preemptor=np.array([one.preemptor for one in noticed], dtype=np.int64),
            notice_s=np.array([one.notice for one in noticed]),
            left_s=np.array([one.left for one in noticed]),
            back_s=np.array([one.back for one in noticed]),
            lost_node_s=np.array([one.lost * jobs[one.victim].nodes for one in noticed]),
            nodes=np.array([jobs[one.victim].nodes for one in noticed], dtype=np.int64),
            futile=np.array([one.futile for one in noticed], dtype=np.bool_),
        ),
        use=Use(
            at_s=np.array([one.at for one in samples]),
            held=np.array([[one.cpus, 0, 0] for one in samples], dtype=np.int64),
            busy_s=busy_s,
            held_s=np.array([held_cpu_s, 0.0, 0.0]),
            te_waiting=np.array([one.te_waiting for one in samples], dtype=np.int64),
            be_waiting=np.array([one.be_waiting for one in samples], dtype=np.int64),
        ),
        events=0,
        asked=0,
        took_s=0.5,
    )


def four_jobs(policy: str = "fitgpp") -> Result:
    """Return two TE jobs, a best-effort job that left for the second, and one that did not end.

    The victim, on both nodes, gets its notice at 50, leaves at 60, is back at 110 and ends at 260: of 260 s it worked
    200 and lost the 10 s of its grace period. The cluster has 8 CPUs and no job wants any of them from 260 on.
    """
    return result(
        Ran(te=True, end=100, run=100),
        Ran(end=260, run=200, nodes=2, preempted=1, lost=10, user=1),
        Ran(te=True, submit=50, start=60, end=65, run=5),
        Ran(submit=100, start=260, run=1000),
        noticed=[Noticed(victim=1, preemptor=2, notice=50, left=60, back=110)],
        samples=[
            Sample(at=0, cpus=6),
            Sample(at=60, cpus=4, be_waiting=1),
            Sample(at=100, be_waiting=1),
            Sample(at=260),
            Sample(at=300),
        ],
        policy=policy,
        user_names=("ann", "bob"),
        # 60 s with 6 CPUs, 40 s with 4, 160 s with none but a job that waits
        busy_s=260.0,
        held_cpu_s=520.0,
    )
