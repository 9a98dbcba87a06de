"""Limits of turns: what a policy that moves best-effort jobs may cost, in the policy's own table."""

from __future__ import annotations

from dataclasses import dataclass

from tesched_core.model.limits import TurnLimits
from tesched_core.model.ranges import Amount, Count, Seconds, check_ranges


@dataclass(frozen=True, kw_only=True)
class Turns:
    """Keys of [policy.NAME], beside what TE jobs may cause ([guard]); neither uses up the other's."""

    #: how often one job may be preempted in any hour; 0: once a round, or slot
    max_preemptions_per_job_hour: Count = 0
    #: seconds that it runs before it does; at most half a round
    min_run_time_s: Seconds = 60.0
    #: most preemptions in any hour, and node-hours of lost runs in any 24 hours, in all; 0: no limit
    max_preemptions_per_hour: Count = 0
    max_lost_node_hours_per_day: Amount = 0.0

    def check_turns(self) -> None:
        """Raise ValueError for a limit below zero."""
        check_ranges(self)

    def limits_of_turns(self, name: str, round_s: float) -> TurnLimits:
        """Limits of what turns of the policy `name` may cost in rounds of so many seconds."""
        fitting = TurnLimits.of_round(round_s)
        return TurnLimits(
            table=f"policy.{name}",
            max_preemptions_per_job_hour=self.max_preemptions_per_job_hour or fitting.max_preemptions_per_job_hour,
            min_run_time_s=min(self.min_run_time_s, round_s / 2),
            max_preemptions_per_hour=self.max_preemptions_per_hour or None,
            max_lost_node_hours_per_day=self.max_lost_node_hours_per_day or None,
        )
