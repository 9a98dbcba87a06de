"""CPUs of nodes where slurm.conf counts each core as one CPU, whatever its hardware threads.

Definitions
    ids of a CPU   how many of the numbers in scontrol's CPU_IDs each of a node's CPUs has: Slurm numbers hardware
                   threads there, so 1 where each is a CPU, and those of a core where that is one CPU (CPUs=8
                   CoresPerSocket=8 ThreadsPerCore=2)

Principle
    What a job holds on a node is read from CPU_IDs, without its node's record: a job of 6 CPUs has CPU_IDs=4-15 on such
    a node of 8 (22.05.8 and 26.05.5). So jobs are read as they are elsewhere, and what they hold on such nodes is
    divided where both are known. A job that has not changed stays the same object. Those that an early turn reads by
    themselves are divided likewise.

Source
    slurm.conf(5), "CPUs" and "ThreadsPerCore"; seen on both releases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job, Node, NodeShare
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import Observer, SingleReads


@dataclass(kw_only=True)
class CoresAsCpus:
    """Sees the cluster through another observer; its jobs hold CPUs as their nodes count them."""

    observer: Observer
    #: of nodes where it is not 1, by the last poll
    _ids_of_a_cpu: Mapping[str, int] = field(default_factory=dict)
    #: jobs of the last poll: as they were read, and as they are
    _read: Mapping[JobId, Job] = field(default_factory=dict)
    _jobs: Mapping[JobId, Job] = field(default_factory=dict)

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:
        """Read what Slurm says now, as `RestingObserver.observe`."""
        seen = self.observer.observe(whole=whole, ends=ends)
        if isinstance(seen, Failure):
            return seen
        ids = {name: node.ids_of_a_cpu for name, node in seen.nodes.items() if node.ids_of_a_cpu > 1}
        # Of a node that is gone for a poll, or could not be read, jobs are still shown.
        ids |= {name: known for name, known in self._ids_of_a_cpu.items() if _is_unknown(seen.nodes.get(name))}
        if ids != self._ids_of_a_cpu:
            self._ids_of_a_cpu, self._read, self._jobs = ids, {}, {}
        if not ids:
            return seen
        if seen.jobs is not self._read:
            self._jobs = MappingProxyType({job_id: self._counted(job) for job_id, job in seen.jobs.items()})
            self._read = seen.jobs
        return replace(seen, jobs=self._jobs)

    def _counted(self, job: Job) -> Job:
        return self._jobs[job.job_id] if self._read.get(job.job_id) is job else self.counted(job)

    def counted(self, job: Job) -> Job:
        """Return a job, as it was read by itself, with CPUs as its nodes counted them at the last poll."""
        if not any(share.cpu_ids and share.node in self._ids_of_a_cpu for share in job.allocation):
            return job
        return replace(job, allocation=tuple(map(self._share, job.allocation)))

    def _share(self, share: NodeShare) -> NodeShare:
        # Where it has no ids its CPUs were counted by Slurm itself.
        ids = self._ids_of_a_cpu.get(share.node, 1) if share.cpu_ids else 1
        return replace(share, tres=replace(share.tres, cpus=-(-share.tres.cpus // ids)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleCoresAsCpus:
    """Reads jobs through other single reads, and divides as the observer's last poll did.

    Where slurm.conf has changed since, what jobs hold on a node differs from its own record.
    """

    reads: SingleReads
    observer: CoresAsCpus

    def records(self, job_ids: Sequence[JobId], within_s: float) -> Mapping[JobId, Job] | Failure:
        """Read these jobs as they are now, as `SingleReads.records`."""
        read = self.reads.records(job_ids, within_s)
        return (
            read if isinstance(read, Failure) else {job_id: self.observer.counted(job) for job_id, job in read.items()}
        )

    def site(self, last: Snapshot, within_s: float) -> Snapshot | Failure:
        """Read all else, as `SingleReads.site`."""
        return self.reads.site(last, within_s)


def _is_unknown(node: Node | None) -> bool:
    return node is None or bool(node.doubt)
