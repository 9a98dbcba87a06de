"""Memories of policies about a job, for `tesched explain`: a policy is imported where the store has a memory of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tesched_core.model.resources import UnixSeconds
from tesched_db.views import JobStory

from tesched_cli.common import clock, hostlist


class StateTypes(Mapping[str, type[Any]]):
    """Types of what the installed policies remember, by the policy's name."""

    def __getitem__(self, name: str) -> type[Any]:
        """Type of one. Raises KeyError."""
        return _state_types()[name]

    def __iter__(self) -> Iterator[str]:
        """Names of those that have a memory."""
        return iter(_state_types())

    def __len__(self) -> int:
        """Count of them."""
        return len(_state_types())


def _state_types() -> Mapping[str, type[Any]]:
    from tesched_policies.registry import STATES  # noqa: PLC0415 - searches for policies, and imports each

    return STATES


class _Shown:
    """Times and nodes as `explain` writes them."""

    def time(self, at: UnixSeconds) -> str:
        return clock(at)

    def nodes(self, names: Iterable[str]) -> str:
        return hostlist(tuple(names))


def described(story: JobStory) -> Iterator[str]:
    """Yield what policies say of the job, from what they remember."""
    if not story.policy_states:
        return
    from tesched_policies.registry import INSTALLED  # noqa: PLC0415 - as above

    for name, state in story.policy_states.items():
        try:
            yield from INSTALLED[name]().describe(state, story.job.job_id, _Shown())
        except Exception as error:  # noqa: BLE001 - a site's own code: the rest of the story is shown all the same
            yield f"  the policy {name} cannot say what it has in mind for it: {type(error).__name__}: {error}"
