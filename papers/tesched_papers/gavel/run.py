"""Runs of Gavel's simulation, one or many at once, and their figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tesched_papers.gavel.policies import Contender
from tesched_papers.gavel.rounds import Cluster
from tesched_papers.gavel.simulate import MOST_JOBS, simulate
from tesched_papers.gavel.throughputs import measured
from tesched_papers.gavel.workload import GavelWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run to be made."""

    contender: Contender
    cluster: Cluster
    workload: GavelWorkload
    #: jobs that count in the times, by index: the first, and the one after the last
    window: tuple[int, int]
    seed: int
    #: it ends in an error when more jobs than these are there at once
    most_jobs: int = MOST_JOBS


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Result of a run; hours and percentiles are of the window's jobs, from arrival to end."""

    mean_jct_h: float
    p50_jct_h: float
    p90_jct_h: float
    p99_jct_h: float
    #: hours from the first arrival to the window's last end
    makespan_h: float
    #: share of the accelerators' time that was held
    use: float
    #: share of the running jobs that stay where they are from one round to the next
    renewed: float
    #: starts for each job that ended, the first one among them
    starts_per_job: float
    #: share of the held time that restarts cost
    restarting: float
    rounds: int
    allocations: int
    #: jobs that ended in the whole run, also outside of the window
    ended: int
    #: seconds of the processor's time, and of these those in which allocations were made
    took_s: float
    allocating_s: float


def perform(plan: Plan) -> Figures:
    """Make one run. Raises WorkloadError if a job can never run, OverloadError if the cluster does not keep up."""
    jobs = plan.workload.jobs(plan.seed, measured())
    window = range(*plan.window)
    contender = plan.contender
    outcome = simulate(
        jobs,
        window,
        plan.cluster,
        contender.allocate(plan.seed),
        manner=contender.manner(),
        seed=plan.seed,
        most_jobs=plan.most_jobs,
    )
    jct_h = np.array([outcome.jct_s[index] for index in window]) / 3600
    p50, p90, p99 = np.percentile(jct_h, (50, 90, 99)).tolist()
    return Figures(
        mean_jct_h=float(jct_h.mean()),
        p50_jct_h=p50,
        p90_jct_h=p90,
        p99_jct_h=p99,
        makespan_h=outcome.end_s / 3600,
        use=outcome.busy_s / (sum(plan.cluster.capacity) * outcome.end_s),
        renewed=outcome.renewed / max(outcome.could_renew, 1),
        starts_per_job=outcome.starts / len(outcome.jct_s),
        restarting=outcome.restarting_s / outcome.busy_s,
        rounds=outcome.rounds,
        allocations=outcome.allocations,
        ended=len(outcome.jct_s),
        took_s=outcome.took_s,
        allocating_s=outcome.allocating_s,
    )
