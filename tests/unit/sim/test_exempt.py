"""Exempt jobs of a workload hold their nodes, and are victims of none."""

from __future__ import annotations

import numpy as np
import pytest
from tesched_sim.experiment import ExperimentSetting, run_one
from tesched_sim.reports.summary import summarise
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError


def workload(exempt: bool | list[bool]) -> Workload:
    """Give one node, which a long job holds when a TE job comes."""
    return Workload.of(
        "one node",
        SimulatedNodes.alike(1, cpus=4, mem_mib=4096),
        submit_s=[0.0, 1000.0],
        run_s=[7200.0, 60.0],
        demand=[4, 100, 0],
        te=[False, True],
        exempt=exempt,
    )


@pytest.mark.parametrize("policy", ["native", "fitgpp", "fitgpp+fill"])
def test_exempt_job_is_victim_of_none(policy: str) -> None:
    setting = ExperimentSetting(site=Behaviour.slurm(poll_s=60.0))
    plain = run_one(policy, setting, workload(exempt=False))
    assert plain.preempted.tolist() == [1, 0]
    held = run_one(policy, setting, workload(exempt=[True, False]))
    assert held.preempted.tolist() == [0, 0]
    assert held.waited_s[1] >= 6200


def test_it_counts_to_no_class() -> None:
    result = run_one("fifo", ExperimentSetting(), workload(exempt=[True, False]))
    found = summarise(result)
    assert (found.te.jobs, found.be.jobs, found.all_jobs.jobs) == (1, 0, 2)
    assert result.workload.be.tolist() == [False, False]
    assert workload(exempt=False).be.tolist() == [True, False]


def test_no_te_job_is_exempt() -> None:
    with pytest.raises(WorkloadError, match="job 2: it is TE and exempt"):
        workload(exempt=True)


def test_it_stays_with_its_job_in_order_of_submission() -> None:
    made = Workload.of(
        "turned round",
        SimulatedNodes.alike(2, cpus=4, mem_mib=4096),
        submit_s=[50.0, 0.0],
        run_s=10.0,
        demand=[4, 100, 0],
        te=False,
        exempt=[True, False],
    )
    assert made.exempt is not None
    assert np.flatnonzero(made.exempt).tolist() == [1]
    assert made.first(1).be.tolist() == [True]
