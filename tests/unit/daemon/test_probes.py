"""Probes: which job, how often, and until when."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import log

import pytest
from tesched_core.model.resources import JobId
from tesched_daemon.probes import MOST_VICTIMS, PROBES, SOON_S, VICTIM_PROBES, Probes

TE = JobId(9)


@dataclass
class Watcher:
    """Sees nothing come, and keeps what it was called for."""

    asked: list[tuple[float, int]] = field(default_factory=list)
    now: float = 0.0

    def looked_at(self, job_id: JobId) -> bool:
        self.asked.append((self.now, job_id))
        return False

    def has_ended(self, job_id: JobId) -> bool:
        return self.looked_at(job_id)


def watched(probes: Probes, watcher: Watcher, next_in_s: float) -> None:
    """Let time pass until a poll is due."""
    pause_s: float | None = next_in_s
    while pause_s is not None:
        watcher.now += pause_s
        pause_s = probes.probe(watcher, watcher.now)


def test_a_victim_is_probed_less_and_less_often() -> None:
    probes, watcher = Probes(), Watcher()
    watched(probes, watcher, probes.plan(None, {JobId(1): 100.0}, clock=100.0, now=0.0, to=20.0))
    times = [at for at, _ in watcher.asked]
    for before, after in pairwise(times):
        assert after - before == pytest.approx(max(SOON_S, before / 10))
    assert times[0] == pytest.approx(SOON_S)
    assert watcher.now == 20.0
    # Ten in the first half second, and from there each is a tenth later than the one before.
    assert len(times) <= 10 + log(20 / 0.5, 1.1)


def test_a_victim_with_an_old_notice_is_left_to_the_poll() -> None:
    probes, watcher = Probes(), Watcher()
    assert probes.plan(None, {JobId(1): 60.0}, clock=100.0, now=0.0, to=2.0) == 2.0
    assert probes.probe(watcher, 2.0) is None
    assert watcher.asked == []


def test_those_that_had_their_notice_last_are_probed_and_the_te_job_besides() -> None:
    probes, watcher = Probes(), Watcher()
    notices = {JobId(number): 90.0 + number for number in range(1, MOST_VICTIMS + 3)}
    watched(probes, watcher, probes.plan(TE, notices, clock=98.0, now=0.0, to=1.0))
    assert {job_id for _, job_id in watcher.asked} == {TE, *range(3, MOST_VICTIMS + 3)}


def test_probes_are_bounded_and_those_of_victims_keep_none_from_the_te_job() -> None:
    probes, watcher = Probes(), Watcher()
    while watcher.now < 600:
        now = watcher.now
        notices = {JobId(number): now for number in range(MOST_VICTIMS)}
        watched(probes, watcher, probes.plan(TE, notices, clock=now, now=now, to=now + 1.0))
    at_te = sum(job_id == TE for _, job_id in watcher.asked)
    most = PROBES.burst + 600 / PROBES.every_s
    assert most * 0.95 <= at_te <= most + 1
    assert len(watcher.asked) - at_te <= VICTIM_PROBES.burst + 600 / VICTIM_PROBES.every_s + 1


def test_what_is_forgotten_is_probed_no_more() -> None:
    probes, watcher = Probes(), Watcher()
    probes.plan(TE, {}, clock=0.0, now=0.0, to=1.0)
    probes.forget()
    assert probes.probe(watcher, SOON_S) is None
    assert watcher.asked == []
