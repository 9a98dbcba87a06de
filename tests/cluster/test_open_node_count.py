"""A TE job that leaves its number of nodes to Slurm starts on exactly the nodes that its victims have left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.load import EventName, LoadJob, await_begun, hold, keep_saving, read_events, submit
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

SLEEP = "exec sleep 1000"
TWO_NODES = ClusterDefinition(groups=(NodeGroup(count=2, cpus=8, gres={"gpu": 2}),))


def running(cluster: LocalCluster, *options: str) -> int:
    job = cluster.sbatch("--job-name=be", "--output=/dev/null", "--mem=100", *options, wrap=SLEEP)
    cluster.wait_state(job, "RUNNING")
    return job


def asked_of(cluster: LocalCluster, job: int) -> tuple[str, str, str, str]:
    """Return what the job's record says of its nodes, tasks and CPUs."""
    record = cluster.job(job)
    return record["ReqNodeList"], record["NumNodes"], record["NumTasks"], record["NumCPUs"]


@pytest.mark.gate
def test_gpus_that_no_node_has_by_itself_are_freed_on_two(tmp_path: Path, one_client: ClientChoice) -> None:
    with LocalCluster(TWO_NODES) as cluster:
        jobs = [running(cluster, "-w", name, "--gres=gpu:2") for name in ("n1", "n2")]
        with running_daemon(cluster, tmp_path, one_client) as daemon:
            te = cluster.sbatch("--job-name=te", "--output=/dev/null", "--mem=100", "-n3", "--gpus=3", wrap=SLEEP)
            cluster.wait_state(te, "RUNNING")
            assert cluster.job(te)["NodeList"] == "n[1-2]"
            assert [cluster.job(job)["Restarts"] for job in jobs] == ["1", "1"]
            daemon.await_polls(cluster)
            assert daemon.json("status")["tally"]["futile"] == 0


@pytest.mark.gate
def test_a_partition_that_gives_several_nodes_at_least_costs_a_victim_on_each(
    tmp_path: Path, one_client: ClientChoice
) -> None:
    """Slurm starts four tasks on MinNodes nodes, though they leave their number of nodes open and fit on one."""
    wide = PartitionDefinition(name="wide", settings={"MinNodes": "3"})
    three = ClusterDefinition(
        groups=(NodeGroup(count=3, cpus=8),), partitions=(PartitionDefinition(name="main", default=True), wide)
    )
    with LocalCluster(three) as cluster:
        jobs = [running(cluster, "-w", f"n{number}", "-c8") for number in (1, 2)]
        with running_daemon(cluster, tmp_path, one_client) as daemon:
            te = cluster.sbatch("--job-name=te", "--output=/dev/null", "--mem=100", "-pwide", "-n4", wrap=SLEEP)
            cluster.wait_state(te, "RUNNING")
            assert cluster.job(te)["NodeList"] == "n[1-3]"
            assert sorted(cluster.put_back(jobs)) == jobs
            daemon.await_polls(cluster)
            assert daemon.json("status")["tally"]["futile"] == 0


