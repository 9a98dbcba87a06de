"""The daemon through faults of every kind: `python -m benchmarks.faults --examples N`.

Runs the state machine of `tests/properties/test_faults.py` for longer than `make test` does, prints how often each kind
of fault happened and how orders ended, then what was found. A violation ends the command with status 1. Each example
takes about a third of a second; with `--shrink`, one that fails is made as small as possible first, which may take
minutes.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tesched_testcluster.harness.faults.machine import Faults


def main() -> int:
    """Run it; return 1 if a rule was violated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=300, help="how many runs (300)")
    parser.add_argument("--steps", type=int, default=60, help="most steps of one run (60)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same runs (0)")
    parser.add_argument("--shrink", action="store_true", help="make a run that fails as small as possible")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    Faults.covered.clear()
    phases = (Phase.generate, Phase.shrink) if chosen.shrink else (Phase.generate,)
    how = settings(
        max_examples=chosen.examples,
        stateful_step_count=chosen.steps,
        deadline=None,
        database=None,
        phases=phases,
        verbosity=Verbosity.normal,
        suppress_health_check=list(HealthCheck),
    )
    began = time.monotonic()
    violated = False
    try:
        run_state_machine_as_test(seed(chosen.seed)(Faults), settings=how)
    except (AssertionError, Exception):  # noqa: BLE001 - whatever it is, it is a finding
        violated = True
        traceback.print_exc()
    for what, count in sorted(Faults.covered.items()):
        print(f"{count:8}  {what}")
    said = "violated, see above" if violated else "no violation"
    print(f"{chosen.examples} examples of up to {chosen.steps} steps, {time.monotonic() - began:.0f} s: {said}")
    return int(violated)


if __name__ == "__main__":
    sys.exit(main())
