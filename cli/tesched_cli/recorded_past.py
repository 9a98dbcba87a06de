"""Recorded jobs to be run again: the state store's last days, sacct's, or a file that sacct printed.

`tesched whatif` and `tesched advise` run them on a simulated Slurm with the nodes that the site has now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TypeVar

import click
import numpy as np
from click.core import ParameterSource
from numpy.typing import NDArray
from tesched_core.intake.delays import delay_by
from tesched_core.model.cluster import FINISHED, JobState, Node, SlurmSettings
from tesched_core.model.order import Victim
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_daemon.config import Config
from tesched_daemon.wiring import StartError, history_table, look
from tesched_db import queries as read
from tesched_db.engine import parse_url
from tesched_db.views import JobFilter, JobView
from tesched_sim import traces, workloads
from tesched_sim.reports.summary import MeanAndPercentiles
from tesched_sim.traces.recorded import STEPS, Recorded
from tesched_sim.traces.sacct import printed
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError, fitting

from tesched_cli.common import NumberRange, say, store
from tesched_cli.left_out import LeftOut, NotRunJobs, OfStore, of_store, of_trace, remarks
from tesched_cli.needed_runs import needed_s
from tesched_cli.simulating import refuse_twice
from tesched_cli.this_site import alike

T = TypeVar("T")

DAY_S = 86_400.0
_RUNNING = frozenset({JobState.RUNNING, JobState.SUSPENDED})
#: settings of a workload that say what its nodes are
_OF_NODES = frozenset({"nodes", "cpus", "mem_gib", "gpus"})


class _Days(NumberRange):
    name = "days"


#: of `--days`: sacct is read for ten years at most
DAYS = _Days(0, 3650, min_open=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the jobs are to come from; by itself from the state store or, where that has none, from sacct."""

    trace: Path | None
    sacct: bool

    def __post_init__(self) -> None:
        """Raise UsageError for two sources."""
        if self.trace is not None and self.sacct:
            raise click.UsageError("--sacct and --trace: only one of them")

    @property
    def is_store(self) -> bool:
        """Check whether the jobs are those of the store: none can be added to them."""
        return self.trace is None and not self.sacct


def source_options(command: Callable[..., T]) -> Callable[..., T]:
    """Options that say where the jobs come from; the command is given a `source`."""

    @wraps(command)
    def with_source(*, trace: Path | None, sacct: bool, **others: object) -> T:
        given = click.get_current_context().get_parameter_source("days")
        if trace is not None and given is ParameterSource.COMMANDLINE:
            raise click.UsageError("--days and --trace: only one of them; all jobs of a trace run again")
        return command(source=Source(trace=trace, sacct=sacct), **others)

    for option in (
        click.option(
            "--trace",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Instead of the state store's days, those of a file that sacct printed "
            "(docs/reference/workloads.md has the command).",
        ),
        click.option(
            "--sacct",
            is_flag=True,
            help="Instead of the state store's days, those of Slurm's accounting; so it is without the option where "
            "the store has none.",
        ),
    ):
        with_source = option(with_source)
    return with_source


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassOutcome:
    """Waits and preemptions of one class's jobs, in fact or in the simulation. Seconds; None where there is nothing."""

    case: str
    job_class: str
    jobs: int
    wait_p50_s: float | None
    wait_p95_s: float | None
    slowdown_p50: float | None
    slowdown_p95: float | None
    #: None: not reported
    preempted: int | None
    lost_node_h: float | None = None
    #: mean delay of those that were preempted (docs/reference/delays.md)
    delay_mean_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPast:
    """Recorded jobs, and the workload made of them."""

    title: str
    #: jobs that are run again; trainings that were added are none of them
    jobs: int
    workload: Workload
    lines: Sequence[ClassOutcome]
    #: jobs that are left out besides those that do not fit on the nodes, and those of them that have not run
    besides: tuple[LeftOut, ...]
    not_run: tuple[NotRunJobs, ...]
    #: the site's slurm.conf
    slurm: SlurmSettings = SlurmSettings()

    @property
    def left_out(self) -> int:
        """Number of jobs that do not fit on the nodes."""
        return self.workload.left_out

    def remarks(self) -> Iterator[str]:
        """Yield sentences about the jobs that are not run again."""
        if self.left_out:
            yield f"{self.left_out} job(s) are left out: they do not fit on these nodes, even on empty ones."
        yield from remarks(self.besides, self.not_run)


def past_of(
    config_path: Path, config: Config, source: Source, *, days: float, settings: Mapping[str, str]
) -> RecordedPast:
    """Jobs of a trace, of the state store or, where that has none, of sacct. Raises WorkloadError and StartError.

    `settings` are of the workload (`parted`), and can be given for a trace and sacct alone.
    """
    if source.trace is not None:
        return past_of_trace(source.trace, config, settings)
    if source.sacct:
        return past_of_sacct(config, days, settings)
    if settings:
        key = next(iter(settings))
        raise WorkloadError(f"--set workload.{key}: only with --trace or --sacct; the state store knows")
    if _has_store(config):
        past = past_of_store(config_path, config, days)
        if past is not None:
            return past
        lacking = f"the state store knows of no job that ran and ended in the last {days:g} days"
    else:
        lacking = f"there is no state store at {config.store.shown()}"
    try:
        return past_of_sacct(config, days, settings, why=lacking)
    except (StartError, WorkloadError) as error:
        raise WorkloadError(f"{lacking}, and {error}; --trace takes what sacct prints instead") from None


