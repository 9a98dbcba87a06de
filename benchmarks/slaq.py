"""Cost of SLAQ, and errors of its predictions: `python -m benchmarks.slaq [--json]`, `… errors [--log FILE]`.

Times: medians, of the wall clock and of this process's own processor time, for so many jobs with 1,000 past losses 1/k
each (what the paper's authors timed), on four times as many cores: every curve fitted anew, every curve kept, the
greedy allocation, and SciPy's curve_fit for one curve. Errors: |predicted - actual| / actual, mean over all iterations,
the worst 1 % left out, for the curves of each kind of job, or for a log of losses, one a line.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median

import click
import numpy as np
from scipy.optimize import curve_fit
from tesched_papers.slaq.workload import MIXES, losses_of
from tesched_policies.slaq.allocate import allocate
from tesched_policies.slaq.curves import Family, Floats
from tesched_policies.slaq.forecast import LEAST_POINTS, Fits, ForecastJob, KeptCurves, forecast
from tesched_policies.slaq.progress import Progress

SIZES = (1_000, 2_000, 4_000)
CORES_A_JOB = 4
LOSSES = 1_000
REPEATS = 5
AHEAD = (1, 5, 10)
#: seeds of each kind, for the errors
SEEDS = 20
#: the part of the largest errors that is left out
WORST = 0.01


@click.group(invoke_without_command=True)
@click.option("--jobs", type=click.IntRange(1), multiple=True, help="How many. Default: 1000, 2000, 4000.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def main(ctx: click.Context, *, jobs: tuple[int, ...], as_json: bool) -> None:
    """Print times, one line a size."""
    if ctx.invoked_subcommand is not None:
        return
    lines = [_times(size) for size in jobs or SIZES]
    if as_json:
        print(json.dumps({"sizes": lines, "scipy_one_fit_ms": _scipy_ms()}, indent=2))
        return
    print(f"{'JOBS':>6} {'CORES':>7} {'WHAT':<22} {'MS':>9} {'CPU MS':>9}")
    for line in lines:
        for what in ("all_fitted", "all_kept", "allocated", "reported"):
            print(f"{line['jobs']:>6} {line['cores']:>7} {what:<22} {line[what]:>9.1f} {line[f'{what}_cpu']:>9.1f}")
    print(f"SciPy's curve_fit, one sublinear curve: {_scipy_ms():.1f} ms")


def _times(jobs: int) -> dict[str, float]:
    at = np.arange(1.0, LOSSES + 1)
    rng = np.random.default_rng(0)
    scale, cost = rng.uniform(0.5, 2, jobs), rng.uniform(1, 10, jobs)
    histories = [Progress().with_reports(at, one / at, at * each) for one, each in zip(scale, cost, strict=True)]
    trainings = {job: ForecastJob(progress=one, family=Family.SUBLINEAR) for job, one in enumerate(histories)}
    forecasts, memory = forecast(trainings, KeptCurves())
    more = np.array([LOSSES + 1.0])
    calls: dict[str, Callable[[], object]] = {
        "all_fitted": lambda: forecast(trainings, KeptCurves()),
        "all_kept": lambda: forecast(trainings, memory),
        "allocated": lambda: allocate(forecasts, CORES_A_JOB * jobs),
        "reported": lambda: [one.with_reports(more, 1 / more, one.core_s + more) for one in histories],
    }
    found: dict[str, float] = {"jobs": jobs, "cores": CORES_A_JOB * jobs}
    for name, call in calls.items():
        found[name], found[f"{name}_cpu"] = _took_ms(call)
    return found


def _took_ms(call: Callable[[], object]) -> tuple[float, float]:
    """Return the medians of several calls, milliseconds: wall clock, processor."""
    wall, own = [], []
    for _ in range(REPEATS):
        began, began_own = time.perf_counter(), time.process_time()
        call()
        wall.append(time.perf_counter() - began)
        own.append(time.process_time() - began_own)
    return 1000 * median(wall), 1000 * median(own)


def _scipy_ms() -> float:
    at = np.arange(901.0, 1001)

    def curve(k: Floats, a: float, b: float, c: float, d: float) -> Floats:
        return 1 / (a * k * k + b * k + c) + d

    def one() -> None:
        curve_fit(curve, at, 1 / at, p0=(1e-4, 0.9, 0.1, 1e-4), sigma=0.8 ** -(at[-1] - at), bounds=(0, np.inf))

    return _took_ms(one)[1]


@main.command()
@click.option("--log", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Losses, one a line.")
@click.option("--family", type=click.Choice([one.name.lower() for one in Family]), help="Of the log, if known.")
@click.option("--json", "as_json", is_flag=True)
def errors(*, log: Path | None, family: str | None, as_json: bool) -> None:
    """Print the error of each kind of curve, per cent, so many iterations ahead."""
    if log is not None:
        losses = np.loadtxt(log, ndmin=1)
        lines = {log.name: _errors([losses], Family[family.upper()] if family else None)}
    else:
        lines = {kind.name: _errors([losses_of(kind, rng) for rng in _rngs()], kind.family) for kind in MIXES["eight"]}
    if as_json:
        print(json.dumps(lines, indent=2))
        return
    print(f"{'JOB':<16} {'PREDICTED BY':<12}" + "".join(f"{f'{ahead} AHEAD':>10}" for ahead in AHEAD))
    for name, rules in lines.items():
        for rule, values in rules.items():
            print(f"{name:<16} {rule:<12}" + "".join(f"{value:>9.2f}%" for value in values))


def _rngs() -> Iterator[np.random.Generator]:
    yield from (np.random.default_rng(seed) for seed in range(SEEDS))


def _errors(logs: list[Floats], family: Family | None) -> Mapping[str, list[float]]:
    """Return the errors, per cent, by rule and by how far ahead."""
    rules = {"weighted": Fits(), "unweighted": Fits(decay=1.0), "last ratio": Fits(curves=False)}
    found = {
        name: [_mean([_curve_errors(one, family, fits, ahead) for one in logs]) for ahead in AHEAD]
        for name, fits in rules.items()
    }
    found["last change"] = [_mean([_change_errors(one, ahead) for one in logs]) for ahead in AHEAD]
    return found


def _mean(errors_of: list[Floats]) -> float:
    every = np.sort(np.concatenate(errors_of))
    return 100 * float(every[: int(np.ceil((1 - WORST) * len(every)))].mean())


def _curve_errors(losses: Floats, family: Family | None, fits: Fits, ahead: int) -> Floats:
    at = np.arange(1.0, len(losses) + 1)
    seen = range(LEAST_POINTS, len(losses) - ahead + 1)
    histories = {count: Progress().with_reports(at[:count], losses[:count], at[:count]) for count in seen}
    forecasts, _ = forecast(
        {n: ForecastJob(progress=one, family=family) for n, one in histories.items()}, KeptCurves(), fits
    )
    actual = losses[np.array(seen) + ahead - 1]
    errors_of: Floats = np.abs(forecasts.curves.loss(forecasts.iteration + ahead) - actual) / np.abs(actual)
    return errors_of


def _change_errors(losses: Floats, ahead: int) -> Floats:
    """Return the errors of going on by the last change."""
    last = np.arange(LEAST_POINTS - 1, len(losses) - ahead)
    predicted = losses[last] + ahead * (losses[last] - losses[last - 1])
    errors_of: Floats = np.abs(predicted - losses[last + ahead]) / np.abs(losses[last + ahead])
    return errors_of


if __name__ == "__main__":
    main()
