"""New jobs are found between two polls of a real Slurm, without the submission hook: by their scripts, or by tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tesched_core.model.actions import Failure
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.run_command import Commands
from tesched_slurm.submission_signs import ScriptFolders, SubmissionCount
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import Daemon, daemon_of, write_config
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

#: seconds between two polls: what happens in a test comes of what was found
POLL_S = 3600.0
#: what a victim and a trial ask for
WHOLE = ("--exclusive", "-N1")


@contextmanager
def seldom_polling(cluster: LocalCluster, folder: Path, client: ClientChoice, *more: str) -> Iterator[Daemon]:
    """Run a daemon that polls each hour, with these lines in its table [loop]."""
    config = write_config(cluster, folder, client, poll_interval_s=POLL_S)
    text = config.read_text().replace("watch_state_folder = false", "\n".join(more))
    config.write_text(text.replace("[loop]", f"[loop]\nbackoff_max_s = {POLL_S}"))
    with daemon_of(cluster, config) as daemon:
        yield daemon


@pytest.fixture
def full(make_cluster: MakeCluster) -> LocalCluster:
    """Give one node with a best-effort job on all of it."""
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    cluster.wait_state(cluster.sbatch("--job-name=be-1", *WHOLE, wrap="sleep 1000"), "RUNNING")
    return cluster


@pytest.mark.gate
def test_a_trial_is_found_by_its_script_and_costs_no_rpc_before(
    full: LocalCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    with seldom_polling(full, tmp_path, one_client, "watch_state_folder = true") as daemon:
        trial = full.sbatch("--job-name=te-1", *WHOLE, wrap="sleep 1000")
        full.wait_state(trial, "RUNNING")
        shown = daemon.json("status")["daemon"]
        assert "sdiag" not in shown["calls"]
        assert shown["new_jobs"].startswith("batch jobs at once, by their scripts in /")


def test_a_trial_is_found_after_slurmctld_was_restarted(
    full: LocalCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    more = ("watch_state_folder = true", "tests_per_minute = 0")
    with seldom_polling(full, tmp_path, one_client, *more):
        full.stop_slurmctld()
        full.start_slurmctld()
        # Until its node has registered anew, no victim would help a trial.
        full.wait_for(lambda: full.node("n1")["State"] == "ALLOCATED", "the node to register")
        full.wait_state(full.sbatch("--job-name=te-1", *WHOLE, wrap="sleep 1000"), "RUNNING")


def test_a_trial_by_salloc_is_found_by_tests_while_a_be_job_runs(
    full: LocalCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    more = ("watch_state_folder = false", "tests_per_minute = 600")
    with seldom_polling(full, tmp_path, one_client, *more) as daemon:
        full.run("salloc", "--job-name=te-1", *WHOLE, "true")
        shown = daemon.json("status")["daemon"]
        assert shown["calls"]["sdiag"] > 0
        assert "loop.watch_state_folder is off" in shown["new_jobs"]


def test_scripts_are_seen_to_come_and_not_to_go(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),), settings={"MinJobAge": "2"}))
    said = cluster.run("scontrol", "show", "config").stdout
    found = re.search(r"^StateSaveLocation\s*=\s*(\S+)$", said, re.MULTILINE)
    assert found is not None
    folders = ScriptFolders(folder=Path(found[1]))
    assert folders.has_new(), "one may have come before"
    assert not folders.has_new()
    job = cluster.sbatch(wrap="true")
    assert folders.has_new()
    array = cluster.sbatch("--array=0-3", "--begin=now+1day", wrap="true")
    assert folders.has_new()
    cluster.run("salloc", "true")
    assert not folders.has_new(), "no script"
    scripts = Path(found[1]) / f"hash.{job % 10}" / f"job.{job}"
    cluster.wait_for(lambda: not scripts.exists(), "Slurm to forget the job")
    assert not folders.has_new()
    cluster.run("scancel", str(array))


def test_each_kind_of_submission_is_counted_and_nothing_else(cluster: LocalCluster) -> None:
    count = SubmissionCount(commands=Commands(slurm_conf=str(cluster.slurm_conf)))
    assert count.has_new() is True, "one may have come before"
    assert count.has_new() is False
    for submit in (
        lambda: cluster.sbatch(wrap="true"),
        lambda: cluster.run("salloc", "true"),
        lambda: cluster.run("srun", "true"),
        lambda: cluster.sbatch("--hold", wrap="true"),
    ):
        submit()
        assert count.has_new() is True
        assert count.has_new() is False
    runs = cluster.sbatch(wrap="sleep 1000")
    assert count.has_new() is True
    cluster.wait_state(runs, "RUNNING")
    cluster.run("scontrol", "update", f"jobid={runs}", "comment=x")
    cluster.run("scancel", str(runs))
    cluster.wait_state(runs, "CANCELLED")
    assert count.has_new() is False
    cluster.run("sdiag", "-r")
    assert count.has_new() is False
    assert count.commands.calls["sdiag"] == 13


def test_a_count_without_slurmctld_is_a_failure(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),), settings={"MessageTimeout": "2"}))
    count = SubmissionCount(commands=Commands(slurm_conf=str(cluster.slurm_conf), timeout_s=5))
    assert count.has_new() is True
    cluster.stop_slurmctld()
    assert isinstance(count.has_new(), Failure)
    cluster.start_slurmctld()
    cluster.wait_for(lambda: count.has_new() is False, "an answer")
