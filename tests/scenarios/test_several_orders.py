"""Several TE jobs at once: no job is a victim twice, no resources are reserved twice."""

from __future__ import annotations

from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.order import OrderState, VictimState
from tesched_core.model.resources import JobId

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, first_in_queue, notice, one_node, requeue


def asks(drive: Driver, job_id: int, cpus: int, submit_s: float = -5, user: str = "") -> None:
    """Submit another TE job of the same kind."""
    drive.jobs[JobId(job_id)] = waiting(job_id, cpus=cpus, submit_time=NOW + submit_s, user=user)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(job_id): drive.start.traits[JobId(TE)]})


def test_the_resources_that_a_victim_leaves_over_serve_the_next_te_job() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    asks(drive, 10, 16)
    assert drive.cycle(2) == ()
    assert (drive.order(2).victims, drive.order(2).nodes) == ((), ("n1",))
    asks(drive, 11, 1)
    # Job 11 waits with priority 100, and nothing is freed for it: job 10 has to be ahead of it.
    assert drive.cycle(4) == (first_in_queue(-1001, job=10, order=2, free=True),)
    assert drive.why_not(11) is RefusalCode.NO_VICTIM


def test_a_victim_that_leaves_for_one_job_is_not_selected_for_another() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    asks(drive, 10, 32)
    assert drive.cycle(2) == ()
    refused = [(one.job_id, one.preemptor, one.code) for one in drive.decision.refusals]
    assert refused == [
        (9, 9, RefusalCode.ORDER_OPEN),
        (1, 10, RefusalCode.ALREADY_LEAVING),
        (10, 10, RefusalCode.NO_VICTIM),
    ]


def test_the_resources_that_a_te_job_waits_for_are_not_given_to_another_when_the_victim_has_left() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    asks(drive, 10, 17)
    asks(drive, 11, 16)
    drive.cycle(2)
    assert drive.why_not(10) is RefusalCode.NO_VICTIM  # 16 of 32 are left
    assert drive.order(2).preemptor == 11
    assert drive.order(2).victims == ()


def test_the_resources_of_an_order_that_has_come_to_nothing_are_free_again() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.cycle(2)
    drive.ends(TE, JobState.CANCELLED)
    asks(drive, 10, 32)
    assert drive.cycle(4) == (first_in_queue(-1001, job=10, order=2, free=True),)


def test_a_victim_that_is_requeued_for_no_preemptor_still_frees_resources_for_the_next() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    assert drive.cycle(30) == (requeue(),)
    drive.ends(TE, JobState.CANCELLED)
    asks(drive, 10, 32)
    assert drive.cycle(31) == ()
    assert (drive.order(2).preemptor, drive.order(2).victims) == (10, ())


def test_a_victim_that_a_user_suspends_frees_its_cpus_once() -> None:
    # 16 of 32 CPUs sleep and will be freed; 16 are an exempt job's: 17 do not fit.
    drive = Driver(
        [node("n1")],
        [running(1, share("n1", 16)), running(2, share("n1", 16), batch=False), waiting(TE, cpus=1)],
    )
    drive.obeys(*drive.cycle(0))
    drive.change(1, state=JobState.SUSPENDED)
    asks(drive, 10, 16)
    drive.cycle(2)
    assert drive.why_not(10) is RefusalCode.NO_VICTIM  # 16, and one of them is job 9's


def test_the_resources_of_a_released_victim_are_not_free() -> None:
    # Job 9 started elsewhere, and its order goes on until its priority is seen to be back.
    drive = Driver(
        [node("n1"), node("n2")],
        [running(BE, share("n1", 32)), running(2, share("n2", 32), batch=False), waiting(TE, cpus=32)],
        limits=Limits(cool_down_s=0),
    )
    drive.obeys(*drive.cycle(0))
    drive.ends(2)
    drive.starts(TE, share("n2", 32), at_s=1)
    drive.cycle(2)
    asks(drive, 10, 32)
    drive.cycle(4)
    assert drive.why_not(10) is RefusalCode.NO_VICTIM  # it has had its notice, and may leave or stay
    drive.cycle(31)
    assert [victim.job_id for victim in drive.order(2).victims] == [BE]


def test_a_waiting_best_effort_job_is_no_candidate() -> None:
    drive = one_node(waiting(5, cpus=32))
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(5): drive.start.traits[JobId(BE)]})
    drive.cycle(0)
    assert [victim.job_id for victim in drive.order().victims] == [BE]
    assert drive.decision.refusals == ()


def test_all_memory_of_a_node_is_reserved_with_it() -> None:
    drive = Driver([node("n1")], [running(1, share("n1", 32)), waiting(TE)])
    drive.jobs[JobId(TE)] = waiting(TE, drive.jobs[JobId(1)].request)  # asks for no memory: gets all of it
    drive.obeys(*drive.cycle(0))
    asks(drive, 10, 1)
    drive.cycle(2)
    assert drive.why_not(10) is RefusalCode.NO_VICTIM


def test_the_first_come_is_served_first() -> None:
    drive = one_node()
    asks(drive, 8, 32, submit_s=-5)  # job 9 came 5 s before, with the higher id
    drive.cycle(0)
    assert drive.order().preemptor == TE
    assert drive.why_not(8) is RefusalCode.NO_VICTIM


