"""A running job that Slurm would not start again is no victim."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from tesched_core.model.access import PartitionAccess
from tesched_core.model.cluster import Job, Partition, Request, Reservation, SlurmSettings
from tesched_core.model.columns import INELIGIBLE
from tesched_core.model.slurm_limits import NOTHING_KNOWN, Association, QosRules, SlurmLimits
from tesched_core.placement.can_return import why_it_cannot_return

from tests.builders import NOW, cluster, node, running, share

HOUR = 3600
JOB = replace(running(1, share("n1", 8), time_limit_s=HOUR), request=Request(min_nodes=2, max_nodes=3))
UP = Partition(name="p", nodes=frozenset({"n1"}), max_time_s=HOUR, max_nodes=2)
DOWN = replace(UP, name="q", state="DOWN")


def why(
    job: Job,
    *partitions: Partition,
    release: str = "22.05.8",
    reservations: tuple[Reservation, ...] = (),
    enforced: frozenset[str] = frozenset(),
    limits: SlurmLimits = NOTHING_KNOWN,
) -> str:
    """Return the first words of why it would not start again; empty: it would."""
    snapshot = cluster(
        [node("n1")],
        [job],
        partitions=partitions or [UP],
        reservations=reservations,
        settings=SlurmSettings(release=release, enforced=enforced),
    )
    snapshot = replace(snapshot, limits=limits)
    found = INELIGIBLE[why_it_cannot_return(job, snapshot)]
    return found[1].split(" ", 2)[1] if found else ""


def test_an_ordinary_job_comes_back() -> None:
    assert why(JOB) == ""


def test_one_that_must_end_by_a_time_does_not_however_far_that_is() -> None:
    assert why(replace(JOB, deadline=NOW + 1e7)) == "must"


@pytest.mark.parametrize(
    ("flag", "partition"),
    [
        ("partitiontimelimit", replace(UP, max_time_s=HOUR - 1)),
        ("partitionmaxnodes", replace(UP, max_nodes=1)),
        ("partitionminnodes", replace(UP, max_nodes=None, min_nodes=4)),
    ],
)
def test_a_qos_that_lifts_a_limit_of_its_partition_lifts_that_alone(flag: str, partition: Partition) -> None:
    job = replace(JOB, qos="Long")
    assert why(job, partition) == "partition"
    for lifted in ("partitiontimelimit", "partitionmaxnodes", "partitionminnodes"):
        known = SlurmLimits(rules={"long": QosRules(flags=frozenset({lifted}))})
        assert why(job, partition, limits=known) == ("" if lifted == flag else "partition")
        assert why(replace(job, qos="other"), partition, limits=known) == "partition"


@pytest.mark.parametrize("word", ["qos", "all"])
def test_a_qos_that_its_user_may_not_use_any_more_starts_it_no_more(word: str) -> None:
    job = replace(JOB, user="ann", account="lab", qos="High")
    enforced = frozenset({word})
    here, elsewhere, everywhere = ("lab", "ann", "p"), ("lab", "ann", "q"), ("lab", "ann", "")
    few, both = frozenset({"normal"}), frozenset({"normal", "high"})
    assert why(job, enforced=enforced, limits=SlurmLimits(allowed_qos={everywhere: few})) == "user"
    assert why(job, enforced=enforced, limits=SlurmLimits(allowed_qos={everywhere: both, here: few})) == "user"
    allowed: list[dict[tuple[str, str, str], frozenset[str]]] = [
        {},
        {everywhere: both},
        {everywhere: few, here: both},
        {elsewhere: few},
        {everywhere: frozenset()},
    ]
    for known in allowed:
        assert why(job, enforced=enforced, limits=SlurmLimits(allowed_qos=known)) == ""
    taken = SlurmLimits(allowed_qos={everywhere: few})
    assert why(job, enforced=frozenset({"associations"}), limits=taken) == "", "there any QOS will do"
    assert why(replace(job, user="bob"), enforced=enforced, limits=taken) == ""


@pytest.mark.parametrize(("word", "returns"), [("limits", True), ("safe", False), ("all", False)])
def test_where_limits_are_safe_as_much_must_be_left_as_its_time_limit_may_use(word: str, *, returns: bool) -> None:
    job = replace(JOB, user="ann", account="lab", qos="normal")
    for kind, tres, enough in (("GrpTRESMins", "cpu", 480), ("GrpWall", "", 60)):
        for left, within in ((enough, True), (enough - 1, returns)):
            own = Association(account="lab", user="ann", limits={(kind, tres): left})
            known = SlurmLimits(associations={("lab", "ann", ""): own}, qos={"normal": {}})
            found = why(job, enforced=frozenset({word, "associations"}), limits=known)
            assert (found == "") is within, (kind, left)
    own = Association(account="lab", user="ann", limits={("GrpTRES", "cpu"): 8, ("MaxWallPJ", ""): 60})
    known = SlurmLimits(associations={("lab", "ann", ""): own}, qos={"normal": {}})
    assert why(job, enforced=frozenset({word}), limits=known) == "", "what it holds is not multiplied by its time"


@pytest.mark.parametrize("state", ["DOWN", "DRAIN", "INACTIVE"])
def test_a_partition_that_is_not_up_starts_no_job_again(state: str) -> None:
    assert why(JOB, replace(UP, state=state)) == "partition"


@pytest.mark.parametrize(
    ("job", "partition", "returns"),
    [
        (JOB, replace(UP, max_time_s=HOUR - 1), False),
        (JOB, replace(UP, max_time_s=None), True),
        (replace(JOB, time_limit_s=None), UP, False),
        (replace(JOB, time_limit_s=None), replace(UP, max_time_s=None), True),
        (JOB, replace(UP, max_nodes=1), False),
        (JOB, replace(UP, max_nodes=None), True),
        (JOB, replace(UP, min_nodes=4), False),
        (JOB, replace(UP, min_nodes=3), True),
    ],
)
def test_limits_that_were_set_since_it_started_count(job: Job, partition: Partition, returns: bool) -> None:
    assert (why(job, partition) == "") is returns


def test_one_partition_of_its_list_is_enough_and_one_that_is_not_read_says_nothing() -> None:
    two = replace(JOB, partitions=("q", "p"))
    assert why(two, DOWN, UP) == ""
    assert why(two, DOWN, replace(UP, state="DOWN")) == "partition"
    assert why(JOB, replace(UP, state="DOWN", doubt="its record could not be read")) == ""
    assert why(replace(JOB, partitions=("gone",))) == ""


@pytest.mark.parametrize(
    ("partition", "returns"),
    [
        (UP, True),
        (replace(UP, allow_accounts=frozenset({"lab", "other"})), True),
        (replace(UP, allow_accounts=frozenset({"other"})), False),
        (replace(UP, allow_accounts=frozenset({"LAB"})), False),
        (replace(UP, allow_qos=frozenset({"normal"})), True),
        (replace(UP, allow_qos=frozenset({"Normal", "high"})), True),
        (replace(UP, allow_qos=frozenset({"high"})), False),
    ],
)
def test_a_partition_that_does_not_allow_its_account_or_qos_starts_it_no_more(
    partition: Partition, returns: bool
) -> None:
    job = replace(JOB, account="lab", qos="normal")
    assert (why(job, partition) == "") is returns
    assert why(replace(job, qos="NORMAL"), partition) == why(job, partition), "a QOS in any case"
    settings = SlurmSettings(release="22.05.8", limits_enforced=False)
    anyone = cluster([node("n1")], [job], partitions=[partition], settings=settings)
    assert why_it_cannot_return(job, anyone) == 0, "where neither is checked"


@pytest.mark.parametrize(
    ("partition", "starts"),
    [
        (replace(UP, allow_qos=frozenset({"Normal"})), True),
        (replace(UP, allow_qos=frozenset({"high"})), False),
        (replace(UP, access=PartitionAccess(deny_qos=frozenset({"te"}))), True),
        (replace(UP, access=PartitionAccess(deny_qos=frozenset({"te", "NORMAL"}))), False),
    ],
)
def test_a_job_with_several_qos_starts_where_any_of_them_is_allowed(partition: Partition, starts: bool) -> None:
    assert (why(replace(JOB, account="lab", qos="te,normal"), partition) == "") is starts


@pytest.mark.parametrize(
    ("release", "returns"),
    [("22.05.8", False), ("23.02.1", True), ("24.11.7", True), ("26.05.5", True), ("26.05", True), ("", True)],
)
def test_where_an_account_may_be_allowed_by_its_parent_one_that_is_not_named_says_nothing(
    release: str, returns: bool
) -> None:
    job = replace(JOB, account="lab-child", qos="normal")
    assert (why(job, replace(UP, allow_accounts=frozenset({"lab"})), release=release) == "") is returns
    assert why(job, replace(UP, allow_qos=frozenset({"high"})), release=release) == "partition"


@pytest.mark.parametrize(
    ("closed", "returns"),
    [
        (PartitionAccess(deny_accounts=frozenset({"lab"})), False),
        (PartitionAccess(deny_accounts=frozenset({"other"})), True),
        (PartitionAccess(deny_qos=frozenset({"Normal", "x"})), False),
        (PartitionAccess(deny_qos=frozenset({"high"})), True),
    ],
)
def test_a_partition_that_denies_its_account_or_qos_starts_it_no_more(
    closed: PartitionAccess, *, returns: bool
) -> None:
    job = replace(JOB, account="lab", qos="normal")
    assert (why(job, replace(UP, access=closed)) == "") is returns
    allowing = replace(UP, access=closed, allow_accounts=frozenset({"lab"}), allow_qos=frozenset({"normal"}))
    assert why(job, allowing) == "", "Slurm reads no Deny beside an Allow"


def test_where_the_accounts_above_one_are_known_and_none_is_named_its_jobs_start_no_more() -> None:
    several = ("root", ""), ("lab", "root"), ("lab-child", "lab")
    known = SlurmLimits(
        associations={(name, "", ""): Association(account=name, parent=parent) for name, parent in several}
    )
    job = replace(JOB, account="lab-child")
    for named, release, returns in (
        ("lab", "26.05.5", True),
        ("LAB", "26.05.5", True),
        ("root", "26.05.5", True),
        ("Lab-Child", "26.05.5", True),
        ("other", "26.05.5", False),
        ("lab", "22.05.8", False),
    ):
        for_some = replace(UP, allow_accounts=frozenset({named}))
        assert (why(job, for_some, release=release, limits=known) == "") is returns, (named, release)
    assert why(job, replace(UP, allow_accounts=frozenset({"other"})), release="26.05.5") == "", "nothing is known"


@pytest.mark.parametrize(
    ("access", "job", "returns"),
    [
        (PartitionAccess(root_only=True), JOB, False),
        (PartitionAccess(root_only=True), replace(JOB, user="root"), True),
        (PartitionAccess(needs_reservation=True), JOB, False),
        (PartitionAccess(allow_groups=frozenset({"a"})), replace(JOB, user="ann"), True),
        (PartitionAccess(allow_groups=frozenset({"a", "b"})), replace(JOB, user="bob"), True),
        (PartitionAccess(allow_groups=frozenset({"b"})), replace(JOB, user="ann"), False),
        (PartitionAccess(allow_groups=frozenset({"b"})), replace(JOB, user="root"), True),
        (PartitionAccess(allow_groups=frozenset({"b"})), replace(JOB, user="new"), True),
        (PartitionAccess(allow_groups=frozenset({"b", "unknown"})), replace(JOB, user="ann"), True),
    ],
)
def test_a_partition_that_is_closed_to_its_user_starts_it_no_more(
    access: PartitionAccess, job: Job, *, returns: bool
) -> None:
    members = {"a": frozenset({"ann"}), "b": frozenset({"bob"})}
    known = SlurmLimits(members=members, users=frozenset({"ann", "bob", "root"}))
    assert (why(job, replace(UP, access=access), limits=known) == "") is returns


def test_in_its_reservation_a_job_starts_where_one_is_needed() -> None:
    course = Reservation(name="course", start_time=NOW - 10, end_time=NOW + 1)
    closed = replace(UP, access=PartitionAccess(needs_reservation=True))
    assert why(replace(JOB, reservation="course"), closed, reservations=(course,)) == ""


@pytest.mark.parametrize(
    ("request_", "partition", "returns"),
    [
        (Request(mem_per_node_mib=400), replace(UP, max_mem_per_node_mib=400), True),
        (Request(mem_per_node_mib=400), replace(UP, max_mem_per_node_mib=399), False),
        (Request(mem_per_cpu_mib=400), replace(UP, max_mem_per_node_mib=1), True),
        (Request(min_cpus_per_node=4), replace(UP, max_cpus_per_node=4), True),
        (Request(min_cpus_per_node=4), replace(UP, max_cpus_per_node=3), False),
    ],
)
def test_more_on_one_node_than_its_partition_allows_by_now_is_not_to_be_had(
    request_: Request, partition: Partition, *, returns: bool
) -> None:
    assert (why(replace(JOB, request=request_), partition) == "") is returns


@pytest.mark.parametrize(
    ("qos", "enforced", "found"),
    [
        ("", {"associations", "limits", "qos"}, "QOS"),
        ("", {"all"}, "QOS"),
        ("", {"associations", "limits"}, ""),
        ("", set(), ""),
        ("normal", {"qos"}, ""),
    ],
)
def test_a_job_does_not_start_again_when_its_qos_is_gone_where_jobs_must_have_one(
    qos: str, enforced: set[str], found: str
) -> None:
    assert why(replace(JOB, qos=qos), enforced=frozenset(enforced)) == found


def test_a_limit_that_it_is_beyond_keeps_a_job_out_of_each_partition_that_is_read() -> None:
    job = replace(JOB, account="lab", user="ann", partitions=("p", "q"))
    none = {("MaxJobs", ""): 0}
    own = Association(account="lab", user="ann", partition="p", limits=none)
    known = SlurmLimits(associations={("lab", "ann", "p"): own})
    two = UP, replace(UP, name="q")
    assert why(replace(job, partitions=("p",)), UP, limits=known) == "limit"
    assert why(job, *two, limits=known) == ""
    for_all = SlurmLimits(associations={("lab", "ann", ""): replace(own, partition="")})
    assert why(job, *two, limits=for_all) == "limit"
    assert why(job, replace(UP, doubt="its record could not be read"), two[1], limits=for_all) == ""
    assert why(replace(job, partitions=("gone",)), limits=for_all) == ""


@pytest.mark.parametrize(
    ("nodes", "found"), [({"n1", "n2"}, ""), ({"n2"}, "nodes"), (set(), "")], ids=["its own", "others", "not read"]
)
def test_a_job_might_not_start_again_when_its_nodes_have_left_its_partition(nodes: set[str], found: str) -> None:
    assert why(JOB, replace(UP, nodes=frozenset(nodes))) == found


@pytest.mark.parametrize(
    ("constraint", "returns"), [("fast", True), ("fast&big", False), ("slow|fast", True), ("[fast*2]", True)]
)
def test_a_job_might_not_start_again_when_its_nodes_have_lost_a_feature_that_it_requests(
    constraint: str, returns: bool
) -> None:
    job = replace(JOB, request=replace(JOB.request, features=constraint))
    snapshot = cluster([replace(node("n1"), features=frozenset({"fast"}))], [job], partitions=[UP])
    assert (why_it_cannot_return(job, snapshot) == 0) is returns


def test_a_reservation_that_is_over_or_gone_starts_no_job_again() -> None:
    inside = replace(JOB, reservation="course")
    course = Reservation(name="course", start_time=NOW - 10, end_time=NOW + 1)
    assert why(inside, reservations=(course,)) == ""
    assert why(inside, reservations=(replace(course, end_time=NOW),)) == "reservation"
    assert why(inside, reservations=(replace(course, name="other"),)) == "reservation"
    assert why(replace(inside, reservation="other,course"), reservations=(course,)) == ""
    assert why(inside, reservations=(replace(course, end_time=inf, doubt="unreadable"),)) == "reservation"


@pytest.mark.parametrize(
    ("release", "loses"),
    [
        ("22.05.8", False),
        ("24.11.7", False),
        ("25.05.0", True),
        ("25.11.6", True),
        ("25.11.7", False),
        ("26.05.5", False),
        ("25.11", True),
        ("", False),
    ],
)
def test_a_release_that_loses_the_licences_of_a_requeued_job_requeues_none_that_has_some(
    release: str, loses: bool
) -> None:
    assert (why(replace(JOB, licenses="matlab:1"), release=release) == "has") is loses
    assert why(JOB, release=release) == ""
