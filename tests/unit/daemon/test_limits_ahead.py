"""Limits of accounts, users and QOS that keep a job that is not submitted, as Slurm would go through them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.access import PartitionAccess
from tesched_core.model.cluster import Job, JobState, Partition, SlurmSettings
from tesched_core.model.resources import JobId
from tesched_core.model.slurm_limits import QosRules, SlurmLimits
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.submission.limits_ahead import Ahead, Wanted, limits_ahead
from tesched_slurm.limits_in_use import HolderOfLimits, LimitInUse, LimitsInUse

from tests.builders import share

UID = 1001
JOB = Job(job_id=JobId(9), state=JobState.PENDING, user="ann", account="lab", qos="normal", partitions=("p",))
AMOUNTS = {"cpu": 4, "node": 2, "mem": 400, "gres/gpu": 2}
WANTED = Wanted(job=JOB, amount=AMOUNTS.get, minutes=10, nodes=("n1", "n2"))


def limit(text: str) -> LimitInUse:
    """Read `MaxJobs=2(1)`, or `GrpTRES=cpu=4(2)`."""
    kind, _, rest = text.partition("=")
    tres, _, number = rest.rpartition("=")
    most, _, used = number.rstrip(")").partition("(")
    return LimitInUse(kind=kind, tres=tres, most=int(most), used=int(used or 0))


def holder(*texts: str, parent: str = "") -> HolderOfLimits:
    each = [limit(text) for text in texts]
    users, accounts = (tuple(one for one in each if one.kind.endswith(end)) for end in ("PU", "PA"))
    own = tuple(one for one in each if not one.kind.endswith(("PU", "PA")))
    return HolderOfLimits(limits=own, parent=parent, of_users={str(UID): users}, of_accounts={"lab": accounts})


def ahead(
    *,
    user: tuple[str, ...] = (),
    account: tuple[str, ...] = (),
    root: tuple[str, ...] = (),
    qos: tuple[str, ...] = (),
    of_partition: tuple[str, ...] | None = None,
    rules: dict[str, QosRules] | None = None,
    wanted: Wanted = WANTED,
    enforced: str = "limits",
    running: tuple[Job, ...] = (),
    at_submission: bool = False,
    most_s: int | None = None,
) -> Ahead:
    """Return what keeps the job."""
    found = LimitsInUse(
        associations={
            ("lab", "ann", ""): holder(*user),
            ("lab", "", ""): holder(*account, parent="root"),
            ("root", "", ""): holder(*root),
        },
        qos={"normal": holder(*qos), "high": holder(*(of_partition or ()))},
    )
    partition = Partition(
        name="p",
        max_time_s=most_s,
        access=PartitionAccess(qos="high" if of_partition is not None else ""),
    )
    seen = Snapshot.of(
        0.0,
        jobs=running,
        partitions=[partition],
        settings=SlurmSettings(enforced=frozenset({enforced})),
        limits=SlurmLimits(rules=rules or {}),
    )
    answer = limits_ahead(wanted, found, seen, partition, UID, at_submission=at_submission)
    assert isinstance(answer, Ahead)
    return answer


def reasons(found: Ahead) -> list[str]:
    return [one.reason for one in found.in_the_way]


@pytest.mark.parametrize(
    ("passed", "kept", "reason"),
    [
        ("GrpJobs=2(1)", "GrpJobs=1(1)", "AssocGrpJobsLimit"),
        ("MaxJobs=2(1)", "MaxJobs=1(1)", "AssocMaxJobsLimit"),
        ("GrpWall=5(4)", "GrpWall=5(5)", "AssocGrpWallLimit"),
        ("MaxWallPJ=10", "MaxWallPJ=9", "AssocMaxWallDurationPerJobLimit"),
        ("GrpTRES=cpu=8(4)", "GrpTRES=cpu=8(5)", "AssocGrpCpuLimit"),
        ("GrpTRES=mem=400", "GrpTRES=mem=399", "AssocGrpMemLimit"),
        ("GrpTRES=gres/gpu=2", "GrpTRES=gres/gpu=1", "AssocGrpGRES"),
        ("GrpTRESMins=cpu=4(3)", "GrpTRESMins=cpu=4(4)", "AssocGrpCPUMinutesLimit"),
        ("GrpTRESRunMins=cpu=50(10)", "GrpTRESRunMins=cpu=50(11)", "AssocGrpCPURunMinutesLimit"),
        ("MaxTRESPJ=node=2", "MaxTRESPJ=node=1", "AssocMaxNodePerJobLimit"),
        ("MaxTRESPN=cpu=2", "MaxTRESPN=cpu=1", "AssocMaxCpuPerNode"),
        ("MaxTRESMinsPJ=cpu=40", "MaxTRESMinsPJ=cpu=39", "AssocMaxCpuMinutesPerJobLimit"),
    ],
)
def test_a_limit_of_an_association_keeps_a_job_that_passes_it(passed: str, kept: str, reason: str) -> None:
    assert reasons(ahead(user=(passed,))) == []
    assert reasons(ahead(user=(kept,))) == [reason]


@pytest.mark.parametrize(
    ("passed", "kept", "reason"),
    [
        ("GrpJobs=2(1)", "GrpJobs=1(1)", "QOSGrpJobsLimit"),
        ("MaxJobsPU=2(1)", "MaxJobsPU=1(1)", "QOSMaxJobsPerUserLimit"),
        ("MaxJobsPA=2(1)", "MaxJobsPA=1(1)", "MaxJobsPerAccount"),
        ("MaxTRESPU=cpu=8(4)", "MaxTRESPU=cpu=8(5)", "QOSMaxCpuPerUserLimit"),
        ("MaxTRESPU=mem=400", "MaxTRESPU=mem=399", "QOSMaxMemoryPerUser"),
        ("MaxTRESPA=gres/gpu=4(2)", "MaxTRESPA=gres/gpu=4(3)", "MaxGRESPerAccount"),
        ("MaxTRESRunMinsPU=cpu=50(10)", "MaxTRESRunMinsPU=cpu=50(11)", "MaxCpuRunMinsPerUser"),
        ("MaxTRESRunMinsPA=cpu=50(10)", "MaxTRESRunMinsPA=cpu=50(11)", "MaxCpuRunMinsPerAccount"),
        ("MinTRESPJ=cpu=4", "MinTRESPJ=cpu=5", "QOSMinCpuNotSatisfied"),
    ],
)
def test_a_limit_of_a_qos_keeps_a_job_that_passes_it(passed: str, kept: str, reason: str) -> None:
    assert reasons(ahead(qos=(passed,))) == []
    assert reasons(ahead(qos=(kept,))) == [reason]


def test_of_accounts_above_the_limits_of_all_their_jobs_alone_count() -> None:
    assert reasons(ahead(root=("GrpTRES=cpu=3", "MaxJobs=0", "MaxTRESPJ=cpu=1"))) == ["AssocGrpCpuLimit"]


def test_what_a_qos_limits_is_not_compared_with_what_lies_behind_it() -> None:
    assert reasons(ahead(qos=("GrpTRES=cpu=100",), user=("GrpTRES=cpu=1",))) == []
    assert reasons(ahead(qos=("MaxJobsPU=9(1)",), user=("MaxJobs=1(1)",))) == []
    assert reasons(ahead(of_partition=("GrpJobs=9",), qos=("GrpJobs=1(1)",))) == []
    over = {"normal": QosRules(flags=frozenset({"overpartqos"}))}
    assert reasons(ahead(of_partition=("GrpJobs=9",), qos=("GrpJobs=1(1)",), rules=over)) == ["QOSGrpJobsLimit"]


def test_limits_on_jobs_come_before_those_on_what_they_hold() -> None:
    found = ahead(qos=("GrpTRES=cpu=1",), user=("MaxJobs=1(1)",), account=("GrpTRES=gres/gpu=1",))
    assert reasons(found) == ["AssocMaxJobsLimit", "QOSGrpCpuLimit", "AssocGrpGRES"]
    assert found.in_the_way[0].text == "MaxJobs=1 of user ann in account lab: 1 running  [AssocMaxJobsLimit]"
    assert found.in_the_way[1].text == "GrpTRES=cpu=1 of QOS normal: it wants 4  [QOSGrpCpuLimit]"


def test_what_is_not_known_of_the_job_is_not_compared_and_named() -> None:
    found = ahead(user=("GrpTRES=billing=1",))
    assert (reasons(found), found.uncompared) == ([], ["GrpTRES=billing=1 of user ann in account lab"])
    relative = {"normal": QosRules(flags=frozenset({"relative"}))}
    assert reasons(ahead(qos=("GrpTRES=cpu=1",), user=("GrpTRES=cpu=1",), rules=relative)) == []


def test_a_job_without_a_time_has_that_of_the_limits_on_the_time_alone() -> None:
    wanted = replace(WANTED, is_timed=False, minutes=1000)
    assert reasons(ahead(user=("MaxWallPJ=5", "MaxTRESMinsPJ=cpu=30"), wanted=wanted)) == []
    assert reasons(ahead(user=("GrpWall=5", "MaxTRESMinsPJ=cpu=30"), wanted=wanted)) == []
    assert reasons(ahead(user=("MaxWallPJ=5", "GrpTRESRunMins=cpu=30(11)"), wanted=wanted)) == [
        "AssocGrpCPURunMinutesLimit"
    ]
    short = replace(wanted, minutes=1)
    assert reasons(ahead(user=("MaxTRESMinsPJ=cpu=30",), wanted=short)) == ["AssocMaxCpuMinutesPerJobLimit"]
    denies = {"normal": QosRules(flags=frozenset({"denyonlimit"}))}
    assert reasons(ahead(user=("MaxTRESMinsPJ=cpu=30",), wanted=short, rules=denies)) == []


def test_such_a_time_above_the_partitions_keeps_the_job() -> None:
    wanted = replace(WANTED, is_timed=False, minutes=7)
    assert reasons(ahead(user=("MaxWallPJ=7",), wanted=wanted, most_s=420)) == []
    found = ahead(user=("MaxWallPJ=8",), wanted=wanted, most_s=420)
    (text,) = (one.text for one in found.in_the_way)
    by = "its time limit is 8 min by MaxWall=8 min of user ann in account lab"
    assert text == f"MaxTime=7 min of partition p: {by}  [PartitionTimeLimit]"
    lifted = {"normal": QosRules(flags=frozenset({"partitiontimelimit"}))}
    assert reasons(ahead(user=("MaxWallPJ=8",), wanted=wanted, most_s=420, rules=lifted)) == []
    assert reasons(ahead(user=("MaxWallPJ=8",), wanted=replace(wanted, is_timed=True), most_s=420)) == []


def test_a_node_counts_once_for_all_jobs_of_the_account() -> None:
    other = replace(JOB, job_id=JobId(1), state=JobState.RUNNING, user="bob", allocation=(share("n1", cpus=1),))
    assert reasons(ahead(account=("GrpTRES=node=2(1)",), running=(other,))) == []
    assert reasons(ahead(account=("GrpTRES=node=2(1)",))) == ["AssocGrpNodeLimit"]
    assert reasons(ahead(user=("GrpTRES=node=2(1)",), running=(other,))) == ["AssocGrpNodeLimit"]
    mine = replace(other, user="ann")
    assert reasons(ahead(qos=("MaxTRESPU=node=2(1)",), running=(mine,))) == []
    assert reasons(ahead(qos=("MaxTRESPU=node=2(1)",), running=(other,))) == ["QOSMaxNodePerUserLimit"]


def test_with_safe_as_much_must_be_left_as_the_time_limit_may_use() -> None:
    for text, reason in (("GrpTRESMins=cpu=50(11)", "AssocGrpCPUMinutesLimit"), ("GrpWall=15(6)", "AssocGrpWallLimit")):
        assert reasons(ahead(user=(text,))) == []
        assert reasons(ahead(user=(text,), enforced="safe")) == [reason]


def test_factors_of_a_qos_count_as_in_slurm() -> None:
    assert reasons(ahead(user=("GrpTRES=cpu=2",), rules={"normal": QosRules(limit_factor=2.0)})) == []
    slow = {"normal": QosRules(flags=frozenset({"usagefactorsafe"}), usage_factor=2.0)}
    assert reasons(ahead(user=("MaxWallPJ=10",), rules=slow)) == ["AssocMaxWallDurationPerJobLimit"]
    assert reasons(ahead(user=("GrpTRESMins=cpu=1(5)",), rules={"normal": QosRules(usage_factor=0.0)})) == []


@pytest.mark.parametrize(
    ("passed", "kept", "reason"),
    [
        ("MaxSubmitJobs=3(2)", "MaxSubmitJobs=2(2)", "AssocMaxSubmitJobLimit"),
        ("GrpSubmitJobs=3(2)", "GrpSubmitJobs=2(2)", "AssocGrpSubmitJobsLimit"),
    ],
)
def test_at_a_submission_submitted_jobs_count(passed: str, kept: str, reason: str) -> None:
    assert reasons(ahead(user=(passed, "MaxJobs=0"), at_submission=True)) == []
    assert reasons(ahead(user=(kept,), at_submission=True)) == [reason]
    tasks = replace(WANTED, tasks=2)
    assert reasons(ahead(user=(passed,), at_submission=True, wanted=tasks)) == [reason]


def test_with_deny_on_limit_what_it_asks_for_by_itself_counts_at_its_submission() -> None:
    denies = {"normal": QosRules(flags=frozenset({"denyonlimit"}))}
    for text, over in (("MaxTRESPU=cpu=3", True), ("MaxTRESPU=cpu=5(5)", False), ("MaxWallPJ=9", True)):
        assert bool(reasons(ahead(qos=(text,), rules=denies, at_submission=True))) is over
        assert reasons(ahead(qos=(text,), at_submission=True)) == []


def test_limits_that_are_not_shown_are_not_guessed() -> None:
    seen = Snapshot.of(0.0, partitions=[Partition(name="p")])
    for found, text in (
        (LimitsInUse(), "of user ann in account lab"),
        (LimitsInUse(associations={("lab", "ann", ""): holder()}), "of account lab, and those above it"),
        (
            LimitsInUse(associations={("lab", "ann", ""): holder(), ("lab", "", ""): holder()}),
            "of QOS normal",
        ),
    ):
        answer = limits_ahead(WANTED, found, seen, Partition(name="p"), UID, at_submission=False)
        assert isinstance(answer, str)
        assert text in answer
