"""Finding on `guard.bound` and `guard.te`: whether slurmctld's submission hook enforces them."""

from __future__ import annotations

from collections.abc import Iterator

from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.enforcement import Enforced

from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn
from tesched_daemon.hook_fit import hook_of, keys_of, misfits
from tesched_daemon.settings import Mode

CHECK = "admission"
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
