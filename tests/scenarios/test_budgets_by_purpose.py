"""Turns of gavel and preemptions for TE jobs count apart: with the shipped limits neither stops the other.

One node of one GPU; two BE jobs take turns on it, in rounds of 360 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tesched_core.model.actions import Notify, Requeue, holds, releases
from tesched_core.model.cluster import Job, Request
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_policies.gavel.policy import Gavel

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import Driver

GPU = Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu", 1),))
ROUND_S = 360.0
A, B, TRIAL = 1, 2, 9


class Site(Driver):
    """The node, one job that runs on it, and one that waits for its turn."""

    def __init__(self, *more: Job, turns: Mapping[str, Any] | None = None, limits: Limits | None = None) -> None:
        first = replace(
            running(A, share("v", 1, 1, {"gpu:v100": 1}), start_time=NOW - 100, submit_time=NOW - 101), request=GPU
        )
        second = waiting(B, GPU, submit_time=NOW - 50)
        gavel = Gavel(allocator="las", types=("v100",), round_s=ROUND_S, **(turns or {}))
        super().__init__(
            [node("v", gres={"gpu:v100": 1})],
            [first, second, *more],
            best_effort=gavel,
            run_times={A: 36_000, B: 36_000},
            # Much waiting is what turns are; that bound is another test's.
            limits=limits or Limits(max_slowdown=1000),
        )

    def snapshot(self, at_s: float) -> Snapshot:
        return replace(super().snapshot(at_s), speeds={JobId(A): {"v100": 1.0}, JobId(B): {"v100": 1.0}})

    def goes_on(self, begin_s: float, end_s: float) -> list[int]:
        """Do as tesched says for so long, and return the jobs that were started, in their order."""
        started = []
        at_s = begin_s
        while at_s < end_s:
            left: set[int] = set()
            for action in self.cycle(at_s):
                if isinstance(action, Notify | Requeue):
                    left.add(action.job_id)  # Slurm does not start it at once
                    self.requeued(action.job_id)
                    self.change(action.job_id, reason="Resources")
                else:
                    self.obeys(action)
            if not any(job.on_nodes for job in self.jobs.values()):
                # Slurm starts the one of the highest priority that may run there.
                free = [job for job in self.jobs.values() if job.pending and not job.held and job.job_id not in left]
                if free:
                    first = max(free, key=lambda job: (job.priority - job.nice, -job.job_id))
                    self.starts(first.job_id, share("v", 1, 1, {"gpu:v100": 1}), at_s=at_s + 1)
                    started.append(int(first.job_id))
            at_s += 20
        return started


def test_turns_go_on_with_the_shipped_limit_of_one_preemption_for_each_job() -> None:
    site = Site()
    started = site.goes_on(0, 6 * ROUND_S)
    assert started[:3] == [B, A, B]
    assert not by_job(site.memory, "preemptions"), "no turn counts as one of P"


def test_a_trial_finds_its_victim_after_many_turns() -> None:
    site = Site()
    site.goes_on(0, 6 * ROUND_S)
    assert site.memory.paid, "turns have been paid for"
    at_s = 6 * ROUND_S + 100
    trial = waiting(TRIAL, GPU, submit_time=NOW + at_s - 5)
    site.jobs[trial.job_id] = trial
    te = Driver([node("n")], [waiting(TRIAL, GPU)]).start.traits[JobId(TRIAL)]
    site.start = site.start.with_traits({**site.start.traits, trial.job_id: te})
    runs = next(int(job.job_id) for job in site.jobs.values() if job.on_nodes)
    told = [action.job_id for action in site.cycle(at_s) if isinstance(action, Notify | Requeue)]
    assert told == [runs]
    assert site.why_not(TRIAL) is None


def test_one_preemption_for_a_trial_leaves_the_turns_alone() -> None:
    site = Site(waiting(TRIAL, GPU))
    site.goes_on(0, 40)
    assert site.jobs[JobId(TRIAL)].on_nodes
    assert by_job(site.memory, "preemptions") == {A: 1}
    site.ends(TRIAL)
    started = site.goes_on(40, 6 * ROUND_S)
    assert started.count(A) >= 2
    assert started.count(B) >= 2


def test_turns_have_a_limit_of_their_own_by_job() -> None:
    site = Site(turns={"max_preemptions_per_job_hour": 1})
    assert site.goes_on(0, 6 * ROUND_S) == [B, A], "each of them gave way once"


def test_turns_have_a_limit_of_their_own_in_all() -> None:
    site = Site(turns={"max_preemptions_per_hour": 2})
    assert site.goes_on(0, 6 * ROUND_S) == [B, A]


def test_turns_have_a_budget_of_their_own() -> None:
    site = Site(turns={"max_lost_node_hours_per_day": 0.01})  # 36 s: one grace period, and no other
    assert site.goes_on(0, 6 * ROUND_S) == [B]


def test_no_turn_counts_as_an_order_of_the_trials() -> None:
    site = Site(limits=Limits(max_slowdown=1000, max_open_orders=1, max_preemptions_per_hour=1))
    site.goes_on(0, 3 * ROUND_S + 20)
    trial = waiting(TRIAL, GPU, submit_time=NOW + 3 * ROUND_S)
    site.jobs[trial.job_id] = trial
    te = Driver([node("n")], [waiting(TRIAL, GPU)]).start.traits[JobId(TRIAL)]
    site.start = site.start.with_traits({**site.start.traits, trial.job_id: te})
    told = [action for action in site.cycle(3 * ROUND_S + 100) if isinstance(action, Notify | Requeue)]
    assert len(told) == 1


def test_a_job_that_waits_for_its_turn_is_held_and_released() -> None:
    site = Site()
    (held,) = [action for action in site.cycle(0) if holds(action)]
    assert held.job_id == B
    site.obeys(held)
    site.goes_on(20, ROUND_S)
    assert B in {action.job_id for action in site.cycle(ROUND_S + 20) if releases(action)}
