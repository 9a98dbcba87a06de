"""Simulated days on a Slurm that misbehaves: policies by the daemon's own `step()`, and what must hold all the time.

Everything of a run is drawn from its seed: the workload, the policies, the lever, the limits, the faults, and whether
the run ends with the daemon or with `undo` in the middle of it. `tests/properties/test_misbehaviour.py` makes some
runs, `python -m benchmarks.misbehaviour` as many as wanted.
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count as count_up
from math import inf
from random import Random

import numpy as np
from tesched_sim.engine import Daemon, Simulation
from tesched_sim.experiment import ExperimentSetting, Site, simulation
from tesched_sim.workload import Workload
from tesched_sim.workloads import make

from tesched_testcluster.harness.faults.misbehaving_ledger import Ledger, ViolationError

DAY_S = 86_400.0
TE_POLICIES = ("fitgpp", "fitgpp", "patient", "youngest", "lrtp")
BE_POLICIES = ("none", "none", "fill", "gavel", "slaq", "pdors")
#: what a policy for best-effort jobs needs of a workload
NEEDS = {
    "gavel": {"types": "v100:1:1/k80:1:0.5"},
    "slaq": {"trainings": "2", "iterations": "12", "most_workers": "4"},
    "pdors": {"workers": "2"},
}
#: polls in which undo must have put everything back, and seconds between two of them
UNDO_POLLS, UNDO_EVERY_S = 100, 6.0
#: seconds in which a daemon that was asleep may still send a command: undo awaits the end of its lease
LEASE_S = 10.0
#: polls of undo after which users release the jobs that they hold
HELD_POLLS = 20
#: simulated days after which a job that has not ended is lost
LONGEST_DAYS = 60
#: added to the seed of a workload that has no best-effort job, for the next one
FURTHER = 10**7
USERS = ("ada", "bob", "eve")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that has not been made."""

    seed: int
    contender: str
    workload: dict[str, str]
    values: dict[str, str]
    ends_with_undo: bool

    @staticmethod
    def of(
        seed: int,
        *,
        jobs: int = 60,
        kinds: str = "",
        contender: str = "",
        lever: str = "",
        every_s: float | None = None,
        shards: int | None = None,
    ) -> Run:
        """Draw a run; what is given is not drawn, and nothing else changes for it."""
        dice = Random(seed)  # noqa: S311 - no secret
        te, be = dice.choice(TE_POLICIES), dice.choice(BE_POLICIES)
        levers = dice.choice(("requeue", "requeue", "auto", "plugin"))
        # By dice of its own: the other draws of a seed are those that they were without it.
        each = Random(f"{seed} shards").choice((0, 0, 2, 4)) if shards is None else shards  # noqa: S311 - no secret
        contender = contender or (te if be == "none" else f"{te}+{be}")
        workload = {
            "jobs": str(jobs),
            "nodes": str(dice.randint(2, 5)),
            "cpus": "8",
            "mem_gib": "64",
            "gpus": "4",
            "load": str(dice.choice([0.9, 1.2, 1.6])),
            "te_share": "0.4",
            "be_run_mean": str(dice.choice([30, 90, 300])),
            "be_sizes": "1:4/2:2/4:2/8:1",
            "te_sizes": "1:4/2:2/4:2/8:1",
            "shards": str(each),
            "shard_share": "0.7",
            **NEEDS.get(contender.partition("+")[2], {}),
        }
        values = {
            "site.faults.seed": str(seed + 1),
            "site.faults.share": str(dice.choice([0.01, 0.05, 0.15])),
            "site.faults.every_s": _given_or(every_s, dice.choice([7_200, 40_000])),
            "site.faults.kinds": kinds,
            "site.poll_s": str(dice.choice([0, 0, 30])),
            "site.pass_s": str(dice.choice([0, 0, 5])),
            "guard.lever": lever or levers,
            "guard.cool_down_s": str(dice.choice([0, 600])),
            "guard.max_preemptions_per_job": (most := str(dice.choice([1, 2, 3]))),
            "guard.max_lost_runs_per_job": most,
            "guard.max_preemptions_per_hour": str(dice.choice([4, 12])),
            "guard.max_preemptions_per_user_hour": str(dice.choice([2, 6])),
            "guard.max_victims_for_te_user_hour": str(dice.choice([3, 8])),
            "guard.max_victims_per_cycle": str(dice.choice([1, 3])),
            "guard.max_open_orders": str(dice.choice([2, 6])),
            "guard.own_jobs_first": str(dice.choice(["true", "false"])),
            "guard.wait_for_free_s": str(dice.choice([0, 10])),
        }
        return Run(
            seed=seed,
            contender=contender,
            workload=workload,
            values=values,
            ends_with_undo=dice.random() < 0.5,
        )

    def jobs(self) -> Workload:
        """Return the workload: some jobs ignore their notice, some leave at once; each has a user."""
        rng = np.random.default_rng([self.seed, 7])
        # Of a few jobs all may be TE jobs, with which a policy for best-effort jobs has no work.
        drawn = (make("poisson", seed=self.seed + one * FURTHER, **self.workload) for one in count_up())
        workload = next(one for one in drawn if not one.te.all())
        count = len(workload)
        leaves_s = rng.choice([inf, 5.0, 1e9], size=count)
        alone = np.ones(count, dtype=np.bool_) if workload.array is None else workload.array < 0
        return replace(
            workload,
            yield_s=np.where(alone & (leaves_s < 1e9), leaves_s, workload.yield_s),
            user=np.where(alone, rng.integers(0, len(USERS), size=count), len(USERS)).astype(np.int32),
            user_names=(*USERS, "trainer"),
        )

    def simulation(self) -> Simulation:
        """Return it, ready to be run."""
        setting = ExperimentSetting.of(Site.SLURM).with_values(self.values)
        return simulation(self.contender, setting, self.jobs())


