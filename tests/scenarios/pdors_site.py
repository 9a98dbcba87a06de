"""A small site on which PD-ORS plans, for the tests that move it by hand.

Rack a has the nodes a1 and a2, rack b has b1 and b2; jobs take whole nodes; a slot is 10 s. The training `net` takes
70 s on two nodes of a rack, 250 s on two of different racks, 225 s on four (workload.py has the sum), and 120 s on one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tesched_core.model.cluster import Job, Request, SlurmSettings, Switch
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_policies.pdors.policy import PdOrs
from tesched_policies.pdors.state import JobPlan
from tesched_policies.pdors.workload import TrainingKind

from tests.builders import NOW, node, running, share, traits, waiting
from tests.scenarios.driver import Driver

NET = TrainingKind(
    name="net", samples=1000, sample_s=0.1, batch=10, gradient_mb=100, rack_mb_per_s=1000, far_mb_per_s=100
)
LIMITS = Limits(min_run_time_s=0, cool_down_s=0, max_preemptions_per_job=100, max_slowdown=1000)
A, B, C, TRIAL = 1, 2, 3, 9
SETTINGS = SlurmSettings(
    kill_wait_s=30,
    requeue_delay_s=1,
    switches=(Switch(name="a", nodes=("a1", "a2")), Switch(name="b", nodes=("b1", "b2"))),
)


class Site(Driver):
    """The two racks; of jobs without an expected run time, the workload is known."""

    def __init__(self, *jobs: Job, run_times: Mapping[int, float] | None = None, workload: TrainingKind = NET) -> None:
        policy = PdOrs(slot_s=10, slots=60, workloads=(workload,))
        known = run_times or {}
        super().__init__(
            [node(name) for name in ("a1", "a2", "b1", "b2")],
            jobs,
            limits=LIMITS,
            best_effort=policy,
            run_times={int(job.job_id): known.get(int(job.job_id), 1.0) for job in jobs if job.job_id != TRIAL},
        )
        told = dict(self.start.traits)
        for job_id in told.keys() - known.keys() - {TRIAL}:
            told[job_id] = replace(told[job_id], run_time_s=None, workload="net")
        self.start = self.start.with_traits(told)

    def snapshot(self, at_s: float) -> Snapshot:
        return replace(super().snapshot(at_s), settings=SETTINGS)

    def comes(self, job: Job) -> None:
        """Let a job be submitted."""
        self.jobs[job.job_id] = job
        one = replace(traits(JobClass.BE), workload="net")
        self.start = self.start.with_traits({**self.start.traits, job.job_id: one})

    def begins(self, job_id: int, at_s: float) -> None:
        """Start a job where it is bound to."""
        names = self.jobs[JobId(job_id)].request.required_nodes
        self.starts(job_id, *(share(name, 32, 1) for name in names), at_s=at_s)

    def plan(self, job_id: int) -> JobPlan:
        found: JobPlan = self.state("pdors").plans[JobId(job_id)]
        return found


def filler(job_id: int, *names: str) -> Job:
    """Return a job that has just started."""
    held = (share(name, 32, 1) for name in names)
    return replace(running(job_id, *held, start_time=NOW), request=wide(job_id, len(names), len(names)).request)


def wide(job_id: int, fewest: int = 2, most: int = 2) -> Job:
    """Return a job that has just been submitted."""
    request = Request(min_nodes=fewest, max_nodes=most, cpus=32 * fewest, tasks=fewest, mem_per_node_mib=1)
    return waiting(job_id, request, submit_time=NOW)
