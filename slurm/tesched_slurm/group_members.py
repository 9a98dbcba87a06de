"""Members of the groups in partitions' AllowGroups, as this host's `getent` has them.

slurmctld reads the same databases on its own host, every few minutes: a group's list of members, that of other groups
of the same number, and each user's primary group. So a user counts as a member by any of the group's list, the primary
group and the user's own groups, which may be known where lists are not (sssd's ignore_group_members). NSS may hang, so
a program that can be ended asks it, and not this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tesched_core.model.cluster import Job, Partition

from tesched_slurm.bounded_process import ours, run_bounded

#: seconds that one answer may take, and its bytes
TIMEOUT_S = 2.0
_MOST = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Users by group, of the groups that this host knows; and the users whose groups are known."""

    of: Mapping[str, frozenset[str]]
    users: frozenset[str]


def read_members(partitions: Iterable[Partition], jobs: Iterable[Job]) -> Members:
    """Return the members of the groups that these partitions are for, among the users with jobs there."""
    groups = {one.name: one.access.allow_groups for one in partitions if one.access.allow_groups}
    users = {job.user for job in jobs if job.on_nodes and not groups.keys().isdisjoint(job.partitions)}
    if not users:
        return Members(of={}, users=frozenset())
    found = _getent("group", {name for names in groups.values() for name in names})
    primary = {line[0]: line[3] for line in _getent("passwd", users) if len(line) >= 4}
    own = {line[0]: {primary.get(line[0]), *line[1:]} for line in _getent("initgroups", users, between=None)}
    return Members(
        of={
            name: frozenset(members.split(",")) | {user for user, gids in own.items() if number in gids}
            for name, _, number, members in (line[:4] for line in found if len(line) >= 4)
        },
        users=frozenset(primary.keys() & own.keys()),
    )


def _getent(database: str, names: Iterable[str], *, between: str | None = ":") -> list[list[str]]:
    """Return the records of these names, those that are found; none where the host does not answer in time."""
    try:
        ended = run_bounded(
            ("getent", database, "--", *sorted(names)),
            timeout_s=TIMEOUT_S,
            most_out=_MOST,
            environment=ours(frozenset({"PATH"})),
        )
    except OSError:
        return []
    lines = [] if ended.stopped else ended.out.decode("utf-8", "surrogateescape").split("\n")
    return [line.split(between) for line in lines if line]
