"""fill: no job is brought ahead of one that it would delay, whatever that one asks for, and wherever it waits.

As in `test_fill.py`: nodes have 32 CPUs, job 1 holds half of one for 600 s; the first of the others is job 2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.cluster import Job, JobState, Partition, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_policies.patient import Patient

from tests.builders import NOW, running, share, waiting
from tests.scenarios.driver import Driver
from tests.scenarios.test_fill import brought, drive, holder, queued

LONG_S = 10_000.0


def first(request: Request | None = None, *, job_id: int = 2, **fields: Any) -> Job:
    """Return a job that waits before all others, for 32 CPUs if nothing else is said."""
    values: dict[str, Any] = {"priority": 1000, "submit_time": NOW - 5000, **fields}
    return waiting(job_id, request or Request(cpus=32, mem_per_node_mib=1), **values)


def of(partition: str, job: Job) -> Job:
    """Return the job in this partition alone."""
    return replace(job, partitions=(partition,))


def would_delay(driver: Driver) -> list[tuple[int, int | None]]:
    """Return the jobs that the last cycle left behind, each with the one that it would delay."""
    return [(one.job_id, one.preemptor) for one in driver.decision.refusals if one.code is RefusalCode.WOULD_DELAY]


def with_partitions(driver: Driver, **nodes: str) -> Driver:
    """Return the cluster with these partitions; `a="n1 n2"`."""
    parts = {name: Partition(name=name, nodes=frozenset(said.split())) for name, said in nodes.items()}
    driver.start = replace(driver.start, partitions=parts)
    return driver


HEADS = {
    "exclusive": first(Request(cpus=1, mem_per_node_mib=1, exclusive=True)),
    "all_memory": first(Request(cpus=20, mem_per_node_mib=0)),
    "certain_node": first(Request(cpus=32, mem_per_node_mib=1, required_nodes=("n1",))),
    "array": first(array_job_id=JobId(2), array_tasks="0-9"),
    "not_modelled": first(Request(cpus=32, mem_per_node_mib=1, cores_per_socket=4)),
    "heterogeneous": first(het_job_id=JobId(2)),
    "not_considered_yet": first(reason="None"),
    "not_read": replace(first(), doubt="its record could not be read"),
}


class TestWhateverIsFirst:
    """Job 2 wants a node of which half is held."""

    @pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
    def test_a_long_job_stays_behind_it(self, head: Job) -> None:
        assert brought(drive(holder(), head, queued(3, 8), j2=60, j3=LONG_S)) == []

    @pytest.mark.parametrize("name", ["exclusive", "all_memory", "certain_node", "array", "not_considered_yet"])
    def test_one_that_ends_in_time_goes_before_it(self, name: str) -> None:
        assert brought(drive(holder(), HEADS[name], queued(3, 8), j2=60, j3=600)) == [3]

    @pytest.mark.parametrize("name", ["not_modelled", "heterogeneous", "not_read"])
    def test_of_one_that_cannot_be_weighed_no_start_is_known(self, name: str) -> None:
        assert brought(drive(holder(), HEADS[name], queued(3, 8), j2=60, j3=60)) == []

    def test_its_nodes_are_not_those_of_others(self) -> None:
        wanted = Request(cpus=32, mem_per_node_mib=1, cores_per_socket=4, excluded_nodes=("n2",))
        jobs = (holder(name="n1"), holder(name="n2", job_id=5), first(replace(wanted, cores_per_socket=0)))
        assert brought(drive(*jobs, queued(3, 32), queued(4, 8), nodes=2, j2=60, j3=60, j4=600)) == [4]

    def test_an_exempt_job_is_not_delayed(self) -> None:
        driver = drive(holder(), first(), queued(3, 8), j2=60, j3=LONG_S)
        traits = dict(driver.start.traits)
        traits[JobId(2)] = replace(traits[JobId(2)], job_class=JobClass.EXEMPT)
        driver.start = driver.start.with_traits(traits)
        assert brought(driver) == []
        assert would_delay(driver) == [(3, 2)]

    def test_one_that_no_node_can_hold_delays_no_other(self) -> None:
        large = first(Request(cpus=64, mem_per_node_mib=1))
        driver = drive(holder(), large, queued(3, 32), queued(4, 8), queued(5, 8), j2=60, j3=60, j4=600, j5=LONG_S)
        assert brought(driver) == [4]
        assert would_delay(driver) == [(5, 3)]

    @pytest.mark.parametrize(
        "kept",
        [first(reason="Dependency"), first(reason="JobHeldUser"), first(reason="BeginTime", eligible_time=NOW + 60)],
        ids=lambda job: job.reason,
    )
    def test_one_that_would_not_start_delays_no_other(self, kept: Job) -> None:
        driver = drive(holder(), kept, queued(3, 32), queued(4, 8), queued(5, 8), j2=60, j3=60, j4=600, j5=LONG_S)
        assert brought(driver) == [4]
        assert would_delay(driver) == [(5, 3)]


class TestAnArray:
    """Its tasks start one after the other, as far as they fit."""

    def test_free_resources_are_its_tasks_first(self) -> None:
        tasks = first(Request(cpus=4, mem_per_node_mib=1), array_job_id=JobId(2), array_tasks="0-2")
        assert brought(
            drive(holder(), tasks, queued(3, 32), queued(4, 8), queued(5, 4), j2=60, j3=60, j4=60, j5=60)
        ) == [5]

    def test_no_more_than_may_run_at_once(self) -> None:
        tasks = first(Request(cpus=4, mem_per_node_mib=1), array_job_id=JobId(2), array_tasks="0-9", array_throttle=1)
        assert brought(drive(holder(), tasks, queued(3, 32), queued(4, 12), j2=60, j3=60, j4=60)) == [4]

    def test_tasks_that_run_count_as_well(self) -> None:
        # One of two that may run holds 16 CPUs: one more starts, on 4 of the 16 that are free; once that runs, none.
        rest = first(Request(cpus=4, mem_per_node_mib=1), array_job_id=JobId(2), array_tasks="2-9", array_throttle=2)
        task = replace(holder(), array_job_id=JobId(2), array_task_id=0, array_throttle=2)
        waits = (queued(3, 32), queued(4, 12), queued(5, 16))
        assert brought(drive(task, rest, *waits, j2=60, j3=60, j4=60, j5=60)) == [4]
        other = replace(holder(4, job_id=6), array_job_id=JobId(2), array_task_id=1, array_throttle=2)
        assert brought(drive(task, other, rest, *waits, j2=60, j3=60, j4=60, j5=60)) == [4]
        ended = replace(task, state=JobState.COMPLETED, flags=frozenset({"COMPLETING"}))
        assert brought(drive(ended, rest, *waits, j2=60, j3=60, j4=60, j5=60)) == []

    def test_its_records_share_what_may_run(self) -> None:
        # A task that was requeued has a record of its own, and starts; the others are kept, and delay no job.
        array: dict[str, Any] = {"array_job_id": JobId(2), "array_throttle": 1}
        task = replace(queued(6, 4, priority=2000), array_task_id=3, **array)
        rest = first(Request(cpus=4, mem_per_node_mib=1), array_tasks="4-9", **array)
        assert brought(drive(holder(), task, rest, queued(3, 32), queued(4, 12), j2=60, j3=60, j4=60, j6=60)) == [4]
        kept = replace(task, priority=1)
        running = replace(holder(), array_task_id=0, **array)
        more = replace(kept, job_id=JobId(7))
        waits = (kept, more, queued(3, 32))
        assert brought(drive(running, *waits, j3=60, j6=60, j7=60)) == [], "nor is one brought forward"
        assert brought(drive(holder(), *waits, j3=60, j6=60, j7=60)) == [6], "nor two"

    def test_a_task_that_does_not_fit_any_more_is_first(self) -> None:
        # Two start now and end in 60 s; the third could start then, and 4 CPUs are to spare.
        tasks = first(Request(cpus=6, mem_per_node_mib=1), array_job_id=JobId(2), array_tasks="0-2")
        assert brought(drive(holder(), tasks, queued(3, 4), j2=60, j3=LONG_S)) == [3]
        more = first(Request(cpus=7, mem_per_node_mib=1), array_job_id=JobId(2), array_tasks="0-4")
        assert brought(drive(holder(28), more, queued(3, 4), j2=60, j3=LONG_S)) == [3]
        assert brought(drive(holder(28), first(), queued(3, 4), j2=60, j3=LONG_S)) == []


class TestWhereverItWaits:
    """Each node has a first job."""

    def test_of_partitions_without_common_nodes_each_has_its_own(self) -> None:
        jobs = (of("a", holder(name="n1")), of("b", holder(name="n2", job_id=5)))
        heads = (of("a", queued(2, 32, priority=1000)), of("b", queued(3, 32, priority=900)))
        long = drive(*jobs, *heads, of("b", queued(4, 16)), nodes=2, j2=60, j3=60, j4=LONG_S)
        assert brought(with_partitions(long, a="n1", b="n2")) == []
        assert would_delay(long) == [(4, 3)]
        short = drive(*jobs, *heads, of("b", queued(4, 16)), nodes=2, j2=60, j3=60, j4=600)
        assert brought(with_partitions(short, a="n1", b="n2")) == [4]

    def test_what_fits_in_a_partition_of_its_own_starts_by_itself(self) -> None:
        # Job 3 fits on n2, where no job waits before it; job 4, which would take its CPUs, stays behind it.
        jobs = (of("a", holder(name="n1")), of("b", holder(name="n2", job_id=5)))
        queue = (of("a", queued(2, 32)), of("b", queued(3, 16)), of("b", queued(4, 16, waited=LONG_S)))
        assert brought(with_partitions(drive(*jobs, *queue, nodes=2, j2=60, j3=60, j4=60), a="n1", b="n2")) == []

    def test_within_a_partition_by_the_nodes_that_it_may_use(self) -> None:
        nowhere_else = Request(cpus=32, mem_per_node_mib=1, excluded_nodes=("n2",))
        jobs = (holder(name="n1"), holder(name="n2", job_id=5), first(nowhere_else), queued(3, 32))
        assert brought(drive(*jobs, queued(4, 8), nodes=2, j2=60, j3=60, j4=LONG_S)) == []


class TestShadowUnknown:
    """Job 1 has no limit, and nothing is known of its run time."""

    FOREVER = running(1, share("n1", 16), start_time=NOW - 100, time_limit_s=None)

    @pytest.mark.parametrize("run_s", [60.0, 30 * 86_400.0, float("inf")])
    def test_the_nodes_that_the_first_would_have_are_left_to_it(self, run_s: float) -> None:
        assert brought(drive(self.FOREVER, queued(2, 32), queued(3, 16), j2=60, j3=run_s)) == []

    @pytest.mark.parametrize(
        ("ends_in", "in_time_s"), [((600, 900), 900), ((600, None), 600), ((600, 900, None), 600), ((None, None), 0)]
    )
    def test_one_that_ends_before_it_could_start_goes_before_it(
        self, ends_in: tuple[int | None, ...], in_time_s: float
    ) -> None:
        # Job 2 wants three nodes. Jobs without a limit may end at once; the others are expected to end then.
        wide = first(Request(cpus=96, min_nodes=3, max_nodes=3, mem_per_node_mib=1))
        held = [
            replace(
                self.FOREVER, job_id=JobId(50 + at), allocation=(share(f"n{at}", 16),), time_limit_s=end and 100 + end
            )
            for at, end in enumerate(ends_in, start=2)
        ]
        jobs = (self.FOREVER, *held, wide, queued(3, 16))
        assert brought(drive(*jobs, nodes=1 + len(held), j2=60, j3=in_time_s + 1)) == []
        if in_time_s:
            assert brought(drive(*jobs, nodes=1 + len(held), j2=60, j3=in_time_s)) == [3]

    def test_what_it_leaves_there_may_be_taken_once(self) -> None:
        jobs = (queued(2, 20), queued(3, 12), queued(4, 4))
        assert brought(drive(self.FOREVER, *jobs, j2=60, j3=LONG_S, j4=LONG_S)) == [3]

    def test_where_it_may_not_run_it_is_not_delayed(self) -> None:
        nowhere_else = Request(cpus=32, mem_per_node_mib=1, excluded_nodes=("n2",))
        jobs = (self.FOREVER, holder(name="n2", job_id=5), first(nowhere_else), queued(3, 32))
        assert brought(drive(*jobs, queued(4, 8), nodes=2, j2=60, j3=60, j4=600)) == [4]

    def test_a_job_that_starts_now_ends_some_time(self) -> None:
        jobs = (holder(), queued(2, 8), queued(3, 32), queued(4, 8))
        assert brought(drive(*jobs, j2=60, j3=60, j4=600)) == [4]
        assert brought(drive(*jobs, j2=60, j3=60, j4=601)) == []


class TestTrials:
    """A TE job comes before every other."""

    @pytest.mark.parametrize(
        "request_", [Request(cpus=1, mem_per_node_mib=1, exclusive=True), Request(cpus=32, cores_per_socket=4)]
    )
    def test_one_with_any_request_is_not_delayed(self, request_: Request) -> None:
        # To job 2 alone 8 CPUs would be to spare.
        trial = first(request_, job_id=9, priority=50)
        assert brought(drive(holder(), queued(2, 24), queued(3, 8), trial, policy=Patient(), j2=60, j3=LONG_S)) == []

    def test_one_that_slurm_has_yet_to_consider_is_not_delayed(self) -> None:
        trial = first(job_id=9, priority=50, reason="None")
        jobs = (holder(), queued(2, 24), queued(3, 8), trial)
        assert brought(drive(*jobs, policy=Patient(), j2=60, j3=LONG_S)) == []
        assert brought(drive(*jobs, policy=Patient(), j2=60, j3=600)) == [3]
