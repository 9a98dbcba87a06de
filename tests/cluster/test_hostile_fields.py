"""Of each text that a user can have in a job's record, on a real Slurm: the job is read as one that says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tesched_core.model.cluster import Job, NodeShare
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_testcluster.definition import ClusterDefinition
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm]

#: Options of sbatch that take any text, and those of which slurmctld or sbatch refuses all but names that it knows.
FREE = (
    *("job-name", "comment", "network", "mail-user", "account", "wckey", "mcs-label", "cluster-constraint", "bb"),
    *("container", "extra", "power", "qos", "context", "export", "profile", "output", "error", "input", "chdir"),
)
CHECKED = (
    *("batch", "constraint", "prefer", "reservation", "licenses", "dependency", "nodelist", "exclude", "partition"),
    *("gpu-bind", "gpu-freq", "gres", "gpus", "acctg-freq", "begin", "deadline", "array", "hint", "signal"),
)
#: with such a path a job ends as soon as it starts
PATHS = ("output", "error", "input", "chdir")
#: what each release takes; the others depend on it, or on its plugins
ALWAYS_TAKEN = {"job-name", "comment", "network", "account", "wckey", "mcs-label", "cluster-constraint", *PATHS}
_HOLDS = "Nodes=n[1-8] CPU_IDs=0-31 Mem=64000 GRES=gpu:8(IDX:0-7)"
_WORDS = (
    "NodeList=n7 NumNodes=9 NumCPUs=99 Restarts=7 Requeue=0 BatchFlag=0 Deadline=9 TimeLimit=00:01:00 MinMemoryNode=7M"
    " ReqNodeList=n3 ExcNodeList=n3 NodeList= TRES=cpu=99 ArrayTaskThrottle=1 Features=a Comment=te AdminComment=te"
)
_HEAD = (
    "UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=9 Nice=-9 Account=vip QOS=high JobState=COMPLETED"
    " Reason=None Dependency=(null) Requeue=1 SubmitTime=1"
)
TEXTS: Mapping[str, str] = {
    "holds": f"x   {_HOLDS} {_WORDS}",
    "on a line of its own": f"x\n   {_HOLDS}\n   {_WORDS}\n",
    "another record": f"x {_HEAD}\nJobId=1 JobName=x {_HEAD}",
    "Slurm's word for nothing": "(null)",
    "scontrol's word for no label": "N/A",
    "as long as it may be": f"x {_HOLDS} ".ljust(1000, "y"),
}


def seen_by(connect: Connect, cluster: LocalCluster) -> Mapping[JobId, Job]:
    seen = connect(cluster).observer.observe()
    assert isinstance(seen, Snapshot), seen
    return seen.jobs


def without_its_text(job: Job) -> Job:
    """The job as if it were another one that asks for the same: without id, times, place and what it is called."""
    held = tuple(NodeShare(node="", tres=share.tres) for share in job.allocation)
    return replace(
        job,
        job_id=JobId(1),
        name="",
        comment="",
        account="",
        priority=int(job.held),
        submit_time=0.0,
        eligible_time=None,
        start_time=None,
        allocation=held,
    )


def taken(cluster: LocalCluster, option: str, text: str, *options: str) -> JobId | None:
    """Submit a job with this text as an ordinary user; None if Slurm refuses it."""
    value = f"/{text}" if option in PATHS else text
    said = ("sbatch", "--parsable", "--output=/dev/null", *options, f"--{option}={value}", "--wrap", "exec sleep 1000")
    done = cluster.run(*said, user=ordinary_user(), check=False)
    return JobId(int(done.stdout)) if done.returncode == 0 else None


@pytest.mark.gate
@pytest.mark.release
def test_no_text_in_any_field_changes_what_is_read_of_its_job(make_cluster: MakeCluster, connect: Connect) -> None:
    """Neither of one that waits nor of one that runs: else its user could keep it from being a victim."""
    cluster = make_cluster(ClusterDefinition(settings={"TrackWCKey": "yes"}))
    asked = ("-N2", "-n3", "--gpus-per-node=1", "--mem-per-cpu=10", "--time=60", "--mail-type=ALL")
    held, runs = (taken(cluster, "job-name", "honest", *asked, *more) for more in (("--hold",), ()))
    assert held is not None
    assert runs is not None
    cluster.wait_state(runs, "RUNNING")
    for name, text in TEXTS.items():
        waiting = {option: taken(cluster, option, text, *asked, "--hold") for option in (*FREE, *CHECKED)}
        accepted = {option for option, job_id in waiting.items() if job_id is not None}
        assert accepted >= ALWAYS_TAKEN, name
        started = {option: taken(cluster, option, text, *asked) for option in accepted.difference(PATHS)}
        cluster.wait_for(lambda: {*started.values()} <= running(cluster), f"all of {name!r} to run")  # noqa: B023
        jobs = seen_by(connect, cluster)
        honest = {True: without_its_text(jobs[held]), False: without_its_text(jobs[runs])}
        for group in (waiting, started):
            for option, job_id in group.items():
                if job_id is not None:
                    job = jobs[job_id]
                    assert without_its_text(job) == honest[job.held], (name, option)
        cluster.run("scancel", *(str(job_id) for job_id in {*waiting.values(), *started.values()} - {None}))
        cluster.wait_for(lambda: running(cluster) == {runs}, "the others to end")


def running(cluster: LocalCluster) -> set[JobId]:
    return {JobId(int(job_id)) for job_id in cluster.run("squeue", "-h", "-t", "R,CG", "-o", "%A").stdout.split()}


#: what a user types of its own waiting job, and what Slurm makes of it
LISTS = {"n1 n2": ("n1", "n2"), "n1,,n2": ("n1", "n2"), " n1\tn3 ,": ("n1", "n3"), "n[2-3] n1": ("n1", "n2", "n3")}


@pytest.mark.gate
@pytest.mark.release
def test_a_list_of_nodes_that_a_user_changes_is_read_as_slurm_reads_it(cluster: LocalCluster, connect: Connect) -> None:
    """Slurm keeps it as it was typed. With a node less on it, resources would be freed where the job may not start."""
    user = ordinary_user()
    for typed, nodes in LISTS.items():
        job_id = JobId(cluster.sbatch("--hold", "-N5", "--exclusive", wrap="exec sleep 1000", user=user))
        cluster.run("scontrol", "update", f"jobid={job_id}", f"excnodelist={typed}", user=user)
        job = seen_by(connect, cluster)[job_id]
        assert (job.request.excluded_nodes, job.doubt) == (nodes, "")
        cluster.run("scontrol", "release", str(job_id), user=user)
        cluster.wait_state(job_id, "RUNNING")
        assert set(nodes).isdisjoint(seen_by(connect, cluster)[job_id].nodes)
        cluster.run("scancel", str(job_id))
        cluster.wait_for(lambda: not running(cluster), "it to end")


#: a device that is named twice, by what asks for it, and how many Slurm gives on the job's one node
TWICE = {
    "--gres=gpu:3,gpu:1": 1,
    "--gres=gpu:1,gpu:3": 3,
    "--gpus=3,1": 1,
    "--gpus-per-node=1,3": 3,
    "--gpus-per-task=3,1": 1,
    "--gpus-per-socket=3,1 --sockets-per-node=1": 1,
}


@pytest.mark.gate
def test_of_a_device_that_is_named_twice_the_last_is_what_slurm_gives(cluster: LocalCluster, connect: Connect) -> None:
    """Else more victims would leave than it needs."""
    for options, count in TWICE.items():
        job_id = JobId(cluster.sbatch("-N1", "-n1", "--mem=10", *options.split(), wrap="exec sleep 1000"))
        cluster.wait_state(job_id, "RUNNING")
        job = seen_by(connect, cluster)[job_id]
        asks = job.request
        asked = (*asks.gres_per_node, *asks.gres_per_job, *asks.gres_per_task, *asks.gres_per_socket)
        assert asked == (("gpu", count),), options
        assert [share.tres.as_mapping().get("gpu") for share in job.allocation] == [count], options


@pytest.mark.gate
def test_a_partition_that_is_named_twice_or_not_at_all_is_one(cluster: LocalCluster, connect: Connect) -> None:
    job_id = JobId(cluster.sbatch("--hold", "--partition=main,,debug,main,", wrap="exec sleep 1000"))
    assert seen_by(connect, cluster)[job_id].partitions == ("main", "debug")
