"""Flags and factors of QOS as sacctmgr prints them, and when slurmdbd is queried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.slurm_limits import PLAIN, LimitKind, QosRules, UnreadLimits
from tesched_slurm import sacctmgr_qos
from tesched_slurm.sacctmgr_qos import (
    AGE_S,
    MOST_USERS,
    NOTHING_SAID,
    TIMEOUT_S,
    QosInDatabase,
    read_allowed,
    read_rules,
)

from tests.unit.slurm.answering import Answering

ANSWER = "normal|||1.000000\nHigh|UsageFactorSafe,OverPartQOS|2.000000|0.500000\n"
RULES = {
    "normal": PLAIN,
    "high": QosRules(flags=frozenset({"usagefactorsafe", "overpartqos"}), limit_factor=2.0, usage_factor=0.5),
}
FAILS = Failure(kind=FailureKind.UNREACHABLE, message="no answer")
WITH_DATABASE = SlurmSettings(has_slurmdbd=True, cluster_name="Here")
P = ParamSpec("P")
T = TypeVar("T")


def test_flags_and_factors_are_read() -> None:
    assert read_rules(ANSWER) == RULES


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("high|||", PLAIN),
        ("high||nan|inf", PLAIN),
        ("high||-1|-2", PLAIN),
        ("high||x|y", PLAIN),
        ("high|,,|0.0|0.0", QosRules(limit_factor=0.0, usage_factor=0.0)),
    ],
)
def test_what_is_no_number_is_no_factor(line: str, rules: QosRules) -> None:
    assert read_rules(line) == {"high": rules}


@pytest.mark.parametrize("line", ["", "sacctmgr: error: x", "a|b|c", "a|b|1|1|OverPartQOS"])
def test_a_line_of_another_form_says_nothing(line: str) -> None:
    assert read_rules(line) == {}


def test_the_qos_that_each_user_may_use_are_read() -> None:
    answer = "here|lab|||normal\nhere|lab|ann||normal,High\nhere|lab|ann|p|\nx|y\n"
    assert read_allowed(answer, "here") == {
        ("lab", "ann", ""): frozenset({"normal", "high"}),
        ("lab", "ann", "p"): frozenset(),
    }


@pytest.mark.parametrize("order", [1, -1], ids=["ours first", "ours last"])
def test_of_two_clusters_with_one_slurmdbd_its_own_says_which_qos_a_user_may_use(order: int) -> None:
    rows = ["here|lab|ann||normal,high", "there|lab|ann||normal"][::order]
    assert read_allowed("\n".join(rows), "Here") == {("lab", "ann", ""): frozenset({"normal", "high"})}
    assert read_allowed("\n".join(rows), "third") == {}


def test_while_the_clusters_name_is_not_known_no_user_is_queried() -> None:
    commands = Answering(answers=[ANSWER])
    found = QosInDatabase(commands=commands, beside=AtOnce()).now(replace(WITH_DATABASE, cluster_name=""), {"ann"})
    assert (found.rules, found.allowed, len(commands.ran)) == (RULES, {}, 1)


class Later(Executor):
    """Executor that runs what it was given when a test says so."""

    def __init__(self) -> None:
        self._left: list[Callable[[], None]] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._left.append(lambda: future.set_result(fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        """Run what is left."""
        while self._left:
            self._left.pop()()


class AtOnce(Later):
    """Executor that runs what it is given before it returns."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = super().submit(fn, *args, **kwargs)
        self.run()
        return future


def test_the_first_poll_has_them_and_they_are_queried_again_after_a_while() -> None:
    now = 1000.0
    commands = Answering(answers=[ANSWER, "normal|DenyOnLimit||1\n"])
    qos = QosInDatabase(commands=commands, beside=AtOnce(), stopwatch=lambda: now)
    assert qos.now(WITH_DATABASE, ()).rules == RULES
    now += AGE_S
    assert qos.now(WITH_DATABASE, ()).rules == RULES
    assert len(commands.ran) == 1
    now += 1
    assert qos.now(WITH_DATABASE, ()).rules == {"normal": QosRules(flags=frozenset({"denyonlimit"}))}
    assert not commands.calls, "slurmdbd's answers are no RPCs of slurmctld's"


def test_users_are_queried_by_name_and_none_with_a_strange_name() -> None:
    commands = Answering(answers=[ANSWER, "here|lab|ann||normal\n"])
    found = QosInDatabase(commands=commands, beside=AtOnce()).now(WITH_DATABASE, {"bob", "ann", "a b", "a,b", "-x"})
    assert commands.ran[1][-1] == "user=ann,bob"
    assert found.allowed == {("lab", "ann", ""): frozenset({"normal"})}
    assert found.rules == RULES


