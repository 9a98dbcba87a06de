"""Inbox of reports that were sent, and how the spool's reader takes them: for jobs of their senders alone."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.job_report import MOST_BYTES, MOST_SAMPLES, Curve, Reported, parse
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.config import Config
from tesched_daemon.job_reports import inbox as inbox_module
from tesched_daemon.job_reports.inbox import Inbox
from tesched_daemon.job_reports.rounds import SpoolReports
from tesched_daemon.job_reports.spool import Spool, UnreadError
from tesched_daemon.plugin_fit import user_name
from tesched_daemon.settings import Mode
from tesched_daemon.store_config import StoreConfig
from tesched_daemon.wiring import opened_loop
from tesched_db.engine import open_store
from tesched_db.reports import stored
from tesched_slurm import clients
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.run_command import Commands
from tesched_testcluster.harness.empty_store import empty_store

from tests.builders import running, share
from tests.loop_parts import FULL_CLUSTER, VICTIM, Cluster
from tests.sent_reports import START, report

ME = os.geteuid()


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


class TestInbox:
    """How much is kept."""

    def test_one_users_flood_leaves_space_for_others(self, inbox: Inbox) -> None:
        taken = [inbox.put(1, str(job), b"x" * MOST_BYTES) for job in range(300)]
        assert taken == [True] * 256 + [False] * 44, "16 MiB of 64 KiB each"
        assert inbox.put(2, "7", b"y")
        assert inbox.put(1, "0", b"z" * MOST_BYTES), "in the place of the one before"
        assert inbox.take(1, "0") == b"z" * MOST_BYTES
        assert [inbox.put(3, str(job), b"") for job in range(2001)] == [True] * 2000 + [False]

    def test_all_users_together_are_bounded(self, inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inbox_module, "MOST_BYTES", 100)
        assert [inbox.put(user, "7", b"x" * 30) for user in range(4)] == [True, True, True, False]
        assert not inbox.put(0, "7", b"x" * 50)
        assert inbox.take(0, "7") == b"x" * 30, "the earlier one stays"

    def test_users_that_fill_it_together_leave_the_others_their_share(
        self, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inbox_module, "MOST_BYTES", 100)
        monkeypatch.setattr(inbox_module, "MOST_OF_ONE", 25)
        for user in range(1, 5):
            assert all(inbox.put(user, str(job), b"x" * 5) for job in range(5))
        assert inbox.put(7, "1", b"y" * 10)
        assert inbox.take(7, "1") == b"y" * 10
        # The oldest of the users that had most went for it; a user that has as much as they do gets no more.
        assert inbox.take(1, "0") is None
        for job in range(2, 7):
            inbox.put(7, str(job), b"y" * 5)
        held = [user for user, _ in inbox.waiting()]
        assert min(held.count(user) for user in (1, 2, 3, 4, 7)) >= 3

    def test_a_report_takes_the_place_of_one_that_it_says_again_and_waits_behind_others(self, inbox: Inbox) -> None:
        saved = report(saved_at=START)
        for said in (report(5), saved, report(5, 4), report(5, 4, 3), report(9, since=7)):
            assert inbox.put(1, "7", said)
        assert list(inbox.waiting()) == [(1, "7")]
        taken = [inbox.take(1, "7") for _ in range(4)]
        assert taken == [saved, report(5, 4, 3), report(9, since=7), None]
        assert not inbox.waiting()

    def test_of_a_jobs_reports_the_newest_are_kept_and_where_there_is_no_space_the_last(
        self, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inbox_module, "MOST_OF_A_JOB", 3)
        monkeypatch.setattr(inbox_module, "MOST_OF_ONE", 8)
        assert all(inbox.put(1, "7", b"%d" % number) for number in range(5))
        assert inbox.take(1, "7") == b"2"
        assert inbox.put(1, "7", b"x" * 7)
        assert [inbox.take(1, "7"), inbox.take(1, "7")] == [b"x" * 7, None]
        # Nothing is counted of what is gone.
        assert inbox.put(1, "8", b"x" * 8)
        assert not inbox.put(1, "9", b"x")
        assert inbox.throw_away(1, "8") == 1
        assert inbox.put(1, "9", b"x")

    def test_a_report_that_no_reader_requests_is_forgotten(self) -> None:
        now = {"at": 0.0}
        inbox = Inbox(stopwatch=lambda: now["at"])
        inbox.put(1, "7", b"x")
        now["at"] = 500.0
        inbox.put(1, "8", b"x")
        now["at"] = 601.0
        assert list(inbox.waiting()) == [(1, "8")]

    def test_a_daemon_that_asks_for_nothing_takes_nothing(self) -> None:
        now = {"at": 0.0}
        inbox = Inbox(stopwatch=lambda: now["at"])
        now["at"] = 601.0
        assert not inbox.put(1, "7", b"x"), "a standby"
        inbox.waiting()
        assert inbox.put(1, "7", b"x"), "it leads now"


def job(job_id: int, user: str = "ada") -> Job:
    return running(job_id, share("n1", 1), user=user, submit_time=START)


class TestSpool:
    """What becomes of what was sent."""

    @staticmethod
    def spool(inbox: Inbox, folder: Path | None = None, **more: Any) -> Spool:
        numbers, now = {"ada": 7, "eve": 8}, START + 100
        return Spool(folder, inbox=inbox, number_of=numbers.get, clock=lambda: now, stopwatch=lambda: 0.0, **more)

    def test_a_report_counts_for_a_job_of_its_sender_alone(
        self, inbox: Inbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        spool = self.spool(inbox)
        inbox.put(8, "1", report(9))
        inbox.put(7, "1", report(5, 4))
        inbox.put(8, "2", report(3))
        found = spool.look([job(1), job(2, "eve"), job(3)])
        assert {int(job_id): one.curve.loss.tolist() for job_id, one in found.items()} == {1: [5.0, 4.0], 2: [3.0]}
        inbox.put(8, "1", report(9))
        spool.look([job(1)])
        (line,) = caplog.messages
        assert "user 8 has sent one for job 1 of user ada" in line

    def test_a_process_that_starts_again_goes_on_where_it_was(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "1", report(5, 4, 3))
        spool.look([job(1)])
        again = json.dumps({"version": 1, "points": [[2, 2.5, START, None], [3, 2, START, None]]}).encode()
        inbox.put(7, "1", again)
        found = spool.look([job(1)])[JobId(1)]
        assert (found.curve.iteration.tolist(), found.curve.loss.tolist()) == ([0, 1, 2, 3], [5.0, 4.0, 2.5, 2.0])

    @pytest.mark.parametrize("at_once", [False, True], ids=["one a round", "all in one round"])
    def test_what_a_scripts_processes_say_one_by_one_is_heard_as_of_one(self, inbox: Inbox, *, at_once: bool) -> None:
        spool = self.spool(inbox)
        for said in (
            report(workload="lstm", target_loss=0.5, saved_at=START + 20),
            report(samples=[[START + 1, "v100", 8]]),
            report(5),
            report(samples=[[START + 2, "v100", 12], [START + 3, "k80", 2]], saved_at=START + 10),
            report(4, since=1),
        ):
            assert inbox.put(7, "1", said)
            if not at_once:
                spool.look([job(1)])
        found = spool.look([job(1)])[JobId(1)]
        assert found.curve.loss.tolist() == [5.0, 4.0]
        assert (found.workload, found.target_loss, found.saved_at) == ("lstm", 0.5, START + 20)
        assert [sample.at for sample in found.samples] == [START + 1, START + 2, START + 3]
        assert found.throughputs == {"v100": 10.0, "k80": 2.0}

    def test_a_process_that_says_all_again_has_said_it_once(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        first, second = [START + 1, "v100", 8], [START + 2, "v100", 12]
        for speeds in ([first], [first, second], [first, second]):
            inbox.put(7, "1", report(5, 4, samples=speeds))
            found = spool.look([job(1)])[JobId(1)]
        assert (found.curve.loss.tolist(), found.throughputs) == ([5.0, 4.0], {"v100": 10.0})

    def test_of_many_speeds_the_newest_are_kept(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        for second in range(MOST_SAMPLES + 8):
            inbox.put(7, "1", report(samples=[[START + second, "v100", 8]]))
            found = spool.look([job(1)])[JobId(1)]
        assert [sample.at - START for sample in found.samples] == list(range(8, MOST_SAMPLES + 8))

    def test_a_requeued_run_keeps_what_the_run_before_it_said_and_another_job_nothing(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "1", report(5, 4, 3, workload="lstm", target_loss=0.5, saved_at=START + 2))
        spool.look([job(1)])
        again = replace(job(1), restarts=1, submit_time=START + 50)
        inbox.put(7, "1", report(2.5, since=2))
        found = spool.look([again])[JobId(1)]
        assert (found.curve.loss.tolist(), found.workload, found.target_loss) == ([5.0, 4.0, 2.5], "lstm", 0.5)
        # It is of a time before this run: it saves nothing of it, and what the run before lost stays as it is.
        assert found.saved_at == START + 2
        inbox.put(7, "1", report(9))
        found = spool.look([replace(job(1), submit_time=START + 90)])[JobId(1)]
        assert (found.curve.loss.tolist(), found.workload, found.saved_at) == ([9.0], "", None)

    @pytest.mark.parametrize("first", [report(3, since=2), b"["], ids=["the next loss", "one that is refused"])
    def test_what_is_sent_to_a_daemon_that_starts_goes_on_with_what_the_one_before_heard(
        self, inbox: Inbox, first: bytes
    ) -> None:
        before = parse(report(5, 4, workload="lstm", target_loss=0.5, saved_at=START + 1), now=START)
        read: list[int] = []

        def before_it(one: Job) -> Reported | None:
            read.append(one.job_id)
            return before if one.job_id == 1 else None

        spool = self.spool(inbox, stored=before_it)
        # A script may not say anything for an hour: what it said counts before.
        heard = spool.look([job(1), job(2)])
        assert heard.keys() == {1}
        assert heard[JobId(1)] is before
        for said in (first, report(3, since=2)):
            inbox.put(7, "1", said)
            found = spool.look([job(1), job(2)])[JobId(1)]
        assert found.curve.loss.tolist() == [5.0, 4.0, 3.0]
        assert (found.workload, found.target_loss, found.saved_at) == ("lstm", 0.5, START + 1)
        assert read == [1, 2], "each once"

    def test_while_what_a_job_sent_before_cannot_be_read_its_reports_wait(
        self, inbox: Inbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        broken = {JobId(1)}

        def before_it(one: Job) -> Reported | None:
            if one.job_id in broken:
                raise UnreadError("it is locked")
            return parse(report(5, 4), now=START)

        spool = self.spool(inbox, stored=before_it)
        inbox.put(7, "1", report(3, since=2))
        inbox.put(8, "2", report(2, since=2))
        for _ in range(2):
            found = spool.look([job(1), job(2, "eve")])
            assert {int(job_id): one.curve.loss.tolist() for job_id, one in found.items()} == {2: [5.0, 4.0, 2.0]}
        assert caplog.messages == ["reports wait, since what their jobs reported before cannot be read: it is locked"]
        broken.clear()
        assert spool.look([job(1)])[JobId(1)].curve.loss.tolist() == [5.0, 4.0, 3.0]

    def test_a_file_is_whole_in_itself_and_nothing_else_is_read(self, tmp_path: Path) -> None:
        mine = tmp_path / str(ME)
        mine.mkdir()
        (mine / "1.json").write_bytes(report(3))
        spool = Spool(tmp_path, stored=lambda _job: 1 / 0, number_of=lambda _user: ME, clock=lambda: START + 100)  # type: ignore[arg-type,return-value]
        assert spool.look([job(1)])[JobId(1)].curve.loss.tolist() == [3.0]

    def test_a_daemon_that_led_before_goes_on_with_what_the_leader_since_has_heard(self, inbox: Inbox) -> None:
        in_store: dict[int, Reported] = {}
        gone: list[Curve] = []
        spool = self.spool(inbox, stored=lambda one: in_store.get(one.job_id))
        port = SpoolReports(spool, earlier=lambda *_: gone, wait_s=20.0)
        task = replace(job(21), array_job_id=JobId(20), array_task_id=3)
        seen = Snapshot.of(START, jobs=[job(1), task])
        inbox.put(7, "1", report(5, 4))
        inbox.put(7, "20_3", report(9, 8))
        assert set(port.read(seen).by_job) == {1, 21}
        port.stand_by()
        assert not inbox.put(7, "1", report(1)), "the leader takes it"
        in_store |= {1: parse(report(5, 4, 3, 2), now=START), 21: parse(report(9, 7), now=START)}
        gone.append(parse(report(3), now=START).curve)
        heard = port.read(seen)
        assert [heard.by_job[JobId(job_id)] is in_store[job_id] for job_id in (1, 21)] == [True, True]
        assert heard.by_array[JobId(20)].curve.loss.tolist() == [(9.0 + 3.0) / 2, 7.0]
        assert inbox.put(7, "1", report(1, since=4))
        assert port.read(seen).by_job[JobId(1)].curve.loss.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0]

    def test_a_daemon_goes_on_with_what_its_store_has(self, tmp_path: Path) -> None:
        store = StoreConfig(url=empty_store(tmp_path / "store.sqlite"))
        config, now = Config(mode=Mode.OBSERVE, store=store), time.time()
        one = replace(VICTIM, user=user_name(), submit_time=now - 500, start_time=now - 400)
        for said in (report(5, 4, saved_at=START), report(3, since=2)):
            cluster, inbox = Cluster(seen=replace(FULL_CLUSTER, taken_at=now, jobs={JobId(1): one})), Inbox()
            client = replace(
                clients.choose(ClientChoice.COMMANDS, Commands(timeout_s=1.0, slurm_conf="")),
                observer=cluster,
                actuator=cluster,
            )
            assert inbox.put(ME, "1", said)
            with opened_loop(config, client, takes_over=True, inbox=inbox) as loop:
                assert isinstance(loop.knowledge.reports, SpoolReports)
                loop.knowledge.reports._wait_s = 20.0
                assert not loop.turn().trouble
        engine = open_store(store.url)
        found = stored(engine, one)
        engine.dispose()
        assert found is not None
        assert (found.curve.loss.tolist(), found.saved_at) == ([5.0, 4.0, 3.0], START)

    def test_an_invalid_report_is_logged_and_what_was_known_stays(
        self, inbox: Inbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "1", report(5, 4))
        spool.look([job(1)])
        inbox.put(7, "1", b"[")
        found = spool.look([job(1)])[JobId(1)]
        assert (found.refused, found.curve.loss.tolist()) == ("it is no JSON", [5.0, 4.0])
        assert caplog.messages == ["the report of job 1 is not used: it is no JSON"]

    def test_a_report_that_comes_before_its_job_is_seen_waits_for_it(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "20_3", report(5))
        assert spool.look([job(1)]) == {}
        task = replace(job(21), array_job_id=JobId(20), array_task_id=3)
        assert spool.look([task])[JobId(21)].curve.loss.tolist() == [5.0]

    def test_the_last_words_of_a_job_that_was_put_back_in_the_queue_are_heard(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "1", report(5))
        spool.look([job(1)])
        inbox.put(7, "1", report(5, 4))
        requeued = replace(job(1), state=JobState.PENDING, allocation=(), restarts=1, submit_time=START + 50)
        assert spool.look([requeued])[JobId(1)].curve.loss.tolist() == [5.0, 4.0]

    def test_what_is_sent_for_a_job_that_never_ran_is_not_used(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "1", report(5))
        assert spool.look([replace(job(1), state=JobState.PENDING, allocation=())]) == {}

    def test_beside_a_spool_folder_both_are_heard(self, inbox: Inbox, tmp_path: Path) -> None:
        mine = tmp_path / str(ME)
        mine.mkdir()
        (mine / "2.json").write_bytes(report(3))
        spool = Spool(
            tmp_path, inbox=inbox, number_of=lambda _user: ME, clock=lambda: START + 100, stopwatch=lambda: 0.0
        )
        inbox.put(ME, "1", report(5))
        found = spool.look([job(1), job(2)])
        assert {int(job_id): one.curve.loss.tolist() for job_id, one in found.items()} == {1: [5.0], 2: [3.0]}
