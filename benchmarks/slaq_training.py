"""One worker of slaq_slurm's trainings: `slaq_training.py KIND FOLDER SECONDS SLICES SLICE_S`, run by Slurm.

Real trainings on made data, in NumPy: gradient descent for logistic and linear regression, a support vector machine and
a small network. What a slice computes takes a millisecond or two; the rest of SLICE_S it sleeps, as if it had a core of
its own and more data. Losses are those of the training.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Jobs run this file as it is.
sys.path[:0] = [str(Path(__file__).parents[1] / place) for place in ("docs/examples", "report")]

from elastic import Arrays, work  # noqa: E402 - found there

Floats = NDArray[np.float64]
#: rows of data, over all slices
ROWS, FEATURES, HIDDEN = 4800, 20, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A training."""

    iterations: int
    rate: float
    start: Callable[[], Arrays]
    #: model, x [rows, features], y [rows] -> sum of losses, and of gradients by name
    part: Callable[[Arrays, Floats, Floats], Arrays]
    #: targets are 0 or 1
    classes: bool = True


@lru_cache(maxsize=100)
def data(index: int, rows: int, *, classes: bool) -> tuple[Floats, Floats]:
    """Return a slice of the data."""
    rng = np.random.default_rng(index)
    # Features of different scales: what makes gradient descent slow.
    x = rng.normal(size=(rows, FEATURES)) * np.geomspace(1, 0.2, FEATURES)
    truth = np.random.default_rng(99).normal(size=FEATURES) * np.geomspace(1, 4, FEATURES)
    y = x @ truth + 0.5 * rng.normal(size=rows)
    return x, (y > 0).astype(np.float64) if classes else y


def _zeros() -> Arrays:
    return {"w": np.zeros(FEATURES)}


def _logistic(model: Arrays, x: Floats, y: Floats) -> Arrays:
    score = x @ model["w"]
    wrong = 1 / (1 + np.exp(-score)) - y
    return {"loss": np.logaddexp(0, score).sum() - y @ score, "w": x.T @ wrong}


def _linear(model: Arrays, x: Floats, y: Floats) -> Arrays:
    off = x @ model["w"] - y
    return {"loss": np.array(off @ off / 2), "w": x.T @ off}


def _svm(model: Arrays, x: Floats, y: Floats) -> Arrays:
    """Return the squared hinge loss, which has a gradient everywhere."""
    side = 2 * y - 1
    short = np.maximum(1 - side * (x @ model["w"]), 0)
    return {"loss": np.array(short @ short / 2), "w": -x.T @ (side * short)}


def _net_start() -> Arrays:
    rng = np.random.default_rng(5)
    return {"a": rng.normal(size=(FEATURES, HIDDEN)) * 0.3, "b": rng.normal(size=HIDDEN) * 0.3}


def _net(model: Arrays, x: Floats, y: Floats) -> Arrays:
    hidden = np.tanh(x @ model["a"])
    score = hidden @ model["b"]
    wrong = 1 / (1 + np.exp(-score)) - y
    back = np.outer(wrong, model["b"]) * (1 - hidden**2)
    return {"loss": np.logaddexp(0, score).sum() - y @ score, "a": x.T @ back, "b": hidden.T @ wrong}


KINDS = {
    "svm": Kind(iterations=60, rate=0.3, start=_zeros, part=_svm),
    "logistic": Kind(iterations=60, rate=3.0, start=_zeros, part=_logistic),
    "linear": Kind(iterations=40, rate=0.5, start=_zeros, part=_linear, classes=False),
    "network": Kind(iterations=80, rate=1.0, start=_net_start, part=_net),
}


def worker(kind: Kind, folder: Path, seconds: float, slices: int, slice_s: float) -> bool:
    """Work on a training; return whether it is done."""

    def part(model: Arrays, index: int) -> Arrays:
        began = time.monotonic()
        x, y = data(index, ROWS // slices, classes=kind.classes)
        made = {name: np.asarray(value) / (slices * len(x)) for name, value in kind.part(model, x, y).items()}
        time.sleep(max(slice_s - (time.monotonic() - began), 0))
        return made

    def step(model: Arrays, total: Arrays) -> Arrays:
        return {name: model[name] - kind.rate * total[name] for name in kind.start()}

    return work(
        folder,
        seconds=seconds,
        slices=slices,
        start=kind.start,
        part=part,
        step=step,
        iterations=kind.iterations,
        lease_s=20 * slice_s,
    )


def main() -> None:
    """Be one task of the array."""
    name, folder, seconds, slices, slice_s = sys.argv[1:]
    done = worker(KINDS[name], Path(folder), float(seconds), int(slices), float(slice_s))
    if done and "SLURM_ARRAY_JOB_ID" in os.environ:
        subprocess.run(["scancel", "--state=PENDING", os.environ["SLURM_ARRAY_JOB_ID"]], check=False)


if __name__ == "__main__":
    main()
