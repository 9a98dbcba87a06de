"""Answers of slurmctld that are not believed, and for how long; and the jobs with a past that is forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.cluster import JobState, SlurmSettings
from tesched_core.model.job_memory import JobMemory, Past
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.missing import MOST_S
from tesched_daemon.plausibility import doubt, without_namesakes
from tesched_testcluster.harness.store_examples import order, remembering, victim

from tests.builders import cluster, node, running, share

FORGETS_S = 300
SETTINGS = SlurmSettings(min_job_age_s=FORGETS_S)


def seen(*job_ids: int, ended: tuple[int, ...] = ()) -> Snapshot:
    """Return a poll of these jobs, which run, but for those that have ended."""
    jobs = [running(job_id, share("n1", 1)) for job_id in job_ids]
    jobs = [replace(job, state=JobState.COMPLETED, allocation=()) if job.job_id in ended else job for job in jobs]
    return cluster([node("n1"), node("n2")], jobs, settings=SETTINGS)


class TestJobsThatAreMissing:
    """Half of those that had not ended cannot have ended and been forgotten, sooner than Slurm forgets."""

    @pytest.mark.parametrize(("left", "doubted"), [((1,), True), ((1, 2), True), ((1, 2, 3), False)])
    def test_half_of_them_is_too_many(self, left: tuple[int, ...], *, doubted: bool) -> None:
        assert bool(doubt(seen(*left), seen(1, 2, 3, 4), Memory(), 2.0)) is doubted

    def test_it_is_believed_once_slurm_may_have_forgotten_them(self) -> None:
        assert doubt(seen(1), seen(1, 2, 3, 4), Memory(), FORGETS_S - 1.0)
        assert not doubt(seen(1), seen(1, 2, 3, 4), Memory(), float(FORGETS_S))

    def test_a_job_that_had_ended_may_be_gone(self) -> None:
        assert not doubt(seen(1), seen(1, 2, 3, 4, ended=(2, 3, 4)), Memory(), 2.0)

    @pytest.mark.parametrize(
        "memory",
        [
            remembering(order(1, 9, victim(1))),
            Memory(jobs={JobId(1): JobMemory(preemptions=1)}),
            Memory(jobs={JobId(1): JobMemory(last_preempted=5.0)}),
        ],
    )
    def test_after_a_start_no_job_at_all_is_too_few_if_some_are_remembered(self, memory: Memory) -> None:
        assert doubt(seen(), None, memory, 2.0)
        assert not doubt(seen(), None, memory, float(FORGETS_S))
        assert not doubt(seen(7), None, memory, 2.0)
        assert not doubt(seen(), None, Memory(), 2.0)


class TestNodesThatAreMissing:
    """A cluster has nodes, and jobs run on nodes that are there."""

    def test_no_nodes_or_no_partitions_are_never_believed(self) -> None:
        look = seen(1)
        assert doubt(replace(look, nodes={}), None, Memory(), 2 * MOST_S)
        assert doubt(replace(look, partitions={}), None, Memory(), 2 * MOST_S)

    def test_most_of_those_that_jobs_hold_is_too_many(self) -> None:
        jobs = [running(number, share(f"n{number}", 1)) for number in range(1, 6)]
        three_of_five = cluster([node("n1"), node("n2")], jobs, settings=SETTINGS)
        assert doubt(three_of_five, None, Memory(), MOST_S - 1)
        assert not doubt(three_of_five, None, Memory(), MOST_S)
        two_of_five = cluster([node("n1"), node("n2"), node("n3")], jobs, settings=SETTINGS)
        assert not doubt(two_of_five, None, Memory(), 2.0)


class TestNamesakes:
    """Each preemption is a requeue that Slurm counts: a job that was requeued less often is another job."""

    PAID = Memory(jobs={JobId(1): JobMemory(preemptions=1, last_preempted=5.0, past=Past(submitted_at=0.0, ran_s=9.0))})

    def test_a_job_that_could_not_be_read_keeps_what_is_remembered_of_it(self) -> None:
        snapshot = seen(1)
        unread = replace(snapshot.jobs[JobId(1)], state=JobState.UNKNOWN, restarts=0, doubt="it could not be read")
        assert without_namesakes(self.PAID, replace(snapshot, jobs={JobId(1): unread})) == self.PAID

    def test_a_job_that_was_never_requeued_is_not_the_one_that_was_preempted(self) -> None:
        assert without_namesakes(self.PAID, seen(1)).jobs == {}

    def test_one_that_was_is(self) -> None:
        look = cluster([node("n1")], [running(1, share("n1", 1), restarts=1)])
        assert without_namesakes(self.PAID, look) == self.PAID

    def test_one_on_its_way_out_may_not_be_counted_yet(self) -> None:
        look = cluster([node("n1")], [running(1, share("n1", 1), flags=frozenset({"COMPLETING"}))])
        assert without_namesakes(self.PAID, look) == self.PAID
        memory = replace(self.PAID, orders=remembering(order(1, 9, victim(1))).orders)
        assert without_namesakes(memory, seen(1)) == memory
