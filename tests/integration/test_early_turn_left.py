"""What an early turn leaves to the poll, or as it is: limits, clocks, the lease, errors of the store, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from sqlite3 import connect
from typing import Any

import pytest
from tesched_core.model.cluster import Job, JobState, NodeShare, SlurmSettings
from tesched_core.model.journal_error import JournalError, UnwritableError
from tesched_core.model.limits import TeLimits
from tesched_core.model.notice import Declared
from tesched_core.model.rate_limit import RateLimit
from tesched_core.model.resources import JobId
from tesched_core.model.slurm_limits import PLAIN, SlurmLimits
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.early_fit import FRESH_S
from tesched_daemon.settings import Pace
from tesched_db import migrate
from tesched_db.engine import make_engine
from tesched_db.errors import RowError
from tesched_db.journal import SqlJournal
from tesched_slurm.clear_of_limits import ClearOfLimits

from tests.early_parts import NEW, OTHER, POLL_S, Site, left_to_the_poll, node, none_comes, polled
from tests.loop_parts import FULL, VICTIM, Notebook, Reported
from tests.unit.slurm.answering import Answering


def test_it_is_on_unless_the_site_has_switched_it_off() -> None:
    assert Pace().early_turn
    site = Site()
    loop = polled(site)
    on, loop.pace = loop.pace, replace(loop.pace, early_turn=False)
    assert none_comes(loop, site)
    assert not loop.turn().early
    loop.pace = on
    assert loop.turn().early


@pytest.mark.parametrize(
    "te",
    [
        TeLimits(max_running_per_user=1),
        TeLimits(max_cluster_share=0.5),
        TeLimits(max_node_minutes_per_user=60.0),
        TeLimits(max_submitted_per_user=5),
    ],
)
def test_none_where_te_jobs_are_limited_as_those_that_run_are_not_all_known(te: TeLimits) -> None:
    site = Site()
    loop = polled(site, te=te)
    # A trial of the user's has begun since the poll.
    site.jobs[JobId(5)] = replace(VICTIM, name="te", job_id=JobId(5), allocation=(NodeShare(node="n2", tres=FULL),))
    assert none_comes(loop, site)
    assert not loop.turn().early


@pytest.mark.parametrize("reads", [1, 3, 4, 5])
def test_a_clock_that_is_set_while_it_reads_is_the_polls(reads: int) -> None:
    ahead = [0.0]
    site, notebook = Site(), Notebook()
    loop = polled(site, notebook)
    loop.clock = lambda: site.time + ahead[0]
    before = loop._clocks
    site.after[reads] = lambda: ahead.__setitem__(0, 3600.0)
    assert left_to_the_poll(loop, site)
    assert len(site.reads) >= reads
    assert loop._clocks == before, "the poll finds the jump"
    assert not loop.turn(asked=True).trouble
    assert site.noticed() == [VICTIM.job_id]


def lease_until(folder: Path) -> float:
    with closing(connect(folder / "store.sqlite")) as store:
        (found,) = store.execute("SELECT lease_until FROM daemon").fetchone()
        return float(found)


@pytest.mark.parametrize("interval_s", [60.0, 1.0])
def test_the_lease_lasts_until_the_announced_poll_or_until_the_next_can_begin(
    tmp_path: Path, interval_s: float
) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    migrate.upgrade(url)
    engine = make_engine(url)
    site = Site()
    loop = polled(site, SqlJournal(engine), pace={"poll_interval_s": interval_s, "backoff_max_s": 60.0})
    polled_at, before = site.time - 1, lease_until(tmp_path)
    assert loop.early_turn() is not None
    assert site.noticed() == [VICTIM.job_id]
    least_s = {60.0: -(site.time - polled_at), 1.0: POLL_S - 1.0}[interval_s]
    assert lease_until(tmp_path) >= before + least_s
    engine.dispose()


def ended(number: int, at: float) -> Job:
    """Return a job that held a node and has ended by itself."""
    return replace(OTHER, job_id=JobId(number), state=JobState.COMPLETED, end_time=at, allocation=(), ran_on=("n1",))


@pytest.mark.parametrize(
    ("poll_s", "wait_for_free_s", "reads", "acts"),
    [(FRESH_S / 2, 10.0, True, False), (FRESH_S + 1, 10.0, False, False), (FRESH_S + 1, 0.0, True, True)],
)
def test_ends_are_judged_by_a_poll_that_began_lately_however_long_it_took(
    poll_s: float, wait_for_free_s: float, *, reads: bool, acts: bool
) -> None:
    """Jobs have ended right before the poll: job 4 will soon have a node without a victim."""
    site = Site(poll_s=poll_s)
    site.jobs |= {JobId(number): ended(number, 999.0) for number in range(-20, 0)}
    loop = polled(site, wait_for_free_s=wait_for_free_s)
    assert (loop.early_turn() is None) is not acts
    assert bool(site.reads) is reads
    assert bool(site.noticed()) is acts


@dataclass
class Limits:
    """Limits of associations, which keep no job, and may take long to read."""

    site: Site
    takes_s: float = 0.1
    given_s: list[float] = field(default_factory=list)

    def among(
        self,
        wanted: Sequence[Job],
        seen: Snapshot,
        pending: Sequence[Job],
        *,
        early: bool = False,
        within_s: float = inf,
    ) -> frozenset[JobId]:
        self.given_s.append(within_s)
        self.site.time += self.takes_s
        return frozenset(job.job_id for job in wanted)


@pytest.mark.parametrize("takes_s", [0.1, POLL_S])
def test_limits_are_read_in_the_time_that_is_left(takes_s: float) -> None:
    site = Site(settings=SlurmSettings(limits_enforced=True), reason="None")
    loop = polled(site)
    loop.knowledge.free_of_limits = limits = Limits(site, takes_s)
    turn = loop.early_turn()
    assert 0 < limits.given_s[0] < POLL_S
    assert (site.noticed() == [VICTIM.job_id]) is (turn is not None) is (takes_s < POLL_S)
    assert len(site.reads) == (3 if takes_s == POLL_S else 5), "late, it reads no more"
    loop.turn(asked=True)
    assert limits.given_s[1:2] in ([], [inf])


@dataclass
class Declaring:
    """Scripts of BE jobs, each poll's read of which takes long."""

    site: Site
    found: dict[JobId, Declared] = field(default_factory=dict)
    polls: int = 0

    def read(self, snapshot: Snapshot, patterns: tuple[str, ...] = ()) -> Mapping[JobId, Declared]:
        self.polls += 1
        self.site.time += 100
        running = [job_id for job_id, job in snapshot.jobs.items() if job.on_nodes]
        self.found = {job_id: Declared(source="its script") for job_id in running}
        return self.found

    def known(self, snapshot: Snapshot) -> Mapping[JobId, Declared]:
        return {job_id: found for job_id, found in self.found.items() if job_id in snapshot.jobs}


