"""Jobs that train: when they come, what an iteration costs, and every loss that they will report.

Definitions
    normalised loss   (L - last L) / (first L - last L): 1 at the first iteration, 0 at the last.
    load              core-seconds of all iterations of all jobs, over cores x jobs x mean gap.

The curves are fits to published loss logs of SLAQ's authors (docs/discussion/slaq.md), each job's stretched in k by a
factor of its own. As in the logs a loss hardly jumps: it is the steps that wander. Each step down is multiplied by a
lognormal factor of mean 1 whose logarithm is autocorrelated, with a spread read off the logs; two kinds have
a jitter besides.

Source
    SLAQ, section 6 (160 jobs, a mean gap of 15 s, 640 cores); kinds, sizes, limits and the law of the gaps as in its
    authors' driver. What an iteration costs in core-seconds is not known: it is proportional to the share of the data
    set, and scaled so that the load is met.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from tesched_policies.slaq.curves import Family, Floats, Ints
from tesched_sim.workload import WorkloadError

#: how far the logarithm of a step is kept from one iteration to the next
KEPT = 0.5
#: spread of the logarithm of the factor by which a job's curve is stretched
STRETCH = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """An algorithm on a data set."""

    name: str
    #: the curve that the authors' scripts predict it with
    family: Family
    #: sublinear: a, b, c; linear: mu, b, 0; of the loss between 1 and 0
    curve: tuple[float, float, float]
    #: the loss that the log begins and ends with
    first: float
    last: float
    #: iterations
    count: int
    #: spread of the logarithm of a step
    wander: float
    #: spread of what is added to each loss, as a part of first - last
    jitter: float = 0.0
    #: shares of the data set, in turn
    sizes: tuple[float, ...] = (0.1, 0.5, 1.0)


_SUB, _LIN = Family.SUBLINEAR, Family.LINEAR
SVM = Kind(name="svm", family=_SUB, curve=(0, 0.083, 0.988), first=1.0, last=0.407, count=100, wander=0.02)
LOGREG = Kind(name="logreg", family=_LIN, curve=(0.739, 0.67, 0), first=0.693, last=0.2508, count=100, wander=1.0)
LINREG = Kind(
    name="linreg",
    family=_LIN,
    curve=(0.652, 1.11, 0),
    first=0.5,
    last=0.3813,
    count=100,
    wander=0.7,
    jitter=1e-7,
    sizes=(1.0,),
)
MLPC = Kind(name="mlpc", family=_LIN, curve=(0.911, 0.73, 0), first=0.838, last=0.229, count=60, wander=1.2)
LDA = Kind(
    name="lda",
    family=_SUB,
    curve=(1.24e-4, 0.415, 0.578),
    first=8.931,
    last=8.318,
    count=200,
    wander=0.15,
    jitter=1.5e-4,
)
GBT = Kind(name="gbt", family=_SUB, curve=(0, 0.01556, 0.825), first=1.2075, last=0.6217, count=199, wander=0.1)
GBT_REGRESSION = Kind(
    name="gbt-regression", family=_SUB, curve=(0, 0.01213, 0.895), first=130.0, last=81.16, count=270, wander=0.3
)
SVM_POLYNOMIAL = Kind(
    name="svm-polynomial",
    family=_SUB,
    curve=(0.0497, 0.112, 0.848),
    first=136.35,
    last=2.6685,
    count=99,
    wander=0.02,
)

#: Which kinds come in turn: the authors' driver has four of them, the paper's figures eight.
MIXES = {
    "four": (SVM, LOGREG, LINREG, MLPC),
    "eight": (SVM, LOGREG, LINREG, MLPC, LDA, GBT, GBT_REGRESSION, SVM_POLYNOMIAL),
}


class Gaps(StrEnum):
    """Distributions of the time from one submission to the next."""

    #: a Poisson process: exponential gaps
    RANDOM = "random"
    #: whole seconds drawn from a Poisson distribution, as the authors' driver does: nearly regular
    REGULAR = "regular"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters."""

    jobs: int = 160
    cores: int = 640
    #: seconds
    mean_gap_s: float = 15.0
    gaps: Gaps = Gaps.RANDOM
    load: float = 0.9
    mix: str = "four"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Jobs:
    """A generated workload; jobs in the order of their submission."""

    kinds: tuple[Kind, ...]
    #: [jobs] seconds
    submit_s: Floats
    #: [jobs] core-seconds an iteration
    cost_core_s: Floats
    #: [jobs] iterations
    count: Ints
    #: [jobs][iterations] the losses, and normalised
    losses: tuple[Floats, ...]
    normalised: tuple[Floats, ...]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.kinds)


