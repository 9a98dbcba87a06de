"""A trial-and-error job that starts and comes back does not make one best-effort job after the other leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

NODES = 4
WHOLE = ("-c32", "--mem=100", "--output=/dev/null")


def full(cluster: LocalCluster) -> list[int]:
    """Fill all nodes with best-effort jobs, which end by no means of their own."""
    jobs = [cluster.sbatch(f"--job-name=be-{number}", *WHOLE, wrap="sleep 1000") for number in range(NODES)]
    for job_id in jobs:
        cluster.wait_state(job_id, "RUNNING")
    return jobs


def configured(folder: Path) -> None:
    """Ask for a useful run of the site's default length."""
    (folder / "conf.d").mkdir()
    (folder / "conf.d" / "run.toml").write_text("[guard]\nuseful_run_s = 60\nretry_after_s = 1\n")


@pytest.fixture
def full_cluster(make_cluster: MakeCluster, tmp_path: Path) -> tuple[LocalCluster, list[int]]:
    """Return a cluster and the best-effort jobs that fill it."""
    configured(tmp_path)
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=NODES),)))
    return cluster, full(cluster)


@pytest.mark.gate
def test_one_that_requeues_itself_after_each_start_costs_two_victims(
    full_cluster: tuple[LocalCluster, list[int]], tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster, jobs = full_cluster
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        again = f"exit {cluster.definition.requeue_exit}"
        te = cluster.sbatch("--job-name=te-again", *WHOLE, wrap=again, user=ordinary_user())

        def left_alone() -> bool:
            # Who has left takes its node again as soon as Slurm lets it, so that the job needs the next one.
            return "it is left alone" in daemon.ask("explain", str(te)).stdout

        cluster.wait_for(left_alone, "the job to be left alone")
        assert len(cluster.put_back(jobs)) == 2
        assert int(cluster.job(te)["Restarts"]) >= 2
        assert daemon.json("status")["tally"]["futile"] == 2


@pytest.mark.parametrize("tasks", ["7", "0-1"])
def test_each_task_of_an_array_that_requeues_itself_costs_two_victims(
    full_cluster: tuple[LocalCluster, list[int]], tmp_path: Path, one_client: ClientChoice, tasks: str
) -> None:
    cluster, jobs = full_cluster
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        # It is seen to run: one that is back before the next poll waits for its begin time then.
        again = f"sleep 2; exit {cluster.definition.requeue_exit}"
        array = cluster.sbatch("--job-name=te-again", f"--array={tasks}", *WHOLE, wrap=again, user=ordinary_user())
        count = len(cluster.jobs(array)) if tasks == "7" else 2

        def left_alone() -> bool:
            known = [int(job["JobId"]) for job in cluster.jobs(array)]
            said = [daemon.ask("explain", str(job_id)).stdout for job_id in known]
            return len(known) == count and all("it is left alone" in text for text in said)

        cluster.wait_for(left_alone, "each task to be left alone")
        assert len(cluster.put_back(jobs)) == 2 * count
        assert daemon.json("status")["tally"]["futile"] == 2 * count
        # Nothing goes on behind the tests' back.
        daemon.await_polls(cluster, 10)
        assert len(cluster.put_back(jobs)) == 2 * count


def test_a_task_that_comes_back_keeps_no_other_task_from_running(
    full_cluster: tuple[LocalCluster, list[int]], tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster, jobs = full_cluster
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        # The first task comes back each time, and the others run on.
        script = (
            f"[ $SLURM_ARRAY_TASK_ID != 0 ] || {{ sleep 2; exit {cluster.definition.requeue_exit}; }}; exec sleep 1000"
        )
        array = cluster.sbatch("--job-name=te-mixed", "--array=0-2", *WHOLE, wrap=script, user=ordinary_user())

        def settled() -> bool:
            states = {job.get("ArrayTaskId"): job for job in cluster.jobs(array)}
            run = [task for task in ("1", "2") if task in states and states[task]["JobState"] == "RUNNING"]
            if len(run) != 2 or "0" not in states:
                return False
            return "it is left alone" in daemon.ask("explain", states["0"]["JobId"]).stdout

        cluster.wait_for(settled, "two tasks to run and one to be left alone")
        # Another task may have taken what the first one has left.
        assert len(cluster.put_back(jobs)) <= 4
        assert daemon.json("status")["tally"]["futile"] == 2


def test_a_job_with_a_failing_prolog_costs_two_victims(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """A failed Prolog drains its node and puts the job back: held, or to try again (nohold_on_prolog_fail)."""
    configured(tmp_path)
    prolog = tmp_path / "prolog.sh"
    prolog.write_text(f"#!/bin/bash\n[[ $SLURM_JOB_USER != {ordinary_user()} ]]\n")
    prolog.chmod(0o755)
    cluster = make_cluster(
        ClusterDefinition(
            groups=(NodeGroup(count=NODES),),
            settings={
                "Prolog": str(prolog),
                "PrologFlags": "Alloc",
                "SchedulerParameters": "nohold_on_prolog_fail,sched_interval=1,bf_interval=1",
            },
        )
    )
    jobs = full(cluster)
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        te = cluster.sbatch("--job-name=te-prolog", *WHOLE, wrap="sleep 300", user=ordinary_user())
        cluster.wait_for(
            lambda: "it is left alone" in daemon.ask("explain", str(te)).stdout, "the job to be left alone"
        )
        assert len(cluster.put_back(jobs)) == 2
        assert daemon.json("status")["tally"]["futile"] == 2
