"""An early turn serves a new TE job before a poll that takes long, and leaves to the poll what it cannot be sure of.

Over 400 lines: one site, and all that an early turn of it does and leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tesched_core.model.actions import SetField, Status, sets
from tesched_core.model.cluster import Job, JobState, NodeShare, SlurmSettings
from tesched_core.model.field import Field
from tesched_core.model.lead import Lead
from tesched_core.model.limits import Bound, Limits, YieldBy
from tesched_core.model.rate_limit import RateLimit
from tesched_core.model.resources import JobId, Tres, with_bare_names
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.early import FROM_S, MOST_NEW, READS, without_uncertain
from tesched_daemon.early_fit import FRESH_S
from tesched_daemon.settings import Mode

from tests.early_parts import (
    AWAY,
    NEW,
    OTHER,
    POLL_S,
    REASON,
    Site,
    left_to_the_poll,
    node,
    none_comes,
    noticed,
    polled,
)
from tests.loop_parts import FULL, TRIAL, VICTIM, Notebook, loop_of

#: a site that enforces no limits
FREE = SlurmSettings(limits_enforced=False)


@pytest.fixture(params=["None", "Resources"], autouse=True)
def reason(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make each test one of a job that Slurm has not considered yet, and one of a job that it has."""
    token = REASON.set(request.param)
    yield
    REASON.reset(token)


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.ENFORCE])
def test_a_new_te_job_has_its_victim_before_the_poll_and_the_poll_adds_nothing(mode: Mode) -> None:
    site, notebook = Site(), Notebook()
    loop = polled(site, notebook, mode)
    turn = loop.early_turn()
    assert turn is not None
    assert [outcome.status for outcome in turn.outcomes] == [Status.SENT] * len(site.acted)
    assert site.noticed() == [VICTIM.job_id]
    assert {one.job_id for one in site.acted if isinstance(one, SetField)} == {NEW.job_id}
    assert notebook.concluded == list(turn.outcomes), "the journal has what was done"
    assert site.time < 1000 + POLL_S + 2, "no poll came before it"
    assert not loop.turn(asked=True).trouble
    assert site.whole == [True, True], "an order is under way"
    assert site.noticed() == [VICTIM.job_id], "once"
    assert len(notebook.memory.orders) == 1


def test_it_reads_the_new_jobs_and_again_all_that_the_decision_is_about() -> None:
    site = Site()
    polled(site).early_turn()
    assert site.reads == [4, 5, 6, VICTIM.job_id, NEW.job_id]


def test_where_polls_are_short_there_is_no_early_turn() -> None:
    site = Site(poll_s=FROM_S)
    assert none_comes(polled(site), site)


@pytest.mark.parametrize("wait_for_free_s", [10.0, 0.0])
def test_what_has_ended_lately_is_not_judged_by_an_old_poll(wait_for_free_s: float) -> None:
    site = Site()
    loop = polled(site, wait_for_free_s=wait_for_free_s)
    site.time += FRESH_S
    assert (none_comes if wait_for_free_s else noticed)(loop, site)


def test_the_recommended_settings_have_early_turns_at_any_time_between_polls() -> None:
    """With the hook a site polls each 30 s: a TE job that comes right before the next poll is served as any other."""
    site = Site()
    loop = polled(site, pace={"poll_interval_s": 30.0, "backoff_max_s": 30.0}, wait_for_free_s=Limits().wait_for_free_s)
    site.time += loop.pace.poll_interval_s - 1.5
    assert noticed(loop, site)


def test_nor_by_a_poll_that_has_left_out_what_has_ended() -> None:
    site = Site(jobs_at=999.0 - FRESH_S)
    loop = polled(site)
    assert none_comes(loop, site)
    loop.limits = replace(loop.limits, wait_for_free_s=0.0)
    assert noticed(loop, site)


def test_no_job_is_a_victim_on_a_node_that_does_not_add_up() -> None:
    site = Site()
    loop = polled(site)
    site.nodes["n1"] = node("n1", replace(FULL, cpus=4))
    loop.early_turn()
    assert site.noticed() == [OTHER.job_id]


@pytest.mark.parametrize("held", [replace(FULL, mem_mib=1), replace(FULL, gres=()), None])
def test_where_no_node_adds_up_nothing_is_done(held: Tres | None) -> None:
    site = Site()
    loop = polled(site)
    site.nodes = {name: node(name, held) for name in site.nodes}
    assert left_to_the_poll(loop, site)