def _has_store(config: Config) -> bool:
    """Check for the state store; what cannot be examined is taken to be there."""
    url = parse_url(config.store.url)
    if url.get_backend_name() != "sqlite":
        return True
    try:
        Path(url.database or "").stat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def past_of_store(config_path: Path, config: Config, days: float) -> RecordedPast | None:
    """Jobs of the last days that the state store has; None: it has none. Raises StoreError."""
    with store(config_path) as engine:
        since = time.time() - days * DAY_S
        ended = read.jobs(engine, JobFilter(with_gone=True, ended_since=since, states=frozenset(FINISHED)))
        there = read.jobs(engine, JobFilter(with_gone=True, states=_RUNNING | {JobState.PENDING}))
        victims = read.as_victims(engine, [job.key for job in (*ended, *there)])
    jobs = OfStore.of(ended, there, since=since)
    if all(job.job_class is JobClass.EXEMPT for job in jobs.ran):
        return None
    seen = look(config)
    workload, kept = _workload((*jobs.ran, *jobs.running), victims, seen)
    workload = _with_running(workload, sum(job.state in _RUNNING for job in kept))
    title = f"{len(workload)} jobs of the last {days:g} days"
    return RecordedPast(
        title=title,
        jobs=len(workload),
        workload=workload,
        lines=_as_it_was(kept, victims),
        besides=jobs.left_out,
        not_run=of_store(jobs.waited),
        slurm=seen.settings,
    )


def _with_running(workload: Workload, count: int) -> Workload:
    """The workload, whose notes say how many of its jobs still run."""
    text = f"{count} job(s) still run: they run again for as long as they have run so far"
    return replace(workload, notes=(*workload.notes, text)) if count else workload


def past_of_sacct(config: Config, days: float, settings: Mapping[str, str], *, why: str = "") -> RecordedPast:
    """Jobs of the last days that Slurm's accounting has; what was read is said on stderr.

    `why` says why it is sacct that is read, where no option says so. Raises StartError and WorkloadError.
    """
    recorded = printed(history_table(config, days * DAY_S), time.time())
    users = len({*recorded.users})
    if not len(recorded.run_s):
        raise WorkloadError(f"sacct shows no job that ran and ended in the last {days:g} days")
    text = f"read from sacct: {len(recorded.run_s)} jobs of {users} user(s), of the last {days:g} days"
    if users == 1:
        text += "; where jobs are private (PrivateData), it shows other users' to operators alone"
    say(f"{why}; {text}" if why else text, err=True)
    past = _past(recorded, config, settings, of=f"the last {days:g} days, by sacct")
    return replace(past, workload=replace(past.workload, notes=(text, *past.workload.notes)))


def past_of_trace(path: Path, config: Config, settings: Mapping[str, str]) -> RecordedPast:
    """Jobs of a trace. Raises WorkloadError."""
    recorded = traces.read(path)
    if not recorded.has_times:
        raise WorkloadError(f"{path}: it has no submission times, so it cannot be run again")
    return _past(recorded, config, settings, of=path.name)


def _past(recorded: Recorded, config: Config, settings: Mapping[str, str], *, of: str) -> RecordedPast:
    """Jobs on the nodes that are up or, where any of `_OF_NODES` is set, on equal ones.

    Of equal nodes there are as many as are up, each like most of them, except for what is set.
    """
    seen = look(config)
    nodes = _nodes(seen)
    known, machines = dict(settings), None
    if _OF_NODES & settings.keys():
        known = alike(nodes) | known
    else:
        machines = _machines(nodes)
    found = workloads.filled(recorded, known, seed=0, machines=machines)
    running = sum(recorded.states[row] in _RUNNING for row in found.rows.tolist())
    workload, jobs = _with_running(found.workload, running), len(found.rows)
    # Workers of trainings that were added are no jobs of the trace.
    te = workload.te if workload.array is None else workload.te[workload.array < 0]
    waited_s, run_s = recorded.waited_s[found.rows], recorded.run_s[found.rows]
    lines = [
        _line(name, int(mine.sum()), waited_s[mine], (1 + waited_s / run_s)[mine])
        for name, mine in (("te", te), ("be", ~te))
    ]
    return RecordedPast(
        title=f"{jobs} jobs of {of}",
        jobs=jobs,
        workload=workload,
        lines=lines,
        besides=tuple(
            LeftOut(why=why, jobs=count, such_as="") for why, count in recorded.left_out.items() if why != STEPS
        ),
        not_run=of_trace(recorded.not_run, found.not_run_te),
        slurm=seen.settings,
    )


def _nodes(snapshot: Snapshot) -> list[Node]:
    """The nodes that are up. Raises WorkloadError if there is none."""
    nodes = [node for node in snapshot.nodes.values() if node.available]
    if not nodes:
        raise WorkloadError("Slurm has no node that is up")
    return nodes


