"""Slurm's choice among marked jobs beside FitGpp's: `python -m benchmarks.slurms_choice --cases N --seed S`.

With the lever `plugin` FitGpp says the order, and Slurm says who leaves. On a small full cluster of random best-effort
(BE) jobs, all marked by FitGpp's scores, random trial-and-error (TE) jobs are submitted, one at a time: which jobs does
Slurm preempt, and which would FitGpp have selected? Each setting of Slurm's own search gets the same cases:

- default: Slurm takes jobs in their order until the TE job fits, then tries once more with the last one first
- reorder 8: it tries so up to eight times (preempt_reorder_count=8)
- strict: it keeps to the order (preempt_strict_order)

Each BE job has drawn for how long it has run, so that what a victim loses is known: node-seconds, its part of a node's
GPUs times that. FitGpp knows nothing of it, nor does Slurm. Exit status 1 if a TE job did not start.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from tesched_core.model.actions import Failure, MarkLine
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.eligibility import Eligibility
from tesched_core.policy import MakeRoom, View
from tesched_daemon.marks_file import MarksFile
from tesched_policies.fitgpp import FitGpp
from tesched_policies.victim_search import in_order, plan_all
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import choose
from tesched_slurm.run_command import Commands
from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.definition import ClusterDefinition, NativePreemption, NodeGroup, PartitionDefinition
from tesched_testcluster.local import LocalCluster

_TE = "tesched_te_partition=te"
SETTINGS: Mapping[str, NativePreemption] = {
    "default": NativePreemption(kind="tesched", parameters=(_TE,)),
    "reorder 8": NativePreemption(kind="tesched", parameters=(_TE,), reorder_count=8),
    "strict": NativePreemption(kind="tesched", parameters=(_TE,), strict_order=True),
}
NODES, GPUS = 6, 8
_TRAITS = Traits(job_class=JobClass.BE, rule="benchmark", grace_period_s=0, grace_source="benchmark")
#: nodes of a TE job, and its GPUs on each
TE_SHAPES = ((1, 1), (1, 2), (1, 2), (1, 4), (1, 4), (1, 8), (2, 4), (2, 8))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Victims of one case, each way."""

    slurm: tuple[int, ...]
    fitgpp: tuple[int, ...]
    #: the policies' search `in_order`: jobs in their order until it fits, less those not needed
    in_order: tuple[int, ...]
    lost: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one setting."""

    setting: str
    cases: int
    #: parts of the cases in which Slurm took the very victims
    as_fitgpp: float
    as_in_order: float
    #: victims in all, and node-seconds that they had run
    victims: Mapping[str, int]
    lost: Mapping[str, float]
    #: node-seconds that Slurm's choice cost more than FitGpp's, mean and largest of a case
    more_mean: float
    more_max: float
    not_started: int


@dataclass(kw_only=True)
class Stage:
    """A cluster with the plugin."""

    cluster: LocalCluster
    seed: str
    jobs: dict[int, int] = field(default_factory=dict)

    def choices(self, count: int) -> Iterator[Choice | None]:
        """Yield what came of each case; None where the TE job did not start."""
        commands = Commands(slurm_conf=str(self.cluster.slurm_conf), timeout_s=20)
        self._observer = choose(ClientChoice.COMMANDS, commands).observer
        for number in range(count):
            rng = Random(f"{self.seed}/{number}")  # noqa: S311 - nothing secret
            self.cluster.reset()
            MarksFile(path=self.cluster.marks).write([])
            yield self._choice(rng)

    def _choice(self, rng: Random) -> Choice | None:
        drawn = {self._submit(gpus): (gpus, rng.uniform(60, 36_000)) for gpus in _filling(rng)}
        for job_id in drawn:
            self.cluster.wait_state(job_id, "RUNNING")
        nodes, gpus = rng.choice(TE_SHAPES)
        te = self._submit(gpus, "--hold", "--partition=te", f"--nodes={nodes}")
        snapshot = self._snapshot(te)
        view = _view(snapshot)
        scores = FitGpp().rank(view, None)
        order = np.lexsort((view.running.job_id, scores))
        marks = [_mark(int(view.running.job_id[row]), place, snapshot) for place, row in enumerate(order)]
        MarksFile(path=self.cluster.marks).write(marks)
        asked = _victims(FitGpp().propose(view, None).plans)
        by_order = _victims(plan_all(view, lambda _view, _job: scores, in_order, why="").plans)
        self.cluster.run("scontrol", "release", str(te))
        try:
            self.cluster.wait_state(te, "RUNNING")
        except ClusterError:
            return None
        slurm = tuple(sorted(set(self.cluster.put_back(list(drawn)))))

        def lost(victims: Sequence[int]) -> float:
            return sum(drawn[one][0] / GPUS * drawn[one][1] for one in victims)

        return Choice(
            slurm=slurm,
            fitgpp=asked,
            in_order=by_order,
            lost={"slurm": lost(slurm), "fitgpp": lost(asked), "in_order": lost(by_order)},
        )

    def _submit(self, gpus: int, *options: str) -> int:
        return self.cluster.sbatch(
            f"--gres=gpu:{gpus}", f"--cpus-per-task={gpus}", "--mem=100", "-o/dev/null", *options, wrap="sleep 3000"
        )

    def _snapshot(self, te: int) -> Snapshot:
        seen = self._observer.observe()
        if isinstance(seen, Failure):
            raise ClusterError(seen.message)
        # Resources are weighed as if they were not held: it is released once the marks are there.
        held = seen.jobs[JobId(te)]
        jobs = {**seen.jobs, JobId(te): replace(held, priority=1, reason="Resources")}
        seen = replace(seen, jobs=jobs, columns=None)
        te_traits = replace(_TRAITS, job_class=JobClass.TE)
        return seen.with_traits({job_id: te_traits if job_id == te else _TRAITS for job_id in jobs})


def _filling(rng: Random) -> list[int]:
    """Return GPUs of jobs that fill the nodes exactly."""
    sizes: list[int] = []
    for _ in range(NODES):
        left = GPUS
        while left:
            size = rng.choice([one for one in (1, 2, 2, 4, 8) if one <= left])
            sizes.append(size)
            left -= size
    # Large ones first, so that each finds its node.
    return sorted(sizes, reverse=True)


def _view(snapshot: Snapshot) -> View:
    columns = columns_of(snapshot)
    eligible = Eligibility(why=np.full(len(columns.running), -1), whys=())
    return View(
        snapshot=snapshot,
        memory=Memory(),
        columns=columns,
        limits=Limits(),
        waiting=tuple(columns.trials),
        find_eligible=lambda: eligible,
    )


def _mark(job_id: int, order: int, snapshot: Snapshot) -> MarkLine:
    now = int(snapshot.taken_at)
    return MarkLine(
        job_id=JobId(job_id), order=order, grace_s=0, max_restarts=9, least_run_s=0, after=now - 60, until=now + 900
    )


def _victims(plans: Sequence[object]) -> tuple[int, ...]:
    return tuple(sorted(victim for plan in plans if isinstance(plan, MakeRoom) for victim in plan.victim_ids))


def measured(setting: str, seed: int, cases: int) -> Figures:
    """Run the cases with this setting of Slurm's search."""
    definition = ClusterDefinition(
        name=setting.replace(" ", "-"),
        groups=(NodeGroup(count=NODES, cpus=32, gres={"gpu": GPUS}),),
        partitions=(PartitionDefinition(name="main", default=True), PartitionDefinition(name="te")),
        preemption=SETTINGS[setting],
    )
    with LocalCluster(definition) as cluster:
        found = []
        for choice in Stage(cluster=cluster, seed=str(seed)).choices(cases):
            found.append(choice)
            if sys.stderr.isatty():
                print(f"\r{setting}: {len(found)}/{cases}", end="", file=sys.stderr, flush=True)
    good = [one for one in found if one is not None]
    differences = [one.lost["slurm"] - one.lost["fitgpp"] for one in good]
    return Figures(
        setting=setting,
        cases=cases,
        as_fitgpp=statistics.fmean(one.slurm == one.fitgpp for one in good),
        as_in_order=statistics.fmean(one.slurm == one.in_order for one in good),
        victims={
            "slurm": sum(len(one.slurm) for one in good),
            "fitgpp": sum(len(one.fitgpp) for one in good),
            "in_order": sum(len(one.in_order) for one in good),
        },
        lost={way: sum(one.lost[way] for one in good) for way in ("slurm", "fitgpp", "in_order")},
        more_mean=statistics.fmean(differences),
        more_max=max(differences),
        not_started=len(found) - len(good),
    )


