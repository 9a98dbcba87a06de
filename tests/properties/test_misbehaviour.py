"""Policies on a simulated Slurm that misbehaves, by the daemon's own `step()`: what must hold all the time.

`python -m benchmarks.misbehaviour --days N` makes more of it. What a run draws is in `misbehaving_days.py`, and what
must hold in `misbehaving_ledger.py`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tesched_sim.fault_settings import FaultKind
from tesched_sim.workloads import make
from tesched_testcluster.harness.faults.misbehaving_days import Run, perform

from tests.examples import examples

#: jobs of a run: a decision of gavel's takes a hundred times as long as another one's, and trainings have many tasks
JOBS, JOBS_OF = 14, {"gavel": 5, "slaq": 5, "pdors": 8}
#: each policy, and each lever with several
CASES = (
    ("fitgpp", "requeue"),
    ("fitgpp", "auto"),
    ("fitgpp", "plugin"),
    ("patient", "requeue"),
    ("lrtp", "plugin"),
    ("fitgpp+fill", "auto"),
    ("patient+fill", "plugin"),
    ("patient+slaq", "requeue"),
    ("fitgpp+pdors", "auto"),
    ("fitgpp+gavel", "requeue"),
)
#: runs, with faults of each kind every 900 s, that violated a rule once, and how many jobs they have
FOUND = (
    (673, "fitgpp+pdors", "auto", 8),
    (734, "fitgpp+pdors", "auto", 8),
    (625, "fitgpp", "requeue", 30),
    (729, "patient", "requeue", 30),
    (661, "patient+slaq", "requeue", 5),
    (2004, "lrtp", "plugin", 30),
)
#: of the five jobs that this seed draws none is a best-effort job
SEED_OF_TE_ALONE = 25
#: runs in which every kind of fault must have happened
ENOUGH = 20


@pytest.mark.parametrize(("contender", "lever"), CASES)
@given(seed=st.integers(1, 10**6))
@settings(max_examples=examples(1), phases=[Phase.explicit, Phase.generate])
def test_no_job_is_lost_or_run_twice_no_limit_passed_and_nothing_left_behind(
    contender: str, lever: str, seed: int
) -> None:
    jobs = JOBS_OF.get(contender.partition("+")[2], JOBS)
    found = perform(Run.of(seed, jobs=jobs, contender=contender, lever=lever))
    assert not found.violations, f"{found.run}: {found.violations[0]}"


@pytest.mark.parametrize(("contender", "lever"), [("fitgpp", "requeue"), ("lrtp", "plugin"), ("fitgpp+fill", "auto")])
@given(seed=st.integers(1, 10**6))
@settings(max_examples=examples(1), phases=[Phase.explicit, Phase.generate])
def test_after_the_store_was_restored_no_job_runs_twice_and_all_that_it_knows_is_put_back(
    contender: str, lever: str, seed: int
) -> None:
    found = perform(Run.of(seed, jobs=JOBS, contender=contender, lever=lever, kinds="/".join(FaultKind)))
    assert not found.violations, f"{found.run}: {found.violations[0]}"


@pytest.mark.parametrize(("seed", "contender", "lever", "jobs"), FOUND)
def test_runs_of_faults_in_quick_succession_in_which_one_was_found_hold(
    seed: int, contender: str, lever: str, jobs: int
) -> None:
    found = perform(Run.of(seed, jobs=jobs, contender=contender, lever=lever, every_s=900, shards=0))
    assert not found.violations, found.violations[0]


def test_a_run_of_gavels_has_a_job_for_it_whatever_is_drawn() -> None:
    of_te_alone = make("poisson", seed=SEED_OF_TE_ALONE, **Run.of(SEED_OF_TE_ALONE, jobs=5).workload)
    assert of_te_alone.te.all()
    run = Run.of(SEED_OF_TE_ALONE, jobs=5, contender="fitgpp+gavel")
    assert not run.jobs().te.all()
    assert run.simulation().daemon is not None


@pytest.mark.parametrize(("contender", "lever"), [("fitgpp", "requeue"), ("patient+fill", "auto"), ("lrtp", "plugin")])
@given(seed=st.integers(1, 10**6))
@settings(max_examples=examples(1), phases=[Phase.explicit, Phase.generate])
def test_the_same_holds_where_jobs_share_gpus(contender: str, lever: str, seed: int) -> None:
    found = perform(Run.of(seed, jobs=JOBS, contender=contender, lever=lever, shards=4))
    assert not found.violations, f"{found.run}: {found.violations[0]}"


@given(seed=st.integers(1, 10**6))
@settings(max_examples=examples(1), phases=[Phase.explicit, Phase.generate])
def test_a_seed_makes_the_same_run_again(seed: int) -> None:
    first, second = (perform(Run.of(seed, jobs=JOBS, contender="fitgpp")) for _ in range(2))
    assert (first.happened, first.days, first.violations) == (second.happened, second.days, second.violations)


#: what leaves few commands that anything else could happen to
OUTAGES = {FaultKind.SLURMCTLD_RESTARTS, FaultKind.FAILS_OVER, FaultKind.CLOCK_SET, FaultKind.SLURM_CLOCK_SET}


@pytest.mark.parametrize("kinds", [OUTAGES, set(FaultKind) - OUTAGES], ids=["outages", "others"])
def test_every_kind_of_fault_happens(kinds: set[FaultKind]) -> None:
    happened: Counter[str] = Counter()
    often = {"site.faults.share": "0.15", "site.faults.every_s": "3600", "site.poll_s": "0"}
    for seed in range(1, ENOUGH):
        run = Run.of(seed, jobs=50, kinds="/".join(sorted(kinds)), contender="fitgpp", lever="requeue")
        run = replace(run, values=run.values | often, workload=run.workload | {"load": "1.6"})
        happened.update(perform(run).happened)
        if set(happened) == kinds:
            return
    raise AssertionError(f"never: {kinds - set(happened)}")
