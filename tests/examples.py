"""Numbers of random examples, by the profile of Hypothesis that the environment variable HYPOTHESIS_PROFILE names.

    gate        the same examples in each run, so that a change fails for what it changes; no example database
    nightly     others in each run, ten times as many; what fails is printed with a line that reproduces it

No profile has a deadline: what an example takes is no property of the code, and a busy machine makes no test fail.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, settings

VARIABLE = "HYPOTHESIS_PROFILE"
DEFAULT = "gate"
#: examples of a property that says no number
_EXAMPLES = 100
#: how many times as many examples as in the gate
_TIMES = {"gate": 1, "nightly": 10}
_CHANGES: Mapping[str, Mapping[str, Any]] = {
    "gate": {"derandomize": True, "database": None},
    "nightly": {"derandomize": False, "print_blob": True},
}


def profile(environment: Mapping[str, str] = os.environ) -> str:
    """Return the profile's name. Raises ValueError, which says what is there, for one that is not."""
    name = environment.get(VARIABLE, "") or DEFAULT
    if name not in _TIMES:
        raise ValueError(f"{VARIABLE} is one of {', '.join(_TIMES)}, not {name!r}")
    return name


def examples(count: int, environment: Mapping[str, str] = os.environ) -> int:
    """Return how many examples a property has that has `count` in the gate: `settings` of its own pass profiles by."""
    return count * _TIMES[profile(environment)]


def load() -> None:
    """Make the profiles known to Hypothesis, and use the one that the environment names. Raises ValueError."""
    for name, times in _TIMES.items():
        settings.register_profile(
            name,
            deadline=None,
            max_examples=_EXAMPLES * times,
            suppress_health_check=[HealthCheck.too_slow],
            **_CHANGES[name],
        )
    settings.load_profile(profile())
