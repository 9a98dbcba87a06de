"""Gavel's policies by name."""

from __future__ import annotations

from tesched_policies.gavel.allocators.cost import Cost
from tesched_policies.gavel.allocators.fifo import Fifo
from tesched_policies.gavel.allocators.ftf import FinishTimeFairness
from tesched_policies.gavel.allocators.hierarchical import Hierarchical
from tesched_policies.gavel.allocators.las import Las
from tesched_policies.gavel.allocators.makespan import Makespan
from tesched_policies.gavel.allocators.problem import Allocator
from tesched_policies.gavel.allocators.sjf import ShortestFirst

#: Every policy, with its parameters.
POLICIES: dict[str, Allocator] = {
    known.name: known
    for known in (
        Las(),
        Las(name="las-agnostic", aware=False),
        Las(name="las-sharing", sharing=True),
        FinishTimeFairness(),
        FinishTimeFairness(name="ftf-agnostic", aware=False),
        FinishTimeFairness(name="ftf-sharing", sharing=True),
        Makespan(),
        Makespan(name="makespan-agnostic", aware=False),
        Makespan(name="makespan-sharing", sharing=True),
        Fifo(),
        Fifo(name="fifo-agnostic", aware=False),
        Fifo(name="fifo-sharing", sharing=True),
        ShortestFirst(),
        ShortestFirst(name="sjf-agnostic", aware=False),
        Cost(),
        Cost(name="cost-slo", deadlines=True),
        Cost(name="cost-sum", what="cost-sum"),
        Cost(name="cost-sum-slo", what="cost-sum", deadlines=True),
        Cost(name="throughput", what="throughput"),
        Hierarchical(),
        Hierarchical(name="hierarchical-agnostic", aware=False),
        Hierarchical(name="hierarchical-sharing", sharing=True),
    )
}


def policy(name: str) -> Allocator:
    """Return the policy of this name.

    Raises:
        ValueError: there is none; lists those that there are.
    """
    if name not in POLICIES:
        raise ValueError(f"no such policy: {name!r}; there are {', '.join(sorted(POLICIES))}")
    return POLICIES[name]
