"""At rest a poll need not be whole, and polls come a little less often."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.fields.nice import BASIC
from tesched_core.model.change import HELD, By, Change, first_change
from tesched_core.model.cluster import JobState, SlurmSettings
from tesched_core.model.field import Field, Nodes
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.limits import Limits, TeLimits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_core.policy import PolicyEntry, in_turn
from tesched_daemon.rest import REST_S, Rest, all_is_due
from tesched_daemon.settings import Mode, Pace
from tesched_policies.fill import Fill
from tesched_policies.fitgpp import FitGpp

from tests.loop_parts import TRIAL, VICTIM, Cluster, Notebook, loop_of

TE_ALONE = in_turn(FitGpp())


def seen(**changes: Any) -> Snapshot:
    """Return a running BE job and a TE job with these changes."""
    traits = {
        VICTIM.job_id: Traits(job_class=JobClass.BE, rule="default", grace_period_s=0, grace_source=""),
        TRIAL.job_id: Traits(job_class=JobClass.TE, rule="te", grace_period_s=0, grace_source=""),
    }
    return Snapshot.of(1000.0, jobs=[VICTIM, replace(TRIAL, **changes)], traits=traits)


AT_REST = seen(state=JobState.RUNNING, reason="")
RAISED = Change(by=By.PREEMPTOR, job_id=JobId(2), field=Field.NICE, previous=0, value=-5, at=990.0, since=990.0)
NOTHING = Memory()
LIMITS = Limits()


def due(
    last: Snapshot | None = AT_REST,
    *,
    memory: Memory = NOTHING,
    policies: tuple[PolicyEntry, ...] = TE_ALONE,
    limits: Limits = LIMITS,
    mode: Mode = Mode.ENFORCE,
) -> bool:
    return all_is_due(memory, last, policies, limits, mode)


def test_with_running_jobs_alone_nothing_is_due() -> None:
    assert not due()


def test_polls_are_whole_until_slurmctld_has_written_what_was_put_back() -> None:
    one = first_change(JobId(1), Field.HOLD, 0, HELD, 980.0)
    assert due(memory=Memory(put_back=((one, 990.0),)))


def test_the_first_poll_is_whole() -> None:
    assert due(None)
    assert due(None, mode=Mode.OBSERVE)


@pytest.mark.parametrize(
    ("reason", "whole"),
    [
        ("Resources", True),
        ("Priority", True),
        ("None", True),
        ("", True),
        ("QOSMaxCpuPerUserLimit", False),
        ("JobArrayTaskLimit", False),
        ("BadConstraints", False),
        ("ReqNodeNotAvail,_UnavailableNodes:n1", False),
        (
            "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
            True,
        ),
        ("PartitionDown", False),
        ("Licenses", False),
        ("SomethingNew", False),
        ("Dependency", False),
        ("BeginTime", False),
        ("JobHeldUser", False),
    ],
)
def test_a_te_job_that_waits_for_resources_wants_whole_polls(reason: str, whole: bool) -> None:
    waiting = seen(reason=reason, priority=0 if reason == "JobHeldUser" else 50)
    assert due(waiting) is whole
    assert not due(waiting, mode=Mode.OBSERVE), "nothing is decided there"


def test_a_te_job_that_could_not_be_read_wants_whole_polls() -> None:
    assert due(seen(reason="Dependency", doubt="it has two records"))


def test_a_waiting_be_job_wants_none() -> None:
    waiting = Snapshot.of(1000.0, jobs=[TRIAL], traits={TRIAL.job_id: AT_REST.traits[VICTIM.job_id]})
    assert not due(waiting)


@pytest.mark.parametrize(
    "memory",
    [
        Memory(orders={1: None}),  # type: ignore[dict-item]
        Memory(changes={Field.NICE: {JobId(2): RAISED}}),
        Memory(jobs={JobId(2): JobMemory(missing_since=990.0)}),
        Memory(newly_lost=frozenset({JobId(1)})),
        Memory(policy_states={"own": 7}),
    ],
)
def test_what_is_under_way_wants_whole_polls(memory: Memory) -> None:
    assert due(memory=memory)


def test_what_is_only_remembered_wants_none() -> None:
    assert not due(memory=Memory(jobs={VICTIM.job_id: JobMemory(preemptions=1)}, policy_states={"fitgpp": None}))


@pytest.mark.parametrize("over", [{"restored": True}, {"dry": True}])
def test_a_change_of_which_nothing_is_to_be_put_back_wants_none(over: dict[str, Any]) -> None:
    assert not due(memory=Memory(changes={Field.NICE: {JobId(2): replace(RAISED, **over)}}))


@pytest.mark.parametrize(
    ("priority_type", "over", "whole"),
    [
        (BASIC, {"priority": 0}, False),
        (BASIC, {"priority": 50, "reason": "BeginTime"}, True),
        (BASIC, {"priority": 0, "doubt": "it has two records"}, True),
        ("priority/multifactor", {"priority": 0}, True),
    ],
)
def test_a_change_that_stays_while_its_job_is_held_wants_none(
    priority_type: str, over: dict[str, Any], whole: bool
) -> None:
    held = replace(seen(**over), settings=SlurmSettings(priority_type=priority_type))
    assert due(held, memory=Memory(changes={Field.NICE: {TRIAL.job_id: RAISED}})) is whole


@pytest.mark.parametrize(
    ("change", "state", "whole"),
    [
        (RAISED, JobState.FAILED, True),
        (replace(RAISED, since=None), JobState.FAILED, False),
        (replace(RAISED, since=None), JobState.PENDING, True),
        (replace(RAISED, since=None, field=Field.PRIORITY), JobState.FAILED, False),
        (first_change(TRIAL.job_id, Field.NODES, Nodes(), Nodes(names=("n1",)), 980.0), JobState.FAILED, False),
        (first_change(TRIAL.job_id, Field.NODES, Nodes(), Nodes(names=("n1",)), 980.0), JobState.RUNNING, True),
        (first_change(TRIAL.job_id, Field.HOLD, 0, HELD, 980.0), JobState.CANCELLED, False),
        (first_change(TRIAL.job_id, Field.HOLD, 0, HELD, 980.0), JobState.RUNNING, True),
        (first_change(TRIAL.job_id, Field.THROTTLE, 0, 3, 980.0), JobState.CANCELLED, True),
    ],
)
def test_a_change_that_stays_unless_its_ended_job_is_requeued_wants_none(
    change: Change[Any], state: JobState, whole: bool
) -> None:
    memory = Memory(changes={Field.NICE if change.by else change.field: {TRIAL.job_id: change}})
    assert due(seen(state=state), memory=memory) is whole


def test_a_policy_that_moves_be_jobs_and_the_plugin_want_whole_polls() -> None:
    assert due(policies=in_turn(FitGpp(), Fill()))
    assert due(limits=Limits(lever=YieldBy.PLUGIN))


def intervals(rest: Rest, pace: Pace, *at: float) -> list[float]:
    return [rest.interval_s(pace, each) for each in at]


def test_polls_come_less_often_the_longer_nothing_changes_and_never_less_often_than_by_default() -> None:
    rest, pace = Rest(), Pace(poll_interval_s=1.0)
    rest.saw(AT_REST, 100.0, whole=True)
    assert intervals(rest, pace, 100.0, 110.0, 115.0, 120.0, 1000.0) == [1.0, 1.0, 1.5, 2.0, 2.0]
    assert Pace().poll_interval_s == REST_S


@pytest.mark.parametrize("interval_s", [2.0, 30.0])
def test_an_interval_that_is_no_shorter_stays_as_it_is(interval_s: float) -> None:
    rest, pace = Rest(), Pace(poll_interval_s=interval_s, backoff_max_s=30.0)
    rest.saw(AT_REST, 100.0, whole=True)
    assert intervals(rest, pace, 100.0, 1000.0) == [interval_s, interval_s]


def test_a_change_and_a_whole_poll_bring_the_configured_interval_back() -> None:
    rest, pace = Rest(), Pace(poll_interval_s=1.0)
    rest.saw(AT_REST, 100.0, whole=True)
    rest.saw(replace(AT_REST, taken_at=1100.0), 200.0, whole=False)
    assert intervals(rest, pace, 200.0) == [2.0], "the same jobs"
    rest.saw(seen(state=JobState.RUNNING, reason=""), 200.0, whole=False)
    assert intervals(rest, pace, 200.0) == [2.0], "they were read anew"
    rest.saw(seen(), 200.0, whole=False)
    assert intervals(rest, pace, 205.0) == [1.0]
    rest.saw(AT_REST, 300.0, whole=False)
    rest.saw(AT_REST, 400.0, whole=True)
    assert intervals(rest, pace, 405.0) == [1.0]


@pytest.mark.parametrize("most", [0, 2])
def test_each_end_is_read_where_te_jobs_in_the_queue_are_counted(most: int) -> None:
    cluster = Cluster()
    loop = loop_of(cluster, Notebook())
    loop.limits = replace(loop.limits, te=TeLimits(max_submitted_per_user=most))
    loop.turn()
    assert {*cluster.ends} == {most > 0}
