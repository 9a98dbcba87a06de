"""Slurm considers a TE job at the head of its queue before a victim is notified for it.

Everywhere: job 1 holds n1 and job 2 holds n2, without grace periods; job 9 wants half a node, and Slurm says Priority
of it. A change of its nice value makes Slurm say None until its next pass.

Over 400 lines: all that becomes of a job at the head of its queue until its victims have their notice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.fields.slurms_word import LOOK_WITHIN_S
from tesched_core.intake.pending_reason import awaits_first_look
from tesched_core.model.access import PartitionAccess
from tesched_core.model.actions import Action, FailureKind, Requeue, Status, sets
from tesched_core.model.change import By
from tesched_core.model.cluster import Partition, Request, SlurmSettings
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.first_look import waits_for_resources_alone
from tesched_core.step import step
from tesched_policies.patient import Patient

from tests.builders import NOW, by_job, cluster, node, running, share, traits, waiting
from tests.scenarios.driver import BE, TE, Driver, first_in_queue, nice_back

LIMITS = Limits(min_run_time_s=0, cool_down_s=0)
RIVAL = 5


def two_nodes(*, limits: Limits = LIMITS, binds: bool = False) -> Driver:
    jobs = [
        running(1, share("n1", 32)),
        running(2, share("n2", 32)),
        waiting(RIVAL, cpus=32, priority=500),
        waiting(TE, cpus=16, reason="Priority", eligible_time=NOW - 1),
    ]
    drive = Driver([node("n1"), node("n2")], jobs, graces={1: 0, 2: 0}, limits=limits, binds=binds)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(RIVAL): traits(JobClass.BE)})
    return drive


def obeys(drive: Driver, *actions: Action) -> None:
    """Obey, take the commands, and say None of whatever was changed."""
    drive.obeys(*actions)
    drive.says(Status.SENT, *actions)
    for action in actions:
        if sets(action, Field.NICE, Field.PRIORITY, Field.NODES) and drive.jobs[action.job_id].pending:
            drive.change(action.job_id, reason="None")


def raised() -> Driver:
    """Return the case after the job was put at the head."""
    drive = two_nodes()
    # 501 are needed of 100
    assert drive.cycle(0) == (first_in_queue(-1401, free=True),)
    obeys(drive, *drive.decision.actions)
    return drive


def asked(drive: Driver) -> list[int]:
    return [action.job_id for action in drive.decision.actions if isinstance(action, Requeue)]


def test_it_is_raised_first_and_its_victim_is_notified_once_slurm_says_that_it_lacks_resources() -> None:
    drive = raised()
    assert drive.why_not(TE) is RefusalCode.NOT_CONSIDERED_YET
    assert drive.cycle(0.5) == (), "Slurm has not looked yet"
    drive.change(TE, reason="Resources")
    drive.cycle(1)
    assert asked(drive) == [BE]
    assert drive.open_orders() == [1], "it is the same order"


def test_the_victim_of_a_job_that_is_the_head_already_is_notified_at_once() -> None:
    drive = two_nodes()
    drive.change(TE, reason="Resources")
    drive.cycle(0)
    assert asked(drive) == [BE]


def test_so_is_that_of_one_with_licences_while_a_node_is_down() -> None:
    """Slurm says so for as long as the node is away."""
    drive = two_nodes()
    word = "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions"
    drive.jobs[JobId(TE)] = replace(drive.jobs[JobId(TE)], reason=word, licenses="matlab:1")
    drive.cycle(0)
    assert asked(drive) == [BE]


def test_the_victim_is_notified_at_once_where_the_site_has_no_limits() -> None:
    drive = two_nodes(limits=replace(LIMITS, await_first_look=False))
    drive.cycle(0)
    assert asked(drive) == [BE]


@pytest.mark.parametrize("field", ["licenses", "dependency", "reservation"])
def test_not_even_there_that_of_a_job_that_requests_more_than_nodes(field: str) -> None:
    drive = two_nodes(limits=replace(LIMITS, await_first_look=False))
    assert without_limits(drive, **{field: "something:1"}) == []


def test_a_site_may_have_slurms_word_awaited_in_any_case() -> None:
    drive = two_nodes(limits=replace(LIMITS, await_first_look=True))
    assert without_limits(drive) == []
    assert without_limits(drive, reason="None") == []


@pytest.mark.parametrize("limit", ["QOSMaxCpuPerUserLimit", "Licenses"])
def test_a_limit_that_shows_at_the_head_costs_no_victim_and_the_job_stays_there_until_it_is_gone(limit: str) -> None:
    drive = raised()
    for at_s, reason in enumerate([limit, "None", limit, "Priority", "None"] * 40):
        drive.change(TE, reason=reason)
        assert drive.cycle(1 + at_s / 4) == ()
    drive.change(TE, reason=limit)
    assert drive.cycle(3600) == ()
    assert drive.why_not(TE) in {RefusalCode.LIMIT, RefusalCode.LICENSES}
    assert drive.open_orders() == [1]
    drive.change(TE, reason="Resources")
    drive.cycle(3602)
    assert asked(drive) == [BE]


def test_anything_else_that_it_waits_for_ends_it() -> None:
    drive = raised()
    drive.change(TE, reason="Dependency")
    assert drive.cycle(1) == (nice_back(0, now=-1401),)
    assert (drive.order().ending, by_job(drive.memory, "futile")) == (Ending.BLOCKED, {})


def test_no_victim_is_notified_unless_slurm_considers_it_in_time_and_it_is_tried_again_later() -> None:
    drive = raised()
    assert drive.cycle(LOOK_WITHIN_S) == ()
    assert drive.cycle(LOOK_WITHIN_S + 1) == (nice_back(0, now=-1401),)
    assert drive.order().ending is Ending.NOT_LOOKED_AT
    assert by_job(drive.memory, "retry_at") == {TE: NOW + LOOK_WITHIN_S + 301}
    drive.obeys(*drive.decision.actions)
    drive.change(TE, reason="Priority")
    drive.cycle(LOOK_WITHIN_S + 10)
    assert drive.why_not(TE) is RefusalCode.RETRY_LATER


def keeps_all(drive: Driver) -> None:
    """Let no job be a victim any more."""
    for job_id in (1, 2):
        drive.change(job_id, requeueable=False)


def test_job_for_which_no_victim_may_be_selected_does_not_stay_at_the_head() -> None:
    drive = raised()
    drive.change(TE, reason="Resources")
    keeps_all(drive)
    drive.cycle(1)
    assert drive.cycle(LOOK_WITHIN_S) == ()
    assert drive.cycle(LOOK_WITHIN_S + 1) == (nice_back(0, now=-1401),)
    assert (drive.order().ending, by_job(drive.memory, "futile")) == (Ending.EXPIRED, {})
    assert by_job(drive.memory, "retry_at") == {TE: NOW + LOOK_WITHIN_S + 301}
    (text,) = [one.text for one in drive.decision.transitions if one.after == "settling"]
    assert text == "job 9 is first in its queue (Slurm says: Resources), and no victim may be selected for it"
    drive.obeys(*drive.decision.actions)
    drive.change(TE, reason="Priority")
    for at_s in range(100, 2000, 100):
        assert drive.cycle(at_s) == (), "it is not raised again for nothing"
    drive.change(1, requeueable=True)
    obeys(drive, *drive.cycle(2000))
    drive.change(TE, reason="Resources")
    drive.cycle(2001)
    assert asked(drive) == [1], "it is served once a job may be its victim"


@pytest.mark.parametrize("reason", ["ReqNodeNotAvail", "Reservation"])
def test_nor_does_one_that_slurm_does_not_start_for_another_reason(reason: str) -> None:
    drive = raised()
    drive.change(TE, reason=reason)
    drive.cycle(1)
    assert drive.open_orders() == [1]
    drive.cycle(LOOK_WITHIN_S + 1)
    assert drive.order().ending is Ending.EXPIRED


def test_one_is_served_as_soon_as_a_job_may_be_its_victim() -> None:
    drive = raised()
    drive.change(TE, reason="Resources")
    keeps_all(drive)
    drive.cycle(1)
    drive.change(2, requeueable=True)
    drive.cycle(LOOK_WITHIN_S)
    assert asked(drive) == [2]


def test_one_is_served_first_where_no_poll_was_made_for_long() -> None:
    drive = raised()
    drive.change(TE, reason="Resources")
    drive.cycle(3600)
    assert asked(drive) == [BE]


def test_time_at_a_limit_is_no_time_without_a_victim() -> None:
    drive = raised()
    for at_s in range(10, 3600, 10):
        drive.change(TE, reason="QOSMaxCpuPerUserLimit")
        assert drive.cycle(at_s) == ()
    drive.change(TE, reason="Resources")
    keeps_all(drive)
    drive.cycle(3600)
    assert drive.open_orders() == [1]
    drive.change(1, requeueable=True)
    drive.cycle(3602)
    assert asked(drive) == [1]


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "UNKNOWN"},
        {"flags": frozenset({"NOT_RESPONDING"})},
        {"unreported": True},
        {"doubt": "its record is unreadable", "state": ""},
    ],
    ids=["not reported", "not responding", "backup", "unreadable"],
)
def test_time_in_which_nodes_of_its_partition_are_silent_is_no_time_without_a_victim(fields: dict[str, Any]) -> None:
    drive = raised()
    drive.change(TE, reason="Resources")
    before = dict(drive.nodes)
    drive.nodes = {name: replace(one, **fields) for name, one in before.items()}
    for at_s in range(1, 3 * int(LOOK_WITHIN_S)):
        assert drive.cycle(at_s) == ()
    assert drive.open_orders() == [1]
    keeps_all(drive)
    drive.nodes = before
    drive.cycle(3 * LOOK_WITHIN_S)
    assert drive.open_orders() == [1]
    drive.cycle(4 * LOOK_WITHIN_S + 1)
    assert drive.order().ending is Ending.EXPIRED, "it counts once they are seen"


def test_silent_nodes_that_it_can_not_use_keep_no_job_at_the_head() -> None:
    drive = raised()
    drive.change(TE, reason="Resources", request=replace(drive.jobs[JobId(TE)].request, excluded_nodes=("n2",)))
    keeps_all(drive)
    drive.nodes["n2"] = replace(drive.nodes["n2"], state="UNKNOWN")
    drive.nodes["n3"] = replace(node("n3"), state="UNKNOWN")
    drive.cycle(1)
    drive.cycle(LOOK_WITHIN_S + 1)
    assert drive.order().ending is Ending.EXPIRED


@pytest.mark.parametrize("doubt", [{"doubt": "it could not be read"}, {"partly_read": "its shares could not be read"}])
def test_job_that_could_not_be_read_there_is_no_want_of_a_victim(doubt: dict[str, Any]) -> None:
    drive = raised()
    drive.change(TE, reason="Resources")
    keeps_all(drive)
    drive.cycle(1)
    drive.jobs[JobId(BE)] = replace(drive.jobs[JobId(BE)], **doubt)
    drive.cycle(LOOK_WITHIN_S + 1)
    assert drive.open_orders() == [1]


def test_order_of_a_job_that_is_not_seen_or_read_in_part_goes_on() -> None:
    drive = raised()
    drive.change(TE, reason="Resources")
    keeps_all(drive)
    drive.cycle(1)
    drive.jobs[JobId(TE)] = replace(drive.jobs[JobId(TE)], partly_read="its record is being read")
    drive.cycle(LOOK_WITHIN_S + 1)
    assert drive.open_orders() == [1]


def test_no_order_ends_for_want_of_a_plan_while_no_policy_proposes() -> None:
    drive = raised()
    drive.change(TE, reason="Resources")
    drive.memory, _ = step(drive.memory, drive.snapshot(LOOK_WITHIN_S + 1), drive.entries(), drive.limits, paused="so")
    assert drive.open_orders() == [1]


def test_a_job_that_overtakes_it_is_overtaken_before_a_victim_is_notified() -> None:
    drive = raised()
    drive.change(RIVAL, priority=5000)
    drive.change(TE, reason="Priority")
    (again,) = drive.cycle(1)
    assert sets(again, Field.NICE)
    obeys(drive, again)
    assert drive.cycle(2) == ()
    drive.change(TE, reason="Resources")
    drive.cycle(3)
    assert asked(drive) == [BE]


def test_the_second_of_two_is_considered_when_the_first_is_bound() -> None:
    drive = two_nodes(binds=True)
    drive.jobs[JobId(10)] = replace(drive.jobs[JobId(TE)], job_id=JobId(10))
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(10): traits(JobClass.TE)})
    obeys(drive, *drive.cycle(0))
    assert asked(drive) == []
    drive.change(TE, reason="Resources")
    drive.change(10, reason="Priority")  # Slurm has stopped at the first
    obeys(drive, *drive.cycle(1))
    assert asked(drive) == [1]
    drive.change(10, reason="Resources")
    drive.cycle(2)
    # The other half of n1 comes free as well.
    assert (asked(drive), drive.order(2).nodes) == ([], ("n1",))


def test_while_another_is_ahead_of_it_its_time_does_not_run_out() -> None:
    drive = two_nodes()
    drive.jobs[JobId(10)] = replace(
        drive.jobs[JobId(TE)], job_id=JobId(10), request=replace(drive.jobs[JobId(TE)].request, cpus=32)
    )
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(10): traits(JobClass.TE)})
    obeys(drive, *drive.cycle(0))
    drive.change(TE, reason="QOSMaxCpuPerUserLimit")
    drive.change(10, reason="Priority")
    drive.cycle(LOOK_WITHIN_S + 10)
    assert drive.open_orders() == [1, 2]


def test_patience_is_time_for_slurm_to_consider_it() -> None:
    drive = two_nodes()
    drive.policy = Patient(patience_s=120)
    drive.change(TE, submit_time=NOW, eligible_time=NOW)
    obeys(drive, *drive.cycle(0))
    drive.change(TE, reason="Resources")
    assert drive.cycle(60) == ()
    drive.cycle(120)
    assert len(asked(drive)) == 1


def test_the_daemon_watches_for_slurms_pass_once_slurm_has_taken_the_raise() -> None:
    drive = two_nodes()
    actions = drive.cycle(0)
    assert awaits_first_look(drive.snapshot(0), 5, drive.memory) is None
    obeys(drive, *actions)
    assert awaits_first_look(drive.snapshot(1), 5, drive.memory) == TE
    assert awaits_first_look(drive.snapshot(6), 5, drive.memory) is None, "a scheduler that is far behind"
    drive.change(TE, reason="Resources")
    assert awaits_first_look(drive.snapshot(1), 5, drive.memory) is None


def test_a_raise_that_failed_is_sent_again_and_no_victim_is_notified_meanwhile() -> None:
    drive = two_nodes()
    drive.says(Status.FAILED, *drive.cycle(0), kind=FailureKind.BUSY)
    assert drive.cycle(2) == (first_in_queue(-1401, free=True),)


def without_limits(drive: Driver, **changes: Any) -> list[int]:
    """Return the victims of the first cycle where slurm.conf has no limits enforced."""
    drive.enforces_limits = False
    drive.jobs[JobId(TE)] = replace(drive.jobs[JobId(TE)], **changes)
    drive.cycle(0)
    return asked(drive)


def test_the_victim_of_a_job_that_requests_nodes_alone_is_notified_at_once_where_slurm_has_no_limits() -> None:
    assert without_limits(two_nodes()) == [BE]


@pytest.mark.parametrize("field", ["licenses", "dependency", "reservation"])
def test_even_there_whatever_else_it_asks_for_may_show_at_the_head(field: str) -> None:
    assert without_limits(two_nodes(), **{field: "something:1"}) == []


def test_even_there_so_may_a_limit_of_one_of_its_qos_if_it_has_several() -> None:
    assert without_limits(two_nodes(), qos="te") == [BE]
    assert without_limits(two_nodes(), qos="te,normal") == []


def test_nor_is_its_very_first_reason_awaited_there() -> None:
    assert without_limits(two_nodes(), reason="None") == [BE]


@pytest.mark.parametrize("reason", ["None", "Priority"])
def test_where_slurm_enforces_limits_a_job_is_served_at_once_if_none_keeps_it(reason: str) -> None:
    drive = two_nodes()
    drive.change(TE, reason=reason)
    drive.cycle(0)
    assert asked(drive) == []
    drive = two_nodes()
    drive.change(TE, reason=reason)
    drive.start = replace(drive.start, unlimited=frozenset({JobId(TE)}))
    drive.cycle(0)
    assert asked(drive) == [BE]


def test_a_limit_that_slurm_names_counts_whatever_was_known_before() -> None:
    drive = two_nodes()
    drive.start = replace(drive.start, unlimited=frozenset({JobId(TE)}))
    drive.change(TE, reason="QOSMaxCpuPerUserLimit")
    drive.cycle(0)
    assert (asked(drive), drive.why_not(TE)) == ([], RefusalCode.LIMIT)


def beside_one_that_fits() -> Driver:
    """Return a site without limits after its first cycle: TE job 8, which fits on n3, keeps job 9 without a victim."""
    drive = two_nodes()
    drive.nodes["n3"] = node("n3", cpus=8)
    drive.start = replace(
        drive.start, partitions={"p": replace(drive.start.partitions["p"], nodes=frozenset(drive.nodes))}
    )
    drive.jobs[JobId(8)] = waiting(8, cpus=8, reason="Priority", eligible_time=NOW - 1)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(8): traits(JobClass.TE)})
    assert without_limits(drive) == []
    return drive


def test_slurms_word_is_awaited_while_another_te_job_is_to_start_on_free_resources() -> None:
    drive = beside_one_that_fits()
    # Once that has started nothing takes what the victim frees.
    drive.jobs[JobId(8)] = running(8, share("n3", 8))
    drive.cycle(1)
    assert asked(drive) == [BE]


def test_so_it_is_not_while_a_be_job_is_to_have_its_turn_on_them() -> None:
    drive = beside_one_that_fits()
    drive.turns(8)
    drive.cycle(1)
    assert drive.open_orders() == [1, 2]
    assert asked(drive) == [BE]


@pytest.mark.parametrize(("victim_cpus", "notified"), [(16, []), (24, [BE])])
def test_slurms_word_is_awaited_where_a_plan_counts_on_what_is_free(victim_cpus: int, notified: list[int]) -> None:
    drive = two_nodes()
    drive.jobs[JobId(1)] = running(1, share("n1", victim_cpus, 1))
    drive.change(TE, request=replace(drive.jobs[JobId(TE)].request, cpus=24))
    assert without_limits(drive) == notified
    assert JobId(TE) in drive.memory.raised(By.PREEMPTOR), "it is put first in any case"


@pytest.mark.parametrize(("held", "notified"), [(8, []), (32, [BE])])
def test_slurms_word_is_awaited_where_by_sums_the_job_may_start_on_what_is_free(held: int, notified: list[int]) -> None:
    """Of two partitions one gives whole nodes alone, so that Slurm's record has it of the job, which fits on n2."""
    drive = two_nodes()
    whole = replace(drive.start.partitions["p"], name="q", nodes=frozenset({"n1"}), oversubscribe="EXCLUSIVE")
    drive.start = replace(drive.start, partitions={**drive.start.partitions, "q": whole})
    drive.jobs[JobId(2)] = running(2, share("n2", held), requeueable=False)
    request = replace(drive.jobs[JobId(TE)].request, exclusive=True)
    assert without_limits(drive, partitions=("q", "p"), request=request) == notified


