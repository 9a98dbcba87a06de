"""Finished runs to learn from: the newest `MOST_RUNS`, from the daemon's own polls, from sacct and from traces.

A run has one name wherever it comes from (`name_of`), so that what is learned twice counts once. `cluster` is empty for
the runs of a trace, which does not say; the others are of the cluster that Slurm names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, delete, func, select
from tesched_core.intake.finished_runs import ended_by_itself
from tesched_core.model.cluster import Job
from tesched_core.model.memory import Memory
from tesched_core.model.request import requested_gpus
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot
from tesched_predict.groups import RUNS_OF_ALL, RUNS_PER_GROUP, Likeness, keys_of
from tesched_predict.history import FinishedRun, JobFacts, name_pattern

from tesched_db.engine import reader, writing
from tesched_db.errors import store_errors
from tesched_db.paced_writes import PacedWrites
from tesched_db.rows import CHUNK, Values
from tesched_db.tables import FinishedRunRow, RunTimeLevelsRow
from tesched_db.upsert import insert_new
from tesched_db.user_text import storable

#: Runs that are kept, the newest by their end: 27 us each to learn at a daemon's start.
MOST_RUNS = 20_000
#: Shortest run, seconds: Slurm counts whole seconds, and 0 has no logarithm.
SHORTEST_S = 1.0
_COLUMNS = (
    FinishedRunRow.key,
    FinishedRunRow.user,
    FinishedRunRow.account,
    FinishedRunRow.partition,
    FinishedRunRow.name,
    FinishedRunRow.gpus,
    FinishedRunRow.cpus,
    FinishedRunRow.nodes,
    FinishedRunRow.time_limit_s,
    FinishedRunRow.run_s,
    FinishedRunRow.end_s,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRun:
    """One finished run as the store has it."""

    run: FinishedRun
    #: one name for one run, whatever it was learned from
    name: str
    #: empty: a trace's
    cluster: str
    #: "daemon", "sacct" or "trace"
    source: str


def name_of(label: str, start_time: UnixSeconds) -> str:
    """Name of a run: the job as squeue and sacct both write it (123, 120_4, 130+1), and its start."""
    return f"{label}@{start_time:.0f}"


def facts_of(job: Job) -> JobFacts:
    """Facts of a job that a run time is predicted from; of several partitions the first."""
    return JobFacts(**_facts(job))


def _facts(job: Job) -> Values:
    return {
        "user": job.user,
        "account": job.account,
        "partition": job.partitions[0] if job.partitions else "",
        "job_name": job.name,
        "gpus": requested_gpus(job.request),
        "cpus": job.request.cpus,
        "nodes": max(job.request.min_nodes, 1),
        "time_limit_s": None if job.time_limit_s is None else float(job.time_limit_s),
    }


def learn_ended(connection: Connection, ended: Iterable[tuple[Job, float]], memory: Memory, snapshot: Snapshot) -> None:
    """Write the runs among those that have just ended by themselves; each comes with the seconds that it ran."""
    runs = [
        LearnedRun(
            run=FinishedRun(**_facts(job), run_s=max(ran_s, SHORTEST_S), end_s=job.end_time or snapshot.taken_at),
            name=name_of(job.label, job.start_time or 0.0),
            cluster=snapshot.settings.cluster_name,
            source="daemon",
        )
        for job, ran_s in ended
        if ended_by_itself(job, memory)
    ]
    for some in in_parts(runs[-MOST_RUNS:]):
        _insert(connection, some)
    if runs:
        _drop_oldest(connection)


def add(engine: Engine, runs: Iterable[Sequence[LearnedRun]]) -> int:
    """Write runs, each part in a transaction of its own; return how many of them were not there. Raises StoreError."""
    new = 0
    paced = PacedWrites(engine, "write what was learned")
    for some in runs:
        with paced.begin() as connection:
            new += _insert(connection, some)
    with paced.begin() as connection:
        _drop_oldest(connection)
    return new


def in_parts(runs: Sequence[LearnedRun]) -> list[Sequence[LearnedRun]]:
    """Cut runs into parts: each in a transaction of its own lets the daemon write soon, and a query takes no more."""
    return [runs[start : start + CHUNK] for start in range(0, len(runs), CHUNK)]


def _insert(connection: Connection, runs: Sequence[LearnedRun]) -> int:
    rows = {row["run"]: row for row in map(_values, runs)}
    there = set(connection.scalars(select(FinishedRunRow.run).where(FinishedRunRow.run.in_(list(rows)))))
    new = [row for name, row in rows.items() if name not in there]
    if new:
        insert_new(connection, FinishedRunRow, new)
    return len(new)


def _drop_oldest(connection: Connection) -> None:
    newest = select(FinishedRunRow.end_s).order_by(FinishedRunRow.end_s.desc())
    oldest = connection.scalar(newest.offset(MOST_RUNS - 1).limit(1))
    if oldest is not None:
        connection.execute(delete(FinishedRunRow).where(FinishedRunRow.end_s < oldest))


def load(engine: Engine, cluster: str, *, after: int = 0) -> tuple[list[FinishedRun], int]:
    """Runs of this cluster and of traces, oldest end first, and the key of the last one written. Raises StoreError.

    With `after`, only those that were written after the one with this key.
    """
    with reader(engine, "read what was learned") as connection:
        rows = connection.execute(_of_cluster(cluster).where(FinishedRunRow.key > after)).all()
        last = connection.scalar(select(func.max(FinishedRunRow.key)))
    return [_run(row) for row in sorted(rows, key=lambda row: (row.end_s, row.key))], max(last or 0, after)


def load_groups(engine: Engine, cluster: str, job: JobFacts) -> list[FinishedRun]:
    """Runs of this cluster and of traces that the groups of one job keep, oldest end first. Raises StoreError.

    A few thousand at most, of which a job's run time is predicted as if all runs had been learned.
    """
    newest = _of_cluster(cluster).order_by(FinishedRunRow.end_s.desc(), FinishedRunRow.run_s.desc())
    with reader(engine, "read what was learned") as connection:
        found = {row.key: row for row in connection.execute(newest.limit(RUNS_OF_ALL))}
        if job.account or job.partition:
            same = (FinishedRunRow.account == job.account, FinishedRunRow.partition == job.partition)
            found.update((row.key, row) for row in connection.execute(newest.where(*same).limit(RUNS_PER_GROUP)))
        if job.user:
            rows = connection.execute(newest.where(FinishedRunRow.user == job.user))
            found.update((row.key, row) for row in _of_user(rows, job))
    return [_run(row) for row in sorted(found.values(), key=lambda row: (row.end_s, row.key))]


def _of_user(rows: Iterable[Row[Any]], job: JobFacts) -> Iterator[Row[Any]]:
    """Yield the runs of the job's user, newest first, until its own group is full, and with it the wider ones."""
    pattern, shape = name_pattern(job.job_name), keys_of(job)[Likeness.SAME_SHAPE]
    alike = 0
    for place, row in enumerate(rows):
        same_name = name_pattern(row.name) == pattern
        if same_name or place < RUNS_PER_GROUP:
            yield row
        if same_name and keys_of(_run(row)).get(Likeness.SAME_SHAPE) == shape:
            alike += 1
            if alike == RUNS_PER_GROUP:
                return


