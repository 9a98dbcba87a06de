"""Event loop of a simulation: the next event, the starts that follow, and the daemon's poll.

Events are taken in order of (time, kind, sequence). After all events of one instant the queue is gone over, then the
daemon polls, if that is due, and may act at the same instant. The same workload, policy and settings give the same run.

Over 400 lines: the run and the daemon beside it, which wake each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import heappop
from math import inf

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.actions import Action, Failure, FailureKind, OrderId, Outcome, Resume, SetMarks, Status, Suspend
from tesched_core.model.decision import Admission, Decision
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.clock_jump import JUMP_S, shift_times
from tesched_core.orders.outcomes import learned
from tesched_core.orders.undo import changed_still, undo
from tesched_core.policy import PolicyEntry
from tesched_core.step import step

from tesched_sim.actuator import SimulatedActuator
from tesched_sim.bound_use import BoundWatch
from tesched_sim.fault_settings import FaultKind
from tesched_sim.hopeless import Hopeless, can_leave_out, is_idle
from tesched_sim.job_record import see_dependencies
from tesched_sim.misbehaviour import MisbehavingActuator, MisbehavingObserver, Misbehaviour
from tesched_sim.observer import SimulatedObserver
from tesched_sim.result import Preemptions, Result, Use
from tesched_sim.results_of_arrays import with_trainings_as_jobs
from tesched_sim.slurm import Event, JobPhase, Slurm
from tesched_sim.slurm_scheduler import Scheduler
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.stillness import is_on_trial, may_be_still, still_until_s
from tesched_sim.store_faults import FAILS_S, Copies, Failing, as_stored, dies_after, fails
from tesched_sim.workload import Workload

#: Most cycles of the daemon at one instant: actions that take no time need more than one.
MOST_LOOKS = 8
#: Seconds until the next poll while an order is under way or after no answer, and until a dead daemon starts again.
#: Faults alone make it poll at other times than at events.
AGAIN_S, RESTARTS_IN_S = 5.0, 15.0
#: Limits that leave everything to the policy and P; the paper has no others.
NO_LIMITS = Limits(
    max_preemptions_per_job=1,
    max_lost_runs_per_job=10**9,
    min_run_time_s=0,
    cool_down_s=0,
    max_slowdown=1e12,
    max_victims_per_cycle=10**9,
    max_preemptions_per_hour=10**9,
    max_preemptions_per_user_hour=10**9,
    max_preemptions_per_account_hour=10**9,
    max_preemptions_per_node_hour=10**9,
    max_lost_node_hours_per_day=1e12,
    max_open_orders=10**9,
    retry_after_s=0,
    bind_for_s=0,
    own_jobs_first=False,
    wait_for_free_s=0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A node that is down for a while; its jobs go back to the queue."""

    node: int
    from_s: float
    to_s: float


