"""A job that is put back in the queue asks for no more than it held, as each client and release writes it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest
from tesched_core.model.cluster import Job
from tesched_core.model.resources import JobId
from tesched_core.model.size import growth, size_of
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.clients import Client
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.slurm_clients import Connect

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated

pytestmark = [pytest.mark.slurm, pytest.mark.release]

GPUS = {"gpu:a100": 4, "gpu:v100": 4}
#: jobs as users ask for them
KINDS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "two nodes": ("-N2", "-n3"),
    "a number of nodes left open": ("-N1-3", "-n5"),
    "tasks by node": ("-N2", "--ntasks-per-node=2", "-c2"),
    "a core of two threads": ("-c3",),
    "one thread a core": ("-n3", "--hint=nomultithread"),
    "whole nodes": ("--exclusive",),
    "shared": ("--oversubscribe",),
    "all memory": ("--mem=0",),
    "memory by node": ("--mem=1500M", "-N2"),
    "memory by CPU": ("--mem-per-cpu=300M", "-n5"),
    "memory by GPU": ("--gpus=1", "--mem-per-gpu=2G"),
    "CPUs by GPU": ("--gpus=2", "--cpus-per-gpu=3"),
    "GPUs by node": ("--gres=gpu:a100:1,gpu:v100:1",),
    "GPUs by job": ("--gpus=3", "-N2", "-n5"),
    "GPUs by task": ("-n2", "--gpus-per-task=1"),
    "GPUs by socket": ("--gpus-per-socket=1", "--sockets-per-node=1"),
    "tasks by GPU": ("--gpus=1", "--ntasks-per-gpu=2"),
    "a time limit": ("-t", "10"),
    "a least time": ("-t", "60", "--time-min=10"),
    "two partitions": ("-p", "debug,main"),
    "an array": ("--array=0-1",),
    "a least number of CPUs": ("--mincpus=3",),
}
MEMORY: Mapping[str, ClusterDefinition] = {
    "by CPU": ClusterDefinition(groups=(NodeGroup(count=12, threads_per_core=2, gres=GPUS),)),
    "by GPU": ClusterDefinition(
        groups=(NodeGroup(count=24, threads_per_core=2, gres=GPUS),),
        def_mem_per_cpu_mib=None,
        settings={"DefMemPerGPU": "2000"},
    ),
    "not shared out": ClusterDefinition(
        groups=(NodeGroup(count=12, threads_per_core=2, gres=GPUS),), settings={"SelectTypeParameters": "CR_Core"}
    ),
}


def seen(client: Client) -> Mapping[JobId, Job]:
    """Return the jobs, once each is read whole."""
    found = client.observer.observe()
    assert isinstance(found, Snapshot), found
    return {} if any(job.partly_read or job.doubt for job in found.jobs.values()) else found.jobs


@pytest.mark.parametrize("memory", gated(MEMORY, "by GPU"))
def test_no_job_has_grown_by_its_requeue(make_cluster: MakeCluster, connect: Connect, memory: str) -> None:
    cluster = make_cluster(MEMORY[memory])
    client = connect(cluster)
    for name, options in KINDS.items():
        cluster.sbatch("-J", name, "--output=/dev/null", *options, wrap="sleep 1000")
    cluster.wait_for(lambda: "PENDING" not in cluster.run("squeue", "-h", "-o", "%T").stdout, "all to run")
    running = cluster.wait_for(partial(seen, client), "what they hold")
    for job in running.values():
        # The id of an array's last task is the array's, too, which stands for all tasks.
        cluster.run("scontrol", "requeuehold", job.label)
    cluster.wait_for(lambda: set(cluster.run("squeue", "-h", "-o", "%T").stdout.split()) == {"PENDING"}, "all to wait")
    waiting = cluster.wait_for(partial(seen, client), "what they ask for")
    grown = {
        job.name: growth(size_of(running[job_id]).waiting(job), size_of(job))
        for job_id, job in waiting.items()
        if job_id in running
    }
    assert set(grown) == set(KINDS)
    assert {name: what for name, what in grown.items() if what} == {}
