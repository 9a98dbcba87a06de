"""The rules of the begin times of victims that have left, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_BEGIN = "core/tesched_core/fields/begin_time.py"

BEGIN_MUTATIONS = (
    Mutation("away: while others hold", _BEGIN, "any(victim.state in HOLDS_ROOM for victim in order.victims)", "True"),
    Mutation(
        "away: it waits to run again",
        _BEGIN,
        "for job_id, order in away.items():\n            self._defer",
        "for job_id, order in ():\n            self._defer",
    ),
    Mutation(
        "away: not before it is about to come",
        _BEGIN,
        "job.eligible_time - context.now <= _step_s(context) / 2",
        "True",
    ),
    Mutation("away: one that is held", _BEGIN, "or job.held or", "or"),
    Mutation("away: not the preemptor", _BEGIN, " and victim.job_id not in context.preemptors", ""),
    Mutation(
        "away: its own value comes back",
        _BEGIN,
        "begin = max(one.previous, int(context.now))",
        "begin = int(context.now)",
    ),
    Mutation(
        "away: the first value is its own", _BEGIN, "previous=shown if one is None else one.previous", "previous=shown"
    ),
    Mutation("away: what others have set", _BEGIN, "            elif _is_ours(one, job):", "            elif True:"),
    Mutation(
        "away: and not again",
        _BEGIN,
        "(one.restored or _is_on_its_way(one, job, context))",
        "_is_on_its_way(one, job, context)",
    ),
    Mutation(
        "away: one that may yet arrive", _BEGIN, "return job.eligible_time == before and not is_late", "return False"
    ),
    Mutation(
        "away: one that is not seen", _BEGIN, "if job_id in away or job_id in context.absent:", "if job_id in away:"
    ),
    Mutation("away: a refusal", _BEGIN, "if context.is_refused(Field.BEGIN, job.user):", "if False:"),
    Mutation("away: a refusal ends no order", "core/tesched_core/orders/outcomes.py", ", Field.BEGIN)", ")"),
    Mutation("away: shadow mode", _BEGIN, " and outcome.status is not Status.WOULD", ""),
    Mutation("away: a step at a time", _BEGIN, "context.now + _step_s(context)", "order.expires_at"),
    Mutation("away: long polls", _BEGIN, "max(LEAST_S, 2 * (context.longest_wait_s + SPARE_S))", "LEAST_S"),
    Mutation("away: too busy", _BEGIN, "if not final(outcome) and", "if outcome.status is Status.SENT and"),
    Mutation("away: nothing in place", _BEGIN, "shown if in_place else None", "None if one is None else shown"),
    Mutation(
        "away: it is said once",
        _BEGIN,
        "            elif not _is_ours(one, job) and job.eligible_time != one.previous:",
        "            elif not _is_ours(one, job) and not _is_on_its_way(one, job, context):",
    ),
    Mutation("away: the bucket fills", "daemon/tesched_daemon/rate_limited.py", ", rest_s)", ")"),
    Mutation("away: the loop's pace", "daemon/tesched_daemon/loop.py", "longest_wait_s=wait_s", "longest_wait_s=0.0"),
)
