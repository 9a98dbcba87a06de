"""Cluster columns: which jobs hold nodes, which wait, and which is first, as NumPy columns, one entry a job.

The daemon builds them once a poll (`placement/columns_of.py`); the simulator keeps its own up to date event by event.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple, Protocol

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode
from tesched_core.model.payment import lost_s
from tesched_core.model.resources import JobId, UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ends:
    """Times when held resources come free: one entry a job and node, jobs of every class."""

    #: the node's row
    node: NDArray[np.intp]
    #: when the job is expected to end; inf: not known
    at: NDArray[np.float64]
    #: [shares, resources]
    frees: NDArray[np.int64]


class Owner(NamedTuple):
    """Properties that the guard protects a job by. Jobs of one owner do not differ in any of it."""

    user: str = ""
    account: str = ""
    qos: str = ""
    partitions: tuple[str, ...] = ()
    reservation: str = ""


#: A job that was requeued so often is no victim. slurmctld counts restarts in 16 bits, takes the count from the job's
#: submission, and begins again at 0, so that a victim with the last of them would never be seen to be back.
MOST_RESTARTS = 65_000
#: Why a job cannot be a victim in its present state; `Running.ineligible` is a row of this, 0: it can.
INELIGIBLE: tuple[tuple[RefusalCode, str] | None, ...] = (
    None,
    (RefusalCode.ALREADY_LEAVING, "it is just starting or ending"),
    (RefusalCode.INTERACTIVE, "it is interactive (salloc or srun) and cannot be requeued"),
    (RefusalCode.NOT_REQUEUEABLE, "it was submitted with --no-requeue"),
    (RefusalCode.HETEROGENEOUS, "it is part of a heterogeneous job, which Slurm requeues as a whole"),
    (RefusalCode.SUSPENDED, "it is suspended, and not by tesched"),
    (RefusalCode.UNREAD, "its record could not be read whole (`tesched status` has more)"),
    (RefusalCode.UNSUPPORTED, "it holds a node that Slurm does not show, so what it would free is not known"),
    (
        RefusalCode.SCRIPT_UNREAD,
        "its batch script or command line has not been read yet, for the signal that it declares",
    ),
    (RefusalCode.NOT_REQUEUEABLE, "Slurm's count of its restarts is at its end, so it could not be seen to be back"),
    (RefusalCode.CANNOT_RETURN, "it must end by a time (--deadline); back in the queue it might never run again"),
    (
        RefusalCode.CANNOT_RETURN,
        "its partition is down, closed to its account, QOS or user, or has too low a limit: it would not start again",
    ),
    (RefusalCode.CANNOT_RETURN, "its reservation is over, gone or can't be read, so it might not start again"),
    (RefusalCode.CANNOT_RETURN, "it has licences, and this release of Slurm loses them when a job is requeued"),
    (
        RefusalCode.CANNOT_RETURN,
        "its nodes are not its partition's any more, or lack a feature that it asks for: it might not start again",
    ),
    (
        RefusalCode.CANNOT_RETURN,
        "a limit of its account, its user or its QOS is by now lower than what it has, or 0: it would not start again",
    ),
    (RefusalCode.CANNOT_RETURN, "its QOS is gone, so it would not start again"),
    (RefusalCode.CANNOT_RETURN, "its user may not use its QOS any more, so it would not start again"),
    (
        RefusalCode.CRON_JOB,
        "it is of its user's crontab (scrontab): a signal would end its series, a requeue put it off to its next date",
    ),
    (
        RefusalCode.FEDERATED,
        "a requeue may put it in the queues of other clusters of the federation (of an array Slurm does not show it)",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Running:
    """The best-effort jobs that hold nodes, one entry a job, in any order; and their shares, one a job and node."""

    job_id: NDArray[np.int64]
    #: start of the present run, Unix seconds; the snapshot's time where Slurm does not say
    started: NDArray[np.float64]
    #: when it was put in the queue for the present run, Unix seconds
    queued: NDArray[np.float64]
    #: since when it could have started, Unix seconds: without what its own user has let it wait (`intake/own_waits.py`)
    eligible: NDArray[np.float64]
    #: when it is expected to end, Unix seconds: by what is known of its run time (`Snapshot.expected_run`), else, or if
    #: it has run longer than that, by its time limit; inf without either
    ends_at: NDArray[np.float64]
    #: when it may well end already: 1 in 10 runs like it is as short. Where nothing was learned, `ends_at`
    may_end_at: NDArray[np.float64]
    grace_s: NDArray[np.float64]
    #: it is sent its signal before it leaves (`Traits.gets_notice`)
    gets_notice: NDArray[np.bool_]
    #: FitGpp's Size: how large a part of a node it holds, without unit (`size_of`)
    size: NDArray[np.float64]
    #: row of `INELIGIBLE`
    ineligible: NDArray[np.int8]
    #: row of `owners`
    owner: NDArray[np.intp]
    owners: Sequence[Owner]
    #: the jobs' names, or nothing where they have none
    names: Sequence[str]
    #: the job's row above, by job id
    row_of: Mapping[JobId, int]
    #: [shares] the job's row above, and the node's row
    share_job: NDArray[np.intp]
    share_node: NDArray[np.intp]
    #: [shares, resources] what becomes free there when the job goes
    frees: NDArray[np.int64]
    #: how often a job may be preempted at most, where its owner says so
    most_preemptions: Mapping[JobId, int] = field(default_factory=dict)
    #: the number that its owner said, where another counts
    most_said: Mapping[JobId, int] = field(default_factory=dict)
    #: the reservations whose ends they would await if they were requeued, of those that would
    awaits: Mapping[JobId, str] = field(default_factory=dict)
    #: the shares in the order of their jobs, and each job's first place there, once `shares_of` was called
    _by_job: list[NDArray[np.intp]] = field(default_factory=list, init=False, repr=False)

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.job_id)

    def lost_s(self, now: UnixSeconds, row: int | slice = slice(None)) -> NDArray[np.float64]:
        """Return [running] the seconds of each one's run that are lost if it is to leave now: it, or all of them."""
        return lost_s(now - self.started[row], self.grace_s[row], saves=self.gets_notice[row])

    def shares_of(self, row: int) -> NDArray[np.intp]:
        """Return the shares of one job, in their order."""
        if not self._by_job:
            order = np.argsort(self.share_job, kind="stable")
            self._by_job.extend((order, np.searchsorted(self.share_job[order], np.arange(len(self) + 1))))
        order, first = self._by_job
        return order[first[row] : first[row + 1]]


