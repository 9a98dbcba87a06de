"""SLAQ on a real Slurm, with real trainings: `python -m benchmarks.slaq_slurm`.

A handful of trainings (support vector machine, logistic and linear regression, a small network, in NumPy; see
slaq_training.py) come one after the other as elastic job arrays to one node of `--cpus` CPUs, and report their losses.
The same is done three times:

    slurm   by Slurm alone: first come, first served, no throttle
    equal   with tesched, which hears no losses, and so gives equal shares
    slaq    with tesched, which hears them

Printed: seconds from submission to 90 % of the loss reduction of each, and to the last iteration. Losses are the same
in all three, iteration by iteration; that is checked.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
from tesched_testcluster.definition import NodeGroup
from tesched_testcluster.local import LocalCluster

from benchmarks.beside_slurm import BesideSlurm, beside_slurm
from benchmarks.slaq_training import KINDS

HERE = Path(__file__).parent
#: in this order they come, again and again
ORDER = ("network", "linear", "svm", "logistic")
#: seconds for which a task works
TASK_S = 6.0
MODES = ("slurm", "equal", "slaq")

_TABLES = """
[policy.slaq]
epoch_s = {epoch_s}
throttle_cool_down_s = {epoch_s}
[reports]
spool = "{spool}"
[classes]
default_class = "be"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Plan of a run."""

    names: tuple[str, ...]
    cpus: int
    #: seconds between two submissions, of a slice's work, and from one allocation to the next
    gap_s: float
    slices: int
    slice_s: float
    epoch_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One training; seconds since its submission."""

    name: str
    losses: list[float]
    #: when half, nine tenths and 95 % of the loss reduction were reached
    level_s: list[float]
    done_s: float


LEVELS = (0.5, 0.9, 0.95)


def run(mode: str, plan: Plan) -> list[Trained]:
    """Run the trainings once. Raises ClickException if one does not come to its end."""
    with beside_slurm(NodeGroup(count=1, cpus=plan.cpus, sockets=1, gres={}), min_job_age_s=60) as slurm:
        spool = slurm.cluster.shared / "spool"
        spool.mkdir(mode=0o1777)
        if mode != "slurm":
            tables = _TABLES.format(spool=spool if mode == "slaq" else "", epoch_s=plan.epoch_s)
            slurm.configure("slaq", poll_s=1.0, tables=tables)
            slurm.start()
        return _trained(slurm, plan, spool)


def _trained(slurm: BesideSlurm, plan: Plan, spool: Path) -> list[Trained]:
    cluster = slurm.cluster
    began = time.time()
    submitted: list[tuple[int, float, Path]] = []
    for number, kind in enumerate(plan.names):
        time.sleep(max(began + number * plan.gap_s - time.time(), 0))
        folder = cluster.shared / f"{number}-{kind}"
        submitted.append((_submit(cluster, kind, plan, folder, spool), time.time(), folder))
    slurm.wait_for_end()
    told = _told(spool)
    found = []
    for (array, at, folder), kind in zip(submitted, plan.names, strict=True):
        with np.load(folder / "state.npz") as state:
            losses = state["losses"]
        if len(losses) < KINDS[kind].iterations:
            raise click.ClickException(f"{kind}: {len(losses)} of {KINDS[kind].iterations} iterations were done")
        # Loss i is known when iteration i has ended, and is reported with it.
        reached = np.array([told[array].get(iteration, np.nan) for iteration in range(len(losses))]) - at
        reached = np.fmin.accumulate(reached[::-1])[::-1]
        reduction = (losses[0] - losses) / (losses[0] - losses[-1])
        level_s = [float(reached[int((reduction >= level).argmax())]) for level in LEVELS]
        found.append(Trained(name=kind, losses=losses.tolist(), level_s=level_s, done_s=float(reached[-1])))
    return found


def _submit(cluster: LocalCluster, kind: str, plan: Plan, folder: Path, spool: Path) -> int:
    # Twice as many tasks as it needs if each does its part; the last one cancels the rest.
    script = HERE / "slaq_training.py"
    command = (
        f"export TESCHED_SPOOL={spool} OPENBLAS_NUM_THREADS=1\n"
        f"exec {sys.executable} {script} {kind} {folder} {TASK_S} {plan.slices} {plan.slice_s}"
    )
    return cluster.sbatch(
        "--array=0-499",
        f"--job-name={kind}",
        "--comment=elastic",
        "--mem=100M",
        "--output=/dev/null",
        wrap=command,
    )


def _told(spool: Path) -> dict[int, dict[int, float]]:
    """Return when each iteration was first reported, by array; Unix seconds."""
    first: dict[int, dict[int, float]] = {}
    for path in spool.glob("*/*_*.json"):
        mine = first.setdefault(int(path.stem.partition("_")[0]), {})
        for iteration, _, at, _ in json.loads(path.read_text())["points"]:
            mine[iteration] = min(at, mine.get(iteration, at))
    return first


def _check_same(runs: dict[str, list[Trained]]) -> None:
    """Raise ClickException unless the losses are the same in all runs, but for rounding."""
    first, *others = runs.values()
    for other in others:
        for mine, its in zip(first, other, strict=True):
            if not np.allclose(mine.losses, its.losses, rtol=1e-6):
                raise click.ClickException(f"{mine.name}: the losses differ from run to run")


@click.command()
@click.option("--trainings", type=click.IntRange(1), default=8, show_default=True)
@click.option("--cpus", type=click.IntRange(1), default=16, show_default=True)
@click.option("--gap", "gap_s", type=float, default=18.0, show_default=True, help="Seconds between two submissions.")
@click.option("--slices", type=click.IntRange(1), default=32, show_default=True, help="Of an iteration.")
@click.option("--slice", "slice_s", type=float, default=0.17, show_default=True, help="Seconds of a slice.")
@click.option("--epoch", "epoch_s", type=float, default=3.0, show_default=True, help="Seconds between allocations.")
@click.option("--mode", "modes", default=",".join(MODES), show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(
    *,
    trainings: int,
    cpus: int,
    gap_s: float,
    slices: int,
    slice_s: float,
    epoch_s: float,
    modes: str,
    as_json: bool,
) -> None:
    """Run the trainings in each mode, and print the times side by side."""
    names = tuple(ORDER[number % len(ORDER)] for number in range(trainings))
    plan = Plan(names=names, cpus=cpus, gap_s=gap_s, slices=slices, slice_s=slice_s, epoch_s=epoch_s)
    runs = {mode: run(mode, plan) for mode in modes.split(",")}
    _check_same(runs)
    if as_json:
        print(json.dumps({mode: [asdict(one) for one in found] for mode, found in runs.items()}))
        return
    print("seconds to 90 % of the loss reduction")
    print(f"{'training':12}" + "".join(f"{mode:>8}" for mode in runs))
    for row, name in enumerate(names):
        print(f"{name:12}" + "".join(f"{found[row].level_s[1]:8.1f}" for found in runs.values()))
    for at, level in enumerate(LEVELS):
        means = [float(np.mean([one.level_s[at] for one in found])) for found in runs.values()]
        print(f"mean {level:4.0%}   " + "".join(f"{mean:8.1f}" for mean in means))
    means = [float(np.mean([one.done_s for one in found])) for found in runs.values()]
    print(f"{'mean end':12}" + "".join(f"{mean:8.1f}" for mean in means))


if __name__ == "__main__":
    main()
