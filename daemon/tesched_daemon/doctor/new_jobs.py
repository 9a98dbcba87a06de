"""Finding on how new jobs are found between two polls: in slurmctld's state folder, by tests, or not at all."""

from __future__ import annotations

from tesched_core.model.cluster import SlurmSettings

from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn
from tesched_daemon.new_jobs import runs_here, unwatchable

CHECK = "new jobs"
PAGE = "docs/howto/at-once.md"


def new_jobs(config: Config, settings: SlurmSettings, user: str) -> Finding:
    """Report how `user`, who runs this, would find new jobs. The submission hook is not considered."""
    pace = config.loop
    tests = f"by {pace.tests_per_minute} tests a minute" if pace.tests_per_minute else ""
    polls = tests or f"by a poll each {pace.poll_interval_s:g} s, but for those that the submission hook reports"
    if not pace.watch_state_folder:
        return ok(CHECK, f"found {polls}: loop.watch_state_folder is off")
    why = unwatchable(settings)
    if not why:
        return ok(CHECK, f"batch jobs are found at once, by their scripts in {settings.state_folder}; others {polls}")
    if not runs_here(settings.controllers):
        return ok(CHECK, f"found {polls}: {why}")
    folder = settings.state_folder
    advice = f"let it search that folder: setfacl -m u:{user}:x {folder}, and so for each folder above it ({PAGE})"
    return warn(CHECK, f"found {polls}: {user} may not search slurmctld's state folder ({why})", advice)
