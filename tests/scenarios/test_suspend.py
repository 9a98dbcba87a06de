"""Victims that are suspended, by hand: when, how they go on, and that no job stays suspended for ever.

Everywhere, unless said otherwise: job 1 holds all 32 CPUs of the only node and a little memory, and no GPU; job 9 wants
half of the node. The site has `guard.lever = "auto"`.

Over 400 lines: one lever, with all that may become of a suspended victim.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import (
    Action,
    FailureKind,
    Notify,
    OrderId,
    Reason,
    ReasonCode,
    Requeue,
    Resume,
    Status,
    Suspend,
    kind_of,
    releases,
)
from tesched_core.model.cluster import Job, JobState, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.job_memory import Past
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import Departure, Ending, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo
from tesched_policies.fill import Fill

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, first_in_queue, nice_back, requeue_at_once

AUTO = Limits(lever=YieldBy.AUTO, cool_down_s=0)
WHOLE = share("n1", 32, 1000)


def suspend(*, job: int = BE, order: int = 1) -> Suspend:
    reason = Reason(
        code=ReasonCode.GIVES_CPUS,
        text=f"its CPUs are enough for job {TE}; it goes on when they are free again",
        preemptor=JobId(TE),
        order_id=OrderId(order),
    )
    return Suspend(job_id=JobId(job), reason=reason, restarts=0)


def resume(*, job: int = BE, order: int = 1) -> Resume:
    reason = Reason(
        code=ReasonCode.GOES_ON,
        text=f"job {TE} does not need its CPUs any more, and they are free",
        preemptor=JobId(TE),
        order_id=OrderId(order),
    )
    return Resume(job_id=JobId(job), reason=reason)


def case(*jobs: Job, victim: Job | None = None, trial: Job | None = None, limits: Limits = AUTO) -> Driver:
    nodes = [node("n1", gres={"gpu": 8}), node("n2", cpus=1)]
    victim = victim or running(BE, WHOLE)
    return Driver(nodes, [victim, trial or waiting(TE, cpus=16), *jobs], limits=limits, run_times={5: 60, 6: 60})


def suspended(*jobs: Job, victim: Job | None = None, limits: Limits = AUTO) -> Driver:
    """Return the case after job 1 was suspended at 0 s and seen so at 1 s."""
    drive = case(*jobs, victim=victim, limits=limits)
    actions = drive.cycle(0)
    assert "suspend" in {kind_of(action) for action in actions}
    drive.obeys(*actions)
    drive.cycle(1)
    assert drive.victim().suspended_at == NOW + 1
    return drive


def started(*jobs: Job, victim: Job | None = None, limits: Limits = AUTO) -> Driver:
    """Return the case after job 9 has started at 1 s, and its nice value is put back."""
    drive = suspended(*jobs, victim=victim, limits=limits)
    drive.starts(TE, HALF)
    drive.obeys(*drive.cycle(2))
    drive.cycle(3)
    assert drive.order().ending is Ending.STARTED_HERE
    drive.moves()
    return drive


def resumes(actions: tuple[Action, ...]) -> list[int]:
    return [action.job_id for action in actions if isinstance(action, Resume)]


def test_a_victim_is_suspended_at_once_and_goes_on_when_the_trial_has_ended() -> None:
    drive = case()
    assert drive.cycle(0) == (first_in_queue(-1001), suspend())
    assert drive.moves() == [(None, "", "open"), (BE, "planned", "suspended")]
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(1) == ()
    assert drive.moves() == [(BE, "suspended", "suspended")]
    drive.starts(TE, HALF)
    assert drive.cycle(2) == (nice_back(0, now=-1001),)
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(60) == (), "its CPUs are not free"
    drive.ends(TE)
    assert drive.cycle(61) == (resume(),)
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(62) == ()
    assert drive.moves()[-2:] == [(BE, "suspended", "back"), (None, "settling", "ended")]
    assert drive.decision.transitions[0].text == "runs on, 61 s after it was suspended"
    assert not drive.order().futile
    # No work is lost: it counts neither as a preemption of the job nor as lost time, but as one of the hour.
    assert by_job(drive.memory, "preemptions") == {}
    assert [(one.job_id, one.node_s) for one in drive.memory.paid] == [(BE, 0.0)]
    assert by_job(drive.memory, "last_preempted") == {BE: NOW + 62}
    assert by_job(drive.memory, "past") == {BE: Past(submitted_at=0.0, ran_s=0.0, suspended_s=61.0, delayed_s=61.0)}


def test_the_trial_is_bound_to_the_nodes_before_a_victim_is_suspended() -> None:
    drive = Driver([node("n1")], [running(BE, WHOLE), waiting(TE, cpus=16)], limits=AUTO, binds=True)
    assert [kind_of(action) for action in drive.cycle(0)] == ["setnice", "setnodes", "suspend"]


@pytest.mark.parametrize(
    ("why", "drive"),
    [
        ("the site has not said so", case(limits=replace(AUTO, lever=YieldBy.REQUEUE))),
        ("it holds a GPU", case(victim=running(BE, share("n1", 32, 1000, {"gpu": 1})))),
        (
            "the trial wants the memory that it keeps",
            case(
                victim=running(BE, share("n1", 32, 60_000)),
                trial=waiting(TE, Request(cpus=16, mem_per_node_mib=30_000)),
            ),
        ),
        (
            "the trial wants the whole node",
            case(trial=waiting(TE, Request(cpus=16, mem_per_node_mib=1, exclusive=True), submit_time=NOW - 100)),
        ),
        ("it has whole nodes", case(victim=replace(running(BE, WHOLE), request=Request(exclusive=True)))),
        ("somebody else would take the CPUs that are left over", case(waiting(5, cpus=16))),
        (
            "an array would",
            case(waiting(5, cpus=32, array_job_id=JobId(5), array_tasks="0-9", reason="Priority")),
        ),
        ("a job would that Slurm has not looked at yet", case(waiting(5, cpus=1, reason="None"))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_where_it_is_not_enough_or_not_safe_the_victim_is_requeued(why: str, drive: Driver) -> None:
    assert [kind_of(action) for action in drive.cycle(0)] == ["setnice", "notify"], why


@pytest.mark.parametrize(
    "rival",
    [
        waiting(5, Request(cpus=1, mem_per_node_mib=63_500)),
        waiting(5, Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu", 9),))),
        waiting(5, Request(cpus=1, mem_per_node_mib=1, exclusive=True)),
        waiting(5, cpus=1, reason="Dependency"),
        waiting(5, cpus=1, priority=0, reason="JobHeldUser"),
        waiting(5, cpus=1, partitions=("elsewhere",)),
        waiting(10, cpus=32, reason="Dependency"),
    ],
)
def test_a_job_that_would_not_fit_or_not_start_is_no_rival(rival: Job) -> None:
    assert suspend() in case(rival).cycle(0)


def test_all_victims_of_an_order_are_suspended_or_none() -> None:
    both = [running(BE, share("n1", 16, 1000)), running(2, share("n1", 16, 1000))]
    drive = Driver([node("n1")], [*both, waiting(TE, cpus=32)], limits=AUTO)
    assert drive.cycle(0)[1:] == (suspend(), suspend(job=2))
    one_with_a_gpu = [running(BE, share("n1", 16, 1000)), running(2, share("n1", 16, 1000, {"gpu": 1}))]
    drive = Driver([node("n1", gres={"gpu": 1})], [*one_with_a_gpu, waiting(TE, cpus=32)], limits=AUTO)
    assert [kind_of(action) for action in drive.cycle(0)] == ["setnice", "notify", "notify"]


def test_of_two_at_one_node_the_second_goes_on_when_the_first_is_seen_to_run() -> None:
    both = [running(BE, share("n1", 16, 1000)), running(2, share("n1", 16, 1000))]
    drive = Driver([node("n1")], [*both, waiting(TE, cpus=32)], limits=AUTO)
    drive.obeys(*drive.cycle(0))
    drive.starts(TE, share("n1", 32))
    drive.obeys(*drive.cycle(1))
    drive.ends(TE)
    assert resumes(drive.cycle(2)) == [BE]
    drive.obeys(*drive.decision.actions)
    assert resumes(drive.cycle(3)) == [2]


def test_it_waits_for_any_job_that_has_its_cpus() -> None:
    drive = started()
    # Slurm has started a job that came later on what is left over.
    drive.jobs[JobId(5)] = running(5, share("n1", 8))
    drive.ends(TE)
    assert drive.cycle(10) == ()
    drive.ends(5)
    assert drive.cycle(11) == (resume(),)


def test_as_many_free_cpus_are_not_enough_if_others_have_the_very_ones() -> None:
    # 16 of the node's 32 are free, but not those that it stopped on: resumed, Slurm would count it as holding none.
    victim = running(BE, replace(share("n1", 16, 1000), cpu_ids="0-15"))
    drive = case(victim=victim, trial=waiting(TE, cpus=24))
    drive.obeys(*drive.cycle(0))
    drive.starts(TE, share("n1", 24))
    drive.obeys(*drive.cycle(1))
    drive.cycle(2)
    drive.jobs[JobId(5)] = running(5, replace(share("n1", 16), cpu_ids="8-23"))
    drive.ends(TE)
    assert drive.cycle(10) == ()
    drive.jobs[JobId(5)] = running(5, replace(share("n1", 16), cpu_ids="16-31"))
    assert drive.cycle(11) == (resume(),)


def test_a_job_that_is_ending_has_its_cpus_still() -> None:
    drive = started()
    drive.completing(TE, JobState.COMPLETED)
    assert drive.cycle(10) == ()


def test_it_leaves_reserved_resources_to_a_trial_but_not_for_ever() -> None:
    # Job 10's resources on n1 are reserved, while its victim on n2 leaves, before job 1 is suspended there for job 9.
    drive = started(limits=replace(AUTO, suspend_for_s=100, order_timeout_s=10_000))
    drive.jobs |= {JobId(10): waiting(10, cpus=4), JobId(11): running(11, share("n2", 1))}
    like(drive, (10, TE), (11, BE))
    leaves = replace(drive.victim(), job_id=JobId(11), state=VictimState.NOTICED, by_suspending=False, nodes=("n2",))
    leaves = replace(leaves, noticed_at=NOW + 3, grace_period_s=1000.0, suspend_sent_at=None, suspended_at=None)
    other = replace(drive.order(), order_id=OrderId(2), preemptor=JobId(10), state=OrderState.OPEN, victims=(leaves,))
    drive.memory = replace(drive.memory, orders={**drive.memory.orders, OrderId(2): replace(other, expires_at=1e9)})
    drive.ends(TE)
    assert resumes(drive.cycle(100)) == []
    assert resumes(drive.cycle(101)) == []
    assert resumes(drive.cycle(102)) == [BE], "it was suspended for more than 100 s"


def like(drive: Driver, *same: tuple[int, int], run_s: float | None = None) -> None:
    """Say of each first job that it is of the second one's class."""
    known = dict(drive.start.traits)
    known |= {JobId(new): replace(known[JobId(old)], run_time_s=run_s) for new, old in same}
    drive.start = replace(drive.start, traits=known)


