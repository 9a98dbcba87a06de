"""fill: jobs are brought forward into free resources, delay no job that they must not, and are put back.

Nodes have 32 CPUs. Job 1 holds one; jobs 2, 3 and so on wait, with priorities 99, 98 and so on. All are best effort but
for job 9. Times are seconds after the first poll.
"""

from __future__ import annotations

import pytest
from tesched_core.model.actions import FailureKind, Reason, ReasonCode, SetField, Status, sets
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import changed_still
from tesched_core.policy import Policy
from tesched_policies.baselines import NoPreemption
from tesched_policies.fill import Fill
from tesched_policies.patient import Patient
from tesched_sim.slurm_settings import Behaviour

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import Driver
from tests.unit.sim.examples import Sketch, simulate, starts, te

#: with which a job is ahead of another by this much
AHEAD = 250


def holder(cpus: int = 16, *, ends_in: int = 600, name: str = "n1", job_id: int = 1) -> Job:
    """Return a job that holds a part of a node, until then by its time limit."""
    return running(job_id, share(name, cpus), start_time=NOW - 100, time_limit_s=100 + ends_in)


def queued(
    job_id: int,
    cpus: int,
    *,
    waited: float = 0,
    nice: int = 0,
    priority: int | None = None,
    of_crontab: bool = False,
) -> Job:
    """Return a waiting job."""
    given = 101 - job_id if priority is None else priority
    return waiting(job_id, cpus=cpus, priority=given, nice=nice, submit_time=NOW - waited, of_crontab=of_crontab)


def drive(*jobs: Job, nodes: int = 1, policy: Policy[None] | None = None, **run_times: float) -> Driver:
    """Return a cluster with these jobs; `j2=300` says how long job 2 is expected to run."""
    known = {int(name[1:]): run_s for name, run_s in run_times.items()}
    places = [node(f"n{number}") for number in range(1, nodes + 1)]
    return Driver(places, jobs, policy=policy or NoPreemption(), best_effort=Fill(), run_times=known)


def brought(driver: Driver, at_s: float = 0) -> list[int]:
    """Return the jobs that the cycle brings forward, in this order."""
    return [action.job_id for action in driver.cycle(at_s) if action.reason.code is ReasonCode.FILLS_ROOM]


def test_a_job_that_fits_and_ends_in_time_goes_ahead_of_the_first_by_its_nice_value() -> None:
    driver = drive(holder(), queued(2, 32), queued(3, 16), j2=60, j3=600)
    (action,) = driver.cycle(0)
    assert sets(action, Field.NICE)
    assert (action.job_id, action.previous, action.value) == (3, 0, -(1 + 99 - 98) - AHEAD)


def test_a_job_that_would_end_too_late_stays_and_the_job_that_it_would_delay_is_named() -> None:
    driver = drive(holder(ends_in=600), queued(2, 32), queued(3, 16), j2=60, j3=601)
    assert driver.cycle(0) == ()
    (refusal,) = driver.decision.refusals
    assert (refusal.job_id, refusal.preemptor, refusal.code) == (3, 2, RefusalCode.WOULD_DELAY)


def test_expected_run_times_of_running_jobs_count_and_not_their_limits() -> None:
    # By its limit job 1 ends in 600 s, by what is known of it in 300: 100 have passed of 400.
    driver = drive(holder(ends_in=600), queued(2, 32), queued(3, 16), j1=400, j2=60, j3=301)
    assert brought(driver) == []
    assert brought(drive(holder(ends_in=600), queued(2, 32), queued(3, 16), j1=400, j2=60, j3=300)) == [3]


def test_a_job_that_outlasts_the_shadow_may_fill_what_the_first_leaves() -> None:
    # Job 2 wants 24 of the 32 CPUs that are free when job 1 has ended: 8 are to spare, once.
    driver = drive(holder(), queued(2, 24), queued(3, 8), queued(4, 8), j2=60, j3=10_000, j4=10_000)
    assert brought(driver) == [3]


