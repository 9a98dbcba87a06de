"""Trainings of `benchmarks.twin`: what the tasks of its arrays would learn, worked out from when they really ran.

A task sleeps. A thread reads when tasks began and left, brings each training as far as the simulator's model has it
with so many workers, writes its losses to the spool for the tasks that run, and cancels an array that is done.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tesched_report.document import Document, Point
from tesched_sim.arrays import TrainingModel, TrainingProgress
from tesched_testcluster.load import EventName, read_events
from tesched_testcluster.local import LocalCluster

#: seconds between two readings of the tasks
LOOK_S = 0.25
BEGINS = (EventName.START, EventName.RESTART)
ENDS = (EventName.LEAVE, EventName.DONE)


@dataclass(slots=True, kw_only=True)
class _Training:
    job_id: int
    progress: TrainingProgress
    told: int = 0


@dataclass(kw_only=True)
class Trainer:
    """The thread, while it is entered."""

    cluster: LocalCluster
    spool: Path
    #: when each training was done, by the name of its jobs; Unix seconds
    done_at: dict[str, float] = field(default_factory=dict)
    _trainings: dict[str, _Training] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def begins(self, name: str, job_id: int, model: TrainingModel) -> None:
        """Take a training whose array was submitted."""
        self._trainings[name] = _Training(job_id=job_id, progress=TrainingProgress(model=model, counted_s=time.time()))
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def __enter__(self) -> Self:
        """Begin with the first training."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            running: dict[str, set[int]] = {}
            for event in read_events(self.cluster.shared):
                mine = running.setdefault(event.job_name, set())
                if event.name in BEGINS:
                    mine.add(event.job_id)
                elif event.name in ENDS:
                    mine.discard(event.job_id)
            for name, training in list(self._trainings.items()):
                if name not in self.done_at:
                    self._look(name, training, running.get(name, set()))

    def _look(self, name: str, training: _Training, running: set[int]) -> None:
        progress = training.progress
        progress.count(time.time(), len(running))
        if progress.newest != training.told:
            training.told = progress.newest
            self._report(training, running)
        if progress.is_done:
            self.done_at[name] = time.time()
            self.cluster.run("scancel", str(training.job_id))

    def _report(self, training: _Training, running: set[int]) -> None:
        """Write the losses as those tasks would that run."""
        points = training.progress.points[:, :3].tolist()
        document = Document(points=[Point(int(iteration), loss, at) for iteration, loss, at in points])
        folder = self.spool / str(os.getuid())
        folder.mkdir(exist_ok=True)
        names = self._names()
        for job_id in running & names.keys():
            (new := folder / f".{names[job_id]}").write_bytes(document.text())
            new.rename(folder / f"{names[job_id]}.json")

    def _names(self) -> dict[int, str]:
        """Return the names of tasks, as squeue shows them, by job id."""
        lines = (line.split() for line in (self.cluster.shared / "runs.log").read_text().splitlines())
        return {int(words[0]): words[2] for words in lines if len(words) == 3}