def test_another_trial_does_not_count_on_its_cpus() -> None:
    drive = started()
    drive.jobs[JobId(10)] = waiting(10, cpus=8)
    like(drive, (10, TE))
    assert drive.cycle(10) == ()
    assert drive.why_not(10) is RefusalCode.NO_VICTIM
    refusal = [one for one in drive.decision.refusals if one.job_id == BE]
    assert [(one.code, one.text) for one in refusal] == [
        (RefusalCode.SUSPENDED, "it is suspended for another trial-and-error job, and will go on")
    ]


def test_no_job_is_brought_forward_onto_its_resources() -> None:
    drive = started()
    drive.best_effort = Fill()
    drive.change(TE, time_limit_s=600)  # else nothing is known of the first job's start
    # The first in the queue does not fit, the second fits beside job 9, where job 1's CPUs are free for Slurm.
    drive.jobs[JobId(6)] = waiting(6, cpus=32, priority=60)
    drive.jobs[JobId(5)] = waiting(5, cpus=8, priority=50)
    like(drive, (5, BE), (6, BE), run_s=60)
    assert drive.cycle(10) == ()
    drive.memory = Memory()
    assert [action.job_id for action in drive.cycle(11)] == [5], "it would, if nobody were to go on there"


def test_a_later_trial_never_requeues_a_suspended_job() -> None:
    # It wants the memory that job 1 keeps.
    drive = started(victim=running(BE, share("n1", 32, 60_000)))
    drive.jobs[JobId(10)] = waiting(10, Request(cpus=1, mem_per_node_mib=30_000))
    like(drive, (10, TE))
    for at_s in range(10, 200, 10):
        assert not [action for action in drive.cycle(at_s) if isinstance(action, Requeue | Notify)]


