"""Cost of the state store: milliseconds a cycle. Run it from the repository: `python -m benchmarks.store`.

A job whose record has not changed is the very object of the poll before, as the commands client gives it. `unchanged`
has the same jobs; `1 % changed` has another start of every hundredth job; with `all read anew` each object is new and
says the same, as after a poll by pyslurm. `started` is the first cycle of an empty store. GOAL is for 1 % changed and
100,000 jobs.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import Engine
from tesched_core.model.cluster import Job, JobState, NodeShare
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.garbage import no_search_for_garbage
from tesched_db import migrate
from tesched_db import queries as read
from tesched_db.engine import open_store
from tesched_db.journal import SqlJournal
from tesched_testcluster.harness.private_postgresql import private_postgresql
from tesched_testcluster.harness.store_examples import BE, TE, Writer

ROUNDS = 10
SIZES = (1_000, 10_000, 100_000)
#: milliseconds with the most jobs, by store
GOALS_MS = {("1 % changed", "SQLite"): 50.0, ("1 % changed", "PostgreSQL"): 100.0}
TRAITS = {True: TE, False: BE}


def queue(size: int) -> list[Job]:
    """Return new objects for `size` jobs."""
    return [
        Job(
            job_id=JobId(number),
            name=f"train-{number}",
            user=f"user{number % 50}",
            account="physics",
            partitions=("gpu",),
            state=JobState.RUNNING if number % 2 else JobState.PENDING,
            reason="" if number % 2 else "Priority",
            submit_time=1000.0 + number,
            start_time=5000.0 if number % 2 else None,
            allocation=(NodeShare(node=f"n{number % 84}", tres=Tres(cpus=4)),) if number % 2 else (),
        )
        for number in range(1, size + 1)
    ]


def started_again(jobs: Sequence[Job], every: int, times: int) -> list[Job]:
    """Return the jobs; every so-many-th has started anew, for the so-many-th time."""
    return [
        job
        if job.job_id % every
        else replace(job, restarts=times, start_time=5000.0 + times, submit_time=job.submit_time, reason="")
        for job in jobs
    ]


def refused(size: int) -> list[Refusal]:
    """Return why each of ten waiting jobs gets no victim, for every hundredth job."""
    return [
        Refusal(
            job_id=JobId(candidate),
            preemptor=JobId(preemptor),
            code=RefusalCode.OUTSCORED,
            text="another one yields more",
        )
        for preemptor in range(2, 22, 2)
        for candidate in range(1, size, 100)
    ]


class Bench(Writer):
    """A writer that times itself."""

    def timed(self, at: float, jobs: Sequence[Job], refusals: Sequence[Refusal]) -> float:
        """Write one cycle; return how many milliseconds that took."""
        traits = {job.job_id: TRAITS[job.job_id % 10 == 2] for job in jobs}
        snapshot = Snapshot.of(at, jobs=jobs, traits=traits)
        with no_search_for_garbage():  # as in a turn of the daemon
            began = time.perf_counter()
            self.write(snapshot, refusals=refusals)
            return 1000 * (time.perf_counter() - began)


def measure(store: Engine, size: int) -> Iterator[tuple[str, float]]:
    """Yield what was measured and how many milliseconds it took (medians)."""
    bench = Bench(store)
    times = itertools.count(10_000, 2)
    jobs = queue(size)

    def cycle(jobs: Sequence[Job]) -> float:
        return bench.timed(float(next(times)), jobs, refused(size))

    yield "started", cycle(jobs)
    yield "unchanged", statistics.median(cycle(jobs) for _ in range(ROUNDS))
    for every, what in ((100, "1 % changed"), (10, "10 % changed")):
        yield what, statistics.median(cycle(started_again(jobs, every, turn)) for turn in range(1, ROUNDS + 1))
        cycle(jobs)
    yield "all read anew", statistics.median(cycle(queue(size)) for _ in range(ROUNDS))
    at = float(next(times))
    yield "load after a restart", once(lambda: SqlJournal(store).load())
    yield "tesched status", once(lambda: read.status(store, now=at))
    yield "tesched explain", once(lambda: read.job_story(store, "2"))


def once(call: Callable[[], object]) -> float:
    """Return how many milliseconds the call takes, the best of three."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        call()
        best = min(best, 1000 * (time.perf_counter() - began))
    return best


@contextmanager
def stores() -> Iterator[list[tuple[str, Callable[[], str]]]]:
    """Give the kinds of store, and how to make a new one of each: its URL."""
    with tempfile.TemporaryDirectory() as folder, private_postgresql(fsync=True) as server:
        count = iter(range(100))
        yield [
            ("SQLite", lambda: f"sqlite:///{folder}/{next(count)}.sqlite"),
            ("PostgreSQL", lambda: server.url(server.create())),
        ]


def main() -> None:
    """Print a table."""
    results: dict[tuple[int, str], dict[str, float]] = {}
    names: list[str] = []
    with stores() as kinds:
        names = [name for name, _ in kinds]
        for size in SIZES:
            for name, make in kinds:
                url = make()
                migrate.upgrade(url)
                store = open_store(url)
                for what, took_ms in measure(store, size):
                    results.setdefault((size, what), {})[name] = took_ms
                store.dispose()
    print(f"{'jobs':>8}  {'ms':24}" + "".join(f"{name:>14}{'GOAL':>8}" for name in names))
    for (size, what), row in results.items():
        cells = (f"{row[name]:>14.1f}{_goal(size, what, name):>8}" for name in names)
        print(f"{size:>8,}  {what:24}" + "".join(cells))


def _goal(size: int, what: str, name: str) -> str:
    goal = GOALS_MS.get((what, name)) if size == SIZES[-1] else None
    return "" if goal is None else f"{goal:.0f}"


if __name__ == "__main__":
    main()
