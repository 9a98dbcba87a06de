"""Jobs that no limit keeps from starting, by what slurmctld shows; what is not certain says no."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from tesched_core.model.access import PartitionAccess
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, Partition, Request, SlurmSettings
from tesched_core.model.resources import JobId
from tesched_core.model.slurm_limits import PLAIN, QosRules, SlurmLimits
from tesched_slurm.clear_of_limits import AGAIN_S, ClearOfLimits

from tests.builders import cluster, node, waiting
from tests.unit.slurm.answering import Answering

#: job 1 of user ann wants a part of a node of 32 CPUs and 64,000 MiB, for 10 minutes
JOB = replace(waiting(1, user="ann", account="lab", qos="high"), time_limit_s=600)
OTHER = replace(JOB, job_id=JobId(2))
ROOT = (
    "ClusterName=c Account=root UserName= Partition= Priority=0 ID=1 UsageRaw/Norm/Efctv=0.00/1.00/0.00 ParentAccount="
    " Lft=1 DefAssoc=No {limits}"
)
LAB = ROOT.replace("=root", "=lab").replace("ParentAccount=", "ParentAccount=root(1)")
ANN = LAB.replace("UserName=", "UserName=ann(1001)").replace("ParentAccount=root(1)", "ParentAccount=")
QOS = (
    "QOS=high(9) UsageRaw=0.000000 {limits} Account Limits= lab={{{of_account}}} User Limits= 1001={{{of_user}}}"
    " 1002={{MaxJobsPU=1(1)}}"
)
NONE = "GrpJobs=N(3) GrpTRES=cpu=N(5) MaxJobs="


def shown(
    *, root: str = NONE, lab: str = NONE, ann: str = NONE, qos: str = NONE, of_account: str = "", of_user: str = ""
) -> str:
    """Return scontrol's answer with these limits."""
    records = (ROOT.format(limits=root), LAB.format(limits=lab), ANN.format(limits=ann))
    return "\n".join(
        ("Association Records", *records, "QOS Records", QOS.format(limits=qos, of_account=of_account, of_user=of_user))
    )


def clear(answer: str, *pending: Job, job: Job = JOB, rules: QosRules | None = PLAIN, qos: str = "") -> bool:
    """Check whether the job is clear of these limits; `qos` is its partition's."""
    seen = cluster(
        [node("n1")],
        [],
        partitions=[Partition(name="p", access=PartitionAccess(qos=qos))],
        settings=SlurmSettings(),
    )
    seen = replace(seen, limits=SlurmLimits(rules={} if rules is None else {"high": rules}))
    found = ClearOfLimits(commands=Answering(answers=[answer])).among([job], seen, [job, *pending])
    return bool(found)


def test_a_job_is_clear_where_no_holder_has_limits() -> None:
    assert clear(shown())
    assert clear(shown(ann="MaxSubmitJobs=0(9) MaxJobs=")), "it is submitted already"


@pytest.mark.parametrize(
    ("holder", "least"),
    [
        ("GrpJobs={}(3)", 4),
        ("MaxJobs={}(3)", 4),
        ("GrpTRES=cpu={}(5)", 37),
        ("GrpTRES=mem={}(5)", 64_005),
        ("GrpTRES=node={}(5)", 6),
        ("MaxTRESPJ=cpu={}", 32),
        ("MaxTRESPN=cpu={}", 32),
        ("MaxWallPJ={}", 10),
        ("GrpWall={}(7.00)", 17),
        ("MaxTRESMinsPJ=cpu={}", 320),
        ("GrpTRESMins=cpu={}(7)", 327),
        ("GrpTRESRunMins=cpu={}(7)", 327),
    ],
)
@pytest.mark.parametrize("of", ["root", "lab", "ann", "qos"])
def test_a_limit_counts_as_if_the_job_took_its_node_whole(of: str, holder: str, least: int) -> None:
    inherited = of in {"root", "lab"} and not holder.startswith("Grp")  # its users have it themselves
    assert clear(shown(**{of: holder.format(least)}))
    assert clear(shown(**{of: holder.format(least - 1)})) is inherited


@pytest.mark.parametrize("word", ["of_user", "of_account"])
def test_of_a_qos_those_on_the_jobs_own_user_and_account_count(word: str) -> None:
    kind = "MaxJobsPU" if word == "of_user" else "MaxJobsPA"
    assert clear(shown(**{word: f"{kind}=4(3)"}))
    assert not clear(shown(**{word: f"{kind}=3(3)"}))


