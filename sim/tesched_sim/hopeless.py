"""Waiting TE jobs for which the policy has found no victim, and finds none yet: they are left out of the next cycles.

Where hundreds of TE jobs wait that can't be served, nearly all of a cycle's time goes into weighing each of them again.
A job that has no victim, with all that may leave, has none as long as no node has more that is free or may leave. So
the daemon's step is done without such jobs first. If nothing comes of that, no action and no change of an order, none
comes of the step with them, either, and its memory is the same; else it is done anew with them (`engine.py`).

This is not for the daemon on a real cluster, which owes each of these jobs its refusal. And it is for a site without
limits of the guard's alone: what a limit keeps from leaving now may leave later, by time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.actions import Resume, Suspend
from tesched_core.model.decision import Decision, Refusal, RefusalCode, Refusals
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order
from tesched_core.policy import PolicyEntry

from tesched_sim.slurm import JobPhase, Slurm


def can_leave_out(slurm: Slurm, policies: Sequence[PolicyEntry]) -> bool:
    """Check whether TE jobs without a victim have no part in what these policies do, on this cluster."""
    behaviour = slurm.behaviour
    return (
        all(entry.policy.serves_te and entry.policy.refuses_alone for entry in policies)
        and slurm.arrays is None
        and not slurm.is_typed
        and slurm.shared is None
        and slurm.workload.most_nodes is None
        and not (behaviour.poll_s or behaviour.hook or behaviour.faults.is_on)
    )


def is_idle(before: Memory, after: Memory, decision: Decision) -> bool:
    """Check whether nothing came of a step: no action, and each order is as it was."""
    idle = not decision.actions and not decision.transitions and decision.next_at is None
    return idle and after.next_order == before.next_order and after.orders == before.orders


#: what is said of a TE job for which no plan was made
_OF_NO_PLAN = frozenset(
    {RefusalCode.NO_VICTIM, RefusalCode.ORDER_OPEN, RefusalCode.IMPOSSIBLE, RefusalCode.UNSUPPORTED}
)
#: with fewer to be left out it is hardly worth a step that may have to be done anew
LEAST = 4


class Hopeless:
    """What is wanted by TE jobs for which there is no victim."""

    def __init__(self, slurm: Slurm) -> None:
        """Begin without any."""
        self._slurm = slurm
        #: fewer are not left out
        self.least = LEAST
        #: [jobs] jobs of one number want the same, for the same user
        user = slurm.workload.user.astype(np.int64)
        self._kind: list[int] = (np.array(slurm.shape, dtype=np.int64) * (user.max(initial=0) + 1) + user).tolist()
        #: the numbers of those jobs
        self._wanted: set[int] = set()
        #: [nodes, resources] what was free or might leave when none of them had a victim, and the orders then
        self._at_most: NDArray[np.int64] | None = None
        self._orders: tuple[Order, ...] = ()
        self._up: NDArray[np.bool_] = slurm.up

    def rows(self, memory: Memory) -> frozenset[int]:
        """Return the waiting TE jobs that have no victim still; none where they are few."""
        if not self._wanted or self._at_most is None:
            return frozenset()
        slurm = self._slurm
        if (
            memory.open_orders() != self._orders
            or not np.array_equal(slurm.up, self._up)
            or (self._may_leave(memory) > self._at_most).any()
        ):
            self.forget()
            return frozenset()
        kind, wanted = self._kind, self._wanted
        others = self._others().union(order.preemptor - 1 for order in self._orders)
        found = [row for row in slurm.te_pending if kind[row] in wanted and row not in others]
        return frozenset(found if len(found) >= self.least else ())

    def learn(self, decision: Decision) -> None:
        """Take in a cycle's refusals: after a plan no job has more than before it, so each holds after all of them.

        Not so where one was dropped, or its victims are only suspended. Such a plan has left its word.
        """
        parts = decision.refusals.parts if isinstance(decision.refusals, Refusals) else ()
        told = [one for one in parts if isinstance(one, Refusal) and one.job_id == one.preemptor]
        if any(one.code not in _OF_NO_PLAN for one in told) or any(
            isinstance(one, Suspend | Resume) for one in decision.actions
        ):
            self.forget()
            return
        rows = {one.job_id - 1 for one in told if one.code is RefusalCode.NO_VICTIM}
        self._wanted.update(self._kind[row] for row in rows - self._others())

    def forget(self) -> None:
        """Forget what was refused."""
        self._wanted.clear()

    def settle(self, memory: Memory) -> None:
        """Take in what there is after a cycle: those that were known before it have none with less either."""
        if self._wanted:
            self._orders, self._up = memory.open_orders(), self._slurm.up.copy()
            self._at_most = self._may_leave(memory)

    def _others(self) -> frozenset[int]:
        """Return jobs that may not run wherever their like may, or await more than that."""
        slurm = self._slurm
        waits_for_more = slurm.held, slurm.throttled, slurm.dependent, slurm.ineligible
        return frozenset().union(slurm.bound, slurm.licenses, *waits_for_more)

    def _may_leave(self, memory: Memory) -> NDArray[np.int64]:
        """Return [nodes, resources] what is free, or held by BE jobs that were not preempted yet."""
        slurm = self._slurm
        found, state, leaving = slurm.free.copy(), slurm.state, slurm.leaving
        stays = {job_id - 1 for job_id, one in memory.jobs.items() if one.preemptions}.union(slurm.licenses)
        rows = [
            row for row in slurm.running_be if row not in stays and not leaving[row] and state[row] is JobPhase.RUNNING
        ]
        places = [slurm.where[row] for row in rows]
        jobs = np.repeat(np.array(rows, dtype=np.intp), [len(nodes) for nodes in places])
        np.add.at(found, [node for nodes in places for node in nodes], slurm.workload.demand[jobs])
        return found
