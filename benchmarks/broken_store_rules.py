"""Rules of the store, of what it cannot hold, of a suspended host, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_PACED, _PRUNED = "db/tesched_db/paced_writes.py", "db/tesched_db/retention.py"
_DELAYS, _QUERIES, _LEFT = (f"db/tesched_db/{name}.py" for name in ("delays", "queries", "leave_times"))
_SET_ASIDE, _BISECTION = "daemon/tesched_daemon/set_aside.py", "daemon/tesched_daemon/bisection.py"
_LOOP, _UPTIME = "daemon/tesched_daemon/loop.py", "daemon/tesched_daemon/uptime.py"

STORE_MUTATIONS = (
    Mutation("paced: a pause between two writes", _PACED, "        if self._pause_s:\n", "        if False:\n"),
    Mutation("paced: longer than SQLite's poll", _PACED, "PAUSE_S = 0.2", "PAUSE_S = 0.05"),
    Mutation("paced: as long as the write", _PACED, "max(PAUSE_S, perf_counter() - began)", "PAUSE_S"),
    Mutation("paced: none in PostgreSQL", _PACED, 'if self._engine.dialect.name == "sqlite":', "if True:"),
    Mutation("prune: by the time's index", _PRUNED, ".order_by(at, key)", ".order_by(key)"),
    Mutation(
        "kept: delayed jobs by each time's index",
        _DELAYS,
        "found.update(connection.scalars(of_te_jobs.where(at >= since)))",
        "found.update(connection.scalars(of_te_jobs.where((at + 0) >= since)))",
    ),
    Mutation("kept: jobs that are back count", _DELAYS, ", VictimRow.back_at):", "):"),
    Mutation("kept: jobs that are suspended count", _DELAYS, ", VictimRow.suspended_at, ", ", "),
    Mutation("kept: notes by their time's index", _QUERIES, "order_by(ActionRow.intended_at, ", "order_by("),
    Mutation("kept: the latest victims are searched", _LEFT, "offset(MOST_SEARCHED - 1)", "offset(10**9)"),
    Mutation(
        "kept: leave times by the time's index",
        _LEFT,
        "            VictimRow.left_at >= _searched_since(connection),\n",
        "",
    ),
    Mutation(
        "search: it ends by its time", _SET_ASIDE, "is_over=lambda: stopwatch() >= until", "is_over=lambda: False"
    ),
    Mutation("search: the next turn goes on", _SET_ASIDE, "self._between = search.kept()", "self._between = None"),
    Mutation("search: it makes one try in each turn", _SET_ASIDE, "if has_tried and search", "if search"),
    Mutation("search: the last tries count together", _SET_ASIDE, " and search.bad - search.good > 1", ""),
    Mutation("search: a reload begins anew", _SET_ASIDE, ", self._between = {}, {}, None", " = {}, {}"),
    Mutation(
        "search: what an earlier turn found free is tried again",
        _BISECTION,
        "        if not self.is_sure:\n            return self.good\n",
        "",
    ),
    Mutation("search: a job before them is to blame now", _BISECTION, "self.good = 0", "pass"),
    Mutation("search: a job behind them is to blame now", _BISECTION, "self.bad = everything", "pass"),
    Mutation("suspended: the loop's stopwatch goes on", _LOOP, "float] = uptime_s", "float] = time.perf_counter"),
    Mutation(
        "suspended: by the clock that goes on", _UPTIME, 'getattr(time, "CLOCK_BOOTTIME", None)', "time.CLOCK_MONOTONIC"
    ),
)
