"""Jobs by the nodes that they are on, and tasks by their job array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain

from tesched_core.model.cluster import Job, JobState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot


class JobsThere:
    """Which jobs are on which node, and what they hold: found when it is needed, and once for a cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._jobs = snapshot.jobs.values()
        self._held: dict[str, Counter[str]] = {}

    def on(self, node: str) -> Sequence[Job]:
        """Return the jobs on a node, in the snapshot's order."""
        return self._by_node.get(node, ())

    @cached_property
    def _by_node(self) -> Mapping[str, Sequence[Job]]:
        found: dict[str, list[Job]] = {}
        for job in self._jobs:
            for share in job.allocation:
                found.setdefault(share.node, []).append(job)
        return found

    @cached_property
    def busy(self) -> frozenset[str]:
        """Nodes on which a job runs or completes."""
        running = (job.nodes for job in self._jobs if job.allocation and job.state is not JobState.SUSPENDED)
        return frozenset(chain.from_iterable(running))

    def held(self, device: str) -> Mapping[str, int]:
        """How many of these devices jobs hold whole, by node."""
        if device not in self._held:
            found = self._held[device] = Counter()
            for job in self._jobs:
                for share in job.allocation:
                    found[share.node] += dict(share.tres.gres).get(device, 0)
        return self._held[device]


class TasksThere:
    """Records of job arrays, by the array: found when they are needed, and once for these jobs."""

    def __init__(self, jobs: Mapping[JobId, Job]) -> None:
        self.jobs = jobs

    def of(self, array: JobId) -> Sequence[Job]:
        """Return the records of an array, in the jobs' order."""
        return self._by_array.get(array, ())

    @cached_property
    def _by_array(self) -> Mapping[JobId, Sequence[Job]]:
        found: dict[JobId, list[Job]] = {}
        for job in self.jobs.values():
            if job.array_job_id is not None:
                found.setdefault(job.array_job_id, []).append(job)
        return found
