"""Attacks by own jobs: a user makes own best-effort jobs leave for own trial-and-error jobs."""

from __future__ import annotations

from functools import partial

from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.attacks.bench import LONGEST_WAIT_S, Bench
from tesched_testcluster.harness.attacks.registry import Result, attack
from tesched_testcluster.harness.daemon_process import Daemon
from tesched_testcluster.local import LocalCluster

ONE_NODE = ClusterDefinition(groups=(NodeGroup(count=1),))
#: all CPUs of the node, and one of its GPUs
WHOLE = ("-c32", "--gres=gpu:1", "--mem=100", "--requeue", "-o", "/dev/null")
#: of all of a job's life, of one user's and of one node's in an hour
LIMITS = "[guard]\nmax_preemptions_per_job = 1\nmax_preemptions_per_node_hour = 3\nmax_preemptions_per_user_hour = 3\n"


def _runs(cluster: LocalCluster, name: str, user: str, *options: str, wrap: str = "exec sleep 3000") -> int:
    job_id = cluster.sbatch("-J", name, *WHOLE, *options, wrap=wrap, user=user)
    cluster.wait_state(job_id, "RUNNING", "COMPLETED")
    return job_id


def _end(cluster: LocalCluster, job_id: int) -> None:
    cluster.run("scancel", str(job_id))
    cluster.wait_state(job_id, "CANCELLED")


def _has_notice(daemon: Daemon) -> bool:
    victims = [one for order in daemon.json("status")["orders"] for one in order["order"]["victims"]]
    return any(one["state"] == "noticed" for one in victims)


@attack("own-place", "an own BE job leaves for an own TE job, to be next in the queue", ONE_NODE)
def own_place(bench: Bench) -> Result:
    """It does not overtake another user's job that waits longer."""
    cluster, (hostile, honest) = bench.cluster, bench.users
    with bench.daemon() as daemon:
        mine = _runs(cluster, "be-small", hostile)
        older = cluster.sbatch("-J", "be-older", *WHOLE, wrap="exec sleep 3000", user=honest)
        cluster.run("scontrol", "update", f"JobId={older}", "Nice=-1000")
        trial = _runs(cluster, "te-own", hostile)
        cluster.wait_for(partial(cluster.is_eligible, mine), "the victim to wait for its node alone")
        daemon.await_polls(cluster)
        nice = cluster.job(mine)["Nice"]
        _end(cluster, trial)
        cluster.wait_for(lambda: "RUNNING" in {cluster.state(mine), cluster.state(older)}, "the next job")
        first = cluster.state(older) == "RUNNING"
    next_is = "the older job of another user's runs next" if first else "it RUNS NEXT, before an older job"
    return Result(figure=f"nice {nice}, {next_is}", held=first and nice == "0")


@attack("own-immunity", "own TE jobs use up an own BE job's P, a node's and a user's hourly limit", ONE_NODE)
def own_immunity(bench: Bench) -> Result:
    """Another user's TE job is served by that job all the same."""
    cluster, (hostile, honest) = bench.cluster, bench.users
    with bench.daemon(toml=LIMITS):
        mine = _runs(cluster, "be-small", hostile)
        for _ in range(5):
            _end(cluster, _runs(cluster, "te-own", hostile))
            cluster.wait_state(mine, "RUNNING")
        trial = _runs(cluster, "te-honest", honest)
        waited_s = cluster.wait_for(lambda: bench.waits([trial]), "the start in slurmctld's log")[trial]
        often = int(cluster.job(mine)["Restarts"])
    figure = f"preempted by {often - 1} own TE jobs; another user's is served by it after {waited_s:.1f} s"
    return Result(figure=figure, held=waited_s <= LONGEST_WAIT_S and often == 6)


@attack("own-withdrawn", "an own TE job is cancelled as soon as the own BE job has its notice", ONE_NODE)
def own_withdrawn(bench: Bench) -> Result:
    """That notice keeps the job from no other user's TE job for a cool-down of ten minutes."""
    cluster, (hostile, honest) = bench.cluster, bench.users
    with bench.daemon(toml="[guard]\ncool_down_s = 600\n") as daemon:
        stays = ("--comment=signal=B:USR1 grace=20",)
        mine = _runs(cluster, "be-stays", hostile, *stays, wrap="trap '' USR1; while :; do sleep 0.1; done")
        own = cluster.sbatch("-J", "te-own", *WHOLE, wrap="exec sleep 3000", user=hostile)
        cluster.wait_for(partial(_has_notice, daemon), "the notice")
        _end(cluster, own)
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end")
        stayed = cluster.job(mine)["Restarts"] == "0"
        trial = _runs(cluster, "te-honest", honest, wrap="exec sleep 1")
        waited_s = cluster.wait_for(lambda: bench.waits([trial]), "the start in slurmctld's log")[trial]
    # The grace period and KillWait are the job's by right.
    most_s = LONGEST_WAIT_S + cluster.definition.kill_wait_s + 20
    figure = f"it {'stays' if stayed else 'was REQUEUED'}; another user's TE job is served by it after {waited_s:.1f} s"
    return Result(figure=figure, held=stayed and waited_s <= most_s)
