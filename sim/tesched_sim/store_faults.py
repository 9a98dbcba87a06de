"""State store of a simulated daemon: what it keeps of the memory, and how it fails.

A store fails as a locked, full or unreachable one does: before anything of a cycle is written, when all is written and
the answer is lost, or when what was done is to be written. It stays so for a while, in which the daemon does nothing;
then it reads the memory anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from tesched_core.model.actions import Action
from tesched_core.model.memory import Memory

from tesched_sim.fault_settings import FaultKind

#: seconds for which a store that has failed goes on failing
FAILS_S = (0.0, 600.0)


class Dice(Protocol):
    """Dice that draw whether a fault happens."""

    def strikes(self, kind: FaultKind) -> bool:
        """Draw whether this goes wrong now."""
        ...

    def between(self, kind: FaultKind, least: float, most: float) -> float:
        """Draw a number for a fault of this kind."""
        ...


class Failing(Enum):
    """Write of a cycle that fails."""

    #: of what is meant: it is not there
    INTENT = 0
    #: of what is meant: it is there, and the answer is lost
    UNHEARD = 1
    #: of what became of the actions
    OUTCOME = 2


def fails(faults: Dice | None, actions: Sequence[Action]) -> Failing | None:
    """Draw which write of this cycle fails; None: none."""
    if faults is None or not faults.strikes(FaultKind.STORE_FAILS):
        return None
    one = Failing(int(faults.between(FaultKind.STORE_FAILS, 0, 3 - 1e-9)))
    return one if actions or one is not Failing.OUTCOME else None


def as_stored(memory: Memory) -> Memory:
    """Return the memory as a new process has it: without what the store does not keep."""
    changes = {
        name: {job_id: replace(one, taken_at=None, put_back_sent=0, put_back_at=None) for job_id, one in by_job.items()}
        for name, by_job in memory.changes.items()
    }
    bare = Memory()
    return replace(
        memory,
        declined=bare.declined,
        newly_lost=bare.newly_lost,
        te_rules=bare.te_rules,
        te_runs=bare.te_runs,
        te_poll=bare.te_poll,
        examined=bare.examined,
        answers=bare.answers,
        seen_at=bare.seen_at,
        put_back=bare.put_back,
        changes=changes,
    )


def dies_after(faults: Dice | None, actions: Sequence[Action]) -> tuple[int | None, bool]:
    """Draw after how many of its actions the daemon dies in this cycle, and whether the next one arrives late.

    None: it does not die. As many as there are: after the last one, and before it has written what became of them.
    """
    if faults is None:
        return None, False
    taken_over = faults.strikes(FaultKind.TAKEN_OVER) if actions else False
    if not taken_over and not (actions and faults.strikes(FaultKind.DAEMON_DIES)):
        return None, False
    kind = FaultKind.TAKEN_OVER if taken_over else FaultKind.DAEMON_DIES
    return int(faults.between(kind, 0, len(actions) + 1 - 1e-9)), taken_over


#: seconds between two copies of the store, and how old the oldest is that is restored
COPIED_EACH_S, OLDEST_COPY_S = 60.0, 86_400.0


@dataclass(slots=True)
class Copies:
    """Copies of a store, as a backup makes them."""

    faults: Dice | None
    #: when each was made, by the simulation's time, and the memory in it
    _made: list[tuple[float, Memory]] = field(default_factory=list)

    @property
    def last_s(self) -> float:
        """When the last copy was made, which is the one that was restored, right after that."""
        return self._made[-1][0]

    def keep(self, memory: Memory, now: float) -> None:
        """Make a copy, where the last one is old enough."""
        if self.faults is not None and (not self._made or now - self._made[-1][0] >= COPIED_EACH_S):
            self._made = [(at, one) for at, one in self._made if now - at <= OLDEST_COPY_S]
            self._made.append((now, memory))

    def restored(self) -> Memory | None:
        """Draw whether the store is restored now: the memory in the copy, as a new process has it; None: it is not."""
        if self.faults is None or not self._made or not self.faults.strikes(FaultKind.STORE_RESTORED):
            return None
        row = int(self.faults.between(FaultKind.STORE_RESTORED, 0, len(self._made) - 1e-9))
        del self._made[row + 1 :]
        return as_stored(self._made[row][1])
