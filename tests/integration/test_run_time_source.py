"""Expected run times of a snapshot's jobs, learned from the store."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from tesched_core.model.cluster import Job, JobState, Request, SlurmSettings
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_daemon import run_time_source
from tesched_daemon.run_time_source import AGE_S, REFRESH_S, LearnedRunTimes
from tesched_db import finished_runs, run_time_levels
from tesched_db.finished_runs import LearnedRun
from tesched_db.run_time_levels import WrittenLevels
from tesched_predict.history import FinishedRun, JobFacts
from tesched_predict.quantiles import LEVELS
from tesched_slurm.job_bounds import LATEST, MOST, MOST_COUNT, within_bounds
from tesched_testcluster.harness.store_examples import Writer

from tests.builders import NOW, cluster, node, running, share, waiting
from tests.examples import examples

#: all that a user can have a job say that a run time is predicted from
ANY_JOB = st.builds(
    Job,
    job_id=st.just(JobId(1)),
    state=st.sampled_from([JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED]),
    user=st.sampled_from(["", "ada", "bob"]),
    name=st.one_of(st.sampled_from(["train_1", ""]), st.text(max_size=20)),
    account=st.sampled_from(["", "vision"]),
    partitions=st.sampled_from([(), ("p",), ("p", "q")]),
    time_limit_s=st.one_of(st.none(), st.integers(-2, 2), st.integers(-MOST, MOST)),
    start_time=st.one_of(st.none(), st.floats(0, LATEST), st.floats(NOW - 1000, NOW + 10)),
    request=st.builds(
        Request,
        cpus=st.one_of(st.integers(0, 4), st.integers(0, MOST_COUNT)),
        min_nodes=st.sampled_from([0, 1, 2]),
        gres_per_job=st.one_of(st.just(()), st.integers(0, MOST_COUNT).map(lambda count: (("gpu", count),))),
    ),
)


def learn(store: Engine, *runs_s: float, user: str = "ada", of: str = "here") -> None:
    """Write runs of a user's jobs, named train_0, train_1 and so on."""
    runs = [
        LearnedRun(
            run=FinishedRun(user=user, job_name=f"train_{place}", cpus=1, nodes=1, run_s=run_s, end_s=1000.0 + place),
            name=f"{user}{of}{place}@{run_s}",
            cluster=of,
            source="sacct",
        )
        for place, run_s in enumerate(runs_s)
    ]
    finished_runs.add(store, [runs])


def seen(*jobs: Job, at: float = NOW, **run_times: float) -> Snapshot:
    """Return these jobs, best effort; `j2=60` says that job 2's owner says 60 s."""
    snapshot = cluster([node("n1")], jobs, at=at, settings=SlurmSettings(cluster_name="here"))
    traits = {
        job_id: replace(one, job_class=JobClass.BE, run_time_s=run_times.get(f"j{job_id}"))
        for job_id, one in snapshot.traits.items()
    }
    return snapshot.with_traits(traits)


def train(job_id: int, ran_s: float | None = None) -> Job:
    if ran_s is None:
        return waiting(job_id, user="ada", name=f"train_{job_id}")
    return running(job_id, share("n1", 1), user="ada", name=f"train_{job_id}", start_time=NOW - ran_s)


def medians(source: LearnedRunTimes, snapshot: Snapshot, *, waits: bool = True) -> dict[int, float]:
    return {job_id: round(one.median_s) for job_id, one in source.read(snapshot, waiting=waits).items()}


def test_jobs_like_those_that_ran_are_expected_to_run_as_long(store: Engine) -> None:
    learn(store, *[600.0] * 20)
    snapshot = seen(train(1, 10), train(2), waiting(3, user="bob", name="other"))
    assert medians(LearnedRunTimes(engine=store), snapshot) == {1: 600, 2: 600, 3: 600}


def test_waiting_jobs_are_predicted_where_a_policy_reads_it(store: Engine) -> None:
    learn(store, *[600.0] * 20)
    assert medians(LearnedRunTimes(engine=store), seen(train(1, 10), train(2)), waits=False) == {1: 600}


@pytest.mark.parametrize("read_anew", [False, True])
def test_after_a_reload_a_waiting_job_is_predicted_by_its_new_class(store: Engine, read_anew: bool) -> None:
    learn(store, *[600.0] * 20)
    source = LearnedRunTimes(engine=store)
    snapshot = seen(train(1))
    exempt = {JobId(1): replace(snapshot.traits[JobId(1)], job_class=JobClass.EXEMPT)}
    for poll, (traits, known) in enumerate([(exempt, {}), (snapshot.traits, {1: 600}), (exempt, {})]):
        jobs = dict(snapshot.jobs) if read_anew else snapshot.jobs
        assert medians(source, replace(snapshot, taken_at=NOW + poll, jobs=jobs, traits=traits)) == known


