"""An hour's worth of mixed load on a real Slurm of 84 nodes, tesched enforcing: `python -m benchmarks.hour`.

Time is compressed: a minute takes `--minute` seconds (5), so an hour takes five minutes, and more until all are done.
Jobs have time limits as users set them, about three times what they need; Slurm's backfill goes by them. With
`--no-limits` they have none, and backfill, which plans a day ahead, starts whatever fits somewhere (docs/adr/0011).
Best-effort jobs keep the cluster full. They are ordinary scripts, which trap nothing; with `--savers` five of eight
answer a notice in every way that there is: they exit with the site's code, requeue themselves, save and work on,
finish, or ignore it. TE jobs come evenly, at any moment between two passes of Slurm.

`--as-large-site` is a site as it is:

    --scheduling large_site  defer, main passes 5 s apart, backfill each 90 s, KillWait 30 s; a requeued job is not
                             eligible for two minutes, and slurmctld forgets a finished job after 50 s
    --epilog 3               each node has an Epilog of so many seconds, as health checks are
    --failing-prologs        each fourth TE job's first starts (one to three) fail in the Prolog: Slurm drains the node
                             and holds the job, its default. The site's health check resumes the node and releases the
                             job within three compressed minutes
    --requeueing             each fourth TE job requeues itself (RequeueExit) one to three times, at its start or
                             half a compressed minute later

What the guard counts in minutes or by the hour is compressed, too: guard.useful_run_s is `--minute` seconds instead of
60, guard.retry_after_s five of them, guard.wait_for_free_s a sixth of one (jobs end 12 times as often as at a site),
and what any hour may cost is what 60 of them may (an hour of real time holds 12 of the compressed ones). Slurm's own
intervals, the Epilog and the polls are not: they are as long as at any site, so that a job of a compressed minute meets
them more often than one of a real minute.

Printed, from the state store, from Slurm and from what the jobs wrote themselves: what was preempted, what of it in
vain, and what was lost. A TE job that requeues itself, or fails in its Prolog, is known as such only afterwards: what
it costs is printed apart, and bounded by guard.max_futile_orders_per_job. Exit status 1 unless nothing was futile for
the ordinary TE jobs, the others kept to the bound, every victim ran again, and every job ran to its end once.
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from tesched_testcluster.load import EVENTS, LoadJob, Mix, OnNotice, plan, read_events, scripts_in, submit
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.stage import LocalStage

from benchmarks.hour_outcome import Seen, report
from benchmarks.hour_site import GPUS, HealthCheck, Part, Site, failed_starts
from benchmarks.scheduling import Scheduling, scheduling_option

NODES = 84
#: minutes of work
BE_MIN, TE_MIN = (4, 8, 16), (1, 1, 2)
SAVERS: tuple[OnNotice, ...] = ("unaware", "unaware", "unaware", "exit", "requeue", "stay", "finish", "ignore")
#: a time limit by the work that a job has
LIMIT = 3
#: guard.max_futile_orders_per_job
BOUND = 2
#: seconds of the Epilog of `--as-large-site`
EPILOG_S = 3.0
#: compressed minutes between two health checks; slurmctld forgets a job that has ended after 50 s
CHECK_MIN, CHECK_MOST_S = 3, 20.0
#: What is counted by the hour, as shipped.
BY_THE_HOUR = {
    "max_preemptions_per_hour": 200,
    "max_preemptions_per_user_hour": 50,
    "max_preemptions_per_account_hour": 100,
    "max_preemptions_per_node_hour": 20,
    "max_victims_for_te_job_hour": 20,
    "max_victims_for_te_user_hour": 40,
    "max_victims_for_te_account_hour": 80,
}


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is submitted."""

    minutes: int
    minute_s: float
    nodes: int
    seed: int
    limits: bool
    savers: bool
    #: GPUs that are wanted all the time, as a part of the cluster's
    offered: float

    def mix(self) -> Mix:
        """Return best-effort jobs as many as fill the cluster, and half as many TE jobs."""
        be_gpu_min = 20 / 3 * sum(BE_MIN) / len(BE_MIN)
        count = round(self.offered * self.nodes * GPUS * self.minutes / be_gpu_min)
        return Mix(
            be_count=count,
            te_count=count // 2,
            be_span_s=self.minutes * self.minute_s * 0.9,
            te_span_s=self.minutes * self.minute_s,
            tick_s=self.minute_s / 10,
            be_ticks=tuple(10 * length for length in BE_MIN),
            te_ticks=tuple(10 * length for length in TE_MIN),
            be_gpus=(8, 8, 4),
            te_gpus=(2, 4, 8),
            cpus_per_gpu=1,
            mem_mib_per_gpu=1000,
            on_notice=SAVERS if self.savers else ("unaware",),
            checkpoint_s=(0.2, 0.5, 1.0),
        )

    def jobs(self, site: Site) -> tuple[list[LoadJob], dict[str, Part]]:
        """Draw the jobs; return them with the part of each, by name."""
        jobs = plan(self.mix(), random.Random(self.seed))  # noqa: S311 - a workload
        if self.limits:
            jobs = tuple(replace(job, options=(*job.options, f"--time={_limit_min(job)}")) for job in jobs)
        return site.parts(jobs, random.Random(self.seed))  # noqa: S311 - a workload


