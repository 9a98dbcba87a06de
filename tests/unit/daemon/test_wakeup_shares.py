"""Each user's share of pokes: a flood by one user takes nothing from the others, and no user pokes as another."""

from __future__ import annotations

import array
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tesched_daemon import wakeup
from tesched_daemon.rates import Allowance, Bucket
from tesched_daemon.wakeup import listening, poke
from tesched_daemon.wakeup_shares import (
    ASKS_S,
    FOUND,
    HOOK,
    LEFT,
    POKES,
    SERVED,
    SUBMISSIONS,
    TURNED_AWAY,
    WakeupShares,
)
from tesched_testcluster.patience import HANG_S, wait_for

from tests.flooding import USER, flooding

SLURM, ADA, BOB = 64030, 1000, 1001


class Clock:
    """A stopwatch that is set by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shares(clock: Clock) -> WakeupShares:
    return WakeupShares(lambda: SLURM, stopwatch=clock)


def served(shares: WakeupShares, count: int, sender: int, said: bytes = b"poke") -> int:
    """Return how many of so many pokes at once are served."""
    return sum(shares.take(sender, said) for _ in range(count))


def test_jobs_found_have_a_share_of_all_users_together(shares: WakeupShares, clock: Clock) -> None:
    assert sum(shares.found() for _ in range(100)) == FOUND.burst
    assert shares.counts() == {SERVED: FOUND.burst, LEFT: 100 - FOUND.burst}
    assert served(shares, 1, SLURM, b"submitted 1000"), "the hook's is another"
    clock.at += FOUND.every_s
    assert (shares.found(), shares.found()) == (True, False)


def test_a_bucket_gives_its_burst_and_then_one_at_a_time() -> None:
    bucket = Bucket(allowance=Allowance(burst=3, every_s=10.0))
    assert [bucket.take(50.0) for _ in range(4)] == [True, True, True, False]
    assert bucket.wait_s(50.0) == pytest.approx(10)
    assert not bucket.take(59.9)
    assert bucket.take(60.0)
    assert not bucket.take(60.0)
    assert not bucket.rested(80.0)
    assert bucket.rested(90.0)


def test_a_stopwatch_that_two_threads_read_gives_nothing_twice() -> None:
    bucket = Bucket(allowance=Allowance(burst=1, every_s=10.0))
    assert bucket.take(50.0)
    assert not bucket.take(49.0)
    assert bucket.wait_s(50.0) == pytest.approx(10)


def test_a_flood_of_one_user_takes_nothing_from_another_nor_from_the_hook(shares: WakeupShares) -> None:
    assert served(shares, 10_000, ADA) == POKES.burst
    assert served(shares, 3, BOB) == 3
    assert served(shares, 10, SLURM, b"submitted 1001") == 10
    assert shares.counts() == {SERVED: POKES.burst + 13, LEFT: 10_000 - POKES.burst}


def test_a_user_that_submits_in_a_loop_uses_up_the_submitters_share_alone(shares: WakeupShares) -> None:
    assert served(shares, 500, SLURM, b"submitted 1000") == SUBMISSIONS.burst
    assert served(shares, 5, SLURM, b"submitted 1001") == 5
    # The hook's own share is another, too: an admin's `tesched poke`, or a hook that names no user.
    assert served(shares, 500, SLURM, b"submitted") == HOOK.burst
    assert served(shares, 500, 0, b"poke") == HOOK.burst
    assert SUBMISSIONS.burst > POKES.burst
    assert SUBMISSIONS.every_s < POKES.every_s


def test_only_the_hook_pokes_for_others(shares: WakeupShares) -> None:
    assert served(shares, 100, ADA, b"submitted 1001") == POKES.burst
    assert served(shares, 3, SLURM, b"submitted 1001") == 3
    # What is no user's id is the hook's own.
    for odd in (b"submitted -1", b"submitted 99999999999", b"submitted 1 2", b"submitted x", b"", b"\xff" * 32):
        assert shares.take(SLURM, odd)


def test_a_share_comes_back_with_time(shares: WakeupShares, clock: Clock) -> None:
    served(shares, 100, ADA)
    clock.at += POKES.every_s
    assert served(shares, 100, ADA) == 1
    clock.at += POKES.every_s * POKES.burst
    assert served(shares, 100, ADA) == POKES.burst


def test_slurms_user_is_read_until_it_is_known_and_not_at_each_poke(clock: Clock) -> None:
    answers = [None, SLURM]
    asked: list[float] = []

    def slurm_user() -> int | None:
        asked.append(clock.at)
        return answers.pop(0)

    shares = WakeupShares(slurm_user, stopwatch=clock)
    served(shares, 10, 0, b"submitted 1000")
    assert asked == [], "root needs no name"
    assert served(shares, 10, SLURM) == POKES.burst
    clock.at += ASKS_S
    assert served(shares, 10, SLURM) == 10
    served(shares, 10, ADA)
    assert asked == [1000.0, 1000.0 + ASKS_S]


def test_slurms_user_is_known_once_slurmctld_is_up(clock: Clock) -> None:
    answers = [None, SLURM]
    shares = WakeupShares(lambda: answers.pop(0), stopwatch=clock)
    assert shares.hooks() == {0}
    assert shares.hooks() == {0}, "it is queried again after a while"
    clock.at += ASKS_S
    assert shares.hooks() == {0, SLURM}
    assert shares.hooks() == {0, SLURM}


def test_a_full_queue_is_a_poke_now_and_then(shares: WakeupShares, clock: Clock) -> None:
    assert [shares.turned_away() for _ in range(3)] == [True, False, False]
    clock.at += TURNED_AWAY.every_s
    assert shares.turned_away()


def test_pokes_that_are_left_to_the_poll_are_logged_once_a_minute(
    shares: WakeupShares, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    served(shares, 105, ADA)
    served(shares, 6, BOB)
    assert not caplog.records
    clock.at += 60
    shares.take(0)
    assert [record.getMessage() for record in caplog.records] == [
        "101 poke(s) above a user's share were left to the next poll, 100 of user 1000"
    ]
    clock.at += 60
    shares.take(0)
    assert len(caplog.records) == 1


def test_users_without_end_take_no_memory_without_end(shares: WakeupShares, clock: Clock) -> None:
    for user in range(5000):
        shares.take(SLURM, b"submitted %d" % user)
        clock.at += 1.0
    assert len(shares._buckets) < 1500


@pytest.fixture
def path() -> Iterator[str]:
    """Give a short path, in a folder that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="poke-") as folder:
        Path(folder).chmod(0o755)
        yield f"{folder}/poke.sock"


