"""A user makes an own best-effort job leave for an own trial-and-error job, or changes a victim while it waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import daemon_of, running_daemon, write_config
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

#: all CPUs of the only node; what they ask for besides differs
ALL_CPUS = ("-c32", "--mem=100", "--output=/dev/null")
#: runs until its file is gone
WHILE = "while [ -e {folder}/{name} ]; do sleep 0.1; done"


def submit(cluster: LocalCluster, name: str, *options: str, user: str | None = None) -> int:
    """Submit a job for all CPUs, which runs until `ends` is called with its name."""
    (cluster.shared / name).touch()
    wrap = WHILE.format(folder=cluster.shared, name=name)
    return cluster.sbatch(f"--job-name={name}", *ALL_CPUS, *options, wrap=wrap, user=user)


def ends(cluster: LocalCluster, name: str) -> None:
    """Let a job end."""
    (cluster.shared / name).unlink()


def victim_waits(cluster: LocalCluster, te_user: str | None) -> tuple[int, int]:
    """Return an ordinary user's victim, which waits for its node, and another user's older job, which waits too.

    The trial-and-error job `te-1` of this user runs in its place.
    """
    mine = submit(cluster, "be-mine", "--gres=gpu:1", user=ordinary_user())
    cluster.wait_state(mine, "RUNNING")
    # A requeue leaves a job its priority on some releases: so that one is ahead of it on all.
    older = submit(cluster, "be-older", "--gres=gpu:8", "--nice=-1000")
    te = submit(cluster, "te-1", "--gres=gpu:1", user=te_user)
    cluster.wait_state(te, "RUNNING")
    cluster.wait_for(lambda: cluster.is_eligible(mine), "the victim to wait for its node alone")
    return mine, older


@pytest.mark.gate
def test_by_an_own_trial_a_job_gains_no_place_and_no_immunity(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        mine, older = victim_waits(cluster, ordinary_user())
        daemon.await_polls(cluster)
        assert cluster.job(mine)["Nice"] == "0", "it is not even put ahead as it was"
        cluster.run("scontrol", "update", f"JobId={mine}", "Gres=gpu:8", user=ordinary_user())
        daemon.await_polls(cluster)
        assert cluster.job(mine)["Nice"] == "0"
        ends(cluster, "te-1")
        cluster.wait_state(older, "RUNNING")
        assert cluster.state(mine) == "PENDING"
        assert "of its own user" in daemon.ask("explain", str(mine)).stdout

        # guard.max_lost_runs_per_job is 1, and none of that is used up.
        ends(cluster, "be-older")
        cluster.wait_state(mine, "RUNNING")
        another = submit(cluster, "te-2", "--gres=gpu:1")
        cluster.wait_state(another, "RUNNING")
        assert cluster.job(mine)["Restarts"] == "2"


@pytest.mark.gate
def test_an_own_job_leaves_rather_than_a_strangers(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        # Of equal prices the lower id is first; so that is the stranger's.
        stranger = submit(cluster, "be-stranger")
        cluster.wait_state(stranger, "RUNNING")
        mine = submit(cluster, "be-mine", user=ordinary_user())
        cluster.wait_state(mine, "RUNNING")
        te = submit(cluster, "te-1", user=ordinary_user())
        cluster.wait_state(te, "RUNNING")
        assert [cluster.job(job)["Restarts"] for job in (stranger, mine)] == ["0", "1"]
        said = " ".join(daemon.ask("explain", str(te)).stdout.split())
        assert "of the trial-and-error job's own user, whose jobs go first among equals" in said
        assert "it would do too" in daemon.ask("explain", str(stranger)).stdout


@pytest.mark.gate
def test_an_idle_job_leaves_rather_than_a_busy_one(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    file = tmp_path / "idle"
    file.write_text("no idle job\n")
    config = write_config(cluster, tmp_path, one_client, poll_interval_s=0.2)
    with config.open("a") as more:
        more.write(f'[idle]\nfile = "{file}"\nafter_s = 1\n')
    with daemon_of(cluster, config) as daemon:
        # Of equal prices the lower id is first, and the own user's before that: so neither is the idle one.
        busy = submit(cluster, "be-mine", user=ordinary_user())
        cluster.wait_state(busy, "RUNNING")
        idle = submit(cluster, "be-idle")
        cluster.wait_state(idle, "RUNNING")
        why = f"no job counts as idle: {file}: line 1: 'no idle job' is no idle job"
        cluster.wait_for(lambda: why in daemon.json("status")["daemon"]["idle_trouble"], "status to say so")
        assert "IDLE" in daemon.ask("status").stdout
        new = tmp_path / "idle.new"
        new.write_text(f"{idle} 1\n")
        new.replace(file)
        cluster.wait_for(lambda: daemon.json("status")["daemon"]["idle_trouble"] == "", "the file to be believed")

        def idle_since() -> dict[int, float | None]:
            return {int(one["label"]): one["idle_since"] for one in daemon.json("jobs")["jobs"]}

        # Not before it has run for `after_s`, whatever the file says of the time before its start.
        cluster.wait_for(lambda: idle_since()[idle] is not None, "the job to count as idle")
        assert idle_since()[busy] is None
        assert "idle since" in daemon.ask("explain", str(idle)).stdout
        te = submit(cluster, "te-1", user=ordinary_user())
        cluster.wait_state(te, "RUNNING")
        assert [cluster.job(job)["Restarts"] for job in (busy, idle)] == ["0", "1"]
        said = " ".join(daemon.ask("explain", str(te)).stdout.split())
        assert "idle for" in said
        assert "idle jobs go first among equals (idle.file)" in said
        assert "it would do too" in daemon.ask("explain", str(busy)).stdout


@pytest.mark.gate
def test_a_victim_that_asks_for_more_loses_its_place(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        mine, older = victim_waits(cluster, None)
        cluster.wait_for(lambda: int(cluster.job(mine)["Nice"]) < 0, "the victim to be ahead of the older job")
        cluster.run("scontrol", "update", f"JobId={mine}", "Gres=gpu:8", user=ordinary_user())
        cluster.wait_for(lambda: cluster.job(mine)["Nice"] == "0", "its own place in the queue")
        cluster.wait_for(lambda: "8 gpu, not 1" in daemon.ask("explain", str(mine)).stdout, "the reason")
        ends(cluster, "te-1")
        cluster.wait_state(older, "RUNNING")
        assert cluster.state(mine) == "PENDING"


def test_a_trial_that_requests_more_during_its_order_is_first_no_longer(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    # It holds its node for its grace period, and ignores its notice.
    options = ("--job-name=be-stays", *ALL_CPUS, "--comment=signal=B:USR1 grace=86400")
    stays = cluster.sbatch(*options, wrap="trap '' USR1; sleep 1000")
    cluster.wait_state(stays, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        # Without another job that waits it need not be raised.
        submit(cluster, "be-older", "--gres=gpu:8")
        te = submit(cluster, "te-1", "--gres=gpu:1", user=ordinary_user())
        cluster.wait_for(lambda: int(cluster.job(te)["Nice"]) < 0, "the trial to be first in its queue")
        cluster.run("scontrol", "update", f"JobId={te}", "Gres=gpu:8", user=ordinary_user())
        cluster.wait_for(lambda: cluster.job(te)["Nice"] == "0", "its own place in the queue")
        cluster.wait_for(lambda: "8 gpu, not 1" in daemon.ask("explain", str(te)).stdout, "the reason")
        assert cluster.state(stays) == "RUNNING"
