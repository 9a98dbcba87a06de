"""Small workloads for the simulator, one line a job. Nodes have 8 CPUs, 80 MiB and 8 GPUs; a job wants GPUs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tesched_core.policy import Policy, in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_sim.engine import NO_LIMITS, Outage, Simulation
from tesched_sim.result import Result
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.workload import SimulatedNodes, Workload

INF = float("inf")


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """One job. Seconds; what is not said is the simplest."""

    at: float = 0
    run: float
    gpus: int = 8
    te: bool = False
    grace: float = 0
    nodes: int = 1
    limit: float = INF
    yields: float | None = None
    saves: bool = True
    checkpoint: float = INF
    restart: float = 0
    only: int = 0


def te(at: float, run: float, gpus: int = 8, **more: int) -> Sketch:
    """Return a trial-and-error job."""
    return Sketch(at=at, run=run, gpus=gpus, te=True, nodes=more.get("nodes", 1), only=more.get("only", 0))


def workload(jobs: Sequence[Sketch], nodes: int = 1, allowed: Sequence[Sequence[bool]] | None = None) -> Workload:
    """Return these jobs on equal nodes; `only` of a job is a row of `allowed`."""
    return Workload.of(
        "sketch",
        SimulatedNodes.alike(nodes, cpus=8, mem_mib=80, gpus=8),
        submit_s=[job.at for job in jobs],
        run_s=[job.run for job in jobs],
        limit_s=[job.limit for job in jobs],
        nodes=[job.nodes for job in jobs],
        demand=[[0, 0, job.gpus] for job in jobs],
        te=[job.te for job in jobs],
        grace_s=[job.grace for job in jobs],
        yield_s=[job.grace if job.yields is None else job.yields for job in jobs],
        saves_on_notice=[job.saves for job in jobs],
        checkpoint_s=[job.checkpoint for job in jobs],
        restart_s=[job.restart for job in jobs],
        constraint=[job.only for job in jobs],
        allowed=None if allowed is None else np.array(allowed),
    )


def simulate(
    *jobs: Sketch,
    nodes: int = 1,
    behaviour: Behaviour | None = None,
    policy: Policy[None] | None = None,
    best_effort: Policy[None] | None = None,
    outages: Sequence[Outage] = (),
    allowed: Sequence[Sequence[bool]] | None = None,
) -> Result:
    """Run them, in order of submission; without a behaviour, as FitGpp's paper has it for a policy that preempts."""
    behaviour = behaviour or Behaviour.paper(te_first=True)
    return Simulation(
        workload(jobs, nodes, allowed),
        behaviour,
        policies=in_turn(*(one for one in (policy, best_effort) if one is not None)),
        limits=NO_LIMITS,
        outages=outages,
    ).run()


def with_fitgpp(*jobs: Sketch, nodes: int = 1, behaviour: Behaviour | None = None) -> Result:
    """Run them with FitGpp."""
    return simulate(*jobs, nodes=nodes, behaviour=behaviour, policy=FitGpp())


def starts(result: Result) -> list[float]:
    """Return when each job first started."""
    return [float(value) for value in result.start_s]


def ends(result: Result) -> list[float]:
    """Return when each job ended."""
    return [float(value) for value in result.end_s]


def preemptions(result: Result) -> list[tuple[int, int, float, float, float]]:
    """Return (victim, preemptor, notice, left, back) of each, jobs counted from 0."""
    found = result.preemptions
    columns = (found.victim, found.preemptor, found.notice_s, found.left_s, found.back_s)
    return [tuple(values) for values in zip(*(column.tolist() for column in columns), strict=True)]
