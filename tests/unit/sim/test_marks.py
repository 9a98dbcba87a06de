"""Marks on the simulated Slurm: two jobs fill two nodes, and a trial-and-error job of a whole node comes at 100 s."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import MarkLine, Reason, ReasonCode, SetMarks
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.order import Departure
from tesched_core.model.resources import JobId
from tesched_core.policy import in_turn
from tesched_policies.baselines import YoungestFirst
from tesched_sim.actuator import SimulatedActuator
from tesched_sim.engine import Simulation
from tesched_sim.slurm_settings import Behaviour

from tests.unit.sim.examples import Sketch, te, workload

JOBS = [Sketch(at=0, run=1000, grace=60), Sketch(at=0, run=1000, grace=60), te(at=100, run=50)]
MARK = MarkLine(job_id=JobId(1), order=5, grace_s=0, max_restarts=1, least_run_s=60, after=0, until=900)


def preempted(*marks: MarkLine, barred: tuple[str, ...] = (), wait_s: int = 0, until_s: float = 200) -> list[int]:
    """Return the ids of the jobs that have left for the TE job by then."""
    run = Simulation(workload(JOBS, nodes=2), replace(Behaviour.slurm(), kill_wait_s=0.0))
    reason = Reason(code=ReasonCode.MARKS, text="test")
    action = SetMarks(job_id=JobId(0), reason=reason, marks=marks, barred=barred, wait_s=wait_s)
    SimulatedActuator(run.slurm).act(action)
    run.go_on(until_s)
    return [record.victim + 1 for record in run.slurm.records]


def test_the_first_by_its_mark_leaves() -> None:
    second = replace(MARK, job_id=JobId(2))
    assert preempted(MARK, replace(second, order=4)) == [2]
    assert preempted(MARK, replace(second, order=6)) == [1]


@pytest.mark.parametrize(
    "mark",
    [
        replace(MARK, until=99),
        replace(MARK, after=300),
        replace(MARK, max_restarts=0),
        replace(MARK, least_run_s=500),
    ],
    ids=["it is over", "it has not begun", "the job was preempted before", "the job has not run so long"],
)
def test_without_a_mark_that_holds_no_job_leaves(mark: MarkLine) -> None:
    assert preempted(mark) == []


def test_for_a_user_over_its_limit_no_job_leaves_and_for_others_after_the_wait() -> None:
    assert preempted(MARK, barred=("",)) == []
    assert preempted(MARK, wait_s=50, until_s=149) == []
    assert preempted(MARK, wait_s=50, until_s=151) == [1]


def test_what_slurm_has_preempted_is_seen_and_counts() -> None:
    limits = Limits(lever=YieldBy.PLUGIN, wait_for_free_s=0)
    run = Simulation(workload(JOBS, nodes=2), Behaviour.slurm(), policies=in_turn(YoungestFirst()), limits=limits)
    run.go_on(240)
    assert run.daemon is not None
    seen = [victim for order in run.daemon.memory.orders.values() for victim in order.victims]
    assert [(victim.departure, victim.by_slurm) for victim in seen] == [(Departure.REQUEUED, True)]
    assert run.daemon.memory.job(seen[0].job_id).preemptions == 1
