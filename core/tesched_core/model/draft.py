"""Draft of the memory: what one cycle, or the outcomes of one, writes of it. Copied in here, and copied out here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from tesched_core.model.change import Change, TeRules
from tesched_core.model.job_memory import NOTHING, JobMemory, RecordFields
from tesched_core.model.memory import Memory
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId, UnixSeconds


@dataclass
class MemoryDraft:
    """Copy of the memory's parts that orders and levers write while a cycle runs; orders themselves are apart."""

    #: records by job; `update` alone writes them
    jobs: dict[JobId, JobMemory] = field(default_factory=dict)
    #: victims' payments, the newest last
    paid: list[Paid] = field(default_factory=list)
    declined: set[JobId] = field(default_factory=set)
    #: what was changed, by field, then by job
    changes: dict[str, dict[JobId, Change[Any]]] = field(default_factory=dict)
    #: what goes with the marks
    te_rules: TeRules = field(default_factory=TeRules)
    #: jobs that may have been tried or missing, in a fixed order; None: not searched for yet
    _tried_or_missing: dict[JobId, None] | None = None

    @classmethod
    def of(cls, memory: Memory) -> MemoryDraft:
        """Draft that begins with this memory."""
        return cls(
            jobs=dict(memory.jobs),
            paid=list(memory.paid),
            declined=set(memory.declined),
            changes=_copied(memory.changes),
            te_rules=memory.te_rules,
        )

    def written(self, memory: Memory) -> Memory:
        """Memory after what the draft holds now; what it does not hold stays."""
        return replace(
            memory,
            jobs=dict(self.jobs),
            paid=tuple(self.paid),
            declined=frozenset(self.declined),
            changes=_copied(self.changes),
            te_rules=self.te_rules,
        )

    def job(self, job_id: JobId) -> JobMemory:
        """Record of a job; an empty one if nothing is remembered of it."""
        return self.jobs.get(job_id, NOTHING)

    def update(self, job_id: JobId, **fields: Unpack[RecordFields]) -> None:
        """Set fields of a job's record. A record that holds nothing any more is dropped."""
        after = replace(self.job(job_id), **fields)
        if after == NOTHING:
            self.jobs.pop(job_id, None)
            return
        self.jobs[job_id] = after
        if self._tried_or_missing is not None:
            self._tried_or_missing[job_id] = None

    def tried_or_missing(self) -> list[tuple[JobId, JobMemory]]:
        """Records of the jobs that were tried or are missing, and maybe of others: few of the many that have one.

        All records are read for it once in a cycle.
        """
        if self._tried_or_missing is None:
            self._tried_or_missing = {job_id: None for job_id, one in self.jobs.items() if one.is_tried_or_missing}
        return [(job_id, self.jobs[job_id]) for job_id in self._tried_or_missing if job_id in self.jobs]

    def set_missing(self, missing: Mapping[JobId, UnixSeconds]) -> None:
        """Note which jobs the last answer did not show, and since when; no others are missing."""
        for job_id, one in self.tried_or_missing():
            if one.missing_since is not None and job_id not in missing:
                self.update(job_id, missing_since=None)
        for job_id, since in missing.items():
            self.update(job_id, missing_since=since)


def _copied(changes: Mapping[str, Mapping[JobId, Change[Any]]]) -> dict[str, dict[JobId, Change[Any]]]:
    """Copy of changes that may be written, without levers that have none."""
    return {lever: dict(by_job) for lever, by_job in changes.items() if by_job}