def test_it_reads_no_script_and_a_job_of_an_unread_one_is_no_victim() -> None:
    site = Site()
    for job in (VICTIM, OTHER):
        site.change(job, batch=True)
    loop = polled(site, wait_for_free_s=0)
    loop.knowledge.declarations = declaring = Declaring(site)
    assert left_to_the_poll(loop, site), "no script is known yet"
    assert declaring.polls == 0
    declaring.found = {OTHER.job_id: Declared(source="its script")}
    loop.early_turn()
    assert (site.noticed(), declaring.polls) == ([OTHER.job_id], 0)
    loop.turn(asked=True)
    assert declaring.polls == 1


@pytest.mark.parametrize("clear", [False, True])
def test_where_limits_are_enforced_slurms_word_at_submission_does_not_count(*, clear: bool) -> None:
    """A whole node's job has the reason Resources from its submission on, before Slurm has checked any limit."""
    site = Site(settings=SlurmSettings(limits_enforced=True), reason="Resources")
    loop = polled(site)
    site.change(NEW, request=replace(NEW.request, exclusive=True))
    loop.knowledge.free_of_limits = Limits(site) if clear else None
    assert loop.early_turn() is not None, "it is raised, at the least"
    assert site.noticed() == ([VICTIM.job_id] if clear else [])


ASSOCIATION = (
    "ClusterName=c Account={account} UserName={user} Partition= Priority=0 ID=1 UsageRaw/Norm/Efctv=0.00/1.00/0.00 "
    "ParentAccount={parent} Lft=1 DefAssoc=No GrpJobs=N(3) MaxJobs="
)
#: what slurmctld shows where no limit keeps user ann
UNLIMITED = "\n".join(
    (
        "Association Records",
        ASSOCIATION.format(account="root", user="", parent=""),
        ASSOCIATION.format(account="lab", user="", parent="root(1)"),
        ASSOCIATION.format(account="lab", user="ann(1001)", parent=""),
        "QOS Records",
        "QOS=high(9) UsageRaw=0.000000 GrpJobs=N(3) Account Limits= lab={} User Limits= 1001={}",
    )
)


def test_after_an_early_turn_that_does_nothing_the_poll_reads_the_limits_itself() -> None:
    """The victim is not as it was, so that the early turn does nothing; the poll that follows has seen the change."""
    site = Site(settings=SlurmSettings(limits_enforced=True), reason="None")
    site.limits = SlurmLimits(rules={"high": PLAIN})
    loop = polled(site)
    site.change(NEW, user="ann", account="lab", qos="high")
    commands = Answering(answers=[UNLIMITED, UNLIMITED])
    loop.knowledge.free_of_limits = ClearOfLimits(commands=commands, stopwatch=lambda: site.time)
    site.change(VICTIM, comment="another")
    assert left_to_the_poll(loop, site)
    assert len(commands.ran) == 1
    site.poll_s = 0.1
    assert not loop.turn(asked=True).trouble
    assert site.noticed() == [VICTIM.job_id]
    assert len(commands.ran) == 2


