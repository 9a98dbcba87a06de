"""Patience: for how long no other job is to leave for a TE job, by its owner's word (`--comment="te patience=300"`).

Definitions
    patience    seconds since the TE job became eligible: submitted, its begin time come, its dependency fulfilled

Principle
    Until then the job has no victim, whatever the policy and the lever. Its place in the queue stays as it is, and it
    starts on resources that are free. It delays victims, and nothing else: a plan without victims is none of its
    business, and what was notified before its owner said so leaves.

    The policy `patient` has a patience of its own, for all TE jobs of a site (`patience_s`), which begins at the same
    moment: of both the longer one counts. The owner's word can't shorten the site's.

Worked example
    A job with patience=300 became eligible at 9:00, on a full cluster. Until 9:05 the guard refuses its plans that have
    victims, with the code `patience`. A node comes free at 9:03: it starts there. Else its victim is notified at 9:05.
"""

from __future__ import annotations

from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode, Why
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Traits


def patience_ends(job: Job, traits: Traits) -> UnixSeconds | None:
    """Return from when on a TE job may have victims, by its owner's word; None: its owner says nothing of that."""
    if not traits.patience_s:
        return None
    return (job.submit_time if job.eligible_time is None else job.eligible_time) + traits.patience_s


def why_it_waits(job: Job, traits: Traits, now: UnixSeconds) -> Why | None:
    """Reason that a TE job has no victims yet, by its owner's word; None if it may have some."""
    ends_at = patience_ends(job, traits)
    if ends_at is None or now >= ends_at:
        return None
    text = f"no other job is to leave for it yet, by its owner's word (patience={traits.patience_s:g})"
    return RefusalCode.PATIENCE, text
