"""Comparison of `benchmarks.twin`: what the real jobs said beside what the simulated ones did, and the record of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from tesched_sim.result import Result
from tesched_sim.workload import Workload, WorkloadError

from tesched_testcluster.harness.twin.jobs import Draw, Entry, entries, submitted_at
from tesched_testcluster.harness.twin.policies import PASS_S, Contender, simulated

#: jobs that come before the cluster is full
UNDISTURBED = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Record of one job, or training, on the real Slurm; Unix seconds."""

    submitted: float
    #: of its first run, and the end of its last
    started: float
    done: float
    #: how often it was put back in the queue; of a training all its tasks together
    restarts: int
    #: seconds of work, of its last run's nodes' making, for each second on its fewest nodes of its fastest type
    pace: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRun:
    """Record of one policy on the real Slurm."""

    #: in the order of submission
    jobs: tuple[Seen, ...]
    #: orders whose victims left for nothing, by the state store
    futile: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What `--record` keeps: the jobs that were drawn, and what was seen of them, by policy."""

    of: Draw
    runs: dict[str, SeenRun]

    @staticmethod
    def read(path: Path, of: Draw) -> Record:
        """Return what was recorded of these jobs; of a file that is not there nothing.

        Raises WorkloadError for other jobs or another number of them, and for what can be no record, such as a folder.
        """
        if not path.parent.is_dir():
            raise WorkloadError(f"--record {path}: there is no folder {path.parent}; make it first")
        if path.is_dir():
            raise WorkloadError(f"--record {path}: it is a folder; name a file")
        if not path.exists():
            return Record(of=of, runs={})
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Record)
        except msgspec.DecodeError as error:
            raise WorkloadError(f"--record {path}: it is no record of this benchmark: {error}") from None
        if found.of != of:
            raise WorkloadError(f"--record {path}: it was recorded with {found.of.arguments}, not {of.arguments}")
        whole = of.jobs + of.trainings
        for name, run in found.runs.items():
            if len(run.jobs) != whole:
                raise WorkloadError(f"--record {path}: {name} has {len(run.jobs)} jobs, not {whole}: take another file")
        return found

    def write(self, path: Path) -> None:
        """Write it."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one run. Waits are all that passed but the work, on a job's fastest type with most nodes; seconds."""

    te_mean_s: float
    te_p50_s: float
    te_p95_s: float
    be_mean_s: float
    be_p50_s: float
    be_p95_s: float
    #: how often jobs were put back in the queue
    victims: int
    #: orders whose victims left for nothing
    futile: int
    #: from the first submission to the last end
    makespan_s: float

    @staticmethod
    def of(wait_s: NDArray[np.float64], te: NDArray[np.bool_], counts: tuple[int, int], makespan_s: float) -> Figures:
        """Return the figures of these waits [jobs]; `counts` are victims and futile."""
        te_p50, te_p95 = np.percentile(wait_s[te], (50, 95)).tolist()
        be_p50, be_p95 = np.percentile(wait_s[~te], (50, 95)).tolist()
        return Figures(
            te_mean_s=float(wait_s[te].mean()),
            te_p50_s=te_p50,
            te_p95_s=te_p95,
            be_mean_s=float(wait_s[~te].mean()),
            be_p50_s=be_p50,
            be_p95_s=be_p95,
            victims=counts[0],
            futile=counts[1],
            makespan_s=makespan_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """One policy, really and simulated."""

    policy: str
    jobs: int
    real: Figures
    simulated: Figures
    #: percent by which the simulated figure is above the real one; None where that is 0 and the other is not
    differs: Mapping[str, float | None]
    #: jobs that were preempted, really and simulated, and those that were both times
    preempted: tuple[int, int]
    same: int


def difference(real: float, virtual: float) -> float | None:
    """Return by how many percent the second is above the first; None: the first is 0 and the second is not."""
    if real == virtual:
        return 0.0
    return None if real == 0 else (virtual / real - 1) * 100


def compared(one: Contender, workload: Workload, run: SeenRun) -> Twin:
    """Simulate the jobs at the submission times that they really had, and compare."""
    whole = list(entries(workload))
    seen = run.jobs
    second_s, start_s = took(whole, seen)
    stretched = _stretched(workload, second_s, saves=not one.is_native)
    first = seen[0].submitted
    result = simulated(one, submitted_at(stretched, [each.submitted - first for each in seen]), start_s)
    te = np.array([each.te for each in whole])
    daemon = result.daemon
    done = result.run()
    _check_ended(done, whole)
    # A training's undisturbed run is that with all its workers: `with_trainings_as_jobs`.
    run_s = done.workload.run_s
    real_s = np.array([each.done - each.submitted for each in seen]) - run_s
    restarts, again = np.array([each.restarts for each in seen]), done.preempted
    real = Figures.of(real_s, te, (int(restarts.sum()), run.futile), max(each.done for each in seen) - first)
    futile = len(daemon.futile) if daemon is not None else 0
    virtual = Figures.of(done.waited_s, te, (int(again.sum()), futile), float(done.end_s.max()))
    names = [field.name for field in fields(Figures)]
    return Twin(
        policy=one.name,
        jobs=len(whole),
        real=real,
        simulated=virtual,
        differs={name: difference(getattr(real, name), getattr(virtual, name)) for name in names},
        preempted=(int((restarts > 0).sum()), int((again > 0).sum())),
        same=int(((restarts > 0) & (again > 0)).sum()),
    )


def _stretched(workload: Workload, second_s: float, *, saves: bool) -> Workload:
    """Return the jobs with seconds of work as long as they really were."""
    one = np.full(len(workload), second_s)
    if workload.array is not None:
        one[workload.array >= 0] = 1.0  # a training's tasks work by the clock
    return replace(
        workload, run_s=workload.run_s * one, saves_on_notice=workload.saves_on_notice & saves, limit_s=workload.limit_s
    )


def took(whole: Sequence[Entry], seen: Sequence[Seen]) -> tuple[float, float]:
    """Return the measured length of a second of work, and how long a job holds its nodes besides; seconds.

    The first jobs come to an empty cluster: what passes then besides their work is what a start and an end take.
    """
    alone = [
        (job.ticks * each.pace, each)
        for job, each in zip(whole, seen, strict=True)
        if not each.restarts and job.array < 0
    ]
    second_s = float(np.median([(each.done - each.started) / work_s for work_s, each in alone]))
    besides = [each.done - each.submitted - work_s * second_s for work_s, each in alone[:UNDISTURBED]]
    # A job that comes waits for the next pass, half the time between two in the mean; that is no part of its run.
    return second_s, max(float(np.mean(besides)) - PASS_S / 2, 0.0)


def _check_ended(result: Result, whole: Sequence[Entry]) -> None:
    left = [job.name for job, ended in zip(whole, result.finished.tolist(), strict=True) if not ended]
    if left:
        raise WorkloadError(f"{len(left)} simulated jobs do not run to their end, such as {left[0]}")


#: head of each column, and the figure
COLUMNS = (
    ("TE MEAN", "te_mean_s"),
    ("TE P50", "te_p50_s"),
    ("TE P95", "te_p95_s"),
    ("BE MEAN", "be_mean_s"),
    ("BE P50", "be_p50_s"),
    ("BE P95", "be_p95_s"),
    ("VICTIMS", "victims"),
    ("FUTILE", "futile"),
    ("MAKESPAN", "makespan_s"),
)


def table(policies: Sequence[str], twins: Iterable[Twin]) -> Iterator[str]:
    """Yield a head, and as soon as each of these policies is done its three lines: real, simulated, difference."""
    first = max(len(name) for name in ("POLICY", *policies))
    yield _line(first, "POLICY", "", [head for head, _ in COLUMNS])
    for twin in twins:
        for policy, side, figures in ((twin.policy, "real", twin.real), ("", "simulated", twin.simulated)):
            yield _line(first, policy, side, [_said(getattr(figures, name)) for _, name in COLUMNS])
        yield _line(first, "", "differs", [_percent(twin.differs[name]) for _, name in COLUMNS])


def _line(first: int, policy: str, side: str, words: Sequence[str]) -> str:
    return f"{policy:{first}}  {side:9}  " + "  ".join(f"{word:>8}" for word in words)


def _said(value: float) -> str:
    return f"{value}" if isinstance(value, int) else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f} %"
