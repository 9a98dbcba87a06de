"""Tasks that are spread unevenly cost the fewest victims that there are, by trying all sets of jobs and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.model.cluster import Job, Request
from tesched_core.policy import MakeRoom
from tesched_policies.fitgpp import FitGpp

from tests.builders import cluster, node, running, share, view_of, waiting
from tests.examples import examples


@dataclass(frozen=True, kw_only=True)
class Site:
    """Nodes by their CPUs and GPUs, jobs by (node, CPUs, GPUs), and what the TE job wants."""

    nodes: Sequence[tuple[int, int]]
    jobs: Sequence[tuple[int, int, int]]
    wanted: int
    tasks: int
    each: int
    gpus: bool


@st.composite
def sites(draw: st.DrawFn) -> Site:
    """Draw two to five nodes, each with at most three jobs."""
    cpus, gpus = st.sampled_from([8, 12, 16, 4]), st.sampled_from([4, 2, 0])
    nodes = [(draw(cpus), draw(gpus)) for _ in range(draw(st.sampled_from([4, 3, 5, 2])))]
    jobs = []
    for place, (all_cpus, all_gpus) in enumerate(nodes):
        cpus_left, gpus_left = all_cpus, all_gpus
        for _ in range(draw(st.sampled_from([3, 2, 1]))):
            held = draw(st.sampled_from([3, 2, 4, 1])), draw(st.sampled_from([1, 0, 2]))
            if held[0] <= cpus_left and held[1] <= gpus_left:
                jobs.append((place, *held))
                cpus_left, gpus_left = cpus_left - held[0], gpus_left - held[1]
    return Site(
        nodes=nodes,
        jobs=jobs,
        wanted=draw(st.sampled_from([2, 3])),
        tasks=draw(st.sampled_from([6, 5, 4, 8, 7, 3])),
        each=draw(st.sampled_from([2, 3, 1, 4])),
        gpus=draw(st.booleans()),
    )


def fewest(site: Site) -> int | None:
    """Return the number of jobs in the smallest set without which the TE job fits; None if it never does."""
    for count in range(len(site.jobs) + 1):
        for going in combinations(range(len(site.jobs)), count):
            stay = [job for number, job in enumerate(site.jobs) if number not in going]
            tasks = []
            for place, (cpus, gpus) in enumerate(site.nodes):
                here = [job for job in stay if job[0] == place]
                fit = (cpus - sum(job[1] for job in here)) // site.each
                tasks.append(min(fit, gpus - sum(job[2] for job in here)) if site.gpus else fit)
            if any(min(some) > 0 and sum(some) >= site.tasks for some in combinations(tasks, site.wanted)):
                return count
    return None


@settings(max_examples=examples(300))
@given(sites())
def test_no_smaller_set_of_victims_is_enough(site: Site) -> None:
    nodes = [node(f"n{place}", cpus=cpus, gres={"gpu": gpus}) for place, (cpus, gpus) in enumerate(site.nodes)]
    jobs: list[Job] = [
        running(number, share(f"n{place}", cpus, 0, {"gpu": gpus}))
        for number, (place, cpus, gpus) in enumerate(site.jobs, 1)
    ]
    request = Request(
        cpus=site.tasks * site.each,
        tasks=site.tasks,
        cpus_per_task=site.each,
        min_nodes=site.wanted,
        max_nodes=site.wanted,
        mem_per_node_mib=1,
        gres_per_task=(("gpu", 1),) if site.gpus else (),
    )
    proposal = FitGpp().propose(view_of(cluster(nodes, [*jobs, waiting(99, request)])), None)
    found = [len(plan.victim_ids) for plan in proposal.plans if isinstance(plan, MakeRoom)]
    least = fewest(site)
    assert found == ([] if least is None else [least])
