"""The rules of polls at rest that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_REST, _LOOP = "daemon/tesched_daemon/rest.py", "daemon/tesched_daemon/loop.py"
_OBSERVER = "slurm/tesched_slurm/resting_observer.py"

REST_MUTATIONS = (
    Mutation("rest: ends that count", _OBSERVER, "return not (waits or ends or", "return not (waits or"),
    Mutation("rest: a record that a text has foreseen", _OBSERVER, "count - known.count > len(new) or ", ""),
    Mutation("rest: records are counted", _OBSERVER, "or count != known.count ", ""),
    Mutation("rest: polls are whole while a TE job waits", _REST, "why is None or why[0] in _UNKNOWN", "False"),
    Mutation("rest: a limit ends none", _REST, "why is None or why[0] in _UNKNOWN", "True"),
    Mutation("rest: a user's hold ends none", _REST, "change.dry or waits)", "change.dry)"),
    Mutation("rest: polls are whole while an order is open", _REST, "bool(memory.orders or ", "bool("),
    Mutation("rest: and the poll that finds it", _LOOP, "and self._is_more_due(seen, memory)", "and not seen.nodes"),
    Mutation("rest: polls are whole after one that failed", _LOOP, "self._failures > 0 or ", ""),
    Mutation(
        "rest: a BE policy's polls are whole",
        _REST,
        "or not all(entry.policy.serves_te for entry in policies)",
        "or not policies",
    ),
    Mutation(
        "rest: a TE job is found no later than by default",
        _REST,
        "min((at - self._since) * PART, REST_S)",
        "(at - self._since) * PART",
    ),
    Mutation("rest: a new waiting job is read at once", _OBSERVER, " or any(lines[line] for line in new)", ""),
    Mutation(
        "rest: what no job shows is read in time",
        _OBSERVER,
        "min(max(known.whole_at - self._changed_at, YOUNG_S), OLD_S)",
        "1e9",
    ),
)
