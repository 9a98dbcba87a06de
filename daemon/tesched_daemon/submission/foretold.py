"""Answer on a job that is not submitted: what `tesched ask` says, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tesched_core.model.decision import RefusalCode
from tesched_core.model.not_followed import NotFollowed
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import JobClass
from tesched_slurm.sbatch_asked import SlurmsWord


class Verdict(StrEnum):
    """What becomes of the job once it is submitted."""

    FREE = "starts at once, on free resources"
    PREEMPTS = "starts by a preemption"
    #: PreemptType, the lever plugin included
    BY_SLURM = "starts by a preemption of Slurm's own"
    #: other jobs wait before it, and Slurm alone knows which one it starts
    BEHIND = "may start at once, or wait: resources are free, and other jobs wait for some"
    #: what it depends on has a form that is not read here
    UNSURE = "may start at once, or wait: whether its dependency is fulfilled is not known"
    #: what sbatch --test-only says of it has another form than known
    UNREAD = "may start at once, or wait: what Slurm says of it is not understood here"
    #: mode shadow or observe, a pause, or no daemon
    WOULD = "waits; it would start by a preemption, were that enforced"
    WAITS = "waits"


#: the verdicts of a job that starts now, or as soon as its victims have left
STARTS = frozenset({Verdict.FREE, Verdict.PREEMPTS, Verdict.BY_SLURM})


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimCost:
    """A victim, and what the preemption costs it."""

    job: str
    name: str
    user: str
    nodes: tuple[str, ...]
    #: why the policy selected it
    why: str
    #: its CPUs are enough: it is suspended, and loses nothing of its work
    by_suspending: bool
    #: run time that it loses, where it has not saved it, seconds
    ran_s: float
    #: signal and seconds that it has to save; without a signal, in how many seconds it is expected to have left
    notice_signal: str
    grace_s: float
    #: how often it was preempted before for other users' TE jobs, and how often it may be
    preempted: int
    most_preempted: int
    #: it is a job of the same user's: that costs it none of so many times
    of_own_user: bool
    #: by how many seconds TE jobs may yet delay it in all (guard.bound); None: by any
    left_of_bound_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """What stands in the way, in the words of `tesched explain`."""

    code: RefusalCode
    text: str
    #: jobs of which it is said, the first ones as squeue writes them; none: of the job itself
    jobs: tuple[str, ...] = ()
    count: int = 1
    #: when it ends, of the first of them; None: not known
    until: UnixSeconds | None = None


@dataclass(slots=True, kw_only=True)
class Foretold:
    """What would happen."""

    script: str
    user: str
    partition: str
    job_class: JobClass
    rule: str
    not_followed: Sequence[NotFollowed]
    at: UnixSeconds
    verdict: Verdict = Verdict.WAITS
    #: of a preemption: the nodes that it starts on, and in how many seconds at most its victims have left
    nodes: tuple[str, ...] = ()
    within_s: float | None = None
    #: seconds between two polls of the daemon
    poll_s: float = 0.0
    #: not before this time, where one is known
    not_before: UnixSeconds | None = None
    victims: list[VictimCost] = field(default_factory=list)
    #: what stands in its own way, and why running jobs are no victims
    reasons: list[Obstacle] = field(default_factory=list)
    candidates: list[Obstacle] = field(default_factory=list)
    #: what is said besides, in sentences: how it starts or why it waits
    because: list[str] = field(default_factory=list)
    #: limits on TE jobs of this user, in sentences
    limits: list[str] = field(default_factory=list)
    #: limits of its account, user and QOS that keep it, in sentences, the first one as Slurm would give it
    slurm_limits: list[str] = field(default_factory=list)
    #: why nothing is said of those limits: none is enforced, or they can't be read; empty: they were compared
    slurm_limits_unread: str = ""
    #: Slurm's own word; None: it has none
    slurm: SlurmsWord | None = None
    #: the daemon's mode, and whether it acts now; empty, or why not
    mode: str = ""
    not_enforced: str = ""
    #: what could not be understood or is assumed, in sentences
    notes: list[str] = field(default_factory=list)

    @property
    def starts(self) -> bool:
        """Check whether it starts now, or by a preemption now."""
        return self.verdict in STARTS
