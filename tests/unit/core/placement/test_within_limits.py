"""Which limits of associations and QOS keep a job from starting again on an empty cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.access import PartitionAccess
from tesched_core.model.cluster import Job, NodeShare, Partition
from tesched_core.model.resources import Tres
from tesched_core.model.slurm_limits import Association, Limits, SlurmLimits
from tesched_core.placement.within_limits import is_within_limits

from tests.builders import running

_SHARE = Tres(cpus=8, mem_mib=500, gres=(("gpu", 2), ("gpu:a", 2)))
#: two nodes; in all 16 CPUs, 1000 MiB, 4 GPUs, for an hour
JOB = replace(
    running(1, time_limit_s=3600),
    user="ann",
    account="lab",
    qos="Normal",
    allocation=(NodeShare(node="n1", tres=_SHARE), NodeShare(node="n2", tres=_SHARE)),
)
P = Partition(name="p", access=PartitionAccess(qos="part"))


def limits(
    *,
    own: Limits | None = None,
    account: Limits | None = None,
    above: Limits | None = None,
    qos: Limits | None = None,
    of_partition: Limits | None = None,
) -> SlurmLimits:
    """Return limits of ann in lab, which is below root; of her job's QOS, and of its partition's."""
    several = (
        Association(account="root", limits=above or {}),
        Association(account="lab", parent="root", limits=account or {}),
        Association(account="lab", user="ann", limits=own or {}),
    )
    return SlurmLimits(
        associations={(one.account, one.user, one.partition): one for one in several},
        qos={"normal": qos or {}, "part": of_partition or {}},
    )


@pytest.mark.parametrize(
    ("kind", "tres", "enough", "too_few"),
    [
        ("GrpJobs", "", 1, 0),
        ("MaxJobs", "", 1, 0),
        ("MaxJobsPU", "", 1, 0),
        ("MaxJobsPA", "", 1, 0),
        ("GrpWall", "", 1, 0),
        ("MaxWallPJ", "", 60, 59),
        ("GrpTRES", "cpu", 16, 15),
        ("GrpTRES", "mem", 1000, 999),
        ("GrpTRES", "node", 2, 1),
        ("GrpTRES", "gres/gpu", 4, 3),
        ("MaxTRESPJ", "gres/gpu:a", 4, 3),
        ("MaxTRESPU", "cpu", 16, 15),
        ("MaxTRESPA", "cpu", 16, 15),
        ("MaxTRESPN", "cpu", 8, 7),
        ("MaxTRESMinsPJ", "cpu", 960, 959),
        ("GrpTRESRunMins", "gres/gpu", 240, 239),
        ("MaxTRESRunMinsPU", "cpu", 960, 959),
        ("MaxTRESRunMinsPA", "cpu", 960, 959),
        ("GrpTRESMins", "cpu", 1, 0),
        ("MinTRESPJ", "cpu", 16, 17),
    ],
)
def test_a_limit_below_what_one_job_has_keeps_it_from_starting(kind: str, tres: str, enough: int, too_few: int) -> None:
    assert is_within_limits(JOB, P, limits(qos={(kind, tres): enough}))
    assert not is_within_limits(JOB, P, limits(qos={(kind, tres): too_few}))
    assert is_within_limits(JOB, P, limits(own={(kind, tres): enough}))
    assert not is_within_limits(JOB, P, limits(own={(kind, tres): too_few}))


@pytest.mark.parametrize(
    ("kind", "tres"),
    [("GrpTRES", "billing"), ("MaxTRESPJ", "license/x"), ("GrpTRES", "gres/tmp"), ("GrpTRESMins", "gres/tmp")],
)
def test_a_limit_of_what_the_job_has_not_or_is_not_known_to_have_says_nothing(kind: str, tres: str) -> None:
    assert is_within_limits(JOB, P, limits(own={(kind, tres): 0}))


def test_what_is_not_known_is_not_less_than_the_least_either() -> None:
    assert is_within_limits(JOB, P, limits(qos={("MinTRESPJ", "billing"): 1}))
    assert not is_within_limits(JOB, P, limits(qos={("MinTRESPJ", "gres/tmp"): 1}))


def test_without_a_time_limit_a_job_is_beyond_each_longest_time_and_of_minutes_nothing_is_known() -> None:
    endless = replace(JOB, time_limit_s=None)
    assert not is_within_limits(endless, P, limits(own={("MaxWallPJ", ""): 10**6}))
    assert is_within_limits(endless, P, limits(own={("MaxTRESMinsPJ", "cpu"): 1}))


def test_of_the_accounts_above_it_the_limits_of_a_group_alone_count() -> None:
    for where in ("account", "above"):
        assert not is_within_limits(JOB, P, limits(**{where: {("GrpTRES", "cpu"): 15}})), where
        # Slurm hands these down to the user's association: what stands there is in force.
        assert is_within_limits(JOB, P, limits(**{where: {("MaxTRESPJ", "cpu"): 15}})), where


@pytest.mark.parametrize(
    ("of_user", "of_qos", "within"),
    [
        ({("MaxTRESPJ", "cpu"): 1}, {("MaxTRESPJ", "cpu"): 16}, True),
        ({("MaxTRESPJ", "cpu"): 1}, {("MaxTRESPJ", "mem"): 1000}, False),
        ({("MaxTRESPJ", "cpu"): 1}, {("GrpTRES", "cpu"): 16}, False),
        ({("MaxJobs", ""): 0}, {("MaxJobsPU", ""): 1}, True),
        ({("MaxJobs", ""): 0}, {("MaxJobsPA", ""): 1}, True),
        ({("MaxJobs", ""): 0}, {("GrpJobs", ""): 1}, False),
        ({("MaxTRESPJ", "cpu"): 16}, {("MaxTRESPJ", "cpu"): 1}, False),
    ],
)
def test_a_limit_of_its_qos_replaces_that_of_the_association(of_user: Limits, of_qos: Limits, *, within: bool) -> None:
    assert is_within_limits(JOB, P, limits(own=of_user, qos=of_qos)) is within
    assert is_within_limits(JOB, P, limits(own=of_user, of_partition=of_qos)) is within


def test_of_its_own_qos_and_that_of_its_partition_the_looser_counts_since_their_order_is_not_known() -> None:
    tight, loose = {("MaxTRESPJ", "cpu"): 15}, {("MaxTRESPJ", "cpu"): 16}
    assert is_within_limits(JOB, P, limits(qos=tight, of_partition=loose))
    assert is_within_limits(JOB, P, limits(qos=loose, of_partition=tight))
    assert not is_within_limits(JOB, P, limits(qos=tight, of_partition=tight))
    assert not is_within_limits(JOB, replace(P, access=PartitionAccess()), limits(qos=tight, of_partition=loose))
    most, few = {("MinTRESPJ", "cpu"): 17}, {("MinTRESPJ", "cpu"): 16}
    assert is_within_limits(JOB, P, limits(qos=most, of_partition=few))


@pytest.mark.parametrize(
    "stranger",
    [replace(JOB, qos="new"), replace(JOB, user="bob"), replace(JOB, account="other")],
    ids=["its QOS", "its user", "its account"],
)
def test_of_what_is_not_known_nothing_is_said(stranger: Job) -> None:
    assert is_within_limits(stranger, P, limits(own={("MaxJobs", ""): 0}, account={("GrpJobs", ""): 0}))
    assert not is_within_limits(JOB, P, limits(own={("MaxJobs", ""): 0}))


def test_an_association_for_the_partition_counts_before_that_for_all() -> None:
    known = limits(own={("MaxJobs", ""): 0})
    here = Association(account="lab", user="ann", partition="p")
    both = replace(known, associations={**known.associations, ("lab", "ann", "p"): here})
    assert is_within_limits(JOB, P, both)
    assert not is_within_limits(JOB, replace(P, name="other"), both)


def test_accounts_that_are_above_themselves_end_no_poll() -> None:
    circle = {("a", "", ""): Association(account="a", parent="b"), ("b", "", ""): Association(account="b", parent="a")}
    assert SlurmLimits(associations=circle).accounts_from("a") == ()


def test_the_accounts_above_one_are_known_only_up_to_the_topmost() -> None:
    assert [one.account for one in limits().accounts_from("lab")] == ["lab", "root"]
    assert (
        SlurmLimits(associations={("lab", "", ""): Association(account="lab", parent="gone")}).accounts_from("lab")
        == ()
    )
