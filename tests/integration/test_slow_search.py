"""The search for a job that makes a turn raise takes longer than the watchdog waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tesched_core.model.cluster import Job
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import CycleReport
from tesched_daemon.loop import Loop
from tesched_daemon.set_aside import SEARCH_S

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Reported, loop_of, reloaded


def waiting(job_id: int, name: str) -> Job:
    return replace(TRIAL, job_id=JobId(job_id), user="mallory", name=name)


def with_jobs(*jobs: Job) -> Snapshot:
    return replace(FULL_CLUSTER, jobs={job.job_id: job for job in (VICTIM, TRIAL, *jobs)})


@dataclass(kw_only=True)
class Slow(Reported):
    """A journal that cannot hold some jobs; each poll that it is to hold, or to rehearse, takes so long."""

    each_s: float = 15.0
    now: float = 5000.0
    #: how many jobs were not left out of each poll that was rehearsed in the last turn
    tries: list[int] = field(default_factory=list)

    @property
    def aside(self) -> set[str]:
        return {label for label, _, _ in self.reports[-1].doubts}

    def rehearse(self, snapshot: Any, memory: Any, decision: Any, report: CycleReport) -> None:
        self.tries.append(sum(job.doubt != "left out" for job in snapshot.jobs.values()))
        super().rehearse(snapshot, memory, decision, report)

    def _check_held(self, snapshot: Snapshot) -> None:
        self.now += self.each_s
        super()._check_held(snapshot)


def slow_search(loop: Loop, notebook: Slow, *, each: Callable[[int], None] = lambda _: None) -> int:
    """Make turns until one succeeds, `each` before its turn by number; return how many searched."""
    loop.stopwatch = lambda: notebook.now
    for number in range(40):
        each(number)
        notebook.tries.clear()
        began = notebook.now
        turn = loop.turn()
        # What was tried when the time was over is the last, but for two tries that make sure of the one that was found,
        # and one without it.
        assert notebook.now - began <= max(SEARCH_S, notebook.each_s) + 3 * notebook.each_s
        if not turn.trouble:
            return number
        assert turn.trouble == "nothing is done: jobs make tesched fail; the search for them goes on"
        assert not loop.actuator.acted  # type: ignore[attr-defined]
    pytest.fail("it does not end")


class TestASlowSearch:
    """One that takes longer than the watchdog waits goes on over the turns."""

    @pytest.mark.parametrize("each_s", [15.0, 2 * SEARCH_S])
    def test_a_job_among_many_is_found_over_several_turns(self, each_s: float) -> None:
        jobs = [waiting(job_id, name="bad" if job_id == 70 else "good") for job_id in range(3, 103)]
        notebook = Slow(cannot_hold={"bad"}, each_s=each_s)
        # A turn writes, and tries one: no job, all, seven halves; and the last, which is written without it.
        loop = loop_of(Cluster(seen=with_jobs(*jobs)), notebook)
        assert 4 <= slow_search(loop, notebook) <= 10
        assert notebook.aside == {"70"}

    def test_jobs_that_end_and_come_meanwhile_are_not_to_blame(self) -> None:
        jobs = {job_id: waiting(job_id, name="bad" if job_id == 70 else "good") for job_id in range(3, 103)}
        cluster, notebook = Cluster(), Slow(cannot_hold={"bad"})

        def change(turn: int) -> None:
            jobs.pop(3 + turn, None)
            jobs[200 + turn] = waiting(200 + turn, name="good")
            cluster.seen = with_jobs(*jobs.values())

        slow_search(loop_of(cluster, notebook), notebook, each=change)
        assert notebook.aside == {"70"}

    @pytest.mark.parametrize("now_bad", [5, 69, 71, 102])
    def test_one_that_has_become_the_one_to_blame_meanwhile_is_found(self, now_bad: int) -> None:
        """On either side of the jobs between which the search was going on."""
        cluster, notebook = Cluster(), Slow(cannot_hold={"bad"})

        def change(turn: int) -> None:
            bad = 70 if turn < 4 else now_bad
            jobs = [waiting(job_id, name="bad" if job_id == bad else "good") for job_id in range(3, 103)]
            cluster.seen = with_jobs(*jobs)

        loop = loop_of(cluster, notebook)
        assert slow_search(loop, notebook, each=change) > 4
        assert notebook.aside == {str(now_bad)}

    def test_after_a_reload_it_begins_anew(self) -> None:
        jobs = [waiting(job_id, name="bad" if job_id == 70 else "good") for job_id in range(3, 103)]
        notebook = Slow(cannot_hold={"bad"})
        loop = loop_of(Cluster(seen=with_jobs(*jobs)), notebook)
        loop.stopwatch = lambda: notebook.now
        loop.turn()
        first = list(notebook.tries)
        assert first[0] == 0
        notebook.tries.clear()
        reloaded(loop)
        loop.turn()
        assert notebook.tries == first
