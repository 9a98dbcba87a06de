"""`undo`, and the victims of the orders that it withdraws: what they are owed is done, and what they have paid counts.

Everywhere: job 1 holds the only node and has had its notice at 0 s, for job 9. Its grace period is 30 s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Action, FailureKind, Notify, Requeue, Rerun, Status
from tesched_core.model.cluster import JobState
from tesched_core.model.notice import ExitZero
from tesched_core.model.order import Departure, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import changed_still, undo

from tests.builders import by_job, node, running, share, waiting
from tests.scenarios.driver import BE, TE, Driver, one_node

AGAIN = [
    (Status.FAILED, FailureKind.BUSY),
    (Status.FAILED, FailureKind.UNREACHABLE),
    (Status.SKIPPED, None),
    (Status.WOULD, None),  # mode shadow was reached meanwhile
]


def undone(drive: Driver, at_s: float) -> list[Action]:
    """Poll at this time, and let Slurm do what undo wants done; return the reruns, which it does not do."""
    drive.memory, drive.decision = undo(drive.memory, drive.snapshot(at_s), drive.limits)
    reruns: list[Action] = [one for one in drive.decision.actions if isinstance(one, Rerun)]
    drive.obeys(*(one for one in drive.decision.actions if not isinstance(one, Rerun)))
    return reruns


def left(drive: Driver) -> int:
    return changed_still(drive.memory, drive.snapshot(drive.at_s))


def noticed() -> Driver:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    return drive


def saving() -> Driver:
    """Return the case in which exit status 0 means that the job has saved its work."""
    drive = one_node()
    known = dict(drive.start.traits)
    known[JobId(BE)] = replace(known[JobId(BE)], exit0=ExitZero.AGAIN)
    drive.start = drive.start.with_traits(known)
    drive.obeys(*drive.cycle(0))
    return drive


class TestRerunThatIsOwed:
    @pytest.mark.parametrize(("status", "kind"), AGAIN)
    @pytest.mark.parametrize("by_undo", [False, True])
    def test_is_sent_until_the_job_waits(self, status: Status, kind: FailureKind | None, *, by_undo: bool) -> None:
        drive = noticed()
        drive.ends(BE, JobState.FAILED)
        sent = undone(drive, 2) if by_undo else [one for one in drive.cycle(2) if isinstance(one, Rerun)]
        assert len(sent) == 1
        drive.says(status, *sent, kind=kind)
        again = [one for at_s in (3, 8) for one in undone(drive, at_s)]
        assert again == sent
        assert left(drive) == 1
        drive.requeued(BE)
        assert undone(drive, 9) == []
        assert left(drive) == 0
        assert by_job(drive.memory, "preemptions") == {BE: 1}

    def test_is_that_of_a_job_that_has_saved_its_work(self) -> None:
        drive = saving()
        drive.ends(BE, JobState.COMPLETED)
        drive.says(Status.SKIPPED, *drive.cycle(2))
        (rerun,) = undone(drive, 3)
        assert rerun.job_id == BE

    def test_is_given_up_and_said_where_slurm_refuses_it(self) -> None:
        drive = noticed()
        drive.ends(BE, JobState.FAILED)
        drive.says(Status.FAILED, *undone(drive, 2), kind=FailureKind.REFUSED)
        assert undone(drive, 3) == []
        assert (drive.victim().departure, left(drive)) == (Departure.LOST, 0)

    def test_is_given_up_and_said_once_slurm_has_forgotten_the_job(self) -> None:
        drive = noticed()
        drive.ends(BE, JobState.FAILED)
        drive.says(Status.FAILED, *undone(drive, 2), kind=FailureKind.BUSY)
        drive.forgets(BE)
        assert undone(drive, 8) == []
        assert (drive.victim().departure, left(drive)) == (Departure.LOST, 0)

    def test_nothing_is_concluded_of_a_record_that_could_not_be_read(self) -> None:
        drive = noticed()
        drive.ends(BE, JobState.FAILED)
        drive.says(Status.FAILED, *undone(drive, 2), kind=FailureKind.BUSY)
        ended = drive.jobs[JobId(BE)]
        drive.jobs[JobId(BE)] = replace(ended, doubt="its state is odd")
        assert undone(drive, 8) == []
        assert left(drive) == 1
        drive.jobs[JobId(BE)] = ended
        assert len(undone(drive, 9)) == 1

    def test_goes_with_the_dependencies_that_slurm_has_given_up(self) -> None:
        drive = noticed()
        drive.ends(BE, JobState.FAILED)
        undone(drive, 2)
        drive.requeued(BE)
        stuck = replace(waiting(5, cpus=1), dependency="afterok:1(failed)", reason="DependencyNeverSatisfied")
        drive.submits(stuck, like=TE)
        undone(drive, 3)
        assert [(one.job_id, getattr(one, "value", None)) for one in drive.decision.actions] == [(5, "afterok:1")]


class TestVictimUnderNotice:
    @pytest.mark.parametrize("state", [JobState.FAILED, JobState.COMPLETED])
    @pytest.mark.parametrize("by_undo", [False, True])
    def test_is_put_back_when_it_obeys_after_all(self, state: JobState, *, by_undo: bool) -> None:
        drive = saving() if state is JobState.COMPLETED else noticed()
        undone(drive, 1)
        undone(drive, 2)
        assert left(drive) == 1
        assert "may leave yet" in drive.decision.summary
        assert drive.order().state is OrderState.SETTLING
        drive.ends(BE, state)
        actions = undone(drive, 8) if by_undo else drive.cycle(8)
        assert [one.job_id for one in actions if isinstance(one, Rerun)] == [BE]

    def test_goes_on_when_its_grace_period_is_over(self) -> None:
        drive = noticed()
        undone(drive, 1)
        undone(drive, 29)
        assert drive.victim().state is VictimState.NOTICED
        undone(drive, 30)
        assert (drive.victim().state, left(drive)) == (VictimState.SPARED, 0)
        assert drive.jobs[JobId(BE)].restarts == 0

    def test_is_not_requeued_by_the_next_daemon(self) -> None:
        drive = noticed()
        undone(drive, 1)
        actions = [one for at_s in (20, 31, 40) for one in drive.cycle(at_s)]
        assert not [one for one in actions if isinstance(one, (Notify, Requeue))]
        assert (BE, "noticed", "spared") in drive.moves()


class TestRequeueWithoutAnAnswer:
    def sent(self) -> Driver:
        drive = one_node(grace_s=0)
        actions = drive.cycle(0)
        drive.says(Status.FAILED, *(one for one in actions if isinstance(one, Requeue)), kind=FailureKind.UNREACHABLE)
        drive.obeys(*(one for one in actions if not isinstance(one, Requeue)))
        return drive

    def test_counts_when_it_arrives_after_all(self) -> None:
        drive = self.sent()
        undone(drive, 1)
        undone(drive, 5)
        assert left(drive) == 1
        drive.requeued(BE)
        undone(drive, 5.5)
        assert (drive.victim().departure, left(drive)) == (Departure.REQUEUED, 0)
        assert by_job(drive.memory, "preemptions") == {BE: 1}
        assert [one.job_id for one in drive.memory.paid] == [BE]

    def test_is_not_awaited_for_long(self) -> None:
        drive = self.sent()
        undone(drive, 1)
        undone(drive, 5.5)
        assert (drive.victim().state, left(drive)) == (VictimState.SPARED, 0)


def test_one_that_others_have_put_back_before_its_notice_has_paid_nothing() -> None:
    drive = Driver(
        [node("n1")],
        [running(1, share("n1", 16)), running(2, share("n1", 16)), waiting(TE, cpus=32)],
        graces={1: 600, 2: 0},
    )
    drive.obeys(*drive.cycle(0))
    states = {victim.job_id: victim.state for victim in drive.order().victims}
    assert states == {1: VictimState.NOTICED, 2: VictimState.PLANNED}
    drive.requeued(2)
    undone(drive, 5)
    assert {victim.job_id: victim.state for victim in drive.order().victims}[JobId(2)] is VictimState.SPARED
    assert by_job(drive.memory, "preemptions") == {}
    assert drive.memory.paid == ()
