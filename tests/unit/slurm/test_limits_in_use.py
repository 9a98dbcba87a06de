"""Limits with what counts against them, as scontrol and sacctmgr print them on 22.05 and 26.05."""

from __future__ import annotations

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_slurm.limits_in_use import LimitInUse, limits_in_use, read_limits_in_use, with_limits_of_database

from tests.unit.slurm.answering import Answering
from tests.unit.slurm.test_scontrol_limits import ACCOUNT, HEAD, QOS, USER

FAILS = Failure(kind=FailureKind.UNREACHABLE, message="no answer")
UNUSED = QOS.partition(" Account Limits=")[0] + " Account Limits=No Accounts User Limits=No Users"


def limit(kind: str, most: int, used: int = 0, tres: str = "", running: int = 0) -> LimitInUse:
    return LimitInUse(kind=kind, tres=tres, most=most, used=used, running=running)


@pytest.mark.parametrize(
    ("lft", "user", "other"),
    [("Lft=1", "1001", "1002"), ("Lineage=/lab/0-ann/", "ann(1001)", "bob(1002)")],
    ids=["22.05", "26.05"],
)
def test_limits_are_read_with_what_counts_against_them(lft: str, user: str, other: str) -> None:
    qos = QOS.format(user=user, other=other).replace("MaxJobsPU=0(1)", "MaxJobsPU=0(7)", 1)
    found = limits_in_use("\n".join((HEAD + ACCOUNT.format(lft=lft), USER.format(lft=lft), "QOS Records", qos)))
    lab, ann = found.associations["lab", "", ""], found.associations["lab", "ann", "p"]
    assert lab.parent == "root"
    assert lab.limits == (limit("GrpTRES", 1, 2, "cpu"), limit("GrpTRES", 4, 0, "gres/gpu:a100"))
    assert set(ann.limits) >= {
        limit("GrpJobs", 0, 1),
        limit("GrpSubmitJobs", 0, 1),
        limit("GrpWall", 10, 0),
        limit("GrpTRESMins", 0, 0, "cpu", running=2),
        limit("MaxJobs", 3, 1),
        limit("MaxSubmitJobs", 0, 1),
        limit("MaxTRESMinsPJ", 7, 0, "cpu"),
    }
    high = found.qos["high"]
    assert high.limits == (limit("MinTRESPJ", 4, 0, "cpu"),)
    assert high.on_account("lab") == (limit("MaxJobsPA", 2, 1), limit("MaxTRESPA", 3, 2, "cpu"))
    assert limit("MaxJobsPU", 0, 7) in high.on_user(1001)
    assert limit("MaxJobsPU", 0, 1) in high.on_user(1002)
    # Of one that has had no job there the limits are those of the others.
    assert high.on_user(1003) == (
        limit("MaxJobsPU", 0),
        limit("MaxSubmitJobsPU", 0),
        limit("MaxTRESPU", 1, tres="cpu"),
    )


def test_limits_of_a_qos_without_jobs_are_those_of_slurmdbd() -> None:
    found = limits_in_use(HEAD + UNUSED)
    commands = Answering(answers=["High|3|4|cpu=2,mem=1G,gres/gpu=1|||\n"])
    known = with_limits_of_database(found, commands, ("high", "normal"))
    assert not isinstance(known, Failure)
    assert known.qos["high"].on_user(1001) == (
        limit("MaxJobsPU", 3),
        limit("MaxSubmitJobsPU", 4),
        limit("MaxTRESPU", 2, tres="cpu"),
        limit("MaxTRESPU", 1024, tres="mem"),
        limit("MaxTRESPU", 1, tres="gres/gpu"),
    )
    assert known.qos["high"].on_account("lab") == ()
    assert commands.ran[0][:7] == ("sacctmgr", "-n", "-P", "show", "qos", "where", "name=high")


def test_slurmdbd_is_not_queried_where_slurmctld_shows_all() -> None:
    found = limits_in_use(HEAD + QOS.format(user="1001", other="1002"))
    commands = Answering(answers=[])
    assert with_limits_of_database(found, commands, ("high",)) == found
    assert commands.ran == []


def test_what_can_not_be_read_is_a_failure() -> None:
    assert read_limits_in_use(Answering(answers=[FAILS]), "ann") == FAILS
    found = limits_in_use(HEAD + UNUSED)
    assert with_limits_of_database(found, Answering(answers=[FAILS]), ("high",)) == FAILS


def test_one_user_is_named_to_slurmctld_and_a_strange_name_is_not() -> None:
    commands = Answering(answers=[HEAD, HEAD])
    read_limits_in_use(commands, "ann")
    read_limits_in_use(commands, "a,b")
    usual = ("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos")
    assert commands.ran == [(*usual, "users=ann"), usual]