def _limit_min(job: LoadJob) -> int:
    """Return the minutes of a time limit, which Slurm takes no shorter."""
    return math.ceil(LIMIT * job.ticks * job.tick_s / 60)


def drop_in(minute_s: float) -> str:
    """Return the guard's settings, in compressed time.

    A victim that was released after its notice is left alone for a while, as at any site.
    """
    settings = {
        "cool_down_s": 30,
        "useful_run_s": minute_s,
        "retry_after_s": 5 * minute_s,
        "wait_for_free_s": 10 * minute_s / 60,
        "max_futile_orders_per_job": BOUND,
        **{name: round(limit * 60 / minute_s) for name, limit in BY_THE_HOUR.items()},
    }
    return "\n".join(["[guard]", *(f"{name} = {value}" for name, value in settings.items()), ""])


@click.command()
@click.option("--minutes", type=click.IntRange(1), default=60, show_default=True)
@click.option("--minute", "minute_s", type=click.FloatRange(1), default=5.0, show_default=True, help="Seconds.")
@click.option("--nodes", type=click.IntRange(1), default=NODES, show_default=True)
@click.option("--offered", type=click.FloatRange(0), default=1.2, show_default=True, help="Part of the GPUs asked for.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--limits/--no-limits", default=True, show_default=True, help="Whether jobs have time limits.")
@click.option("--savers", is_flag=True, help="Five of eight best-effort jobs declare a signal.")
@scheduling_option
@click.option("--epilog", "epilog_s", type=click.FloatRange(0, 60), default=0.0, show_default=True, help="In s.")
@click.option("--failing-prologs", is_flag=True, help="A quarter of the TE jobs fail in the Prolog at first.")
@click.option("--requeueing", is_flag=True, help="A quarter of the TE jobs requeue themselves.")
@click.option("--as-large-site", is_flag=True, help="All four: large_site, Epilog 3 s, failing Prologs, requeueing.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Folder for the state store and logs.")
def main(
    *,
    minutes: int,
    minute_s: float,
    nodes: int,
    offered: float,
    seed: int,
    limits: bool,
    savers: bool,
    scheduling: Scheduling,
    epilog_s: float,
    failing_prologs: bool,
    requeueing: bool,
    as_large_site: bool,
    keep: Path | None,
) -> None:
    """Run it and print what came of it."""
    site = Site(
        nodes=nodes,
        minute_s=minute_s,
        scheduling="large_site" if as_large_site else scheduling,
        epilog_s=epilog_s or (EPILOG_S if as_large_site else 0.0),
        failing_prologs=failing_prologs or as_large_site,
        requeueing=requeueing or as_large_site,
    )
    load = Load(
        minutes=minutes,
        minute_s=minute_s,
        nodes=nodes,
        offered=offered,
        seed=seed,
        limits=limits,
        savers=savers,
    )
    sys.exit(0 if run(site, load, keep) else 1)


