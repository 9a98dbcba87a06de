"""Two victims of one order that save their work, on a real Slurm: the first to leave does not start again meanwhile.

A requeued job may start again after 6 s here (22.05), or after 1 s (26.05), and Slurm's backfill then starts it on the
half that it has left: the other one may run for an hour more, by its time limit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tesched_core.model.actions import FailureKind, Reason, ReasonCode, SetField
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import Client
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import (
    Daemon,
    crashing_daemon,
    run_tesched,
    running_daemon,
    write_config,
)
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.load import EventName, LoadJob, await_begun, hold, keep_saving, read_events, submit
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

pytestmark = [pytest.mark.slurm, pytest.mark.release]
WHY = Reason(code=ReasonCode.ADMIN, text="a test")
#: seconds; a begin time that lies further ahead is none of Slurm's own, and none of tesched's lies further than a step
#: and the rest of a second
FAR_S, STEP_S = 45.0, 91.0
#: step before which a daemon stops itself: it is killed before
NEVER = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Two jobs that save their work on the only node, and a trial that needs all of it."""

    cluster: LocalCluster
    daemon: Daemon
    #: the victim that has left, and the one that saves for as long as there is this file
    left: int
    saves: int
    saving: Path
    te: int

    def begins_in_s(self) -> float:
        return begin_time(self.cluster, self.left) - time.time()

    def await_deferred(self) -> None:
        self.cluster.wait_for(lambda: self.begins_in_s() > FAR_S, "the begin time of the one that has left to be later")


def begin_time(cluster: LocalCluster, job_id: int) -> float:
    """Return from when on a job may start; 0: it says nothing."""
    said = cluster.job(job_id)["EligibleTime"]
    return 0.0 if said == "Unknown" else time.mktime(time.strptime(said, "%Y-%m-%dT%H:%M:%S"))


def half(cluster: LocalCluster, name: str, minutes: int) -> int:
    options = ("--comment=grace=86400", f"--time={minutes}")
    job = LoadJob(name=name, kind="be", cpus=4, gpus=4, ticks=2, on_notice="exit", options=options)
    return submit(cluster, job, cluster.shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """Two best-effort jobs that hold a half of the only node each."""

    cluster: LocalCluster
    jobs: tuple[int, int]
    #: each saves its work for as long as there is its file
    saving: tuple[Path, Path]

    def first_has_left(self, daemon: Daemon) -> Stage:
        """Submit a trial that needs the whole node; once both have had their notice, let the first one leave."""
        cluster, (left, saves) = self.cluster, self.jobs
        options = ("-c8", "--mem=1000", "--gres=gpu:8", "--output=/dev/null")
        te = cluster.sbatch("--job-name=te", *options, wrap="sleep 1000", user=ordinary_user())

        def noticed() -> bool:
            events = read_events(cluster.shared)
            return {left, saves} <= {one.job_id for one in events if one.name is EventName.NOTICE}

        cluster.wait_for(noticed, "both notices")
        self.saving[0].unlink()
        cluster.wait_for(lambda: cluster.put_back([left]) == [left], "the first one to be put back")
        return Stage(cluster=cluster, daemon=daemon, left=left, saves=saves, saving=self.saving[1], te=te)


@pytest.fixture
def halves() -> Iterator[Halves]:
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=1),))) as cluster:
        for kind in ("be1", "be2"):
            hold(cluster.shared, kind)
        saving = keep_saving(cluster.shared, "be1"), keep_saving(cluster.shared, "be2")
        jobs = half(cluster, "be1-left", 30), half(cluster, "be2-saves", 60)
        await_begun(cluster, jobs, cluster.shared)
        yield Halves(cluster=cluster, jobs=jobs, saving=saving)


@pytest.fixture
def stage(halves: Halves, tmp_path: Path, one_client: ClientChoice) -> Iterator[Stage]:
    """Give the case right after the first one has left."""
    with running_daemon(halves.cluster, tmp_path, one_client) as daemon:
        yield halves.first_has_left(daemon)


