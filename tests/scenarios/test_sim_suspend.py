"""Victims that are suspended, on the simulated cluster. One node of 8 CPUs, 80 MiB and 8 GPUs; times in seconds.

Job 0 is best effort, comes at 0, runs 100 s and has 30 s of grace; job 1 is a trial that comes at 20 and runs 10 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesched_core.model.limits import YieldBy
from tesched_core.policy import in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_sim.engine import NO_LIMITS, Simulation
from tesched_sim.result import Result
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.workload import SimulatedNodes, Workload

from tests.unit.sim.examples import ends, preemptions, starts

#: CPUs, MiB and GPUs
ALL_CPUS, HALF, A_GPU = (8, 10, 0), (4, 10, 0), (8, 10, 1)


def simulated(
    first: tuple[int, int, int] = ALL_CPUS, *later: tuple[float, float, tuple[int, int, int]], poll_s: float = 0.0
) -> Result:
    """Run jobs 0 and 1, and best-effort jobs that come later: when, for how long, and what each wants."""
    jobs: Sequence[tuple[float, float, tuple[int, int, int]]] = [(0, 100, first), (20, 10, HALF), *later]
    count = len(jobs)
    workload = Workload.of(
        "suspended",
        SimulatedNodes.alike(1, cpus=8, mem_mib=80, gpus=8),
        submit_s=[at for at, _, _ in jobs],
        run_s=[run for _, run, _ in jobs],
        limit_s=[float("inf")] * count,
        nodes=[1] * count,
        demand=[list(wants) for _, _, wants in jobs],
        te=[number == 1 for number in range(count)],
        grace_s=[30.0] * count,
        yield_s=[30.0] * count,
        saves_on_notice=[True] * count,
        checkpoint_s=[float("inf")] * count,
        restart_s=[0.0] * count,
        constraint=[0] * count,
        allowed=None,
    )
    limits = replace(NO_LIMITS, lever=YieldBy.AUTO)
    behaviour = replace(Behaviour.paper(te_first=True), poll_s=poll_s)
    return Simulation(workload, behaviour, policies=in_turn(FitGpp()), limits=limits).run()


def test_it_stands_still_while_the_trial_runs_and_loses_nothing() -> None:
    result = simulated()
    assert (starts(result), ends(result)) == ([0, 20], [110, 30])
    assert preemptions(result) == []


def test_with_a_gpu_it_has_its_grace_period_and_is_requeued() -> None:
    result = simulated(A_GPU)
    assert (starts(result)[1], ends(result)) == (50, [140, 60])


def test_it_waits_for_a_job_that_came_later_and_fitted_beside_the_trial() -> None:
    result = simulated(ALL_CPUS, (25, 50, HALF))
    assert starts(result) == [0, 20, 25]
    assert ends(result) == [100 + 55, 30, 75]


def test_no_job_is_suspended_where_a_waiting_job_would_be_there_before() -> None:
    result = simulated(ALL_CPUS, (10, 50, HALF))  # it comes before the trial, which is counted as job 2 then
    assert preemptions(result) == [(0, 2, 20, 50, 60)]


def test_a_second_trial_gets_none_of_its_cpus_and_it_goes_on_in_between() -> None:
    result = simulated(ALL_CPUS, (40, 5, (8, 10, 8)))
    assert ends(result)[0] == 110
    assert starts(result)[2] == 110
