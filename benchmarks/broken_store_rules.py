"""Rules of the state store beside the daemon, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_PACED, _PRUNED = "db/tesched_db/paced_writes.py", "db/tesched_db/retention.py"

STORE_MUTATIONS = (
    Mutation("paced: a pause between two writes", _PACED, "        if self._pause_s:\n", "        if False:\n"),
    Mutation("paced: longer than SQLite's poll", _PACED, "PAUSE_S = 0.2", "PAUSE_S = 0.05"),
    Mutation("paced: as long as the write", _PACED, "max(PAUSE_S, perf_counter() - began)", "PAUSE_S"),
    Mutation("paced: none in PostgreSQL", _PACED, 'if self._engine.dialect.name == "sqlite":', "if True:"),
    Mutation("prune: by the time's index", _PRUNED, ".order_by(at, key)", ".order_by(key)"),
)
