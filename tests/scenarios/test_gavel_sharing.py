"""Gavel's rounds on Slurm with shards, by hand: the pairs that share a GPU, and what a shard keeps others from.

Everywhere: nodes of one GPU, of which two shards can be had; a round takes 360 s. Two jobs of workload `light` do 3
steps/s each on a v100 they share, where one alone does 4; `heavy` and anything else are not known beside each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tesched_core.model.actions import Notify, kind_of, sets
from tesched_core.model.cluster import Job, Node, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.capacity_of import capacity_of
from tesched_policies.gavel.policy import Gavel

from tests.builders import NOW, node, nodes_set, running, share, waiting
from tests.examples import examples
from tests.scenarios.driver import Driver

LIMITS = Limits(min_run_time_s=0, cool_down_s=0, max_preemptions_per_job=100, max_slowdown=1000)
A, B, C, D, TRIAL = 1, 2, 3, 4, 9
BESIDE = {("light", "light"): {"v100": 3.0, "k80": 0.9}}
ALONE = {"v100": 4.0, "k80": 1.0}


def asks(gres: str) -> Request:
    return Request(cpus=1, mem_per_node_mib=1, gres_per_node=((gres, 1),))


def machine(name: str, kind: str, gpus: int = 1, shards: int = 2) -> Node:
    return node(name, gres={f"gpu:{kind}": gpus, f"shard:{kind}": shards})


class Site(Driver):
    """A v100 on node v, and what a test adds; the jobs are `light` unless it says what they are."""

    def __init__(
        self,
        *jobs: Job,
        nodes: tuple[Node, ...] = (),
        named: str = "las-sharing",
        workloads: Mapping[int, str] | None = None,
    ) -> None:
        gavel = Gavel(allocator=named, types=("v100", "k80"))
        run_times = {int(job.job_id): 3600.0 for job in jobs if job.job_id != TRIAL}
        super().__init__(nodes or [machine("v", "v100")], jobs, limits=LIMITS, best_effort=gavel, run_times=run_times)
        told = workloads or {}
        self.start = self.start.with_traits(
            {job_id: replace(one, workload=told.get(int(job_id), "light")) for job_id, one in self.start.traits.items()}
        )

    def snapshot(self, at_s: float) -> Snapshot:
        speeds = dict.fromkeys(self.jobs, ALONE)
        return replace(super().snapshot(at_s), speeds=speeds, beside=BESIDE)

    def said(self, job_id: int) -> str:
        return next(one.text for one in self.decision.refusals if one.job_id == job_id and one.code is RefusalCode.NOTE)

    def kinds(self) -> list[tuple[str, int]]:
        return [(kind_of(action), action.job_id) for action in self.decision.actions]


def on(job_id: int, where: str, gres: str = "shard") -> Job:
    held = share(where, 1, 1, {gres: 1})
    return replace(running(job_id, held, start_time=NOW - 100, submit_time=NOW - 100 + job_id), request=asks(gres))


def queued(job_id: int, gres: str = "shard") -> Job:
    return waiting(job_id, asks(gres), submit_time=NOW - 50 + job_id)


def test_two_jobs_that_are_worth_it_share_a_gpu_and_no_job_has_to_go() -> None:
    # las-sharing: alone each would have half of the v100, 2 steps/s; together each has 3.
    site = Site(on(A, "v"), queued(B))
    site.obeys(*site.cycle(0))
    assert site.kinds() == [("setnodes", B)]
    assert [nodes.names for _, nodes in nodes_set(site.decision.actions)] == [("v",)]
    assert "on one GPU with job 2" in site.said(A)
    assert "on one GPU with job 1" in site.said(B)
    site.starts(B, share("v", 1, 1, {"shard": 1}), at_s=2)
    for at_s in (10, 400, 800):
        site.cycle(at_s)
        assert site.decision.actions == (), "both have what is theirs"
    (pair,) = site.state("gavel").pairs.values()
    assert pair.received_s[0] == pytest.approx(798.0), "time on one GPU is the pair's, once"


def test_both_of_a_pair_are_bound_to_the_same_of_several_nodes() -> None:
    nodes = (machine("k", "k80"), machine("v1", "v100"), machine("v2", "v100"))
    # C keeps v1's GPU whole: it may not be moved, since it is not tesched's to move.
    kept = replace(on(C, "v1", "gpu:v100"), requeueable=False)
    site = Site(queued(A), queued(B), kept, nodes=nodes[1:])
    site.obeys(*site.cycle(0))
    bound = {job_id: nodes.names for job_id, nodes in nodes_set(site.decision.actions)}
    assert bound == {A: ("v2",), B: ("v2",)}


def test_jobs_of_unknown_speed_beside_each_other_take_turns() -> None:
    site = Site(on(A, "v"), queued(B), workloads={A: "heavy"})
    site.obeys(*site.cycle(0))
    assert site.kinds() == [("hold", B)]
    site.cycle(360)
    assert [kind for kind, _ in site.kinds()] == ["setnodes", "notify", "release"]


def test_a_pair_leaves_together_for_a_job_that_wants_the_gpu_whole() -> None:
    site = Site(on(A, "v"), on(B, "v"), queued(C, "gpu"))
    site.obeys(*site.cycle(0))
    site.obeys(*site.cycle(360))
    site.obeys(*site.cycle(720))
    asked = {action.job_id for action in site.decision.actions if isinstance(action, Notify)}
    if not asked:  # the pair's turn comes first, or that of C
        site.cycle(1080)
        asked = {action.job_id for action in site.decision.actions if isinstance(action, Notify)}
    assert asked == {A, B}
    (order,) = site.memory.open_orders()
    assert (order.preemptor, order.nodes) == (C, ("v",))


def test_a_gpu_is_given_to_one_combination() -> None:
    site = Site(queued(A), queued(B), queued(C), queued(D), workloads={C: "heavy", D: "heavy"})
    site.cycle(0)
    bound = {action.job_id for action in site.decision.actions if sets(action, Field.NODES)}
    assert bound in ({A, B}, {C}, {D})


def test_a_trial_is_not_sent_to_a_gpu_of_which_a_job_has_a_shard() -> None:
    site = Site(on(A, "v"), waiting(TRIAL, asks("gpu")), named="las")
    site.cycle(0)
    assert site.decision.actions == ()
    capacity = capacity_of(site.snapshot(0))
    free = dict(zip(capacity.resources, capacity.free[0].tolist(), strict=True))
    assert (free["gpu"], free["gpu:v100"], free["shard"]) == (0, 0, 1)


def test_no_shard_is_free_of_a_gpu_that_a_job_has_whole() -> None:
    nodes = (machine("v", "v100", gpus=4, shards=16),)
    capacity = capacity_of(Site(on(A, "v", "gpu:v100"), on(B, "v"), nodes=nodes).snapshot(0))
    free = dict(zip(capacity.resources, capacity.free[0].tolist(), strict=True))
    assert (free["gpu"], free["gpu:v100"], free["shard"], free["shard:v100"]) == (2, 2, 11, 12)


@pytest.mark.parametrize(
    ("nodes", "named", "said"),
    [
        ((node("v", gres={"gpu:v100": 1}),), "las-sharing", "no node has shards"),
        ((machine("v", "v100", gpus=2, shards=4),), "las-sharing", "Slurm alone says which one a shard is of"),
        ((machine("v", "v100", shards=1),), "las-sharing", "two or more of one GPU each"),
        ((machine("v", "v100"),), "las", "policy.gavel.allocator is las"),
    ],
)
def test_a_job_that_requests_shards_gets_a_reason_where_gpus_are_not_shared(
    nodes: tuple[Node, ...], named: str, said: str
) -> None:
    site = Site(queued(A), nodes=nodes, named=named)
    site.cycle(0)
    assert site.decision.actions == ()
    assert said in site.said(A)
    assert JobId(A) not in (site.state("gavel").jobs if site.state("gavel") else {})


def obey(site: Site, at_s: float) -> None:
    """Do what tesched asks, as Slurm would: a victim leaves at its notice, a job that fits where it is bound starts.

    A requeued job is not eligible before the next poll.
    """
    for job in list(site.jobs.values()):
        if job.reason == "BeginTime":
            site.change(job.job_id, reason="Resources")
    actions = site.cycle(at_s)
    site.obeys(*actions)
    asked = [action.job_id for action in actions if isinstance(action, Notify)]
    assert len(set(asked)) == len(asked), "nobody gets two notices"
    for action in actions:
        if isinstance(action, Notify):
            site.requeued(action.job_id)
    capacity = capacity_of(site.snapshot(at_s))
    free = {
        name: dict(zip(capacity.resources, capacity.free[row].tolist(), strict=True))
        for name, row in capacity.index.items()
    }
    for job in sorted(site.jobs.values(), key=lambda job: (-job.priority, job.job_id)):
        (gres, _), *_ = job.request.gres_per_node
        where = job.request.required_nodes or tuple(free)
        there = next((name for name in where if free[name][gres] >= 1), None)
        if not job.pending or job.held or job.reason == "BeginTime" or there is None:
            continue
        free[there][gres] -= 1
        free[there]["shard" if gres == "gpu" else "gpu"] -= 2 if gres == "gpu" else 1
        site.starts(job.job_id, share(there, 1, 1, {gres: 1}), at_s=at_s + 1)


@given(
    st.lists(st.sampled_from(["light", "heavy", "whole"]), min_size=2, max_size=7),
    st.lists(st.sampled_from(["v100", "k80"]), min_size=1, max_size=3),
)
@example(["light"] * 4 + ["heavy", "whole", "whole"], ["v100", "v100", "k80"])
@settings(max_examples=examples(12))
def test_over_many_rounds_no_job_is_left_out_and_no_gpu_is_given_twice(kinds: list[str], machines: list[str]) -> None:
    jobs = [queued(number, "gpu" if kind == "whole" else "shard") for number, kind in enumerate(kinds, start=1)]
    nodes = tuple(machine(f"{kind}-{number}", kind) for number, kind in enumerate(machines))
    site = Site(*jobs, nodes=nodes, workloads=dict(enumerate(kinds, start=1)))
    ran = dict.fromkeys(range(1, len(jobs) + 1), 0)
    for at_s in range(0, 360 * 10, 40):
        obey(site, at_s)
        on_node: dict[str, list[int]] = {}
        for job in site.jobs.values():
            for held in job.allocation:
                on_node.setdefault(held.node, []).append(int(job.job_id))
                ran[int(job.job_id)] += 40
        for held_by in on_node.values():
            shared = [kinds[number - 1] for number in held_by]
            assert len(shared) == 1 or (len(shared) == 2 and "whole" not in shared), "a GPU is one combination's"
            if at_s % 360 > 100:
                assert len(shared) == 1 or shared == ["light"] * 2, "nobody knows how fast it is beside another"
    # In ten rounds each job has had one at least.
    assert min(ran.values()) > 0, ran
