"""Each fault that may happen in an early turn: nothing is done twice, nothing is left behind, and the trial runs.

One node. Job 1 fills it, has 4 s of grace and sits them out. A daemon has polled; then job 2 comes, a trial that wants
the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tesched_core.model.resources import JobId
from tesched_policies.fitgpp import FitGpp
from tesched_testcluster.harness.faults.faulty_daemon import POSSIBLE, Fault, Port
from tesched_testcluster.harness.faults.faulty_site import LIMITS, Site
from tesched_testcluster.harness.faults.faulty_slurm import CPUS, Work

VICTIM, TRIAL = JobId(1), JobId(2)
#: how often an early turn here calls each port: it reads jobs 2 to 4, 1 and 2; it raises, binds and notifies
CALLS = {Port.LEAD: 1, Port.READ: 5, Port.INTEND: 1, Port.ACT: 3, Port.CONCLUDE: 1}
FAULTS = [Fault(port, what, nth) for port, calls in CALLS.items() for what in POSSIBLE[port] for nth in range(calls)]
#: seconds in which all has come to its end
ENOUGH_S = 300


@pytest.fixture
def site() -> Iterator[Site]:
    """Give the site before its next poll; job 2 came a second ago."""
    made = Site(nodes=1, limits=replace(LIMITS, wait_for_free_s=10), policy=FitGpp(), best_effort=None)
    made.slurm.submit(Work(job_id=VICTIM, name="be", user="ada", cpus=CPUS, run_s=20, priority=100, grace_s=4))
    made.slurm.pass_time(10)
    made.cycle(1)
    made.slurm.submit(Work(job_id=TRIAL, name="te", user="bob", cpus=CPUS, run_s=10, priority=50))
    made.slurm.pass_time(1)
    yield made
    made.close()


def comes_to_its_end(site: Site) -> None:
    """Let polls follow, until both jobs have run to their ends, once, as their users submitted them."""
    # A user who has suspended a job lets it go on.
    site.heal()
    for _ in range(ENOUGH_S // 5):
        site.cycle(5)
        works = (*site.slurm.jobs.values(), *site.slurm.forgotten)
        if all(work.finished for work in works) and not site.remembered():
            break
    assert not [*site.left_behind(), *site.remembered()]
    assert {work.job_id: work.completed for work in works} == {VICTIM: 1, TRIAL: 1}


def test_a_trial_that_came_since_the_poll_has_its_victim_in_an_early_turn(site: Site) -> None:
    site.early_turn("first")
    assert site.ledger.happened["early turn"] == 1
    assert [job_id for _, job_id, _ in site.ledger.noticed] == [VICTIM]
    calls = site.daemons["first"]._calls
    assert {port: calls[port] for port in Port if calls[port]} == CALLS
    comes_to_its_end(site)
    assert len(site.ledger.noticed) == 1
    assert len(site.ledger.requeued) == 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.port} {fault.what} {fault.nth}")
def test_whatever_happens_in_it_all_comes_to_its_end(site: Site, fault: Fault) -> None:
    site.early_turn("first", [fault])
    site.ledger.check()
    comes_to_its_end(site)
    assert len({job_id for _, job_id, _ in site.ledger.noticed}) <= 1
    assert site.ledger.happened[f"{fault.port}: {fault.what}"] == 1
