"""The lever `plugin` through faults, on a real Slurm: daemons that are killed, slurmctld that restarts, a flood."""

from __future__ import annotations

import pwd
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import Daemon, run_tesched, running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import Patience
from tesched_testcluster.users import ordinary_user

from tests.cluster import test_plugin_lever
from tests.cluster.test_plugin import NODES, best_effort, full
from tests.cluster.test_plugin import others_trial as trial
from tests.cluster.test_plugin_lever import configure, marked, wait_marked

pytestmark = pytest.mark.slurm


#: fixtures, as there
shared, cluster = test_plugin_lever.shared, test_plugin_lever.cluster


def preemptions(daemon: Daemon, jobs: list[int]) -> list[int]:
    """Return how often each job was preempted, by the state store."""
    often = {job["job_id"]: job["preemptions"] for job in daemon.json("jobs")["jobs"]}
    return [often[job_id] for job_id in jobs]


def await_counted(daemon: Daemon, jobs: list[int], count: int) -> None:
    """Wait until so many preemptions of these jobs are counted: for a minute what Slurm did may be unclear."""
    patience = Patience()
    while sum(preemptions(daemon, jobs)) != count:
        assert not patience.is_over(), f"counted are {preemptions(daemon, jobs)}, not {count}"
        time.sleep(0.1)


@pytest.mark.gate
def test_a_daemon_that_is_killed_again_and_again_counts_each_preemption_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    jobs: list[int] = []
    trials: list[int] = []
    for victims in range(1, NODES):
        with suppress(ProcessLookupError), running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
            jobs = jobs or full(cluster)
            wait_marked(cluster, jobs[victims - 1 :])
            await_counted(daemon, jobs, victims - 1)
            raise ProcessLookupError
        trials.append(trial(cluster, f"--job-name=te-{victims}"))
        cluster.wait_state(trials[-1], "RUNNING")
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        await_counted(daemon, jobs, NODES - 1)
        assert preemptions(daemon, jobs) == [1] * (NODES - 1) + [0]
        assert sorted(cluster.put_back(jobs)) == jobs[:-1]
        orders = daemon.json("orders")["orders"]
        assert sorted(order["order"]["preemptor"] for order in orders) == trials


def test_a_restart_of_slurmctld_loses_neither_marks_nor_what_it_did(cluster: LocalCluster, tmp_path: Path) -> None:
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        stubborn = "trap '' TERM; for _ in $(seq 3000); do sleep 0.1; done"
        jobs = [best_effort(cluster, wrap=stubborn), *(best_effort(cluster) for _ in range(NODES - 1))]
        wait_marked(cluster, jobs)
        one = trial(cluster, "--job-name=te-1")
        # It stays until KillWait has passed: slurmctld goes away while its victim is on its way.
        cluster.wait_for(lambda: cluster.state(jobs[0]) != "RUNNING", "the victim to be on its way")
        cluster.stop_slurmctld()
        cluster.start_slurmctld()
        cluster.wait_state(one, "RUNNING")
        two = trial(cluster, "--job-name=te-2")
        cluster.wait_state(two, "RUNNING")
        often = Counter(cluster.put_back(jobs))
        assert set(often.values()) == {1}
        await_counted(daemon, jobs, len(often))
        assert max(preemptions(daemon, jobs)) == 1


@pytest.mark.gate
def test_a_flood_of_te_jobs_has_no_more_victims_than_the_limits_allow(cluster: LocalCluster, tmp_path: Path) -> None:
    configure(cluster, tmp_path, "max_preemptions_per_hour = 2\n")
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        jobs = full(cluster)
        wait_marked(cluster, jobs[:2])
        trials = [trial(cluster, f"--job-name=te-{number}", wrap="sleep 1") for number in range(3 * NODES)]
        for job_id in trials:
            cluster.wait_state(job_id, "COMPLETED")
        assert sorted(cluster.put_back(jobs)) == jobs[:2]
        await_counted(daemon, jobs, 2)
        assert marked(cluster) == []
    undone = run_tesched("undo", TESCHED_CONFIG=str(tmp_path / "tesched.toml"))
    assert undone.returncode == 0, undone.stdout + undone.stderr


@pytest.mark.gate
def test_a_user_that_has_caused_enough_is_excluded_on_a_real_slurm(cluster: LocalCluster, tmp_path: Path) -> None:
    configure(cluster, tmp_path, "max_victims_for_te_user_hour = 1\n")
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        jobs = full(cluster)
        wait_marked(cluster, jobs)
        cluster.wait_state(trial(cluster, "--job-name=te-1"), "RUNNING")
        barred = f"barred {pwd.getpwnam(ordinary_user()).pw_uid}\n"
        cluster.wait_for(lambda: barred in cluster.marks.read_text(), "the user to be barred")
        two = trial(cluster, "--job-name=te-2")
        cluster.wait_for(
            lambda: "guard.max_victims_for_te_user_hour" in daemon.ask("explain", str(two)).stdout,
            "the reason",
        )
        assert len(cluster.put_back(jobs)) == 1
        assert cluster.state(two) == "PENDING"
