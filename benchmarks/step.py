"""Cost of one cycle of the core on large clusters: `python -m benchmarks.step`.

Each node is full of four best-effort jobs of 8 CPUs and 2 GPUs; each TE job wants 16 CPUs, for which two must go. In
the last line each best-effort job was preempted once, and is remembered. Medians of five, of CPU time; building the
overview (once a poll) is shown apart, and is part of the cycle.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

from tesched_core.model.cluster import Job, JobState, Node, NodeShare, Partition, Request
from tesched_core.model.job_memory import JobMemory, Past
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_core.placement.columns_of import columns_of
from tesched_core.policy import in_turn
from tesched_core.step import step
from tesched_policies.fitgpp import FitGpp

#: nodes, TE jobs, and whether the best-effort jobs are remembered
SIZES = ((100, 1, False), (1_000, 1, False), (10_000, 1, False), (10_000, 20, False), (10_000, 1, True))
REPEATS = 5
NODE = Tres(cpus=32, mem_mib=256_000, gres=(("gpu", 8),))
SHARE = Tres(cpus=8, mem_mib=64_000, gres=(("gpu", 2),))
TE_FIRST_ID = 10**7


def full_cluster(nodes: int, trials: int) -> Snapshot:
    """Return a snapshot of a full cluster with so many TE jobs waiting."""
    names = [f"n{place}" for place in range(nodes)]
    running = [
        Job(
            job_id=JobId(4 * place + slot + 1),
            state=JobState.RUNNING,
            partitions=("main",),
            start_time=0.0,
            allocation=(NodeShare(node=name, tres=SHARE),),
        )
        for place, name in enumerate(names)
        for slot in range(4)
    ]
    wants = Request(cpus=16, mem_per_node_mib=1000)
    waiting = [
        Job(
            job_id=JobId(TE_FIRST_ID + number),
            state=JobState.PENDING,
            partitions=("main",),
            reason="Resources",
            priority=1,
            request=wants,
        )
        for number in range(trials)
    ]
    be = Traits(job_class=JobClass.BE, rule="benchmark", grace_period_s=30, grace_source="benchmark")
    te = replace(be, job_class=JobClass.TE)
    return Snapshot.of(
        1000.0,
        jobs=[*running, *waiting],
        nodes=[Node(name=name, state="ALLOCATED", total=NODE) for name in names],
        partitions=[Partition(name="main", nodes=frozenset(names))],
        traits={job.job_id: be for job in running} | {job.job_id: te for job in waiting},
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
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return 1000 * median(times)


def build(snapshot: Snapshot) -> None:
    """Build all of an overview."""
    columns = columns_of(snapshot)
    for part in ("room", "running", "trials"):
        getattr(columns, part)


def main() -> None:
    """Print one line a size."""
    heads = f"{'NODES':>7} {'BE JOBS':>8} {'TE JOBS':>8} {'REMEMBERED':>11}"
    print(f"{heads} {'OVERVIEW MS':>12} {'CYCLE MS':>9} {'REFUSALS':>9}")
    limits = Limits(max_preemptions_per_job=2)
    for nodes, trials, is_remembered in SIZES:
        snapshot = full_cluster(nodes, trials)
        memory = remembered(snapshot) if is_remembered else Memory()
        overview_ms = took_ms(partial(build, snapshot))
        cycle_ms = took_ms(partial(step, memory, snapshot, in_turn(FitGpp()), limits))
        _, decision = step(memory, snapshot, in_turn(FitGpp()), limits)
        sizes = f"{nodes:>7} {4 * nodes:>8} {trials:>8} {len(memory.jobs):>11}"
        print(f"{sizes} {overview_ms:>12.1f} {cycle_ms:>9.1f} {len(decision.refusals):>9}", flush=True)


if __name__ == "__main__":
    main()
