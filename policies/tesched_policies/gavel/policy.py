"""gavel: best-effort jobs on GPUs of several types take turns, as one of Gavel's policies divides the time.

Definitions
    type         of accelerators: a GRES type or a node feature.
    allocation   X: the fraction of the time that each job should spend on each type (problem.py).
    round        for its length no job is moved.

Principle
    At the beginning of a round the policy divides the time again if jobs have come or gone, and round_scheduling.py
    says which job has which type: the one furthest behind its share comes first. Poll after poll, a job that runs where
    it should stays; one that should run elsewhere moves, on notice, from its checkpoint; one that should wait makes
    room for one that should run, if that one needs it. A job that waits is held, so that Slurm does not start it
    in a gap.
    Resources that come free in the middle of a round go to the next job, unless that would move another.
    What TE jobs and others hold or were promised is not there to be divided.

Worked example
    Two nodes, one GPU each: a v100 and a k80. a does 4 steps/s on the v100 and 1 on the k80, b does 2 and 2. las gives
    each the type that it is good at: X = [[1, 0], [0, 1]]. b came first and has the v100. In the next round b should be
    on the k80: it gets its notice, leaves, and starts there, bound to that node; a, which was held, starts on the
    v100.

Parameters
    allocator        one of allocators/registry.py; one that shares GPUs does so among jobs that ask for shards
                     (jobs.py, pairs.py)
    round_s          length of a round, 360
    solve_every_s    least time between two allocations, 0: at each round, if jobs have come or gone
    types            names, fastest first; empty: all GRES types of GPUs, by name
    qos_weights, most_weight, entity, entity_weights, in_order
                     what jobs and entities weigh, and when jobs are due (weights.py)
    fills            whether room that comes free in mid-round is given away at once, or waits as in the paper

Source
    Narayanan et al., OSDI 2020, sections 3 and 5. What the paper does by its own runtime on each worker is done here
    with Slurm's levers: hold and release, ReqNodeList, nice, notice and requeue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

from tesched_core.model.extra import Extra
from tesched_core.model.limits import TurnLimits
from tesched_core.model.ranges import OneOf, Period, SecondsOfADay, between
from tesched_core.policy import Policy, Proposal, View

from tesched_policies.gavel.allocators.names import ALONE, SHARING, SIMULATED
from tesched_policies.gavel.state import GavelState
from tesched_policies.gavel.weights import Entity, JobWeights, weights
from tesched_policies.turns import Turns

if TYPE_CHECKING:
    from tesched_policies.gavel.allocators.problem import Policy as Allocator

#: solves its linear programs
SCIPY = Extra(package="SciPy", module="scipy.optimize", install=".[gavel]")


@dataclass(frozen=True, kw_only=True)
class Gavel(Turns, Policy[GavelState]):
    """The policy; see the head of this file."""

    name: ClassVar[str] = "gavel"
    State: ClassVar[type[GavelState]] = GavelState
    reads_speeds: ClassVar[bool] = True
    reads_run_times: ClassVar[bool] = True
    needs: ClassVar[Sequence[Extra]] = (SCIPY,)

    #: how the time is divided (allocators/registry.py)
    allocator: Annotated[str, OneOf(words=(*ALONE, *SHARING))] = "las"
    #: length of a round, and least time between two allocations, seconds
    round_s: Period = 360.0
    solve_every_s: SecondsOfADay = 0.0
    #: types of GPUs, fastest first; empty: all
    types: tuple[str, ...] = ()
    #: resources that come free in mid-round are given away
    fills: bool = True
    #: weights of QOS and of entities, "NAME=WEIGHT"; the most that a job's comment may ask for
    qos_weights: tuple[str, ...] = ()
    most_weight: Annotated[float, between(0.001, 1000)] = 1.0
    #: what an entity is, and the entities with jobs one after the other (weights.py)
    entity: Entity = Entity.ACCOUNT
    entity_weights: tuple[str, ...] = ()
    in_order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an allocator that there is not on Slurm, or what makes no round or weight."""
        if self.allocator in SIMULATED:
            why = "what a job got done beside another is not known on Slurm"
            raise ValueError(f"allocator must be one of {', '.join((*ALONE, *SHARING))}; {why}")
        if len(set(self.types)) < len(self.types):
            raise ValueError("types must name each type once")
        self.check_turns()
        _ = self.standing

    @property
    def label(self) -> str:
        """Return the policy's name with its allocator's."""
        return f"gavel:{self.allocator}"

    @property
    def turn_limits(self) -> TurnLimits:
        """Return what turns may cost."""
        return self.limits_of_turns("gavel", self.round_s)

    @cached_property
    def objective(self) -> Allocator:
        """Return what divides the time; it brings SciPy."""
        from tesched_policies.gavel.allocators.registry import policy  # noqa: PLC0415 - SciPy, where it is needed

        return policy(self.allocator)

    @cached_property
    def standing(self) -> JobWeights:
        """Return how much jobs count. Raises ValueError for a weight that is none."""
        return JobWeights(
            qos_weights=weights(self.qos_weights, "qos_weights"),
            most_weight=self.most_weight,
            entity=self.entity,
            entity_weights=weights(self.entity_weights, "entity_weights"),
            in_order=frozenset(self.in_order),
        )

    @property
    def shares(self) -> bool:
        """Return whether two jobs may share a GPU."""
        return self.allocator in SHARING

    def propose(self, view: View, state: GavelState | None) -> Proposal[GavelState]:
        """Return what brings this round about."""
        # Here: a configuration needs neither NumPy nor what divides time by it.
        from tesched_policies.gavel.jobs import Kinds, managed_jobs  # noqa: PLC0415
        from tesched_policies.gavel.pairs import unshared  # noqa: PLC0415
        from tesched_policies.gavel.turn import Turn, counted  # noqa: PLC0415

        kinds = Kinds.of(view.snapshot, view.columns.room, self.types)
        managed = managed_jobs(view, kinds, sharing=self.shares)
        state = counted(view, kinds, managed, state)
        turn = Turn(gavel=self, view=view, kinds=kinds, managed=managed, state=state)
        if not kinds.gpus.any():
            # No GPU has a type, or none is up.
            return Proposal(state=state, notes=dict(unshared(view, kinds, self.allocator, sharing=self.shares)))
        if view.now >= state.ends_at:
            turn.begin_round()
        elif self.fills:
            turn.fill()
        return turn.proposal()
