"""Knowledge of jobs beside Slurm's own records of them, which each turn adds to what it has seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from tesched_core.intake.classify import with_declared
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.first_look import awaiting_limits
from tesched_core.ports import Declarations, Expectations, FreeOfLimits, Reports, Speeds

from tesched_daemon.idle_file import IdleFile
from tesched_daemon.settings import Mode, Rules


@dataclass(kw_only=True)
class Knowledge:
    """Where it comes from."""

    #: None: no reports are read
    reports: Reports | None = None
    #: None: no speeds are known, and none is needed but for a policy that goes in rounds
    speeds: Speeds | None = None
    #: None: a run time is expected where its owner says one, and nowhere else
    expectations: Expectations | None = None
    #: None: no job counts as idle
    idle: IdleFile | None = None
    #: None: jobs' own options are not read, and only comments, rules and the default declare signals
    declarations: Declarations | None = None
    #: None: where slurm.conf enforces limits, no job is known to be free of them
    free_of_limits: FreeOfLimits | None = None

    def stand_by(self) -> None:
        """Let go of what another daemon, which leads, hears in the place of this one."""
        if self.reports is not None:
            self.reports.stand_by()

    def add(self, snapshot: Snapshot, rules: Rules, *, early: bool = False, within_s: float = inf) -> Snapshot:
        """Return the classified snapshot with what is known of its jobs; limits are read `within_s` seconds.

        For an `early` turn, whose poll reads all for itself. Raises JournalError.
        """
        policies, limits, mode = rules.policies, rules.limits, rules.mode
        if self.declarations is not None and mode is not Mode.OBSERVE:
            sources, patterns = self.declarations, rules.classes.script_patterns
            # Each read is a call: a job whose script no poll has read is no victim of an early turn.
            declared = sources.known(snapshot) if early else sources.read(snapshot, patterns)
            snapshot = with_declared(snapshot, rules.classes, declared)
        if self.reports is not None:
            heard = self.reports.read(snapshot)
            snapshot = replace(snapshot, reported=heard.by_job, reported_by_array=heard.by_array)
        if self.speeds is not None and any(entry.policy.reads_speeds for entry in policies):
            snapshot = replace(snapshot, speeds=self.speeds.read(snapshot), beside=self.speeds.beside())
        if mode is Mode.OBSERVE:
            return snapshot
        if self.expectations is not None:
            # A waiting job's bound rests on what is expected of it, whatever the policy reads.
            waiting = limits.bound.is_set or any(entry.policy.reads_run_times for entry in policies)
            snapshot = replace(snapshot, expected=self.expectations.read(snapshot, waiting=waiting))
        if self.idle is not None:
            snapshot = replace(snapshot, idle_since=self.idle.read(snapshot))
        if self.free_of_limits is not None:
            wanted, pending = awaiting_limits(snapshot, limits)
            if wanted:
                unlimited = self.free_of_limits.among(wanted, snapshot, pending, early=early, within_s=within_s)
                snapshot = replace(snapshot, unlimited=unlimited)
        return snapshot
