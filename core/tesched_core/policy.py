"""What a policy is asked and what it answers. A policy proposes; it never acts, and it drops nobody in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.cluster import Job
from tesched_core.model.columns import Ends, Running, Waiting
from tesched_core.model.decision import Refusals, Why
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.room import Room
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.demand import Demand


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Eligibility:
    """Which running jobs may not be asked, said by the guard."""

    #: [running] row of `whys`; -1: it may be asked
    why: NDArray[np.intp]
    whys: Sequence[Why]

    @property
    def may_be_asked(self) -> NDArray[np.bool_]:
        """Return [running] who may be asked."""
        return self.why < 0


class Rivals(Protocol):
    """Says whether somebody else waits whom room would suit that is given for a while."""

    def somebody_fits(self, row: int, free: NDArray[np.int64]) -> bool:
        """Return whether a waiting job of no TE class may fit into `free` [resources] of the room's node `row`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a TE policy looks at."""

    snapshot: Snapshot
    memory: Memory
    #: TE jobs for which Slurm would start if there were room, in the order in which they are served
    waiting: tuple[Job, ...]
    #: BE jobs that hold nodes: all of them, whether they may be asked or not
    running: Running
    eligibility: Eligibility
    #: free room, in which what open orders will free is free and what they wait for is taken
    room: Room
    #: who else waits, where victims may be suspended; None: they are requeued
    rivals: Rivals | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A proposal: let these go, so that the preemptor starts there."""

    preemptor: JobId
    #: where room is made; empty if it is to come free by itself, wherever that is
    nodes: tuple[str, ...]
    #: (job, score); empty if the room is free already, or is to come free by itself
    victims: tuple[tuple[JobId, float], ...]
    #: the victims' CPUs are enough: they are suspended, not requeued
    by_suspending: bool = False
    #: until when room is awaited that comes free by itself; the policy is asked again all the while
    waits_until: UnixSeconds | None = None
    #: it has victims, which are asked once Slurm has seen the preemptor at the head of its queue (`first_look`)
    awaits_look: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A policy's answer."""

    plans: tuple[Plan, ...]
    refusals: Refusals


class TePolicy(Protocol):
    """Chooses who yields to whom."""

    @property
    def name(self) -> str:
        """Return the name that the configuration uses."""
        ...

    def propose(self, view: View) -> Proposal:
        """Return plans, at most one a waiting job, and a refusal for whoever was looked at and not taken."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BeView:
    """What a best-effort policy looks at."""

    now: UnixSeconds
    #: BE jobs that wait for room, highest priority first
    waiting: Waiting
    #: free room, in which what open orders will free is not free yet, and what they wait for is taken
    room: Room
    ends: Ends
    #: TE jobs that wait, and that nobody makes room for at the moment: they come before every BE job
    ahead: tuple[Demand, ...]
    #: those of `waiting` that were brought forward already, and shall start any moment
    forwarded: frozenset[JobId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A proposal: let this job be next."""

    job_id: JobId
    #: where it fits now
    nodes: tuple[str, ...]
    #: one sentence: why it, and whom it does not delay
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeProposal:
    """A best-effort policy's answer."""

    forward: tuple[Forward, ...]
    refusals: Refusals


@runtime_checkable
class BePolicy(Protocol):
    """Chooses who is next."""

    @property
    def name(self) -> str:
        """Return the name that the configuration uses."""
        ...

    def propose(self, view: BeView) -> BeProposal:
        """Return whom to bring forward, and a refusal for whoever fits and was passed over."""
        ...
