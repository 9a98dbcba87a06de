"""Limits of associations and QOS as scontrol prints them on 22.05 and 26.05, and how often they are read."""

from __future__ import annotations

import grp
import pwd
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_core.model.access import PartitionAccess
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import NodeShare, Partition, SlurmSettings
from tesched_core.model.resources import Tres
from tesched_core.model.slurm_limits import NOTHING_KNOWN, LimitKind, UnreadLimits
from tesched_slurm import group_members
from tesched_slurm.group_members import read_members
from tesched_slurm.scontrol_limits import FORGOTTEN_AFTER_S, LIMITS_AGE_S, LimitsInForce, read_limits

from tests.builders import running
from tests.unit.slurm.answering import Answering

TRES = "cpu=N(2),mem=N(100),node=N(1),billing=N(2),gres/gpu=N(0)"
ACCOUNT = (
    "ClusterName=tesched Account=lab UserName= Partition= Priority=0 ID=60 SharesRaw/Norm/Level/Factor=1/18.00/1/0.00"
    " UsageRaw/Norm/Efctv=0.00/1.00/0.00 ParentAccount=root(1) {lft} DefAssoc=No GrpJobs=N(1) GrpJobsAccrue=N(0)"
    f" GrpSubmitJobs=N(1) GrpWall=N(0.00) GrpTRES=cpu=1(2),mem=N(100),gres/gpu:a100=4(0) GrpTRESMins={TRES}"
    f" GrpTRESRunMins={TRES} MaxJobs= MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ= MaxTRESPJ= MaxTRESPN= MaxTRESMinsPJ="
    " MinPrioThresh="
)
USER = (
    "ClusterName=tesched Account=lab UserName=ann(1001) Partition=p Priority=0 ID=62 SharesRaw/Norm/Level/Factor=1"
    " UsageRaw/Norm/Efctv=0.00/1.00/0.00 ParentAccount= {lft} DefAssoc=Yes GrpJobs=0(1) GrpJobsAccrue=N(0)"
    f" GrpSubmitJobs=0(1) GrpWall=10(0.50) GrpTRES={TRES} GrpTRESMins=cpu=0(0) GrpTRESRunMins={TRES} MaxJobs=3(1)"
    " MaxJobsAccrue= MaxSubmitJobs=0(1) MaxWallPJ=10 MaxTRESPJ=cpu=1,mem=5 MaxTRESPN=node=1 MaxTRESMinsPJ=cpu=7"
    " MinPrioThresh="
)
QOS = (
    f"QOS=High(9) UsageRaw=0.000000 GrpJobs=N(1) GrpSubmitJobs=N(1) GrpWall=N(0.00) GrpTRES={TRES} GrpTRESMins={TRES}"
    f" GrpTRESRunMins={TRES} MaxWallPJ= MaxTRESPJ= MaxTRESPN= MaxTRESMinsPJ= MinPrioThresh=  MinTRESPJ=cpu=4"
    " PreemptMode=OFF Priority=0 Account Limits= lab={{MaxJobsPA=2(1) MaxSubmitJobsPA=N(1) MaxTRESPA=cpu=3(2)}}"
    " User Limits= {user}={{MaxJobsPU=0(1) MaxSubmitJobsPU=0(1) MaxTRESPU=cpu=1(2),gres/gpu=N(0)}}"
    " {other}={{MaxJobsPU=0(1) MaxSubmitJobsPU=0(1) MaxTRESPU=cpu=1(2),gres/gpu=N(0)}}"
)
HEAD = "Current Association Manager state\nAssociation Records\n"


