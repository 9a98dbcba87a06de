"""State of slaq from poll to poll: what is known of each training, and the last allocation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tesched_core.model.resources import JobId, UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingState:
    """State of one training besides its newest losses. Units are CPUs, or GPUs where it has any."""

    #: the first report that was heard
    first_iteration: int
    first_loss: float
    #: most that the loss fell in one iteration
    largest_drop: float = 0.0
    #: the newest report, and unit-seconds that were used since the first one until then, and since then
    iteration: int = 0
    used_s: float = 0.0
    since_s: float = 0.0
    #: loss at the last allocation
    loss_then: float | None = None
    #: gain that is expected until the next one, with what it had, or what it would start with; None: not known
    gain: float | None = None
    #: the same of each unit, and of each task: of a job that is no array, all of it
    gain_each: float | None = None
    gain_task: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaqState:
    """State of slaq: the trainings, and the last allocation."""

    #: up to when unit-seconds are counted
    counted_at: UnixSeconds
    #: when the last allocation was made, and when the next one is due
    allocated_at: UnixSeconds = 0.0
    next_at: UnixSeconds = 0.0
    trainings: Mapping[JobId, TrainingState] = field(default_factory=dict)
    #: workers that each elastic array should have
    shares: Mapping[JobId, int] = field(default_factory=dict)
    #: the waiting job, no array, that was brought to the head of the queue, and since when
    first: JobId | None = None
    first_at: UnixSeconds = 0.0
    #: why each has what it has, as of the last allocation
    said: Mapping[JobId, str] = field(default_factory=dict)

    def due_at(self, epoch_s: float) -> UnixSeconds:
        """Time of the next allocation: sooner than it was to be, where epochs are shorter by now."""
        return min(self.next_at, self.allocated_at + epoch_s)

    def shifted(self, by_s: float) -> SlaqState:
        """Return the state as it is to be read after the clock was set."""
        return replace(
            self,
            counted_at=self.counted_at + by_s,
            allocated_at=self.allocated_at + by_s,
            next_at=self.next_at + by_s,
            first_at=self.first_at + by_s,
        )
