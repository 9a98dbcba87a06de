"""Jobs that Slurm would not start again are no victims: one with a deadline, and those whose partition has changed."""

from __future__ import annotations

import grp
import pwd
from functools import partial
from pathlib import Path

import pytest
from tesched_core.intake.pending_reason import starts_no_more
from tesched_core.model.slurm_limits import SlurmLimits
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.scontrol_limits import read_limits
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup, PartitionDefinition, Qos
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster, installed_release
from tesched_testcluster.users import ordinary_user, ordinary_users

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHOLE = ("-c32", "--mem=100", "--output=/dev/null", "--time=60")


@pytest.mark.gate
def test_a_job_that_slurm_would_not_start_again_is_no_victim(
    make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    partitions = (
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(name="shorter"),
        PartitionDefinition(name="closed"),
        PartitionDefinition(name="moved"),
    )
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=6, features=("fast",)),), partitions=partitions))

    def best_effort(*options: str) -> int:
        job_id = cluster.sbatch("--job-name=be", *WHOLE, *options, wrap="sleep 1000")
        cluster.wait_state(job_id, "RUNNING")
        return job_id

    stays = {
        best_effort("--deadline=now+2hours"): "--deadline",
        best_effort("--partition=shorter"): "its partition",
        best_effort("--partition=closed"): "its partition",
        best_effort("--partition=moved", "--nodelist=n6"): "its nodes",
        best_effort("--constraint=fast", "--nodelist=n5"): "its nodes",
    }
    ordinary = best_effort()
    cluster.run("scontrol", "update", "partitionname=shorter", "maxtime=30")
    cluster.run("scontrol", "update", "partitionname=closed", "state=down")
    cluster.run("scontrol", "update", "partitionname=moved", "nodes=n1")
    cluster.run("scontrol", "update", "nodename=n[1-6]", "availablefeatures=slow", "activefeatures=slow")
    with running_daemon(cluster, tmp_path, client_choice) as daemon:
        trials = [cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000", user=ordinary_user()) for _ in range(2)]
        started = cluster.wait_for(lambda: [job for job in trials if cluster.state(job) == "RUNNING"], "one to start")
        (waits,) = set(trials) - set(started)
        cluster.wait_for(lambda: "cannot_return" in daemon.ask("explain", str(waits), "--json").stdout, "its answer")
        daemon.await_polls(cluster)
        assert cluster.put_back([*stays, ordinary]) == [ordinary]
        for job_id, why in stays.items():
            assert why in daemon.ask("explain", str(job_id)).stdout, why
    # So it would have been: back in the queue, they would wait for ever.
    stuck = list(stays)[1:]
    for job_id in stuck:
        cluster.run("scontrol", "requeue", str(job_id))
    for job_id in stuck:
        cluster.wait_for(partial(_is_stuck, cluster, job_id), "it to be stuck")


def test_a_job_is_no_victim_when_its_partition_no_longer_allows_its_account_or_qos(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    user = ordinary_user()
    names = ("main", "any-case", "by-parent", "by-account", "by-qos", "not-account", "not-qos")
    definition = ClusterDefinition(
        groups=(NodeGroup(count=len(names)),),
        partitions=tuple(PartitionDefinition(name=name, default=name == "main") for name in names),
        accounting=Accounting(
            qos=(Qos(name="high"),),
            accounts=(Account(name="lab", users=("root", user)), Account(name="others")),
        ),
    )
    cluster = make_cluster(definition)
    ids = [
        cluster.sbatch("--job-name=be", *WHOLE, f"--partition={name}", wrap="sleep 1000", user=user) for name in names
    ]
    for job_id in ids:
        cluster.wait_state(job_id, "RUNNING")
    cluster.run("scontrol", "update", "partitionname=any-case", "allowqos=Normal")
    cluster.run("scontrol", "update", "partitionname=by-parent", "allowaccounts=root")
    cluster.run("scontrol", "update", "partitionname=by-account", "allowaccounts=others")
    cluster.run("scontrol", "update", "partitionname=by-qos", "allowqos=high")
    cluster.run("scontrol", "update", "partitionname=not-account", "denyaccounts=lab")
    cluster.run("scontrol", "update", "partitionname=not-qos", "denyqos=normal")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        for _ in names:
            cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000", user=user)
        # `lab` is below `root`, as each account: 22.05 starts no job of it all the same.
        victims = ids[:2] if installed_release() == (22, 5) else ids[:3]
        cluster.wait_for(lambda: sorted(cluster.put_back(ids)) == victims, "the victims")
        daemon.await_polls(cluster)
        assert sorted(cluster.put_back(ids)) == victims
    # Back in the queue these would wait for ever, whatever is free.
    cluster.run("scancel", "--name=te")
    for job_id in victims:
        cluster.wait_state(job_id, "RUNNING")
    cluster.run("scancel", *map(str, victims))
    stuck = {name: job_id for name, job_id in zip(names, ids, strict=True) if job_id not in victims}
    for job_id in stuck.values():
        cluster.run("scontrol", "requeue", str(job_id))
    for name, job_id in stuck.items():
        cluster.wait_for(partial(_is_passed_over, cluster, job_id), f"{name} to be stuck")
    # 26.05 gives no reason for an account. The partition is open to others, who come later.
    for name in ("by-account", "not-account"):
        later = cluster.sbatch(*WHOLE, f"--partition={name}", "--account=others", wrap="sleep 1000")
        cluster.wait_state(later, "RUNNING")
        assert cluster.state(stuck[name]) == "PENDING", name


#: What closes a partition to a job of 4 CPUs and 400 MiB on one node that runs in it, and what does not.
CLOSED = {
    "for-root": "rootonly=yes",
    "reserved": "reqresv=yes",
    "memory": "maxmempernode=399",
    "cpus": "maxcpuspernode=3",
    "nodes": "minnodes=2",
    "group": "allowgroups=root",
}
OPEN = {"enough": "maxmempernode=400 maxcpuspernode=4 maxnodes=1", "by-cpu": "maxmempercpu=100", "own-group": ""}


def test_one_to_which_its_partition_is_closed_by_now_is_no_victim(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    user = ordinary_user()
    partitions = tuple(PartitionDefinition(name=name) for name in (*CLOSED, *OPEN))
    main = PartitionDefinition(name="main", default=True)
    groups = (NodeGroup(count=len(partitions), cpus=4, sockets=1),)
    cluster = make_cluster(ClusterDefinition(groups=groups, partitions=(main, *partitions)))
    whole = ("--nodes=1", "--ntasks=1", "--cpus-per-task=4", "--mem=400", "--time=60", "--output=/dev/null")
    jobs = {
        one.name: cluster.sbatch("--job-name=be", *whole, f"--partition={one.name}", wrap="sleep 1000", user=user)
        for one in partitions
    }
    for job_id in jobs.values():
        cluster.wait_state(job_id, "RUNNING")
    own = {"own-group": f"allowgroups=root,{grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name}"}
    for name, settings in (CLOSED | OPEN | own).items():
        cluster.run("scontrol", "update", f"partitionname={name}", *settings.split())
    victims = sorted(jobs[name] for name in OPEN)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        for _ in partitions:
            cluster.sbatch("--job-name=te", *whole, wrap="sleep 1000", user=user)
        cluster.wait_for(lambda: sorted(cluster.put_back(jobs.values())) == victims, "the victims")
        daemon.await_polls(cluster)
        assert sorted(cluster.put_back(jobs.values())) == victims
    cluster.run("scancel", "--name=te")
    for job_id in victims:
        cluster.wait_state(job_id, "RUNNING")
    for name in CLOSED:
        cluster.run("scontrol", "requeue", str(jobs[name]))
    for name in CLOSED:
        cluster.wait_for(partial(_is_kept_out, cluster, jobs[name]), f"{name} to be stuck")


#: What sacctmgr lowers below what a job has that is running: by the job's account, of that user, account or QOS. Each
#: job has an account and a QOS of its own.
TOO_LOW = {
    "grp-jobs": ("user", "GrpJobs=0"),
    "max-jobs": ("user", "MaxJobs=0"),
    "grp-tres": ("user", "GrpTRES=cpu=31"),
    "of-account": ("account", "GrpTRES=mem=99"),
    "max-tres": ("user", "MaxTRESPerJob=gres/gpu=0"),
    "max-wall": ("user", "MaxWall=59"),
    "max-mins": ("user", "MaxTRESMins=cpu=1919"),
    "qos-grp": ("qos", "GrpTRES=cpu=31"),
    "qos-user": ("qos", "MaxTRESPerUser=cpu=31"),
    "qos-jobs": ("qos", "MaxJobsPerUser=0"),
    "qos-least": ("qos", "MinTRESPerJob=cpu=33"),
}
#: What lets a job start again all the same. `replaced`: by a limit of its QOS.
NOT_TOO_LOW = {
    "as-many": ("user", "GrpTRES=cpu=32 MaxJobs=1 MaxWall=60 MaxTRESMins=cpu=1920 MaxTRESPerJob=gres/gpu=1"),
    "submit": ("user", "MaxSubmitJobs=0"),
    "of-parent": ("account", "MaxWall=60"),
    "replaced": ("user", "MaxTRESPerJob=cpu=1 MaxJobs=0"),
}
FEW = ("max-tres", "qos-user", "qos-taken", "submit")
#: 26.05 deletes no QOS of jobs that run.
ALL = (*TOO_LOW, "qos-taken", *(("qos-gone",) if installed_release() == (22, 5) else ()), *NOT_TOO_LOW)
#: what is said of one whose QOS was deleted, and whose user may use it no more
OF_QOS = {"qos-gone": "its QOS is gone", "qos-taken": "its user may not use its QOS any more"}


@pytest.mark.parametrize("names", gated((FEW, ALL), FEW), ids=["few", "all"])
def test_one_that_a_limit_of_its_account_or_qos_keeps_from_starting_again_is_no_victim(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, names: tuple[str, ...]
) -> None:
    user = ordinary_user()
    # Each has one QOS of its own: 22.05 takes further ones, too, from the users of a QOS that is deleted.
    accounts = tuple(Account(name=name, users=("root", user), qos=("normal", f"of-{name}")) for name in names)
    definition = ClusterDefinition(
        groups=(NodeGroup(count=len(names)),),
        partitions=(PartitionDefinition(name="main", default=True),),
        accounting=Accounting(
            qos=tuple(Qos(name=f"of-{name}") for name in names),
            accounts=(*accounts, Account(name="te", users=("root", user))),
        ),
    )
    cluster = make_cluster(definition)
    jobs = {
        name: cluster.sbatch(
            *WHOLE, "--gpus=1", f"--account={name}", f"--qos=of-{name}", "--job-name=be", wrap="sleep 1000", user=user
        )
        for name in names
    }
    for job_id in jobs.values():
        cluster.wait_state(job_id, "RUNNING")
    for name in names:
        if name == "qos-gone":
            cluster.run("sacctmgr", "-i", "delete", "qos", "of-qos-gone")
        elif name == "qos-taken":
            _set_limits(cluster, user, name, "user", "qos-=of-qos-taken")
        else:
            _set_limits(cluster, user, name, *(TOO_LOW | NOT_TOO_LOW)[name])
    if "replaced" in names:
        _set_limits(cluster, user, "replaced", "qos", "MaxTRESPerJob=cpu=32 MaxJobsPerUser=1")
    returns = NOT_TOO_LOW.keys() & names
    victims = sorted(jobs[name] for name in returns)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        trials = [
            cluster.sbatch("--job-name=te", "--account=te", *WHOLE, wrap="sleep 1000", user=user)
            for _ in range(len(victims) + 1)
        ]
        cluster.wait_for(lambda: sorted(cluster.put_back(jobs.values())) == victims, "the victims")
        (waits,) = cluster.wait_for(
            lambda: _all_but_one([job for job in trials if cluster.state(job) == "PENDING"]), "one to be left"
        )
        cluster.wait_for(lambda: "cannot_return" in daemon.ask("explain", str(waits), "--json").stdout, "its answer")
        daemon.await_polls(cluster)
        assert sorted(cluster.put_back(jobs.values())) == victims
        for name in jobs.keys() - returns:
            why = OF_QOS.get(name, "a limit of its account, its user or its QOS")
            assert why in daemon.ask("explain", str(jobs[name])).stdout, name
    # So it would have been: on an empty cluster the others would wait, and these start.
    cluster.run("scancel", "--name=te")
    stuck = {name: jobs[name] for name in jobs.keys() - returns}
    for job_id in stuck.values():
        cluster.run("scontrol", "requeue", str(job_id))
    for name, job_id in stuck.items():
        cluster.wait_for(partial(_waits_for_a_limit, cluster, job_id), f"{name} to wait")
    for name in returns:
        cluster.wait_state(jobs[name], "RUNNING")


def _set_limits(cluster: LocalCluster, user: str, name: str, kind: str, limits: str) -> None:
    which = {
        "user": ("user", user, "set", *limits.split(), "where", f"account={name}"),
        "account": ("account", name, "set", *limits.split()),
        "qos": ("qos", f"of-{name}", "set", *limits.split()),
    }
    cluster.run("sacctmgr", "-i", "modify", *which[kind])


def _all_but_one(waiting: list[int]) -> list[int]:
    return waiting if len(waiting) == 1 else []


def _waits_for_a_limit(cluster: LocalCluster, job_id: int) -> bool:
    return cluster.job(job_id)["Reason"].startswith(("Assoc", "QOS", "InvalidQOS", "Max"))


def test_an_operator_is_shown_limits_that_are_private(make_cluster: MakeCluster) -> None:
    user, operator = ordinary_users(2)
    accounting = Accounting(
        accounts=(Account(name="lab", users=("root", user)), Account(name="staff", users=("root", operator))),
        operators=(operator,),
    )
    private = {"PrivateData": "accounts,jobs,nodes,usage,users"}
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),), accounting=accounting, settings=private))
    _set_limits(cluster, user, "lab", "user", "MaxJobs=7")

    def shown(to: str, of: str) -> SlurmLimits:
        argv = ("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos", f"users={of}")
        return read_limits(cluster.run(*argv, user=to).stdout)

    seen = shown(operator, user)
    assert seen == shown("root", user)
    assert seen.associations["lab", user, ""].limits == {("MaxJobs", ""): 7}
    assert "normal" in seen.qos
    assert {one.user for one in seen.associations.values()} == {"", user}
    assert ("staff", operator, "") not in shown(user, operator).associations


