"""A store with a row in every table, and each way in which its rows are read: for tests that damage a column of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, insert, select
from tesched_core.model.change import By
from tesched_core.model.limits import TeLimits
from tesched_core.model.resources import JobId
from tesched_daemon.loop import Loop
from tesched_db import finished_runs, outlived_rows, reports, run_time_levels, trainings
from tesched_db import queries as read
from tesched_db.engine import open_store, writing
from tesched_db.errors import StoreError
from tesched_db.journal import SqlJournal
from tesched_db.let_through import let_through
from tesched_db.rows import Values
from tesched_db.tables import Base
from tesched_db.tail import Tail
from tesched_db.timeline import timeline
from tesched_db.use import use
from tesched_policies.registry import STATES
from tesched_testcluster.harness.empty_store import empty_store

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of

#: rows of the tables in which a poll of a full cluster leaves none: job 1 is a victim, job 2 a trial
_ROWS: Mapping[str, Values] = {
    "bystanders": {
        "job_key": 1,
        "job_id": 1,
        "in_memory": True,
        "submitted_at": 0.0,
        "user": "ada",
        "since": 1.0,
        "by": [[2, "bob", 1.0]],
        "delayed_s": 1.0,
        "by_own_user_s": 0.0,
        "shares": [[2, "bob", 1.0]],
    },
    "deeds": {"at": 1.0, "by": "root", "what": "pause"},
    "finished_runs": {
        "cluster": "c",
        "run": "3@1",
        "source": "daemon",
        "user": "ada",
        "account": "a",
        "partition": "main",
        "name": "run",
        "gpus": 1,
        "cpus": 1,
        "nodes": 1,
        "time_limit_s": 60.0,
        "run_s": 5.0,
        "end_s": 10.0,
    },
    "job_memory": {
        "job_id": 1,
        "preemptions": 1,
        "last_preempted": 1.0,
        "retry_at": 2.0,
        "futile_count": 1,
        "futile_ending": "started_elsewhere",
        "futile_said": "no",
        "futile_basis": "x",
        "futile_fellows": 1,
        "futile_changed": False,
        "futile_first_restart": 0,
        "submitted_at": 0.0,
        "ran_s": 1.0,
        "suspended_s": 0.0,
        "longest_run_s": 1.0,
        "delayed_s": 1.0,
        "excused_s": 0.0,
    },
    "outlived": {"job_id": 2, "at": 1.0, "user": "bob"},
    "paid": {
        "job_id": 1,
        "at": 1.0,
        "user": "ada",
        "account": "a",
        "nodes": ["n1"],
        "node_s": 1.0,
        "preemptor": 2,
        "preemptor_restarts": 0,
        "put_back_at": 2.0,
        "for_user": "bob",
        "for_account": "b",
        "purpose": "te",
        "withdrawn": False,
    },
    "pause": {"key": 1, "since": 1.0, "until": 4e9, "by": "root", "reason": "work"},
    "policy_states": {"policy": "slaq", "state": {"counted_at": 1.0}},
    "progress": {"job_key": 1, "iteration": 1, "at": 1.0, "loss": 0.5, "work": 1.0},
    "reports": {
        "job_key": 1,
        "at": 1.0,
        "workload": "w",
        "target_loss": 0.1,
        "saved_at": 1.0,
        "refused": "",
        "sampled_at": 1.0,
    },
    "run_time_levels": {"cluster": "c", "levels": {"0.1": 0.08}, "written_at": 1.0},
    "standbys": {"host": "other", "pid": 1, "started_at": 1.0, "seen_at": 4e9},
    "throughputs": {
        "user": "ada",
        "workload": "w",
        "scale": 1,
        "accelerator": "a100",
        "partner": "",
        "partner_scale": 0,
        "steps_per_s": 1.0,
        "samples": 1,
        "at": 1.0,
    },
}


def full_store(folder: Path) -> str:
    """Make a store with rows in every table, in this folder; return its URL."""
    url = empty_store(folder / "store.sqlite")
    engine = open_store(url)
    loop = loop_on(engine)
    for _ in range(2):
        assert not loop.turn().trouble
    with writing(engine).begin() as connection:
        for table in Base.metadata.sorted_tables:
            if table.name in _ROWS:
                connection.execute(insert(table).values(_ROWS[table.name]))
            assert connection.execute(select(table)).first() is not None, table.name
    engine.dispose()
    # A daemon forgets some of these rows.
    content = (folder / "store.sqlite").read_bytes()
    engine = open_store(url)
    for reading in READINGS.values():
        reading(engine)
    engine.dispose()
    (folder / "store.sqlite").write_bytes(content)
    return url


def loop_on(engine: Engine) -> Loop:
    """Make a daemon's loop on this store, on a full cluster."""
    now = time.time()
    jobs = {JobId(1): replace(VICTIM, start_time=now - 100), JobId(2): replace(TRIAL, submit_time=now - 5)}
    loop = loop_of(Cluster(seen=replace(FULL_CLUSTER, taken_at=now, jobs=jobs)), Notebook())
    loop.clock, loop.journal = time.time, SqlJournal(engine, takes_over=True, states=STATES)
    return loop


def _start(engine: Engine) -> None:
    """Make a daemon's first turns, which read all that it remembers. Raises StoreError where the first one cannot."""
    loop = loop_on(engine)
    turns = loop.turn(), loop.turn()
    if turns[0].trouble:
        raise StoreError(turns[0].trouble)


def _history(engine: Engine) -> None:
    timeline(engine, 0.0, ended_since=0.0)
    read.recent_transitions(engine)
    read.as_victims(engine, [1, 2])


def _learned(engine: Engine) -> None:
    finished_runs.load(engine, "c")
    finished_runs.clusters(engine)
    run_time_levels.newest(engine)


def _reported(engine: Engine) -> None:
    reports.report(engine, 1)
    reports.stored(engine, replace(VICTIM, restarts=9))
    reports.throughputs(engine)
    trainings.trainings(engine, limit=9)
    trainings.shares(engine)


def _metrics(engine: Engine) -> None:
    tail = Tail(engine=engine, began_at=0.0)
    tail.read(time.time())
    tail.read(time.time())


#: reads of the store, by what needs them; each raises StoreError or nothing
READINGS: Mapping[str, Callable[[Engine], Any]] = {
    "status": read.status,
    "daemon": read.daemon,
    "jobs": read.jobs,
    "orders": read.orders,
    "explain the trial": lambda engine: read.job_story(engine, "2", STATES),
    "explain the victim": lambda engine: read.job_story(engine, "1", STATES),
    "memory": lambda engine: read.memory(engine, STATES),
    "changes": lambda engine: (read.changed_jobs(engine), read.raised_jobs(engine, By.PREEMPTOR)),
    "history": _history,
    "learned": _learned,
    "reported": _reported,
    "barred": lambda engine: outlived_rows.barred(engine, TeLimits(), time.time()),
    "let through": let_through,
    "use": use,
    "metrics": _metrics,
    "daemon starts": _start,
}
