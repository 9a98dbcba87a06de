"""Attack on guard.bound: `python -m benchmarks.bound --arrivals 50000 --seed 0`.

Runs the heart of the daemon beside small clusters (`bound_slurm.py`) whose users do their worst (`bound_attack.py`), and
measures by how much each BE job was truly delayed (`bound_ledger.py`). Prints each job that TE jobs have delayed by more
than its bound, and ends with status 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.bound_attack import Attack, Episode
from benchmarks.bound_ledger import Verdict

#: arrivals of one episode
EACH = 100


def episodes(arrivals: int, seed: int, attack: Attack) -> Iterator[Episode]:
    """Run so many arrivals, episode by episode."""
    for number in range((arrivals + EACH - 1) // EACH):
        episode = Episode(seed * 1_000_003 + number, min(EACH, arrivals - number * EACH), attack)
        episode.run()
        yield episode


def violations(episode: Episode) -> list[Verdict]:
    """Return the jobs that were delayed by more than their bounds."""
    return [one for one in episode.ledger.verdicts if one.violated]


def main() -> int:
    """Run it; return 1 if a bound was violated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrivals", type=int, default=50_000, help="how many jobs (50000)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same runs (0)")
    parser.add_argument("--episode", type=int, help="run the episode with this seed alone")
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
        runs: Iterator[Episode] = iter([Episode(chosen.episode, EACH, attack)])
    else:
        runs = episodes(chosen.arrivals, chosen.seed, attack)
    total: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    waits: list[float] = []
    tightest = 0.0
    for episode in runs:
        if chosen.episode is not None:
            episode.run()
        found = violations(episode)
        for one in found:
            print(f"episode {episode.seed}: {one}")
        total["violations"] += len(found)
        total["episodes with violations"] += bool(found)
        total["by own word"] += sum(one.delay_s > one.bound_s + 1e-6 and not one.violated for one in episode.ledger.verdicts)
        total["polls"] += episode.polls
        total["kills"] += episode.kills
        total["held by the hook"] += episode.held
        total["BE jobs"] += len(episode.ledger.verdicts)
        total["delayed"] += sum(one.delay_s > 0 for one in episode.ledger.verdicts)
        total["preemptions"] += episode.ledger.preemptions
        tightest = max([tightest, *(one.delay_s / one.said_bound_s for one in episode.ledger.verdicts if not one.violated)])
        refusals += episode.refusals
        ends += episode.ledger.ends
        waits += episode.ledger.te_waits_s
    for what, count in total.items():
        print(f"{count:8}  {what}")
    print(f"{tightest:8.3f}  largest part of a bound that was used")
    print(f"{_quantile(waits, 0.5):8.1f}  s, TE wait, median\n{_quantile(waits, 0.95):8.1f}  s, TE wait, 95 %")
    print("jobs:", ", ".join(f"{count} {what}" for what, count in sorted(ends.items())))
    print("refusals of TE jobs:", ", ".join(f"{count} {code}" for code, count in refusals.most_common()))
    print(f"{time.monotonic() - began:.0f} s: {total['violations'] or 'no'} violation(s) of guard.bound")
    return int(total["violations"] > 0)


def _quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))] if values else 0.0


if __name__ == "__main__":
    sys.exit(main())
