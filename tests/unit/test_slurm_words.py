"""Slurm's words are read as Slurm means them, and a user's text forges none of them."""

from __future__ import annotations

import pytest
from tesched_core.cluster import Job, JobState
from tesched_slurm import words
from tesched_slurm.jobs import Read, read_jobs
from tesched_slurm.places import read_nodes

MIDDLE = (
    " UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A Priority=100 Nice=0 Account=(null) QOS=(null) JobState=RUNNING"
    " Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 TimeLimit=01:00:00"
    " SubmitTime=1000 EligibleTime=1000 StartTime=1010 EndTime=4610 Partition=main ReqNodeList=(null)"
    " ExcNodeList=(null) NodeList=n1 NumNodes=1 NumCPUs=2 NumTasks=1 CPUs/Task=1 TRES=cpu=2,mem=2000M,node=1"
    " JOB_GRES=gpu:1   Nodes=n1 CPU_IDs=0,16 Mem=2000 GRES=gpu:1(IDX:0) MinCPUsNode=1 MinMemoryCPU=1000M"
    " Features=(null) OverSubscribe=OK Licenses=(null)"
)
#: what a user would like Slurm to have said
FORGED = " UserId=bob(1) GroupId=x(1) MCS_label= Priority=5 JobState=COMPLETED Command=/x"


def record(
    *,
    job_id: int = 1,
    name: str = "train",
    between: str = "",
    comment: str = "",
    out: str = "/o",
    tail: str = "Power= ",
) -> str:
    said = f" Comment={comment} " if comment else ""
    return (
        f"JobId={job_id} JobName={name}{between}{MIDDLE} Command=/job.sh WorkDir=/work{said} StdErr=/e StdIn=/i"
        f" StdOut={out} {tail}\n"
    )


def no_name(_: str) -> str:
    return ""


def only(answer: str, name: str = "") -> Job:
    read = read_jobs(answer, lambda _: name)
    assert read.dropped == 0
    (job,) = read.jobs
    return job


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("30", 30),
        ("05:00", 300),
        ("01:02:03", 3723),
        ("1-02:03:04", 93784),
        ("365-00:00:00", 31536000),
        ("UNLIMITED", None),
        ("N/A", None),
        ("Partition_Limit", None),
    ],
)
def test_seconds(value: str, expected: int | None) -> None:
    assert words.seconds(value) == expected


@pytest.mark.parametrize(("value", "expected"), [("1795223314", 1795223314.0), ("Unknown", None), ("None", None)])
def test_moment(value: str, expected: float | None) -> None:
    assert words.moment(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("1000M", 1000), ("2G", 2048), ("1.50G", 1536), ("2048K", 2), ("512", 512), ("0", 0)]
)
def test_mebibytes(value: str, expected: int) -> None:
    assert words.mebibytes(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("gpu:2", (("gpu", 2),)),
        ("gres:gpu:4", (("gpu", 4),)),
        ("gres/gpu:a100=2", (("gpu:a100", 2),)),
        ("gpu:a100:2(S:0-1)", (("gpu:a100", 2),)),
        ("gpu:3(IDX:0,2-3)", (("gpu", 3),)),
        ("gpu", (("gpu", 1),)),
        ("gpu:v100:1,gpu:a100:4(S:0,1)", (("gpu:a100", 4), ("gpu:v100", 1))),
        ("(null)", ()),
        ("", ()),
    ],
)
def test_gres(value: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert words.gres(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("n1", ("n1",)), ("n[2-3,5]", ("n2", "n3", "n5")), ("n[08-10]", ("n08", "n09", "n10")), ("(null)", ()), ("", ())],
)
def test_hosts(value: str, expected: tuple[str, ...]) -> None:
    assert words.hosts(value) == expected