def _of_cluster(cluster: str) -> Select[*tuple[Any, ...]]:
    """Query of the columns of a run: an object of each row takes several times as long."""
    return select(*_COLUMNS).where(FinishedRunRow.cluster.in_(["", cluster]))


def clusters(engine: Engine) -> tuple[str, ...]:
    """Clusters whose runs the store has, that of the newest run first; a trace's has no name. Raises StoreError."""
    with reader(engine, "read what was learned") as connection:
        query = select(FinishedRunRow.cluster).where(FinishedRunRow.cluster != "").group_by(FinishedRunRow.cluster)
        return tuple(connection.scalars(query.order_by(func.max(FinishedRunRow.end_s).desc())))


def count(engine: Engine) -> int:
    """Number of the runs that are kept. Raises StoreError."""
    with reader(engine, "read what was learned") as connection:
        return connection.scalar(select(func.count()).select_from(FinishedRunRow)) or 0


def forget(engine: Engine) -> int:
    """Delete all runs, with the levels that came of them; the number of runs. Raises StoreError."""
    with store_errors("forget what was learned"), writing(engine).begin() as connection:
        connection.execute(delete(RunTimeLevelsRow))
        return connection.execute(delete(FinishedRunRow)).rowcount


def forget_before(connection: Connection, before: UnixSeconds) -> int:
    """Delete the runs that ended before that time; the number of them. The levels that came of them stay."""
    return connection.execute(delete(FinishedRunRow).where(FinishedRunRow.end_s < before)).rowcount


def _run(row: Row[Any]) -> FinishedRun:
    return FinishedRun(
        user=row.user,
        account=row.account,
        partition=row.partition,
        job_name=row.name,
        gpus=row.gpus,
        cpus=row.cpus,
        nodes=row.nodes,
        time_limit_s=row.time_limit_s,
        run_s=row.run_s,
        end_s=row.end_s,
    )


def _values(one: LearnedRun) -> Values:
    run = one.run
    return {
        "cluster": storable(one.cluster),
        "run": storable(one.name),
        "source": one.source,
        "user": storable(run.user),
        "account": storable(run.account),
        "partition": storable(run.partition),
        "name": storable(run.job_name),
        "gpus": run.gpus,
        "cpus": run.cpus,
        "nodes": run.nodes,
        "time_limit_s": run.time_limit_s,
        "run_s": run.run_s,
        "end_s": run.end_s,
    }
