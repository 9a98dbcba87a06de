"""An hour of TE flood on a real Slurm of 84 nodes, tesched with guard.bound: `python -m benchmarks.bound_hour`.

TE jobs of four users ask for one and a half times the whole cluster (`--te-load`) for `--minutes`; they are in a
partition of a tier above, with a time limit of a minute, so that Slurm itself would start them before everything else;
the submission hook is in place. They take from 3 s to more than their limit, on one to eight nodes; their users cancel
them after five minutes in the queue. BE jobs of three other users, of 5 s to a sixth of the time, on one to sixteen
nodes, ask for half of the cluster (`--be-load`) in the first two thirds of the time. They are ordinary scripts: a
requeued one begins anew. Half of them say their run time (`run=`).

guard.bound.slowdown is `--slowdown` (3). What else the guard limits by counts is out of the way, so that the bound
alone protects a BE job: any number of preemptions an hour, and ten of one job.

By how much each BE job was delayed is worked out by a ledger that is written from the definitions (docs/the-bound.md)
and has nothing of tesched's: from the submissions, slurmctld's prolog, each node's Epilog and what the jobs wrote.
Printed are each violation, how many BE jobs ended, what part of a bound was used at most, and how long the TE jobs that
were admitted have waited. Exit status 1 unless no bound was violated and every BE job has run to its end.

`--keep DIR` keeps what was seen, with the daemon's log and store, and `--judge DIR` works it out again from there.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from tesched_core.model.resources import JobId
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.slurm_formats import hosts
from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.bound.jobs import ModelJob
from tesched_testcluster.harness.bound.ledger import Ledger, Terms, Verdict
from tesched_testcluster.harness.bound.replay import Change, Replay, What, never_launched
from tesched_testcluster.harness.daemon_process import daemon_of, write_config
from tesched_testcluster.load import EVENTS, EventName, LoadJob, read_events, scripts_in, submit
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_users

from benchmarks.bound_flood import CPUS, SEEN, TE_LIMIT_S, Flood, Seen, read_seen
from benchmarks.hour_site import script

NODES = 84
HOOK = Path(__file__).parents[1] / "systemd" / "job_submit.lua"
#: loop.backoff_max_s, guard.min_run_time_s; seconds after which a TE job's user cancels it
POLL_S, MIN_RUN_S, PATIENCE_S = 5.0, 10.0, 300.0
KILL_WAIT_S, CRED_EXPIRE_S = 2, 5
#: slurmctld checks time limits so often
LATE_S = 30.0 + KILL_WAIT_S
TE_USERS, BE_USERS = 4, 3
CONFIG = """
[slurm]
admission = "{admission}"
[loop]
backoff_max_s = {poll_s}
[guard]
min_run_time_s = {min_run_s}
max_slowdown = 1000
max_preemptions_per_job = 10
{by_the_hour}
[guard.bound]
slowdown = {slowdown}
te_time_limit_s = {te_limit_s}
[classes]
default_grace_period_s = 0
[[classes.rules]]
name = "trials"
job_class = "te"
match = {{ partitions = ["debug"], max_time_limit_s = {te_limit_s} }}
"""
BY_THE_HOUR = (
    "max_preemptions_per_hour",
    "max_preemptions_per_user_hour",
    "max_preemptions_per_account_hour",
    "max_preemptions_per_node_hour",
    "max_victims_for_te_job_hour",
    "max_victims_for_te_user_hour",
    "max_victims_for_te_account_hour",
)
#: slurmctld runs it when a job has its nodes, and each node the Epilog when a run has left it
_PROLOG = '#!/bin/bash\necho "$EPOCHREALTIME $SLURM_JOB_ID $SLURM_JOB_NODELIST" >>{folder}/starts.log\n'
_EPILOG = '#!/bin/bash\necho "$EPOCHREALTIME $SLURM_JOB_ID $SLURMD_NODENAME" >>{folder}/ends.log\n'


def definition(folder: Path, nodes: int) -> ClusterDefinition:
    """Return the cluster; scripts of Slurm's are written to `folder`."""
    return ClusterDefinition(
        groups=(NodeGroup(count=nodes, cpus=CPUS, gres={}),),
        partitions=(
            PartitionDefinition(name="main", default=True, priority_tier=1),
            PartitionDefinition(name="debug", priority_tier=10, preempt_mode="OFF", max_time="10"),
        ),
        kill_wait_s=KILL_WAIT_S,
        cred_expire_s=CRED_EXPIRE_S,
        settings={
            "JobSubmitPlugins": "lua",
            "PrologSlurmctld": script(folder / "prolog", _PROLOG.format(folder=folder)),
            "Epilog": script(folder / "epilog", _EPILOG.format(folder=folder)),
        },
        files={"job_submit.lua": HOOK.read_text().replace("/run/tesched/", f"{folder}/")},
    )


