"""Jobs' reports in the store: written once, thinned with the report, learned from, forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sqlalchemy import Engine, event
from tesched_core.model.cluster import JobState, Request
from tesched_core.model.job_report import Curve, Reported, Sample, learned
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.job_reports.inbox import Inbox
from tesched_daemon.job_reports.spool import Spool
from tesched_db import reports
from tesched_db.reports import Throughput
from tesched_db.retention import prune
from tesched_db.tables import ProgressRow, ReportRow, ThroughputRow
from tesched_testcluster.harness.store_examples import Writer, job, rows, snapshot

from tests.sent_reports import START, report

GPU = Request(gres_per_node=(("gpu", 2),))


def told(*points: tuple[float, float], samples: Sequence[Sample] = (), work: float = np.nan, **more: str) -> Reported:
    """Return a report of (iteration, loss), each reported as many seconds after 100 as its iteration says."""
    curve = Curve.of([(iteration, loss, 100.0 + iteration, work) for iteration, loss in points])
    return Reported(curve=curve, samples=tuple(samples), throughputs=learned(samples), **more)  # type: ignore[arg-type]


def look(writer: Writer, at: float, said: Mapping[int, Reported], **more: object) -> None:
    """Write one cycle in which these jobs run and have reported this."""
    jobs = [job(job_id, JobState.RUNNING, nodes=["n1"], submit_time=1.0, **more) for job_id in said]
    seen = snapshot(at, *jobs)
    writer.write(replace(seen, reported={JobId(job_id): one for job_id, one in said.items()}))


def points(store: Engine, key: int) -> list[tuple[int, float]]:
    """Return what the store holds of a job's curve."""
    found = reports.report(store, key)
    assert found is not None
    return list(zip(found.curve.iteration.tolist(), found.curve.loss.tolist(), strict=True))


def test_a_curve_grows_is_overtaken_and_thinned_as_the_report_is(store: Engine) -> None:
    writer = Writer(store)
    look(writer, 200.0, {7: told((0, 5.0), (10, 4.0), work=2.5)})
    assert points(store, 1) == [(0, 5.0), (10, 4.0)]
    look(writer, 202.0, {7: told((0, 5.0), (10, 4.0), (20, 3.0), (30, 2.0), work=2.5)})
    assert points(store, 1) == [(0, 5.0), (10, 4.0), (20, 3.0), (30, 2.0)]
    # It went back to iteration 15, and does 20 again with another loss; 10 was thinned away.
    look(writer, 204.0, {7: told((0, 5.0), (15, 3.5), (20, 2.9), work=2.5)})
    assert points(store, 1) == [(0, 5.0), (15, 3.5), (20, 2.9)]
    found = reports.report(store, 1)
    assert found is not None
    assert found.curve.work.tolist() == [2.5, 2.5, 2.5]
    assert found.at == 120.0


def test_a_restarted_daemon_goes_on_where_the_other_one_ended(store: Engine) -> None:
    first = [Sample(at=150.0, accelerator="v100", steps_per_s=8.0)]
    look(Writer(store), 200.0, {7: told((0, 5.0), (10, 4.0), samples=first)}, request=GPU)
    more = [*first, Sample(at=160.0, accelerator="v100", steps_per_s=12.0)]
    look(Writer(store), 202.0, {7: told((0, 5.0), (10, 4.0), (20, 3.0), samples=more)}, request=GPU)
    assert points(store, 1) == [(0, 5.0), (10, 4.0), (20, 3.0)]
    # 8, then (8 + 12) / 2: the first sample was counted once.
    (speed,) = reports.throughputs(store)
    assert (speed.user, speed.workload, speed.scale, speed.accelerator) == ("ada", "run", 2, "v100")
    assert (speed.steps_per_s, speed.samples, speed.at) == (10.0, 2, 160.0)


def test_what_has_not_changed_is_not_written_again(store: Engine) -> None:
    writer, said = Writer(store), told((0, 5.0), (10, 4.0), samples=[Sample(at=1.0, accelerator="a", steps_per_s=1.0)])
    look(writer, 200.0, {7: said})
    touched: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        touched.extend(word for word in ("progress", "reports", "throughputs") if word in statement)

    event.listen(store, "before_cursor_execute", note)
    look(writer, 202.0, {7: said})
    assert touched == []
    look(writer, 204.0, {7: replace(said, refused="it is no JSON")})
    assert touched == ["reports"]
    found = reports.report(store, 1)
    assert found is not None
    assert found.refused == "it is no JSON"
    assert len(found.curve) == 2


