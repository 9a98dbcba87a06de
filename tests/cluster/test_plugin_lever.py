"""The lever `plugin` on a real Slurm: the daemon marks, Slurm preempts, and the daemon sees what Slurm did."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import run_tesched, running_daemon
from tesched_testcluster.local import LocalCluster

from tests.cluster.test_plugin import DEFINITION, NODES, best_effort, build_plugin, full, let_it_try_again
from tests.cluster.test_plugin import others_trial as trial
from tests.cluster.test_users_word import waited_s

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalCluster]:
    """Give the nodes that these tests share."""
    build_plugin()
    with LocalCluster(DEFINITION) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster, tmp_path: Path) -> LocalCluster:
    """Give them idle, without marks, and a configuration with the lever in `tmp_path`/conf.d."""
    shared.reset()
    shared.marks.unlink(missing_ok=True)
    configure(shared, tmp_path)
    return shared


def configure(cluster: LocalCluster, folder: Path, guard: str = "") -> None:
    """Write the lever, and these limits besides, into a drop-in."""
    (folder / "conf.d").mkdir(exist_ok=True)
    lever = f'[guard]\nlever = "plugin"\n{guard}\n[slurm]\nmarks = "{cluster.marks}"\n'
    (folder / "conf.d" / "plugin.toml").write_text(lever)


def marked(cluster: LocalCluster) -> list[int]:
    """Return the jobs that the marks file names."""
    lines = cluster.marks.read_text().splitlines() if cluster.marks.is_file() else []
    return [int(line.split()[0]) for line in lines[1:-1]]


def wait_marked(cluster: LocalCluster, jobs: list[int]) -> None:
    """Wait until these jobs are marked, and no other."""
    cluster.wait_for(lambda: marked(cluster) == sorted(jobs), f"marks of {jobs}")


@pytest.mark.gate
def test_slurm_preempts_the_cheapest_marked_job_and_the_daemon_records_it(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        jobs = full(cluster)
        wait_marked(cluster, jobs)
        one = trial(cluster, "--job-name=te-1", wrap="sleep 5")
        cluster.wait_state(one, "RUNNING", "COMPLETED")
        assert cluster.put_back(jobs) == [jobs[0]], "all have the same score, so the lowest id goes first"
        cluster.wait_for(lambda: "Slurm preempted it" in daemon.ask("explain", str(one)).stdout, "the order")
        cluster.wait_state(jobs[0], "RUNNING")
        # P is 1: it is not marked again, and a second TE job costs another one.
        wait_marked(cluster, jobs[1:])
        two = trial(cluster, "--job-name=te-2", wrap="sleep 5")
        cluster.wait_state(two, "RUNNING", "COMPLETED")
        assert sorted(cluster.put_back(jobs)) == jobs[:2]
        assert int(cluster.job(jobs[0])["Restarts"]) == 1


@pytest.mark.gate
def test_slurm_goes_on_without_the_daemon_and_the_next_one_takes_over(cluster: LocalCluster, tmp_path: Path) -> None:
    jobs: list[int] = []
    with suppress(ProcessLookupError), running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        jobs += full(cluster)
        wait_marked(cluster, jobs)
        raise ProcessLookupError  # the daemon is killed
    one = trial(cluster, "--job-name=te-1", wrap="sleep 300")
    cluster.wait_state(one, "RUNNING")
    assert cluster.put_back(jobs) == [jobs[0]]
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        cluster.wait_for(lambda: "Slurm preempted it" in daemon.ask("explain", str(one)).stdout, "the order")
        often = {job["job_id"]: job["preemptions"] for job in daemon.json("jobs")["jobs"]}
        assert [often[job_id] for job_id in jobs] == [1, 0, 0, 0]
    wait_marked(cluster, jobs[1:])
    undone = run_tesched("undo", TESCHED_CONFIG=str(tmp_path / "tesched.toml"))
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert marked(cluster) == []


def test_shadow_mode_marks_no_job(cluster: LocalCluster, tmp_path: Path) -> None:
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS, mode="shadow") as daemon:
        best_effort(cluster)
        cluster.wait_for(lambda: "may be preempted by Slurm (1 new" in daemon.log.read_text(), "the record")
    assert not cluster.marks.exists()


def test_the_doctor_says_that_slurm_obeys_the_marks_and_of_which_release_the_plugin_is(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS):
        said = run_tesched("doctor", TESCHED_CONFIG=str(tmp_path / "tesched.toml")).stdout
        flat = " ".join(said.split())
        assert f"slurmctld obeys the marks in {cluster.marks}" in flat
        assert "TE jobs to slurmctld are those of partition dev, partition te" in flat
        release = cluster.run("slurmctld", "-V").stdout.split()[-1]
        assert f"is of Slurm {release}, as slurmctld is" in flat


@pytest.mark.gate
def test_a_file_that_another_process_touches_is_written_anew_and_is_red_until_then(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        jobs = full(cluster)
        wait_marked(cluster, jobs)
        cluster.marks.write_text("garbage")
        wait_marked(cluster, jobs)
        # What can't be mended stays red: a folder stands where the file is to be.
        cluster.marks.unlink()
        cluster.marks.mkdir()
        cluster.wait_for(lambda: "marks cannot be written" in daemon.json("status")["daemon"]["marks_trouble"], "red")
        cluster.marks.rmdir()
        wait_marked(cluster, jobs)
        cluster.wait_for(lambda: daemon.json("status")["daemon"]["marks_trouble"] == "", "no red")
        te = trial(cluster, "--job-name=te-1", wrap="sleep 5")
        cluster.wait_state(te, "RUNNING", "COMPLETED")


def test_a_te_job_that_slurm_takes_for_none_is_reported_as_such(cluster: LocalCluster, tmp_path: Path) -> None:
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        wait_marked(cluster, full(cluster))
        other = trial(cluster, "--job-name=te-1", "--partition=main", wrap="true")
        cluster.wait_for(
            lambda: (
                "Slurm preempts none for it: neither its partition (main)" in daemon.ask("explain", str(other)).stdout
            ),
            "the reason",
        )


@pytest.mark.gate
def test_a_te_job_that_requeues_itself_has_no_second_victim_before_its_wait_is_over(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "conf.d" / "run.toml").write_text("[guard]\nuseful_run_s = 60\nretry_after_s = 3600\n")
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS, poll_interval_s=0.2):
        jobs = filled(cluster)
        te = trial(cluster, "--job-name=te-again", wrap=f"exit {cluster.definition.requeue_exit}")
        cluster.wait_for(lambda: int(cluster.job(te)["Restarts"]) > 0, "its return")
        cluster.wait_for(lambda: te in marked(cluster), "its line in the file")
        let_it_try_again(cluster)
        assert len(cluster.put_back(jobs)) == 1
        assert len([one for one in marked(cluster) if one in jobs]) == NODES - 1, "any other TE job may have them"


def test_nor_has_it_one_once_slurmctld_was_restarted(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "conf.d" / "run.toml").write_text("[guard]\nuseful_run_s = 60\nretry_after_s = 3600\n")
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS, poll_interval_s=0.2):
        jobs = filled(cluster)
        te = trial(cluster, "--job-name=te-again", wrap=f"exit {cluster.definition.requeue_exit}")
        known = re.compile(rf"^{te} {te} 0 0 requeue 0 0 [1-9]\d* \d+$", re.MULTILINE)
        cluster.wait_for(lambda: known.search(cluster.marks.read_text()), "when its victim left, in the file")
        cluster.stop_slurmctld()
        cluster.start_slurmctld()
        cluster.wait_for(lambda: cluster.job(te)["Reason"] not in {"None", "BeginTime"}, "the end of its begin time")
        let_it_try_again(cluster)
        assert len(cluster.put_back(jobs)) == 1


def test_a_te_job_that_requeues_itself_after_each_start_costs_two_victims_at_most(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "conf.d" / "run.toml").write_text("[guard]\nuseful_run_s = 60\nretry_after_s = 1\n")
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS, poll_interval_s=0.2) as daemon:
        jobs = filled(cluster)
        te = trial(cluster, "--job-name=te-again", wrap=f"exit {cluster.definition.requeue_exit}")
        cluster.wait_for(lambda: "it is left alone" in daemon.ask("explain", str(te)).stdout, "it to be left alone")
        let_it_try_again(cluster)
        # It may have started before its victim did, on the node that both had left, once more or twice.
        assert len(cluster.put_back(jobs)) in {1, 2}


def filled(cluster: LocalCluster) -> list[int]:
    """Fill the cluster with marked jobs, one a node."""
    jobs = [cluster.sbatch("--gres=gpu:8", "--output=/dev/null", wrap="sleep 300") for _ in range(NODES)]
    wait_marked(cluster, jobs)
    return jobs


@pytest.mark.gate
def test_slurm_preempts_no_job_for_a_trial_before_its_owners_patience_is_over(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS, poll_interval_s=0.2) as daemon:
        jobs = filled(cluster)
        patient = trial(cluster, "--job-name=te-1", "--comment=te patience=10", "--partition=te", wrap="sleep 300")
        cluster.wait_for(lambda: "[patience]" in daemon.ask("explain", str(patient)).stdout, "the reason")
        # One that is not patient comes later, has its victim, and the patient one does not take that node.
        other = trial(cluster, "--job-name=te-2", "--partition=te", wrap="sleep 300")
        cluster.wait_state(other, "RUNNING")
        assert cluster.put_back(jobs) == [jobs[0]]
        cluster.wait_state(patient, "RUNNING")
        assert waited_s(cluster, patient) >= 10
        assert sorted(cluster.put_back(jobs)) == jobs[:2]
