"""Finding on `guard.bound` and `guard.te`: whether slurmctld's submission hook enforces them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tesched_daemon.admission_file import FORM
from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn
from tesched_daemon.settings import Mode

CHECK = "admission"
_CALL = re.compile(r"^(?!.*\bfunction\b).*\btesched_submitted\(", re.MULTILINE)
_ANSWER = re.compile(r"\breturn\s+tesched_submitted\(")
_MODIFY_CALL = re.compile(r"^(?!.*\bfunction\b).*\btesched_modified\(", re.MULTILINE)
_PAGE = "docs/howto/bound.md"
#: a word that the hooks of earlier releases lack
_NEWEST = "submitted_most"
_PARTLY = "is kept in part"
_NOT = "is measured, not enforced: without the submission hook Slurm starts TE jobs by itself"


def examine(config: Config, values: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is found; nothing where TE jobs may start whenever Slurm lets them.

    `values` are slurm.conf's as `scontrol show config` writes them. The hook is the job_submit.lua beside slurm.conf.
    """
    what = " and ".join(name for name in ("bound", "te") if getattr(config.guard, name).is_set)
    if not what:
        return
    what = f"what guard.{what.replace(' and ', ' and guard.')} says"
    plugins = [name.strip().removeprefix("job_submit/") for name in values.get("JobSubmitPlugins", "").split(",")]
    if "lua" not in plugins:
        yield warn(CHECK, f"{what} {_NOT}; JobSubmitPlugins has no lua", f"install systemd/job_submit.lua ({_PAGE})")
        return
    path = Path(values.get("SLURM_CONF", "/etc/slurm/slurm.conf")).with_name("job_submit.lua")
    try:
        hook = _code(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        text = f"whether {what} is enforced cannot be seen here: {path}: {error.strerror}"
        yield warn(CHECK, text, "run this on slurmctld's host, as a user who may read it")
        return
    if FORM not in hook or _NEWEST not in hook:
        older = "knows no admission file" if FORM not in hook else "is of an earlier release"
        text = f"{what} {_NOT if FORM not in hook else _PARTLY}; {path} {older}"
        yield warn(CHECK, text, f"install systemd/job_submit.lua of this release ({_PAGE})")
    elif f'"{config.slurm.admission}"' not in hook or f'"{config.loop.socket}"' not in hook:
        text = f"{what} {_NOT}; {path} reads another file than {config.slurm.admission}, or pokes another socket"
        yield warn(CHECK, text, "let TESCHED_ADMISSION and TESCHED_SOCKET be slurm.admission and loop.socket")
    elif not _CALL.search(hook):
        text = f"{what} {_NOT}; {path} never calls tesched_submitted"
        yield warn(CHECK, text, f"call it before each `return slurm.SUCCESS` of slurm_job_submit ({_PAGE})")
    else:
        # Whether slurmctld has read it, and what else stands in it, is not seen from here.
        kept = f"{what} is kept by the submission hook, which is installed: {path}"
        yield ok(CHECK, kept if config.mode is Mode.ENFORCE else f"the submission hook is installed: {path}")
        if not _ANSWER.search(hook):
            text = f"{path} drops the answer of tesched_submitted: no TE job is refused (srun --immediate, "
            text += "guard.te.max_submitted_per_user)"
            yield warn(CHECK, text, f"end slurm_job_submit by `return tesched_submitted(...)` ({_PAGE})")
        if not _MODIFY_CALL.search(hook):
            text = f"{path} never calls tesched_modified: TE jobs that their users held or changed start by themselves"
            yield warn(CHECK, text, f"call it before each `return slurm.SUCCESS` of slurm_job_modify ({_PAGE})")


def _code(text: str) -> str:
    """Return a Lua file's text without its comments. Dashes in a string count as one: no line of the hook has any."""
    return re.sub(r"--[^\n]*", "", re.sub(r"--\[(=*)\[.*?\]\1\]", "", text, flags=re.DOTALL))