@contextmanager
def site(folder: Path, flood: Flood) -> Iterator[LocalCluster]:
    """Give the cluster, with a daemon beside it."""
    with LocalCluster(definition(folder, flood.nodes)) as cluster:
        socket = str(folder / "poke.sock")
        config = write_config(cluster, folder, ClientChoice.AUTO, poll_interval_s=1.0, socket=socket)
        drop_in = folder / "conf.d" / "bound.toml"
        drop_in.parent.mkdir()
        drop_in.write_text(
            CONFIG.format(
                admission=folder / "admission",
                poll_s=POLL_S,
                min_run_s=MIN_RUN_S,
                te_limit_s=TE_LIMIT_S,
                slowdown=flood.slowdown,
                by_the_hour="\n".join(f"{name} = 1000000" for name in BY_THE_HOUR),
            )
        )
        with daemon_of(cluster, config):
            yield cluster


def run(folder: Path, flood: Flood) -> Seen:
    """Submit everything, and wait until every BE job is over."""
    seen, jobs = Seen(), flood.jobs()
    with site(folder, flood) as cluster:
        events = cluster.shared / EVENTS
        events.touch()
        events.chmod(0o666)
        with _impatient(cluster, seen):
            _submit_all(cluster, jobs, seen)
            cluster.wait_for(
                lambda: not cluster.run("squeue", "-h", "-p", "main").stdout.strip(),
                "all BE jobs to end",
                timeout_s=flood.seconds * 3 + 1200,
            )
        cluster.cancel_all()
        with closing(sqlite3.connect(folder / "tesched.sqlite")) as store:
            ((seen.longest_poll_s,),) = store.execute("select max(observe_max_s + step_max_s) from cycles")
            ((seen.bounded,),) = store.execute("select count(distinct preemptor) from refusals where code = 'bound'")
        (folder / EVENTS).write_bytes(events.read_bytes())
    return seen


def _submit_all(cluster: LocalCluster, jobs: Sequence[LoadJob], seen: Seen) -> None:
    script = scripts_in(cluster.shared)
    users = ordinary_users(TE_USERS + BE_USERS)
    te_users, be_users = users[:TE_USERS], users[TE_USERS:]
    begin = time.monotonic()
    for number, job in enumerate(jobs):
        # The pace of the load is its meaning; there is no condition to await.
        time.sleep(max(0.0, begin + job.submit_after_s - time.monotonic()))
        among = te_users if job.kind == "te" else be_users
        before = time.time()
        job_id = submit(cluster, job, cluster.shared, script=script, user=among[number % len(among)])
        seen.submitted[job_id], seen.jobs[job_id] = before, job
        if sys.stderr.isatty():
            print(f"\r{number + 1}/{len(jobs)} submitted", end="", file=sys.stderr, flush=True)