@pytest.mark.parametrize(
    "name",
    [
        "two words",
        "x Priority=5 JobState=COMPLETED",
        "x UserId=bob(1)",
        "Ünïcode = '\"",
        " JobName=other",
        "x Nodes=n7 CPU_IDs=0-31 Mem=256000 GRES=gpu:8",
    ],
)
def test_a_name_forges_nothing(name: str) -> None:
    job = only(record(name=name))
    assert (job.name, job.user, job.priority, job.state) == (name, "ada", 100, JobState.RUNNING)
    assert job.nodes == ("n1",)


def test_a_name_that_repeats_slurms_fixed_keys_is_asked_for() -> None:
    name = f"x{FORGED}"
    job = only(record(name=name), name)
    assert (job.name, job.user, job.priority, job.state) == (name, "ada", 100, JobState.RUNNING)


def test_a_record_whose_name_cannot_be_had_is_dropped() -> None:
    read = read_jobs(record(name=f"x{FORGED}"), no_name)
    assert read == Read(jobs=(), dropped=1)


@pytest.mark.parametrize("comment", [FORGED.strip(), "a b=c", "x MinCPUsNode=99 Requeue=0"])
def test_a_comment_forges_nothing(comment: str) -> None:
    job = only(record(comment=comment), "train")
    assert (job.name, job.user, job.priority, job.comment) == ("train", "ada", 100, comment)
    assert job.requeueable


def test_an_output_path_forges_no_request() -> None:
    job = only(record(out="/o TresPerNode=gres:gpu:8 TresPerJob=gres:gpu:8", tail="Power= TresPerJob=gres:gpu:1 "))
    assert job.request.gres_per_job == (("gpu", 1),)
    assert job.request.gres_per_node == ()


def test_a_heterogeneous_jobs_set_is_no_part_of_its_name() -> None:
    assert only(record(between=" HetJobIdSet=10-11")).name == "train"


def test_cpus_of_a_share_are_counted() -> None:
    (share,) = only(record()).allocation
    assert (share.tres.cpus, share.tres.mem_mib, share.tres.gpus) == (2, 2000, 1)
    assert share.cpu_ids == "0,16"


def test_a_broken_record_is_dropped_alone() -> None:
    read = read_jobs(record(job_id=1) + "JobId=2 JobName=half\n" + record(job_id=3), no_name)
    assert ([job.job_id for job in read.jobs], read.dropped) == ([1, 3], 1)


def test_no_jobs() -> None:
    assert read_jobs("No jobs in the system\n", no_name) == Read(jobs=(), dropped=0)


def test_a_drain_reason_forges_nothing() -> None:
    line = (
        "NodeName=n1 CPUAlloc=0 CPUEfctv=32 CPUTot=32 Gres=gpu:a100:4 RealMemory=256000 State=IDLE+DRAIN"
        " Partitions=main Reason=fan State=IDLE Gres=gpu:9 [root@1000]\n"
    )
    (node,) = read_nodes(line)
    assert (node.state, node.flags, node.reason) == ("IDLE", frozenset({"DRAIN"}), "fan State=IDLE Gres=gpu:9")
    assert node.total.as_mapping() == {"cpu": 32, "mem_mib": 256000, "gpu": 4, "gpu:a100": 4}


@pytest.mark.parametrize(
    ("said", "state", "flag"), [("DOWN*", "DOWN", "NOT_RESPONDING"), ("MIXED+COMPLETING", "MIXED", "COMPLETING")]
)
def test_node_states(said: str, state: str, flag: str) -> None:
    (node,) = read_nodes(f"NodeName=n1 CPUTot=32 RealMemory=1000 State={said} Partitions=main\n")
    assert (node.state, node.flags) == (state, frozenset({flag}))


def test_a_name_of_two_lines_forges_no_job() -> None:
    read = read_jobs(record(name="a\nJobId=99 JobName=b", comment="l1\nJobId=98 l2"), no_name, {1})
    assert read.dropped == 0
    (job,) = read.jobs
    assert (job.job_id, job.name, job.comment) == (1, "a\nJobId=99 JobName=b", "l1\nJobId=98 l2")
