"""The bound and where jobs may start: nodes of one user at a time, and reservations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Hold
from tesched_core.model.bystander import ended
from tesched_core.model.cluster import Job, Partition, Request, Reservation
from tesched_core.model.limits import Bound, Limits
from tesched_core.model.resources import JobId

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import TE, Driver

WAITS, FIRST, OTHER = JobId(20), 8, 7
LIMITS = Limits(bound=Bound(slowdown=1.5, te_time_limit_s=600))
FEW = Request(cpus=4, mem_per_node_mib=1)
ALONE = replace(FEW, sharing="USER")


def site(first: Request, waits: Request, *jobs: Job, exclusive_user: bool = False) -> Driver:
    """Return a node that a TE job has left mostly free, and a best-effort job of another user that waits for it."""
    drive = Driver(
        [node("n1")],
        [
            waiting(FIRST, first, time_limit_s=600, user="ada", submit_time=NOW - 5),
            waiting(WAITS, waits, user="bob", eligible_time=NOW - 10, submit_time=NOW - 10),
            *jobs,
        ],
        limits=LIMITS,
        run_times={WAITS: 100},
        graces={WAITS: 0},
    )
    partition = Partition(name="p", nodes=frozenset({"n1"}), exclusive_user=exclusive_user)
    drive.start = replace(drive.start, partitions={"p": partition})
    drive.cycle(0)
    drive.starts(FIRST, share("n1", 4), at_s=0)
    drive.cycle(1)
    return drive


def delayed_s(drive: Driver) -> float:
    one = drive.memory.bystanders.get(WAITS)
    return 0.0 if one is None else ended(one, NOW + drive.at_s).delayed_s


@pytest.mark.parametrize(
    ("first", "waits", "exclusive_user"), [(ALONE, FEW, False), (FEW, ALONE, False), (FEW, FEW, True)]
)
def test_te_job_is_in_the_way_where_it_or_the_other_has_nodes_for_its_user_alone(
    first: Request, waits: Request, exclusive_user: bool
) -> None:
    drive = site(first, waits, exclusive_user=exclusive_user)
    drive.cycle(300)
    assert delayed_s(drive) == 300
    drive.cycle(700)
    drive.submits(waiting(TE, FEW, time_limit_s=100, user="ada"), like=FIRST)
    drive.cycle(730)
    assert [one.job_id for one in drive.decision.actions if isinstance(one, Hold)] == [TE]


def test_te_run_between_two_polls_counts_though_another_job_keeps_the_node_for_its_user_by_then() -> None:
    drive = site(ALONE, FEW)
    drive.ends(FIRST)
    drive.cycle(2)
    before_s = delayed_s(drive)
    drive.submits(waiting(TE, ALONE, time_limit_s=100, user="ada"), like=FIRST)
    drive.starts(TE, share("n1", 4), at_s=12)
    drive.at_s = 20
    drive.ends(TE)
    drive.submits(waiting(OTHER, ALONE, user="eve"), like=WAITS)
    drive.starts(OTHER, share("n1", 4), at_s=25)
    drive.cycle(32)
    # From 12 to 20, and the Epilog.
    assert delayed_s(drive) - before_s == 10


def test_te_job_is_in_no_ones_way_where_a_best_effort_job_keeps_the_node_for_its_user() -> None:
    drive = site(FEW, FEW, replace(running(OTHER, share("n1", 4), user="eve"), request=ALONE))
    drive.cycle(300)
    assert delayed_s(drive) == 0


def test_each_time_limit_is_no_kind_of_its_own_where_there_is_a_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_core.orders.bystanders.MOST_KINDS", 2)
    ahead = [
        waiting(30 + more, cpus=16, user="eve", eligible_time=NOW - 5, time_limit_s=600 + more, priority=200)
        for more in range(4)
    ]
    last = waiting(WAITS, cpus=16, user="bob", eligible_time=NOW - 5, time_limit_s=60)
    later = Reservation(name="m", nodes=frozenset({"n1"}), start_time=NOW + 86_400, end_time=NOW + 90_000)
    drive = Driver(
        [node("n1")],
        [waiting(TE, cpus=32), *ahead, last],
        run_times={WAITS: 1000, **{job.job_id: 1000 for job in ahead}},
        reservations=[later],
        limits=LIMITS,
    )
    drive.cycle(0)
    drive.starts(TE, share("n1", 32), at_s=0)
    drive.cycle(1)
    assert WAITS in drive.memory.bystanders
