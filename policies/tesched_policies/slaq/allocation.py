"""Allocation of slaq: what each training has used, and how many workers each gets until the next epoch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
from tesched_core.intake.pending_reason import resources_would_not_help
from tesched_core.model.capacity import Capacity
from tesched_core.model.resources import JobId
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import demand_of
from tesched_core.policy import View

from tesched_policies.slaq.allocate import LEAST_DROP, AllocationSettings, allocate
from tesched_policies.slaq.curves import Floats, Ints
from tesched_policies.slaq.forecast import ForecastJob as Learner
from tesched_policies.slaq.forecast import Forecasts, KeptCurves, forecast
from tesched_policies.slaq.jobs import SlaqJob
from tesched_policies.slaq.parameters import SlaqParameters
from tesched_policies.slaq.progress import Progress
from tesched_policies.slaq.state import SlaqState, TrainingState


def counted(state: SlaqState | None, managed: Sequence[SlaqJob], now: float) -> SlaqState:
    """Return the state after the units that each held since the last poll were counted; a new one to begin with."""
    state = state or SlaqState(counted_at=now)
    passed_s = max(now - state.counted_at, 0.0)
    trainings: dict[JobId, TrainingState] = {}
    for member in managed:
        known = state.trainings.get(member.job_id)
        if len(member.curve):
            trainings[member.job_id] = _went_on(known, member, passed_s, now)
        elif known is not None:
            # The reports are not there now, which says nothing of the training.
            trainings[member.job_id] = known
    return replace(state, counted_at=now, trainings=trainings)


def _went_on(known: TrainingState | None, member: SlaqJob, passed_s: float, now: float) -> TrainingState:
    curve = member.curve
    newest = int(curve.iteration[-1])
    if known is None or newest < known.iteration:
        # What it used before is not known.
        known = TrainingState(first_iteration=newest, first_loss=float(curve.loss[0]), iteration=newest)
        passed_s = min(passed_s, max(now - float(curve.at[-1]), 0.0))
    since_s = known.since_s + member.held * passed_s
    used_s = known.used_s
    if newest > known.iteration:
        after_s = min(member.held * max(now - float(curve.at[-1]), 0.0), since_s)
        used_s, since_s = used_s + since_s - after_s, after_s
    drop = max(known.largest_drop, _largest_drop(member))
    return replace(known, iteration=newest, used_s=used_s, since_s=since_s, largest_drop=drop)


def _largest_drop(member: SlaqJob) -> float:
    curve = member.curve
    drops = -np.diff(curve.loss) / np.maximum(np.diff(curve.iteration), 1)
    return float(drops.max(initial=0.0))


def _learner(member: SlaqJob, known: TrainingState) -> Learner:
    """Learner to be forecast, with the cost of an iteration as it was measured."""
    curve = member.curve
    done = known.iteration - known.first_iteration
    cost = known.used_s / done if done > 0 else 0.0
    iteration = curve.iteration.astype(np.float64)
    used = (iteration - iteration[:1]) * cost
    # Progress counts from 1, and a training may from 0.
    progress = Progress().with_reports(iteration + 1, curve.loss, used)
    if progress.taken:
        progress = replace(progress, first_loss=known.first_loss, largest_drop=known.largest_drop)
    return Learner(progress=progress, target=member.target)


@dataclass(slots=True, kw_only=True)
class CoreAllocation:
    """One allocation, while it is worked on."""

    parameters: SlaqParameters
    view: View
    managed: tuple[SlaqJob, ...]
    state: SlaqState

    def made(self) -> SlaqState:
        """Return the state after it."""
        view, state, managed = self.view, self.state, self.managed
        blank = TrainingState(first_iteration=0, first_loss=0.0)
        learners = {one.job_id: _learner(one, state.trainings.get(one.job_id, blank)) for one in managed}
        memory: KeptCurves[JobId] = KeptCurves()
        expected, _ = forecast(learners, memory)
        shares: dict[JobId, int] = {}
        said: dict[JobId, str] = {}
        for unit in sorted({member.unit for member in managed if member.elastic}):
            rows = [row for row, one in enumerate(managed) if one.elastic and one.unit == unit]
            total, workers = self._pool(unit, rows, expected)
            for row, share in zip(rows, workers, strict=True):
                shares[managed[row].job_id] = share
                said[managed[row].job_id] = f"its share is {share} of the workers that {total} {unit.upper()}s hold"
        with_them = [shares[one.job_id] * one.each if one.elastic else one.held or one.each for one in managed]
        gain, drop = _gains(expected, np.array(with_them, dtype=np.float64), self.parameters.epoch_s)
        trainings = dict(state.trainings)
        for row, one in enumerate(managed):
            known = trainings.get(one.job_id)
            if known is None:
                said[one.job_id] = self._text(one, None, said.get(one.job_id, ""), 0.0, expected, row)
                continue
            new = replace(known, gain=None, gain_each=None, gain_task=None, loss_then=float(one.curve.loss[-1]))
            if expected.known[row]:
                each, tasks = float(gain[row]) / max(with_them[row], 1), shares.get(one.job_id, max(one.running, 1))
                new = replace(new, gain=float(gain[row]), gain_each=each, gain_task=float(gain[row]) / tasks)
            said[one.job_id] = self._text(one, known, said.get(one.job_id, ""), float(drop[row]), expected, row)
            trainings[one.job_id] = new
        state = replace(
            state,
            allocated_at=view.now,
            next_at=view.now + self.parameters.epoch_s,
            trainings=trainings,
            shares=shares,
        )
        first = self._first(trainings)
        if first is not None:
            said[first] = f"of those that wait, a {self._unit(first)} would lower its loss most; {said[first]}"
        first_at = state.first_at if first == state.first else view.now
        return replace(state, first=first, first_at=first_at, said=said)

    def _pool(self, unit: str, rows: list[int], expected: Forecasts) -> tuple[int, list[int]]:
        """Return the units that the arrays of these rows share, and how many workers each gets."""
        members = [self.managed[row] for row in rows]
        total = sum(one.held for one in members) + free_units(members, self.view, unit)
        step = gcd(*(one.each for one in members))
        each = [one.each // step for one in members]
        limits = [self._most(one) for one in members]
        mine = _taken(expected, rows, step)
        shares = AllocationSettings(epoch_s=self.parameters.epoch_s, least=self.parameters.least * max(each))
        most: Ints = np.array([limit * size for limit, size in zip(limits, each, strict=True)], dtype=np.int64)
        given = allocate(mine, total // step, shares, most)
        workers = [int(units) // size for units, size in zip(given, each, strict=True)]
        # What does not make a whole worker goes to the training that lacks least of one.
        left = total // step - sum(count * size for count, size in zip(workers, each, strict=True))
        for row in np.argsort(-(given / np.array(each) % 1), kind="stable").tolist():
            if 0 < each[row] <= left and workers[row] < limits[row]:
                workers[row] += 1
                left -= each[row]
        # To Slurm, 0 is "no limit"; and no training may starve.
        return total, [max(count, 1) for count in workers]

    def _most(self, member: SlaqJob) -> int:
        if not member.starts:
            return member.running
        own = self.view.own_throttle(member.job_id, member.job)
        return min(member.left, own) if own else member.left

    def _unit(self, job_id: JobId) -> str:
        return next(one.unit.upper() for one in self.managed if one.job_id == job_id)

    def _text(  # noqa: PLR0917 - what is shown of one row
        self, member: SlaqJob, known: TrainingState | None, share: str, drop: float, expected: Forecasts, row: int
    ) -> str:
        parts = [share] if share else []
        if member.elastic:
            own = self.view.own_throttle(member.job_id, member.job)
            limit = f", of {own} that it may have" if own else ""
            parts.append(f"{member.running} run now{limit}")
        if known is None:
            return "; ".join([*parts, "it has reported no loss yet, so it has an equal share"])
        loss = float(member.curve.loss[-1])
        told = f"loss {loss:.4g} after {known.iteration} iterations"
        if not expected.known[row]:
            return "; ".join([*parts, f"{told}, too little to foretell it, so it counts as the others do"])
        if known.loss_then is not None and known.gain is not None:
            fell = max(known.loss_then - loss, 0.0) / max(known.largest_drop, LEAST_DROP)
            parts.append(f"it gained {fell:.2f}, {known.gain:.2f} was foretold")
        cost = float(expected.cost_core_s[row])
        parts.append(
            f"{told} at {cost:.3g} {member.unit.upper()}-seconds each; it is foretold to fall by {drop:.3g} "
            f"in the next {self.parameters.epoch_s:.0f} s with that"
        )
        return "; ".join(parts)

    # Waiting jobs that are no arrays.

    def _first(self, trainings: dict[JobId, TrainingState]) -> JobId | None:
        """Return the job to be first of those that wait and are no arrays."""
        gains = {
            one.job_id: gain
            for one in self.managed
            if not one.running
            and one.job.array_job_id is None
            and one.job.pending
            and resources_would_not_help(one.job) is None
            if (gain := trainings[one.job_id].gain_each) is not None and gain > 0
        }
        state, factor = self.state, 1 + self.parameters.priority_step
        if not gains:
            return None
        best = max(gains, key=lambda job_id: (gains[job_id], -job_id))
        if state.first in gains:
            rested = self.view.now - state.first_at >= self.parameters.priority_cool_down_s
            return best if rested and gains[best] > factor * gains[state.first] else state.first
        others = [one.gain_each for job_id, one in trainings.items() if job_id != best and one.gain_each is not None]
        mean = sum(others) / len(others) if others else 0.0
        rival = max((gain for job_id, gain in gains.items() if job_id != best), default=0.0)
        return best if gains[best] > factor * max(mean, rival) else None


def free_units(members: Sequence[SlaqJob], view: View, unit: str) -> int:
    """Return the units that are free for workers of any of these arrays."""
    capacity = view.capacity
    most = np.zeros(len(capacity.names), dtype=np.int64)
    for member in members:
        with suppress(UnsupportedRequestError):  # it is left to Slurm
            most = np.maximum(most, _workers_that_fit(member, view, capacity) * member.each)
    column = capacity.resources.index(unit) if unit in capacity.resources else 0
    return int(np.minimum(most, np.maximum(capacity.free[:, column], 0)).sum())


def _workers_that_fit(member: SlaqJob, view: View, capacity: Capacity) -> Ints:
    demand = demand_of(member.job, view.snapshot, capacity)
    fits = demand.fits(capacity)
    if demand.all_memory or member.job.request.exclusive:
        return fits.astype(np.int64)
    wanted = demand.per_node > 0
    count = (np.maximum(capacity.free[:, wanted], 0) // demand.per_node[wanted]).min(axis=1)
    whole: Ints = np.where(fits, count, 0)
    return whole


def _taken(expected: Forecasts, rows: list[int], step: int) -> Forecasts:
    """Return these rows, in units of `step`."""
    at = np.array(rows, dtype=np.int64)
    return Forecasts(
        curves=expected.curves.take(at),
        iteration=expected.iteration[at],
        largest_drop=expected.largest_drop[at],
        remaining=expected.remaining[at],
        cost_core_s=expected.cost_core_s[at] / step,
        known=expected.known[at],
        fresh=expected.fresh[at],
    )


def _gains(expected: Forecasts, units: Floats, epoch_s: float) -> tuple[Floats, Floats]:
    """Return each one's gain [jobs] with these units [jobs] in an epoch, and by how much its loss falls for it."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        reach = np.nan_to_num(epoch_s * units / expected.cost_core_s, nan=0.0, posinf=0.0)
    here = expected.curves.above(expected.iteration)
    drop = np.maximum(np.nan_to_num(here - expected.curves.above(expected.iteration + reach)), 0.0)
    return drop / np.maximum(expected.largest_drop, LEAST_DROP), drop
