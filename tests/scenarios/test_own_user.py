"""A user whose TE job makes an own best-effort job leave gains nothing by that, and uses up no other user's limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import ReasonCode, sets
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.order import Purpose, VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.tell_users import FOR_OWN, FOR_TRIAL, cause_of

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, notice, one_node

#: a job of another user that waits among the best-effort jobs, before the victim
OTHER = 5


def preempted(te_user: str, *, limits: Limits | None = None) -> Driver:
    """Return the smallest case after Ada's job has left for a TE job of this user, which runs."""
    drive = one_node(limits=limits or Limits(cool_down_s=0, min_run_time_s=0, max_preemptions_per_job=1))
    drive.change(BE, user="ada")
    drive.change(TE, user=te_user)
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.change(BE, submit_time=NOW + 2)
    drive.starts(TE, HALF, at_s=3)
    drive.obeys(*drive.cycle(4))
    return drive


def others_wait(drive: Driver) -> None:
    """Let another user's best-effort job wait with a higher priority."""
    drive.jobs[JobId(OTHER)] = waiting(OTHER, cpus=32, priority=900, user="bob")
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(OTHER): drive.start.traits[JobId(BE)]})


def raised(drive: Driver) -> list[int]:
    """Return the jobs that the last cycle has put ahead of other best-effort jobs."""
    return [
        one.job_id
        for one in drive.decision.actions
        if sets(one, Field.NICE) and one.reason.code is ReasonCode.BACK_TO_THE_HEAD
    ]


def returns(drive: Driver, at_s: float) -> None:
    """End the TE job and let Ada's job run again."""
    drive.ends(TE)
    drive.starts(BE, share("n1", 32), at_s=at_s)
    drive.obeys(*drive.cycle(at_s + 1))


class TestPlace:
    @pytest.mark.parametrize(("te_user", "ahead"), [("bob", [BE]), ("ada", [])])
    def test_a_job_of_its_own_user_gives_it_no_place_in_the_queue(self, te_user: str, ahead: list[int]) -> None:
        drive = preempted(te_user)
        others_wait(drive)
        drive.cycle(6)
        assert raised(drive) == ahead

    def test_a_job_in_the_queue_by_its_own_users_doing_is_overtaken_by_others(self) -> None:
        drive = Driver(
            [node("n1"), node("n2")],
            [
                running(1, share("n1", 32), user="ada"),
                running(2, share("n2", 32), user="bob"),
                waiting(8, cpus=32, user="ada"),
                waiting(9, cpus=32, user="ada"),
            ],
            limits=Limits(min_run_time_s=0),
        )
        drive.obeys(*drive.cycle(0))
        victims = {order.victims[0].job_id: order.preemptor for order in drive.memory.open_orders()}
        assert set(victims) == {1, 2}
        for job_id, trial in victims.items():
            node_name = drive.jobs[job_id].nodes[0]
            drive.requeued(job_id)
            drive.starts(trial, share(node_name, 32), at_s=3)
        drive.change(2, priority=200)
        drive.cycle(4)
        assert raised(drive) == []
        drive.change(1, priority=500)
        drive.cycle(6)
        assert raised(drive) == [2], "it is put ahead of job 1, which is not comparable"

    def test_nor_are_two_victims_of_one_order_fellows_if_one_is_its_own_users(self) -> None:
        drive = Driver(
            [node("n1")],
            [
                running(1, share("n1", 16), user="ada"),
                running(2, share("n1", 16), user="bob"),
                waiting(TE, cpus=32, user="ada"),
            ],
            limits=Limits(min_run_time_s=0),
        )
        drive.obeys(*drive.cycle(0))
        assert {victim.job_id for victim in drive.order().victims} == {1, 2}
        for job_id in (1, 2):
            drive.requeued(job_id)
        drive.change(1, priority=500)
        drive.starts(TE, share("n1", 32), at_s=3)
        drive.cycle(4)
        assert raised(drive) == [2]

    def test_the_order_says_so(self) -> None:
        told = [one.text for one in preempted("ada").decision.transitions if one.job_id == BE]
        assert any("a job of its own user" in text for text in told)
        told = [one.text for one in preempted("bob").decision.transitions if one.job_id == BE]
        assert told
        assert not any("own user" in text for text in told)


