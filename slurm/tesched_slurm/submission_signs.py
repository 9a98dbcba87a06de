"""Signs that a job was submitted, cheaper than a poll: slurmctld's folders of batch scripts, and its count (sdiag).

Definitions
    script folders  `hash.0` to `hash.9` in StateSaveLocation. slurmctld writes the script of a batch job there while it
                    makes the job, before sbatch returns, into a folder of the job's own: `hash.7/job.4717`. It removes
                    that folder when it forgets the job.
    count           "Jobs submitted" of sdiag: batch jobs, tasks of arrays, salloc and srun, since the midnight before.

Principle
    A folder's times and number of links are read by stat(2), which needs the right to search the folder above it, and
    none on the folder itself: a daemon without rights on slurmctld's files sees that a script came, and no script. It
    costs slurmctld nothing. The count is one RPC, which locks no jobs and is as long for 100,000 jobs as for none;
    unlike Slurm's own test for changes (`slurm_load_jobs` with a time) it stays as it is when jobs start, end or are
    considered by the schedulers, and needs no structures of a release.

Worked example
    hash.7 had 12 links and was changed at 10:00:00; now it has 13: a job has come. With 11, one was forgotten. With 12
    and another time, one came and one went. One that comes between two calls in which two go is not seen by this.

Source
    Seen on Slurm 22.05.8: the folders at each sbatch, array and `sbatch --hold`; none for salloc and srun; the count at
    all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tesched_core.model.actions import Failure

from tesched_slurm.columns import strange
from tesched_slurm.run_command import Commands

#: slurmctld's folders of scripts, by the last digit of the job's id
FOLDERS = tuple(f"hash.{digit}" for digit in range(10))
_SUBMITTED = re.compile(r"^Jobs submitted:\s*(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class _Mark:
    """State of one folder. ext4 and xfs count a folder in the links, btrfs in the size."""

    links: int
    size: int
    changed_ns: int


@dataclass(slots=True, kw_only=True)
class ScriptFolders:
    """slurmctld's folders of batch scripts, as they were at the last call."""

    #: StateSaveLocation
    folder: Path
    _marks: dict[str, _Mark] | None = field(default=None, init=False)

    def has_new(self) -> bool:
        """Check whether a batch job was submitted since the last call. Raises OSError.

        The first call says yes: one may have come since the last poll.
        """
        before, self._marks = self._marks, self._read()
        return before is None or any(_came(before.get(name), mark) for name, mark in self._marks.items())

    def _read(self) -> dict[str, _Mark]:
        found: dict[str, _Mark] = {}
        for name in FOLDERS:
            try:
                status = (self.folder / name).stat()
            except FileNotFoundError:
                continue
            found[name] = _Mark(status.st_nlink, status.st_size, status.st_mtime_ns)
        if not found:
            self.folder.stat()  # slurmctld has had no batch job yet, or there is no such folder
        return found


def _came(before: _Mark | None, now: _Mark) -> bool:
    if before is None:
        return True
    return now.changed_ns != before.changed_ns and (now.links, now.size) >= (before.links, before.size)


@dataclass(slots=True, kw_only=True)
class SubmissionCount:
    """slurmctld's count of submissions, as it was at the last call."""

    commands: Commands
    _count: int | None = field(default=None, init=False)

    def has_new(self) -> bool | Failure:
        """Check whether a job was submitted since the last call, by one RPC.

        The first call says yes: one may have come since the last poll.
        """
        answer = self.commands.run(("sdiag",))
        if isinstance(answer, Failure):
            return answer
        said = _SUBMITTED.search(answer)
        if said is None:
            return strange("sdiag", ValueError("it has no line 'Jobs submitted'"))
        before, self._count = self._count, int(said[1])
        # Midnight and `sdiag -r` set it to 0.
        return before is None or (self._count != before and self._count > 0)

    def forget(self) -> None:
        """Begin anew: the next call is the first one."""
        self._count = None
