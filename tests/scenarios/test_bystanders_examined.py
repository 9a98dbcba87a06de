"""Which jobs of the queue are examined for bystanders, and when.

Everywhere: node n1 is full. Job 20 is best effort and waits for 16 CPUs since 10 s before the first poll.
"""

from __future__ import annotations

import pytest
from tesched_core.model.cluster import JobState, Request, Reservation

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver
from tests.scenarios.test_bystanders import WAITS, account, site, te_starts


def test_cycle_that_acts_leaves_the_queue_to_a_later_one_and_the_delay_begins_with_the_te_jobs_start() -> None:
    drive = Driver(
        [node("n1"), node("n2")],
        [
            running(BE, HALF),
            running(2, share("n2", 32)),
            waiting(TE, cpus=16),
            waiting(WAITS, cpus=16, eligible_time=NOW - 10, user="bob"),
        ],
        graces={2: 0},
        run_times={WAITS: 1000},
    )
    drive.cycle(0)
    drive.starts(TE, HALF, at_s=3)
    drive.submits(waiting(8, cpus=20), like=TE)
    raised = drive.cycle(5)
    assert raised, "job 2 is to leave for job 8"
    assert drive.memory.bystanders == {}
    drive.obeys(raised[0])
    drive.completing(2, JobState.PENDING)
    assert drive.cycle(7) == ()
    drive.cycle(13)
    assert account(drive).delayed_s == 10


def test_bystander_is_delayed_no_longer_when_its_wait_ends_between_two_examinations() -> None:
    drive = site()
    te_starts(drive)
    drive.change(WAITS, reason="JobHeldUser", priority=0)
    drive.cycle(2)
    assert drive.memory.bystanders[WAITS].since is None
    drive.change(WAITS, reason="Priority", priority=100)
    drive.cycle(3)
    assert drive.memory.bystanders[WAITS].since is None, "the queue is examined each ten seconds while nothing changes"
    drive.cycle(11)
    assert drive.memory.bystanders[WAITS].since == NOW + 11


def test_jobs_that_are_alike_are_delayed_alike_each_from_when_it_was_eligible() -> None:
    early = waiting(21, cpus=16, user="bob", eligible_time=NOW - 5)
    late = waiting(22, cpus=16, user="bob", eligible_time=NOW + 5)
    drive = site(early, late)
    te_starts(drive, at_s=3)
    drive.cycle(24)
    assert {int(job_id): account(drive, job_id).delayed_s for job_id in drive.memory.bystanders} == {20: 21, 21: 21}


def test_first_thousand_of_the_queue_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_core.orders.bystanders.MOST_WAITING", 1)
    ahead = waiting(21, cpus=16, user="bob", eligible_time=NOW - 5, priority=200)
    drive = site(ahead)
    te_starts(drive, at_s=3)
    assert list(drive.memory.bystanders) == [21]


def test_job_that_was_eligible_between_two_te_jobs_has_the_older_one_not_in_its_way() -> None:
    request = Request(cpus=16, mem_per_node_mib=1, required_nodes=("n1",))
    between = waiting(WAITS, request, user="bob", eligible_time=NOW + 5)
    drive = Driver(
        [node("n1"), node("n2")],
        [running(BE, HALF), running(2, share("n2", 16)), waiting(TE, cpus=16), waiting(8, cpus=16), between],
        run_times={WAITS: 1000},
    )
    drive.cycle(0)
    drive.starts(TE, HALF, at_s=3)
    drive.starts(8, share("n2", 16), at_s=8)
    drive.cycle(9)
    drive.change(WAITS, eligible_time=NOW + 1)
    assert drive.memory.bystanders == {}
    drive.cycle(20)
    assert list(drive.memory.bystanders) == [WAITS]


def test_te_jobs_one_after_the_other_while_each_cycle_acts_count_without_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    drive = site()
    te_starts(drive)
    monkeypatch.setattr("tesched_core.orders.bystanders.MOST_DEFERRED_S", 30.0)
    drive.submits(waiting(8, cpus=16), like=TE)
    te = TE
    for number, at_s in enumerate(range(10, 61, 10)):
        drive.ends(te)
        drive.change(te, end_time=NOW + at_s)
        te = 40 + number
        drive.submits(running(te, HALF, start_time=NOW + at_s, user="cyd"), like=TE)
        assert drive.cycle(at_s + 2), "it goes on asking for the place of job 8"
    assert account(drive).delayed_s == 62


def test_nothing_is_examined_in_a_cycle_that_acts_while_the_same_te_jobs_run() -> None:
    drive = site()
    te_starts(drive)
    drive.submits(waiting(8, cpus=16), like=TE)
    before = drive.memory.examined
    assert drive.cycle(21)
    assert drive.memory.examined == before


def test_head_of_the_queue_is_examined_first_however_many_kinds_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_core.orders.bystanders.MOST_KINDS", 2)
    kinds = [waiting(30 + more, cpus=10 + more, user="bob", eligible_time=NOW - 5) for more in range(4)]
    drive = site(*kinds, waits=waiting(WAITS, cpus=16, user="bob", eligible_time=NOW - 5, priority=999))
    te_starts(drive)
    assert list(drive.memory.bystanders) == [WAITS, 30]


def test_large_cluster_has_fewer_kinds_examined_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_core.orders.bystanders.MOST_NODES", 1)
    other = waiting(30, cpus=12, user="bob", eligible_time=NOW - 5)
    drive = site(other, waits=waiting(WAITS, cpus=16, user="bob", eligible_time=NOW - 5, priority=999))
    te_starts(drive)
    assert list(drive.memory.bystanders) == [WAITS]


def test_jobs_of_one_request_are_not_alike_if_a_reservation_keeps_the_longer_from_starting() -> None:
    short = waiting(WAITS, cpus=16, user="bob", eligible_time=NOW - 5, time_limit_s=600, priority=50)
    long = waiting(21, cpus=16, user="bob", eligible_time=NOW - 5, time_limit_s=86_400)
    soon = Reservation(
        name="maint", nodes=frozenset({"n1"}), start_time=NOW + 3600, end_time=NOW + 7200, users=frozenset({"root"})
    )
    drive = Driver(
        [node("n1")],
        [running(BE, HALF), waiting(TE, cpus=16), short, long],
        run_times={WAITS: 1000, 21: 1000},
        reservations=[soon],
    )
    te_starts(drive)
    assert list(drive.memory.bystanders) == [WAITS]
