"""What the owners of jobs say in a comment, on a real Slurm."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

#: all of the only node
WHOLE = ("-c32", "--mem=100", "--output=/dev/null")


def waited_s(cluster: LocalCluster, job: int) -> float:
    """Return for how long a job was eligible before it started, by Slurm's own record."""
    record = cluster.job(job)
    start, eligible = (datetime.fromisoformat(record[key]) for key in ("StartTime", "EligibleTime"))
    return (start - eligible).total_seconds()


def states(cluster: LocalCluster, array: int) -> list[str]:
    """Return the states of an array's tasks, sorted."""
    return sorted(record["JobState"] for record in cluster.jobs(array))


@pytest.mark.gate
def test_no_job_leaves_for_a_trial_before_its_owners_patience_is_over(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.5) as daemon:
        victim = cluster.sbatch("--job-name=be", *WHOLE, wrap="sleep 300")
        cluster.wait_state(victim, "RUNNING")
        te = cluster.sbatch("--job-name=te-1", "--comment=te patience=8", *WHOLE, wrap="sleep 300")
        cluster.wait_for(
            lambda: "by its owner's word (patience=8)  [patience]" in daemon.ask("explain", str(te)).stdout,
            "the reason",
        )
        assert cluster.job(victim)["Restarts"] == "0"
        cluster.wait_state(te, "RUNNING")
        assert waited_s(cluster, te) >= 8
        assert cluster.job(victim)["Restarts"] == "1"


def test_a_patient_trial_starts_on_a_node_that_comes_free(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        jobs = [cluster.sbatch(f"--job-name=be-{number}", *WHOLE, wrap="sleep 300") for number in range(2)]
        for job in jobs:
            cluster.wait_state(job, "RUNNING")
        te = cluster.sbatch("--job-name=te-1", "--comment=te patience=9999", *WHOLE, wrap="sleep 300")
        cluster.wait_for(lambda: "[patience]" in daemon.ask("explain", str(te)).stdout, "the reason")
        hostile = cluster.sbatch("--job-name=te-2", "--comment=te patience=-1", "--hold", *WHOLE, wrap="true")
        cluster.wait_for(
            lambda: "patience=-1 (the job's comment) is not followed" in daemon.ask("explain", str(hostile)).stdout,
            "the word that is not followed",
        )
        cluster.run("scancel", str(jobs[0]))
        cluster.wait_state(te, "RUNNING")
        assert (cluster.state(jobs[1]), cluster.job(jobs[1])["Restarts"]) == ("RUNNING", "0")


@pytest.mark.gate
def test_a_task_with_its_owners_word_ends_when_it_is_preempted_and_no_other_does(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        array = cluster.sbatch("--job-name=be", "--array=1-2", "--comment=preempted=end", *WHOLE, wrap="sleep 300")
        cluster.wait_for(lambda: states(cluster, array) == ["RUNNING", "RUNNING"], "both tasks")
        te = cluster.sbatch("--job-name=te-1", *WHOLE, wrap="sleep 300")
        cluster.wait_state(te, "RUNNING")
        cluster.wait_for(lambda: states(cluster, array) == ["CANCELLED", "RUNNING"], "the end of one task")
        cluster.wait_for(lambda: daemon.json("status")["tally"]["ended"] == 1, "its end to be seen")
        assert daemon.json("status")["tally"]["lost"] == 0
        (ended,) = (job["job_id"] for job in daemon.json("jobs", "--all")["jobs"] if job["state"] == "CANCELLED")
        said = daemon.ask("explain", str(ended)).stdout
        assert "when it is preempted it does not run again, by its owner's word (preempted=end)" in said
        assert "ended; it does not run again, as its owner has said (preempted=end)" in said


@pytest.mark.gate
def test_a_job_is_preempted_no_more_often_than_its_owner_allows(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "often.toml").write_text("[guard]\nmax_lost_runs_per_job = 2\n")
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        # Another user's: preemptions by one's own trials count nowhere.
        options = ("--job-name=be", "--comment=preemptions=1", *WHOLE)
        job = cluster.sbatch(*options, wrap="sleep 300", user=ordinary_user())
        cluster.wait_state(job, "RUNNING")
        first = cluster.sbatch("--job-name=te-1", *WHOLE, wrap="sleep 300")
        cluster.wait_state(first, "RUNNING")
        cluster.wait_for(lambda: cluster.is_eligible(job), "the victim to wait for its node alone")
        cluster.run("scancel", str(first))
        cluster.wait_state(job, "RUNNING")
        second = cluster.sbatch("--job-name=te-2", *WHOLE, wrap="sleep 300")
        word = "by its owner's word it may be preempted 1 time(s) (preemptions=1)"
        cluster.wait_for(
            lambda: word in " ".join(daemon.ask("explain", str(second)).stdout.split()), "the reason why it stays"
        )
        daemon.await_polls(cluster)
        assert (cluster.state(job), cluster.job(job)["Restarts"]) == ("RUNNING", "1")
        assert "often   it is preempted at most 1 time(s)" in daemon.ask("explain", str(job)).stdout


@pytest.mark.parametrize(("word", "state"), [("end", "CANCELLED"), ("End", "RUNNING")])
def test_after_its_notice_and_its_grace_period_the_exact_word_ends_a_job(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, word: str, state: str
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    notes = cluster.shared / "notes"
    stays = f"trap 'echo notice >>{notes}' USR1; for _ in $(seq 3000); do sleep 0.1; done"
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        comment = f"signal=B:USR1 grace=2 preempted={word}"
        job = cluster.sbatch("--job-name=be", f"--comment={comment}", *WHOLE, wrap=stays)
        cluster.wait_state(job, "RUNNING")
        te = cluster.sbatch("--job-name=te-1", *WHOLE, wrap="sleep 1")
        cluster.wait_state(te, "COMPLETED")
        assert notes.read_text().split() == ["notice"]
        cluster.wait_state(job, state)
        if word == "end":
            assert cluster.job(job)["Restarts"] == "0"
        else:
            assert cluster.job(job)["Restarts"] == "1"
            assert "preempted=End (the job's comment) is not followed" in daemon.ask("explain", str(job)).stdout
