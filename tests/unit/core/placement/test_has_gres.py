"""Requests that ask for devices of any kind, and those that only say what each task has of CPUs and memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.cluster import Request
from tesched_core.placement.modelled import _has_gpus, has_gres


@pytest.mark.parametrize(("each", "is_gres"), [("cpu", False), ("mem", False), ("license/a", False), ("gpu", True)])
def test_cpus_and_memory_of_a_task_are_no_gres(each: str, is_gres: bool) -> None:
    assert has_gres(Request(gres_per_task=((each, 2),))) is is_gres


@pytest.mark.parametrize(("device", "is_gpu"), [("gpu", True), ("gpu:a100", True), ("tmp", False), ("gpus", False)])
@pytest.mark.parametrize("way", ["gres_per_node", "gres_per_job", "gres_per_task"])
def test_gpus_alone_bring_memory_and_cpus_by_default(way: str, device: str, is_gpu: bool) -> None:
    assert _has_gpus(replace(Request(), **{way: ((device, 2),)})) is is_gpu  # type: ignore[arg-type]
