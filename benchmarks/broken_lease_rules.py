"""Mutations of the lease's times: a clock that is set, and what is said of a daemon whose clock was ahead."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_WATCH, _LEASE = "db/tesched_db/lease_watch.py", "db/tesched_db/lease.py"
_VIEWS, _UNDO = "db/tesched_db/view_builders.py", "cli/tesched_cli/undo.py"

LEASE_MUTATIONS = (
    Mutation("lease watch: no longer than it can last", _WATCH, "now), longest_s(row))", "now), 1e9)"),
    Mutation(
        "lease watch: as long as its writer announced", _WATCH, "return announced_s + LEASE_S", "return 0.0 + LEASE_S"
    ),
    Mutation("lease watch: as long as a poll may take", _WATCH, "+ LEASE_S + LONGER_S", "+ LEASE_S"),
    Mutation(
        "lease watch: a clock set meanwhile shortens nothing",
        _WATCH,
        "if not 0.0 <= announced_s",
        "if False and 0.0 <= announced_s",
    ),
    Mutation("lease watch: the store's clock is read once", _WATCH, "if this != self._seen:", "if True:"),
    Mutation("lease watch: each renewal begins it anew", _WATCH, "if this != self._seen:", "if self._seen is None:"),
    Mutation(
        "lease watch: status believes no clock that was ahead", _VIEWS, "0.0 if of_another_clock(row, store) else ", ""
    ),
    Mutation(
        "lease watch: a report is as old as the store says", _VIEWS, "row.clock_ahead_s + store - here", "0.0 * store"
    ),
    Mutation(
        "lease watch: a report that is to come is none",
        "db/tesched_db/liveness.py",
        "None if ago_s < -DIFFER_S else ",
        "",
    ),
    Mutation(
        "lease watch: a standby from the future is none",
        _LEASE,
        "now - SILENT_S, now + SILENT_S",
        "now - SILENT_S, now + 1e9",
    ),
    Mutation("lease watch: undo ends its wait", _UNDO, "if steady() > until:", "if True:"),
    Mutation("lease watch: undo waits for a lease of another clock", _UNDO, "not leader.of_another_clock and ", ""),
    Mutation("lease watch: undo waits", _UNDO, "outlast(loop.journal.lead, leader.left_s)", "pass"),
)
