"""Snapshot: one instant of a cluster, with what is known of its jobs beside Slurm's own records. Frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from tesched_core.model.cluster import Job, Node, Partition, Reservation, SlurmSettings
from tesched_core.model.not_followed import NotFollowed
from tesched_core.model.notice import Declared, ExitZero, Target, gets_notice
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.slurm_limits import NOTHING_KNOWN, SlurmLimits

if TYPE_CHECKING:
    from tesched_core.model.columns import ClusterColumns
    from tesched_core.model.job_report import Reported
    from tesched_core.model.site_answers import SiteAnswers

#: by user and job name: seconds that jobs took to leave after a requeue without a notice, the last one last (`leaving`)
LeaveTimes: TypeAlias = Mapping[tuple[str, str], tuple[float, ...]]
#: by node: seconds for which victims were ending there, the last one last (`intake/leave_times.py`)
EndingTimes: TypeAlias = Mapping[str, tuple[float, ...]]


class JobClass(StrEnum):
    """Class of a job: which may be preempted for which."""

    #: trial and error: starts at once, others step aside for it
    TE = "te"
    #: best effort: may be a victim
    BE = "be"
    #: neither: never a preemptor, never a victim
    EXEMPT = "exempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRun:
    """Run time that is expected of a job's run, seconds, without its suspensions: three quantiles."""

    #: 1 in 10 runs is shorter: for the bound on the slowdown, which a short run time makes stricter
    low_s: float
    #: 1 in 2: for when resources come free, and for what is left of a job
    median_s: float
    #: 4 in 5: for what must not last longer than said
    high_s: float
    #: learned from runs like it; else its owner's word
    learned: bool = True
    #: for how long the run was suspended: it ends as much later
    suspended_s: float = 0.0

    @staticmethod
    def said(run_s: float) -> ExpectedRun:
        """Take its owner's word for it."""
        return ExpectedRun(low_s=run_s, median_s=run_s, high_s=run_s, learned=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts of a job that tesched knows and Slurm does not."""

    job_class: JobClass
    #: name of the rule that gave the class, "user's comment" or "default"
    rule: str
    #: seconds between notice and requeue; 0 without a signal
    grace_period_s: float
    #: where the grace period comes from, in words
    grace_source: str
    #: USR1, USR2, TERM, …: without "SIG"; empty if none was declared: then it is requeued without a notice
    notice_signal: str = ""
    #: which of its processes get the signal, and where it was declared, in words
    notice_target: Target = Target.STEPS
    notice_source: str = "nothing was declared"
    #: what it means that it ends with exit status 0 in its grace period
    exit0: ExitZero = ExitZero.SLURM
    #: what its own options declare, once they were read; and whether they are yet to be read
    declared: Declared | None = None
    unread: bool = False
    #: an array of tasks that are workers of one training: it goes on with any number of them
    elastic: bool = False
    #: its time limit when it got its class, seconds: it may be raised since; None: it had none
    time_limit_s: int | None = None
    #: how long the present run is expected to take in all, where its owner says so
    run_time_s: float | None = None
    #: of a TE job: for so long after it became eligible it has no victims, by its owner's word; 0: it has them at once
    patience_s: float = 0.0
    #: of a BE job: how often it may be preempted at most, by its owner's word; None: its owner says nothing of that
    most_preemptions: int | None = None
    #: the number that its owner said, where another counts
    most_said: int | None = None
    #: what it trains, in its owner's word: jobs of one user and one workload are equally fast
    workload: str = ""
    #: how much it says to count, and within how many seconds of its submission it says to be due (`gavel.standing`)
    weight: float | None = None
    slo_s: float | None = None
    #: how many samples it trains on, and how much time matters to it (`pdors.workload.Urgency`), where it says so
    samples: float | None = None
    utility: str = ""
    #: what its user said and does not count, or not as it was said
    not_followed: tuple[NotFollowed, ...] = ()

    @property
    def gets_notice(self) -> bool:
        """Check whether it is sent its signal before it leaves."""
        return gets_notice(self.notice_signal, self.grace_period_s)

    def may_be_preempted(self, site: int) -> int:
        """Limit of how often it may be preempted for TE jobs of other users; `site` is the site's limit."""
        return site if self.most_preemptions is None else min(site, self.most_preemptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """State seen at one instant."""

    #: where no decision rests on it, or an early turn's alone, some of it may be older (`ports.Observer`)
    taken_at: UnixSeconds
    jobs: Mapping[JobId, Job]
    nodes: Mapping[str, Node]
    partitions: Mapping[str, Partition]
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    settings: SlurmSettings = SlurmSettings()
    limits: SlurmLimits = NOTHING_KNOWN
    #: since when jobs may have started or ended unseen; None: `taken_at`
    jobs_at: UnixSeconds | None = field(default=None, compare=False)
    #: empty until the jobs have been classified (`classify.classified`)
    traits: Mapping[JobId, Traits] = field(default_factory=dict)
    #: what jobs have reported; empty where no reports are read
    reported: Mapping[JobId, Reported] = field(default_factory=dict, compare=False)
    #: what the tasks of a job array have reported, gathered, by the array's id (`training.py`)
    reported_by_array: Mapping[JobId, Reported] = field(default_factory=dict, compare=False)
    #: steps a second by accelerator type, of the jobs of which that is known
    speeds: Mapping[JobId, Mapping[str, float]] = field(default_factory=dict, compare=False)
    #: by workload, and the workload that shares its GPU: steps a second by accelerator type
    beside: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict, compare=False)
    #: run times that are expected of jobs whose owners say nothing, learned from runs like theirs
    expected: Mapping[JobId, ExpectedRun] = field(default_factory=dict, compare=False, repr=False)
    #: running best-effort jobs that the site calls idle, and since when, Unix seconds
    idle_since: Mapping[JobId, UnixSeconds] = field(default_factory=dict, compare=False)
    #: the marks file may differ from what was last written (`fields/mark.py`)
    marks_doubtful: bool = False
    #: what is known of how long jobs take to leave
    leave_times: LeaveTimes = field(default_factory=dict, compare=False)
    #: TE jobs that Slurm did not start on resources that were freed for them; of an array, by the array's id
    declined: frozenset[JobId] = field(default=frozenset(), compare=False)
    #: pending TE jobs that no limit of their associations and QOS keeps from starting, as slurmctld says right now
    unlimited: frozenset[JobId] = field(default=frozenset(), compare=False)
    #: slurmctld is another process than at the last answer, by what it says of itself
    controller_changed: bool = False
    #: what has been worked out of the site; None: nothing is kept of it
    answers: SiteAnswers | None = field(default=None, compare=False, repr=False)
    #: its overview, where the observer has one at hand; else `step` works it out
    columns: ClusterColumns | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(
        taken_at: UnixSeconds,
        *,
        jobs: Iterable[Job] = (),
        nodes: Iterable[Node] = (),
        partitions: Iterable[Partition] = (),
        reservations: Iterable[Reservation] = (),
        settings: SlurmSettings | None = None,
        limits: SlurmLimits = NOTHING_KNOWN,
        traits: Mapping[JobId, Traits] | None = None,
    ) -> Snapshot:
        """Return a snapshot of these, each kind by its name or id."""
        return Snapshot(
            taken_at=taken_at,
            jobs=MappingProxyType({job.job_id: job for job in jobs}),
            nodes=MappingProxyType({node.name: node for node in nodes}),
            partitions=MappingProxyType({partition.name: partition for partition in partitions}),
            reservations=MappingProxyType({reservation.name: reservation for reservation in reservations}),
            settings=settings or SlurmSettings(),
            limits=limits,
            traits=MappingProxyType(dict(traits or {})),
        )

    @property
    def controller_is_new(self) -> bool:
        """Check whether slurmctld was started, or a backup took over, lately, as it shows: nodes have yet to report.

        Or it is another one than that of the last answer, before which none had come for a while.
        """
        return self.controller_changed or any(node.has_not_reported for node in self.nodes.values())

    def with_traits(self, traits: Mapping[JobId, Traits]) -> Snapshot:
        """Return the same instant with these traits."""
        return replace(self, traits=traits, columns=None)

    def expected_run(self, job_id: JobId) -> ExpectedRun | None:
        """Run time that is expected of a job: by its owner's word, else as learned; None: its time limit alone says."""
        traits = self.traits.get(job_id)
        if traits is not None and traits.run_time_s is not None:
            return ExpectedRun.said(traits.run_time_s)
        return self.expected.get(job_id)

    def workload(self, job_id: JobId) -> str:
        """Name of what the job trains: by its reports, else by its comment; empty if it does not say."""
        reported = self.reported.get(job_id)
        return (reported.workload if reported else "") or self.traits[job_id].workload

    def job_class(self, job_id: JobId) -> JobClass:
        """Return the job's class; EXEMPT for a job that was not classified."""
        traits = self.traits.get(job_id)
        return traits.job_class if traits else JobClass.EXEMPT
