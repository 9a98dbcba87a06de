"""An early turn on a real Slurm: a TE job has its victim before the next poll, and the poll finds nothing to add.

slurmctld considers no job at its submission (defer), and makes no pass for a minute: it has not considered it by then.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from sqlite3 import connect

import pytest
from tesched_core.model.actions import Requeue, Status
from tesched_core.model.limits import Limits
from tesched_daemon.loop import CycleResult, Loop
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster
from tests.cluster.early_site import NO_PASS, PASSES, TWO_NODES, Slowly, filled, large_site, schedule, unconsidered

pytestmark = pytest.mark.slurm


@pytest.fixture
def full(make_cluster: MakeCluster) -> LocalCluster:
    """Give two nodes with a best-effort job on each, the second of which has just a part of its node."""
    cluster = make_cluster(TWO_NODES)
    filled(cluster)
    schedule(cluster, PASSES, NO_PASS)
    return cluster


def acting(cluster: LocalCluster, loop: Loop) -> CycleResult:
    """Return the first early turn that acts: none does while Slurm's pass over the trial is under way."""
    turns: list[CycleResult] = []

    def acts() -> bool:
        turns.extend(filter(None, (loop.early_turn(),)))
        return bool(turns)

    cluster.wait_for(acts, "an early turn that does something")
    return turns[0]


@pytest.mark.gate
def test_a_trial_has_its_victim_before_slurms_pass_and_before_the_poll(full: LocalCluster, tmp_path: Path) -> None:
    with large_site(full, tmp_path) as loop:
        assert loop.turn().early
        polls = dict(loop.calls())["scontrol show job"]
        trial = unconsidered(full, "-N1", "--gpus=8", "-n1")
        turn = acting(full, loop)
        assert {outcome.status for outcome in turn.outcomes} == {Status.SENT}
        (victim,) = (outcome.action.job_id for outcome in turn.outcomes if isinstance(outcome.action, Requeue))
        assert dict(loop.calls())["scontrol show job"] > polls, "its reads are counted"
        schedule(full, NO_PASS, PASSES)
        full.wait_for(lambda: not loop.turn(asked=True).trouble and full.state(trial) == "RUNNING", "the trial to run")
        assert full.put_back() == [victim]
    with closing(connect(tmp_path / "tesched.sqlite")) as store:
        assert store.execute("SELECT count(*) FROM orders").fetchone() == (1,)
        assert store.execute("SELECT count(*) FROM actions WHERE kind = 'requeue'").fetchone() == (1,)


def test_a_site_that_polls_each_half_minute_has_early_turns_until_the_next_poll(
    full: LocalCluster, tmp_path: Path
) -> None:
    """guard.wait_for_free_s is at its default: how much ends is known as of the last poll."""
    with large_site(full, tmp_path) as loop:
        loop.limits = replace(loop.limits, wait_for_free_s=Limits().wait_for_free_s)
        loop.pace = replace(loop.pace, poll_interval_s=30.0)
        assert isinstance(loop.observer, Slowly)
        loop.observer.longer_s = 20.0
        assert loop.turn().early
        loop.observer.ahead_s += 29.0
        unconsidered(full, "-N1", "--gpus=8", "-n1")
        turn = acting(full, loop)
        assert any(isinstance(outcome.action, Requeue) for outcome in turn.outcomes)


def test_no_victim_leaves_where_nodes_have_come_free_since_the_poll(full: LocalCluster, tmp_path: Path) -> None:
    with large_site(full, tmp_path) as loop:
        assert loop.turn().early
        # The job on node n2, the smaller one, would be the victim.
        full.run("scancel", "--jobname=be-0")
        full.wait_for(lambda: full.node("n1")["State"] == "IDLE", "node n1 to be free")
        full.sbatch("--job-name=te-1", "-N1", "--gpus=8", "-n1", wrap="sleep 1000")
        queries = dict(loop.calls())["squeue"]
        turn = loop.early_turn()
        assert dict(loop.calls())["squeue"] > queries, "it has read the trial"
        assert turn is None or not any(isinstance(outcome.action, Requeue) for outcome in turn.outcomes)


@pytest.mark.gate
def test_a_job_on_a_node_that_counts_cores_as_cpus_is_a_victim_as_any(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    group = NodeGroup(count=1, cpus=8, sockets=1, threads_per_core=2, cores_are_cpus=True, gres={})
    settings = {"SchedulerParameters": PASSES}
    cluster = make_cluster(ClusterDefinition(groups=(group,), def_mem_per_cpu_mib=None, settings=settings))
    victim = cluster.sbatch("--job-name=be-0", "-n6", "--mem=100", wrap="exec sleep 1000")
    cluster.wait_state(victim, "RUNNING")
    with large_site(cluster, tmp_path, "shadow") as loop:
        assert loop.turn().early
        trial = cluster.sbatch("--job-name=te-1", "-n4", "--mem=100", wrap="exec sleep 1000")
        cluster.wait_for(lambda: cluster.job(trial)["Reason"] != "None", "Slurm to have considered it")
        turn = acting(cluster, loop)
        assert [outcome.action.job_id for outcome in turn.outcomes if isinstance(outcome.action, Requeue)] == [victim]