def test_the_cool_down_begins_anew_when_it_goes_on() -> None:
    drive = started(limits=replace(AUTO, cool_down_s=100))
    drive.ends(TE)
    drive.obeys(*drive.cycle(300))
    drive.cycle(301)
    assert drive.victim().state is VictimState.BACK
    drive.jobs[JobId(10)] = waiting(10, cpus=16)
    like(drive, (10, TE))
    assert drive.cycle(302) == ()
    assert [one.code for one in drive.decision.refusals if one.job_id == BE] == [RefusalCode.COOL_DOWN]
    assert "suspend" in {kind_of(action) for action in drive.cycle(402)}


class TestTheTrialDoesNotStart:
    """The order ends otherwise; the victim goes on."""

    def test_victim_goes_on_if_the_trial_is_cancelled(self) -> None:
        drive = suspended()
        drive.ends(TE, JobState.CANCELLED)
        assert drive.cycle(2) == (resume(),)
        assert drive.order().ending is Ending.PREEMPTOR_GONE
        assert not drive.order().futile

    def test_it_does_not_start_in_time(self) -> None:
        drive = suspended()
        drive.cycle(89)
        assert drive.open_orders() == [1]
        assert resumes(drive.cycle(91)) == [BE]
        assert drive.order().ending is Ending.EXPIRED

    def test_victim_goes_on_if_the_trial_starts_elsewhere(self) -> None:
        drive = suspended()
        drive.starts(TE, share("n2", 1))
        assert resumes(drive.cycle(2)) == [BE]
        assert drive.order().ending is Ending.STARTED_ELSEWHERE


