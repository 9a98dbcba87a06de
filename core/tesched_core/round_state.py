"""What a policy that goes in rounds remembers from look to look. Data only; the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tesched_core.resources import JobId, UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRounds:
    """One job's part. The tuples are by type, in the order of `RoundState.types`; empty: nothing was allocated yet."""

    #: fraction of the time that it should spend on each type
    share: tuple[float, ...] = ()
    #: seconds that it has spent on each type since the allocation, and what it was behind by before it
    received_s: tuple[float, ...] = ()
    deficit_s: tuple[float, ...] = ()
    #: its type in this round; -1: it waits
    kind: int = -1
    #: seconds that its work until the last allocation would have taken with an equal part of the cluster
    isolated_s: float = 0.0
    #: steps a second with an equal part of the cluster, by the last allocation
    isolated_speed: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """All of it."""

    #: accelerator types; state of other types is of no use
    types: tuple[str, ...]
    began_at: UnixSeconds
    ends_at: UnixSeconds
    #: up to when `received_s` is counted
    counted_at: UnixSeconds
    #: when time was last allocated, among how many jobs
    solved_at: UnixSeconds
    solved_jobs: int = 0
    #: jobs have come or gone since
    changed: bool = True
    #: seconds that each type has given since
    given_s: tuple[float, ...] = ()
    jobs: Mapping[JobId, JobRounds] = field(default_factory=dict)
    #: jobs that tesched holds until it is their turn, since when
    held: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: why the allocation is not the policy's own optimum; empty: it is
    fallback: str = ""
