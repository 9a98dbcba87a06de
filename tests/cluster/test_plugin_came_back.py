"""preempt/tesched on a real Slurm: a TE job that came back from its start, as the marks file names it.

No daemon runs here: the tests write the file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from tesched_testcluster.harness.plugin_marks import Delay, Mark, put_marks
from tesched_testcluster.local import LocalCluster

from tests.cluster.test_plugin import DEFINITION, NODES, best_effort, build_plugin, full, let_it_look, trial

pytestmark = pytest.mark.slurm

#: for so long after a TE job came back the plugin has no job leave for it (UNTIL_SAID_S)
UNTIL_SAID_S = 10


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalCluster]:
    """Give the nodes that these tests share."""
    build_plugin()
    with LocalCluster(DEFINITION) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> LocalCluster:
    """Give them idle, with a marks file that has no mark."""
    shared.reset()
    put_marks(shared)
    return shared


def put(cluster: LocalCluster, jobs: list[int], *delays: Delay) -> None:
    """Mark these jobs, each for one preemption."""
    put_marks(cluster, *(Mark(job_id=job_id, max_restarts=1) for job_id in jobs), *delays)


def came_back(cluster: LocalCluster, jobs: list[int]) -> int:
    """Return a TE job that has had a victim, was put back in the queue, and waits for resources."""
    put(cluster, jobs)
    te = trial(cluster)
    cluster.wait_state(te, "RUNNING")
    put(cluster, jobs, Delay(job_id=te))
    await_queue(cluster, jobs)
    put_back(cluster, te)
    assert len(cluster.put_back(jobs)) == 1
    return te


def await_queue(cluster: LocalCluster, jobs: list[int]) -> None:
    """Wait until each victim among them may start: before a TE job that is put back later, at its node at once."""
    cluster.wait_for(
        lambda: all(cluster.job(one)["Reason"] in {"Resources", "Priority"} for one in set(cluster.put_back(jobs))),
        "the end of its victims' begin times",
    )


def put_back(cluster: LocalCluster, te: int) -> None:
    """Put a TE job back in the queue, and wait until the plugin goes by the file alone."""
    cluster.run("scontrol", "requeue", str(te))
    cluster.wait_for(lambda: cluster.job(te)["Restarts"] == "1", "its return")
    let_it_ask(cluster, te)


def let_it_ask(cluster: LocalCluster, te: int) -> None:
    """Wait until Slurm has gathered victims for a TE job that is back, and the plugin went by the file alone."""
    back = time.time()
    cluster.wait_for(lambda: time.time() > back + UNTIL_SAID_S + 1, "the plugin's own wait to be over")
    # With victims before it in the queue Slurm says of it that nodes are reserved.
    cluster.wait_for(lambda: cluster.job(te)["Reason"] not in {"None", "BeginTime"}, "the end of its begin time")
    let_it_look(cluster)


def test_one_that_came_back_and_had_a_victim_has_no_other_until_its_wait_is_over(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    te = came_back(cluster, jobs)
    # Other TE jobs are not kept from theirs.
    other = trial(cluster)
    cluster.wait_state(other, "RUNNING")
    assert cluster.state(te) == "PENDING"
    put(cluster, jobs, Delay(job_id=te, until_s=-1))
    cluster.wait_state(te, "RUNNING")
    assert len(cluster.put_back(jobs)) == 3


def test_victims_before_a_useful_run_count_no_more(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    te = came_back(cluster, jobs)
    put(cluster, jobs, Delay(job_id=te, restarts=1))
    cluster.wait_state(te, "RUNNING")
    assert len(cluster.put_back(jobs)) == 2


@pytest.mark.gate
def test_one_that_came_back_from_free_nodes_has_its_victim(cluster: LocalCluster) -> None:
    jobs = [best_effort(cluster) for _ in range(NODES - 1)]
    te = trial(cluster)
    cluster.wait_state(te, "RUNNING")
    cluster.run("scontrol", "requeue", str(te))
    jobs.append(best_effort(cluster))
    put(cluster, jobs, Delay(job_id=te))
    cluster.wait_for(lambda: (cluster.state(te), cluster.job(te)["Restarts"]) == ("RUNNING", "1"), "its second start")
    assert len(cluster.put_back(jobs)) == 1


def test_a_slurmctld_that_was_restarted_has_forgotten_which_jobs_had_victims(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    te = came_back(cluster, jobs)
    cluster.stop_slurmctld()
    cluster.start_slurmctld()
    cluster.wait_state(te, "RUNNING")
    assert len(cluster.put_back(jobs)) == 2


def test_of_victims_before_slurmctld_was_restarted_the_daemons_word_counts(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    te = came_back(cluster, jobs)
    put(cluster, jobs, Delay(job_id=te, left_at=int(time.time())))
    cluster.stop_slurmctld()
    cluster.start_slurmctld()
    let_it_ask(cluster, te)
    assert (cluster.state(te), len(cluster.put_back(jobs))) == ("PENDING", 1)
    # Of victims since then the plugin knows better.
    put(cluster, jobs, Delay(job_id=te, left_at=int(time.time()) + 1000))
    cluster.wait_state(te, "RUNNING")
    assert len(cluster.put_back(jobs)) == 2


def test_a_task_that_came_back_waits_for_what_was_preempted_for_its_array(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    put(cluster, jobs)
    array = trial(cluster, "--array=0-1")
    cluster.wait_for(lambda: [job["JobState"] for job in cluster.jobs(array)] == ["RUNNING"] * 2, "both tasks")
    # Slurm preempted for the record of the waiting tasks, whose id the last task alone has kept.
    first = next(number for job in cluster.jobs(array) if (number := int(job["JobId"])) != array)
    put(cluster, jobs, Delay(job_id=first))
    await_queue(cluster, jobs)
    put_back(cluster, first)
    assert len(cluster.put_back(jobs)) == 2
    put(cluster, jobs)
    cluster.wait_state(first, "RUNNING")
    assert len(cluster.put_back(jobs)) == 3


def test_a_task_that_came_back_from_free_nodes_has_its_victim_though_another_task_had_one(
    cluster: LocalCluster,
) -> None:
    jobs = [best_effort(cluster) for _ in range(NODES - 1)]
    put(cluster, jobs)
    array = trial(cluster, "--array=0-1")
    cluster.wait_for(lambda: [job["JobState"] for job in cluster.jobs(array)] == ["RUNNING"] * 2, "both tasks")
    assert len(cluster.put_back(jobs)) == 1
    first = next(int(job["JobId"]) for job in cluster.jobs(array) if job["ArrayTaskId"] == "0")
    put(cluster, jobs, Delay(job_id=first))
    await_queue(cluster, jobs)
    # The victim has the task's node before the task may start again.
    cluster.run("scontrol", "requeue", str(first))
    cluster.wait_for(lambda: all(cluster.state(job) == "RUNNING" for job in jobs), "the victim to run again")
    cluster.wait_for(lambda: (cluster.state(first), cluster.job(first)["Restarts"]) == ("RUNNING", "1"), "its start")
    assert len(cluster.put_back(jobs)) == 2


def test_until_the_daemon_has_seen_a_return_no_job_leaves_for_it(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    put(cluster, jobs)
    te = trial(cluster)
    cluster.wait_state(te, "RUNNING")
    began = time.time()
    await_queue(cluster, jobs)
    # Slurm itself preempts none for the same job for KillWait and MessageTimeout, 10 s, since it has.
    slurms_own_s = cluster.definition.kill_wait_s + 10 + 1
    cluster.wait_for(lambda: time.time() > began + slurms_own_s, "Slurm's own wait to be over")
    cluster.run("scontrol", "requeue", str(te))
    cluster.wait_for(lambda: cluster.state(te) == "PENDING", "its return")
    back = datetime.fromisoformat(cluster.job(te)["SubmitTime"])
    # Its user may do so.
    cluster.run("scontrol", "update", f"jobid={te}", "StartTime=now")
    cluster.wait_for(lambda: (cluster.state(te), cluster.job(te)["Restarts"]) == ("RUNNING", "1"), "its second start")
    again = datetime.fromisoformat(cluster.job(te)["StartTime"])
    assert (again - back).total_seconds() >= UNTIL_SAID_S
    assert len(cluster.put_back(jobs)) == 2
