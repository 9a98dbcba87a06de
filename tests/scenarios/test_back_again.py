"""What was put back is there again: slurmctld was killed, and goes on with a state that is some seconds older."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.actions import Action, Status, releases, sets
from tesched_core.model.change import WRITTEN_WITHIN_S
from tesched_core.model.cluster import HELD_BY_US
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.orders.clock_jump import shift_times
from tesched_core.policy import HoldJob
from tesched_policies.baselines import NoPreemption

from tests.builders import NOW, node, running, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, explicitly_first, first_in_queue, nice_back, one_node
from tests.scenarios.test_two_raises import Wants

RAISED = -1001
HOLD = HoldJob(job_id=JobId(2), why="not its turn")


def put_back() -> Driver:
    """Return the smallest case as the trial has started, at 40 s, and its nice value is seen to be put back at 46 s."""
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.obeys(*drive.cycle(30))
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=40)
    drive.obeys(*drive.cycle(40))
    drive.cycle(46)
    assert drive.jobs[JobId(TE)].nice == 0
    assert not drive.memory.changes_of(Field.NICE)
    return drive


@pytest.mark.parametrize("away_s", [1.0, 600.0])
def test_a_nice_value_that_is_there_again_is_put_back_again(away_s: float) -> None:
    drive = put_back()
    drive.change(TE, nice=RAISED)
    assert drive.cycle(46 + away_s) == (nice_back(0, now=RAISED),)
    drive.obeys(nice_back(0, now=RAISED))
    assert drive.cycle(52 + away_s) == ()
    assert not drive.memory.changes_of(Field.NICE)


def test_any_other_value_is_its_users_and_so_is_the_same_one_much_later() -> None:
    drive = put_back()
    drive.change(TE, nice=RAISED + 1)
    assert drive.cycle(48) == ()
    drive.change(TE, nice=0)
    drive.cycle(46 + WRITTEN_WITHIN_S + 1)
    drive.change(TE, nice=RAISED)
    assert drive.cycle(46 + WRITTEN_WITHIN_S + 2) == ()
    assert not drive.memory.put_back


def test_what_was_put_back_is_known_by_a_clock_that_is_set() -> None:
    drive = put_back()
    assert [at for _, at in shift_times(drive.memory, 3600.0).put_back] == [NOW + 46 + 3600]


def released(at_s: float) -> Driver:
    """Return two jobs, of which the waiting one was held for its policy, and is seen to be free then."""
    jobs = [running(BE, HALF, start_time=NOW), waiting(2, cpus=32, priority=98)]
    drive = Driver([node("n1")], jobs, policy=NoPreemption(), best_effort=Wants(intents=(HOLD,)), run_times={2: 60.0})
    drive.obeys(*drive.cycle(0))
    assert drive.jobs[JobId(2)].held
    drive.best_effort = Wants()
    drive.obeys(*drive.cycle(at_s - 5))
    drive.cycle(at_s)
    assert not drive.memory.changes_of(Field.HOLD)
    return drive


def test_a_hold_that_is_there_again_after_a_start_of_slurmctld_is_released_again() -> None:
    drive = released(20)
    drive.change(2, priority=0, reason=HELD_BY_US)
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="UNKNOWN")
    (action,) = drive.cycle(620)
    assert releases(action)
    drive.obeys(action)
    drive.cycle(625)
    assert not drive.memory.changes_of(Field.HOLD)


@pytest.mark.parametrize("sign", ["its nodes have not reported", "it is another process"])
def test_so_is_one_that_is_there_as_a_backup_has_taken_over_which_shows_no_node_as_unknown(sign: str) -> None:
    drive = released(20)
    drive.change(2, priority=0, reason=HELD_BY_US)
    if sign == "it is another process":
        drive.start = replace(drive.start, controller_changed=True)
    else:
        drive.nodes["n1"] = replace(drive.nodes["n1"], unreported=True)
    assert [releases(action) for action in drive.cycle(32)] == [True]


@pytest.mark.parametrize("away", [{"flags": frozenset({"POWERED_DOWN"}), "unreported": True}, {"doubt": "it is odd"}])
def test_a_node_that_is_off_or_cannot_be_read_is_no_sign_of_a_start(away: Mapping[str, Any]) -> None:
    drive = released(20)
    drive.change(2, priority=0, reason=HELD_BY_US)
    drive.nodes["n2"] = replace(drive.nodes["n1"], name="n2", state="IDLE" if "flags" in away else "UNKNOWN", **away)
    assert drive.cycle(32) == ()


def test_one_that_its_policy_wants_again_by_then_stays_and_is_known() -> None:
    drive = released(20)
    drive.change(2, priority=0, reason=HELD_BY_US)
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="UNKNOWN")
    drive.best_effort = Wants(intents=(HOLD,))
    assert drive.cycle(620) == ()
    drive.best_effort = Wants()
    assert [releases(action) for action in drive.cycle(640)] == [True]


def test_without_a_sign_of_a_start_a_hold_is_an_admins() -> None:
    drive = released(20)
    drive.change(2, priority=0, reason=HELD_BY_US)
    assert drive.cycle(22) == ()
    assert drive.cycle(21 + WRITTEN_WITHIN_S) == ()
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="UNKNOWN")
    assert drive.cycle(40) == ()


def test_a_hold_that_was_seen_before_slurmctld_was_started_again_is_an_admins() -> None:
    drive = released(20)
    drive.change(2, priority=0, reason=HELD_BY_US)
    assert drive.cycle(22) == ()
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="UNKNOWN")
    assert drive.cycle(27) == ()
    assert drive.jobs[JobId(2)].held


def test_so_is_one_that_came_after_an_answer_of_the_new_slurmctld_without_it() -> None:
    drive = released(20)
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="UNKNOWN")
    assert drive.cycle(22) == ()
    drive.change(2, priority=0, reason=HELD_BY_US)
    assert drive.cycle(27) == ()


@pytest.mark.parametrize("at_s", [6, 20])
def test_a_raise_that_changed_nothing_once_is_set_again_as_slurmctld_may_have_been_killed(at_s: float) -> None:
    drive = one_node()
    drive.says(Status.SENT, *drive.cycle(0))
    assert drive.cycle(at_s) == (first_in_queue(-1001),)
    drive.obeys(*drive.decision.actions)
    assert not any(sets(action, Field.PRIORITY) for action in drive.cycle(at_s + 6))


def test_while_slurmctld_was_started_lately_no_raise_counts_as_ignored() -> None:
    drive = one_node()
    drive.nodes["n2"] = replace(drive.nodes["n1"], name="n2", state="UNKNOWN")
    for at_s in (0, 5, 10):
        assert first_in_queue(-1001) in drive.cycle(at_s)
        drive.says(Status.SENT, *drive.decision.actions)
    drive.nodes["n2"] = replace(drive.nodes["n2"], state="DOWN")
    assert drive.cycle(15) == (first_in_queue(-1001),)
    drive.says(Status.SENT, *drive.decision.actions)
    assert drive.cycle(20) == (explicitly_first(1101, previous=100),)


def test_a_node_that_never_reports_does_not_keep_a_raise_from_being_explicit() -> None:
    drive = one_node()
    drive.nodes["n2"] = replace(drive.nodes["n1"], name="n2", state="UNKNOWN")
    sent: list[Action] = []
    for at_s in range(0, 30, 5):
        sent += drive.cycle(at_s)
        drive.says(Status.SENT, *drive.decision.actions)
    assert explicitly_first(1101, previous=100) in sent
