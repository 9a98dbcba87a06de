"""Jobs that are alike are one: the same program with far fewer variables.

A cluster's jobs are of a few models, and jobs of one model are as fast as each other, alone and in pairs. Where a
linear program has equal jobs, their places can be exchanged in any optimum; the mean of all the exchanged
optima is an optimum, too (the program is convex), and gives all of them the same. So it is enough to find the sums
over jobs that are alike, and to divide them evenly.

Pairs can be merged if the pairs of two kinds of jobs are all there and all alike. If some are not, nothing is merged.
A sum over pairs is divided so that every job has the same part of it, with few partners: of n jobs of one kind and m
of another, lined up along two rulers of equal length, those share whose pieces lie side by side, as long as they do.
Within one kind the first shares with the second, the third with the fourth; if they are odd, the last three take turns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tesched_policies.gavel.allocators.constraints import Combinations


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Kinds of jobs and kinds of columns."""

    #: 1 for each job of the kind, (kinds of jobs, M).
    members: sparse.csr_array
    #: One job of each kind, (kinds of jobs,).
    job: NDArray[np.intp]
    #: One column of each kind, (kinds of columns,).
    lead: NDArray[np.intp]
    #: Kind of each column, (n,).
    kind: NDArray[np.intp]
    #: Its part of the sum over its kind, (n,).
    part: NDArray[np.float64]

    def split(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the columns' values, (n,), from the sums over each kind of columns."""
        return np.asarray(self.part * sums[self.kind])


def merge(space: Combinations, traits: NDArray[np.float64]) -> Merged:
    """Merge jobs, and columns, that are alike.

    Args:
        space: The columns.
        traits: What else the program knows of a job, (M, anything).
    """
    alone = np.zeros((space.jobs, space.types))
    alone[space.row[: space.singles], space.column[: space.singles]] = space.speed[: space.singles]
    known = np.column_stack((traits, space.scale_factor, alone))
    _, job, kind_of = np.unique(known, axis=0, return_index=True, return_inverse=True)
    # numpy 2.0 gives the inverse another shape.
    kind_of = kind_of.reshape(-1)
    kinds, size = len(job), np.bincount(kind_of, minlength=len(job))
    if kinds == space.jobs:
        return _apart(space)
    pair = np.arange(len(space.first)) >= space.singles
    swapped = kind_of[space.first] > kind_of[space.second]
    one, other = np.where(swapped, space.second, space.first), np.where(swapped, space.first, space.second)
    low, high = kind_of[one], kind_of[other]
    code = ((low * kinds + high) * 2 + pair) * space.types + space.column
    _, lead, kind, count = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
    alike = pair & (low == high)
    every = np.where(alike, size[low] * (size[low] - 1) // 2, np.where(pair, size[low] * size[high], size[low]))
    speeds = np.where(swapped, space.second_speed, space.speed), np.where(swapped, space.speed, space.second_speed)
    same = all(bool((speed == speed[lead][kind]).all()) for speed in speeds)
    if not (same and (count == every[lead]).all() and (speeds[0] == speeds[1])[alike].all()):
        return _apart(space)
    rank = np.empty(space.jobs, dtype=np.int64)
    rank[np.argsort(kind_of, kind="stable")] = np.concatenate([np.arange(each) for each in size])
    part = np.where(pair, _beside(rank[one], size[low], rank[other], size[high]), 1 / size[low])
    return Merged(
        members=sparse.csr_array((np.ones(space.jobs), (kind_of, np.arange(space.jobs))), shape=(kinds, space.jobs)),
        job=job,
        lead=lead,
        kind=kind,
        part=np.where(alike, _in_twos(rank[one], rank[other], size[low]), part),
    )


def _beside(
    i: NDArray[np.int64], n: NDArray[np.intp], k: NDArray[np.int64], m: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Overlap of the i-th of n pieces and the k-th of m pieces of the ruler, as a part of the ruler."""
    common = np.minimum((i + 1) * m, (k + 1) * n) - np.maximum(i * m, k * n)
    return np.asarray(np.maximum(common, 0) / (n * m))


def _in_twos(i: NDArray[np.int64], k: NDArray[np.int64], n: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the part of the pair of the i-th and the k-th of n alike."""
    low, high = np.minimum(i, k), np.maximum(i, k)
    odd = n % 2 == 1
    three = odd & (low >= n - 3)
    two = (low % 2 == 0) & (high == low + 1) & ~(odd & (high >= n - 3))
    return np.asarray((two * 2.0 + three * 1.0) / n)


def _apart(space: Combinations) -> Merged:
    """Return every job and every column as a kind of its own."""
    columns, jobs = np.arange(len(space.row)), np.arange(space.jobs)
    return Merged(
        members=sparse.eye_array(space.jobs, format="csr"),
        job=jobs,
        lead=columns,
        kind=columns,
        part=np.ones(len(columns)),
    )
