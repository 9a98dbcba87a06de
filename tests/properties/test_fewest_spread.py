"""Tasks that are spread unevenly cost the fewest victims that there are, by trying all sets of jobs and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.model.cluster import Job, Request, SlurmSettings
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
    #: GPUs in all instead of one for each task; 0: not
    in_all: int = 0


@st.composite
def sites(draw: st.DrawFn, in_all: st.SearchStrategy[int] = st.just(0)) -> Site:  # noqa: B008 - a constant
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
        in_all=draw(in_all),
    )


def fewest(site: Site) -> int | None:
    """Return the number of jobs in the smallest set without which the TE job fits; None if it never does."""
    for count in range(len(site.jobs) + 1):
        for going in combinations(range(len(site.jobs)), count):
            stay = [job for number, job in enumerate(site.jobs) if number not in going]
            tasks, free = [], []
            for place, (cpus, gpus) in enumerate(site.nodes):
                here = [job for job in stay if job[0] == place]
                fit = (cpus - sum(job[1] for job in here)) // site.each
                free.append(gpus - sum(job[2] for job in here))
                tasks.append(min(fit, free[-1]) if site.gpus and not site.in_all else fit)
            for some in combinations(range(len(tasks)), site.wanted):
                fits = min(tasks[place] for place in some) > 0 and sum(tasks[place] for place in some) >= site.tasks
                enough = min(free[place] for place in some) > 0 and sum(free[place] for place in some) >= site.in_all
                if fits and (enough or not site.in_all):
                    return count
    return None


def victims(site: Site) -> list[int]:
    """Return how many victims leave, of the one plan or of none."""
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
        gres_per_task=(("gpu", 1),) if site.gpus and not site.in_all else (),
        gres_per_job=(("gpu", site.in_all),) if site.in_all else (),
    )
    snapshot = cluster(nodes, [*jobs, waiting(99, request)], settings=SlurmSettings(release="22.05.8"))
    proposal = FitGpp().propose(view_of(snapshot), None)
    return [len(plan.victim_ids) for plan in proposal.plans if isinstance(plan, MakeRoom)]


@settings(max_examples=examples(300))
@given(sites())
def test_no_smaller_set_of_victims_is_enough(site: Site) -> None:
    least = fewest(site)
    assert victims(site) == ([] if least is None else [least])


@settings(max_examples=examples(300))
@given(sites(st.integers(3, 8)))
def test_gpus_in_all_and_tasks_fit_wherever_there_is_enough_of_both(site: Site) -> None:
    """Most tasks and most GPUs on a node may be those that other jobs leave, so one victim may be more than needed."""
    least = fewest(site)
    found = victims(site)
    assert len(found) == (least is not None)
    assert not found or found[0] - 1 <= (least or 0) <= found[0]
