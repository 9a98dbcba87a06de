"""The real loop and the real journal through faults of every kind: what must hold at every step, and in the end.

`python -m benchmarks.faults --examples N` runs more of it, and says what was covered.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from tesched_testcluster.harness.faults.machine import Faults

from tests.examples import examples

Faults.TestCase.settings = settings(
    max_examples=examples(20), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
TestFaults = Faults.TestCase
