"""Cost of guard.bound for TE jobs: simulated sites under a TE load that is chosen, with and without a bound.

A site's BE jobs come as its workload has them. Its TE jobs are drawn from the workload's own until they ask for the
load that is wanted: the part of the cluster, in the resource that they ask most of, that they would hold on average
from the first submission to the last. They come at random over that time. Each has a time limit of at most
`TE_LIMIT_S`, its user is none of a BE job's, and BE jobs say how long they run (`run=`), or do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tesched_sim import traces
from tesched_sim.bound_use import BoundWatch
from tesched_sim.engine import Simulation
from tesched_sim.experiment import ExperimentSetting, Site, simulation
from tesched_sim.reports.summary import summarise
from tesched_sim.traces.finished import require_times
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError
from tesched_sim.workloads.fill import FillModel, fill, typed_limits
from tesched_sim.workloads.fitgpp import FitGppWorkload, fitgpp

#: guard.bound.te_time_limit_s: TE jobs of all workloads run for at most half an hour
TE_LIMIT_S = 1800.0
#: seconds between two polls: with the 5 s of a site, a table takes half a day
POLL_S = 60.0
#: users of either class
USERS = 50
#: what BE jobs of a trace ask for, as a part of the cluster, where the trace has as many
BE_LOAD = 0.9
HOUR_S = 3600.0
#: what is the same for all seeds of a case
_SAME = ("workload", "seed", "te_load", "slowdown", "said", "policy")
#: the workload that is not a trace
PAPER = "fitgpp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Where a workload's jobs come from."""

    #: `PAPER`, or a trace's file
    source: str
    nodes: int = 2
    #: of a trace: so many hours from this part of its submissions on
    hours: float = 3.0
    after: float = 0.5
    seed: int = 1

    @property
    def name(self) -> str:
        """Return its name in tables."""
        return self.source if self.source == PAPER else Path(self.source).stem


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run."""

    base: Base
    #: what TE jobs ask for, as a part of the cluster
    te_load: float
    #: B; None: no bound
    slowdown: float | None
    #: BE jobs say how long they run
    said: bool = True
    policy: str = "fitgpp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What came of one run, or of several (`together`). Seconds; parts from 0 to 1."""

    workload: str
    seed: int
    te_load: float
    slowdown: float | None
    said: bool
    policy: str
    be_load: float
    te_jobs: int
    be_jobs: int
    te_wait_p50_s: float | None
    te_wait_p95_s: float | None
    #: TE jobs that the bound kept waiting in a poll, and of those the ones that had not started at the last submission
    te_held: float
    te_held_not_started: float
    #: TE jobs that had not started then, for any reason
    te_not_started: float
    be_slowdown_mean: float | None
    be_slowdown_p50: float | None
    be_slowdown_p95: float | None
    #: D: by how much TE jobs have delayed BE jobs, by tesched's own account
    be_delay_p95_s: float | None
    #: the largest part of a bound that was used, and BE jobs that were delayed by more than their bounds: D less the
    #: time for which BE jobs kept a victim waiting
    most_of_bound: float | None
    beyond_bound: int
    preemptions: int


def offered(workload: Workload, jobs: NDArray[np.bool_]) -> float:
    """Return what these jobs ask for, as a part of the cluster from the first submission to the last."""
    capacity = workload.machines.total.sum(axis=0) * _span_s(workload)
    return float((_asked(workload)[jobs].sum(axis=0) / np.maximum(capacity, 1)).max())


