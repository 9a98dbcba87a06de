"""Cost of one cycle of the core on large clusters: `python -m benchmarks.step`.

Each node is full of four best-effort jobs of 8 CPUs and 2 GPUs; each TE job wants 16 CPUs, for which two must go. In
the line with remembered jobs each best-effort job was preempted once. In the mixed lines they are of 50 users, and the
TE jobs of 40 users (20 of these) want half a node or 3, 4 or 12 of its CPUs; half of the TE jobs may run in a partition
alone where each job is protected, so that there is no victim for them, and what all others want is far beyond the
guard's limits. In the last line jobs wait besides.

A cycle follows one in which no TE job waited; since then they have come, and one in a hundred of the other jobs has
another record. OVERVIEW is what the columns take then, which is part of the cycle; ANEW what they take after a start.
Medians of five, of CPU time, with no search for garbage, as in a turn of the daemon. Writing out refusals is no part.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from tesched_core.model.cluster import Job, JobState, Node, NodeShare, Partition, Request
from tesched_core.model.job_memory import JobMemory, Past
from tesched_core.model.known_jobs import KnownCluster
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_core.placement.columns_of import columns_of
from tesched_core.policy import in_turn
from tesched_core.step import step
from tesched_daemon.garbage import no_search_for_garbage
from tesched_policies.fitgpp import FitGpp


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of a cluster and its queue."""

    nodes: int
    trials: int
    #: the best-effort jobs are remembered
    remembered: bool = False
    #: users and requests differ
    mixed: bool = False
    #: best-effort jobs that wait
    queue: int = 0


SIZES = (
    Size(nodes=100, trials=1),
    Size(nodes=1_000, trials=1),
    Size(nodes=10_000, trials=1),
    Size(nodes=10_000, trials=20),
    Size(nodes=10_000, trials=1, remembered=True),
    Size(nodes=500, trials=200),
    Size(nodes=500, trials=200, mixed=True),
    Size(nodes=10_000, trials=200, mixed=True),
    Size(nodes=10_000, trials=1_000),
    Size(nodes=10_000, trials=1_000, mixed=True),
    Size(nodes=10_000, trials=1_000, mixed=True, queue=59_000),
)
REPEATS = 5
#: CPUs of a TE job of the mixed lines
MIXED_CPUS = (16, 3, 4, 12)
#: its partition, where there is a victim for it and where there is none
OPEN, PROTECTED = "main", "protected"
NODE = Tres(cpus=32, mem_mib=256_000, gres=(("gpu", 8),))
SHARE = Tres(cpus=8, mem_mib=64_000, gres=(("gpu", 2),))
TE_FIRST_ID, QUEUE_FIRST_ID = 10**7, 10**8


def full_cluster(size: Size) -> Snapshot:
    """Return a snapshot of a full cluster with so many TE jobs waiting."""
    names = [f"n{place}" for place in range(size.nodes)]
    protected = set(names[::10]) if size.mixed else set()
    running = [
        Job(
            job_id=JobId(4 * place + slot + 1),
            state=JobState.RUNNING,
            user=f"user{(4 * place + slot) % 50}" if size.mixed else "",
            partitions=(PROTECTED if name in protected else OPEN,),
            start_time=0.0,
            allocation=(NodeShare(node=name, tres=SHARE),),
        )
        for place, name in enumerate(names)
        for slot in range(4)
    ]
    be = Traits(job_class=JobClass.BE, rule="benchmark", grace_period_s=30, grace_source="benchmark")
    te = replace(be, job_class=JobClass.TE)
    waiting = [_trial(number, mixed=size.mixed) for number in range(size.trials)]
    queued = [
        Job(
            job_id=JobId(QUEUE_FIRST_ID + number),
            state=JobState.PENDING,
            user=f"user{number % 50}",
            partitions=(OPEN,),
            reason="Priority",
            priority=1,
            request=Request(cpus=8, mem_per_node_mib=64_000),
        )
        for number in range(size.queue)
    ]
    return Snapshot.of(
        1000.0,
        jobs=[*running, *waiting, *queued],
        nodes=[Node(name=name, state="ALLOCATED", total=NODE) for name in names],
        partitions=[
            Partition(name=OPEN, nodes=frozenset(names)),
            Partition(name=PROTECTED, nodes=frozenset(protected or names)),
        ],
        traits={job.job_id: be for job in (*running, *queued)} | {job.job_id: te for job in waiting},
    )


