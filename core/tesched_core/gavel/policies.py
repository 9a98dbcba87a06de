"""Gavel's policies by name."""

from __future__ import annotations

from tesched_core.gavel.las import Las
from tesched_core.gavel.problem import Policy

#: Every policy, with its parameters.
POLICIES: dict[str, Policy] = {
    known.name: known
    for known in (
        Las(),
        Las(name="las-agnostic", aware=False),
        Las(name="las-sharing", sharing=True),
    )
}


def policy(name: str) -> Policy:
    """Return the policy of this name.

    Raises:
        ValueError: there is none; lists those that there are.
    """
    if name not in POLICIES:
        raise ValueError(f"no such policy: {name!r}; there are {', '.join(sorted(POLICIES))}")
    return POLICIES[name]
