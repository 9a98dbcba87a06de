"""The limits that no policy can pass. Only the guard excuses a job, or drops a plan, and it says why.

Two questions, asked at two moments of a cycle:

- `excused`: may this running best-effort job be asked at all? Asked before the policy, so that it can choose among
  those who may.
- `admitted`: may this plan be carried out now? Asked after the policy, plan by plan, since limits that count (a cycle,
  the orders under way) depend on the plans before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf

from tesched_core.cluster import Job, JobState
from tesched_core.decision import Memory, Refusal, RefusalCode
from tesched_core.orders import HOLDS_ROOM
from tesched_core.policy import Plan
from tesched_core.resources import JobId
from tesched_core.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The site's limits. Times in seconds; names are shell globs."""

    #: FitGpp's P: how often one job may be preempted in its life
    max_preemptions_per_job: int = 1
    #: a job is not asked before it has run this long since its last start
    min_run_time_s: float = 60.0
    #: nor this soon after it was last preempted
    cool_down_s: float = 600.0
    #: most jobs asked to yield in one cycle
    max_victims_per_cycle: int = 20
    #: most orders under way at once
    max_open_orders: int = 50
    protected_users: tuple[str, ...] = ()
    protected_accounts: tuple[str, ...] = ()
    protected_qos: tuple[str, ...] = ()
    protected_partitions: tuple[str, ...] = ()
    #: jobs that run inside these reservations
    protected_reservations: tuple[str, ...] = ()
    #: an order is given up this long after the last grace period and KillWait could have ended
    order_timeout_s: float = 60.0
    #: and its TE job is not tried again for this long
    retry_after_s: float = 300.0

    def __post_init__(self) -> None:
        """Raise ValueError for a limit below zero."""
        for name in (
            "max_preemptions_per_job",
            "min_run_time_s",
            "cool_down_s",
            "max_victims_per_cycle",
            "max_open_orders",
            "order_timeout_s",
            "retry_after_s",
        ):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name} must be a number of at least 0")


_Excuse = tuple[RefusalCode, str]


def excused(running: Sequence[Job], snapshot: Snapshot, memory: Memory, limits: Limits) -> Mapping[JobId, Refusal]:
    """Return for each running BE job that may not be asked why not. The refusal's preemptor is the job itself."""
    leaving = {
        victim.job_id for order in memory.open_orders() for victim in order.victims if victim.state in HOLDS_ROOM
    }
    found: dict[JobId, Refusal] = {}
    for job in running:
        excuse = next(_excuses(job, snapshot, memory, limits, leaving=job.job_id in leaving), None)
        if excuse:
            code, text = excuse
            found[job.job_id] = Refusal(job_id=job.job_id, preemptor=job.job_id, code=code, text=text)
    return found


def _excuses(job: Job, snapshot: Snapshot, memory: Memory, limits: Limits, *, leaving: bool) -> Iterator[_Excuse]:
    """Yield every reason not to ask this job, the most telling first."""
    if leaving:
        yield RefusalCode.ALREADY_LEAVING, "it yields already, to another trial-and-error job"
    if job.completing or job.finished or "CONFIGURING" in job.flags:
        yield RefusalCode.ALREADY_LEAVING, "it is just starting or ending"
    if not job.batch:
        yield RefusalCode.INTERACTIVE, "it is interactive (salloc or srun) and cannot be requeued"
    if not job.requeueable:
        yield RefusalCode.NOT_REQUEUEABLE, "it was submitted with --no-requeue"
    if job.het_job_id is not None:
        yield RefusalCode.HETEROGENEOUS, "it is part of a heterogeneous job, which Slurm requeues as a whole"
    if job.state is JobState.SUSPENDED:
        yield RefusalCode.SUSPENDED, "it is suspended, and not by tesched"
    yield from _protections(job, limits)
    count = memory.preemptions.get(job.job_id, 0)
    if count >= limits.max_preemptions_per_job:
        most = limits.max_preemptions_per_job
        yield (
            RefusalCode.MAX_PREEMPTIONS,
            f"it was preempted {count} time(s); guard.max_preemptions_per_job is {most}",
        )
    ran_s = snapshot.taken_at - (job.start_time if job.start_time is not None else snapshot.taken_at)
    if ran_s < limits.min_run_time_s:
        yield RefusalCode.MIN_RUN_TIME, f"it has run for less than guard.min_run_time_s, {limits.min_run_time_s:.0f} s"
    last = memory.last_preempted.get(job.job_id)
    if last is not None and snapshot.taken_at - last < limits.cool_down_s:
        yield RefusalCode.COOL_DOWN, f"it was preempted less than guard.cool_down_s, {limits.cool_down_s:.0f} s, ago"


def _protections(job: Job, limits: Limits) -> Iterator[_Excuse]:
    for code, word, setting, values in (
        (RefusalCode.PROTECTED_USER, "user", "protected_users", (job.user,)),
        (RefusalCode.PROTECTED_ACCOUNT, "account", "protected_accounts", (job.account,)),
        (RefusalCode.PROTECTED_QOS, "QOS", "protected_qos", (job.qos,)),
        (RefusalCode.PROTECTED_PARTITION, "partition", "protected_partitions", job.partitions),
        (RefusalCode.PROTECTED_RESERVATION, "reservation", "protected_reservations", (job.reservation,)),
    ):
        globs: tuple[str, ...] = getattr(limits, setting)
        for value in values:
            if value and any(fnmatchcase(value, glob) for glob in globs):
                yield code, f"its {word} {value} is protected (guard.{setting})"


def admitted(
    plans: Sequence[Plan], memory: Memory, limits: Limits, note: Callable[[Refusal], None]
) -> tuple[Plan, ...]:
    """Return the plans that the counting limits leave, in their order; `note` is told of each one dropped."""
    kept: list[Plan] = []
    victims = 0
    under_way = len(memory.open_orders())
    for plan in plans:
        if under_way + len(kept) >= limits.max_open_orders:
            text = f"{under_way + len(kept)} orders are under way; guard.max_open_orders is {limits.max_open_orders}"
        elif plan.victims and victims + len(plan.victims) > limits.max_victims_per_cycle:
            text = (
                f"this cycle has asked {victims} job(s); guard.max_victims_per_cycle is {limits.max_victims_per_cycle}"
            )
        else:
            kept.append(plan)
            victims += len(plan.victims)
            continue
        note(Refusal(job_id=plan.preemptor, preemptor=plan.preemptor, code=RefusalCode.CYCLE_LIMIT, text=text))
    return tuple(kept)