@contextmanager
def _impatient(cluster: LocalCluster, seen: Seen) -> Iterator[None]:
    """Cancel TE jobs that have waited for too long, as their users would, until the block ends."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(10.0):
            seen.loads.append(os.getloadavg()[0])
            late = time.time() - PATIENCE_S
            old = [job_id for job_id, at in seen.submitted.copy().items() if at < late and job_id not in seen.cancelled]
            trials = [str(job_id) for job_id in old if seen.jobs[job_id].kind == "te"]
            if not trials:
                continue
            try:
                cluster.run("scancel", "--state=PENDING", *trials, check=False)
            except ClusterError as error:  # slurmctld is busy: the next time
                print(error, file=sys.stderr)
                continue
            seen.cancelled.update((int(job_id), time.time()) for job_id in trials)

    thread = threading.Thread(target=work, name="users that wait")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def judged(folder: Path, flood: Flood, seen: Seen) -> tuple[Ledger, Replay]:
    """Return the ledger of what was seen."""
    jobs = {JobId(job_id): _model(job_id, job) for job_id, job in seen.jobs.items()}
    terms = Terms(
        slowdown=flood.slowdown,
        te_time_limit_s=TE_LIMIT_S,
        min_run_time_s=MIN_RUN_S,
        poll_s=POLL_S,
        kill_wait_s=KILL_WAIT_S,
        requeue_delay_s=CRED_EXPIRE_S + 1,
        late_s=LATE_S,
    )
    ledger = Ledger(terms)
    changes = [*_changes(folder, seen)]
    unlaunched = never_launched(changes, {JobId(job_id): at for job_id, at in seen.cancelled.items()})
    replay = Replay(
        ledger=ledger,
        nodes=flood.nodes,
        cpus=CPUS,
        all_jobs=jobs,
        requeue_delay_s=CRED_EXPIRE_S + 1,
        unlaunched=frozenset(one.job_id for one in unlaunched),
    )
    replay.run([*changes, *unlaunched])
    return ledger, replay


def _model(job_id: int, job: LoadJob) -> ModelJob:
    said = next((option.partition("run=")[2] for option in job.options if option.startswith("--comment=run=")), None)
    return ModelJob(
        job_id=JobId(job_id),
        te=job.kind == "te",
        # TE jobs and BE jobs have no user in common.
        user=job.kind,
        nodes=job.nodes,
        cpus=job.cpus,
        limit_s=None,
        run_s=job.tick_s,
        said_s=None if said is None else float(said),
    )


def _changes(folder: Path, seen: Seen) -> Iterator[Change]:
    rows = {f"n{number}": number - 1 for number in range(1, NODES + 1)}
    for job_id, at in seen.submitted.items():
        yield Change(at, What.SUBMITTED, JobId(job_id))
    started: set[int] = set()
    for log, what in (("starts.log", What.STARTED), ("ends.log", What.LEFT)):
        for line in (folder / log).read_text().splitlines():
            moment, job, nodes = line.split()
            yield Change(float(moment), what, JobId(int(job)), tuple(rows[name] for name in hosts(nodes)))
            if what is What.STARTED:
                started.add(int(job))
    # One that had started by then was not cancelled, though its prolog may have written that down later.
    cancelled = ((job_id, at) for job_id, at in seen.cancelled.items() if job_id not in started)
    yield from (Change(at, What.CANCELLED, JobId(job_id)) for job_id, at in cancelled)
    for event in read_events(folder):
        if event.name is EventName.DONE:
            yield Change(event.time, What.DONE, JobId(event.job_id))


def report(seen: Seen, ledger: Ledger, replay: Replay) -> bool:
    """Print what came of it; return whether all is well."""
    kinds = Counter(job.kind for job in seen.jobs.values())
    for line in replay.doubts:
        print(f"not understood: {line}")
    violated = [one for one in ledger.verdicts if one.violated]
    for one in violated:
        print(_said(one, seen.jobs))
    unfinished = sorted(job_id for job_id, job in replay.jobs.items() if not job.te)
    for job_id in unfinished:
        print(f"job {job_id} has not ended")
    tight = max((one.delay_s / one.said_bound_s for one in ledger.verdicts), default=0.0)
    delays = [one.delay_s for one in ledger.verdicts]
    waits = ledger.te_waits_s
    print(f"{kinds['be']:8}  BE jobs, {len(ledger.verdicts)} of them have ended")
    print(f"{sum(delay > 0 for delay in delays):8}  of them delayed, {ledger.preemptions} preemptions")
    print(f"{len(violated):8}  delayed by more than their bounds")
    print(f"{tight:8.3f}  largest part of a bound that was used")
    behind_be_s = max((one.behind_be_s for one in ledger.verdicts), default=0.0)
    print(f"{behind_be_s:8.1f}  s, longest time for which BE jobs had a victim's place")
    print(
        f"{kinds['te']:8}  TE jobs, {len(waits)} of them have started, {kinds['te'] - len(waits)} were cancelled first"
    )
    print(f"{seen.bounded:8}  of them have waited for the bound of a BE job")
    if waits:
        p50, p95 = np.percentile(waits, (50, 95))
        print(f"{p50:8.1f}  s, TE wait, median of those that have started\n{p95:8.1f}  s, TE wait, 95 %")
    print(f"{seen.longest_poll_s:8.1f}  s, longest poll of the daemon")
    print(f"load average {np.mean(seen.loads or [0]):.1f}, at most {max(seen.loads, default=0):.1f}")
    return not violated and not unfinished and not replay.doubts and len(ledger.verdicts) == kinds["be"]


def _said(one: Verdict, jobs: Mapping[int, LoadJob]) -> str:
    job = jobs[one.job_id]
    return f"{job.name} ({job.nodes} x {job.cpus} CPUs): {one}"


@click.command()
@click.option("--minutes", type=click.FloatRange(1), default=60, show_default=True, help="For which TE jobs come.")
@click.option("--nodes", type=click.IntRange(1, NODES), default=NODES, show_default=True)
@click.option("--te-load", type=click.FloatRange(0.01), default=1.5, show_default=True, help="Part of the cluster.")
@click.option("--be-load", type=click.FloatRange(0.01), default=0.5, show_default=True, help="Part of the cluster.")
@click.option("--slowdown", type=click.FloatRange(1, min_open=True), default=3.0, show_default=True, help="B.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Folder for what was seen.")
@click.option("--judge", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A folder of --keep.")
def main(*, keep: Path | None, judge: Path | None, **asked: Any) -> None:
    """Run it and print what came of it."""
    if judge is not None:
        flood, seen = read_seen(judge)
        ledger, replay = judged(judge, flood, seen)
        sys.exit(not report(seen, ledger, replay))
    flood = Flood(**asked)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bound-hour-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for log in ("starts.log", "ends.log"):
            (folder / log).touch()
        try:
            seen = run(folder, flood)
            seen.write(folder, flood)
            ledger, replay = judged(folder, flood, seen)
        finally:
            if keep is not None:
                _kept(folder, keep)
    well = report(seen, ledger, replay)
    took_s = time.monotonic() - began
    print(f"{flood.minutes:g} minutes, {flood.nodes} nodes, B = {flood.slowdown:g}, seed {flood.seed}: {took_s:.0f} s")
    sys.exit(not well)


def _kept(folder: Path, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    for file in (*folder.glob("*.log"), *folder.glob("tesched.*"), folder / SEEN):
        if file.is_file():
            (where / file.name).write_bytes(file.read_bytes())


if __name__ == "__main__":
    main()