def _given_or(given: float | None, drawn: float) -> str:
    return f"{drawn if given is None else given:g}"


@dataclass(kw_only=True)
class Found:
    """Outcome of a run."""

    run: Run
    days: float = 0.0
    happened: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def perform(run: Run) -> Found:
    """Make a run to its end; what does not hold is in what is found."""
    found = Found(run=run)
    simulated = run.simulation()
    daemon = simulated.daemon
    assert daemon is not None
    assert daemon.faults is not None
    try:
        _perform(run, simulated, daemon)
    except ViolationError as error:
        found.violations.append(str(error))
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        found.violations.append(traceback.format_exc())
    found.days = simulated.slurm.now / DAY_S
    found.happened.update({str(kind): count for kind, count in daemon.faults.happened.items()})
    return found


def _perform(run: Run, simulated: Simulation, daemon: Daemon) -> None:
    ledger = Ledger(simulation=simulated, daemon=daemon)
    span_s = float(simulated.workload.submit_s[-1])
    part = Random(run.seed).uniform(0.2, 1.0) if run.ends_with_undo else 1.0  # noqa: S311 - no secret
    simulated.go_on(part * span_s)
    if run.ends_with_undo:
        _see_what_a_kill_has_left(simulated, daemon)
    daemon.heal()
    if run.ends_with_undo:
        simulated.daemon = None
        simulated.go_on(simulated.slurm.now + LEASE_S)
        _undo(simulated, daemon, ledger)
    simulated.go_on(simulated.slurm.now + LONGEST_DAYS * DAY_S)
    ledger.check_end(undone=run.ends_with_undo)


def _see_what_a_kill_has_left(simulated: Simulation, daemon: Daemon) -> None:
    """Let the daemon poll after the last kill: `undo`, another process, knows of nothing that was put back before."""
    assert daemon.faults is not None
    while daemon.faults.controller.killed_s > daemon.seen_s and simulated.slurm.done < len(simulated.workload):
        simulated.go_on(simulated.slurm.now + UNDO_EVERY_S)


def _undo(simulated: Simulation, daemon: Daemon, ledger: Ledger) -> None:
    assert daemon.faults is not None
    for poll in range(UNDO_POLLS):
        done = daemon.undo()
        if poll == HELD_POLLS:  # with priority/basic a nice value that is put back would start a held job
            daemon.faults.users_release()
        simulated.go_on(simulated.slurm.now + UNDO_EVERY_S)
        if done:
            break
    else:
        raise ViolationError(f"undo has not put everything back in {UNDO_POLLS} polls")
    left = [*ledger.left_behind()]
    if left:
        raise ViolationError(f"after undo: {'; '.join(left)}")
