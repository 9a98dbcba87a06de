"""What was put back is there again: slurmctld was killed, and goes on with a state that is some seconds older."""

from __future__ import annotations

import pytest
from tesched_core.fields.put_back_lately import KNOWN_FOR_S
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.orders.clock_jump import shift_times

from tests.builders import NOW
from tests.scenarios.driver import BE, HALF, TE, Driver, nice_back, one_node

RAISED = -1001


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
    drive.cycle(46 + KNOWN_FOR_S + 1)
    drive.change(TE, nice=RAISED)
    assert drive.cycle(46 + KNOWN_FOR_S + 2) == ()
    assert not drive.memory.put_back


def test_what_was_put_back_is_known_by_a_clock_that_is_set() -> None:
    drive = put_back()
    assert [at for _, at in shift_times(drive.memory, 3600.0).put_back] == [NOW + 46 + 3600]
