"""Types of accelerators, workers and trainings that are added to a workload, and how fast jobs are with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_core.policy import in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_policies.gavel.policy import Gavel
from tesched_policies.pdors.policy import PdOrs
from tesched_sim import workloads
from tesched_sim.engine import Simulation, simulate
from tesched_sim.experiment import ExperimentSetting, check_needs
from tesched_sim.observer import SimulatedObserver
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError
from tesched_sim.workloads.beyond import Beyond, extended, types_of

#: what costs little to draw
SMALL = {"jobs": "40", "nodes": "6"}


def two_types(speed: list[list[float]], *, run_s: float = 100.0, nodes: int = 1, **more: object) -> Workload:
    """Return jobs of a whole node each, all at 0: n1 has a v100, n2 a k80."""
    count = len(speed)
    return Workload.of(
        "types",
        SimulatedNodes(
            names=("n1", "n2"),
            resources=("cpu", "mem_mib", "gpu", "gpu:v100", "gpu:k80"),
            total=np.array([[8, 80, 1, 1, 0], [8, 80, 1, 0, 1]], dtype=np.int64),
            types=("v100", "k80"),
            type_of=np.array([0, 1], dtype=np.intp),
        ),
        submit_s=[0.0] * count,
        run_s=run_s,
        demand=[[1, 0, 1, 0, 0]] * count,
        te=False,
        nodes=nodes,
        speed=speed,
        **more,  # type: ignore[arg-type]
    )


def test_job_takes_longer_where_it_is_slower() -> None:
    result = simulate(two_types([[1.0, 0.5], [1.0, 0.25]]), Behaviour())
    assert result.end_s.tolist() == [100.0, 400.0]


def test_job_on_nodes_of_two_types_is_as_fast_as_on_the_slower_one() -> None:
    result = simulate(two_types([[1.0, 0.2]], nodes=2), Behaviour())
    assert result.end_s.tolist() == [500.0]


def test_job_that_was_moved_keeps_the_work_and_not_the_time() -> None:
    run = Simulation(two_types([[1.0, 0.5]], checkpoint_s=10.0), Behaviour(requeue_delay_s=40.0))
    slurm = run.slurm
    slurm.submit(0)
    slurm.start(0, (1,))
    slurm.now = 90.0  # 45 s of work, 40 of them saved
    slurm._leave(0)
    assert (slurm.saved_s[0], slurm.lost_node_s[0]) == (40.0, 10.0)


def test_job_without_a_type_holds_gpus_of_its_nodes_type() -> None:
    run = Simulation(two_types([[1.0, 0.5]] * 2), Behaviour())
    for row in range(2):
        run.slurm.submit(row)
    run.scheduler.run()
    jobs = SimulatedObserver(run.slurm).observe().jobs
    assert [dict(job.allocation[0].tres.gres) for job in jobs.values()] == [
        {"gpu": 1, "gpu:v100": 1},
        {"gpu": 1, "gpu:k80": 1},
    ]
    assert not run.slurm.free[:, 2:].any()


def test_gavel_gives_each_job_the_type_on_which_it_is_faster() -> None:
    # The first one starts on the v100, where it is no faster than on the k80; the second one gains from a v100.
    speed = [[1.0, 1.0], [1.0, 0.1]]
    workload = two_types(speed, run_s=3000.0, grace_s=1.0)
    entries = in_turn(FitGpp(), Gavel(types=("v100", "k80")))
    behaviour = Behaviour(requeue_delay_s=121.0, poll_s=30.0)
    with_gavel, without = simulate(workload, behaviour, policies=entries), simulate(workload, behaviour)
    assert without.end_s[1] == 30_000.0
    # It has the v100 after the first round, and for at least half of the time from then on.
    assert with_gavel.end_s[1] < 10_000.0
    assert with_gavel.preempted[0] >= 1


@pytest.mark.parametrize("types", [(), ("v100", "k80")])
def test_job_alone_keeps_the_type_on_which_it_is_faster_whatever_the_names_of_types(types: tuple[str, ...]) -> None:
    # By name the k80 would choose first, and take it from the v100, where its whole share is.
    workload = two_types([[1.0, 0.1]], run_s=3000.0, grace_s=1.0)
    result = simulate(workload, Behaviour(poll_s=30.0), policies=in_turn(FitGpp(), Gavel(types=types)))
    assert (result.end_s.tolist(), result.preempted.tolist()) == ([3000.0], [0])


def test_job_that_moves_starts_on_its_free_nodes_as_soon_as_it_is_eligible() -> None:
    run = Simulation(two_types([[0.1, 1.0]], run_s=3000.0), Behaviour(requeue_delay_s=100.0))
    run.slurm.submit(0)
    run.scheduler.run()
    run.slurm._leave(0)
    run.slurm.bind(0, (1,))
    run.scheduler.run()
    run._submit_s.clear()
    assert (run.run().end_s.tolist(), run.slurm.ran_on[0]) == ([3100.0], (1,))


def test_job_alone_moves_once_to_the_type_on_which_it_is_faster() -> None:
    workload = two_types([[0.1, 1.0]], run_s=3000.0, grace_s=1.0)
    behaviour = Behaviour(requeue_delay_s=121.0, poll_s=30.0)
    result = simulate(workload, behaviour, policies=in_turn(FitGpp(), Gavel()))
    assert result.preempted.tolist() == [1]
    assert result.end_s[0] < 4000.0


def test_nodes_are_kept_for_a_best_effort_job_that_moves_where_requeued_jobs_start_at_once() -> None:
    workload = two_types([[1.0, 1.0], [1.0, 0.1]], run_s=3000.0, grace_s=1.0)
    result = simulate(
        workload, Behaviour.paper(te_first=True), policies=in_turn(FitGpp(), Gavel(types=("v100", "k80")))
    )
    assert result.end_s[1] < 10_000.0


def test_fewer_nodes_do_less_in_a_second() -> None:
    workload = workloads.make("poisson", seed=0, **SMALL, workers="3", gpus="4", te_share="0")
    alone = workload.first(1)
    least = simulate(alone, Behaviour()).end_s - alone.submit_s
    assert alone.most_nodes is not None
    assert least.tolist() == pytest.approx([alone.run_s[0]])
    few = Simulation(alone, Behaviour())
    few.slurm.nodes_most[0] = few.slurm.nodes_wanted[0]
    took = few.run().end_s - alone.submit_s
    assert took.tolist() == pytest.approx((alone.run_s * alone.most_nodes / alone.nodes).tolist())


def test_pdors_plans_how_many_nodes_a_job_gets() -> None:
    workload = workloads.make("poisson", seed=1, jobs="12", nodes="4", workers="3", te_share="0")
    run = Simulation(workload, Behaviour(poll_s=30.0), policies=in_turn(FitGpp(), PdOrs()))
    seen: list[str] = []
    assert run.daemon is not None
    run.daemon.watchers.append(lambda _, decision: seen.append(decision.summary))
    assert run.run().finished.all()
    assert [text for text in seen if "has failed" in text] == []


@pytest.mark.parametrize(
    "more", [{"types": "v100:1:1/k80:2:0.3"}, {"workers": "3"}, {"trainings": "2"}, {"saving": "0.5"}]
)
def test_jobs_are_the_same_with_and_without_what_is_added(more: dict[str, str]) -> None:
    plain, extended = (workloads.make("fitgpp", seed=2, **SMALL, **each) for each in ({}, more))
    alone = np.ones(len(extended), dtype=np.bool_) if extended.array is None else extended.array < 0
    assert np.array_equal(plain.submit_s, extended.submit_s[alone])
    assert np.array_equal(plain.te, extended.te[alone])


def test_a_part_of_the_best_effort_jobs_declares_a_signal_and_the_others_lose_their_runs() -> None:
    every, some, none = (workloads.make("fitgpp", seed=2, **SMALL, saving=part) for part in ("1", "0.5", "0"))
    be = ~every.te
    # Without a grace period no signal is sent: one that saves at once has the shortest.
    assert every.grace_s[be].min() == 1.0
    assert every.saves_on_notice.all()
    saves = some.saves_on_notice & be
    assert 0 < saves.sum() < be.sum()
    assert np.array_equal(some.grace_s, np.where(saves, every.grace_s, 0.0))
    assert np.isinf(some.yield_s[be & ~saves]).all()
    assert not none.grace_s.any()
    assert not none.saves_on_notice[be].any()


@pytest.mark.parametrize("saving", [1.5, -0.1])
def test_a_part_that_is_none_is_refused(saving: float) -> None:
    with pytest.raises(WorkloadError, match=r"workload\.saving must be from 0 to 1"):
        workloads.make("fitgpp", seed=2, **SMALL, saving=str(saving))


def test_nodes_are_divided_among_types_by_their_parts() -> None:
    workload = workloads.make("poisson", seed=0, **SMALL, types="v100:1:1/k80:2:0.3")
    assert workload.machines.type_of is not None
    assert workload.machines.type_of.tolist() == [0, 0, 1, 1, 1, 1]
    assert workload.speed is not None
    assert workload.speed.max(axis=1).tolist() == [1.0] * 40
    assert (workload.limit_s >= workload.most_run_s).all()


def test_trainings_have_a_user_of_their_own_where_users_are_known() -> None:
    plain = workloads.make("poisson", seed=3, **SMALL)
    known = replace(plain, user_names=("ann", "trainings"), user=(np.arange(len(plain)) % 2).astype(np.int32))
    added = extended(known, Beyond(trainings=2, iterations=5), 3)
    assert added.array is not None
    tasks = added.array >= 0
    of_tasks = {added.user_names[user] for user in added.user[tasks].tolist()}
    assert len(of_tasks) == 1
    assert of_tasks.isdisjoint({"ann", "trainings"})
    assert np.array_equal(added.user[~tasks], known.user)
    unknown = extended(plain, Beyond(trainings=2, iterations=5), 3)
    assert {unknown.user_names[user] for user in unknown.user.tolist()} == {""}


def without_gpus(jobs: slice) -> Workload:
    """Return a workload of which these jobs want CPUs and memory alone."""
    plain = workloads.make("poisson", seed=3, **SMALL)
    demand = plain.demand.copy()
    demand[jobs, plain.machines.resources.index("gpu")] = 0
    return extended(replace(plain, demand=demand), Beyond(types="v100:1:1/k80:1:0.1"), 3)


def test_job_without_gpus_is_as_fast_beside_any_type() -> None:
    workload = without_gpus(slice(5))
    assert workload.speed is not None
    assert (workload.speed.min(axis=1) == 1.0).tolist() == [True] * 5 + [False] * 35


def test_gavel_is_refused_where_no_best_effort_job_wants_gpus() -> None:
    check_needs("fitgpp+gavel", ExperimentSetting(), without_gpus(slice(5)))
    with pytest.raises(WorkloadError, match=r"fitgpp\+gavel: no best-effort job of this workload wants GPUs"):
        check_needs("fitgpp+gavel", ExperimentSetting(), without_gpus(slice(None)))


def test_pdors_is_refused_where_no_job_may_have_more_nodes_than_it_must() -> None:
    alone = workloads.make("poisson", seed=0, jobs="5", nodes="1", workers="2")
    with pytest.raises(WorkloadError, match=r"fitgpp\+pdors: no job of this workload takes more nodes"):
        check_needs("fitgpp+pdors", ExperimentSetting(), alone)


def test_types_are_read() -> None:
    assert [(one.name, one.weight, one.speed) for one in types_of("a:2:1/b:1:0.5")] == [("a", 2, 1.0), ("b", 1, 0.5)]
    with pytest.raises(WorkloadError, match=r"workload\.types must be"):
        types_of("a:2:1/")


@pytest.mark.parametrize("value", ["-1", "1000001", "99999999999999999999"])
@pytest.mark.parametrize("key", ["workers", "trainings", "iterations", "most_workers"])
def test_count_that_is_too_small_or_too_large_is_refused_by_its_key(key: str, value: str) -> None:
    with pytest.raises(WorkloadError, match=rf"workload\.{key} must be from [01] to 1000000"):
        workloads.make("poisson", seed=0, **SMALL, **{key: value})


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e308"])
@pytest.mark.parametrize("key", ["iteration_min", "task_min"])
def test_time_that_makes_no_sense_is_refused_by_its_key(key: str, value: str) -> None:
    with pytest.raises(WorkloadError, match=rf"workload\.{key} must be above 0, and at most 1000000"):
        workloads.make("poisson", seed=0, **SMALL, **{key: value})


@pytest.mark.parametrize("value", ["-1", "nan", "1e308"])
def test_spread_of_speeds_that_makes_no_sense_is_refused(value: str) -> None:
    with pytest.raises(WorkloadError, match=r"workload\.type_spread must be from 0 to 10"):
        workloads.make("poisson", seed=0, **SMALL, type_spread=value)


@pytest.mark.parametrize("more", [{"iterations": "1000000"}, {"most_workers": "1000000"}, {"task_min": "1e-300"}])
def test_trainings_of_more_tasks_than_can_be_simulated_are_refused_before_any_is_made(more: dict[str, str]) -> None:
    with pytest.raises(WorkloadError, match=r"and 1000000 at most; set fewer workload\.trainings"):
        workloads.make("poisson", seed=0, **SMALL, trainings="3", **more)
