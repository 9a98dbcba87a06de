"""Trial-and-error jobs that would not start whatever is free: they get no victims, and `explain` says why.

One full cluster of eight nodes of a real Slurm, one daemon, a job for each reason; in the end one that does get nodes,
so that it is known that the daemon would have acted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tesched_core.model.decision import RefusalCode
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.load import LoadJob, submit
from tesched_testcluster.local import LocalCluster

pytestmark = pytest.mark.slurm

#: sbatch's options, and the refusal that is due; job {be} is a best-effort job that runs
CASES = {
    "hold": (("--hold",), RefusalCode.HELD),
    "dependency": (("--dependency=afterok:{be}",), RefusalCode.DEPENDENCY),
    "begin time": (("--begin=now+1hour",), RefusalCode.BEGIN_TIME),
    "licence": (("--licenses=soft:1",), RefusalCode.LICENSES),
    "time limit of its partition": (("--partition=short", "--time=30"), RefusalCode.LIMIT),
    "node limit of its partition": (("--partition=short", "--nodes=2", "--time=1"), RefusalCode.LIMIT),
    "partition that is down": (("--partition=closed",), RefusalCode.PARTITION_DOWN),
    "node that is drained": (("--nodelist=n8",), RefusalCode.NODE_DOWN),
}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The full cluster, its daemon, and the waiting jobs by case."""

    cluster: LocalCluster
    daemon: Daemon
    jobs: dict[str, int]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Fill the cluster, submit every case, and let the daemon poll several times."""
    definition = ClusterDefinition(
        groups=(NodeGroup(count=8),),
        partitions=(
            PartitionDefinition(name="main", default=True),
            PartitionDefinition(name="short", settings={"MaxTime": "10", "MaxNodes": "1"}),
            PartitionDefinition(name="closed"),
        ),
        settings={"Licenses": "soft:1"},
    )
    folder = tmp_path_factory.mktemp("no-preemption")
    with LocalCluster(definition) as cluster:
        ids = []
        for number in range(8):
            options: tuple[str, ...] = ("--licenses=soft:1",) if number == 0 else ()
            job = LoadJob(name=f"be-{number}", kind="be", cpus=8, gpus=8, ticks=3000, options=options)
            ids.append(submit(cluster, job, cluster.shared))
        for job_id in ids:
            cluster.wait_state(job_id, "RUNNING")
        cluster.run("scontrol", "update", "partition=closed", "state=DOWN")
        cluster.run("scontrol", "update", "nodename=n8", "state=drain", "reason=test")
        jobs = {}
        for case, (options, _) in CASES.items():
            mine = tuple(option.format(be=ids[0]) for option in options)
            job = LoadJob(name=f"te-{case.split()[0]}", kind="te", cpus=2, gpus=2, ticks=10, options=mine)
            jobs[case] = submit(cluster, job, cluster.shared)
        with running_daemon(cluster, folder, ClientChoice.COMMANDS) as daemon:
            wants = set(jobs.values())
            cluster.wait_for(lambda: _refused_firmly(daemon, wants), "a reason for every job")
            looked = daemon.json("status")["daemon"]["cycle"]
            cluster.wait_for(lambda: daemon.json("status")["daemon"]["cycle"] >= looked + 6, "six more looks")
            yield Stage(cluster=cluster, daemon=daemon, jobs=jobs)


def _refused_firmly(daemon: Daemon, jobs: set[int]) -> bool:
    """Check whether each job has a reason, and Slurm has considered it."""
    codes = {job_id: _code(daemon, job_id) for job_id in jobs}
    return all(code not in {None, RefusalCode.NOT_CONSIDERED_YET.value} for code in codes.values())


def _code(daemon: Daemon, job_id: int) -> str | None:
    refusals = daemon.json("explain", str(job_id))["story"]["refusals_as_preemptor"]
    return next((one["code"] for one in refusals if one["job_id"] == one["preemptor"] == job_id), None)


@pytest.mark.gate
@pytest.mark.parametrize("case", CASES)
def test_no_job_is_preempted_and_explain_says_why(stage: Stage, case: str) -> None:
    job_id = stage.jobs[case]
    assert stage.cluster.state(job_id) == "PENDING"
    assert _code(stage.daemon, job_id) == CASES[case][1]
    told = stage.daemon.ask("explain", str(job_id))
    assert told.returncode == 0
    assert stage.daemon.json("orders")["orders"] == []
    assert stage.cluster.put_back() == []


@pytest.mark.gate
def test_one_job_yields_to_the_last_te_job_which_can_start(stage: Stage) -> None:
    # By that it is known of the others that the daemon would have acted. It comes last: it changes the cluster.
    cluster = stage.cluster
    last = submit(cluster, LoadJob(name="te-last", kind="te", cpus=2, gpus=2, ticks=10), cluster.shared)
    cluster.wait_state(last, "RUNNING", "COMPLETED")
    assert len(cluster.put_back()) == 1
