"""An early turn serves TE jobs in their order: one that waited for another reason may wait for resources by now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
from tesched_core.model.actions import SetField
from tesched_core.model.cluster import Job, JobState, NodeShare
from tesched_core.model.resources import JobId
from tesched_daemon.early import MOST_BEFORE

from tests.early_parts import AWAY, NEW, OTHER, Site, left_to_the_poll, none_comes, noticed, polled
from tests.loop_parts import FULL, TRIAL, VICTIM, Notebook

#: what keeps a job that was there before job 4
KEPT: dict[str, dict[str, object]] = {
    "held by its user": {"reason": "JobHeldUser", "priority": 0},
    "held by an admin": {"reason": "JobHeldAdmin", "priority": 0},
    "dependent": {"reason": "Dependency", "dependency": "afterok:1"},
    "later": {"reason": "BeginTime", "eligible_time": 1004.0},
    "at a limit": {"reason": "QOSMaxJobsPerUserLimit"},
    "without a licence": {"reason": "Licenses"},
}
#: as it is once nothing keeps it
FREE = {"reason": "Resources", "priority": 50, "dependency": "", "eligible_time": 990.0}


def before(number: int = 2, fields: Mapping[str, object] = MappingProxyType({})) -> Job:
    """Return a trial that was submitted before job 4."""
    return replace(TRIAL, job_id=JobId(number), **fields)  # type: ignore[arg-type]


def one_victim(kept: dict[str, object]) -> Site:
    """Return a site with one job that may be a victim, and a trial that waits for another reason."""
    site = Site(reason="Resources")
    site.jobs |= {OTHER.job_id: replace(OTHER, requeueable=False), JobId(2): before(2, kept)}
    return site


def served(site: Site) -> set[JobId]:
    """Return the trials for which any action was taken."""
    return {one.job_id for one in site.acted if isinstance(one, SetField)}


@pytest.mark.parametrize("kept", KEPT)
def test_the_older_one_comes_first_once_nothing_keeps_it(kept: str) -> None:
    site, notebook = one_victim(KEPT[kept]), Notebook()
    loop = polled(site, notebook)
    site.change(before(), **FREE)
    assert loop.early_turn() is not None
    assert (site.noticed(), served(site)) == ([VICTIM.job_id], {2})
    assert [order.preemptor for order in notebook.memory.orders.values()] == [2]


@pytest.mark.parametrize("kept", KEPT)
def test_the_new_one_is_served_as_long_as_it_is_kept(kept: str) -> None:
    site = one_victim(KEPT[kept])
    loop = polled(site)
    assert loop.early_turn() is not None
    assert (site.noticed(), served(site)) == ([VICTIM.job_id], {NEW.job_id})
    assert site.reads == [4, 5, 6, 2, VICTIM.job_id, NEW.job_id]


def test_both_are_served_where_there_is_enough_for_both() -> None:
    site = Site(reason="Resources")
    site.jobs[JobId(2)] = before(2, KEPT["held by its user"])
    loop = polled(site)
    site.change(before(), **FREE)
    loop.early_turn()
    assert site.noticed() == [VICTIM.job_id, OTHER.job_id]
    assert served(site) == {2, NEW.job_id}


def test_an_older_one_that_has_started_keeps_none_waiting() -> None:
    """Job 3 has ended since the poll, which alone reads it, and has left node n2 to job 2: the node does not add up."""
    site = one_victim(KEPT["dependent"])
    loop = polled(site)
    site.change(OTHER, state=JobState.COMPLETED, allocation=(), end_time=1004.0)
    share = (NodeShare(node="n2", tres=FULL),)
    site.change(before(), state=JobState.RUNNING, reason="None", start_time=1005.0, allocation=share)
    loop.early_turn()
    assert (site.noticed(), served(site)) == ([VICTIM.job_id], {NEW.job_id})


@pytest.mark.parametrize("reads", [AWAY, None])
def test_where_one_cannot_be_read_all_is_left_to_the_poll(reads: object) -> None:
    site = one_victim(KEPT["dependent"])
    loop = polled(site)
    if reads is None:
        del site.jobs[JobId(2)]
    else:
        site.after[4] = lambda: setattr(site, "fails", reads)
    assert left_to_the_poll(loop, site)
    assert len(site.reads) == 4, "nothing is read once one is lacking"


@pytest.mark.parametrize("more", [0, 1])
def test_where_too_many_wait_all_is_left_to_the_poll(more: int) -> None:
    site = Site(reason="Resources", read_s=0.01)
    held = {JobId(-number): before(-number, KEPT["held by its user"]) for number in range(MOST_BEFORE + more)}
    site.jobs |= held
    loop = polled(site)
    if more:
        assert none_comes(loop, site)
        return
    loop.early_turn()
    assert site.noticed() == [VICTIM.job_id]
    assert held.keys() <= set(site.reads)


@pytest.mark.parametrize(("count", "in_time"), [(20, True), (30, False)])
def test_as_many_are_read_as_half_of_the_time_is_enough_for(count: int, *, in_time: bool) -> None:
    site = Site(reason="Resources", read_s=0.1)
    site.jobs |= {JobId(-number): before(-number, KEPT["held by its user"]) for number in range(count)}
    loop = polled(site, pace={"poll_interval_s": 60.0, "backoff_max_s": 60.0})
    if in_time:
        assert noticed(loop, site)
        return
    assert left_to_the_poll(loop, site)
    assert site.reads == [4, 5, 6], "none is begun in vain"
    assert none_comes(loop, site), "nor again, until a poll has come"
    loop.turn(asked=True)
    assert site.noticed() == [VICTIM.job_id]


def test_one_of_many_that_nothing_keeps_any_more_comes_first() -> None:
    site = one_victim(KEPT["dependent"])
    site.read_s = 0.01
    site.jobs |= {JobId(-number): before(-number, KEPT["held by its user"]) for number in range(40)}
    loop = polled(site)
    site.change(before(), **FREE)
    assert noticed(loop, site)
    assert served(site) == {2}


@pytest.mark.parametrize(("waiting", "counts_as"), [(0, 1), (60, 1), (70, 2)])
def test_one_of_many_reads_counts_as_several(waiting: int, counts_as: int) -> None:
    site = Site(reason="Resources", read_s=0.001)
    site.jobs |= {JobId(-number): before(-number, KEPT["held by its user"]) for number in range(waiting)}
    loop = polled(site)
    assert loop.early_counts_as == 1
    assert noticed(loop, site)
    assert loop.early_counts_as == counts_as
    loop.early_turn()
    assert loop.early_counts_as == 1, "an order is under way, and none came"


def test_a_best_effort_job_that_waits_is_not_read() -> None:
    site = one_victim(KEPT["dependent"])
    site.jobs[JobId(2)] = replace(site.jobs[JobId(2)], name="be")
    polled(site).early_turn()
    assert site.noticed() == [VICTIM.job_id]
    assert 2 not in site.reads


@pytest.mark.parametrize("fields", [{"name": "be"}, {"state": JobState.RUNNING}, {"state": JobState.CANCELLED}])
def test_without_a_new_trial_that_waits_nothing_else_is_read(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, object]
) -> None:
    site = one_victim(KEPT["dependent"])
    loop = polled(site)
    site.change(NEW, **fields)
    monkeypatch.setattr(site, "site", lambda *_: pytest.fail("the nodes are read"))
    assert left_to_the_poll(loop, site)
    assert site.reads == [4, 5, 6]


@pytest.mark.parametrize(("least_s", "comes"), [(0.0, False), (60.0, True)])
def test_a_quick_poll_counts_as_long_where_a_harness_says_so(least_s: float, comes: bool) -> None:
    site = Site(poll_s=0.0)
    loop = replace(polled(site), least_poll_s=least_s, _last=None)
    new = site.jobs.pop(NEW.job_id)
    assert not loop.turn().trouble
    site.time += 1
    site.jobs[NEW.job_id] = new
    assert noticed(loop, site) is comes
