"""Names of jobs' users, which Slurm's clients get from the name service of this host.

Where that is away, or does not know a user, Slurm shows `NO_NAME` for any: taken for a name, all such jobs would be one
user's, and a protected user's jobs not protected. So the last known name of the user's number stands, and a job of a
number without one is in doubt.
"""

from __future__ import annotations

import pwd
from dataclasses import dataclass, field, replace
from functools import cache

from tesched_core.model.cluster import Job
from tesched_core.model.resources import NO_NAME

#: the number of `NO_NAME`, on most systems
_NOBODY = 65534
NAMELESS = "the name of its user is not known (Slurm shows none)"


@cache
def _nobody() -> int:
    try:
        return pwd.getpwnam(NO_NAME).pw_uid
    except KeyError:
        return _NOBODY


@dataclass(frozen=True, slots=True)
class UserNames:
    """The names that were shown, by the users' numbers."""

    _known: dict[int, str] = field(default_factory=dict)

    def of(self, user_id: int, shown: str) -> str:
        """Return the user's name; `NO_NAME` where it is not known (`is_nameless`), or that is the user."""
        if shown == NO_NAME and user_id != _nobody():
            return self._known.get(user_id, shown)
        self._known[user_id] = shown
        return shown


def in_doubt_if_nameless(job: Job, user_id: int) -> Job:
    """Return the job, in doubt if it is not known whose it is."""
    return replace(job, doubt=NAMELESS) if is_nameless(job.user, user_id) and not job.doubt else job


def is_nameless(name: str, user_id: int) -> bool:
    """Check whether it is not known who this user is."""
    return name == NO_NAME and user_id != _nobody()