class TestImmunity:
    @pytest.mark.parametrize(("te_user", "often"), [("bob", {BE: 1}), ("ada", {})])
    def test_it_uses_up_none_of_the_times_that_it_may_be_preempted(self, te_user: str, often: dict[int, int]) -> None:
        drive = preempted(te_user, limits=Limits(cool_down_s=600))
        assert by_job(drive.memory, "preemptions") == often
        assert by_job(drive.memory, "last_preempted") == dict.fromkeys(often, NOW + 4)

    @pytest.mark.parametrize(("te_user", "code"), [("bob", RefusalCode.MAX_PREEMPTIONS), ("ada", None)])
    def test_anothers_te_job_may_ask_it_all_the_same(self, te_user: str, code: RefusalCode | None) -> None:
        drive = preempted(te_user)
        returns(drive, 10)
        drive.jobs[JobId(10)] = waiting(10, cpus=1, submit_time=NOW, user="carl")
        drive.start = drive.start.with_traits({**drive.start.traits, JobId(10): drive.start.traits[JobId(TE)]})
        drive.cycle(20)
        why = [one.code for one in drive.decision.refusals if (one.job_id, one.preemptor) == (BE, 10)]
        assert why == ([code] if code else [])
        assert bool(drive.open_orders()) is (code is None)

    @pytest.mark.parametrize(("te_user", "code"), [("bob", RefusalCode.SLOWDOWN), ("ada", None)])
    def test_the_wait_is_no_part_of_its_slowdown(self, te_user: str, code: RefusalCode | None) -> None:
        limits = Limits(max_preemptions_per_job=9, cool_down_s=0, min_run_time_s=0, max_slowdown=5)
        drive = Driver(
            [node("n1")],
            [
                running(BE, share("n1", 32), user="ada", submit_time=NOW - 100, start_time=NOW - 100),
                waiting(TE, cpus=16, user=te_user),
                waiting(10, cpus=16, user="carl", reason="Dependency"),
            ],
            limits=limits,
            run_times={BE: 1200.0},
            graces={BE: 30.0},
        )
        drive.obeys(*drive.cycle(0))
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=3)
        drive.obeys(*drive.cycle(4))
        drive.ends(TE)
        drive.starts(BE, share("n1", 32), at_s=10_004)
        drive.obeys(*drive.cycle(10_005))
        drive.change(10, reason="Resources")
        drive.cycle(10_010)
        codes = [one.code for one in drive.decision.refusals if (one.job_id, one.preemptor) == (BE, 10)]
        assert codes == ([code] if code else [])

    @pytest.mark.parametrize(("te_user", "since"), [("bob", NOW + 60), ("ada", None)])
    def test_nor_is_the_time_for_which_it_is_suspended(self, te_user: str, since: float | None) -> None:
        drive = one_node(limits=Limits(lever=YieldBy.AUTO))
        drive.change(BE, user="ada")
        drive.change(TE, user=te_user)
        drive.obeys(*drive.cycle(0))
        drive.cycle(1)
        drive.starts(TE, HALF, at_s=2)
        drive.cycle(3)
        drive.ends(TE)
        drive.change(BE, state=JobState.RUNNING)
        drive.cycle(60)
        assert drive.victim().state is VictimState.BACK
        assert drive.memory.job(JobId(BE)).last_preempted == since
        past = drive.memory.job(JobId(BE)).past
        assert (0.0 if past is None else past.suspended_s) == (59.0 if since else 0.0)

    def test_a_notice_that_it_withdraws_by_itself_does_not_protect_it_from_others(self) -> None:
        drive = one_node(limits=Limits(cool_down_s=600))
        drive.change(BE, user="ada")
        drive.change(TE, user="ada")
        drive.obeys(*drive.cycle(0))
        drive.ends(TE, JobState.CANCELLED)
        drive.cycle(40)
        drive.jobs[JobId(10)] = waiting(10, cpus=16, submit_time=NOW + 40, user="bob")
        drive.start = drive.start.with_traits({**drive.start.traits, JobId(10): drive.start.traits[JobId(TE)]})
        assert notice(preemptor=10, order=2) in drive.cycle(41)


class TestLimits:
    def test_what_it_costs_uses_up_no_limit_that_protects_others(self) -> None:
        limits = Limits(
            min_run_time_s=0,
            cool_down_s=0,
            max_preemptions_per_hour=1,
            max_preemptions_per_node_hour=1,
            max_preemptions_per_user_hour=1,
            max_preemptions_per_account_hour=1,
            max_victims_for_te_account_hour=1,
            max_lost_node_hours_per_day=32 / 3600,  # one grace period, and not the 4 s of the own one besides
        )
        for te_user, served in (("ada", True), ("bob", False)):
            drive = Driver(
                [node("n1")],
                [
                    running(1, share("n1", 16), user="ada", account="lab"),
                    running(2, share("n1", 16), user="ada", account="lab"),
                    waiting(TE, cpus=16, user=te_user, account="lab"),
                ],
                limits=limits,
            )
            drive.obeys(*drive.cycle(0))
            (first,) = drive.order().victims
            drive.requeued(first.job_id)
            drive.starts(TE, HALF, at_s=3)
            drive.obeys(*drive.cycle(4))
            drive.jobs[JobId(10)] = waiting(10, cpus=16, submit_time=NOW, user="carl", account="lab")
            drive.start = drive.start.with_traits({**drive.start.traits, JobId(10): drive.start.traits[JobId(TE)]})
            drive.change(first.job_id, priority=0)  # held: it blocks no other job
            drive.cycle(10)
            assert bool(drive.open_orders()) is served, te_user

    def test_it_counts_for_what_the_user_may_cause(self) -> None:
        limits = Limits(min_run_time_s=0, cool_down_s=0, max_victims_for_te_user_hour=1)
        drive = preempted("ada", limits=limits)
        returns(drive, 10)
        drive.jobs[JobId(10)] = waiting(10, cpus=1, submit_time=NOW, user="ada")
        drive.start = drive.start.with_traits({**drive.start.traits, JobId(10): drive.start.traits[JobId(TE)]})
        drive.cycle(20)
        assert drive.why_not(10) is RefusalCode.CAUSED_LIMIT


def test_jobs_of_unknown_users_are_not_each_others() -> None:
    assert preempted("").victim().of_own_user is False
    drive = one_node()
    drive.cycle(0)
    assert drive.victim().of_own_user is False


def test_its_user_is_notified() -> None:
    victim = preempted("ada").victim()
    assert cause_of(victim) == FOR_OWN
    assert cause_of(replace(victim, for_user="bob")) == FOR_TRIAL
    assert "own user" not in cause_of(replace(victim, purpose=Purpose.ROUND))
