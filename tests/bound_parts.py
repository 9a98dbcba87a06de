"""The guarantee of guard.bound under 50,000 arrivals of one seed, in parts: no BE job is delayed beyond its bound.

It is `python -m benchmarks.bound --arrivals 50000 --seed 0`: part 2, say, is `--first 50 --arrivals 15000`. Of its ten
parts, a minute of a core each, the gate has four; nightly all are run. A worker runs a file to its end, so two files
share the parts.
"""

from __future__ import annotations

from tesched_testcluster.harness.bound.attack import Attack
from tesched_testcluster.harness.bound.found import EACH, run

from tests.examples import profile

SEED, ARRIVALS, PARTS = 0, 50_000, 10
EPISODES = ARRIVALS // EACH // PARTS
#: parts that are run
_RUN = 4 if profile() == "gate" else PARTS
#: parts of `test_bound_attack.py`, and of `test_bound_attack_later.py`
FIRST, LATER = range(_RUN // 2), range(_RUN // 2, _RUN)


def check_part(part: int) -> None:
    """Run the episodes of one part."""
    attacked = run(EPISODES * (part + 1) * EACH, SEED, Attack(), first=EPISODES * part, processes=1)
    assert attacked.violations == []
    # One that has failed of a notice for its own user's TE job, and runs again, has a verdict for each end.
    assert attacked.counts["BE jobs"] + attacked.counts["TE jobs"] >= ARRIVALS // PARTS
    # The attack is one: most jobs are delayed, some nearly as far as they may be, and TE jobs start nevertheless.
    assert attacked.counts["of them delayed"] > attacked.counts["BE jobs"] / 2
    assert attacked.counts["preemptions"] > 50
    assert attacked.counts["kills"] > 100
    assert attacked.tightest > 0.6
    assert len(attacked.te_waits_s) > attacked.counts["TE jobs"] / 3
