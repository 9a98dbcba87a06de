"""Of two readings of a request the one that needs fewer victims is tried first.

Everywhere: four BE jobs hold a GPU and a quarter of the memory of the only node each; job 9 wants one GPU. Its
partition gives memory with each GPU, and by its record the job may have named none, or have requested all (--mem=0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tesched_core.intake.pending_reason import WAITS_FOR_RESOURCES
from tesched_core.model.actions import Requeue
from tesched_core.model.cluster import Request
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import TE, Driver

LIMITS = Limits(
    max_preemptions_per_job=9,
    max_lost_runs_per_job=9,
    min_run_time_s=0,
    cool_down_s=0,
    max_slowdown=1e9,
    order_timeout_s=60,
    retry_after_s=300,
)
HELD = share("n1", 1, 16_000, {"gpu": 1})
EITHER = Request(gres_per_job=(("gpu", 1),), mem_per_node_mib=0, mem_counted_mib=64_000)


def four_jobs() -> Driver:
    jobs = [running(job_id, HELD) for job_id in (1, 2, 3, 4)]
    drive = Driver(
        [node("n1", gres={"gpu": 4})],
        [*jobs, waiting(TE, EITHER)],
        graces=dict.fromkeys((1, 2, 3, 4), 0.0),
        limits=LIMITS,
    )
    partition = replace(drive.start.partitions["p"], def_mem_per_gpu_mib=8000)
    drive.start = replace(drive.start, partitions={"p": partition})
    return drive


def victims(drive: Driver) -> list[JobId]:
    return [action.job_id for action in drive.decision.actions if isinstance(action, Requeue)]


def test_one_victim_leaves_for_the_lesser_reading() -> None:
    drive = four_jobs()
    drive.obeys(*drive.cycle(0))
    assert len(victims(drive)) == 1
    drive.starts(TE, share("n1", 1, 8000, {"gpu": 1}), at_s=1)
    drive.obeys(*drive.cycle(2))
    assert (victims(drive), by_job(drive.memory, "futile")) == ([], {})


def test_more_are_selected_only_after_slurm_has_declined_that() -> None:
    drive = four_jobs()
    drive.obeys(*drive.cycle(0))
    (first,) = victims(drive)
    at_s = 0
    while TE not in by_job(drive.memory, "futile"):
        at_s += 10
        assert at_s < 1000
        drive.obeys(*drive.cycle(at_s))
        assert victims(drive) == [], "its resources are free, and it waits on"
    assert [one.ending for one in by_job(drive.memory, "futile").values()] == [Ending.EXPIRED]
    assert list(drive.memory.declined) == [TE]
    drive.starts(first, HELD, at_s=at_s + 1)
    drive.obeys(*drive.cycle(at_s + 2))
    drive.obeys(*drive.cycle(at_s + 301))
    assert sorted(victims(drive)) == [1, 2, 3, 4]


def test_resources_that_are_free_already_are_tried_first_too() -> None:
    drive = four_jobs()
    drive.ends(4)
    at_s = 0
    while TE not in drive.memory.declined:
        drive.obeys(*drive.cycle(at_s))
        at_s += 10
        assert (at_s < 1000, victims(drive)) == (True, [])
    drive.obeys(*drive.cycle(at_s + 301))
    assert sorted(victims(drive)) == [1, 2, 3]


def test_slurm_declines_it_so_beside_a_drained_node_too() -> None:
    """Slurm has another word for a lack of resources then."""
    drive = four_jobs()
    drive.ends(4)
    (word,) = WAITS_FOR_RESOURCES - {"Resources", "Priority"}
    drive.change(TE, reason=word)
    for at_s in range(0, 1000, 10):
        drive.obeys(*drive.cycle(at_s))
        if TE in drive.memory.declined:
            break
    assert list(drive.memory.declined) == [TE]


def taken(drive: Driver, first: JobId) -> None:
    drive.starts(first, HELD)


def not_looked_at(drive: Driver, first: JobId) -> None:
    drive.change(TE, reason="Priority")


def limited(drive: Driver, first: JobId) -> None:
    drive.change(TE, reason="QOSMaxCpuPerUserLimit")


@pytest.mark.parametrize("happens", [taken, not_looked_at, limited])
def test_an_order_that_came_to_nothing_otherwise_says_nothing_of_memory(
    happens: Callable[[Driver, JobId], None],
) -> None:
    drive = four_jobs()
    drive.obeys(*drive.cycle(0))
    (first,) = victims(drive)
    happens(drive, first)
    at_s = 0
    while TE not in by_job(drive.memory, "futile"):
        at_s += 10
        assert at_s < 1000
        drive.obeys(*drive.cycle(at_s))
    assert drive.memory.declined == frozenset()


@pytest.mark.parametrize("leaves", [False, True])
def test_slurm_has_declined_only_what_was_free_for_a_while(*, leaves: bool) -> None:
    """However late its victim leaves, the order lasts for a while after that; one that never does declines nothing."""
    drive = four_jobs()
    (action,) = [one for one in drive.cycle(0) if isinstance(one, Requeue)]
    last_s = int(drive.order().expires_at - NOW) - 1
    drive.cycle(last_s)
    if leaves:
        drive.requeued(action.job_id)
    drive.cycle(last_s + 1)
    assert drive.open_orders() == [1]
    for at_s in range(last_s + 5, last_s + 75, 5):
        drive.cycle(at_s)
    assert by_job(drive.memory, "futile")[JobId(TE)].ending is Ending.EXPIRED
    assert (TE in drive.memory.declined) is leaves
