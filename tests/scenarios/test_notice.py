"""Signals to jobs, and victims that a signal has ended: back in the queue, or lost.

Everywhere: job 1 holds the only node, job 9 wants half of it, as in `test_victim`; KillWait is 30 s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.job_times import lost_node_s
from tesched_core.model.actions import Action, FailureKind, Notify, ReasonCode, Rerun, Status, kind_of, sets
from tesched_core.model.cluster import JobState, SlurmSettings
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.notice import ExitZero, Target
from tesched_core.model.order import Departure, Ending, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Traits
from tesched_core.placement.columns_of import columns_of

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, first_in_queue, nice_back, notice, one_node, requeue

AGAIN_S = 6  # a rerun without a visible effect is requested again after 5 s


def knowing(drive: Driver, **changes: object) -> Driver:
    """Return the case in which the victim's traits are others."""
    known: dict[JobId, Traits] = dict(drive.start.traits)
    known[JobId(BE)] = replace(known[JobId(BE)], **changes)  # type: ignore[arg-type]
    drive.start = drive.start.with_traits(known)
    return drive


def noticed(**changes: object) -> Driver:
    """Return the case after the notice was given at 0 s."""
    drive = knowing(one_node(), **changes)
    drive.obeys(*drive.cycle(0))
    assert drive.victim().state is VictimState.NOTICED
    drive.moves()
    return drive


def reruns(actions: tuple[Action, ...]) -> list[int]:
    return [action.job_id for action in actions if isinstance(action, Rerun)]


def test_a_job_that_declared_no_signal_is_requeued_at_once_and_never_sent_one() -> None:
    drive = knowing(one_node(), notice_signal="", grace_period_s=0.0)
    actions = drive.cycle(0)
    assert [kind_of(action) for action in actions] == ["setnice", "requeue"]
    assert actions[1].reason.code is ReasonCode.NO_SIGNAL
    assert drive.moves() == [(None, "", "open"), (BE, "planned", "requeuing")]
    drive.obeys(*actions)
    assert drive.cycle(1) == ()
    assert drive.victim().departure is Departure.REQUEUED
    assert by_job(drive.memory, "preemptions") == {BE: 1}


def test_a_grace_period_without_a_signal_is_none() -> None:
    drive = knowing(one_node(), notice_signal="", grace_period_s=300.0)
    assert [kind_of(action) for action in drive.cycle(0)] == ["setnice", "requeue"]
    assert drive.order().expires_at == NOW + 30 + Limits().order_timeout_s  # KillWait and the order's own time


@pytest.mark.parametrize(
    ("state", "exit0", "departure"),
    [
        (JobState.COMPLETED, ExitZero.AGAIN, Departure.FINISHED),
        (JobState.COMPLETED, ExitZero.SLURM, Departure.FINISHED),
        (JobState.FAILED, ExitZero.SLURM, Departure.DIED),
    ],
)
def test_one_without_a_grace_period_that_ended_before_its_requeue_ended_by_itself(
    state: JobState, exit0: ExitZero, departure: Departure
) -> None:
    """It has declared a signal, and is sent none."""
    drive = knowing(one_node(grace_s=0), exit0=exit0)
    drive.release = "26.05.5"
    actions = drive.cycle(0)
    assert [kind_of(action) for action in actions] == ["setnice", "requeue"]
    drive.says(Status.FAILED, actions[1], kind=FailureKind.ALREADY_DONE, words=f"job 1 is {state} by now")
    drive.ends(BE, state)
    assert reruns(drive.cycle(2)) == []
    assert drive.victim().departure is departure
    assert by_job(drive.memory, "preemptions") == {}


@pytest.mark.parametrize("target", Target)
def test_the_signal_goes_where_it_was_declared_to(target: Target) -> None:
    drive = knowing(one_node(), notice_signal="USR2", notice_target=target)
    assert drive.cycle(0)[1] == replace(notice(), signal="USR2", target=target)


def test_a_job_without_a_signal_is_scored_by_killwait() -> None:
    drive = knowing(one_node(), notice_signal="", grace_period_s=0.0)
    assert columns_of(drive.snapshot(0)).running.grace_s.tolist() == [30.0]


def test_a_job_with_an_unread_script_is_no_victim_yet() -> None:
    drive = knowing(one_node(), notice_signal="", unread=True)
    assert drive.cycle(0) == ()
    codes = [one.code for one in drive.decision.refusals if one.job_id == BE]
    assert codes == [RefusalCode.SCRIPT_UNREAD]
    knowing(drive, unread=False)
    assert [kind_of(action) for action in drive.cycle(2)] == ["setnice", "requeue"]


