"""Parameters of slaq: the keys of [policy.slaq] (policy.py has the definitions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tesched_core.model.ranges import Period, SecondsOfADay, between, check_ranges

Workers = Annotated[int, between(1, 10_000, "workers")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaqParameters:
    """How often workers are given out, and which changes are too small or too soon."""

    epoch_s: Period = 30.0
    #: workers that every array gets
    least: Workers = 1
    #: workers
    throttle_step: Workers = 1
    throttle_cool_down_s: SecondsOfADay = 30.0
    #: as a part of the other's gain
    priority_step: Annotated[float, between(0, 100)] = 0.25
    priority_cool_down_s: SecondsOfADay = 300.0

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no epoch, no worker or no step."""
        check_ranges(self)
