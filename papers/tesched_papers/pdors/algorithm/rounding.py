"""Randomised rounding: how much to blow up a fraction before it is rounded, and what is then guaranteed.

Definitions
    program        min c x with A x >= a (covering, m rows) and B x <= b (packing, n rows), x whole and >= 0.
    width          W_a = min a_i / A_ij over A_ij > 0, W_b = min b_i / B_ij over B_ij > 0: how many units of the
                   largest kind a row holds. The larger, the less one unit more or less matters.
    delta          the probability with which a guarantee may be broken, above 0, at most 1.

Principle
    x' = G x for the optimum x of the linear program; each entry goes to floor(x') or, with probability x' - floor(x'),
    to the next whole number, so that its mean stays x'. By Chernoff's bounds, with probability 1 - delta at once:

    G <= 1   packing holds; covering reaches (1 - sqrt(2 ln(3 m / delta) / (G W_a))) G a, if G >= 1/2
    G >= 1   covering holds; packing stays below (1 + sqrt(3 ln(3 n / delta) / (G W_b))) G b, if that root is <= 1
    both     the cost is at most 3 G / delta times the linear program's (Markov)

Worked example
    One packing row, W_b = 100, delta = 0.3: q = 3 ln(10) / 200 = 0.0345, G = 1 + q - sqrt(q^2 + 2 q) = 0.769.

Source
    PD-ORS (model.py), theorems on G_delta; docs/discussion/pdors.md has the derivation.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray


def favour_packing(width: float, rows: int, delta: float) -> float:
    """Return G <= 1, so that packing rows of this width W_b hold: (1 - G)^2 / G = 3 ln(3 rows / delta) / W_b.

    The guarantee needs G >= 1/2: Chernoff's bound in this form is for at most twice the mean.
    """
    q = 3.0 * log(3.0 * rows / delta) / (2.0 * width)
    return 1.0 + q - sqrt(q * q + 2.0 * q)


def favour_covering(width: float, rows: int, delta: float) -> float:
    """Return G >= 1, so that covering rows of this width W_a hold: (G - 1)^2 / G = 2 ln(3 rows / delta) / W_a."""
    q = log(3.0 * rows / delta) / width
    return 1.0 + q + sqrt(q * q + 2.0 * q)


def covered(gain: float, *, width: float, rows: int, delta: float) -> float:
    """Return which part of `a` is covered at least; 0 where nothing is guaranteed."""
    return max(gain * (1.0 - sqrt(2.0 * log(3.0 * rows / delta) / (gain * width))), 0.0)


def packed(gain: float, *, width: float, rows: int, delta: float) -> float:
    """Return how many times `b` is taken at most, under the condition that the root is at most 1."""
    return gain * (1.0 + sqrt(3.0 * log(3.0 * rows / delta) / (gain * width)))


def cost_factor(gain: float, delta: float) -> float:
    """Return how many times the linear program's cost is paid at most."""
    return 3.0 * gain / delta


def rounded(x: NDArray[np.float64], gain: float, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return G x rounded up with its fraction's probability, else down.

    `uniforms` are independent and even over [0, 1), of the shape of `x` or with more axes before it: one draw each.
    """
    scaled = gain * x
    # What a solver leaves of a whole number stays that number.
    down = np.floor(scaled + 1e-9)
    return np.asarray(down + (uniforms < scaled - down), dtype=np.int64)
