"""Requests that ask for devices of any kind, and those that only say what each task has of CPUs and memory."""

from __future__ import annotations

import pytest
from tesched_core.model.cluster import Request
from tesched_core.placement.modelled import has_gres


@pytest.mark.parametrize(("each", "is_gres"), [("cpu", False), ("mem", False), ("license/a", False), ("gpu", True)])
def test_cpus_and_memory_of_a_task_are_no_gres(each: str, is_gres: bool) -> None:
    assert has_gres(Request(gres_per_task=((each, 2),))) is is_gres
