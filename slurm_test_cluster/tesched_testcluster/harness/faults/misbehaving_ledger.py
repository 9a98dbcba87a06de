"""Ledger of a run on a simulated Slurm that misbehaves: what tesched has really done, and what must hold of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from tesched_core.model.actions import Action, FailureKind, Notify, OrderId, Requeue, Rerun, SetMarks, Suspend
from tesched_core.model.decision import Decision
from tesched_core.model.field import Field
from tesched_core.model.limits import YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, OrderState
from tesched_core.model.refused import field_of
from tesched_core.placement.can_return import loses_licenses
from tesched_sim.engine import Daemon, Simulation
from tesched_sim.misbehaviour import MisbehavingActuator
from tesched_sim.slurm import JobPhase

HOUR_S = 3600.0
#: a run: how often Slurm has started the job anew, and how often that was set back to an older state
Run = tuple[int, int]
#: seconds after an action in which another one may be under way, or Slurm may undo it
AT_REST_S = 60.0
#: seconds by which a grace period may be shorter where it is not known when the notice arrived: an answer that was late
#: by 8 s, and a command that was late by 5 s
UNCLEAR_S = 13.0
#: seconds within which a rerun that did not reach Slurm is tried again: some polls
TRIES_EACH_S = 30.0


class ViolationError(AssertionError):
    """What must hold, and does not. The text says what, with job and order."""


@dataclass(kw_only=True)
class Ledger:
    """Ledger of one run; it watches from its beginning."""

    simulation: Simulation
    daemon: Daemon
    #: how often a job has run to its end
    completed: Counter[int] = field(default_factory=Counter)
    #: runs that were notified, by order, row and run, and when; and runs that were requeued
    noticed: dict[tuple[OrderId | None, int, Run], float] = field(default_factory=dict)
    requeued: dict[tuple[OrderId | None, int, Run], float] = field(default_factory=dict)
    #: when runs were ended for TE jobs of other users, by row and restarts; and for whose TE jobs runs were ended
    paid: dict[tuple[int, int], float] = field(default_factory=dict)
    caused: list[tuple[str, float]] = field(default_factory=list)
    #: kinds of change that Slurm has just refused
    denied: set[Field] = field(default_factory=set)
    #: notices of which the daemon can't know when they were sent: late ones, and those before its death
    _deaths_at: dict[tuple[OrderId | None, int, Run], int] = field(default_factory=dict)
    _deaths: int = 0
    #: preemptor for which Slurm itself has ended a run, of those that paid
    _by_slurm_for: dict[tuple[int, int], int] = field(default_factory=dict)
    #: when an action has reached Slurm last
    _acted_s: float = 0.0
    #: when a cycle has last meant to put a job that failed back in the queue, and when one has last come while it was
    #: to be seen that it had failed, by row
    _tried_s: dict[int, float] = field(default_factory=dict)
    _seen_failed_s: dict[int, float] = field(default_factory=dict)
    _records: int = 0
    _restores: int = 0
    _restored_s: float = 0.0
    _known: set[OrderId] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Watch."""
        hands = self.daemon.hands
        assert isinstance(hands, MisbehavingActuator)
        hands.watchers.append(self.did)
        self.daemon.watchers.append(self.decided)
        self.simulation.slurm.watchers.append(self.saw)

    def saw(self, row: int) -> None:
        """Take in that a job has started, left or ended."""
        slurm = self.simulation.slurm
        for record in slurm.records[self._records :]:
            # Slurm itself has preempted it. For which job is not to be known if one of its own user waits as well.
            if record.order_id == 0 and not self._its_user_waits(record.victim):
                self._pays(record.victim, record.preemptor, by_slurm=True)
        self._records = len(slurm.records)
        if slurm.state[row] is JobPhase.DONE and row not in slurm.cancelled and row not in slurm.failed:
            self.completed[row] += 1
            self._must(self.completed[row] == 1, f"job {row + 1} ran to its end twice")
        elif slurm.state[row] is JobPhase.RUNNING:
            self._must(not self.completed[row], f"job {row + 1} has run to its end, and runs again")
            self._must(row not in slurm.held_by_user, f"job {row + 1} starts, though its user holds it")

    def decided(self, memory: Memory, decision: Decision) -> None:
        """Check a decision and the memory with it."""
        self._forget_what_no_store_knows()
        limits = self.daemon.limits
        new = memory.orders.keys() - self._known
        self._known |= new
        self._must(" has failed" not in decision.summary, decision.summary)
        orders = memory.open_orders()
        freeing = [one for one in orders if one.frees_resources and self.simulation.slurm.te[one.preemptor - 1]]
        self._must(len(freeing) <= limits.max_open_orders, f"{len(freeing)} orders make victims leave")
        paying = Counter(one.job_id for order in orders for one in order.victims if one.state in HOLDS_RESOURCES)
        self._must(max(paying.values(), default=0) < 2, f"one job pays for two orders: {paying.most_common(1)}")
        served = Counter(order.preemptor for order in orders if order.state is OrderState.OPEN)
        self._must(max(served.values(), default=0) < 2, f"two orders for one job: {served.most_common(1)}")
        fresh = [victim for order_id in new for victim in memory.orders[order_id].victims]
        # What Slurm has preempted is seen after it, and turns have limits of their own.
        by_slurm = limits.lever is YieldBy.PLUGIN
        if not (by_slurm or self.daemon.manages_be):
            self._must(len(fresh) <= limits.max_victims_per_cycle, f"{len(fresh)} victims in one cycle")
        if self._losses != self._deaths:  # before it had written that, or answers that it had
            self.denied.clear()
            self._deaths = self._losses
        for refused in self.denied:
            self._must(refused in memory.refused, f"Slurm has refused to set {refused}, and status does not say so")
        self.denied.clear()
        for one in decision.actions:
            if isinstance(one, Rerun):
                self._tried_s[one.job_id - 1] = self.simulation.slurm.now
            self._must(bool(one.reason.text), f"{one} has no reason")
        slurm = self.simulation.slurm
        self._seen_failed_s |= {row: slurm.now for row in slurm.failed if row in slurm.known}
        if not any(isinstance(one, SetMarks) for one in decision.actions):
            self._check_rest(memory)

    def _check_rest(self, memory: Memory) -> None:
        """Check that nothing is left behind where nothing is remembered, and nothing can be under way."""
        remembers = memory.open_orders() or any(memory.changes.values())
        if remembers or self.simulation.slurm.now - self._acted_s < AT_REST_S:
            return
        left = [*self.left_behind()]
        self._must(not left, f"nothing is remembered, and {'; '.join(left)}")

    def did(self, action: Action, failed: FailureKind | None) -> None:
        """Check an action that has reached Slurm."""
        self._forget_what_no_store_knows()
        self._acted_s = self.simulation.slurm.now
        if failed is FailureKind.DENIED and (refused := field_of(action)) is not None:
            self.denied.add(refused)
        if failed is not None or not isinstance(action, Notify | Requeue | Suspend) or self._is_of_the_past():
            return
        slurm, row, now = self.simulation.slurm, action.job_id - 1, self.simulation.slurm.now
        run, order_id = self._run(row), action.reason.order_id
        self._must(not slurm.te[row], f"job {row + 1} is a TE job, and is a victim")
        loses = loses_licenses(self.daemon.eyes.settings) and row in slurm.licenses
        self._must(not loses, f"job {row + 1} would lose its licences, and is a victim")
        key = (order_id, row, run)
        if isinstance(action, Notify):
            self._must(key not in self.noticed, f"job {row + 1} has two notices in one run, of order {order_id}")
            self.noticed[key] = now
            self._deaths_at[key] = -1 if self._is_late() else self._losses
            return
        if isinstance(action, Suspend):
            return
        if key in self.noticed:
            waited_s = now - self.noticed[key]
            # It can't know when a late notice arrived, nor when one was sent that it sent before it died.
            unclear = self._is_late() or self._deaths_at[key] != self._losses
            self._must(
                # Its clock was set, and it has no other word for when it was.
                self.noticed[key] <= self.daemon.untimed_s
                or waited_s >= slurm.grace_s[row] - (UNCLEAR_S if unclear else 1e-6),
                f"job {row + 1} was requeued {waited_s:.0f} s after its notice",
            )
        again = key in self.requeued
        self.requeued[key] = now
        preemptor = (action.reason.preemptor or 0) - 1
        if not again and preemptor >= 0 and slurm.te[preemptor]:
            self._pays(row, preemptor)

    def _forget_what_no_store_knows(self) -> None:
        """Forget what came after the copy that was restored as the daemon's store: the daemon can't know of it."""
        if self.daemon.restores == self._restores:
            return
        self._restores, then = self.daemon.restores, self.daemon.restored_to_s
        self._restored_s = self.simulation.slurm.now
        self.noticed = {key: at for key, at in self.noticed.items() if at <= then}
        self.requeued = {key: at for key, at in self.requeued.items() if at <= then}
        self.paid = {key: at for key, at in self.paid.items() if at <= then}
        self.caused = [(user, at) for user, at in self.caused if at <= then]
        self._known = {*self.daemon.restored_orders}
        self.denied.clear()

    def _is_of_the_past(self) -> bool:
        """Check whether a command may be a late one from before a copy was restored, which knows nothing of it."""
        return self._restores > 0 and self._is_late() and self.simulation.slurm.now - self._restored_s < AT_REST_S

    def _is_unknown(self, row: int) -> bool:
        """Check whether a job had changes, or an order, of which a store that was restored did not know."""
        return row + 1 in self.daemon.unknown

    @property
    def _losses(self) -> int:
        """How often it may not have written what became of its actions."""
        return self.daemon.deaths + self.daemon.store_failures

    def _run(self, row: int) -> Run:
        assert self.daemon.faults is not None
        return self.simulation.slurm.restarts[row], self.daemon.faults.controller.set_back.get(row, 0)

    def _pays(self, row: int, preemptor: int, *, by_slurm: bool = False) -> None:
        slurm, now, run = self.simulation.slurm, self.simulation.slurm.now, self.simulation.slurm.restarts[row]
        users, user = slurm.workload.user_names, slurm.workload.user
        theirs, his = users[user[preemptor]], users[user[row]]
        self.caused.append((theirs, now))
        if theirs != his:
            self.paid[row, run] = now
            self._by_slurm_for |= {(row, run): preemptor} if by_slurm else {}
        self._check_limits(row, his, theirs)

    def _its_user_waits(self, row: int) -> bool:
        slurm = self.simulation.slurm
        waiting = (one for one in slurm.known if slurm.te[one] and slurm.state[one] is JobPhase.PENDING)
        return any(slurm.workload.user[one] == slurm.workload.user[row] for one in waiting)

    def _is_late(self) -> bool:
        hands = self.daemon.hands
        return isinstance(hands, MisbehavingActuator) and hands.is_late

    def _check_limits(self, row: int, his: str, theirs: str) -> None:
        slurm, limits, now = self.simulation.slurm, self.daemon.limits, self.simulation.slurm.now
        # No poll shows that Slurm has preempted for a TE job that was cancelled before it started, or that had other
        # resources before its victim was gone.
        gone = {
            (victim, run)
            for (victim, run), preemptor in self._by_slurm_for.items()
            if preemptor in slurm.cancelled or slurm.started_s[preemptor] < slurm.queued_s[victim] - 1
        }
        paid = {key: at for key, at in self.paid.items() if key not in gone}
        times = sum(one == row for one, _ in paid)
        most = limits.max_preemptions_per_job
        self._must(times <= most, f"job {row + 1} was preempted {times} times; {most} are allowed")
        # A notice counts from its moment on, and its requeue comes some minutes later.
        since = max(now - HOUR_S / 2, self.daemon.untimed_s)
        lately = [one for (one, _), at in paid.items() if at > since]
        most = limits.max_preemptions_per_hour
        self._must(len(lately) <= most, f"{len(lately)} preemptions within an hour; {most} are allowed")
        users, user = slurm.workload.user_names, slurm.workload.user
        of_user = sum(users[user[one]] == his for one in lately)
        most = limits.max_preemptions_per_user_hour
        self._must(of_user <= most, f"{of_user} of {his}'s jobs preempted within an hour; {most} are allowed")
        by_user = sum(one == theirs and at > since for one, at in self.caused)
        most = limits.max_victims_for_te_user_hour
        # With the plugin the limit holds from the poll after it was reached.
        self._must(
            by_user <= most or limits.lever is YieldBy.PLUGIN,
            f"{theirs}'s TE jobs made {by_user} leave within an hour; {most} are allowed",
        )

    def left_behind(self) -> Iterator[str]:
        """Yield what is not as its user wants it, of jobs that have not ended."""
        slurm = self.simulation.slurm
        assert self.daemon.faults is not None
        waiting = [row for row in slurm.known if slurm.state[row] is JobPhase.PENDING]
        for row in slurm.known:
            if slurm.state[row] is JobPhase.DONE or self._is_unknown(row):
                continue  # Slurm changes nothing of it any more, or nothing says what its user wants
            name = f"job {row + 1}"
            wanted = slurm.nice_by_hand.get(row, 0)
            # With an explicit priority Slurm sets it to 0, and ignores it from then on.
            if slurm.nice[row] != wanted and not (row in slurm.fixed and slurm.nice[row] == 0):
                yield f"{name} has nice {slurm.nice[row]}, and {wanted} by hand"
            if row in slurm.held and row not in slurm.held_by_user:
                yield f"{name} is held"
            if slurm.state[row] is JobPhase.SUSPENDED:
                yield f"{name} is suspended"
        for row in waiting:
            if self._is_unknown(row):
                continue
            if row in slurm.bound:
                yield f"job {row + 1} is bound to {slurm.bound[row]}"
            late_s = slurm.eligible_s.get(row, 0.0) - float(slurm.queued_s[row]) - slurm.behaviour.requeue_delay_s
            if row in slurm.ineligible and late_s > 1 and row not in self.daemon.faults.clocks.moved:
                yield f"job {row + 1} starts {late_s:.0f} s later than Slurm lets it"
            off = slurm.priority[row] - slurm.own_priority(row)
            if row not in slurm.held and abs(off) > len(slurm.state) * 2 + 2:
                yield f"job {row + 1} has a priority that is {off:+} off"
        yield from self._throttles_left()
        if slurm.marks:
            yield f"{len(slurm.marks)} jobs are marked"

    def _throttles_left(self) -> Iterator[str]:
        """Yield throttles that are not their users'; of an array of which no task is known there is none."""
        slurm = self.simulation.slurm
        if slurm.arrays is None:
            return
        own = slurm.workload.throttle.tolist()
        for array, rows in enumerate(slurm.arrays.rows):
            now = slurm.arrays.throttle[array]
            if now != own[array] and not self._is_unknown(rows[-1]) and any(row in slurm.known for row in rows):
                yield f"array {rows[-1] + 1} has throttle {now}, and {own[array]} of its user"

    def check_end(self, *, undone: bool) -> None:
        """Check that no job is lost, and that nothing is under way."""
        slurm = self.simulation.slurm
        for row, state in enumerate(slurm.state):
            why = "suspended" if state is JobPhase.SUSPENDED else "held" if row in slurm.held else state.name
            if self._is_unknown(row):
                continue  # an admin's hold, or signal, would be the same
            self._must(state is JobPhase.DONE, f"job {row + 1} has not ended: {why}")
            lost = row in slurm.failed
            excused = undone or self._was_out_of_reach(row)
            self._must(not lost or excused, f"job {row + 1} died of its notice, and was not run again")
        if not undone:
            self._must_settle()

    def _was_out_of_reach(self, row: int) -> bool:
        """Check whether slurmctld has forgotten a job that failed before tesched could have put it back in the queue.

        Each answer that shows it to have failed must have been followed by a try, up to the last one.
        """
        tried_s, failed_s = self._tried_s.get(row, -inf), self._seen_failed_s.get(row, -inf)
        return row not in self.simulation.slurm.known and tried_s >= failed_s - TRIES_EACH_S

    def _must_settle(self) -> None:
        simulation, daemon = self.simulation, self.daemon
        for _ in range(200):
            simulation.slurm.now += 10.0
            daemon.look()
            if not daemon.memory.open_orders() and not any(daemon.memory.changes.values()):
                return
        orders = [f"order {one.order_id} is {one.state}" for one in daemon.memory.open_orders()]
        changes = [f"{name} of {len(some)}" for name, some in daemon.memory.changes.items() if some]
        self._must(False, f"all jobs have ended, and there is still: {'; '.join(orders + changes)}")

    def _must(self, holds: bool, text: str) -> None:
        if not holds:
            raise ViolationError(f"{text} (at {self.simulation.slurm.now:.1f} s)")
