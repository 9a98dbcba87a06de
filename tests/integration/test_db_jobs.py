"""Identity of jobs in the store, their history, and when they are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Engine, event, select
from tesched_core.intake.job_times import StateChange
from tesched_core.model.cluster import JobState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_db import queries as read
from tesched_db.rows import CHUNK
from tesched_db.tables import HistoryRow, JobRow
from tesched_db.views import JobFilter, JobStory
from tesched_testcluster.harness.store_examples import DOWN, Writer, job, report, rows, snapshot

RUNNING, PENDING, COMPLETED = JobState.RUNNING, JobState.PENDING, JobState.COMPLETED
SUSPENDED = JobState.SUSPENDED

EVERY = JobFilter(with_gone=True)


def story(store: Engine, name: str) -> JobStory:
    found = read.job_story(store, name)
    assert found is not None
    return found


def states(changes: tuple[StateChange, ...]) -> list[tuple[float, JobState, int]]:
    return [(change.at, change.state, change.restarts) for change in changes]


def test_a_preempted_job_keeps_its_first_submission_and_counts_all_its_waiting(store: Engine) -> None:
    writer = Writer(store)
    writer.look(101.0, job(3, submit_time=100.0, reason="Resources"))
    writer.look(111.0, job(3, RUNNING, nodes=["n1"], submit_time=100.0, start_time=110.0))
    writer.look(131.0, job(3, submit_time=130.0, restarts=1, reason="BeginTime", start_time=110.0))
    # A restart of tesched in between loses nothing.
    writer = Writer(store)
    writer.look(201.0, job(3, RUNNING, nodes=["n2"], submit_time=130.0, restarts=1, start_time=200.0))
    writer.look(263.0, job(3, COMPLETED, submit_time=130.0, restarts=1, start_time=200.0, end_time=260.0), te=[])
    told = story(store, "3")
    assert states(told.changes) == [
        (101.0, PENDING, 0),
        (111.0, RUNNING, 0),
        (131.0, PENDING, 1),
        (201.0, RUNNING, 1),
        (263.0, COMPLETED, 1),
    ]
    assert [run.nodes for run in told.runs] == [("n1",), ("n2",)]
    assert (told.times.waited_s, told.times.ran_s, told.times.jct_s) == (10 + 70, 20 + 60, 160)
    assert told.times.slowdown == 2.0
    assert told.job.first_submit_time == 100.0
    (queue,) = [queue for queue in read.status(store, now=300.0).queues if queue.job_class is JobClass.BE]
    assert (queue.slowdown.count, queue.slowdown.p50) == (1, 2.0)
    assert queue.waited_s.p99 == 80.0


def test_a_job_that_was_not_seen_from_its_start_counts_in_no_percentile(store: Engine) -> None:
    writer = Writer(store)
    writer.look(201.0, job(3, RUNNING, nodes=["n2"], submit_time=130.0, restarts=1, start_time=200.0))
    writer.look(263.0, job(3, COMPLETED, submit_time=130.0, restarts=1, start_time=200.0, end_time=260.0))
    assert all(queue.slowdown.count == 0 for queue in read.status(store, now=300.0).queues)


def test_going_back_and_forth_between_resources_and_priority_is_no_news(store: Engine) -> None:
    writer = Writer(store)
    for number in range(20):
        reason = ("Resources", "Priority", "")[number % 3]
        writer.look(100.0 + number, job(3, reason=reason, priority=1000 + number))
    assert rows(store, HistoryRow) == 1
    (seen,) = read.jobs(store)
    assert (seen.reason, seen.priority) == ("Priority", 1019)
    writer.look(130.0, job(3, reason="JobHeldUser"))
    assert rows(store, HistoryRow) == 2


def test_a_job_is_gone_only_when_a_good_poll_does_not_show_it(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3, RUNNING, nodes=["n1"], submit_time=90.0), job(4))
    writer.look(102.0, job(3, RUNNING, nodes=["n1"], submit_time=90.0), job(4))
    writer.journal.unseen(report(104.0, failure=DOWN))
    assert len(read.jobs(store)) == 2
    writer.look(106.0, job(4))
    assert [view.job_id for view in read.jobs(store)] == [4]
    gone = story(store, "3").job
    assert (gone.gone, gone.state, gone.last_seen, gone.nodes) == (True, RUNNING, 102.0, ("n1",))


def test_since_when_a_job_is_idle_is_that_of_the_last_poll(store: Engine) -> None:
    writer, busy, idle = Writer(store), job(3, RUNNING, nodes=["n1"]), job(4, RUNNING, nodes=["n2"])

    def poll(at: float, **since: float) -> dict[int, float | None]:
        listed = {JobId(int(name[1:])): value for name, value in since.items()}
        writer.write(replace(snapshot(at, busy, idle), idle_since=listed))
        return {view.job_id: view.idle_since for view in read.jobs(store)}

    assert poll(100.0, j4=50.0) == {3: None, 4: 50.0}
    assert poll(102.0, j4=50.0) == {3: None, 4: 50.0}
    # Nothing else of the jobs has changed.
    assert poll(104.0, j3=103.0) == {3: 103.0, 4: None}
    writer = Writer(store)
    assert poll(106.0, j3=103.0) == {3: 103.0, 4: None}
    writer.look(108.0, idle)
    assert story(store, "3").job.idle_since is None, "it is gone"


def test_a_job_that_comes_back_is_the_same_job(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3, submit_time=90.0))
    writer.look(102.0)
    writer.look(104.0, job(3, submit_time=90.0))
    assert rows(store, JobRow) == 1
    (seen,) = read.jobs(store)
    assert (seen.first_seen, seen.gone) == (100.0, False)


def test_an_id_that_is_used_again_is_another_job(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3, COMPLETED, submit_time=90.0, user="ada", end_time=99.0))
    writer.look(500.0)
    writer.look(900.0, job(3, submit_time=890.0, user="bob"))
    first, second = read.jobs(store, EVERY)
    assert (first.user, first.gone, first.last_seen) == ("ada", True, 100.0)
    assert (second.user, second.gone, second.first_submit_time) == ("bob", False, 890.0)
    assert story(store, "3").job == second


def test_an_id_that_is_used_again_between_two_polls_is_another_job(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3, COMPLETED, submit_time=90.0, restarts=2, end_time=99.0))
    writer.look(102.0, job(3, submit_time=101.0))
    first, second = read.jobs(store, EVERY)
    assert (first.gone, first.last_seen, second.gone) == (True, 100.0, False)
    assert len(story(store, "3").changes) == 1


@pytest.mark.parametrize("restarts", [1, 2])
def test_a_requeued_job_is_the_same_job_even_if_it_had_finished(store: Engine, restarts: int) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3, COMPLETED, submit_time=90.0, end_time=99.0, start_time=95.0))
    writer.look(102.0, job(3, submit_time=101.0, restarts=restarts))
    (seen,) = read.jobs(store, EVERY)
    assert (seen.restarts, seen.first_submit_time) == (restarts, 90.0)


def test_an_array_is_found_by_what_squeue_writes(store: Engine) -> None:
    writer = Writer(store)
    writer.look(
        100.0,
        job(120, array_job_id=120, array_tasks="5-9%2"),
        job(121, RUNNING, array_job_id=120, array_task_id=4, nodes=["n1"]),
        job(131, het_job_id=130, het_offset=1),
    )
    assert story(store, "120_4").job.job_id == 121
    assert story(store, "120").job.label == "120_[5-9%2]"
    assert story(store, "120_[5-9%2]").job.job_id == 120
    assert story(store, "130+1").job.job_id == 131
    assert read.job_story(store, "120_5") is None
    assert read.job_story(store, "7; DROP TABLE jobs") is None


@pytest.mark.parametrize("name", ["\0", "caf\udce9", "'; DROP TABLE jobs; --", "日本語", "\\x00", "%", "a\nb"])
def test_no_job_name_can_stop_the_store(store: Engine, name: str) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3, name=name, account=name))
    writer = Writer(store)
    writer.look(102.0, job(3, name=name, account=name))
    assert rows(store, HistoryRow) == 1
    (seen,) = read.jobs(store)
    assert seen.name == name.replace("\0", "\\x00").replace("\udce9", "\\udce9")


def test_numbers_as_large_as_slurm_has_them_fit(store: Engine) -> None:
    Writer(store).look(100.0, job(2**32 - 2, priority=2**32 - 3, nice=-(2**31), time_limit_s=60 * (2**32 - 2)))
    (seen,) = read.jobs(store)
    assert (seen.job_id, seen.priority, seen.nice) == (2**32 - 2, 2**32 - 3, -(2**31))


def test_more_jobs_than_one_statement_takes(store: Engine) -> None:
    writer = Writer(store)
    many = [job(number, submit_time=90.0) for number in range(1, 2 * CHUNK + 2)]
    writer.look(100.0, *many)
    writer.look(102.0)
    assert read.jobs(store) == ()
    writer.look(104.0, *many)
    assert len(read.jobs(store, EVERY)) == len(many) == len(read.jobs(store))
    finished = [job(one.job_id, COMPLETED, submit_time=90.0, start_time=95.0, end_time=105.0) for one in many]
    writer.look(106.0, *finished)
    with store.connect() as connection:
        assert {(row.waited_s, row.ran_s) for row in connection.execute(select(JobRow))} == {(5.0, 10.0)}


def test_jobs_are_filtered(store: Engine) -> None:
    Writer(store).look(
        100.0,
        job(1, user="ada", partitions=("gpu", "debug")),
        job(2, RUNNING, user="ada", partitions=("debug_long",), nodes=["n1"]),
        job(3, user="bob", account="physics", partitions=("debug",)),
        te=[3],
    )

    def ids(which: JobFilter) -> list[int]:
        return [view.job_id for view in read.jobs(store, which)]

    assert ids(JobFilter(users=frozenset({"ada"}))) == [1, 2]
    assert ids(JobFilter(partitions=frozenset({"debug"}))) == [1, 3]
    assert ids(JobFilter(partitions=frozenset({"d%"}))) == []
    assert ids(JobFilter(account="physics")) == [3]
    assert ids(JobFilter(job_class=JobClass.TE)) == [3]
    assert ids(JobFilter(states=frozenset({RUNNING}))) == [2]
    assert ids(JobFilter(users=frozenset({"ada"}), states=frozenset({RUNNING, PENDING}), limit=1)) == [1]


def test_a_run_time_is_without_its_suspensions_as_squeues_and_as_that_of_the_jobs_story(store: Engine) -> None:
    writer = Writer(store)

    def seen(at: float, *states: JobState) -> None:
        jobs = [job(number, one, nodes=["n1"], start_time=100.0) for number, one in enumerate(states, 1)]
        ended = [replace(one, end_time=290.0) if one.finished else one for one in jobs]
        writer.look(at, *ended)

    seen(101.0, RUNNING, RUNNING, RUNNING)
    seen(160.0, SUSPENDED, SUSPENDED, RUNNING)
    seen(200.0, RUNNING, SUSPENDED, RUNNING)
    seen(230.0, SUSPENDED, SUSPENDED, RUNNING)
    seen(300.0, SUSPENDED, COMPLETED, RUNNING)
    ran = [one.run_s(400.0) for one in read.jobs(store)]
    assert ran == [60.0 + 30.0, 60.0, 300.0]
    assert [story(store, name).times.ran_s for name in ("1", "2")] == ran[:2]
    seen(310.0, RUNNING, COMPLETED, RUNNING)
    assert [one.run_s(400.0) for one in read.jobs(store)] == [60.0 + 30.0 + 90.0, 60.0, 300.0]


def test_suspensions_are_read_for_all_jobs_at_once(store: Engine) -> None:
    def statements() -> int:
        said: list[str] = []

        def note(*args: object) -> None:
            said.append(str(args[2]))

        event.listen(store, "before_cursor_execute", note)
        read.jobs(store)
        event.remove(store, "before_cursor_execute", note)
        return len(said)

    writer = Writer(store)
    writer.look(160.0, *(job(number, SUSPENDED, nodes=["n1"], start_time=100.0) for number in range(1, 3)))
    of_two = statements()
    writer.look(170.0, *(job(number, SUSPENDED, nodes=["n1"], start_time=100.0) for number in range(1, 41)))
    assert statements() == of_two


def test_the_run_of_a_job_that_slurm_has_forgotten_lasts_until_it_was_last_seen(store: Engine) -> None:
    writer = Writer(store)
    jobs = [job(number, RUNNING, nodes=["n1"], start_time=100.0) for number in (1, 2, 3)]
    writer.look(220.0, *jobs)
    ended = replace(jobs[1], state=COMPLETED, end_time=230.0)
    writer.look(240.0, ended, jobs[2])
    writer.look(900.0, jobs[2])
    found = read.jobs(store, EVERY)
    assert [(one.gone, one.is_forgotten) for one in found] == [(True, True), (True, False), (False, False)]
    assert [one.run_s(1000.0) for one in found] == [120.0, 130.0, 900.0]
    assert [run.end for run in story(store, "1").runs] == [220.0]
    assert [run.end for run in story(store, "3").runs] == [None]