def test_of_those_that_fit_the_one_that_waited_longest_for_its_length_is_first() -> None:
    # (600 + 300) / 300 = 3 and (240 + 60) / 60 = 5: the example in the policy's file.
    jobs = (queued(3, 16, waited=600), queued(4, 16, waited=240))
    assert brought(drive(holder(), queued(2, 32), *jobs, j2=60, j3=300, j4=60)) == [4]


def test_no_job_is_brought_forward_in_time_without_a_run_time_and_a_limit() -> None:
    driver = drive(holder(), queued(2, 32), queued(3, 16), j2=60, j3=float("inf"))
    assert brought(driver) == []


def test_no_job_needs_help_where_all_fit() -> None:
    assert brought(drive(holder(), queued(2, 8), queued(3, 8), j2=60, j3=60)) == []


def test_the_resources_of_those_before_the_first_are_theirs() -> None:
    # Job 2 fits and starts by itself; then 8 CPUs are free, and job 4 is too large for them.
    jobs = (queued(2, 8), queued(3, 32), queued(4, 16), queued(5, 8))
    assert brought(drive(holder(), *jobs, j2=60, j3=60, j4=60, j5=60)) == [5]


def test_several_are_brought_forward_as_far_as_resources_are_free() -> None:
    jobs = (queued(2, 32), queued(3, 8, waited=9), queued(4, 8, waited=8), queued(5, 8, waited=7))
    assert brought(drive(holder(), *jobs, j2=60, j3=60, j4=60, j5=60)) == [3, 4]


def test_a_te_job_that_waits_for_resources_to_be_released_is_not_delayed() -> None:
    # Job 9 needs half of n1 or n2, and waits, first, for two minutes; n1 comes free in 60 s.
    jobs = (holder(24, ends_in=60), holder(24, ends_in=600, name="n2", job_id=5), queued(2, 32), queued(3, 8))
    impatient = waiting(9, cpus=16, priority=50)
    assert brought(drive(*jobs, impatient, nodes=2, policy=Patient(), j2=60, j3=61)) == [3]  # it fits on n2
    small = (holder(24, ends_in=60), queued(2, 32), queued(3, 8))
    assert brought(drive(*small, impatient, policy=Patient(), j2=60, j3=60)) == [3]
    large = waiting(9, cpus=32, priority=50)
    assert brought(drive(*small, large, policy=Patient(), j2=60, j3=61)) == []


def test_resources_that_are_freed_for_a_te_job_are_not_given_away() -> None:
    # Job 9 takes the 16 CPUs that are free.
    driver = drive(holder(), queued(2, 32), queued(3, 16), waiting(9, cpus=16, priority=50), j1=700, j2=60, j3=60)
    assert brought(driver) == []


class TestPutBack:
    """A job that was brought forward gets its own place again."""

    @pytest.fixture
    def driver(self) -> Driver:
        """Return job 3 brought forward, with a nice value of its own, and Slurm has obeyed."""
        driver = drive(holder(), queued(2, 32), queued(3, 16, nice=10, priority=90), j2=60, j3=600)
        driver.obeys(*driver.cycle(0))
        return driver

    def back(self, now: int) -> SetField:
        """Return what puts it back."""
        reason = Reason(code=ReasonCode.FILLED, text="put its nice back to 10")
        return SetField(job_id=JobId(3), reason=reason, field=Field.NICE, value=10, previous=now)

    def test_nice_value_is_put_back_when_the_job_runs(self, driver: Driver) -> None:
        raised = driver.jobs[JobId(3)].nice
        assert driver.cycle(1) == ()
        driver.starts(3, share("n1", 16))
        again = driver.cycle(2)
        assert again == (self.back(raised),)
        assert driver.cycle(4) == again, "it is believed to be back when that is seen"
        driver.obeys(*again)
        assert driver.cycle(6) == ()
        assert driver.memory.changes_of(Field.NICE) == {}

    def test_when_it_has_not_started_in_time(self, driver: Driver) -> None:
        raised = driver.jobs[JobId(3)].nice
        driver.jobs[JobId(1)] = holder(32)  # the job that took the resources
        assert driver.cycle(90) == ()
        assert driver.cycle(91) == (self.back(raised),)

    def test_not_when_another_user_has_set_it(self, driver: Driver) -> None:
        driver.starts(3, share("n1", 16))
        driver.change(3, nice=77)
        assert driver.cycle(2) == ()
        assert driver.memory.changes_of(Field.NICE) == {}

    def test_not_when_it_has_ended(self, driver: Driver) -> None:
        driver.ends(3, JobState.CANCELLED)
        assert driver.cycle(2) == ()
        assert changed_still(driver.memory, driver.snapshot(2)) == 0

    def test_nor_is_it_requested_again_meanwhile(self, driver: Driver) -> None:
        assert driver.cycle(10) == ()


