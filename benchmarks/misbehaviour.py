"""Policies on a simulated Slurm that misbehaves, for as many simulated days as wanted; a night's run is 100,000.

    python -m benchmarks.misbehaviour --days 100000 --seed 1

Each run draws its workload, policies, lever, limits and faults from its own seed, seed after seed. What does not hold
is printed with a line that makes the same run again; with any, the command ends with status 1.

    python -m benchmarks.misbehaviour --days 100 --contender patient+slaq --jobs 5 --every-s 900

is faults in quick succession, for one policy.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from multiprocessing import get_context
from typing import Any

from tesched_testcluster.harness.faults.misbehaving_days import Found, Run, perform

#: seconds between two lines on the progress
EVERY_S = 30.0


#: of a run, what may be given instead of drawn
GIVEN = ("jobs", "kinds", "contender", "lever", "every_s")


def made(seed: int, given: Mapping[str, Any]) -> Found:
    """Draw the run of a seed, but for what is given, and make it."""
    return perform(Run.of(seed, **given))


def main() -> int:
    """Make the runs; return 1 if any rule was violated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=100.0, help="simulated days in all (100)")
    parser.add_argument("--seed", type=int, default=1, help="the first run's; the next ones follow it (1)")
    parser.add_argument("--only", type=int, help="the run of this seed alone")
    parser.add_argument("--jobs", type=int, default=60, help="jobs of a run (60)")
    parser.add_argument("--kinds", default="", help="kinds of faults, with / between them (all)")
    parser.add_argument("--contender", default="", help="policies, such as patient+slaq (drawn)")
    parser.add_argument("--lever", default="", help="requeue, auto or plugin (drawn)")
    parser.add_argument("--every-s", type=float, help="mean seconds between two faults of one kind (drawn)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="at once (one a core)")
    chosen = parser.parse_args()
    one = partial(made, given={name: getattr(chosen, name) for name in GIVEN})
    if chosen.only is not None:
        found = one(chosen.only)
        print(found.run)
        print(*found.violations, sep="\n")
        return int(bool(found.violations))
    return _all(one, chosen)


def _all(one: partial[Found], chosen: argparse.Namespace) -> int:
    happened: Counter[str] = Counter()
    began = told = time.monotonic()
    days, runs, violated = 0.0, 0, 0
    with get_context("spawn").Pool(chosen.processes) as pool:
        seeds = iter(range(chosen.seed, sys.maxsize))
        batch = 32 * chosen.processes
        while days < chosen.days:
            for found in pool.imap_unordered(one, [next(seeds) for _ in range(batch)]):
                days, runs = days + found.days, runs + 1
                happened.update(found.happened)
                if found.violations:
                    violated += 1
                    print(f"seed {found.run.seed}, {found.run.contender}: {found.violations[0]}")
                    print(f"    python -m benchmarks.misbehaviour --only {found.run.seed}{_said(chosen)}", flush=True)
                if time.monotonic() - told > EVERY_S:
                    told = time.monotonic()
                    print(f"{days:.1f} of {chosen.days:g} days, {runs} runs, {violated} violated", flush=True)
                if days >= chosen.days:
                    break
    for kind, count in sorted(happened.items()):
        print(f"{count:8}  {kind}")
    took_s = time.monotonic() - began
    said = f"{violated} violated, see above" if violated else "no violation"
    print(f"{days:.0f} simulated days in {runs} runs, {took_s:.0f} s: {said}")
    return int(bool(violated))


def _said(chosen: argparse.Namespace) -> str:
    """Options of a run, as they were given."""
    given = {name: getattr(chosen, name) for name in GIVEN}
    return "".join(f" --{name.replace('_', '-')} {value}" for name, value in given.items() if value)


if __name__ == "__main__":
    sys.exit(main())
