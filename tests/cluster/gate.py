"""Which cases of a parametrised test `make test` runs: one or two of each, since each takes a real Slurm seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")


def gated(values: Iterable[T], *chosen: T) -> list[object]:
    """Return `values` for `parametrize`, those `chosen` with the marker `gate`. ValueError if one is no value."""
    values = list(values)
    if missing := [one for one in chosen if one not in values]:
        raise ValueError(f"no cases of this test: {missing}")
    return [pytest.param(value, marks=pytest.mark.gate) if value in chosen else value for value in values]
