"""Victims leave before Slurm has considered a TE job where that is safe, with guard.await_first_look as shipped.

Slurm makes no pass of its own for a minute after a submission here: what is served before that is served without its
word. Any change or end of a job brings a pass about.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import (
    Account,
    Accounting,
    ClusterDefinition,
    NodeGroup,
    PartitionDefinition,
    Qos,
)
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.load import LoadJob, submit
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

NO_PASS = {"SchedulerParameters": "batch_sched_delay=60,sched_interval=600,bf_interval=600"}


def fill(cluster: LocalCluster, *options: tuple[str, ...]) -> None:
    """Fill a node for each of these, with a best-effort job of these options."""
    ids = []
    for number, each in enumerate(options):
        job = LoadJob(name=f"be-{number}", kind="be", cpus=32, gpus=8, ticks=30_000, options=("--time=60", *each))
        ids.append(submit(cluster, job, cluster.shared))
    cluster.run("scontrol", "reconfigure")  # which makes a pass
    for job_id in ids:
        cluster.wait_state(job_id, "RUNNING")


def trial(cluster: LocalCluster, *options: str) -> int:
    job = LoadJob(name="te-1", kind="te", cpus=32, gpus=8, ticks=30_000, options=options)
    return submit(cluster, job, cluster.shared)


def code(daemon: Daemon, job_id: int) -> str:
    """Return why the job has no victim; empty while it has none, or is not seen yet."""
    if daemon.ask("explain", str(job_id)).returncode:
        return ""
    refusals = daemon.json("explain", str(job_id))["story"]["refusals_as_preemptor"]
    return next((one["code"] for one in refusals if one["job_id"] == one["preemptor"] == job_id), "")


#: of a cluster without limits: sbatch's options of a TE job that waits for another reason than resources
OTHERWISE = {
    "licence": ("--licenses=soft:1",),
    "reservation": ("--reservation=later",),
    "maintenance": ("--partition=small", "--time=300"),
    "begin time": ("--begin=now+1hour",),
    "time limit": ("--partition=small", "--time=500"),
    "accounts": ("--partition=lab",),
    "memory": ("--partition=small", "--mem=4000"),
    "feature": ("--constraint=big",),
    "drained": ("--nodelist=n3",),
}


@pytest.mark.gate
def test_only_a_job_that_waits_for_resources_alone_has_a_victim_before_slurms_word(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(
        ClusterDefinition(
            groups=(NodeGroup(count=3),),
            partitions=(
                PartitionDefinition(name="main", default=True),
                PartitionDefinition(name="small", settings={"MaxTime": "400", "MaxMemPerNode": "1000"}),
                PartitionDefinition(name="lab", settings={"AllowAccounts": "lab"}),
            ),
            scheduling="stock",
            settings={"Licenses": "soft:1", **NO_PASS},
        )
    )
    fill(cluster, ("--licenses=soft:1", "--no-requeue"), (), ())
    cluster.run("scontrol", "update", "nodename=n3", "availablefeatures=big", "activefeatures=big")
    cluster.run("scontrol", "update", "nodename=n3", "state=drain", "reason=test")
    start = ("starttime=now+2hours", "duration=60", "users=root")
    cluster.run(
        "scontrol", "create", "reservation", "reservationname=later", *start, "nodes=ALL", "flags=maint,ignore_jobs"
    )
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        jobs = [trial(cluster, *options) for options in OTHERWISE.values()]
        cluster.run("scontrol", "update", "nodename=n3", "activefeatures=", "availablefeatures=")
        cluster.wait_for(lambda: all(code(daemon, job) for job in jobs), "a refusal of each")
        daemon.await_polls(cluster, 6)
        assert cluster.put_back() == []
        cluster.wait_state(trial(cluster, "--time=5"), "RUNNING")
        daemon.await_polls(cluster, 4)
        assert len(cluster.put_back()) == 1
        assert daemon.json("status")["tally"]["futile"] == 0


class Case(NamedTuple):
    """What is set of a job's user, account or QOS, each of its own, in which a job holds a node."""

    of: str
    limits: str


LIMITED = {
    "jobs": Case("user", "MaxJobs=1"),
    "gpus": Case("qos", "MaxTRESPerUser=gres/gpu=9"),
    "cpus": Case("account", "GrpTRES=cpu=33"),
    "time": Case("user", "MaxWall=4"),
    "minutes": Case("account", "GrpTRESRunMins=cpu=1925"),
    "billing": Case("qos", "GrpTRES=billing=33"),
}
CLEAR = {"none": Case("user", ""), "enough": Case("user", "MaxJobs=30 GrpTRES=cpu=1000,gres/gpu=200 MaxWall=60")}
CASES = LIMITED | CLEAR


