"""The example of an elastic training: whichever workers it has, and whichever of them die, the losses are the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from elastic import Arrays, work

SLICES = 4


@pytest.fixture(autouse=True)
def _no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastic.signal.signal", lambda *_: None)


def part(model: Arrays, index: int) -> Arrays:
    """Return a quarter of (x - index)**2 and of its derivative: the four together are least at 1.5."""
    off = model["x"] - index
    return {"loss": off @ off / SLICES, "slope": 2 * off / SLICES}


def go_on(folder: Path, of: Callable[[Arrays, int], Arrays] = part, seconds: float = 60, lease_s: float = 60) -> bool:
    return work(
        folder,
        seconds=seconds,
        slices=SLICES,
        start=lambda: {"x": np.array([8.0])},
        part=of,
        step=lambda model, total: {"x": model["x"] - 0.1 * total["slope"]},
        iterations=10,
        lease_s=lease_s,
    )


def losses(folder: Path) -> list[float]:
    with np.load(folder / "state.npz") as state:
        found: list[float] = state["losses"].tolist()
        return found


#: The distance to 1.5 shrinks to 0.8 of it each time; the slices' own spread, 1.25, stays.
EXPECTED = [6.5**2 * 0.64**iteration + 1.25 for iteration in range(10)]


def test_one_worker_alone_comes_to_the_end(tmp_path: Path) -> None:
    assert go_on(tmp_path)
    assert losses(tmp_path) == pytest.approx(EXPECTED)
    assert go_on(tmp_path), "whoever comes late sees that it is done"


def test_another_one_goes_on_where_the_first_had_to_leave(tmp_path: Path) -> None:
    assert not go_on(tmp_path, seconds=0)
    assert losses(tmp_path) == []
    assert go_on(tmp_path)
    assert losses(tmp_path) == pytest.approx(EXPECTED)


def test_the_slice_of_one_that_died_is_taken_when_its_lease_is_over(tmp_path: Path) -> None:
    calls: list[int] = []

    def dies(model: Arrays, index: int) -> Arrays:
        calls.append(index)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return part(model, index)

    with pytest.raises(KeyboardInterrupt):
        go_on(tmp_path, dies)
    assert not go_on(tmp_path, seconds=0.1), "it may still be at work"
    (claim,) = (one for one in (tmp_path / "1").iterdir() if not one.suffix and not one.with_suffix(".npz").exists())
    long_ago = time.time() - 100
    os.utime(claim, (long_ago, long_ago))
    assert go_on(tmp_path)
    assert losses(tmp_path) == pytest.approx(EXPECTED)
