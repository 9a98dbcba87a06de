"""slurmctld that is restarted or killed, as the simulated one is (`tesched_sim.controller_faults`): what it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_testcluster import processes
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHOLE = ("--exclusive", "-N1")


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> LocalCluster:
    """Give one node."""
    return make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))


def until(file: Path) -> str:
    """Script of a job that runs until this file is there."""
    return f"until test -e {file}; do sleep 0.1; done"


def waiting(cluster: LocalCluster, *options: str) -> int:
    return cluster.sbatch(*WHOLE, *options, wrap="sleep 1000")


def shown(cluster: LocalCluster, job_id: int, *fields: str) -> tuple[str, ...]:
    record = cluster.job(job_id)
    return tuple(record[name] for name in fields)


@pytest.mark.gate
def test_what_was_set_is_kept_over_a_restart_and_an_end_is_learned_after_it(cluster: LocalCluster) -> None:
    runs = cluster.sbatch("--requeue", *WHOLE, wrap=until(cluster.shared / "go"))
    cluster.wait_state(runs, "RUNNING")
    node = cluster.definition.node_names[0]
    nice, held, bound, later = (waiting(cluster, *more) for more in ((), (), (), ("--begin=now+1hour",)))
    cluster.run("scontrol", "update", f"jobid={nice}", "nice=-500")
    cluster.run("scontrol", "hold", str(held))
    cluster.run("scontrol", "update", f"jobid={bound}", f"reqnodelist={node}")
    fields = ("Priority", "Nice", "ReqNodeList", "Restarts")
    before = [shown(cluster, one, *fields) for one in (nice, held, bound, later)]
    begins = shown(cluster, later, "EligibleTime")
    cluster.stop_slurmctld()
    (cluster.shared / "go").touch()
    cluster.start_slurmctld()
    assert [shown(cluster, one, *fields) for one in (held, bound, later)] == before[1:]
    assert shown(cluster, nice, *fields)[:2] == before[0][:2]
    assert shown(cluster, later, "EligibleTime") == begins
    cluster.wait_state(runs, "COMPLETED")
    cluster.wait_state(nice, "RUNNING")
    assert shown(cluster, held, "Reason") == ("JobHeldAdmin",)


def test_until_it_has_reported_a_node_is_unknown_and_its_jobs_are_shown_to_run(cluster: LocalCluster) -> None:
    runs = waiting(cluster)
    cluster.wait_state(runs, "RUNNING")
    waits = waiting(cluster)
    node = cluster.definition.node_names[0]
    cluster.stop_slurmctld()
    processes.end_processes(cluster.folder, node)  # it can't report
    cluster.start_slurmctld()
    assert "UNKNOWN" in cluster.node(node)["State"]
    assert (cluster.state(runs), cluster.state(waits)) == ("RUNNING", "PENDING")
    cluster.revive_node(node)


def test_of_a_slurmctld_that_was_killed_what_was_set_last_may_be_as_before(cluster: LocalCluster) -> None:
    """It begins to write its state some seconds after a change: of a hold that it has just made nothing is left."""
    runs = waiting(cluster)
    cluster.wait_state(runs, "RUNNING")
    kept = [is_kept_over_a_kill(cluster) for _ in range(3)]
    assert not all(kept)


def is_kept_over_a_kill(cluster: LocalCluster) -> bool:
    """Hold a job right after slurmctld has written its state, and kill it."""
    job = waiting(cluster)
    cluster.written_state(job)
    cluster.run("scontrol", "hold", str(job))
    cluster.kill_slurmctld()
    cluster.start_slurmctld()
    return shown(cluster, job, "Priority") == ("0",)
