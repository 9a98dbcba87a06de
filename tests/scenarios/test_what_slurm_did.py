"""guard.lever = "plugin": what is made of what Slurm did with the jobs that were marked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.actions import SetMarks, Status
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId

from tests.builders import by_job, node, running, share, waiting
from tests.scenarios import test_gavel_rounds as gavel
from tests.scenarios.driver import Driver
from tests.scenarios.test_marking import LARGE, SMALL, TE, ordinary, written


class TestWhatSlurmDid:
    """A marked job is back in the queue."""

    def site(self, *others: Job, **limits: Any) -> Driver:
        jobs = [running(SMALL, share("n1", 8)), running(LARGE, share("n2", 32), user="bob"), waiting(TE, cpus=8)]
        jobs += others
        drive = ordinary(Driver([node("n1"), node("n2")], jobs, limits=Limits(lever=YieldBy.PLUGIN, **limits)))
        written(drive, 0)
        return drive

    def back(self, drive: Driver, at_s: float) -> None:
        drive.requeued(SMALL)
        drive.change(SMALL, submit_time=drive.snapshot(at_s).taken_at)

    def test_a_te_job_in_its_place_makes_it_a_victim_that_pays_once(self) -> None:
        drive = self.site()
        self.back(drive, 10)
        drive.starts(TE, share("n1", 8), at_s=11)
        drive.cycle(12)
        (order,) = drive.memory.open_orders()
        (victim,) = order.victims
        assert (order.preemptor, order.state, victim.job_id) == (TE, OrderState.SETTLING, SMALL)
        assert "Slurm preempted it" in victim.why
        assert by_job(drive.memory, "preemptions") == {SMALL: 1}
        assert len(drive.memory.paid) == 1
        drive.says(Status.SENT, *drive.decision.actions)
        drive.cycle(14)
        assert len(drive.memory.orders) == 1, "it is seen once"

    def test_the_te_job_may_be_seen_a_while_later(self) -> None:
        drive = self.site()
        self.back(drive, 10)
        assert written(drive, 12) == [LARGE]
        drive.starts(TE, share("n1", 8), at_s=13)
        drive.cycle(14)
        assert by_job(drive.memory, "preemptions") == {SMALL: 1}

    def test_the_te_job_may_have_ended_by_then(self) -> None:
        # Between two polls it has started in the victim's place, and has ended.
        drive = self.site()
        self.back(drive, 10)
        drive.starts(TE, share("n1", 8), at_s=11)
        drive.ends(TE)
        drive.cycle(12)
        (order,) = drive.memory.open_orders()
        assert (order.preemptor, order.ending, order.futile) == (TE, Ending.STARTED_HERE, False)

    def test_a_te_job_that_has_ended_elsewhere_did_not_take_its_place(self) -> None:
        drive = self.site()
        self.back(drive, 10)
        drive.starts(TE, share("n2", 8), at_s=11)
        drive.ends(TE)
        drive.cycle(12)
        assert drive.memory.open_orders() == ()
        drive.cycle(75)
        (order,) = drive.memory.open_orders()
        assert (order.preemptor, order.ending) == (TE, Ending.STARTED_ELSEWHERE)

    def test_of_two_in_its_place_the_one_of_its_own_user_counts(self) -> None:
        # Slurm does not say for which it was. By an own one it gains neither place nor immunity.
        drive = self.site(waiting(8, cpus=8, user="ada"))
        drive.change(SMALL, user="ada")
        drive.change(TE, user="carl")
        self.back(drive, 10)
        drive.starts(TE, share("n1", 8), at_s=11)
        drive.starts(8, share("n1", 8), at_s=12)
        drive.cycle(13)
        (order,) = drive.memory.open_orders()
        assert order.preemptor == 8
        assert by_job(drive.memory, "preemptions") == {}

    def test_its_size_is_that_of_the_run_that_was_marked(self) -> None:
        drive = self.site()
        drive.cycle(4)
        self.back(drive, 10)
        drive.starts(TE, share("n1", 8), at_s=11)
        drive.cycle(12)
        (order,) = drive.memory.open_orders()
        (victim,) = order.victims
        assert victim.size is not None
        assert (victim.size.nodes, victim.size.tres.cpus) == (1, 8)

    def barred(self, drive: Driver, at_s: float) -> tuple[str, ...]:
        (action,) = (one for one in drive.cycle(at_s) if isinstance(one, SetMarks))
        return action.barred

    @pytest.mark.parametrize("limit", ["max_victims_for_te_user_hour", "max_victims_for_te_account_hour"])
    def test_a_user_with_too_many_victims_is_excluded_until_they_are_an_hour_old(self, limit: str) -> None:
        # A limit of an account is one of each user of it that waits.
        user = "eve" if "user" in limit else "mallory"
        drive = self.site(waiting(TE + 1, cpus=8, user=user, account="lab"), **{limit: 1})
        drive.jobs[JobId(TE)] = replace(drive.jobs[JobId(TE)], user="eve", account="lab")
        self.back(drive, 10)
        drive.starts(TE, share("n1", 8), at_s=11)
        assert self.barred(drive, 12) == (user,)
        drive.says(Status.SENT, *drive.decision.actions)
        assert drive.cycle(16) == (), "it is written once"
        refusals = {one.job_id: one for one in drive.decision.refusals}
        assert refusals[JobId(TE + 1)].code is RefusalCode.CAUSED_LIMIT
        assert limit in refusals[JobId(TE + 1)].text
        assert self.barred(drive, 3700) == ()

    def test_more_users_than_the_plugin_bars_are_no_reason_to_let_them_all(self) -> None:
        trials = [waiting(100 + number, cpus=8, user=f"user{number}") for number in range(257)]
        for count, all_barred in ((256, True), (257, False)):
            jobs = [running(SMALL, share("n1", 8)), *trials[:count]]
            limits = Limits(lever=YieldBy.PLUGIN, max_victims_for_te_account_hour=0)
            drive = ordinary(Driver([node("n1")], jobs, limits=limits))
            assert bool(drive.cycle(0)) is all_barred, "no job is marked"

    def test_a_te_job_that_waited_then_and_started_elsewhere_has_cost_it_its_run_for_nothing(self) -> None:
        drive = self.site()
        self.back(drive, 10)
        written(drive, 12)
        drive.starts(TE, share("n2", 8), at_s=11)
        drive.cycle(14)
        assert drive.memory.open_orders() == (), "the resources may be another's"
        drive.cycle(75)
        (order,) = drive.memory.open_orders()
        assert (order.preemptor, order.ending, order.futile) == (TE, Ending.STARTED_ELSEWHERE, True)
        assert by_job(drive.memory, "preemptions") == {SMALL: 1}

    def test_what_slurm_may_have_done_for_a_te_job_that_still_waits_counts(self) -> None:
        drive = self.site()
        self.back(drive, 10)
        written(drive, 12)
        drive.cycle(75)
        (order,) = drive.memory.open_orders()
        assert (order.preemptor, order.ending) == (TE, Ending.EXPIRED)
        assert by_job(drive.memory, "preemptions") == {SMALL: 1}

    def test_one_that_has_ended_before_that_is_seen_counts_and_is_back(self) -> None:
        drive = self.site()
        self.back(drive, 10)
        drive.starts(TE, share("n1", 8), at_s=11)
        drive.starts(SMALL, share("n2", 8), at_s=12)
        drive.ends(SMALL)
        drive.cycle(20)
        assert by_job(drive.memory, "preemptions") == {SMALL: 1}
        drive.says(Status.SENT, *drive.decision.actions)
        drive.cycle(22)
        (order,) = drive.memory.orders.values()
        assert order.victims[0].state is VictimState.BACK

    def test_it_is_not_marked_again_before_it_is_known_why_it_was_put_back(self) -> None:
        drive = self.site()
        self.back(drive, 10)
        written(drive, 12)
        drive.starts(SMALL, share("n2", 8), at_s=14)
        assert drive.cycle(16) == ()
        (told,) = (one for one in drive.decision.refusals if one.job_id == SMALL)
        assert told.code is RefusalCode.COOL_DOWN
        # It is counted then, and P is 1.
        drive.cycle(75)
        assert by_job(drive.memory, "preemptions") == {SMALL: 1}
        assert set(drive.memory.changes_of("mark")) == {LARGE}

    def test_a_te_job_that_came_to_its_nodes_later_is_not_what_it_was_put_back_for(self) -> None:
        drive = self.site(waiting(TE + 1, cpus=8))
        self.back(drive, 10)
        drive.change(TE + 1, submit_time=drive.jobs[JobId(SMALL)].submit_time + 2)
        drive.starts(TE + 1, share("n1", 8), at_s=13)
        drive.starts(TE, share("n2", 8), at_s=11)
        drive.cycle(14)
        assert drive.memory.open_orders() == ()
        drive.cycle(75)
        (order,) = drive.memory.open_orders()
        assert (order.preemptor, order.ending) == (TE, Ending.STARTED_ELSEWHERE)

    @pytest.mark.parametrize("how", ["came later", "held"])
    def test_one_that_others_have_put_back_has_paid_nothing(self, how: str) -> None:
        drive = self.site()
        self.back(drive, 10)
        if how == "held":
            drive.change(TE, reason="JobHeldUser", priority=0)
        else:
            drive.change(TE, submit_time=drive.jobs[JobId(SMALL)].submit_time + 2)
        written(drive, 12)
        drive.cycle(100)
        assert (by_job(drive.memory, "preemptions"), drive.memory.open_orders()) == ({}, ())
        assert set(drive.memory.changes_of("mark")) == {LARGE}


class TestWhatARoundDid:
    """gavel itself puts a marked job back, while a TE job waits."""

    def site(self) -> Driver:
        speeds = {gavel.A: {"v100": 2.0}, gavel.C: {"v100": 4.0}}
        jobs = [gavel.on(gavel.A, "v"), gavel.queued(gavel.C), waiting(gavel.TRIAL, gavel.GPU)]
        drive = ordinary(gavel.Site(*jobs, speeds=speeds))
        drive.nodes.pop("k")
        drive.limits = replace(drive.limits, lever=YieldBy.PLUGIN)
        return drive

    def round(self, drive: Driver, at_s: float) -> None:
        actions = drive.cycle(at_s)
        drive.says(Status.SENT, *actions)
        drive.obeys(*actions)

    def test_a_requeue_of_a_round_is_none_of_slurms(self) -> None:
        drive = self.site()
        self.round(drive, 0)
        assert set(drive.memory.changes_of(Field.MARK)) == {gavel.A}
        for at_s in (360, 362, 364, 440):
            self.round(drive, at_s)
            if at_s == 362:
                drive.change(gavel.A, submit_time=drive.snapshot(at_s).taken_at)
        assert drive.jobs[JobId(gavel.A)].restarts == 1, "its turn is over"
        assert by_job(drive.memory, "preemptions") == {}
        assert {order.preemptor for order in drive.memory.orders.values()} == {gavel.C}
        assert [one.for_te for one in drive.memory.orders.values()] == [False]

    def test_one_that_leaves_for_a_turn_takes_no_other_ones_mark(self) -> None:
        drive = self.site()
        # No limit is awaited of the one whose turn comes, so that the other leaves in the poll that begins the turn.
        drive.limits = replace(drive.limits, max_preemptions_per_hour=1, await_first_look=False)
        self.round(drive, 0)
        drive.change(gavel.C, eligible_time=drive.snapshot(0).taken_at)
        drive.says(Status.SENT, *drive.cycle(360))
        drive.completing(gavel.A, JobState.CANCELLED)
        drive.submits(running(LARGE, share("k", 32)), like=gavel.A)
        drive.nodes["k"] = node("k")
        drive.cycle(362)
        assert LARGE in drive.memory.changes_of(Field.MARK), "A's run is none that Slurm may have preempted"
