"""A TE job at a limit of its QOS, on a cluster with slurmdbd: no victim leaves for it, and it starts when it may.

Behind another job Slurm says Priority of it; the limit shows only at the head of the queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

import pytest
from tesched_testcluster.docker import SHARED, DockerCluster
from tesched_testcluster.docker_service import docker_definition
from tesched_testcluster.load import HOLD, LoadJob
from tesched_testcluster.stage import DockerStage

pytestmark = pytest.mark.docker

NODES = 3
LOOKS = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    """Give a cluster on which a user's TE jobs may hold two CPUs in all."""
    with DockerCluster(docker_definition(NODES)) as cluster:
        cluster.run("sacctmgr", "-i", "modify", "qos", "te", "set", "MaxTRESPerUser=cpu=2")
        yield cluster


def test_no_victim_is_notified_until_the_limit_is_gone(cluster: DockerCluster) -> None:
    stage = DockerStage(cluster=cluster)
    # However long a busy machine takes: no job ends by itself.
    cluster.exec("slurmctld", "touch", *(f"{SHARED}/{HOLD.format(kind=kind)}" for kind in ("be", "te")))

    def submit(name: str, *options: str, gpus: int, kind: Literal["be", "te"]) -> int:
        cpus = 2 if kind == "te" else 8
        qos = f"--qos={kind}"
        return stage.submit(LoadJob(name=name, kind=kind, cpus=cpus, gpus=gpus, ticks=20, options=(qos, *options)))

    def status() -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = json.loads(stage.tesched("status", "--json"))
        return found

    first = submit("te-0", gpus=2, kind="te")
    cluster.wait_state(first, "RUNNING")
    for number in range(NODES):
        cluster.wait_state(submit(f"be-{number}", gpus=8 if number else 6, kind="be"), "RUNNING")
    submit("be-next", gpus=8, kind="be")
    with stage.daemon():
        te = submit("te-1", "--nice=500", gpus=4, kind="te")
        cluster.wait_for(lambda: cluster.job(te)["Reason"].startswith("QOSMax"), "the limit to show")
        nice = cluster.job(te)["Nice"]
        cycle = status()["daemon"]["cycle"]
        cluster.wait_for(lambda: status()["daemon"]["cycle"] >= cycle + LOOKS, "many looks")
        assert cluster.put_back() == []
        assert cluster.job(te)["Nice"] == nice != "500", "it is raised once, and stays at the head"
        cluster.run("scancel", str(first))
        cluster.wait_state(te, "RUNNING")
        cluster.wait_for(lambda: cluster.job(te)["Nice"] == "500", "its nice value to be put back")
        assert status()["tally"]["futile"] == 0