def test_so_it_is_not_where_another_order_has_freed_that_for_its_own_job() -> None:
    drive = two_nodes()
    whole = Request(cpus=32, mem_per_node_mib=1)
    assert without_limits(drive, request=whole) == [BE]
    drive.obeys(*drive.decision.actions)
    drive.requeued(BE)
    drive.submits(waiting(8, whole, reason="Priority", eligible_time=NOW, submit_time=NOW), like=TE)
    drive.cycle(2)
    assert asked(drive) == [2]


def test_an_order_for_the_turn_of_a_be_job_keeps_nothing_from_a_te_job() -> None:
    drive = two_nodes()
    whole = Request(cpus=32, mem_per_node_mib=1)
    assert without_limits(drive, request=whole) == [BE]
    drive.obeys(*drive.decision.actions)
    drive.requeued(BE)
    drive.submits(waiting(8, whole, reason="Priority", eligible_time=NOW, submit_time=NOW), like=TE)
    drive.turns(TE)
    drive.cycle(2)
    assert drive.open_orders() == [1, 2], "the first is as one of a round"
    assert asked(drive) == []


CLOSED = {
    "down": replace(Partition(name="p"), state="DOWN"),
    "time": Partition(name="p", max_time_s=60),
    "fewest nodes": Partition(name="p", min_nodes=2),
    "accounts": Partition(name="p", allow_accounts=frozenset({"lab"})),
    "account denied": Partition(name="p", access=PartitionAccess(deny_accounts=frozenset({"a"}))),
    "QOS": Partition(name="p", allow_qos=frozenset({"high"})),
    "root": Partition(name="p", access=PartitionAccess(root_only=True)),
    "in a reservation": Partition(name="p", access=PartitionAccess(needs_reservation=True)),
    "memory by CPU": Partition(name="p", max_mem_per_cpu_mib=1000),
    "unread": Partition(name="p", doubt="another form"),
}


