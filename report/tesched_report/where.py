"""Place of a job's report: which job this is, whether this process speaks for it, and in which folder.

A report is `SPOOL/UID/JOB.json`: UID is the number of the job's user, JOB what squeue shows (123, 120_4).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISDIR

SPOOL_VARIABLE = "TESCHED_SPOOL"
_CONFIG_VARIABLE = "TESCHED_CONFIG"
_CONFIG = "/etc/tesched/tesched.toml"
#: which of a job's processes this is; the one that is 0 by all of them speaks for the job
_RANKS = ("SLURM_PROCID", "RANK", "OMPI_COMM_WORLD_RANK")


def job_name(environment: Mapping[str, str]) -> str:
    """Return the job in which this is, as squeue shows it; empty outside of one."""
    array, task = environment.get("SLURM_ARRAY_JOB_ID", ""), environment.get("SLURM_ARRAY_TASK_ID", "")
    if _is_number(array) and _is_number(task):
        return f"{array}_{task}"
    job_id = environment.get("SLURM_JOB_ID", "")
    return job_id if _is_number(job_id) else ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10


def speaks_for_its_job(environment: Mapping[str, str]) -> bool:
    """Check whether this is the first of the job's processes: of many ranks one reports."""
    return all(environment.get(rank, "0") == "0" for rank in _RANKS)


def spool_of(environment: Mapping[str, str]) -> Path | None:
    """Return the spool folder: $TESCHED_SPOOL, else what the site's configuration says; None if nothing does."""
    named = environment.get(SPOOL_VARIABLE, "")
    if named:
        return Path(named)
    main = Path(environment.get(_CONFIG_VARIABLE) or _CONFIG)
    said = [_spool_in(file) for file in (main, *_drop_ins(main))]
    # As the daemon reads them: of two values the later one holds.
    configured = next((spool for spool in reversed(said) if spool is not None), None)
    return Path(configured) if isinstance(configured, str) and configured else None


def _spool_in(file: Path) -> object:
    """Value of the spool in a file; None: it says nothing of it, or cannot be read.

    A site's users may not read all of its configuration, such as a file that holds a password: the others count still.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig")).get("reports", {}).get("spool")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def _drop_ins(main: Path) -> list[Path]:
    """Files that are read after the main one, in the order of their names; none of a folder that cannot be read."""
    try:
        found = sorted(path.name for path in (main.parent / "conf.d").iterdir())
    except OSError:
        return []
    return [main.parent / "conf.d" / name for name in found if name.endswith(".toml") and not name.startswith(".")]


def own_folder(spool: Path) -> Path:
    """Return this user's folder in the spool, which is made if it is missing.

    Raises OSError if it cannot be made, and PermissionError if another user has taken its name.
    """
    uid = os.geteuid()
    folder = spool / str(uid)
    inherits_group = bool(spool.stat().st_mode & 0o2000)
    try:
        folder.mkdir()
        # The daemon has to come in, whatever the umask is: as one of the folder's group where that is handed down, else
        # as any user.
        folder.chmod(0o2750 if inherits_group else 0o755)
    except FileExistsError:
        found = folder.lstat()
        if not S_ISDIR(found.st_mode) or found.st_uid != uid:
            raise PermissionError(f"{folder} is no folder of user {uid}; an admin has to remove it") from None
    return folder
