"""How long a trial waits on a full cluster, Slurm's own preemption beside tesched: `python -m benchmarks.latency`.

Three private clusters of eight nodes, each full of best-effort jobs, take turns, so that all see the same machine:

- native: Slurm's own preemption, preempt/partition_prio with PreemptMode=REQUEUE
- hook: tesched, poked by systemd/job_submit.lua
- poll: tesched, which looks every `--poll` seconds, and nobody pokes

Measured are the seconds from before sbatch to the first word of the trial itself. Once the victims end at once (native:
GraceTime=0, killed by SIGTERM; tesched: by exiting on their notice), once they take 3 s of 10 s to write a checkpoint
(native: GraceTime=10 with preempt_send_user_signal, which is the only way in which Slurm gives such a notice).
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import click
import numpy as np
from tesched_slurm.clients import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NativePreemption, PartitionDefinition
from tesched_testcluster.load import EventName, LoadJob, read_events, submit
from tesched_testcluster.local import LocalCluster

from tests.cluster.daemon_process import running_daemon

Way = Literal["native", "hook", "poll"]
WAYS: tuple[Way, ...] = ("native", "hook", "poll")
NODES, GPUS = 8, 8
GRACE_S, CHECKPOINT_S = 10, 3.0
HOOK = Path(__file__).parents[1] / "systemd" / "job_submit.lua"
#: the socket's path in HOOK
INSTALLED = "/run/tesched/poke.sock"
#: With a list of variables 22.05 has slurmd ask a login shell for the rest before the start, which takes 0.2 to 1.4 s.
PLAIN = ("--export=ALL",)
#: A benchmark preempts more often than a site would let it.
UNBOUNDED = """
[guard]
max_preemptions_per_hour = 100000
max_preemptions_per_user_hour = 100000
max_preemptions_per_account_hour = 100000
max_preemptions_per_node_hour = 100000
max_lost_node_hours_per_day = 100000
"""


@dataclass(kw_only=True)
class Stand:
    """One cluster, with what makes room on it."""

    way: Way
    cluster: LocalCluster
    checkpoint_s: float
    took_s: list[float] = field(default_factory=list)
    _trials: int = 0
    _victims: dict[int, str] = field(default_factory=dict)

    def fill(self) -> None:
        """Submit as many best-effort jobs as nodes have none."""
        while len(self._victims) < NODES:
            name = f"be-{len(self._victims)}-{self._trials}"
            options = PLAIN
            if self.way == "native":
                options += ("--partition=be", *(("--signal=B:USR1@60",) if self.checkpoint_s else ()))
            job = LoadJob(
                name=name,
                kind="be",
                cpus=8,
                gpus=GPUS,
                ticks=36_000,
                on_notice="exit",
                checkpoint_s=self.checkpoint_s,
                options=options,
            )
            self._victims[submit(self.cluster, job, self.cluster.shared)] = name

    def trial(self) -> None:
        """Wait until the cluster is full, measure one trial, and clear up behind it."""
        # RUNNING is not enough: a job whose script has not yet set its trap would not heed a notice.
        for job_id in self._victims:
            self.cluster.wait_for(lambda: self._started(job_id) is not None, f"job {job_id} to start", timeout_s=60)  # noqa: B023
        self._trials += 1
        options = (*PLAIN, *(("--partition=te",) if self.way == "native" else ()))
        job = LoadJob(
            name=f"te-{self._trials}", kind="te", cpus=2, gpus=2, ticks=36_000, on_notice="ignore", options=options
        )
        began = time.time()
        te = submit(self.cluster, job, self.cluster.shared)
        self.cluster.wait_for(lambda: self._started(te) is not None, f"trial {te} to start", timeout_s=60)
        self.took_s.append((self._started(te) or began) - began)
        gone = [job_id for job_id in self._victims if self.cluster.state(job_id) != "RUNNING"]
        self.cluster.run("scancel", str(te), *map(str, gone))
        for job_id in gone:
            del self._victims[job_id]
        self.fill()

    def _started(self, job_id: int) -> float | None:
        """Return when the job said its first word, seconds since 1970."""
        words = (event for event in read_events(self.cluster.shared) if event.job_id == job_id)
        return next((event.time for event in words if event.name is EventName.START), None)


@contextmanager
def stand(way: Way, checkpoint_s: float, poll_s: float, *, epilog: bool) -> Iterator[Stand]:
    """Give a cluster that begins to fill."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="latency-")))
        socket = f"{folder}/poke.sock" if way == "hook" else ""
        cluster = stack.enter_context(LocalCluster(_definition(way, checkpoint_s, socket, epilog=epilog)))
        if way != "native":
            drop_in = folder / "conf.d" / "unbounded.toml"
            drop_in.parent.mkdir()
            drop_in.write_text(UNBOUNDED)
            stack.enter_context(
                running_daemon(cluster, folder, ClientChoice.AUTO, poll_interval_s=poll_s, socket=socket)
            )
        made = Stand(way=way, cluster=cluster, checkpoint_s=checkpoint_s)
        made.fill()
        yield made