@pytest.mark.parametrize("what", CLOSED)
def test_slurms_word_is_awaited_where_a_partition_may_not_take_the_job(what: str) -> None:
    job = replace(waiting(TE, cpus=16, reason="None"), eligible_time=NOW - 1, time_limit_s=600, account="a")
    known = SlurmSettings(limits_enforced=False)
    free = cluster([node("n1")], [job], settings=known)
    assert waits_for_resources_alone(job, free, LIMITS)
    kept = cluster([node("n1")], [job], settings=known, partitions=[CLOSED[what]])
    assert not waits_for_resources_alone(job, kept, LIMITS)
    of_both = replace(job, partitions=("q", "p"))
    kept = cluster([node("n1")], [of_both], settings=known, partitions=[Partition(name="q"), CLOSED[what]])
    assert not waits_for_resources_alone(of_both, kept, LIMITS)


def test_slurms_word_is_awaited_where_jobs_may_have_burst_buffers() -> None:
    job = replace(waiting(TE, reason="None"), eligible_time=NOW - 1)
    seen = cluster([node("n1")], [job], settings=SlurmSettings(limits_enforced=False, has_burst_buffers=True))
    assert not waits_for_resources_alone(job, seen, LIMITS)


def test_slurms_word_is_awaited_where_a_partition_is_not_known() -> None:
    job = replace(waiting(TE, reason="None"), eligible_time=NOW - 1)
    seen = cluster([node("n1")], [job], settings=SlurmSettings(limits_enforced=False), partitions=[])
    assert not waits_for_resources_alone(job, seen, LIMITS)
    assert not waits_for_resources_alone(replace(job, partitions=()), seen, LIMITS)


def test_even_there_so_may_a_limit_of_its_partition() -> None:
    for te_limit_s, victims in ((None, []), (61, []), (60, [BE])):
        drive = two_nodes()
        drive.start = replace(drive.start, partitions={"p": replace(drive.start.partitions["p"], max_time_s=60)})
        drive.jobs[JobId(BE)] = replace(drive.jobs[JobId(BE)], time_limit_s=60)  # it can come back
        assert without_limits(drive, time_limit_s=te_limit_s) == victims, te_limit_s
