"""Mark rule: running BE jobs are marked, and Slurm's plugin preempt/tesched preempts marked jobs alone.

All marks are one file, which is replaced whole (docs/adr/0018-marks.md). A mark holds for one run of its job, for one
preemption, and until `guard.mark_for_s` after it was written: it is renewed when half of that has passed. So Slurm
preempts what was marked while the daemon is away, and nothing more when it stays away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Lever, Orders
from tesched_core.model.actions import CameBack, MarkLine, Outcome, Reason, ReasonCode, SetMarks, Status
from tesched_core.model.change import Mark, TeRules, first_change
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import MarkJobs

_NONE = Mark(order=0, score=0.0, grace_s=0.0, restarts=0, nodes=(), started_at=0.0)


class MarkRule(Lever):
    """Marks of running jobs."""

    name = Field.MARK
    intents = (MarkJobs,)

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Write the marks, where they have changed or are to be renewed."""
        wanted = {job_id: mark for one in intents for job_id, mark in one.marks.items()}
        # Without a mark nothing is preempted, for any job.
        rules = next((one.te_rules for one in intents if wanted), TeRules())
        self._write(wanted, rules, context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Write that no job is marked."""
        self._write({}, TeRules(), context)
        marks = context.changes_of(self.name)
        for job_id in [job_id for job_id, one in marks.items() if one.restored or one.dry]:
            del marks[job_id]

    def _write(self, wanted: Mapping[JobId, Mark], rules: TeRules, context: CycleContext) -> None:
        marks = context.changes_of(self.name)
        new = [job_id for job_id, mark in wanted.items() if job_id not in marks or marks[job_id].value != mark]
        ended = [job_id for job_id, one in marks.items() if job_id not in wanted and not one.restored]
        half_s = context.limits.mark_for_s / 2
        due = any(context.now - one.at > half_s and not one.restored for one in marks.values())
        changed = new or ended or rules != context.draft.te_rules
        if not (changed or due or context.snapshot.marks_doubtful):
            return
        context.draft.te_rules = rules
        since = {job_id: one.since for job_id, one in marks.items()}
        for job_id in ended:  # known until the file without it is written
            marks[job_id] = replace(marks[job_id], value=replace(marks[job_id].value, ended=True))
        for job_id, mark in wanted.items():
            first = first_change(job_id, Field.MARK, _NONE, mark, context.now)
            marks[job_id] = replace(first, since=since.get(job_id, context.now))
        text = f"{len(wanted)} job(s) may be preempted by Slurm ({len(new)} new or changed, {len(ended)} no more)"
        if rules.barred:
            text += (
                f"; TE jobs of {', '.join(sorted(rules.barred))} preempt none, by the limits on what a user may cause"
            )
        if rules.wait_s:
            text += f"; a TE job waits {rules.wait_s} s for resources to be released"
        if rules.came_back:
            text += f"; {len(rules.came_back)} TE job(s) that came back from their starts wait for further victims"
        reason = Reason(code=ReasonCode.MARKS, text=text)
        lines = tuple(self._line(job_id, wanted[job_id], context) for job_id in sorted(wanted))
        context.actions.append(
            SetMarks(
                job_id=JobId(0),
                reason=reason,
                marks=lines,
                barred=tuple(sorted(rules.barred)),
                wait_s=rules.wait_s,
                came_back=tuple(self._bounded(one, context) for one in rules.came_back),
            )
        )

    def _bounded(self, one: CameBack, context: CycleContext) -> CameBack:
        """Return it until the marks end, at the latest: it is renewed with them, and is nothing without them."""
        last = int(context.now + context.limits.mark_for_s)
        return replace(one, until=last if one.until is None else min(one.until, last))

    def _line(self, job_id: JobId, mark: Mark, context: CycleContext) -> MarkLine:
        return MarkLine(
            job_id=job_id,
            order=mark.order,
            grace_s=round(mark.grace_s),
            max_restarts=mark.restarts + 1,
            least_run_s=round(context.limits.min_run_time_s),
            # A clock that differs a little must not make a mark begin later.
            after=max(int(context.now) - 60, 0),
            until=int(min(context.now + context.limits.mark_for_s, inf if mark.until is None else mark.until)),
        )

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Forget the marks that are no longer in the file; write it again where that failed."""
        marks = context.changes_of(self.name)
        for outcome in outcomes:
            if not isinstance(outcome.action, SetMarks):
                continue
            for job_id, one in list(marks.items()):
                written = outcome.status in {Status.SENT, Status.WOULD}
                if written and one.value.ended and one.order_id is not None:
                    del marks[job_id]
                elif written:
                    # Why the run of a mark has ended may be seen later: until then it is known.
                    dry = outcome.status is Status.WOULD
                    marks[job_id] = replace(one, dry=dry, restored=one.restored or one.value.ended)
                else:
                    marks[job_id] = replace(one, at=0.0)

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the marked jobs."""
        return sum(not (one.dry or one.restored) for one in memory.changes_of(self.name).values())


MARK_RULE = MarkRule()