def _rows(figures: Sequence[Figures]) -> Iterator[tuple[str, list[str]]]:
    yield "the same victims as FitGpp", [f"{one.as_fitgpp:.0%}" for one in figures]
    yield "the same as jobs in their order", [f"{one.as_in_order:.0%}" for one in figures]
    ways = "Slurm, FitGpp, in order"
    yield f"victims: {ways}", [", ".join(str(count) for count in one.victims.values()) for one in figures]
    yield f"lost node-h: {ways}", [", ".join(f"{lost / 3600:.0f}" for lost in one.lost.values()) for one in figures]
    more = [f"{one.more_mean / 3600:.2f}, {one.more_max / 3600:.1f}" for one in figures]
    yield "more than FitGpp, node-h: mean, most", more
    yield "not started", [str(one.not_started) for one in figures]


@click.command()
@click.option("--cases", type=click.IntRange(1), default=60, show_default=True, help="TE jobs for each setting.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--at-once", type=click.IntRange(1, 3), default=2, show_default=True, help="Clusters side by side.")
@click.option("--json", "as_json", is_flag=True)
def main(*, cases: int, seed: int, at_once: int, as_json: bool) -> None:
    """Print how often Slurm takes FitGpp's victims, and what it costs where it takes others."""
    with ProcessPoolExecutor(at_once) as pool:
        figures = list(pool.map(measured, SETTINGS, [seed] * len(SETTINGS), [cases] * len(SETTINGS)))
    if as_json:
        print(json.dumps([{name: getattr(one, name) for name in one.__dataclass_fields__} for one in figures]))
    else:
        table = Table(title=f"{cases} TE jobs each, seed {seed}")
        for head in ("", *(one.setting for one in figures)):
            table.add_column(head, justify="right" if head else "left")
        for name, cells in _rows(figures):
            table.add_row(name, *cells)
        Console(width=110 if not sys.stdout.isatty() else None).print(table)
    if any(one.not_started for one in figures):
        sys.exit(1)


if __name__ == "__main__":
    main()
