"""Rules of the memory: one record a job, and the draft that a cycle writes."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_DRAFT, _FUTILITY = "core/tesched_core/model/draft.py", "core/tesched_core/orders/futility.py"
_MISSING, _STORE = "core/tesched_core/orders/missing.py", "db/tesched_db/memory_rows.py"

MEMORY_MUTATIONS = (
    Mutation("draft: an empty record is dropped", _DRAFT, "if after == NOTHING:", "if False:"),
    Mutation("draft: a memory is no draft", _DRAFT, "jobs=dict(self.jobs)", "jobs=self.jobs"),
    Mutation("draft: one that is tried now is found", _DRAFT, "self._tried_or_missing[job_id] = None", "pass"),
    Mutation("draft: one that is shown is not missing", _DRAFT, "self.update(job_id, missing_since=None)", "pass"),
    Mutation("missing: not for its absence alone", _MISSING, " if memory.jobs[job_id].lasting != NOTHING", ""),
    Mutation("store: absence is no part of it", _STORE, "one.lasting for job_id", "one for job_id"),
    Mutation(
        "futile: the longest wait of tasks", _FUTILITY, "max(one.retry_at, waits.get(now_under, 0.0))", "one.retry_at"
    ),
)
