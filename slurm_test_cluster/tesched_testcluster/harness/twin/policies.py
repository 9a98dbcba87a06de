"""Policies of `benchmarks.twin`, by the names that a site gives them: for the daemon's file and for the simulator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from tesched_core.model.limits import Limits
from tesched_policies.registry import NO_POLICY, PolicyConfig
from tesched_sim.engine import Simulation
from tesched_sim.experiment import ADDED, CONTENDERS, ExperimentSetting, check, check_needs, simulation
from tesched_sim.slurm_settings import Backfill, Behaviour, NodeChoice, ReleasedTo, RequeuedTo
from tesched_sim.workload import Workload, WorkloadError

from tesched_testcluster.harness.twin.jobs import Draw, fastest_first

#: Slurm without tesched: with backfill, strictly in the order of submission, and with its own preemption
BACKFILL, FIFO, NATIVE = "backfill", "fifo", "native"
ALONE = (BACKFILL, FIFO, NATIVE)
#: the simulator's queue that no real Slurm has
TE_FIRST = "te-first"
NAMES = (*ALONE, *(name for name in CONTENDERS if name not in {*ALONE, TE_FIRST}))
#: seconds, however slow the rest is: the stage's configuration, and the test cluster's (cred_expire and one)
POLL_S, REQUEUE_DELAY_S = 0.5, 6.0
#: the stage's [guard]; all else is as by default, as the daemon has it
GUARD = Limits(min_run_time_s=0, cool_down_s=0)
#: seconds between two passes of slurmctld over its queue (sched_interval of the test cluster)
PASS_S = 1.0
#: … and its backfill (bf_interval)
BACKFILL_S = 2.0
#: what takes its time of itself, in seconds, times `slower`: a minute or so of a site's defaults is a second here
PATIENCE_S, ROUND_S, SLOT_S, SLOTS, EPOCH_S = 2.0, 15.0, 2.0, 150, 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One policy of the comparison."""

    name: str
    #: [policy], as the daemon reads it; empty: no daemon runs
    tables: Mapping[str, Any]

    @property
    def is_native(self) -> bool:
        """Check whether Slurm preempts by itself."""
        return self.name == NATIVE

    def has(self, policy: str) -> bool:
        """Check whether this policy manages best-effort jobs."""
        return any(entry["name"] == policy for entry in self.tables.get("be", ()))


def contender(name: str, of: Draw) -> Contender:
    """Return the policy of this name: one of `ALONE`, or as `tesched simulate` has it, TE or TE+BE.

    Raises WorkloadError for a name that there is not, or whose policy needs what the jobs lack; it names the option.
    """
    if name in ALONE:
        return Contender(name=name, tables={})
    te, plus, be = name.partition("+")
    if te == TE_FIRST:
        raise WorkloadError(f"{name}: a real Slurm has no such queue; there are {', '.join(NAMES)}")
    if te not in NAMES or (plus and te in ALONE):
        raise WorkloadError(f"there is no policy {name}; there are {', '.join(NAMES)}")
    check(name)
    slower = of.slower
    tables: dict[str, Any] = {"te": te, "be": [{"name": be}] if be and be != NO_POLICY else []}
    own: Mapping[str, Mapping[str, Any]] = {
        "patient": {"patience_s": PATIENCE_S * slower},
        "gavel": {"round_s": ROUND_S * slower, "min_run_time_s": 1.0, "types": fastest_first(of)},
        "slaq": {"epoch_s": EPOCH_S * slower, "throttle_cool_down_s": EPOCH_S * slower},
        "pdors": {"slot_s": SLOT_S * slower, "slots": SLOTS, "min_run_time_s": 1.0},
    }
    return Contender(name=name, tables=tables | {one: own[one] for one in (te, be) if one in own})


def toml(tables: Mapping[str, Any]) -> str:
    """Return [policy] as TOML."""
    whole = [f"{key} = {_inline(value)}" for key, value in tables.items() if not isinstance(value, Mapping)]
    lines = ["[policy]", *whole]
    for name, table in tables.items():
        if isinstance(table, Mapping):
            lines += [f"[policy.{name}]", *(f"{key} = {_inline(value)}" for key, value in table.items())]
    return "\n".join([*lines, ""])


def _inline(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_inline(each)}' for key, each in value.items())} }}"
    return json.dumps(value)


def behaviour(name: str, start_s: float) -> Behaviour:
    """Return the simulated counterpart of the test cluster; `start_s` is what a start and an end take."""
    backfills = name != FIFO
    return Behaviour(
        backfill=Backfill.EASY if backfills else Backfill.NONE,
        placement=NodeChoice.FIRST_FIT,
        requeued_to=RequeuedTo.PLACE,
        released_to=ReleasedTo.TAIL,  # priority/basic
        requeue_delay_s=REQUEUE_DELAY_S,
        kill_wait_s=0.0,  # the jobs end on SIGTERM
        start_s=start_s,
        pass_s=PASS_S,
        backfill_s=BACKFILL_S if backfills else 0.0,
        tries_new=False,
        poll_s=POLL_S,
    )


def setting(one: Contender, start_s: float) -> ExperimentSetting:
    """Return what the simulation of a policy has set: its tables are the daemon's."""
    return ExperimentSetting(
        site=behaviour(one.name, start_s),
        policy=msgspec.convert(one.tables, PolicyConfig) if one.tables else PolicyConfig(),
        guard=GUARD,
    )


def simulated(one: Contender, workload: Workload, start_s: float) -> Simulation:
    """Return the simulation of a policy, which has not begun."""
    name = FIFO if one.name == BACKFILL else one.name
    return simulation(name, setting(one, start_s), workload)


def check_jobs(one: Contender, workload: Workload) -> None:
    """Raise WorkloadError for jobs without what a policy needs; it names the option that adds it."""
    if one.tables:
        try:
            check_needs(one.name, setting(one, 0.0), workload)
        except WorkloadError as error:
            raise WorkloadError(str(error).replace(ADDED, "--").replace("=", " ")) from None
