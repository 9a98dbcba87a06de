"""Jobs that are as fast on one type as on another stay where they are: on Slurm each move is a preemption.

Definitions
    alike    two types on which a job's speeds differ by at most 1 %.
    share, received, deficit, priority    as in rounds.py.

Principle
    In the paper's rounds no job pays for a start. So it does not matter there that a job that has not been on a
    type for long is first on it, and that two jobs as fast on the one type as on the other change places. What
    such a job gets done hangs on the sum of its time on types that are alike, and on nothing else. So
    - time on the one is booked as time on the other, each by its part of the share (`booked`): a job that was on
      one of them for as long as it should be on all has had its part of all;
    - and it stays where it is if resources are free besides, or if the job that should come there, of the same size, is
      as fast where it would have gone: then that one goes there (`kept`). No job gets another speed, none waits.

Worked example
    One GPU of each of two types, three jobs that do 2 steps/s on either, X = 1/3 throughout. a and b have been on the
    first and the second type for a round of 360 s, c has waited. By type, a and b would now be first where they were
    not; they would change places, and c wait on. Booked, a and b have had 180 s of each type: c comes first on the
    first type, and on the second a and b are equal, and a is older. So a should move to the second and c come to the
    first; both are as fast the other way round: a stays, b leaves for c.

Parameters
    none

Source
    Ours. OSDI 2020, section 5, leaves open which is taken among equals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tesched_policies.gavel.round_scheduling import NOWHERE

#: Two speeds that differ by at most this part of the greater are as good as the same.
ALIKE = 0.01


def alike(throughput: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each job which types are alike, (M, T, T), from its steps/s, (M, T); each type is to itself."""
    one, other = throughput[:, :, None], throughput[:, None, :]
    low = np.minimum(one, other)
    same = (low > 0) & (low >= (1 - ALIKE) * np.maximum(one, other))
    return np.asarray(same | np.eye(throughput.shape[1], dtype=np.bool_))


def booked(
    received_s: NDArray[np.float64], share: NDArray[np.float64], alike_types: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Time that each job received, (M, T) seconds, with its time on types that are alike divided by its shares.

    The sum over types stays what it is; time on types of which the job has no share stays where it was spent.
    """
    group = np.einsum("mjk,mk->mj", alike_types, share)[:, :, None]
    # From each type, what goes to each that is alike to it.
    part = np.divide(alike_types * share[:, None, :], group, out=np.zeros(alike_types.shape), where=group > 0)
    moved = np.einsum("mj,mjk->mk", received_s, part)
    return np.asarray(moved + np.where(group[:, :, 0] > 0, 0.0, received_s))


def kept(
    before: NDArray[np.intp],
    after: NDArray[np.intp],
    *,
    alike_types: NDArray[np.bool_],
    scale_factor: NDArray[np.int64],
    capacity: NDArray[np.int64],
) -> NDArray[np.intp]:
    """Return `after` without the moves that bring no job anything, (M,).

    `before` and `after` are types or NOWHERE, (M,); `scale_factor`, (M,), and `capacity`, (T,), as in `assign`.
    """
    found = after.copy()
    moves = np.flatnonzero((before != NOWHERE) & (after != NOWHERE) & (before != after))
    unassigned = capacity.copy()
    there = after != NOWHERE
    np.subtract.at(unassigned, after[there], scale_factor[there])
    changed = True
    while changed:  # each time round one more has stayed
        changed = False
        for row in moves.tolist():
            home, away, size = before[row], found[row], scale_factor[row]
            if home == away or not alike_types[row, home, away]:
                continue
            if unassigned[home] >= size:
                unassigned[home] -= size
                unassigned[away] += size
            else:
                comes = np.flatnonzero((found == home) & (before != home) & (scale_factor == size))
                comes = comes[alike_types[comes, home, away]]
                if len(comes) == 0:
                    continue
                # Best one that was there: then two stay.
                found[comes[np.argmax(before[comes] == away)]] = away
            found[row] = home
            changed = True
    return found
