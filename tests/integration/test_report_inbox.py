"""Inbox of reports that were sent, and how the spool's reader takes them: for jobs of their senders alone."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.job_report import MOST_BYTES
from tesched_core.model.resources import JobId
from tesched_daemon.job_reports import inbox as inbox_module
from tesched_daemon.job_reports.inbox import Inbox
from tesched_daemon.job_reports.spool import Spool

from tests.builders import running, share
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
    def spool(inbox: Inbox, folder: Path | None = None) -> Spool:
        return Spool(
            folder, inbox=inbox, number_of={"ada": 7, "eve": 8}.get, clock=lambda: START + 100, stopwatch=lambda: 0.0
        )

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
