"""How often a job may be preempted, by its owner's word and by the site's limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classified
from tesched_core.model.decision import RefusalCode
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot

from tests.builders import NOW, cluster, excused, node, running, share

MINE, OTHER = JobId(1), JobId(2)
SITE = "guard.max_preemptions_per_job is {}"
OWN = "by its owner's word it may be preempted {0} time(s) (preemptions={0})"


@pytest.mark.parametrize(
    ("site", "own", "count", "why"),
    [
        (3, 1, 0, None),
        (3, 1, 1, OWN.format(1)),
        (3, 0, 0, OWN.format(0)),
        (3, 9, 2, None),
        (3, 9, 3, SITE.format(3)),
        (1, 1, 1, SITE.format(1)),
        (0, 9, 0, SITE.format(0)),
    ],
)
def test_its_owner_s_number_counts_where_it_is_lower(site: int, own: int, count: int, why: str | None) -> None:
    snapshot = cluster([node("n1")], [running(MINE, share("n1", 1)), running(OTHER, share("n1", 1))])
    word = replace(snapshot.traits[MINE], most_preemptions=own)
    snapshot = snapshot.with_traits({**snapshot.traits, MINE: word})
    limits = Limits(max_preemptions_per_job=site, min_run_time_s=0, cool_down_s=0, max_slowdown=1e9)
    found = excused(snapshot, Memory(jobs={MINE: JobMemory(preemptions=count)}), limits)
    assert (OTHER in found) == (site == 0), "it is a word on one job"
    code, text = found.get(MINE, (None, ""))
    assert code is (RefusalCode.MAX_PREEMPTIONS if why else None)
    assert text.endswith(why or "")


def test_what_its_owner_said_is_named_where_another_number_counts() -> None:
    job = running(MINE, share("n1", 1), comment="preemptions=0")
    snapshot = classified(Snapshot.of(NOW, jobs=[job], nodes=[node("n1")]), Classification())
    limits = Limits(
        max_preemptions_per_job=3,
        max_lost_runs_per_job=3,
        min_run_time_s=0,
        cool_down_s=0,
        max_slowdown=1e9,
    )
    _, text = excused(snapshot, Memory(jobs={MINE: JobMemory(preemptions=1)}), limits)[MINE]
    assert text.endswith("it may be preempted 1 time(s) (preemptions=0; 1 counts)")


@pytest.mark.parametrize(
    ("most_lost", "count", "lost", "saves", "key"),
    [
        (1, 1, 0, True, None),
        (1, 0, 0, False, None),
        (1, 1, 1, False, "lost_runs_per_job is 1"),
        # It died of its notice, whatever it declares.
        (1, 1, 1, True, "lost_runs_per_job is 1"),
        (1, 2, 1, True, "lost_runs_per_job is 1"),
        (2, 2, 1, True, None),
        (0, 0, 0, False, "lost_runs_per_job is 0"),
        (0, 0, 0, True, None),
        (0, 2, 0, True, None),
        (0, 1, 1, True, "lost_runs_per_job is 0"),
        # The number for all preemptions counts for each job.
        (9, 2, 2, False, None),
        (9, 3, 3, False, "preemptions_per_job is 3"),
        (1, 3, 0, True, "preemptions_per_job is 3"),
    ],
)
def test_a_run_is_lost_no_more_often_than_the_site_allows(
    most_lost: int, count: int, lost: int, saves: bool, key: str | None
) -> None:
    limits = Limits(
        max_preemptions_per_job=3, max_lost_runs_per_job=most_lost, min_run_time_s=0, cool_down_s=0, max_slowdown=1e9
    )
    snapshot = cluster([node("n1")], [running(MINE, share("n1", 1))], graces={MINE: 30 if saves else 0})
    refusals = excused(snapshot, Memory(jobs={MINE: JobMemory(preemptions=count, lost_runs=lost)}), limits)
    assert refusals[MINE][1].endswith(f"guard.max_{key}") if refusals else key is None, refusals


@pytest.mark.parametrize(
    ("saves", "preempted", "lost", "most"),
    [(True, 0, 0, 16), (False, 0, 0, 1), (True, 5, 0, 16), (False, 5, 0, 6), (True, 5, 1, 5), (False, 1, 1, 1)],
)
def test_how_often_a_job_may_be_preempted_goes_by_what_it_has_lost(
    saves: bool, preempted: int, lost: int, most: int
) -> None:
    assert Limits().most_preemptions(gets_notice=saves, preempted=preempted, lost=lost) == most