def test_what_cannot_be_written_of_a_job_leaves_all_to_the_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    site, notebook = Site(), Notebook()
    loop = polled(site, notebook)

    def raises(*_: object) -> None:
        raise ValueError

    with monkeypatch.context() as broken:
        broken.setattr(notebook, "intend", raises)
        assert left_to_the_poll(loop, site)
    assert not loop.turn(asked=True).trouble
    assert site.noticed() == [VICTIM.job_id]


def test_an_intent_that_was_perhaps_written_is_read_anew_and_meant_once(monkeypatch: pytest.MonkeyPatch) -> None:
    site, notebook = Site(), Notebook()
    loop = polled(site, notebook)
    intend = notebook.intend

    def written_and_then_raises(*arguments: Any) -> None:
        intend(*arguments)
        raise JournalError("the connection is gone")

    with monkeypatch.context() as broken:
        broken.setattr(notebook, "intend", written_and_then_raises)
        assert left_to_the_poll(loop, site)
    assert not loop.turn(asked=True).trouble
    assert len(notebook.memory.orders) == 1
    assert site.noticed() == [], "a notice that was perhaps sent is not sent again"


def test_none_where_slurmctld_has_just_begun_to_limit_rpcs(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    loop, read = polled(site), site.site

    def limited(last: Snapshot, within_s: float) -> Snapshot:
        seen = read(last, within_s)
        assert isinstance(seen, Snapshot)
        return replace(seen, settings=replace(seen.settings, rate_limit=RateLimit(burst=10)))

    monkeypatch.setattr(site, "site", limited)
    assert left_to_the_poll(loop, site)
    assert VICTIM.job_id not in site.reads


def test_it_takes_little_longer_than_until_the_poll_that_was_announced() -> None:
    """A daemon leads as long as it has announced: longer reads would give the lead to a standby."""
    site = Site(poll_s=30.0)
    loop = polled(site, wait_for_free_s=0)
    site.read_s = 2.5
    assert left_to_the_poll(loop, site)


@pytest.mark.parametrize("error", [RowError("too large"), UnwritableError("of no encoding")])
def test_what_was_done_and_cannot_be_held_by_the_store_is_trouble(
    monkeypatch: pytest.MonkeyPatch, error: UnwritableError
) -> None:
    site, notebook = Site(), Notebook()
    loop = polled(site, notebook)

    def raises(*_: object) -> None:
        raise error

    monkeypatch.setattr(notebook, "conclude", raises)
    turn = loop.early_turn()
    assert turn is not None
    assert "the state store cannot be used" in turn.trouble
    assert site.noticed() == [VICTIM.job_id]
    assert loop._memory is None, "it is read anew"


@pytest.mark.parametrize(("grace_s", "next_in_s"), [(20.0, 20.0), (600.0, 60.0)])
def test_the_next_poll_comes_when_a_grace_period_that_it_began_is_over(grace_s: float, next_in_s: float) -> None:
    site = Site()
    for job in (VICTIM, OTHER):
        site.change(job, comment=f"grace={grace_s:g}")
    loop = polled(site, pace={"poll_interval_s": 60.0, "backoff_max_s": 60.0})
    began = site.time
    turn = loop.early_turn()
    assert site.noticed() == [VICTIM.job_id]
    assert turn is not None
    # The poll that was announced was announced a second before.
    assert turn.next_in_s == pytest.approx(next_in_s, abs=1 + site.time - began)


def test_what_it_reads_again_counts_as_observing() -> None:
    site, notebook = Site(), Reported()
    loop = polled(site, notebook)
    loop.early_turn()
    assert site.noticed()
    report = notebook.reports[-1]
    assert report.observe_s == pytest.approx(6 * site.read_s), "five jobs and the nodes"
    assert report.step_s == pytest.approx(0.0)


@pytest.mark.parametrize(("read_s", "is_left"), [(0.2, False), (0.4, True)])
def test_more_than_can_be_read_again_in_time_is_left_and_until_the_next_poll(read_s: float, *, is_left: bool) -> None:
    """Three trials come, and each has a victim: twelve reads, of which the last six are doomed."""
    site = Site(poll_s=3.0, read_s=read_s)
    site.nodes["n3"] = node("n3")
    site.jobs[JobId(2)] = replace(OTHER, job_id=JobId(2), allocation=(NodeShare(node="n3", tres=FULL),))
    loop = polled(site)
    site.jobs |= {JobId(number): replace(NEW, job_id=JobId(number)) for number in (5, 6)}
    assert left_to_the_poll(loop, site) is is_left
    assert len(site.reads) == (6 if is_left else 12)
    if is_left:
        assert none_comes(loop, site), "nor again, until a poll has come"
        loop.turn(asked=True)
    assert len(site.noticed()) == 3


def test_reads_that_took_as_long_as_a_poll_are_not_begun_again_before_it() -> None:
    site = Site(read_s=POLL_S / 2)
    loop = polled(site, wait_for_free_s=0.0)
    assert left_to_the_poll(loop, site)
    assert none_comes(loop, site)
    loop.turn(asked=True)
    assert site.noticed() == [VICTIM.job_id]