class TestTheVictimDoesSomethingElse:
    """It is cancelled, ends, is requeued or resumed by another user."""

    @pytest.mark.parametrize(
        ("state", "departure"), [(JobState.CANCELLED, Departure.DIED), (JobState.COMPLETED, Departure.FINISHED)]
    )
    def test_order_ends_when_the_suspended_victim_ends(self, state: JobState, departure: Departure) -> None:
        drive = started()
        drive.ends(BE, state)
        drive.ends(TE)
        assert drive.cycle(10) == ()
        assert drive.victim().departure is departure
        assert drive.order().state is OrderState.ENDED

    @pytest.mark.parametrize("how", ["cancelled", "finished", "requeued"])
    def test_suspended_victim_that_leaves_has_paid_once(self, how: str) -> None:
        drive = started()
        (paid,) = drive.memory.paid
        if how == "requeued":
            drive.requeued(BE)
        else:
            drive.ends(BE, JobState.CANCELLED if how == "cancelled" else JobState.COMPLETED)
        drive.cycle(10)
        assert drive.victim().state is VictimState.LEFT
        assert drive.memory.paid == (paid,)

    def test_victim_that_leaves_before_it_is_seen_suspended_has_paid_once(self) -> None:
        drive = case()
        drive.cycle(0)
        drive.ends(BE, JobState.CANCELLED)
        drive.cycle(1)
        assert [one.job_id for one in drive.memory.paid] == [BE]

    def test_order_ends_when_slurm_forgets_the_suspended_victim(self) -> None:
        drive = started()
        drive.forgets(BE)
        assert drive.cycle(10) == ()
        assert drive.victim().departure is None, "its record may be missing in one answer"
        assert drive.cycle(310) == ()
        assert (drive.victim().departure, drive.order().state) == (Departure.VANISHED, OrderState.ENDED)

    def test_a_user_resumes_it(self) -> None:
        drive = started()
        drive.change(BE, state=JobState.RUNNING)
        assert drive.cycle(10) == ()
        assert (drive.victim().state, drive.order().state) == (VictimState.BACK, OrderState.ENDED)

    def test_a_user_requeues_it_and_slurm_leaves_it_held(self) -> None:
        drive = started()
        drive.requeued(BE)
        drive.change(BE, priority=0, reason="JobHeldAdmin")
        (release,) = drive.cycle(10)
        assert (kind_of(release), release.job_id) == ("release", BE)
        assert drive.victim().departure is Departure.REQUEUED_ITSELF
        assert by_job(drive.memory, "preemptions") == {BE: 1}
        drive.change(BE, priority=50, reason="Priority")
        drive.cycle(11)
        drive.starts(BE, WHOLE, at_s=20)
        drive.cycle(21)
        assert drive.order().state is OrderState.ENDED


