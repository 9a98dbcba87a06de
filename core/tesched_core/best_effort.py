"""What a best-effort policy is asked and what it answers: who of those that wait should be next.

It runs after the TE policy and sees the room that the orders leave. It names jobs that fit into what is free now; they
are brought to the head of the best-effort queue, and Slurm starts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tesched_core.decision import Refusals
from tesched_core.fit import Demand, Room
from tesched_core.overview import Waiting
from tesched_core.resources import JobId, UnixSeconds
from tesched_core.shadow import Ends


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
