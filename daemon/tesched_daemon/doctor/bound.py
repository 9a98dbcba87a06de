"""Finding on `guard.bound` and `guard.te`: whether slurmctld's submission hook enforces them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tesched_daemon.admission_file import FORM
from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn

CHECK = "admission"
_PAGE = "docs/howto/bound.md"
_NOT = "is measured, not enforced: without the submission hook Slurm starts TE jobs by itself"


def examine(config: Config, values: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is found; nothing where TE jobs may start whenever Slurm lets them.

    `values` are slurm.conf's as `scontrol show config` writes them. The hook is the job_submit.lua beside slurm.conf.
    """
    what = " and ".join(name for name in ("bound", "te") if getattr(config.guard, name).is_set)
    if not what:
        return
    what = f"what guard.{what.replace(' and ', ' and guard.')} says"
    plugins = values.get("JobSubmitPlugins", "").split(",")
    if "lua" not in plugins:
        yield warn(CHECK, f"{what} {_NOT}; JobSubmitPlugins has no lua", f"install systemd/job_submit.lua ({_PAGE})")
        return
    path = Path(values.get("SLURM_CONF", "/etc/slurm/slurm.conf")).with_name("job_submit.lua")
    try:
        hook = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        text = f"whether {what} is enforced cannot be seen here: {path}: {error.strerror}"
        yield warn(CHECK, text, "run this on slurmctld's host, as a user who may read it")
        return
    if FORM not in hook:
        text = f"{what} {_NOT}; {path} knows no admission file"
        yield warn(CHECK, text, f"install systemd/job_submit.lua of this release ({_PAGE})")
    elif f'"{config.slurm.admission}"' not in hook or f'"{config.loop.socket}"' not in hook:
        text = f"{what} {_NOT}; {path} reads another file than {config.slurm.admission}, or pokes another socket"
        yield warn(CHECK, text, "let TESCHED_ADMISSION and TESCHED_SOCKET be slurm.admission and loop.socket")
    else:
        yield ok(CHECK, f"{what} is enforced: {path} holds TE jobs until they are admitted")
