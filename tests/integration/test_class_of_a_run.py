"""A running job keeps the class of its run, also over a restart of the daemon, whatever it calls itself since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Engine
from tesched_core.intake.class_rules import Classification, Match, Rule, UserWord
from tesched_core.model.cluster import Job
from tesched_core.model.snapshot import JobClass
from tesched_daemon.settings import Mode
from tesched_db import queries as read
from tesched_db.journal import SqlJournal

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of

#: Users may say `te`, and a short job is TE by a rule.
HOW = Classification(
    rules=(Rule(name="short", job_class=JobClass.TE, match=Match(max_time_limit_s=600)),),
    user_word=UserWord(may_say_te=True),
)
RUNS = replace(VICTIM, time_limit_s=86_400)


def look(engine: Engine, job: Job, how: Classification = HOW) -> str:
    """Let a daemon that has just been started poll once; return the job's class."""
    loop = loop_of(Cluster(seen=replace(FULL_CLUSTER, jobs={job.job_id: job})), Notebook(), Mode.OBSERVE)
    loop.journal, loop.classes = SqlJournal(engine), how
    assert not loop.turn().trouble
    (view,) = [view for view in read.jobs(engine) if view.job_id == job.job_id]
    return view.job_class.value


@pytest.mark.parametrize(
    "change",
    [
        lambda job: replace(job, comment="te"),
        lambda job: replace(job, time_limit_s=300),
        lambda job: replace(job, comment="te", name="\ud800\0"),
    ],
    ids=["comment", "time limit", "name"],
)
def test_what_a_user_changes_of_a_running_job_does_not_count_after_a_restart(
    store: Engine, change: Callable[[Job], Job]
) -> None:
    assert look(store, RUNS) == "be"
    assert look(store, change(RUNS)) == "be"
    assert look(store, change(RUNS)) == "be", "nor after a second one"


def test_its_next_run_has_the_class_that_it_asks_for_then(store: Engine) -> None:
    assert look(store, RUNS) == "be"
    assert look(store, replace(RUNS, comment="te", restarts=1, submit_time=RUNS.submit_time + 100)) == "te"


def test_a_waiting_job_may_change_its_mind(store: Engine) -> None:
    waits = replace(TRIAL, time_limit_s=86_400)
    assert look(store, waits) == "be"
    assert look(store, replace(waits, comment="te")) == "te"


def test_new_rules_hold_for_running_jobs_by_what_they_were_at_their_start(store: Engine) -> None:
    assert look(store, RUNS) == "be"
    protected = Classification(rules=(Rule(name="all", job_class=JobClass.EXEMPT, match=Match(names=("be",))),))
    assert look(store, replace(RUNS, name="renamed"), protected) == "exempt"


def test_a_time_limit_that_slurm_lowered_as_a_run_began_changes_no_class_after_a_restart(store: Engine) -> None:
    waits = replace(TRIAL, time_limit_s=86_400)
    runs = replace(VICTIM, job_id=waits.job_id, submit_time=waits.submit_time, time_limit_s=300)
    cluster = Cluster(seen=replace(FULL_CLUSTER, jobs={waits.job_id: waits}))
    loop = loop_of(cluster, Notebook(), Mode.OBSERVE)
    loop.journal, loop.classes = SqlJournal(store), HOW
    assert not loop.turn().trouble
    cluster.seen = replace(FULL_CLUSTER, jobs={runs.job_id: runs})
    assert not loop.turn().trouble
    assert look(store, runs) == "be"