def _definition(way: Way, checkpoint_s: float, socket: str, *, epilog: bool) -> ClusterDefinition:
    # Without an Epilog slurmctld leaves the room of a job that ended by itself to its next pass (docs/at-once.md).
    settings = {"Epilog": "/bin/true"} if epilog else {}
    if way == "native":
        grace_s = GRACE_S if checkpoint_s else 0
        return ClusterDefinition(
            settings=settings,
            partitions=(
                PartitionDefinition(
                    name="be", default=True, priority_tier=1, preempt_mode="REQUEUE", grace_time_s=grace_s
                ),
                PartitionDefinition(name="te", priority_tier=10, preempt_mode="OFF"),
            ),
            preemption=NativePreemption(send_user_signal=checkpoint_s > 0),
        )
    if way == "poll":
        return ClusterDefinition(settings=settings)
    return ClusterDefinition(
        settings=settings | {"JobSubmitPlugins": "lua"},
        files={"job_submit.lua": HOOK.read_text().replace(INSTALLED, socket)},
    )


@click.command()
@click.option("--trials", type=click.IntRange(2), default=30, show_default=True, help="Of each way.")
@click.option("--poll", "poll_s", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds.")
@click.option("--epilog/--no-epilog", default=True, show_default=True, help="Whether slurm.conf has an Epilog.")
@click.option("--seed", type=int, default=0, show_default=True)
def main(*, trials: int, poll_s: float, epilog: bool, seed: int) -> None:
    """Run it and print the table."""
    rng = random.Random(seed)  # noqa: S311 - when to submit
    for checkpoint_s in (0.0, CHECKPOINT_S):
        what = f"take {checkpoint_s:g} s of {GRACE_S} s" if checkpoint_s else "end at once"
        print(f"victims that {what}: seconds from sbatch to the trial's first word")
        with ExitStack() as stack:
            stands = [stack.enter_context(stand(way, checkpoint_s, poll_s, epilog=epilog)) for way in WAYS]
            for _ in range(trials):
                for each in stands:
                    # slurmctld's passes and the polls are a second apart: a submission must not fall into step.
                    time.sleep(rng.uniform(0, 1))
                    each.trial()
            _show(stands)


def _show(stands: Sequence[Stand]) -> None:
    native = float(np.median(stands[0].took_s))
    print(f"{'':>8}{'n':>5}{'p50':>8}{'p95':>8}{'max':>8}{'p50 / native':>14}")
    for each in stands:
        p50, p95, most = np.percentile(each.took_s, (50, 95, 100))
        print(f"{each.way:>8}{len(each.took_s):>5}{p50:>8.2f}{p95:>8.2f}{most:>8.2f}{p50 / native:>14.2f}", flush=True)


if __name__ == "__main__":
    main()
