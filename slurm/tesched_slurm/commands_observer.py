"""Sees the cluster through Slurm's own commands: squeue, and scontrol for what it lacks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.snapshot import Snapshot

from tesched_slurm.answer_bytes import Answer, as_text
from tesched_slurm.columns import KnownRows, Query, read_all_rows, strange
from tesched_slurm.details import DetailsQuery
from tesched_slurm.queue import Queue
from tesched_slurm.run_command import Call, Commands, rpcs
from tesched_slurm.scontrol_cluster import (
    KnownNodes,
    has_topology,
    read_nodes,
    read_partitions,
    read_reservations,
    read_settings,
    read_topology,
)
from tesched_slurm.scontrol_limits import LimitsInForce
from tesched_slurm.uptime import uptime_s

#: in `scontrol show config`: when the process that answers was started, and what a ping of each host says
_STARTED = re.compile(r"^BOOT_TIME\s*=\s*(.*)$", re.MULTILINE)
_FIRST_UP = re.compile(r"^Slurmctld\(\w+\) at (.*) is UP$", re.MULTILINE)


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match is not None else ""


@dataclass(kw_only=True)
class Settings:
    """Settings of slurm.conf, queried anew after a while."""

    commands: Commands
    #: seconds for which the settings are believed
    age_s: float = 60.0
    stopwatch: Callable[[], float] = uptime_s
    _read: SlurmSettings | None = None
    _read_at: float = 0.0
    #: when slurmctld was started, and the first of its hosts that is up, as it says
    _started: str = ""
    _host: str = ""
    #: how many commands had got no answer before that, and whether slurmctld is another one since
    _unanswered: int = 0
    _is_another: bool = False

    def now(self, within_s: float = inf) -> SlurmSettings | Failure:
        """Return the settings; they are read again after any command that got no answer, each call `within_s`."""
        unanswered, now = self.commands.unanswered.total(), self.stopwatch()
        if self._read is None or unanswered != self._unanswered or now - self._read_at > self.age_s:
            commands = replace(self.commands, timeout_s=min(self.commands.timeout_s, within_s))
            config = commands.run(("scontrol", "show", "config"))
            if isinstance(config, Failure):
                return config
            # It changes with a reconfigure only, as the rest does.
            topology = commands.run(("scontrol", "-o", "show", "topology")) if has_topology(config) else ""
            if isinstance(topology, Failure):
                return topology
            try:
                settings = replace(read_settings(config), switches=read_topology(topology))
            except (KeyError, ValueError) as error:
                return strange("scontrol show config, or show topology", error)
            # While it is busy it may have answered none of these pings.
            started, host = _found(_STARTED, config), _found(_FIRST_UP, config) or self._host
            if started and started == self._started and self._read is not None:
                # Up to 23.02 slurmctld takes another AccountingStorageEnforce at its start alone, and shows it at once.
                enforces = settings.limits_enforced or self._read.limits_enforced
                settings = replace(settings, limits_enforced=enforces)
            if unanswered != self._unanswered and self._read is not None:
                self._is_another |= started != self._started or host != self._host
            self._started, self._host, self._unanswered = started, host, unanswered
            self._read, self._read_at = settings, now
        return self._read

    @property
    def is_another(self) -> bool:
        """Check whether slurmctld has become another process, which a poll has yet to say."""
        return self._is_another

    def take_change(self) -> bool:
        """Check once whether slurmctld has become another process while it did not answer.

        A backup was started long before it took over, and perhaps in the same second as the primary one.
        """
        was, self._is_another = self._is_another, False
        return was

    def with_controller(self, seen: Snapshot) -> Snapshot:
        """Return the poll with the word whether slurmctld is another one, without nodes awaited in vain.

        With SlurmdTimeout=0 a backup that takes over a second time never has its nodes report (22.05.8).
        """
        nodes = seen.nodes
        if not seen.settings.nodes_report and any(node.unreported for node in nodes.values()):
            nodes = MappingProxyType({name: replace(node, unreported=False) for name, node in nodes.items()})
        return replace(seen, nodes=nodes, controller_changed=self.take_change())


#: What a poll asks of scontrol, beside the jobs: nodes, partitions, reservations.
SITE = (
    ("scontrol", "-a", "-d", "-o", "show", "node"),
    ("scontrol", "-a", "-o", "show", "partition"),
    ("scontrol", "-a", "-o", "show", "reservation"),
)


def rpcs_of_a_poll() -> int:
    """Count the RPCs of a whole poll, but for the settings, and for what few jobs need besides."""
    return sum(map(rpcs, (Query().argv, DetailsQuery().argv, *SITE)))


#: Up to so many jobs are read one by one: three RPCs each, and a whole poll is eight.
MOST_ALONE = 2


@dataclass(kw_only=True)
class CommandsObserver:
    """Sees the cluster through squeue and scontrol."""

    commands: Commands
    _settings: Settings = field(init=False)
    _limits: LimitsInForce = field(init=False)
    _queue: Queue = field(init=False)
    #: nodes of the last answer, of polls or of those that read the nodes alone
    nodes: KnownNodes = field(default_factory=KnownNodes)
    _rows: KnownRows = field(default_factory=KnownRows)

    def __post_init__(self) -> None:
        """Make ready to read the settings and the queue."""
        self._settings = Settings(commands=self.commands)
        self._limits = LimitsInForce(commands=self.commands)
        self._queue = Queue(commands=self.commands)

    def observe(self) -> Snapshot | Failure:
        """Read what Slurm says now, unclassified. `taken_at` is the time before the first question."""
        taken_at = time.time()
        settings = self._settings.now()
        if isinstance(settings, Failure):
            return settings
        # At the same time: it is sooner done, and the answers are of nearly one instant.
        read = self._queue.query(self._rows, *map(Call, SITE))
        if isinstance(read, Failure):
            return read
        jobs, answers = read
        nodes, partitions_text, reservations = map(as_text, answers)
        try:
            partitions = read_partitions(partitions_text)
            seen = Snapshot.of(
                taken_at,
                jobs=jobs,
                nodes=read_nodes(nodes, self.nodes),
                partitions=partitions,
                reservations=read_reservations(reservations),
                settings=settings,
                limits=self._limits.now(settings, partitions, jobs),
            )
        except (KeyError, ValueError) as error:
            return strange("scontrol -o show", error)
        return self._settings.with_controller(seen)

    def standing(self, last: Snapshot, within_s: float) -> Snapshot | Failure:
        """Return the last snapshot with slurm.conf's settings as a poll would have them now.

        A failure where a poll would read the limits of associations and QOS anew, or slurmctld is another process.
        """
        settings = self._settings.now(within_s)
        if isinstance(settings, Failure):
            return settings
        if self._settings.is_another or self._limits.are_due(settings):
            return Failure(kind=FailureKind.UNKNOWN, message="limits are due to be read, or slurmctld is another")
        return replace(last, settings=settings)

    def observe_jobs(self, last: Snapshot, query: DetailsQuery, answer: Answer) -> Snapshot | Failure:
        """Read what Slurm says now of the jobs; all else is as in the `last` snapshot.

        `answer` is scontrol's to `query`, a moment old. Jobs of which it does not say enough are queried, or where
        they are many, everything is. Of one that has started since on one node, without GRES, the CPUs' ids are left
        out.
        """
        rows = read_all_rows(self.commands, self._rows)
        if isinstance(rows, Failure):
            return rows
        jobs = self._queue.read(rows, query, answer)
        if isinstance(jobs, Failure):
            return jobs
        lacking = {job.job_id for job in jobs if job.partly_read}
        if len(lacking) > MOST_ALONE:
            return self.observe()
        if lacking:
            alone = self._queue.read_few(lacking, {int(row.job_id): row for row in rows})
            if isinstance(alone, Failure):
                return alone
            found = {job.job_id: job for job in alone}
            jobs = tuple(found.get(job.job_id, job) for job in jobs)
        return replace(last, jobs=MappingProxyType({job.job_id: job for job in jobs}))
