"""Settings of a simulated Slurm that misbehaves as a real one does: which kinds of faults, how often, by which seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf


class FaultKind(StrEnum):
    """Faults by name; beside each what a real Slurm does, and where that was seen."""

    #: backfill writes back the priority that it read before a change (bf_continue): Nice stays. 22.05.8, 11 of 60
    #: changes with 1,260 jobs in the queue
    PRIORITY_BACK = "priority_back"
    #: an expedited job (sbatch --requeue=expedite) that fails of its notice is in the queue held: 26.05.5
    HELD_AGAIN = "held_again"
    #: a script without a trap dies of its notice: FAILED, and Slurm does not requeue it. 22.05.8, 24.11.5, 26.05.5
    DIES_OF_NOTICE = "dies_of_notice"
    #: a user has so many RPCs a second (rl_enable: 30, then 2 a second), and further ones wait: 26.05.5
    RATE_LIMITED = "rate_limited"
    #: slurmctld does not answer a command, which has no effect: stopped, or restarted, on each release; or the marks
    #: file can't be written
    UNSENT = "unsent"
    #: a command has its effect, and its answer is lost: the client's time-out is over first
    UNHEARD = "unheard"
    #: a command whose client has given up is carried out some seconds later: it was in slurmctld's backlog
    LATE_COMMAND = "late_command"
    #: a site refuses one kind of change for some hours, as a job_submit plugin does: 22.05.8
    REFUSED = "refused"
    #: slurmctld does not answer a poll
    NO_ANSWER = "no_answer"
    #: the answer to a poll comes seconds late, and is of the moment of the question
    LATE_ANSWER = "late_answer"
    #: an answer lacks some jobs' records: a task's own record on 26.05, or one that was read in a bad moment
    CUT_ANSWER = "cut_answer"
    #: a job ends between the read before a command and the command: `requeue incomplete` leaves it. 22.05.8, 26.05.5
    ENDS_FIRST = "ends_first"
    #: a requeued job has lost its licences: 25.05.0 to 25.11.6, by Slurm's release notes
    LICENCES_LOST = "licences_lost"
    #: a node goes down, and its jobs go back to the queue as they are
    NODE_DIES = "node_dies"
    #: a user ends a job, in the queue or on its nodes
    USER_CANCELS = "user_cancels"
    #: a user or an admin gives a job in the queue another nice value, or holds it for some minutes
    BY_HAND = "by_hand"
    #: slurmctld is stopped and started again: minutes without an answer or a start; then nodes are UNKNOWN until they
    #: report, ends that came meanwhile are learned, and no waiting job has a reason at first. What was set stays:
    #: 22.05.8
    SLURMCTLD_RESTARTS = "slurmctld_restarts"
    #: slurmctld is killed, and goes on with a state that is up to five seconds older: what was set, started or requeued
    #: in these was not. 22.05.8
    FAILS_OVER = "fails_over"
    #: the clock of the daemon's host is set, by seconds or hours, forward or back
    CLOCK_SET = "clock_set"
    #: the clock of slurmctld's host is set
    SLURM_CLOCK_SET = "slurm_clock_set"
    #: the state store fails (locked, full, not reached) as what is meant or what was done is written, and for a while
    STORE_FAILS = "store_fails"
    #: the daemon is killed between any two steps of a cycle, and a new one goes on from the store
    DAEMON_DIES = "daemon_dies"
    #: the same, and its next command arrives after the new one's first: it was asleep, and has lost its lease
    TAKEN_OVER = "taken_over"
    #: the store is replaced by a copy that is minutes to hours old, as from a backup, and a new daemon goes on from it:
    #: what was changed since the copy stays, as nothing knows of it. Only where it is named
    STORE_RESTORED = "store_restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSettings:
    """Faults of a simulated site. The same seed gives the same faults in the same run."""

    #: 0: Slurm and the daemon do what they should
    seed: int = 0
    #: part of the commands, of the answers, and of the requeues that go wrong, for each kind
    share: float = 0.03
    #: mean seconds between two faults that come by themselves, for each kind: nodes die, users cancel or change jobs,
    #: slurmctld goes away, clocks are set
    every_s: float = 21_600.0
    #: kinds, with / between them; empty: all but store_restored
    kinds: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a share that is none, times that are none, and kinds that do not exist."""
        if self.seed < 0:
            raise ValueError("seed must be at least 0, which switches faults off")
        if not 0 <= self.share <= 1:
            raise ValueError("share must be from 0 to 1, such as 0.03")
        if not 0 < self.every_s < inf:
            raise ValueError("every_s must be above 0, such as 21600 for each six hours")
        if wrong := [one for one in self.kinds.split("/") if one and one not in set(FaultKind)]:
            raise ValueError(f"kinds: there is no {wrong[0]}; there are {'/'.join(FaultKind)}")

    @property
    def is_on(self) -> bool:
        """Check whether anything goes wrong."""
        return self.seed > 0

    @property
    def chosen(self) -> frozenset[FaultKind]:
        """Return the kinds that happen."""
        if not self.is_on:
            return frozenset()
        named = frozenset(FaultKind(one) for one in self.kinds.split("/") if one)
        return named or frozenset(FaultKind) - {FaultKind.STORE_RESTORED}
