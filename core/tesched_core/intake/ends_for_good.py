"""Ends for good: a BE job that is not to run again once it is preempted, by its owner's word (`preempted=end`).

Principle
    To end a job by mistake is the worst that can be done to its owner, so the word is exact: each word `preempted=` of
    the comment says `end`, in lower case, and there is one. Anything else is no such word, and the job is requeued.

    The comment counts as it is now, not as it was when the run began: who takes the word back is heard at once. So it
    is read again with each poll, and right before the job is cancelled.

    It is for TE jobs alone: a job that leaves for another one's turn runs again.

Worked example
    `be preempted=end` ends. `preempted=End`, `preempted = end`, `preempted=end preempted=requeue` and
    `not-preempted=end` are requeued.
"""

from __future__ import annotations

from tesched_core.intake.user_words import ENDS, PREEMPTED, PREFIX, WORD


def ends_when_preempted(comment: str) -> bool:
    """Check whether a job with this comment ends when it is preempted, and does not run again."""
    if PREEMPTED not in comment.lower():
        return False  # as most comments: there may be 100,000
    said = set()
    for word in WORD.findall(comment):
        key, equals, value = word.partition("=")
        if key.lower().removeprefix(PREFIX) == PREEMPTED:
            said.add(value if equals else "")
    return said == {ENDS}