HALF = Tres(cpus=4, mem_mib=4000, gres=with_bare_names([("gpu:a100", 2), ("tmpfs", 1)]))


@pytest.mark.parametrize(
    ("held", "adds_up"),
    [
        (HALF + HALF, True),
        (replace(HALF + HALF, cpus=4), False),
        (replace(HALF + HALF, mem_mib=4000), False),
        (replace(HALF + HALF, gres=HALF.gres), False),
        (None, False),
    ],
)
def test_all_jobs_of_a_node_together_add_up_with_it_or_none_is_certain(held: Tres | None, *, adds_up: bool) -> None:
    two = [
        replace(VICTIM, job_id=JobId(number), allocation=(NodeShare(node="n1", tres=HALF),)) for number in range(1, 3)
    ]
    seen = Snapshot.of(1000.0, jobs=two, nodes=[node("n1", held), node("n2", Tres())])
    assert (without_uncertain(seen) is seen) is adds_up
    assert without_uncertain(replace(seen, nodes={"n2": node("n2", Tres())})) is not seen


def test_no_victim_leaves_where_a_job_has_ended_since_the_poll() -> None:
    """By its record node n2 is free, and by the last poll job 3 runs there."""
    site = Site()
    loop = polled(site)
    site.nodes["n2"] = replace(node("n2", Tres()), state="IDLE")
    assert left_to_the_poll(loop, site)


def test_a_new_job_that_runs_adds_up_with_its_node() -> None:
    site = Site()
    site.jobs[OTHER.job_id] = replace(TRIAL, name="be", job_id=OTHER.job_id, reason="Dependency")
    site.nodes["n2"] = replace(node("n2", Tres()), state="IDLE")
    loop = polled(site)
    site.jobs[JobId(5)] = replace(OTHER, job_id=JobId(5), start_time=1005.0)
    site.nodes |= {"n1": node("n1", replace(FULL, cpus=4)), "n2": node("n2")}
    loop.early_turn()
    assert site.noticed() == [5]


def test_waits_of_others_are_left_to_the_polls() -> None:
    site, notebook = Site(), Notebook()
    loop = polled(site, notebook)
    before = notebook.memory
    loop.early_turn()
    assert notebook.memory.orders
    assert (notebook.memory.seen_at, notebook.memory.bystanders) == (before.seen_at, before.bystanders)
    assert notebook.memory.examined is before.examined


@pytest.mark.parametrize(
    "change",
    [
        {"restarts": 1},
        {"start_time": 1006.0},
        {"state": JobState.COMPLETED},
        {"allocation": (NodeShare(node="n2", tres=FULL),)},
        {"comment": "tesched:te"},
    ],
)
def test_a_victim_that_has_changed_since_the_poll_is_left_alone(change: dict[str, object]) -> None:
    site, notebook = Site(), Notebook()
    loop = polled(site, notebook)
    before = notebook.memory
    site.change(VICTIM, **change)
    assert left_to_the_poll(loop, site)
    assert notebook.memory is before


def test_ids_of_cpus_that_a_poll_has_left_out_are_no_change() -> None:
    site = Site()
    loop = polled(site)
    site.change(VICTIM, allocation=(NodeShare(node="n1", tres=FULL, cpu_ids="0-7"),))
    loop.early_turn()
    assert site.noticed() == [VICTIM.job_id]


def test_a_te_job_that_has_changed_while_it_was_decided_on_is_left_to_the_poll() -> None:
    site = Site()
    loop = polled(site)
    site.after[4] = lambda: site.change(NEW, priority=0)
    assert left_to_the_poll(loop, site)


def test_a_read_that_raises_leaves_all_to_the_poll() -> None:
    site = Site(fails=RuntimeError("a bug of ours"))
    loop = polled(site)
    assert left_to_the_poll(loop, site)
    site.fails = None
    assert not loop.turn(asked=True).trouble
    assert site.noticed() == [VICTIM.job_id]


def test_a_read_that_fails_leaves_all_to_the_poll() -> None:
    site = Site(fails=AWAY)
    assert left_to_the_poll(polled(site), site)


