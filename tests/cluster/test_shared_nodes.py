"""Whose jobs Slurm starts on one node, by the partitions' OverSubscribe: tesched counts as it does."""

from __future__ import annotations

from functools import partial

import pytest
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.demand import demands_of
from tesched_core.placement.in_the_way import fits_now
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster, installed_release

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

#: partitions by name, and what their OverSubscribe is; `yes-s` stands for a job of `yes` with --oversubscribe
WORDS = {"plain": "NO", "yes": "YES:2", "also": "YES:2", "once": "FORCE:1", "again": "FORCE:1", "twice": "FORCE:2"}
ONE_NODE = ClusterDefinition(
    groups=(NodeGroup(count=1, cpus=8),),
    partitions=tuple(
        PartitionDefinition(name=name, default=name == "plain", settings={"OverSubscribe": word})
        for name, word in WORDS.items()
    ),
)
#: (the job that is there, the one that waits): whether Slurm starts it there, on 22.05 and on 26.05
STARTS = {
    ("plain", "yes"): (True, True),
    ("yes", "plain"): (False, True),
    ("yes-s", "plain"): (False, False),
    ("yes", "yes"): (True, True),
    ("yes", "also"): (False, True),
    ("yes-s", "also"): (False, False),
    ("twice", "plain"): (False, False),
    ("once", "plain"): (True, True),
    ("plain", "once"): (False, False),
    ("yes", "once"): (False, False),
    ("once", "once"): (True, True),
    ("once", "again"): (True, True),
}


def submitted(cluster: LocalCluster, kind: str, *options: str) -> int:
    name, _, shares = kind.partition("-")
    asked = ("-n1", "--mem=10", f"--partition={name}", *(["--oversubscribe"] if shares else []))
    return cluster.sbatch(*asked, *options, wrap="exec sleep 1000")


def tried(cluster: LocalCluster, job_id: int) -> bool:
    record = cluster.job(job_id)
    return record["JobState"] == "RUNNING" or record["Reason"] == "Resources"


@pytest.mark.gate
def test_slurm_starts_it_beside_the_other_where_tesched_says_so(make_cluster: MakeCluster, connect: Connect) -> None:
    cluster = make_cluster(ONE_NODE)
    observer, wrong = connect(cluster).observer, []
    for (there, comes), by_release in STARTS.items():
        first = submitted(cluster, there)
        cluster.wait_state(first, "RUNNING")
        te = submitted(cluster, comes, "--hold")
        seen = observer.observe()
        assert isinstance(seen, Snapshot), seen
        capacity = columns_of(seen).capacity
        fits = fits_now(demands_of(seen.jobs[JobId(te)], seen, capacity), capacity)
        cluster.run("scontrol", "release", str(te))
        cluster.wait_for(partial(tried, cluster, te), "Slurm to have tried it")
        starts = cluster.job(te)["JobState"] == "RUNNING"
        if (starts, fits) != (by_release[installed_release() >= (26, 5)],) * 2:
            wrong.append((there, comes, starts, fits))
        cluster.run("scancel", str(te), str(first))
        for one in (te, first):
            cluster.wait_state(one, "CANCELLED")
    assert wrong == []
