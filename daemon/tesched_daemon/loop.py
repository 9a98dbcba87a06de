"""One turn of the loop: observe, step, journal the intent, act, journal the outcome.

The loop knows core's ports and nothing else, so the same turn runs on a real cluster and on a simulated one. What it
promises:

- Nothing is done that the journal has not been told first. If the journal cannot be written, nothing is done.
- A failed look at the cluster is "unknown", never "gone": no decision is made on it, and the next look comes later.
- The actions of one order are taken in their order; after one that failed, the rest of that order waits for the next
  turn. When Slurm stops answering, so do the actions of all other orders.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tesched_core.actions import Action, Failure, FailureKind, OrderId, Outcome, Status
from tesched_core.classify import Classification, classified
from tesched_core.decision import Decision, Memory
from tesched_core.guard import Limits
from tesched_core.policy import TePolicy
from tesched_core.ports import Actuator, CycleReport, Journal, JournalError, Observer
from tesched_core.snapshot import Snapshot
from tesched_core.step import learned, step

log = logging.getLogger(__name__)


class Mode(StrEnum):
    """How much the daemon may do."""

    #: watches and records; decides nothing
    OBSERVE = "observe"
    #: decides and records what it would do; touches nothing
    SHADOW = "shadow"
    #: does it
    ENFORCE = "enforce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often to look."""

    #: seconds from the end of one turn to the start of the next
    poll_interval_s: float = 2.0
    #: the longest wait after failed looks; each failure doubles the wait up to it
    backoff_max_s: float = 30.0

    def __post_init__(self) -> None:
        """Raise ValueError for a pace that cannot be kept."""
        if not 0.1 <= self.poll_interval_s <= 3600:
            raise ValueError("poll_interval_s must be between 0.1 and 3600 seconds")
        if not self.poll_interval_s <= self.backoff_max_s <= 3600:
            raise ValueError("backoff_max_s must be between poll_interval_s and 3600 seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn came to."""

    #: one line for an admin
    summary: str
    #: seconds until the next turn should start
    next_in_s: float
    #: what was done, in its order
    outcomes: tuple[Outcome, ...] = ()
    #: why nothing could be decided
    trouble: str = ""


@dataclass(kw_only=True)
class Loop:
    """The loop's parts, and what it carries from turn to turn."""

    observer: Observer
    #: a dry one in shadow mode
    actuator: Actuator
    journal: Journal
    policy: TePolicy
    limits: Limits
    classes: Classification
    mode: Mode
    pace: Pace
    #: which client speaks to Slurm, for `tesched status`
    client_name: str = ""
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.perf_counter
    _memory: Memory | None = None
    _last: Snapshot | None = None
    _failures: int = field(default=0)

    def turn(self) -> Turn:
        """Make one turn. Never raises for what Slurm or the journal do."""
        try:
            return self._turn()
        except JournalError as error:
            # What was meant is unknown to the journal, so it was not done; read it anew when it is back.
            self._memory = None
            return self._trouble(f"the state store cannot be used, nothing is done: {error}")

    def _turn(self) -> Turn:
        if self._memory is None:
            self._memory = self.journal.load()
        began = self.stopwatch()
        seen = self.observer.observe()
        looked = self.stopwatch()
        if isinstance(seen, Failure):
            turn = self._trouble(f"Slurm cannot be seen ({seen.kind}): {seen.message}")
            self.journal.unseen(self._report(self.clock(), looked - began, 0.0, turn.next_in_s, seen))
            return turn
        snapshot = classified(seen, self.classes, self._last)
        if self.mode is Mode.OBSERVE:
            memory, decision = _watched(self._memory, snapshot)
        else:
            memory, decision = step(self._memory, snapshot, self.policy, self.limits)
        report = self._report(
            snapshot.taken_at, looked - began, self.stopwatch() - looked, self.pace.poll_interval_s, None
        )
        self.journal.intend(snapshot, memory, decision, report)
        # From here on the journal knows what is meant; a crash leaves an intent without an outcome.
        self._memory, self._last, self._failures = memory, snapshot, 0
        outcomes = self._perform(decision.actions)
        if outcomes:
            memory, transitions = learned(memory, outcomes, self.clock(), self.limits)
            self._memory = memory
            self.journal.conclude(memory, decision, outcomes, transitions)
        return Turn(summary=decision.summary, next_in_s=self.pace.poll_interval_s, outcomes=outcomes)

    def _trouble(self, text: str) -> Turn:
        self._failures += 1
        # Doubling a float fifty times is enough for any limit; more would only overflow.
        wait_s = self.pace.poll_interval_s * 2.0 ** min(self._failures, 50)
        return Turn(summary=text, trouble=text, next_in_s=min(wait_s, self.pace.backoff_max_s))

    def _report(
        self, at: float, observe_s: float, step_s: float, next_in_s: float, failure: Failure | None
    ) -> CycleReport:
        return CycleReport(
            at=at,
            mode=self.mode,
            client=self.client_name,
            observe_s=observe_s,
            step_s=step_s,
            failure=failure,
            next_in_s=next_in_s,
        )

    def _perform(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:
        outcomes: list[Outcome] = []
        failed: set[OrderId | None] = set()
        unreachable = False
        for action in actions:
            if unreachable or action.reason.order_id in failed:
                outcomes.append(Outcome(action=action, status=Status.SKIPPED, at=self.clock()))
                continue
            outcome = self.actuator.act(action)
            outcomes.append(outcome)
            if outcome.status is Status.FAILED:
                failed.add(action.reason.order_id)
                unreachable = outcome.failure is not None and outcome.failure.kind is FailureKind.UNREACHABLE
                said = f"{outcome.failure.kind}: {outcome.failure.message}" if outcome.failure else "no reason given"
                log.warning("%s of job %s failed (%s)", type(action).__name__.lower(), action.job_id, said)
        return tuple(outcomes)


def _watched(memory: Memory, snapshot: Snapshot) -> tuple[Memory, Decision]:
    """Return the decision of a daemon that only watches. Orders of an earlier mode stay as they are."""
    return memory, Decision(
        cycle=memory.cycle,
        at=snapshot.taken_at,
        policy="",
        actions=(),
        refusals=(),
        transitions=(),
        summary="mode observe: watched, decided nothing",
    )