class Heard:
    """Counts the calls of a listener."""

    def __init__(self) -> None:
        self.count = 0
        self._news = threading.Condition()

    def __call__(self) -> None:
        with self._news:
            self.count += 1
            self._news.notify_all()

    def wait_for(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.count >= count, HANG_S), self.count


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_the_kernel_names_the_poking_user_and_a_descriptor_sent_along_is_not_taken(path: str) -> None:
    taken: list[tuple[int, bytes]] = []

    class Noted(WakeupShares):
        def take(self, sender: int, said: bytes = b"") -> bool:
            taken.append((sender, said))
            return True

    heard = Heard()
    with listening(path, heard, Noted()):
        poke(path)
        heard.wait_for(1)
        before = open_files()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [channel.fileno()] * 10))
            channel.sendmsg([b"with a descriptor"], [rights], 0, path)
        heard.wait_for(2)
        assert open_files() == before
        with flooding(path, 5):
            wait_for(lambda: len(taken) >= 7)
    assert taken[:2] == [(os.geteuid(), b"poke"), (os.geteuid(), b"with a descriptor")]
    assert taken[2:] == [(USER, b"submitted 0")] * 5


def test_a_poke_above_its_share_causes_nothing(path: str) -> None:
    taken: list[bytes] = []

    class Choosy(WakeupShares):
        def take(self, sender: int, said: bytes = b"") -> bool:
            taken.append(said)
            return said == b"yes"

    heard = Heard()
    with (
        listening(path, heard, Choosy()),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel,
    ):
        channel.sendto(b"no", path)
        wait_for(lambda: taken == [b"no"])
        channel.sendto(b"yes", path)
        wait_for(lambda: taken == [b"no", b"yes"])
    # The listener ends after what it has begun.
    assert heard.count == 1


def test_a_flood_from_another_process_delays_no_user_for_longer_than_its_bound(
    path: str, shares: WakeupShares, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, at_once = Heard(), 50
    monkeypatch.setattr(wakeup, "_AT_ONCE", at_once)

    def wait_for_rounds(count: int) -> None:
        left = shares.counts().get(LEFT, 0)
        wait_for(lambda: shares.counts().get(LEFT, 0) > left + count * at_once)

    # No time passes here but what is said.
    with listening(path, heard, shares), flooding(path):
        wait_for_rounds(2)
        # The flood cannot say that it is the hook: its pokes are all of one share.
        assert shares.counts()[SERVED] == POKES.burst
        # And a queue that was found full has its own; whatever is left of that is taken here.
        shares.turned_away()
        wait_for_rounds(2)
        before = heard.count
        assert 1 <= before <= POKES.burst + TURNED_AWAY.burst
        wait_for_rounds(2)
        assert heard.count == before
        poke(path)
        # Either it comes through, or it is turned away and the queue's share serves it, after its time.
        clock.at += TURNED_AWAY.every_s
        heard.wait_for(before + 1)
        wait_for_rounds(2)
        assert heard.count <= before + 1 + TURNED_AWAY.burst
