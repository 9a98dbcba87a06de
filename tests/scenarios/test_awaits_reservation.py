"""A job that would wait for the end of a reservation, if it were requeued, is no victim; one like it that would not is.

Everywhere: a victim has 30 s of grace, KillWait is 30 s, and a requeued job may start after 121 s. A maintenance of n1
and n2 begins in a day and lasts three.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from tesched_core.model.actions import Notify
from tesched_core.model.cluster import Job, Node, Request, Reservation
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId

from tests.builders import NOW, Extra, node, running, share, waiting
from tests.scenarios.driver import BE, TE, Driver

LIMITS = Limits(min_run_time_s=0, cool_down_s=0)
DAY = 86_400
MAINTENANCE = Reservation(
    name="maint",
    start_time=NOW + DAY,
    end_time=NOW + 4 * DAY,
    nodes=frozenset({"n1", "n2"}),
    flags=frozenset({"MAINT"}),
)
#: the longest limit with which a job ends before it
LONGEST_S = DAY - 60 - 121


def site(*jobs: Job, nodes: Iterable[Node] = (), reservation: Reservation = MAINTENANCE) -> Driver:
    """Return n1 and n2, and other nodes, with these jobs; job 9 waits."""
    te = waiting(TE, cpus=16, time_limit_s=600)
    all_nodes = [node("n1"), node("n2"), *nodes]
    return Driver(all_nodes, [*jobs, te], limits=LIMITS, reservations=[reservation])


def on(name: str, job_id: int = BE, *, request: Request | None = None, **extra: object) -> Job:
    """Return a job that holds a node."""
    fields: Extra = {"time_limit_s": None, **extra}  # type: ignore[typeddict-item]
    return replace(running(job_id, share(name, 32), **fields), request=request or Request(cpus=32))


def notified(drive: Driver) -> list[int]:
    return [one.job_id for one in drive.decision.actions if isinstance(one, Notify)]


@pytest.mark.parametrize("limits", [{BE: None, 2: 3600}, {BE: 3600, 2: None}, {BE: LONGEST_S + 1, 2: LONGEST_S}])
def test_of_two_alike_the_one_that_starts_again_before_the_maintenance_leaves(limits: Mapping[int, int | None]) -> None:
    drive = site(on("n1", time_limit_s=limits[BE]), on("n2", 2, time_limit_s=limits[2]))
    drive.cycle(0)
    (victim,) = notified(drive)
    assert limits[victim] in {3600, LONGEST_S}
    other = 3 - victim
    (why,) = [one for one in drive.decision.refusals if (one.job_id, one.preemptor) == (other, TE)]
    assert why.code is RefusalCode.CANNOT_RETURN
    assert why.text == "back in the queue it would wait for the end of reservation maint"


@pytest.mark.parametrize(("days", "victims"), [(364, []), (366, [BE])])
def test_a_job_without_a_time_limit_counts_for_a_year(days: int, victims: list[int]) -> None:
    start = NOW + days * DAY
    drive = site(
        on("n1"), on("n2", 2, batch=False), reservation=replace(MAINTENANCE, start_time=start, end_time=start + DAY)
    )
    drive.cycle(0)
    assert notified(drive) == victims


@pytest.mark.parametrize(("limit_s", "victims"), [(DAY, [BE]), (DAY + 1, [])])
def test_one_that_floats_is_as_far_ahead_when_the_job_is_back_in_the_queue(limit_s: int, victims: list[int]) -> None:
    floats = replace(MAINTENANCE, flags=frozenset({"TIME_FLOAT"}))
    drive = site(on("n1", time_limit_s=limit_s), on("n2", 2, batch=False), reservation=floats)
    drive.cycle(0)
    assert notified(drive) == victims


def test_it_is_weighed_anew_as_time_goes_by() -> None:
    # the same jobs, unchanged: the reservation comes nearer, and is over or gone
    drive = site(on("n1", time_limit_s=LONGEST_S - 100), on("n2", 2, batch=False))
    drive.change(TE, reason="Dependency")
    drive.cycle(0)
    drive.change(TE, reason="Resources")
    drive.cycle(101)
    assert notified(drive) == []
    drive.start = replace(drive.start, reservations={})
    drive.cycle(102)
    assert notified(drive) == [BE]


SMALL = node("n3", cpus=16)


@pytest.mark.parametrize(
    ("other", "job", "is_victim"),
    [
        (node("n3"), on("n1"), True),
        (SMALL, on("n1"), False),
        (node("n3"), on("n1", request=Request(cpus=32, excluded_nodes=("n3",))), False),
        (node("n3"), on("n1", request=Request(cpus=32, required_nodes=("n1",))), False),
        (node("n3"), on("n1", request=Request(cpus=64, min_nodes=2, max_nodes=2)), False),
        (node("n3"), on("n1", request=Request(cpus=32, features="fast")), False),
        (replace(node("n3"), features=frozenset({"fast"})), on("n1", request=Request(cpus=32, features="fast")), True),
    ],
)
def test_with_nodes_enough_elsewhere_it_may_be_a_victim(other: Node, job: Job, *, is_victim: bool) -> None:
    full = replace(running(3, share("n3", other.total.cpus), batch=False), request=Request(cpus=16))
    drive = site(job, on("n2", 2, batch=False), full, nodes=[other])
    # of a feature of their own n1 and n2 say nothing
    drive.nodes |= {name: replace(drive.nodes[name], features=frozenset({"fast"})) for name in ("n1", "n2")}
    drive.cycle(0)
    assert notified(drive) == ([BE] if is_victim else [])


@pytest.mark.parametrize(
    "reservation",
    [
        replace(MAINTENANCE, nodes=frozenset({"n2"})),
        replace(MAINTENANCE, cores=True),
        replace(MAINTENANCE, flags=frozenset({"MAGNETIC"})),
        replace(MAINTENANCE, start_time=NOW - DAY, end_time=NOW - 1),
    ],
)
def test_in_doubt_it_is_a_victim(reservation: Reservation) -> None:
    # the TE job may run on n1 in each case
    drive = site(on("n1"), on("n2", 2, batch=False), reservation=reservation)
    drive.change(TE, time_limit_s=600)
    drive.cycle(0)
    assert notified(drive) == [BE]


def test_a_job_in_a_reservation_of_its_own_is_weighed_by_that() -> None:
    drive = site(on("n1", reservation="course"), on("n2", 2, batch=False))
    course = Reservation(name="course", start_time=NOW - 60, end_time=NOW + 10 * DAY)
    drive.start = replace(drive.start, reservations={"maint": MAINTENANCE, "course": course})
    drive.cycle(0)
    assert notified(drive) == [BE]


def test_one_that_is_yet_to_be_notified_stays_once_a_maintenance_is_announced() -> None:
    half = share("n1", 16)
    jobs = [running(BE, half, time_limit_s=3600), running(2, half, time_limit_s=None)]
    drive = Driver([node("n1")], [*jobs, waiting(TE, cpus=32, time_limit_s=600)], graces={BE: 60}, limits=LIMITS)
    quick = replace(drive.start.traits[JobId(2)], notice_signal="", grace_period_s=0.0)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(2): quick})
    drive.obeys(*[one for one in drive.cycle(0) if not isinstance(one, Notify)])
    assert notified(drive) == [BE]
    drive.start = replace(drive.start, reservations={"maint": MAINTENANCE})
    drive.requeued(BE)
    drive.cycle(10)
    (victim,) = [one for one in drive.order().victims if one.job_id == 2]
    assert victim.state is VictimState.SPARED
