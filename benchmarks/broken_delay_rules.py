"""The rules of by how much TE jobs delay best-effort jobs, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_DELAYS, _STORED = "core/tesched_core/intake/delays.py", "db/tesched_db/delays.py"
_SIMULATED = "sim/tesched_sim/reports/summary.py"
_PRUNED = "db/tesched_db/retention.py"

DELAY_MUTATIONS = (
    Mutation("delay: by TE jobs alone", _DELAYS, "victim.purpose is not Purpose.TE", "False"),
    Mutation("delay: away from the notice on", _DELAYS, "away_from = ran_until if", "away_from = left_at if"),
    Mutation("delay: lost until the notice", _DELAYS, "victim.noticed_at if victim.noticed_at is not None else", ""),
    Mutation("delay: what is saved is not lost", _DELAYS, "0.0 if victim.departure is Departure.SAVED else", ""),
    Mutation("delay: what is saved by its word", _DELAYS, "max(victim.started_at, victim.saved_at)", "0.0"),
    Mutation("delay: not what the next run has saved", _DELAYS, "and saved_at > job.start_time", "and False"),
    Mutation("delay: the last word on what is saved", _DELAYS, "saved_at <= victim.saved_at", "False"),
    Mutation("delay: a finished job has none", _DELAYS, " or not was_preempted", ""),
    Mutation(
        "delay: one that is cancelled is away no longer",
        _DELAYS,
        "(victim.back_at, victim.given_up_at)",
        "(victim.back_at,)",
    ),
    Mutation("delay: one that is cancelled was preempted", _DELAYS, " or victim.given_up_at is not None", ""),
    Mutation("delay: one that is seen late", _DELAYS, "min(left_at, victim.back_at)", "left_at"),
    Mutation("delay: one of an order that has ended", _STORED, "if ended_at is None else", "if True else"),
    Mutation(
        "delay: one that only has its notice is not away",
        _STORED,
        "ended_at.is_(None), there, ",
        "ended_at.is_(None), ",
    ),
    Mutation(
        "delay: a set clock moves none that is back",
        "core/tesched_core/orders/clock_jump.py",
        "if one.back_at is not None:",
        "if False:",
    ),
    Mutation(
        "delay: what is suspended is delayed until now", _DELAYS, "victim.state is VictimState.SUSPENDED", "False"
    ),
    Mutation("delay: one that was let go is not", _DELAYS, " and victim.state is VictimState.SUSPENDED", ""),
    Mutation("delay: nothing of mode shadow", _STORED, "if view.order.ending is not Ending.SHADOW\n", ""),
    Mutation("delay: its own user's apart", _STORED, "both[victim.of_own_user]", "both[False]"),
    Mutation("delay: until the last good poll", _STORED, "seen_at if row.last_seen is None else row.last_seen", "1e9"),
    Mutation("delay: those that are away, too", _STORED, "    found.update(connection.scalars(away))\n", ""),
    Mutation(
        "delay: simulated, time away counts",
        _SIMULATED,
        "lost_s + (preemptions.back_s",
        "lost_s + 0 * (preemptions.back_s",
    ),
    Mutation("delay: simulated, by TE jobs", _SIMULATED, " & workload.te[preemptions.preemptor]", ""),
    Mutation("delay: no order of a known job is forgotten", _PRUNED, ", ~_delayed_a_known_job())", ")"),
)
