"""Node-hours that a simulated run reports, where a job's nodes and its speed are not always the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_policies.fitgpp import FitGpp
from tesched_sim import workloads
from tesched_sim.engine import Outage, Simulation
from tesched_sim.experiment import ExperimentSetting, Site, simulation
from tesched_sim.reports.summary import summarise
from tesched_sim.slurm import JobPhase
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.workload import Workload

from tests.unit.sim.examples import Sketch, simulate

#: what costs little to run, of jobs that are on one node at least
SMALL = {"jobs": "40", "nodes": "3", "be_sizes": "1:1", "be_run_mean": "20"}
SITE = ExperimentSetting.of(Site.SLURM).with_values(
    {"site.poll_s": "60", "guard.min_run_time_s": "0", "guard.cool_down_s": "0"}
)


def drawn(**more: str) -> Workload:
    """Return a small workload of jobs without what a restart takes, which no record of a preemption has."""
    workload = workloads.make("poisson", seed=0, **SMALL, **more)
    return replace(workload, restart_s=np.zeros(len(workload)))


def watched(run: Simulation) -> list[float]:
    """Return a list to which the run adds the node-seconds of each of its jobs' runs."""
    slurm, since, found = run.slurm, dict[int, tuple[float, int]](), list[float]()

    def saw(row: int) -> None:
        if slurm.state[row] is JobPhase.RUNNING:
            since[row] = slurm.now, len(slurm.where[row])
        elif row in since:
            at, nodes = since.pop(row)
            found.append((slurm.now - at) * nodes)

    slurm.watchers.append(saw)
    return found


@pytest.mark.parametrize(
    ("contender", "more"),
    [
        ("fitgpp+none", {"workers": "4"}),
        ("fitgpp+none", {"types": "v100:1:1/k80:1:0.3"}),
        ("fitgpp+slaq", {"trainings": "3", "iterations": "20"}),
    ],
    ids=["workers", "types", "trainings"],
)
def test_node_hours_are_those_that_jobs_held(contender: str, more: dict[str, str]) -> None:
    run = simulation(contender, SITE, drawn(**more))
    held = watched(run)
    result = run.run()
    summary = summarise(result)
    assert result.finished.all()
    assert summary.used_node_s == pytest.approx(sum(held))
    assert summary.preemptions > 0
    lost = np.nansum(result.preemptions.lost_node_s)
    assert summary.lost_node_s == pytest.approx(lost)
    assert summary.lost_share == pytest.approx(lost / sum(held))
    delayed = summary.be.delay_s.mean
    assert delayed is not None
    gone = result.preemptions
    # In the mean over jobs, what each of its preemptions took: on fewest nodes it would be up to four times as much.
    took_s = gone.back_s - gone.left_s + gone.lost_node_s / gone.nodes
    assert delayed * summary.be.delay_s.count == pytest.approx(np.nansum(took_s))


@pytest.mark.parametrize("poll_s", [0.0, 7.0])
def test_utilisation_counts_every_second_in_which_there_was_work_and_no_other(poll_s: float) -> None:
    # Of 8 GPUs one is held for 5 s; from 10 on all are, for 580 s. At 1000 a job comes for 4 of them and 100 s, whose
    # node is gone from 1040 to 1060: nothing runs then, and it waits; after that it begins anew.
    jobs = Sketch(run=5, gpus=1), Sketch(at=10, run=580), Sketch(at=1000, run=100, gpus=4)
    outage = [Outage(node=0, from_s=1040, to_s=1060)]
    policy = FitGpp() if poll_s else None
    summary = summarise(simulate(*jobs, behaviour=Behaviour(poll_s=poll_s), outages=outage, policy=policy))
    assert summary.busy_s == 5 + 580 + 40 + 20 + 100
    assert summary.utilisation_share["gpu"] == pytest.approx((5 * 1 + 580 * 8 + 140 * 4) / (745 * 8))


def test_a_training_is_as_near_to_the_bound_as_the_nearest_of_its_tasks() -> None:
    bounded = SITE.with_values({"guard.bound.slowdown": "3", "guard.bound.te_time_limit_s": "3600"})
    workload = drawn(trainings="1", iterations="5", most_workers="3")
    run = simulation("fitgpp", bounded, workload)
    assert run.watch is not None
    assert workload.array is not None
    tasks = np.flatnonzero(workload.array == 0)
    run.watch.bystander_s[tasks[1:3]] = 4e6, 7e6
    run.watch.delays_s[tasks[1:3]] = 4e7, 2e7
    run.watch.held[tasks[2]] = True
    result = run.run()
    entries, own = len(workload) - len(tasks) + 1, int(tasks[0])
    bound, summary = result.bound, summarise(result).bound
    assert bound is not None
    assert summary is not None
    assert len(bound.bystander_s) == len(bound.part) == len(bound.held) == len(result.workload) == entries
    assert (bound.bystander_s[own], np.flatnonzero(bound.held).tolist()) == (7e6, [own])
    assert bound.part[own] == summary.largest_part == run.watch.use(bounded.guard).part[tasks[1]]
