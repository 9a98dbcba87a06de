"""PD-ORS on a real Slurm: `python -m benchmarks.pdors_slurm`.

Sixteen nodes in two racks, and distributed jobs that want a range of nodes. A job's own script works out how long it
sleeps, by the paper's model, from the nodes on which it landed: it is slower across racks. The same jobs come at the
same times to plain Slurm, which knows the topology; to Slurm with users who ask for one switch (--switches=1); and to
Slurm with tesched planning (`policy.be = "pdors"`). Time is compressed: jobs of some seconds to a minute or two.
Printed for each: the time from submission to end (JCT), how many jobs were in one rack, and the utility: what PD-ORS
maximises, as a part of what there would be if all jobs ended at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import ceil
from pathlib import Path

import click
import numpy as np
from tesched_policies.pdors.workload import PATIENT_FOR, STEEPNESS, TrainingKind, Urgency
from tesched_testcluster.definition import NodeGroup
from tesched_testcluster.local import LocalCluster

from benchmarks.beside_slurm import BesideSlurm, beside_slurm, submitted

JOB_SCRIPT = Path(__file__).with_name("pdors_job.sh")
PER_RACK = 8
#: how many nodes a job has at least, and how often that is so
FEWEST = {1: 0.3, 2: 0.4, 4: 0.3}
#: so many of those that want several may have twice as many
WIDER = 0.7
#: node-seconds of computing: 10 to the power of a number between these
WORK = (1.1, 2.0)
#: so many times as long a job takes on its fewest nodes (two at least) if they are in different racks
FAR = (1.5, 4.0)
#: part of the computing that the exchange takes within a rack, for each node
NEAR = 0.02
SAMPLES, BATCH, GRADIENT_MB = 10_000, 100, 10.0
#: both with and without tesched: Slurm starts a batch job two seconds or so after it was submitted
SCHEDULER = "sched_interval=2,sched_min_interval=0,batch_sched_delay=2,bf_interval=2,bf_resolution=1"
POLL_S = 0.4
#: of the table's columns
WIDTHS = (12, 7, 8, 9, 9, 8, 6, 8)

_TABLES = """
[policy.pdors]
slot_s = {slot_s}
slots = {slots}
floor = {floor}
[guard]
max_open_orders = 1000
[classes]
default_class = "be"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributed:
    """One job."""

    at_s: float
    fewest: int
    most: int
    workload: TrainingKind

    def run_s(self, nodes: int, *, far: bool) -> float:
        """Return how long it takes on so many nodes."""
        one = self.workload
        link = one.far_mb_per_s if far else one.rack_mb_per_s
        return one.samples * (one.sample_s + nodes * 2 * one.gradient_mb / (link * one.batch)) / nodes

    def worth(self, jct_s: float) -> float:
        """Return what an end after so long is worth, as tesched plans by default: 1 at once, a half at its patience."""
        patience_s = PATIENT_FOR * min(self.run_s(nodes, far=False) for nodes in (self.fewest, self.most))
        return float(1 / (1 + np.exp(min(STEEPNESS[Urgency.SENSITIVE] * (jct_s / patience_s - 1), 700.0))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Result of one arm; seconds."""

    arm: str
    jobs: int
    mean_jct_s: float
    #: mean worth of their ends, from 0 to 1
    utility: float
    p95_jct_s: float
    #: from the first submission to the last end
    makespan_s: float
    #: of all jobs, and of those with several nodes
    in_one_rack: float
    wide_in_one_rack: float
    mean_nodes: float
    mean_wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """Settings of tesched's planning: slot_s, slots and floor of [policy.pdors]."""

    slot_s: float
    slots: int
    floor: float


def drawn(count: int, span_s: float, seed: int) -> list[Distributed]:
    """Return jobs that come at random in the span."""
    rng = np.random.default_rng(seed)
    at_s = np.sort(rng.uniform(0, span_s, count)).tolist()
    jobs = []
    for number in range(count):
        fewest = int(rng.choice(list(FEWEST), p=list(FEWEST.values())))
        most = 2 * fewest if fewest > 1 and rng.random() < WIDER else fewest
        sample_s = 10 ** float(rng.uniform(*WORK)) / SAMPLES
        far = float(rng.uniform(*FAR))
        wide = max(fewest, 2)
        near_exchange = NEAR * sample_s
        far_exchange = (far * (sample_s + wide * near_exchange) - sample_s) / wide
        workload = TrainingKind(
            name=f"w{number}",
            samples=SAMPLES,
            sample_s=sample_s,
            batch=BATCH,
            gradient_mb=GRADIENT_MB,
            rack_mb_per_s=2 * GRADIENT_MB / (BATCH * near_exchange),
            far_mb_per_s=2 * GRADIENT_MB / (BATCH * far_exchange),
        )
        jobs.append(Distributed(at_s=at_s[number] - at_s[0], fewest=fewest, most=most, workload=workload))
    return jobs


def really(jobs: Sequence[Distributed], arm: str, planning: Planning) -> Found:
    """Return what becomes of the jobs on a real Slurm: "plain", "switches" or "pdors"."""
    with beside_slurm(
        NodeGroup(count=2 * PER_RACK, gres={"gpu": 1}),
        racks={"r1": f"n[1-{PER_RACK}]", "r2": f"n[{PER_RACK + 1}-{2 * PER_RACK}]"},
        settings={"SchedulerParameters": SCHEDULER},
    ) as slurm:
        if arm == "pdors":
            _start(slurm, jobs, planning)
        options = ("--switches=1",) if arm == "switches" else ()
        ids = submitted(jobs, lambda job: job.at_s, partial(_submit, slurm.cluster, options))
        slurm.wait_for_end()
        return _read(arm, jobs, ids, (slurm.cluster.shared / "events").read_text())


def _start(slurm: BesideSlurm, jobs: Sequence[Distributed], planning: Planning) -> None:
    keys = ("samples", "sample_s", "batch", "gradient_mb", "rack_mb_per_s", "far_mb_per_s")
    workloads = "".join(
        f"[[policy.pdors.workloads]]\nname = {json.dumps(job.workload.name)}\n"
        + "".join(f"{key} = {getattr(job.workload, key)}\n" for key in keys)
        for job in jobs
    )
    slurm.configure("pdors", poll_s=POLL_S, tables=_TABLES.format(**asdict(planning)) + workloads)
    slurm.start()


def _submit(cluster: LocalCluster, options: Sequence[str], job: Distributed) -> int:
    one = job.workload
    # Users leave some margin for the worst; Slurm counts in minutes.
    minutes = ceil(1.2 * job.run_s(job.fewest, far=job.fewest > 1) / 60)
    return cluster.sbatch(
        f"--job-name={one.name}",
        f"--nodes={job.fewest}-{job.most}",
        "--gres=gpu:1",
        "--mem=100M",
        f"--time={minutes}",
        f"--comment=workload={one.name}",
        "--output=/dev/null",
        *options,
        script=JOB_SCRIPT,
        arguments=(
            *(str(each) for each in (one.samples, one.sample_s, one.batch, one.gradient_mb)),
            *(str(each) for each in (one.rack_mb_per_s, one.far_mb_per_s, PER_RACK)),
            str(cluster.shared),
        ),
    )


def _read(arm: str, jobs: Sequence[Distributed], ids: dict[int, float], events: str) -> Found:
    started: dict[int, float] = {}
    ended: dict[int, float] = {}
    shape: dict[int, tuple[int, int]] = {}
    for line in events.splitlines():
        at, job_id, event, nodes, racks = line.split()
        (started if event == "start" else ended)[int(job_id)] = float(at)
        shape[int(job_id)] = int(nodes), int(racks)
    lost = [job_id for job_id in ids if job_id not in ended]
    if lost:
        raise click.ClickException(f"{len(lost)} jobs did not run to their end: {lost[:5]}")
    jct_s = [ended[job_id] - at for job_id, at in ids.items()]
    wide = [racks for nodes, racks in shape.values() if nodes > 1]
    return Found(
        arm=arm,
        jobs=len(ids),
        mean_jct_s=float(np.mean(jct_s)),
        utility=float(np.mean([job.worth(each) for job, each in zip(jobs, jct_s, strict=True)])),
        p95_jct_s=float(np.percentile(jct_s, 95)),
        makespan_s=max(ended.values()) - min(ids.values()),
        in_one_rack=float(np.mean([racks == 1 for _, racks in shape.values()])),
        wide_in_one_rack=float(np.mean([racks == 1 for racks in wide])),
        mean_nodes=float(np.mean([nodes for nodes, _ in shape.values()])),
        mean_wait_s=float(np.mean([started[job_id] - at for job_id, at in ids.items()])),
    )


def _lines(found: Sequence[Found]) -> Iterator[str]:
    heads = ("mean JCT, s", "p95", "utility", "makespan", "one rack", "of wide", "nodes", "wait, s")
    yield " ".join(["".ljust(10), *(head.rjust(width) for head, width in zip(heads, WIDTHS, strict=True))])
    for one in found:
        values = (
            f"{one.mean_jct_s:.1f}",
            f"{one.p95_jct_s:.1f}",
            f"{one.utility:.3f}",
            f"{one.makespan_s:.0f}",
            f"{one.in_one_rack:.0%}",
            f"{one.wide_in_one_rack:.0%}",
            f"{one.mean_nodes:.2f}",
            f"{one.mean_wait_s:.1f}",
        )
        yield " ".join([one.arm.ljust(10), *(value.rjust(width) for value, width in zip(values, WIDTHS, strict=True))])


@click.command()
@click.option("--jobs", type=click.IntRange(2), default=60, show_default=True)
@click.option("--span", "span_s", type=float, default=95.0, show_default=True, help="Seconds in which they come.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--arms", default="plain,switches,pdors", show_default=True)
@click.option("--slot", "slot_s", type=float, default=2.0, show_default=True, help="Seconds of a slot.")
@click.option("--slots", type=click.IntRange(2), default=150, show_default=True, help="Slots that are planned.")
@click.option("--floor", type=float, default=1e-5, show_default=True, help="policy.pdors.floor")
@click.option("--json", "as_json", is_flag=True)
def main(
    *, jobs: int, span_s: float, seed: int, arms: str, slot_s: float, slots: int, floor: float, as_json: bool
) -> None:
    """Run the same jobs with and without tesched and print what became of them."""
    load = drawn(jobs, span_s, seed)
    planning = Planning(slot_s=slot_s, slots=slots, floor=floor)
    found = [really(load, arm, planning) for arm in arms.split(",")]
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
        return
    for line in _lines(found):
        print(line)


if __name__ == "__main__":
    main()
