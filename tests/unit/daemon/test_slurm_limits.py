"""Limits in the way of a job that is not submitted: when they are read, and for which of its partitions."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from tesched_core.model.access import PartitionAccess
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, JobState, Partition, Request, SlurmSettings
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.submission.pretended import Pretended
from tesched_daemon.submission.slurm_limits import ForetoldLimits, slurm_limits
from tesched_slurm.sbatch_asked import SlurmsWord

from tests.unit.slurm.answering import Answering

FAILS = Failure(kind=FailureKind.UNREACHABLE, message="Access/permission denied")
HEAD = "ClusterName=t Account={} UserName={} Partition= Priority=0 ID=7 "
ANSWER = "\n".join(
    (
        HEAD.format("lab", "") + "ParentAccount= GrpTRES=cpu=9(4)",
        HEAD.format("lab", "ann(1001)") + "ParentAccount= MaxTRESPJ=mem=300,gres/gpu=1,billing=1",
        "QOS=normal(1) Account Limits= lab={MaxJobsPA=N(0)} User Limits= 1001={MaxJobsPU=N(0)}",
        f"QOS=few(2) Account Limits= lab={{MaxJobsPA=N(0)}} User Limits= {os.getuid()}={{MaxJobsPU=1(1)}}",
    )
)
JOB = Job(job_id=JobId(9), state=JobState.PENDING, user="ann", account="lab", qos="normal", partitions=("p",))
SEEN = Snapshot.of(
    0.0,
    partitions=[Partition(name="p"), Partition(name="few", access=PartitionAccess(qos="few"))],
    settings=SlurmSettings(enforced=frozenset({"limits"})),
)


def limits(job: Job, answer: str | Failure = ANSWER, seen: Snapshot = SEEN, *, known: bool = True) -> ForetoldLimits:
    word = SlurmsWord(start_at=0.0, cpus=4, nodes="n[1-2]", partition="p")
    return slurm_limits(Pretended(job=job, request_known=known), {}, word, seen, Answering(answers=[answer]))


def test_where_none_is_enforced_none_is_read() -> None:
    found = limits(JOB, FAILS, replace(SEEN, settings=SlurmSettings(enforced=frozenset({"associations"}))))
    assert (found.unread, found.lines) == ("Slurm enforces none here (AccountingStorageEnforce)", [])


def test_limits_that_can_not_be_read_are_not_guessed() -> None:
    found = limits(JOB, FAILS)
    assert (found.unread, found.reason, found.lines) == ("they can't be read: Access/permission denied", "", [])


@pytest.mark.parametrize(
    ("partitions", "reason"), [(("few",), "QOSMaxJobsPerUserLimit"), (("few", "p"), ""), (("p", "few"), "")]
)
def test_a_limit_of_one_partition_keeps_no_job_that_may_start_in_another(
    partitions: tuple[str, ...], reason: str
) -> None:
    assert limits(replace(JOB, partitions=partitions)).reason == reason


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(mem_per_node_mib=150, gres_per_node=()), ""),
        (Request(mem_per_node_mib=151), "AssocMaxMemPerJob"),
        (Request(mem_per_cpu_mib=76), "AssocMaxMemPerJob"),
        (Request(gres_per_job=(("gpu", 1),)), ""),
        (Request(gres_per_node=(("gpu:a100", 1),)), "AssocMaxGRESPerJob"),
        (Request(gres_per_task=(("gpu", 1),), tasks=2), "AssocMaxGRESPerJob"),
    ],
)
def test_what_it_would_hold_is_worked_out_from_its_request_and_slurms_word(request_: Request, reason: str) -> None:
    found = limits(replace(JOB, request=request_))
    assert (found.reason, found.unread) == (reason, "")


def test_what_is_not_known_is_named() -> None:
    whole = limits(replace(JOB, request=Request(exclusive=True, mem_per_node_mib=0)))
    (note,) = whole.notes
    assert note.endswith(
        "MaxTRESPerJob=mem=300M of user ann in account lab, MaxTRESPerJob=gres/gpu=1 of user ann in account lab, "
        "MaxTRESPerJob=billing=1 of user ann in account lab"
    )
    assert "gres/gpu" in limits(JOB, known=False).notes[0]
