"""Whatever jobs come, and however far off their times are: no node is reserved twice, all end, nothing stays held."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import changed_still

from tests.examples import examples
from tests.scenarios.pdors_site import Site, wide

#: seconds until it comes, fewest nodes, how many more it may have, and its real time over the planned one
arrivals = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 4), st.integers(0, 3), st.floats(0.3, 2.0)), min_size=1, max_size=6
)
TICK_S = 10


@settings(max_examples=examples(12))
@given(arrivals)
def test_all_jobs_run_to_their_end_on_nodes_that_no_other_job_has(jobs: list[tuple[int, int, int, float]]) -> None:
    site = Site()
    left = dict(enumerate(jobs, start=1))
    over: dict[int, float] = {}
    for tick in range(600):
        at_s = float(tick * TICK_S)
        for number in [number for number, job in left.items() if job[0] * TICK_S <= at_s]:
            _, fewest, more, _ = left.pop(number)
            site.comes(wide(number, fewest, min(fewest + more, 4)))
        for number in [number for number, end_s in over.items() if end_s <= at_s]:
            site.ends(number)
            site.forgets(number)
            del over[number]
        if not site.jobs and not left:
            break
        site.obeys(*site.cycle(at_s))
        bound = [job for job in site.jobs.values() if job.pending and not job.held and job.request.required_nodes]
        held = [name for job in site.jobs.values() for name in job.nodes]
        wanted = [name for job in bound for name in job.request.required_nodes]
        assert len(set(held + wanted)) == len(held + wanted), "a node was promised twice"
        for job in bound:
            request = job.request
            assert request.min_nodes == request.max_nodes == len(request.required_nodes)
            site.begins(job.job_id, at_s)
            plan = site.plan(job.job_id)
            over[int(job.job_id)] = at_s + plan.run_s * jobs[int(job.job_id) - 1][3]
    assert not site.jobs, f"some never ended: {sorted(site.jobs)}"
    site.cycle(10_000)
    site.cycle(10_001)
    assert changed_still(site.memory, site.snapshot(10_002)) == 0
    assert JobId(1) not in (site.state("pdors").plans if site.state("pdors") else {})