class TestWhatSlurmSays:
    """What certainly was not done is not put back."""

    def test_refused_it_is_forgotten(self) -> None:
        driver = drive(holder(), queued(2, 32), queued(3, 16), j2=60, j3=600)
        driver.says(Status.FAILED, *driver.cycle(0), kind=FailureKind.DENIED)
        assert driver.memory.changes_of(Field.NICE) == {}

    def test_without_an_answer_it_may_have_arrived(self) -> None:
        driver = drive(holder(), queued(2, 32), queued(3, 16), j2=60, j3=600)
        driver.says(Status.FAILED, *driver.cycle(0), kind=FailureKind.UNREACHABLE)
        assert set(driver.memory.changes_of(Field.NICE)) == {3}

    def test_in_shadow_mode_it_is_said_once_and_nothing_is_put_back(self) -> None:
        driver = drive(holder(), queued(2, 32), queued(3, 16), j2=60, j3=600)
        driver.says(Status.WOULD, *driver.cycle(0))
        assert driver.cycle(2) == ()
        driver.starts(3, share("n1", 16))
        assert driver.cycle(4) == ()
        assert driver.memory.changes_of(Field.NICE) == {}


class TestSimulated:
    """One node of 8 GPUs, strict FIFO, worked out by hand."""

    def test_the_hole_beside_a_running_job_is_filled(self) -> None:
        # 4 GPUs run until 100, job 1 wants 8. Job 2 would end at 103 and stays, job 3 ends at 93.
        jobs = (Sketch(run=100, gpus=4), Sketch(at=1, run=10), Sketch(at=2, run=101, gpus=4))
        result = simulate(*jobs, Sketch(at=3, run=90, gpus=4), policy=NoPreemption(), best_effort=Fill())
        assert starts(result) == [0, 100, 110, 3]

    def test_without_it_the_first_blocks_the_line(self) -> None:
        jobs = (Sketch(run=100, gpus=4), Sketch(at=1, run=10), Sketch(at=2, run=101, gpus=4))
        result = simulate(*jobs, Sketch(at=3, run=90, gpus=4), policy=NoPreemption())
        assert starts(result) == [0, 100, 110, 110]

    def test_where_run_times_are_not_known_limits_count(self) -> None:
        # Job 0 may run until 100, and job 2, from 2, until 92; really it ends at 60.
        jobs = (Sketch(run=60, gpus=4, limit=100), Sketch(at=1, run=10), Sketch(at=2, run=50, gpus=4, limit=90))
        site = Behaviour(te_first=True, true_run_times=False)
        result = simulate(*jobs, behaviour=site, policy=NoPreemption(), best_effort=Fill())
        assert starts(result) == [0, 60, 2]

    def test_te_jobs_start_as_without_it(self) -> None:
        jobs = (Sketch(run=100, gpus=4), Sketch(at=1, run=10), Sketch(at=2, run=50, gpus=4), te(3, 5, gpus=2))
        result = simulate(*jobs, policy=Patient(patience_s=0), best_effort=Fill())
        assert starts(result)[3] == 3
