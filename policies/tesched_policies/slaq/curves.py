"""Loss curves: the two families that SLAQ predicts with, many jobs at once.

Definitions
    k              an iteration; k = 1 is the first with a known loss. Need not be whole.
    origin         the iteration that a curve is written from, the newest one that was fitted; n = k - origin.
    sublinear      1 / (a n^2 + b n + c) + asymptote: gradient descent, boosting, EM. a, b, c >= 0.
    linear         amplitude * exp(-rate * n) + asymptote: (quasi-)Newton methods. amplitude, rate >= 0.

No curve rises. A linear one falls ever more slowly; a sublinear one does so from where b^2 >= a c.

Each family is closed under a change of the origin, of the unit of the loss and of the unit of k.

Source
    SLAQ (Zhang, Stafman, Or, Freedman, SoCC 2017), section 4: f(k) = 1/(a k^2 + b k + c) + d and f(k) = mu^(k-b) + c.
    The second is written here as amplitude * exp(-rate * n): mu = exp(-rate), and mu^-b is an amplitude. The paper's b
    >= 0 would say that the amplitude at k = 0 is at least 1, whatever the unit of the loss; here it is at least 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Family(IntEnum):
    """Families of curves."""

    SUBLINEAR = 0
    LINEAR = 1


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """One curve a job, as columns."""

    #: [jobs] values of Family
    family: NDArray[np.int8]
    #: [jobs] the iteration at which n = 0
    origin: Floats
    #: [jobs, 3] sublinear: a, b, c; linear: amplitude, rate, 0
    shape: Floats
    #: [jobs] what the loss goes towards
    asymptote: Floats

    def __len__(self) -> int:
        """Count them."""
        return len(self.family)

    def take(self, rows: Ints) -> Curves:
        """Return the curves of these rows."""
        return Curves(self.family[rows], self.origin[rows], self.shape[rows], self.asymptote[rows])

    def put(self, rows: Ints, others: Curves) -> None:
        """Write other curves into these rows; only the maker of the columns does this."""
        self.family[rows], self.origin[rows] = others.family, others.origin
        self.shape[rows], self.asymptote[rows] = others.shape, others.asymptote

    def above(self, iteration: Floats) -> Floats:
        """Height of each curve above its asymptote; `iteration` is [jobs] or [jobs, any]."""
        tail = (slice(None),) + (None,) * (iteration.ndim - 1)
        n = iteration - self.origin[tail]
        first, second, third = (self.shape[:, place][tail] for place in range(3))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            sublinear = 1 / ((first * n + second) * n + third)
            linear = first * np.exp(-second * n)
        return np.where((self.family == Family.SUBLINEAR)[tail], sublinear, linear)

    def loss(self, iteration: Floats) -> Floats:
        """Return the loss of each; `iteration` is [jobs] or [jobs, any]."""
        tail = (slice(None),) + (None,) * (iteration.ndim - 1)
        return self.above(iteration) + self.asymptote[tail]

    def moved(self, origin: Floats) -> Curves:
        """Return the same curves written from other iterations [jobs]."""
        by = origin - self.origin
        first, second, third = self.shape.T
        sublinear = np.stack([first, second + 2 * first * by, (first * by + second) * by + third], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            linear = np.stack([first * np.exp(-second * by), second, third], axis=1)
        shape = np.where((self.family == Family.SUBLINEAR)[:, None], sublinear, linear)
        return Curves(self.family, origin, shape, self.asymptote)


def flat(origin: Floats, loss: Floats) -> Curves:
    """Return curves that stay where they are: [jobs] the newest iteration, [jobs] the loss."""
    family = np.full(len(loss), Family.LINEAR, dtype=np.int8)
    return Curves(family, np.array(origin), np.zeros((len(loss), 3)), np.array(loss))


def geometric(origin: Floats, loss: Floats, ratio: Floats, asymptote: Floats) -> Curves:
    """Return curves that come closer to an asymptote [jobs] by a ratio [jobs] an iteration, from a loss [jobs].

    A ratio of 1 or more is a curve that stays where it is. Source: the rule of the authors' scheduler
    (docs/discussion/slaq.md), with an asymptote of 0.
    """
    amplitude = np.maximum(loss - asymptote, 0)
    rate = -np.log(np.clip(ratio, 1e-12, 1.0))
    shape = np.stack([amplitude, rate, np.zeros_like(rate)], axis=1)
    family = np.full(len(loss), Family.LINEAR, dtype=np.int8)
    return Curves(family, np.array(origin), shape, loss - amplitude)