def test_a_plan_that_the_guard_drops_frees_nothing_for_the_next() -> None:
    # Job 8 would have two victims, one too many, and leave 8 CPUs over. Job 9 must not count on them.
    jobs = [running(1, share("n1", 16)), running(2, share("n1", 16)), waiting(8, cpus=24), waiting(9, cpus=8)]
    drive = Driver([node("n1")], jobs, limits=Limits(max_victims_per_cycle=1))
    assert drive.cycle(0) == (first_in_queue(-1001, job=9), notice(job=1, preemptor=9))
    assert [victim.job_id for victim in drive.order().victims] == [1]
    assert drive.why_not(8) is RefusalCode.CYCLE_LIMIT
    assert drive.open_orders() == [1]
    told = [(one.job_id, one.preemptor, one.code) for one in drive.decision.refusals]
    assert told == [(8, 8, RefusalCode.CYCLE_LIMIT), (2, 9, RefusalCode.OUTSCORED)]


def test_a_plan_that_the_guard_drops_keeps_its_victims_from_no_other_job() -> None:
    # Job 8 would need both jobs, every time; job 9 needs one of them.
    jobs = [running(1, share("n1", 16)), running(2, share("n1", 16)), waiting(8, cpus=32), waiting(9, cpus=16)]
    drive = Driver([node("n1")], jobs, limits=Limits(max_victims_per_cycle=1))
    assert drive.cycle(0) == (first_in_queue(-1001, job=9), notice(job=1, preemptor=9))
    assert drive.why_not(8) is RefusalCode.CYCLE_LIMIT


def test_most_orders_at_once_count_those_that_free_resources() -> None:
    jobs = [running(1, share("n1", 32)), running(2, share("n2", 32)), waiting(8, cpus=32), waiting(9, cpus=32)]
    drive = Driver([node("n1"), node("n2")], jobs, limits=Limits(max_open_orders=1))
    drive.obeys(*drive.cycle(0))
    assert drive.open_orders() == [1]
    assert drive.why_not(9) is RefusalCode.CYCLE_LIMIT
    drive.requeued(1)
    drive.starts(8, share("n1", 32), at_s=1)
    drive.obeys(*drive.cycle(2))
    # Its victim still waits to run again, perhaps for days: the order is followed, and stops nothing.
    assert drive.order(1).state is OrderState.SETTLING
    assert drive.open_orders() == [2]


def test_no_job_is_preempted_more_often_than_the_site_allows() -> None:
    drive = one_node(limits=Limits(cool_down_s=0, min_run_time_s=0, max_preemptions_per_job=1))
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=2)
    drive.obeys(*drive.cycle(3))
    drive.ends(TE)
    drive.starts(BE, share("n1", 32), at_s=4)
    drive.cycle(5)
    asks(drive, 10, 1)
    drive.cycle(6)
    spared = [(one.job_id, one.code) for one in drive.decision.refusals if one.preemptor == 10]
    assert spared == [(1, RefusalCode.MAX_PREEMPTIONS), (10, RefusalCode.NO_VICTIM)]


def test_a_released_victim_may_be_selected_by_another_order() -> None:
    drive = one_node(limits=Limits(cool_down_s=0))
    drive.obeys(*drive.cycle(0))
    drive.ends(TE, JobState.CANCELLED)
    asks(drive, 10, 1)
    assert drive.cycle(2) == ()  # it has had its notice, and may be about to leave
    assert drive.why_not(10) is RefusalCode.NO_VICTIM
    assert drive.cycle(30) == (first_in_queue(-1001, job=10, order=2), notice(preemptor=10, order=2))
    assert drive.order(1).victims[0].state is VictimState.SPARED
    assert drive.victim(2).deadline == NOW + 60  # a whole grace period anew


def test_a_job_that_had_its_notice_and_was_released_is_left_alone_for_a_while_by_the_same_user() -> None:
    drive = one_node(limits=Limits(cool_down_s=600))
    drive.change(TE, user="ada")
    drive.obeys(*drive.cycle(0))
    drive.ends(TE, JobState.CANCELLED)
    asks(drive, 10, 1, user="ada")
    drive.cycle(30)  # its grace period is over, and it stayed
    assert by_job(drive.memory, "preemptions") == {}
    codes = [one.code for one in drive.decision.refusals if (one.job_id, one.preemptor) == (BE, 10)]
    assert codes == [RefusalCode.COOL_DOWN]
    assert drive.why_not(10) is RefusalCode.NO_VICTIM
    assert drive.cycle(629) == ()
    assert drive.cycle(630) == (first_in_queue(-1001, job=10, order=2), notice(preemptor=10, order=2))


def test_a_notice_that_one_user_withdraws_spares_the_job_from_no_other_user() -> None:
    drive = Driver(
        [node("n1"), node("n2", cpus=8)],
        [running(BE, share("n1", 32)), running(2, share("n2", 8)), waiting(TE, cpus=16, user="ada")],
        limits=Limits(cool_down_s=600),
    )
    drive.obeys(*drive.cycle(0))
    assert drive.victim().job_id == BE
    drive.ends(TE, JobState.CANCELLED)
    # The first of two alike may not ask it: what was not found for that one is searched for again for the other.
    asks(drive, 10, 16, user="ada")
    asks(drive, 11, 16, submit_s=-4, user="bob")
    drive.cycle(30)
    assert drive.why_not(10) is RefusalCode.NO_VICTIM
    assert (drive.order(2).preemptor, drive.victim(2).job_id) == (11, BE)
    assert (by_job(drive.memory, "preemptions"), by_job(drive.memory, "last_preempted")) == ({}, {})
