"""State of gavel from poll to poll: rounds, shares, and the time that each job has received."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tesched_core.model.resources import JobId, UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRounds:
    """One job's part. The tuples are by type, in the order of `GavelState.types`; empty: nothing was allocated yet."""

    #: fraction of the time that it should spend on each type
    share: tuple[float, ...] = ()
    #: seconds that it has spent on each type since the allocation, and what it was behind by before it
    received_s: tuple[float, ...] = ()
    deficit_s: tuple[float, ...] = ()
    #: its type in this round; -1: it waits
    kind: int = -1
    #: the job that shares its GPU in this round, or should
    partner: JobId | None = None
    #: seconds that its work until the last allocation would have taken with an equal part of the cluster
    isolated_s: float = 0.0
    #: steps a second with an equal part of the cluster, by the last allocation
    isolated_speed: float = 0.0
    #: seconds by which its work until the last allocation would have taken less on the type on which it is fastest
    slower_s: float = 0.0
    #: steps a second on each type, and how it counts in words (weights.py), by the last allocation; empty: none
    speeds: tuple[float, ...] = ()
    counts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRounds:
    """The part of two jobs on one GPU, as a job's."""

    #: the lower id first
    jobs: tuple[JobId, JobId]

    share: tuple[float, ...]
    received_s: tuple[float, ...]
    deficit_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelState:
    """State of gavel: the present round, and what each job has received."""

    #: accelerator types; state of other types is of no use
    types: tuple[str, ...]
    began_at: UnixSeconds
    ends_at: UnixSeconds
    #: up to when `received_s` is counted
    counted_at: UnixSeconds
    #: when time was last allocated, among how many jobs
    solved_at: UnixSeconds
    solved_jobs: int = 0
    #: GPUs of each type that there were to be divided then
    solved_gpus: tuple[int, ...] = ()
    #: digest of what else it rests on (basis.py); empty: an earlier release has not kept it
    rests_on: str = ""
    #: jobs have come or gone since
    changed: bool = True
    #: seconds that each type has given since
    given_s: tuple[float, ...] = ()
    jobs: Mapping[JobId, JobRounds] = field(default_factory=dict)
    #: the pairs to which time is allocated
    shared: tuple[PairRounds, ...] = ()
    #: why the allocation is not the policy's own optimum; empty: it is
    fallback: str = ""

    @property
    def pairs(self) -> Mapping[tuple[JobId, JobId], PairRounds]:
        """Return the pairs to which time is allocated, by their jobs."""
        return {one.jobs: one for one in self.shared}

    def due_at(self, round_s: float) -> UnixSeconds:
        """End of this round: sooner than when it began, where rounds are shorter by now."""
        return min(self.ends_at, self.began_at + round_s)

    def shifted(self, by_s: float) -> GavelState:
        """Return the state as it is to be read after the clock was set."""
        return replace(
            self,
            began_at=self.began_at + by_s,
            ends_at=self.ends_at + by_s,
            counted_at=self.counted_at + by_s,
            solved_at=self.solved_at + by_s,
        )