def test_what_was_done_and_could_not_be_written_down_is_no_silent_error() -> None:
    site, notebook = Site(), Notebook()
    loop = polled(site, notebook)
    notebook.fails = {"conclude"}
    turn = loop.early_turn()
    assert turn is not None
    assert "the state store cannot be used" in turn.trouble
    assert site.noticed() == [VICTIM.job_id]


def test_an_error_of_ours_in_acting_goes_on_as_in_any_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    site, notebook = Site(), Notebook()
    loop = polled(site, notebook)

    def raises(*_: object) -> None:
        raise LookupError("never meant to do this")

    monkeypatch.setattr(notebook, "conclude", raises)
    with pytest.raises(LookupError, match="never meant"):
        loop.early_turn()


def test_a_job_that_the_store_cannot_hold_is_left_to_the_poll_and_puts_off_none() -> None:
    site, notebook = Site(), Notebook()
    loop = polled(site, notebook)
    notebook.cannot_hold = {NEW.name}
    assert left_to_the_poll(loop, site)
    notebook.cannot_hold = set()
    assert not loop.turn(asked=True).trouble
    assert site.noticed() == [VICTIM.job_id]


@pytest.mark.parametrize("read_s", [0.3, POLL_S / 4, POLL_S])
def test_it_gives_up_when_it_has_taken_as_long_as_a_poll(read_s: float) -> None:
    site = Site(read_s=read_s)
    loop = polled(site)
    began = site.time
    assert left_to_the_poll(loop, site) is (read_s > 1)
    assert site.time - began <= POLL_S + read_s


def test_after_too_many_new_jobs_the_poll_comes_first() -> None:
    site = Site()
    loop = polled(site)
    many = {JobId(number): replace(NEW, job_id=JobId(number)) for number in range(4, 5 + MOST_NEW)}
    site.jobs |= many
    assert left_to_the_poll(loop, site)
    for job_id in list(many)[1:]:
        del site.jobs[job_id]
    site.reads.clear()
    assert none_comes(loop, site)
    del site.jobs[NEW.job_id]
    loop.turn(asked=True)
    later = replace(NEW, job_id=JobId(5))
    site.jobs[later.job_id] = later
    assert loop.early_turn() is not None


def test_ten_new_jobs_are_not_too_many() -> None:
    site = Site()
    loop = polled(site)
    waits = replace(NEW, name="be", reason="Dependency")
    site.jobs |= {JobId(number): replace(waits, job_id=JobId(number)) for number in range(5, 4 + MOST_NEW)}
    loop.early_turn()
    assert site.noticed() == [VICTIM.job_id]


def task(number: int, **fields: object) -> Job:
    """Return a waiting task of array 4 that has a record of its own; with number 4, that of all others."""
    array = {"array_job_id": NEW.job_id, "array_tasks": "" if number > NEW.job_id else "0-999"}
    return replace(NEW, job_id=JobId(number), array_task_id=number if number > NEW.job_id else None, **(array | fields))  # type: ignore[arg-type]


def test_the_tasks_of_an_array_count_as_one_job_and_are_read_with_it() -> None:
    """Slurm's backfill gives tasks that wait a record and an id of their own, one after the other."""
    site = Site()
    loop = polled(site)
    site.jobs |= {JobId(number): task(number, reason=site.reason) for number in range(4, 5 + 2 * MOST_NEW)}
    loop.early_turn()
    assert (VICTIM.job_id in site.noticed()) is (REASON.get() == "Resources"), "of an array Slurm's word is awaited"
    behind = 5 + 2 * MOST_NEW
    assert site.reads[:6] == [4, 5, 6, behind, behind + 1, behind + 2]


def test_tasks_of_an_older_array_that_start_one_after_the_other_are_few_jobs() -> None:
    site = Site()
    loop = polled(site)
    older = {"array_job_id": JobId(3), "array_tasks": "", "state": JobState.COMPLETED, "name": "be"}
    site.jobs |= {JobId(number): task(number, **older) for number in range(5, 6 + 2 * MOST_NEW)}
    loop.early_turn()
    assert site.noticed() == [VICTIM.job_id]
    assert set(range(5, 6 + 2 * MOST_NEW)) <= set(site.reads), "each by its own id"


