"""Contenders of a comparison: a policy's name, the site that it runs on, and everything that can be set of either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, cast, get_type_hints

import msgspec
from tesched_core.model.limits import Limits
from tesched_core.policy import Policy
from tesched_policies.registry import INSTALLED, NO_POLICY, BeEntry, BePolicyName, PolicyConfig, TePolicyName

from tesched_sim.engine import NO_LIMITS, Simulation
from tesched_sim.result import Result
from tesched_sim.slurm_settings import Backfill, Behaviour, NativePreemption, RequeuedTo
from tesched_sim.workload import Workload, WorkloadError, in_words


class Site(StrEnum):
    """Defaults of the simulated Slurm."""

    #: as FitGpp's paper has it: strict FIFO, nothing takes time, the daemon sees every event, run times are known
    PAPER = "paper"
    #: the same with EASY backfill
    BACKFILL = "backfill"
    #: as Slurm comes: backfill, requeue delay, KillWait, a daemon that polls, run times known by time limit only
    SLURM = "slurm"


#: contenders without tesched
ALONE = {
    "fifo": "one queue, first in first out; no job is preempted",
    "te-first": "TE jobs in a queue of their own, ahead of the others; no job is preempted",
    "native": "Slurm's own preemption by partition priority",
}
#: what switches a table off, or a key that can be off
OFF = "none"
_KNOWN = frozenset({"fitgpp", "patient", "lrtp", "rand", "youngest", "none"})


def _described(kind: type[Policy[Any]]) -> str:
    """Return the first line of what a policy's class says of itself."""
    return next(iter((kind.__doc__ or "a policy of this site's").strip().splitlines()))


