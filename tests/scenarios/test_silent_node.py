"""A victim whose node has not reported: slurmctld shows it to run there, and it may have left under its notice.

So it is after a restart of slurmctld (nodes are UNKNOWN, 22.05.8). Job 1 has its notice at 0 s, for 30 s; job 9, for
which it was, is cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.order import Departure, OrderState, VictimState
from tesched_core.orders.undo import changed_still, undo

from tests.scenarios.driver import BE, TE, Driver, one_node, requeue


def not_needed() -> Driver:
    """Return the case after the grace period; the job is not needed any more, and its node is silent."""
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="UNKNOWN")
    drive.forgets(TE)
    return drive


def test_it_is_followed_until_its_node_has_reported() -> None:
    drive = not_needed()
    drive.cycle(700)
    drive.cycle(1400)
    assert drive.victim().state is VictimState.NOTICED
    drive.requeued(BE)
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="IDLE")
    drive.cycle(1410)
    assert drive.victim().departure is Departure.REQUEUED_ITSELF


def test_one_that_has_stayed_is_let_go_then() -> None:
    drive = not_needed()
    drive.cycle(1400)
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="ALLOCATED")
    drive.cycle(2100)
    assert drive.victim().state is VictimState.SPARED


def test_undo_is_not_over_before_that() -> None:
    drive = not_needed()
    drive.memory, _ = undo(drive.memory, drive.snapshot(700), drive.limits)
    assert changed_still(drive.memory, drive.snapshot(700)) == 1
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="ALLOCATED")
    drive.memory, _ = undo(drive.memory, drive.snapshot(710), drive.limits)
    assert changed_still(drive.memory, drive.snapshot(710)) == 0


def test_it_is_not_requeued_before_that_though_its_grace_period_is_over() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="UNKNOWN")
    assert requeue() not in drive.cycle(31)
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="ALLOCATED")
    assert requeue() in drive.cycle(36)


def test_so_it_is_after_a_backup_took_over_which_shows_the_node_as_it_was() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="ALLOCATED", unreported=True)
    assert requeue() not in drive.cycle(31)
    drive.nodes["n1"] = replace(drive.nodes["n1"], unreported=False)
    assert requeue() in drive.cycle(36)


@pytest.mark.parametrize(
    "seen",
    [
        {"state": "ALLOCATED", "flags": frozenset({"NOT_RESPONDING"}), "unreported": True},
        {"state": "UNKNOWN", "doubt": "its record is odd"},
    ],
)
def test_nor_is_it_the_end_of_the_order_that_it_misses_a_ping_of_the_backup_or_cannot_be_read(
    seen: Mapping[str, Any],
) -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.nodes["n1"] = replace(drive.nodes["n1"], **seen)
    assert requeue() not in drive.cycle(31)
    assert (drive.order().state, drive.victim().state) == (OrderState.OPEN, VictimState.NOTICED)


@pytest.mark.parametrize("state", ["UNKNOWN", "ALLOCATED"])
def test_one_that_misses_the_first_ping_of_a_new_slurmctld_has_not_reported_either(state: str) -> None:
    drive = not_needed()
    silent = frozenset({"NOT_RESPONDING"})
    drive.nodes["n1"] = replace(drive.nodes["n1"], state=state, flags=silent, unreported=state == "ALLOCATED")
    drive.cycle(700)
    drive.cycle(1400)
    assert drive.victim().state is VictimState.NOTICED
