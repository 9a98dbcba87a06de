"""Parameters of gavel: the keys of [policy.gavel] (policy.py has the definitions)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from tesched_core.model.ranges import OneOf, Period, SecondsOfADay, between

from tesched_policies.gavel.allocators.names import ALONE, BY_PRICE, SHARING, SIMULATED
from tesched_policies.gavel.weights import Entity, JobWeights, weights
from tesched_policies.turns import Turns

if TYPE_CHECKING:
    from tesched_policies.gavel.allocators.problem import Allocator  # NumPy, which a configuration needs not


@dataclass(frozen=True, kw_only=True)
class GavelParameters(Turns):
    """How time on accelerators is divided, and how jobs count."""

    #: how the time is divided (allocators/registry.py)
    allocator: Annotated[str, OneOf(words=(*ALONE, *SHARING))] = "las"
    #: length of a round, and least time between two allocations, seconds
    round_s: Period = 360.0
    solve_every_s: SecondsOfADay = 0.0
    #: types of GPUs, fastest first; empty: all, by how fast jobs are on them
    types: tuple[str, ...] = ()
    #: price of an hour of one accelerator, "TYPE=PRICE", from 0.001 to 1000; for the allocators that go by costs
    prices: tuple[str, ...] = ()
    #: resources that come free in mid-round are given away
    fills: bool = True
    #: weights of QOS and of entities, "NAME=WEIGHT"; the most that a job's comment may request
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
        prices = weights(self.prices, "prices", "TYPE=PRICE")
        if self.allocator in BY_PRICE and not prices:
            raise ValueError(f'allocator {self.allocator} needs prices, such as prices = ["v100=2.48", "k80=0.45"]')
        if prices and self.types and (missing := [one for one in self.types if one not in prices]):
            raise ValueError(f"prices must name each type; missing: {', '.join(missing)}")

    def prices_of(self, types: Sequence[str]) -> list[float]:
        """Return the price of an hour on each type: of one that is not named, the highest."""
        prices = weights(self.prices, "prices", "TYPE=PRICE")
        most = max(prices.values(), default=1.0)
        return [prices.get(one, most) for one in types]

    @cached_property
    def objective(self) -> Allocator:
        """What divides the time; it brings SciPy."""
        from tesched_policies.gavel.allocators.registry import policy  # noqa: PLC0415 - SciPy, where it is needed

        return policy(self.allocator)

    @cached_property
    def standing(self) -> JobWeights:
        """How much jobs count. Raises ValueError for a weight that is none."""
        return JobWeights(
            qos_weights=weights(self.qos_weights, "qos_weights"),
            most_weight=self.most_weight,
            entity=self.entity,
            entity_weights=weights(self.entity_weights, "entity_weights"),
            in_order=frozenset(self.in_order),
        )

    @property
    def shares(self) -> bool:
        """Whether two jobs may share a GPU."""
        return self.allocator in SHARING
