"""A plain mix: jobs come at random (Poisson), each class has its own run times and sizes. All numbers are ours."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError
from tesched_sim.workloads.arrivals import poisson_arrivals
from tesched_sim.workloads.beyond import Beyond, check_size
from tesched_sim.workloads.fill import typed_limits
from tesched_sim.workloads.fitgpp import MIB_PER_GIB, MINUTE_S, drawn_grace

_LAWS = ("exponential", "lognormal")
_WEIGHTED_SIZE = re.compile(r"(\d{1,6}):(\d{1,9}(?:\.\d{1,9})?)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonWorkload(Beyond):
    """The parameters."""

    #: how many are submitted
    jobs: int = 10_000
    #: how many, all alike
    nodes: int = 84
    #: CPUs of each node
    cpus: int = 32
    #: GiB of memory of each node
    mem_gib: int = 256
    #: GPUs of each node
    gpus: int = 8
    #: offered load: what the jobs take over the time in which they come, as a part of the tightest resource
    load: float = 0.9
    #: submissions an hour; 0: as many as give the load
    rate_per_hour: float = 0.0
    #: how many of the jobs are TE, as a part of 1
    te_share: float = 0.3
    #: how run times are distributed: exponential, or lognormal, which has more of the very short and the very long
    run_times: str = "exponential"
    #: minutes, before what lies outside `run_min` and `run_max` is set to them
    te_run_mean: float = 5.0
    be_run_mean: float = 60.0
    #: minutes, the standard deviation of lognormal run times; that of exponential ones is their mean
    te_run_spread: float = 10.0
    be_run_spread: float = 120.0
    #: minutes
    run_min: float = 0.5
    run_max: float = 24 * 60.0
    #: how many GPUs a job wants, and how often, in any unit: GPUS:WEIGHT/GPUS:WEIGHT. CPUs and memory are in
    #: proportion; what is more than a node has is spread over as few nodes as hold it
    te_sizes: str = "1:6/2:2/4:1/8:1"
    be_sizes: str = "1:4/2:2/4:2/8:2"
    #: grace periods, minutes: a normal distribution, each drawn again until it lies between 0 and `grace_max`
    grace_mean: float = 3.0
    grace_spread: float = 3.0
    grace_max: float = 20.0
    #: time limit by run time: median of a lognormal factor, at least 1; then rounded up to what people type
    limit_factor: float = 2.0
    #: standard deviation of that factor's logarithm
    limit_spread: float = 0.7

    def __post_init__(self) -> None:
        """Raise WorkloadError for what cannot be drawn."""
        self.check()
        for name in ("jobs", "nodes", "cpus", "mem_gib", "gpus"):
            if getattr(self, name) < 1:
                raise WorkloadError(f"workload.{name} must be at least 1")
        check_size(self.jobs, self.nodes)
        if not 0 <= self.te_share <= 1:
            raise WorkloadError("workload.te_share must be between 0 and 1")
        above_0 = ("load", "te_run_mean", "be_run_mean", "te_run_spread", "be_run_spread", "run_min", "grace_spread")
        for name in (*above_0, "grace_max", "limit_factor"):
            if not getattr(self, name) > 0:
                raise WorkloadError(f"workload.{name} must be above 0")
        for name in ("rate_per_hour", "limit_spread"):
            if not getattr(self, name) >= 0:
                raise WorkloadError(f"workload.{name} must be at least 0")
        if not self.run_min <= self.run_max:
            raise WorkloadError(f"workload.run_max must not be below workload.run_min, {self.run_min:g}")
        if not 0 <= self.grace_mean <= self.grace_max:
            raise WorkloadError(f"workload.grace_mean must be between 0 and workload.grace_max, {self.grace_max:g}")
        if self.run_times not in _LAWS:
            raise WorkloadError(f"workload.run_times must be {' or '.join(_LAWS)}, not {self.run_times}")
        for name in ("te_sizes", "be_sizes"):
            sizes, _ = _weighted_sizes(name, getattr(self, name))
            if sizes.max() > self.gpus * self.nodes:
                text = f"{sizes.max()} GPUs are more than the cluster has, {self.gpus * self.nodes}"
                raise WorkloadError(f"workload.{name}: {text}")


def poisson(parameters: PoissonWorkload, seed: int) -> Workload:
    """Return the workload of a seed."""
    p = parameters
    rng = np.random.default_rng(seed)
    te = rng.random(p.jobs) < p.te_share
    run_s = np.clip(_run_min(rng, te, p), p.run_min, p.run_max) * MINUTE_S
    gpus = np.where(te, _drawn(rng, "te_sizes", p), _drawn(rng, "be_sizes", p))
    nodes = np.ceil(gpus / p.gpus).astype(np.int64)
    gpus_per_node = np.ceil(gpus / nodes)
    part = gpus_per_node / p.gpus
    demand = np.column_stack(
        [np.maximum(p.cpus * part, 1), np.maximum(p.mem_gib * MIB_PER_GIB * part, 1), gpus_per_node]
    ).astype(np.int64)
    capacity = np.array([p.cpus, p.mem_gib * MIB_PER_GIB, p.gpus], dtype=np.float64) * p.nodes
    offered_s = float(((demand * (nodes * run_s)[:, np.newaxis]).sum(axis=0) / capacity).max())
    span_s = p.jobs / p.rate_per_hour * 3600 if p.rate_per_hour else offered_s / p.load
    grace_min = np.rint(drawn_grace(rng, p, p.jobs))
    return Workload.of(
        "poisson",
        SimulatedNodes.alike(p.nodes, cpus=p.cpus, mem_mib=p.mem_gib * MIB_PER_GIB, gpus=p.gpus),
        submit_s=poisson_arrivals(rng, p.jobs, span_s),
        run_s=run_s,
        limit_s=typed_limits(run_s, p.limit_factor, p.limit_spread, rng),
        nodes=nodes,
        demand=demand,
        te=te,
        grace_s=grace_min * MINUTE_S,
        notes=(
            f"Poisson arrivals: {p.jobs} jobs, {p.jobs / span_s * 3600:.0f} an hour; {te.mean():.0%} TE",
            f"offered load {offered_s / span_s:.2f}; run times are {p.run_times}, and nothing here is measured",
        ),
    )


def _run_min(rng: np.random.Generator, te: NDArray[np.bool_], p: PoissonWorkload) -> NDArray[np.float64]:
    """Return run times in minutes, not yet cut off."""
    mean = np.where(te, p.te_run_mean, p.be_run_mean)
    if p.run_times == "exponential":
        return rng.exponential(mean)
    # The mean and the standard deviation are those of the run times, and not of their logarithms.
    variance = np.log1p((np.where(te, p.te_run_spread, p.be_run_spread) / mean) ** 2)
    return rng.lognormal(np.log(mean) - variance / 2, np.sqrt(variance))


def _drawn(rng: np.random.Generator, key: str, p: PoissonWorkload) -> NDArray[np.int64]:
    sizes, weights = _weighted_sizes(key, getattr(p, key))
    return rng.choice(sizes, size=p.jobs, p=weights / weights.sum())


def _weighted_sizes(key: str, text: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return numbers of GPUs and their weights. Raises WorkloadError, naming the key.

    A comma would be taken by `--set`, which tries each of several values.
    """
    found = [_WEIGHTED_SIZE.fullmatch(word) for word in text.split("/")]
    pairs = [(int(one[1]), float(one[2])) for one in found if one is not None]
    if len(pairs) < len(found) or min(size for size, _ in pairs) < 1 or not sum(weight for _, weight in pairs) > 0:
        right = "must be GPUS:WEIGHT/GPUS:WEIGHT, such as 1:6/2:2, with whole numbers of GPUs and a weight above 0"
        raise WorkloadError(f"workload.{key} {right}; it is {text!r}")
    return np.array([size for size, _ in pairs], dtype=np.int64), np.array([weight for _, weight in pairs])
