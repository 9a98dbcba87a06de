"""The simulated Slurm's holds, and the submission hook that holds TE jobs: each start worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Action, FailureKind, Reason, ReasonCode, SetField, Status
from tesched_core.model.cluster import HELD_BY_US
from tesched_core.model.field import Field
from tesched_core.model.limits import Bound
from tesched_core.model.resources import JobId
from tesched_core.policy import in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_sim.actuator import SimulatedActuator
from tesched_sim.engine import NO_LIMITS, Simulation
from tesched_sim.observer import SimulatedObserver
from tesched_sim.result import Result
from tesched_sim.slurm import JobPhase, Slurm
from tesched_sim.slurm_scheduler import Scheduler
from tesched_sim.slurm_settings import Behaviour

from tests.builders import hold, release
from tests.unit.sim.examples import Sketch, starts, te, workload

WHY = Reason(code=ReasonCode.NOT_ITS_TURN, text="test")
FIRST, SECOND = JobId(1), JobId(2)


class Site:
    """One node, and two jobs that each fill it; neither has started."""

    def __init__(self) -> None:
        """Submit both."""
        self.slurm = Slurm(workload([Sketch(run=10), Sketch(run=10)]), Behaviour.paper(te_first=False))
        self.scheduler = Scheduler(self.slurm)
        self.hands = SimulatedActuator(self.slurm)
        for row in range(2):
            self.slurm.submit(row)

    def does(self, action: Action) -> FailureKind | None:
        """Perform an action, go over the queue, and return how it failed."""
        outcome = self.hands.act(action)
        self.scheduler.run()
        assert (outcome.status is Status.SENT) is (outcome.failure is None)
        return outcome.failure.kind if outcome.failure else None

    def running(self) -> list[int]:
        """Return the jobs that run."""
        return [row + 1 for row, state in enumerate(self.slurm.state) if state is JobPhase.RUNNING]


def test_job_that_is_held_lets_the_next_one_start() -> None:
    site = Site()
    assert site.does(hold(FIRST, WHY)) is None
    assert site.running() == [SECOND]
    seen = SimulatedObserver(site.slurm).job(FIRST - 1)
    assert (seen.held, seen.priority, seen.reason) == (True, 0, HELD_BY_US)


def test_job_that_is_released_has_the_priority_of_its_submission() -> None:
    site = Site()
    before = site.slurm.priority[0]
    site.hands.act(SetField(job_id=FIRST, reason=WHY, field=Field.NICE, value=-5, previous=0))
    site.does(hold(FIRST, WHY))
    assert site.slurm.priority[0] == 0
    site.does(release(FIRST, WHY))
    assert site.slurm.priority[0] == before + 5
    assert site.running() == [SECOND]
    assert site.slurm.waits_in(site.slurm.lines[0], 0)


def test_job_that_is_held_twice_is_released_once() -> None:
    site = Site()
    for _ in range(2):
        site.does(hold(SECOND, WHY))
    assert site.running() == [FIRST]
    for _ in range(2):
        site.does(release(SECOND, WHY))
    assert list(site.slurm.lines[0]) == [1]


def test_job_that_runs_is_not_held() -> None:
    site = Site()
    site.scheduler.run()
    assert site.does(hold(FIRST, WHY)) is FailureKind.ALREADY_DONE


def hooked(*jobs: Sketch, hook: bool = True, poll_s: float = 10.0) -> Result:
    """Run them beside a daemon that polls, with a bound of 100 s for TE jobs."""
    behaviour = replace(Behaviour.slurm(poll_s=poll_s), hook=hook, requeue_delay_s=0.0)
    limits = replace(NO_LIMITS, bound=Bound(slowdown=2.0, te_time_limit_s=100.0))
    return Simulation(workload(jobs, nodes=2), behaviour, policies=in_turn(FitGpp()), limits=limits).run()


@pytest.mark.parametrize(("hook", "starts_at"), [(True, 10.0), (False, 3.0)])
def test_hook_holds_a_te_job_that_comes_before_the_first_poll(hook: bool, starts_at: float) -> None:
    trial = replace(te(3, 20), limit=60)
    assert starts(hooked(Sketch(run=50), trial, hook=hook)) == [0, starts_at]


def test_te_job_that_comes_while_te_jobs_are_admitted_starts_at_once() -> None:
    trial = replace(te(13, 20), limit=60)
    assert starts(hooked(Sketch(run=50), trial)) == [0, 13]


def test_hook_holds_a_te_job_with_a_longer_limit_than_those_that_are_admitted() -> None:
    trial = replace(te(13, 20), limit=101)
    assert starts(hooked(Sketch(run=50), trial)) == [0, 20]
