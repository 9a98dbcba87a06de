"""Misbehaviour of the simulated Slurm: what goes wrong with commands, answers, jobs, nodes and the daemon itself.

What goes wrong, and when, is drawn from the seed of `FaultSettings`, each kind from numbers of its own: with a kind
left out the others are drawn as before. `watchers` and `happened` learn of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from tesched_core.model.actions import (
    Action,
    Failure,
    FailureKind,
    Notify,
    Outcome,
    Requeue,
    Rerun,
    SetField,
    SetMarks,
    Status,
    Suspend,
    sets,
)
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.field import Field
from tesched_core.model.rate_limit import RateLimit
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import Barred, never_barred

from tesched_sim.actuator import SimulatedActuator
from tesched_sim.clock_faults import Clocks, frozen
from tesched_sim.controller_faults import ControllerFaults
from tesched_sim.fault_settings import FaultKind, FaultSettings
from tesched_sim.job_record import hold_by_user, release, set_nice
from tesched_sim.observer import SimulatedObserver
from tesched_sim.slurm import JobPhase, Slurm

#: seconds for which a daemon's commands may wait for slurmctld in one cycle: then its lease may be over
PATIENCE_S = 8.0
#: RPCs of a poll, and of a command with the read before it
POLL_RPCS, COMMAND_RPCS = 3, 2
#: part of the best-effort jobs that have a licence
LICENSED = 0.1
#: nice values that users and admins set: some jobs of the queue's distance, and more than any
NICE_BY_HAND = (3, 500)
#: kinds of change that a site may refuse; a release of a hold is none
MAY_REFUSE = (Field.NICE, Field.NODES, Field.BEGIN, Field.THROTTLE)


class Misbehaviour:
    """Dice of one run, and what has come of them."""

    def __init__(self, slurm: Slurm, settings: FaultSettings) -> None:
        """Let this cluster misbehave, from now on."""
        self.slurm = slurm
        self.settings = settings
        self.kinds = settings.chosen
        self._dice = {kind: Random(f"{settings.seed} {kind}") for kind in FaultKind}  # noqa: S311 - no secret
        #: how often each kind has happened
        self.happened: Counter[FaultKind] = Counter()
        #: a field whose changes are refused, and until when
        self.refused: dict[Field, float] = {}
        self._tokens, self._counted_s = float(RateLimit().burst), slurm.now
        #: runs that were notified, and those that were requeued
        self._notified: dict[int, int] = {}
        self._requeued: dict[int, int] = {}
        self.healed = False
        self.controller, self.clocks = ControllerFaults(slurm, self._user_releases), Clocks(slurm)
        if FaultKind.LICENCES_LOST in self.kinds:
            dice = self._dice[FaultKind.LICENCES_LOST]
            for row, te in enumerate(slurm.te):
                if not te and (slurm.arrays is None or slurm.arrays.of[row] < 0) and dice.random() < LICENSED:
                    slurm.licenses[row] = "tool:1"
        slurm.watchers.append(self._saw)
        by_themselves = {
            FaultKind.NODE_DIES: self._node_dies,
            FaultKind.USER_CANCELS: self._user_cancels,
            FaultKind.BY_HAND: self._changes_by_hand,
            FaultKind.SLURMCTLD_RESTARTS: self.controller.restarts,
            FaultKind.FAILS_OVER: self.controller.fails_over,
            FaultKind.CLOCK_SET: self.clocks.daemons_is_set,
            FaultKind.SLURM_CLOCK_SET: self.clocks.slurms_is_set,
        }
        for kind, call in by_themselves.items():
            if kind in self.kinds:
                self._by_itself(kind, call)

    def strikes(self, kind: FaultKind) -> bool:
        """Draw whether this goes wrong now, and count it."""
        if kind not in self.kinds or self.healed or self._dice[kind].random() >= self.settings.share:
            return False
        self.happened[kind] += 1
        return True

    def between(self, kind: FaultKind, least: float, most: float) -> float:
        """Draw a number for a fault of this kind."""
        return self._dice[kind].uniform(least, most)

    def settings_of(self, settings: SlurmSettings) -> SlurmSettings:
        """Return slurm.conf as it is where such faults happen."""
        return replace(
            settings,
            release="25.11.2" if FaultKind.LICENCES_LOST in self.kinds else settings.release,
            holds_expedited=FaultKind.HELD_AGAIN in self.kinds,
            rate_limit=RateLimit() if FaultKind.RATE_LIMITED in self.kinds else None,
        )

    @property
    def note(self) -> str:
        """Faults that have happened, and their seed, in words."""
        counts = ", ".join(f"{kind} {count}" for kind, count in sorted(self.happened.items()))
        return f"Slurm misbehaved, by site.faults.seed={self.settings.seed}: {counts or 'nothing happened'}"

    def heal(self) -> None:
        """Let nothing go wrong from now on, and everything that was taken away be there again."""
        self.healed = True
        self.refused.clear()
        self.controller.heal()
        for node in range(len(self.slurm.up)):
            if not self.slurm.up[node]:
                self.slurm.node_up(node)

    def takes(self, rpcs: int) -> float:
        """Take so many RPCs out of the user's bucket; return for how many seconds the last of them waits."""
        if FaultKind.RATE_LIMITED not in self.kinds or self.healed:
            return 0.0
        limit, now = RateLimit(), self.slurm.now
        if self.strikes(FaultKind.RATE_LIMITED):  # other commands of the same user have taken some
            self._tokens -= self.between(FaultKind.RATE_LIMITED, 0, 4 * PATIENCE_S * limit.per_s)
        self._tokens = min(self._tokens + (now - self._counted_s) * limit.per_s, float(limit.burst)) - rpcs
        self._counted_s = now
        return max(-self._tokens, 0.0) / limit.per_s

    def gives_back(self, rpcs: int) -> None:
        """Give back the RPCs of a command that was not sent."""
        self._tokens += rpcs

    # What happens by itself.

    def _by_itself(self, kind: FaultKind, call: Callable[[Random], None]) -> None:
        dice = self._dice[kind]

        def happens() -> None:
            if not self.healed:
                self.happened[kind] += 1
                call(dice)
                self._by_itself(kind, call)

        at = self.slurm.now + dice.expovariate(1 / self.settings.every_s)
        self.slurm.later(at, happens, apart=kind is FaultKind.CLOCK_SET)

    def _node_dies(self, dice: Random) -> None:
        slurm, node = self.slurm, dice.randrange(len(self.slurm.up))
        if not slurm.up[node]:
            return
        slurm.node_down(node)
        slurm.later(slurm.now + dice.uniform(60, 3600), lambda: None if slurm.up[node] else slurm.node_up(node))

    def _user_cancels(self, dice: Random) -> None:
        slurm = self.slurm
        # Not a task of a training: its end is the training's.
        mine = [
            row
            for row in slurm.known
            if slurm.state[row] is not JobPhase.DONE and (slurm.arrays is None or slurm.arrays.of[row] < 0)
        ]
        if mine:
            slurm.cancel(dice.choice(mine))

    def _changes_by_hand(self, dice: Random) -> None:
        slurm = self.slurm
        alone = (row for row in slurm.known if slurm.arrays is None or slurm.arrays.of[row] < 0)
        waiting = [row for row in alone if slurm.state[row] is JobPhase.PENDING and row not in slurm.held]
        if not waiting:
            return
        row = dice.choice(waiting)
        if dice.random() < 0.5:
            slurm.nice_by_hand[row] = dice.choice(NICE_BY_HAND)
            set_nice(slurm, row, slurm.nice_by_hand[row])
            return

        hold_by_user(slurm, row)
        self._user_releases(row)

    def _user_releases(self, row: int) -> None:
        at = self.slurm.now + self._dice[FaultKind.BY_HAND].uniform(60, 3600)
        self.slurm.later(at, lambda: self._is_released(row))

    def _is_released(self, row: int) -> None:
        if row in self.slurm.held_by_user:
            self.slurm.held_by_user.discard(row)
            if self.slurm.state[row] is JobPhase.PENDING:
                release(self.slurm, row)

    def users_release(self) -> None:
        """Let users release all jobs that they hold."""
        for row in sorted(self.slurm.held_by_user):
            self._is_released(row)

    def notified(self, row: int) -> None:
        """Take in that a run has its notice; it may die of it."""
        slurm, run = self.slurm, self.slurm.restarts[row]
        self._notified[row] = run
        if self.strikes(FaultKind.DIES_OF_NOTICE):

            def dies() -> None:
                if slurm.restarts[row] == run and slurm.state[row] is JobPhase.RUNNING and not slurm.leaving[row]:
                    slurm.fail(row)

            slurm.later(slurm.now + 1.0, dies)

    def gets_a_command(self) -> None:
        """Take in that slurmctld is about to carry out a command."""
        self.controller.gets_a_command(self._dice[FaultKind.FAILS_OVER])

    def requeued(self, row: int) -> None:
        """Take in that a run is to end."""
        self._requeued[row] = self.slurm.restarts[row]

    def reprioritised(self, priorities: dict[int, int]) -> None:
        """Take in that jobs have another priority than these; backfill may write them back."""
        slurm = self.slurm
        if not priorities or not self.strikes(FaultKind.PRIORITY_BACK):
            return

        def writes_back() -> None:
            for row, priority in priorities.items():
                if slurm.waits(row) and row not in slurm.fixed:
                    slurm.set_priority(row, priority)

        at = slurm.now + self.between(FaultKind.PRIORITY_BACK, 0.2, 1.4)
        slurm.later(at, self.controller.lost_with_it(writes_back))

    def _saw(self, row: int) -> None:
        slurm = self.slurm
        if slurm.state[row] is not JobPhase.PENDING:
            return
        if slurm.licenses.pop(row, None) is not None:
            self.happened[FaultKind.LICENCES_LOST] += 1
        run = slurm.restarts[row] - 1
        of_notice = self._notified.get(row) == run != self._requeued.get(row)
        if of_notice and row not in slurm.held and self.strikes(FaultKind.HELD_AGAIN):
            slurm.hold_again(row)