@pytest.mark.parametrize(
    ("users", "why"),
    [
        (set(), None),
        ({"a b"}, "slurmdbd is not queried for 1 user(s) with a strange name, such as ['a b']"),
        (set(map(str, range(1001))), "1001 users have jobs running; no more than 1000 are queried"),
    ],
    ids=["none", "strange", "many"],
)
def test_no_user_or_too_many_are_not_queried_and_those_that_are_missed_are_reported(
    users: set[str], why: str | None
) -> None:
    commands = Answering(answers=[ANSWER])
    qos = QosInDatabase(commands=commands, beside=AtOnce())
    found = qos.now(WITH_DATABASE, users)
    assert (found.rules, found.allowed, len(commands.ran)) == (RULES, {}, 1)
    assert (qos.unread.said if qos.unread is not None else None) == why


def test_of_users_some_with_a_strange_name_the_others_are_read_and_those_reported() -> None:
    now = 1000.0
    commands = Answering(answers=[ANSWER, "here|lab|ann||normal\n"])
    qos = QosInDatabase(commands=commands, beside=AtOnce(), stopwatch=lambda: now, clock=lambda: now)
    assert qos.now(WITH_DATABASE, {"ann", "b\n"}).allowed == {("lab", "ann", ""): frozenset({"normal"})}
    said = "slurmdbd is not queried for 1 user(s) with a strange name, such as ['b\\n']"
    assert qos.unread == UnreadLimits(kind=LimitKind.ALLOWED_QOS, since=1000.0, said=said, kept=False)


def test_where_the_second_answer_fails_the_first_counts_with_what_was_read_before_of_the_second() -> None:
    now = 1000.0
    commands = Answering(answers=[ANSWER, FAILS, ANSWER, "here|lab|ann||normal\n", "normal|OverPartQOS||1\n", FAILS])
    qos = QosInDatabase(commands=commands, beside=AtOnce(), stopwatch=lambda: now, clock=lambda: now)
    found, unread = [], []
    for _ in range(3):
        found.append(qos.now(WITH_DATABASE, {"ann"}))
        unread.append(qos.unread)
        now += AGE_S + 1
    allowed = {("lab", "ann", ""): frozenset({"normal"})}
    assert [one.allowed for one in found] == [{}, allowed, allowed]
    assert [one.rules for one in found] == [RULES, RULES, {"normal": QosRules(flags=frozenset({"overpartqos"}))}]
    lacks = UnreadLimits(kind=LimitKind.ALLOWED_QOS, since=1000.0, said="no answer", kept=False)
    assert unread == [lacks, None, replace(lacks, since=now - AGE_S - 1, kept=True)]


def test_no_poll_but_the_first_waits_for_slurmdbd_and_that_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(sacctmgr_qos, "wait", lambda _, timeout: waited.append(timeout))
    now = 1000.0
    commands, later = Answering(answers=[ANSWER]), Later()
    qos = QosInDatabase(commands=commands, beside=later, stopwatch=lambda: now)
    assert qos.now(WITH_DATABASE, ()) == NOTHING_SAID
    now += AGE_S + 1
    assert qos.now(WITH_DATABASE, ()) == NOTHING_SAID
    later.run()
    assert qos.now(WITH_DATABASE, ()).rules == RULES
    assert len(commands.ran) == 1, "it is not queried again while it has not answered"
    assert waited == [TIMEOUT_S]


def test_what_was_read_counts_while_slurmdbd_is_away() -> None:
    now = 1000.0
    qos = QosInDatabase(commands=Answering(answers=[ANSWER, FAILS, "x"]), beside=AtOnce(), stopwatch=lambda: now)
    for _ in range(3):
        assert qos.now(WITH_DATABASE, ()).rules == RULES
        now += AGE_S + 1


@pytest.mark.parametrize("answer", [FAILS, "", "sacctmgr: error: x\n"], ids=["away", "nothing", "another form"])
def test_an_answer_that_fails_is_reported_with_since_when_until_one_succeeds(answer: str | Failure) -> None:
    now = 1000.0
    commands = Answering(answers=[answer, FAILS, ANSWER, FAILS])
    qos = QosInDatabase(commands=commands, beside=AtOnce(), stopwatch=lambda: now, clock=lambda: now)
    found: list[UnreadLimits | None] = []
    for _ in range(4):
        qos.now(WITH_DATABASE, ())
        found.append(qos.unread)
        now += AGE_S + 1
    first, again, read, later = found
    assert first is not None
    assert (first.kind, first.since, first.kept) == (LimitKind.QOS_FLAGS, 1000.0, False)
    assert again == replace(first, said="no answer")
    assert read is None
    assert later == replace(first, said="no answer", since=now - AGE_S - 1, kept=True)
    qos.now(SlurmSettings(), ())
    assert qos.unread is None, "where there is no slurmdbd none is missed"