class Daemon:
    """tesched beside the simulated cluster: its heart and its memory, without its store."""

    def __init__(self, slurm: Slurm, scheduler: Scheduler, policies: Sequence[PolicyEntry], limits: Limits) -> None:
        """Begin with an empty memory."""
        self.slurm = slurm
        self.scheduler = scheduler
        self.policies = policies
        self.manages_be = any(not entry.policy.serves_te for entry in policies)
        #: a policy that remembers what it has planned decides whenever a job comes, starts or ends
        self.plans_be = any(not entry.policy.serves_te and entry.policy.State is not None for entry in policies)
        self.limits = limits
        self.memory = Memory()
        #: until when its polls do nothing while TE jobs wait, if nothing happens, and whether that may be known
        self._still_until_s, self._may_be_still = -inf, may_be_still(slurm, policies, limits)
        leaves_out = limits == NO_LIMITS and can_leave_out(slurm, policies)
        #: TE jobs that need not be weighed in each cycle; None: all are
        self.hopeless = Hopeless(slurm) if leaves_out else None
        # A job of the same user's would count for no bound.
        sees = {"users_differ": limits.bound.is_set, "has_plugin": limits.lever is YieldBy.PLUGIN}
        self.faults = Misbehaviour(slurm, slurm.behaviour.faults) if slurm.behaviour.faults.is_on else None
        if self.faults is None:
            self.eyes: SimulatedObserver = SimulatedObserver(slurm, **sees)
            self.hands: SimulatedActuator = SimulatedActuator(slurm)
        else:
            self.eyes = MisbehavingObserver(slurm, self.faults, **sees)
            self.hands = MisbehavingActuator(slurm, self.faults)
        #: until when it is dead, and when it polls again by itself
        self.dead_until_s, self._again_s = 0.0, inf
        #: how often it has died
        self.deaths = 0
        #: copies of its store, and when the one was made that was restored last
        self.copies, self.restores, self.restored_to_s = Copies(self.faults), 0, inf
        #: orders in that copy
        self.restored_orders: frozenset[OrderId] = frozenset()
        #: rows of the marks that it has written since a store was restored; None: none was
        self._marks_written: frozenset[int] | None = None
        #: jobs with changes and orders of which the stores that were restored knew nothing
        self.unknown: set[JobId] = set()
        #: until when its store fails; its clock's lead when the memory was last written, None: by another process
        self.no_store_until_s = 0.0
        self._lead_s: float | None = None
        #: when its clock was last set while no process knew what it showed before, by the simulation's time
        self.untimed_s = -inf
        if self.faults is not None:
            self.faults.clocks.watchers.append(self._clock_is_set)
        #: when it has seen the cluster last, by the simulation's time
        self.seen_s = -inf
        #: how often its store has failed
        self.store_failures = 0
        self.asked = 0
        #: orders that have ended in futility
        self.futile: set[int] = set()
        self._watched: set[int] = set()
        self._served: frozenset[int] = frozenset()
        self._trials_seen = 0
        self._submitted_seen = 0
        self._touched = False
        self._stirred = False
        self._admission: Admission | None = None
        #: when a policy wants to decide again
        self.asks_at: float | None = None
        #: a job is suspended, and goes on when resources are given back
        self._suspended = False
        #: BE jobs' delays as bystanders are counted
        self.counts_bystanders = limits.bound.is_set
        #: called after each cycle: the memory after it, and what was decided
        self.watchers: list[Callable[[Memory, Decision], None]] = []
        slurm.watchers.append(self._saw)

    def _saw(self, row: int) -> None:
        self._stirred = True
        if row in self._watched:
            self._touched = True

    def wakes(self) -> None:
        """Let the next instant be one at which it polls."""
        self._touched = True

    def admits(self, row: int) -> bool:
        """Check whether the submission hook lets a TE job start by itself."""
        if (one := self._admission) is None:
            return not self.limits.bound.is_set
        return self.slurm.now <= one.until and float(self.slurm.workload.limit_s[row]) <= one.most_s

    def is_awaited(self) -> bool:
        """Check whether it was to poll again by now."""
        return self.slurm.now >= self._again_s

    def happens(self) -> None:
        """Let what it has seen be out of date: an event has come."""
        self._still_until_s = -inf

    @property
    def rests_until_s(self) -> float:
        """Time before which its polls do nothing while it rests, also without an event."""
        return self._still_until_s if self.slurm.te_pending else inf

    def rests(self) -> bool:
        """Check whether its polls do nothing until the next event: it has seen all before it, and nothing waits.

        A TE job may, until a time that is known (`rests_until_s`).
        """
        slurm = self.slurm
        seen = not (self._touched or self._stirred) and slurm.submitted == self._submitted_seen
        waits = self.memory.open_orders() or any(self.memory.changes.values()) or is_on_trial(slurm, self.memory)
        # A policy that manages BE jobs, a bound and marks go by time; so do faults.
        by_time = self.manages_be or self.limits.bound.is_set or self.limits.lever is YieldBy.PLUGIN
        return seen and not waits and not by_time and self.faults is None and not self.watchers

    def due(self) -> bool:
        """Check for a change since its last cycle: for a policy that plans at every event."""
        if self._touched or (self._stirred and self._suspended):
            return True
        slurm = self.slurm
        # Resources were given back, or a new job may fit into what is free.
        something_new = self._stirred or slurm.submitted != self._submitted_seen
        if something_new and (self.plans_be or (self.manages_be and slurm.be_waiting)):
            return True
        if not self._stirred and not self._new_trial():
            return False
        return any(row not in self.scheduler.reserved and row not in self._served for row in slurm.te_pending)

    def _new_trial(self) -> bool:
        return len(self.slurm.te_pending) != self._trials_seen

    def look(self) -> bool:
        """Take one turn; return whether anything was done."""
        slurm = self.slurm
        self.asked += 1
        self._touched = self._stirred = False
        self._still_until_s = -inf
        self._again_s = inf if self.is_awaited() else self._again_s
        before = self.memory.orders
        self._submitted_seen = slurm.submitted
        if slurm.now < max(self.dead_until_s, self.no_store_until_s):
            return False
        seen = self.eyes.see()
        if isinstance(seen, Failure):
            at = self.eyes.answers_at_s if isinstance(self.eyes, MisbehavingObserver) else None
            self._look_again(AGAIN_S if at is None else max(at - slurm.now, 0.0))
            return False
        self.seen_s = slurm.now
        seen = self._with_doubt(seen)
        before_it = self.memory
        self.memory, decision = self._decided(self._after_a_jump(self.memory), seen)
        failing = fails(self.faults, decision.actions)
        if failing is Failing.INTENT:
            self._has_no_store(before_it)
            return False
        self._lead_s = self._ahead_s
        for watcher in self.watchers:
            watcher(self.memory, decision)
        if failing is Failing.UNHEARD:
            self._has_no_store(self.memory)
            self._after(before)
            return False
        self._admission = decision.admission
        if decision.next_at is not None and self.asks_at != decision.next_at > self.clock():
            self.asks_at = decision.next_at
            self._wakes_at(decision.next_at)
        dies, arrives_late = dies_after(self.faults, decision.actions)
        outcomes = self._performed(decision.actions[:dies])
        if any(isinstance(one.action, SetMarks) and one.status is Status.SENT for one in outcomes):
            self._marks_written = None if self._marks_written is None else frozenset(slurm.marks)
        if dies is not None:
            self._die(decision.actions[dies:], arrives_late=arrives_late)
            self._after(before)
            return True
        if any(isinstance(action, Suspend | Resume) for action in decision.actions):
            slurm.push(slurm.now + 1.0, Event.WAKE, 0)  # what it did is seen in the next poll
        if (copy := self.copies.restored()) is not None:
            self._is_restored(copy)
        elif failing is Failing.OUTCOME:
            self._has_no_store(self.memory)
        elif outcomes:
            self.memory, _ = learned(self.memory, outcomes, self.clock(), self.limits, seen=seen)
        if self._may_be_still and slurm.te_pending:
            self._still_until_s = still_until_s(
                slurm, self.limits, seen, before=before_it, after=self.memory, decision=decision
            )
        self.copies.keep(self.memory, slurm.now)
        if self.hopeless is not None:
            self.hopeless.settle(self.memory)
        self._after(before)
        if self.faults is not None:
            changes = {name for name, some in self.memory.changes.items() if some}
            if self.memory.open_orders() or changes - {Field.MARK}:
                self._look_again(AGAIN_S)
            elif changes:
                self._look_again(self.limits.mark_for_s / 3)  # marks are renewed
        return bool(decision.actions)

    def _decided(self, memory: Memory, seen: Snapshot) -> tuple[Memory, Decision]:
        """Take a step: without the TE jobs that have no victim still, if nothing comes of that."""
        hopeless = self.hopeless
        if hopeless is None or self.watchers:
            return self._step(memory, seen)
        left_out = hopeless.rows(memory)
        if left_out:
            after, decision = self._step(memory, replace(seen, columns=self.eyes.without(left_out)))
            if is_idle(memory, after, decision):
                hopeless.learn(decision)
                return after, decision
        after, decision = self._step(memory, seen)
        hopeless.forget()  # all of them were weighed anew
        hopeless.learn(decision)
        return after, decision

    def _step(self, memory: Memory, seen: Snapshot) -> tuple[Memory, Decision]:
        # It polls only after a change: what it saw says nothing of how long a job waited in between.
        bounded = self.limits.bound.is_set
        return step(
            memory,
            seen,
            self.policies,
            self.limits,
            longest_wait_s=self.slurm.behaviour.poll_s if bounded else 0.0,
            counts_bystanders=self.counts_bystanders,
        )

    def _performed(self, actions: Sequence[Action]) -> list[Outcome]:
        """Take the actions: after one that failed the rest of its order is skipped, without an answer all are."""
        outcomes: list[Outcome] = []
        failed: set[int | None] = set()
        unreachable = False
        for action in actions:
            order_id = action.reason.order_id
            if unreachable or (order_id is not None and order_id in failed):
                outcomes.append(Outcome(action=action, status=Status.SKIPPED, at=self.clock()))
                continue
            outcome = self.hands.act(action)
            if outcome.failure is not None:
                failed.add(order_id)
                unreachable = outcome.failure.kind is FailureKind.UNREACHABLE
            outcomes.append(outcome)
        return outcomes

    def _die(self, rest: Sequence[Action], *, arrives_late: bool) -> None:
        """Be killed, and started again with what the store has; one more command may still arrive."""
        if arrives_late and rest and isinstance(self.hands, MisbehavingActuator):
            self.hands.arrives_late(rest[0])
        if isinstance(self.eyes, MisbehavingObserver):
            self.eyes.forget_answer()
        self.memory = as_stored(self.memory)
        self.deaths += 1
        self._lead_s = None
        self.dead_until_s = self.slurm.now + (1.0 if arrives_late else RESTARTS_IN_S)
        self._look_again(self.dead_until_s - self.slurm.now)

    def _is_restored(self, copy: Memory) -> None:
        """Go on with a store of a while ago."""
        for name, by_job in self.memory.changes.items():
            # A value that was set after the copy is others' to it.
            known = copy.changes_of(name)
            self.unknown |= {one for one in by_job if one not in known or known[one].value != by_job[one].value}
        for order in self.memory.open_orders():
            same = copy.orders.get(order.order_id)
            before = {one.job_id: one.state for one in same.victims} if same is not None else {}
            self.unknown |= {one.job_id for one in order.victims if before.get(one.job_id) is not one.state}
        self.restores, self.restored_to_s, self.memory = self.restores + 1, self.copies.last_s, copy
        self.restored_orders, self._marks_written = frozenset(copy.orders), frozenset()
        self._die((), arrives_late=False)

    def _with_doubt(self, seen: Snapshot) -> Snapshot:
        """Return the snapshot, with doubt in marks that another process has written."""
        written = self._marks_written
        if written is None or self.limits.lever is not YieldBy.PLUGIN or written.issuperset(self.slurm.marks):
            return seen
        return replace(seen, marks_doubtful=True)

    def _has_no_store(self, memory: Memory) -> None:
        """Do nothing while the store fails; then go on with what it has."""
        self.memory = as_stored(memory)
        self.store_failures += 1
        for_s = 0.0 if self.faults is None else self.faults.between(FaultKind.STORE_FAILS, *FAILS_S)
        self.no_store_until_s = self.slurm.now + for_s
        self._look_again(max(self.no_store_until_s - self.slurm.now, AGAIN_S))

    def _clock_is_set(self) -> None:
        if self._lead_s is None:
            self.untimed_s = self.slurm.now

    @property
    def _ahead_s(self) -> float:
        return self.faults.clocks.daemon_s if self.faults is not None else 0.0

    def clock(self) -> float:
        """Time by its host's clock."""
        return self.slurm.now + self._ahead_s

    def _wakes_at(self, at: float) -> None:
        """Wake at this time of its clock's."""
        self.slurm.push(at - self._ahead_s, Event.WAKE, 0)

    def _after_a_jump(self, memory: Memory) -> Memory:
        """Return the memory as it is to be read if the clock was set since this process has last written it."""
        jumped_s = 0.0 if self._lead_s is None else self._ahead_s - self._lead_s
        return shift_times(memory, jumped_s) if abs(jumped_s) > JUMP_S else memory

    def _look_again(self, in_s: float) -> None:
        at = self.slurm.now + in_s
        if not self.slurm.now < self._again_s <= at:
            self._again_s = at
            self.slurm.push(at, Event.WAKE, 0)

    def heal(self) -> None:
        """Let nothing go wrong from now on; it lives."""
        if self.faults is not None:
            self.faults.heal()
            self.dead_until_s = self.no_store_until_s = 0.0
            self.wakes()

    def undo(self) -> bool:
        """Put back what it has changed, as far as one poll allows; return whether nothing is left."""
        seen = self.eyes.see()
        if isinstance(seen, Failure):
            return False
        seen = self._with_doubt(seen)
        self.memory, decision = undo(self.memory, seen, self.limits)
        outcomes = self._performed(decision.actions)
        if outcomes:
            self.memory, _ = learned(self.memory, outcomes, self.clock(), self.limits, seen=seen)
        return not changed_still(self.memory, seen)

    def _after(self, before: Mapping[OrderId, Order]) -> None:
        """Reserve resources for new orders, forget ended ones, and see to it that it wakes in time."""
        slurm, scheduler = self.slurm, self.scheduler
        watched: set[int] = set()
        served: set[int] = set()
        for order_id, order in self.memory.orders.items():
            if order.futile:
                self.futile.add(order_id)
            preemptor = order.preemptor - 1
            if order.ended_at is not None:
                continue
            watched.add(preemptor)
            watched |= {victim.job_id - 1 for victim in order.victims if not victim.settled}
            if order.state is OrderState.OPEN and not order.waits:
                served.add(preemptor)
                # A best-effort job that moves is its own victim, for which nodes are kept while it still runs.
                moves_or_waits = preemptor in slurm.te_pending or not slurm.te[preemptor]
                if slurm.behaviour.keeps_free and preemptor not in scheduler.reserved and moves_or_waits:
                    scheduler.keep(preemptor, tuple(self.eyes.index[name] for name in order.nodes))
            known = before.get(order_id)
            if known is None or (known.waits, known.expires_at) != (order.waits, order.expires_at):
                self._set_alarms(order)
        if self.limits.lever is not YieldBy.PLUGIN:  # then Slurm itself reserves nodes
            for row in set(scheduler.reserved) - served:
                scheduler.let_go(row)
        self._watched, self._served = watched, frozenset(served)
        open_orders = self.memory.open_orders()
        self._suspended = any(one.state is VictimState.SUSPENDED for order in open_orders for one in order.victims)
        self._trials_seen = len(slurm.te_pending)

    def _set_alarms(self, order: Order) -> None:
        slurm = self.slurm
        self._wakes_at(order.expires_at + 1.0)
        if order.waits and order.waits_until is not None:
            self._wakes_at(order.waits_until)
        for victim in order.victims:
            row = victim.job_id - 1
            if victim.state is VictimState.NOTICED and slurm.yield_s[row] > slurm.grace_s[row]:
                slurm.push(slurm.now + victim.grace_period_s, Event.WAKE, 0)
            elif victim.state is VictimState.PLANNED:
                # It is notified when the others' time is nearly over (`orders/leave_together.py`), or over.
                longest_s = max(one.grace_period_s for one in order.victims)
                lead_s = min(slurm.behaviour.kill_wait_s, slurm.behaviour.requeue_delay_s)
                slurm.push(slurm.now + max(longest_s - lead_s, 0.0), Event.WAKE, 0)
                slurm.push(slurm.now + longest_s, Event.WAKE, 0)


