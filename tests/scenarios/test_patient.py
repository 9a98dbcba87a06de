"""patient: a TE job waits a moment, first in the queue, before there is a victim. Patience is 120 s here."""

from __future__ import annotations

from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.order import Ending, OrderState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_policies.patient import Patient

from tests.builders import NOW, by_job, node, running, share, traits, waiting
from tests.scenarios.driver import BE, TE, Driver, first_in_queue, nice_back, notice

#: a best-effort job that waits as well
RIVAL = 5


def busy(*jobs: int, graces: dict[int, float] | None = None) -> Driver:
    """Return two full nodes, job 1 on all of n1, job 2 on all of n2; the TE job came now and wants half a node."""
    nodes = [node("n1"), node("n2")]
    full = [running(BE, share("n1", 32)), running(2, share("n2", 32))]
    wants = [waiting(TE, cpus=16, submit_time=NOW), *(waiting(job, cpus=16, submit_time=NOW) for job in jobs)]
    rival = waiting(RIVAL, cpus=16)
    drive = Driver(nodes, [*full, *wants, rival], graces=graces or {BE: 60.0, 2: 30.0}, policy=Patient(patience_s=120))
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(RIVAL): traits(JobClass.BE)})
    return drive


def only_first(drive: Driver, nice: int = -1001) -> None:
    """Let the first cycle pass: the job is put first in the queue, and there is no victim."""
    free = first_in_queue(nice, free=True)
    assert drive.cycle(0) == (free,)
    drive.obeys(*drive.decision.actions)


def test_it_is_put_first_in_the_queue_and_no_victim_is_notified() -> None:
    drive = busy()
    only_first(drive)
    assert drive.order().waits
    assert drive.order().waits_until == NOW + 120
    assert drive.cycle(60) == ()
    assert drive.cycle(119) == ()


def test_it_starts_where_a_job_ends_by_itself_and_no_victim_has_paid() -> None:
    drive = busy()
    only_first(drive)
    drive.ends(2)
    drive.starts(TE, share("n2", 16), at_s=70)
    assert drive.cycle(71) == (nice_back(0, now=-1001),)
    assert drive.order().ending is Ending.STARTED_HERE
    assert drive.order().victims == ()
    drive.obeys(*drive.decision.actions)
    drive.cycle(73)
    assert drive.order().state is OrderState.ENDED


def test_the_job_that_leaves_soonest_is_notified_by_the_same_order_when_its_patience_is_over() -> None:
    drive = busy()
    only_first(drive)
    assert drive.cycle(120) == (notice(job=2),)
    assert drive.open_orders() == [1]
    assert drive.order().nodes == ("n2",)
    # its grace period of 30 s, KillWait of 30 s and the order's time-out of 60 s from now on
    assert drive.order().expires_at == NOW + 120 + 30 + 30 + 60
    drive.requeued(2)
    drive.starts(TE, share("n2", 16), at_s=130)
    drive.obeys(*drive.cycle(131))
    assert drive.order().ending is Ending.STARTED_HERE
    assert by_job(drive.memory, "preemptions") == {2: 1}


def test_of_two_that_leave_as_soon_the_one_that_holds_less_is_notified() -> None:
    drive = Driver(
        [node("n1"), node("n2")],
        [
            running(1, share("n1", 32)),
            running(2, share("n2", 16)),
            running(3, share("n2", 16), batch=False),
            waiting(TE, cpus=16, submit_time=NOW - 120),
        ],
        policy=Patient(patience_s=120),
    )
    # Both have 30 s: 30 + 32/32 against 30 + 16/32.
    assert drive.cycle(0)[1:] == (notice(job=2),)


def test_one_that_is_sent_no_signal_pays_with_its_run() -> None:
    drive = busy(graces={BE: 0.0, 2: 30.0})
    drive.change(TE, submit_time=NOW - 120)
    assert drive.cycle(0) == (first_in_queue(-1001), notice(job=2))


def test_a_job_that_has_waited_long_already_asks_at_once() -> None:
    drive = busy()
    drive.change(TE, submit_time=NOW - 120)
    assert drive.cycle(0) == (first_in_queue(-1001), notice(job=2))


def test_patience_counts_from_when_it_could_first_have_started() -> None:
    drive = busy()
    drive.change(TE, submit_time=NOW - 1000, eligible_time=NOW - 20)
    drive.cycle(0)
    assert drive.order().waits_until == NOW + 100


def test_without_patience_it_asks_at_once() -> None:
    drive = busy()
    drive.policy = Patient(patience_s=0)
    assert drive.cycle(0) == (first_in_queue(-1001), notice(job=2))


def test_free_resources_are_taken_at_once() -> None:
    drive = busy()
    drive.ends(BE)
    assert drive.cycle(0) == (first_in_queue(-1001, free=True),)
    assert drive.order().nodes == ("n1",)


def test_two_that_wait_do_not_count_on_resources_that_are_not_there_yet() -> None:
    drive = busy(10)
    drive.obeys(*drive.cycle(0))
    assert [drive.order(1).waits, drive.order(2).waits] == [True, True]
    drive.obeys(*drive.cycle(120))
    # One node serves both: its one victim frees two halves.
    assert [victim.job_id for order in (drive.order(1), drive.order(2)) for victim in order.victims] == [2]
    assert drive.order(2).nodes == ("n2",)


def test_a_job_that_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    drive = busy()
    only_first(drive)
    drive.ends(TE, JobState.CANCELLED)
    assert drive.cycle(30) == ()
    assert drive.order().ending is Ending.PREEMPTOR_GONE
    assert drive.order().state is OrderState.ENDED


def test_a_job_without_candidates_does_not_wait_for_that_either() -> None:
    drive = Driver(
        [node("n1")],
        [running(BE, share("n1", 32), batch=False), waiting(TE, cpus=16, submit_time=NOW)],
        policy=Patient(),
    )
    assert drive.cycle(0) == ()
    assert drive.why_not(TE) is RefusalCode.NO_VICTIM


def test_it_goes_on_waiting_after_a_restart_of_the_daemon() -> None:
    drive = busy()
    only_first(drive)
    assert drive.memory.orders[drive.order().order_id].preemptor == JobId(TE)
    assert drive.cycle(300) == (notice(job=2),)  # it was down meanwhile
    assert drive.open_orders() == [1]
