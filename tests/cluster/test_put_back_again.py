"""A slurmctld that is killed right after the daemon put a raise back: its successor has the raise again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster import processes
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

ONE_NODE = ClusterDefinition(groups=(NodeGroup(count=1),))
WHOLE = ("--exclusive", "-N1")
#: of the daemon's log
PUT_BACK, IS_BACK = "put its nice back", "its nice is put back"


def test_a_raise_that_comes_back_with_slurmctlds_older_state_is_put_back_again(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """Slurmctld begins to write its state some seconds after a change: on a busy machine it may have by then."""
    tries = (tmp_path / str(number) for number in range(3))
    assert any(came_back(make_cluster(ONE_NODE), folder, one_client) for folder in tries)


def came_back(cluster: LocalCluster, folder: Path, client: ClientChoice) -> bool:
    """Kill slurmctld when a raise is put back; check that the job has its own nice value in the end.

    Returns whether the raise had come back.
    """
    folder.mkdir()
    victim = cluster.sbatch(*WHOLE, "--time=1-0", "--comment=grace=86400", wrap="trap '' TERM; sleep 1000 & wait; wait")
    cluster.wait_state(victim, "RUNNING")
    with running_daemon(cluster, folder, client) as daemon:
        trial = cluster.sbatch(*WHOLE, "--job-name=te", "--time=10", wrap="sleep 1000")
        cluster.wait_for(lambda: nice(cluster, trial) < 0, "the raise")
        state = cluster.folder / "state" / "job_state"
        stamp = state.stat().st_mtime_ns if state.exists() else 0
        cluster.run("scontrol", "update", f"jobid={victim}", "comment=grace=86401")
        cluster.wait_for(lambda: state.exists() and state.stat().st_mtime_ns > stamp, "the raise to be written")
        cluster.run("scancel", "-f", "-s", "KILL", str(victim))
        cluster.wait_for(lambda: IS_BACK in daemon.log.read_text(), "the daemon to have seen the nice value put back")
        processes.send(processes.find_processes(cluster.folder, "slurmctld"), signal.SIGKILL)
        cluster.wait_for(lambda: not processes.find_processes(cluster.folder, "slurmctld"), "slurmctld to be gone")
        before = daemon.log.read_text().count(PUT_BACK)
        cluster.start_slurmctld()
        is_back = nice(cluster, trial) < 0
        cluster.wait_for(lambda: nice(cluster, trial) == 0, "its own nice value again")
        daemon.await_polls(cluster)
        assert nice(cluster, trial) == 0
        return is_back or daemon.log.read_text().count(PUT_BACK) > before


def nice(cluster: LocalCluster, job: int) -> int:
    """Return the nice value that Slurm shows."""
    return int(cluster.job(job)["Nice"])
