"""Reads a few jobs by their ids, and the nodes, through Slurm's own commands (core's port `SingleReads`).

squeue with one id and scontrol with one id load that job alone: what they take does not grow with the queue. squeue
with several ids loads the whole queue (22.05).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot

from tesched_slurm.answer_bytes import as_text
from tesched_slurm.columns import strange
from tesched_slurm.commands_actuator import look_at
from tesched_slurm.commands_observer import SITE
from tesched_slurm.job_records import UNREADABLE, read_job
from tesched_slurm.queue import details_alone
from tesched_slurm.run_command import Call, Commands
from tesched_slurm.scontrol_cluster import KnownNodes, read_nodes, read_partitions, read_reservations
from tesched_slurm.user_names import in_doubt_if_nameless


@dataclass(kw_only=True)
class CommandsSingleReads:
    """Reads through squeue and scontrol."""

    commands: Commands
    #: gives the last snapshot what polls alone read, as new as a poll would have it now
    standing: Callable[[Snapshot, float], Snapshot | Failure]
    #: nodes of the last answer, polls' or these
    nodes: KnownNodes = field(default_factory=KnownNodes)

    def job(self, job_id: JobId, within_s: float) -> Job | Failure | None:
        """Read one job as it is now; None: Slurm knows no such job."""
        commands = self._bounded(within_s)
        row = look_at(commands, job_id)
        if isinstance(row, Failure):
            return None if row.kind is FailureKind.NOT_FOUND else row
        details = details_alone(commands, row)
        if isinstance(details, Failure):
            return details
        try:
            return in_doubt_if_nameless(read_job(row, details), int(row.user_id))
        except UNREADABLE as error:
            return strange(f"job {job_id}", error)

    def site(self, last: Snapshot, within_s: float) -> Snapshot | Failure:
        """Read nodes, partitions and reservations as they are now; a failure where a poll would read limits anew."""
        stood = self.standing(last, within_s)
        if isinstance(stood, Failure):
            return stood
        answers = self._bounded(within_s).run_together(*map(Call, SITE))
        if isinstance(answers, Failure):
            return answers
        try:
            return _with_site(stood, *map(as_text, answers), known=self.nodes)
        except (KeyError, ValueError) as error:
            return strange("scontrol -o show", error)

    def _bounded(self, within_s: float) -> Commands:
        return replace(self.commands, timeout_s=min(self.commands.timeout_s, within_s))


def _with_site(last: Snapshot, nodes: str, partitions: str, reservations: str, *, known: KnownNodes) -> Snapshot:
    """Raise KeyError or ValueError for an answer of another form."""
    site = Snapshot.of(
        last.taken_at,
        nodes=read_nodes(nodes, known),
        partitions=read_partitions(partitions),
        reservations=read_reservations(reservations),
    )
    return replace(last, nodes=site.nodes, partitions=site.partitions, reservations=site.reservations)
