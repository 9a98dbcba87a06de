"""Rounds in which two jobs may share accelerators: which runs where, alone or beside another.

Definitions
    combination    a job alone, or a pair of jobs on the same accelerators (problem.py).
    claim          what a combination has on a type: priority, deficit, fraction; as in rounds.py, but of the pair as a
                   whole: it has received what both spent there together.

Principle
    As in rounds.py, with combinations in the place of jobs: one type after the other takes them by falling priority,
    deficit, fraction; a job alone before a pair, then by age. A job that is placed, alone or in a pair, is not placed
    again in this round. A pair takes the accelerators of one of its jobs. Accelerators to which none is entitled go
    to jobs alone: they are faster there than in a pair that is not entitled.

Worked example
    One GPU, three jobs; the pair of a and b has X = 1/2, c alone 1/2. Nothing was received, so both have the same
    priority; c goes first, since it is alone. In the next round the pair has received less and both its jobs run.

Parameters
    none

Source
    OSDI 2020, sections 3.2 and 5. That a pair is placed at once, and each job once a round, is the paper's; the
    order among equals, and that pairs get no left-over resources, is tesched's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_policies.gavel.round_scheduling import NOWHERE

#: of `Placed`: the job is alone
ALONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Claims of jobs alone, or of pairs, on each type; (rows, T) each."""

    priority: NDArray[np.float64]
    deficit_s: NDArray[np.float64]
    share: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Placed:
    """A round."""

    #: each job's type, (M,), or NOWHERE
    kind: NDArray[np.intp]
    #: the job with which it shares its accelerators, (M,), or ALONE
    partner: NDArray[np.intp]


def assign_sharing(
    types: Sequence[int],
    alone: Claims,
    pairs: Claims,
    members: NDArray[np.int64],
    *,
    throughput: NDArray[np.float64],
    scale_factor: NDArray[np.int64],
    capacity: NDArray[np.int64],
) -> Placed:
    """Return the round.

    `types` is the order in which types choose; `alone` has a row for each job, in the order of arrival; `pairs` has one
    for each row of `members`, (K, 2), of jobs with the same scale factor. `throughput`, (M, T), is that of jobs alone;
    `scale_factor`, (M,), and `capacity`, (T,), are in accelerators.
    """
    jobs = len(scale_factor)
    kinds, partner = np.full(jobs, NOWHERE, dtype=np.intp), np.full(jobs, ALONE, dtype=np.intp)
    columns = [
        np.concatenate([one, two])
        for one, two in (
            (alone.priority, pairs.priority),
            (alone.deficit_s, pairs.deficit_s),
            (alone.share, pairs.share),
        )
    ]
    priority, deficit_s, share = columns
    for kind in types:
        unassigned = int(capacity[kind])
        may = np.concatenate([throughput[:, kind] > 0, pairs.priority[:, kind] > 0])
        rows = np.flatnonzero(may)
        order = rows[np.lexsort((-share[rows, kind], -deficit_s[rows, kind], -priority[rows, kind]))]
        for row in order.tolist():
            if not unassigned:
                break
            first, second = (row, row) if row < jobs else members[row - jobs].tolist()
            size = int(scale_factor[first])
            if kinds[first] != NOWHERE or kinds[second] != NOWHERE or size > unassigned:
                continue
            kinds[first] = kinds[second] = kind
            if first != second:
                partner[first], partner[second] = second, first
            unassigned -= size
    return Placed(kinds, partner)