def test_the_owners_word_is_not_put_aside(store: Engine) -> None:
    learn(store, *[600.0] * 20)
    snapshot = seen(train(1, 10), train(2), j1=60.0)
    snapshot = replace(snapshot, expected=LearnedRunTimes(engine=store).read(snapshot, waiting=True))
    said, learned = (snapshot.expected_run(JobId(job_id)) for job_id in (1, 2))
    assert said is not None
    assert learned is not None
    assert (said.median_s, said.learned, round(learned.median_s), learned.learned) == (60.0, False, 600, True)


def test_where_nothing_was_learned_nothing_is_expected(store: Engine) -> None:
    assert medians(LearnedRunTimes(engine=store), seen(train(1, 10), train(2))) == {}


def test_a_job_that_outlives_what_was_expected_gets_another_expectation(store: Engine) -> None:
    learn(store, *[100.0] * 10, *[1000.0] * 10)
    source = LearnedRunTimes(engine=store)
    snapshot = seen(train(1, 60))
    assert medians(source, snapshot) == {1: 100}
    # It has run for 101 s now, as only the longer ones did, and is not due by age.
    assert REFRESH_S > 41
    assert medians(source, replace(snapshot, taken_at=NOW + 41)) == {1: 1000}


def test_what_ended_since_is_learned_within_seconds_and_expected_within_a_minute(store: Engine) -> None:
    learn(store, *[600.0] * 5)
    source = LearnedRunTimes(engine=store)
    assert medians(source, seen(train(2))) == {2: 600}
    learn(store, *[60.0] * 200, user="ada")
    assert medians(source, seen(train(2), at=NOW + AGE_S)) == {2: 600}
    assert medians(source, seen(train(2), at=NOW + REFRESH_S)) == {2: 60}


def test_a_clock_that_is_set_back_keeps_no_old_expectation(store: Engine) -> None:
    learn(store, *[600.0] * 5)
    source = LearnedRunTimes(engine=store)
    assert medians(source, seen(train(2), at=NOW + 7200)) == {2: 600}
    learn(store, *[60.0] * 200, user="ada")
    assert medians(source, seen(train(2))) == {2: 60}


def alone(job_id: int, ran_s: float | None = None) -> Job:
    """Return a job that shares its prediction with no other: each has another time limit."""
    return replace(train(job_id, ran_s), time_limit_s=86400 + job_id)


def expected_after_each_poll(store: Engine, monkeypatch: pytest.MonkeyPatch, *jobs: Job) -> list[set[int]]:
    """Return of which jobs a run time is expected after each of three polls, which make four predictions each."""
    learn(store, *[600.0] * 5)
    monkeypatch.setattr(run_time_source, "MOST_UNITS", 4 * run_time_source.PREDICTION_UNITS)
    source = LearnedRunTimes(engine=store)
    snapshot = seen(*jobs)
    return [set(source.read(snapshot, waiting=True)) for _ in range(3)]


