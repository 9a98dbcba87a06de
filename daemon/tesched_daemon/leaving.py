"""Leaving mode enforce: in another mode, what mode enforce has changed is put back before anything is decided.

Principle
    This is a state, not an event. As long as this daemon leads, its mode is another one, and the memory has a change
    that was really made, or an order with a victim that was really preempted, its turns put back (`Loop.undo`), with
    the actuator that acts. It does not matter why that was not done before: slurmctld did not answer when the daemon
    was started in the other mode, the store could not be read at the reload, or another daemon led until now.

    Of a job that the submission hook has held the memory may not know yet. So a reload from mode enforce to another one
    is followed by one such turn in any case, and so is a start in another mode where mode enforce has left its
    admission file, or has written the store last and left an open order there: it withdraws that file, sees what the
    hook has held since the last poll, and ends orders for which nothing was done yet. A hold of the hook's that mode
    shadow finds else may be another daemon's, and stays.

    What cannot be put back now is not waited for: the nodes of a TE job that runs, what is left of a job that has
    ended, a nice value that stays for as long as its job is held (priority/basic), a change of a job that is
    completing, or of which it is in doubt what Slurm says, and a withdrawn order whose victims leave, may have left, or
    may yet leave: in their grace periods. Once a poll shows that it can be, the next turn puts it back.

Worked example
    A daemon is started in mode shadow, and job 17 is held by the one before, of mode enforce. slurmctld does not
    answer, and the turns come less and less often. Then it answers: job 17 is released, half a second later that is
    seen, and the next turn is the first one of mode shadow.

Source
    tesched's own.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from tesched_core.model.actions import OrderId
from tesched_core.model.change import NEVER, By, Change
from tesched_core.model.field import Field
from tesched_core.model.lead import Lead
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, Order, OrderState, Victim, VictimState
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.departures import departure_of, may_go
from tesched_core.orders.early_rerun import failed_of_its_notice
from tesched_core.orders.undo import changed_still
from tesched_core.placement.jobs_there import TasksThere

from tesched_daemon.admission_file import AdmissionFile
from tesched_daemon.rest import is_open
from tesched_daemon.settings import Mode, Pace

log = logging.getLogger(__name__)

#: Polls in a row that put nothing back before they come less often, or it is given up where nothing follows; and
#: seconds between two polls: what was sent is seen in the next one, a few seconds at most.
POLLS = 10
PAUSE_S = 0.5


@dataclass(kw_only=True)
class Leaving:
    """How far mode enforce is left."""

    #: what is left of it, in words; empty: nothing
    said: str = field(default="", init=False)
    #: changes that were left after the last turn, and how many turns in a row left as many
    _left: int | None = field(default=None, init=False)
    _idle: int = field(default=0, init=False)
    #: mode enforce has ended by a reload, and no turn has seen the cluster and put back since
    _just_left: bool = field(default=False, init=False)
    #: a turn has led
    _has_begun: bool = field(default=False, init=False)

    @property
    def is_under_way(self) -> bool:
        """Check whether changes are to be put back, or may be."""
        return self._just_left or bool(self.said)

    def changes_mode(self, before: Mode, mode: Mode) -> None:
        """Take in the mode after a reload, between two turns."""
        self._just_left = mode is not Mode.ENFORCE and (self._just_left or before is Mode.ENFORCE)

    def finds(self, mode: Mode, admission: AdmissionFile | None, last: Lead, memory: Memory) -> None:
        """Take in, before a turn whose memory was read anew, whether mode enforce has left orders in the store.

        `last` says which mode wrote there last. Before the first turn that leads, its admission file counts, too.
        """
        was_enforce = last.mode == Mode.ENFORCE or bool(last.leaving)
        has_open = any(one.state is OrderState.OPEN for one in memory.open_orders())
        has_file = not self._has_begun and admission is not None and admission.is_there
        if mode is not Mode.ENFORCE and (has_file or (was_enforce and has_open)):
            self._just_left = True
        self._has_begun = True

    def is_due(self, memory: Memory, last: Snapshot | None, mode: Mode) -> bool:
        """Check whether this turn is to put back; `last` is the last good poll."""
        left = 0 if mode is Mode.ENFORCE else _of_enforce(memory, last)
        self._just_left &= mode is not Mode.ENFORCE
        if not (left or self._just_left):
            if self.said and mode is not Mode.ENFORCE:
                log.info("mode enforce is left: what it had changed is put back")
            self.said, self._left, self._idle = "", None, 0
            return False
        begins = not self.said
        self.said = "what mode enforce has changed is put back first"
        if left:
            self.said += f": {left} change(s) and order(s) are left"
        if begins:
            log.warning("mode %s is to begin: %s", mode, self.said)
        return True

    def put_back(self, left: int) -> None:
        """Take in a turn that has seen the cluster, and how many changes it left that can be put back."""
        self._idle = 0 if self._left is not None and left < self._left else self._idle + 1
        self._left, self._just_left = left, False

    def next_in_s(self, pace: Pace) -> float:
        """Return the seconds until the next turn; 0 where nothing is being left."""
        if not self.said:
            return 0.0
        if self._idle < POLLS:
            return min(PAUSE_S, pace.poll_interval_s)
        # Doubling a float fifty times is enough for any limit; more would only overflow.
        wait_s = pace.poll_interval_s * 2.0 ** min(self._idle - POLLS, 50)
        return min(wait_s, pace.backoff_max_s)


def _of_enforce(memory: Memory, last: Snapshot | None) -> int:
    """Count what was really changed and can be put back, and the orders for which a job was really preempted."""
    there = None if last is None else TasksThere(last.jobs)
    changes = {
        name: {job_id: one for job_id, one in by_job.items() if is_open(one, last, there)}
        for name, by_job in memory.changes.items()
    }
    orders = {one.order_id: one for one in memory.open_orders() if any(map(_was_preempted, one.victims))}
    if last is None:
        return len(orders) + sum(map(len, changes.values()))
    late = {one.order_id for by_job in changes.values() for one in by_job.values() if _must_wait(one, last)}
    changes = {
        name: {job_id: one for job_id, one in by_job.items() if not _must_wait(one, last)}
        for name, by_job in changes.items()
    }
    orders = {order_id: one for order_id, one in orders.items() if not _only_waits(one, late, last)}
    return changed_still(replace(memory, changes=changes, orders=orders), last)


def _must_wait(one: Change[Any], last: Snapshot) -> bool:
    """Check whether a change can't be put back for now, by the last poll; marks are the daemon's own file."""
    job = last.jobs.get(one.job_id)
    if job is None or one.field is Field.MARK:
        return False
    # Of a job that is completing Slurm takes neither of these.
    is_refused = one.field in {Field.NICE, Field.PRIORITY} or one.by is By.REQUEUE
    return bool(job.doubt) or (job.completing and is_refused)


def _only_waits(order: Order, late: Collection[OrderId | None], last: Snapshot) -> bool:
    """Check whether a withdrawn order awaits only victims that leave, or may have left, and changes that are `late`."""
    stay = [one for one in order.victims if one.state is VictimState.SUSPENDED or one.state in HOLDS_RESOURCES]
    if order.state is OrderState.OPEN or not (stay or order.order_id in late):
        return False
    return all(one.state is not VictimState.SUSPENDED and _leaves(one, last) for one in stay)


def _leaves(victim: Victim, last: Snapshot) -> bool:
    """Check whether a victim is leaving, or may leave or have left, so that undo leaves it (`orders/undo.py`)."""
    job = last.jobs.get(victim.job_id)
    if job is not None and departure_of(victim, job, last.taken_at, last.settings.release) is not None:
        return False
    if job is not None and failed_of_its_notice(victim, job, last.settings):
        return victim.requeue_sent_at is not None  # its early rerun is sent once
    return may_go(victim, last)


def recorded_alone(before: Memory, after: Memory) -> Memory:
    """Return the memory after a turn of mode shadow, in which holds of the submission hook's that it has found are dry.

    They may be another daemon's, which has a store of its own.
    """
    known, now = before.changes_of(Field.HOLD), after.changes_of(Field.HOLD)
    found = {job_id: replace(one, dry=True) for job_id, one in now.items() if one.at == NEVER and job_id not in known}
    return replace(after, changes={**after.changes, Field.HOLD: {**now, **found}}) if found else after


def _was_preempted(victim: Victim) -> bool:
    # Of an order that was only recorded nothing is sent, and it has ended.
    return victim.noticed_at is not None or victim.suspended_at is not None or victim.left_at is not None
