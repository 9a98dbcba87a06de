"""What holds of every prediction."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tesched_predict.history import FinishedRun, JobFacts
from tesched_predict.quantiles import RunTimes

from tests.unit.predict.examples import JOBS, LENGTHS, RUNS, job, run, taught

MANY_RUNS = st.lists(RUNS, min_size=1, max_size=40)


def quantiles_s(run_times: RunTimes, wanted: JobFacts, ran_s: float = 0.0) -> tuple[float, ...]:
    found = run_times.predict(wanted, ran_s=ran_s)
    assert found is not None
    return found.quantiles_s


@given(runs=MANY_RUNS, wanted=JOBS, ran_s=st.one_of(st.just(0.0), LENGTHS))
def test_quantiles_ascend_below_the_limit_and_above_what_has_run(
    runs: list[FinishedRun], wanted: JobFacts, ran_s: float
) -> None:
    found = quantiles_s(taught(runs), wanted, ran_s)
    assert list(found) == sorted(found)
    assert found[0] >= ran_s
    if wanted.time_limit_s is not None:
        assert found[-1] <= max(wanted.time_limit_s, ran_s)


@given(runs=MANY_RUNS, wanted=JOBS, some=st.lists(LENGTHS, min_size=2, max_size=6), place=st.integers(0, 39))
def test_the_longer_a_job_has_run_the_longer_it_will_run_in_all(
    runs: list[FinishedRun], wanted: JobFacts, some: list[float], place: int
) -> None:
    run_times = taught(runs)
    edge = runs[place % len(runs)].run_s  # where a run leaves the sample
    ascending = sorted([0.0, edge, edge * (1 - 1e-9), *some])
    found = [quantiles_s(run_times, wanted, ran_s) for ran_s in ascending]
    for before, after in pairwise(found):
        assert all(later >= earlier * (1 - 1e-9) for earlier, later in zip(before, after, strict=True))


@given(data=st.data(), runs=MANY_RUNS, wanted=JOBS)
def test_the_order_of_runs_of_one_time_does_not_matter(
    data: st.DataObject, runs: list[FinishedRun], wanted: JobFacts
) -> None:
    ordered = sorted(runs, key=lambda each: each.end_s)
    mixed = sorted(data.draw(st.permutations(runs)), key=lambda each: each.end_s)
    few = {"runs_per_group": 3, "groups": 2}
    assert quantiles_s(taught(ordered, **few), wanted) == quantiles_s(taught(mixed, **few), wanted)


@given(runs=st.lists(RUNS, max_size=30), added=st.lists(LENGTHS, min_size=1, max_size=10), wanted=JOBS)
def test_runs_of_strangers_move_a_prediction_through_common_groups_alone(
    runs: list[FinishedRun], added: list[float], wanted: JobFacts
) -> None:
    def with_runs_of(user: str, account: str, name: str) -> tuple[float, ...]:
        strangers = [run(run_s, end_s=9.0, user=user, account=account, job_name=name) for run_s in added]
        return quantiles_s(taught([*runs, *strangers]), wanted)

    # Only "all" is common to the job and either of them, so that which of them it is makes no difference.
    assert with_runs_of("cleo", "physics", "fit") == with_runs_of("dora", "biology", "fold")


@given(own=st.lists(LENGTHS, min_size=1, max_size=20), added=st.lists(LENGTHS, min_size=1, max_size=20))
def test_a_full_parent_screens_what_lies_beside_it(own: list[float], added: list[float]) -> None:
    # Its account's newest 64 runs are the same; a stranger's older runs leave the groups of ada and of the account.
    filled = [run(run_s, end_s=5.0, user="bob") for run_s in (own * 64)[:64]]
    older = [run(run_s, end_s=1.0, user="bob", job_name="eval") for run_s in added]
    assert quantiles_s(taught([*filled, *older]), job()) == quantiles_s(taught(filled), job())
