"""The rules of the begin times of victims that have left, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_BEGIN = "core/tesched_core/fields/begin_time.py"

BEGIN_MUTATIONS = (
    Mutation(
        "away: while others hold", _BEGIN, "any(other.state in HOLDS_RESOURCES for other in order.victims)", "True"
    ),
    Mutation("away: it waits to run again", _BEGIN, "if victim.awaited and", "if False and"),
    Mutation(
        "away: not before it is about to come",
        _BEGIN,
        "job.eligible_time - context.now <= _step_s(context) / 2",
        "True",
    ),
    Mutation("away: one that is held", _BEGIN, "or job.held or", "or"),
    Mutation("away: not the preemptor", _BEGIN, " and victim.job_id not in context.preemptors", ""),
    Mutation("away: its own value comes back", _BEGIN, "max(one.previous, int(context.now))", "int(context.now)"),
    Mutation("away: what others have set", _BEGIN, "        return replace(one, restored=True)", "        return one"),
    Mutation("away: a refusal ends no order", "core/tesched_core/orders/outcomes.py", ", Field.BEGIN)", ")"),
    Mutation("away: shadow mode", _BEGIN, " and outcome.status is not Status.WOULD", ""),
    Mutation("away: a step at a time", _BEGIN, "context.now + _step_s(context)", "order.expires_at"),
    Mutation("away: long polls", _BEGIN, "max(LEAST_S, 2 * (context.longest_wait_s + SPARE_S))", "LEAST_S"),
    Mutation("away: too busy", _BEGIN, "if not final(outcome) and", "if outcome.status is Status.SENT and"),
    Mutation("away: it is said once", _BEGIN, "if before is None and want", "if want"),
    Mutation("away: the bucket fills", "daemon/tesched_daemon/rate_limited.py", ", rest_s)", ")"),
    Mutation("away: the loop's pace", "daemon/tesched_daemon/loop.py", "longest_wait_s=wait_s", "longest_wait_s=0.0"),
)
