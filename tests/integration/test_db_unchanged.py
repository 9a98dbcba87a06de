"""Writes of what has changed alone: whatever objects a poll makes or keeps, the rows say what the last one showed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from enum import Enum
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine, Row, create_engine, select, text
from tesched_core.model.cluster import Job, JobState, Request
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot, Traits
from tesched_db import job_rows
from tesched_db import rows as rows_module
from tesched_db.engine import open_store
from tesched_db.job_rows import UNCLASSIFIED
from tesched_db.job_values import changed_values, job_values
from tesched_db.journal import SqlJournal
from tesched_db.rows import rows_of
from tesched_db.tables import CycleRow, JobRow
from tesched_testcluster.harness.private_postgresql import PrivatePostgresql
from tesched_testcluster.harness.store_examples import BE, TE, Writer, job

JOBS, POLLS = 12, 25


def moved(random: Random, one: Job) -> Job:
    """Return the job as the next poll may show it: the same object, an equal one, or another state of it."""
    match random.randrange(6):
        case 0:
            return replace(one)
        case 1:
            return replace(one, request=Request(cpus=random.randrange(1, 9)), priority=random.randrange(3))
        case 2 if one.pending:
            return job(one.job_id, JobState.RUNNING, nodes=["n1"], submit_time=one.submit_time, start_time=50.0)
        case 2:
            return job(one.job_id, submit_time=one.submit_time, restarts=one.restarts + 1)
        case _:
            return one


def next_poll(random: Random, seen: Snapshot, at: float) -> Snapshot:
    """Return a snapshot in which some jobs have gone, come, changed or got other traits, and most have not."""
    jobs = {job_id: moved(random, one) for job_id, one in seen.jobs.items() if random.randrange(8)}
    for number in range(JOBS):
        if number not in jobs and not random.randrange(4):
            # Another job by an id that was seen before, or that one again.
            jobs[JobId(number)] = job(number, submit_time=random.choice((10.0, at)))
    traits = {job_id: _rated(random, seen.traits.get(job_id)) for job_id in jobs if random.randrange(10)}
    idle = {job_id: 40.0 for job_id, one in jobs.items() if one.on_nodes and not random.randrange(3)}
    return replace(Snapshot.of(at, jobs=jobs.values(), traits=traits), idle_since=idle)


def _rated(random: Random, before: Traits | None) -> Traits:
    return before if before is not None and random.randrange(4) else replace(random.choice((TE, BE)))


def written(store: Engine) -> Mapping[int, JobRow]:
    with store.connect() as connection:
        return {row.job_id: row for row in rows_of(connection, select(JobRow).where(JobRow.last_seen.is_(None)))}


@pytest.mark.parametrize("seed", range(4))
def test_the_rows_and_the_counts_say_what_the_last_poll_showed(store: Engine, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - no secret
    writer, seen = Writer(store), Snapshot.of(0.0)
    for poll in range(1, POLLS + 1):
        if poll == POLLS // 2:
            writer = Writer(store)  # tesched was restarted
        seen = next_poll(random, seen, 100.0 * poll)
        writer.write(seen)
        rows = written(store)
        assert rows.keys() == seen.jobs.keys()
        for job_id, one in seen.jobs.items():
            said = job_values(one, seen.traits.get(job_id, UNCLASSIFIED), seen.idle_since.get(job_id))
            assert {name: getattr(rows[job_id], name) for name in said} == said
        count = Counter((seen.traits.get(each, UNCLASSIFIED).job_class, one.state) for each, one in seen.jobs.items())
        with store.connect() as connection:
            last = connection.execute(select(CycleRow).order_by(CycleRow.key.desc()).limit(1)).one()
        assert {(kind, state): many for kind, of in last.counts.items() for state, many in of.items()} == count


@pytest.mark.postgresql
def test_no_transaction_is_idle_for_as_long_as_all_jobs_take_to_be_read(
    postgresql: PrivatePostgresql, migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgresql.url(postgresql.create(migrated))
    known, since = job_rows._known, set[Any]()
    other = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    where = "state = 'idle in transaction' AND datname = current_database()"
    ours = text(f"SELECT state_change FROM pg_stat_activity WHERE {where}")  # noqa: S608 - a constant

    def noting(row: Row[Any]) -> Any:
        with other.connect() as connection:
            since.update(connection.execute(ours).scalars())
        return known(row)

    monkeypatch.setitem(rows_module.IN_PARTS, "yield_per", 1)
    monkeypatch.setattr(job_rows, "_known", noting)
    store = open_store(url)
    try:
        Writer(store).look(100.0, *map(job, range(1, 13)))
        SqlJournal(store).load()
    finally:
        store.dispose()
        other.dispose()
    assert len(since) == 12, "since when the transaction is idle: anew with each part"


def other(value: Any) -> Any:
    """Return another value of the same type."""
    match value:
        case Enum():
            return next(one for one in type(value) if one is not value)
        case bool():
            return not value
        case str():
            return "preempted=end"
        case tuple():
            return () if value else ("p",)
        case frozenset():
            return frozenset({"COMPLETING"})
        case Request():
            return replace(value, cpus=99)
    return 77


@pytest.mark.parametrize("of_traits", [False, True], ids=["job", "traits"])
def test_each_value_that_another_field_of_a_job_changes_is_made(of_traits: bool) -> None:
    then = job(1, JobState.RUNNING, nodes=["n1"], eligible_time=5.0), BE, None
    for changed in fields(BE if of_traits else then[0]):
        if changed.name in {"not_followed", "declared", "job_id"}:
            continue
        one, traits, _ = then
        if of_traits:
            traits = replace(traits, **{changed.name: other(getattr(traits, changed.name))})
        else:
            one = replace(one, **{changed.name: other(getattr(one, changed.name))})
        written = changed_values(then, (one, traits, 3.0))
        before, after = job_values(*then), job_values(one, traits, 3.0)
        assert written == {name: value for name, value in after.items() if value != before[name]}, changed.name