#: contenders by name
CONTENDERS: Mapping[str, str] = {
    **ALONE,
    "fitgpp": "FitGpp",
    "patient": "waits briefly for resources to be released, then preempts the job that can leave soonest",
    "lrtp": "preempts the job that would stay longest",
    "rand": "asks at random",
    "youngest": "preempts the job that started last",
    "none": "no job is preempted",
    # a site's own
    **{name: _described(kind) for name, kind in INSTALLED.items() if kind.serves_te and name not in _KNOWN},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSetting:
    """Everything that can be set, but for the workload: each part under its prefix, as in `policy.fitgpp.s=2`."""

    site: Behaviour = field(default_factory=Behaviour)
    native: NativePreemption = field(default_factory=NativePreemption)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    guard: Limits = NO_LIMITS

    @staticmethod
    def of(site: Site) -> ExperimentSetting:
        """Return a site's own."""
        match site:
            case Site.PAPER:
                return ExperimentSetting(site=Behaviour.paper(te_first=True))
            case Site.BACKFILL:
                return ExperimentSetting(site=replace(Behaviour.paper(te_first=True), backfill=Backfill.EASY))
            case Site.SLURM:
                # Its own place in the queue, as on 22.05; tesched puts TE jobs first by their nice value.
                guard = Limits(wait_for_free_s=0)
                return ExperimentSetting(site=replace(Behaviour.slurm(), requeued_to=RequeuedTo.PLACE), guard=guard)

    def with_values(self, values: Mapping[str, str]) -> ExperimentSetting:
        """Return it with these keys set, as in `policy.fitgpp.s`: `2`. Raises WorkloadError for what cannot be set so.

        Those of one table are set together, as some need each other. `none` switches off what can be off: a table such
        as `guard.bound`, and keys in it.
        """
        known, can_be_off = [*_keys(self)], [*_off_keys(self)]
        tables: dict[str, dict[str, str]] = {}
        for key, value in values.items():
            if key in can_be_off and key not in known:
                _check_table_off(key, values, known)
                tables[key] = {}
                continue
            if key not in known:
                raise WorkloadError(f"{key} cannot be set; what can is {', '.join(known)}")
            table, _, name = key.rpartition(".")
            tables.setdefault(table, {})[name] = value
        found = self
        for table, some in tables.items():
            found = found._with_table(table, some, can_be_off)
        return found

    def _with_table(self, table: str, values: Mapping[str, str], can_be_off: Sequence[str]) -> ExperimentSetting:
        path = table.split(".")
        wholes: list[Any] = [self]
        for part in path:
            wholes.append(getattr(wholes[-1], part))
        whole = wholes.pop()
        try:
            changed = _changed(whole, values)
            for part in reversed(path):
                changed = replace(wholes.pop(), **{part: changed})
        except (msgspec.ValidationError, ValueError) as error:
            off = [f"{table}.{name}" for name, value in values.items() if value.strip() == OFF]
            if wrong := sorted({*off} - {*can_be_off}):
                raise WorkloadError(f"{wrong[0]}={OFF}: what takes {OFF} is {', '.join(can_be_off)}") from None
            said = ", ".join(f"{table}.{name}={value}" for name, value in values.items())
            raise WorkloadError(f"{said}: {in_words(str(error).partition(' - at ')[0])}") from None
        return cast("ExperimentSetting", changed)


def _changed(whole: Any, values: Mapping[str, str]) -> Any:
    """Return a table with these keys set; with none of them, or with its switch off, it is off as a whole."""
    kind = type(whole)
    if not values:
        return kind()
    hints, off, can_be_off = get_type_hints(kind), {}, {*_with_off(whole)}
    if can_be_off:
        off = {one.name: one.default for one in fields(kind) if one.name in can_be_off}
    given = {
        # Each by itself: one that is wrong is reported, also where the table is off.
        name: off[name] if value.strip() == OFF and name in off else msgspec.convert(value, hints[name], strict=False)
        for name, value in values.items()
    }
    switch = getattr(kind, "SWITCH", "")
    if switch in given and given[switch] == off[switch]:
        return kind()
    tree: dict[str, Any] = {one.name: getattr(whole, one.name) for one in fields(whole)}
    return msgspec.convert(tree | given, kind, strict=False, from_attributes=True)


def _with_off(whole: Any) -> Iterator[str]:
    """Yield the names of a table's keys that can be off: its switch, or all of a table that has none."""
    if hasattr(whole, "is_set"):
        switch = getattr(whole, "SWITCH", "")
        yield from ([switch] if switch else (one.name for one in fields(whole)))


def _off_keys(whole: Any, prefix: str = "") -> Iterator[str]:
    """Yield the tables and keys that can be off."""
    for one in fields(whole):
        value, key = getattr(whole, one.name), f"{prefix}{one.name}"
        if is_dataclass(value):
            if hasattr(value, "is_set"):
                yield key
            yield from (f"{key}.{name}" for name in _with_off(value))
            yield from _off_keys(value, f"{key}.")


def _check_table_off(table: str, values: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise WorkloadError unless a table is switched off, and nothing of it is set besides."""
    keys = [key for key in known if key.startswith(f"{table}.")]
    if values[table].strip() != OFF:
        raise WorkloadError(
            f"{table}={values[table]}: it is a table, which takes {OFF} alone; its keys are {', '.join(keys)}"
        )
    if besides := [key for key in keys if key in values]:
        raise WorkloadError(f"{table}={OFF}: keys of it are set besides: {', '.join(besides)}")


def _keys(whole: Any, prefix: str = "") -> Iterator[str]:
    for one in fields(whole):
        value = getattr(whole, one.name)
        if is_dataclass(value):
            yield from _keys(value, f"{prefix}{one.name}.")
        elif not isinstance(value, tuple):
            yield f"{prefix}{one.name}"


def _wants_gpus(workload: Workload) -> bool:
    """Check whether a best-effort job that is no task of an array wants GPUs: those are what gavel manages."""
    resources = workload.machines.resources
    mine = workload.be if workload.array is None else workload.be & (workload.array < 0)
    return "gpu" in resources and bool(workload.demand[mine, resources.index("gpu")].any())


#: begins the words of what can be added to a workload, but not to the jobs of a state store
ADDED = "--set workload."
#: what a best-effort policy needs of a workload, whether it is there, and a sentence where it is not
_NEEDS: Sequence[tuple[str, Callable[[Workload], bool], str]] = (
    (
        "gavel",
        lambda workload: workload.speed is not None,
        f"this workload's nodes are of one type; add types of GPUs: {ADDED}types=v100:1:1/k80:1:0.3",
    ),
    (
        "gavel",
        _wants_gpus,
        "no best-effort job of this workload wants GPUs, which workload.types is about; take one that has some",
    ),
    (
        "slaq",
        lambda workload: bool(workload.trainings),
        f"no job of this workload is an elastic training that reports its loss; add some: {ADDED}trainings=20",
    ),
    (
        "pdors",
        lambda workload: workload.most_nodes is not None and bool((workload.most_nodes > workload.nodes).any()),
        f"no job of this workload takes more nodes than it must; let BE jobs have more: {ADDED}workers=4",
    ),
)


def check_needs(contender: str, setting: ExperimentSetting, workload: Workload) -> None:
    """Raise WorkloadError for a workload without what a contender's policies for best-effort jobs need."""
    if contender in ALONE:
        return
    for name in best_effort_of(contender, setting):
        for needed, there, text in _NEEDS:
            if needed == name and not there(workload):
                raise WorkloadError(f"{contender}: {text}")
        for extra in INSTALLED[name].needs:
            if lacking := extra.lacking():
                raise WorkloadError(f"{contender}: {name} needs {lacking}")


def best_effort_of(contender: str, setting: ExperimentSetting) -> tuple[str, ...]:
    """Names of a contender's policies for best-effort jobs: its own, or else those of the setting."""
    _, plus, be = contender.partition("+")
    if plus:
        return () if be == NO_POLICY else (be,)
    return tuple(str(entry.name) for entry in setting.policy.be)


def check(contender: str) -> None:
    """Raise WorkloadError unless there is such a contender: a name, or with tesched `TE+BE`, as in `patient+fill`."""
    te, plus, be = contender.partition("+")
    if te not in CONTENDERS or (plus and te in ALONE):
        raise WorkloadError(f"there is no policy {contender}; there are {', '.join(CONTENDERS)}")
    known = [name for name, kind in INSTALLED.items() if not kind.serves_te]
    if plus and be not in (*known, NO_POLICY):
        raise WorkloadError(
            f"{contender}: there is no best-effort policy {be}; there are {', '.join((NO_POLICY, *known))}"
        )


def simulation(contender: str, setting: ExperimentSetting, workload: Workload) -> Simulation:
    """Return a run of one contender that has not begun. Raises WorkloadError for one that cannot run on it."""
    check(contender)
    check_needs(contender, setting, workload)
    site = setting.site
    if contender == "fifo":
        run = Simulation(workload, replace(site, te_first=False, keeps_free=False))
    elif contender == "te-first":
        run = Simulation(workload, replace(site, te_first=True, keeps_free=False))
    elif contender == "native":
        run = Simulation(workload, replace(site, te_first=True, native=setting.native))
    else:
        te, _, be = contender.partition("+")
        entries = (BeEntry(name=BePolicyName(be)),) if be and be != NO_POLICY else () if be else setting.policy.be
        policy = replace(setting.policy, te=TePolicyName(te), be=entries)
        run = Simulation(workload, site, policies=policy.entries(), limits=setting.guard)
    run.policy_name = contender
    return run


def run_one(contender: str, setting: ExperimentSetting, workload: Workload) -> Result:
    """Run one contender on one workload. Raises WorkloadError for an unknown one."""
    simulated = simulation(contender, setting, workload)
    result = simulated.run()
    faults = simulated.daemon.faults if simulated.daemon is not None else None
    if faults is not None:
        result = replace(result, workload=replace(result.workload, notes=(*result.workload.notes, faults.note)))
    parts = {
        "site": {key: value for key, value in asdict(setting.site).items() if key != "faults"},
        "site.faults": asdict(setting.site.faults),
        "policy": asdict(setting.policy),
        "guard": asdict(setting.guard),
    }
    said = {f"{part}.{key}": value for part, values in parts.items() for key, value in values.items()}
    return replace(result, settings=said)
