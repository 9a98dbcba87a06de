"""Delays by TE jobs, as the store shows them: of jobs, users, accounts, partitions and QOS."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine
from tesched_core.intake.delays import Delay
from tesched_core.model.bystander import Bystander, Share, TeRunInTheWay
from tesched_core.model.cluster import JobState
from tesched_core.model.memory import Memory
from tesched_core.model.order import Departure, Ending, OrderState, Purpose, VictimState
from tesched_core.model.resources import JobId
from tesched_db import queries as read
from tesched_db.delay_views import Delays
from tesched_db.delays import delay_of
from tesched_db.journal import SqlJournal
from tesched_db.retention import prune
from tesched_testcluster.harness.store_examples import Writer, job, order, remembering, victim

LEFT, BACK, ENDED = VictimState.LEFT, VictimState.BACK, OrderState.ENDED
#: each started at 100 and had its notice at 200
REQUEUED = {"noticed_at": 200.0, "left_at": 210.0, "departure": Departure.REQUEUED}
BY_BOB = {"user": "ada", "for_user": "bob"}


def seen(store: Engine, now: float = 600.0, window_s: float = 500.0) -> Delays:
    return read.status(store, now=now, window_s=window_s).delays


def written(store: Engine) -> Writer:
    """Let jobs 3 and 4 have been preempted, 4 twice, 5 by its own user, 6 in mode shadow, and 11 for a turn."""
    writer = Writer(store)
    once = victim(3, BACK, back_at=300.0, **REQUEUED, **BY_BOB)
    first = victim(4, BACK, back_at=250.0, **REQUEUED, **BY_BOB)
    again = victim(
        4,
        LEFT,
        started_at=250.0,
        noticed_at=400.0,
        left_at=410.0,
        departure=Departure.SAVED,
        user="ada",
        for_user="eve",
    )
    own = victim(5, BACK, back_at=900.0, **REQUEUED, user="ada", for_user="ada")
    turn = victim(11, BACK, back_at=900.0, **REQUEUED, purpose=Purpose.ROUND)
    memory = remembering(
        order(1, 7, once, first, state=ENDED, ending=Ending.STARTED_HERE, ended_at=300.0),
        order(2, 8, again, state=OrderState.SETTLING, ending=Ending.STARTED_HERE),
        order(3, 9, own, turn, state=ENDED, ending=Ending.STARTED_HERE, ended_at=900.0),
        order(4, 10, victim(6, LEFT, **REQUEUED, **BY_BOB), state=ENDED, ending=Ending.SHADOW, ended_at=200.0),
    )
    jobs = [job(number, JobState.RUNNING, account="physics", partitions=("main",)) for number in (3, 5, 6, 11)]
    jobs.append(job(4, account="biology", partitions=("main",), qos="low"))
    writer.look(600.0, *jobs, *(job(number) for number in range(7, 11)), te=[7, 8, 9, 10], memory=memory)
    return writer


def test_each_jobs_delay_is_the_sum_of_what_its_preemptions_cost(store: Engine) -> None:
    written(store)
    found = seen(store).jobs
    # Job 4: 100 + 50 s, then 200 s of the second time, of which nothing was lost.
    assert [(one.job, one.delay) for one in found] == [
        ("4", Delay(lost_s=100, away_s=250)),
        ("3", Delay(lost_s=100, away_s=100)),
    ]
    assert [(cause.job, cause.user, cause.delay.total_s) for cause in found[0].causes] == [
        ("8", "eve", 200),
        ("7", "bob", 150),
    ]


def test_one_that_is_away_is_delayed_until_the_last_good_poll(store: Engine) -> None:
    writer = written(store)
    before = seen(store).jobs[0].delay.total_s
    writer.look(700.0, job(4, account="biology"), memory=writer.memory)
    assert seen(store, now=5000.0, window_s=10.0).jobs[0].delay.total_s == before + 100


def test_they_are_grouped_by_user_account_partition_and_qos(store: Engine) -> None:
    written(store)
    found = [(one.by, one.name, one.jobs, one.mean_s, one.most_s) for one in seen(store).groups]
    assert found == [
        ("user", "ada", 2, 275, 350),
        ("account", "biology", 1, 350, 350),
        ("account", "physics", 1, 200, 200),
        ("partition", "main", 2, 275, 350),
        ("qos", "low", 1, 350, 350),
        ("qos", "", 1, 200, 200),
    ]


def test_a_window_has_the_jobs_that_left_or_came_back_in_it_and_those_that_are_away(store: Engine) -> None:
    writer = written(store)
    # Job 3 came back at 300; 4 is away.
    assert [one.job for one in seen(store, window_s=300.0).jobs] == ["4", "3"]
    assert [one.job for one in seen(store, window_s=299.0).jobs] == ["4"]
    writer.look(700.0, job(3, JobState.RUNNING), memory=Memory())
    assert [one.job for one in seen(store, window_s=10.0).jobs] == ["4"]


def test_what_its_own_users_te_jobs_cost_a_job_stands_apart(store: Engine) -> None:
    written(store)
    story = read.job_story(store, "5")
    assert story is not None
    delay = delay_of(story)
    assert (delay.delay, delay.by_own_user) == (Delay(), Delay(lost_s=100, away_s=700))


def test_a_jobs_story_says_the_same_as_the_status(store: Engine) -> None:
    written(store)
    for one in seen(store).jobs:
        story = read.job_story(store, one.job)
        assert story is not None
        of_story = delay_of(story)
        assert (of_story.delay, [cause.delay for cause in of_story.causes]) == (
            one.delay,
            [cause.delay for cause in one.causes],
        )
    shadow = read.job_story(store, "6")
    assert shadow is not None
    assert delay_of(shadow).delay == Delay()


def test_a_job_is_delayed_until_its_next_run_when_its_order_was_withdrawn(store: Engine) -> None:
    """After `tesched undo` no cycle follows it; before, its delay went on for ever, beside that by the next order."""
    writer = Writer(store)
    first = victim(3, LEFT, **REQUEUED, **BY_BOB)
    gone = order(1, 7, first, state=ENDED, ending=Ending.WITHDRAWN, ended_at=220.0)
    writer.look(150.0, job(3, JobState.RUNNING, start_time=100.0))
    writer.look(220.0, job(3, restarts=1), job(7), te=[7], memory=remembering(gone))
    assert [one.delay for one in seen(store, now=220.0).jobs] == [Delay(lost_s=100, away_s=20)]
    writer.look(310.0, job(3, JobState.RUNNING, restarts=1, start_time=300.0), job(7), te=[7], memory=Memory())
    again = victim(
        3, BACK, started_at=300.0, noticed_at=5000.0, left_at=5010.0, departure=Departure.REQUEUED, back_at=5100.0
    )
    memory = remembering(order(2, 8, again, state=ENDED, ending=Ending.STARTED_HERE, ended_at=5100.0))
    runs = job(3, JobState.RUNNING, restarts=2, start_time=5100.0)
    writer.look(10_000.0, runs, job(7), job(8), te=[7, 8], memory=memory)
    (found,) = seen(store, now=10_000.0, window_s=9_990.0).jobs
    assert found.delay == Delay(lost_s=100 + 4700, away_s=100 + 100)
    story = read.job_story(store, "3")
    assert story is not None
    assert delay_of(story).delay == found.delay


def test_one_that_has_only_had_its_notice_is_not_listed_for_what_was_long_ago(store: Engine) -> None:
    writer = Writer(store)
    long_ago = order(1, 7, victim(3, BACK, back_at=300.0, **REQUEUED), state=ENDED, ended_at=300.0)
    for number, state in enumerate((VictimState.PLANNED, VictimState.NOTICED, VictimState.SPARED), 2):
        memory = remembering(long_ago, order(number, 8, victim(3, state, noticed_at=99_000.0)))
        writer.look(100_000.0 + number, job(3, JobState.RUNNING), job(7), job(8), te=[7, 8], memory=memory)
        assert seen(store, now=100_000.0, window_s=3600.0).jobs == ()


WAITS, TE_JOB = JobId(3), JobId(7)


def waits(**more: Any) -> Memory:
    """Return a memory in which a job has waited for 40 s, for two TE jobs, and waits since 590."""
    shares = (Share(job_id=TE_JOB, user="bob", seconds=30), Share(job_id=JobId(8), user="eve", seconds=10))
    values: dict[str, Any] = {"since": 590.0, "by": (TeRunInTheWay(TE_JOB, "bob", 590.0),), "until": 300.0, **more}
    return Memory(bystanders={WAITS: Bystander(submitted_at=0.0, user="ada", delayed_s=40, shares=shares, **values)})


def test_bystander_is_delayed_until_the_last_poll_and_named_with_the_te_jobs(store: Engine) -> None:
    writer = Writer(store)
    jobs = job(3), job(7, array_job_id=JobId(6), array_task_id=1), job(8)
    writer.look(600.0, *jobs, te=[7, 8], memory=waits())
    (found,) = seen(store).jobs
    assert found.delay == Delay(bystander_s=50)
    assert [(cause.job, cause.user, cause.delay.bystander_s) for cause in found.causes] == [
        ("6_1", "bob", 40),
        ("8", "eve", 10),
    ]
    assert (found.waits_since, found.waits_for) == (590.0, ("6_1",))
    story = read.job_story(store, "3")
    assert story is not None
    assert delay_of(story) == found


def test_bystander_is_listed_while_it_waits_and_for_a_day_after_it(store: Engine) -> None:
    writer = Writer(store)
    writer.look(600.0, job(3), job(7), te=[7], memory=waits(since=None, by=()))
    assert [one.job for one in seen(store, window_s=300.0).jobs] == ["3"]
    assert seen(store, window_s=299.0).jobs == ()
    writer.look(610.0, job(3), job(7), te=[7], memory=waits())
    assert [one.job for one in seen(store, window_s=1.0).jobs] == ["3"]


def test_next_process_remembers_bystanders_and_the_last_poll(store: Engine) -> None:
    Writer(store).look(600.0, job(3), job(7), te=[7], memory=waits())
    loaded = SqlJournal(store).load()
    assert loaded.bystanders == waits().bystanders
    assert loaded.seen_at == 600.0
    assert read.memory(store).bystanders == waits().bystanders


def test_delay_of_a_bystander_stays_when_slurm_has_forgotten_it_until_it_is_pruned(store: Engine) -> None:
    writer = Writer(store)
    writer.look(600.0, job(3), job(7), te=[7], memory=waits(since=None, by=()))
    writer.look(700.0, job(7), te=[7], memory=Memory())
    assert SqlJournal(store).load().bystanders == {}
    assert [one.delay.bystander_s for one in seen(store).jobs] == [40]
    prune(store, 50.0, now=1000.0)
    assert seen(store, window_s=999.0).jobs == ()
    assert read.job_story(store, "3") is None


def test_another_job_of_the_same_id_has_an_account_of_its_own(store: Engine) -> None:
    writer = Writer(store)
    writer.look(600.0, job(3, submit_time=1.0), job(7), te=[7], memory=waits(since=None, by=()))
    again = Bystander(submitted_at=610.0, user="ada", delayed_s=5, until=620.0)
    writer.look(620.0, job(3, submit_time=610.0), job(7), te=[7], memory=Memory(bystanders={WAITS: again}))
    assert sorted(one.delay.bystander_s for one in seen(store).jobs) == [5, 40]
    assert SqlJournal(store).load().bystanders == {WAITS: again}
    writer.look(630.0, job(7), te=[7], memory=Memory())
    assert SqlJournal(store).load().bystanders == {}


def test_open_delay_of_a_job_ends_when_another_has_its_id(store: Engine) -> None:
    writer = Writer(store)
    writer.look(600.0, job(3, submit_time=1.0), job(7), te=[7], memory=waits())
    writer.look(620.0, job(3, submit_time=610.0), job(7), te=[7], memory=Memory(seen_at=620.0))
    (found,) = seen(store).jobs
    assert (found.delay.bystander_s, found.waits_since, found.waits_for) == (40 + 30, None, ())


def test_only_the_most_delayed_are_listed_and_all_are_counted(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_db.delays.MOST_LISTED", 2)
    accounts = {
        JobId(number): Bystander(submitted_at=0.0, user="ada", delayed_s=10.0 * number, until=500.0)
        for number in range(1, 6)
    }
    writer = Writer(store)
    writer.look(600.0, *(job(number) for number in range(1, 6)), memory=Memory(bystanders=accounts))
    found = seen(store)
    assert [one.job for one in found.jobs] == ["5", "4"]
    assert (found.count, found.waiting, found.mean_s) == (5, 0, 30)
    worst = found.worst("user")
    assert worst is not None
    assert (worst.jobs, worst.mean_s, worst.most_s) == (5, 30, 50)