def with_te_load(base: Workload, load: float, seed: int) -> Workload:
    """Return the BE jobs of a workload, and TE jobs drawn from its own that ask for this part of the cluster."""
    rng = np.random.default_rng(seed)
    be, te = np.flatnonzero(~base.te), np.flatnonzero(base.te)
    if not len(te):
        raise WorkloadError(f"{base.name}: there is no TE job to draw from")
    if base.submit_s[-1] <= base.submit_s[0]:
        raise WorkloadError(f"{base.name}: all jobs come at once; more hours would do")
    capacity = np.maximum(base.machines.total.sum(axis=0) * _span_s(base), 1)
    asked = _asked(base) / capacity
    each = max(float(asked[te].mean(axis=0).max()), 1e-12)
    drawn = te[rng.integers(0, len(te), 20 + int(2 * load / each))]
    sums = asked[drawn].cumsum(axis=0).max(axis=1)
    drawn = drawn[: int(np.abs(sums - load).argmin()) + 1]
    rows = np.concatenate([be, drawn])
    first, last = float(base.submit_s[0]), float(base.submit_s[-1])
    submit_s = np.concatenate([base.submit_s[be], rng.uniform(first, last, len(drawn))])
    is_te = np.arange(len(rows)) >= len(be)
    limit_s = typed_limits(base.run_s[rows], 2.0, 0.7, rng)
    limit_s = np.where(is_te, np.minimum(limit_s, TE_LIMIT_S), np.minimum(base.limit_s[rows], limit_s))
    return Workload.of(
        base.name,
        base.machines,
        submit_s=submit_s,
        run_s=base.run_s[rows],
        limit_s=np.maximum(limit_s, base.run_s[rows]),
        nodes=base.nodes[rows],
        demand=base.demand[rows],
        te=is_te,
        grace_s=base.grace_s[rows],
        restart_s=base.restart_s[rows],
        user=rng.integers(0, USERS, len(rows)) + np.where(is_te, USERS, 0),
        user_names=[f"{kind}{number}" for kind in ("be", "te") for number in range(USERS)],
    )


def knowing_runs(workload: Workload) -> Workload:
    """Return the same jobs, the BE ones with their true run times said."""
    known_s = np.where(workload.te, np.inf, workload.run_s)
    return replace(workload, expected_s=np.column_stack([known_s] * 3))


def made(base: Base) -> Workload:
    """Return the jobs of a site before its TE load is chosen. Raises WorkloadError."""
    if base.source != PAPER:
        return _of_trace(base)
    # A job of the mean size holds a quarter of a node for 24 minutes.
    jobs = int(base.nodes * base.hours * 60 / (0.3 * 24)) + 1
    return fitgpp(FitGppWorkload(jobs=jobs, nodes=base.nodes), base.seed)


def _of_trace(base: Base) -> Workload:
    path = Path(base.source)
    recorded = traces.read(path)
    require_times(recorded, path)
    began = float(np.quantile(recorded.submit_s, base.after))
    window_s = base.hours * HOUR_S
    inside = (recorded.submit_s >= began) & (recorded.submit_s <= began + window_s) & (recorded.run_s <= window_s)
    model = FillModel(nodes=base.nodes, te_by_size=True)
    most = model.gpus * base.nodes, model.cpus * base.nodes
    inside &= (recorded.gpus <= most[0]) & (recorded.cpus <= most[1])
    rows = np.flatnonzero(inside)
    if not len(rows):
        raise WorkloadError(f"{path}: no job of the {base.hours:g} hours after the part {base.after:g} of it is short")
    whole = fill(recorded.part(rows), model, base.seed).workload
    rng = np.random.default_rng(base.seed)
    be = rng.permutation(np.flatnonzero(~whole.te))
    capacity = np.maximum(whole.machines.total.sum(axis=0) * window_s, 1)
    sums = (_asked(whole)[be] / capacity).cumsum(axis=0).max(axis=1)
    kept = np.concatenate([be[: int(np.searchsorted(sums, BE_LOAD)) + 1], np.flatnonzero(whole.te)])
    return _rows(whole, np.sort(kept))


def watched(run: Simulation) -> BoundWatch:
    """Return what a run with a daemon says of the bound, also where none is set."""
    if run.daemon is None:
        raise ValueError("a run without tesched has no bound")
    watch = BoundWatch(run.slurm)
    run.daemon.counts_bystanders = True
    run.daemon.watchers.append(watch.saw)
    return watch


def setting_of(case: Case) -> ExperimentSetting:
    """Return the site of a case: as Slurm comes, with the submission hook."""
    values = {"site.poll_s": str(POLL_S), "site.hook": "true"}
    if case.slowdown is not None:
        values |= {"guard.bound.slowdown": str(case.slowdown), "guard.bound.te_time_limit_s": str(TE_LIMIT_S)}
    return ExperimentSetting.of(Site.SLURM).with_values(values)


