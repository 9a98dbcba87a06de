"""A job's best schedule at given prices: how much work in which slot, and where; by dynamic programming.

Definitions
    work unit      a job's samples are counted in Q equal units; a slot does whole ones.
    theta(t, k)    the cheapest way to do k units in slot t, utility: internal or external, whichever is cheaper.
    Theta(t, q)    the cheapest way to have done q units by the end of slot t.
    payoff         the worth of the job's end minus what its schedule costs.

Principle
    Theta(t, q) = min over k of theta(t, k) + Theta(t - 1, q - k); the job's payoff is the largest, over all slots d in
    which it may end, of u(d - arrival) - Theta(d, Q). One pass serves all d.

    theta(t, k) is bounded from below without a linear program (slot.py), and is exact where the bound is the answer.
    The pass is made on the bounds; those on the best schedule's path that are not exact yet are solved, and it is made
    again, until the whole path is exact. Any other schedule costs at least its bounds, so the answer is the same as if
    all of them had been solved. Slots that are alike, as those after the last commitment do, are solved once.

Worked example
    2 units, 2 slots; theta(0, 1) = 1, theta(0, 2) = 5, theta(1, 1) = 1.5, theta(1, 2) = 3. Theta(0, 2) = 5, Theta(1, 2)
    = min(5, 1 + 1.5, 3) = 2.5. An end in slot 0 that is worth 9 pays 4, one in slot 1 that is worth 6 pays 3.5: slot 0.

Parameters
    see `Settings`.

Source
    PD-ORS (model.py), its algorithms for the best schedule. Units of work, bounds and the lazy order are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from tesched_policies.pdors.model import SLACK, Placement, TrainingJob

from tesched_papers.pdors.algorithm.slot import Draws, SlotProblem, SlotSettings, SlotView, Spread, on_one_machine

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the search for schedules."""

    slot: SlotSettings = field(default_factory=SlotSettings)
    #: about so many units of work a job has, if it needs no more
    units: int = 60
    #: most units that a slot on one machine does
    most_parts: int = 40
    #: most units of a job, unless it needs more slots: the pass takes time in proportion to their square
    most_units: int = 400
    #: solve slot problems only where the best schedule needs them; off only to check that it changes nothing
    lazy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Placement of a job's workers and servers, slot by slot."""

    #: in the order of slots, only those with work
    placements: tuple[Placement, ...]
    #: utility: what it costs at the prices it was made for
    cost: float
    #: utility: what its end is worth
    worth: float

    @property
    def payoff(self) -> float:
        """Return worth - cost."""
        return self.worth - self.cost

    @property
    def end(self) -> int:
        """Return the last slot with work."""
        return self.placements[-1].slot


def units_of(job: TrainingJob, most: int, settings: Settings) -> tuple[float, int]:
    """Return the samples of a unit of work and how many units the job has.

    `most` is how many workers, with their servers, the largest machine holds. A unit is a whole part of what these do
    in a slot, or if there are none, of what all workers do on several machines; so such slots are used to the full.
    """
    several = job.samples_per_slot(job.batch, internal=False)
    one = job.samples_per_slot(most, internal=True) if most else several
    parts = max(int(settings.units * one / job.samples), 1)
    if several < one and one / several <= settings.most_parts:
        # A slot on several machines must do at least one unit, or it would never be used.
        parts = max(parts, int(np.ceil(one / several)))
    unit = one / min(parts, settings.most_parts)
    if job.samples / unit > settings.most_units:
        unit = max(several, one) / max(int(settings.most_units * max(several, one) / job.samples), 1)
    return unit, max(int(np.ceil(job.samples / unit * (1 - SLACK))), 1)