def make(plan: Plan, seed: int) -> Jobs:
    """Return the jobs of a seed. Raises WorkloadError if the plan makes no sense."""
    _check(plan)
    rng = np.random.default_rng(seed)
    mix = MIXES[plan.mix]
    kinds = tuple(mix[place % len(mix)] for place in range(plan.jobs))
    if plan.gaps is Gaps.RANDOM:
        gaps = rng.exponential(plan.mean_gap_s, plan.jobs)
    else:
        gaps = rng.poisson(plan.mean_gap_s, plan.jobs).astype(np.float64)
    losses = tuple(losses_of(kind, rng) for kind in kinds)
    count = np.array([kind.count for kind in kinds], dtype=np.int64)
    size = np.array([kind.sizes[place // len(mix) % len(kind.sizes)] for place, kind in enumerate(kinds)])
    offered = plan.load * plan.cores * plan.jobs * plan.mean_gap_s
    return Jobs(
        kinds=kinds,
        submit_s=np.cumsum(gaps) - gaps[0],
        cost_core_s=size * (offered / float((size * count).sum())),
        count=count,
        losses=losses,
        normalised=tuple((loss - loss[-1]) / (loss[0] - loss[-1]) for loss in losses),
    )


def losses_of(kind: Kind, rng: np.random.Generator, *, noise: float = 1.0) -> Floats:
    """Return the losses [iterations] that one job of the kind reports; `noise` scales how its steps wander."""
    stretch = float(np.exp(STRETCH * rng.standard_normal()))
    k = 1 + (np.arange(kind.count) / stretch)
    first, second, third = kind.curve
    smooth = 1 / ((first * k + second) * k + third) if kind.family is Family.SUBLINEAR else first ** (k - second)
    steps = -np.diff(smooth) * _factors(kind.count - 1, noise * kind.wander, rng)
    fallen = np.concatenate([[0.0], np.cumsum(steps)])
    fallen[1:-1] += noise * kind.jitter * fallen[-1] * rng.standard_normal(kind.count - 2)
    loss: Floats = kind.first - (kind.first - kind.last) * fallen / fallen[-1]
    return loss


def _factors(count: int, spread: float, rng: np.random.Generator) -> Floats:
    """Return lognormal factors of mean 1 whose logarithms follow each other (AR(1))."""
    fresh = rng.standard_normal(count)
    logarithm = np.empty(count)
    logarithm[0] = fresh[0]
    for place in range(1, count):
        logarithm[place] = KEPT * logarithm[place - 1] + np.sqrt(1 - KEPT**2) * fresh[place]
    factors: Floats = np.exp(spread * logarithm - spread**2 / 2)
    return factors


def _check(plan: Plan) -> None:
    if plan.mix not in MIXES:
        raise WorkloadError(f"mix {plan.mix!r} is not known: {', '.join(MIXES)}")
    if plan.jobs < 1 or plan.cores < 1:
        raise WorkloadError(f"{plan.jobs} jobs on {plan.cores} cores: at least one of each is needed")
    for name, value in (("load", plan.load), ("mean gap", plan.mean_gap_s)):
        if not 0 < value < np.inf:
            raise WorkloadError(f"{name} {value:g}: a number above 0 is needed")