def test_a_victim_that_died_of_its_notice_is_put_back_in_the_queue_and_has_paid() -> None:
    drive = noticed()
    drive.ends(BE, JobState.FAILED)
    assert reruns(drive.cycle(2)) == [BE]
    assert drive.moves() == [(BE, "noticed", "left")]
    assert drive.victim().departure is Departure.DIED_OF_NOTICE
    assert by_job(drive.memory, "preemptions") == {BE: 1}
    assert [(one.job_id, one.node_s) for one in drive.memory.paid] == [(BE, NOW + 2)]
    assert lost_node_s(drive.victim()) == NOW + 2
    drive.starts(TE, HALF, at_s=3)
    drive.obeys(*drive.cycle(4))
    assert drive.order().state is OrderState.SETTLING  # its victim is not back
    drive.requeued(BE)
    assert reruns(drive.cycle(6)) == []
    drive.starts(BE, share("n1", 16), at_s=20)
    drive.cycle(21)
    assert drive.victim().state is VictimState.BACK
    assert drive.order().state is OrderState.ENDED


def test_one_that_died_of_its_notice_is_no_victim_again() -> None:
    drive = noticed()
    drive.limits = replace(drive.limits, cool_down_s=0, min_run_time_s=0)
    drive.ends(BE, JobState.FAILED)
    drive.obeys(*drive.cycle(2))
    drive.starts(TE, HALF, at_s=3)
    drive.obeys(*drive.cycle(4))
    drive.requeued(BE)
    drive.ends(TE)
    drive.obeys(*drive.cycle(6))
    drive.starts(BE, share("n1", 32), at_s=20)
    drive.jobs[JobId(10)] = waiting(10, cpus=16)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(10): drive.start.traits[JobId(TE)]})
    drive.cycle(21)
    assert by_job(drive.memory, "lost_runs") == {BE: 1}
    (text,) = [one.text for one in drive.decision.refusals if (one.job_id, one.preemptor) == (BE, 10)]
    assert text == "it has lost 1 run(s) by preemptions; guard.max_lost_runs_per_job is 1"


def test_a_rerun_without_a_visible_effect_is_requested_again() -> None:
    drive = noticed()
    drive.ends(BE, JobState.FAILED)
    assert [len(reruns(drive.cycle(at_s))) for at_s in (2, 4, 2 + AGAIN_S, 4 + AGAIN_S)] == [1, 0, 1, 0]


def test_a_victim_that_slurm_forgets_before_it_is_back_is_lost() -> None:
    drive = noticed()
    drive.ends(BE, JobState.FAILED)
    drive.cycle(2)
    drive.forgets(BE)
    # A record may be missing in one answer; MinJobAge later Slurm has forgotten it.
    drive.cycle(4)
    assert drive.victim().departure is Departure.DIED_OF_NOTICE
    drive.cycle(4 + SlurmSettings().min_job_age_s)
    assert drive.victim().departure is Departure.LOST
    assert any("LOST" in step.text for step in drive.decision.transitions)
    assert drive.victim().settled
    assert reruns(drive.cycle(320)) == []


@pytest.mark.parametrize("kind", [FailureKind.REFUSED, FailureKind.DENIED])
def test_a_victim_that_slurm_refuses_to_put_back_is_lost_and_its_trial_goes_on(kind: FailureKind) -> None:
    drive = noticed()
    drive.ends(BE, JobState.FAILED)
    actions = [action for action in drive.cycle(2) if isinstance(action, Rerun)]
    drive.says(Status.FAILED, *actions, kind=kind)
    assert drive.victim().departure is Departure.LOST
    assert drive.order().state is OrderState.OPEN
    drive.starts(TE, HALF, at_s=3)
    drive.obeys(*drive.cycle(4))
    assert drive.order().ending is Ending.STARTED_HERE


@pytest.mark.parametrize("kind", [FailureKind.UNREACHABLE, FailureKind.BUSY, FailureKind.ALREADY_DONE])
def test_a_rerun_that_did_not_arrive_is_tried_again(kind: FailureKind) -> None:
    drive = noticed()
    drive.ends(BE, JobState.FAILED)
    drive.says(Status.FAILED, *(action for action in drive.cycle(2) if isinstance(action, Rerun)), kind=kind)
    assert reruns(drive.cycle(2 + AGAIN_S)) == [BE]


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.COMPLETED])
def test_a_victim_without_a_signal_that_ends_by_itself_is_not_run_again(state: JobState) -> None:
    # Its requeue was sent as it ended: slurmctld has left it alone.
    drive = knowing(one_node(), notice_signal="", exit0=ExitZero.AGAIN)
    drive.cycle(0)
    drive.ends(BE, state)
    assert reruns(drive.cycle(1)) == []
    assert drive.victim().departure is (Departure.DIED if state is JobState.FAILED else Departure.FINISHED)
    # It was notified, so it counts in the hour's limits; it came to its own end, so nothing was lost.
    assert [(one.job_id, one.node_s) for one in drive.memory.paid] == [(BE, 0.0)]
    assert by_job(drive.memory, "preemptions") == {}


