"""Basis of an allocation: what time was divided by besides the jobs and the GPUs that there are.

An admin changes it by a reload or a new table of speeds, a user by another `weight=` or `slo=`. A job may wait for days
without another one that comes or goes, so the time is divided again for that, too, at the beginning of the next round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

from tesched_core.policy import View

from tesched_policies.gavel.avoid_moves import ALIKE
from tesched_policies.gavel.jobs import GavelJobs, Kinds
from tesched_policies.gavel.parameters import GavelParameters
from tesched_policies.gavel.state import GavelState, JobRounds


def with_basis(
    state: GavelState, parameters: GavelParameters, view: View, kinds: Kinds, managed: GavelJobs
) -> GavelState:
    """State of an allocation that was made just now, with what it rests on."""
    counts = _counts(parameters, view, managed)
    jobs = {
        job.job_id: replace(state.jobs[job.job_id], speeds=tuple(managed.throughput[row].tolist()), counts=counts[row])
        for row, job in enumerate(managed.jobs)
    }
    return replace(state, rests_on=_digest(parameters, view, kinds), jobs={**state.jobs, **jobs})


def is_another(state: GavelState, parameters: GavelParameters, view: View, kinds: Kinds, managed: GavelJobs) -> bool:
    """Check whether an allocation that is made now would rest on another basis than the last one."""
    if state.rests_on != _digest(parameters, view, kinds):
        return True
    for row, (job, counts) in enumerate(zip(managed.jobs, _counts(parameters, view, managed), strict=True)):
        known = state.jobs.get(job.job_id, JobRounds())
        if known.counts != counts or _differ(known.speeds, managed.throughput[row].tolist()):
            return True
    return False


def _digest(parameters: GavelParameters, view: View, kinds: Kinds) -> str:
    """Digest of what holds for all jobs: the allocator, prices, weights of entities, speeds of workloads in pairs."""
    standing, beside = parameters.standing, view.snapshot.beside if parameters.shares else {}
    parts = (
        parameters.allocator,
        parameters.prices_of(kinds.names),
        sorted(standing.entity_weights.items()),
        sorted(standing.in_order),
        sorted((both, sorted(speeds.items())) for both, speeds in beside.items()),
    )
    return f"{crc32(repr(parts).encode()):08x}"


def _counts(parameters: GavelParameters, view: View, managed: GavelJobs) -> list[str]:
    """Words on how each job counts, [jobs]: its weight, its deadline, its entity."""
    standing, traits = parameters.standing, view.snapshot.traits
    return [standing.said(job, traits[job.job_id], of_entities=True) for job in managed.jobs]


def _differ(before: Sequence[float], now: Sequence[float]) -> bool:
    """Check whether one speed is another by more than what counts as the same: jobs measure them again and again."""
    return len(before) != len(now) or any(
        abs(one - other) > ALIKE * max(one, other) for one, other in zip(before, now, strict=True)
    )
