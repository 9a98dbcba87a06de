"""Sums leave it open that a job starts on what is free where Slurm starts it, and exclude it in plain cases."""

from __future__ import annotations

import pytest
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.by_sums import may_start_by_sums
from tesched_core.placement.columns_of import columns_of
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.slurm_clients import connecting
from tesched_testcluster.local import LocalCluster, installed_release

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

SLEEP = "exec sleep 1000"
#: one node of 8 CPUs, 2 of which are set aside for the system, and a partition that gives less memory than the first
SITE = ClusterDefinition(
    groups=(NodeGroup(count=1, cpus=8, mem_mib=4000, gres={"gpu": 2}, set_aside=2),),
    partitions=(
        PartitionDefinition(name="large", default=True, priority_tier=5, settings={"DefMemPerCPU": "3000"}),
        PartitionDefinition(name="small", settings={"DefMemPerCPU": "100"}),
        PartitionDefinition(name="whole", settings={"DefMemPerCPU": "100", "OverSubscribe": "EXCLUSIVE"}),
    ),
    settings={"AllowSpecResourcesUsage": "YES"},
)


def running(cluster: LocalCluster, *options: str) -> int:
    job = cluster.sbatch("--output=/dev/null", *options, wrap=SLEEP)
    cluster.wait_state(job, "RUNNING")
    return job


def starts(cluster: LocalCluster, client: ClientChoice, *options: str) -> tuple[bool, bool]:
    """Return whether a new job may start by sums, and whether Slurm starts it; it is cancelled then."""
    job = cluster.sbatch("--hold", "--output=/dev/null", *options, wrap=SLEEP)
    seen = connecting(client)(cluster).observer.observe()
    assert isinstance(seen, Snapshot)
    may = may_start_by_sums(seen.jobs[JobId(job)], seen, columns_of(seen).capacity)
    cluster.run("scontrol", "release", str(job))
    cluster.wait_for(
        lambda: cluster.job(job)["JobState"] == "RUNNING" or cluster.job(job)["Reason"] == "Resources", "Slurm's word"
    )
    did = cluster.job(job)["JobState"] == "RUNNING"
    cluster.run("scancel", str(job))
    cluster.wait_for(lambda: cluster.job(job)["JobState"] == "CANCELLED", "its end")
    return may, did


EMPTY = ("--core-spec=0 -n8 --mem=100", "--mem=0", "--exclusive --mem=100")
#: beside a job of one CPU and 2000 MiB
IN_USE = {
    "-plarge,small -n1": True,
    "-plarge -n1": False,
    "-psmall -n5": True,
    "-pwhole -n1": False,
    "-pwhole,small -n1": True,
    "-psmall -n6": False,
    "-psmall --mem=0": False,
    "-psmall --exclusive --mem=100": False,
    "-psmall --core-spec=0 -n1 --mem=100": False,
    "-psmall --gpus=2 --cpus-per-gpu=2": True,
    "-psmall --gpus=2 --cpus-per-gpu=3": False,
}


@pytest.mark.gate
def test_sums_say_what_slurm_does(make_cluster: MakeCluster, one_client: ClientChoice) -> None:
    cluster = make_cluster(SITE)
    found = {form: starts(cluster, one_client, *form.split()) for form in EMPTY}
    assert found == dict.fromkeys(EMPTY, (True, True))
    running(cluster, "--mem=2000", "-n1", "-psmall")
    found = {form: starts(cluster, one_client, *form.split()) for form in IN_USE}
    assert found == {form: (does, does) for form, does in IN_USE.items()}


#: with one GPU free on each of two nodes: whether it may start by sums on 22.05 and 26.05, and whether it does
IN_TWO_PARTS = {
    "--gpus=2": ((True, True), (True, True)),
    "-c2 --gpus=2": ((True, True), (True, True)),
    # What its user has not said is not seen.
    "-n1 --gpus=2": ((True, False), (True, True)),
    # 26.05 starts these with one GPU.
    "-N1 -n2 --gpus=2": ((False, False), (True, True)),
    "--ntasks-per-node=1 --gpus=2": ((False, False), (True, True)),
    "--gpus=3": ((False, False), (False, False)),
    "--gres=gpu:2": ((False, False), (False, False)),
}


@pytest.mark.gate
def test_gpus_in_all_of_a_job_that_leaves_its_tasks_open(make_cluster: MakeCluster, one_client: ClientChoice) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2, cpus=8, gres={"gpu": 2}),)))
    for name in ("n1", "n2"):
        running(cluster, "-w", name, "-n1", "--mem=100", "--gres=gpu:1")
    found = {form: starts(cluster, one_client, "--mem=100", *form.split()) for form in IN_TWO_PARTS}
    of_release = 0 if installed_release() == (22, 5) else 1
    assert found == {form: both[of_release] for form, both in IN_TWO_PARTS.items()}


#: nodes of two GPUs with two shards each, of which n1's have no type; and what the jobs hold that run there, then end
SHARDS = (
    # Without a type and cores of its own: 22.05 counts GPUs that are held whole alone.
    ("n1", ("shard:2", "shard:2"), ""),
    # With a type 22.05 counts shards, too, until the first job on their GPU has ended.
    ("t1", ("shard:2", "shard:2"), ""),
    ("t1", ("shard:1", "shard:1", "shard:2"), "shard:1"),
)


@pytest.mark.gate
@pytest.mark.parametrize(("node", "held", "ended"), SHARDS)
def test_whole_gpus_of_which_shards_are_held(
    node: str, held: tuple[str, ...], ended: str, make_cluster: MakeCluster, one_client: ClientChoice
) -> None:
    groups = (
        NodeGroup(count=1, cpus=8, gres={"gpu": 2, "shard": 4}),
        NodeGroup(prefix="t", count=1, cpus=8, gres={"gpu:a": 2, "shard": 4}),
    )
    cluster = make_cluster(ClusterDefinition(groups=groups))
    jobs = [(gres, running(cluster, "-w", node, "--mem=100", f"--gres={gres}")) for gres in held]
    for job in [job for gres, job in jobs if gres == ended][:1]:
        cluster.run("scancel", str(job))
        cluster.wait_state(job, "CANCELLED")
    may, did = starts(cluster, one_client, "-w", node, "--mem=100", "--gres=gpu:1")
    is_old = installed_release() == (22, 5)
    assert did is (is_old and (node == "n1" or bool(ended)))
    # On which GPUs three of four shards are is not shown.
    assert may is (is_old or bool(ended))