class MisbehavingActuator(SimulatedActuator):
    """Actuator of a Slurm that misbehaves."""

    def __init__(self, slurm: Slurm, misbehaviour: Misbehaviour) -> None:
        """Act on this cluster, as far as these faults let it."""
        super().__init__(slurm)
        self.misbehaviour = misbehaviour
        #: called with each action that has reached Slurm, and how it failed
        self.is_late = False
        self.watchers: list[Callable[[Action, FailureKind | None], None]] = []

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        """Perform the action, now, later or never; and say so, or not."""
        return replace(self._act(action, barred), at=self.misbehaviour.clocks.now())

    def _act(self, action: Action, barred: Barred) -> Outcome:
        faults, now = self.misbehaviour, self.slurm.now
        if isinstance(action, SetMarks):  # a file of the daemon's own host, and no command: it can't be late
            full = faults.strikes(FaultKind.UNSENT)
            return _failed(action, now, FailureKind.UNKNOWN) if full else self._done(action, barred)
        if faults.controller.is_away:
            return _failed(action, now, FailureKind.UNREACHABLE)
        if faults.takes(COMMAND_RPCS) > PATIENCE_S:
            faults.gives_back(COMMAND_RPCS)
            return Outcome(action=action, status=Status.SKIPPED, at=now)
        if isinstance(action, SetField) and self._is_refused(action):
            for watcher in self.watchers:
                watcher(action, FailureKind.DENIED)
            return _failed(action, now, FailureKind.DENIED)
        if faults.strikes(FaultKind.UNSENT):
            return _failed(action, now, FailureKind.UNREACHABLE)
        if faults.strikes(FaultKind.LATE_COMMAND):
            self.arrives_late(action)
            return _failed(action, now, FailureKind.UNREACHABLE)
        row = action.job_id - 1
        asks = isinstance(action, Notify | Requeue | Suspend) and row in self.slurm.running
        if asks and not self.slurm.leaving[row] and faults.strikes(FaultKind.ENDS_FIRST):
            self.slurm.ends_now(row)
        outcome = self._done(action, barred)
        if outcome.status is Status.SENT and faults.strikes(FaultKind.UNHEARD):
            return _failed(action, now, FailureKind.UNREACHABLE)
        return outcome

    def arrives_late(self, action: Action) -> None:
        """Let slurmctld carry out a command in some seconds: by then it asks for no more than that such a job is there.

        `scontrol requeue incomplete` is an error for a job that waits or has ended, but meets the next run of its id.
        """
        slurm = self.slurm

        def arrives() -> None:
            late = action
            row = action.job_id - 1
            if isinstance(action, Notify | Requeue) and row < len(slurm.restarts):
                late = replace(action, restarts=slurm.restarts[row])
            self.is_late = True
            self._done(late, never_barred)
            self.is_late = False

        at = slurm.now + self.misbehaviour.between(FaultKind.LATE_COMMAND, 1.0, 5.0)
        slurm.later(at, self.misbehaviour.controller.lost_with_it(arrives))

    def _done(self, action: Action, barred: Barred) -> Outcome:
        slurm, faults, row = self.slurm, self.misbehaviour, action.job_id - 1
        faults.gets_a_command()
        sets_nice = sets(action, Field.NICE) and row in slurm.known
        before = {one: slurm.priority[one] for one in slurm.rows_of(row) if slurm.waits(one)} if sets_nice else {}
        outcome = replace(super().act(self._by_its_clock(action), barred), action=action)
        for watcher in self.watchers:
            watcher(action, outcome.failure.kind if outcome.failure else None)
        if outcome.status is Status.SENT:
            if isinstance(action, Notify):
                faults.notified(row)
            elif isinstance(action, Requeue | Rerun):
                faults.requeued(row)
            faults.reprioritised({one: priority for one, priority in before.items() if slurm.priority[one] != priority})
        return outcome

    def _by_its_clock(self, action: Action) -> Action:
        """Return the action as slurmctld understands it: a begin time is one of its own clock."""
        if not isinstance(action, SetField) or action.field is not Field.BEGIN or not isinstance(action.value, int):
            return action
        return replace(action, value=action.value - round(self.slurm.ahead_s))

    def _is_refused(self, action: SetField) -> bool:
        faults, field, now = self.misbehaviour, action.field, self.slurm.now
        if field in MAY_REFUSE and field not in faults.refused and faults.strikes(FaultKind.REFUSED):
            faults.refused[field] = now + faults.between(FaultKind.REFUSED, 600, 14_400)
        return faults.refused.get(field, 0.0) > now and not faults.healed


