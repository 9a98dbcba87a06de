"""The workers of `benchmarks.placement`: one that is ended ends, and does not wait for a further task."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import Event, get_context

import pytest

from benchmarks import placement


def test_a_worker_that_is_ended_within_a_cluster_leaves_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "run_cluster", lambda *_: sys.exit(143))
    one = partial(placement._unless_stopped, 1, count=1, only=(), on=())
    pool = ProcessPoolExecutor(1, get_context("fork"), placement._stops_at, (Event(),))
    with pool, pytest.raises(BrokenProcessPool):
        pool.submit(one, 0).result(timeout=60)
