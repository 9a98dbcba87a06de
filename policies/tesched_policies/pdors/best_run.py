"""A job's best run: its nodes and its first slot, if it has the same nodes from beginning to end.

Definitions
    run            so many nodes for so many slots without a break: what Slurm can give a batch job, since its
                   nodes never change while it runs. The paper's schedule may change them at each slot (schedule.py).
    price          of a node in a slot: sum over resources of price times what the job takes there.

Principle
    For each number of nodes, and for one rack or several, the length of the run is known; for each slot in which it may
    start, a node costs the sum of its prices over that window, or cannot be had if the job's share does not fit in one
    of its slots. The cheapest such run takes the cheapest nodes: of one rack, the rack whose cheapest are cheapest.
    That is a sort, and exact: no linear program and no rounding, which the paper needs because workers and servers of
    different size compete for the same machine; Slurm gives a job equal shares. The run with the largest payoff (worth
    of its end minus price) is the plan.
    What a run takes beyond the horizon costs as on an idle cluster.

Worked example
    Two racks of two nodes, three slots; all prices 1, but rack a is taken in slot 0. A job is worth 10 - its end's slot
    and takes two nodes of a rack for one slot, of different racks for two. Rack b now: 10 - 2 = 8. Rack a in slot 1:
    9 - 2 = 7. The plan is b, and a is the next best.

Source
    PD-ORS (model.py): its payoff and prices; one run of fixed nodes is ours (docs/discussion/pdors-on-slurm.md says
    what it costs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from tesched_policies.pdors.model import SLACK
from tesched_policies.pdors.state import Option
from tesched_policies.pdors.workload import Training

_Floats = NDArray[np.float64]
#: Payoffs that differ by less are equal: sums of prices are exact to about this part of the worth.
_ALIKE = 1e-9
#: Most numbers of nodes that are tried for one job.
MOST_COUNTS = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slots:
    """The coming slots as one job sees them, [slots, nodes]."""

    #: its share fits
    fits: NDArray[np.bool_]
    #: what a node costs it, utility
    price: _Floats
    #: [nodes] the same on an idle cluster
    idle: _Floats
    #: [nodes] the node's rack, by row of `names`
    rack: NDArray[np.intp]
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunPlan:
    """One way to run it."""

    option: Option
    #: rows of its nodes
    nodes: NDArray[np.intp]
    #: how long it takes, slots, not rounded
    length: float

    @property
    def end(self) -> float:
        """End of the run, in slots from now."""
        return self.option.wait_slots + self.length


def slots_of(length: float) -> int:
    """Number of slots that a run of this length is planned for: to the nearest whole one, and never none.

    Slots are counted from each poll on. Rounded up, each of a chain of plans would be half a slot late for the next.
    """
    return max(int(length + 0.5), 1)


def best_runs(
    training: Training,
    slots: Slots,
    *,
    waited: float,
    rest: float = 1.0,
    only_now: bool = False,
    counts: Iterable[int] | None = None,
    one_rack: bool | None = None,
) -> list[RunPlan]:
    """Return the best run of each number of nodes and rack (or of several racks) there is, the largest payoff first.

    `waited` is how many slots ago the job was submitted. Only runs that start at once, or with these numbers of nodes,
    or in one rack (True), or in several (False), if that is wanted.
    """
    wanted = _counts(training) if counts is None else counts
    found: list[RunPlan] = []
    sums = _Sums(slots)
    for count in wanted:
        for racks in _racks(slots, count, one_rack):
            length = training.run_slots(count, one_rack=len(racks) == 1, rest=rest)
            run = sums.best(training, count, racks, length=length, waited=waited, only_now=only_now)
            if run is not None:
                found.append(run)
    spare = slots.fits[0].astype(np.int64)
    free = np.bincount(slots.rack, weights=spare, minlength=len(slots.names))
    # Of equal ones the sooner end, the fewer nodes, and the rack with the least free: the others stay whole.
    found.sort(
        key=lambda run: (
            -round(run.option.payoff / training.model.utility.height, 9),
            run.end,
            run.option.nodes,
            not run.option.rack,
            float(free[slots.rack[run.nodes[0]]]),
        )
    )
    return found


def _counts(training: Training) -> list[int]:
    """Return the numbers of nodes that are tried: all, or of many some, evenly spread."""
    if training.most - training.fewest < MOST_COUNTS:
        return list(range(training.fewest, training.most + 1))
    return sorted({round(each) for each in np.linspace(training.fewest, training.most, MOST_COUNTS).tolist()})


def _racks(slots: Slots, count: int, one_rack: bool | None) -> Iterator[tuple[int, ...]]:
    """Yield each rack alone and, for more than one node, all of them together."""
    if one_rack is not False:
        yield from ((rack,) for rack in range(len(slots.names)))
    if one_rack is not True and count > 1 and len(slots.names) > 1:
        yield tuple(range(len(slots.names)))


class _Sums:
    """Sums of prices over windows of slots, by differences of running sums."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        zero = np.zeros((1, slots.price.shape[1]))
        self.price = np.concatenate([zero, np.cumsum(slots.price, axis=0)])
        self.blocked = np.concatenate([zero, np.cumsum(~slots.fits, axis=0)])
        self.columns = [np.flatnonzero(slots.rack == rack) for rack in range(len(slots.names))]
        #: costs by length of the run, which several racks have in common
        self.costs: dict[int, _Floats] = {}

    def best(
        self, training: Training, count: int, racks: tuple[int, ...], *, length: float, waited: float, only_now: bool
    ) -> RunPlan | None:
        """Return the best run on so many nodes of these racks."""
        several = len(racks) > 1
        nodes = np.arange(self.slots.price.shape[1]) if several else self.columns[racks[0]]
        if len(nodes) < count:
            return None
        takes = slots_of(length)
        cost = self._cost(takes)[: 1 if only_now else None, nodes]
        total = np.partition(cost, count - 1, axis=1)[:, :count].sum(axis=1)
        start = np.arange(len(total))
        delay = np.maximum(np.ceil((waited + start + length) * (1 - SLACK)).astype(np.int64) - 1, 0)
        worth = training.model.utility.worth(delay)
        payoff = np.round((worth - total) / training.model.utility.height / _ALIKE) * _ALIKE
        at = int(np.argmax(np.where(np.isfinite(payoff), payoff, -np.inf)))
        if not np.isfinite(total[at]):
            return None
        chosen = nodes[np.argsort(cost[at], kind="stable")[:count]]
        return RunPlan(
            option=Option(
                nodes=count,
                rack="" if several else self.slots.names[racks[0]],
                wait_slots=at,
                slots=max(ceil(length * (1 - SLACK)), 1),
                worth=float(worth[at]),
                price=float(total[at]),
            ),
            nodes=np.sort(chosen),
            length=length,
        )

    def _cost(self, takes: int) -> _Floats:
        """Return [slots, nodes] what a node costs from each slot on; inf where it cannot be had."""
        if takes not in self.costs:
            begin = np.arange(len(self.slots.price))
            end = np.minimum(begin + takes, len(begin))
            beyond = (begin + takes - end)[:, np.newaxis] * self.slots.idle
            free = self.blocked[end] == self.blocked[begin]
            self.costs[takes] = np.where(free, self.price[end] - self.price[begin] + beyond, np.inf)
        return self.costs[takes]