@pytest.mark.gate
def test_the_number_is_one_with_which_the_partition_lets_it_have_its_memory(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """Slurm refuses to set two nodes for it, of 2,800 MiB each, and says MaxMemPerLimit from then on."""
    small = PartitionDefinition(name="small", default=True, settings={"MaxMemPerNode": "2500"})
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=4, cpus=8, mem_mib=8000),), partitions=(small,)))
    jobs = [running(cluster, "-w", name, "-c8") for name in ("n1", "n2", "n3", "n4")]
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        options = ("-n4", "-c2", "--mem-per-cpu=700")
        te = cluster.sbatch("--job-name=te", "--output=/dev/null", *options, wrap=SLEEP)
        cluster.wait_state(te, "RUNNING")
        assert cluster.job(te)["NodeList"] == "n[1-4]"
        assert sorted(cluster.put_back(jobs)) == jobs
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A TE job of four tasks that waits for one node, on which a victim saves its work; the other node is full."""

    cluster: LocalCluster
    daemon: Daemon
    #: the victim saves as long as this file is there
    saving: Path
    #: it holds the other node
    other: int
    te: int
    #: what its record said before it was bound
    asked: tuple[str, str, str, str]


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, one_client: ClientChoice) -> Iterator[Stage]:
    """Give the case right after the notice; the test's parameter is what the TE job asks for besides."""
    with LocalCluster(TWO_NODES) as cluster:
        hold(cluster.shared, "be")
        saving = keep_saving(cluster.shared, "be")
        options = ("-wn1", "--comment=grace=86400")
        saves = submit(
            cluster,
            LoadJob(name="be-slow", kind="be", cpus=6, gpus=0, ticks=2, on_notice="exit", options=options),
            cluster.shared,
        )
        other = running(cluster, "-wn2", "-c8", "--no-requeue")
        await_begun(cluster, [saves], cluster.shared)
        te = cluster.sbatch(
            *("--job-name=te", "--output=/dev/null", "--mem=100", "-n4", "-c2", "--hold"),
            *getattr(request, "param", ()),
            wrap=SLEEP,
            user=ordinary_user(),
        )
        asked = asked_of(cluster, te)
        cluster.run("scontrol", "release", str(te))
        with running_daemon(cluster, tmp_path, one_client) as daemon:
            cluster.wait_for(
                lambda: any(
                    one.job_id == saves and one.name is EventName.NOTICE for one in read_events(cluster.shared)
                ),
                "the notice of the one that saves",
            )
            yield Stage(cluster=cluster, daemon=daemon, saving=saving, other=other, te=te, asked=asked)


@pytest.mark.gate
def test_slurm_adds_no_other_node_while_the_victim_saves(stage: Stage) -> None:
    """With one task on what is free of the victim's node and three on the other, it would have left for nothing."""
    cluster, daemon = stage.cluster, stage.daemon
    cluster.run("scancel", str(stage.other))
    cluster.wait_for(lambda: cluster.run("squeue", "-hwn2").stdout == "", "the other node to be empty")
    daemon.await_polls(cluster, 3)
    assert cluster.state(stage.te) == "PENDING"
    stage.saving.unlink()
    cluster.wait_state(stage.te, "RUNNING")
    assert cluster.job(stage.te)["NodeList"] == "n1"
    daemon.await_polls(cluster)
    assert daemon.json("status")["tally"]["futile"] == 0


@pytest.mark.gate
@pytest.mark.parametrize("stage", [(), ("-wn1",)], indirect=True)
def test_its_own_number_is_put_back(stage: Stage) -> None:
    cluster, daemon = stage.cluster, stage.daemon
    assert asked_of(cluster, stage.te)[:2] == ("n1", "1-1")
    daemon.process.terminate()
    daemon.process.wait()
    # Its victim saves, and may leave yet.
    assert daemon.ask("undo").returncode == 1
    nodes, number, *rest = asked_of(cluster, stage.te)
    assert nodes == stage.asked[0]
    # Slurm shows a range once it has been set, which is what it gave the job before: a node a task at most.
    assert number == "1-4"
    assert tuple(rest) == stage.asked[2:]


def test_a_number_that_its_user_sets_meanwhile_stays(stage: Stage) -> None:
    """Of a range Slurm 22.05 itself makes another one, so this is one number."""
    cluster, daemon = stage.cluster, stage.daemon
    cluster.run("scontrol", "update", f"JobId={stage.te}", "NumNodes=2-2", user=ordinary_user())
    cluster.wait_for(lambda: asked_of(cluster, stage.te)[0] == "(null)", "the job to be bound no more")
    assert asked_of(cluster, stage.te)[1] == "2-2"
    daemon.process.terminate()
    daemon.process.wait()
    # Its victim saves, and may leave yet.
    assert daemon.ask("undo").returncode == 1
    assert asked_of(cluster, stage.te)[:2] == ("(null)", "2-2")