@pytest.mark.parametrize(
    ("meaning", "departure"),
    [(ExitZero.AGAIN, Departure.SAVED), (ExitZero.FINISHED, Departure.FINISHED), (ExitZero.SLURM, Departure.FINISHED)],
)
def test_what_exit_0_in_the_grace_period_means(meaning: ExitZero, departure: Departure) -> None:
    drive = noticed(exit0=meaning)
    drive.ends(BE)
    again = departure is Departure.SAVED
    assert reruns(drive.cycle(2)) == ([BE] if again else [])
    assert drive.victim().departure is departure
    assert by_job(drive.memory, "preemptions") == ({BE: 1} if again else {})
    assert len(drive.memory.paid) == 1


@pytest.mark.parametrize(("ended_at_s", "departure"), [(5, Departure.SAVED), (90, Departure.FINISHED)])
def test_a_victim_that_sat_its_grace_period_out_unseen_and_then_finished_is_not_run_again(
    ended_at_s: int, departure: Departure
) -> None:
    """The daemon was away meanwhile. Slurm 26.05 puts back what ends in its grace period, which is 30 s here."""
    drive = noticed(exit0=ExitZero.SLURM)
    drive.release = "26.05.5"
    drive.at_s = ended_at_s
    drive.ends(BE)
    drive.cycle(95)
    assert drive.victim().departure is departure


@pytest.mark.parametrize("label", ["1", "40_3"])
def test_jobs_that_depend_on_it_are_mended(label: str) -> None:
    after = waiting(5, partitions=("q",), reason="Dependency")
    drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16), after], graces={BE: 30.0})
    drive.start = drive.start.with_traits({**drive.start.traits, after.job_id: drive.start.traits[JobId(BE)]})
    if label != "1":
        drive.jobs[JobId(BE)] = replace(drive.jobs[JobId(BE)], array_job_id=JobId(40), array_task_id=3)
    drive.obeys(*drive.cycle(0))
    drive.ends(BE, JobState.FAILED)
    drive.cycle(2)
    drive.requeued(BE)
    stuck = f"afterok:{label}(failed),afterany:11{label}(unfulfilled)"
    dependent = replace(after, reason="DependencyNeverSatisfied", dependency=stuck)
    drive.jobs[after.job_id] = dependent
    (mend,) = [action for action in drive.cycle(4) if sets(action, Field.DEPENDENCY)]
    assert (mend.job_id, mend.value) == (5, f"afterok:{label},afterany:11{label}")
    drive.jobs[after.job_id] = replace(dependent, dependency=f"{mend.value}(unfulfilled)")
    assert not [action for action in drive.cycle(6) if sets(action, Field.DEPENDENCY)]
    # Another job's failure is none of our business.
    drive.jobs[after.job_id] = replace(dependent, dependency=f"afterok:7{label}(failed)")
    assert not [action for action in drive.cycle(8) if sets(action, Field.DEPENDENCY)]


@pytest.mark.parametrize(
    ("stuck", "task", "mended"),
    [
        ("aftercorr:40_*(failed)", 3, "aftercorr:40_*"),
        ("aftercorr:40_*(failed)", 2, None),
        ("aftercorr:140_*(failed)", 3, None),
        ("aftercorr:40_*(unfulfilled)", 3, None),
        ("aftercorr:40_*(failed)", None, None),
        ("afterok:40_*(failed)", 3, None),
        ("afterok:40_2(failed)", 3, None),
    ],
)
def test_a_task_that_waits_for_the_task_of_its_number_is_mended(
    stuck: str, task: int | None, mended: str | None
) -> None:
    """After `afterok` of a whole array Slurm goes by the greatest exit code of all runs, so that is lost."""
    after = waiting(5, partitions=("q",), reason="Dependency")
    drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16), after], graces={BE: 30.0})
    drive.start = drive.start.with_traits({**drive.start.traits, after.job_id: drive.start.traits[JobId(BE)]})
    drive.change(BE, array_job_id=JobId(40), array_task_id=3)
    drive.obeys(*drive.cycle(0))
    drive.ends(BE, JobState.FAILED)
    drive.cycle(2)
    drive.requeued(BE)
    array = None if task is None else JobId(50)
    drive.change(5, reason="DependencyNeverSatisfied", dependency=stuck, array_job_id=array, array_task_id=task)
    found = [action.value for action in drive.cycle(4) if sets(action, Field.DEPENDENCY)]
    assert found == ([] if mended is None else [mended])


