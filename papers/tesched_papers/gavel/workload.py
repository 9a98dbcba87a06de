"""The jobs that Gavel's authors made up, one by one and without end, from a seed: theirs to the last digit.

Each job is one of 26 models with a batch size. How long it would take on V100s is drawn first: for one job of five
10^U(3, 4) minutes, for the others 10^U(1.5, 3); what it has to do, in steps, follows from the measured speed there.
Jobs come at random, with exponential gaps. With several GPUs a job, 70 % have one, 10 % two, 15 % four and 5 % eight.

The draws are Python's `random.Random`, in a given order, from the seed plus 2 (jobs) and plus 3 (gaps): any other order
is another workload. Source: OSDI 2020, section 7.1, and the authors' generator, by its description.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log
from random import Random

import numpy as np
from numpy.typing import NDArray
from tesched_sim.workload import WorkloadError

from tesched_papers.gavel.throughputs import TYPES, Throughputs

#: the models, in the order in which they are drawn
MODELS = (
    *(f"ResNet-18 (batch size {size})" for size in (16, 32, 64, 128, 256)),
    *(f"ResNet-50 (batch size {size})" for size in (16, 32, 64, 128)),
    *(f"Transformer (batch size {size})" for size in (16, 32, 64, 128, 256)),
    *(f"LM (batch size {size})" for size in (5, 10, 20, 40, 80)),
    *(f"Recommendation (batch size {size})" for size in (512, 1024, 2048, 4096, 8192)),
    "A3C",
    "CycleGAN",
)
#: those that run on one GPU alone
ONE_GPU_ONLY = ("Recommendation", "A3C", "CycleGAN")
_REFERENCE = TYPES.index("v100")


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelJob:
    """One job."""

    #: 0, 1, 2, …, in the order in which they come
    index: int
    model: str
    #: GPUs that it needs at once
    scale_factor: int
    #: of the table of speeds
    row: int
    #: steps to do
    steps: float
    #: seconds after the first job
    arrival_s: float
    #: its weight (priority)
    weight: float
    #: (types,), steps/s alone
    throughput: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelWorkload:
    """Parameters of a workload."""

    #: mean gap between two arrivals, seconds; 0: all are there from the beginning
    mean_gap_s: float
    #: whether some jobs need several GPUs
    multi: bool = False
    #: whether one job of five has five times the weight
    weights: bool = False
    #: how many there are; None: they never end
    count: int | None = None

    def __post_init__(self) -> None:
        """Raise WorkloadError for a gap that is none, or for endlessly many jobs at once."""
        if self.mean_gap_s == 0 and self.count is None:
            raise WorkloadError("without a gap between arrivals the number of jobs must be given")
        if not 0 <= self.mean_gap_s < float("inf"):
            raise WorkloadError(f"a mean gap of {self.mean_gap_s} seconds between arrivals cannot be")

    def jobs(self, seed: int, speeds: Throughputs) -> Iterator[GavelJob]:
        """Yield the jobs. Raises WorkloadError if the table lacks the speed of one."""
        draw, gaps = Random(seed + 2), Random(seed + 3)  # noqa: S311 - not for secrets
        arrival_s, index = 0.0, 0
        while self.count is None or index < self.count:
            job = replace(_job(draw, speeds, multi=self.multi), index=index, arrival_s=arrival_s)
            if self.weights:
                job = replace(job, weight=5.0 if draw.uniform(0.0, 1.0) <= 0.2 else 1.0)
            yield job
            arrival_s += _gap_s(gaps, self.mean_gap_s)
            index += 1


def _job(draw: Random, speeds: Throughputs, *, multi: bool) -> GavelJob:
    share = draw.uniform(0.0, 1.0)  # drawn in any case
    scale_factor = (1 if share < 0.7 else 2 if share <= 0.8 else 4 if share <= 0.95 else 8) if multi else 1
    minutes = 10 ** draw.uniform(3.0, 4.0) if draw.random() >= 0.8 else 10 ** draw.uniform(1.5, 3.0)
    model = draw.choice(MODELS)
    while scale_factor > 1 and model.startswith(ONE_GPU_ONLY):
        model = draw.choice(MODELS)
    row = speeds.row.get((model, scale_factor))
    if row is None:
        raise WorkloadError(f"the table of speeds has no {model} on {scale_factor} GPUs")
    throughput = speeds.alone[row]
    return GavelJob(
        index=0,
        model=model,
        scale_factor=scale_factor,
        row=row,
        steps=60.0 * minutes * float(throughput[_REFERENCE]),
        arrival_s=0.0,
        weight=1.0,
        throughput=throughput,
    )


def _gap_s(gaps: Random, mean_s: float) -> float:
    return -log(1.0 - gaps.random()) * mean_s if mean_s > 0 else 0.0
