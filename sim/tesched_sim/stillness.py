"""How long the daemon's polls do nothing while TE jobs wait: until an event, or until time alone lets a victim leave.

A TE job that has no victim, with all that may leave, has none either where fewer may leave (`Policy.refuses_alone`). So
as long as nothing happens in Slurm, the next step decides otherwise only once a job that may not leave may: it has run
for long enough, its cool-down is over, a payment counts no more, or its slowdown is taken to be less. This is about the
first of all such times, also of those that turn out to change nothing: then the daemon polls once for nothing, as it
would have done anyway.

Not where orders are under way, or changes are to be put back: what becomes of these goes by many times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, isfinite

from tesched_core.guard.eligibility import slowdowns
from tesched_core.model.columns import Running
from tesched_core.model.decision import Decision, Refusal, RefusalCode, Refusals
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.payment import DAY_S, HOUR_S
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import PolicyEntry

from tesched_sim.slurm import Slurm

#: what is said of a TE job that has no victim, until an event or one of the times below
_UNTIL_THEN = frozenset({RefusalCode.NO_VICTIM, RefusalCode.IMPOSSIBLE})
#: seconds before such a time in which each poll is made: sums of times are rounded
_AHEAD_S = 1.0


def may_be_still(slurm: Slurm, policies: Sequence[PolicyEntry], limits: Limits) -> bool:
    """Check whether these policies and limits go by no other times than those that are known here."""
    behaviour = slurm.behaviour
    return (
        all(entry.policy.serves_te and entry.policy.refuses_alone for entry in policies)
        and limits.lever is YieldBy.REQUEUE
        and not (limits.bound.is_set or limits.te.is_set)
        and slurm.arrays is None
        and not (behaviour.faults.is_on or behaviour.hook or behaviour.native)
    )


def still_until_s(
    slurm: Slurm, limits: Limits, seen: Snapshot, *, before: Memory, after: Memory, decision: Decision
) -> float:
    """Return the time before which a further step decides the same if nothing happens in Slurm; -inf: not known."""
    # A memory that has just changed may change again.
    if decision.actions or after.put_back or replace(after, cycle=before.cycle) != before:
        return -inf
    if seen.columns is None or not _all_are_refused(slurm, decision):
        return -inf
    running = seen.columns.running
    if _lessens(slurm) and (slowdowns(running, after) > limits.max_slowdown).any():
        return -inf
    due = (
        *_of_memory(after, limits),
        *_of_running(running, limits),
        inf if decision.next_at is None else decision.next_at,
    )
    return min((at for at in due if at > slurm.now - _AHEAD_S), default=inf) - _AHEAD_S


def is_on_trial(slurm: Slurm, memory: Memory) -> bool:
    """Check whether a TE job runs of which a poll sees when it has run for long enough to be useful."""
    return any(one.futile is not None and job_id - 1 in slurm.running for job_id, one in memory.jobs.items())


def _all_are_refused(slurm: Slurm, decision: Decision) -> bool:
    """Check whether each waiting TE job was refused its resources, and for a reason whose end is known here."""
    parts = decision.refusals.parts if isinstance(decision.refusals, Refusals) else ()
    own = [one for one in parts if isinstance(one, Refusal) and one.job_id == one.preemptor]
    refused = {one.job_id - 1 for one in own}
    return all(one.code in _UNTIL_THEN for one in own) and refused.issuperset(slurm.te_pending)


def _lessens(slurm: Slurm) -> bool:
    """Check whether what is expected of a run that goes on grows with it, so that its slowdown lessens."""
    return slurm.workload.expected_s is not None and not slurm.behaviour.true_run_times


def _of_memory(memory: Memory, limits: Limits) -> Iterator[float]:
    for one in memory.jobs.values():
        if one.last_preempted is not None:
            yield one.last_preempted + limits.cool_down_s
    for paid in memory.paid:
        yield from (paid.at + HOUR_S, paid.at + DAY_S)
        if paid.withdrawn:
            yield paid.at + limits.cool_down_s


def _of_running(running: Running, limits: Limits) -> Iterator[float]:
    yield from (running.started + limits.min_run_time_s).tolist()
    # One that has run for as long as was expected is expected to run until its limit.
    yield from (at for at in running.ends_at.tolist() if isfinite(at))
