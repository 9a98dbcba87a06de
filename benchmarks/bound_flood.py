"""Flood of TE jobs beside BE jobs on a real Slurm, and what was seen of it (`benchmarks.bound_hour`)."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tesched_testcluster.load import LoadJob

#: of each node
CPUS = 8
#: guard.bound.te_time_limit_s, and the least that Slurm takes for a limit
TE_LIMIT_S = 60
#: what was seen, in the folder of --keep
SEEN = "seen.json"


@dataclass(frozen=True, kw_only=True)
class Flood:
    """Length, size and load of one flood."""

    minutes: float
    nodes: int
    te_load: float
    be_load: float
    slowdown: float
    seed: int

    @property
    def seconds(self) -> float:
        """Return how long TE jobs come."""
        return self.minutes * 60

    def jobs(self) -> list[LoadJob]:
        """Draw the jobs, in the order of their submission."""
        draw = random.Random(self.seed)  # noqa: S311 - a workload
        found = [*self._drawn(draw, "te"), *self._drawn(draw, "be")]
        return sorted(found, key=lambda job: job.submit_after_s)

    def _drawn(self, draw: random.Random, kind: str) -> Iterator[LoadJob]:
        """Yield the jobs of a kind: so many that they ask for their part of the cluster's time."""
        te = kind == "te"
        left_s = (self.te_load if te else self.be_load) * self.nodes * self.seconds
        within_s = self.seconds if te else self.seconds * 2 / 3
        number = 0
        while left_s > 0:
            number += 1
            nodes = min(draw.choice((1, 1, 2, 4, 8) if te else (1, 1, 1, 2, 4, 16)), self.nodes)
            cpus = draw.choice((CPUS, CPUS, CPUS // 2))
            run_s = TE_LIMIT_S * draw.choice((0.05, 0.3, 0.9, 1.0, 2.0)) if te else self._be_run_s(draw)
            left_s -= nodes * cpus / CPUS * (min(run_s, TE_LIMIT_S) if te else run_s)
            options = ["--partition=debug", "--time=1"] if te else [f"--time={1 + math.ceil(2 * run_s / 60)}"]
            if not te and draw.random() < 0.5:
                options.append(f"--comment=run={math.ceil(run_s)}")
            yield LoadJob(
                name=f"{kind}-{number:05}",
                kind="te" if te else "be",
                submit_after_s=draw.uniform(0, within_s),
                nodes=nodes,
                cpus=cpus,
                mem_mib=100,
                ticks=1,
                tick_s=round(run_s, 1),
                options=tuple(options),
            )

    def _be_run_s(self, draw: random.Random) -> float:
        """Draw from 5 s to a sixth of the time, as many in each order of magnitude."""
        return math.exp(draw.uniform(math.log(5), math.log(max(self.seconds / 6, 10))))


@dataclass(kw_only=True)
class Seen:
    """What was seen of the run."""

    jobs: dict[int, LoadJob] = field(default_factory=dict)
    #: Unix seconds
    submitted: dict[int, float] = field(default_factory=dict)
    cancelled: dict[int, float] = field(default_factory=dict)
    loads: list[float] = field(default_factory=list)
    #: TE jobs that have waited for a BE job's bound
    bounded: int = 0
    #: seconds of the longest poll
    longest_poll_s: float = 0.0

    def write(self, folder: Path, flood: Flood) -> None:
        """Write what was seen, but for the jobs: those are drawn again, and in the order of their submission."""
        kept = {key: value for key, value in asdict(self).items() if key != "jobs"}
        (folder / SEEN).write_text(json.dumps({"flood": asdict(flood), "seen": kept}))


def read_seen(folder: Path) -> tuple[Flood, Seen]:
    """Return what `Seen.write` has written there."""
    kept = json.loads((folder / SEEN).read_text())
    flood, seen = Flood(**kept["flood"]), Seen(**kept["seen"])
    seen.submitted = {int(job_id): at for job_id, at in seen.submitted.items()}
    seen.cancelled = {int(job_id): at for job_id, at in seen.cancelled.items()}
    seen.jobs = dict(zip(seen.submitted, flood.jobs(), strict=True))
    return flood, seen