class TestTheCommand:
    """What became of the suspension, and of the resumption."""

    def test_refused_it_ends_the_order_as_ever(self) -> None:
        drive = case()
        raised, asked = drive.cycle(0)
        drive.obeys(raised)
        drive.says(Status.SENT, raised)
        drive.says(Status.FAILED, asked, kind=FailureKind.REFUSED)
        assert (drive.order().ending, drive.victim().state) == (Ending.REFUSED, VictimState.SPARED)
        assert drive.cycle(1) == (nice_back(0, now=-1001),)

    @pytest.mark.parametrize(
        ("status", "kind"), [(Status.SKIPPED, None), (Status.FAILED, FailureKind.BUSY)], ids=["skipped", "busy"]
    )
    def test_certainly_not_sent_it_is_sent_in_the_next_poll(self, status: Status, kind: FailureKind | None) -> None:
        drive = case()
        raised, asked = drive.cycle(0)
        drive.obeys(raised)
        drive.says(status, asked, kind=kind)
        assert drive.victim().state is VictimState.PLANNED
        assert drive.cycle(1) == (suspend(),)

    def test_a_job_that_a_user_suspended_meanwhile_is_not_ours_to_resume(self) -> None:
        drive = case()
        raised, asked = drive.cycle(0)
        drive.obeys(raised)
        drive.change(BE, state=JobState.SUSPENDED, priority=0)
        drive.says(Status.FAILED, asked, kind=FailureKind.ALREADY_DONE)
        drive.starts(TE, HALF)
        drive.obeys(*drive.cycle(1))
        drive.ends(TE)
        assert drive.cycle(2) == ()
        assert drive.victim().state is VictimState.SPARED

    def test_unheard_of_and_not_seen_it_is_sent_again_after_a_while(self) -> None:
        drive = case()
        raised, asked = drive.cycle(0)
        drive.obeys(raised)
        drive.says(Status.FAILED, asked, kind=FailureKind.UNREACHABLE)
        assert drive.cycle(5) == ()
        assert drive.cycle(6) == (suspend(),)
        # The first one has arrived after all, and so this one finds it suspended: it is ours.
        drive.change(BE, state=JobState.SUSPENDED, priority=0)
        drive.says(Status.FAILED, suspend(), kind=FailureKind.ALREADY_DONE)
        drive.ends(TE, JobState.CANCELLED)
        assert drive.cycle(7) == (resume(),)

    def test_unheard_of_and_arrived_it_is_resumed_in_the_end(self) -> None:
        drive = case()
        raised, asked = drive.cycle(0)
        drive.obeys(raised, asked)
        drive.says(Status.FAILED, asked, kind=FailureKind.UNREACHABLE)
        drive.ends(TE, JobState.CANCELLED)
        assert drive.cycle(1) == (resume(),)

    def test_never_arrived_and_not_needed_any_more_the_victim_is_let_go(self) -> None:
        drive = case()
        drive.obeys(drive.cycle(0)[0])
        drive.ends(TE, JobState.CANCELLED)
        assert drive.cycle(1) == ()
        assert drive.victim().state is VictimState.SUSPENDED, "the command may be on its way"
        drive.cycle(3)
        assert (drive.victim().state, drive.order().state) == (VictimState.SPARED, OrderState.ENDED)

    @pytest.mark.parametrize("again", [False, True])
    def test_given_up_without_an_answer_it_may_arrive_late_and_then_it_is_resumed(self, *, again: bool) -> None:
        drive = case()
        raised, asked = drive.cycle(0)
        drive.obeys(raised)
        drive.at_s = 12
        drive.says(Status.FAILED, asked, kind=FailureKind.UNREACHABLE)
        if again:
            assert drive.cycle(13) == (suspend(),), "the trial waits for it still"
            drive.says(Status.SENT, suspend())
        drive.ends(TE, JobState.CANCELLED)
        for at_s in (14, 100, 312):
            assert drive.cycle(at_s) == ()
            assert drive.order().state is OrderState.SETTLING
        drive.change(BE, state=JobState.SUSPENDED, priority=0)
        assert drive.cycle(312) == (resume(),)
        drive.obeys(resume())
        drive.cycle(313)
        assert (drive.victim().state, drive.order().state) == (VictimState.BACK, OrderState.ENDED)

    def test_given_up_without_an_answer_it_is_not_awaited_for_ever(self) -> None:
        drive = case()
        raised, asked = drive.cycle(0)
        drive.obeys(raised)
        drive.at_s = 12
        drive.says(Status.FAILED, asked, kind=FailureKind.UNREACHABLE)
        drive.ends(TE, JobState.CANCELLED)
        drive.cycle(13)
        drive.cycle(313)
        assert (drive.victim().state, drive.order().state) == (VictimState.SPARED, OrderState.ENDED)

    def test_a_resumption_that_did_not_arrive_is_sent_again(self) -> None:
        drive = started()
        drive.ends(TE)
        assert drive.cycle(10) == (resume(),)
        drive.says(Status.FAILED, resume(), kind=FailureKind.UNREACHABLE)
        assert drive.cycle(11) == (resume(),)


