"""Matching of jobs with the conditions of rules: whether all of them hold, and which do not."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from tesched_core.intake.class_rules import Match
from tesched_core.model.cluster import Job
from tesched_core.model.not_followed import LONGEST_SAID
from tesched_core.model.request import requested_gpus


class Unmet(NamedTuple):
    """Condition of a rule that a job does not meet."""

    key: str
    wanted: tuple[str, ...] | bool | int
    #: what the job has
    has: tuple[str, ...] | bool | int | None

    @property
    def in_words(self) -> str:
        """Return it as tesched.toml has it, and what the job has."""
        wanted = self.wanted
        if isinstance(wanted, tuple):
            wanted_said = "[" + ", ".join(f'"{one}"' for one in wanted) + "]"
        else:
            wanted_said = str(wanted).lower()
        has = ",".join(self.has) if isinstance(self.has, tuple) else str(self.has).lower()
        return f"{self.key} = {wanted_said}, and the job has {has[:LONGEST_SAID]}"


def unmet(job: Job, match: Match) -> Iterator[Unmet]:
    """Yield each condition that `match` gives and the job does not meet."""
    for key, globs, values in (
        ("partitions", match.partitions, job.partitions),
        ("qos", match.qos, job.each_qos),
        ("accounts", match.accounts, (job.account,)),
        ("users", match.users, (job.user,)),
        ("names", match.names, (job.name,)),
        ("comments", match.comments, (job.comment,)),
    ):
        if globs and not any(fnmatchcase(value, glob) for value in values for glob in globs):
            yield Unmet(key, globs, values)
    if match.interactive is not None and job.batch is match.interactive:
        yield Unmet("interactive", match.interactive, not job.batch)
    for what, low, high, has in (
        ("time_limit_s", match.min_time_limit_s, match.max_time_limit_s, job.time_limit_s),
        ("nodes", match.min_nodes, match.max_nodes, job.request.min_nodes),
        ("cpus", match.min_cpus, match.max_cpus, job.request.cpus),
        ("gpus", match.min_gpus, match.max_gpus, requested_gpus(job.request)),
    ):
        if low is not None and has is not None and has < low:
            yield Unmet(f"min_{what}", low, has)
        if high is not None and (has is None or has > high):
            yield Unmet(f"max_{what}", high, has)


def matches(job: Job, match: Match) -> bool:
    """Check whether every condition that `match` gives holds for the job."""
    return next(unmet(job, match), None) is None
