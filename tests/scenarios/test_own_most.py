"""A best-effort job is preempted no more often than its owner allows, however often the site would."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId

from tests.builders import node, remembered, running, share, waiting
from tests.scenarios.driver import TE, Driver

OFTEN = Limits(max_preemptions_per_job=9, cool_down_s=0, min_run_time_s=0, max_slowdown=1e9)
MINE, OTHER = 1, 2


def two_nodes(most: int | None, before: int) -> Driver:
    """Return two full nodes; of the job that would leave first, its owner's word, and how often it was preempted."""
    jobs = [running(MINE, share("n1", 32)), running(OTHER, share("n2", 32)), waiting(TE, cpus=32)]
    drive = Driver([node("n1"), node("n2")], jobs, limits=OFTEN)
    traits = dict(drive.start.traits)
    traits[JobId(MINE)] = replace(traits[JobId(MINE)], most_preemptions=most)
    drive.start = drive.start.with_traits(traits)
    drive.memory = remembered(drive.memory, MINE, preemptions=before)
    return drive


@pytest.mark.parametrize(
    ("most", "before", "victim"), [(None, 2, MINE), (3, 2, MINE), (2, 2, OTHER), (1, 2, OTHER), (0, 0, OTHER)]
)
def test_after_as_many_preemptions_as_its_owner_allows_another_job_leaves(
    most: int | None, before: int, victim: int
) -> None:
    drive = two_nodes(most, before)
    drive.cycle(0)
    assert drive.victim().job_id == victim
    said = {one.job_id: one.code for one in drive.decision.refusals if one.code is RefusalCode.MAX_PREEMPTIONS}
    assert said == ({} if victim == MINE else {MINE: RefusalCode.MAX_PREEMPTIONS})


def test_the_preemption_that_reaches_it_counts() -> None:
    drive = two_nodes(1, 0)
    drive.obeys(*drive.cycle(0))
    drive.requeued(MINE)
    drive.starts(TE, share("n1", 32), at_s=3)
    drive.obeys(*drive.cycle(4))
    drive.ends(TE)
    drive.starts(MINE, share("n1", 32), at_s=6)
    drive.obeys(*drive.cycle(7))
    drive.jobs[JobId(10)] = waiting(10, cpus=32)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(10): drive.start.traits[JobId(TE)]})
    drive.cycle(8)
    assert drive.victim(2).job_id == OTHER
