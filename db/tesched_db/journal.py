"""The journal: what was seen, meant and done, one transaction a call.

What the store holds is kept here in memory as well, so that a cycle writes only what is new. After any error that copy
is thrown away and read again; nor is another process's writing overlooked, since each transaction begins by raising a
revision that it must find as it left it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, bindparam, insert, select, update
from tesched_core.intake.classify import Question
from tesched_core.model.actions import Outcome
from tesched_core.model.decision import Decision
from tesched_core.model.lead import Lead
from tesched_core.model.memory import Memory
from tesched_core.model.order import Transition
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.clock_jump import shift_times
from tesched_core.ports import CycleReport

from tesched_db.clock_skew import later_by_s, now_of
from tesched_db.decision_rows import action_values, outcome_values, transition_values
from tesched_db.engine import named_store, reading, writing
from tesched_db.errors import StoreError, store_errors
from tesched_db.finished_runs import learn_ended
from tesched_db.held import Held
from tesched_db.job_rows import of_te
from tesched_db.lease import (
    LEASE,
    STANDBY_SAYS_S,
    Holder,
    LeaseError,
    PollTimes,
    holder_of,
    lead,
    leader_of,
    no_standby,
    resign,
    stand_by,
)
from tesched_db.lease_watch import LeaseWatch
from tesched_db.memory_rows import scalars
from tesched_db.process import place, ticks_of
from tesched_db.rows import Values
from tesched_db.store_file import lost
from tesched_db.tables import TROUBLES, ActionRow, CycleRow, DaemonRow, TransitionRow
from tesched_db.views import DAEMON, UNDO

#: The longest stretch of idle cycles that one row stands for, seconds: so its counts of jobs are not too far apart.
IDLE_ROW_S = 3600.0

_SAME = ("mode", "client", "policy", "summary", "failure_kind", "failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Process that writes the journal."""

    pid: int
    host: str
    version: str
    started_at: UnixSeconds
    #: where its pid counts (`process.place`); empty: whether it is alive is not known
    place: str = ""
    #: when it was started, in clock ticks since the boot; None: not known
    ticks: int | None = None

    @staticmethod
    def here() -> Identity:
        """Return this process's, as of now."""
        try:
            release = version("tesched")
        except PackageNotFoundError:  # run from a folder that was never installed
            release = ""
        return Identity(
            pid=os.getpid(),
            host=socket.gethostname(),
            version=release,
            started_at=time.time(),
            place=place(),
            ticks=ticks_of(os.getpid()),
        )


class _TakenBackError(Exception):
    """Ends a transaction of which nothing is to be kept."""


