"""Gavel's figures and ours: `python -m benchmarks.gavel --anchors | --published | --peers | …`.

--anchors    the authors' own simulator as it was run for us, unmodified, on 36 and 108 accelerators (ECOS;
             mean hours from arrival to end, and its wall times on a machine of two cores)
--published  what the authors stored with their code, 36 of each type, jobs 4000 to 4999, seed 0
--peers      the same with pairs of jobs on one accelerator, and of AlloX, Gandiva and FIFO
--makespan   theirs for jobs that are all there from the beginning
--loads      how much knowing types gains, by load; with --plot FILE.svg|png a figure of it
--restarts   what is left of it when starts cost 30, 60 and 300 s, by the length of rounds

One process, one run each; nothing is done beforehand but to read the table of speeds. CPU S is the processor's time, so
that it does not hang on what else the machine does; on an idle one it is the wall time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import click
from tesched_papers.gavel.policies import Contender, Optimum
from tesched_papers.gavel.rounds import Cluster
from tesched_papers.gavel.run import Figures, Plan, perform
from tesched_papers.gavel.simulate import OverloadError
from tesched_papers.gavel.workload import GavelWorkload

#: policy, accelerators of each type, gap (s), seed, several GPUs a job, window, mean hours, wall seconds
ANCHORS = (
    ("las-agnostic", 12, 9000.0, 0, False, (300, 500), 19.9299, 30.5),
    ("las", 12, 9000.0, 0, False, (300, 500), 14.5730, 25.8),
    ("las-agnostic", 12, 4500.0, 0, False, (300, 500), 20.1021, 28.2),
    ("las", 12, 4500.0, 0, False, (300, 500), 14.1553, 22.1),
    ("las-agnostic", 12, 3000.0, 0, False, (300, 500), 20.1206, 30.1),
    ("las", 12, 3000.0, 0, False, (300, 500), 13.6823, 18.7),
    ("las-agnostic", 12, 3000.0, 1, False, (300, 500), 15.9732, 27.0),
    ("las", 12, 3000.0, 1, False, (300, 500), 11.8480, 20.0),
    ("las-agnostic", 12, 3000.0, 2, False, (300, 500), 18.3442, 26.8),
    ("las", 12, 3000.0, 2, False, (300, 500), 12.9487, 21.5),
    ("las-agnostic", 12, 2250.0, 0, False, (300, 500), 21.4464, 32.1),
    ("las", 12, 2250.0, 0, False, (300, 500), 14.5874, 25.2),
    ("las-agnostic", 12, 2250.0, 1, False, (300, 500), 15.9262, 29.7),
    ("las", 12, 2250.0, 1, False, (300, 500), 11.3897, 21.7),
    ("las-agnostic", 12, 2250.0, 2, False, (300, 500), 20.6375, 35.9),
    ("las", 12, 2250.0, 2, False, (300, 500), 14.3811, 24.2),
    ("las-agnostic", 12, 1800.0, 0, False, (300, 500), 30.9986, 57.7),
    ("las", 12, 1800.0, 0, False, (300, 500), 18.2535, 37.0),
    ("las-agnostic", 12, 2250.0, 0, False, (1300, 1700), 36.0448, 134.0),
    ("las", 12, 2250.0, 0, False, (1300, 1700), 23.2344, 77.4),
    ("las-agnostic", 12, 1928.5714285714287, 0, False, (1300, 1700), 77.1112, 274.2),
    ("las", 12, 1928.5714285714287, 0, False, (1300, 1700), 29.3958, 77.7),
    ("las-agnostic", 12, 9000.0, 0, True, (300, 500), 22.5126, 32.0),
    ("las", 12, 9000.0, 0, True, (300, 500), 16.5030, 22.2),
    ("las-agnostic", 12, 4500.0, 0, True, (300, 500), 27.3796, 42.4),
    ("las", 12, 4500.0, 0, True, (300, 500), 21.1236, 34.9),
    ("las-agnostic", 12, 3000.0, 0, False, (100, 150), 18.4031, 13.0),
    ("las", 12, 3000.0, 0, False, (100, 150), 12.4496, 8.9),
    ("las-sharing", 12, 3000.0, 0, False, (100, 150), 12.463, 17.5),
    ("fifo-greedy", 12, 3000.0, 0, False, (300, 500), 13.374, None),
    ("fifo-greedy-agnostic", 12, 3000.0, 0, False, (300, 500), 19.671, None),
    ("allox", 12, 3000.0, 0, False, (300, 500), 14.048, None),
    ("gandiva", 12, 3000.0, 0, False, (300, 500), 14.964, None),
    ("ftf-agnostic", 12, 3000.0, 0, False, (300, 500), 20.0278, 116.8),
    ("ftf", 12, 3000.0, 0, False, (300, 500), 14.1194, 77.5),
    ("las-agnostic", 36, 900.0, 0, False, (4000, 5000), 23.7452, 315.1),
    ("las", 36, 900.0, 0, False, (4000, 5000), 17.0724, 191.6),
    ("las-agnostic", 36, 692.3076923076923, 0, False, (4000, 5000), 66.5061, 418.3),
    ("las", 36, 692.3076923076923, 0, False, (4000, 5000), 22.3768, 283.5),
    ("las-agnostic", 36, 642.8571428571429, 0, False, (4000, 5000), 98.2576, 776.3),
    ("las", 36, 642.8571428571429, 0, False, (4000, 5000), 29.4167, 344.5),
)
#: jobs an hour, several GPUs a job, mean hours of las-agnostic and las
PUBLISHED = (
    (4.0, False, 23.49, 16.82),
    (4.8, False, 35.79, 18.97),
    (5.2, False, 63.78, 22.02),
    (5.6, False, 95.99, 28.96),
    (2.0, False, 23.47, 16.95),
    (0.4, False, 23.26, 17.58),
    (0.4, True, 25.92, 18.58),
    (1.6, True, 26.51, 19.12),
    (2.0, True, 28.91, 21.90),
    (2.4, True, 38.71, 30.03),
    (2.6, True, 70.54, 36.44),
)
#: policy, jobs an hour of one GPU each, mean hours
PEERS = (
    ("las-sharing", 4.0, 16.96),
    ("las-sharing", 5.2, 19.14),
    ("las-sharing", 5.6, 19.64),
    ("gandiva", 4.0, 18.88),
    ("gandiva", 5.2, 34.32),
    ("allox", 4.0, 17.13),
    ("allox", 5.2, 21.96),
    ("fifo-greedy", 4.0, 17.08),
    ("fifo-greedy-agnostic", 4.0, 25.38),
)
#: accelerators of each type, policy, hours until the last has ended, by jobs
MAKESPAN = (
    (12, "makespan", {100: 165.926}),
    (12, "makespan-agnostic", {100: 288.936}),
    (12, "gandiva", {100: 201.17}),
    (12, "fifo-greedy-agnostic", {100: 265.24}),
    (36, "makespan", {100: 161.2, 300: 161.2, 500: 169.4, 700: 244.2}),
    (36, "makespan-sharing", {100: 163.6, 300: 161.2, 500: 168.1, 700: 226.2}),
    (36, "gandiva", {100: 166.6, 300: 199.9, 500: 263.9, 700: 347.3}),
    (36, "fifo-greedy-agnostic", {100: 182.3, 300: 295.6, 500: 426.6, 700: 619.5}),
)
RESTARTS_S = (0.0, 30.0, 60.0, 300.0)
ROUNDS_S = (360.0, 720.0, 1800.0, 3600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A run, what others had, and of what."""

    plan: Plan
    theirs_h: float
    wall_s: float | None = None
    of: Callable[[Figures], float] = lambda figures: figures.mean_jct_h


