"""The names of Gavel's policies, for code that needs the names alone: the policies bring SciPy with them."""

from __future__ import annotations

#: those that share no accelerators among jobs, those that do, and those of these that are not for Slurm: what a job got
#: done beside another, without which its isolated time is not known, is not measured there
ALONE = (
    "cost",
    "cost-slo",
    "cost-sum",
    "cost-sum-slo",
    "fifo",
    "fifo-agnostic",
    "ftf",
    "ftf-agnostic",
    "hierarchical",
    "hierarchical-agnostic",
    "las",
    "las-agnostic",
    "makespan",
    "makespan-agnostic",
    "sjf",
    "sjf-agnostic",
    "throughput",
)
SHARING = ("fifo-sharing", "hierarchical-sharing", "las-sharing", "makespan-sharing")
SIMULATED = ("ftf-sharing",)
#: those whose objective has the price of each type
BY_PRICE = ("cost", "cost-slo", "cost-sum", "cost-sum-slo")
