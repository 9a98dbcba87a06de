"""The doctor on a reservation of all nodes: while one is ahead, jobs without a time limit are no victims."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tesched_core.model.cluster import Partition, Reservation
from tesched_daemon.doctor.maintenance import without_victims

from tests.builders import NOW

DAY = 86_400
NODES = frozenset({"n1", "n2"})
MAIN = Partition(name="main", nodes=NODES)
WORKS = Reservation(name="works", start_time=NOW + 3 * DAY, end_time=NOW + 4 * DAY, nodes=NODES | {"n3"})


def test_a_maintenance_within_a_year_is_reported_where_jobs_have_no_limit() -> None:
    (found,) = without_victims([MAIN], [WORKS], NOW)
    assert (found.level, found.check) == ("warn", "reservations")
    assert found.text.startswith("works, from ")
    assert "all nodes of the partition main: until then no job there with no time limit is a victim" in found.text
    assert "DefaultTime" in found.advice


@pytest.mark.parametrize(("limit_s", "reported"), [(3 * DAY, False), (3 * DAY + 60, True)])
@pytest.mark.parametrize("is_default", [True, False])
def test_so_it_is_where_the_usual_limit_is_too_long(limit_s: int, reported: bool, is_default: bool) -> None:
    longest = replace(MAIN, max_time_s=60 * DAY if is_default else limit_s)
    partition = replace(longest, default_time_s=limit_s) if is_default else longest
    found = [*without_victims([partition], [WORKS], NOW)]
    assert bool(found) is reported
    assert all("the default time limit of 72.02 h" in one.text for one in found)


@pytest.mark.parametrize(
    "harmless",
    [
        replace(WORKS, nodes=frozenset({"n1"})),
        replace(WORKS, start_time=NOW - 9 * DAY, end_time=NOW + 300 * DAY),
        replace(WORKS, end_time=math.inf, doubt="it has two records"),
        replace(WORKS, start_time=NOW + 400 * DAY, end_time=NOW + 401 * DAY),
        replace(WORKS, cores=True),
        replace(WORKS, flags=frozenset({"MAGNETIC"})),
    ],
    ids=["some nodes", "standing", "unreadable", "far ahead", "cores", "MAGNETIC"],
)
def test_one_that_keeps_no_job_from_starting_again_is_not(harmless: Reservation) -> None:
    assert not [*without_victims([MAIN], [harmless], NOW)]


def test_of_several_the_first_is_named_and_each_partition_counts_by_itself() -> None:
    later = replace(WORKS, name="again", start_time=NOW + 9 * DAY, end_time=NOW + 10 * DAY)
    down, other = Partition(name="down", nodes=NODES, state="DOWN"), Partition(name="b", nodes=frozenset({"n9"}))
    (found,) = without_victims([down, other, MAIN, Partition(name="empty")], [later, WORKS], NOW)
    assert found.text.startswith("works,")
    assert " main:" in found.text


def test_one_that_floats_counts_by_the_limit() -> None:
    floats = replace(WORKS, flags=frozenset({"TIME_FLOAT"}), start_time=NOW + DAY)
    short = replace(MAIN, default_time_s=DAY)
    assert not [*without_victims([short], [floats], NOW)]
    assert [*without_victims([replace(MAIN, default_time_s=DAY + 1)], [floats], NOW)]
