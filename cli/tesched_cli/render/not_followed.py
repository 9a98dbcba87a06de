"""What a job's user said and does not count, for `tesched explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tesched_core.intake.user_words import PREEMPTIONS
from tesched_core.model.limits import Limits
from tesched_core.model.not_followed import About, NotFollowed
from tesched_core.model.snapshot import JobClass
from tesched_db.views import JobView

if TYPE_CHECKING:
    from tesched_daemon.config import Config

#: The policy that goes by `elastic`, and what a site's own policy may do, too.
_SLAQ = "slaq"


def all_not_followed(job: JobView, limits: Limits, whole: Callable[[], Config]) -> tuple[NotFollowed, ...]:
    """Declarations that were recorded as not followed, and `elastic` where no policy goes by it.

    For that word alone the `whole` configuration is read, which imports each policy.
    """
    above = _above_the_sites(job, limits)
    recorded = job.not_followed if above is None else (*job.not_followed, above)
    built_in = {"none", "fill", "gavel", "pdors"}
    if not job.elastic or any(one.said.lower().endswith("elastic") for one in job.not_followed):
        return recorded
    if job.job_class is not JobClass.BE:
        return recorded
    asked = [entry.name.value for entry in whole().policy.be]
    if set(asked) <= built_in:
        why = f"policy.be is {', '.join(asked) or 'none'}; {_SLAQ} goes by that word"
    else:
        return recorded
    instead = "its tasks run as those of any other array"
    one = NotFollowed(about=About.RUN, said="elastic", source="the job's comment", why=why, instead=instead)
    return (*recorded, one)


def own_most_lines(job: JobView, limits: Limits) -> Iterator[str]:
    """Yield how often it may be preempted, where that is its owner's word."""
    most = job.most_preemptions
    if most is None or most > limits.most_preemptions(gets_notice=job.may_get_notice):
        return
    # Turns of best-effort jobs preempt it in any case.
    jobs = "trial-and-error jobs"
    often = f"at most {most} time(s) for {jobs} of other users" if most else f"never for {jobs}"
    said = (one.said for one in job.not_followed if f"{PREEMPTIONS}=" in one.said.lower())
    word = next((f"{one}; {most} counts" for one in said), f"{PREEMPTIONS}={most}")
    yield f"  often   it is preempted {often}, by its owner's word ({word})"


def _above_the_sites(job: JobView, limits: Limits) -> NotFollowed | None:
    most = limits.most_preemptions(gets_notice=job.may_get_notice)
    if job.most_preemptions is None or job.most_preemptions <= most:
        return None
    key = "preemptions" if most == limits.max_preemptions_per_job else "lost_runs"
    return NotFollowed(
        about=About.RUN,
        said=f"preemptions={job.most_preemptions}",
        source="the job's comment",
        why=f"guard.max_{key}_per_job = {most}, and no job raises that",
        instead=f"it is preempted {most} time(s) at most",
    )


def not_followed_lines(found: Sequence[NotFollowed]) -> Iterator[str]:
    """Yield a line for each."""
    for one in found:
        yield f"  said    {one.said} ({one.source}) is not followed: {one.why}; instead: {one.instead}"
