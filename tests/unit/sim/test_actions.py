"""What each action does to a job of the simulated Slurm; a real one gets them in tests/cluster/test_twin_actions.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import (
    Action,
    Cancel,
    FailureKind,
    Reason,
    ReasonCode,
    Record,
    Requeue,
    Rerun,
    Resume,
    SetField,
    SetMarks,
    Status,
    Suspend,
    TellUser,
)
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.field import Field, NodeCount, Nodes, NumberField
from tesched_core.model.resources import JobId
from tesched_core.placement.columns_of import columns_of
from tesched_sim import job_record
from tesched_sim.actuator import SimulatedActuator
from tesched_sim.engine import Simulation
from tesched_sim.observer import SimulatedObserver
from tesched_sim.slurm_settings import Behaviour, RequeuedTo

from tests.builders import hold, node_list, release
from tests.unit.sim.examples import Sketch, workload

WHY = Reason(code=ReasonCode.ADMIN, text="test")
FIRST, SECOND, THIRD = JobId(1), JobId(2), JobId(3)
#: a site as Slurm comes, without a daemon
BEHAVIOUR = replace(Behaviour.slurm(), requeue_delay_s=100.0)


class Site:
    """A cluster on which actions happen at set times, with no daemon: the first job fills the only node at first."""

    def __init__(self, *jobs: Sketch, nodes: int = 1, behaviour: Behaviour = BEHAVIOUR) -> None:
        """Submit the jobs, and let those start that may."""
        self.run = Simulation(workload(jobs, nodes), behaviour)
        self.slurm = self.run.slurm
        self.hands = SimulatedActuator(self.slurm)
        for row in range(len(jobs)):
            self.slurm.submit(row)
        self.run.scheduler.run()

    def does(self, *actions: Action) -> FailureKind | None:
        """Perform actions, go over the queue, and return how the last one failed."""
        outcomes = [self.hands.act(action) for action in actions]
        self.run.scheduler.run()
        return outcomes[-1].failure.kind if outcomes and outcomes[-1].failure else None

    def job(self, job_id: JobId) -> Job:
        return SimulatedObserver(self.slurm).job(job_id - 1)

    def ends(self) -> list[float]:
        """Run it to its end, and return when each job ended."""
        self.run._submit_s.clear()
        return [float(at) for at in self.run.run().end_s]

    def order(self) -> list[int]:
        """Return the ids of the jobs in line, the first one first."""
        return [row + 1 for row in self.slurm.lines[0]]


def number(job_id: JobId, field: NumberField, value: int) -> SetField:
    return SetField(job_id=job_id, reason=WHY, field=field, value=value, previous=0)


def three() -> Site:
    return Site(Sketch(run=10), Sketch(run=10), Sketch(run=10))


def test_released_job_is_last_with_priority_basic_and_has_its_place_else() -> None:
    site = three()
    site.does(hold(SECOND, WHY), release(SECOND, WHY))
    assert site.order() == [THIRD, SECOND]
    paper = Site(Sketch(run=10), Sketch(run=10), Sketch(run=10), behaviour=Behaviour.paper(te_first=False))
    paper.does(hold(SECOND, WHY), release(SECOND, WHY))
    assert paper.order() == [SECOND, THIRD]


def test_job_that_comes_after_a_release_is_behind_the_released_one() -> None:
    site = three()
    site.does(hold(SECOND, WHY), release(SECOND, WHY))
    assert site.slurm.own_priority(0, site.slurm.new_place()) < site.slurm.priority[SECOND - 1]


def test_nice_of_a_held_job_lets_it_start_as_slurm_does() -> None:
    site = three()
    site.does(hold(SECOND, WHY))
    job_record.set_nice(site.slurm, SECOND - 1, -7)  # its user's
    site.does()
    assert (site.job(SECOND).priority, site.order()) == (7, [THIRD, SECOND])
    site.does(hold(THIRD, WHY))
    job_record.set_nice(site.slurm, THIRD - 1, 7)
    assert site.job(THIRD).priority == 2


def test_what_is_held_by_now_is_left_as_it_is() -> None:
    site = three()
    site.does(hold(SECOND, WHY))
    assert site.does(hold(SECOND, WHY)) is FailureKind.ALREADY_DONE, "others' hold"
    assert site.does(number(SECOND, Field.NICE, -7)) is FailureKind.ALREADY_DONE, "it would start"
    assert (site.job(SECOND).priority, site.job(SECOND).nice) == (0, 0)
    site.slurm.held_by_user.add(SECOND - 1)
    assert site.does(release(SECOND, WHY)) is FailureKind.ALREADY_DONE, "its user's"
    assert site.job(SECOND).priority == 0
    site.slurm.held_by_hook.add(SECOND - 1)
    assert site.does(hold(SECOND, WHY), release(SECOND, WHY)) is None, "the hook's"
    assert site.job(SECOND).priority > 0


def test_priority_of_a_held_job_is_refused() -> None:
    site = three()
    site.does(hold(SECOND, WHY))
    assert site.does(number(SECOND, Field.PRIORITY, 9)) is FailureKind.REFUSED
    assert site.job(SECOND).priority == 0


def test_explicit_priority_stays_over_nice_and_requeue_until_the_release() -> None:
    site = Site(Sketch(run=10), behaviour=replace(BEHAVIOUR, requeued_to=RequeuedTo.TAIL))
    site.does(number(FIRST, Field.NICE, -3), number(FIRST, Field.PRIORITY, 50), number(FIRST, Field.NICE, -9))
    assert (site.job(FIRST).priority, site.job(FIRST).nice) == (50, 0)
    site.slurm._leave(0)
    assert (site.job(FIRST).priority, site.job(FIRST).reason) == (50, "BeginTime")
    site.does(release(FIRST, WHY))
    assert site.job(FIRST).priority > 50


def test_job_is_put_off_and_starts_then() -> None:
    site = Site(Sketch(run=10), Sketch(run=10))
    site.does(number(SECOND, Field.BEGIN, 60))
    assert (site.job(SECOND).reason, site.job(SECOND).eligible_time, site.order()) == ("BeginTime", 60, [])
    assert site.ends() == [10, 70]


def test_begin_time_that_has_come_lets_it_start_now() -> None:
    site = Site(Sketch(run=10), Sketch(run=10))
    site.does(number(SECOND, Field.BEGIN, 60), number(SECOND, Field.BEGIN, 0))
    assert site.ends() == [10, 20]


def test_later_begin_time_counts_though_the_former_one_comes_first() -> None:
    site = Site(Sketch(run=10), Sketch(run=10))
    site.does(number(SECOND, Field.BEGIN, 60), number(SECOND, Field.BEGIN, 90))
    assert site.ends() == [10, 100]


def test_requeued_job_starts_no_sooner_than_slurm_lets_it() -> None:
    site = Site(Sketch(run=200, saves=False))
    site.slurm._leave(0)
    site.does(number(FIRST, Field.BEGIN, 5))
    assert site.job(FIRST).eligible_time == BEHAVIOUR.requeue_delay_s
    assert site.ends() == [300]


def test_held_job_that_is_put_off_waits_for_both() -> None:
    site = Site(Sketch(run=10), Sketch(run=10))
    site.does(number(SECOND, Field.BEGIN, 60), hold(SECOND, WHY))
    assert site.job(SECOND).reason == "JobHeldAdmin"
    site.does(release(SECOND, WHY))
    assert site.job(SECOND).reason == "BeginTime"
    assert site.ends() == [10, 70]


def test_job_waits_until_those_that_it_depends_on_have_ended() -> None:
    site = Site(Sketch(run=10), Sketch(run=30), Sketch(run=5, gpus=1), nodes=2)
    third = Site(Sketch(run=10), Sketch(run=30), Sketch(run=5), nodes=3)
    depends = SetField(job_id=THIRD, reason=WHY, field=Field.DEPENDENCY, value="afterok:1,afterany:2", previous="")
    site.does(depends)
    assert (site.job(THIRD).reason, site.job(THIRD).dependency) == ("Dependency", "afterok:1,afterany:2")
    assert site.ends() == [10, 30, 35]
    assert third.does(depends) is FailureKind.ALREADY_DONE, "it runs"


def test_ended_job_runs_again_with_one_restart_more() -> None:
    site = Site(Sketch(run=10))
    site.ends()
    assert site.does(Rerun(job_id=FIRST, reason=WHY, restarts=1)) is FailureKind.ALREADY_DONE
    assert site.does(Rerun(job_id=FIRST, reason=WHY, restarts=0)) is None
    seen = site.job(FIRST)
    assert (seen.state, seen.restarts, seen.reason, seen.end_time) == (JobState.PENDING, 1, "BeginTime", None)
    assert site.ends() == [10 + BEHAVIOUR.requeue_delay_s + 10]


def test_ended_job_is_unknown_after_min_job_age() -> None:
    site = Site(Sketch(run=10))
    site.ends()
    site.slurm.now += 301
    site.slurm.forget()
    assert site.does(Rerun(job_id=FIRST, reason=WHY, restarts=0)) is FailureKind.NOT_FOUND


def test_suspended_job_is_requeued_and_comes_back_not_held() -> None:
    site = Site(Sketch(run=200))
    site.does(Suspend(job_id=FIRST, reason=WHY, restarts=0))
    assert site.job(FIRST).priority == 0
    assert site.does(Suspend(job_id=FIRST, reason=WHY, restarts=0)) is None, "a second time changes nothing"
    assert site.does(Requeue(job_id=FIRST, reason=WHY, restarts=0)) is None
    site.ends()
    assert (site.job(FIRST).restarts, site.job(FIRST).priority > 0) == (1, True)


def test_a_later_run_is_not_suspended() -> None:
    site = three()
    assert site.does(Suspend(job_id=FIRST, reason=WHY, restarts=1)) is FailureKind.ALREADY_DONE
    assert site.job(FIRST).state is JobState.RUNNING


def test_suspended_job_goes_on_with_a_new_priority() -> None:
    site = three()
    before = site.job(FIRST).priority
    site.does(Suspend(job_id=FIRST, reason=WHY, restarts=0), Resume(job_id=FIRST, reason=WHY))
    assert 0 < site.job(FIRST).priority < before


def test_range_of_nodes_becomes_a_number_of_certain_ones() -> None:
    site = Site(Sketch(run=10, nodes=4), Sketch(run=10), nodes=4)
    count = NodeCount(least=2, most=2)
    site.does(node_list(SECOND, WHY, Nodes(names=("n2", "n4"), count=count), previous=Nodes()))
    request = site.job(SECOND).request
    assert (request.min_nodes, request.max_nodes, request.required_nodes) == (2, 2, ("n2", "n4"))
    site.ends()
    assert site.job(SECOND).ran_on == ("n2", "n4")


def test_record_has_the_fewest_nodes_as_they_were_set_last() -> None:
    site = three()
    eyes = SimulatedObserver(site.slurm)
    for least in (1, 2, 3):
        job_record.set_nodes(site.slurm, 1, Nodes(count=NodeCount(least=least, most=3)))
        assert (eyes.job(1).request.min_nodes, eyes.job(1).request.max_nodes) == (least, 3)


def test_jobs_that_the_hook_holds_are_found_as_their_records_say() -> None:
    slurm = Simulation(workload([Sketch(run=10)] * 3, 1), BEHAVIOUR).slurm
    for row in range(3):
        slurm.submit(row, held=row > 0)
    for found in ([SECOND, THIRD], [THIRD]):
        seen = SimulatedObserver(slurm).observe()
        assert seen.columns is not None
        assert [*seen.columns.hook_marked] == [*columns_of(seen).hook_marked] == found
        assert [*seen.columns.doubted] == [*columns_of(seen).doubted] == []
        SimulatedActuator(slurm).act(release(SECOND, WHY))


def test_record_that_was_read_stays_in_its_snapshot_and_the_next_one_has_what_was_done() -> None:
    site = three()
    eyes = SimulatedObserver(site.slurm)
    seen = eyes.observe()
    before = seen.jobs[SECOND]
    site.does(hold(SECOND, WHY))
    assert seen.jobs[SECOND] is seen.jobs.get(SECOND) is before
    assert seen.jobs[THIRD] in seen.jobs.values()
    assert (before.held, eyes.observe().jobs[SECOND].held) == (False, True)


def test_job_is_not_cancelled_as_its_owner_does_not_say_that_it_ends() -> None:
    site = three()
    assert site.hands.act(Cancel(job_id=FIRST, reason=WHY, restarts=0)).status is Status.SKIPPED
    assert site.job(FIRST).state is JobState.RUNNING


def test_note_for_its_user_is_in_its_record_until_it_has_ended() -> None:
    site = Site(Sketch(run=10))
    tells = TellUser(
        job_id=FIRST,
        reason=WHY,
        label="1",
        name="job",
        user="u",
        at=0.0,
        cause="a trial",
        departure="was requeued",
        times=1,
        most=2,
        lost=False,
        record=Record.ADMIN_COMMENT,
    )
    assert site.does(tells) is None
    assert site.job(FIRST).admin_comment
    site.ends()
    assert site.does(tells) is FailureKind.ALREADY_DONE


def test_marks_are_written_though_no_plugin_reads_them() -> None:
    assert three().does(SetMarks(job_id=JobId(0), reason=WHY, marks=())) is None


@pytest.mark.parametrize(
    "action", [hold(JobId(9), WHY), release(JobId(0), WHY), Suspend(job_id=JobId(9), reason=WHY, restarts=0)]
)
def test_action_on_an_unknown_job_fails(action: Action) -> None:
    assert three().does(action) is FailureKind.NOT_FOUND
