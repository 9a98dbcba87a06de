"""Whether the submission hook enforces guard.bound and guard.te: slurm.conf, job_submit.lua and tesched.toml fit.

The hook is the job_submit.lua beside slurm.conf. Examined by the daemon each minute, for `tesched status`, and by
`tesched doctor`. Whether slurmctld has read the file, and what else stands in it, is not seen from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.enforcement import Enforced, Enforcement
from tesched_core.model.limits import Limits, YieldBy

from tesched_daemon.admission_file import FORM, AdmissionFile
from tesched_daemon.settings import Mode

PAGE = "docs/howto/bound.md"
#: seconds for which what was found of the hook holds
EACH_S = 60.0
#: what guard.bound lacks with the lever `plugin`
MARKS_ALONE = (
    'with guard.lever = "plugin" it is kept by marks alone between two polls: a TE job that Slurm admits by then is '
    "not held"
)
_CALL = re.compile(r"^(?!.*\bfunction\b).*\btesched_submitted\(", re.MULTILINE)
_ANSWER = re.compile(r"\breturn\s+tesched_submitted\(")
_MODIFY_CALL = re.compile(r"^(?!.*\bfunction\b).*\btesched_modified\(", re.MULTILINE)
#: a word that the hooks of earlier releases lack
_NEWEST = "MOST_ARRAY_TEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Reason that keeps the hook from holding TE jobs."""

    #: how far they are held all the same
    enforced: Enforced
    #: what is so, in words, and what to do about it
    text: str
    advice: str
    #: it is this release's hook, and holds TE jobs but for this
    holds: bool = False


def hook_of(settings: SlurmSettings) -> Path:
    """Path where slurmctld has its submission hook in Lua."""
    return Path(settings.conf or "/etc/slurm/slurm.conf").with_name("job_submit.lua")


def misfits(settings: SlurmSettings, admission: str, socket: str) -> Iterator[Misfit]:
    """Yield what keeps the hook from holding TE jobs by the file `admission` of a daemon that is poked at `socket`."""
    if "lua" not in settings.job_submit:
        advice = f"install systemd/job_submit.lua ({PAGE})"
        yield Misfit(enforced=Enforced.NO, text="JobSubmitPlugins has no lua", advice=advice)
        return
    path = hook_of(settings)
    try:
        hook = _code(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        advice = "run this on slurmctld's host, as a user who may read it"
        yield Misfit(enforced=Enforced.UNKNOWN, text=f"{path}: {error.strerror}", advice=advice)
        return
    if FORM not in hook or _NEWEST not in hook:
        is_older = FORM in hook
        yield Misfit(
            enforced=Enforced.PARTLY if is_older else Enforced.NO,
            text=f"{path} {'is of an earlier release' if is_older else 'knows no admission file'}",
            advice=f"install systemd/job_submit.lua of this release ({PAGE})",
        )
    elif f'"{admission}"' not in hook or f'"{socket}"' not in hook:
        text = f"{path} reads another file than {admission}, or pokes another socket"
        advice = "let TESCHED_ADMISSION and TESCHED_SOCKET be slurm.admission and loop.socket"
        yield Misfit(enforced=Enforced.NO, text=text, advice=advice)
    elif not _CALL.search(hook):
        advice = f"call it before each `return slurm.SUCCESS` of slurm_job_submit ({PAGE})"
        yield Misfit(enforced=Enforced.NO, text=f"{path} never calls tesched_submitted", advice=advice)
    else:
        yield from _gaps(path, hook)


def _gaps(path: Path, hook: str) -> Iterator[Misfit]:
    if not _ANSWER.search(hook):
        text = f"{path} drops the answer of tesched_submitted: no TE job is refused (srun --immediate, "
        text += "guard.te.max_submitted_per_user)"
        advice = f"end slurm_job_submit by `return tesched_submitted(...)` ({PAGE})"
        yield Misfit(enforced=Enforced.PARTLY, text=text, advice=advice, holds=True)
    if not _MODIFY_CALL.search(hook):
        text = f"{path} never calls tesched_modified: TE jobs that their users held or changed start by themselves"
        advice = f"call it before each `return slurm.SUCCESS` of slurm_job_modify ({PAGE})"
        yield Misfit(enforced=Enforced.PARTLY, text=text, advice=advice, holds=True)


def _code(text: str) -> str:
    """Return a Lua file's text without its comments. Dashes in a string count as one: no line of the hook has any."""
    return re.sub(r"--[^\n]*", "", re.sub(r"--\[(=*)\[.*?\]\1\]", "", text, flags=re.DOTALL))


def keys_of(limits: Limits) -> tuple[str, ...]:
    """Return the tables of the configuration that limit TE jobs, where they are set."""
    return tuple(f"guard.{name}" for name in ("bound", "te") if getattr(limits, name).is_set)


@dataclass(slots=True, kw_only=True)
class HookFit:
    """Enforcement as it was found last; the hook is read each minute, and where slurm.conf has changed."""

    #: slurm.conf as it was seen last
    _settings: SlurmSettings | None = field(default=None)
    _found: tuple[Misfit, ...] = field(default=())
    #: when the hook was read, by the stopwatch, and what for
    _at: float = field(default=0.0)
    _read_for: tuple[object, ...] | None = field(default=None)

    def enforcement(
        self,
        settings: SlurmSettings | None,
        file: AdmissionFile,
        *,
        mode: Mode,
        limits: Limits,
        socket: str,
        at: float,
    ) -> Enforcement | None:
        """Enforcement of the limits on TE jobs; None: none is set.

        `settings` is None while Slurm is not seen. `file` is the one that this process writes, `at` the stopwatch's
        time in seconds.
        """
        keys = keys_of(limits)
        if not keys:
            return None
        self._settings = settings or self._settings
        if mode is not Mode.ENFORCE:
            return Enforcement(keys=keys, enforced=Enforced.NO, why=f"mode {mode}")
        if self._settings is None:
            return Enforcement(keys=keys, enforced=Enforced.UNKNOWN, why="Slurm has not been seen yet")
        if file.unwritten:
            return Enforcement(keys=keys, enforced=Enforced.NO, why=file.unwritten)
        found = [(one.enforced, one.text) for one in self._misfits(self._settings, str(file.path), socket, at)]
        if limits.bound.is_set and limits.lever is YieldBy.PLUGIN:
            found.append((Enforced.PARTLY, MARKS_ALONE))
        if not found:
            return Enforcement(keys=keys, enforced=Enforced.YES)
        return Enforcement(keys=keys, enforced=found[0][0], why="; ".join(text for _, text in found))

    def _misfits(self, settings: SlurmSettings, admission: str, socket: str, at: float) -> tuple[Misfit, ...]:
        needed = (settings.job_submit, settings.conf, admission, socket)
        if needed != self._read_for or not 0 <= at - self._at < EACH_S:
            self._read_for, self._at = needed, at
            self._found = tuple(misfits(settings, admission, socket))
        return self._found
