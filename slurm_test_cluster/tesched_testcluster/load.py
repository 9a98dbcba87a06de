"""A mix of best-effort and trial-and-error jobs for a test cluster, and what they wrote about themselves.

The jobs are real batch jobs that work in ticks. By default they are ordinary scripts, which trap nothing
(`ordinary.sh`). Those that declare a signal, save their work and go on from it (`job.sh`) are chosen by name:
`on_notice`.
`plan` draws them from a seeded generator, `submit_load` submits them in their time, `read_events` shows what happened.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal, get_args

from tesched_testcluster.cluster import Cluster

#: What happened to the jobs of a load, in its folder: a line of each event.
EVENTS = "events.log"
#: A file in the folder of the load, for as long as no job of the kind may end: "hold-be"
HOLD = "hold-{kind}"
#: the same for as long as no job of the kind may complete a checkpoint: one that saves its work is still at it
SAVING = "saving-{kind}"
JOB_SCRIPT = Path(__file__).with_name("job.sh")
#: as most users write them: it traps nothing, and saves nothing
ORDINARY_SCRIPT = Path(__file__).with_name("ordinary.sh")

Kind = Literal["be", "te"]
#: what a job does when it gets its notice; `job.sh` says it in full
OnNotice = Literal["exit", "requeue", "stay", "finish", "ignore", "term", "unaware"]
#: These declare no signal: one that is unaware traps nothing, `term` saves on the SIGTERM of a requeue.
UNDECLARED: tuple[OnNotice, ...] = ("term", "unaware")


class EventName(StrEnum):
    """Events that a job writes down."""

    START = "start"
    RESTART = "restart"
    NOTICE = "notice"
    CHECKPOINT = "checkpoint"
    #: it gives way, its checkpoint written
    LEAVE = "leave"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """One job to submit."""

    name: str
    kind: Kind
    #: seconds after the load's begin
    submit_after_s: float = 0.0
    nodes: int = 1
    #: above `nodes`: it takes so many if they are free, and gives no tasks and CPUs, which would keep it to `nodes`
    most_nodes: int = 0
    #: of each node
    cpus: int = 1
    mem_mib: int = 1000
    gpus: int = 0
    #: work, over all its runs
    ticks: int
    tick_s: float = 0.1
    on_notice: OnNotice = "unaware"
    #: seconds that writing a checkpoint takes
    checkpoint_s: float = 0.0
    #: ticks between checkpoints without a notice; 0 for none
    checkpoint_every: int = 0
    #: an ordinary script's first runs that end with RequeueExit, each after so many ticks
    requeues: int = 0
    requeue_after: int = 0
    #: further sbatch options, such as --partition=debug
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a job that could not do what it should."""
        if self.on_notice == "unaware" and (self.checkpoint_s or self.checkpoint_every):
            raise ValueError(f"{self.name} is an ordinary script, which writes no checkpoint: say on_notice")
        if self.requeues and (self.on_notice != "unaware" or self.requeue_after >= self.ticks):
            raise ValueError(f"{self.name} can't requeue itself: it saves its work, or ends before")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Jobs of a load. Each size is drawn from its tuple: a value that stands there twice comes twice as often."""

    be_count: int = 24
    te_count: int = 12
    #: best-effort jobs are submitted in the first of these seconds, trial-and-error jobs evenly drawn over the second
    be_span_s: float = 2.0
    te_span_s: float = 30.0
    tick_s: float = 0.1
    be_ticks: tuple[int, ...] = (50, 100, 200)
    te_ticks: tuple[int, ...] = (10, 20, 50)
    be_gpus: tuple[int, ...] = (1, 2, 4, 4, 8)
    te_gpus: tuple[int, ...] = (1, 1, 2, 4)
    cpus_per_gpu: int = 4
    mem_mib_per_gpu: int = 16_000
    on_notice: tuple[OnNotice, ...] = ("unaware",)
    #: of those that save
    checkpoint_s: tuple[float, ...] = (0.2, 0.5, 1.0)
    checkpoint_every: int = 0
    #: sbatch options of each kind; a cluster's policy must distinguish the two by these or by the name, be-… and te-…
    options: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for a mix that cannot be drawn."""
        if self.be_count < 0 or self.te_count < 0:
            raise ValueError("a load cannot have fewer than 0 jobs of a kind")
        if self.tick_s <= 0 or self.be_span_s < 0 or self.te_span_s < 0:
            raise ValueError("a tick lasts more than 0 s, and jobs come in 0 s or more")
        unknown = set(self.on_notice) - set(get_args(OnNotice))
        if unknown:
            raise ValueError(f"not known as an answer to a notice: {', '.join(sorted(unknown))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the events that jobs write."""

    #: seconds since 1970
    time: float
    job_id: int
    job_name: str
    name: EventName
    ticks_done: int
    restarts: int
    node: str


def plan(mix: Mix, rng: random.Random) -> tuple[LoadJob, ...]:
    """Draw the jobs of a mix, in the order of their submission. The same generator state gives the same jobs."""
    jobs = [_draw(mix, rng, "be", number) for number in range(1, mix.be_count + 1)]
    jobs += [_draw(mix, rng, "te", number) for number in range(1, mix.te_count + 1)]
    return tuple(sorted(jobs, key=lambda job: job.submit_after_s))


def scripts_in(folder: Path) -> Path:
    """Copy the jobs' scripts to a folder that every user may read, unlike a checkout; return the one for `submit`."""
    for script in (JOB_SCRIPT, ORDINARY_SCRIPT):
        (folder / script.name).write_bytes(script.read_bytes())
        (folder / script.name).chmod(0o644)
    return folder / JOB_SCRIPT.name


def submit(cluster: Cluster, job: LoadJob, folder: Path, *, script: Path = JOB_SCRIPT, user: str | None = None) -> int:
    """Submit one job, which writes to `folder`, and return its id. Folder and script are as the cluster sees them."""
    gres = (f"--gres=gpu:{job.gpus}",) if job.gpus else ()
    shape = [f"--nodes={job.nodes}", "--ntasks-per-node=1", f"--cpus-per-task={job.cpus}"]
    if job.most_nodes > job.nodes:
        shape = [f"--nodes={job.nodes}-{job.most_nodes}"]
    return cluster.sbatch(
        f"--job-name={job.name}",
        *shape,
        f"--mem={job.mem_mib}M",
        *gres,
        "--open-mode=append",
        f"--output={folder}/{job.name}.out",
        *_with_comment(job),
        script=script.with_name(ORDINARY_SCRIPT.name) if job.on_notice == "unaware" else script,
        arguments=(
            str(job.ticks),
            str(job.tick_s),
            job.on_notice,
            str(job.checkpoint_s),
            str(job.checkpoint_every),
            str(folder),
            # Not by --export: a list of variables makes Slurm run a login shell for each job.
            str(cluster.definition.requeue_exit),
            str(job.requeues),
            str(job.requeue_after),
        ),
        user=user,
    )


def _with_comment(job: LoadJob) -> tuple[str, ...]:
    """Return the job's own options, and in its comment which signal it traps.

    Not by --signal: Slurm would send that some time before the time limit, too, which is a minute for short jobs.
    """
    if job.on_notice in UNDECLARED:
        return job.options
    # On newer releases exit 0 after a signal means "run me again" by default.
    said = "signal=B:USR1" + (" exit0=finished" if job.on_notice == "finish" else "")
    own = next((option for option in job.options if option.startswith("--comment=")), "--comment=")
    others = tuple(option for option in job.options if not option.startswith("--comment="))
    return *others, f"{own} {said}" if own != "--comment=" else f"--comment={said}"


def hold(folder: Path, kind: str) -> Path:
    """Keep the jobs of a kind, those named KIND-…, from ending until the returned file is removed."""
    path = folder / HOLD.format(kind=kind)
    path.touch()
    return path


def keep_saving(folder: Path, kind: str) -> Path:
    """Keep the jobs of a kind from completing a checkpoint until the returned file is removed."""
    path = folder / SAVING.format(kind=kind)
    path.touch()
    return path


def submit_load(
    cluster: Cluster, jobs: Iterable[LoadJob], folder: Path, *, progress: Callable[[LoadJob, int], None] | None = None
) -> dict[str, int]:
    """Submit each job in its time, and return the ids by name. `progress` is called after each."""
    begin = time.monotonic()
    ids = {}
    for job in jobs:
        # The pace of the load is its meaning; there is no condition to await.
        time.sleep(max(0.0, begin + job.submit_after_s - time.monotonic()))
        ids[job.name] = submit(cluster, job, folder)
        if progress is not None:
            progress(job, ids[job.name])
    return ids


def read_events(folder: Path) -> tuple[Event, ...]:
    """Return what the jobs that write to `folder` have said so far, in order of time."""
    log = folder / EVENTS
    return parse_events(log.read_text()) if log.exists() else ()


def parse_events(text: str) -> tuple[Event, ...]:
    """Return the events of a log's text, in order of time. ValueError for a line that no job writes."""
    # A last line without an end is still being written.
    lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return tuple(sorted(map(_parse_event, lines), key=lambda event: event.time))


def await_begun(cluster: Cluster, ids: Collection[int], folder: Path) -> None:
    """Wait until each of these jobs has written its first line: one that Slurm calls RUNNING may trap nothing yet."""
    cluster.wait_for(lambda: set(ids) <= {event.job_id for event in read_events(folder)}, f"jobs {ids} to begin")


def count_events(events: Iterable[Event]) -> dict[EventName, int]:
    """Return how often each event came."""
    return dict(Counter(event.name for event in events))


def _draw(mix: Mix, rng: random.Random, kind: Kind, number: int) -> LoadJob:
    """Draw one job."""
    best_effort = kind == "be"
    gpus = rng.choice(mix.be_gpus if best_effort else mix.te_gpus)
    on_notice = rng.choice(mix.on_notice) if best_effort else "unaware"
    saves = on_notice != "unaware"
    return LoadJob(
        name=f"{kind}-{number:03}",
        kind=kind,
        submit_after_s=round(rng.uniform(0, mix.be_span_s if best_effort else mix.te_span_s), 3),
        cpus=max(1, gpus * mix.cpus_per_gpu),
        mem_mib=max(1, gpus) * mix.mem_mib_per_gpu,
        gpus=gpus,
        ticks=rng.choice(mix.be_ticks if best_effort else mix.te_ticks),
        tick_s=mix.tick_s,
        on_notice=on_notice,
        checkpoint_s=rng.choice(mix.checkpoint_s) if saves else 0.0,
        checkpoint_every=mix.checkpoint_every if saves else 0,
        options=mix.options.get(kind, ()),
    )


def _parse_event(line: str) -> Event:
    """Return the event of one line. ValueError for a line that job.sh does not write."""
    moment, job_id, job_name, name, ticks_done, restarts, node = line.split()
    return Event(
        time=float(moment),
        job_id=int(job_id),
        job_name=job_name,
        name=EventName(name),
        ticks_done=int(ticks_done),
        restarts=int(restarts),
        node=node,
    )
