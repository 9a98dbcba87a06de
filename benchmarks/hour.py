"""An hour's worth of mixed load on a real Slurm of 84 nodes, tesched enforcing: `python -m benchmarks.hour`.

Time is compressed: a minute takes `--minute` seconds (5), so an hour takes five minutes, and more until all are done.
Jobs have time limits as users set them, about three times what they need; Slurm's backfill goes by them. With
`--no-limits` they have none, and backfill, which plans a day ahead, starts whatever fits somewhere (docs/adr/0011).
Best-effort jobs keep the cluster full. They are ordinary scripts, which trap nothing; with `--savers` five of eight
answer a notice in every way that there is: they exit with the site's code, requeue themselves, save and work on,
finish, or ignore it. Trials come evenly. Printed, from the state store, from Slurm and from what the jobs wrote
themselves: what was preempted, what of it in vain, and what was lost. Exit status 1 unless nothing was futile, every
victim ran again, and every job ran to its end once.
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.load import EventName, LoadJob, Mix, OnNotice, plan, read_events, submit_load
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.stage import LocalStage

NODES, GPUS = 84, 8
#: what is offered, as a part of the cluster's GPUs
LOAD = 1.2
#: minutes of work
BE_MIN, TE_MIN = (4, 8, 16), (1, 1, 2)


SAVERS: tuple[OnNotice, ...] = ("unaware", "unaware", "unaware", "exit", "requeue", "stay", "finish", "ignore")
#: a time limit by the work that a job has
LIMIT = 3
#: a victim that was released after its notice is left alone for a while, as at any site
DROP_IN = """
[guard]
cool_down_s = 30
"""


def mix_of(minutes: int, minute_s: float, *, savers: bool) -> Mix:
    """Return a load of so many minutes: best-effort jobs as many as fill the cluster, and half as many trials."""
    tick_s = minute_s / 10
    be_gpu_min = 20 / 3 * sum(BE_MIN) / len(BE_MIN)
    count = round(LOAD * NODES * GPUS * minutes / be_gpu_min)
    return Mix(
        be_count=count,
        te_count=count // 2,
        be_span_s=minutes * minute_s * 0.9,
        te_span_s=minutes * minute_s,
        tick_s=tick_s,
        be_ticks=tuple(10 * length for length in BE_MIN),
        te_ticks=tuple(10 * length for length in TE_MIN),
        be_gpus=(8, 8, 4),
        te_gpus=(2, 4, 8),
        cpus_per_gpu=1,
        mem_mib_per_gpu=1000,
        on_notice=SAVERS if savers else ("unaware",),
        checkpoint_s=(0.2, 0.5, 1.0),
    )


@click.command()
@click.option("--minutes", type=click.IntRange(1), default=60, show_default=True)
@click.option("--minute", "minute_s", type=click.FloatRange(1), default=5.0, show_default=True, help="Seconds.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--limits/--no-limits", default=True, show_default=True, help="Whether jobs have time limits.")
@click.option("--savers", is_flag=True, help="Five of eight best-effort jobs declare a signal.")
def main(*, minutes: int, minute_s: float, seed: int, limits: bool, savers: bool) -> None:
    """Run it and print what came of it."""
    mix = mix_of(minutes, minute_s, savers=savers)
    jobs = plan(mix, random.Random(seed))  # noqa: S311 - a workload
    if limits:
        jobs = tuple(replace(job, options=(*job.options, f"--time={_limit_min(job, mix)}")) for job in jobs)
    definition = ClusterDefinition(
        groups=(NodeGroup(count=NODES, gres={"gpu": GPUS}),),
        partitions=(PartitionDefinition(name="main", default=True),),
        min_job_age_s=7200,
    )
    with LocalCluster(definition) as cluster, tempfile.TemporaryDirectory() as name:
        stage = LocalStage(cluster=cluster, folder=Path(name))
        drop_in = Path(name) / "conf.d" / "benchmark.toml"
        drop_in.parent.mkdir()
        drop_in.write_text(DROP_IN)
        with stage.daemon():
            ids = submit_load(cluster, jobs, cluster.shared, tell=_tell(len(jobs)))

            def ended() -> bool:
                return not cluster.run("squeue", "-h", "-t", "PD,R,CG,S").stdout.strip()

            cluster.wait_for(ended, "all jobs to end", timeout_s=minutes * minute_s * 4 + 300)
            cluster.wait_for(lambda: not json.loads(stage.tesched("status", "--json"))["orders"], "all orders to end")
            good = _report(stage, jobs, ids)
    sys.exit(0 if good else 1)


def _limit_min(job: LoadJob, mix: Mix) -> int:
    """Return the minutes of a time limit, which Slurm takes no shorter."""
    return math.ceil(LIMIT * job.ticks * mix.tick_s / 60)


def _report(stage: LocalStage, jobs: tuple[LoadJob, ...], ids: dict[str, int]) -> bool:
    tally = json.loads(stage.tesched("status", "--json"))["tally"]
    orders = [one["order"] for one in json.loads(stage.tesched("orders", "--json", "--limit", "100000"))["orders"]]
    victims = [victim for order in orders for victim in order["victims"]]
    departures = Counter(victim["departure"] or victim["state"] for victim in victims)
    states = Counter(stage.cluster.job(job_id)["JobState"] for job_id in ids.values())
    nice = [stage.cluster.job(job_id)["Nice"] for job_id in ids.values()]
    events = read_events(stage.cluster.shared)
    done = Counter(event.job_id for event in events if event.name is EventName.DONE)
    notices = Counter((event.job_id, event.restarts) for event in events if event.name is EventName.NOTICE)
    finished = {victim["job_id"] for victim in victims if victim["departure"] == "finished"}
    first = {event.job_id: event.time for event in reversed(events) if event.name is EventName.START}
    lost = [name for name, job_id in ids.items() if done[job_id] != 1 and job_id not in finished]
    away = [v for v in victims if v["departure"] in {"requeued", "requeued_itself"} and v["back_at"] is None]
    waits = _waits(stage, {job.name: ids[job.name] for job in jobs if job.kind == "te"}, first)
    print(
        f"{len(jobs)} jobs, {sum(job.kind == 'te' for job in jobs)} of them trials; states at the end: {dict(states)}"
    )
    print(f"orders {len(orders)}: {dict(Counter(order['ending'] for order in orders))}")
    print(f"victims {len(victims)}: {dict(departures)}")
    print(
        f"seconds from submission to start, trials: median {np.median(waits):.1f}, 95 % {np.percentile(waits, 95):.1f}"
    )
    print(f"futile preemptions: {tally['futile']}")
    if tally["futile"]:
        print(stage.tesched("orders", "--futile"))
    print(f"victims that did not run again: {len(away)}")
    print(f"jobs that did not run to their end exactly once: {len(lost)} {lost[:5]}")
    print(f"runs with two notices: {sum(count > 1 for count in notices.values())}")
    print(f"jobs with a nice value that is not their own: {sum(value != '0' for value in nice)}")
    doubled = any(count > 1 for count in notices.values())
    return not (tally["futile"] or away or lost or doubled) and set(states) == {"COMPLETED"}


def _waits(stage: LocalStage, trials: dict[str, int], first: dict[int, float]) -> list[float]:
    """Return how long each trial waited, by Slurm's submission and the job's own first word."""
    waits = []
    for job_id in trials.values():
        submitted = time.mktime(time.strptime(stage.cluster.job(job_id)["SubmitTime"], "%Y-%m-%dT%H:%M:%S"))
        waits.append(first[job_id] - submitted)
    return waits


def _tell(count: int) -> Callable[[LoadJob, int], None]:
    """Return what shows on a terminal how far it is; nothing in a pipe."""
    told = 0

    def tell(_job: LoadJob, _job_id: int) -> None:
        nonlocal told
        told += 1
        if sys.stderr.isatty():
            print(f"\r{told}/{count} submitted", end="" if told < count else "\n", file=sys.stderr, flush=True)

    return tell


if __name__ == "__main__":
    main()
