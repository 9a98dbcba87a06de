"""The guarantee of guard.bound under 50,000 arrivals of one seed, in parts: no BE job is delayed beyond its bound.

It is `python -m benchmarks.bound --arrivals 50000 --seed 0`: part 2, say, is `--first 50 --arrivals 15000`.
"""

from __future__ import annotations

import pytest
from tesched_testcluster.harness.bound.attack import Attack
from tesched_testcluster.harness.bound.found import EACH, run

SEED, ARRIVALS, PARTS = 0, 50_000, 10
EPISODES = ARRIVALS // EACH // PARTS


@pytest.mark.parametrize("part", range(PARTS))
def test_no_job_is_delayed_by_more_than_its_bound(part: int) -> None:
    attacked = run(EPISODES * (part + 1) * EACH, SEED, Attack(), first=EPISODES * part, processes=1)
    assert attacked.violations == []
    # One that has failed of a notice for its own user's TE job, and runs again, has a verdict for each end.
    assert attacked.counts["BE jobs"] + attacked.counts["TE jobs"] >= ARRIVALS // PARTS
    # The attack is one: most jobs are delayed, some nearly as far as they may be, and TE jobs start nevertheless.
    assert attacked.counts["of them delayed"] > attacked.counts["BE jobs"] / 2
    assert attacked.counts["preemptions"] > 50
    assert attacked.counts["kills"] > 100
    assert attacked.tightest > 0.6
    assert len(attacked.te_waits_s) > attacked.counts["TE jobs"] / 3


def test_nor_where_half_of_the_victims_end_for_good() -> None:
    attacked = run(4 * EACH, SEED, Attack(ends=0.5), processes=1)
    assert attacked.violations == []
    assert attacked.counts["victims that ended for good"] > 5
    assert attacked.counts["preemptions"] > 5, "the others run again"
