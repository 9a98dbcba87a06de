"""The policies that can be simulated, and which of many optima they take.

Gavel's programs mostly have many optima. `corner` is core's own answer, by a simplex method; `middle` is what an
interior-point method finds, as the authors' solver did (centre.py). There is a middle for the policies that raise the
least level: `las` and `makespan`, with or without their knowledge of types.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from tesched_policies.gavel.allocators.problem import Pairs, Problem
from tesched_sim.workload import WorkloadError

from tesched_papers.gavel.centre import centre
from tesched_papers.gavel.greedy import Allox, Gandiva, GreedyFifo
from tesched_papers.gavel.rounds import Allocate, Division, Manner, Waiting
from tesched_papers.gavel.throughputs import TYPES, measured

#: those of core's that need no deadlines or entities, which the workload does not have, and those of greedy.py
NAMES = (
    "las",
    "las-agnostic",
    "las-sharing",
    "ftf",
    "ftf-agnostic",
    "ftf-sharing",
    "makespan",
    "makespan-agnostic",
    "makespan-sharing",
    "fifo",
    "fifo-agnostic",
    "fifo-sharing",
    "sjf",
    "sjf-agnostic",
    "cost",
    "cost-sum",
    "throughput",
    "fifo-greedy",
    "fifo-greedy-agnostic",
    "allox",
    "gandiva",
)
_AGNOSTIC, _SHARING = "-agnostic", "-sharing"
#: dollars an hour of one accelerator of each type, as in the authors' code
_PRICES = (0.74, 0.43, 0.135)
_REFERENCE = TYPES.index("v100")


class Optimum(StrEnum):
    """Choice among the optima."""

    MIDDLE = "middle"
    CORNER = "corner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A policy by name, and which optimum it takes where there is a choice."""

    name: str
    optimum: Optimum = Optimum.MIDDLE

    def __post_init__(self) -> None:
        """Raise WorkloadError for a name that is not known."""
        if self.name not in NAMES:
            raise WorkloadError(f"there is no policy {self.name} to simulate; there are {', '.join(NAMES)}")

    @property
    def aware(self) -> bool:
        """Whether it knows that types differ in speed."""
        return not self.name.endswith(_AGNOSTIC)

    @property
    def sharing(self) -> bool:
        """Whether it lets pairs of jobs have the same accelerators."""
        return self.name.endswith(_SHARING) or self.name == "gandiva"

    @property
    def _kind(self) -> str:
        return self.name.removesuffix(_AGNOSTIC)

    @property
    def _in_the_middle(self) -> bool:
        return self.optimum is Optimum.MIDDLE and self._kind in ("las", "makespan")

    def manner(self) -> Manner:
        """Return the settings of the rounds: for a policy that knows no types, these choose in random order."""
        greedy = self.name.startswith("fifo-greedy")
        return Manner(shuffled=not self.aware, entitled_only=greedy, sharing=self.sharing)

    def allocate(self, seed: int = 0) -> Allocate:
        """Return its answers; one run's alone, since some policies count what became of earlier ones, or draw."""
        kind = self._kind
        if kind == "fifo-greedy":
            return GreedyFifo(aware=self.aware, seed=seed)
        if kind == "allox":
            return Allox()
        if kind == "gandiva":
            return Gandiva(seed=seed)
        if self._in_the_middle:
            return _Middle(kind=kind, aware=self.aware)
        return _Core(name=self.name, aware=self.aware, sharing=self.sharing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Middle:
    kind: str
    aware: bool

    def __call__(self, waiting: Waiting) -> NDArray[np.float64]:
        speed = waiting.throughput
        size = waiting.scale_factor
        if self.kind == "makespan":
            if not self.aware:
                speed = np.repeat(speed[:, [_REFERENCE]], speed.shape[1], axis=1)
            # In units of the longest job at its fastest, so that the level is near 1.
            left = waiting.steps_left[:, None]
            gain = speed / left * float((left[:, 0] / speed.max(axis=1)).max(initial=0.0))
            return centre(gain, size, waiting.capacity)
        if not self.aware:
            speed = np.ones_like(speed)
        alone = (speed * (waiting.capacity / waiting.capacity.sum())).sum(axis=1)
        # The order of the authors' factors: another one rounds otherwise, and then other jobs tie.
        gain = (speed * (1.0 / (waiting.weight * alone))[:, None]) * size[:, None]
        return centre(gain, size, waiting.capacity)


@dataclass(slots=True, kw_only=True)
class _Core:
    name: str
    aware: bool
    sharing: bool
    #: of each job: seconds that its steps would have taken alone on 1/M of the cluster
    isolated_s: dict[int, float] = field(default_factory=dict)
    #: of each job at the last answer: steps left, and steps/s on 1/M of the cluster
    last: dict[int, tuple[float, float]] = field(default_factory=dict)

    def __call__(self, waiting: Waiting) -> NDArray[np.float64] | Division:
        # These bring SciPy.
        from tesched_policies.gavel.allocators.constraints import isolated  # noqa: PLC0415
        from tesched_policies.gavel.allocators.registry import policy  # noqa: PLC0415

        isolated_s = np.array([self._isolated_s(row, waiting) for row in range(len(waiting.job))])
        problem = Problem(
            throughput=waiting.throughput,
            scale_factor=waiting.scale_factor,
            capacity=waiting.capacity,
            weight=waiting.weight,
            steps_left=waiting.steps_left,
            age_s=waiting.age_s,
            isolated_s=isolated_s,
            price=np.array(_PRICES),
            reference=_REFERENCE,
            pairs=pairs_of(waiting) if self.sharing else None,
        )
        alone = (problem.speed(aware=self.aware) * isolated(problem)).sum(axis=1).tolist()
        jobs, left = waiting.job.tolist(), waiting.steps_left.tolist()
        self.isolated_s = dict(zip(jobs, isolated_s.tolist(), strict=True))
        self.last = dict(zip(jobs, zip(left, alone, strict=True), strict=True))
        answer = policy(self.name).allocate(problem)
        if answer.fallback is not None and len(jobs):
            raise WorkloadError(f"{self.name} found no optimum for {len(jobs)} jobs: {answer.fallback}")
        if problem.pairs is None or answer.pairs_x is None:
            return answer.x
        return Division(x=answer.x, pairs=problem.pairs, pairs_x=answer.pairs_x)

    def _isolated_s(self, row: int, waiting: Waiting) -> float:
        job = int(waiting.job[row])
        if job not in self.last:
            return 0.0
        left, speed = self.last[job]
        done = left - float(waiting.steps_left[row])
        return self.isolated_s[job] + (done / speed if speed > 0 else 0.0)


def pairs_of(waiting: Waiting) -> Pairs:
    """Return all pairs of jobs of the same size, with the speeds that were measured for them."""
    first, second = np.triu_indices(len(waiting.job), k=1)
    same = waiting.scale_factor[first] == waiting.scale_factor[second]
    first, second = first[same], second[same]
    paired, row = measured().paired, waiting.row
    return Pairs(
        first=first,
        second=second,
        first_throughput=paired[row[first], row[second]],
        second_throughput=paired[row[second], row[first]],
    )
