"""Slurm's errors as values: one mapping from what Slurm says to what it means for us."""

from __future__ import annotations

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
    (FailureKind.BUSY, ("too busy", "temporarily unavailable", "try again")),
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
        ),
    ),
    (FailureKind.REFUSED, ("disabled", "held state", "not permitted", "invalid", "cannot")),
)


def failure(text: str) -> Failure:
    """Return what Slurm's error text means."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = lines[-1] if lines else "no message"
    said = text.lower()
    kind = next((kind for kind, texts in _KINDS if any(part in said for part in texts)), FailureKind.UNKNOWN)
    return Failure(kind=kind, message=message)
