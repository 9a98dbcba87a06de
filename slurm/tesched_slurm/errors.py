"""Slurm's errors as values: one mapping from what Slurm says to what it means for us.

Principle
    An error of slurmctld's is an answer: it did not do what it should. A site's job_submit plugin may answer with any
    number, and slurm_strerror has any text for it ("Unspecified error", "Environment variable exists"), so no list of
    texts is complete. Where scontrol names the job of which it changes a field, each text that is none of the
    connection's is a refusal. What is left is unknown: whether slurmctld was reached, and what it did. So is a text
    that is not listed of a requeue, a suspension or a signal: no plugin sees those, and a refusal of theirs is
    final for a victim.

Worked example
    slurm_job_modify of job_submit.lua returns slurm.ERROR: "Unspecified error for job 7", of an array
    "3_0-5: Unspecified error" (22.05; the plugin's own words, by slurm.log_user, are printed for a submission alone).
    "Message receive failure for job 7" is no answer: the change may have arrived.

Source
    slurm_errno(3), src/common/slurm_errno.c and src/scontrol/update_job.c of 22.05.8.
"""

from __future__ import annotations

import re

from tesched_core.model.actions import Failure, FailureKind

#: First match wins. The texts are slurm_strerror's; seen on 22.05 and 26.05.
_KINDS: tuple[tuple[FailureKind, tuple[str, ...]], ...] = (
    (FailureKind.NOT_FOUND, ("invalid job id",)),
    (
        FailureKind.ALREADY_DONE,
        (
            "already completing",
            "already completed",
            "is pending execution",
            "not pending",
            "no longer pending",
            "not running",
            "no longer running",
            "job is not suspended",
            "already suspended",
            "already finished",
        ),
    ),
    (FailureKind.DENIED, ("access/permission denied", "invalid user id", "not authorized")),
    (FailureKind.BUSY, ("too busy", "temporarily unavailable", "try again", "connect to database")),
    (
        FailureKind.UNREACHABLE,
        (
            "unable to contact",
            "connection refused",
            "connect failure",
            "timed out",
            "zero bytes",
            "timeout",
            "communication",
            "configuration source",
            "primary controller",
            "unable to establish",
            # Of an answer that was lost or not understood nothing is known, either.
            "message receive failure",
            "message send failure",
            "insane message length",
            "missing socket",
            "standby mode",
            "authentication",
            "incompatible versions",
            "connection reset",
            "broken pipe",
            "no route to host",
            "network is unreachable",
            "header lengths",
            "transport endpoint",
            "cannot assign requested address",
            "too many open files",
            "operation now in progress",
            "host is down",
            "connection abort",
            "bad file descriptor",
            "no buffer space",
        ),
    ),
    (FailureKind.UNKNOWN, ("unexpected message",)),
    (FailureKind.REFUSED, ("disabled", "held state", "not permitted", "invalid", "cannot")),
)
#: How scontrol writes slurmctld's error of one job, of an array's tasks, and of a hold or a suspension.
_ANSWER = re.compile(r".+ for job [\d_+]+|\d[\d_,+%\[\]-]*: .+|slurm_suspend error: .+")


def failure(text: str, *, of_change: bool = False, answered: bool = False) -> Failure:
    """Classify a failure by Slurm's error text.

    `of_change`: it was to change a field of a job's record. `answered`: it is known that it is slurm_strerror's, of one
    RPC, as pyslurm's errors are.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = lines[-1] if lines else "no message"
    said = text.lower()
    is_answer = of_change and (answered or _ANSWER.fullmatch(message) is not None)
    other = FailureKind.REFUSED if is_answer else FailureKind.UNKNOWN
    kind = next((kind for kind, texts in _KINDS if any(part in said for part in texts)), other)
    return Failure(kind=kind, message=message)