def _trial(number: int, *, mixed: bool) -> Job:
    cpus = MIXED_CPUS[number // 2 % len(MIXED_CPUS)] if mixed else 16
    return Job(
        job_id=JobId(TE_FIRST_ID + number),
        state=JobState.PENDING,
        user=f"user{30 + number // 8 % 40}" if mixed else "",
        partitions=(PROTECTED if mixed and number % 2 else OPEN,),
        reason="Resources",
        priority=1,
        request=Request(cpus=cpus, mem_per_node_mib=1000),
    )


def remembered(snapshot: Snapshot) -> Memory:
    """Memory of one preemption, long ago, of each running job."""
    past = {job.job_id: Past(submitted_at=-50_000.0, ran_s=10.0) for job in snapshot.jobs.values() if job.on_nodes}
    return Memory(
        jobs={job_id: JobMemory(preemptions=1, last_preempted=-9000.0, past=one) for job_id, one in past.items()}
    )


def took_ms(call: Callable[[], object]) -> float:
    """Return the median CPU time of several calls, milliseconds."""
    times = []
    for _ in range(REPEATS):
        with no_search_for_garbage():
            began = time.process_time()
            call()
            times.append(time.process_time() - began)
    return 1000 * median(times)


def before(snapshot: Snapshot) -> Snapshot:
    """Snapshot of the poll before: without the TE jobs, and with other records of one in a hundred of the others."""
    jobs = {
        job_id: job if job_id % 100 else replace(job, restarts=1)
        for job_id, job in snapshot.jobs.items()
        if snapshot.job_class(job_id) is not JobClass.TE
    }
    return replace(snapshot, taken_at=snapshot.taken_at - 1, jobs=jobs)


def build(snapshot: Snapshot, known: KnownCluster | None) -> None:
    """Build all of an overview."""
    columns = columns_of(snapshot, known)
    for part in ("capacity", "running", "trials"):
        getattr(columns, part)


def main() -> None:
    """Print one line a size."""
    heads = f"{'NODES':>7} {'JOBS':>8} {'TE JOBS':>8} {'MIXED':>6} {'REMEMBERED':>11}"
    print(f"{heads} {'ANEW MS':>8} {'OVERVIEW MS':>12} {'CYCLE MS':>9} {'WITHOUT MS':>11} {'REFUSALS':>9}")
    limits = Limits(max_preemptions_per_job=2, protected_partitions=(PROTECTED,))
    for size in SIZES:
        snapshot = full_cluster(size)
        first = remembered(snapshot) if size.remembered else Memory()
        memory, _ = step(first, before(snapshot), in_turn(FitGpp()), limits)
        anew_ms = took_ms(partial(build, snapshot, None))
        overview_ms = took_ms(partial(build, snapshot, memory.known))
        cycle_ms = took_ms(partial(step, memory, snapshot, in_turn(FitGpp()), limits))
        _, decision = step(memory, snapshot, in_turn(FitGpp()), limits)
        mixed = "yes" if size.mixed else "no"
        sizes = f"{size.nodes:>7} {len(snapshot.jobs):>8} {size.trials:>8} {mixed:>6} {len(memory.jobs):>11}"
        times = f"{anew_ms:>8.1f} {overview_ms:>12.1f} {cycle_ms:>9.1f} {cycle_ms - overview_ms:>11.1f}"
        print(f"{sizes} {times} {len(decision.refusals):>9}", flush=True)


if __name__ == "__main__":
    main()
