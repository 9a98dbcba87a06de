"""pdors: when a best-effort job starts, on how many nodes and on which, planned at its arrival at prices.

Definitions
    slot           the unit of the plan, counted from each poll on; `slot_s` long.
    rack           nodes with a fast network between them (racks.py): the paper's one machine.
    run            so many nodes from a slot on, the same ones to the end (run.py): the paper's schedule, as far as
                   Slurm can give it to a batch job.
    reserved       a run's slots are kept for its job (calendar.py). Else the job is left over.

Principle
    At its arrival a job is held, and gets the run with the largest payoff: what its end is worth minus the price of its
    nodes, slot by slot. Prices rise with what is reserved (prices.py). If the payoff is above 0 the run is reserved;
    otherwise the job is left over. A reservation is kept: no later job takes its slots.
    Poll after poll:
    - A job with reserved slots starts as soon as so many nodes are free, in one rack if that was planned, if that
      harms no other job's; at the latest in its slot. It is bound to them, their number is set, and it is released.
    - A job that is left over starts on any nodes that are reserved for none, those on which it ends soonest.
      After a whole horizon it gets the best run that there is, whatever it costs, so that none waits for ever.
    - If the nodes are not free one slot after they should be, because another runs longer than expected, the job is
      planned again; and so is one that was preempted, with the part of its work that is left. Both keep their slots.
    - A job that does not start as bound (Slurm refuses, or has a reason of its own) is set free and left to Slurm.
    A running job is never moved. TE jobs come first: what is reserved for them, and what they hold, is not there.

Worked example
    Two racks of two nodes. A wants 2 nodes, and in one rack takes 3 slots, across 6. One node of each rack is taken for
    2 more slots. Across now, it ends after 6 slots; in a rack in 2 slots, after 5. The end is worth more, the price is
    half: it gets rack a from slot 2 on. B, which wants one node for 2 slots, comes next and starts there now.

Parameters
    slot_s         length of a slot, 300
    slots          how many slots are planned, 48
    floor          least price, in parts of the highest (prices.py), 1e-5
    rack_feature   what features of nodes that name their rack begin with; empty: Slurm's topology
    workloads      what is known of the trainings (workload.py)

Source
    PD-ORS (model.py), section on the online algorithm. What is ours: one run of fixed nodes, the earlier start, what
    becomes of those that are left over or late. docs/discussion/pdors-on-slurm.md says what is lost by that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from tesched_core.model.limits import TurnLimits
from tesched_core.model.resources import JobId
from tesched_core.policy import Policy, Proposal, Show, View

from tesched_policies.pdors.describe import in_detail
from tesched_policies.pdors.parameters import PdOrsParameters
from tesched_policies.pdors.state import PdorsState


@dataclass(frozen=True, kw_only=True)
class PdOrs(PdOrsParameters, Policy[PdorsState]):
    """The policy; see the head of this file."""

    name: ClassVar[str] = "pdors"
    reads_run_times: ClassVar[bool] = True
    State: ClassVar[type[PdorsState]] = PdorsState

    @property
    def turn_limits(self) -> TurnLimits:
        """Limits of what starts may cost."""
        return self.limits_of_turns("pdors", self.slot_s)

    def propose(self, view: View, state: PdorsState | None) -> Proposal[PdorsState]:
        """Propose which jobs start where, and which are held."""
        if not view.capacity.names:
            return Proposal(state=state)  # no node is there to be planned
        from tesched_policies.pdors.turn import PdOrsTurn  # noqa: PLC0415 - a configuration needs no NumPy

        turn = PdOrsTurn(parameters=self, view=view, before=state)
        turn.follow()
        turn.enter()
        turn.plan_arrivals()
        turn.start()
        return turn.proposal()

    def describe(self, state: PdorsState | None, job_id: JobId, show: Show) -> Iterable[str]:
        """Describe what was decided of the job, at prices."""
        plan = state.plans.get(job_id) if state is not None else None
        return () if plan is None else in_detail(plan, show)