def measured(case: Case) -> Line:
    """Return what came of one case. Raises WorkloadError."""
    workload = with_te_load(made(case.base), case.te_load, case.base.seed)
    if case.said:
        workload = knowing_runs(workload)
    setting = setting_of(case)
    run = simulation(case.policy, setting, workload)
    watch = watched(run)
    result = run.run()
    summary, te = summarise(result), workload.te
    last_s = float(workload.submit_s[-1])
    waits_s = (result.start_s - workload.submit_s)[te]
    late = ~(result.start_s <= last_s)
    used = np.zeros(1) if case.slowdown is None else watch.use(setting.guard).part[~te]
    held = watch.held & te
    slowdown = summary.be.bounded_slowdown
    return Line(
        workload=case.base.name,
        seed=case.base.seed,
        te_load=case.te_load,
        slowdown=case.slowdown,
        said=case.said,
        policy=case.policy,
        be_load=offered(workload, ~te),
        te_jobs=int(te.sum()),
        be_jobs=int((~te).sum()),
        te_wait_p50_s=_at(waits_s, 50),
        te_wait_p95_s=_at(waits_s, 95),
        te_held=float(held[te].mean()),
        te_held_not_started=float((held & late)[te].mean()),
        te_not_started=float(late[te].mean()),
        be_slowdown_mean=slowdown.mean,
        be_slowdown_p50=slowdown.p50,
        be_slowdown_p95=slowdown.p95,
        be_delay_p95_s=_at(watch.delays_s[~te], 95),
        most_of_bound=None if case.slowdown is None else float(used.max()),
        beyond_bound=0 if case.slowdown is None else int((used > 1).sum()),
        preemptions=summary.preemptions,
    )


def together(lines: Iterable[Line]) -> list[Line]:
    """Return one line for the seeds of each case: medians, but the largest part of a bound, and all jobs beyond one."""
    found: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        key = line.workload, not line.said, line.policy, line.te_load, line.slowdown or inf
        found.setdefault(key, []).append(line)
    return [_one_of(found[key]) for key in sorted(found)]


def _one_of(lines: Sequence[Line]) -> Line:
    def middle(name: str) -> float | None:
        known = [value for line in lines if (value := getattr(line, name)) is not None]
        return median(known) if known else None

    numbers: dict[str, Any] = {one.name: middle(one.name) for one in fields(Line) if one.name not in _SAME}
    counts = {name: round(numbers[name] or 0) for name in ("te_jobs", "be_jobs", "preemptions")}
    most = [line.most_of_bound for line in lines if line.most_of_bound is not None]
    beyond = sum(line.beyond_bound for line in lines)
    merged = numbers | counts | {"most_of_bound": max(most, default=None), "beyond_bound": beyond}
    return replace(lines[0], **merged)


def cases(
    bases: Sequence[Base], slowdowns: Sequence[float | None], loads: Sequence[float], *, said: bool, policy: str
) -> list[Case]:
    """Return every run."""
    return [
        Case(base=base, te_load=load, slowdown=slowdown, said=said, policy=policy)
        for base in bases
        for load in loads
        for slowdown in slowdowns
    ]


def _asked(workload: Workload) -> NDArray[np.float64]:
    """Return [jobs, resources] amounts times seconds."""
    asked: NDArray[np.float64] = workload.demand * (workload.nodes * workload.run_s)[:, np.newaxis]
    return asked


def _span_s(workload: Workload) -> float:
    return max(float(workload.submit_s[-1] - workload.submit_s[0]), 1.0)


def _at(values: NDArray[np.float64], percent: float) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.percentile(known, percent)) if len(known) else None


def _rows(workload: Workload, rows: NDArray[np.intp]) -> Workload:
    return Workload.of(
        workload.name,
        SimulatedNodes(
            names=workload.machines.names, resources=workload.machines.resources, total=workload.machines.total
        ),
        submit_s=workload.submit_s[rows],
        run_s=workload.run_s[rows],
        limit_s=workload.limit_s[rows],
        nodes=workload.nodes[rows],
        demand=workload.demand[rows],
        te=workload.te[rows],
        grace_s=workload.grace_s[rows],
    )