def anchors() -> Iterator[Row]:
    """Yield the runs of the authors' simulator."""
    for name, each, gap_s, seed, multi, window, theirs_h, wall_s in ANCHORS:
        made = plan(name, each, gap_s, window, seed=seed, multi=multi)
        yield Row(plan=made, theirs_h=theirs_h, wall_s=wall_s)


def published() -> Iterator[Row]:
    """Yield the runs of which the authors stored figures."""
    for rate, multi, agnostic_h, aware_h in PUBLISHED:
        for name, theirs_h in (("las-agnostic", agnostic_h), ("las", aware_h)):
            made = plan(name, 36, 3600.0 / rate, (4000, 5000), multi=multi)
            yield Row(plan=made, theirs_h=theirs_h)


def makespans() -> Iterator[Row]:
    """Yield the runs with all jobs there from the beginning, with both seeds that theirs might have had."""
    for each, name, by_jobs in MAKESPAN:
        for (jobs, theirs_h), seed in product(by_jobs.items(), (0,) if each == 12 else (0, 1)):
            made = plan(name, each, 0.0, (0, jobs), multi=True, seed=seed)
            yield Row(plan=made, theirs_h=theirs_h, of=lambda figures: figures.makespan_h)


def peers() -> Iterator[Row]:
    """Yield the runs of schedulers that the authors compare theirs with, and of theirs with pairs, as stored."""
    for name, rate, theirs_h in PEERS:
        yield Row(plan=plan(name, 36, 3600.0 / rate, (4000, 5000)), theirs_h=theirs_h)


