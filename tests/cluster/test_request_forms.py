"""A TE job is served, by as few victims as it needs, whatever form its request has in Slurm's records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import Daemon, daemon_of, running_daemon, write_config
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated

pytestmark = [pytest.mark.slurm, pytest.mark.release]

SLEEP = "exec sleep 1000"
#: the local disk of each node is a GRES without files, in bytes: those of the second are more than 2^46
DISKS = ClusterDefinition(
    groups=(
        NodeGroup(count=1, gres={}, counted={"tmp": "400G", "lic:fast": "4", "lic:slow": "4"}),
        NodeGroup(count=1, first=2, gres={}, counted={"tmp": "100T"}),
    )
)
#: what two best-effort jobs of the first node hold, and what a TE job asks for besides what is free
COUNTED = {
    "in the same unit": ("tmp:200G", "tmp:199G"),
    "in small letters": ("tmp:200g", "tmp:199g"),
    "in thousands": ("tmp:210gb", "tmp:199GB"),
    "in bytes": ("tmp:214748364800", "tmp:213674622976"),
    "of a type, and two GRES": ("tmp:100G,lic:fast:2", "lic:fast:2,tmp:1024m"),
}

PER_GPU, MORE_PER_GPU = {"DefMemPerGPU": "30000"}, {"DefMemPerGPU": "60000"}
#: how TE jobs of one GPU ask for memory, where each of eight best-effort jobs holds a GPU and 32,000 MiB, an eighth of
#: the node's: settings of the partition and of the site, and the options
MEMORY: Mapping[str, tuple[Mapping[str, str], Mapping[str, str], str]] = {
    "nothing, by partition": (PER_GPU, {}, "--gpus=1"),
    "nothing, by site": ({}, PER_GPU, "--gres=gpu:1"),
    "nothing, of a type": (PER_GPU, {}, "--gpus-per-node=a100:1"),
    "nothing, by task": (PER_GPU, MORE_PER_GPU, "-n1 --gpus-per-task=1"),
    "nothing, beside a default by CPU": (PER_GPU, {"DefMemPerCPU": "50000"}, "--gpus=1"),
    "nothing, beside a default by node": ({**PER_GPU, "DefMemPerNode": "50000"}, {}, "--gpus=1"),
    "zero by GPU": (PER_GPU, {}, "--gpus=1 --mem-per-gpu=0"),
    "by GPU": (PER_GPU, {}, "--gpus=a100:1 --mem-per-gpu=20000"),
    "by node": (PER_GPU, {}, "--gpus=1 --mem=20000"),
    "by CPU": ({}, {**PER_GPU, "DefMemPerCPU": "50000"}, "--gpus=1 -n2 --mem-per-cpu=10000"),
}


def running(cluster: LocalCluster, *options: str, name: str = "be") -> int:
    job = cluster.sbatch(f"--job-name={name}", "--output=/dev/null", *options, wrap=SLEEP)
    cluster.wait_state(job, "RUNNING")
    return job


def restarted(cluster: LocalCluster, jobs: Collection[int]) -> list[int]:
    return [job for job in jobs if cluster.job(job)["Restarts"] != "0"]


def served(cluster: LocalCluster, daemon: Daemon, jobs: Collection[int], *options: str) -> list[int]:
    """Submit a TE job, wait until it runs, and return which of the jobs have left for it."""
    te = running(cluster, *options, name="te")
    explained = daemon.ask("explain", str(te)).stdout
    assert "[outscored]" in explained, "another one would have done too"
    return restarted(cluster, jobs)


@pytest.mark.parametrize("form", gated(COUNTED, "in small letters"))
def test_one_victim_leaves_for_a_gres_without_files(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, form: str
) -> None:
    cluster = make_cluster(DISKS)
    held, asked = COUNTED[form]
    jobs = [running(cluster, "-w", "n1", "--mem=100", f"--gres={held}") for _ in range(2)]
    jobs.append(running(cluster, "-w", "n2", "--mem=100", "--gres=tmp:100t", "--no-requeue"))
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        assert len(served(cluster, daemon, jobs, "--mem=100", f"--gres={asked}")) == 1


@pytest.mark.parametrize("form", gated(MEMORY, "nothing, by partition"))
def test_one_victim_leaves_for_a_gpu_with_its_memory(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, form: str
) -> None:
    partition, site, options = MEMORY[form]
    cluster = make_cluster(
        ClusterDefinition(
            groups=(NodeGroup(count=1, gres={"gpu:a100": 8}),),
            partitions=(PartitionDefinition(name="main", default=True, settings=partition),),
            def_mem_per_cpu_mib=None,
            settings=site,
        )
    )
    jobs = [running(cluster, "--gres=gpu:1", "--mem=32000") for _ in range(8)]
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        assert len(served(cluster, daemon, jobs, *options.split())) == 1


def test_all_memory_is_freed_once_slurm_has_declined_less(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """--mem=0, which on 22.05 has the record of a job that names no memory."""
    cluster = make_cluster(
        ClusterDefinition(
            groups=(NodeGroup(count=1, gres={"gpu": 3}),),
            partitions=(PartitionDefinition(name="main", default=True, settings=PER_GPU),),
            def_mem_per_cpu_mib=None,
        )
    )
    jobs = [running(cluster, "--gres=gpu:1", "--mem=80000") for _ in range(3)]
    config = write_config(cluster, tmp_path, one_client)
    text = config.read_text().replace("order_timeout_s = 600", "order_timeout_s = 4")
    text = text.replace("bind_for_s = 600", "bind_for_s = 600\nmax_lost_runs_per_job = 3")
    config.write_text(text)
    with daemon_of(cluster, config):
        te = running(cluster, "--gpus=1", "--mem=0", name="te")
        assert sorted(restarted(cluster, jobs)) == jobs
        assert "Mem=256000" in cluster.run("scontrol", "-d", "show", "job", str(te)).stdout