class TestShadow:
    """Nothing is done, and no suspended job is forgotten."""

    def test_no_job_is_suspended(self) -> None:
        drive = case()
        drive.says(Status.WOULD, *drive.cycle(0))
        assert (drive.order().ending, drive.order().state) == (Ending.SHADOW, OrderState.ENDED)
        assert drive.memory.paid == ()

    def test_a_job_that_was_suspended_before_stays_on_the_books_until_it_may_be_resumed(self) -> None:
        drive = suspended()
        drive.jobs[JobId(6)] = waiting(6, cpus=32, priority=2000)  # so that it is to be raised once more
        drive.says(Status.WOULD, *drive.cycle(2))
        assert (drive.order().ending, drive.order().state) == (Ending.SHADOW, OrderState.SETTLING)
        assert resumes(drive.cycle(3)) == [BE]
        drive.says(Status.WOULD, *drive.decision.actions)
        assert resumes(drive.cycle(4)) == [BE]


class TestUndo:
    """An admin wants everything back."""

    def undone(self, drive: Driver, at_s: float) -> tuple[Action, ...]:
        drive.memory, drive.decision = undo(drive.memory, drive.snapshot(at_s), drive.limits)
        return drive.decision.actions

    def test_a_suspended_job_is_resumed(self) -> None:
        drive = suspended()
        assert self.undone(drive, 2) == (resume(), nice_back(0, now=-1001))
        assert drive.order().state is OrderState.SETTLING
        drive.obeys(*drive.decision.actions)
        assert self.undone(drive, 3) == ()
        assert (drive.victim().state, drive.memory.open_orders()) == (VictimState.BACK, ())

    def test_not_while_the_trial_has_its_cpus(self) -> None:
        drive = started()
        assert self.undone(drive, 4) == ()
        assert drive.memory.open_orders() != (), "it is not forgotten"
        drive.ends(TE)
        assert self.undone(drive, 5) == (resume(),)

    def test_a_suspension_that_may_or_may_not_have_been_sent(self) -> None:
        drive = case()
        drive.obeys(drive.cycle(0)[0])  # then it died
        drive.obeys(*self.undone(drive, 1))
        assert drive.memory.open_orders() != ()
        assert self.undone(drive, 3) == ()
        assert (drive.victim().state, drive.memory.open_orders()) == (VictimState.SPARED, ())

    def test_a_job_that_was_requeued_while_suspended_is_released(self) -> None:
        drive = started()
        drive.requeued(BE)
        drive.change(BE, priority=0, reason="JobHeldAdmin")
        (release,) = self.undone(drive, 4)
        assert releases(release)
        drive.change(BE, priority=50, reason="Priority")
        assert self.undone(drive, 5) == ()
        assert drive.memory.open_orders() == ()


def test_requeue_is_what_a_site_has_that_says_nothing() -> None:
    assert Limits().lever is YieldBy.REQUEUE
    drive = case(limits=Limits())
    drive.start = drive.start.with_traits(
        {job_id: replace(one, grace_period_s=0.0) for job_id, one in drive.start.traits.items()}
    )
    assert drive.cycle(0) == (first_in_queue(-1001), requeue_at_once())
