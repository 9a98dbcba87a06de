"""A site on which Slurm says nothing of a waiting job that was changed until its next pass, as slurmctld does."""

from __future__ import annotations

from collections.abc import Collection

from tesched_core.model.actions import Action, OrderId
from tesched_core.model.order import Order

from tests.scenarios.driver import Driver

LIMIT = "QOSMaxJobsPerUserLimit"
#: one pass in so many polls
_POLLS = 3


class SaysLate(Driver):
    """A change of a waiting job, also its release, takes its reason away; the next pass gives it another."""

    #: jobs that are at a limit of their user
    limited: Collection[int] = ()

    def obeys(self, *actions: Action) -> None:
        super().obeys(*actions)
        for action in actions:
            job = self.jobs[action.job_id]
            if job.pending and not job.held:
                self.change(job.job_id, reason="None")

    def passes(self) -> None:
        """Let Slurm go through its queue: behind a job that waits for resources on any nodes it says Priority."""
        waiting = sorted(
            (job for job in self.jobs.values() if job.pending and not job.held),
            key=lambda job: (-job.priority, job.job_id),
        )
        behind = False
        for job in waiting:
            said = "Priority" if behind else LIMIT if job.job_id in self.limited else "Resources"
            self.change(job.job_id, reason=said)
            behind = behind or (said == "Resources" and not job.request.required_nodes)

    def polls(self, begin: int, end: int) -> list[Order]:
        """Poll once a second, let Slurm come to its queue at each third poll, and return the orders, oldest first."""
        found: dict[OrderId, Order] = {}
        for at_s in range(begin, end):
            self.obeys(*self.cycle(at_s))
            found |= self.memory.orders
            if at_s % _POLLS == _POLLS - 1:
                self.passes()
        return [found[order_id] for order_id in sorted(found)]
