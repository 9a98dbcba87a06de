"""Job arrays on the simulated Slurm, their throttles, and the trainings whose workers their tasks are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tesched_core.model.actions import Reason, ReasonCode, SetField, sets
from tesched_core.model.columns import MOST_WAITING
from tesched_core.model.decision import Decision
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.placement.columns_of import columns_of
from tesched_core.policy import in_turn
from tesched_policies.fill import Fill
from tesched_policies.fitgpp import FitGpp
from tesched_policies.patient import Patient
from tesched_policies.slaq.policy import Slaq
from tesched_sim.actuator import SimulatedActuator
from tesched_sim.arrays import TrainingModel, TrainingProgress
from tesched_sim.engine import Outage, Simulation
from tesched_sim.observer import SimulatedObserver
from tesched_sim.slurm import MIN_JOB_AGE_S, JobPhase
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.workload import SimulatedNodes, Workload

from tests.builders import hold, release

WHY = Reason(code=ReasonCode.ADMIN, text="test")
#: one worker does an iteration in 60 s
MODEL = TrainingModel(iterations=20, worker_s=60.0, rate=0.9)


def arrays(*sizes: int, throttle: int = 0) -> Workload:
    """Return arrays of so many tasks of one GPU and 100 s each, all submitted at 0, on one node of 8 GPUs."""
    count = sum(sizes)
    return Workload.of(
        "arrays",
        SimulatedNodes.alike(1, cpus=64, mem_mib=80, gpus=8),
        submit_s=[0.0] * count,
        run_s=100.0,
        demand=[[1, 0, 1]] * count,
        te=False,
        array=np.repeat(np.arange(len(sizes)), sizes),
        throttle=[throttle] * len(sizes),
        trainings=[MODEL] * len(sizes),
    )


def begun(workload: Workload) -> Simulation:
    """Return a simulation in which all tasks are submitted, and those run that may."""
    run = Simulation(workload, Behaviour())
    for row in range(len(workload)):
        run.slurm.submit(row)
    run.scheduler.run()
    return run


def running(run: Simulation) -> int:
    return sum(state is JobPhase.RUNNING for state in run.slurm.state)


def throttles(run: Simulation, array: int, tasks: int) -> None:
    action = SetField(job_id=JobId(array), reason=WHY, field=Field.THROTTLE, value=tasks, previous=0)
    assert SimulatedActuator(run.slurm).act(action).failure is None
    run.scheduler.run()


def test_no_more_tasks_run_than_the_throttle_allows_and_none_is_ended_for_it() -> None:
    run = begun(arrays(20, throttle=2))
    assert running(run) == 2
    throttles(run, 20, 5)
    assert running(run) == 5
    throttles(run, 20, 1)
    assert running(run) == 5
    throttles(run, 20, 0)
    assert running(run) == 8


def test_requeued_task_that_may_not_start_yet_takes_no_others_place_under_the_throttle() -> None:
    run = Simulation(arrays(5, throttle=2), Behaviour(requeue_delay_s=1000.0))
    for row in range(5):
        run.slurm.submit(row)
    run.scheduler.run()
    run.slurm._leave(0)
    run.scheduler.run()
    assert [row for row in range(5) if run.slurm.state[row] is JobPhase.RUNNING] == [1, 2]
    run.slurm.cancel(1)
    run.scheduler.run()
    assert [row for row in range(5) if run.slurm.state[row] is JobPhase.RUNNING] == [2, 3]


def test_tasks_that_are_kept_back_are_those_behind_the_throttles_edge_whatever_comes_and_goes() -> None:
    workload = replace(arrays(60, 60, throttle=6), trainings=(replace(MODEL, iterations=400),) * 2)
    # The node goes, so that tasks come back, and throttles change.
    outages = [Outage(node=0, from_s=170.0 * at, to_s=170.0 * at + 30) for at in range(1, 30)]
    slurm = (run := Simulation(workload, Behaviour(requeue_delay_s=45.0), outages=outages)).slurm
    known, throttle = slurm.arrays, slurm.throttle
    assert known is not None
    checked = 0

    def kept_back(array: int) -> set[int]:
        left, found = known.throttle[array] - known.running[array], set()
        for row in (row for row in known.rows[array] if slurm.state[row] is JobPhase.PENDING):
            if left <= 0:
                found.add(row)
            left -= row not in slurm.ineligible and row not in slurm.held
        return found

    def watched(array: int) -> None:
        nonlocal checked
        throttle(array)
        checked += 1
        assert slurm.throttled & set(known.rows[array]) == kept_back(array)

    def throttled(array: int, tasks: int) -> None:
        known.throttle[array] = tasks
        watched(array)

    slurm.throttle = watched  # type: ignore[method-assign]
    for at in range(40):
        slurm.later(110.0 * at, partial(throttled, at % 2, (7, 2, 5, 1)[at // 2 % 4]))
    run.run()
    assert sum(slurm.restarts[row] for rows in known.rows for row in rows) > 10
    assert checked > 100


def test_a_task_that_starts_or_ends_moves_few_of_those_that_wait() -> None:
    run = Simulation(arrays(400, throttle=4), Behaviour())
    moved, keep_back = [], run.slurm.keep_back
    run.slurm.keep_back = lambda row, why, *, back: (moved.append(row), keep_back(row, why, back=back))  # type: ignore[method-assign,assignment,func-returns-value]
    run.run()
    # Each start and each end is at the edge of at most as many as run at once, and one more.
    assert len(moved) <= 2 * 400 * 5


def test_throttle_by_a_tasks_own_id_changes_nothing() -> None:
    run = begun(arrays(20, throttle=2))
    throttles(run, 1, 5)
    assert running(run) == 2


def test_throttled_array_lets_the_next_one_start() -> None:
    run = begun(arrays(20, 20, throttle=3))
    assert [run.slurm.arrays.running[array] for array in (0, 1) if run.slurm.arrays] == [3, 3]


def test_waiting_tasks_are_one_record_and_a_running_one_its_own() -> None:
    run = begun(arrays(20, throttle=2))
    jobs = SimulatedObserver(run.slurm).observe().jobs
    assert sorted(jobs) == [1, 2, 20]
    assert [job.label for job in jobs.values()] == ["20_0", "20_1", "20_[2-19%2]"]
    assert (jobs[JobId(20)].reason, jobs[JobId(20)].array_throttle) == ("JobArrayTaskLimit", 2)
    assert JobId(7) not in jobs


def test_tasks_of_an_array_are_found_as_their_records_say() -> None:
    run = begun(arrays(20, 5, throttle=2))
    seen = SimulatedObserver(run.slurm).observe()
    assert seen.columns is not None
    found = {array: [job.job_id for job in tasks] for array, tasks in seen.columns.tasks.items()}
    assert found == {20: [1, 2, 20], 25: [21, 22, 25]}
    assert seen.columns.tasks == columns_of(seen).tasks


def test_an_array_has_one_place_in_the_queue_that_of_its_first_task() -> None:
    run = begun(arrays(20, MOST_WAITING + 100, 5))
    seen = SimulatedObserver(run.slurm).observe()
    assert seen.columns is not None
    others = seen.columns.waiting.others
    assert [job_id for _, job_id in others] == [20, MOST_WAITING + 120, MOST_WAITING + 125]
    assert {job_id for _, job_id in others} <= set(seen.jobs)


def test_array_is_held_and_released_as_one() -> None:
    run = begun(arrays(20, throttle=2))
    hands = SimulatedActuator(run.slurm)
    hands.act(hold(JobId(20), WHY))
    throttles(run, 20, 0)
    assert running(run) == 2
    hands.act(release(JobId(20), WHY))
    run.scheduler.run()
    assert running(run) == 8


def test_training_ends_when_its_workers_have_done_its_iterations() -> None:
    # 20 iterations of 60 s by 4 workers: 300 s, though its tasks would take 20 * 100 / 4 = 500 s.
    result = Simulation(arrays(20, throttle=4), Behaviour()).run()
    assert (len(result.workload), result.end_s.tolist(), result.workload.run_s.tolist()) == (1, [300.0], [300.0])


def test_training_that_is_throttled_takes_longer() -> None:
    run = begun(arrays(40, throttle=4))
    throttles(run, 40, 1)
    run._submit_s.clear()
    # 4 workers for 100 s do 400 s of 1,200; one alone does the rest.
    assert run.run().end_s.tolist() == [pytest.approx(900.0)]


def test_training_reports_each_iteration_with_its_loss_when_it_was_done() -> None:
    progress = TrainingProgress(model=replace(MODEL, floor=1.0, fall=2.0, rate=0.5))
    progress.count(0.0, 0)
    progress.count(90.0, 2)
    progress.count(120.0, 0)
    progress.count(150.0, 1)
    curve = progress.reported().curve
    assert curve.iteration.tolist() == [1, 2, 3]
    assert curve.loss.tolist() == [2.0, 1.5, 1.25]
    assert curve.at.tolist() == [30.0, 60.0, 90.0]
    assert progress.done == 3.5


def test_slaq_throttles_the_training_that_would_keep_the_other_waiting() -> None:
    slow, fast = replace(MODEL, iterations=60, rate=0.999), replace(MODEL, iterations=60, rate=0.9)
    workload = replace(arrays(100, 100, throttle=8), trainings=(slow, fast))
    entries = in_turn(FitGpp(), Slaq())
    run = Simulation(workload, Behaviour(poll_s=30.0), policies=entries)
    seen: list[Decision] = []
    assert run.daemon is not None
    run.daemon.watchers.append(lambda _, decision: seen.append(decision))
    with_slaq, without = run.run(), Simulation(workload, Behaviour()).run()
    assert with_slaq.finished.all()
    assert [one.summary for one in seen if "has failed" in one.summary] == []
    throttled = {one.job_id for decision in seen for one in decision.actions if sets(one, Field.THROTTLE)}
    assert throttled == {100, 200}
    assert with_slaq.start_s[1] < without.start_s[1]


def test_fill_runs_beside_an_array_that_waits() -> None:
    run = Simulation(arrays(20, 20), Behaviour(poll_s=30.0), policies=in_turn(Patient(), Fill()))
    seen: list[Decision] = []
    assert run.daemon is not None
    run.daemon.watchers.append(lambda _, decision: seen.append(decision))
    assert run.run().finished.all()
    assert seen
    assert [one.summary for one in seen if "has failed" in one.summary] == []


def test_the_record_of_an_array_is_known_for_as_long_as_one_of_its_tasks() -> None:
    run = begun(arrays(3))
    slurm = run.slurm
    for row in (2, 0):
        slurm.cancel(row)
    slurm.now += MIN_JOB_AGE_S + 1
    slurm.cancel(1)
    slurm.forget()
    assert set(slurm.known) == {1, 2}, "the last one's id is the array's"
    throttles(run, 3, 1)
    slurm.now += MIN_JOB_AGE_S + 1
    slurm.forget()
    assert not slurm.known
