"""Faults in the middle of a grace period, in containers: nothing is lost, nothing done twice, and it goes on by itself.

Three nodes are full of best-effort jobs that work on through their grace period; a trial gets one of them to yield.
Then a node dies, slurmctld is away, PostgreSQL is restarted, or the daemon is cut off from both. How long the trial
took in each case is printed (`pytest -rP`).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tesched_testcluster.docker import SHARED, DockerCluster
from tesched_testcluster.docker_service import docker_definition
from tesched_testcluster.load import HOLD, Event, EventName, LoadJob, read_events
from tesched_testcluster.stage import DockerStage

pytestmark = pytest.mark.docker

NODES = 3
#: seconds of the victim's grace period, so long that a fault comes within it on any machine
GRACE_S = 60
#: seconds for which a service is away: the grace period is over before it is back
AWAY_S = GRACE_S + 10


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    """Give the cluster that the tests of this file share."""
    with DockerCluster(docker_definition(NODES)) as cluster:
        yield cluster


def a_node_dies(cluster: DockerCluster, victim: int) -> None:
    """Cut the power of the node on which resources are freed."""
    node = cluster.job(victim)["NodeList"]
    cluster.kill_node(node)
    cluster.revive_node(node)


def slurmctld_is_away(cluster: DockerCluster, victim: int) -> None:
    """Stop slurmctld in good order for a while; the victim's grace period ends meanwhile."""
    assert cluster.state(victim) == "RUNNING"
    cluster.stop_slurmctld()
    time.sleep(AWAY_S)  # the outage is the test
    cluster.start_slurmctld()


def postgresql_restarts(cluster: DockerCluster, victim: int) -> None:
    """Restart PostgreSQL, which breaks every connection."""
    assert cluster.state(victim) == "RUNNING"
    cluster.restart_postgresql()


def the_daemon_is_cut_off(cluster: DockerCluster, victim: int) -> None:
    """Take the daemon off the network for a while: neither slurmctld nor PostgreSQL can be reached."""
    assert cluster.state(victim) == "RUNNING"
    cluster.cut_network("tesched")
    time.sleep(AWAY_S)  # the outage is the test
    cluster.restore_network("tesched")


@pytest.mark.parametrize("fault", [a_node_dies, slurmctld_is_away, postgresql_restarts, the_daemon_is_cut_off])
def test_nothing_is_lost_and_nothing_done_twice(
    cluster: DockerCluster, tmp_path: Path, fault: Callable[[DockerCluster, int], None]
) -> None:
    cluster.reset()

    def events() -> tuple[Event, ...]:
        said = cluster.exec("slurmctld", "cat", f"{SHARED}/events.log")
        (tmp_path / "events.log").write_text(said.stdout)
        return read_events(tmp_path)

    def begun() -> set[int]:
        return {event.job_id for event in events()}

    # No job's end frees a node, and none ends while slurmctld is away, before the test lets it.
    held = [f"{SHARED}/{HOLD.format(kind=kind)}" for kind in ("be", "te")]
    cluster.run("touch", *held)
    stage = DockerStage(cluster=cluster)
    best_effort = [
        stage.submit(
            LoadJob(
                name=f"be-{number}",
                kind="be",
                cpus=8,
                gpus=8,
                ticks=5,
                on_notice="stay",
                options=(f"--comment=grace={GRACE_S}",),
            )
        )
        for number in range(NODES)
    ]
    cluster.wait_for(lambda: begun() >= set(best_effort), "all jobs to trap their signal")
    with stage.daemon():
        trial = stage.submit(LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=5))

        def asked() -> list[Event]:
            return [event for event in events() if event.name is EventName.NOTICE]

        cluster.wait_for(asked, "a victim's notice")
        began = time.monotonic()
        fault(cluster, asked()[0].job_id)
        cluster.wait_state(trial, "RUNNING")
        print(f"{fault.__name__}: the trial ran {time.monotonic() - began:.0f} s after the notice")  # noqa: T201 - pytest shows it
        # Of a job that has ended Slurm lets nothing be changed.
        cluster.wait_for(lambda: cluster.job(trial)["Nice"] == "0", "its nice value to be put back")
        cluster.run("rm", *held)
        for job_id in (trial, *best_effort):
            cluster.wait_state(job_id, "COMPLETED")
        cluster.wait_for(lambda: not json.loads(stage.tesched("status", "--json"))["orders"], "all orders to end")
        health = json.loads(stage.tesched("status", "--json"))["health"]
        assert health.startswith("well"), health
    told = Counter((event.job_id, event.restarts) for event in events() if event.name is EventName.NOTICE)
    assert max(told.values()) == 1, "no run has two notices"
    done = Counter(event.job_id for event in events() if event.name is EventName.DONE)
    assert done == dict.fromkeys([*best_effort, trial], 1), "each job ran to its end, once"
    for job_id in (*best_effort, trial):
        assert cluster.job(job_id)["Nice"] == "0"
