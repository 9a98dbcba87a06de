"""Refusals of one job, in words, for `tesched explain`: why no victim was selected for it, and why it was none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tesched_core.model.decision import RefusalCode
from tesched_core.model.order import Ending
from tesched_db.views import JobStory, RefusalView

from tesched_cli.render.until import Until

#: jobs named in one line before the rest is counted
NAMED = 12


def considered(story: JobStory, until: Until) -> Iterator[str]:
    """Yield why no victim was selected for the job, and why it was none itself, after an empty line each."""
    job_id = story.job.job_id
    own = [refusal for refusal in story.refusals_as_preemptor if refusal.job_id == job_id]
    others = [refusal for refusal in story.refusals_as_preemptor if refusal.job_id != job_id]
    for refusal in own:
        if story.orders_as_preemptor and not refusal.stands:
            continue  # its order says what became of it
        yield ""
        if refusal.code is RefusalCode.NOTE:
            yield f"what its policy {'says' if refusal.stands else 'said'} of it: {refusal.text}"
            continue
        if refusal.code is RefusalCode.RETRY_LATER and _last_was_shadow(story):
            text = "its order was recorded in mode shadow; the next comes after guard.retry_after_s"
            yield f"{text}{until.words([refusal])}  [{refusal.code}]"
            continue
        if refusal.code is RefusalCode.PATIENCE and (at := until.of(refusal)) is not None:
            said = f"by its owner's word (patience={story.job.patience_s:g})"
            yield f"it waits until {until.at(at)} before others have to leave for it, {said}  [{refusal.code}]"
            continue
        tense = "is" if refusal.stands else "was"
        yield f"no victim {tense} selected for it: {refusal.text}{until.words([refusal])}  [{refusal.code}]"
    if others:
        yield ""
        yield "candidates considered for it and not selected:"
        yield from _grouped(others, until, by_preemptor=False)
    waits = [refusal for refusal in story.refusals_as_candidate if refusal.code is RefusalCode.WOULD_DELAY]
    for refusal in waits:
        yield ""
        yield f"it {'is' if refusal.stands else 'was'} not brought forward: {refusal.text}  [{refusal.code}]"
    not_selected = [refusal for refusal in story.refusals_as_candidate if refusal.code is not RefusalCode.WOULD_DELAY]
    if not_selected:
        yield ""
        yield "as a victim it was not selected:"
        yield from _grouped(not_selected, until, by_preemptor=True)


def _last_was_shadow(story: JobStory) -> bool:
    orders = story.orders_as_preemptor
    return bool(orders) and orders[-1].order.ending is Ending.SHADOW


def _grouped(refusals: Sequence[RefusalView], until: Until, *, by_preemptor: bool) -> Iterator[str]:
    """Return one line for all refusals of a kind, so that a long queue fits one screen."""
    groups: dict[str, list[RefusalView]] = defaultdict(list)
    for refusal in refusals:
        groups[refusal.code].append(refusal)
    for code, members in groups.items():
        labels = list(dict.fromkeys(r.preemptor_label if by_preemptor else r.job_label for r in members))
        # A job has several rows of one code only as a candidate of several others, and those leave none out.
        left_out = 0 if by_preemptor else sum(refusal.more for refusal in members)
        more = max(len(labels) - NAMED, 0) + left_out
        named = ", ".join(labels[:NAMED]) + (f" and {more} more" if more else "")
        scores = [refusal.score for refusal in members if refusal.score is not None]
        span = f", scores {min(scores):.3f} to {max(scores):.3f}" if len(set(scores)) > 1 else ""
        who = f"for job {named}" if by_preemptor else f"job {named}"
        yield f"  {who}: {members[0].text}{span}{until.words(members, leave_some_out=left_out > 0)}  [{code}]"
