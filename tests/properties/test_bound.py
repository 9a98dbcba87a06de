"""The guarantee of guard.bound, attacked: no BE job is delayed by other users' TE jobs by more than its bound.

`tests/bound_parts.py` has 50,000 arrivals of one seed, `python -m benchmarks.bound` any number of any.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_testcluster.harness.bound import found
from tesched_testcluster.harness.bound.attack import Attack
from tesched_testcluster.harness.bound.found import Found, run, run_episode

from tests.examples import examples


@settings(max_examples=examples(15), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    arrivals=st.integers(2, 60),
    kills=st.sampled_from([0.0, 0.2, 1.0]),
    lies=st.sampled_from([0.0, 1.0]),
)
def test_nor_is_any_in_a_small_attack(seed: int, arrivals: int, kills: float, lies: float) -> None:
    assert run_episode(seed, arrivals, Attack(kills=kills, lies=lies)).violations == []


def test_a_run_that_was_stopped_goes_on_where_it_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "run_episode", lambda seed, **_: Found(counts=Counter({str(seed): 1})))

    def stop(done: int, _count: int, _one: Found) -> None:
        if done == 2:
            raise KeyboardInterrupt

    begun = run(1000, 3, Attack(), processes=1, progress=stop)
    assert begun.stopped_after == 2
    rest = run(1000, 3, Attack(), first=2, processes=1)
    whole = run(1000, 3, Attack(), processes=1)
    assert rest.stopped_after is whole.stopped_after is None
    assert begun.counts + rest.counts == whole.counts == Counter(str(3 * 1_000_003 + number) for number in range(5))
