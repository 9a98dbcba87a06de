"""Site on which `benchmarks.hour` runs: its cluster, its users, its Epilog and Prolog, its health check.

parts of the TE jobs    ordinary, requeueing (RequeueExit), prolog (the first starts fail in the Prolog); each part
                        has a user of its own, so that the Prolog can see
a failed Prolog         Slurm drains the node and holds the job, as an untouched slurm.conf has it
health check            each three compressed minutes it resumes drained nodes, and releases the held jobs
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tesched_testcluster.cluster import Cluster, ClusterError
from tesched_testcluster.definition import (
    Account,
    ClusterDefinition,
    NodeGroup,
    PartitionDefinition,
    large_site_definition,
    stock_definition,
)
from tesched_testcluster.load import LoadJob
from tesched_testcluster.users import ordinary_users

from benchmarks.scheduling import Scheduling

#: of the TE jobs; best-effort jobs are `be`
Part = Literal["be", "ordinary", "requeueing", "prolog"]
GPUS = 8
#: every fourth TE job requeues itself, and every fourth fails in its Prolog
SHARE = 4
#: how often a TE job requeues itself, and after how many ticks of each run, of which ten are a compressed minute
REQUEUES, REQUEUE_AFTER = (1, 1, 2, 3), (0, 5)
#: of the first starts of a TE job whose Prolog fails: one to three of them
_PROLOG = """#!/bin/bash
[[ $SLURM_JOB_USER == {user} ]] || exit 0
echo "$EPOCHREALTIME $SLURM_JOB_ID $SLURMD_NODENAME" >>{folder}/starts-$SLURM_JOB_ID.log
mapfile -t starts <{folder}/starts-$SLURM_JOB_ID.log
((${{#starts[@]}} > 1 + SLURM_JOB_ID % 3))
"""
_EPILOG = "#!/bin/sh\nsleep {seconds}\n"
_HELD = {"launch_failed_requeued_held", "JobHoldMaxRequeue"}
_DRAINED = {"draining", "drained"}


@dataclass(frozen=True, kw_only=True)
class Site:
    """Parameters of the site."""

    nodes: int
    minute_s: float
    scheduling: Scheduling
    epilog_s: float
    failing_prologs: bool
    requeueing: bool

    @property
    def users(self) -> Mapping[Part, str]:
        """Return the user of each part."""
        be, ordinary, requeueing, prolog = ordinary_users(4)
        return {"be": be, "ordinary": ordinary, "requeueing": requeueing, "prolog": prolog}

    def definition(self, folder: Path) -> ClusterDefinition:
        """Return its cluster; scripts of Slurm's are written to `folder`."""
        if self.scheduling == "fast":
            cluster = ClusterDefinition(
                partitions=(PartitionDefinition(name="main", default=True),), min_job_age_s=7200
            )
        else:
            made = large_site_definition if self.scheduling == "large_site" else stock_definition
            cluster = made(self.nodes)
        if cluster.accounting is not None:
            lab = Account(name="lab", users=("root", *self.users.values()))
            cluster = replace(cluster, accounting=replace(cluster.accounting, accounts=(lab,)))
        settings = dict(cluster.settings)
        if self.epilog_s:
            settings["Epilog"] = script(folder / "epilog", _EPILOG.format(seconds=self.epilog_s))
        if self.failing_prologs:
            prolog = _PROLOG.format(user=self.users["prolog"], folder=folder)
            settings |= {"Prolog": script(folder / "prolog", prolog), "PrologFlags": "Alloc"}
        group = NodeGroup(count=self.nodes, gres={"gpu": GPUS})
        return replace(cluster, groups=(group,), settings=settings)

    def parts(self, jobs: Sequence[LoadJob], rng: random.Random) -> tuple[list[LoadJob], dict[str, Part]]:
        """Return the jobs, some of which requeue themselves, and the part of each by its name."""
        drawn, parts = [], dict[str, Part]()
        trials = 0
        for job in jobs:
            parts[job.name] = "be"
            if job.kind == "te":
                parts[job.name] = "ordinary"
                turn, trials = trials % SHARE, trials + 1
                if self.requeueing and turn == SHARE // 2:
                    parts[job.name] = "requeueing"
                    after = rng.choice(REQUEUE_AFTER)
                    job = replace(job, requeues=rng.choice(REQUEUES), requeue_after=after)  # noqa: PLW2901
                elif self.failing_prologs and turn == SHARE - 1:
                    parts[job.name] = "prolog"
            drawn.append(job)
        return drawn, parts


def failed_starts(folder: Path) -> dict[int, list[tuple[float, str]]]:
    """Return the time and node of each start that failed in the Prolog, by job id."""
    found = {}
    for log in folder.glob("starts-*.log"):
        starts = [line.split() for line in log.read_text().splitlines()]
        job_id = int(starts[0][1])
        found[job_id] = [(float(at), node) for at, _, node in starts[: 1 + job_id % 3]]
    return found


@dataclass(kw_only=True)
class HealthCheck:
    """What a site's health check does; besides, it notes what Slurm says of each job, before that forgets it."""

    cluster: Cluster
    every_s: float
    #: the last record of each job
    records: dict[int, dict[str, str]] = field(default_factory=dict)
    resumed: Counter[str] = field(default_factory=Counter)
    released: Counter[int] = field(default_factory=Counter)
    loads: list[float] = field(default_factory=list)

    def once(self) -> None:
        """Do it once."""
        self.loads.append(os.getloadavg()[0])
        for node, state in self.cluster.node_states().items():
            if state.rstrip("*+~#!%$@^-") in _DRAINED:
                self.resumed[node] += 1
                self.cluster.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        for record in self.cluster.jobs():
            job_id = int(record["JobId"])
            self.records[job_id] = record
            if record["JobState"] == "PENDING" and record["Reason"] in _HELD:
                self.released[job_id] += 1
                self.cluster.run("scontrol", "release", str(job_id), check=False)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Do it every so often until the block ends, and once after."""
        over = threading.Event()
        failed: list[ClusterError] = []

        def work() -> None:
            while not over.wait(self.every_s):
                try:
                    self.once()
                except ClusterError as error:  # slurmctld is busy: the next one comes
                    failed.append(error)

        thread = threading.Thread(target=work, name="health check")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        for error in failed:
            print(f"the health check failed once: {error}")
        self.once()


def script(path: Path, text: str) -> str:
    """Write a script that Slurm runs; return its path."""
    path.write_text(text)
    path.chmod(0o755)
    return str(path)
