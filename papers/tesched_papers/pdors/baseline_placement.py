"""Placement of workers and servers by the baselines: spread over the machines in turn, or packed onto few."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from tesched_policies.pdors.model import SLACK, Machines, Placement, TrainingJob


class BaselinePlacement(StrEnum):
    """Choice of machines."""

    #: one to each machine in turn, going on where the last one ended
    SPREAD = "spread"
    #: onto one machine if all fit, else onto as few as may be
    PACKED = "packed"


class FreeResources:
    """Free resources of a slot, and the place of the next one."""

    def __init__(self, machines: Machines, manner: BaselinePlacement) -> None:
        """Start with all free."""
        self.machines = machines
        self.manner = manner
        self.free = machines.capacity.copy()
        self.turn = 0

    def take(self, job: TrainingJob, workers: int, slot: int) -> Placement | None:
        """Place so many workers and the servers that they need, and take the resources; None: they do not fit."""
        servers = -(-workers // job.workers_per_server)
        before, turn = self.free.copy(), self.turn
        order = self._order(job, workers, servers)
        # Servers first, on the machines that workers will be on too.
        held = [self._fill(order, amounts, count) for amounts, count in ((job.server, servers), (job.worker, workers))]
        if held[0] is None or held[1] is None:
            self.free, self.turn = before, turn
            return None
        rows = np.flatnonzero((held[0] > 0) | (held[1] > 0))
        return Placement(
            slot=slot, machines=rows, workers=held[1][rows], servers=held[0][rows], internal=len(rows) == 1
        )

    def hold(self, job: TrainingJob, placement: Placement) -> None:
        """Take the resources of a placement that was made before."""
        self.free[placement.machines] -= placement.demand(job)

    def _order(self, job: TrainingJob, workers: int, servers: int) -> NDArray[np.int64]:
        rows = np.arange(len(self.free))
        if self.manner is BaselinePlacement.SPREAD:
            return np.roll(rows, -self.turn)
        together = workers * job.worker + servers * job.server
        holds_all = (together <= self.free * (1 + SLACK)).all(axis=1)
        fitting = (self.free / np.maximum(self.machines.capacity, 1.0)).min(axis=1)
        # A machine that holds all comes first, and of these the fullest; otherwise the emptiest.
        return np.asarray(np.lexsort((rows, np.where(holds_all, fitting, -fitting), ~holds_all)), dtype=np.int64)

    def _fill(self, order: NDArray[np.int64], amounts: NDArray[np.float64], count: int) -> NDArray[np.int64] | None:
        """Take resources for `count` units on machines in this order; the number on each. None: they do not fit."""
        takes = amounts > 0
        fitting = np.floor((self.free[:, takes] / amounts[takes]).min(axis=1) + SLACK).astype(np.int64)
        fitting = np.maximum(fitting, 0)
        if fitting.sum() < count:
            return None
        held = np.zeros(len(fitting), dtype=np.int64)
        if self.manner is BaselinePlacement.PACKED:
            upto = np.cumsum(fitting[order])
            held[order] = np.clip(count - (upto - fitting[order]), 0, fitting[order])
        while (left := count - int(held.sum())) > 0:
            # One to each that can take it, in turn; the last round ends in the middle.
            next_ones = [row for row in order if held[row] < fitting[row]][:left]
            held[next_ones] += 1
            self.turn = (int(next_ones[-1]) + 1) % len(fitting)
        self.free -= np.outer(held, amounts)
        return held