#: How many of the waiting jobs, TE jobs aside, are read, from the head of the queue (bf_max_job_test has 500).
MOST_WAITING = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waiting:
    """The best-effort jobs among the first `MOST_WAITING` that are no TE jobs, highest priority first, one entry a job.

    These are what can be weighed by amounts on each node alone. Not so, and in `others`: pending job arrays, exclusive
    jobs, those that want certain nodes or all memory of a node, or what is not modelled, exempt jobs, and those that
    may start once they fit, but of which Slurm has not said so. What waits for anything but resources is in neither.
    """

    job_id: NDArray[np.int64]
    #: since when it waits, Unix seconds
    since: NDArray[np.float64]
    #: how long it is expected to run: by what is known (`Snapshot.expected_run`), else its limit; inf without either
    run_s: NDArray[np.float64]
    #: how long it may well run: 4 in 5 runs like it are no longer. Where nothing was learned, `run_s`
    may_run_s: NDArray[np.float64]
    nodes: NDArray[np.intp]
    #: [jobs, resources] on each of its nodes
    demand: NDArray[np.int64]
    #: row of `allowed`
    kind: NDArray[np.intp]
    #: [kinds, nodes] where it may run
    allowed: NDArray[np.bool_]
    #: the other jobs of that queue, each with the row above before which it stands
    others: Sequence[tuple[int, JobId]] = ()

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.job_id)


class ClusterColumns(Protocol):
    """One instant's answers."""

    @property
    def capacity(self) -> Capacity:
        """Total and free resources of each node."""
        ...

    @property
    def running(self) -> Running:
        """Return the best-effort jobs that hold nodes; their shares' nodes are rows of the nodes."""
        ...

    @property
    def trials(self) -> Sequence[Job]:
        """Return the pending TE jobs, in order of job id."""
        ...

    @property
    def waiting(self) -> Waiting:
        """Return the best-effort jobs that wait for resources."""
        ...

    @property
    def ends(self) -> Ends:
        """Expected end of each job that holds nodes, of any class: when it leaves them."""
        ...

    @property
    def doubted(self) -> Collection[JobId]:
        """Jobs of which it is not known for certain what Slurm says (`Job.doubt`): as a rule none."""
        ...

    @property
    def hook_marked(self) -> Sequence[JobId]:
        """Jobs with the submission hook's mark (`model/hook.py`), in the snapshot's order: as a rule none."""
        ...

    @property
    def tasks(self) -> Mapping[JobId, Sequence[Job]]:
        """Return by array its tasks with records of their own, and its record of those that wait, in order."""
        ...

    def first_in_queue(
        self, partitions: Iterable[str], excluded: Container[JobId], *, best_effort: bool = False
    ) -> int:
        """Return the highest priority of the pending jobs of these partitions, or of the BE jobs; 0 if none waits."""
        ...

    def somebody_fits(self, row: int, free: NDArray[np.int64]) -> bool:
        """Check whether a waiting job of no TE class may fit into `free` [resources] of the node of `row`.

        When in doubt, it may: its constraints are not weighed, and of several nodes it wants one here.
        """
        ...


def size_of(held: NDArray[np.int64], capacity: NDArray[np.int64], resources: Sequence[str]) -> float:
    """Return FitGpp's Size(D): sqrt of the sum over CPU, memory and each GRES of (held / what one node has)^2.

    Both are [resources]. A typed GRES is weighed once, under its bare name. Source: FitGpp, victim selection.
    """
    return sqrt(
        sum(
            (int(have) / int(most)) ** 2
            for name, have, most in zip(resources, held, capacity, strict=True)
            if ":" not in name and most
        )
    )
