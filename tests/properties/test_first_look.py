"""A job that is served before Slurm's word can wait for nothing but resources, whatever it and its limits are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tesched_core.model.access import PartitionAccess
from tesched_core.model.cluster import Partition, SlurmSettings
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.model.slurm_limits import QosRules, SlurmLimits
from tesched_core.orders.first_look import awaiting_limits, waits_for_resources_alone
from tesched_slurm.clear_of_limits import is_clear
from tesched_slurm.limits_in_use import HolderOfLimits, LimitInUse, LimitsInUse

from tests.builders import NOW, cluster, node, waiting

JOBS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "licenses": st.just("soft:1"),
        "dependency": st.just("afterok:7"),
        "reservation": st.just("later"),
        "eligible_time": st.sampled_from([None, NOW - 1, NOW + 1]),
        "priority": st.sampled_from([0, 100]),
        "array_tasks": st.just("0-3"),
        "het_job_id": st.just(JobId(1)),
        "doubt": st.just("another form"),
        "time_limit_s": st.sampled_from([None, 60, 6000]),
        "account": st.sampled_from(["lab", "other"]),
        "partitions": st.sampled_from([(), ("p",), ("p", "q"), ("gone",)]),
        "reason": st.sampled_from(["None", "", "Priority"]),
    },
)
PARTITIONS = st.builds(
    Partition,
    name=st.just("p"),
    state=st.sampled_from(["UP", "DOWN"]),
    max_time_s=st.sampled_from([None, 600]),
    max_mem_per_cpu_mib=st.sampled_from([None, 1000]),
    allow_accounts=st.sampled_from([frozenset(), frozenset({"lab"})]),
    access=st.builds(PartitionAccess, root_only=st.booleans(), needs_reservation=st.booleans()),
)


@given(JOBS, PARTITIONS, st.booleans(), st.booleans(), st.booleans())
def test_a_job_with_another_reason_to_wait_is_never_served_before_slurms_word(
    fields: dict[str, Any], partition: Partition, enforced: bool, clear: bool, has_buffers: bool
) -> None:
    given_fields: dict[str, Any] = {"reason": "None", "eligible_time": NOW - 1, **fields}
    job = replace(waiting(1), **given_fields)
    settings = SlurmSettings(limits_enforced=enforced, has_burst_buffers=has_buffers)
    seen = cluster([node("n1")], [job], settings=settings, partitions=[partition, Partition(name="q")])
    seen = replace(seen, unlimited=frozenset({job.job_id} if clear else ()))
    early = waits_for_resources_alone(job, seen, Limits())
    assert not waits_for_resources_alone(job, seen, Limits(await_first_look=True))
    if not early:
        return
    assert waits_for_resources_alone(job, seen, Limits(await_first_look=False))
    assert not job.held
    assert not any((job.licenses, job.dependency, job.reservation, job.array_tasks, job.doubt))
    assert job.eligible_time is not None
    assert job.eligible_time <= NOW
    assert clear or not enforced
    assert not has_buffers
    assert set(job.partitions) <= {"p", "q"}
    if "p" in job.partitions:
        assert partition.state == "UP"
        assert partition.max_time_s is None or (job.time_limit_s or partition.max_time_s + 1) <= partition.max_time_s
        assert job.account in (partition.allow_accounts or {job.account})
    # It is one of those for which limits are read, where they are enforced.
    assert awaiting_limits(seen, Limits())[0] == ((job,) if enforced else ())


KINDS = st.sampled_from(
    [
        *(("MaxJobs", ""), ("GrpJobs", ""), ("MaxWallPJ", ""), ("GrpTRES", "cpu"), ("GrpTRES", "node")),
        *(("GrpTRES", "billing"), ("MinTRESPJ", "cpu"), ("MaxTRESPJ", "gres/gpu"), ("GrpTRESMins", "mem")),
    ]
)
LIMITS = st.lists(
    st.builds(
        lambda kind, most, used: LimitInUse(kind=kind[0], tres=kind[1], most=most, used=used),
        KINDS,
        st.integers(0, 10**6),
        st.integers(0, 200),
    ),
    max_size=4,
)


@given(LIMITS, LIMITS, st.integers(0, 3), st.integers(0, 50))
def test_more_limits_more_use_and_more_jobs_never_make_a_job_clear(
    of_user: list[LimitInUse], of_qos: list[LimitInUse], others: int, more: int
) -> None:
    job = replace(waiting(1, user="ann", account="lab", qos="high"), time_limit_s=600)
    pending = [replace(job, job_id=JobId(number + 2)) for number in range(others)]
    seen = replace(cluster([node("n1")]), limits=SlurmLimits(rules={"high": QosRules()}))

    def clear(user: list[LimitInUse], qos: list[LimitInUse], count: int) -> bool:
        held = HolderOfLimits(limits=tuple(qos), of_users={"1": ()}, of_accounts={"lab": ()})
        accounts = {("lab", "", ""): HolderOfLimits(), ("lab", "ann", ""): HolderOfLimits(limits=tuple(user))}
        return is_clear(job, 1, LimitsInUse(associations=accounts, qos={"high": held}), seen, pending[:count])

    if clear(of_user, of_qos, others):
        assert clear([], of_qos, others)
        assert clear(of_user, [], others)
        assert clear(of_user, of_qos, 0)
        assert clear([replace(one, most=one.most + more) for one in of_user], of_qos, others)
        assert clear([replace(one, used=max(one.used - more, 0)) for one in of_user], of_qos, others)