def test_users_share_no_speeds_and_workloads_are_apart(store: Engine) -> None:
    def at(speed: float) -> list[Sample]:
        return [Sample(at=150.0, accelerator="v100", steps_per_s=speed)]

    writer = Writer(store)
    look(writer, 200.0, {7: told(samples=at(8.0), workload="lstm")}, user="ada")
    look(writer, 202.0, {8: told(samples=at(1000.0), workload="lstm")}, user="eve")
    look(writer, 204.0, {9: told(samples=at(4.0), workload="lstm"), 10: told(samples=at(2.0))}, user="ada")
    found = {(one.user, one.workload): one.steps_per_s for one in reports.throughputs(store)}
    assert found == {("ada", "lstm"): 6.0, ("eve", "lstm"): 1000.0, ("ada", "run"): 2.0}
    assert [one.workload for one in reports.throughputs(store, user="eve")] == ["lstm"]


def test_a_speed_of_no_known_type_teaches_nothing_and_a_late_one_is_not_lost(store: Engine) -> None:
    writer = Writer(store)
    nameless = Sample(at=150.0, accelerator="", steps_per_s=8.0)
    look(writer, 200.0, {7: told(samples=[nameless])})
    assert reports.throughputs(store) == ()
    look(writer, 202.0, {7: told(samples=[nameless, Sample(at=151.0, accelerator="k80", steps_per_s=3.0)])})
    assert [(one.accelerator, one.steps_per_s) for one in reports.throughputs(store)] == [("k80", 3.0)]


def test_an_admins_file_replaces_the_one_before_and_no_report_of_a_job(store: Engine) -> None:
    writer = Writer(store)
    look(writer, 200.0, {7: told(samples=[Sample(at=150.0, accelerator="v100", steps_per_s=8.0)])})
    old = Throughput(workload="lstm", accelerator="v100", steps_per_s=1.0, at=10.0)
    reports.replace_throughputs(store, [old, replace(old, accelerator="k80")])
    pair = replace(old, partner="resnet", partner_scale=1, steps_per_s=0.5)
    reports.replace_throughputs(store, [replace(old, steps_per_s=2.0), pair])
    assert reports.throughputs(store, user="") == (replace(old, steps_per_s=2.0), pair)
    assert [one.user for one in reports.throughputs(store)] == ["", "", "ada"]


