"""PD-ORS: `python -m benchmarks.pdors time|optimum|rounding`.

time        how long the plan of one arrival takes, by machines and slots, on an idle cluster (all slots alike, all
            machines alike) and on one where each machine in each slot holds a random load of its own, 0 to 90 %:
            nothing is alike, so this is the worst case. Median and slowest of some jobs of the workload.
optimum     PD-ORS's utility against the offline optimum (an integer program) on small instances, beside the bounds.
rounding    the external slot problem on loaded machines: how often an answer is found, and what it costs more than the
            integer program's, by G and with and without repair.
"""

from __future__ import annotations

import time
from dataclasses import replace

import click
import numpy as np
from tesched_papers.pdors.algorithm.policy import Ledger, PdOrs
from tesched_papers.pdors.algorithm.rounding import favour_covering, favour_packing
from tesched_papers.pdors.algorithm.schedule import workers_on_one
from tesched_papers.pdors.algorithm.slot import External, SlotProblem, SlotSettings, most_units
from tesched_papers.pdors.methods import Planning, run
from tesched_papers.pdors.optimum import optimum
from tesched_papers.pdors.planned import Drawn
from tesched_papers.pdors.workload import Instance, PdOrsWorkload, pdors_workload
from tesched_policies.pdors.model import Machines, TrainingJob
from tesched_policies.pdors.prices import PriceBounds

SIZES = ((50, 20), (100, 20), (100, 100), (300, 100), (1000, 20), (1000, 100), (1000, 200))
#: small enough for the integer program
SMALL = PdOrsWorkload(jobs=8, machines=2, slots=4, batch_max=8, machine_size=4.0, work=0.003, external_gbps_min=1.0)
DELTA = 0.2


@click.group()
def main() -> None:
    """Figures of PD-ORS."""


@main.command("time")
@click.option("--jobs", type=click.IntRange(1), default=20, show_default=True, help="Arrivals that are planned.")
def plan_time(jobs: int) -> None:
    """Print how long one arrival takes."""
    print(f"{'MACHINES':>8} {'SLOTS':>6} {'CLUSTER':>8} {'MEDIAN S':>9} {'SLOWEST S':>9} {'TAKEN':>6}", flush=True)
    for machines, slots in SIZES:
        instance = pdors_workload(PdOrsWorkload(machines=machines, slots=slots, jobs=jobs), seed=0)
        # All arrive at once, so that each has all slots before it.
        arriving = [replace(job, arrival=0) for job in instance.jobs]
        bounds = PriceBounds.of(arriving, instance.machines, horizon=slots)
        policy = PdOrs(machines=instance.machines, bounds=bounds)
        # The solver's library is loaded by the first plan that needs it.
        policy.arrive(loaded(instance, 0), arriving[0], Drawn(0, arriving[0].job_id))
        for name, ledger in (("idle", Ledger.empty(instance.machines, slots)), ("loaded", loaded(instance, 0))):
            took, taken = [], 0
            for job in arriving:
                before = time.perf_counter()
                _, answer = policy.arrive(ledger, job, Drawn(0, job.job_id))
                took.append(time.perf_counter() - before)
                taken += answer.schedule is not None
            median, slowest = float(np.median(took)), max(took)
            print(f"{machines:>8} {slots:>6} {name:>8} {median:>9.3f} {slowest:>9.3f} {taken:>6}", flush=True)


@main.command("optimum")
@click.option("--seeds", type=click.IntRange(1), default=50, show_default=True)
@click.option("--seconds", type=click.IntRange(1), default=60, show_default=True, help="At most, for one optimum.")
def against_optimum(seeds: int, seconds: int) -> None:
    """Print the distribution of optimum / PD-ORS, and the bounds on it."""
    instances = [pdors_workload(SMALL, seed) for seed in range(seeds)]
    began = time.perf_counter()
    best = [optimum(instance, limit_s=seconds) for instance in instances]
    took_s = time.perf_counter() - began
    # Where nothing can be had there is nothing to compare.
    pairs = [(instance, one) for instance, one in zip(instances, best, strict=True) if one.bound > 0]
    proven = sum(one.bound <= one.utility * (1 + 1e-6) for one in best)
    print(f"{seeds} instances, {took_s:.0f} s")
    print(f"{proven} optima proven; the bounds of the others are taken for their optima")
    print(f"in {seeds - len(pairs)} no job can end at all; they are left out", flush=True)
    columns = "".join(f"{name:>8}" for name in ("MEAN", "MEDIAN", "90 %", "WORST"))
    print(f"{'PLANNING':<28}{columns} {'BOUND':>10} {'FOR STEPS':>10} {'ABOVE':>6}")
    for title, planning in (
        ("floor 0, exact slots", Planning(floor=0.0, external=External.EXACT)),
        ("floor 0, rounding", Planning(floor=0.0)),
        ("floor 1e-6, rounding", Planning()),
        ("floor 1e-3, rounding", Planning(floor=1e-3)),
        ("floor 1e-2, rounding", Planning(floor=1e-2)),
        ("floor 1e-1, rounding", Planning(floor=1e-1)),
        ("floor 1e-6, 20 units", Planning(units=20)),
        ("floor 1e-6, 240 units", Planning(units=240)),
    ):
        ratios, bounds = [], []
        for instance, one in pairs:
            utility = run("pd-ors", instance, planning).utility
            ratios.append(one.bound / utility if utility > 0 else np.inf)
            prices = PriceBounds.of(instance.jobs, instance.machines, horizon=instance.horizon, floor=planning.floor)
            bounds.append((prices.ratio, prices.ratio_of_steps(largest_step(instance))))
        median, most = np.quantile(ratios, [0.5, 0.9], method="inverted_cdf")
        figures = "".join(f"{value:8.3f}" for value in (np.mean(ratios), median, most, max(ratios)))
        above = sum(ratio > bound for ratio, (bound, _) in zip(ratios, bounds, strict=True))
        plain, steps = np.median(bounds, axis=0)
        print(f"{title:<28}{figures} {plain:>10.1f} {steps:>10.3g} {above:>6}", flush=True)


