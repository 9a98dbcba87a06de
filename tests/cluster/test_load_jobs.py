"""Jobs of the test cluster's load (`job.sh`) that get a notice, on a real Slurm: each does what it should.

No job ends, and none is killed while it saves, before the test lets it: it is held by a file, and KillWait is long.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.load import Event, EventName, LoadJob, OnNotice, hold, read_events, submit
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import HANG_S

pytestmark = pytest.mark.slurm

SAVES_S = 0.3


@pytest.fixture(scope="module")
def one_node() -> Iterator[LocalCluster]:
    """Give the node that these tests share."""
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=1),), kill_wait_s=round(HANG_S))) as cluster:
        yield cluster


@pytest.fixture
def node(one_node: LocalCluster) -> LocalCluster:
    """Give it idle."""
    one_node.reset()
    return one_node


def events_of(cluster: LocalCluster, job_id: int) -> tuple[Event, ...]:
    """Return what one job has written down so far."""
    return tuple(event for event in read_events(cluster.shared) if event.job_id == job_id)


def wait_event(cluster: LocalCluster, job_id: int, name: EventName) -> Event:
    """Wait until a job has written an event down, and return its first."""

    def found() -> list[Event]:
        return [event for event in events_of(cluster, job_id) if event.name is name]

    return cluster.wait_for(found, f"{name} of job {job_id}")[0]


def wait_ticks(cluster: LocalCluster, job_id: int, ticks: int) -> None:
    """Wait until a job that writes checkpoints by itself has done so many ticks."""
    cluster.wait_for(
        lambda: max((event.ticks_done for event in events_of(cluster, job_id)), default=0) >= ticks,
        f"{ticks} ticks of job {job_id}",
    )


def notify(cluster: LocalCluster, job_id: int) -> None:
    """Send the job the signal that it has declared."""
    cluster.run("scancel", "--signal=USR1", "--batch", str(job_id))


@pytest.mark.parametrize("on_notice", ["exit", "requeue"])
def test_a_noticed_job_writes_a_checkpoint_comes_back_and_loses_no_tick(
    node: LocalCluster, on_notice: OnNotice
) -> None:
    held = hold(node.shared, "be")
    job = LoadJob(
        name="be",
        kind="be",
        ticks=20,
        tick_s=0.05,
        gpus=1,
        on_notice=on_notice,
        checkpoint_s=SAVES_S,
        checkpoint_every=10,
    )
    job_id = submit(node, job, node.shared)
    wait_ticks(node, job_id, 10)
    notify(node, job_id)
    left = wait_event(node, job_id, EventName.LEAVE)
    notice = wait_event(node, job_id, EventName.NOTICE)
    assert left.ticks_done == notice.ticks_done
    assert left.time - notice.time >= SAVES_S
    restart = wait_event(node, job_id, EventName.RESTART)
    assert (restart.ticks_done, restart.restarts) == (left.ticks_done, 1)
    held.unlink()
    fields = node.wait_state(job_id, "COMPLETED")
    assert (fields["Restarts"], fields["ExitCode"]) == ("1", "0:0")
    names = [event.name for event in events_of(node, job_id) if event.name is not EventName.CHECKPOINT]
    assert names == [EventName.START, EventName.NOTICE, EventName.LEAVE, EventName.RESTART, EventName.DONE]
    assert wait_event(node, job_id, EventName.DONE).ticks_done == 20


def test_a_job_that_ignores_its_notice_works_on(node: LocalCluster) -> None:
    held = hold(node.shared, "be")
    job_id = submit(node, LoadJob(name="be", kind="be", ticks=2, on_notice="ignore"), node.shared)
    wait_event(node, job_id, EventName.START)
    notify(node, job_id)
    wait_event(node, job_id, EventName.NOTICE)
    held.unlink()
    assert node.wait_state(job_id, "COMPLETED")["Restarts"] == "0"
    names = [event.name for event in events_of(node, job_id)]
    assert names == [EventName.START, EventName.NOTICE, EventName.DONE]


def test_a_job_that_stays_writes_a_checkpoint_and_loses_little_to_a_requeue(node: LocalCluster) -> None:
    held = hold(node.shared, "be")
    job_id = submit(node, LoadJob(name="be", kind="be", ticks=10, on_notice="stay"), node.shared)
    wait_event(node, job_id, EventName.START)
    notify(node, job_id)
    saved = wait_event(node, job_id, EventName.CHECKPOINT)
    node.run("scontrol", "requeue", str(job_id))
    restart = wait_event(node, job_id, EventName.RESTART)
    assert restart.ticks_done == saved.ticks_done
    held.unlink()
    assert node.wait_state(job_id, "COMPLETED")["Restarts"] == "1"


def test_a_job_that_finishes_on_its_notice_does_not_come_back(node: LocalCluster) -> None:
    hold(node.shared, "be")
    job_id = submit(node, LoadJob(name="be", kind="be", ticks=2, on_notice="finish"), node.shared)
    wait_event(node, job_id, EventName.START)
    notify(node, job_id)
    assert node.wait_state(job_id, "COMPLETED")["Restarts"] == "0"


def test_a_job_that_saves_on_sigterm_declares_nothing_and_loses_no_tick(node: LocalCluster) -> None:
    held = hold(node.shared, "be")
    job = LoadJob(
        name="be", kind="be", ticks=20, tick_s=0.05, on_notice="term", checkpoint_s=SAVES_S, checkpoint_every=10
    )
    job_id = submit(node, job, node.shared)
    wait_ticks(node, job_id, 10)
    assert "Comment" not in node.job(job_id)
    node.run("scontrol", "requeue", str(job_id))
    left, restart = (wait_event(node, job_id, name).ticks_done for name in (EventName.LEAVE, EventName.RESTART))
    assert left == restart
    held.unlink()
    assert node.wait_state(job_id, "COMPLETED")["Restarts"] == "1"
