"""Speeds of jobs by accelerator: what an admin's file and the jobs themselves have said, by workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Engine
from tesched_core.model.request import requested_gpus
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_db.reports import throughputs

from tesched_daemon.uptime import uptime_s

#: Seconds for which the table is believed; it changes by minutes.
AGE_S = 10.0


@dataclass(kw_only=True)
class StoredSpeeds:
    """Core's Speeds, from the state store. What a user's own jobs have said comes before an admin's file."""

    engine: Engine
    stopwatch: Callable[[], float] = uptime_s
    #: steps a second by user ("": all users), workload, GPUs and accelerator
    _table: Mapping[tuple[str, str, int], dict[str, float]] = field(default_factory=dict, init=False)
    #: by workload and the one beside it, of one GPU each
    _beside: Mapping[tuple[str, str], dict[str, float]] = field(default_factory=dict, init=False)
    _read_at: float | None = field(default=None, init=False)

    def beside(self) -> Mapping[tuple[str, str], Mapping[str, float]]:
        """Read an admin's file on workloads that share a GPU. Raises StoreError."""
        self._refresh()
        return self._beside

    def _refresh(self) -> None:
        now = self.stopwatch()
        if self._read_at is not None and now - self._read_at <= AGE_S:
            return
        table: dict[tuple[str, str, int], dict[str, float]] = {}
        beside: dict[tuple[str, str], dict[str, float]] = {}
        for one in throughputs(self.engine):
            if not one.partner:
                table.setdefault((one.user, one.workload, one.scale), {})[one.accelerator] = one.steps_per_s
            elif not one.user and one.scale == one.partner_scale == 1:
                beside.setdefault((one.workload, one.partner), {})[one.accelerator] = one.steps_per_s
        self._table, self._beside, self._read_at = table, beside, now

    def read(self, snapshot: Snapshot) -> Mapping[JobId, Mapping[str, float]]:
        """Throughputs that are known of this snapshot's best-effort jobs. Raises StoreError."""
        self._refresh()
        found: dict[JobId, Mapping[str, float]] = {}
        for job_id, job in snapshot.jobs.items():
            if job.finished or snapshot.job_class(job_id) is not JobClass.BE:
                continue
            workload = snapshot.workload(job_id)
            if not workload:
                continue
            scale = max(requested_gpus(job.request), 1)
            speeds = {
                **self._table.get(("", workload, scale), {}),
                **self._table.get((job.user, workload, scale), {}),
            }
            if speeds:
                found[job_id] = speeds
        return found
