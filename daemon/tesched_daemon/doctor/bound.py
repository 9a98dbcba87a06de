"""Findings on `guard.bound` and `guard.te`: the submission hook, and grace periods that are too long."""

from __future__ import annotations

from collections.abc import Iterator

from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.enforcement import Enforced

from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn
from tesched_daemon.hook_fit import hook_of, keys_of, misfits
from tesched_daemon.settings import Mode

CHECK = "admission"
GRACE = "grace periods"
_PARTLY = "is kept in part"
_NOT = "is measured, not enforced: without the submission hook Slurm starts TE jobs by itself"


def examine(config: Config, settings: SlurmSettings) -> Iterator[Finding]:
    """Yield what is found; nothing where TE jobs may start whenever Slurm lets them."""
    keys = keys_of(config.guard)
    if not keys:
        return
    what = f"what {' and '.join(keys)} says"
    found = [*misfits(settings, config.slurm.admission, config.loop.socket)]
    if all(one.holds for one in found):
        installed = f"the submission hook, which is installed: {hook_of(settings)}"
        kept = f"{what} is kept by {installed}"
        yield ok(CHECK, kept if config.mode is Mode.ENFORCE else installed.replace(", which", ""))
    for one in found:
        text = one.text
        if one.enforced is Enforced.UNKNOWN:
            text = f"whether {what} is enforced cannot be seen here: {text}"
        elif not one.holds:
            text = f"{what} {_NOT if one.enforced is Enforced.NO else _PARTLY}; {text}"
        yield warn(CHECK, text, one.advice)
    if config.guard.bound.is_set:
        yield _grace_periods(config, settings)


def _grace_periods(config: Config, settings: SlurmSettings) -> Finding:
    """Check whether a victim may have a grace period that is longer than what a victim's way back takes at least.

    docs/the-bound.md, "What is assumed": during a longer one two TE jobs may delay a BE job, one after the other.
    """
    key, longest_s = config.classes.longest_grace_period()
    most_s = settings.requeue_delay_s + config.guard.min_run_time_s + config.loop.backoff_max_s
    text = f"a victim's is {longest_s:g} s at most ({key})"
    if longest_s <= most_s:
        return ok(GRACE, text)
    return warn(
        GRACE,
        f"{text}; guard.bound counts on {most_s:g} s: requeue delay, guard.min_run_time_s and loop.backoff_max_s "
        "together. During a longer one a BE job may be delayed by one more TE job",
        f"let {key} be {most_s:g} or less",
    )
