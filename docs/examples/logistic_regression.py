"""Logistic regression by gradient descent, as a worker of an elastic job array: `logistic_regression.py FOLDER`."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from elastic import Arrays, work

SLICES, ROWS, FEATURES = 16, 2000, 30
RATE, ITERATIONS = 2.0, 150


def data(index: int) -> Arrays:
    """Return one slice of the data; a real training would read its file."""
    rng = np.random.default_rng(index)
    x = rng.normal(size=(ROWS, FEATURES))
    truth = np.random.default_rng(99).normal(size=FEATURES)
    return {"x": x, "y": (x @ truth + rng.normal(size=ROWS) > 0).astype(np.float64)}


def part(model: Arrays, index: int) -> Arrays:
    """Return this slice's part of loss and gradient."""
    one = data(index)
    score = one["x"] @ model["w"]
    right = 1 / (1 + np.exp(-score))
    count = SLICES * ROWS
    loss = np.logaddexp(0, score).sum() - one["y"] @ score
    return {"loss": np.array(loss / count), "gradient": one["x"].T @ (right - one["y"]) / count}


def step(model: Arrays, total: Arrays) -> Arrays:
    """Return the model after one step."""
    return {"w": model["w"] - RATE * total["gradient"]}


done = work(
    Path(sys.argv[1]),
    seconds=float(os.environ.get("TASK_SECONDS", "60")),
    slices=SLICES,
    start=lambda: {"w": np.zeros(FEATURES)},
    part=part,
    step=step,
    iterations=ITERATIONS,
)
if done and "SLURM_ARRAY_JOB_ID" in os.environ:
    # Nothing is left for the tasks that wait.
    subprocess.run(["scancel", "--state=PENDING", os.environ["SLURM_ARRAY_JOB_ID"]], check=False)
