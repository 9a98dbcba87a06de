"""Attack on guard.bound: `python -m benchmarks.bound --arrivals 50000 --seed 0`.

Runs the heart of the daemon beside small clusters whose users do their worst, and measures by how much each BE job was
truly delayed (`tesched_testcluster/harness/bound`). Prints each job that TE jobs have delayed by more than its bound,
and ends with status 1 if there is one. Stopped by Ctrl-C it prints what it has found so far, and `--first` goes on from
there. On two cores it takes three to four minutes, and with a million arrivals more than an hour.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tesched_testcluster.harness.bound.attack import Attack
from tesched_testcluster.harness.bound.found import EACH, Found, run, run_episode


def main() -> int:
    """Run it; return 1 if a bound was violated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrivals", type=int, default=50_000, help="how many jobs (50000)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same runs (0)")
    parser.add_argument("--episode", type=int, help="run the episode with this seed alone")
    parser.add_argument("--first", type=int, default=0, help="leave out so many episodes, which an earlier run had (0)")
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
        found = run(
            chosen.arrivals, chosen.seed, attack, first=chosen.first, processes=chosen.processes, progress=_show
        )
    if found.stopped_after is not None:
        print(f"\nstopped: --first {found.stopped_after} goes on")
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


def _show(done: int, count: int, one: Found) -> None:
    """Say what is wrong as soon as it is known, for the whole may take hours; on a terminal also how far it is."""
    for line in one.violations:
        print(line, file=sys.stderr)
    if sys.stderr.isatty():
        print(f"\r{done}/{count} episodes", end="" if done < count else "\n", file=sys.stderr, flush=True)


def _quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))] if values else 0.0


if __name__ == "__main__":
    sys.exit(main())
