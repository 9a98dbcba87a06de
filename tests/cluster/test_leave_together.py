"""Two victims of one order on a real Slurm: the one without a signal does not leave while the other one saves.

It would be eligible again seconds later, and Slurm's backfill would put it back on the half that it has given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.load import EventName, LoadJob, await_begun, hold, keep_saving, read_events, submit
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

pytestmark = [pytest.mark.slurm, pytest.mark.release]


def half_full_each(cluster: LocalCluster) -> tuple[int, int]:
    """Let two jobs hold a half of the only node each: one saves its work until it is let, one has no signal."""
    slow = LoadJob(
        name="be-slow", kind="be", cpus=4, gpus=4, ticks=2, on_notice="exit", options=("--comment=grace=86400",)
    )
    saves = submit(cluster, slow, cluster.shared)
    options = ("-c4", "--mem=1000", "--gres=gpu:4", "--time=30", "--output=/dev/null")
    quick = cluster.sbatch("--job-name=be-quick", *options, wrap="sleep 1000")
    await_begun(cluster, [saves], cluster.shared)
    cluster.wait_state(quick, "RUNNING")
    return saves, quick


def trial_with_a_notice(cluster: LocalCluster, saves: int) -> int:
    """Submit a trial that needs the whole node, and wait until this job has had its notice."""
    options = ("-c8", "--mem=1000", "--gres=gpu:8", "--output=/dev/null")
    te = cluster.sbatch("--job-name=te", *options, wrap="sleep 1000", user=ordinary_user())

    def noticed() -> bool:
        return any(one.job_id == saves and one.name is EventName.NOTICE for one in read_events(cluster.shared))

    cluster.wait_for(noticed, "the notice of the one that saves")
    return te


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One victim under notice, and one without a signal beside it."""

    cluster: LocalCluster
    daemon: Daemon
    #: the one that saves does so while this file is there
    saving: Path
    saves: int
    quick: int
    te: int

    def quick_has_not_left(self) -> bool:
        return (self.cluster.state(self.quick), self.cluster.put_back([self.quick])) == ("RUNNING", [])


@pytest.fixture
def stage(tmp_path: Path, one_client: ClientChoice) -> Iterator[Stage]:
    """Give the case right after the notice."""
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=1),))) as cluster:
        hold(cluster.shared, "be")
        saving = keep_saving(cluster.shared, "be")
        saves, quick = half_full_each(cluster)
        with running_daemon(cluster, tmp_path, one_client) as daemon:
            te = trial_with_a_notice(cluster, saves)
            yield Stage(cluster=cluster, daemon=daemon, saving=saving, saves=saves, quick=quick, te=te)


@pytest.mark.gate
def test_the_one_without_a_signal_runs_until_the_other_one_has_left(stage: Stage) -> None:
    cluster, daemon = stage.cluster, stage.daemon
    daemon.await_polls(cluster, 4)
    assert stage.quick_has_not_left()
    said = " ".join(daemon.ask("explain", str(stage.quick)).stdout.split())
    assert "it is preempted once the other victims of the order have left" in said
    stage.saving.unlink()
    cluster.wait_state(stage.te, "RUNNING")
    assert sorted(cluster.put_back([stage.saves, stage.quick])) == sorted([stage.saves, stage.quick])
    daemon.await_polls(cluster)
    assert daemon.json("status")["tally"]["futile"] == 0


def test_a_te_job_that_is_cancelled_meanwhile_has_cost_it_nothing(stage: Stage) -> None:
    cluster, daemon = stage.cluster, stage.daemon
    cluster.run("scancel", str(stage.te))
    daemon.await_polls(cluster)
    stage.saving.unlink()
    cluster.wait_for(lambda: cluster.put_back([stage.saves]) == [stage.saves], "the one that saved to be put back")
    daemon.await_polls(cluster)
    assert stage.quick_has_not_left()