def words(name: str) -> tuple[str, ...]:
    return (f"--account={name}", f"--qos=q-{name}")


@pytest.fixture
def limited(make_cluster: MakeCluster) -> LocalCluster:
    """Give a full cluster in which each case has an account and a QOS, with a job that runs and the limit set."""
    qos = tuple(f"q-{name}" for name in CASES)
    cluster = make_cluster(
        ClusterDefinition(
            groups=(NodeGroup(count=len(CASES)),),
            accounting=Accounting(
                qos=tuple(Qos(name=name) for name in qos),
                accounts=tuple(Account(name=name, qos=("normal", *qos)) for name in CASES),
            ),
            scheduling="stock",
            settings=NO_PASS,
        )
    )
    # What counts against a limit stays.
    fill(cluster, *((*words(name), *(("--no-requeue",) if name in LIMITED else ())) for name in CASES))
    for name, case in CASES.items():
        which = {
            "user": ("user", "root", "set", *case.limits.split(), "where", f"account={name}"),
            "account": ("account", name, "set", *case.limits.split()),
            "qos": ("qos", f"q-{name}", "set", *case.limits.split()),
        }
        if case.limits:
            cluster.run("sacctmgr", "-i", "modify", *which[case.of])
    show = ("scontrol", "-o", "show", "assoc_mgr", "flags=assoc")
    cluster.wait_for(lambda: "GrpTRES=cpu=1000(" in cluster.run(*show).stdout, "slurmctld to know the limits")
    return cluster


@pytest.mark.gate
def test_where_slurm_enforces_limits_a_job_that_they_leave_alone_has_a_victim_before_slurms_word(
    limited: LocalCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    with running_daemon(limited, tmp_path, one_client) as daemon:
        daemon.await_polls(limited, 2)
        jobs = [trial(limited, "--time=5", *words(name)) for name in LIMITED]
        limited.wait_for(lambda: all(code(daemon, job) for job in jobs), "a refusal of each")
        daemon.await_polls(limited, 6)
        assert limited.put_back() == []
        for victims, name in enumerate(CLEAR, 1):
            limited.wait_state(trial(limited, "--time=5", *words(name)), "RUNNING")
            assert len(limited.put_back()) == victims
        assert daemon.json("status")["tally"]["futile"] == 0


#: sbatch's options, and those of a best-effort job on n2, where Slurm 22.05 starts the TE job on what that one leaves,
#: while by whole cores, and by GPUs of which a shard is held, it lacks resources there
UNLIKE_THE_PLAN = {
    "tasks that share a core": (("-n2", "--gpus-per-task=1", "--mem-per-cpu=100"), ("-c6", "--gres=gpu:1")),
    "memory of one thread": (("-N1", "-n1", "--gpus-per-node=1", "--mem-per-cpu=300"), ("-c4", "--mem=15600")),
    "GPU of a shard": (("-n1", "--gpus=3"), ("-c1", "--gres=shard:1")),
}


@pytest.mark.parametrize("way", UNLIKE_THE_PLAN)
def test_no_victim_leaves_before_slurms_word_where_by_sums_the_job_may_start(
    way: str, make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """What Slurm counts otherwise than the plan, it starts in its next pass."""
    wants, holds = UNLIKE_THE_PLAN[way]
    by_cpu = {"SelectTypeParameters": "CR_CPU_Memory"} if "memory" in way else {}
    gres = {"gpu": 3} | ({"shard": 6} if "shard" in str(holds) else {})
    cluster = make_cluster(
        ClusterDefinition(
            groups=(NodeGroup(count=2, cpus=8, threads_per_core=2, mem_mib=16_000, gres=gres),),
            scheduling="stock",
            settings=NO_PASS | by_cpu,
        )
    )
    whole = ("-wn1", "-c8", "--gres=gpu:3", "--mem=16000")
    for options in (whole, ("-wn2", "--no-requeue", *holds)):
        be = int(cluster.run("sbatch", "--parsable", *options, "--time=60", "--wrap", "sleep 600").stdout)
        cluster.run("scontrol", "reconfigure")
        cluster.wait_state(be, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = int(cluster.run("sbatch", "--parsable", "-Jte-1", *wants, "--time=5", "--wrap", "sleep 600").stdout)
        cluster.wait_for(lambda: code(daemon, te) == "not_considered_yet", "Slurm's word to be awaited")
        daemon.await_polls(cluster, 4)
        cluster.run("scontrol", "reconfigure")
        cluster.wait_state(te, "RUNNING")
        daemon.await_polls(cluster, 2)
        assert cluster.put_back() == []
