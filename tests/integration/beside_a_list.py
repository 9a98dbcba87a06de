"""A daemon's loop in a process of its own, beside a Slurm that is a list of what was done to it: `test_two_daemons.py`.

    python -m tests.integration.beside_a_list URL HOST LIST BEGAN

A best-effort job fills the only node since BEGAN (Unix seconds), and a trial waits from when the file LIST.trial is
there. Each action is a line of LIST: "HOST requeue 1 0 AT". With the file LIST.freeze there, the first daemon that is
about to requeue takes it away and stops itself (SIGSTOP) between having written what it means and doing it; when it
goes on, more time has passed for it than it may take. With the file LIST.die there, the first daemon that has given
notice takes it away and ends itself (SIGKILL). So nothing depends on how fast the machine is: a lease lasts ten
minutes, and the test has it run out.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tesched_core.intake.class_rules import Classification
from tesched_core.model.actions import Action, Notify, Outcome, Requeue, Status, kind_of, sets
from tesched_core.model.cluster import JobState, SlurmSettings
from tesched_core.model.decision import Decision
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.order import Transition
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import Barred, CycleReport, never_barred
from tesched_daemon.loop import ACT_WITHIN_S, Loop
from tesched_daemon.settings import Pace
from tesched_db import journal as journal_module
from tesched_db.engine import open_store
from tesched_db.journal import Identity, SqlJournal

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of

#: seconds
GRACE_PERIOD_S = 1.0
POLL_S = 0.25
LEASE_S = 600.0


@dataclass
class Listed:
    """A cluster with the state that follows from the list of what was done to it."""

    host: str
    path: Path
    began: float

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot:
        lines = [line.split() for line in self.path.read_text().splitlines()]
        nice = {int(words[2]): int(words[3]) for words in lines if words[1] == "setnice"}
        gone = [float(words[4]) for words in lines if words[1] == "requeue"]
        victim = replace(VICTIM, nice=nice.get(1, 0), start_time=self.began)
        trial = replace(TRIAL, nice=nice.get(2, 0), submit_time=self.began)
        if gone:
            victim = replace(victim, state=JobState.PENDING, restarts=1, allocation=(), start_time=None)
            trial = replace(
                trial, state=JobState.RUNNING, reason="", start_time=gone[0] + 1, allocation=VICTIM.allocation
            )
        there = (victim, trial) if self.path.with_suffix(".trial").exists() else (victim,)
        jobs = {job.job_id: replace(job, priority=job.priority - job.nice) for job in there}
        # Without KillWait a requeue that came to nothing is sent again sooner.
        return replace(FULL_CLUSTER, taken_at=time.time(), jobs=jobs, settings=SlurmSettings(kill_wait_s=0))

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        if barred():
            return Outcome(action=action, status=Status.SKIPPED, at=time.time())
        value = action.value if sets(action, Field.NICE) else 0
        with self.path.open("a") as out:
            out.write(f"{self.host} {kind_of(action)} {action.job_id} {value} {time.time()}\n")
        return Outcome(action=action, status=Status.SENT, at=time.time())


class Striking(SqlJournal):
    """A journal after which the process may stop, or end."""

    freeze: Path
    die: Path
    loop: Loop

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        super().intend(snapshot, memory, decision, report)
        if any(isinstance(action, Requeue) for action in decision.actions):
            with suppress(FileNotFoundError):
                self.freeze.unlink()
                os.kill(os.getpid(), signal.SIGSTOP)
                meant_at = self.loop._intended_at
                self.loop._intended_at = meant_at._replace(steady=meant_at.steady - ACT_WITHIN_S - 1)

    def conclude(
        self, memory: Memory, decision: Decision, outcomes: Sequence[Outcome], transitions: Sequence[Transition]
    ) -> None:
        super().conclude(memory, decision, outcomes, transitions)
        if any(isinstance(action, Notify) for action in decision.actions):
            with suppress(FileNotFoundError):
                self.die.unlink()
                os.kill(os.getpid(), signal.SIGKILL)


def make(url: str, host: str, path: Path, began: float) -> Loop:
    """Return the loop of a daemon on a host of this name."""
    journal = Striking(open_store(url), identity=replace(Identity.here(), host=host, place=host))
    journal.freeze, journal.die = path.with_suffix(".freeze"), path.with_suffix(".die")
    loop = journal.loop = loop_of(Cluster(), Notebook())
    loop.observer = loop.actuator = Listed(host, path, began)
    loop.journal, loop.clock = journal, time.time
    loop.classes = Classification(
        rules=loop.classes.rules, default_grace_period_s=GRACE_PERIOD_S, default_notice_signal="B:USR1"
    )
    loop.limits = replace(loop.limits, bind_for_s=0)
    loop.pace = Pace(poll_interval_s=POLL_S)
    return loop


def main(argv: Sequence[str]) -> None:
    """Make turns until the process is killed; what they come to is printed, once for as long as it stays the same."""
    said = ""
    setattr(journal_module, "LEASE_S", LEASE_S)  # noqa: B010 - it is not exported from there
    loop = make(argv[0], argv[1], Path(argv[2]), float(argv[3]))
    while True:
        turn = loop.turn()
        if turn.summary != said:
            said = turn.summary
            print(*(outcome.status for outcome in turn.outcomes), said, flush=True)  # noqa: T201 - its log
        time.sleep(turn.next_in_s)


if __name__ == "__main__":
    main(sys.argv[1:])