class SqlJournal:
    """Core's Journal in a SQL database. One process writes; use it from one thread at a time."""

    def __init__(
        self,
        engine: Engine,
        *,
        identity: Identity | None = None,
        takes_over: bool = False,
        states: Mapping[str, type[Any]] = MappingProxyType({}),
        learns: bool = True,
    ) -> None:
        """Take the engine of `engine.open_store`; nothing is read or written yet.

        One that `takes_over` writes as `tesched undo`, and not as a daemon.
        `states` are the types of what policies remember, by the policy's name. One that `learns` keeps finished runs.
        """
        self._states, self._learns = states, learns
        self._takes_over = takes_over
        self._engine = writing(engine)
        self._reads = reading(engine)
        self._identity = identity or Identity.here()
        self._held: Held | None = None
        self._polls, self._watch = PollTimes(), LeaseWatch()
        #: seconds from the turn's end to the next, as last announced
        self._next_in_s = 0.0
        #: when we last said that we stand by, by a clock that only runs
        self._stood_by_at: float | None = None
        #: the memory in the store is of our writing, so its times are by our clock
        self._wrote = False

    def lead(self) -> Lead:
        """Find which other process leads, and whether an admin has paused tesched. Raises StoreError."""
        found = lead(self._reads, self._ours, self._watch)
        now = time.monotonic()
        due = self._stood_by_at is None or now - self._stood_by_at >= STANDBY_SAYS_S
        if found.leader and due and not self._takes_over:
            stand_by(self._engine, self._ours)
            self._stood_by_at = now
        return found

    def resign(self) -> None:
        """Give the lead up at once: for a daemon that ends. Raises StoreError."""
        resign(self._engine, self._ours)

    def lost(self) -> str:
        """Reason that the store is no longer the one that was opened; empty if all is well."""
        return lost(self._engine)

    @property
    def _ours(self) -> Holder:
        identity = self._identity
        return Holder(pid=identity.pid, host=identity.host, started_at=identity.started_at, place=identity.place)

    def load(self) -> Memory:
        """Return the memory as it was last written; an empty one at the very first start. Raises StoreError.

        Of another process's, the times are made those that this host's clock had or will have.
        """
        self._held = None
        with store_errors(f"read {named_store(self._reads)}"), self._reads.connect() as connection:
            held = Held.load(connection, self._states)
            by_s = self._later_by_s(connection)
        self._held = held
        return shift_times(held.memory(), by_s) if by_s else held.memory()

    def _later_by_s(self, connection: Connection) -> float:
        row = connection.execute(LEASE).first()
        written = connection.execute(select(DaemonRow.clock_ahead_s, DaemonRow.seen_at)).first()
        if row is None or written is None:
            return 0.0
        self._wrote = self._wrote and holder_of(row) == self._ours
        if self._wrote:
            return 0.0  # this process wrote it, and knows whether its clock was set since
        return later_by_s(ahead_then_s=written.clock_ahead_s, seen_at=written.seen_at, store_now=now_of(connection))

    def questions(self) -> Mapping[JobId, Question]:
        """Questions of the running jobs: their own data when their runs began. Raises StoreError."""
        if self._held is None:
            self.load()
        return self._held.seen.questions() if self._held else {}

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        """Write what was seen and decided, before anything is done. Raises StoreError, and then nothing is written.

        It is a RowError (ports.UnwritableError) for a value that the store cannot hold.
        """
        with self._transaction(of_jobs=True) as (connection, held):
            self._intend(connection, held, snapshot=snapshot, memory=memory, decision=decision, report=report)
        self._wrote = True

    def rehearse(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        """Do what `intend` does, and take it back. Raises StoreError as that would."""
        with suppress(_TakenBackError), self._transaction(of_jobs=True) as (connection, held):
            self._intend(connection, held, snapshot=snapshot, memory=memory, decision=decision, report=report)
            raise _TakenBackError

    def _intend(
        self,
        connection: Connection,
        held: Held,
        *,
        snapshot: Snapshot,
        memory: Memory,
        decision: Decision,
        report: CycleReport,
    ) -> None:
        before = held.seen_at
        held.seen_at = snapshot.taken_at
        ahead_s = time.time() - now_of(connection)
        values = {**self._reported(report), **scalars(memory), "summary": decision.summary}
        self._daemon(connection, held, {**values, "clock_ahead_s": ahead_s, **of_te(snapshot, decision)}, report)
        held.seen.write(connection, snapshot, before)
        held.told.write(connection, snapshot, held.seen)
        learn_ended(connection, held.seen.ended if self._learns else (), memory, snapshot)
        held.standing.write(connection, decision.refusals, held.seen, snapshot.taken_at, before)
        self._cycle(
            connection,
            held,
            report,
            summary=decision.summary,
            policy=decision.policy,
            cycle=decision.cycle,
            counts=held.seen.counts(),
            idle=not decision.actions and not decision.transitions,
        )
        self._remember(connection, held, memory, decision.transitions)
        held.meant = list(decision.actions)
        if decision.actions and held.last_cycle:
            place = {"cycle_key": held.last_cycle["key"], "intended_at": decision.at}
            rows = [
                {**action_values(action, held.seen), **place, "position": position}
                for position, action in enumerate(decision.actions)
            ]
            connection.execute(insert(ActionRow), rows)

    def conclude(
        self, memory: Memory, decision: Decision, outcomes: Sequence[Outcome], transitions: Sequence[Transition]
    ) -> None:
        """Write what became of the decision that was meant last, and the transitions that follow from it.

        Raises StoreError, and then nothing is written; LookupError for an outcome of an action that was not meant.
        """
        with self._transaction() as (connection, held):
            self._daemon(connection, held, scalars(memory))
            rows = []
            for outcome in outcomes:
                if outcome.action not in held.meant:
                    raise LookupError(f"cycle {decision.cycle} never meant to do this: {outcome.action}")
                position = held.meant.index(outcome.action)
                held.meant[position] = None
                rows.append(
                    {f"b_{name}": value for name, value in outcome_values(outcome).items()} | {"b_position": position}
                )
            if rows and held.last_cycle:
                key = held.last_cycle["key"]
                names = [name.removeprefix("b_") for name in rows[0] if name != "b_position"]
                this = (ActionRow.cycle_key == key) & (ActionRow.position == bindparam("b_position"))
                done = update(ActionRow).where(this).values({name: bindparam(f"b_{name}") for name in names})
                connection.execute(done, rows)
                held.last_cycle["act_s"] += sum(outcome.took_s for outcome in outcomes)
                acted = update(CycleRow).where(CycleRow.key == key).values(act_s=held.last_cycle["act_s"])
                connection.execute(acted)
            self._remember(connection, held, memory, transitions)

    def unseen(self, report: CycleReport) -> None:
        """Write that the cluster could not be seen. What is known of its jobs stays. Raises StoreError."""
        with self._transaction() as (connection, held):
            said = report.failure.message if report.failure else ""
            summary = f"did nothing, because the cluster could not be seen: {said}"
            self._daemon(connection, held, {**self._reported(report), "summary": summary}, report)
            self._cycle(connection, held, report, summary=summary, policy="", cycle=None, counts={}, idle=True)

    @contextmanager
    def _transaction(self, *, of_jobs: bool = False) -> Iterator[tuple[Connection, Held]]:
        """Yield a transaction and what the store holds; on any error neither is believed any more.

        What the values `of_jobs` raise is left as it is: a search finds the job (`set_aside.py` of the daemon).
        """
        held, self._held = self._held, None
        if held is None:
            with store_errors(f"read {named_store(self._reads)}"), self._reads.connect() as connection:
                held = Held.load(connection, self._states)
        with store_errors("write to the state store", reads=not of_jobs), self._engine.begin() as connection:
            yield connection, held
        self._held = held

    def _daemon(self, connection: Connection, held: Held, values: Values, report: CycleReport | None = None) -> None:
        """Write the daemon's row: first of all in each transaction, since it shows whether we are the only writer."""
        there = connection.execute(LEASE.with_for_update()).first()
        now = now_of(connection)
        holder = holder_of(there) if there else self._ours
        if there is not None and (leader := leader_of(there, self._watch.left_s(there, now), self._ours)):
            raise LeaseError(f"the lead was lost, and what was meant is not done: {leader}")
        if (there.revision if there else None) != held.revision:
            who = f"process {there.pid} on {there.host}" if there else "somebody"
            raise StoreError(f"another daemon writes to this state store: {who}")
        if report is not None:
            self._polls.add(report.observe_s + report.step_s, time.monotonic())
            self._next_in_s = max(report.next_in_s, 0.0)
        # What was announced begins anew at the end of the turn's actions.
        until = now + self._next_in_s + self._polls.lease_s()
        values = {**values, "seen_at": held.seen_at, "lease_until": until, "lease_place": self._identity.place}
        if there is None or holder != self._ours:
            values |= {"lease_token": (there.lease_token if there else 0) + 1, "lease_since": now}
            no_standby(connection, self._ours)
            self._stood_by_at = None
        if held.revision is None:
            held.revision = 1
            first = {**scalars(Memory()), "key": 1, "revision": 1, "clock_ahead_s": 0.0, "held": {}, "bound": {}}
            connection.execute(insert(DaemonRow).values({**first, **values}))
        else:
            held.revision += 1
            ours = DaemonRow.key == 1
            connection.execute(update(DaemonRow).where(ours).values({**values, "revision": held.revision}))

    def _reported(self, report: CycleReport) -> Values:
        return {
            "role": UNDO if self._takes_over else DAEMON,
            "pid": self._identity.pid,
            "pid_ticks": self._identity.ticks,
            "host": self._identity.host,
            "version": self._identity.version,
            "started_at": self._identity.started_at,
            "client": report.client,
            "reported_at": report.at,
            "failure_kind": report.failure.kind.value if report.failure else None,
            "failure": report.failure.message if report.failure else None,
            "next_at": time.time() + report.next_in_s,
            "stopped_at": None,
            "calls": dict(report.calls),
            "told": dict(report.told),
            "doubts": {"count": report.doubtful, "first": [list(each) for each in report.doubts]},
            **{name: getattr(report, name) for name in ("mode", "new_jobs", "leaving", *TROUBLES)},
            "enforced": msgspec.to_builtins(report.enforcement or {}),
            "limits_unread": msgspec.to_builtins(report.limits_unread),
        }

    def _remember(self, connection: Connection, held: Held, memory: Memory, transitions: Sequence[Transition]) -> None:
        held.cycle, held.next_order, held.refused = memory.cycle, memory.next_order, memory.refused
        held.remembered.write(connection, memory, held.seen)
        if transitions:
            connection.execute(insert(TransitionRow), [transition_values(transition) for transition in transitions])

    def _cycle(
        self,
        connection: Connection,
        held: Held,
        report: CycleReport,
        *,
        summary: str,
        policy: str,
        cycle: int | None,
        counts: dict[str, dict[str, int]],
        idle: bool,
    ) -> None:
        """Write the cycle: a row of its own, or one more in the last row if both did nothing and say the same."""
        now: Values = {
            "first_cycle": cycle,
            "last_cycle": cycle,
            "first_at": report.at,
            "last_at": report.at,
            "count": 1,
            "idle": idle,
            "mode": report.mode,
            "client": report.client,
            "policy": policy,
            "summary": summary,
            "failure_kind": report.failure.kind.value if report.failure else None,
            "failure": report.failure.message if report.failure else None,
            "observe_s": report.observe_s,
            "observe_max_s": report.observe_s,
            "step_s": report.step_s,
            "step_max_s": report.step_s,
            "act_s": 0.0,
            "counts": counts,
        }
        last = held.last_cycle
        if (
            last
            and idle
            and last["idle"]
            and all(last[name] == now[name] for name in _SAME)
            and report.at - last["first_at"] < IDLE_ROW_S
        ):
            more = {
                "last_cycle": cycle,
                "last_at": report.at,
                "count": last["count"] + 1,
                "observe_s": last["observe_s"] + report.observe_s,
                "observe_max_s": max(last["observe_max_s"], report.observe_s),
                "step_s": last["step_s"] + report.step_s,
                "step_max_s": max(last["step_max_s"], report.step_s),
                "counts": counts,
            }
            connection.execute(update(CycleRow).where(CycleRow.key == last["key"]).values(more))
            held.last_cycle = {**last, **more}
            return
        held.last_cycle = {**now, "key": last["key"] + 1 if last else 1}
        connection.execute(insert(CycleRow).values(held.last_cycle))
