"""Reads a few jobs by their ids, and the nodes, through Slurm's own commands (core's port `SingleReads`).

squeue with one id and scontrol with one id load that job alone: what they take does not grow with the queue. squeue
with several ids loads the whole queue (22.05), so that each job has calls of its own, those of a few at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot

from tesched_slurm.answer_bytes import as_text
from tesched_slurm.columns import Query, QueueRow, rows_of, strange
from tesched_slurm.commands_observer import SITE
from tesched_slurm.details import DetailsQuery
from tesched_slurm.job_records import UNREADABLE, read_job
from tesched_slurm.run_command import Call, Commands
from tesched_slurm.scontrol_cluster import KnownNodes, read_nodes, read_partitions, read_reservations
from tesched_slurm.uptime import uptime_s
from tesched_slurm.user_names import in_doubt_if_nameless

#: Jobs that are read at the same time.
AT_ONCE = 4


@dataclass(kw_only=True)
class CommandsSingleReads:
    """Reads through squeue and scontrol."""

    commands: Commands
    #: gives the last snapshot what polls alone read, as new as a poll would have it now
    standing: Callable[[Snapshot, float], Snapshot | Failure]
    #: nodes of the last answer, polls' or these
    nodes: KnownNodes = field(default_factory=KnownNodes)
    stopwatch: Callable[[], float] = uptime_s

    def records(self, job_ids: Sequence[JobId], within_s: float) -> Mapping[JobId, Job] | Failure:
        """Read these jobs as they are now, each with the other records of the array whose id it is."""
        until = self.stopwatch() + within_s
        found: dict[JobId, Job] = {}
        for first in range(0, len(job_ids), AT_ONCE):
            left_s = until - self.stopwatch()
            if left_s <= 0:
                return Failure(kind=FailureKind.UNREACHABLE, message=f"it takes more than {within_s:g} s to read them")
            read = _read(self._bounded(left_s), job_ids[first : first + AT_ONCE])
            if isinstance(read, Failure):
                return read
            found |= read
        return found

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


def _read(commands: Commands, job_ids: Sequence[JobId]) -> dict[JobId, Job] | Failure:
    """Read these at the same time: squeue of all, and scontrol of those that it shows."""
    queries = [Query("-t", "all", "-j", str(job_id)) for job_id in job_ids]
    answers = commands.run_each(*(Call(query.argv, query.environment) for query in queries))
    shown: dict[JobId, dict[str, QueueRow]] = {}
    for job_id, query, answer in zip(job_ids, queries, answers, strict=True):
        rows = answer if isinstance(answer, Failure) else rows_of(query, answer)
        if isinstance(rows, Failure):
            if rows.kind is FailureKind.NOT_FOUND:
                continue
            return rows
        # The first one of each: 26.05 may show each waiting task of an array, all with its id.
        of_it = {row.job_id: row for row in reversed(rows)}
        if str(job_id) in of_it:
            shown[job_id] = of_it
    details = [DetailsQuery(str(job_id)) for job_id in shown]
    answers = commands.run_each(*(Call(one.argv, one.environment) for one in details))
    found: dict[JobId, Job] = {}
    for (job_id, of_it), one, answer in zip(shown.items(), details, answers, strict=True):
        if isinstance(answer, Failure) and answer.kind is not FailureKind.NOT_FOUND:
            return answer
        known = {} if isinstance(answer, Failure) else one.find(answer, of_it).by_id
        for row in of_it.values():
            # Of another record scontrol's part may be lacking: it is read by its own id.
            if row.job_id != str(job_id) and row.job_id not in known:
                continue
            try:
                job = in_doubt_if_nameless(read_job(row, known.get(row.job_id)), int(row.user_id))
            except UNREADABLE as error:
                return strange(f"job {row.job_id}", error)
            found[job.job_id] = job
    return found


def _with_site(last: Snapshot, nodes: str, partitions: str, reservations: str, *, known: KnownNodes) -> Snapshot:
    """Raise KeyError or ValueError for an answer of another form."""
    site = Snapshot.of(
        last.taken_at,
        nodes=read_nodes(nodes, known),
        partitions=read_partitions(partitions),
        reservations=read_reservations(reservations),
    )
    return replace(last, nodes=site.nodes, partitions=site.partitions, reservations=site.reservations)
