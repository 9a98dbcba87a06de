"""On one live cluster, every client gives the same snapshot, field by field."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import pytest
from tesched_core.model.cluster import JobState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import Client
from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.slurm_clients import CLIENTS, connecting
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

#: what the commands client gives is compared with what each other one gives, or with its own where it is alone
OTHERS = CLIENTS[1:] or CLIENTS

pytestmark = [pytest.mark.slurm, pytest.mark.release]

SLEEP = "exec sleep 100"
FORGED = "x UserId=bob(1) GroupId=x(1) MCS_label= Priority=5 Command=/x"

#: jobs that start at once
RUNNING: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "typed": ("--gres=gpu:a100:2",),
    "two types": ("--gres=gpu:a100:1,gpu:v100:1",),
    "any gpu": ("--gres=gpu:1", "-c", "2"),
    "uneven": ("-N2", "-n5", "--gpus=3"),
    "by task": ("-n2", "--gpus-per-task=1"),
    "by socket": ("--gpus-per-socket=1", "--sockets-per-node=1"),
    "memory by gpu": ("--gpus=1", "--mem-per-gpu=2G"),
    "cpus by gpu": ("--gpus=1", "--cpus-per-gpu=2"),
    "memory by node": ("--mem=1500M",),
    "exclusive": ("--exclusive",),
    "exclusive user": ("--exclusive=user", "-w", "n4"),
    "constraint": ("-C", "ib&fast"),
    "no requeue": ("--no-requeue",),
    "a day and two hours": ("-t", "1-02:00:00"),
    "with signal": ("--signal=B:USR1@180",),
    FORGED: ("--comment= a  b=c  ",),
    "a\nJobId=99 JobName=x": ("--comment=None",),
    "xéሴ": ("--nice=7",),
}
#: jobs that wait, each for another reason
WAITING: Mapping[str, tuple[str, ...]] = {
    "held": ("--hold",),
    "later": ("--begin=now+1hour",),
    "deadline": ("--deadline=now+2hours", "--time=10", "--hold"),
    "range": ("-N2-4", "--hold", "--nice=-7"),
    "node list": ("-w", "n[2-3]", "-x", "n5,n7", "-N2", "--hold"),
    "two partitions": ("-p", "main,debug", "--hold"),
    "all memory": ("--mem=0", "--hold"),
    "waits, memory by gpu": ("--gpus=2", "--mem-per-gpu=1G", "--hold"),
    "waits, by job": ("--gpus=a100:4", "-N2", "--hold"),
    "waits, by task": ("-n2", "--gpus-per-task=v100:1", "--hold"),
    "waits, by socket": ("--gpus-per-socket=1", "--sockets-per-node=1", "--hold"),
    "waits, by node": ("--gres=gpu:a100:4,gpu:v100:1", "-c2", "--hold"),
    "waits, exclusive": ("--exclusive", "--mincpus=3", "--hold"),
    "waits, exclusive user": ("--exclusive=user", "--hold"),
    "waits, not exclusive": ("--oversubscribe", "--hold"),
    "waits, constraint": ("-C", "ib&fast", "--hold"),
    "waits, shape": ("-B", "1:2:1", "--tmp=5M", "--contiguous", "--switches=1", "-N2", "-n2", "--hold"),
    "waits, tasks": ("--ntasks-per-node=2", "--ntasks-per-core=1", "--hint=nomultithread", "-n4", "--hold"),
    "waits, cpus by gpu": ("--gpus=2", "--cpus-per-gpu=3", "--hold"),
    "waits, cpus by a task's gpu": ("-n2", "--gpus-per-task=1", "--cpus-per-gpu=3", "--hold"),
    "waits, bound": ("--gpus=1", "--gres-flags=enforce-binding", "--hold"),
    "waits, tasks by gpu": ("--gpus=1", "--ntasks-per-gpu=2", "--hold"),
    "waits in an array": ("--array=0,5,7-9%3", "--hold"),
    "waits in an array, task 0": ("--array=0", "--hold"),
}


def differences(one: Snapshot, other: Snapshot) -> list[str]:
    """Return each field in which they differ, but for the time."""
    found: list[str] = []
    one, other = _without_devices_held(one), _without_devices_held(other)
    for kind in ("jobs", "nodes", "partitions", "reservations"):
        ours: Mapping[object, object] = getattr(one, kind)
        theirs: Mapping[object, object] = getattr(other, kind)
        found += [f"{kind}: {key} is seen by one alone" for key in ours.keys() ^ theirs.keys()]
        found += [
            f"{kind}: {key}.{field}: {getattr(ours[key], field)!r}, {getattr(theirs[key], field)!r}"
            for key in ours.keys() & theirs.keys()
            for field in (each.name for each in fields(ours[key]))  # type: ignore[arg-type]
            if getattr(ours[key], field) != getattr(theirs[key], field)
        ]
    if one.settings != other.settings:
        found.append(f"settings: {one.settings}, {other.settings}")
    return found


def _without_devices_held(seen: Snapshot) -> Snapshot:
    """Return it without the devices that nodes say are held: pyslurm shows none (`Node.allocated_gres` is empty)."""
    nodes = {
        name: replace(node, held=replace(node.held, gres=())) if node.held else node
        for name, node in seen.nodes.items()
    }
    return replace(seen, nodes=nodes)


@dataclass(frozen=True, slots=True)
class Pair:
    """The commands client and another one, on the same cluster."""

    cluster: LocalCluster
    commands: Client
    other: Client

    @classmethod
    def on(cls, cluster: LocalCluster, choice: ClientChoice) -> Pair:
        """Return the commands client and the one of `choice`."""
        return cls(cluster, connecting(ClientChoice.COMMANDS)(cluster), connecting(choice)(cluster))

    def agreed(self, what: str) -> Snapshot:
        """Return what both see, within some seconds: the queue may change between the two polls."""
        found: list[str] = []

        def same() -> list[Snapshot]:
            one, other = self.commands.observer.observe(), self.other.observer.observe()
            assert isinstance(one, Snapshot), one
            assert isinstance(other, Snapshot), other
            found[:] = differences(one, other)
            return [] if found else [other]

        try:
            (seen,) = self.cluster.wait_for(same, what)
        except ClusterError:
            pytest.fail(f"the clients differ over {what}:\n" + "\n".join(found))
        return seen


def fill(cluster: LocalCluster) -> dict[str, JobId]:
    """Submit jobs of all kinds and wait until those that can do so run. Return them by name."""
    ids = {name: JobId(cluster.sbatch("-J", name, *options, wrap=SLEEP)) for name, options in RUNNING.items()}
    for job_id in ids.values():
        state = ("squeue", "-h", "-j", str(job_id), "-o", "%T")
        cluster.wait_for(lambda state=state: cluster.run(*state).stdout == "RUNNING\n", "the jobs to run")  # type: ignore[misc]
    ids |= {name: JobId(cluster.sbatch("-J", name, *options, wrap=SLEEP)) for name, options in WAITING.items()}
    held = ids["held"]
    for dependency in (
        f"afterok:{held}",
        f"afterany:{ids['later']},afterok:{held},singleton",
        f"afterok:{held}?afterany:{ids['later']}",
        f"after:{held}+10",
    ):
        cluster.sbatch("-J", "dependent", f"--dependency={dependency}", wrap=SLEEP)
    # The last job fits nowhere, and may keep those behind it from starting.
    array = cluster.sbatch("-J", "array", "--array=0-5%2", wrap=SLEEP)
    cluster.run("sbatch", "-J", "two", f"--wrap={SLEEP}", ":", "--gpus=1")
    cluster.wait_for(
        lambda: [each["JobState"] for each in cluster.jobs(array)].count("RUNNING") == 2, "two tasks of the array"
    )
    cluster.run("salloc", "--no-shell", "-J", "shell", "--gpus=1")
    cluster.sbatch("-J", "does not fit", "-w", "n1", "--exclusive", "--gpus=a100:4", wrap=SLEEP)
    return ids


def stubborn(cluster: LocalCluster, *options: str) -> int:
    """Return a running job that dies only of SIGKILL: KillWait after its SIGTERM, or when the test kills it."""
    job_id = cluster.sbatch(*options, wrap="trap '' TERM; echo $$ >pid-$SLURM_JOB_ID; while :; do sleep 0.1; done")
    cluster.wait_for(lambda: pid_of(cluster, job_id), "the job to ignore SIGTERM")
    return job_id


def pid_of(cluster: LocalCluster, job_id: int) -> int:
    """Return the process id of a stubborn job; 0 if it does not say yet."""
    said = cluster.shared / f"pid-{job_id}"
    return int(said.read_text() or 0) if said.exists() else 0


@pytest.fixture
def mixed_cluster() -> Iterator[LocalCluster]:
    """Give eight nodes, three of them with typed GPUs, without jobs."""
    groups = (
        NodeGroup(count=3, gres={"gpu:a100": 4, "gpu:v100": 2}, features=("ib", "fast")),
        NodeGroup(count=5, first=4),
    )
    partitions = (
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(name="debug", settings={"DefaultTime": "30"}),
    )
    with LocalCluster(ClusterDefinition(groups=groups, partitions=partitions)) as cluster:
        yield cluster


@pytest.mark.parametrize("choice", OTHERS)
def test_every_client_gives_the_same_snapshot(mixed_cluster: LocalCluster, choice: ClientChoice) -> None:
    cluster = mixed_cluster
    pair = Pair.on(cluster, choice)
    assert not pair.agreed("an empty queue").jobs
    cluster.create_reservation("night", nodes="n[6-7]", duration="60")
    ids = fill(cluster)
    snapshot = pair.agreed("jobs of all kinds")
    by_name = {job.name: job for job in snapshot.jobs.values()}
    # The jobs are what they were meant to be: agreement over an empty queue would prove little.
    assert {job.state for job in snapshot.jobs.values()} == {JobState.RUNNING, JobState.PENDING}
    assert len(snapshot.jobs) == len(RUNNING) + len(WAITING) + 4 + 3 + 2 + 2
    assert not by_name["shell"].batch
    assert {by_name[name].state for name in RUNNING} == {JobState.RUNNING}
    assert {by_name[name].state for name in WAITING} == {JobState.PENDING}
    assert by_name["uneven"].on_nodes
    # Nothing has changed: what was kept from the last poll must still agree.
    pair.agreed("the same jobs, looked at again")

    cluster.run("scontrol", "suspend", str(ids["typed"]))
    cluster.run("scontrol", "requeue", str(ids["by task"]))
    cluster.run("scancel", str(ids["plain"]), str(ids["uneven"]), str(ids["held"]))
    cluster.run("scontrol", "update", f"jobid={ids['range']}", "numnodes=3-5", "comment=changed", "timelimit=5")
    cluster.run("scontrol", "update", f"jobid={ids['waits, constraint']}", "gres=gpu:1")
    cluster.run("scontrol", "update", f"jobid={ids['later']}", "dependency=singleton")
    cluster.run("scontrol", "release", str(ids["node list"]))
    seen = pair.agreed("jobs that changed")
    assert seen.jobs[ids["typed"]].state is JobState.SUSPENDED
    assert seen.jobs[ids["typed"]].on_nodes
    assert seen.jobs[ids["plain"]].state is JobState.CANCELLED
    assert (seen.jobs[ids["range"]].request.min_nodes, seen.jobs[ids["range"]].request.max_nodes) == (3, 5)
    failed = cluster.sbatch("-J", "failed", wrap="exit 3")
    killed = cluster.sbatch("-J", "killed", wrap="kill -9 $$")
    for job_id in (failed, killed):
        cluster.wait_state(job_id, "FAILED")
    seen = pair.agreed("jobs that failed")
    assert seen.jobs[JobId(failed)].exit_status == 3
    assert seen.jobs[JobId(killed)].exit_signal == 9


@pytest.mark.parametrize("choice", OTHERS)
def test_every_client_sees_the_same_of_sick_nodes_and_closed_partitions(
    cluster: LocalCluster, choice: ClientChoice
) -> None:
    pair = Pair.on(cluster, choice)
    busy = cluster.sbatch("-w", "n1", wrap=SLEEP)
    cluster.wait_state(busy, "RUNNING")
    cluster.drain_node("n1", "bad fan [a@b]")
    cluster.drain_node("n3", "bad disk")
    cluster.run("scontrol", "update", "nodename=n4", "state=down", "reason=None")
    cluster.kill_node("n2")
    cluster.run("scontrol", "update", "partitionname=debug", "state=drain", "maxtime=60", "maxnodes=2", "gracetime=30")
    seen = pair.agreed("sick nodes")
    assert (seen.nodes["n1"].available, seen.nodes["n1"].reason) == (False, "bad fan [a@b]")
    assert (seen.nodes["n2"].state, seen.nodes["n2"].reason) == ("DOWN", "killed")
    assert (seen.nodes["n4"].state, seen.nodes["n4"].reason) == ("DOWN", "None")
    assert (seen.partitions["debug"].max_time_s, seen.partitions["debug"].max_nodes) == (3600, 2)
    cluster.run("scontrol", "update", "partitionname=debug", "state=up", "maxtime=unlimited", "maxnodes=unlimited")
    cluster.run("scontrol", "update", "partitionname=debug", "gracetime=0")
    assert pair.agreed("nodes and open partitions").partitions["debug"].max_time_s is None


@pytest.mark.parametrize("choice", OTHERS)
def test_every_client_sees_the_same_while_jobs_come_and_go(make_cluster: MakeCluster, choice: ClientChoice) -> None:
    """Also what a client keeps from poll to poll follows each run: started, completing, requeued, started again."""
    # Jobs are COMPLETING until the test ends them.
    cluster = make_cluster(ClusterDefinition(kill_wait_s=3600))
    pair = Pair.on(cluster, choice)
    jobs = [stubborn(cluster, "-N2", "-n3", "--gpus=2") for _ in range(3)]
    first = pair.agreed("running jobs")
    cluster.run("scontrol", "requeue", str(jobs[0]))
    cluster.run("scancel", str(jobs[1]))
    completing = pair.agreed("completing jobs")
    assert completing.jobs[JobId(jobs[0])].completing
    assert completing.jobs[JobId(jobs[1])].completing
    cluster.run("scontrol", "update", f"jobid={jobs[2]}", "numnodes=1")
    shrunk = pair.agreed("a job that gave nodes back")
    assert len(shrunk.jobs[JobId(jobs[2])].allocation) == 1

    for job_id in jobs[:2]:
        os.kill(pid_of(cluster, job_id), signal.SIGKILL)
    cluster.wait_for(lambda: cluster.job(jobs[0])["JobState"] == "RUNNING", "the requeued job to run")
    again = pair.agreed("a job that runs again").jobs[JobId(jobs[0])]
    assert again.restarts == 1
    assert again.start_time != first.jobs[JobId(jobs[0])].start_time
