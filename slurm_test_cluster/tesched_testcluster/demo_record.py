"""Record of one demo: what its jobs wrote about themselves, what tesched's orders say, and what tesched printed.

It is kept as JSON beside the picture, so that the picture can be drawn again without a cluster. `runs` and `waits` read
the course of each job from it:

- A run begins with the job's own first line (`start`, `restart`). It ends with its last (`done`, `leave`). One that
  Slurm ended wrote none: it ended when tesched saw it gone, or before that, when a job began that would not have fitted
  beside it.
- A job waits from its submission to its first run, and between the runs.

Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from tesched_db.views import OrderView

from tesched_testcluster.load import Event, EventName, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """One job of the demo."""

    job_id: int
    name: str
    kind: Kind
    gpus: int
    submitted_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """One victim of an order."""

    victim: int
    preemptor: int
    nodes: tuple[str, ...]
    #: as USR1; empty: it had none, and was requeued at once
    signal: str
    #: when it had its signal, or was requeued; None: never
    noticed_at: float | None
    #: when tesched saw that it had left; None: it did not
    left_at: float | None
    #: how it left, or the victim's state
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRecord:
    """What one demo has shown."""

    #: as `scontrol --version` says it
    slurm: str
    nodes: tuple[str, ...]
    #: of each node
    gpus: int
    jobs: tuple[DemoJob, ...]
    events: tuple[Event, ...]
    preemptions: tuple[Preemption, ...]
    #: what `tesched status` printed while the TE jobs ran, and `tesched explain` of the first one afterwards
    status: str
    explain: str

    @property
    def te_submitted_at(self) -> float:
        """Return when the first TE job was submitted."""
        return min(job.submitted_at for job in self.jobs if job.kind == "te")

    @property
    def ended_at(self) -> float:
        """Return when the last job wrote its last line."""
        return max(event.time for event in self.events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a job on a node."""

    job: DemoJob
    node: str
    #: 0 is the first
    number: int
    start: float
    end: float
    #: ticks of work that were done when it began: 0 if it began at the job's beginning
    resumed_ticks: int
    #: when it got its signal and began to save, and when its work was saved; None if it did not
    saving: tuple[float, float] | None = None
    #: by which it ended
    preemption: Preemption | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A time in which a job stood in the queue."""

    job: DemoJob
    start: float
    end: float
    #: it had run before
    requeued: bool


def preemptions_of(views: Iterable[OrderView]) -> tuple[Preemption, ...]:
    """Return the victims of these orders."""
    return tuple(
        Preemption(
            victim=victim.job_id,
            preemptor=view.order.preemptor,
            nodes=victim.nodes,
            signal=victim.notice_signal,
            noticed_at=victim.noticed_at,
            left_at=victim.left_at,
            how=str(victim.departure or victim.state),
        )
        for view in views
        for victim in view.order.victims
    )


def runs(record: DemoRecord) -> tuple[Run, ...]:
    """Return the runs of all jobs, in the order of their starts."""
    found = [run for job in record.jobs for run in _runs_of(job, record)]
    return tuple(sorted(found, key=lambda run: (run.start, run.job.job_id)))


def waits(record: DemoRecord) -> tuple[Wait, ...]:
    """Return the times that jobs stood in the queue, in the order of their beginnings."""
    found = []
    for job in record.jobs:
        since = job.submitted_at
        for run in _runs_of(job, record):
            found.append(Wait(job=job, start=since, end=run.start, requeued=run.number > 0))
            since = run.end
    return tuple(sorted(found, key=lambda wait: (wait.start, wait.job.job_id)))


def read(path: Path) -> DemoRecord:
    """Return the record of a file. ValueError names the file, and what is wrong with it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=DemoRecord)
    except (OSError, msgspec.MsgspecError) as error:
        raise ValueError(f"{path} is no record of a demo: {error}") from None


def write(record: DemoRecord, path: Path) -> None:
    """Write the record as JSON, readable and with the same bytes for the same record."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def _runs_of(job: DemoJob, record: DemoRecord) -> list[Run]:
    mine = [event for event in record.events if event.job_id == job.job_id]
    starts = [event for event in mine if event.name in {EventName.START, EventName.RESTART}]
    found = []
    for number, first in enumerate(starts):
        after = starts[number + 1].time if number + 1 < len(starts) else record.ended_at
        during = [event for event in mine if first.time <= event.time <= after]
        preemption = next(
            (
                one
                for one in record.preemptions
                if one.victim == job.job_id and one.noticed_at is not None and first.time <= one.noticed_at <= after
            ),
            None,
        )
        found.append(
            Run(
                job=job,
                node=first.node,
                number=number,
                start=first.time,
                end=_end(job, first, during, preemption, record) or after,
                resumed_ticks=first.ticks_done,
                saving=_saving(during),
                preemption=preemption,
            )
        )
    return found


def _end(
    job: DemoJob, first: Event, during: Sequence[Event], preemption: Preemption | None, record: DemoRecord
) -> float | None:
    own = [event.time for event in during if event.name in {EventName.DONE, EventName.LEAVE}]
    if own:
        return own[-1]
    if preemption is None or preemption.noticed_at is None or preemption.left_at is None:
        return None
    gpus = {other.job_id: other.gpus for other in record.jobs}
    successors = (
        event.time
        for event in record.events
        if event.name in {EventName.START, EventName.RESTART}
        and event.node == first.node
        and event.time > preemption.noticed_at
        and gpus[event.job_id] + job.gpus > record.gpus
    )
    return min([preemption.left_at, *successors])


def _saving(during: Sequence[Event]) -> tuple[float, float] | None:
    began = next((event.time for event in during if event.name is EventName.NOTICE), None)
    if began is None:
        return None
    saved = next((event.time for event in during if event.name is EventName.CHECKPOINT and event.time >= began), None)
    return None if saved is None else (began, saved)
