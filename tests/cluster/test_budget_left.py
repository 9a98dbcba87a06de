"""A long run that is not saved: while more of it may be lost than the day's budget has left, another job leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

WHOLE = ("--exclusive", "-N1")
#: node-seconds: more than the grace period of the job that saves
BUDGET_S, GRACE_S = 20, 10
SAVES = "trap 'exit 0' USR1; while :; do sleep 0.2; done"


def ran_s(cluster: LocalCluster, job: int) -> int:
    hours, minutes, seconds = map(int, cluster.job(job)["RunTime"].split(":"))
    return 3600 * hours + 60 * minutes + seconds


@pytest.mark.gate
def test_the_job_that_saves_on_its_notice_leaves_though_the_other_one_would_leave_sooner(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    (tmp_path / "conf.d").mkdir()
    budget = f"[guard]\nmax_lost_node_hours_per_day = {BUDGET_S / 3600:.6f}\n"
    (tmp_path / "conf.d" / "budget.toml").write_text(budget)
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    # Another user's: what own TE jobs cost is none of the budget's.
    loses = cluster.sbatch(*WHOLE, "--job-name=loses", wrap="sleep 1000", user=ordinary_user())
    comment = f"--comment=signal=B:USR1 grace={GRACE_S} exit0=again"
    saves = cluster.sbatch(*WHOLE, comment, wrap=SAVES, user=ordinary_user())
    for job in (loses, saves):
        cluster.wait_state(job, "RUNNING")
    cluster.wait_for(lambda: ran_s(cluster, loses) > BUDGET_S, "its run to be worth more than the budget")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        trial = cluster.sbatch(*WHOLE, "--job-name=te", "--time=10", wrap="sleep 1000")
        cluster.wait_state(trial, "RUNNING")
        assert (cluster.state(loses), cluster.job(loses)["Restarts"]) == ("RUNNING", "0")
        # For a second one none is left.
        second = cluster.sbatch(*WHOLE, "--job-name=te", "--time=10", wrap="sleep 1000")
        daemon.await_polls(cluster, more=4)
        assert cluster.state(second) == "PENDING"
        said = daemon.ask("explain", str(second)).stdout
        assert "guard.max_lost_node_hours_per_day" in said, said
        assert cluster.job(loses)["Restarts"] == "0"
