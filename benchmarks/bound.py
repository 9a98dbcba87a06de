"""Attack on guard.bound: `python -m benchmarks.bound --arrivals 50000 --seed 0`.

Runs the heart of the daemon beside small clusters (`bound_slurm.py`) whose users do their worst (`bound_attack.py`),
and measures by how much each BE job was truly delayed (`bound_ledger.py`). Prints each job that TE jobs have delayed by
more than its bound, and ends with status 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from tesched_sim.pool import each_done

from benchmarks.bound_attack import Attack, Episode
from benchmarks.bound_ledger import EPSILON_S

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


def run(arrivals: int, seed: int, attack: Attack, *, processes: int | None = None) -> Found:
    """Run so many arrivals, episode by episode."""
    seeds = [seed * 1_000_003 + number for number in range((arrivals + EACH - 1) // EACH)]
    found = Found()
    for _, one in each_done(partial(run_episode, arrivals=EACH, attack=attack), seeds, processes=processes):
        found.add(one)
    return found


def main() -> int:
    """Run it; return 1 if a bound was violated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrivals", type=int, default=50_000, help="how many jobs (50000)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same runs (0)")
    parser.add_argument("--episode", type=int, help="run the episode with this seed alone")
    parser.add_argument("--processes", type=int, help="how many at once (all cores)")
    parser.add_argument("--no-hook", action="store_true", help="TE jobs arrive unheld")
    parser.add_argument("--no-kills", action="store_true", help="the daemon is not killed")
    parser.add_argument("--outages", type=float, default=0.0, help="chance of an outage after a poll (0)")
    parser.add_argument("--clock", type=float, default=0.0, help="most seconds by which the clock is set (0)")
    chosen = parser.parse_args()
    attack = Attack(
        hook=not chosen.no_hook,
        kills=0.0 if chosen.no_kills else 0.02,
        outages=chosen.outages,
        clock_s=chosen.clock,
    )
    began = time.monotonic()
    if chosen.episode is not None:
        found = run_episode(chosen.episode, EACH, attack)
    else:
        found = run(chosen.arrivals, chosen.seed, attack, processes=chosen.processes)
    for line in sorted(found.violations):
        print(line)
    for what, count in found.counts.items():
        print(f"{count:8}  {what}")
    print(f"{found.tightest:8.3f}  largest part of a bound that was used")
    print(f"{found.behind_be_s:8.1f}  s, longest time for which BE jobs had a victim's place")
    waits = found.te_waits_s
    print(f"{_quantile(waits, 0.5):8.1f}  s, TE wait, median\n{_quantile(waits, 0.95):8.1f}  s, TE wait, 95 %")
    print("jobs:", ", ".join(f"{count} {what}" for what, count in sorted(found.ends.items())))
    print("refusals of TE jobs:", ", ".join(f"{count} {code}" for code, count in found.refusals.most_common()))
    said = f"{len(found.violations)} violation(s)" if found.violations else "no violation"
    print(f"{time.monotonic() - began:.0f} s: {said} of guard.bound")
    return int(bool(found.violations))


def _quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))] if values else 0.0


if __name__ == "__main__":
    sys.exit(main())