def test_so_many_tasks_are_not_read_as_a_poll_is_quicker() -> None:
    site = Site(read_s=0.01)
    loop = polled(site)
    older = {"array_job_id": JobId(3), "array_tasks": "", "state": JobState.COMPLETED, "name": "be"}
    site.jobs |= {JobId(number): task(number, **older) for number in range(5, 5 + 2 * READS)}
    assert left_to_the_poll(loop, site)
    assert READS <= len(site.reads) < READS + 4
    assert none_comes(loop, site)


def test_a_new_be_job_is_left_to_the_poll() -> None:
    site = Site()
    loop = polled(site)
    site.change(NEW, name="be")
    assert left_to_the_poll(loop, site)


def test_one_id_that_no_job_has_hides_none_behind_it() -> None:
    site = Site()
    loop = polled(site)
    del site.jobs[NEW.job_id]
    site.jobs[JobId(5)] = replace(NEW, job_id=JobId(5))
    loop.early_turn()
    assert site.noticed() == [VICTIM.job_id]


def test_a_te_job_that_has_just_gone_is_not_taken_for_a_new_one_again() -> None:
    """The highest id is of a job that Slurm has forgotten since."""
    site = Site()
    loop = polled(site)
    site.change(NEW, reason="Dependency")
    loop.turn(asked=True)
    del site.jobs[NEW.job_id]
    loop.turn(asked=True)
    assert left_to_the_poll(loop, site)
    assert site.reads == [5, 6, 7]


def test_the_first_poll_must_have_come() -> None:
    site = Site()
    loop = loop_of(site, Notebook())
    loop = replace(loop, single_reads=site, pace=replace(loop.pace, early_turn=True))
    assert none_comes(loop, site)


@pytest.mark.parametrize(
    ("settings", "limits", "mode", "says"),
    [
        (FREE, {}, Mode.OBSERVE, Lead()),
        (SlurmSettings(limits_enforced=False, rate_limit=RateLimit(burst=1000)), {}, Mode.ENFORCE, Lead()),
        (FREE, {"bound": Bound(slowdown=3.0, te_time_limit_s=600.0)}, Mode.ENFORCE, Lead()),
        (FREE, {"lever": YieldBy.PLUGIN}, Mode.ENFORCE, Lead()),
        (FREE, {}, Mode.ENFORCE, Lead(paused="an admin has paused it")),
        (FREE, {}, Mode.ENFORCE, Lead(leader="tesched on m2")),
    ],
    ids=["observe", "rate limit", "bound", "plugin", "paused", "standby"],
)
def test_there_is_none_where(settings: SlurmSettings, limits: dict[str, object], mode: Mode, says: Lead) -> None:
    site, notebook = Site(settings=settings), Notebook()
    loop = polled(site, notebook, mode, {}, **limits)
    notebook.says = says
    assert none_comes(loop, site)


def test_none_after_a_poll_that_failed() -> None:
    site = Site()
    loop = polled(site)
    site.seen = AWAY
    loop.turn(asked=True)
    assert none_comes(loop, site)


def test_none_while_an_order_is_under_way() -> None:
    site = Site()
    loop = polled(site)
    loop.early_turn()
    site.acted.clear()
    site.reads.clear()
    site.jobs[JobId(5)] = replace(NEW, job_id=JobId(5))
    assert none_comes(loop, site)


def test_none_after_the_clock_was_set() -> None:
    site = Site()
    loop = polled(site)
    loop.clock = lambda: site.time - 3600
    assert none_comes(loop, site)


def test_the_loop_says_whether_there_may_be_one() -> None:
    assert polled(Site()).turn().early
    assert not polled(Site(poll_s=FROM_S)).turn().early


def test_a_raised_te_job_alone_needs_no_victim() -> None:
    """Free resources that only the queue's order keeps from it: it is put first."""
    site = Site()
    loop = polled(site)
    site.nodes["n2"] = replace(node("n2", Tres()), state="IDLE")
    ahead = replace(NEW, name="be", job_id=JobId(5), priority=10_000)
    site.jobs[ahead.job_id] = ahead
    if REASON.get() == "None":
        assert left_to_the_poll(loop, site), "Slurm may start it"
        return
    assert loop.early_turn() is not None
    assert [(sets(action, Field.NICE), action.job_id) for action in site.acted] == [(True, NEW.job_id)]
