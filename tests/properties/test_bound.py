"""The promise of guard.bound, attacked: no BE job is delayed by other users' TE jobs by more than its bound.

`python -m benchmarks.bound` is the same attack for longer.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_testcluster.harness.bound.attack import Attack
from tesched_testcluster.harness.bound.found import run, run_episode

from tests.examples import examples


def test_no_job_is_delayed_by_more_than_its_bound() -> None:
    found = run(1200, 7, Attack(), processes=1)
    assert found.violations == []
    # The attack is one: most jobs are delayed, some nearly as far as they may be, and TE jobs start nevertheless.
    assert found.counts["of them delayed"] > found.counts["BE jobs"] / 2
    assert found.counts["preemptions"] > 10
    assert found.counts["kills"] > 20
    assert found.tightest > 0.7
    assert len(found.te_waits_s) > found.counts["TE jobs"] / 3


@settings(max_examples=examples(15), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    arrivals=st.integers(2, 60),
    kills=st.sampled_from([0.0, 0.2, 1.0]),
    lies=st.sampled_from([0.0, 1.0]),
)
def test_nor_is_any_in_a_small_attack(seed: int, arrivals: int, kills: float, lies: float) -> None:
    assert run_episode(seed, arrivals, Attack(kills=kills, lies=lies)).violations == []
