"""The note for a preempted job's user, in the job's own record: its AdminComment, or its `extra`.

A text that is not tesched's is left, whole: a site's AdminComment may be read by its accounting, and `extra` is
the job's user's own. An earlier note of tesched's is replaced.

Seen on 22.05 and 26.05: both survive a requeue; all who may see the job read them; AdminComment is shown by squeue
(-O admin_comment) and scontrol, `extra` by scontrol alone, and 22.05 has none.
"""

from __future__ import annotations

import json
import time

from tesched_core.model.actions import Failure, FailureKind, Record, TellUser
from tesched_core.model.cluster import Job
from tesched_core.model.hook import has_hook_mark, without_mark
from tesched_core.orders.tell_users import is_note, note

from tesched_slurm.columns import strange
from tesched_slurm.run_command import Commands

_MARK = "admin comment"
_WORDS = {Record.ADMIN_COMMENT: "AdminComment", Record.EXTRA: "Extra"}


def write_note(commands: Commands, action: TellUser, seen: Job, address: str) -> Failure | None:
    """Write the note into the job's record; return why that could not be. `seen` is the job a moment ago.

    `address` is the id that means this job alone.
    """
    if action.record is Record.NONE:
        return None
    if seen.finished:
        return Failure(kind=FailureKind.ALREADY_DONE, message=f"job {address} is {seen.state} by now")
    there = seen.admin_comment if action.record is Record.ADMIN_COMMENT else _extra(commands, seen)
    if isinstance(there, Failure):
        return there
    word = _WORDS[action.record]
    if there and not is_note(there):
        text = f"the {word} of job {address} holds a text that is not tesched's, and is left"
        return Failure(kind=FailureKind.REFUSED, message=text)
    # As squeue and scontrol write it, in the time zone of this host.
    when = time.strftime("%Y-%m-%dT%H:%M", time.localtime(action.at))
    answer = commands.run(("scontrol", "update", f"jobid={address}", f"{word.lower()}={note(action, when)}"))
    return answer if isinstance(answer, Failure) else None


def without_hook_mark(commands: Commands, seen: Job, address: str) -> None:
    """Remove the submission hook's mark from a job that has just been released; a text of the site's before it stays.

    Slurm denies it to an Operator (22.05 and 26.05): then it stays, which means nothing on a job that is not held.
    """
    if not has_hook_mark(seen) or _MARK in commands.denied:
        return
    answer = commands.run(
        ("scontrol", "update", f"jobid={address}", f"admincomment={without_mark(seen.admin_comment)}")
    )
    if isinstance(answer, Failure) and answer.kind is FailureKind.DENIED:
        # Each try is an error in slurmctld's log.
        commands.denied.add(_MARK)


def _extra(commands: Commands, job: Job) -> str | Failure:
    """Return the job's `extra`: from JSON, where no other text of its user's can be taken for it."""
    answer = commands.run(("scontrol", "--json", "show", "job", str(job.job_id)))
    if isinstance(answer, Failure):
        return answer
    try:
        records = json.loads(answer)["jobs"]
        return str(next(one.get("extra") or "" for one in records if one["job_id"] == job.job_id))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        return strange("scontrol --json show job", error)