def workers_on_one(job: TrainingJob, free: _Floats) -> int:
    """Return how many workers, at most `batch`, with their servers fit on the largest machine of (H, R)."""
    each = job.worker + job.server / job.workers_per_server
    takes = each > 0
    # A part of a server is a whole one, so this may be too many.
    about = np.minimum(np.floor((free[:, takes] / each[takes]).min(axis=1) + SLACK), job.batch)
    machine = int(np.argmax(about))
    for workers in range(int(about[machine]), 0, -1):
        needed = workers * job.worker + -(-workers // job.workers_per_server) * job.server
        if (needed <= free[machine] * (1 + SLACK)).all():
            return workers
    return 0


class NoSchedule(StrEnum):
    """Reasons for which a job gets no schedule."""

    #: every schedule costs at least what its end is worth
    PRICE = "price"
    #: none was found that ends in time with what is free
    RESOURCES = "resources"


def best_schedule(
    job: TrainingJob, views: Sequence[SlotView], draws: Draws, settings: Settings
) -> Schedule | NoSchedule:
    """Return the schedule with the largest payoff, if that is above 0; otherwise why there is none.

    `views` are consecutive slots, the first one not before the job's arrival.
    """
    table = _Table(job, views, draws, settings)
    if not settings.lazy:
        table.solve_all()
    while True:
        path = table.best_path()
        if isinstance(path, NoSchedule):
            return path
        open_ones = [(place, units) for place, units in path if not table.is_exact(place, units)]
        if not open_ones:
            return table.schedule(path)
        for place, units in open_ones:
            table.solve(place, units)


class _Table:
    """theta for all slots and units: bounds at first, then answers."""

    def __init__(self, job: TrainingJob, views: Sequence[SlotView], draws: Draws, settings: Settings) -> None:
        self.job = job
        self.views = views
        self.draws = draws
        self.kind = _alike(views)
        self.kinds = [int(np.flatnonzero(self.kind == kind)[0]) for kind in range(int(self.kind.max()) + 1)]
        most = max(workers_on_one(job, views[first].free) for first in self.kinds)
        unit, self.units = units_of(job, most, settings)
        done = np.arange(1, self.units + 1, dtype=np.float64) * unit
        self.internal = job.workers_for(done, internal=True)
        self.external = job.workers_for(done, internal=False)
        # No job does more units in a slot than with all workers on one machine.
        self.most = int((self.internal <= job.batch).sum())
        self.internal, self.external = self.internal[: self.most], self.external[: self.most]
        self.servers_int = job.servers_for(self.internal)
        self.servers_ext = job.servers_for(self.external)
        self.delays = np.array([view.slot - job.arrival for view in views], dtype=np.int64)
        self.worth = job.utility.worth(self.delays)
        self.problems = [SlotProblem(views[first], job, settings.slot) for first in self.kinds]
        shape = (len(self.kinds), self.most + 1)
        self.theta = np.zeros(shape)
        self.exact = np.ones(shape, dtype=np.bool_)
        self.one = np.full(shape, np.inf)
        self.one_machine = np.zeros(shape, dtype=np.int64)
        self.spreads: dict[tuple[int, int], Spread | None] = {}
        for kind in range(len(self.kinds)):
            self._bound(kind)

    def _bound(self, kind: int) -> None:
        """Fill in what is known of a kind of slot without solving anything."""
        view = self.problems[kind].view
        self.one[kind, 1:], self.one_machine[kind, 1:] = on_one_machine(view, self.job, self.internal, self.servers_int)
        within = self.external <= self.job.batch
        several = np.full(self.most, np.inf)
        fits = np.ones(self.most, dtype=np.bool_)
        if within.any():
            bound = self.problems[kind].bound(self.external[within], self.servers_ext[within])
            several[within], fits[within] = bound.cost, bound.fits | ~np.isfinite(bound.cost)
        one = self.one[kind, 1:]
        self.theta[kind, 1:] = np.minimum(one, several)
        # A machine that is no dearer than the bound is the answer, too.
        self.exact[kind, 1:] = fits | (one <= several)

    def solve_all(self) -> None:
        """Solve every slot problem."""
        for kind, units in np.argwhere(~self.exact):
            self._solve(int(kind), int(units))

    def is_exact(self, place: int, units: int) -> bool:
        """Return whether theta is known for that many units in that slot."""
        return bool(self.exact[self.kind[place], units])

    def solve(self, place: int, units: int) -> None:
        """Solve the slot problem for that many units in that slot."""
        kind = int(self.kind[place])
        if not self.exact[kind, units]:
            self._solve(kind, units)

    def _solve(self, kind: int, units: int) -> None:
        workers, servers = int(self.external[units - 1]), int(self.servers_ext[units - 1])
        spread = self.problems[kind].solve(workers, servers, self.draws)
        self.spreads[kind, units] = spread
        self.theta[kind, units] = min(self.one[kind, units], np.inf if spread is None else spread.cost)
        self.exact[kind, units] = True

    def best_path(self) -> list[tuple[int, int]] | NoSchedule:
        """Return (place of the slot, units) of the best schedule as far as theta is known."""
        totals = np.full(self.units + 1, np.inf)
        totals[0] = 0.0
        choices = np.zeros((len(self.views), self.units + 1), dtype=np.int64)
        before = np.arange(self.units + 1)[:, np.newaxis] - np.arange(self.most + 1)
        # What lies before the first unit costs inf: the last entry of the padded row.
        before = np.where(before < 0, self.units + 1, before)
        rows = np.arange(self.units + 1)
        ends = np.full(len(self.views), np.inf)
        for place, kind in enumerate(self.kind):
            costs = np.append(totals, np.inf)[before] + self.theta[kind]
            choices[place] = np.argmin(costs, axis=1)
            totals = costs[rows, choices[place]]
            ends[place] = totals[-1]
        if not np.isfinite(ends).any():
            return NoSchedule.RESOURCES
        place = int(np.argmax(self.worth - ends))
        if self.worth[place] <= ends[place]:
            return NoSchedule.PRICE
        path: list[tuple[int, int]] = []
        left = self.units
        while left:
            units = int(choices[place, left])
            if units:
                path.append((place, units))
            left -= units
            place -= 1
        return path[::-1]

    def schedule(self, path: Sequence[tuple[int, int]]) -> Schedule:
        """Return the schedule of a path all of whose theta are known."""
        cost = float(sum(self.theta[self.kind[place], units] for place, units in path))
        placements = tuple(self._placement(place, units) for place, units in path)
        return Schedule(placements=placements, cost=cost, worth=float(self.worth[path[-1][0]]))

    def _placement(self, place: int, units: int) -> Placement:
        kind, slot = int(self.kind[place]), self.views[place].slot
        if self.one[kind, units] <= self.theta[kind, units]:
            return Placement(
                slot=slot,
                machines=self.one_machine[kind, units : units + 1],
                workers=self.internal[units - 1 : units],
                servers=self.servers_int[units - 1 : units],
                internal=True,
            )
        if (kind, units) not in self.spreads:
            # The bound was the answer; only now is it needed where it puts them.
            self._solve(kind, units)
        spread = self.spreads[kind, units]
        if spread is None:
            raise AssertionError(f"job {self.job.job_id}: slot {slot} has a cost and no answer")
        return Placement(
            slot=slot, machines=spread.machines, workers=spread.workers, servers=spread.servers, internal=False
        )


def _alike(views: Sequence[SlotView]) -> _Ints:
    """Return a number for each slot; slots with the same number have as much free at the same prices."""
    numbers: dict[tuple[bytes, bytes, bytes], int] = {}
    kinds = [(v.free.tobytes(), v.worker_price.tobytes(), v.server_price.tobytes()) for v in views]
    return np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], dtype=np.int64)