def test_a_poll_predicts_half_for_running_jobs_and_half_for_those_that_wait(
    store: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [*map(alone, range(1, 11)), *(alone(job_id, 10) for job_id in range(11, 21))]
    first, second, _ = expected_after_each_poll(store, monkeypatch, *jobs)
    assert (first, second) == ({1, 2, 11, 12}, {1, 2, 3, 4, 11, 12, 13, 14})


@pytest.mark.parametrize("run", [False, True])
def test_what_one_half_does_not_need_is_the_others(store: Engine, monkeypatch: pytest.MonkeyPatch, run: bool) -> None:
    few = alone(20, None if run else 10)
    many = [alone(job_id, 10 if run else None) for job_id in range(1, 11)]
    polls = expected_after_each_poll(store, monkeypatch, few, *many)
    assert polls == [{20, *range(1, last + 1)} for last in (3, 7, 10)]


def test_jobs_that_wait_are_predicted_beside_more_running_ones_than_can_be_kept_up_with(
    store: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(store, *[1e6] * 5)
    monkeypatch.setattr(run_time_source, "MOST_UNITS", 4 * run_time_source.PREDICTION_UNITS)
    source = LearnedRunTimes(engine=store)
    jobs = [alone(1), *(alone(job_id, 10) for job_id in range(2, 202))]
    assert 1 in source.read(seen(*jobs), waiting=True)
    learn(store, *[60.0] * 200)
    for poll in range(1, 40):
        found = medians(source, seen(*jobs, at=NOW + poll * REFRESH_S / 10))
    assert found[1] == 60


def test_waiting_jobs_of_the_same_groups_share_a_prediction(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    learn(store, *[600.0] * 5)
    monkeypatch.setattr(run_time_source, "MOST_UNITS", run_time_source.PREDICTION_UNITS + 50)
    source = LearnedRunTimes(engine=store)
    assert len(source.read(seen(*map(train, range(1, 41))), waiting=True)) == 40


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(odd=ANY_JOB)
def test_a_run_time_is_expected_of_every_job_within_the_bounds_and_of_those_beside_it(store: Engine, odd: Job) -> None:
    finished_runs.forget(store)
    learn(store, 0.01, *[600.0] * 5, 1e9)
    source = LearnedRunTimes(engine=store)
    jobs = [within_bounds(odd), train(2, 10), train(3)]
    for later_s in (0.0, REFRESH_S, 1e9):
        assert set(source.read(seen(*jobs, at=NOW + later_s), waiting=True)) == {1, 2, 3}


def test_a_job_that_cannot_be_predicted_is_said_once_and_the_others_are_predicted(
    store: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    learn(store, *[600.0] * 5)
    source = LearnedRunTimes(engine=store)
    jobs = [replace(train(1), name="odd"), replace(train(2, 10), name="odd"), train(3), train(4, 10)]
    assert set(source.read(seen(*jobs), waiting=True)) == {1, 2, 3, 4}

    def facts_of(job: Job) -> JobFacts:
        if job.name == "odd":
            raise ValueError("odd")
        return known(job)

    known = finished_runs.facts_of
    monkeypatch.setattr(finished_runs, "facts_of", facts_of)
    for poll in range(1, 5):
        assert set(source.read(seen(*jobs, at=NOW + poll * REFRESH_S), waiting=True)) == {3, 4}
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "job 2 of user ada",
        "job 1 of user ada",
    ]
    # A change of the job has it tried again.
    mended = [replace(one, name="train_1") for one in jobs[:2]] + jobs[2:]
    assert set(source.read(seen(*mended, at=NOW + 5 * REFRESH_S), waiting=True)) == {1, 2, 3, 4}


def test_a_change_of_cluster_keeps_no_shared_prediction(store: Engine) -> None:
    learn(store, *[600.0] * 5)
    learn(store, *[60.0] * 5, of="there")
    source = LearnedRunTimes(engine=store)
    here = seen(train(1))
    assert medians(source, here) == {1: 600}
    assert medians(source, replace(here, settings=SlurmSettings(cluster_name="there"))) == {1: 60}


def test_runs_of_another_cluster_are_not_used_and_it_is_said(store: Engine, caplog: pytest.LogCaptureFixture) -> None:
    learn(store, *[600.0] * 5, of="elsewhere")
    with caplog.at_level(logging.WARNING):
        assert medians(LearnedRunTimes(engine=store), seen(train(1, 10))) == {}
    assert "finished runs of cluster elsewhere" in caplog.text


def test_the_levels_that_it_reads_at_are_in_the_store_and_written_again_when_they_change(store: Engine) -> None:
    source = LearnedRunTimes(engine=store)
    nominal = dict(zip(LEVELS, LEVELS, strict=True))
    source.read(seen(), waiting=True)
    assert run_time_levels.newest(store) == WrittenLevels(cluster="here", levels=nominal)
    # Each run is longer than all before it.
    learn(store, *[0.5 * 1.01**place for place in range(500)])
    source.read(seen(at=NOW + AGE_S), waiting=True)
    written = run_time_levels.newest(store)
    assert written == WrittenLevels(cluster="here", levels=dict(zip(LEVELS, source.run_times.levels(), strict=True)))
    assert written.levels != nominal


@pytest.mark.parametrize("is_suspended", [False, True])
def test_a_suspension_is_no_part_of_a_run_and_puts_its_end_off(store: Engine, is_suspended: bool) -> None:
    """A job that began 1,000 s ago and was suspended for 900 s of that has run for 100 s of the 600 s expected."""
    learn(store, *[600.0] * 20)
    runs = train(1, 1000)
    suspended = replace(runs, state=JobState.SUSPENDED)
    writer = Writer(store)
    writer.look(NOW - 990, runs)
    writer.look(NOW - (900 if is_suspended else 950), suspended)
    now = suspended if is_suspended else runs
    writer.look(NOW - 50, now)
    snapshot = seen(now)
    source = LearnedRunTimes(engine=store)
    expected = source.read(snapshot, waiting=False)
    one = expected[JobId(1)]
    assert (round(one.median_s), round(one.suspended_s)) == (600, 900)
    found = columns_of(replace(snapshot, expected=expected)).running
    assert found.ends_at.tolist() == [pytest.approx(NOW + 500, abs=1)]
    # In the next run it has not been suspended.
    again = replace(seen(replace(runs, restarts=1, start_time=NOW + 20)), taken_at=NOW + 30)
    assert source.read(again, waiting=False)[JobId(1)].suspended_s == 0