def plan(name: str, each: int, gap_s: float, window: tuple[int, int], *, multi: bool = False, seed: int = 0) -> Plan:
    """Return a run with so many accelerators of each type."""
    return Plan(
        contender=Contender(name=name),
        cluster=Cluster(capacity=(each, each, each)),
        workload=GavelWorkload(mean_gap_s=gap_s, multi=multi, count=None if gap_s else window[1]),
        window=window,
        seed=seed,
    )


def compare(rows: Iterator[Row], optimum: Optimum, recompute_s: float) -> None:
    """Print a line for each run: theirs, ours, by how much ours differs, and how much faster it was."""
    print(
        f"{'POLICY':<21}{'GPUS':>5}{'GAP S':>8} {'MULTI':<6}{'SEED':>4} {'JOBS':>11} {'THEIRS H':>9} {'OURS H':>9}"
        f" {'DIFFERS':>8} {'USE':>6} {'RENEWED':>8} {'CPU S':>7} {'JOBS/S':>7} {'FASTER':>7}"
    )
    for row in rows:
        contender = replace(row.plan.contender, optimum=optimum)
        cluster = replace(row.plan.cluster, recompute_s=recompute_s)
        made = replace(row.plan, contender=contender, cluster=cluster)
        found = perform(made)
        ours_h = row.of(found)
        faster = f"{row.wall_s / found.took_s:.1f}x" if row.wall_s is not None else ""
        first, last = made.window
        print(
            f"{made.contender.name:<21}{sum(made.cluster.capacity):>5}{made.workload.mean_gap_s:>8.0f}"
            f" {'yes' if made.workload.multi else 'no':<6}{made.seed:>4} {f'{first}-{last}':>11}"
            f" {row.theirs_h:>9.3f} {ours_h:>9.3f} {100 * (ours_h / row.theirs_h - 1):>+7.2f}% {found.use:>6.3f}"
            f" {found.renewed:>8.3f} {found.took_s:>7.1f} {found.ended / found.took_s:>7.0f} {faster:>7}",
            flush=True,
        )


def restarts(gap_s: float, window: tuple[int, int]) -> None:
    """Print the mean hours of each policy and what restarts took, for each cost of a start and length of rounds."""
    contenders = (
        Contender(name="las-agnostic"),
        Contender(name="las-agnostic", optimum=Optimum.CORNER),
        Contender(name="las"),
        Contender(name="las", optimum=Optimum.CORNER),
        Contender(name="fifo"),
    )
    heads = [f"{one.name}{'/corner' if one.optimum is Optimum.CORNER else ''}" for one in contenders]
    print(f"{'COST S':>6} {'ROUND S':>8} " + " ".join(f"{head:>22}" for head in heads))
    for cost_s in RESTARTS_S:
        for round_s in ROUNDS_S:
            cluster = Cluster(capacity=(12, 12, 12), round_s=round_s, restart_cost_s=cost_s)
            made = replace(plan("las", 12, gap_s, window), cluster=cluster, most_jobs=200)
            cells = [_restarted(replace(made, contender=one)) for one in contenders]
            print(f"{cost_s:>6.0f} {round_s:>8.0f} " + " ".join(f"{cell:>22}" for cell in cells), flush=True)


