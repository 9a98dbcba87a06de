"""Rate of calls to Slurm a minute, and what counts as a call."""

from __future__ import annotations

from collections import Counter

import pytest
from tesched_daemon.rates import PerMinute
from tesched_slurm.run_command import Commands


def test_in_the_first_minute_all_calls_so_far_count() -> None:
    rate = PerMinute()
    assert rate.of({"squeue": 1}, 100.0) == {"squeue": 1}
    assert rate.of({"squeue": 20}, 159.0) == {"squeue": 20}


def test_later_only_those_of_the_last_minute_do() -> None:
    rate = PerMinute()
    shown = {at: rate.of({"squeue": at // 2, "scancel": int(at > 30)}, float(at)) for at in range(0, 202, 2)}
    assert shown[200] == {"squeue": 30.0}
    assert shown[80] == {"squeue": 30.0, "scancel": 1.0}


def test_a_daemon_that_polls_less_often_than_once_a_minute_does_not_count_for_more() -> None:
    rate = PerMinute()
    for at in (0, 300, 600):
        shown = rate.of({"squeue": at // 50}, float(at))
    assert shown == {"squeue": 1.2}


@pytest.mark.parametrize(
    ("argv", "kind", "each"),
    [
        (("true",), "true", 1),
        (("scontrol", "-a", "-d", "-o", "show", "job"), "scontrol show job", 2),
        (("scontrol", "-a", "-d", "-o", "show", "job", "17"), "scontrol show job", 2),
        (("scontrol", "update", "jobid=17", "nice=-5"), "scontrol update", 1),
        (("scontrol", "requeue", "17"), "scontrol requeue", 1),
        (("squeue", "-a", "-h", "-o", "%A"), "squeue", 2),
        (("scancel", "--signal=USR1", "--batch", "17"), "scancel", 3),
    ],
)
def test_rpcs_are_counted_by_their_kind_and_not_by_their_server(
    argv: tuple[str, ...], kind: str, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/bin")
    commands = Commands()
    commands.run(argv)
    commands.run(argv)
    assert commands.calls == Counter({kind: 2 * each})
