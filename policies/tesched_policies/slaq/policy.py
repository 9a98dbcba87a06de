"""slaq: trainings that report their losses share what there is, so that each further worker lowers the loss most.

Definitions
    training    an elastic job array, or another best-effort job that has reported losses (jobs.py).
    unit        what a training is measured in: GPUs if it wants any, else CPUs. Each unit is shared by itself.
    worker      a task of an elastic array; it wants one or more units.
    gain        of a training until the next allocation: by how much its loss is expected to fall, as a part of the most
                that it fell in one iteration.

Principle
    Every `epoch_s`, and when an elastic array comes or goes, curves are fitted to the losses, and the workers are given
    out one by one, each to the array that gains most by it (allocate.py). What there is to share is what elastic arrays
    hold, and what is free and not reserved. An array of which too little is known has an equal share.
    What an iteration costs is measured: units held, times seconds, over iterations.
    A share becomes the array's throttle, unless the change is below `throttle_step`, or the last one was less than
    `throttle_cool_down_s` ago.
    Of the jobs that wait and are no arrays, the one with the highest gain by unit is brought to the head of the queue,
    if that is more than `priority_step` above the others'; another one takes its place after `priority_cool_down_s` at
    the earliest, and by the same step. An unknown gain counts as the mean.
    Running jobs' gains are kept for FitGpp, which may spare a job that gains much (`quality`).

Worked example
    Epoch 30 s, 8 CPUs, two arrays with workers of 2 CPUs each. An iteration costs each 15 CPU-seconds, so a worker does
    4 iterations in an epoch. Array 1 halves its loss in 4 iterations, it is at 0.8, and fell by at most 0.16 in one
    iteration: with 1, 2, 3 workers it gains 0.4, 0.6, 0.7 over 0.16, that is 2.5, 3.75, 4.375. Array 2 is nearly done
    and gains 0.01 by each. After one worker each, the third and the fourth go to array 1: throttles 3 and 1.

Parameters
    epoch_s, least, throttle_step, throttle_cool_down_s, priority_step, priority_cool_down_s.

Source
    Zhang et al., "SLAQ", SoCC 2017, sections 3 and 4. What its driver does by tokens in Spark, every 3 s, is done here
    by ArrayTaskThrottle; tasks that run are left to end, as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tesched_core.model.change import By
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.policy import BoostJob, Intent, Policy, Proposal, ThrottleArray, View

from tesched_policies.slaq.parameters import SlaqParameters
from tesched_policies.slaq.state import SlaqState

if TYPE_CHECKING:
    from tesched_policies.slaq.jobs import SlaqJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Slaq(SlaqParameters, Policy[SlaqState]):
    """The policy; see the head of this file."""

    name: ClassVar[str] = "slaq"
    State: ClassVar[type[SlaqState]] = SlaqState

    def propose(self, view: View, state: SlaqState | None) -> Proposal[SlaqState]:
        """Return the share of each training, and the reason."""
        # Here: it brings what fits curves, for which the command line and a daemon without it need not wait.
        from tesched_policies.slaq.allocation import CoreAllocation, counted  # noqa: PLC0415
        from tesched_policies.slaq.jobs import managed_jobs  # noqa: PLC0415

        managed = managed_jobs(view)
        state = counted(state, managed, view.now)
        elastic = {member.job_id for member in managed if member.elastic}
        if view.now >= state.due_at(self.epoch_s) or elastic != state.shares.keys():
            state = CoreAllocation(parameters=self, view=view, managed=managed, state=state).made()
        here = {member.job_id for member in managed}
        return Proposal(
            intents=tuple(self._intents(view, managed, state)),
            notes={job_id: text for job_id, text in state.said.items() if job_id in here},
            state=state,
            next_at=state.due_at(self.epoch_s),
        )

    def _intents(self, view: View, managed: Sequence[SlaqJob], state: SlaqState) -> Iterator[Intent]:
        jobs = {member.job_id: member.job for member in managed}
        for array, share in state.shares.items():
            if array in jobs:
                # The shares are as of the last allocation, and its user may have set a limit since.
                own = view.own_throttle(array, jobs[array])
                tasks = self._throttle(view, array, min(share, own) if own else share, jobs[array].array_throttle)
                yield ThrottleArray(job_id=array, tasks=tasks, why=state.said.get(array, ""))
        # A job that Slurm did not move is boosted again with the next allocation, not at each poll.
        first = state.first
        if first is not None and (first in view.memory.raised(By.QUEUE) or state.allocated_at == view.now):
            yield BoostJob(job_id=first, why=state.said.get(first, ""), stays=True)

    def _throttle(self, view: View, array: JobId, share: int, seen: int) -> int:
        """Return the throttle that the array should have now: a small change, or a second one soon, is not made."""
        from tesched_core.fields.throttle import in_place  # noqa: PLC0415 - a configuration needs none

        before = view.memory.changes_of(Field.THROTTLE).get(array)
        now_at = in_place(seen, before)
        if before is not None and view.now - before.at < self.throttle_cool_down_s:
            return now_at
        return share if now_at == 0 or abs(share - now_at) >= self.throttle_step else now_at

    def gains(self, state: SlaqState | None) -> Mapping[JobId, float]:
        """Return by how much one task of each training is expected to lower its loss."""
        known = state.trainings.items() if state is not None else ()
        return {job_id: one.gain_task for job_id, one in known if one.gain_task is not None}
