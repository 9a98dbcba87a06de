"""Findings on when victims are notified: before Slurm has said what a TE job waits for, or after (await_first_look)."""

from __future__ import annotations

from tesched_core.model.cluster import SlurmSettings

from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn

CHECK = "Slurm's word"
PAGE = "docs/howto/at-once.md"


def first_look(config: Config, settings: SlurmSettings) -> Finding:
    """Report when victims are notified of a TE job that requests nodes alone, and which setting says so."""
    said = config.guard.await_first_look
    enforced = f"AccountingStorageEnforce={','.join(sorted(settings.enforced)) or '?'}"
    if said is True:
        return ok(CHECK, "victims wait for Slurm's word on each TE job: guard.await_first_look = true")
    if said is False and settings.limits_enforced:
        text = f"guard.await_first_look = false, and slurm.conf has {enforced}: victims leave for a TE job at a limit"
        return warn(CHECK, text, f'say "auto" unless no user, account or QOS has a limit ({PAGE})')
    if said is False:
        return ok(CHECK, "guard.await_first_look = false: victims are notified at once")
    if settings.has_burst_buffers:
        return ok(CHECK, "victims wait for Slurm's word on each TE job: slurm.conf has a BurstBufferType")
    if settings.limits_enforced:
        text = f"victims are notified at once where no limit can keep the TE job, else after Slurm's word ({enforced})"
        return ok(CHECK, text)
    return ok(CHECK, "victims are notified at once: slurm.conf enforces no limits (AccountingStorageEnforce)")