@pytest.mark.parametrize(
    ("lft", "user", "other"),
    [("Lft=1", "1001", "1002"), ("Lineage=/lab/0-ann/", "ann(1001)", "bob(1002)")],
    ids=["22.05", "26.05"],
)
def test_the_limits_that_are_set_are_read_and_no_others(lft: str, user: str, other: str) -> None:
    answer = "\n".join(
        (f"{HEAD}{ACCOUNT.format(lft=lft)}", USER.format(lft=lft), "QOS Records", QOS.format(user=user, other=other))
    )
    found = read_limits(answer)
    assert set(found.associations) == {("lab", "", ""), ("lab", "ann", "p")}
    lab, ann = found.associations["lab", "", ""], found.associations["lab", "ann", "p"]
    assert (lab.parent, ann.parent) == ("root", "")
    assert lab.limits == {("GrpTRES", "cpu"): 1, ("GrpTRES", "gres/gpu:a100"): 4}
    assert ann.limits == {
        ("GrpJobs", ""): 0,
        ("GrpWall", ""): 10,
        ("GrpTRESMins", "cpu"): 0,
        ("MaxJobs", ""): 3,
        ("MaxWallPJ", ""): 10,
        ("MaxTRESPJ", "cpu"): 1,
        ("MaxTRESPJ", "mem"): 5,
        ("MaxTRESPN", "node"): 1,
        ("MaxTRESMinsPJ", "cpu"): 7,
    }
    assert found.qos == {
        "high": {
            ("MinTRESPJ", "cpu"): 4,
            ("MaxJobsPA", ""): 2,
            ("MaxTRESPA", "cpu"): 3,
            ("MaxJobsPU", ""): 0,
            ("MaxTRESPU", "cpu"): 1,
        }
    }


@pytest.mark.parametrize(
    "name",
    ["a b(7) UserName=ann", "ann (1)", "ann", "(1001)", ""],
    ids=["another user in it", "a blank", "no number", "no name", "nothing"],
)
def test_a_record_with_a_strange_name_is_of_no_other_user(name: str) -> None:
    line = USER.format(lft="Lft=1").replace("UserName=ann(1001)", f"UserName={name}")
    assert ("lab", "ann", "p") not in read_limits(HEAD + line).associations


@pytest.mark.parametrize("answer", ["", "No associations currently cached in Slurm.\n", "QOS=x\nClusterName=\n"])
def test_of_an_answer_of_another_form_nothing_is_known(answer: str) -> None:
    assert read_limits(answer) == NOTHING_KNOWN


FAILS = Failure(kind=FailureKind.UNREACHABLE, message="no answer")
JOB = replace(running(1, NodeShare(node="n1", tres=Tres(cpus=1))), user="ann", account="lab")
ENFORCED = SlurmSettings(enforced=frozenset({"associations", "limits", "qos"}))
HIGH = f"{HEAD}{QOS.format(user='1001', other='1002')}"


def test_users_with_jobs_running_are_queried_in_one_call() -> None:
    commands = Answering(answers=[HIGH])
    waits = replace(JOB, allocation=(), user="eve")
    found = LimitsInForce(commands=commands).now(ENFORCED, (), [JOB, waits, replace(JOB, user="bob")])
    assert "high" in found.qos
    assert commands.ran == [("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos", "users=ann,bob")]


@pytest.mark.parametrize("name", ["a,b", "a b", "-x", "a=b", "a\nb"])
def test_all_are_queried_with_a_user_of_a_strange_name(name: str) -> None:
    commands = Answering(answers=[HIGH])
    LimitsInForce(commands=commands).now(ENFORCED, (), [replace(JOB, user=name)])
    assert commands.ran == [("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos")]


@pytest.mark.parametrize(("count", "length"), [(1001, 8), (1000, 100)], ids=["many", "long names"])
def test_with_more_names_than_one_command_takes_all_users_are_read(count: int, length: int) -> None:
    commands = Answering(answers=[HIGH])
    jobs = [replace(JOB, user=f"{number:04}{'x' * (length - 4)}") for number in range(count)]
    LimitsInForce(commands=commands).now(ENFORCED, (), jobs)
    assert commands.ran == [("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos")]


