"""FitGpp's synthetic workload, as far as it is known.

The paper draws run times, demands and grace periods from truncated normal distributions that were fitted to its
authors' cluster, and submits jobs so that the cluster's load under FIFO stays at 2.0. Means are given for some of them,
variances for none. What is marked "paper" below was recalled from the paper with fair or low confidence (no text of it
beyond the abstract is public); what is marked "ours" is a guess, to be swept.

Source: Yabuuchi, Taniwaki, Omura, OpML 2019, arXiv 1902.01613, section on the evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tesched_sim.engine import holding_load
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError
from tesched_sim.workloads.beyond import Beyond, check_size

MINUTE_S = 60.0
MIB_PER_GIB = 1024
#: part of the draws that must lie between their bounds: each of the others is drawn anew
LEAST_SHARE = 1e-3

_MEANS = ("cpus_mean", "mem_gib_mean", "gpus_mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitGppWorkload(Beyond):
    """Every parameter of it. A mean and a spread are those of the normal distribution before it is cut off."""

    #: paper
    jobs: int = 2**16
    #: paper
    nodes: int = 84
    #: paper, of each node
    cpus: int = 32
    mem_gib: int = 256
    gpus: int = 8
    #: paper
    te_share: float = 0.3
    #: paper: what runs and waits under FIFO, as a part of the cluster
    load: float = 2.0
    #: minutes; mean and maximum paper, spread ours
    te_run_mean: float = 5.0
    te_run_spread: float = 5.0
    te_run_max: float = 30.0
    #: minutes; mean and maximum paper, spread ours
    be_run_mean: float = 30.0
    be_run_spread: float = 30.0
    be_run_max: float = 24 * 60.0
    #: minutes; mean and maximum paper, spread ours
    grace_mean: float = 3.0
    grace_spread: float = 3.0
    grace_max: float = 20.0
    #: ours, all of these
    cpus_mean: float = 8.0
    mem_gib_mean: float = 64.0
    gpus_mean: float = 2.0
    #: spread of each demand, as a part of its mean
    demand_spread: float = 1.0
    #: every grace period times this (the paper has a figure with longer ones)
    grace_times: float = 1.0

    def __post_init__(self) -> None:
        """Raise WorkloadError for what cannot be drawn."""
        self.check()
        if self.jobs < 1 or self.nodes < 1:
            raise WorkloadError("workload: jobs and nodes must be at least 1")
        check_size(self.jobs, self.nodes)
        if not 0 <= self.te_share <= 1:
            raise WorkloadError("workload.te_share must be between 0 and 1")
        if not self.load > 0:
            raise WorkloadError("workload.load must be above 0")
        for name in ("te_run_spread", "be_run_spread", "grace_spread", "demand_spread", *_MEANS):
            if not getattr(self, name) > 0:
                raise WorkloadError(f"workload.{name} must be above 0")


def fitgpp(parameters: FitGppWorkload, seed: int) -> Workload:
    """Return the workload of a seed; times are whole minutes, as in the paper. Takes a run of FIFO to time the jobs."""
    return holding_load(without_times(parameters, seed), parameters.load)


def without_times(parameters: FitGppWorkload, seed: int) -> Workload:
    """Return its jobs, all submitted at once."""
    p = parameters
    rng = np.random.default_rng(seed)
    te = rng.random(p.jobs) < p.te_share
    te_run = truncated_normal(rng, p.te_run_mean, p.te_run_spread, (0.5, p.te_run_max), p.jobs, keys=keys_of("te_run"))
    be_run = truncated_normal(rng, p.be_run_mean, p.be_run_spread, (0.5, p.be_run_max), p.jobs, keys=keys_of("be_run"))
    run_min = np.maximum(np.rint(np.where(te, te_run, be_run)), 1)
    wants = [
        truncated_normal(
            rng, mean, p.demand_spread * mean, (0.5, most), p.jobs, keys=(f"{of}_mean", "demand_spread", of)
        )
        for of, mean, most in (
            ("cpus", p.cpus_mean, p.cpus),
            ("mem_gib", p.mem_gib_mean, p.mem_gib),
            ("gpus", p.gpus_mean, p.gpus),
        )
    ]
    demand = np.maximum(np.rint(np.column_stack(wants)), 1).astype(np.int64)
    demand[:, 1] *= MIB_PER_GIB
    grace_min = np.rint(drawn_grace(rng, p, p.jobs)) * p.grace_times
    return Workload.of(
        "fitgpp",
        SimulatedNodes.alike(p.nodes, cpus=p.cpus, mem_mib=p.mem_gib * MIB_PER_GIB, gpus=p.gpus),
        submit_s=np.zeros(p.jobs),
        run_s=run_min * MINUTE_S,
        demand=demand,
        te=te,
        grace_s=grace_min * MINUTE_S,
        notes=(
            f"FitGpp's synthetic workload: {p.jobs} jobs, {p.te_share:.0%} TE, load {p.load} under FIFO",
            "demands' means and all spreads are our guesses: the paper's are not public",
        ),
    )


class HasGrace(Protocol):
    """Parameters of grace periods, in minutes."""

    @property
    def grace_mean(self) -> float:
        """Mean of the normal distribution before it is cut off."""

    @property
    def grace_spread(self) -> float:
        """Its spread."""

    @property
    def grace_max(self) -> float:
        """Longest one."""


def drawn_grace(rng: np.random.Generator, p: HasGrace, count: int) -> NDArray[np.float64]:
    """Draw so many grace periods, in minutes. Raises WorkloadError."""
    bounds = (0.0, p.grace_max)
    return truncated_normal(rng, p.grace_mean, p.grace_spread, bounds, count, keys=keys_of("grace"))


def keys_of(drawn: str) -> tuple[str, ...]:
    """Keys of what is drawn between bounds."""
    return tuple(f"{drawn}_{of}" for of in ("mean", "spread", "max"))


def truncated_normal(
    rng: np.random.Generator,
    mean: float,
    spread: float,
    bounds: tuple[float, float],
    count: int,
    *,
    keys: Sequence[str],
) -> NDArray[np.float64]:
    """Return `count` draws from a normal distribution, each drawn again until it lies between the bounds.

    Raises WorkloadError, which names the keys, if less than `LEAST_SHARE` of the draws would: it took without end.
    """
    least, most = bounds
    if not _share(mean, spread, least, most) >= LEAST_SHARE:
        named = ", ".join(f"workload.{key}" for key in keys)
        drawn_from = f"a normal distribution with mean {mean:g} and spread {spread:g}"
        raise WorkloadError(f"{named}: less than 1 in 1,000 draws from {drawn_from} is from {least:g} to {most:g}")
    drawn = rng.normal(mean, spread, count)
    while True:
        out = np.flatnonzero((drawn < least) | (drawn > most))
        if not len(out):
            return drawn
        drawn[out] = rng.normal(mean, spread, len(out))


def _share(mean: float, spread: float, least: float, most: float) -> float:
    """Share of a normal distribution's draws that lie between two bounds."""
    if spread == 0:
        return float(least <= mean <= most)
    below, above = ((bound - mean) / (spread * sqrt(2)) for bound in (least, most))
    return (erf(above) - erf(below)) / 2