def test_victims_that_die_of_their_notice_count_in_the_hours_limits() -> None:
    limits = Limits(max_preemptions_per_hour=1, min_run_time_s=0, cool_down_s=0)
    jobs = [running(1, share("n1", 32)), running(2, share("n2", 32)), waiting(8, cpus=32), waiting(9, cpus=32)]
    drive = Driver([node("n1"), node("n2")], jobs, graces={1: 30.0, 2: 30.0}, limits=limits)
    (first,) = [action.job_id for action in drive.cycle(0) if isinstance(action, Notify)]
    drive.ends(first, JobState.FAILED)
    drive.cycle(2)
    drive.starts(8, share(f"n{first}", 32), at_s=3)
    for at_s in (4, 10, 100, 1000):
        assert not [action for action in drive.cycle(at_s) if isinstance(action, Notify)]
    assert RefusalCode.HOUR_LIMIT in {one.code for one in drive.decision.refusals}


@pytest.mark.parametrize(
    ("setting", "trials"),
    [
        ("max_victims_for_te_user_hour", [{"user": "eve"}, {"user": "eve"}]),
        ("max_victims_for_te_account_hour", [{"account": "x"}, {"account": "x", "user": "eve"}]),
    ],
)
def test_what_one_te_user_and_account_cause_is_limited(setting: str, trials: list[dict[str, str]]) -> None:
    limits = Limits(**{setting: 1})  # type: ignore[arg-type]
    first, second = ({"user": "ada", "account": "y"} | one for one in trials)
    jobs = [
        running(1, share("n1", 32)),
        running(2, share("n2", 32)),
        waiting(8, cpus=32, user=first["user"], account=first["account"]),
        waiting(9, cpus=32, user=second["user"], account=second["account"]),
        waiting(10, cpus=32, user="other", account="other"),
    ]
    drive = Driver([node("n1"), node("n2")], jobs, graces={1: 30.0, 2: 30.0}, limits=limits)
    asked = [(action.job_id, action.reason.preemptor) for action in drive.cycle(0) if isinstance(action, Notify)]
    assert [preemptor for _, preemptor in asked] == [8, 10]
    assert drive.why_not(9) is RefusalCode.CAUSED_LIMIT


def test_what_one_te_job_causes_is_limited() -> None:
    limits = Limits(max_victims_for_te_job_hour=1)
    jobs = [running(1, share("n1", 16)), running(2, share("n1", 16)), waiting(9, cpus=32, user="eve")]
    drive = Driver([node("n1")], jobs, graces={1: 30.0, 2: 30.0}, limits=limits)
    assert drive.cycle(0) == ()
    assert drive.why_not(9) is RefusalCode.CAUSED_LIMIT


def test_a_victim_that_sat_its_grace_period_out_is_requeued_as_ever() -> None:
    drive = noticed()
    assert drive.cycle(30) == (requeue(),)
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=31)
    assert drive.cycle(32)[0] == nice_back(0, now=-1001)
    assert first_in_queue(-1001).value == -1001


def test_a_grace_period_begins_when_its_notice_was_sent() -> None:
    """Slurm was slow: the poll began 8 s before the notice could be sent."""
    drive = knowing(one_node(), grace_period_s=30.0)
    actions = drive.cycle(0)
    drive.obeys(*actions)
    drive.at_s = 8
    drive.says(Status.SENT, *actions)
    assert [kind_of(action) for action in drive.cycle(31)] == []
    assert [kind_of(action) for action in drive.cycle(39)] == ["requeue"]


def test_a_victim_is_followed_for_a_grace_period_from_its_notice_though_it_is_not_needed_any_more() -> None:
    """It may still exit with an error of its notice, and Slurm would not run it again."""
    drive = knowing(one_node(), grace_period_s=30.0)
    actions = drive.cycle(0)
    drive.obeys(*actions)
    drive.at_s = 8
    drive.says(Status.FAILED, actions[-1], kind=FailureKind.UNREACHABLE)
    drive.ends(TE)
    drive.cycle(31)
    drive.ends(BE, JobState.FAILED)
    assert reruns(drive.cycle(38)) == [BE]
