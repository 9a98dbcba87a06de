"""Whether slurmctld obeys the marks: slurm.conf and the lever `plugin` go together (slurm_plugin/README.md).

Called by the daemon at every poll, for `tesched status`, and by `tesched doctor`.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator

from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.snapshot import JobClass, Snapshot

from tesched_daemon.marks_file import MarksFile
from tesched_daemon.plugin_file import FILE, built_for

PAGE = "docs/howto/plugin.md"
#: folders that no two hosts share
_OF_ONE_HOST = ("/run/", "/var/run/")


def user_name() -> str:
    """Return the name of the user that runs this process."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def misfits(settings: SlurmSettings, marks: str, user: str) -> Iterator[tuple[str, str]]:
    """Yield what keeps slurmctld from obeying marks that `user` writes to the file `marks`, and what to do about it."""
    plugin = settings.plugin
    if plugin is None:
        kind = settings.preempt_type or "unknown"
        text = f"PreemptType is {kind}: Slurm has no plugin that reads marks, so no job is preempted"
        yield text, f'build and install preempt/tesched ({PAGE}), or set guard.lever = "requeue"'
        return
    built = built_for(plugin.folders)
    if built and built != settings.release:
        text = f"{FILE} was built for Slurm {built}, and slurmctld is {settings.release}: no job is preempted"
        yield text, f"build it from the source of Slurm {settings.release} ({PAGE}), install it, restart slurmctld"
    if plugin.marks != marks:
        text = f"slurmctld reads {plugin.marks} (tesched_marks), and slurm.marks is {marks}"
        yield text, "give both the same path, on a file system that slurmctld's host sees"
    if user not in plugin.owners:
        text = f"slurmctld trusts marks of {', '.join(sorted(plugin.owners))} alone, and {user} writes them"
        yield text, f"add tesched_marks_user={user} to SlurmctldParameters in slurm.conf, then scontrol reconfigure"
    if "REQUEUE" not in plugin.mode:
        text = f"PreemptMode is {plugin.mode or 'not set'}, so no job is preempted"
        yield text, "set PreemptMode=REQUEUE in slurm.conf, for partitions with best-effort jobs too"


def remarks(settings: SlurmSettings) -> Iterator[tuple[str, str]]:
    """Yield what makes slurmctld obey the marks less than it could, and what to do about it."""
    plugin = settings.plugin
    if plugin is None:
        return
    if not plugin.te_qos and not plugin.te_partitions:
        text = "slurmctld knows no QOS or partition of TE jobs: only jobs with tesched:te in AdminComment preempt"
        yield text, "name them in SlurmctldParameters: tesched_te_qos=A:B, tesched_te_partition=A:B"
    if plugin.youngest_first:
        text = "youngest_first is set: Slurm preempts the youngest of the marked jobs, whatever their order is"
        yield text, "take preempt_youngest_first or youngest_first out of slurm.conf"
    if len(settings.controllers) > 1 and plugin.marks.startswith(_OF_ONE_HOST):
        backups = ", ".join(settings.controllers[1:])
        text = f"a backup slurmctld ({backups}) finds no marks: each host has a folder of its own for {plugin.marks}"
        yield text, "set slurm.marks, and tesched_marks in SlurmctldParameters, to a file that all of these hosts mount"


def marks_trouble(seen: Snapshot | None, file: MarksFile | None, limits: Limits) -> str:
    """Reason that Slurm does not do as the lever `plugin` means it, in words; empty with another lever.

    `file` is the one that this process writes.
    """
    if seen is None or file is None or limits.lever is not YieldBy.PLUGIN:
        return ""
    wrong = [text for text, _ in misfits(seen.settings, str(file.path), user_name())]
    tampered = file.tampered()
    rewritten = f"{tampered}; it is being written anew" if tampered else ""
    return file.failure or "; ".join(wrong) or rewritten or file.unnamed() or _others_for_te(seen)


def _others_for_te(seen: Snapshot) -> str:
    """Jobs that Slurm preempts for although they are no TE jobs by our rules, in words; empty if none."""
    plugin = seen.settings.plugin
    if plugin is None:
        return ""
    found = [
        job
        for job in seen.jobs.values()
        if job.pending and plugin.takes_for_te(job) and seen.job_class(job.job_id) is JobClass.BE
    ]
    if not found:
        return ""
    first = min(found, key=lambda job: job.job_id)
    return (
        f"{len(found)} best-effort job(s) are TE jobs by slurm.conf, the first is {first.label}: Slurm preempts for it"
    )
