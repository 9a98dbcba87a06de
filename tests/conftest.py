"""Common to all tests: the repository's root is on the path, so that a test can import `tests.builders`."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = str(Path(__file__).parent.parent)
# A busy machine makes no test fail: what an example takes is no property of the code.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
