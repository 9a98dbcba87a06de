"""Glances: which job, how often, and until when."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import log

import pytest
from tesched_core.model.resources import JobId
from tesched_daemon.glances import GLANCES, MOST_VICTIMS, SOON_S, VICTIM_GLANCES, Glances

TE = JobId(9)


@dataclass
class Watcher:
    """Sees nothing come, and keeps what it was asked."""

    asked: list[tuple[float, int]] = field(default_factory=list)
    now: float = 0.0

    def looked_at(self, job_id: JobId) -> bool:
        self.asked.append((self.now, job_id))
        return False

    def has_ended(self, job_id: JobId) -> bool:
        return self.looked_at(job_id)


def watched(glances: Glances, watcher: Watcher, next_in_s: float) -> None:
    """Let time pass until all is to be looked at."""
    pause_s: float | None = next_in_s
    while pause_s is not None:
        watcher.now += pause_s
        pause_s = glances.glance(watcher, watcher.now)


def test_a_victim_is_glanced_at_less_and_less_often() -> None:
    glances, watcher = Glances(), Watcher()
    watched(glances, watcher, glances.plan(None, {JobId(1): 100.0}, clock=100.0, now=0.0, to=20.0))
    times = [at for at, _ in watcher.asked]
    for before, after in pairwise(times):
        assert after - before == pytest.approx(max(SOON_S, before / 10))
    assert times[0] == pytest.approx(SOON_S)
    assert watcher.now == 20.0
    # Ten in the first half second, and from there each is a tenth later than the one before.
    assert len(times) <= 10 + log(20 / 0.5, 1.1)


def test_one_whose_notice_was_long_ago_is_left_to_the_poll() -> None:
    glances, watcher = Glances(), Watcher()
    assert glances.plan(None, {JobId(1): 60.0}, clock=100.0, now=0.0, to=2.0) == 2.0
    assert glances.glance(watcher, 2.0) is None
    assert watcher.asked == []


def test_those_that_had_their_notice_last_are_glanced_at_and_the_te_job_besides() -> None:
    glances, watcher = Glances(), Watcher()
    notices = {JobId(number): 90.0 + number for number in range(1, MOST_VICTIMS + 3)}
    watched(glances, watcher, glances.plan(TE, notices, clock=98.0, now=0.0, to=1.0))
    assert {job_id for _, job_id in watcher.asked} == {TE, *range(3, MOST_VICTIMS + 3)}


def test_glances_are_bounded_and_those_at_victims_keep_none_from_the_te_job() -> None:
    glances, watcher = Glances(), Watcher()
    while watcher.now < 600:
        now = watcher.now
        notices = {JobId(number): now for number in range(MOST_VICTIMS)}
        watched(glances, watcher, glances.plan(TE, notices, clock=now, now=now, to=now + 1.0))
    at_te = sum(job_id == TE for _, job_id in watcher.asked)
    most = GLANCES.burst + 600 / GLANCES.every_s
    assert most * 0.95 <= at_te <= most + 1
    assert len(watcher.asked) - at_te <= VICTIM_GLANCES.burst + 600 / VICTIM_GLANCES.every_s + 1


def test_what_is_forgotten_is_glanced_at_no_more() -> None:
    glances, watcher = Glances(), Watcher()
    glances.plan(TE, {}, clock=0.0, now=0.0, to=1.0)
    glances.forget()
    assert glances.glance(watcher, SOON_S) is None
    assert watcher.asked == []
