"""The simulated Slurm against a real one: `python -m benchmarks.twin [--jobs N] [--policy backfill,native,fitgpp]`.

One workload, drawn from a seed, runs on a real Slurm of 84 nodes on this host (a minute of the paper is a second here,
times `--slower`), and then in the simulator: the same jobs at the submission times that they really had. Printed side
by side: mean waits by class, and the preempted jobs. A policy takes about two minutes, times `--slower`, and wants the
machine for itself, all the more the faster it goes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import numpy as np
from tesched_core.model.limits import Limits
from tesched_core.policy import in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_sim.engine import Simulation
from tesched_sim.result import Result
from tesched_sim.slurm_settings import Backfill, Behaviour, NativePreemption, NodeChoice, RequeuedTo
from tesched_sim.workload import SimulatedNodes, Workload
from tesched_testcluster import definition
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.load import EventName, LoadJob, read_events, submit
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.stage import LocalStage

NODES, GPUS = 84, 8
#: sizes in GPUs: about a hundred jobs run at once, which two cores can bear
BE_GPUS, TE_GPUS = (8, 8, 4), (2, 4, 8)
#: seconds of work
BE_RUN_S, TE_RUN_S = (10, 40), (3, 6)
#: seconds that a victim takes to save
SAVES_S = 1.0
#: jobs that come before the cluster is full
UNDISTURBED = 40
#: what is offered, as a part of the cluster's GPUs
LOAD = 1.3
#: seconds
GRACE_S, LIMIT_S = 6.0, 60.0
#: seconds, however slow the rest is: the stage's configuration, and the test cluster's (cred_expire and one)
POLL_S, REQUEUE_DELAY_S = 0.5, 6.0
#: seconds between two passes of slurmctld over its queue (sched_interval of the test cluster)
PASS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One job, and when it is to be submitted."""

    at_s: float
    te: bool
    gpus: int
    run_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Record of one job on the real Slurm; Unix seconds."""

    submitted: float
    started: float
    done: float
    preempted: bool


class Took(NamedTuple):
    """Measured times, seconds."""

    #: a second of work
    second_s: float
    #: how long a job holds its nodes besides
    overhead_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """One policy, really and simulated. Mean waits in seconds: all that passed but the run itself."""

    policy: str
    jobs: int
    te_wait_s: tuple[float, float]
    be_wait_s: tuple[float, float]
    preempted: tuple[int, int]
    #: how many of those that were really preempted the simulation preempted, too
    same: int


def drawn(jobs: int, seed: int, slower: int) -> list[Planned]:
    """Return a workload with submissions that offer the load; every time in it is `slower` times as long."""
    rng = np.random.default_rng(seed)
    planned = []
    for _ in range(jobs):
        te = bool(rng.random() < 0.3)
        gpus = int(rng.choice(TE_GPUS if te else BE_GPUS))
        run_s = int(rng.integers(*(TE_RUN_S if te else BE_RUN_S), endpoint=True)) * slower
        planned.append(Planned(at_s=0.0, te=te, gpus=gpus, run_s=run_s))
    offered = sum(job.gpus * job.run_s for job in planned)
    span_s = offered / (LOAD * NODES * GPUS)
    at_s = np.sort(rng.uniform(0, span_s, jobs)).tolist()
    return [replace(job, at_s=at) for job, at in zip(planned, at_s, strict=True)]


def definition_of(policy: str) -> ClusterDefinition:
    """Return the cluster: with native preemption, TE jobs have a partition of a higher tier."""
    group = NodeGroup(count=NODES, gres={"gpu": GPUS})
    if policy != "native":
        return ClusterDefinition(groups=(group,), partitions=(PartitionDefinition(name="main", default=True),))
    partitions = (
        PartitionDefinition(name="main", default=True, priority_tier=1, preempt_mode="REQUEUE", grace_time_s=0),
        PartitionDefinition(name="trials", priority_tier=2, preempt_mode="OFF"),
    )
    return ClusterDefinition(
        groups=(group,), partitions=partitions, preemption=definition.NativePreemption(youngest_first=False)
    )


def run_really(policy: str, planned: list[Planned], slower: int) -> list[Seen]:
    """Run the workload on a real Slurm."""
    with LocalCluster(definition_of(policy)) as cluster, tempfile.TemporaryDirectory() as name:
        stage = LocalStage(cluster=cluster, folder=Path(name))
        with stage.daemon() if policy == "fitgpp" else nullcontext():
            began = time.monotonic()
            submitted: dict[int, float] = {}
            for number, job in enumerate(planned):
                time.sleep(max(0.0, began + job.at_s - time.monotonic()))  # the pace is the workload's
                minutes = round(LIMIT_S / 60 * slower)
                options = [f"--time={minutes}", "--requeue", f"--comment=grace={GRACE_S * slower:.0f}"]
                if policy == "native" and job.te:
                    options.append("--partition=trials")
                load = LoadJob(
                    name=f"{'te' if job.te else 'be'}-{number}",
                    kind="te" if job.te else "be",
                    cpus=job.gpus,
                    mem_mib=job.gpus * 1000,
                    gpus=job.gpus,
                    ticks=job.run_s,
                    tick_s=1.0,
                    on_notice="exit",
                    checkpoint_s=SAVES_S * slower,
                    options=tuple(options),
                )
                moment = time.time()
                submitted[submit(cluster, load, cluster.shared)] = moment
                _tell(number + 1, len(planned))

            def finished() -> bool:
                done = {event.job_id for event in read_events(cluster.shared) if event.name is EventName.DONE}
                return done >= submitted.keys()

            cluster.wait_for(finished, "all jobs to be done", timeout_s=600 * slower)
        return [_seen(job_id, moment, cluster) for job_id, moment in submitted.items()]


def _seen(job_id: int, submitted: float, cluster: LocalCluster) -> Seen:
    mine = [event for event in read_events(cluster.shared) if event.job_id == job_id]
    return Seen(
        submitted=submitted,
        started=mine[0].time,
        done=mine[-1].time,
        preempted=any(event.restarts > 0 for event in mine),
    )


def simulate(policy: str, planned: list[Planned], seen: list[Seen], slower: int, took: Took) -> Result:
    """Run the same jobs in the simulator, at the submission times that they had."""
    first = seen[0].submitted
    te = [job.te for job in planned]
    workload = Workload.of(
        "twin",
        SimulatedNodes.alike(NODES, cpus=32, mem_mib=256_000, gpus=GPUS),
        submit_s=[one.submitted - first for one in seen],
        run_s=[job.run_s * took.second_s + took.overhead_s for job in planned],
        limit_s=LIMIT_S * slower,
        demand=[[job.gpus, job.gpus * 1000, job.gpus] for job in planned],
        te=te,
        grace_s=GRACE_S * slower,
        yield_s=SAVES_S * slower,
        saves_on_notice=policy == "fitgpp",
    )
    behaviour = Behaviour(
        backfill=Backfill.EASY,
        placement=NodeChoice.FIRST_FIT,
        te_first=policy == "native",
        native=NativePreemption() if policy == "native" else None,
        requeued_to=RequeuedTo.PLACE,
        requeue_delay_s=REQUEUE_DELAY_S,
        kill_wait_s=0.0,  # the jobs end on SIGTERM
        pass_s=PASS_S,
        poll_s=POLL_S,
    )
    limits = Limits(min_run_time_s=0, cool_down_s=0, bind_for_s=0, wait_for_free_s=0)
    tesched = FitGpp() if policy == "fitgpp" else None
    return Simulation(workload, behaviour, policies=in_turn(*([tesched] if tesched else [])), limits=limits).run()


def compared(policy: str, planned: list[Planned], seen: list[Seen], slower: int) -> Twin:
    """Return both side by side."""
    whole = [(job, one) for job, one in zip(planned, seen, strict=True) if not one.preempted]
    second_s = float(np.median([(one.done - one.started) / job.run_s for job, one in whole]))
    # The first jobs come to an empty cluster: what passes then besides their work is what a start and an end take.
    overhead_s = float(np.median([one.done - one.submitted - job.run_s * second_s for job, one in whole[:UNDISTURBED]]))
    result = simulate(policy, planned, seen, slower, Took(second_s, overhead_s))
    te = np.array([job.te for job in planned])
    run_s = np.array([job.run_s * second_s for job in planned])
    real_s = np.array([one.done - one.submitted for one in seen]) - run_s
    really = np.array([one.preempted for one in seen])
    simulated = result.preempted > 0
    waited_s = result.jct_s - run_s
    return Twin(
        policy=policy,
        jobs=len(planned),
        te_wait_s=(float(real_s[te].mean()), float(waited_s[te].mean())),
        be_wait_s=(float(real_s[~te].mean()), float(waited_s[~te].mean())),
        preempted=(int(really.sum()), int(simulated.sum())),
        same=int((really & simulated).sum()),
    )


def _tell(done: int, count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{count} submitted", end="" if done < count else "\n", file=sys.stderr, flush=True)


@contextmanager
def _said(policy: str) -> Iterator[None]:
    began = time.monotonic()
    print(f"{policy} …", file=sys.stderr, flush=True)
    yield
    print(f"{policy}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


@click.command()
@click.option("--jobs", type=click.IntRange(10), default=500, show_default=True)
@click.option("--policy", "policies", default="backfill,native,fitgpp", show_default=True)
@click.option("--slower", type=click.IntRange(1, 60), default=1, show_default=True, help="All times so much longer.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--record", type=click.Path(path_type=Path), help="Keep what was seen, or take it from there if it is.")
@click.option("--json", "as_json", is_flag=True)
def main(*, jobs: int, policies: str, slower: int, seed: int, record: Path | None, as_json: bool) -> None:
    """Print one line a policy."""
    planned = drawn(jobs, seed, slower)
    known: dict[str, list[Seen]] = {}
    if record is not None and record.exists():
        known = msgspec.json.decode(record.read_bytes(), type=dict[str, list[Seen]])
    twins = []
    for policy in policies.split(","):
        if policy not in known:
            with _said(policy):
                known[policy] = run_really(policy, planned, slower)
            if record is not None:
                record.write_bytes(msgspec.json.encode(known))
        twins.append(compared(policy, planned, known[policy], slower))
    if as_json:
        print(json.dumps([asdict(twin) for twin in twins], indent=2))
        return
    heads = ("POLICY", "TE WAIT REAL", "SIM", "BE WAIT REAL", "SIM", "PREEMPTED", "SIM", "SAME")
    print("  ".join(f"{head:>12}" for head in heads))
    for twin in twins:
        waits = [f"{value:.2f}" for value in (*twin.te_wait_s, *twin.be_wait_s)]
        counts = [str(count) for count in (*twin.preempted, twin.same)]
        print("  ".join(f"{word:>12}" for word in (twin.policy, *waits, *counts)))


if __name__ == "__main__":
    main()
