"""slurmctld of the simulated Slurm is away for minutes, and back with the state that it saved, or with an older one.

Seen on 22.05.8 (`tests/cluster/test_slurmctld_restart.py`): nice values, priorities, holds, node lists and begin times
are kept. Until a node has reported, it is UNKNOWN, its jobs are shown as they were, and nothing starts on it; an end
that came meanwhile is learned with that report. Until the first pass no waiting job has a reason. After a kill the
state is up to five seconds older: what was set since is as it was before, a job that has started since waits again,
and one that was requeued since is shown to run, though nothing of it does, until slurmctld misses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from random import Random

from tesched_sim.slurm import Event, JobPhase, Slurm

#: seconds for which slurmctld is away
AWAY_S = (30.0, 900.0)
#: seconds from its return until a node has reported, and until the first pass over the queue
REPORTS_S, FIRST_PASS_S = (1.0, 60.0), 5.0
#: seconds from its return until it first forgets jobs that ended long ago (PURGE_JOB_INTERVAL)
FORGETS_AFTER_S = 60.0
#: seconds by which the state may be older after a kill: slurmctld begins to write it five seconds after a change
OLDER_S = (0.5, 8.0)
#: seconds after which one that is to be killed soon after a command is killed without
COMMAND_WITHIN_S = 600.0
#: seconds until slurmctld misses a job that its state shows to run, and that does not
MISSED_S = (30.0, 600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedJob:
    """A job in the state that slurmctld has saved."""

    phase: JobPhase
    restarts: int
    priority: int
    nice: int
    nice_by_hand: int | None
    is_fixed: bool
    is_held: bool
    is_held_by_user: bool
    bound: tuple[int, ...]
    eligible_s: float | None
    where: tuple[int, ...]
    started_s: float
    queued_s: float


class ControllerFaults:
    """slurmctld, which goes away and comes back."""

    def __init__(self, slurm: Slurm, holds_again: Callable[[int], None]) -> None:
        """Let it be there. `holds_again` is called with a job whose user has released it, as it is held again."""
        self.slurm = slurm
        self._holds_again = holds_again
        #: it does not answer, and learns of nothing
        self.is_away = False
        #: how often it has come back; a command that was under way before is lost
        self.starts = 0
        #: when it was killed last
        self.killed_s = -inf
        #: how often a job's run was set back to an older state, by row
        self.set_back: dict[int, int] = {}
        self._is_healed = self._is_to_be_killed = False
        self._back_s = 0.0
        #: when each node reports that has not done so yet
        self._reports_s: dict[int, float] = {}
        slurm.learns_at = self.learns_at

    def learns_at(self, event: int, row: int) -> float:
        """Time at which slurmctld learns of what happens now; now, if it is there."""
        at = self.slurm.now
        if event == Event.APART:
            return at
        if self.is_away:
            at = self._back_s
        if event in {Event.END, Event.LEAVE} and self._reports_s:
            at = max([at, *(self._reports_s.get(node, 0.0) for node in self.slurm.where[row])])
        return at

    def restarts(self, dice: Random) -> None:
        """Let slurmctld be stopped in good order, and started again some time later."""
        if not self.is_away:
            self._goes_away(dice)

    def fails_over(self, dice: Random) -> None:
        """Let slurmctld be killed soon after the daemon's next command, or in a while if there is none."""
        starts = self.starts
        self._is_to_be_killed = True

        def comes_to_it() -> None:
            if starts == self.starts:
                self.gets_a_command(dice)

        self.slurm.later(self.slurm.now + COMMAND_WITHIN_S, comes_to_it)

    def gets_a_command(self, dice: Random) -> None:
        """Let slurmctld, if it is to be killed, be so in some seconds, and its successor find what it has now."""
        slurm = self.slurm
        if not self._is_to_be_killed or self.is_away:
            return
        self._is_to_be_killed = False
        saved = {row: self._saved(row) for row in slurm.known if slurm.arrays is None or slurm.arrays.of[row] < 0}
        starts = self.starts

        def is_killed() -> None:
            if starts == self.starts and not (self.is_away or self._is_healed):
                self.killed_s = slurm.now
                self._goes_away(dice)
                self._sets_back(saved, dice)

        slurm.later(slurm.now + dice.uniform(*OLDER_S), is_killed)

    def heal(self) -> None:
        """Let it be there, and every node have reported."""
        if self.is_away:
            self._is_back()
        self._is_healed = True
        self._reports_s.clear()
        self.slurm.unexamined_until = 0.0

    def lost_with_it(self, call: Callable[[], None]) -> Callable[[], None]:
        """Return this for slurmctld to do later; one that has been started anew by then does not."""
        starts = self.starts

        def done() -> None:
            if starts == self.starts and not self.is_away:
                call()

        return done

    def _goes_away(self, dice: Random) -> None:
        slurm = self.slurm
        self.is_away = slurm.is_away = True
        self._back_s = slurm.now + dice.uniform(*AWAY_S)
        # Also those that have not reported to the last one.
        nodes = [node for node in range(len(slurm.up)) if slurm.up[node] or node in slurm.unreported]
        reports_s = {node: self._back_s + dice.uniform(*REPORTS_S) for node in nodes}
        self._reports_s = dict(reports_s)

        def comes() -> None:
            if self.is_away:
                self._is_back()
                for node in reports_s:
                    slurm.up[node] = False
                    slurm.unreported.add(node)
                slurm.unexamined_until = slurm.now + FIRST_PASS_S

        slurm.later(self._back_s, comes)
        for node, at in reports_s.items():
            slurm.later(at, partial(self._has_reported, node, at))

    def _is_back(self) -> None:
        self.is_away = self.slurm.is_away = False
        self.starts += 1
        self.slurm.forgets_from = self.slurm.now + FORGETS_AFTER_S
        self.slurm.stirred = True

    def _has_reported(self, node: int, at: float) -> None:
        if self._reports_s.get(node) != at:
            return  # to one that has ended since
        del self._reports_s[node]
        if node in self.slurm.unreported:
            self.slurm.node_up(node)

    # An older state.

    def _saved(self, row: int) -> SavedJob:
        slurm = self.slurm
        return SavedJob(
            phase=slurm.state[row],
            restarts=slurm.restarts[row],
            priority=slurm.priority[row],
            nice=slurm.nice[row],
            nice_by_hand=slurm.nice_by_hand.get(row),
            is_fixed=row in slurm.fixed,
            is_held=row in slurm.held,
            is_held_by_user=row in slurm.held_by_user,
            bound=slurm.bound.get(row, ()),
            eligible_s=slurm.eligible_s.get(row) if row in slurm.ineligible else None,
            where=slurm.where[row],
            started_s=float(slurm.started_s[row]),
            queued_s=float(slurm.queued_s[row]),
        )

    def _sets_back(self, saved: dict[int, SavedJob], dice: Random) -> None:
        slurm = self.slurm
        for row, one in saved.items():  # first of all, as those that run again take what they give back
            if one.phase is JobPhase.PENDING and slurm.state[row] is JobPhase.RUNNING and not slurm.leaving[row]:
                self._waits_again(row)
        for row, one in saved.items():
            phase, restarts = slurm.state[row], slurm.restarts[row]
            if phase is one.phase and phase is not JobPhase.DONE and restarts == one.restarts:
                self._set_back(row, one)
            elif phase is JobPhase.PENDING and one.phase is JobPhase.RUNNING and restarts == one.restarts + 1:
                self._is_shown_to_run(row, one, dice)

    def _set_back(self, row: int, one: SavedJob) -> None:
        slurm = self.slurm
        if one.is_held_by_user and row not in slurm.held_by_user:
            self._holds_again(row)
        slurm.nice[row] = one.nice
        slurm.nice_by_hand.pop(row, None)
        if one.nice_by_hand is not None:
            slurm.nice_by_hand[row] = one.nice_by_hand
        for kept, was in ((slurm.fixed, one.is_fixed), (slurm.held_by_user, one.is_held_by_user)):
            (kept.add if was else kept.discard)(row)
        if slurm.state[row] is not JobPhase.PENDING:
            slurm.priority[row] = one.priority
            return
        if one.is_held:
            slurm.keep_back(row, slurm.held, back=True)
            slurm.priority[row] = 0
        else:
            slurm.set_priority(row, one.priority)
            slurm.keep_back(row, slurm.held, back=False)
        if slurm.bound.get(row, ()) != one.bound:
            slurm.bind(row, one.bound)
        if row in slurm.ineligible and one.eligible_s != slurm.eligible_s[row]:
            slurm.put_off(row, one.eligible_s or slurm.now)

    def _waits_again(self, row: int) -> None:
        """Let a job that has just started wait again: its node ends what slurmctld does not know of."""
        slurm = self.slurm
        self._is_set_back(row)
        slurm.never_started(row)

    def _is_shown_to_run(self, row: int, one: SavedJob, dice: Random) -> None:
        slurm = self.slurm
        if not all((slurm.free[node] >= slurm.held_on(row, node)).all() for node in one.where):
            return  # what has come since takes its place: a job that was submitted within these seconds
        self._is_set_back(row)
        kept_s = slurm.saved_s[row]
        slurm.never_left(row, one.where, started_s=one.started_s, queued_s=one.queued_s)
        epoch = slurm.restarts[row], self.set_back[row]

        def is_missed() -> None:
            still = slurm.state[row] is JobPhase.RUNNING and not slurm.leaving[row]
            if still and epoch == (slurm.restarts[row], self.set_back[row]):
                slurm.noticed_s[row] = nan
                slurm.leaves(row)
                slurm.saved_s[row] = kept_s

        slurm.later(self._back_s + dice.uniform(*MISSED_S), is_missed)

    def _is_set_back(self, row: int) -> None:
        self.set_back[row] = self.set_back.get(row, 0) + 1