def test_a_daemon_writes_again_after_a_failed_write(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, said = Writer(store), told((0, 5.0), samples=[Sample(at=150.0, accelerator="a", steps_per_s=1.0)])
    look(writer, 198.0, {7: told((0, 5.0))})

    def broken(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("tesched_db.refusals.Standing.write", broken)
        with pytest.raises(Exception, match="disk full"):
            look(writer, 200.0, {7: said})
    assert rows(store, ThroughputRow) == 0
    look(writer, 202.0, {7: said})
    (speed,) = reports.throughputs(store)
    assert speed.samples == 1


def test_a_job_under_a_used_again_id_begins_anew(store: Engine) -> None:
    writer = Writer(store)
    look(writer, 200.0, {7: told((0, 5.0), (10, 4.0))})
    other = snapshot(300.0, job(7, JobState.RUNNING, nodes=["n1"], submit_time=250.0))
    writer.write(replace(other, reported={JobId(7): told((0, 9.0))}))
    assert points(store, 1) == [(0, 5.0), (10, 4.0)]
    assert points(store, 2) == [(0, 9.0)]


def test_reports_are_forgotten_with_their_job_and_speeds_by_their_age(store: Engine) -> None:
    writer = Writer(store)
    look(writer, 200.0, {7: told((0, 5.0), samples=[Sample(at=150.0, accelerator="a", steps_per_s=1.0)])})
    reports.replace_throughputs(store, [Throughput(workload="lstm", accelerator="v100", steps_per_s=1.0, at=10.0)])
    writer.look(202.0)
    pruned = prune(store, 100.0, now=1000.0)
    assert (pruned.jobs, pruned.throughputs) == (1, 1)
    assert (rows(store, ProgressRow), rows(store, ReportRow), rows(store, ThroughputRow)) == (0, 0, 1)


def test_a_speed_that_was_pruned_is_learned_anew_by_a_daemon_that_runs(store: Engine) -> None:
    writer, first = Writer(store), Sample(at=150.0, accelerator="a", steps_per_s=1.0)
    look(writer, 200.0, {7: told((0, 5.0), samples=[first])})
    assert prune(store, 100.0, now=1000.0).throughputs == 1
    later = [Sample(at=at, accelerator="a", steps_per_s=9.0) for at in (900.0, 910.0)]
    look(writer, 1000.0, {7: told((0, 5.0), samples=[first, later[0]])})
    look(writer, 1002.0, {7: told((0, 5.0), samples=[first, *later])})
    (speed,) = reports.throughputs(store)
    assert (speed.steps_per_s, speed.samples, speed.at) == (9.0, 2, 910.0)


def test_a_report_that_a_restarted_daemon_cannot_use_takes_nothing_from_earlier_reports(store: Engine) -> None:
    first = replace(told((0, 5.0), (10, 4.0), workload="lstm"), target_loss=0.5)
    look(Writer(store), 200.0, {7: first})
    writer = Writer(store)
    look(writer, 202.0, {7: Reported(refused="it is no JSON")})
    found = reports.report(store, 1)
    assert found is not None
    assert (found.refused, found.workload, found.target_loss, found.at) == ("it is no JSON", "lstm", 0.5, 110.0)
    assert points(store, 1) == [(0, 5.0), (10, 4.0)]
    look(writer, 204.0, {7: told((0, 5.0), (20, 3.0))})
    assert points(store, 1) == [(0, 5.0), (20, 3.0)]


def heard(spool: Spool, inbox: Inbox, seen: Snapshot, *sent: bytes) -> Snapshot:
    """Return the snapshot with what is known of its one job, of which this was sent."""
    (one,) = seen.jobs
    assert all(inbox.put(7, str(one), said) for said in sent)
    return replace(seen, reported=spool.look(list(seen.jobs.values())))


@pytest.mark.parametrize("restarts", [0, 1], ids=["the same run", "a requeued one"])
@pytest.mark.parametrize("refused", [False, True])
def test_what_is_sent_after_a_restart_of_the_daemon_goes_on_with_what_is_in_the_store(
    store: Engine, *, restarts: int, refused: bool
) -> None:
    first = report(5, 4, workload="lstm", target_loss=0.5, saved_at=START + 1, samples=[[START + 7, "v100", 8]])
    sent = [first]
    for restart, later in enumerate((0, restarts), 1):
        # Each daemon knows what the store has, and nothing else.
        inbox = Inbox()
        spool = Spool(
            None,
            inbox=inbox,
            number_of=lambda _user: 7,
            clock=lambda: START + 99,
            stopwatch=lambda: 0.0,
            stored=partial(reports.stored, store),
        )
        one = job(7, JobState.RUNNING, nodes=["n1"], restarts=later, submit_time=START + 50 * later)
        Writer(store).write(heard(spool, inbox, snapshot(START + 100 * restart, one), *sent))
        sent = [b"["] * refused + [report(3, since=2)]
    assert points(store, 1) == [(0, 5.0), (1, 4.0), (2, 3.0)]
    found = reports.stored(store, one)
    assert found is not None
    assert (found.workload, found.target_loss, found.saved_at, found.refused) == ("lstm", 0.5, START + 1, "")
    shown = reports.report(store, 1)
    assert shown is not None
    assert shown.at == START + 7, "its newest speed came after its newest loss"


def test_a_report_that_cannot_be_used_takes_nothing_from_the_store_either(store: Engine) -> None:
    one = job(7, JobState.RUNNING, nodes=["n1"], submit_time=1.0)
    for said in (Reported(saved_at=150.0), Reported(refused="it is no JSON")):
        Writer(store).write(replace(snapshot(200.0, one), reported={JobId(7): said}))
    found = reports.stored(store, one)
    assert found is not None
    assert (found.refused, found.saved_at) == ("it is no JSON", 150.0)


def test_of_an_earlier_job_of_the_same_id_nothing_is_gone_on_with(store: Engine) -> None:
    look(Writer(store), 200.0, {7: told((0, 5.0))})
    assert reports.stored(store, job(7, JobState.RUNNING, submit_time=1.0)) is not None
    assert reports.stored(store, job(7, JobState.RUNNING, submit_time=250.0)) is None
    assert reports.stored(store, job(8)) is None
    # One that reported nothing has taken its id.
    Writer(store).look(300.0, job(7, JobState.RUNNING, nodes=["n1"], submit_time=250.0))
    assert reports.stored(store, job(7, JobState.RUNNING, submit_time=250.0)) is None


def test_a_job_that_reported_nothing_has_no_report(store: Engine) -> None:
    Writer(store).look(200.0, job(7))
    assert reports.report(store, 1) is None