@pytest.mark.gate
def test_one_that_has_left_does_not_start_again_before_the_other_one_has(stage: Stage) -> None:
    cluster, daemon = stage.cluster, stage.daemon
    stage.await_deferred()
    said = " ".join(daemon.ask("explain", str(stage.left)).stdout.split())
    assert "does not start again before the order ends" in said
    stage.saving.unlink()
    cluster.wait_state(stage.te, "RUNNING")
    assert sorted(cluster.put_back([stage.left, stage.saves])) == sorted([stage.left, stage.saves])
    cluster.wait_for(lambda: stage.begins_in_s() <= 0, "its begin time to be put back")
    cluster.run("scancel", str(stage.te))
    cluster.wait_state(stage.left, "RUNNING")
    assert daemon.json("status")["tally"]["futile"] == 0


def test_its_begin_time_is_put_later_for_as_long_as_the_other_one_saves(stage: Stage) -> None:
    stage.await_deferred()
    first = begin_time(stage.cluster, stage.left)
    stage.cluster.wait_for(
        lambda: begin_time(stage.cluster, stage.left) > first, "it to be put later", timeout_s=STEP_S
    )
    assert stage.cluster.state(stage.left) == "PENDING"
    assert 0 < stage.begins_in_s() <= STEP_S


def test_a_trial_that_is_cancelled_lets_it_start_again_at_once(stage: Stage) -> None:
    stage.await_deferred()
    stage.cluster.run("scancel", str(stage.te))
    stage.cluster.wait_state(stage.left, "RUNNING")


def test_its_user_may_start_it_all_the_same(stage: Stage) -> None:
    stage.await_deferred()
    stage.cluster.run("scontrol", "update", f"jobid={stage.left}", "starttime=now")
    stage.cluster.wait_state(stage.left, "RUNNING")


def test_undo_after_a_crash_lets_it_start_again(halves: Halves, tmp_path: Path, one_client: ClientChoice) -> None:
    config = write_config(halves.cluster, tmp_path, one_client)
    with crashing_daemon(config, NEVER) as daemon:
        stage = halves.first_has_left(daemon)
        stage.await_deferred()
    assert stage.begins_in_s() <= STEP_S, "without `undo` it would pass by itself"
    said = run_tesched("undo", TESCHED_CONFIG=str(config))
    assert (said.returncode, said.stderr) == (1, ""), said.stdout
    assert f"job {stage.saves} has had its notice, and may leave yet" in " ".join(said.stdout.split())
    assert stage.begins_in_s() < FAR_S / 2, "Slurm's own may lie ahead by some seconds"
    halves.cluster.wait_state(stage.left, "RUNNING")


def set_begin(client: Client, job_id: int, begin: int) -> FailureKind | None:
    """Set a begin time; return why that failed."""
    outcome = client.actuator.act(
        SetField(job_id=JobId(job_id), reason=WHY, field=Field.BEGIN, value=begin, previous=0)
    )
    return outcome.failure.kind if outcome.failure else None


def eligible(client: Client, job_id: JobId) -> float | None:
    seen = client.observer.observe()
    assert isinstance(seen, Snapshot), seen
    return seen.jobs[job_id].eligible_time


def test_begin_time_of_a_requeued_job_is_put_later_and_back(cluster: LocalCluster, connect: Connect) -> None:
    client, job_id = connect(cluster), JobId(cluster.sbatch(wrap="exec sleep 100"))
    cluster.wait_state(job_id, "RUNNING")
    cluster.run("scontrol", "requeue", str(job_id))
    cluster.wait_state(job_id, "PENDING")
    own, until = eligible(client, job_id), int(time.time()) + 3600
    assert own is not None
    assert (set_begin(client, job_id, until), eligible(client, job_id)) == (None, until)
    assert int(cluster.job(job_id)["Priority"]) > 0
    # No sooner than Slurm would have let it: its launch would be refused, and it would be FAILED.
    assert set_begin(client, job_id, int(own)) is None
    cluster.wait_state(job_id, "RUNNING")
    assert set_begin(client, job_id, until) is FailureKind.ALREADY_DONE
    assert set_begin(client, 999_999, until) is FailureKind.NOT_FOUND


def test_begin_time_of_a_held_job_changes_and_it_stays_held(cluster: LocalCluster, connect: Connect) -> None:
    client, job_id = connect(cluster), JobId(cluster.sbatch("--hold", wrap="exec sleep 100"))
    until = int(time.time()) + 3600
    assert (set_begin(client, job_id, until), eligible(client, job_id)) == (None, until)
    assert set_begin(client, job_id, until - 7200) is None
    passed = eligible(client, job_id)
    assert passed is None or passed <= time.time(), "a time that has passed is now"
    assert cluster.job(job_id)["Priority"] == "0"