class MisbehavingObserver(SimulatedObserver):
    """Observer of a Slurm that misbehaves."""

    def __init__(
        self, slurm: Slurm, misbehaviour: Misbehaviour, *, users_differ: bool = False, has_plugin: bool = False
    ) -> None:
        """See this cluster, as far as these faults let it."""
        super().__init__(slurm, users_differ=users_differ, has_plugin=has_plugin)
        self.misbehaviour = misbehaviour
        self.settings = misbehaviour.settings_of(self.settings)
        #: an answer that is under way, and when it comes
        self._late: tuple[float, Snapshot] | None = None

    def see(self) -> Snapshot | Failure:
        """Poll, and get an answer, a late one, or none."""
        faults, now = self.misbehaviour, self.slurm.now
        if self._late is not None and not faults.healed:
            at, seen = self._late
            if now < at:
                return Failure(kind=FailureKind.UNREACHABLE, message="slurmctld has not answered yet")
            self._late = None
            return seen
        faults.takes(POLL_RPCS)
        if faults.controller.is_away or faults.strikes(FaultKind.NO_ANSWER):
            return Failure(kind=FailureKind.UNREACHABLE, message="slurmctld does not answer")
        if faults.strikes(FaultKind.LATE_ANSWER):
            self._late = now + faults.between(FaultKind.LATE_ANSWER, 1.0, 8.0), frozen(self._dated())
            return Failure(kind=FailureKind.UNREACHABLE, message="slurmctld has not answered yet")
        seen = self._dated()
        if faults.strikes(FaultKind.CUT_ANSWER):
            draws = [(job_id, faults.between(FaultKind.CUT_ANSWER, 0, 1)) for job_id in seen.jobs]
            kept = {job_id: seen.jobs[job_id] for job_id, draw in draws if draw > 0.2}
            return frozen(replace(seen, jobs=kept))
        return seen

    @property
    def answers_at_s(self) -> float | None:
        """When an answer comes that is under way; None: none is."""
        return None if self._late is None else self._late[0]

    def _dated(self) -> Snapshot:
        return self.misbehaviour.clocks.dated(self.observe())

    def forget_answer(self) -> None:
        """Forget an answer that is under way: it was for a daemon that is dead."""
        self._late = None


def _failed(action: Action, now: float, kind: FailureKind) -> Outcome:
    failure = Failure(kind=kind, message="Slurm misbehaves, as drawn")
    return Outcome(action=action, status=Status.FAILED, at=now, failure=failure)
