"""Settings with each of which early turns (`early.py`) never come, or seldom, and what would be right.

Source: `early.py` and `rest.py`; pyslurm's client reads no single jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tesched_core.model.limits import Limits, YieldBy
from tesched_core.orders.turnover import WINDOW_S
from tesched_core.policy import PolicyEntry

from tesched_daemon.hook_fit import keys_of
from tesched_daemon.settings import Mode, Pace

#: Seconds since the beginning of the poll that showed which jobs have ended, in which that may be judged: as long again
#: as the time in which ends count. A site that polls each 30 s, and whose polls take long, is within it at all times.
FRESH_S = 2 * WINDOW_S


class Hindrance(NamedTuple):
    """A setting as it is, and as it would have to be."""

    setting: str
    right: str


def hindrances(
    *,
    mode: Mode,
    limits: Limits,
    policies: Sequence[PolicyEntry],
    pace: Pace,
    reads_jobs: bool,
    is_limited: bool = False,
) -> Iterator[Hindrance]:
    """Yield them; `reads_jobs`: the client reads single jobs; `is_limited`: slurmctld limits this user's RPCs."""
    if not pace.early_turn:
        yield Hindrance("loop.early_turn = false", "loop.early_turn = true")
    if mode is Mode.OBSERVE:
        yield Hindrance(f'mode = "{mode}"', f'mode = "{Mode.SHADOW}" or "{Mode.ENFORCE}"')
    for key in keys_of(limits):
        yield Hindrance(key, f"no {key}")
    if limits.lever is YieldBy.PLUGIN:
        yield Hindrance('guard.lever = "plugin"', 'guard.lever = "requeue" or "auto"')
    if not all(entry.policy.serves_te for entry in policies):
        yield Hindrance("policy.be", "policy.be = []")
    if not reads_jobs:
        yield Hindrance('slurm.client = "pyslurm"', 'slurm.client = "commands"')
    if is_limited:
        yield Hindrance("SlurmctldParameters = rl_enable", "the daemon's user to SlurmUser or root, or no rl_enable")
    if not (pace.socket or pace.watch_state_folder or pace.tests_per_minute):
        yield Hindrance('loop.socket = ""', "loop.watch_state_folder = true, or a path as loop.socket")
    if limits.wait_for_free_s > 0 and pace.poll_interval_s >= FRESH_S:
        yield Hindrance(
            f"loop.poll_interval_s = {pace.poll_interval_s:g} (they come within {FRESH_S:g} s of a poll alone)",
            "loop.poll_interval_s = 30, or guard.wait_for_free_s = 0",
        )


def said(found: Sequence[Hindrance]) -> str:
    """Return that they never come, in words; empty if they do."""
    return f"no early turn comes, because of {', '.join(one.setting for one in found)}" if found else ""


def advice(found: Sequence[Hindrance]) -> str:
    """Settings to have instead of these."""
    return "; ".join(one.right for one in found)
