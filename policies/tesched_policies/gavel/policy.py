"""gavel: best-effort jobs on GPUs of several types take turns, as one of Gavel's policies divides the time.

Definitions
    type         of accelerators: a GRES type or a node feature.
    allocation   X: the fraction of the time that each job should spend on each type (problem.py).
    round        for its length no job is moved.

Principle
    At the beginning of a round the policy divides the time again if jobs have come or gone, or what it divides by is
    another (basis.py), and round_scheduling.py says which job has which type: the one furthest behind its share comes
    first. Poll after poll, a job that runs where it should stays; one that should run elsewhere moves, on notice, from
    its checkpoint; one that should wait leaves for one that should run, if that one needs it. A job that waits is held,
    so that Slurm does not start it in a gap.
    Resources that come free in the middle of a round go to the next job, unless that would move another.
    What TE jobs and others hold, or is reserved for them, is not there to be divided; nor are nodes that none of the
    jobs may have, by partition, reservation or feature. Where one may have other nodes than another, a job may have a
    turn and no place: at the beginning of the round those further ahead of their share leave its nodes for it.

Worked example
    Two nodes, one GPU each: a v100 and a k80. a does 4 steps/s on the v100 and 1 on the k80, b does 2 and 2. las gives
    each the type that it is good at: X = [[1, 0], [0, 1]]. b came first and has the v100. In the next round b should be
    on the k80: it gets its notice, leaves, and starts there, bound to that node; a, which was held, starts on the
    v100.

Parameters
    allocator        one of allocators/registry.py; one that shares GPUs does so among jobs that ask for shards
                     (jobs.py, pairs.py)
    round_s          length of a round, 360
    solve_every_s    least time between two allocations, 0: at each round, if the time is to be divided again
    types            names, fastest first; empty: all GRES types of GPUs, those first on which jobs are fastest
    prices           of an hour of one accelerator of each type, for cost, cost-slo, cost-sum and cost-sum-slo
    qos_weights, most_weight, entity, entity_weights, in_order
                     what jobs and entities weigh, and when jobs are due (weights.py)
    fills            whether resources that come free in mid-round is given away at once, or waits as in the paper

Source
    Narayanan et al., OSDI 2020, sections 3 and 5. What the paper does by its own runtime on each worker is done here
    with Slurm's levers: hold and release, ReqNodeList, nice, notice and requeue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tesched_core.model.extra import Extra
from tesched_core.model.limits import TurnLimits
from tesched_core.policy import Policy, Proposal, View

from tesched_policies.gavel.parameters import GavelParameters
from tesched_policies.gavel.state import GavelState

#: solves its linear programs
SCIPY = Extra(package="SciPy", module="scipy.optimize", install=".[gavel]")


@dataclass(frozen=True, kw_only=True)
class Gavel(GavelParameters, Policy[GavelState]):
    """The policy; see the head of this file."""

    name: ClassVar[str] = "gavel"
    State: ClassVar[type[GavelState]] = GavelState
    reads_speeds: ClassVar[bool] = True
    reads_run_times: ClassVar[bool] = True
    needs: ClassVar[Sequence[Extra]] = (SCIPY,)

    @property
    def label(self) -> str:
        """Return the policy's name with its allocator's."""
        return f"gavel:{self.allocator}"

    @property
    def turn_limits(self) -> TurnLimits:
        """Limits of what turns may cost."""
        return self.limits_of_turns("gavel", self.round_s)

    def propose(self, view: View, state: GavelState | None) -> Proposal[GavelState]:
        """Propose the starts, moves and holds that bring this round about."""
        # Here: a configuration needs neither NumPy nor what divides time by it.
        from tesched_policies.gavel.jobs import Kinds, managed_jobs  # noqa: PLC0415
        from tesched_policies.gavel.pairs import unshared  # noqa: PLC0415
        from tesched_policies.gavel.turn import GavelTurn, counted  # noqa: PLC0415

        kinds = Kinds.of(view.snapshot, view.columns.capacity, self.types)
        managed = managed_jobs(view, kinds, sharing=self.shares)
        state = counted(view, kinds, managed, state)
        turn = GavelTurn(parameters=self, view=view, kinds=kinds, managed=managed, state=state)
        if not kinds.gpus.any():
            # No GPU has a type, or none is up.
            return Proposal(state=state, notes=dict(unshared(view, kinds, self.allocator, sharing=self.shares)))
        if view.now >= state.due_at(self.round_s):
            turn.begin_round()
        elif self.fills:
            turn.fill()
        return turn.proposal()