@main.command("rounding")
@click.option("--problems", type=click.IntRange(1), default=100, show_default=True)
def by_gain(problems: int) -> None:
    """Print how often rounding finds an answer, and how much dearer it is than the best."""
    instance = pdors_workload(PdOrsWorkload(machines=20, slots=1, jobs=problems, batch_max=60), seed=0)
    jobs = [replace(job, arrival=0) for job in instance.jobs]
    bounds = PriceBounds.of(jobs, instance.machines, horizon=1)
    policy = PdOrs(machines=instance.machines, bounds=bounds)
    cases = [(job, policy.views(loaded(instance, number), job)[0]) for number, job in enumerate(jobs)]

    def costs(settings: SlotSettings) -> list[float]:
        found = []
        for job, view in cases:
            capacity = int(most_units(view.free, view.worker_price, job.worker + job.server).sum())
            workers = max(min(job.batch, capacity * 3 // 4), 1)
            servers = -(-workers // job.workers_per_server)
            spread = SlotProblem(view, job, settings).solve(workers, servers, Drawn(0, job.job_id))
            found.append(np.inf if spread is None else spread.cost)
        return found

    best = costs(SlotSettings(external=External.EXACT, bound=False))
    there = sum(np.isfinite(best))
    print(f"{problems} problems, of which {there} have an answer; cost over the best, of those that were found")
    print(f"{'G':>6} {'REPAIR':>7} {'FOUND':>6} {'MEAN':>7} {'WORST':>7}", flush=True)
    for gain in (0.8, 0.9, 1.0, 1.1, 1.2, 1.5):
        for repair in (False, True):
            mine = costs(SlotSettings(gain=gain, repair=repair, bound=False))
            dearer = [cost / least for cost, least in zip(mine, best, strict=True) if np.isfinite(cost)]
            figures = f"{np.mean(dearer):7.3f} {max(dearer):7.3f}" if dearer else f"{'-':>7} {'-':>7}"
            print(f"{gain:>6} {repair!s:>7} {len(dearer):>6} {figures}", flush=True)
    widths = [workers_on_one(job, view.free) for job, view in cases]
    rows = len(instance.machines) * len(instance.machines.resources) + 1
    widest = max(float(np.median(widths)), 1.0)
    print(
        f"The theorems' G for delta = {DELTA:g}, {rows} packing rows and rows {widest:g} units wide: "
        f"{favour_packing(widest, rows, DELTA):.3f} for packing, {favour_covering(widest, 2, DELTA):.2f} for covering"
    )


def loaded(instance: Instance, seed: int) -> Ledger:
    """Return a ledger in which each machine in each slot holds a random load, 0 to 90 % of each resource."""
    random = np.random.default_rng([seed, 7])
    shape = (instance.horizon, *instance.machines.capacity.shape)
    # Load on a machine fills all its resources about alike.
    part = np.clip(random.uniform(0.0, 0.9, (*shape[:2], 1)) + random.uniform(-0.1, 0.1, shape), 0.0, 0.9)
    return Ledger(used=np.floor(part * instance.machines.capacity))


def largest_step(instance: Instance) -> float:
    """Return the largest part of a machine's resource that one job can take in a slot."""
    return max(_largest(job, instance.machines) for job in instance.jobs)


def _largest(job: TrainingJob, machines: Machines) -> float:
    there = machines.capacity > 0
    servers = -(-job.batch // job.workers_per_server)
    most = np.broadcast_to(job.batch * job.worker + servers * job.server, machines.capacity.shape)
    return min(float((most[there] / machines.capacity[there]).max()), 1.0)


if __name__ == "__main__":
    main()
