"""The names of Gavel's policies, for whoever has to know them and not the policies: these bring SciPy with them."""

from __future__ import annotations

#: those that Slurm can bring about, and those that share accelerators among jobs
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
SHARING = ("fifo-sharing", "ftf-sharing", "hierarchical-sharing", "las-sharing", "makespan-sharing")