def test_they_are_read_again_only_after_a_while_also_where_that_failed() -> None:
    commands = Answering(answers=[FAILS, HIGH, FAILS])
    limits = LimitsInForce(commands=commands)
    assert limits.now(ENFORCED, (), [JOB]) == NOTHING_KNOWN
    assert limits.now(ENFORCED, (), [JOB]) == NOTHING_KNOWN
    assert len(commands.ran) == 1
    limits.age_s = -1.0
    known = limits.now(ENFORCED, (), [JOB])
    assert "high" in known.qos
    assert limits.now(ENFORCED, (), [JOB]) == known, "what fails once is not forgotten"


def test_why_limits_can_not_be_read_is_reported_in_short_and_visibly() -> None:
    long = Failure(kind=FailureKind.UNREACHABLE, message="\x1b[2J" + "x" * 10**6)
    (one,) = LimitsInForce(commands=Answering(answers=[long])).now(ENFORCED, (), [JOB]).unread
    assert (len(one.said), one.said[:8]) == (200, "\\x1b[2Jx")


def test_what_was_worked_out_without_the_rules_of_qos_does_not_count_with_them() -> None:
    limits = LimitsInForce(commands=Answering(answers=[HIGH, "high|OverPartQOS||1\n", "here|lab|ann||normal\n"]))
    first = limits.now(ENFORCED, (), [JOB])
    first.counted["x",] = ()
    found = limits.now(replace(ENFORCED, has_slurmdbd=True, cluster_name="here"), (), [JOB])
    assert found.rules_of("HIGH").flags == {"overpartqos"}
    assert (found.qos, found.counted) == (first.qos, {})
    assert not found.may_use("lab", "ann", "p", "high")
    assert limits.now(SlurmSettings(), (), [JOB]).may_use("lab", "ann", "p", "high")


@pytest.mark.parametrize(
    ("shown", "left"),
    [("10(0)", 10), ("10(9)", 1), ("10(9.99)", 1), ("10(10.00)", 0), ("10(25)", -15), ("10", 10), ("10(x)", 10)],
)
def test_of_a_limit_on_what_is_used_the_number_is_what_is_left(shown: str, left: int) -> None:
    line = USER.format(lft="Lft=1").replace("GrpWall=10(0.50)", f"GrpWall={shown}")
    line = line.replace("GrpTRESMins=cpu=0(0)", f"GrpTRESMins=cpu=5(0),gres/gpu={shown}")
    found = read_limits(HEAD + line).associations["lab", "ann", "p"].limits
    assert (found["GrpWall", ""], found["GrpTRESMins", "gres/gpu"]) == (left, left)
    assert (found["GrpJobs", ""], found["GrpTRESMins", "cpu"]) == (0, 5), "of others what is in use is not taken off"


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (FAILS, LimitKind.LIMITS, "no answer"),
        ("", LimitKind.LIMITS, "unexpected answer: ''"),
        ("No associations currently cached in Slurm.\n\nx", LimitKind.LIMITS, "'No associations currently cached in"),
        (HIGH, LimitKind.USERS, "none of the 1 user(s) with jobs running"),
    ],
    ids=["a failure", "nothing", "another form", "no users"],
)
def test_what_could_not_be_read_is_reported_with_since_when(answer: str | Failure, kind: LimitKind, said: str) -> None:
    now = 10_000.0
    whole = f"{HIGH}\n{USER.format(lft='Lft=1')}"
    answers = [answer, answer, whole, answer]
    limits = LimitsInForce(commands=Answering(answers=answers), stopwatch=lambda: now, clock=lambda: now)
    for _ in range(2):
        (unread,) = limits.now(ENFORCED, (), [JOB]).unread
        assert (unread.kind, unread.since, unread.kept) == (kind, 10_000.0, False)
        assert said in unread.said
        now += LIMITS_AGE_S + 1
    assert limits.now(ENFORCED, (), [JOB]).unread == ()
    now += LIMITS_AGE_S + 1
    (unread,) = limits.now(ENFORCED, (), [JOB]).unread
    assert (unread.since, unread.kept) == (now, kind is LimitKind.LIMITS)
    now += FORGOTTEN_AFTER_S
    assert not limits.now(ENFORCED, (), []).unread[0].kept, "what was read before is forgotten"
    assert limits.now(SlurmSettings(), (), [JOB]).unread == (), "where none is enforced none is missed"


