"""One turn of the loop: observe, step, journal the intent, act, journal the outcome.

The loop knows core's ports and nothing else, so the same turn runs on a real cluster and on a simulated one. Its
guarantees:

- Nothing is done that the journal does not have first. If the journal cannot be written, or is no longer where the
  next process will search for it, nothing is done.
- A failed poll means "unknown", never "gone": no decision is made on it, and the next poll comes later. So
  is an answer that cannot be the whole of what there is (`plausibility.py`).
- The actions of one order are taken in their order; after one that failed, the rest of that order waits for the next
  turn. When Slurm stops answering, so do the actions of all other orders.
- A job that makes a turn raise is set aside, and the others are served (`set_aside.py`).

Over 400 lines: one class, whose turn is read from top to bottom.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Protocol

from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import Question, classified
from tesched_core.intake.pending_reason import awaits_first_look
from tesched_core.model.actions import Failure, FailureKind, Outcome
from tesched_core.model.cluster import JobState, SlurmSettings
from tesched_core.model.decision import Decision
from tesched_core.model.enforcement import Enforcement
from tesched_core.model.journal_error import JournalError
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.clock_jump import ClockReadings, jumped_s, shift_times
from tesched_core.orders.outcomes import learned
from tesched_core.orders.tell_users import Telling
from tesched_core.orders.undo import changed_still, undo
from tesched_core.policy import PolicyEntry
from tesched_core.ports import (
    Actuator,
    CycleReport,
    Journal,
    Observer,
    SingleReads,
    Watcher,
)
from tesched_core.step import step

from tesched_daemon.admission_file import AdmissionFile
from tesched_daemon.early import EarlyTurns, named, without_uncertain
from tesched_daemon.hook_fit import HookFit
from tesched_daemon.knowledge import Knowledge
from tesched_daemon.leaving import Leaving, recorded_alone
from tesched_daemon.marks_file import MarksFile
from tesched_daemon.performing import perform, watched
from tesched_daemon.plausibility import doubt, unread, without_namesakes
from tesched_daemon.plugin_fit import marks_trouble
from tesched_daemon.probes import SOON_S, Probes, notices_of
from tesched_daemon.rate_limited import RpcBudget, longest_wait_s, with_limit
from tesched_daemon.rates import PerMinute
from tesched_daemon.rest import Rest, all_is_due, next_poll_in_s
from tesched_daemon.set_aside import Meant, SetAside
from tesched_daemon.settings import Mode, Pace
from tesched_daemon.uptime import uptime_s

log = logging.getLogger(__name__)


#: Seconds after the submission of a TE job in which it is probed, while Slurm has not considered it.
NEW_FOR_S = 5.0
#: Number of the jobs with unreadable records that are named.
MOST_DOUBTS = 20
#: Seconds after an intent in which a command of its may be sent: the lease that it renewed lasts longer.
ACT_WITHIN_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """Result of one turn."""

    #: one line for an admin
    summary: str
    #: seconds until the next turn should start
    next_in_s: float
    #: what was done, in its order
    outcomes: tuple[Outcome, ...] = ()
    #: why nothing could be decided
    trouble: str = ""
    #: seconds in which no poke may bring the next turn forward
    pause_s: float = 0.0
    #: it has seen the cluster
    saw: bool = False
    #: of `undo`: nothing is left that tesched has changed
    settled: bool = False
    #: of `undo`: how many changes are not seen to be put back
    left: int = 0
    #: of `undo`: what the journal refused, though actions may have been sent
    refused: JournalError | None = None
    #: an early turn may serve new jobs before the next poll
    early: bool = False


class JobFinder(Protocol):
    """Finds new jobs between two polls (`new_jobs.py`)."""

    def follow(self, settings: SlurmSettings, pace: Pace, *, preempts: Callable[[], bool]) -> None:
        """Go by these settings. `preempts` says whether any job runs that a trial could preempt."""
        ...

    def pause(self, why: str) -> None:
        """Find nothing until the next `follow`, for this reason."""
        ...

    def said(self, pace: Pace) -> str:
        """Describe how new jobs are found now."""
        ...


@dataclass(kw_only=True)
class Loop:
    """The loop's parts, and what it carries from turn to turn."""

    observer: Observer
    #: a dry one in shadow mode
    actuator: Actuator
    journal: Journal
    policies: Sequence[PolicyEntry]
    limits: Limits
    classes: Classification
    mode: Mode
    pace: Pace
    #: what acts in mode enforce, and puts back in any other one what was changed there; None: `actuator`
    restorer: Actuator | None = None
    #: which client speaks to Slurm, for `tesched status`
    client_name: str = ""
    #: how users of preempted jobs are notified; None: they are not
    telling: Telling | None = None
    #: what became of the site's command for that, since the start
    told: Callable[[], Mapping[str, int | str]] = dict
    #: of jobs, beside Slurm's own records of them
    knowledge: Knowledge = field(default_factory=Knowledge)
    #: the file of the lever `plugin`; None: there is none, as in a simulation
    marks: MarksFile | None = None
    #: the file of the submission hook; None: there is none, as in a simulation
    admission: AdmissionFile | None = None
    #: None: while a TE job waits for Slurm's first pass, each poll is one of everything
    watcher: Watcher | None = None
    #: None: a new TE job waits for a poll, however long that takes
    single_reads: SingleReads | None = None
    #: seconds that each whole poll counts as taking, at least, for early turns: a small cluster's takes none of them
    least_poll_s: float = 0.0
    #: what finds new jobs between two polls; None: polls and pokes alone
    new_jobs: JobFinder | None = None
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = uptime_s
    #: how often Slurm was called so far, by kind
    calls: Callable[[], Mapping[str, int]] = dict
    #: what is wrong with the endpoint of the metrics, in words
    metrics_trouble: Callable[[], str] = str
    _memory: Memory | None = None
    _last: Snapshot | None = None
    _summary: str = ""
    _failures: int = field(default=0)
    _aside: SetAside = field(default_factory=SetAside)
    _rest: Rest = field(default_factory=Rest)
    _per_minute: PerMinute = field(default_factory=PerMinute)
    _budget: RpcBudget = field(default_factory=RpcBudget)
    _pause_s: float = 0.0
    _probes: Probes = field(default_factory=Probes)
    _hook: HookFit = field(default_factory=HookFit)
    _leaving: Leaving = field(default_factory=Leaving)
    _early: EarlyTurns = field(init=False)
    #: when the last good poll began, or the memory was first read, by the stopwatch
    _polled_at: float = 0.0
    #: for when the next poll was announced, by the stopwatch
    _next_at: float = 0.0
    #: the clock and the stopwatch when the memory was last written
    _clocks: ClockReadings | None = None
    #: the same of a memory that was written last, or perhaps was not, and its cycle
    _perhaps: tuple[int, ClockReadings] | None = None
    #: an answer that was not believed came from another slurmctld than the one before: each says so once
    _controller_changed: bool = False
    #: the same when the last intent was begun
    _intended_at: ClockReadings = field(default=ClockReadings(0.0, 0.0))

    def __post_init__(self) -> None:
        """Make ready for early turns."""
        # As all parts do, it goes by the stopwatch that the loop has by then.
        watch = lambda: self.stopwatch()  # noqa: E731, PLW0108
        self._early = EarlyTurns(reads=self.single_reads, stopwatch=watch, least_poll_s=self.least_poll_s)

    def turn(self, *, asked: bool = False) -> CycleResult:
        """Make one turn. Never raises for what Slurm, a job or the journal do.

        Between two polls a turn is a probe of one job (`probes.py`), unless `asked`: a poll was requested. Where polls
        take long `early_turn` comes before that.
        """
        if self.watcher is not None and not asked:
            next_in_s = self._probes.probe(self.watcher, self.stopwatch())
            if next_in_s is not None:
                return CycleResult(summary=self._summary, next_in_s=next_in_s, early=self._early.are_worth_it(self))
        self._probes.forget()
        try:
            return self._turn()
        except JournalError as error:
            return self._unwritten(error)

    def go_on_with(
        self,
        *,
        actuator: Actuator,
        policies: Sequence[PolicyEntry],
        limits: Limits,
        classes: Classification,
        mode: Mode,
        pace: Pace,
        telling: Telling | None,
    ) -> None:
        """Take other settings, between two turns. What is under way stays in memory; no job is set aside."""
        self._aside.forget()
        if classes != self.classes:
            # Its traits are of the old rules, and would be kept for every job that has not changed.
            self._last = None
        self._leaving.changes_mode(self.mode, mode)
        self.actuator, self.policies = actuator, policies
        self.limits, self.classes, self.mode, self.pace = limits, classes, mode, pace
        self.telling, self._hook = telling, HookFit()

    def partitions(self) -> Collection[str]:
        """Return Slurm's partitions as last seen; may be called from another thread."""
        last = self._last
        return last.partitions.keys() if last is not None else ()

    def forget(self) -> None:
        """Forget what is remembered: the next turn reads it from the journal."""
        self._memory, self._perhaps = None, None
        self._probes.forget()

    @property
    def is_leaving(self) -> bool:
        """Check whether changes of mode enforce are left, or may be, and the mode is another one."""
        return self._leaving.is_under_way

    def _turn(self) -> CycleResult:
        lead = self.journal.lead()
        if lead.leader:
            # What the leader does changes what is remembered; it is read anew when it is our turn.
            self._memory, self._last, self._failures, self._clocks, self._perhaps = None, None, 0, None, None
            self.knowledge.stand_by()
            if self.admission is not None:
                self.admission.leave()
            if self.new_jobs is not None:
                self.new_jobs.pause("this daemon is a standby")
            return CycleResult(summary=f"standby: {lead.leader}", next_in_s=self.pace.poll_interval_s)
        fresh = self._memory is None
        memory = self.journal.load() if self._memory is None else self._memory
        self._memory = memory
        if fresh and self._perhaps is not None and memory.cycle == self._perhaps[0]:
            # It was written, and what failed came later: its times are by these clocks.
            self._clocks = self._perhaps[1]
        began = self.stopwatch()
        if fresh and self._last is None:
            self._polled_at = began
        if fresh:
            self._leaving.finds(self.mode, self.admission, lead, memory)
        if self.restorer is not None and self._leaving.is_due(memory, self._last, self.mode):
            return self._put_back(began)
        whole = self._failures > 0 or all_is_due(memory, self._last, self.policies, self.limits, self.mode)
        # A job that has ended must not count for the next one's submission.
        seen = self._observed(whole=whole, ends=self.limits.te.max_submitted_per_user > 0)
        if not whole and isinstance(seen, Snapshot) and self._is_more_due(seen, memory):
            whole, seen = True, self._observed()
        seen_at = self.stopwatch()
        if isinstance(seen, Snapshot) and (why := doubt(seen, self._last, memory, began - self._polled_at)):
            self._controller_changed |= seen.controller_changed
            seen = Failure(kind=FailureKind.UNKNOWN, message=why)
        if isinstance(seen, Failure):
            turn = self._trouble(f"Slurm cannot be seen ({seen.kind}): {seen.message}")
            self.journal.unseen(self._report(self.clock(), began, seen_at, next_in_s=turn.next_in_s, failure=seen))
            return turn
        if self._controller_changed:
            seen, self._controller_changed = replace(seen, controller_changed=True), False
        self._rest.saw(seen, seen_at, whole=whole)
        # After a restart a running job keeps the class of its run, whatever it has called itself since.
        questions = {} if self._last is not None else self.journal.questions()

        def meant_of(seen: Snapshot) -> Meant:
            snapshot = self._known(seen, questions)
            clocks = self._now()
            then = without_namesakes(self._after_a_jump(memory, clocks), snapshot)
            then, decision = self._decided(then, snapshot, lead.paused)
            next_in_s = self._next_in_s(snapshot, then, decision, clocks.wall)
            self._follow(snapshot, lead.paused)
            return self._meant(snapshot, then, decision, clocks, began=began, seen_at=seen_at, next_in_s=next_in_s)

        meant = self._aside.intended(seen, meant_of, self.journal, self.stopwatch)
        if isinstance(meant, Failure):
            return self._trouble(f"nothing is done: {meant.message}")
        snapshot, decision, next_in_s = meant.snapshot, meant.decision, meant.report.next_in_s
        # From here on the journal knows what is meant; a crash leaves an intent without an outcome.
        self._last, self._failures = snapshot, 0
        self._polled_at, self._next_at = began, meant.clocks.steady + next_in_s
        self._publish(decision, snapshot)
        memory, outcomes = self._carried_out(meant)
        self._summary = decision.summary
        self._early.polled(seen, seen_at - began, whole=whole)
        if self.mode is not Mode.OBSERVE and snapshot.settings.rate_limit is None:
            next_in_s = self._next_probe_s(snapshot, memory, next_in_s)
        return CycleResult(
            summary=decision.summary,
            next_in_s=next_in_s,
            outcomes=outcomes,
            pause_s=self._pause_s,
            saw=True,
            early=self._early.are_worth_it(self),
        )

    def _put_back(self, began: float) -> CycleResult:
        """Put back what mode enforce has changed (`leaving.py`). Raises JournalError."""
        if self.new_jobs is not None:
            self.new_jobs.pause("what mode enforce has changed is put back first")
        turn = self.undo(unseen_s=began - self._polled_at)
        if not turn.trouble:
            self._leaving.put_back(turn.left)
        return turn

    def _meant(
        self,
        snapshot: Snapshot,
        memory: Memory,
        decision: Decision,
        clocks: ClockReadings,
        *,
        began: float,
        seen_at: float,
        next_in_s: float,
    ) -> Meant:
        """Put together what is meant from now on, decided on what was seen in these times by the stopwatch."""
        self._perhaps = memory.cycle, clocks
        self._intended_at = self._now()
        step_s = self._intended_at.steady - seen_at
        report = self._report(snapshot.taken_at, began, seen_at, step_s=step_s, next_in_s=next_in_s, seen=snapshot)
        return Meant(snapshot=snapshot, memory=memory, decision=decision, report=report, clocks=clocks)

    def _carried_out(self, meant: Meant) -> tuple[Memory, tuple[Outcome, ...]]:
        """Do what the journal knows to be meant, and learn from what became of it. Raises JournalError."""
        memory, decision = meant.memory, meant.decision
        self._memory, self._clocks = memory, meant.clocks
        outcomes = perform(decision.actions, self.actuator, self._barred, self.clock)
        if outcomes:
            memory, transitions = learned(memory, outcomes, self.clock(), self.limits, seen=meant.snapshot)
            self._memory = memory
            self.journal.conclude(memory, decision, outcomes, transitions)
        return memory, outcomes

    def early_turn(self) -> CycleResult | None:
        """Serve new TE jobs before a poll that takes long (`early.py`); None: nothing is done, all is left to the poll.

        Never raises for what Slurm, a job or the journal do.
        """
        self._early.begin()
        try:
            meant = self._meant_early()
            if meant is None:
                return None
            self.journal.intend(meant.snapshot, meant.memory, meant.decision, meant.report)
        except Exception as error:
            # Whatever it is: a poll comes next, and deals with it as with all errors.
            log.warning("there is no early turn, and the poll goes on", exc_info=True)
            if isinstance(error, JournalError):
                # It may have been written.
                self._memory = None
            return None
        try:
            memory, outcomes = self._carried_out(meant)
        except JournalError as error:
            return self._unwritten(error)
        announced_in_s = self._next_at - self.stopwatch()
        next_in_s = next_poll_in_s(memory, meant.decision, meant.snapshot, self.clock(), announced_in_s)
        return CycleResult(summary=meant.decision.summary, next_in_s=next_in_s, outcomes=outcomes)

    @property
    def early_counts_as(self) -> int:
        """Return as how many early turns the last one counts, which are bounded in all."""
        return self._early.counts_as

    def _meant_early(self) -> Meant | None:
        """Decide an early turn, and read again all that it rests on; None: there is none to be made."""
        memory, last, early = self._memory, self._last, self._early
        if memory is None or last is None or not early.may_come(self, memory, last, self._clocks, self._now()):
            return None
        lead = self.journal.lead()
        if lead.leader or lead.paused:
            return None
        began = self.stopwatch()
        seen = early.seen(self, last, self.clock(), self._next_at)
        if seen is None or doubt(seen, last, memory, began - self._polled_at):
            return None
        clocks = self._now()
        snapshot = self._known(self._aside.without(seen), {}, early=True, within_s=early.left_s)
        then = without_namesakes(memory, snapshot)
        then, decision = self._decided(then, without_uncertain(snapshot), "", counts_bystanders=False)
        step_s, job_ids = self.stopwatch() - clocks.steady, named(then, decision)
        if not job_ids or not early.are_as_decided(job_ids, snapshot):
            return None
        now = self._now()
        if jumped_s(self._clocks, now):
            # While it read: the poll finds it, and shifts what is remembered.
            return None
        # What was read again was observed, too.
        seen_at, next_in_s = now.steady - step_s, early.next_in_s(self._next_at - now.steady)
        return self._meant(snapshot, then, decision, clocks, began=began, seen_at=seen_at, next_in_s=next_in_s)

    def _publish(self, decision: Decision, snapshot: Snapshot) -> None:
        """Let the submission hook know until when TE jobs may start by themselves."""
        if self.admission is not None:
            until = decision.admission if self.mode is Mode.ENFORCE else None
            away_s = longest_wait_s(self.pace, snapshot.settings.rate_limit)
            self.admission.follow(until, self.classes, now=self.clock(), longest_wait_s=away_s)

    def _follow(self, snapshot: Snapshot, paused: str) -> None:
        """Say what new jobs are to be found by until the next poll."""
        if self.new_jobs is None:
            return
        if self.mode is Mode.OBSERVE or paused:
            self.new_jobs.pause(paused or "mode observe")
            return

        def preempts() -> bool:
            running = (job.job_id for job in snapshot.jobs.values() if job.state is JobState.RUNNING)
            return any(snapshot.job_class(job_id) is JobClass.BE for job_id in running)

        self.new_jobs.follow(snapshot.settings, self.pace, preempts=preempts)

    def _next_probe_s(self, snapshot: Snapshot, memory: Memory, next_in_s: float) -> float:
        """Return the seconds until the next turn, a probe or a poll; the next poll is so far away, or nearer."""
        awaited = awaits_first_look(snapshot, NEW_FOR_S, memory)
        if awaited is not None:
            next_in_s = min(next_in_s, NEW_FOR_S if self.watcher is not None else SOON_S)
        if self.watcher is None:
            return next_in_s
        now = self.stopwatch()
        return self._probes.plan(awaited, notices_of(memory), clock=self.clock(), now=now, to=now + next_in_s)

    def _is_more_due(self, seen: Snapshot, memory: Memory) -> bool:
        """Check whether only the jobs were read, and with them the rest must be, such as for a new TE job."""
        last = self._last
        if last is None or seen.nodes is not last.nodes or seen.jobs is last.jobs or self.mode is Mode.OBSERVE:
            return False
        try:
            known = classified(self._aside.without(seen), self.classes, last)
            return all_is_due(memory, known, self.policies, self.limits, self.mode)
        except Exception:  # noqa: BLE001 - whatever one job's record may cause: it is set aside with the rest of the turn
            return True

    def _known(
        self, seen: Snapshot, questions: Mapping[JobId, Question], *, early: bool = False, within_s: float = inf
    ) -> Snapshot:
        """Add to what was seen what is known of its jobs beside Slurm's own records; limits are read `within_s`."""
        snapshot = classified(seen, self.classes, self._last, questions)
        snapshot = self.knowledge.add(snapshot, self, early=early, within_s=within_s)
        if self.marks is not None and self.mode is Mode.ENFORCE and self.limits.lever is YieldBy.PLUGIN:
            snapshot = replace(snapshot, marks_doubtful=bool(self.marks.doubt()))
        return snapshot

    def _decided(
        self, memory: Memory, snapshot: Snapshot, paused: str, *, counts_bystanders: bool = True
    ) -> tuple[Memory, Decision]:
        if self.mode is Mode.ENFORCE:
            # What shadow mode has only recorded holds no trial up.
            memory = memory.without_dry_runs()
        if self.mode is Mode.OBSERVE:
            return watched(memory, snapshot)
        wait_s, telling = longest_wait_s(self.pace, snapshot.settings.rate_limit), self.telling
        then, decision = step(
            memory,
            snapshot,
            self.policies,
            self.limits,
            paused=paused,
            telling=telling,
            longest_wait_s=wait_s,
            counts_bystanders=counts_bystanders,
        )
        return (then if self.mode is Mode.ENFORCE else recorded_alone(memory, then)), decision

    def undo(self, *, unseen_s: float = 0.0) -> CycleResult:
        """Put back what tesched has changed, as far as one poll allows; `settled` says whether nothing is left.

        `unseen_s` is for how long the cluster has not been seen, for a loop that has not seen it itself. An answer that
        cannot be the whole of what there is counts as none here, too.

        Raises JournalError before anything is sent. For the end of the service, for `tesched undo`, and for a daemon
        that leaves mode enforce.
        """
        memory = self.journal.load()
        if self.admission is not None:
            # First of all: what is submitted from here on is not held.
            self.admission.withdraw()
        began = self.stopwatch()
        seen = self.observer.observe()
        since_s = unseen_s if self._last is None else began - self._polled_at
        if isinstance(seen, Snapshot) and (why := doubt(seen, self._last, memory, since_s)):
            seen = Failure(kind=FailureKind.UNKNOWN, message=why)
        if isinstance(seen, Failure):
            turn = self._trouble(f"Slurm cannot be seen ({seen.kind}): {seen.message}")
            if self.is_leaving:
                self.journal.unseen(
                    self._report(self.clock(), began, self.stopwatch(), next_in_s=turn.next_in_s, failure=seen)
                )
            return turn
        questions = self.journal.questions()

        def meant_of(seen: Snapshot) -> Meant:
            snapshot = classified(seen, self.classes, questions=questions)
            if self.marks is not None:
                snapshot = replace(snapshot, marks_doubtful=bool(self.marks.doubt()))
            then, decision = undo(self._after_a_jump(memory, self._now()), snapshot, self.limits)
            self._intended_at = clocks = self._now()
            next_in_s = self._leaving.next_in_s(self.pace)
            if next_in_s:
                self._pause_s = self._budget.pause_s(snapshot, self.calls(), len(decision.actions), clocks.steady)
                next_in_s = max(next_in_s, self._pause_s)
            report = self._report(snapshot.taken_at, began, clocks.steady, next_in_s=next_in_s, seen=snapshot)
            if not (decision.actions or changed_still(then, snapshot)):
                # It may be the last that is known of a daemon that stops.
                report = replace(report, leaving="")
            return Meant(snapshot=snapshot, memory=then, decision=decision, report=report, clocks=clocks)

        meant = self._aside.intended(seen, meant_of, self.journal, self.stopwatch)
        if isinstance(meant, Failure):
            return self._trouble(f"nothing is put back: {meant.message}")
        snapshot, then, decision = meant.snapshot, meant.memory, meant.decision
        # The next turn reads from the journal what is remembered.
        self._memory, self._last, self._failures = None, snapshot, 0
        self._clocks, self._polled_at = meant.clocks, began
        outcomes = perform(decision.actions, self.restorer or self.actuator, self._barred, self.clock)
        if outcomes:
            then, transitions = learned(then, outcomes, self.clock(), self.limits, seen=snapshot)
            try:
                self.journal.conclude(then, decision, outcomes, transitions)
            except JournalError as error:
                # Commands have gone out all the same; the next turn sees what has come of what was meant.
                turn = self._trouble(f"it could not be written down what was put back: {error}")
                return replace(turn, outcomes=outcomes, refused=error)
        files = (self.marks, self.admission)
        left = changed_still(then, snapshot) + sum(bool(file is not None and file.failure) for file in files)
        return CycleResult(
            summary=decision.summary,
            next_in_s=meant.report.next_in_s,
            outcomes=outcomes,
            pause_s=self._pause_s,
            settled=not left,
            left=left,
        )

    def _next_in_s(self, snapshot: Snapshot, memory: Memory, decision: Decision, now: float) -> float:
        """Return the seconds until the next poll."""
        at = self.stopwatch()
        interval_s = self._rest.interval_s(self.pace, at)
        sent = len(decision.actions) if self.mode is Mode.ENFORCE else 0
        self._pause_s = self._budget.pause_s(snapshot, self.calls(), sent, at)
        if self.mode is not Mode.OBSERVE:
            interval_s = next_poll_in_s(memory, decision, snapshot, now, interval_s)
        return max(interval_s, self._pause_s)

    def _observed(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:
        """Poll Slurm; if the clock is set meanwhile, the time of the poll is one of the clock as it is now."""
        before = self._now()
        seen = self.observer.observe(whole=whole, ends=ends)
        by_s = jumped_s(before, self._now())
        if not by_s or not isinstance(seen, Snapshot):
            return seen
        jobs_at = None if seen.jobs_at is None else seen.jobs_at + by_s
        return replace(seen, taken_at=seen.taken_at + by_s, jobs_at=jobs_at)

    def _now(self) -> ClockReadings:
        return ClockReadings(self.clock(), self.stopwatch())

    def _after_a_jump(self, memory: Memory, clocks: ClockReadings) -> Memory:
        """Return the memory as it is to be read if the clock was set since it was last written."""
        by_s = jumped_s(self._clocks, clocks)
        if not by_s:
            return memory
        log.warning("the clock was set %+.0f s; orders under way go on as if it had not been", by_s)
        return shift_times(memory, by_s)

    def _unwritten(self, error: JournalError) -> CycleResult:
        # What was meant is unknown to the journal, so it was not done; read it anew when it is back.
        self._memory = None
        return self._trouble(f"the state store cannot be used, nothing is done: {error}")

    def _trouble(self, text: str) -> CycleResult:
        self._failures += 1
        self._early.troubled()
        if self.new_jobs is not None:
            self.new_jobs.pause("nothing can be decided now")
        # Doubling a float fifty times is enough for any limit; more would only overflow.
        wait_s = self.pace.poll_interval_s * 2.0 ** min(self._failures, 50)
        return CycleResult(summary=text, trouble=text, next_in_s=min(wait_s, self.pace.backoff_max_s))

    def _report(
        self,
        at: float,
        began: float,
        seen_at: float,
        *,
        step_s: float = 0.0,
        next_in_s: float = 0.0,
        failure: Failure | None = None,
        seen: Snapshot | None = None,
    ) -> CycleReport:
        doubts, finder = list(unread(seen)) if seen is not None else [], self.new_jobs
        new_jobs = (finder.said(self.pace), self._early.hindered(self, seen)) if finder else ()
        return CycleReport(
            at=at,
            mode=self.mode,
            client=with_limit(self.client_name, seen.settings.rate_limit if seen else None),
            observe_s=seen_at - began,
            step_s=step_s,
            failure=failure,
            next_in_s=next_in_s,
            calls=self._per_minute.of(self.calls(), seen_at),
            told=self.told(),
            doubtful=len(doubts),
            doubts=tuple(doubts[:MOST_DOUBTS]),
            limits_unread=seen.limits.unread if seen is not None else (),
            marks_trouble="" if self.mode is Mode.OBSERVE else marks_trouble(seen, self.marks, self.limits),
            admission_trouble=self.admission.failure if self.admission else "",
            metrics_trouble=self.metrics_trouble(),
            idle_trouble=self.knowledge.idle.trouble if self.knowledge.idle else "",
            new_jobs="; ".join(filter(None, new_jobs)),
            enforcement=self._enforcement(seen),
            leaving=self._leaving.said,
        )

    def _enforcement(self, seen: Snapshot | None) -> Enforcement | None:
        """Enforcement of the limits on TE jobs; None: none is set, or there is no submission hook."""
        if self.admission is None:
            return None
        settings, at = seen.settings if seen is not None else None, self.stopwatch()
        mode, limits, socket = self.mode, self.limits, self.pace.socket
        return self._hook.enforcement(settings, self.admission, mode=mode, limits=limits, socket=socket, at=at)

    def _barred(self) -> str:
        """Reason not to do what was meant; checked before each action, and right before its command. Empty: none."""
        # A daemon that was asleep that long may have lost the lease, and another one may have gone on from here.
        # Where the stopwatch stands still while the machine itself is suspended (`uptime.py`), the clock does not.
        since_s = max(now - then for then, now in zip(self._intended_at, self._now(), strict=True))
        if since_s > ACT_WITHIN_S:
            return f"it was meant {since_s:.0f} s ago, and the lease may have run out"
        return self.journal.lost()
