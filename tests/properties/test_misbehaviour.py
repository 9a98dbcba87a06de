"""Policies on a simulated Slurm that misbehaves, by the daemon's own `step()`: what must hold all the time.

`python -m benchmarks.misbehaviour --days N` makes more of it. What a run draws is in `misbehaving_days.py`, and what
must hold in `misbehaving_ledger.py`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_sim.fault_settings import FaultKind
from tesched_testcluster.harness.faults.misbehaving_days import Run, perform

from tests.examples import examples

#: jobs of a run; a decision of gavel's takes a hundred times as long as another one's
JOBS, JOBS_OF_GAVEL = 20, 6
CONTENDERS = ("fitgpp", "patient", "lrtp", "fitgpp+fill", "patient+slaq", "fitgpp+pdors", "fitgpp+gavel")


@pytest.mark.parametrize("lever", ["requeue", "auto", "plugin"])
@pytest.mark.parametrize("contender", CONTENDERS)
@given(seed=st.integers(1, 10**6))
@settings(max_examples=examples(1))
def test_no_job_is_lost_or_run_twice_no_limit_passed_and_nothing_left_behind(
    contender: str, lever: str, seed: int
) -> None:
    jobs = JOBS_OF_GAVEL if contender.endswith("gavel") else JOBS
    found = perform(Run.of(seed, jobs=jobs, contender=contender, lever=lever))
    assert not found.violations, f"{found.run}: {found.violations[0]}"


@given(seed=st.integers(1, 10**6))
@settings(max_examples=examples(1))
def test_a_seed_makes_the_same_run_again(seed: int) -> None:
    first, second = (perform(Run.of(seed, jobs=JOBS, contender="fitgpp")) for _ in range(2))
    assert (first.happened, first.days, first.violations) == (second.happened, second.days, second.violations)


def test_every_kind_of_fault_happens() -> None:
    happened: Counter[str] = Counter()
    for seed in range(1, 7):
        happened.update(perform(Run.of(seed, jobs=JOBS, contender="fitgpp", lever="requeue")).happened)
    assert set(happened) == set(FaultKind)
