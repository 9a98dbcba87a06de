"""No preemption for a TE job that would not start on the resources, and none of a job that is not eligible."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from tesched_core.model.cluster import Job, JobState, Partition, Request, Reservation
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_policies.baselines import NoPreemption

from tests.builders import NOW, node, running, share, traits, waiting
from tests.scenarios.driver import BE, TE, Driver, first_in_queue, notice, one_node

C = RefusalCode


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("JobHeldUser", C.HELD),
        ("Dependency", C.DEPENDENCY),
        ("BeginTime", C.BEGIN_TIME),
        ("Licenses", C.LICENSES),
        ("QOSMaxJobsPerUserLimit", C.LIMIT),
        ("AssocGrpCpuLimit", C.LIMIT),
        ("Reservation", C.RESERVATION),
        ("PartitionDown", C.PARTITION_DOWN),
        ("ReqNodeNotAvail", C.NODE_DOWN),
        ("", C.NOT_CONSIDERED_YET),
        ("Cleaning", C.OTHER_REASON),
    ],
)
def test_a_te_job_that_waits_for_another_reason_costs_no_victim(reason: str, code: RefusalCode) -> None:
    drive = one_node()
    drive.change(TE, reason=reason)
    assert drive.cycle(0) == ()
    assert drive.memory.orders == {}
    assert [(one.job_id, one.preemptor, one.code) for one in drive.decision.refusals] == [(TE, TE, code)]
    assert drive.decision.summary == "did nothing, because no trial-and-error job waits for resources"


@pytest.mark.parametrize(
    "wanted",
    [
        Request(cpus=33, mem_per_node_mib=1),
        Request(mem_per_node_mib=64_001),
        Request(min_nodes=2, max_nodes=2, cpus=2, mem_per_node_mib=1),
        Request(features="fast", mem_per_node_mib=1),
        Request(excluded_nodes=("n1",), mem_per_node_mib=1),
        Request(required_nodes=("n2",), mem_per_node_mib=1),
        Request(gres_per_node=(("gpu", 1),), mem_per_node_mib=1),
    ],
)
def test_a_te_job_that_could_not_run_here_at_all_costs_no_victim(wanted: Request) -> None:
    drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, wanted)])
    assert drive.cycle(0) == ()
    assert [(one.job_id, one.code) for one in drive.decision.refusals] == [(TE, C.IMPOSSIBLE)]
    assert drive.decision.summary.startswith("did nothing, because no resources can be freed for 1 waiting")


def test_a_te_job_costs_no_victim_when_its_only_node_is_drained() -> None:
    drive = one_node()
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"DRAIN"}))
    assert drive.cycle(0) == ()
    assert drive.why_not(TE) is C.IMPOSSIBLE


def test_a_te_job_that_would_run_into_a_reservation_costs_no_victim() -> None:
    # its victim leaves within 30 s of grace and KillWait
    soon = Reservation(name="course", start_time=NOW + 120, end_time=NOW + 600, nodes=frozenset({"n1"}))
    # and could start again on n2
    jobs = [running(BE, share("n1", 32)), running(2, share("n2", 32), batch=False), waiting(TE, time_limit_s=61)]
    drive = Driver([node("n1"), node("n2")], jobs, reservations=[soon])
    assert drive.cycle(0) == ()
    drive.jobs[JobId(TE)] = waiting(TE, time_limit_s=60)
    assert drive.cycle(0) == (first_in_queue(-1001), notice())


def test_a_job_without_a_partition_ends_no_cycle_beside_a_partition_of_one_user_at_a_time() -> None:
    drive = Driver([node("n1")], [running(BE, share("n1", 32), partitions=()), waiting(TE, cpus=16)])
    alone = Partition(name="alone", nodes=frozenset({"n1"}), exclusive_user=True)
    drive.start = replace(drive.start, partitions={**drive.start.partitions, alone.name: alone})
    assert notice() in drive.cycle(0)


@pytest.mark.parametrize(
    ("nodes", "any_node", "barred"), [({"n1"}, False, True), (set(), True, True), ({"n2"}, False, False)]
)
def test_an_unreadable_reservation_keeps_others_from_each_node_that_it_may_name(
    nodes: set[str], any_node: bool, barred: bool
) -> None:
    doubted = Reservation(
        name="course", start_time=0, end_time=inf, nodes=frozenset(nodes), any_node=any_node, doubt="unreadable"
    )
    jobs = [running(BE, share("n1", 32)), waiting(TE, time_limit_s=60)]
    drive = Driver([node("n1")], jobs, reservations=[doubted])
    assert (drive.cycle(0) == ()) is barred


def test_no_te_job_is_served_in_an_unreadable_reservation() -> None:
    doubted = Reservation(name="course", start_time=0, end_time=inf, nodes=frozenset({"n1"}), doubt="unreadable")
    drive = Driver(
        [node("n1")], [running(BE, share("n1", 32)), waiting(TE, reservation="course")], reservations=[doubted]
    )
    assert drive.cycle(0) == ()
    assert drive.why_not(TE) is C.UNSUPPORTED


@pytest.mark.parametrize(
    ("victim", "code"),
    [
        (running(BE, share("n1", 32), batch=False), C.INTERACTIVE),
        (running(BE, share("n1", 32), requeueable=False), C.NOT_REQUEUEABLE),
        (running(BE, share("n1", 32), deadline=NOW + 1e6), C.CANNOT_RETURN),
        (running(BE, share("n1", 32), start_time=NOW - 59), C.MIN_RUN_TIME),
        (running(BE, share("n1", 32), flags=frozenset({"COMPLETING"})), C.ALREADY_LEAVING),
        (running(BE, share("n1", 32), state=JobState.SUSPENDED), C.SUSPENDED),
        (running(BE, share("n1", 32), user="root"), C.PROTECTED_USER),
    ],
)
def test_a_job_that_may_not_be_preempted_is_not(victim: Job, code: RefusalCode) -> None:
    # memory, which a suspended job keeps, is what is missing
    wanted = Request(mem_per_node_mib=1)
    held = (share("n1", 32, 64_000),)
    jobs = [replace(victim, allocation=held), waiting(TE, wanted)]
    drive = Driver([node("n1")], jobs, limits=Limits(protected_users=("root",)))
    assert drive.cycle(0) == ()
    assert [(one.job_id, one.preemptor, one.code) for one in drive.decision.refusals] == [
        (BE, TE, code),
        (TE, TE, C.NO_VICTIM),
    ]


def test_an_exempt_job_is_neither_selected_nor_mentioned() -> None:
    drive = one_node()
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(BE): traits(JobClass.EXEMPT)})
    assert drive.cycle(0) == ()
    assert [(one.job_id, one.code) for one in drive.decision.refusals] == [(TE, C.NO_VICTIM)]


@pytest.mark.parametrize("job_class", [JobClass.BE, JobClass.EXEMPT])
def test_resources_are_freed_for_te_jobs_alone(job_class: JobClass) -> None:
    drive = one_node()
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(TE): traits(job_class)})
    assert drive.cycle(0) == ()
    assert drive.decision.refusals == ()


def test_a_running_te_job_is_never_selected() -> None:
    drive = one_node()
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(BE): traits(JobClass.TE)})
    assert drive.cycle(0) == ()
    assert drive.why_not(TE) is C.NO_VICTIM


def test_an_unclassified_snapshot_moves_no_job() -> None:
    drive = one_node()
    drive.start = drive.start.with_traits({})
    assert drive.cycle(0) == ()


def test_p_0_is_no_preemption() -> None:
    drive = one_node(limits=Limits(max_preemptions_per_job=0))
    assert drive.cycle(0) == ()
    assert drive.why_not(TE) is C.NO_VICTIM


def test_the_policy_none_selects_no_job() -> None:
    drive = one_node()
    drive.policy = NoPreemption()
    assert drive.cycle(0) == ()
    assert drive.why_not(TE) is C.POLICY_NONE


class TestSummary:
    """One line says what was done, or why nothing was."""

    def test_summary_of_an_empty_cluster_says_so(self) -> None:
        drive = Driver([], [])
        assert drive.cycle(0) == ()
        assert drive.decision.summary == "did nothing, because no trial-and-error job waits for resources"
        assert (drive.decision.cycle, drive.decision.at, drive.decision.policy) == (1, NOW, "fitgpp")
        assert drive.memory == Memory(cycle=1)

    def test_a_preemption_and_what_follows(self) -> None:
        drive = one_node()
        drive.cycle(0)
        assert drive.decision.summary == "resources for job 9 on n1 from 1"
        drive.obeys(*drive.decision.actions)
        drive.cycle(2)
        assert drive.decision.summary == "did nothing, because 1 order(s) are under way"
        drive.cycle(30)
        assert drive.decision.summary == "went on with the orders under way: requeue"

    def test_resources_that_are_free(self) -> None:
        drive = Driver([node("n1")], [waiting(TE)])
        drive.cycle(0)
        assert drive.decision.summary == "resources for job 9 on n1 (free)"
