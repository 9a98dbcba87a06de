"""A run that is not saved: one that saves leaves first, and where the budget has too little left, no other does."""

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


def two_of_another_user(cluster: LocalCluster) -> tuple[int, int]:
    """Let two jobs run, each on a node: one that declares no signal, one that saves in its grace period."""
    # Another user's: what own TE jobs cost is none of the budget's.
    loses = cluster.sbatch(*WHOLE, "--job-name=loses", wrap="sleep 1000", user=ordinary_user())
    comment = f"--comment=signal=B:USR1 grace={GRACE_S} exit0=again"
    saves = cluster.sbatch(*WHOLE, comment, wrap=SAVES, user=ordinary_user())
    for job in (loses, saves):
        cluster.wait_state(job, "RUNNING")
    return loses, saves


@pytest.mark.gate
@pytest.mark.parametrize("policy", ["fitgpp", "patient"])
def test_the_job_that_saves_leaves_though_its_grace_period_is_longer_than_killwait(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, policy: str
) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "policy.toml").write_text(f'[policy]\nte = "{policy}"\n[policy.patient]\npatience_s = 0\n')
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    loses, saves = two_of_another_user(cluster)
    cluster.wait_for(lambda: ran_s(cluster, loses) > GRACE_S, "its run to be longer than the other's grace period")
    with running_daemon(cluster, tmp_path, one_client):
        trial = cluster.sbatch(*WHOLE, "--job-name=te", "--time=10", wrap="sleep 1000")
        cluster.wait_state(trial, "RUNNING")
        # Its node is free, and the trial starts, before the daemon has seen that it ended by itself, and requeues it.
        cluster.wait_for(lambda: cluster.job(saves)["Restarts"] == "1", "the one that saves to be put back")
    assert (cluster.state(loses), cluster.job(loses)["Restarts"]) == ("RUNNING", "0")


@pytest.mark.gate
def test_one_that_may_lose_more_than_the_budget_has_left_stays_though_the_policy_would_choose_it(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    (tmp_path / "conf.d").mkdir()
    # By size alone, so that the policy would choose the first one.
    budget = f"[guard]\nmax_lost_node_hours_per_day = {BUDGET_S / 3600:.6f}\n[policy.fitgpp]\ns = 0\n"
    (tmp_path / "conf.d" / "budget.toml").write_text(budget)
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    loses, _ = two_of_another_user(cluster)
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


@pytest.mark.gate
def test_one_that_declares_a_signal_and_dies_of_it_is_no_victim_again(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        job = cluster.sbatch(*WHOLE, "--comment=signal=B:USR1 grace=10", wrap="exec sleep 1000", user=ordinary_user())
        cluster.wait_state(job, "RUNNING")
        first = cluster.sbatch(*WHOLE, "--job-name=te", "--time=10", wrap="sleep 1000")
        cluster.wait_state(first, "RUNNING")
        cluster.wait_for(lambda: cluster.is_eligible(job), "the victim to wait for its node alone")
        cluster.run("scancel", str(first))
        cluster.wait_state(job, "RUNNING")
        second = cluster.sbatch(*WHOLE, "--job-name=te", "--time=10", wrap="sleep 1000")
        why = "it has lost 1 run(s) by preemptions; guard.max_lost_runs_per_job is 1"
        cluster.wait_for(
            lambda: why in " ".join(daemon.ask("explain", str(second)).stdout.split()), "the reason why it stays"
        )
        daemon.await_polls(cluster)
        assert (cluster.state(job), cluster.job(job)["Restarts"]) == ("RUNNING", "1")
        (mine,) = (one for one in daemon.json("jobs")["jobs"] if one["job_id"] == job)
        assert mine["preemptions"] == 1
