"""An early turn does on a real Slurm what a poll would do, or leaves it to the poll, whatever comes and has changed.

Two daemons in mode shadow have polled the same cluster; then one makes an early turn, and the other a poll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tesched_core.model.actions import Action, Requeue
from tesched_daemon.loop import CycleResult
from tesched_testcluster.local import LocalCluster

from tests.cluster.early_site import NO_PASS, PASSES, TWO_NODES, filled, large_site, schedule
from tests.cluster.gate import gated

pytestmark = pytest.mark.slurm

TRIAL = ("--job-name=te-1", "-n1", "--gpus-per-node=8")
#: sbatch's options, by whether a trial of these has a victim before Slurm has considered it, and then
KINDS: dict[str, tuple[tuple[str, ...], bool, bool]] = {
    "plain": (("-N1",), True, True),
    "array": (("-N1", "--array=1-3"), False, True),
    "one task": (("-N1", "--array=7"), False, True),
    "held": (("-N1", "--hold"), False, False),
    "dependent": (("-N1", "--dependency=afterany:{other}"), False, False),
    "later": (("-N1", "--begin=now+1hour"), False, False),
    "two nodes": (("-N2", "-n2"), True, True),
    "named node": (("-N1", "-wn1"), True, True),
    "excluded node": (("-N1", "-xn2"), True, True),
    "heterogeneous": (("-N1", ":", "-N1", "-n1"), False, False),
}


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[LocalCluster]:
    with LocalCluster(TWO_NODES) as cluster:
        yield cluster


@pytest.fixture
def site(two_nodes: LocalCluster) -> LocalCluster:
    """Give two nodes without jobs, whatever the test before did."""
    if NO_PASS in two_nodes.slurm_conf.read_text():
        schedule(two_nodes, NO_PASS, PASSES)
    two_nodes.run("scontrol", "update", "partitionname=main", "state=UP")
    two_nodes.reset()
    return two_nodes


def done(turn: CycleResult | None) -> list[Action]:
    return sorted((outcome.action for outcome in turn.outcomes), key=repr) if turn is not None else []


def both(cluster: LocalCluster, folder: Path, between: Callable[[], object]) -> tuple[list[Action], list[Action]]:
    """Return what an early turn does, and a poll, if `between` happens before both."""
    with (
        large_site(cluster, folder / "early", "shadow") as one,
        large_site(cluster, folder / "poll", "shadow") as other,
    ):
        for loop in (one, other):
            assert not loop.turn().trouble
            assert loop.turn().early
        between()
        return done(one.early_turn()), done(other.turn(asked=True))


def alike(actions: list[Action]) -> list[tuple[object, ...]]:
    """Return the actions without the numbers of their orders, which a store gives."""
    return [(type(action), action.job_id, getattr(action, "value", None)) for action in actions]


@pytest.mark.parametrize("considered", [False, True])
@pytest.mark.parametrize("kind", gated(KINDS, "array", "two nodes"))
def test_a_trial_of_each_kind(site: LocalCluster, tmp_path: Path, kind: str, *, considered: bool) -> None:
    options, before, after = KINDS[kind]
    other, _ = filled(site)
    if not considered:
        schedule(site, PASSES, NO_PASS)

    def comes() -> None:
        trial = site.sbatch(*TRIAL, *(one.format(other=other) for one in options), wrap="exec sleep 1000")
        if considered and kind != "heterogeneous":
            site.wait_for(lambda: site.job(trial)["Reason"] != "None", "Slurm to have considered it")

    early, polled = both(site, tmp_path, comes)
    assert any(isinstance(action, Requeue) for action in polled) is (after if considered else before)
    assert alike(early) == alike(polled)


#: sbatch's options of a trial that waits for another reason than resources, and what ends that
KEPT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "held": (("--hold",), ("scontrol", "release", "{older}")),
    "dependent": (("--dependency=afterany:{other}",), ("scontrol", "update", "jobid={older}", "dependency=")),
    "later": (("--begin=now+1hour",), ("scontrol", "update", "jobid={older}", "starttime=now")),
}


@pytest.mark.parametrize("is_free", [True, False])
@pytest.mark.parametrize("kept", gated(KEPT, "held"))
def test_an_older_trial_that_nothing_keeps_any_more_comes_first(
    site: LocalCluster, tmp_path: Path, kept: str, *, is_free: bool
) -> None:
    options, ends = KEPT[kept]
    other, _ = filled(site)
    older = site.sbatch(*TRIAL, "-N1", *(one.format(other=other) for one in options), wrap="exec sleep 1000")
    site.wait_for(lambda: site.job(older)["Reason"] not in {"None", "Resources"}, "Slurm to say what it waits for")
    newer = []

    def happens() -> None:
        if is_free:
            site.run(*(word.format(older=older) for word in ends))
        newer.append(site.sbatch(*TRIAL, "-N1", wrap="exec sleep 1000"))
        served = (older, *newer) if is_free else newer
        site.wait_for(
            lambda: all(site.job(one)["Reason"] in {"Resources", "Priority"} for one in served),
            "Slurm to have considered them",
        )

    early, polled = both(site, tmp_path, happens)
    assert alike(early) == alike(polled)
    victims = [action for action in early if isinstance(action, Requeue)]
    assert victims, "two nodes, of which one job each may leave"
    assert {action.reason.preemptor for action in victims} == ({older, *newer} if is_free else set(newer))


def update(*fields: str) -> Callable[[LocalCluster, int], object]:
    """Return what changes a job."""
    return lambda cluster, job: cluster.run("scontrol", "update", f"jobid={job}", *fields)


def scontrol(*fields: str) -> Callable[[LocalCluster, int], object]:
    """Return what changes the cluster."""
    return lambda cluster, _: cluster.run("scontrol", *fields)


def comes(*options: str) -> Callable[[LocalCluster, int], object]:
    """Return what submits another job."""
    return lambda cluster, _: cluster.sbatch(*options, wrap="exec sleep 1000")


def suspend(cluster: LocalCluster, job: int) -> None:
    cluster.run("scontrol", "suspend", str(job))
    cluster.wait_state(job, "SUSPENDED")


def leave(how: tuple[str, ...], cluster: LocalCluster, job: int) -> None:
    cluster.run(*how, str(job))
    cluster.wait_for(lambda: cluster.node("n2")["State"] == "IDLE", "node n2 to be free")


def starts(options: tuple[str, ...], cluster: LocalCluster, _: int) -> None:
    job = cluster.sbatch("--job-name=be-2", "-n2", "--mem=100", "-N1", *options, wrap="exec sleep 1000")
    cluster.wait_for(lambda: "RUNNING" in cluster.run("squeue", "-ho%T", f"-j{job}").stdout, "it to run")


#: what has changed since the poll, of the job that would be the victim, and whether the early turn has a victim for all
#: that; the poll has one wherever the trial needs it
CHANGES: dict[str, tuple[Callable[[LocalCluster, int], object], bool]] = {
    "nothing": (lambda *_: None, True),
    "its grace period": (update("comment=grace=60"), False),
    "its time limit": (update("timelimit=2"), False),
    "it may not be requeued": (update("requeue=0"), False),
    "its class": (update("jobname=te-2"), False),
    "it is suspended": (suspend, True),
    "it is cancelled": (partial(leave, ("scancel",)), False),
    "it was requeued, and is held": (partial(leave, ("scontrol", "requeuehold")), False),
    "its node drains": (scontrol("update", "nodename=n2", "state=drain", "reason=test"), True),
    "its node is reserved": (
        scontrol(
            "create", "reservation", "starttime=now", "duration=60", "users=root", "nodes=n2", "flags=ignore_jobs"
        ),
        True,
    ),
    "its partition is down": (scontrol("update", "partitionname=main", "state=DOWN"), False),
    "another job runs beside it": (partial(starts, ()), True),
    "tasks of an array run beside it": (partial(starts, ("--array=1-3",)), True),
    "another trial waits": (comes(*TRIAL, "-N1"), True),
    "another job waits": (comes("--job-name=be-2", "-N1", "-n1", "--gpus-per-node=8"), True),
    "slurmctld has read slurm.conf again": (scontrol("reconfigure"), True),
}


@pytest.mark.parametrize("change", gated(CHANGES, "it may not be requeued", "tasks of an array run beside it"))
def test_a_trial_after_a_change(site: LocalCluster, tmp_path: Path, change: str) -> None:
    changes, acts = CHANGES[change]
    _, victim = filled(site)

    def happens() -> None:
        changes(site, victim)
        trial = site.sbatch(*TRIAL, "-N1", wrap="exec sleep 1000")
        site.wait_for(
            lambda: site.job(trial)["Reason"] != "None" or site.state(trial) == "RUNNING",
            "Slurm to have considered it",
        )

    early, polled = both(site, tmp_path, happens)
    assert alike(early) == (alike(polled) if acts else [])
    assert any(isinstance(action, Requeue) for action in early) is acts