def test_what_each_unread_kind_means_is_said() -> None:
    for kind in LimitKind:
        one = UnreadLimits(kind=kind, since=0.0, said="no answer", kept=False)
        assert one.words
        assert one.meaning != replace(one, kept=True).meaning


def test_once_limits_are_not_enforced_any_more_none_is_known() -> None:
    limits = LimitsInForce(commands=Answering(answers=[HIGH]))
    assert "high" in limits.now(ENFORCED, (), [JOB]).qos
    assert limits.now(SlurmSettings(), (), [JOB]) == NOTHING_KNOWN


def test_what_can_not_be_read_again_for_long_is_forgotten() -> None:
    """A limit of a maintenance would keep all jobs from being victims for ever."""
    now = 10_000.0
    limits = LimitsInForce(commands=Answering(answers=[HIGH, FAILS, FAILS, FAILS]), stopwatch=lambda: now)
    assert "high" in limits.now(ENFORCED, (), [JOB]).qos
    now += FORGOTTEN_AFTER_S
    assert "high" in limits.now(ENFORCED, (), [JOB]).qos
    now += 1
    assert limits.now(ENFORCED, (), [JOB]) == NOTHING_KNOWN


@pytest.mark.parametrize("words", [{"none"}, {"associations"}, {"associations", "qos"}, set()])
def test_where_no_limits_are_enforced_none_are_read(words: set[str]) -> None:
    commands = Answering(answers=[])
    assert LimitsInForce(commands=commands).now(SlurmSettings(enforced=frozenset(words)), (), [JOB]) == NOTHING_KNOWN
    assert commands.ran == []


def test_without_jobs_on_nodes_none_are_read() -> None:
    commands = Answering(answers=[])
    assert LimitsInForce(commands=commands).now(ENFORCED, (), [replace(JOB, allocation=())]) == NOTHING_KNOWN
    assert commands.ran == []


def for_groups(*names: str) -> Partition:
    """Return a partition that is for users of these groups."""
    return Partition(name="p", access=PartitionAccess(allow_groups=frozenset(names)))


def test_members_of_a_group_are_its_own_and_those_that_have_it_as_primary_group() -> None:
    user = pwd.getpwnam("daemon")
    group = grp.getgrgid(user.pw_gid).gr_name
    job = replace(JOB, user="daemon")
    found = read_members([for_groups(group, "root", "no-such-group")], [job])
    assert "daemon" in found.of[group]
    assert "daemon" not in found.of["root"]
    assert "no-such-group" not in found.of
    assert found.users == {"daemon"}
    unknown = read_members([for_groups(group)], [replace(job, user="no-such-user")])
    assert unknown.users == frozenset()


def test_no_group_is_queried_where_no_job_runs_in_a_partition_for_some(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_program(*_: object, **__: object) -> None:
        raise AssertionError("a program was run")

    monkeypatch.setattr(group_members, "run_bounded", no_program)
    assert read_members([Partition(name="p")], [JOB]).users == frozenset()
    assert read_members([for_groups("root")], [replace(JOB, partitions=("q",))]).users == frozenset()
    assert read_members([for_groups("root")], [replace(JOB, allocation=())]).users == frozenset()


@pytest.mark.parametrize(
    ("run", "shell"),
    [
        ("a file that is not there", ""),
        ("too slow", "#!/bin/sh\necho ann:x:0:0\nsleep 60\n"),
        ("of another form", "#!/bin/sh\necho x\n"),
    ],
)
def test_a_host_that_does_not_answer_ends_no_poll(
    run: str, shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shell:
        (tmp_path / "getent").write_text(shell)
        (tmp_path / "getent").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin" if shell else str(tmp_path))
    monkeypatch.setattr(group_members, "TIMEOUT_S", 0.5)
    found = read_members([for_groups("root")], [JOB])
    assert (found.of, found.users) == ({}, frozenset()), run
