"""Content of the store, as a journal holds it in memory: so a cycle writes only what is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, select
from tesched_core.model.actions import Action
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.refused import RefusedChange
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import EndingTimes, LeaveTimes

from tesched_db import leave_times
from tesched_db.change_rows import refused_of
from tesched_db.job_rows import PresentJobs
from tesched_db.memory_rows import Remembered
from tesched_db.refusals import Standing
from tesched_db.reports import Told
from tesched_db.rows import Values
from tesched_db.tables import CycleRow, DaemonRow


@dataclass
class Held:
    """Content of the store, as far as the next cycle needs it."""

    #: None: nothing was ever written
    revision: int | None = None
    seen_at: UnixSeconds | None = None
    cycle: int = 0
    next_order: int = 1
    refused: Mapping[Field, RefusedChange] = field(default_factory=dict)
    seen: PresentJobs = field(default_factory=PresentJobs)
    standing: Standing = field(default_factory=Standing)
    #: as the orders of the past give them
    leave_times: LeaveTimes = field(default_factory=dict)
    ending_times: EndingTimes = field(default_factory=dict)
    remembered: Remembered = field(default_factory=Remembered)
    told: Told = field(default_factory=Told)
    #: the last row of `cycles`
    last_cycle: Values | None = None
    #: what was meant last and has no outcome yet, by place
    meant: list[Action | None] = field(default_factory=list)

    @staticmethod
    def load(connection: Connection, kinds: Mapping[str, type[Any]]) -> Held:
        """Return it; `kinds` are the types of the policies' states, by the policy's name."""
        # What is only shown is not read: the next report replaces it, whatever stands there.
        daemon = connection.execute(
            select(DaemonRow.revision, DaemonRow.seen_at, DaemonRow.cycle, DaemonRow.next_order, DaemonRow.refused)
        ).first()
        columns = [column for column in CycleRow.__table__.columns if column.key != "counts"]
        last = connection.execute(select(*columns).order_by(CycleRow.key.desc()).limit(1)).first()
        held = Held(
            seen=PresentJobs.load(connection),
            standing=Standing.load(connection),
            leave_times=leave_times.load(connection),
            ending_times=leave_times.load_ending_times(connection),
            remembered=Remembered.load(connection, kinds),
            last_cycle=last._asdict() if last else None,
        )
        if daemon:
            held.revision, held.seen_at = daemon.revision, daemon.seen_at
            held.cycle, held.next_order = daemon.cycle, daemon.next_order
            held.refused = refused_of(daemon.refused)
        return held

    def memory(self) -> Memory:
        """Return the memory that is in it."""
        memory = self.remembered.memory(self.cycle, self.next_order)
        return replace(
            memory,
            leave_times=self.leave_times,
            ending_times=self.ending_times,
            refused=self.refused,
            seen_at=self.seen_at,
        )
