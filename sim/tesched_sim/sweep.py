"""Many runs, on all cores: every contender and every value that is swept, for every seed.

Each seed's workload is the same for every contender, so that they can be compared seed by seed.
Whatever has finished when somebody interrupts is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from tesched_sim.contenders import Setting, run_one
from tesched_sim.result import Result
from tesched_sim.workload import Workload

#: Makes a workload for a seed, with these settings of its own. It is sent to other processes, so it is a plain function
#: of a module, or a partial of one.
MakeWorkload = Callable[[int], Workload]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One value of each key that is swept: a column of its own in the report."""

    #: (key, value) as they were typed; empty if nothing is swept
    values: tuple[tuple[str, str], ...]
    setting: Setting
    make_workload: MakeWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run to be made, and what came of it."""

    contender: str
    seed: int
    variant: Variant
    result: Result | None = None


def runs_of(contenders: Sequence[str], seeds: Sequence[int], variants: Sequence[Variant]) -> tuple[Run, ...]:
    """Return every run, those of one seed and variant together."""
    return tuple(
        Run(contender=contender, seed=seed, variant=variant)
        for variant, seed, contender in product(variants, seeds, contenders)
    )


def run(one: Run) -> Run:
    """Make one run. Raises WorkloadError if its workload cannot be made or its policy is unknown."""
    workload = _made(one.variant.make_workload, one.seed)
    setting = one.variant.setting
    site, policy = replace(setting.site, seed=one.seed), replace(setting.policy, rand_seed=one.seed)
    return replace(one, result=run_one(one.contender, replace(setting, site=site, policy=policy), workload))


@lru_cache(maxsize=1)
def _made(make_workload: MakeWorkload, seed: int) -> Workload:
    """Return the workload; the runs of one seed come one after the other, so the last one is worth keeping."""
    return make_workload(seed)


def run_all(runs: Sequence[Run], *, processes: int | None = None) -> Iterator[Run]:
    """Yield each run when it is done, in any order. An interruption ends it; what was yielded stands.

    `processes` is how many at once; all cores by default. Raises WorkloadError as `run` does.
    """
    count = min(processes or os.cpu_count() or 1, len(runs))
    if count <= 1:
        yield from map(run, runs)
        return
    with ProcessPoolExecutor(max_workers=count) as pool:
        pending: set[Future[Run]] = {pool.submit(run, one) for one in runs}
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in pending:
                future.cancel()
