"""Finding on how new jobs are found between two polls: in slurmctld's state folder, by tests, or not at all."""

from __future__ import annotations

import shlex
from pathlib import Path

from tesched_core.model.cluster import SlurmSettings
from tesched_slurm.submission_signs import ScriptFolders

from tesched_daemon.bounded_read import bounded_read
from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn
from tesched_daemon.new_jobs import elsewhere, while_here

CHECK = "new jobs"
PAGE = "docs/howto/at-once.md"


def new_jobs(config: Config, settings: SlurmSettings, user: str) -> Finding:
    """Report how `user`, who runs this, would find new jobs. The submission hook is not considered."""
    pace = config.loop
    tests = f"by {pace.tests_per_minute} tests a minute" if pace.tests_per_minute else ""
    polls = tests or f"by a poll each {pace.poll_interval_s:g} s, but for those that the submission hook reports"
    if not pace.watch_state_folder:
        return ok(CHECK, f"found {polls}: loop.watch_state_folder is off")
    folder = settings.state_folder
    if why := elsewhere(settings):
        return ok(CHECK, f"found {polls}: {why}")
    try:
        bounded_read(ScriptFolders(folder=Path(folder)).has_new)
    except PermissionError:
        path = shlex.quote(folder)
        advice = f"let it search that folder: setfacl -m u:{user}:x {path}, and so for each folder above it ({PAGE})"
        return warn(CHECK, f"found {polls}: {user} may not search slurmctld's state folder ({folder})", advice)
    except OSError as error:
        advice = f"let this host see slurmctld's StateSaveLocation ({PAGE})"
        return warn(CHECK, f"found {polls}: {folder}: {error.strerror}", advice)
    here = while_here(settings.controllers)
    return ok(CHECK, f"batch jobs are found at once, by their scripts in {folder}{here}; others {polls}")
