"""A TE job has to end before a reservation of others begins, or by its own deadline: its victims leave early enough.

Everywhere: KillWait is 30 s, and job 9 has a limit of 600 s. Each victim could start again on n9, which an interactive
job holds now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from tesched_core.model.actions import Notify, Requeue, Suspend
from tesched_core.model.cluster import Request, Reservation
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.order import Ending, VictimState
from tesched_core.model.resources import JobId
from tesched_core.policy import Policy
from tesched_policies.baselines import LongestRemaining, YoungestFirst
from tesched_policies.fitgpp import FitGpp

from tests.builders import NODE_MEM_MIB, NOW, node, running, share, waiting
from tests.scenarios.driver import BE, TE, Driver

LIMITS = Limits(min_run_time_s=0, cool_down_s=0)
DAY = 86_400
#: where a victim may start again, whatever is reserved
ELSEWHERE = node("n9"), running(7, share("n9", 32), batch=False)


def reserved(at_s: float, *nodes: str, name: str = "maint", last_s: float = 7200) -> Reservation:
    """Return a maintenance that begins so many seconds from now."""
    start = NOW + at_s
    return Reservation(name=name, start_time=start, end_time=start + last_s, nodes=frozenset(nodes))


def busy(
    *reservations: Reservation,
    graces: dict[int, float],
    nodes: Iterable[str] = ("n1", "n2"),
    lever: YieldBy = YieldBy.REQUEUE,
    own: str = "",
) -> Driver:
    """Return nodes that jobs 1, 2, ... fill, one each."""
    names = tuple(nodes)
    full = [running(job, share(name, 32), time_limit_s=DAY) for job, name in enumerate(names, 1)]
    te = waiting(TE, cpus=16, time_limit_s=600, reservation=own)
    limits = replace(LIMITS, lever=lever)
    all_nodes = [*map(node, names), ELSEWHERE[0]]
    return Driver(all_nodes, [*full, ELSEWHERE[1], te], graces=graces, limits=limits, reservations=reservations)


def notified(drive: Driver) -> list[int]:
    return [one.job_id for one in drive.decision.actions if isinstance(one, Notify | Requeue)]


@pytest.mark.parametrize(("grace_s", "victims"), [(70, [BE]), (71, [])])
def test_a_victim_leaves_only_if_the_te_job_ends_before_the_reservation(grace_s: float, victims: list[int]) -> None:
    drive = busy(reserved(700, "n1"), graces={BE: grace_s}, nodes=["n1"])
    drive.cycle(0)
    assert notified(drive) == victims
    assert drive.why_not(TE) is (None if victims else RefusalCode.NO_VICTIM)


def test_one_that_leaves_too_late_is_refused_with_the_reservation_named() -> None:
    drive = busy(reserved(700, "n1"), graces={BE: 300}, nodes=["n1"])
    drive.cycle(0)
    assert not drive.open_orders()
    (why,) = [one for one in drive.decision.refusals if one.job_id == BE and one.preemptor == TE]
    assert why.code is RefusalCode.NOT_ALLOWED_NODE
    assert "reservation maint begins" in why.text


@pytest.mark.parametrize("at_s", [-100, 599])
def test_none_leaves_too_late_where_the_te_job_may_not_run_whatever_leaves(at_s: float) -> None:
    drive = busy(reserved(at_s, "n1"), graces={BE: 300, 2: 300})
    drive.cycle(0)
    assert notified(drive) == [2]
    (why,) = [one for one in drive.decision.refusals if one.job_id == BE and one.preemptor == TE]
    assert "it runs where the trial-and-error job may not" in why.text


def test_a_quicker_victim_elsewhere_is_selected() -> None:
    # without a reservation job 1, which needs no grace period, is the better one
    drive = busy(reserved(625, "n1"), graces={BE: 0, 2: 60})
    drive.cycle(0)
    assert notified(drive) == [2]


def test_a_quicker_victim_on_the_same_nodes_is_selected() -> None:
    jobs = [
        ELSEWHERE[1],
        running(BE, share("n1", 16)),
        running(2, share("n1", 16)),
        waiting(TE, cpus=16, time_limit_s=600),
    ]
    for graces, victim in (({BE: 300.0, 2: 5.0}, 2), ({BE: 5.0, 2: 300.0}, BE)):
        drive = Driver(
            [node("n1"), ELSEWHERE[0]], jobs, graces=graces, limits=LIMITS, reservations=[reserved(700, "n1")]
        )
        drive.cycle(0)
        assert notified(drive) == [victim]


@pytest.mark.parametrize(("at_s", "n2_at_s", "victims"), [(None, 700, [BE]), (700, 800, []), (-10, None, [BE])])
def test_a_victim_that_also_frees_a_node_in_time_may_leave_for_that(
    at_s: float | None, n2_at_s: float | None, victims: list[int]
) -> None:
    # the other is kept from it: by a coming reservation, or by one that is on and ignores running jobs
    both = running(BE, share("n1", 32), share("n2", 32), time_limit_s=DAY)
    te = waiting(TE, cpus=16, time_limit_s=600)
    kept = [reserved(at, name, name=name) for name, at in (("n1", at_s), ("n2", n2_at_s)) if at is not None]
    # two nodes elsewhere, where the victim may start again
    elsewhere = node("n8"), running(8, share("n8", 32), batch=False)
    drive = Driver(
        [node("n1"), node("n2"), ELSEWHERE[0], elsewhere[0]],
        [both, ELSEWHERE[1], elsewhere[1], te],
        graces={BE: 300},
        limits=LIMITS,
        reservations=kept,
    )
    drive.cycle(0)
    assert notified(drive) == victims
    late = [one for one in drive.decision.refusals if one.job_id == BE and "leaves too late" in one.text]
    assert bool(late) is not bool(victims)


@pytest.mark.parametrize("which", ["own", "over", "elsewhere"])
def test_a_reservation_that_keeps_it_from_nothing_counts_for_no_victim(which: str) -> None:
    one = {
        "own": reserved(-10, "n1", name="mine"),
        "over": reserved(-7300, "n1", last_s=7200),
        "elsewhere": reserved(700, "n2"),
    }[which]
    drive = busy(one, graces={BE: 300}, nodes=["n1"], own="mine" if which == "own" else "")
    drive.cycle(0)
    assert notified(drive) == [BE]


@pytest.mark.parametrize(("at_s", "victims"), [(599, []), (600, [BE]), (700, [BE])])
def test_one_that_floats_stays_as_far_ahead_while_a_victim_leaves(at_s: float, victims: list[int]) -> None:
    # TIME_FLOAT: at each query Slurm gives its begin as so many seconds from then
    floats = replace(reserved(at_s, "n1"), flags=frozenset({"TIME_FLOAT"}))
    drive = busy(floats, graces={BE: 300}, nodes=["n1"])
    drive.cycle(0.9)  # and in whole seconds
    assert notified(drive) == victims


@pytest.mark.parametrize(("at_s", "victims"), [(929, []), (930, [BE, 2])])
def test_the_slowest_victim_counts_for_each_node(at_s: float, victims: list[int]) -> None:
    # n1, which is reserved, is free within 40 s, and n2 within 330 s
    te = waiting(TE, Request(cpus=64, min_nodes=2, max_nodes=2, mem_per_node_mib=1), time_limit_s=600)
    full = [running(BE, share("n1", 32)), running(2, share("n2", 32))]
    drive = Driver(
        [node("n1"), node("n2")],
        [*full, te],
        graces={BE: 10, 2: 300},
        limits=LIMITS,
        reservations=[reserved(at_s, "n1")],
    )
    drive.cycle(0)
    assert sorted(notified(drive)) == victims
    assert drive.why_not(TE) is (None if victims else RefusalCode.RESERVATION)


TWO_NODES = waiting(TE, Request(cpus=64, min_nodes=2, max_nodes=2, mem_per_node_mib=1), time_limit_s=600)


@pytest.mark.parametrize("policy", [FitGpp(), YoungestFirst(), LongestRemaining()], ids=lambda one: one.name)
def test_nodes_that_its_slowest_victim_would_not_meet_are_left_for_others(policy: Policy[None]) -> None:
    # n1 is free within 35 s, in time for its reservation, and n2 and n3 within 330 s; n4 is not for it at all
    graces = {BE: 5.0, 2: 300.0, 3: 300.0, 4: 300.0}  # job 1 is the first to go for each of the policies
    te = replace(TWO_NODES, request=replace(TWO_NODES.request, excluded_nodes=("n4",)))
    # an order against that of the numbers: the last of all would be the second to go
    ages_s = {BE: 600, 4: 1200, 2: 1800, 3: 2400}
    full = [running(job, share(f"n{job}", 32), start_time=NOW - ages_s[job], time_limit_s=DAY) for job in graces]
    drive = Driver(
        [node(f"n{job}") for job in graces],
        [*full, te],
        graces=graces,
        limits=LIMITS,
        binds=True,
        policy=policy,
        reservations=[reserved(700, "n1"), reserved(931, "n3", name="later")],
    )
    drive.cycle(0)
    order = drive.order()
    assert (order.nodes, {one.job_id for one in order.victims}) == (("n2", "n3"), {2, 3})
    assert drive.why_not(TE) is None
    (why,) = [one for one in drive.decision.refusals if one.job_id == BE and one.preemptor == TE]
    assert "reserved too soon: the slowest of the trial-and-error job's victims" in why.text


def three_nodes(*reservations: Reservation, graces: dict[int, float], binds: bool = True) -> Driver:
    """Return nodes that jobs 1, 2, ... fill, one each, the last of them the youngest, for a TE job of two nodes."""
    full = [running(job, share(f"n{job}", 32), start_time=NOW - 3600 + 60 * job) for job in graces]
    nodes = [*(node(f"n{job}") for job in graces), ELSEWHERE[0]]
    return Driver(
        nodes,
        [*full, ELSEWHERE[1], TWO_NODES],
        graces=graces,
        limits=LIMITS,
        binds=binds,
        policy=YoungestFirst(),
        reservations=reservations,
    )


def test_where_no_other_nodes_are_enough_quick_victims_leave() -> None:
    # the youngest would leave within 330 s; the reservation is to be met within 100 s, and one that is on by none
    both, on = reserved(700, "n1", "n2"), reserved(-10, "n9", name="on")
    drive = three_nodes(both, on, graces={BE: 5.0, 2: 5.0, 3: 300.0})
    drive.cycle(0)
    assert drive.order().nodes == ("n1", "n2")
    assert sorted(notified(drive)) == [BE, 2]


def test_of_slow_victims_alone_none_leaves() -> None:
    drive = three_nodes(reserved(700, "n1", "n2"), graces={BE: 5.0, 2: 300.0, 3: 300.0})
    drive.cycle(0)
    assert not drive.open_orders()
    assert drive.why_not(TE) is RefusalCode.RESERVATION


def test_one_that_cannot_be_bound_is_given_no_other_nodes() -> None:
    # Slurm might start it on n3 and another in time, once a job there has left, and one would leave for nothing
    for binds, nodes in ((True, {"n1", "n2"}), (False, None)):
        drive = three_nodes(reserved(700, "n3"), graces={BE: 300.0, 2: 300.0, 3: 5.0}, binds=binds)
        drive.cycle(0)
        assert bool(drive.open_orders()) is bool(nodes)
        assert nodes is None or set(drive.order().nodes) == nodes
        assert drive.why_not(TE) is (None if nodes else RefusalCode.RESERVATION)


def test_of_several_reservations_each_that_would_not_be_met_is_avoided() -> None:
    graces = {BE: 5.0, 2: 60.0, 3: 300.0, 4: 300.0}
    full = [running(job, share(f"n{job}", 32)) for job in graces]
    drive = Driver(
        [node(f"n{job}") for job in graces],
        [*full, TWO_NODES],
        graces=graces,
        limits=LIMITS,
        binds=True,
        reservations=[reserved(660, "n1", name="first"), reserved(800, "n2", name="second")],
    )
    drive.cycle(0)
    assert drive.order().nodes == ("n3", "n4")


def test_a_victim_on_two_nodes_leaves_for_the_one_that_is_in_time() -> None:
    # where jobs may be suspended, which would not free its memory, the guard alone finds that it leaves n1 too late
    both = running(BE, share("n1", 32, NODE_MEM_MIB), share("n2", 32, NODE_MEM_MIB))
    te = waiting(TE, cpus=16, time_limit_s=600)
    elsewhere = node("n8"), running(8, share("n8", 32), batch=False)
    drive = Driver(
        [node("n1"), node("n2"), ELSEWHERE[0], elsewhere[0]],
        [both, ELSEWHERE[1], elsewhere[1], te],
        graces={BE: 300},
        limits=replace(LIMITS, lever=YieldBy.AUTO),
        binds=True,
        reservations=[reserved(700, "n1")],
    )
    drive.cycle(0)
    assert notified(drive) == [BE]
    assert drive.order().nodes == ("n2",)


@pytest.mark.parametrize(("at_s", "suspended"), [(600, [BE]), (599, [])])
def test_a_victim_that_is_suspended_leaves_at_once(at_s: float, suspended: list[int]) -> None:
    drive = busy(reserved(at_s, "n1"), graces={BE: 300}, nodes=["n1"], lever=YieldBy.AUTO)
    assert [one.job_id for one in drive.cycle(0) if isinstance(one, Suspend)] == suspended


def test_with_suspension_possible_one_that_has_to_be_requeued_is_held_against_it_too() -> None:
    # its memory is needed, which a suspended job keeps
    te = waiting(TE, Request(cpus=16, mem_per_node_mib=40_000), time_limit_s=600)
    drive = Driver(
        [node("n1"), ELSEWHERE[0]],
        [ELSEWHERE[1], running(BE, share("n1", 32, 40_000)), te],
        graces={BE: 300},
        limits=replace(LIMITS, lever=YieldBy.AUTO),
        reservations=[reserved(700, "n1")],
    )
    drive.cycle(0)
    assert (notified(drive), drive.why_not(TE)) == ([], RefusalCode.RESERVATION)


def two_victims() -> Driver:
    """Return one node that has notified job 1, with 60 s of grace, while job 2, without a signal, is yet to leave."""
    halves = share("n1", 16), share("n1", 16)
    drive = Driver(
        [node("n1"), ELSEWHERE[0]],
        [ELSEWHERE[1], running(BE, halves[0]), running(2, halves[1]), waiting(TE, cpus=32, time_limit_s=600)],
        graces={BE: 60},
        limits=LIMITS,
    )
    quick = replace(drive.start.traits[JobId(2)], notice_signal="", grace_period_s=0.0)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(2): quick})
    drive.obeys(*[one for one in drive.cycle(0) if not isinstance(one, Notify)])
    assert notified(drive) == [BE]
    return drive


def reserve(drive: Driver, one: Reservation) -> None:
    drive.start = replace(drive.start, reservations={one.name: one})


@pytest.mark.parametrize(("at_s", "notified_next"), [(640, [2]), (639, [])])
def test_a_victim_that_is_yet_to_be_notified_stays_if_a_reservation_was_made_since(
    at_s: float, notified_next: list[int]
) -> None:
    drive = two_victims()
    reserve(drive, reserved(at_s, "n1"))
    drive.requeued(BE)
    drive.cycle(10)
    assert notified(drive) == notified_next
    if not notified_next:
        order = drive.order()
        assert order.ending is Ending.BLOCKED
        assert [one.state for one in order.victims if one.job_id == 2] == [VictimState.SPARED]


@pytest.mark.parametrize(("at_s", "is_open"), [(610, True), (609, False)])
def test_while_its_only_victim_saves_its_work_an_order_ends_if_its_job_could_not_start_at_once(
    at_s: float, is_open: bool
) -> None:
    drive = busy(graces={BE: 60}, nodes=["n1"])
    drive.obeys(*[one for one in drive.cycle(0) if not isinstance(one, Notify)])
    reserve(drive, reserved(at_s, "n1"))
    drive.cycle(10)
    assert bool(drive.open_orders()) is is_open
    drive.cycle(61)
    # by then the first one is too late, too; its victim, which has stayed, keeps its nodes
    assert notified(drive) == []
    assert drive.victim().state is VictimState.SPARED


def test_when_all_are_leaving_a_reservation_ends_no_order() -> None:
    drive = busy(graces={BE: 0}, nodes=["n1"])
    drive.obeys(*drive.cycle(0))
    reserve(drive, reserved(300, "n1"))
    drive.cycle(1)
    assert drive.open_orders() == [1]


@pytest.mark.parametrize(("days", "victims"), [(364, []), (366, [BE])])
def test_a_te_job_without_a_time_limit_counts_for_a_year(days: int, victims: list[int]) -> None:
    drive = busy(reserved(days * DAY, "n1"), graces={BE: 0}, nodes=["n1"])
    drive.change(TE, time_limit_s=None)
    drive.cycle(0)
    assert notified(drive) == victims


@pytest.mark.parametrize(("grace_s", "victims"), [(20, [BE]), (21, [])])
def test_a_victim_leaves_only_if_the_te_job_can_end_by_its_deadline(grace_s: float, victims: list[int]) -> None:
    drive = busy(graces={BE: grace_s}, nodes=["n1"])
    drive.change(TE, deadline=NOW + 650)
    drive.cycle(0)
    assert notified(drive) == victims
    assert drive.why_not(TE) is (None if victims else RefusalCode.NO_VICTIM)


def test_a_quicker_victim_leaves_for_a_te_job_with_a_deadline() -> None:
    drive = busy(graces={BE: 300, 2: 5})
    drive.change(TE, deadline=NOW + 650, request=Request(cpus=32, mem_per_node_mib=1))
    drive.submits(waiting(8, cpus=32, time_limit_s=600, submit_time=NOW - 5), like=TE)
    drive.cycle(0)
    assert {(one.job_id, one.reason.preemptor) for one in drive.decision.actions if isinstance(one, Notify)} == {
        (2, TE),
        (BE, 8),
    }


def test_where_victims_may_be_suspended_the_deadline_counts_too() -> None:
    te = waiting(TE, Request(cpus=16, mem_per_node_mib=40_000), time_limit_s=600, deadline=NOW + 650)
    held = running(BE, share("n1", 32, 40_000))
    drive = Driver([node("n1")], [held, te], graces={BE: 300}, limits=replace(LIMITS, lever=YieldBy.AUTO))
    drive.cycle(0)
    assert (notified(drive), drive.why_not(TE)) == ([], RefusalCode.LIMIT)


def test_a_deadline_ends_no_waiting_te_job_without_a_time_limit() -> None:
    drive = busy(graces={BE: 300}, nodes=["n1"])
    drive.change(TE, deadline=NOW + 10, time_limit_s=None)
    drive.cycle(0)
    assert notified(drive) == [BE]