@pytest.mark.parametrize("answers", [[], [ANSWER]], ids=["flags", "allowed"])
def test_why_it_does_not_answer_is_reported_and_logged_in_short_and_visibly(
    answers: list[str | Failure], caplog: pytest.LogCaptureFixture
) -> None:
    long = Failure(kind=FailureKind.UNREACHABLE, message="\x1b[2J\0" + "x" * 10**6)
    qos = QosInDatabase(commands=Answering(answers=[*answers, long]), beside=AtOnce())
    qos.now(WITH_DATABASE, {"ann"})
    assert qos.unread is not None
    assert (len(qos.unread.said), qos.unread.said[:9]) == (200, "\\x1b[2J\\x")
    assert caplog.messages[0].isprintable()
    assert len(caplog.messages[0]) < 300


def test_without_slurmdbd_nothing_is_queried() -> None:
    commands = Answering(answers=[])
    assert QosInDatabase(commands=commands, beside=AtOnce()).now(SlurmSettings(), ("ann",)) == NOTHING_SAID
    assert commands.ran == []


def test_real_threads_bring_the_answer() -> None:
    assert QosInDatabase(commands=Answering(answers=[ANSWER])).now(WITH_DATABASE, ()).rules == RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Raising(Answering):
    """Commands that raise where their next answer is an exception's text."""

    def run(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> str | Failure:
        answer = Answering.run(self, argv, variables, enough=enough)
        if answer == "raise":
            raise UnicodeError("odd\n")
        return answer


@pytest.mark.parametrize("answers", [["raise"], [ANSWER, "raise"]], ids=["flags", "allowed"])
def test_a_question_that_raises_is_reported_and_fails_no_poll(answers: list[str | Failure]) -> None:
    now = 1000.0
    allowed = "here|lab|ann||normal\n"
    commands = Raising(answers=[ANSWER, allowed, *answers, ANSWER, allowed])
    qos = QosInDatabase(commands=commands, beside=AtOnce(), stopwatch=lambda: now, clock=lambda: now)
    unread = []
    for _ in range(3):
        assert qos.now(WITH_DATABASE, {"ann"}).rules == RULES
        unread.append(qos.unread)
        now += AGE_S + 1
    said = "sacctmgr: UnicodeError: odd\\n"
    assert unread == [None, UnreadLimits(kind=LimitKind.QOS_FLAGS, since=1301.0, said=said, kept=True), None]


class NoThread(AtOnce):
    """Executor on a host that starts no further thread, the first time."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if not self.refused:
            self.refused = True
            raise RuntimeError("can't start new thread")
        return super().submit(fn, *args, **kwargs)

    refused = False


def test_where_no_thread_can_be_started_it_is_reported_and_fails_no_poll() -> None:
    now = 1000.0
    qos = QosInDatabase(commands=Answering(answers=[ANSWER]), beside=NoThread(), stopwatch=lambda: now)
    assert qos.now(WITH_DATABASE, ()) == NOTHING_SAID
    assert qos.unread is not None
    assert qos.unread.said == "sacctmgr: RuntimeError: can't start new thread"
    now += AGE_S + 1
    assert qos.now(WITH_DATABASE, ()).rules == RULES


def test_many_users_are_read_by_several_commands_each_of_a_length_that_a_command_line_takes() -> None:
    users = {f"{number:04}{'x' * 252}" for number in range(MOST_USERS)}
    first, *others = sorted(users)
    commands = Answering(answers=[ANSWER, f"here|lab|{first}||normal\n", f"here|lab|{others[-1]}||high\n", *([""] * 9)])
    found = QosInDatabase(commands=commands, beside=AtOnce()).now(WITH_DATABASE, users)
    assert found.allowed == {
        ("lab", first, ""): frozenset({"normal"}),
        ("lab", others[-1], ""): frozenset({"high"}),
    }
    words = [argv[-1].removeprefix("user=") for argv in commands.ran[1:]]
    assert ",".join(words).split(",") == sorted(users)
    # The longest word that Linux takes is of 128 KiB.
    assert all(len(word) < 1 << 17 for word in words)


def test_where_one_of_several_commands_fails_what_was_read_before_counts() -> None:
    now = 1000.0
    users = set(map(str, range(MOST_USERS)))
    commands = Answering(answers=[ANSWER, "here|lab|1||normal\n", "", "", "", ANSWER, "here|lab|1||high\n", FAILS])
    qos = QosInDatabase(commands=commands, beside=AtOnce(), stopwatch=lambda: now)
    for said in (None, "no answer"):
        assert qos.now(WITH_DATABASE, users).allowed == {("lab", "1", ""): frozenset({"normal"})}
        assert (qos.unread.said if qos.unread is not None else None) == said
        now += AGE_S + 1
