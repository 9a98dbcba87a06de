"""Jobs of the recorded days that `tesched whatif` and `tesched advise` do not run again: how many, and why.

Among them are those that have not run: they wait, or were cancelled first. Nothing says how long they would have run,
so no figure has their waits, which are said beside the figures: a site whose TE jobs wait for days and are cancelled
would seem to have no waits else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import isnan, nan

import numpy as np
from tesched_core.intake.pending_reason import WAITS_FOR_RESOURCES
from tesched_core.model.cluster import JobState
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import JobClass
from tesched_db.views import JobView
from tesched_sim.advice import AT_ONCE_S
from tesched_sim.traces.recorded import NotRun

from tesched_cli.common import duration

WAITING, CANCELLED = "waiting", "cancelled"
#: states of jobs that ended without a start, which had waited
ENDED_FIRST = frozenset({JobState.CANCELLED, JobState.DEADLINE})
#: what Slurm says of a job that waits for resources, or that it has not considered
_FOR_RESOURCES = WAITS_FOR_RESOURCES | {"", "None"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRunJobs:
    """Jobs of one class that have not run; an array's waiting tasks are one."""

    #: "waiting", or "cancelled" (or past their deadline) before they started
    state: str
    #: "te", "be", "exempt"; empty: it would follow from their run times
    job_class: str
    jobs: int
    #: of them, those that waited for no resources: held, at a limit, for another job or a time
    not_for_resources: int
    #: how long the others have waited, or had when they were cancelled, seconds; None where there is none
    wait_p50_s: float | None
    wait_max_s: float | None
    #: of the others, those that waited longer than a minute
    waited_long: int

    @property
    def words(self) -> str:
        """Sentence about them."""
        name = f"{self.job_class.upper()} job(s)" if self.job_class else "job(s) of a class that is not known"
        said = "wait and have not run" if self.state == WAITING else "were cancelled before they ran"
        text = f"{self.jobs} {name} {said}"
        if self.not_for_resources:
            which = "all" if self.not_for_resources == self.jobs else str(self.not_for_resources)
            text += f" ({which} held, at a limit, or for another job or a time)"
        if self.wait_max_s is not None:
            lead = "for" if self.state == WAITING else "after"
            text += f": {lead} {duration(self.wait_p50_s)} (50 %), {duration(self.wait_max_s)} at most"
        return f"{text}."


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Jobs that are left out for one reason."""

    why: str
    jobs: int
    #: one of them as squeue writes it; empty where its id is not known
    such_as: str


@dataclass(slots=True)
class OfStore:
    """Jobs of a state store, those that are run again and the others."""

    ran: list[JobView] = field(default_factory=list)
    running: list[JobView] = field(default_factory=list)
    waited: list[JobView] = field(default_factory=list)
    others: dict[str, list[JobView]] = field(default_factory=dict)

    @staticmethod
    def of(ended: Iterable[JobView], there: Iterable[JobView], *, since: UnixSeconds) -> OfStore:
        """Part jobs that have ended, and those that wait or run, or did when they were seen last."""
        found = OfStore()
        for job in ended:
            if job.ran_s is None:
                found._leave_out(job, "tesched did not see all of them, so how long they ran is not known")
            elif job.ran_s > 0:
                found.ran.append(job)
            elif job.state in ENDED_FIRST:
                found.waited.append(job)
            else:
                found._leave_out(job, "they ran for less than a second")
        for job in there:
            if not job.gone:
                found._take(job)
            elif job.last_seen >= since:
                found._leave_out(job, "tesched did not see their end")
        return found

    def _take(self, job: JobView) -> None:
        if job.state is JobState.PENDING:
            if job.restarts:
                self._leave_out(job, "they were requeued, and wait again")
            else:
                self.waited.append(job)
        elif (run := _so_far(job)) is not None:
            self.running.append(run)
        else:
            self._leave_out(job, "they have just begun")

    def _leave_out(self, job: JobView, why: str) -> None:
        self.others.setdefault(why, []).append(job)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Jobs that are left out, but for those that have not run."""
        return tuple(LeftOut(why=why, jobs=len(jobs), such_as=jobs[0].label) for why, jobs in self.others.items())


def _so_far(job: JobView) -> JobView | None:
    """The job, as if it had ended when it was seen last: without it its nodes would be free. None: it has just begun.

    Of one that was requeued the present run alone.
    """
    if job.start_time is None or job.last_seen <= job.start_time:
        return None
    ran_s = job.last_seen - job.start_time
    if job.restarts:
        return replace(job, ran_s=ran_s, first_submit_time=job.start_time, waited_s=None)
    return replace(job, ran_s=ran_s, waited_s=max(job.start_time - job.first_submit_time, 0.0))


def of_store(jobs: Iterable[JobView]) -> tuple[NotRunJobs, ...]:
    """Jobs of the state store that have not run, by state and class."""
    return _summed(
        (WAITING if job.state is JobState.PENDING else CANCELLED, job.job_class.value, _waited_s(job)) for job in jobs
    )


def of_trace(jobs: Sequence[NotRun], te: Sequence[bool | None]) -> tuple[NotRunJobs, ...]:
    """Jobs of a trace that have not run, by state and class; `te` says of each whether it is TE, None: not known."""
    names = {True: JobClass.TE.value, False: JobClass.BE.value, None: ""}
    return _summed(
        (WAITING if job.waits else CANCELLED, names[is_te], job.waited_s) for job, is_te in zip(jobs, te, strict=True)
    )


def remarks(left_out: Sequence[LeftOut], not_run: Sequence[NotRunJobs]) -> Iterator[str]:
    """Yield what is said of these jobs below the figures."""
    for one in left_out:
        such_as = f", such as {one.such_as}" if one.such_as else ""
        yield f"{one.jobs} job(s) are left out: {one.why}{such_as}."
    if not_run:
        yield "In none of the figures, as it is not known how long they would have run:"
        yield from (f"  {one.words}" for one in not_run)


def hides_waits(found: Sequence[NotRunJobs], te_jobs: int) -> bool:
    """Check whether more than 5 % of all TE jobs, `te_jobs` that ran and those that did not, waited long unseen."""
    mine = [one for one in found if one.job_class == JobClass.TE.value]
    return 20 * sum(one.waited_long for one in mine) > te_jobs + sum(one.jobs for one in mine)


def _waited_s(job: JobView) -> float:
    """Seconds that a job has waited for resources; nan: it waits for none."""
    if job.reason not in _FOR_RESOURCES:
        return nan
    return max(job.last_seen - job.first_submit_time, 0.0) if job.waited_s is None else job.waited_s


def _summed(jobs: Iterable[tuple[str, str, float]]) -> tuple[NotRunJobs, ...]:
    found = []
    # TE jobs first, and those that wait.
    for (state, job_class), some in groupby(sorted(jobs, key=_order), key=lambda job: job[:2]):
        all_s = [waited_s for _, _, waited_s in some]
        waits_s = [waited_s for waited_s in all_s if not isnan(waited_s)]
        found.append(
            NotRunJobs(
                state=state,
                job_class=job_class,
                jobs=len(all_s),
                not_for_resources=len(all_s) - len(waits_s),
                wait_p50_s=float(np.median(waits_s)) if waits_s else None,
                wait_max_s=max(waits_s, default=None),
                waited_long=sum(waited_s > AT_ONCE_S for waited_s in waits_s),
            )
        )
    return tuple(found)


def _order(job: tuple[str, str, float]) -> tuple[int, bool]:
    classes = [JobClass.TE.value, "", JobClass.BE.value, JobClass.EXEMPT.value]
    return classes.index(job[1]), job[0] != WAITING
