"""Findings on slurmctld's limit on a user's RPCs (`SlurmctldParameters=rl_enable`): what it costs, and what to set.

Principle
    The figures are those of tesched's own RPCs. A whole poll is eight (`benchmarks/rpcs.py` counts them on a real
    Slurm), an order with one victim five actions of six at most: its TE job is raised, bound and put back, its victim
    notified and requeued. A site that wants no wait gives as many a second as a poll and an order take in the poll's
    interval, and at once as many as a poll, an order and all victims of one poll.

Source
    slurm.conf(5), `rl_enable`; docs/reference/slurm-clients.md has what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

from tesched_slurm.commands_observer import rpcs_of_a_poll
from tesched_slurm.rate_limits import limit_of, site_limit

from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn
from tesched_daemon.rate_limited import MOST_S, OF_AN_ACTION, OF_AN_ORDER, longest_s

#: Actions of one victim.
OF_A_VICTIM = 2


def wanted(config: Config) -> tuple[int, int]:
    """Numbers of RPCs at once, and of RPCs a second, that keep a daemon of this configuration from waiting."""
    poll, order = rpcs_of_a_poll(), OF_AN_ORDER * OF_AN_ACTION
    burst = poll + order + config.guard.max_victims_per_cycle * OF_A_VICTIM * OF_AN_ACTION
    return burst, ceil((poll + order) / config.loop.poll_interval_s)


def rate_limit(config: Config, values: Mapping[str, str], user: str, user_id: int) -> Iterator[Finding]:
    """Yield what the limit means to a daemon of this user; `values` are slurm.conf's keys."""
    site = site_limit(values)
    if site is None:
        return
    text = f"SlurmctldParameters has rl_enable: {site.burst} RPCs of each user at once, and {site.per_s:g} a second"
    if limit_of(values, user_id) is None:
        yield ok("rate limit", f"{text}; {user} is exempt, as root and SlurmUser are, and an Operator is not")
        return
    burst, per_s = wanted(config)
    if site.burst >= burst and site.per_s >= per_s:
        yield ok("rate limit", f"{text}: as much as a daemon needs that runs as {user}")
        return
    poll = rpcs_of_a_poll()
    best_s = max(min(poll / site.per_s, MOST_S), config.loop.poll_interval_s)
    text = (
        f"{text}. A whole poll takes {poll}, an order with one victim up to {OF_AN_ORDER * OF_AN_ACTION}: as {user} "
        f"the daemon polls every {best_s:g} s at best while a trial-and-error "
        f"job waits, and after an order it rests for up to {longest_s(site):g} s"
    )
    advice = (
        f"run the daemon as SlurmUser, who is exempt; or set rl_bucket_size={burst} and rl_refill_rate={per_s} in "
        "SlurmctldParameters, which counts for every user"
    )
    yield warn("rate limit", text, advice)
