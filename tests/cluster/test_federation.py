"""A federation of two clusters with one slurmdbd: each is read alone, and a job that both may run is known as such."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import pytest
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.clients import Client
from tesched_testcluster.definition import Accounting, ClusterDefinition, NodeGroup
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm]

#: squeue and scontrol show the jobs of all clusters, unless they are run with --local
SHOWN = {"FederationParameters": "fed_display"}
#: settings of the cluster with the slurmdbd that the other one has, too
SHARED = (
    *("AuthInfo", "AccountingStorageType", "AccountingStorageHost", "AccountingStoragePort", "AccountingStoragePass"),
)
WHOLE = ("--requeue", "--exclusive", "-N1")


class Federation(NamedTuple):
    """Two clusters of one node each, which have the same name."""

    one: LocalCluster
    two: LocalCluster


def is_synced(cluster: LocalCluster) -> bool:
    return "Send/Recv:Yes/Yes Synced:Yes" in cluster.run("scontrol", "show", "federation").stdout


@pytest.fixture(scope="module")
def federation() -> Iterator[Federation]:
    """Give two clusters that are federated; all jobs are cancelled with the test."""
    site = ClusterDefinition(name="one", groups=(NodeGroup(count=1),), accounting=Accounting(), settings=SHOWN)
    with ExitStack() as stack:
        one = stack.enter_context(LocalCluster(site))
        said = dict(line.split("=", 1) for line in one.slurm_conf.read_text().splitlines() if "=" in line)
        settings = {**SHOWN, **{name: said[name] for name in SHARED}}
        two = stack.enter_context(
            LocalCluster(ClusterDefinition(name="two", groups=(NodeGroup(count=1),), settings=settings))
        )
        one.run("sacctmgr", "--immediate", "add", "federation", "both", "clusters=one,two")
        for cluster in (one, two):
            cluster.wait_for(partial(is_synced, cluster), "the federation to be there")
        yield Federation(one, two)


def local(cluster: LocalCluster, columns: str) -> list[list[str]]:
    """Return these columns of the jobs that the cluster has by its own squeue."""
    said = cluster.run("squeue", "--local", "-a", "-h", "-r", "-O", columns).stdout
    return [line.split() for line in said.splitlines()]


def is_empty(cluster: LocalCluster) -> bool:
    return not local(cluster, "JobID:20")


def seen(client: Client) -> Snapshot:
    found = client.observer.observe()
    assert isinstance(found, Snapshot)
    return found


@pytest.fixture(autouse=True)
def empty(federation: Federation) -> Iterator[None]:
    """Leave no job behind."""
    yield
    for cluster in federation:
        cluster.run("scancel", "--me", check=False)
        cluster.wait_for(partial(is_empty, cluster), "the jobs to be gone")


def test_each_cluster_is_read_alone(federation: Federation, connect: Connect) -> None:
    one, two = federation
    own = one.sbatch(*WHOLE, "--clusters=one", wrap="sleep 1000")
    one.wait_state(own, "RUNNING")
    away = one.sbatch(*WHOLE, wrap="sleep 1000")
    two.wait_for(lambda: ["RUNNING"] in local(two, "State:20"), "the other cluster to start it")
    theirs = two.sbatch(*WHOLE, "--clusters=two", wrap="sleep 1000")
    both = one.sbatch(*WHOLE, wrap="sleep 1000")
    array = one.sbatch(*WHOLE, "--array=0-1", wrap="sleep 1000")
    two.wait_for(lambda: len(local(two, "JobID:20")) == 3, "the last one to wait in both queues")
    client, other = connect(one), connect(two)

    here = seen(client).jobs
    assert set(here) == {own, away, both, array}
    assert {job_id: job.federated for job_id, job in here.items()} == {own: False, away: True, both: True, array: True}
    assert [job_id for job_id, job in here.items() if job.on_nodes] == [own]
    assert not any(job.doubt or job.partly_read for job in here.values())
    there = seen(other).jobs
    assert set(there) == {away, theirs, both}
    assert {job_id: job.federated for job_id, job in there.items()} == {away: True, theirs: False, both: True}
    assert [job_id for job_id, job in there.items() if job.on_nodes] == [away]
    if client.single_reads is not None:
        assert client.single_reads.records([JobId(theirs)], 5.0) == {}


def test_a_requeued_job_goes_to_all_queues_but_for_one_of_this_cluster_alone(federation: Federation) -> None:
    one, two = federation
    two.sbatch(*WHOLE, "--clusters=two", wrap="sleep 1000")
    own = one.sbatch(*WHOLE, "--clusters=one", wrap="sleep 1000")
    one.wait_state(own, "RUNNING")
    one.run("scontrol", "requeue", str(own))
    one.wait_for(lambda: [str(own), "one", "1"] in local(one, "JobID:20,SiblingsViable:20,RestartCnt:20"), "requeue")
    one.run("scancel", str(own))
    array = one.sbatch(*WHOLE, "--array=0-1", wrap="sleep 1000")
    one.wait_for(lambda: [str(array), "one", "RUNNING"] in local(one, "ArrayJobID:20,SiblingsViable:20,State:20"), "it")
    one.run("scontrol", "requeue", f"{array}_0")
    # Until then it was its origin's alone.
    two.wait_for(lambda: ["one", "one,two"] in local(two, "Origin:20,SiblingsViable:20"), "the task in the other queue")