def _machines(nodes: Sequence[Node]) -> SimulatedNodes:
    total = np.array([[node.total.cpus, node.total.mem_mib, node.total.gpus] for node in nodes], dtype=np.int64)
    return SimulatedNodes(
        names=tuple(node.name for node in nodes), resources=("cpu", "mem_mib", "gpu"), total=total.reshape(-1, 3)
    )


def parted(sets: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Part `--set` into what is set of the configuration or the simulated site, and what of the workload."""
    refuse_twice(sets)
    of_setting: dict[str, str] = {}
    of_workload: dict[str, str] = {}
    for word in sets:
        key, equals, value = word.partition("=")
        if not equals:
            raise WorkloadError(f"--set {word}: it takes the form key=value")
        if key.startswith("workload."):
            of_workload[key.removeprefix("workload.")] = value
        else:
            of_setting[key] = value
    return of_setting, of_workload


def _workload(
    jobs: Sequence[JobView], victims: Mapping[int, Sequence[Victim]], snapshot: Snapshot
) -> tuple[Workload, Sequence[JobView]]:
    """Put the jobs on the cluster's nodes, and return those that are; what does not fit on them now is left out."""
    machines = _machines(_nodes(snapshot))
    many = np.array([max(job.min_nodes, 1) for job in jobs], dtype=np.int64)
    wants = np.array([[job.cpus, job.mem_mib, job.gpus] for job in jobs], dtype=np.float64) / many[:, np.newaxis]
    demand = np.maximum(np.ceil(wants), 0).astype(np.int64)
    demand[demand.sum(axis=1) == 0, 0] = 1
    fits = fitting(machines, demand, many)
    if not fits.any():
        raise WorkloadError("no job of these days fits on the nodes that are up now")
    kept = [job for job, fit in zip(jobs, fits, strict=True) if fit]
    first = min(job.first_submit_time for job in kept)
    users = {name: row for row, name in enumerate(dict.fromkeys(job.user for job in kept))}
    run_s = np.array([needed_s(job, victims.get(job.key, ())) for job in kept])
    exempt = [job.job_class is JobClass.EXEMPT for job in kept]
    notes = [
        "jobs, run times, classes and grace periods are the state store's; nodes are those that are up now",
        "a job that is sent a signal saves its work, and loses its grace period; any other loses its run",
        "partitions, limits and dependencies are not simulated",
    ]
    if any(exempt):
        text = "they hold their nodes, are victims of none, and count to no class"
        notes.append(f"{sum(exempt)} job(s) are exempt: {text}")
    workload = Workload.of(
        "the last days",
        machines,
        submit_s=[job.first_submit_time - first for job in kept],
        run_s=run_s,
        limit_s=np.maximum([np.inf if job.time_limit_s is None else job.time_limit_s for job in kept], run_s),
        nodes=many[fits],
        demand=demand[fits],
        te=[job.job_class is JobClass.TE for job in kept],
        grace_s=[job.grace_period_s for job in kept],
        saves_on_notice=[job.gets_notice for job in kept],
        user=[users[job.user] for job in kept],
        user_names=tuple(users),
        exempt=exempt if any(exempt) else None,
        left_out=int((~fits).sum()),
        notes=notes,
    )
    return workload, kept


def _as_it_was(jobs: Sequence[JobView], victims: Mapping[int, Sequence[Victim]]) -> list[ClassOutcome]:
    lines = []
    for job_class in (JobClass.TE, JobClass.BE):
        mine = [job for job in jobs if job.job_class is job_class]
        known = [job for job in mine if job.waited_s is not None]
        waited_s = np.array([job.waited_s for job in known], dtype=np.float64)
        ran_s = np.array([job.ran_s for job in known], dtype=np.float64)
        run_s = np.array([needed_s(job, victims.get(job.key, ())) for job in known])
        preempted = sum(job.preemptions > 0 for job in mine)
        line = _line(job_class.value, len(mine), waited_s, (waited_s + ran_s) / run_s, preempted)
        each_s = (
            sum(
                delay_by(victim, job.last_seen).total_s for victim in victims.get(job.key, ()) if not victim.of_own_user
            )
            for job in mine
        )
        delays_s = [delay_s for delay_s in each_s if delay_s > 0]
        lines.append(replace(line, delay_mean_s=sum(delays_s) / len(delays_s) if delays_s else None))
    return lines


def _line(
    job_class: str,
    jobs: int,
    waited_s: NDArray[np.float64],
    slowdown: NDArray[np.float64],
    preempted: int | None = None,
) -> ClassOutcome:
    known = np.isfinite(waited_s)
    waits, slow = MeanAndPercentiles.of(waited_s[known]), MeanAndPercentiles.of(slowdown[known])
    return ClassOutcome(
        case="as it was",
        job_class=job_class,
        jobs=jobs,
        wait_p50_s=waits.p50,
        wait_p95_s=waits.p95,
        slowdown_p50=slow.p50,
        slowdown_p95=slow.p95,
        preempted=preempted,
    )
