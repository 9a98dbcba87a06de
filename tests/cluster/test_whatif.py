"""The last days again, from the store and the nodes of a real Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.clients import ClientChoice
from tesched_testcluster.load import LoadJob, submit

from tests.cluster.conftest import MakeCluster
from tests.cluster.daemon_process import running_daemon

pytestmark = pytest.mark.slurm


def test_what_was_stands_beside_what_would_have_been(
    make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    cluster = make_cluster(None)  # of its own: Slurm remembers no other test's jobs
    with running_daemon(cluster, tmp_path, client_choice) as daemon:
        ids = [
            submit(cluster, LoadJob(name=f"be-{number}", kind="be", cpus=8, gpus=8, ticks=30), cluster.shared)
            for number in range(3)
        ]
        ids.append(submit(cluster, LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=20), cluster.shared))
        for job_id in ids:
            cluster.wait_state(job_id, "COMPLETED", timeout_s=30)
        cluster.wait_for(
            lambda: sum(queue["slowdown"]["count"] for queue in daemon.json("status")["queues"]) == len(ids),
            "the daemon to see all jobs end",
            timeout_s=15,
        )
        found = daemon.json("whatif", "--policy", "fifo,fitgpp,patient")
        assert (found["jobs"], found["left_out"]) == (4, 0)
        lines = {(line["case"], line["job_class"]): line for line in found["lines"]}
        assert [case for case, _ in lines] == [
            case for case in ("as it was", "fifo", "fitgpp", "patient") for _ in ("te", "be")
        ]
        # Eight nodes, four jobs: nobody waits in the simulation, nor is anybody preempted.
        for case in ("fifo", "fitgpp", "patient"):
            assert (lines[case, "te"]["jobs"], lines[case, "be"]["jobs"]) == (1, 3)
            assert lines[case, "te"]["wait_p95_s"] < 0.001
            assert lines[case, "be"]["preempted"] == 0
        assert daemon.ask("whatif").returncode == 0
