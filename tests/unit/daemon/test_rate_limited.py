"""Pace of the polls under slurmctld's limit on a user's RPCs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.rate_limit import RateLimit
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.rate_limited import (
    MOST_S,
    OF_A_POLL,
    OF_AN_ACTION,
    OF_AN_ORDER,
    RpcBudget,
    longest_s,
    longest_wait_s,
)
from tesched_daemon.settings import Mode, Pace
from tesched_daemon.wakeup import Agenda
from tesched_daemon.wakeup_shares import WakeupShares
from tesched_slurm.commands_observer import rpcs_of_a_poll
from tesched_slurm.rate_limits import limit_of, site_limit

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of

DEFAULT = RateLimit(burst=30, per_s=2.0)
LIMITED = replace(FULL_CLUSTER, settings=SlurmSettings(rate_limit=DEFAULT))
OPERATOR = 1000


def config(parameters: str, release: str = "26.05.5") -> dict[str, str]:
    """Return what matters of what `scontrol show config` says."""
    return {"SlurmctldParameters": parameters, "SLURM_VERSION": release, "SlurmUser": "slurm(64030)"}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("rl_enable", DEFAULT),
        ("idle_on_node_suspend,RL_Enable,rl_bucket_size=50", RateLimit(burst=50, per_s=2.0)),
        ("rl_enable,rl_refill_rate=10,rl_refill_period=4", RateLimit(burst=30, per_s=2.5)),
        ("rl_enable,rl_bucket_size=,rl_refill_rate=x", DEFAULT),
        ("rl_enable,rl_bucket_size=0,rl_refill_period=0", RateLimit(burst=1, per_s=2.0)),
        ("rl_bucket_size=50", None),
        ("", None),
    ],
)
def test_what_slurm_conf_says_of_the_limit(parameters: str, expected: RateLimit | None) -> None:
    assert site_limit(config(parameters)) == expected
    assert limit_of(config(parameters), OPERATOR) == expected


@pytest.mark.parametrize("release", ["22.05.8", ""])
def test_a_release_without_it_ignores_the_word(release: str) -> None:
    assert site_limit(config("rl_enable", release)) is None


def test_root_and_slurm_user_are_exempt() -> None:
    assert [limit_of(config("rl_enable"), user) for user in (0, 64030)] == [None, None]


def test_a_number_out_of_all_bounds_is_named() -> None:
    with pytest.raises(ValueError, match="rl_bucket_size of SlurmctldParameters"):
        site_limit(config(f"rl_enable,rl_bucket_size={10**30}"))


def test_the_next_turn_begins_with_a_full_bucket() -> None:
    budget = RpcBudget()
    assert budget.pause_s(LIMITED, {"squeue": 2, "scontrol show job": 6}, 0, at=100.0) == 4.0
    # 4 s later it is full again; a poll of eight and two actions of six at most.
    assert budget.pause_s(LIMITED, {"squeue": 10, "scontrol show job": 6}, 2, at=104.0) == (8 + 2 * OF_AN_ACTION) / 2
    # The actions took less: what was really spent counts. 10 s have brought more than that.
    assert budget.pause_s(LIMITED, {"squeue": 20, "scontrol show job": 6}, 0, at=114.0) == 5.0
    # After what empties it the whole bucket fills, and never more.
    assert budget.pause_s(LIMITED, {"squeue": 900}, 50, at=115.0) == 15.0


def test_pokes_are_no_rpcs() -> None:
    shares = WakeupShares()
    for _ in range(50):
        shares.take(1234)
        shares.found()
    pokes = shares.counts()
    assert sum(pokes.values()) == 100
    budget = RpcBudget()
    assert budget.pause_s(LIMITED, {"squeue": 8, **pokes}, 0, at=100.0) == 4.0


def test_a_turn_begins_with_the_rpcs_of_a_poll_and_an_order() -> None:
    assert rpcs_of_a_poll() == OF_A_POLL
    budget, enough = RpcBudget(), OF_A_POLL + OF_AN_ORDER * OF_AN_ACTION
    large = replace(FULL_CLUSTER, settings=SlurmSettings(rate_limit=RateLimit(burst=100, per_s=2.0)))
    assert budget.pause_s(large, {"squeue": 8}, 0, at=100.0) == 0.0
    assert budget.pause_s(large, {"squeue": 16}, 9, at=100.0) == (enough - (100 - 16 - 9 * OF_AN_ACTION)) / 2


@pytest.mark.parametrize(
    ("limit", "after_a_poll_s", "longest"),
    [
        (DEFAULT, 4.0, 15.0),
        (RateLimit(burst=30, per_s=2 / 60), MOST_S, MOST_S),
        (RateLimit(burst=30, per_s=0.5), 16.0, MOST_S),
        (RateLimit(burst=1000, per_s=2.0), 0.0, 19.0),
        (RateLimit(burst=1, per_s=2.0), 0.5, 0.5),
    ],
)
def test_a_rest_has_an_upper_bound(limit: RateLimit, after_a_poll_s: float, longest: float) -> None:
    seen = replace(FULL_CLUSTER, settings=SlurmSettings(rate_limit=limit))
    assert RpcBudget().pause_s(seen, {"squeue": OF_A_POLL}, 0, at=100.0) == after_a_poll_s
    assert RpcBudget().pause_s(seen, {"squeue": 10_000}, 50, at=100.0) == longest_s(limit) == longest


def test_without_a_limit_there_is_no_pause() -> None:
    budget = RpcBudget()
    for seen in (None, FULL_CLUSTER):
        assert budget.pause_s(seen, {"squeue": 1000}, 50, at=100.0) == 0.0


def turns(seen: Snapshot, mode: Mode) -> list[tuple[float, float]]:
    """Return until the next turn, and until a poke may bring it forward, after two turns of eight RPCs each."""
    calls: Counter[str] = Counter()
    loop = loop_of(Cluster(seen=seen), Notebook(), mode)
    loop.stopwatch = iter(range(100, 10_000, 100)).__next__
    found = []
    for _ in range(2):
        calls["squeue"] += rpcs_of_a_poll()
        loop.calls = lambda: calls
        turn = loop.turn()
        found.append((turn.next_in_s, turn.pause_s))
    return found


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.SHADOW, Mode.ENFORCE])
def test_the_loop_rests_after_each_poll(mode: Mode) -> None:
    quiet = replace(LIMITED, jobs={VICTIM.job_id: VICTIM, TRIAL.job_id: replace(TRIAL, reason="Licenses")})
    assert turns(quiet, mode) == [(4.0, 4.0), (4.0, 4.0)]
    unlimited = replace(quiet, settings=SlurmSettings())
    assert all(next_in_s < 4.0 and pause_s == 0.0 for next_in_s, pause_s in turns(unlimited, mode))


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.ENFORCE])
def test_actions_count_where_they_are_sent(mode: Mode) -> None:
    loop = loop_of(Cluster(seen=LIMITED), Notebook(), mode)
    loop.calls = lambda: {"squeue": OF_A_POLL}
    turn = loop.turn()
    assert turn.outcomes, "an order has begun"
    sent = len(turn.outcomes) if mode is Mode.ENFORCE else 0
    assert turn.pause_s == (OF_A_POLL + sent * OF_AN_ACTION) / 2


@pytest.mark.parametrize(("limit", "probes"), [(RateLimit(burst=1000), False), (None, True)])
def test_no_job_is_probed_under_a_limit_that_needs_no_rest(limit: RateLimit | None, probes: bool) -> None:
    """Ten probes a second would empty any bucket before the next poll."""
    new = replace(TRIAL, reason="None", submit_time=FULL_CLUSTER.taken_at)
    jobs = {VICTIM.job_id: VICTIM, new.job_id: new}
    loop = loop_of(Cluster(seen=replace(LIMITED, jobs=jobs, settings=SlurmSettings(rate_limit=limit))), Notebook())
    loop.pace = replace(loop.pace, poll_interval_s=4.0)
    turn = loop.turn()
    assert turn.pause_s == 0.0
    assert (turn.next_in_s < 1.0) is probes


def test_no_poke_brings_the_turn_forward_while_it_rests() -> None:
    agenda = Agenda()
    agenda.ended(100.0, took_s=0.1, next_in_s=20.0, troubled=False, pause_s=4.0)
    agenda.poke(101.0)
    assert agenda.wait_s(101.0) == pytest.approx(3.0)
    agenda = Agenda()
    agenda.ended(100.0, took_s=0.1, next_in_s=20.0, troubled=False)
    agenda.poke(101.0)
    assert agenda.wait_s(101.0) < 1.0


def test_tesched_status_names_the_limit_beside_the_client() -> None:
    notebook = Notebook()
    said: list[str] = []
    loop = loop_of(Cluster(seen=LIMITED), notebook, Mode.OBSERVE)
    loop.client_name = "commands (slurm 26.05.5)"
    notebook.intend = lambda *known: said.append(known[3].client)  # type: ignore[method-assign]
    loop.turn()
    assert said == ["commands (slurm 26.05.5), limited to 2 RPCs a second, 30 at once (rl_enable)"]


@pytest.mark.parametrize(
    ("interval_s", "most_s", "limit", "longest_s"),
    [
        (2.0, 30.0, None, 30.0),
        (60.0, 60.0, None, 60.0),
        (2.0, 5.0, RateLimit(burst=30, per_s=2.0), 15.0),
        (2.0, 30.0, RateLimit(burst=30, per_s=2.0), 30.0),
    ],
)
def test_the_longest_time_between_two_polls(
    interval_s: float, most_s: float, limit: RateLimit | None, longest_s: float
) -> None:
    assert longest_wait_s(Pace(poll_interval_s=interval_s, backoff_max_s=most_s), limit) == longest_s
