"""Nodes where slurm.conf counts each core as one CPU, whatever its threads: jobs hold so many CPUs as Slurm counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import running_daemon

from tests.cluster.beside import left_for
from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

MEM = "--mem=100"
CORES = ClusterDefinition(
    groups=(
        NodeGroup(prefix="a", count=1, cpus=8, sockets=1, threads_per_core=2, cores_are_cpus=True, gres={}),
        NodeGroup(prefix="b", count=1, cpus=16, sockets=1, threads_per_core=2, gres={}),
    ),
    partitions=(PartitionDefinition(name="main", default=True),),
    def_mem_per_cpu_mib=None,
)
#: what runs, which of these is to leave, what is submitted, and where it starts
CASES = (
    ((("-wa1", "-n3"), ("-wa1", "-n5"), ("-wb1", "-n16", "--no-requeue")), 1, ("-n4",), "a1"),
    ((("-wa1", "-n2"), ("-wb1", "-n16", "--no-requeue")), None, ("-n6",), "a1"),
    ((("-wa1", "-n6"), ("-wb1", "-n6", "--no-requeue")), 0, ("-N2", "-n8", "--ntasks-per-node=4"), "a1,b1"),
)


@pytest.mark.gate
@pytest.mark.release
def test_just_the_victims_that_are_needed_leave(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(CORES)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        for busy, leaves, options, nodes in CASES:
            gone, where = left_for(cluster, daemon, [(MEM, *one) for one in busy], (MEM, *options), starts=True)
            assert (gone, where) == ([] if leaves is None else [leaves], nodes), options
        assert daemon.json("status")["tally"]["futile"] == 0