class Simulation:
    """One run."""

    def __init__(
        self,
        workload: Workload,
        behaviour: Behaviour,
        *,
        policies: Sequence[PolicyEntry] = (),
        limits: Limits = NO_LIMITS,
        outages: Sequence[Outage] = (),
        hold_load: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Prepare it. Without policies there is no daemon.

        With `hold_load`, jobs are submitted in their order as long as what is outstanding (running and queued), as a
        part of the cluster, is below it in every resource; their own submission times do not count.
        """
        self.workload = workload
        self.slurm = Slurm(workload, behaviour)
        self.scheduler = Scheduler(self.slurm)
        self.daemon = Daemon(self.slurm, self.scheduler, policies, limits) if policies else None
        self.watch = BoundWatch(self.slurm) if limits.bound.is_set else None
        if self.daemon is not None and self.watch is not None:
            self.daemon.watchers.append(self.watch.saw)
        self.policy_name = policies[0].policy.name if policies else "native" if behaviour.native else "fifo"
        self.hold_load = hold_load
        self.progress = progress
        self.events = 0
        poll_s = behaviour.poll_s if self.daemon is not None else 0.0
        self._poll_s, self._next_poll, self._told = poll_s, poll_s or inf, 0
        self._submit_s: list[float] = workload.submit_s.tolist()
        self._submitted_s = np.full(len(workload), np.nan)
        self._capacity = workload.machines.total.sum(axis=0)
        self._outstanding = np.zeros_like(self._capacity)
        if hold_load is not None:
            self.slurm.watchers.append(self._ended)
        self._samples: list[tuple[float, NDArray[np.int64], int, int]] = []
        self._next_sample = -inf
        self._busy_s, self._held_s = 0.0, np.zeros(len(self._capacity))
        for outage in outages:
            self.slurm.push(outage.from_s, Event.NODE_DOWN, outage.node)
            self.slurm.push(outage.to_s, Event.NODE_UP, outage.node)

    def run(self) -> Result:
        """Run it to its end: every job has finished, or nothing can happen any more."""
        began = time.perf_counter()
        self.go_on()
        self._sample()
        return self._result(time.perf_counter() - began)

    def go_on(self, until_s: float = inf) -> None:
        """Let time pass until then, or until nothing can happen any more."""
        slurm, heap, count = self.slurm, self.slurm.heap, len(self.workload)
        poll_s = self._poll_s
        while slurm.done < count:
            at = self._submit_s[slurm.submitted] if self.hold_load is None and slurm.submitted < count else inf
            if heap and heap[0][0] < at:
                at = heap[0][0]
            if poll_s and self._next_poll < at:
                if at == inf and not self._busy():
                    break
                if at < inf and self.daemon is not None and self.daemon.rests():
                    self._rest(min(at, until_s, self.daemon.rests_until_s))
                at = min(at, self._next_poll)
            if at > until_s:
                self._pass(until_s)
                return
            if at == inf:
                if self.hold_load is None or slurm.submitted == count:
                    break
                at = slurm.now
            self._pass(at)
            if self.daemon is not None and heap and heap[0][0] <= at:
                self.daemon.happens()
            while heap and heap[0][0] <= at:
                _, event, _, row, epoch = heappop(heap)
                self.events += 1
                if event == Event.WAKE:
                    if self.daemon is not None:
                        self.daemon.wakes()
                else:
                    slurm.happen(event, row, epoch)
            if slurm.dependent:
                see_dependencies(slurm)
            self._submit(at)
            polls = bool(poll_s) and at >= self._next_poll
            if polls:
                self._next_poll = at + poll_s
            self._settle(polls=polls, every_event=not poll_s)
            if self._next_sample <= at:
                self._sample()
            if self.progress is not None and slurm.done - self._told >= 1000:
                self._told = slurm.done
                self.progress(slurm.done, count)

    def _rest(self, until_s: float) -> None:
        """Let the daemon's polls before this time pass: each would do nothing."""
        while self._next_poll < until_s:
            if self._next_sample <= self._next_poll:
                self._pass(self._next_poll)
                self._sample()
            self._next_poll += self._poll_s

    def _pass(self, at: float) -> None:
        """Let time pass until then, in which nothing happens."""
        slurm = self.slurm
        if slurm.running or slurm.te_pending or slurm.be_waiting:
            self._busy_s += at - slurm.now
            self._held_s += slurm.in_use() * (at - slurm.now)
        slurm.now = at

    def _busy(self) -> bool:
        """Check whether a poll of the daemon may still change something: a job runs, or a TE job waits."""
        return bool(self.slurm.running) or bool(self.slurm.te_pending)

    def _submit(self, at: float) -> None:
        slurm, count = self.slurm, len(self.workload)
        if self.hold_load is None:
            while slurm.submitted < count and self._submit_s[slurm.submitted] <= at:
                self._submit_one(slurm.submitted)
                self.events += 1
            return
        demand, nodes = self.workload.demand, self.workload.nodes
        while slurm.submitted < count and self._load < self.hold_load:
            row = slurm.submitted
            self._submit_one(row)
            self._submitted_s[row] = at
            self._outstanding += demand[row] * nodes[row]
            self.events += 1

    def _submit_one(self, row: int) -> None:
        hooked = self.slurm.behaviour.hook and self.slurm.te[row] and self.daemon is not None
        self.slurm.submit(row, held=hooked and self.daemon is not None and not self.daemon.admits(row))

    def _ended(self, row: int) -> None:
        if self.slurm.state[row] is JobPhase.DONE:
            self._outstanding -= self.workload.demand[row] * self.workload.nodes[row]

    @property
    def _load(self) -> float:
        """Return the greatest part of a resource that running and queued jobs ask for."""
        return float((self._outstanding / np.maximum(self._capacity, 1)).max())

    def _settle(self, *, polls: bool, every_event: bool) -> None:
        self.scheduler.run()
        daemon = self.daemon
        if daemon is None:
            return
        for _ in range(MOST_LOOKS):
            if not (polls or daemon.is_awaited() or (every_event and daemon.due())):
                return
            polls = False
            if daemon.look() or self.slurm.stirred:
                self.scheduler.run()
            if self.slurm.heap and self.slurm.heap[0][0] <= self.slurm.now:
                return  # what was done happens at this instant, and is read then

    def _sample(self) -> None:
        slurm = self.slurm
        self._samples.append((slurm.now, slurm.in_use(), len(slurm.te_pending), slurm.be_waiting))
        self._next_sample = slurm.now + slurm.behaviour.sample_s

    def _result(self, took_s: float) -> Result:
        slurm = self.slurm
        workload = self.workload
        if self.hold_load is not None:
            workload = workload.submitted_at(self._submitted_s)
        result = Result(
            workload=workload,
            policy=self.policy_name,
            settings={**asdict(slurm.behaviour)},
            start_s=slurm.first_start_s,
            end_s=slurm.end_s,
            preempted=np.array(slurm.restarts, dtype=np.int32),
            lost_node_s=slurm.lost_node_s,
            held_node_s=slurm.held_node_s,
            preemptions=Preemptions.of(slurm.records, self.daemon.futile if self.daemon else set()),
            use=Use(
                at_s=np.array([at for at, _, _, _ in self._samples]),
                held=np.array([held for _, held, _, _ in self._samples], dtype=np.int64),
                busy_s=self._busy_s,
                held_s=self._held_s,
                te_waiting=np.array([te for _, _, te, _ in self._samples], dtype=np.int64),
                be_waiting=np.array([be for _, _, _, be in self._samples], dtype=np.int64),
            ),
            events=self.events,
            asked=self.daemon.asked if self.daemon else 0,
            took_s=took_s,
            bound=self.watch.use(self.daemon.limits) if self.daemon and self.watch else None,
        )
        return result if slurm.arrays is None else with_trainings_as_jobs(result)


def simulate(
    workload: Workload, behaviour: Behaviour, *, policies: Sequence[PolicyEntry] = (), limits: Limits = NO_LIMITS
) -> Result:
    """Run one workload under one policy (none: Slurm alone) and return what came of it."""
    return Simulation(workload, behaviour, policies=policies, limits=limits).run()


def holding_load(workload: Workload, load: float) -> Workload:
    """Return the same jobs submitted so that, under strict FIFO, the cluster's load stays at `load`.

    A job is submitted whenever what runs and waits is below `load` times the cluster in every resource. FitGpp's paper
    holds 2.0. The times are found by a run and then stand for every policy.
    """
    return Simulation(workload, Behaviour.paper(te_first=False), hold_load=load).run().workload