def run(site: Site, load: Load, keep: Path | None) -> bool:
    """Run the load on the site; return whether all is well."""
    jobs, parts = load.jobs(site)
    with tempfile.TemporaryDirectory(prefix="hour-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "conf.d").mkdir()
        (folder / "conf.d" / "benchmark.toml").write_text(drop_in(load.minute_s))
        began = time.monotonic()
        with LocalCluster(site.definition(folder)) as cluster:
            try:
                seen, loads = _measured(cluster, folder, site, load, jobs, parts)
            finally:
                if keep is not None:
                    _kept(folder, cluster, keep)
        print(
            f"{load.minutes} minutes of {load.minute_s:g} s, {site.nodes} nodes, seed {load.seed}; {site.scheduling}, "
            f"Epilog {site.epilog_s:g} s; took {time.monotonic() - began:.0f} s; "
            f"load average {np.mean(loads):.1f}, at most {max(loads):.1f}"
        )
        tracebacks = (folder / "daemon.log").read_text().count("Traceback")
        print(f"tracebacks in the daemon's log: {tracebacks}")
        return report(seen) and not tracebacks


def _measured(  # noqa: PLR0917 - all that a run has
    cluster: LocalCluster, folder: Path, site: Site, load: Load, jobs: Sequence[LoadJob], parts: dict[str, Part]
) -> tuple[Seen, list[float]]:
    """Return what is known after the run, and the load averages of the machine."""
    stage = LocalStage(cluster=cluster, folder=folder)
    # Jobs of several users write to it.
    events = cluster.shared / EVENTS
    events.touch()
    events.chmod(0o666)
    check = HealthCheck(cluster=cluster, every_s=min(CHECK_MIN * load.minute_s, CHECK_MOST_S))
    with stage.daemon():
        with check.at_work():
            ids, submitted = _submit_all(cluster, site, jobs, parts)

            def ended() -> bool:
                return not cluster.run("squeue", "-h", "-t", "PD,R,CG,S").stdout.strip()

            # One that was requeued three times, each time for two minutes, comes last.
            cluster.wait_for(ended, "all jobs to end", timeout_s=load.minutes * load.minute_s * 4 + 900)
        cluster.wait_for(lambda: not _status(stage)["orders"], "all orders to end")
        listed = json.loads(stage.tesched("orders", "--json", "--limit", "100000"))["orders"]
        seen = Seen(
            parts=parts,
            ids=ids,
            submitted=submitted,
            events=read_events(cluster.shared),
            failed_starts=failed_starts(folder),
            records=check.records,
            orders=[one["order"] for one in listed],
            tally_futile=_status(stage)["tally"]["futile"],
            useful_s=load.minute_s,
            bound=BOUND,
        )
        if seen.tally_futile:
            print(stage.tesched("orders", "--futile", "--limit", "1000"))
    return seen, check.loads


def _status(stage: LocalStage) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(stage.tesched("status", "--json"))
    return said


def _submit_all(
    cluster: LocalCluster, site: Site, jobs: Sequence[LoadJob], parts: dict[str, Part]
) -> tuple[dict[str, int], dict[int, float]]:
    """Submit each job in its time, as the user of its part; return the ids by name, and when each was submitted."""
    script = scripts_in(cluster.shared)
    users = site.users
    account = ("--account=lab",) if cluster.definition.accounting is not None else ()
    begin = time.monotonic()
    ids: dict[str, int] = {}
    submitted: dict[int, float] = {}
    tell = _tell(len(jobs))
    for job in jobs:
        # The pace of the load is its meaning; there is no condition to await.
        time.sleep(max(0.0, begin + job.submit_after_s - time.monotonic()))
        before = time.time()
        submitting = replace(job, options=(*job.options, *account))
        ids[job.name] = submit(cluster, submitting, cluster.shared, script=script, user=users[parts[job.name]])
        submitted[ids[job.name]] = before
        tell(len(ids))
    return ids, submitted


def _kept(folder: Path, cluster: LocalCluster, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    # A job's output is empty, unless it failed.
    files = [*folder.glob("tesched.*"), *folder.glob("*.log"), *cluster.shared.glob("*.out")]
    for file in (*files, cluster.shared / EVENTS, cluster.slurmctld_log):
        if file.exists() and file.stat().st_size:
            (where / file.name).write_bytes(file.read_bytes())


def _tell(count: int) -> Callable[[int], None]:
    """Return what shows on a terminal how far it is; nothing in a pipe."""

    def tell(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done}/{count} submitted", end="" if done < count else "\n", file=sys.stderr, flush=True)

    return tell


if __name__ == "__main__":
    main()
