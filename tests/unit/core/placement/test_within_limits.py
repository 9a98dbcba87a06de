"""Which limits of associations and QOS keep a job from starting again on an empty cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.access import PartitionAccess
from tesched_core.model.cluster import Job, NodeShare, Partition
from tesched_core.model.resources import Tres
from tesched_core.model.slurm_limits import Association, Limits, QosRules, SlurmLimits
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
ENDLESS = replace(JOB, time_limit_s=None)
P = Partition(name="p", access=PartitionAccess(qos="part"))


def limits(
    *,
    own: Limits | None = None,
    account: Limits | None = None,
    above: Limits | None = None,
    qos: Limits | None = None,
    of_partition: Limits | None = None,
    rules: QosRules | None = None,
    rules_of_partition: QosRules | None = None,
) -> SlurmLimits:
    """Return limits of ann in lab, which is below root; of her job's QOS, and of its partition's.

    With one of `rules`, those of both QOS are known.
    """
    known = {"normal": rules or QosRules(), "part": rules_of_partition or QosRules()}
    several = (
        Association(account="root", limits=above or {}),
        Association(account="lab", parent="root", limits=account or {}),
        Association(account="lab", user="ann", limits=own or {}),
    )
    return SlurmLimits(
        associations={(one.account, one.user, one.partition): one for one in several},
        qos={"normal": qos or {}, "part": of_partition or {}},
        rules=known if rules or rules_of_partition else {},
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
        ("GrpTRESMins", "cpu", 1, -5),
        ("GrpWall", "", 1, -5),
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


@pytest.mark.parametrize(
    ("tres", "licenses", "within"),
    [
        ("billing", "", False),
        ("mem", "", False),
        ("license/matlab", "fluent:1,matlab:2", False),
        ("license/matlab", "matlab", False),
        ("license/matlab", "matlab2:1", True),
        ("license/matlab", "", True),
        ("gres/tmp", "", True),
        ("energy", "", True),
    ],
)
def test_of_what_is_used_up_no_job_that_has_any_starts_however_much_it_has(
    tres: str, licenses: str, *, within: bool
) -> None:
    without_memory = replace(JOB, allocation=(NodeShare(node="n1", tres=Tres(cpus=8, mem_mib=0)),), licenses=licenses)
    assert is_within_limits(without_memory, P, limits(own={("GrpTRESMins", tres): 0})) is within
    assert is_within_limits(without_memory, P, limits(qos={("GrpTRESMins", tres): -5})) is within
    assert is_within_limits(without_memory, P, limits(own={("GrpTRESMins", tres): 1}))


def test_what_is_not_known_is_not_less_than_the_least_either() -> None:
    assert is_within_limits(JOB, P, limits(qos={("MinTRESPJ", "billing"): 1}))
    assert not is_within_limits(JOB, P, limits(qos={("MinTRESPJ", "gres/tmp"): 1}))


def test_without_a_time_limit_a_job_is_beyond_each_limit_of_what_one_job_may_use() -> None:
    assert not is_within_limits(ENDLESS, P, limits(own={("MaxWallPJ", ""): 10**6}))
    assert not is_within_limits(ENDLESS, P, limits(own={("MaxTRESMinsPJ", "cpu"): 10**6}))
    assert is_within_limits(ENDLESS, P, limits(own={("MaxTRESMinsPJ", "gres/tmp"): 1})), "it has none"
    assert is_within_limits(ENDLESS, P, limits(own={("GrpTRESRunMins", "cpu"): 1})), "not known"
    half, none = (QosRules(flags=frozenset({"usagefactorsafe"}), usage_factor=factor) for factor in (0.5, 0.0))
    assert not is_within_limits(ENDLESS, P, limits(own={("MaxTRESMinsPJ", "cpu"): 10**6}, rules=half))
    assert is_within_limits(ENDLESS, P, limits(own={("MaxTRESMinsPJ", "cpu"): 1, ("MaxWallPJ", ""): 1}, rules=none))


@pytest.mark.parametrize(
    ("tres", "within"), [("cpu", False), ("billing", False), ("gres/tmp", True), ("license/x", True)]
)
def test_without_a_time_limit_a_job_may_use_more_than_is_left(tres: str, *, within: bool) -> None:
    left = limits(own={("GrpTRESMins", tres): 10**6})
    assert is_within_limits(ENDLESS, P, left, safe=True) is within
    assert is_within_limits(ENDLESS, P, left)
    assert is_within_limits(ENDLESS, P, limits(own={("GrpWall", ""): 1}), safe=True), "not known"


def test_of_the_accounts_above_it_the_limits_of_a_group_alone_count() -> None:
    group: Limits = {("GrpTRES", "cpu"): 15}
    assert not is_within_limits(JOB, P, limits(account=group))
    assert not is_within_limits(JOB, P, limits(above=group))
    # Slurm hands these down to the user's association: what stands there is in force.
    of_one: Limits = {("MaxTRESPJ", "cpu"): 15}
    assert is_within_limits(JOB, P, limits(account=of_one))
    assert is_within_limits(JOB, P, limits(above=of_one))


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


def test_of_its_own_qos_and_that_of_its_partition_the_looser_counts_while_their_order_is_not_known() -> None:
    tight, loose = {("MaxTRESPJ", "cpu"): 15}, {("MaxTRESPJ", "cpu"): 16}
    assert is_within_limits(JOB, P, limits(qos=tight, of_partition=loose))
    assert is_within_limits(JOB, P, limits(qos=loose, of_partition=tight))
    assert not is_within_limits(JOB, P, limits(qos=tight, of_partition=tight))
    assert not is_within_limits(JOB, replace(P, access=PartitionAccess()), limits(qos=tight, of_partition=loose))
    most, few = {("MinTRESPJ", "cpu"): 17}, {("MinTRESPJ", "cpu"): 16}
    assert is_within_limits(JOB, P, limits(qos=most, of_partition=few))


@pytest.mark.parametrize(
    ("flags", "own_counts"), [(frozenset(), False), (frozenset({"overpartqos"}), True)], ids=["none", "over"]
)
def test_once_their_order_is_known_the_first_of_two_qos_counts(flags: frozenset[str], *, own_counts: bool) -> None:
    rules = QosRules(flags=flags)
    tight, loose = {("MaxTRESPJ", "cpu"): 15}, {("MaxTRESPJ", "cpu"): 16}
    assert is_within_limits(JOB, P, limits(qos=loose, of_partition=tight, rules=rules)) is own_counts
    assert is_within_limits(JOB, P, limits(qos=tight, of_partition=loose, rules=rules)) is not own_counts
    # What the first sets is not compared with the other's, what it does not set is.
    other = {("MaxTRESPJ", "mem"): 1000}
    assert not is_within_limits(JOB, P, limits(qos=tight, of_partition=other, rules=rules))
    assert not is_within_limits(JOB, P, limits(qos=other, of_partition=tight, rules=rules))


@pytest.mark.parametrize(
    ("kind", "tres", "limit", "factor", "within"),
    [
        ("GrpTRES", "cpu", 8, 2.0, True),
        ("GrpTRES", "cpu", 8, 1.9, False),
        ("GrpTRES", "cpu", 16, 0.99, False),
        ("MaxTRESPJ", "gres/gpu", 3, 1.34, True),
        ("MaxTRESPN", "cpu", 4, 2.0, False),
        ("MaxTRESMinsPJ", "cpu", 480, 2.0, False),
        ("GrpTRESRunMins", "cpu", 480, 2.0, False),
        ("GrpTRES", "cpu", 16, 0.0, True),
        ("GrpTRES", "cpu", 15, 0.0, False),
    ],
)
def test_a_factor_of_the_qos_multiplies_what_an_association_may_hold(
    kind: str, tres: str, limit: int, factor: float, *, within: bool
) -> None:
    rules = QosRules(limit_factor=factor)
    assert is_within_limits(JOB, P, limits(own={(kind, tres): limit}, rules=rules)) is within
    if kind.startswith("Grp"):
        assert is_within_limits(JOB, P, limits(above={(kind, tres): limit}, rules=rules)) is within


def test_of_two_factors_the_first_counts_and_none_is_for_the_limits_of_a_qos() -> None:
    half, twice = QosRules(limit_factor=0.5), QosRules(limit_factor=2.0)
    of_user: Limits = {("GrpTRES", "cpu"): 16}
    assert not is_within_limits(JOB, P, limits(own=of_user, rules=twice, rules_of_partition=half))
    over = replace(twice, flags=frozenset({"overpartqos"}))
    assert is_within_limits(JOB, P, limits(own=of_user, rules=over, rules_of_partition=half))
    assert not is_within_limits(JOB, P, limits(qos={("GrpTRES", "cpu"): 15}, rules=twice))


@pytest.mark.parametrize(
    ("kind", "limit", "factor", "within"),
    [
        ("MaxWallPJ", 30, 0.5, True),
        ("MaxWallPJ", 29, 0.5, False),
        ("MaxWallPJ", 90, 2.0, False),
        ("MaxWallPJ", 120, 2.0, True),
        ("MaxTRESMinsPJ", 480, 0.5, True),
        ("MaxTRESMinsPJ", 1919, 2.0, False),
    ],
)
def test_with_a_safe_usage_factor_its_time_limit_counts_so_many_times(
    kind: str, limit: int, factor: float, *, within: bool
) -> None:
    of_user: Limits = {(kind, "" if kind == "MaxWallPJ" else "cpu"): limit}
    safe = QosRules(flags=frozenset({"usagefactorsafe"}), usage_factor=factor)
    assert is_within_limits(JOB, P, limits(own=of_user, rules=safe)) is within
    # Of the partition's QOS the factor is nothing to it, and without the flag that of its own is not.
    without = limits(own=of_user, rules=QosRules(usage_factor=factor), rules_of_partition=safe)
    assert is_within_limits(JOB, P, without) is is_within_limits(JOB, P, limits(own=of_user))


def test_percentages_say_nothing_and_replace_an_associations_limit_all_the_same() -> None:
    relative = QosRules(flags=frozenset({"relative"}))
    percent: Limits = {("GrpTRES", "cpu"): 10}
    assert is_within_limits(JOB, P, limits(qos=percent, rules=relative))
    assert is_within_limits(JOB, P, limits(own={("GrpTRES", "cpu"): 1}, qos=percent, rules=relative))
    assert not is_within_limits(JOB, P, limits(qos={("MaxWallPJ", ""): 10}, rules=relative))
    assert not is_within_limits(JOB, P, limits(of_partition=percent, rules=relative))


def test_of_two_qos_a_limit_is_a_percentage_where_the_one_that_has_set_it_is_relative() -> None:
    relative = QosRules(flags=frozenset({"relative"}))
    over = replace(relative, flags=relative.flags | {"overpartqos"})
    few: Limits = {("GrpTRES", "cpu"): 10}
    more: Limits = {("GrpTRES", "cpu"): 15}
    assert not is_within_limits(JOB, P, limits(qos=few, of_partition=more, rules=relative)), "the first"
    assert is_within_limits(JOB, P, limits(qos=few, of_partition=more, rules=over))
    assert is_within_limits(JOB, P, limits(qos=few, of_partition=more, rules_of_partition=relative))
    own_alone = limits(qos=few, of_partition={("GrpTRES", "mem"): 1000}, rules=relative)
    assert is_within_limits(JOB, P, own_alone)


@pytest.mark.parametrize("flags", [frozenset(), frozenset({"usagefactorsafe"})], ids=["plain", "safe"])
def test_with_a_usage_factor_of_0_what_was_used_of_a_tres_counts_as_none(flags: frozenset[str]) -> None:
    none = QosRules(flags=flags, usage_factor=0.0)
    used_up: Limits = {("GrpTRESMins", "cpu"): -5}
    for job in (JOB, ENDLESS):
        assert is_within_limits(job, P, limits(own=used_up, rules=none), safe=True)
        assert is_within_limits(job, P, limits(qos=used_up, rules=none))
        assert not is_within_limits(job, P, limits(own={("GrpWall", ""): 0}, rules=none))
    assert not is_within_limits(JOB, P, limits(own=used_up, rules_of_partition=none)), "its own QOS' counts"
    assert not is_within_limits(JOB, P, limits(own=used_up, rules=replace(none, usage_factor=0.1)))


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
