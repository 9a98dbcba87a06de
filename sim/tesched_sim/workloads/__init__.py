"""Workloads by name or from a trace, and their parameters as they are typed: `make("fitgpp", seed=1, jobs="1000")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from tesched_sim import traces
from tesched_sim.traces import FORMATS
from tesched_sim.traces.recorded import Recorded
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError, in_words
from tesched_sim.workloads.beyond import Beyond, extended
from tesched_sim.workloads.fill import Filled, FillModel, fill
from tesched_sim.workloads.fitgpp import FitGppWorkload, fitgpp
from tesched_sim.workloads.poisson import PoissonWorkload, poisson
from tesched_sim.workloads.shards import made_with_shards

_MADE: Mapping[str, tuple[type[Any], Callable[[Any, int], Workload]]] = {
    "fitgpp": (FitGppWorkload, fitgpp),
    "poisson": (PoissonWorkload, poisson),
}
#: what `make` takes
NAMES = tuple(_MADE)

__all__ = ["FORMATS", "NAMES", "Filled", "filled", "make", "parameters", "read"]


def make(name: str, *, seed: int, **settings: str) -> Workload:
    """Return the workload of that name. Raises WorkloadError for an unknown name, key or a value that does not do."""
    if name not in _MADE:
        raise WorkloadError(f"there is no workload {name}; there are {', '.join(NAMES)}")
    kind, maker = _MADE[name]
    model = parameters(kind, settings)
    made = maker(model, seed)
    if model.shards:
        made = made_with_shards(made, each=model.shards, share=model.shard_share, seed=seed)
    return extended(made, model, seed)


def read(path: Path, *, seed: int, form: str | None = None, **settings: str) -> Workload:
    """Return a trace as a workload; `form` is one of `FORMATS`. Raises WorkloadError, naming the line or the key."""
    return filled(traces.read(path, form), settings, seed=seed).workload


def filled(
    recorded: Recorded, settings: Mapping[str, str], *, seed: int, machines: SimulatedNodes | None = None
) -> Filled:
    """Make a trace that was read a workload, on the nodes that are given or else on those of the settings.

    Its `rows` are of the trace's jobs alone: trainings that `workload.trainings` adds are in none of them. Raises
    WorkloadError, naming the key.
    """
    model = parameters(FillModel, settings)
    found = fill(recorded, model, seed, machines)
    return replace(found, workload=extended(found.workload, model, seed))


def parameters(kind: type[Any], settings: Mapping[str, str]) -> Any:
    """Return parameters of a kind, each key from what was typed. Raises WorkloadError, naming the key."""
    common = [one.name for one in fields(Beyond)]
    known = [*(one.name for one in fields(kind) if one.name not in common), *common]
    for key in settings:
        if key not in known:
            raise WorkloadError(f"workload.{key}: there is no such key; there are {', '.join(known)}")
    try:
        made = msgspec.convert(dict(settings), kind, strict=False)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, WorkloadError):  # the kind's own check, which has named the key already
            raise error.__cause__ from None
        what, _, where = str(error).partition(" - at ")
        raise WorkloadError(f"workload{where.strip('`').removeprefix('$')}: {in_words(what)}") from None
    for name in settings:
        value = getattr(made, name)
        if isinstance(value, float) and not isfinite(value):
            raise WorkloadError(f"workload.{name} must be a finite number, not {value}")
    return made
