"""Putting back goes on as long as a poll puts a change back, and ten polls after that; systemd gives time for it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tesched_core.model.actions import Outcome, Reason, ReasonCode, SetField, Status
from tesched_core.model.field import Field
from tesched_core.model.journal_error import JournalError, LedByAnotherError
from tesched_core.model.lead import Lead
from tesched_core.model.resources import JobId
from tesched_daemon.leaving import POLLS
from tesched_daemon.loop import CycleResult, Loop
from tesched_daemon.undo import TROUBLE_S, put_all_back, put_all_back_at_a_stop

from tests.loop_parts import Notebook


class Emptying(Loop):
    """A loop that has so many changes left after each poll."""

    def __init__(self, left: Iterator[int]) -> None:
        """Make no parts: none is used."""
        self.lefts = left

    def undo(self, *, unseen_s: float = 0.0) -> CycleResult:
        left = next(self.lefts)
        return CycleResult(summary="", next_in_s=0.0, settled=not left, left=left)


@pytest.mark.parametrize(
    ("left", "looks"),
    [
        ([0], 1),
        ([3, 0], 2),
        ([*range(1000, -1, -50)], 21),
        ([5] * 100, POLLS),
        ([9, 8, *[7] * 100], 3 + POLLS),
    ],
)
def test_it_goes_on_while_a_change_is_put_back(left: list[int], looks: int) -> None:
    turns = list(put_all_back(Emptying(iter(left)), sleep=lambda _: None))
    assert len(turns) == looks
    assert turns[-1].settled == (0 in left)


class Turns(Loop):
    """A loop whose polls end so."""

    def __init__(self, *turns: CycleResult | JournalError) -> None:
        """Make no parts: none is used."""
        self.turns = iter(turns)
        self.notebook = self.journal = Notebook()

    def undo(self, *, unseen_s: float = 0.0) -> CycleResult:
        found = next(self.turns)
        if isinstance(found, JournalError):
            raise found
        return found


def turn(left: int, *statuses: Status, trouble: str = "") -> CycleResult:
    """Return a turn that leaves so many changes, and whose actions ended so."""
    reason = Reason(code=ReasonCode.ORDER_ENDED, text="because")
    action = SetField(job_id=JobId(1), reason=reason, field=Field.NICE, value=0, previous=1)
    outcomes = tuple(Outcome(action=action, status=status, at=1.0) for status in statuses)
    return CycleResult(
        summary="", next_in_s=0.0, outcomes=outcomes, settled=not (left or trouble), left=left, trouble=trouble
    )


@pytest.mark.parametrize(
    ("after", "more_time"),
    [
        (turn(9, Status.SENT, Status.FAILED), True),
        (turn(8), True),
        (turn(9), False),
        (turn(9, Status.FAILED, Status.SKIPPED), False),
        (turn(0, trouble="Slurm cannot be seen"), False),
    ],
)
def test_a_stop_gets_more_time_by_a_turn_in_which_a_change_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: CycleResult, more_time: bool
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "s"))
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "s"))
        put_all_back_at_a_stop(Turns(turn(9), after, turn(0)), sleep=lambda _: None)
        first, second, last = (systemd.recv(1000).decode().splitlines() for _ in range(3))
    assert first == ["WATCHDOG=1"]
    assert ("EXTEND_TIMEOUT_USEC=180000000" in second) is more_time
    assert "WATCHDOG=1" in second
    assert "WATCHDOG=1" in last


def test_changes_left_are_compared_with_the_last_turn_that_saw_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "s"))
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "s"))
        turns = (turn(9), turn(0, trouble="Slurm cannot be seen"), turn(8), turn(0))
        put_all_back_at_a_stop(Turns(*turns), sleep=lambda _: None)
        messages = [systemd.recv(1000).decode() for _ in turns]
    assert ["EXTEND_TIMEOUT_USEC" in one for one in messages] == [False, False, True, True]


FULL = JournalError("disk full")


def test_after_a_turn_that_the_journal_refuses_the_other_changes_are_put_back() -> None:
    loop = Turns(turn(9), FULL, turn(4), FULL, FULL, turn(0))
    turns = list(put_all_back(loop, sleep=lambda _: None))
    assert [one.left for one in turns if one.refused is None] == [9, 4, 0]
    assert [one.refused for one in turns if one.trouble] == [FULL] * 3
    few = put_all_back(Turns(FULL, *[turn(4)] * POLLS), sleep=lambda _: None)
    assert [one.left for one in few if not one.trouble] == [4] * (POLLS - 1)


def test_a_refused_turn_that_has_sent_gives_the_stop_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = replace(turn(0, Status.SENT, trouble="disk full"), refused=FULL)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "s"))
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "s"))
        put_all_back_at_a_stop(Turns(refused, FULL, turn(0)), sleep=lambda _: None)
        messages = [systemd.recv(1000).decode() for _ in range(3)]
    assert ["EXTEND_TIMEOUT_USEC" in one for one in messages] == [True, False, False]


def test_a_stop_goes_on_though_the_lead_cannot_be_read() -> None:
    loop = Turns(turn(3), turn(0))
    loop.notebook.fails = {"lead"}
    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == POLLS - 2:
            loop.notebook.fails = set()

    put_all_back_at_a_stop(loop, sleep=sleep)
    assert next(loop.turns, None) is None
    loop.notebook.fails = {"lead"}
    with pytest.raises(JournalError, match=r"what is left is not known.*lead: disk full"):
        put_all_back_at_a_stop(loop, sleep=lambda _: None)


@dataclass(kw_only=True)
class Slow(Notebook):
    """A journal whose server does not answer at all, for so many connects."""

    connects_s: float
    for_connects: int
    at: float = 0.0

    def lead(self) -> Lead:
        if self.for_connects:
            self.for_connects -= 1
            self.at += self.connects_s
            raise JournalError("cannot read the state store: timeout expired")
        return super().lead()


def test_a_store_that_does_not_answer_at_all_ends_a_stop_before_its_polls_are_over() -> None:
    loop = Turns()
    slow = loop.journal = Slow(connects_s=10.0, for_connects=1000)
    with pytest.raises(JournalError, match=r"what is left is not known.*timeout expired"):
        put_all_back_at_a_stop(loop, sleep=lambda _: None, steady=lambda: slow.at)
    assert slow.at <= TROUBLE_S + 10.0


@pytest.mark.parametrize(("connects_s", "for_connects"), [(70.0, 1), (10.0, 2), (0.1, POLLS - 2)])
def test_a_store_that_is_back_after_a_connect_that_took_long_ends_no_stop(connects_s: float, for_connects: int) -> None:
    loop = Turns(turn(3), turn(0))
    slow = loop.journal = Slow(connects_s=connects_s, for_connects=for_connects)
    put_all_back_at_a_stop(loop, sleep=lambda _: None, steady=lambda: slow.at)
    assert next(loop.turns, None) is None


def test_turns_that_see_the_cluster_are_given_their_time() -> None:
    at = 0.0

    def sleep(_: float) -> None:
        nonlocal at
        at += TROUBLE_S

    unseen = turn(0, trouble="Slurm cannot be seen")
    # Each trouble is counted from its own beginning.
    turns = [*[turn(5)] * 4, unseen, turn(5), unseen, turn(0)]
    *_, last = put_all_back(Turns(*turns), sleep=sleep, steady=lambda: at)
    assert last.settled
    assert len(list(put_all_back(Turns(turn(5), *[unseen] * POLLS), sleep=sleep, steady=lambda: at))) == 3


def test_a_turn_with_trouble_leaves_what_the_one_before_has_left() -> None:
    unseen = turn(0, trouble="Slurm cannot be seen")
    turns = [turn(9), *[unseen] * (POLLS - 2), turn(8), *[unseen] * (POLLS - 1), turn(0)]
    *_, last = put_all_back(Turns(*turns), sleep=lambda _: None)
    assert last.settled


def test_a_standby_that_stops_puts_nothing_back(caplog: pytest.LogCaptureFixture) -> None:
    loop = Turns()
    loop.notebook.says = Lead(leader="process 1 on login1")
    put_all_back_at_a_stop(loop, sleep=lambda _: None)
    assert not [one for one in caplog.records if one.levelname == "WARNING"]


def test_a_stop_ends_where_the_journal_says_later_that_another_daemon_leads() -> None:
    loop = Turns(turn(0))
    loop.notebook.fails, loop.notebook.says = {"lead"}, Lead(leader="process 1 on login1")
    with pytest.raises(JournalError, match="process 1 on login1"):
        put_all_back_at_a_stop(loop, sleep=lambda _: loop.notebook.fails.clear())
    assert next(loop.turns, None) is not None


def test_a_stop_ends_at_once_where_another_daemon_leads_by_then() -> None:
    loop = Turns(turn(9), LedByAnotherError("process 1 on login1 leads"), turn(0))
    with pytest.raises(JournalError, match="process 1 on login1 leads"):
        put_all_back_at_a_stop(loop, sleep=lambda _: None)
    assert next(loop.turns, None) is not None


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ([turn(9), turn(4)], "4 change(s) and order(s) are left"),
        ([turn(9), turn(0, trouble="Slurm cannot be seen")], "9 change(s) and order(s) are left"),
        ([], "what is left is not known"),
    ],
)
def test_a_stop_that_the_journal_ends_says_what_is_left(before: list[CycleResult], said: str) -> None:
    with pytest.raises(JournalError, match="disk full") as raised:
        put_all_back_at_a_stop(Turns(*before, *[FULL] * POLLS), sleep=lambda _: None)
    assert said in str(raised.value)
    assert "tesched undo" in str(raised.value)


def test_a_stop_that_leaves_changes_says_so(caplog: pytest.LogCaptureFixture) -> None:
    put_all_back_at_a_stop(Turns(*[turn(3)] * POLLS), sleep=lambda _: None)
    (warning,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "3 change(s) and order(s) are left" in warning
    caplog.clear()
    put_all_back_at_a_stop(Turns(turn(3), turn(0)), sleep=lambda _: None)
    assert not [one for one in caplog.records if one.levelname == "WARNING"]