def test_other_pending_jobs_may_start_before_it() -> None:
    assert not clear(shown(ann="MaxJobs=4(3)"), OTHER)
    assert clear(shown(ann="MaxJobs=5(3)"), OTHER)
    assert clear(shown(ann="GrpTRES=cpu=64(0)"), OTHER)
    assert not clear(shown(ann="GrpTRES=cpu=63(0)"), OTHER)
    assert not clear(shown(ann="GrpWall=9000(0)"), OTHER), "what they use is not known"
    tasks = replace(OTHER, array_job_id=JobId(2), array_tasks="0-3")
    assert not clear(shown(ann="MaxJobs=7(3)"), tasks)
    assert clear(shown(ann="MaxJobs=8(3)"), tasks)


@pytest.mark.parametrize(
    "answer",
    [
        shown(qos="MinTRESPJ=cpu=1"),
        shown(qos="GrpTRES=billing=1000000(0)"),
        shown(qos="GrpTRES=license/soft=1000000(0)"),
        shown().replace("1001={}", "").replace(" 1002={MaxJobsPU=1(1)}", "No Users"),
        shown().replace("lab={}", "No Accounts"),
        shown().replace("Account=root User", "Account=rest User"),
        shown().replace("UserName=ann(1001)", "UserName=eve(1001)"),
        shown().replace("QOS=high", "QOS=low"),
        "",
        "Slurm says something else",
    ],
)
def test_it_is_not_clear_of_what_is_not_known(answer: str) -> None:
    assert not clear(answer)


def test_it_is_not_clear_where_the_flags_of_a_qos_are_not_known_or_change_what_counts() -> None:
    assert not clear(shown(), rules=None)
    assert not clear(shown(), qos="of-partition")
    for flag in ("enforceusagethreshold", "relative", "requiresreservation"):
        assert not clear(shown(), rules=QosRules(flags=frozenset({flag})))
    assert not clear(shown(ann="MaxJobs=9(0)"), rules=QosRules(limit_factor=2.0))


def test_it_is_not_clear_without_a_time_limit_where_time_is_limited() -> None:
    endless = replace(JOB, time_limit_s=None)
    assert clear(shown(), job=endless)
    assert not clear(shown(ann="MaxWallPJ=9000"), job=endless)
    assert not clear(shown(ann="GrpTRESMins=cpu=9000000(0)"), job=endless)


def test_it_may_take_as_many_nodes_as_it_has_tasks() -> None:
    wide = replace(JOB, request=Request(min_nodes=1, max_nodes=9, tasks=2))
    assert clear(shown(ann="GrpTRES=node=2(0)"), job=wide)
    assert not clear(shown(ann="GrpTRES=node=1(0)"), job=wide)
    assert clear(shown(ann="GrpTRES=cpu=64(0)"), job=wide)
    assert not clear(shown(ann="GrpTRES=cpu=63(0)"), job=wide)


def test_slurm_is_queried_at_once_for_a_new_job_and_seldom_for_others() -> None:
    now = [0.0]
    commands = Answering(answers=[Failure(kind=FailureKind.UNREACHABLE, message="no"), shown(), shown()])
    limits = ClearOfLimits(commands=commands, stopwatch=lambda: now[0])
    seen = replace(cluster([node("n1")]), limits=SlurmLimits(rules={"high": QosRules()}))
    assert limits.among([JOB], seen, [JOB]) == frozenset()
    assert limits.among([JOB], seen, [JOB]) == frozenset()
    assert len(commands.ran) == 1
    assert limits.among([JOB, OTHER], seen, [JOB, OTHER]) == {1, 2}
    now[0] = AGAIN_S
    assert limits.among([JOB], seen, [JOB]) == {1}
    assert commands.ran[0][-1] == "users=ann"


def test_an_early_read_has_its_own_time_and_leaves_the_next_poll_its_own() -> None:
    given = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Timed(Answering):
        def run(
            self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
        ) -> str | Failure:
            given.append(self.timeout_s)
            return Answering.run(self, argv, variables, enough=enough)

    limits = ClearOfLimits(commands=Timed(answers=[shown()] * 4), stopwatch=lambda: 0.0)
    seen = replace(cluster([node("n1")]), limits=SlurmLimits(rules={"high": PLAIN}))
    assert limits.among([JOB], seen, [JOB], early=True, within_s=3.0) == {1}
    assert limits.among([JOB], seen, [JOB]) == {1}
    assert limits.among([JOB], seen, [JOB]) == frozenset(), "a poll right after the other awaits Slurm's word"
    assert limits.among([JOB], seen, [JOB], early=True, within_s=3.0) == {1}
    assert given == [3.0, 10.0, 3.0]


def test_a_user_with_a_strange_name_is_not_named() -> None:
    strange = replace(JOB, user="a,b")
    commands = Answering(answers=[])
    assert ClearOfLimits(commands=commands).among([strange], cluster([node("n1")]), []) == frozenset()
