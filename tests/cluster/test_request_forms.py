"""A TE job is served, by as few victims as it needs, whatever form its request has in Slurm's records."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
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


def running(cluster: LocalCluster, *options: str, name: str = "be") -> int:
    job = cluster.sbatch(f"--job-name={name}", "--mem=100", "--output=/dev/null", *options, wrap=SLEEP)
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


@pytest.mark.parametrize("form", gated(COUNTED, "in small letters", "of a type, and two GRES"))
def test_one_victim_leaves_for_a_gres_without_files(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, form: str
) -> None:
    cluster = make_cluster(DISKS)
    held, asked = COUNTED[form]
    jobs = [running(cluster, "-w", "n1", f"--gres={held}") for _ in range(2)]
    jobs.append(running(cluster, "-w", "n2", "--gres=tmp:100t", "--no-requeue"))
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        assert len(served(cluster, daemon, jobs, f"--gres={asked}")) == 1
