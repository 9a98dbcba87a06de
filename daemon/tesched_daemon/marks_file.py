"""Marks file: the jobs that Slurm's plugin preempt/tesched may preempt, replaced whole (slurm_plugin/README.md)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tesched_core.model.actions import Action, Failure, FailureKind, MarkLine, Outcome, SetMarks, Status
from tesched_core.ports import Actuator, Barred, never_barred


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkingActuator:
    """Writes marks, besides what another actuator does."""

    actuator: Actuator
    path: Path

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        """Perform it. A file that cannot be written is a failure that names it."""
        if not isinstance(action, SetMarks):
            return self.actuator.act(action, barred)
        began = time.time()
        if barred():
            return Outcome(action=action, status=Status.SKIPPED, at=began)
        try:
            replace_file(self.path, text_of(action.marks))
        except OSError as error:
            message = f"the marks cannot be written: {self.path}: {error.strerror}"
            failure = Failure(kind=FailureKind.BUSY, message=message)
            return Outcome(action=action, status=Status.FAILED, at=time.time(), failure=failure)
        return Outcome(action=action, status=Status.SENT, at=time.time(), took_s=time.time() - began)


def text_of(marks: Iterable[MarkLine]) -> str:
    """Return the file's text; the lines ascend by job id."""
    lines = [
        f"{one.job_id} * {one.order} {one.grace_s} requeue {one.max_restarts} {one.least_run_s} {one.after} {one.until}"
        for one in sorted(marks, key=lambda one: one.job_id)
    ]
    return "\n".join(["tesched-marks 1", *lines, f"end {len(lines)}", ""])


def replace_file(path: Path, text: str) -> None:
    """Put the file in place of the one before, at once for a reader: slurmctld's host reads it. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    # An older one of a crash may be another user's link: it is never written through.
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(handle, "w", encoding="ascii") as stream:
        os.fchmod(stream.fileno(), 0o644)
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(path)