def test_a_victim_that_would_not_start_again_by_now_is_shown(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    partitions = (PartitionDefinition(name="main", default=True), PartitionDefinition(name="shorter"))
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),), partitions=partitions))
    victim = cluster.sbatch("--job-name=be", *WHOLE, "--partition=shorter", wrap="sleep 1000")
    cluster.wait_state(victim, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        trial = cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000", user=ordinary_user())
        cluster.wait_state(trial, "RUNNING")
        assert daemon.json("status")["tally"]["stuck"] == []
        cluster.run("scontrol", "update", "partitionname=shorter", "maxtime=30")
        shown = f"job {victim}: PartitionTimeLimit"
        cluster.wait_for(lambda: daemon.json("status")["tally"]["stuck"] == [shown], "it to be shown")
        assert f"would not start again now: {shown}" in daemon.ask("status").stdout
        cluster.run("scontrol", "update", "partitionname=shorter", "maxtime=infinite")
        cluster.wait_for(lambda: daemon.json("status")["tally"]["stuck"] == [], "it to be shown no more")


def _is_kept_out(cluster: LocalCluster, job_id: int) -> bool:
    """Check whether a job waits for what no job's end brings."""
    return _is_stuck(cluster, job_id) or starts_no_more(cluster.job(job_id)["Reason"])


def _is_passed_over(cluster: LocalCluster, job_id: int) -> bool:
    """Check whether a job waits for what no job's end brings, or for what Slurm does not say though it is eligible."""
    return _is_kept_out(cluster, job_id) or (cluster.job(job_id)["Reason"] == "None" and cluster.is_eligible(job_id))


def _is_stuck(cluster: LocalCluster, job_id: int) -> bool:
    return cluster.job(job_id)["Reason"].startswith(("Partition", "Job's_", "BadConstraints"))