def _restarted(made: Plan) -> str:
    """Return mean hours, starts for each job, and the share of the held time that restarts took."""
    try:
        found = perform(made)
    except OverloadError:
        return "does not keep up"
    return f"{found.mean_jct_h:.2f} {found.starts_per_job:.1f} {100 * found.restarting:.1f}%"


def loads(each: int, window: tuple[int, int], rates: tuple[float, ...], seeds: int) -> list[tuple[float, float]]:
    """Print, and return, how many times as long jobs take when types are not known, by jobs an hour."""
    print(f"{'JOBS/H':>7} {'AGNOSTIC H':>11} {'AWARE H':>9} {'RATIO':>6} {'USE':>6} {'USE':>6}")
    curve = []
    for rate in rates:
        found = []
        for name in ("las-agnostic", "las"):
            runs = [perform(plan(name, each, 3600.0 / rate, window, seed=seed)) for seed in range(seeds)]
            found.append((sum(run.mean_jct_h for run in runs) / seeds, sum(run.use for run in runs) / seeds))
        (agnostic_h, agnostic_use), (aware_h, aware_use) = found
        ratio = agnostic_h / aware_h
        curve.append((rate, ratio))
        print(
            f"{rate:>7.2f} {agnostic_h:>11.2f} {aware_h:>9.2f} {ratio:>6.2f} {agnostic_use:>6.3f} {aware_use:>6.3f}",
            flush=True,
        )
    return curve


def draw(curve: list[tuple[float, float]], path: Path) -> None:
    """Write the ratio by load as a figure."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - needed only on request

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot([rate for rate, _ in curve], [ratio for _, ratio in curve], marker="o")
    axes.set_xlabel("jobs an hour")
    axes.set_ylabel("mean time, agnostic / aware")
    axes.set_ylim(bottom=1)
    axes.grid(visible=True, alpha=0.3)
    figure.savefig(path)


@click.command()
@click.option("--anchors", "what", flag_value="anchors", default="anchors", help="Theirs, run for us.")
@click.option("--published", "what", flag_value="published", help="Theirs, as stored.")
@click.option("--peers", "what", flag_value="peers", help="As stored: with pairs, AlloX, Gandiva, FIFO.")
@click.option("--makespan", "what", flag_value="makespan", help="Theirs, all jobs there from the beginning.")
@click.option("--loads", "what", flag_value="loads", help="What knowing types gains, by load.")
@click.option("--restarts", "what", flag_value="restarts", help="What starts that cost something leave of it.")
@click.option("--recompute", "recompute_s", type=float, default=1920.0, show_default=True, help="Least seconds apart.")
@click.option("--optimum", type=click.Choice([one.value for one in Optimum]), default=Optimum.MIDDLE.value)
@click.option("--each", type=click.IntRange(1), default=12, show_default=True, help="With --loads: of each type.")
@click.option("--first", type=click.IntRange(0), default=1300, show_default=True, help="With --loads, --restarts.")
@click.option("--last", type=click.IntRange(1), default=1700, show_default=True, help="With --loads, --restarts.")
@click.option("--rates", default="0.4,0.8,1.2,1.4,1.6,1.7,1.8,1.9,2.0", show_default=True, help="With --loads.")
@click.option("--rate", type=float, default=1.2, show_default=True, help="With --restarts: jobs an hour.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="With --loads: how many.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="With --loads: where to draw it.")
def main(
    *,
    what: str,
    recompute_s: float,
    optimum: str,
    each: int,
    first: int,
    last: int,
    rates: str,
    rate: float,
    seeds: int,
    plot: Path | None,
) -> None:
    """Print one of the tables."""
    if what == "loads":
        curve = loads(each, (first, last), tuple(float(one) for one in rates.split(",")), seeds)
        if plot is not None:
            draw(curve, plot)
    elif what == "restarts":
        restarts(3600.0 / rate, (first, last))
    else:
        rows = {"anchors": anchors, "published": published, "peers": peers, "makespan": makespans}[what]
        compare(rows(), Optimum(optimum), recompute_s)


if __name__ == "__main__":
    main()
