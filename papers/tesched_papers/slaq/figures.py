"""Figures of a run, and policies beside each other: means over seeds, differences seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tesched_sim.reports.compare import Estimate, estimate

from tesched_papers.slaq.run import LEVELS, Outcome

_LEVEL_KEYS = tuple(f"to_{100 * level:.0f}_s" for level in LEVELS)

#: Titles by key, in the order in which they are shown. Times are means over jobs, seconds from the submission.
TITLES: Mapping[str, str] = {
    "mean_loss": "normalised loss, mean over running jobs",
    **{key: f"s to {100 * level:.0f} % of the loss reduction" for key, level in zip(_LEVEL_KEYS, LEVELS, strict=True)},
    "to_end_s": "s to the last iteration",
    "share_top": "cores of the 25 % with the highest loss",
    "share_next": "cores of the next 25 %",
    "share_rest": "cores of the 50 % with the lowest loss",
    "running": "running jobs, mean",
    "ended_s": "s until all had ended",
    "allocations": "allocations",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One policy under one load."""

    policy: str
    load: float
    #: by the keys of TITLES; what no seed has is missing
    figures: Mapping[str, Estimate]
    #: in per cent of the baseline's, which has none
    difference_percent: Mapping[str, Estimate]


def figures(outcome: Outcome) -> dict[str, float]:
    """Return a run's figures by the keys of TITLES."""
    levels = dict(zip(_LEVEL_KEYS, outcome.level_s.mean(axis=0).tolist(), strict=True))
    top, second, rest = outcome.core_shares
    found = {
        "mean_loss": outcome.mean_loss,
        **levels,
        "to_end_s": float(outcome.done_s.mean()),
        "share_top": top,
        "share_next": second,
        "share_rest": rest,
        "running": outcome.mean_running,
        "ended_s": outcome.ended_s,
        "allocations": float(outcome.allocations),
    }
    return {key: value for key, value in found.items() if not np.isnan(value)}


def row(policy: str, load: float, mine: Sequence[Mapping[str, float]], base: Sequence[Mapping[str, float]]) -> Row:
    """Return a row from the figures of each seed, and those of the baseline in the same seeds; none: no differences."""
    means, differences = {}, {}
    for key in TITLES:
        values = [seed[key] for seed in mine if key in seed]
        if values:
            means[key] = estimate(values)
        pairs = zip(mine, base, strict=True) if base else ()
        changes = [100 * (seed[key] / other[key] - 1) for seed, other in pairs if key in seed and other.get(key)]
        if changes:
            differences[key] = estimate(changes)
    return Row(policy=policy, load=load, figures=means, difference_percent=differences)
