"""Waiting jobs that would start if they fitted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.pending_reason import resources_would_not_help, starts_no_more
from tesched_core.model.actions import OrderId
from tesched_core.model.change import By, Change
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.first_look import waits_for_resources_alone
from tesched_core.orders.te_queue import te_queue
from tesched_core.placement.columns_of import columns_of

from tests.builders import NOW, cluster, node, running, share, traits, waiting

C = RefusalCode


@pytest.mark.parametrize(
    "reason",
    [
        "Resources",
        "Priority",
        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
    ],
)
def test_free_resources_help_a_job_that_waits_for_resources(reason: str) -> None:
    assert resources_would_not_help(waiting(1, reason=reason)) is None


# The reason words of squeue(1), JOB REASON CODES, and what each waits for.
@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("JobHeldUser", C.HELD),
        ("JobHeldAdmin", C.HELD),
        ("JobHoldMaxRequeue", C.HELD),
        ("job_requeued_in_held_state", C.HELD),
        ("launch_failed_requeued_held", C.HELD),
        ("Dependency", C.DEPENDENCY),
        ("DependencyNeverSatisfied", C.DEPENDENCY),
        ("BeginTime", C.BEGIN_TIME),
        ("Licenses", C.LICENSES),
        ("Reservation", C.RESERVATION),
        ("ReservationDeleted", C.RESERVATION),
        ("PartitionDown", C.PARTITION_DOWN),
        ("PartitionInactive", C.PARTITION_DOWN),
        ("PartitionTimeLimit", C.LIMIT),
        ("PartitionNodeLimit", C.LIMIT),
        ("NodeDown", C.NODE_DOWN),
        ("ReqNodeNotAvail", C.NODE_DOWN),
        ("ReqNodeNotAvail,_UnavailableNodes:n[1-2]", C.NODE_DOWN),
        ("ReqNodeNotAvail,_May_be_reserved_for_other_job", C.NODE_DOWN),
        ("BadConstraints", C.NODE_DOWN),
        ("AssociationJobLimit", C.LIMIT),
        ("AssocGrpCpuLimit", C.LIMIT),
        ("AssocGrpNodeLimit", C.LIMIT),
        ("AssocMaxJobsLimit", C.LIMIT),
        ("QOSGrpGRES", C.LIMIT),
        ("QOSMaxCpuPerUserLimit", C.LIMIT),
        ("QOSMaxJobsPerUserLimit", C.LIMIT),
        ("QOSUsageThreshold", C.LIMIT),
        ("MaxCpuPerAccount", C.LIMIT),
        ("MaxMemPerLimit", C.LIMIT),
        ("JobArrayTaskLimit", C.LIMIT),
        ("", C.NOT_CONSIDERED_YET),
        ("None", C.NOT_CONSIDERED_YET),
        ("InvalidAccount", C.OTHER_REASON),
        ("InvalidQOS", C.OTHER_REASON),
        ("Cleaning", C.OTHER_REASON),
        ("Prolog", C.OTHER_REASON),
        ("FrontEndDown", C.OTHER_REASON),
        ("NonePlusUltra", C.OTHER_REASON),
        ("resources", C.OTHER_REASON),
    ],
)
def test_free_resources_do_not_help_a_job_that_waits_for_another_reason(reason: str, code: RefusalCode) -> None:
    why = resources_would_not_help(waiting(1, reason=reason))
    assert why is not None
    assert why[0] is code
    assert f"Slurm says: {reason or 'nothing yet'}" in why[1]


@pytest.mark.parametrize("reason", ["Resources", "Priority", "", "Dependency"])
def test_priority_0_is_a_hold_whatever_slurm_says_besides(reason: str) -> None:
    why = resources_would_not_help(waiting(1, reason=reason, priority=0))
    assert why == (C.HELD, f"it is held (Slurm says: {reason or 'priority 0'})")


def test_no_resources_are_freed_for_a_heterogeneous_job() -> None:
    why = resources_would_not_help(waiting(1, het_job_id=JobId(1)))
    assert why is not None
    assert why[0] is C.UNSUPPORTED


#: the trials of a queue in which job 1 waits for resources
ONE = columns_of(cluster([], [waiting(1)])).trials


def order(state: OrderState, *, raised: bool = False) -> Memory:
    """Return the memory of one order for job 1."""
    one = Order(
        order_id=OrderId(1),
        preemptor=JobId(1),
        state=state,
        created_at=NOW,
        expires_at=NOW + 60,
        nodes=("n1", "n2"),
        victims=(),
        ended_at=NOW if state is OrderState.ENDED else None,
    )
    change = Change(
        by=By.PREEMPTOR,
        job_id=JobId(1),
        field=Field.NICE,
        previous=0,
        value=-9,
        at=NOW,
        since=NOW,
        order_id=OrderId(1),
    )
    return Memory(orders={OrderId(1): one}, changes={Field.NICE: {JobId(1): change}} if raised else {})


class TestSortOut:
    """The jobs that are served, in their order; a refusal for each other one."""

    def test_first_come_first_served_and_ties_by_job_id(self) -> None:
        jobs = [
            waiting(4, submit_time=NOW - 1),
            waiting(3, submit_time=NOW - 3),
            waiting(2, submit_time=NOW - 2),
            waiting(1, submit_time=NOW - 2),
        ]
        served, refusals = te_queue(columns_of(cluster([], jobs)).trials, Memory(), Limits())
        assert [job.job_id for job in served] == [3, 1, 2, 4]
        assert refusals == ()

    def test_only_waiting_te_jobs_are_considered(self) -> None:
        snapshot = cluster(
            [node("n1")],
            [
                running(1, share("n1", 1)),
                waiting(2),
                waiting(3),
                waiting(4, state=JobState.CANCELLED),
                waiting(5, flags=frozenset({"COMPLETING"})),
            ],
            exempt=[2],
        )
        be = snapshot.with_traits({**snapshot.traits, JobId(3): traits(JobClass.BE)})
        assert te_queue(columns_of(be).trials, Memory(), Limits()) == ((), ())

    def test_a_job_with_an_open_order_is_not_served_twice(self) -> None:
        served, (refusal,) = te_queue(ONE, order(OrderState.OPEN), Limits())
        assert served == ()
        assert (refusal.job_id, refusal.preemptor, refusal.code) == (1, 1, C.ORDER_OPEN)
        assert "n1,n2" in refusal.text

    def test_a_job_is_served_once_its_raise_is_seen_to_be_put_back(self) -> None:
        # Else the second order would take the first one's raised value for the job's own, and leave it behind.
        served, (refusal,) = te_queue(ONE, order(OrderState.SETTLING, raised=True), Limits())
        assert served == ()
        assert refusal.code is C.ORDER_OPEN
        assert len(te_queue(ONE, order(OrderState.SETTLING), Limits())[0]) == 1
        assert len(te_queue(ONE, order(OrderState.SETTLING), Limits())[0]) == 1

    def test_a_job_with_an_ended_order_is_served(self) -> None:
        assert len(te_queue(ONE, order(OrderState.ENDED), Limits())[0]) == 1

    def test_a_job_with_a_futile_order_is_tried_later(self) -> None:
        memory = Memory(jobs={JobId(1): JobMemory(retry_at=NOW + 120)})
        served, (refusal,) = te_queue(columns_of(cluster([], [waiting(1), waiting(2)])).trials, memory, Limits())
        assert [job.job_id for job in served] == [2]
        assert (refusal.job_id, refusal.code) == (1, C.RETRY_LATER)
        assert refusal.text.endswith("tried again after guard.retry_after_s")

    def test_slurms_own_reason_comes_before_the_retry(self) -> None:
        memory = Memory(jobs={JobId(1): JobMemory(retry_at=NOW + 120)})
        _, (refusal,) = te_queue(columns_of(cluster([], [waiting(1, reason="BeginTime")])).trials, memory, Limits())
        assert refusal.code is C.BEGIN_TIME


class TestAJobThatSlurmHasNotConsidered:
    """It is served before that if it is known to lack resources alone."""

    NEW = replace(waiting(1, reason="None"), eligible_time=NOW - 1)

    def served(self, job: Job, limits: Limits) -> tuple[tuple[Job, ...], tuple[Refusal, ...]]:
        snapshot = cluster([], [job])
        return te_queue(
            columns_of(snapshot).trials,
            Memory(),
            limits,
            lacks_resources=lambda one: waits_for_resources_alone(one, snapshot, limits),
        )

    def test_slurms_word_is_awaited_unless_the_site_says_otherwise(self) -> None:
        served, (refusal,) = self.served(self.NEW, Limits(await_first_look=True))
        assert (served, refusal.code) == ((), C.NOT_CONSIDERED_YET)
        assert self.served(self.NEW, Limits(await_first_look=False)) == ((self.NEW,), ())

    @pytest.mark.parametrize(
        "job",
        [
            replace(NEW, dependency="afterok:7"),
            replace(NEW, licenses="matlab:1"),
            replace(NEW, reservation="course"),
            replace(NEW, eligible_time=NOW + 1),
            replace(NEW, eligible_time=None),
            replace(NEW, priority=0),
            replace(NEW, array_tasks="1-4", array_job_id=JobId(1)),
            replace(NEW, array_job_id=JobId(1)),
            replace(NEW, het_job_id=JobId(1)),
        ],
    )
    def test_anything_else_that_it_requests_may_be_what_it_waits_for(self, job: Job) -> None:
        served, (refusal,) = self.served(job, Limits(await_first_look=False))
        assert (served, refusal.code) == ((), C.HELD if job.held else C.NOT_CONSIDERED_YET)

    def test_slurms_reason_counts_once_it_has_considered_the_job(self) -> None:
        _, (refusal,) = self.served(replace(self.NEW, reason="AssocGrpCpuLimit"), Limits(await_first_look=False))
        assert refusal.code is C.LIMIT


@pytest.mark.parametrize(
    ("reason", "never"),
    [
        ("InvalidQOS", True),
        ("BadConstraints", True),
        ("AssocMaxWallDurationPerJobLimit", True),
        ("QOSMaxWallDurationPerJobLimit", True),
        ("AssocMaxCpuPerJobLimit", True),
        ("Job's_account_not_permitted_to_use_this_partition_(p0_allows_a1_not_a4)", True),
        ("PartitionTimeLimit", True),
        ("JobHoldMaxRequeue", True),
        ("QOSMaxCpuPerNode", True),
        ("QOSMinCpuNotSatisfied", True),
        ("MaxMemPerLimit", True),
        ("uid_1001_not_in_group_permitted_to_use_this_partition_(p)._groups_allowed:_root", True),
        ("AssocGrpJobsLimit", False),
        ("AssocMaxJobsLimit", False),
        ("QOSMaxJobsPerUserLimit", False),
        ("JobHeldAdmin", False),
        ("BeginTime", False),
        ("PartitionDown", False),
    ],
)
def test_slurms_reason_of_a_job_that_would_not_start_again_is_named(reason: str, never: bool) -> None:
    assert starts_no_more(reason) is never
