"""Cost of the state store: milliseconds a cycle. Run it from the repository: `python -m benchmarks.store`.

Every job object is new in every cycle, as it is when a poll has just been parsed. `unchanged` has the same jobs; `10 %
changed` gives every tenth job another state; `started` is the first cycle of an empty store.
"""

from __future__ import annotations

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
from tesched_db import migrate
from tesched_db import queries as read
from tesched_db.engine import open_store
from tesched_db.journal import SqlJournal
from tesched_testcluster.harness.private_postgresql import private_postgresql
from tesched_testcluster.harness.store_examples import BE, TE, Writer

ROUNDS = 20
SIZES = (1_000, 10_000)


def queue(size: int, changed: int = 0, every: int = 10) -> list[Job]:
    """Return new objects for `size` jobs, of which every tenth has been requeued `changed` times."""
    return [
        Job(
            job_id=JobId(number),
            name=f"train-{number}",
            user=f"user{number % 50}",
            account="physics",
            partitions=("gpu",),
            state=JobState.RUNNING if number % 2 else JobState.PENDING,
            restarts=changed if number % every == 0 else 0,
            reason="" if number % 2 else "Priority",
            submit_time=1000.0 + number,
            start_time=5000.0 if number % 2 else None,
            allocation=(NodeShare(node=f"n{number % 84}", tres=Tres(cpus=4)),) if number % 2 else (),
        )
        for number in range(1, size + 1)
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
        traits = {job.job_id: replace(TE if job.job_id % 10 == 2 else BE) for job in jobs}
        snapshot = Snapshot.of(at, jobs=jobs, traits=traits)
        began = time.perf_counter()
        self.write(snapshot, refusals=refusals)
        return 1000 * (time.perf_counter() - began)


def measure(store: Engine, size: int) -> Iterator[tuple[str, float]]:
    """Yield what was measured and how many milliseconds it took (medians)."""
    bench = Bench(store)
    at = 10_000.0
    said = refused(size)
    yield "started", bench.timed(at, queue(size), said)
    idle, changed = [], []
    for _ in range(ROUNDS):
        at += 2
        idle.append(bench.timed(at, queue(size), refused(size)))
    yield "unchanged", statistics.median(idle)
    for number in range(1, ROUNDS + 1):
        at += 2
        changed.append(bench.timed(at, queue(size, number), refused(size)))
    yield "10 % changed", statistics.median(changed)
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
    print(f"{'jobs':>8}  {'ms':24}" + "".join(f"{name:>14}" for name in names))
    for (size, what), row in results.items():
        print(f"{size:>8,}  {what:24}" + "".join(f"{row[name]:>14.1f}" for name in names))


if __name__ == "__main__":
    main()
