"""Episodes of the attack on guard.bound, and what came of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tesched_sim.pool import each_done

from tesched_testcluster.harness.bound.attack import Attack, Episode
from tesched_testcluster.harness.bound.ledger import EPSILON_S

#: arrivals of one episode
EACH = 200


@dataclass(slots=True, kw_only=True)
class Found:
    """What came of some episodes."""

    #: delayed by more than their bounds, in lines
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    te_waits_s: list[float] = field(default_factory=list)
    #: largest part of a bound that was used, and longest time for which BE jobs had a victim's place, seconds
    tightest: float = 0.0
    behind_be_s: float = 0.0
    #: the first episodes of which all are over, if it was interrupted; None: it was not
    stopped_after: int | None = None

    def add(self, other: Found) -> None:
        """Take in what came of others."""
        self.violations += other.violations
        self.counts += other.counts
        self.refusals += other.refusals
        self.ends += other.ends
        self.te_waits_s += other.te_waits_s
        self.tightest = max(self.tightest, other.tightest)
        self.behind_be_s = max(self.behind_be_s, other.behind_be_s)


def run_episode(seed: int, arrivals: int, attack: Attack) -> Found:
    """Run one episode."""
    episode = Episode(seed, arrivals, attack)
    episode.run()
    ledger = episode.ledger
    kept = [one for one in ledger.verdicts if not one.violated]
    return Found(
        violations=[f"episode {seed}: {one}" for one in ledger.verdicts if one.violated],
        counts=Counter(
            {
                "violations": len(ledger.verdicts) - len(kept),
                "delays above the bound by their true run time, within it by their owners' words": sum(
                    one.delay_s > one.bound_s + EPSILON_S for one in kept
                ),
                "victims beyond the bound only because BE jobs had taken their places": sum(
                    one.is_behind_be for one in kept
                ),
                "BE jobs": len(ledger.verdicts),
                "of them delayed": sum(one.delay_s > 0 for one in ledger.verdicts),
                "preemptions": ledger.preemptions,
                "victims that ended for good": ledger.ended_for_good,
                "TE jobs": episode.te_jobs,
                "TE jobs held by the hook": episode.held,
                "polls": episode.polls,
                "kills": episode.kills,
            }
        ),
        refusals=episode.refusals,
        ends=ledger.ends,
        te_waits_s=ledger.te_waits_s,
        tightest=max((one.delay_s / one.said_bound_s for one in kept), default=0.0),
        behind_be_s=max((one.behind_be_s for one in ledger.verdicts), default=0.0),
    )


def run(
    arrivals: int,
    seed: int,
    attack: Attack,
    *,
    first: int = 0,
    processes: int | None = None,
    progress: Callable[[int, int, Found], None] = lambda _done, _count, _one: None,
) -> Found:
    """Run so many arrivals, episode by episode; `progress` is called after each: how many are over, of how many.

    The episodes before the `first`, counted from 0, are left out: an earlier run had them. An interruption ends it, and
    what has come out so far is returned.
    """
    seeds = [seed * 1_000_003 + number for number in range(first, (arrivals + EACH - 1) // EACH)]
    found = Found()
    over = each_done(partial(run_episode, arrivals=EACH, attack=attack), seeds, processes=processes)
    ran: set[int] = set()
    try:
        for done, (number, one) in enumerate(over, start=1):
            found.add(one)
            ran.add(number)
            progress(done, len(seeds), one)
    except KeyboardInterrupt:
        found.stopped_after = first + next((place for place, one in enumerate(seeds) if one not in ran), len(seeds))
    return found
