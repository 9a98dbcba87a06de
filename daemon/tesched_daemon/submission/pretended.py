"""Pretended pending job: the record that slurmctld would have of a job that is not submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import HELD_BY_ITS_USER, Job
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.run_command import Commands

from tesched_daemon.submission.read import job_of, may_requeue
from tesched_daemon.submission.reason_word import reason_word
from tesched_daemon.submission.request import request_of
from tesched_daemon.submission.sources import SubmissionError, Words


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretended:
    """The job, and what is not certain of it."""

    job: Job
    #: options of which it is not worked out what they ask for, or whether they keep the job
    unread: tuple[str, ...] = ()
    #: its whole request is known
    request_known: bool = True
    #: those of them that Slurm's own word does not count either
    uncounted: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


def pretended_job(read: Words, seen: Snapshot, commands: Commands) -> Pretended:
    """Return the job as it would wait, were it submitted now. Raises SubmissionError for one that can't be judged."""
    options = read.by_name
    named = job_of(read)
    usual = next((name for name, one in seen.partitions.items() if one.default), "")
    partitions = named.partitions or ((usual,) if usual else ())
    if not partitions:
        raise SubmissionError("--partition: the site has no default partition: name one of " + _few(seen.partitions))
    for name in partitions:
        if name not in seen.partitions:
            raise SubmissionError(f"--partition={name}: Slurm has no such partition; it has {_few(seen.partitions)}")
    cluster = options.get("clusters")
    if cluster is not None and cluster.value not in {None, "", seen.settings.cluster_name}:
        raise SubmissionError(
            f"--clusters={cluster.value} {cluster.place}: this configuration is for {seen.settings.cluster_name} alone"
        )
    request, unread = request_of(options, seen.partitions[partitions[0]], seen.settings)
    found = Pretended(job=named, unread=unread, request_known=not unread)
    job_id = JobId(max(seen.jobs, default=0) + 1)
    limit_s = named.time_limit_s
    if "time" not in options:
        first = seen.partitions[partitions[0]]
        limit_s = first.max_time_s if first.default_time_s is None else first.default_time_s
    if read.pbs_note:
        found.notes.append(read.pbs_note)
        unread = (*unread, "#PBS")
    if named.licenses:
        unread = (*unread, f"--licenses={named.licenses}")
    if named.reservation and not named.partitions:
        # A reservation may have a partition of its own, which is not read.
        unread = (*unread, f"--reservation={named.reservation} without --partition")
    account, qos = _usual_owner(named, seen, commands, found.notes)
    waiting = [one.priority for one in seen.jobs.values() if one.pending and one.priority]
    job = replace(
        named,
        job_id=job_id,
        array_job_id=job_id if named.array_tasks else None,
        het_job_id=job_id if read.is_heterogeneous else None,
        het_offset=0 if read.is_heterogeneous else None,
        partitions=partitions,
        account=account,
        qos=qos,
        request=request,
        time_limit_s=limit_s,
        requeueable=may_requeue(read.options, seen.settings),
        submit_time=seen.taken_at,
    )
    kept = reason_word(options, job, seen, found.notes, request_known=not found.unread)
    job = replace(
        job,
        eligible_time=kept.eligible_time,
        reason=kept.word,
        # Behind all others: how Slurm ranks it is not known.
        priority=0 if kept.word == HELD_BY_ITS_USER else max(min(waiting, default=1), 1),
    )
    uncounted = tuple(one for one in kept.unread if one.startswith("--dependency"))
    return replace(found, job=job, unread=(*unread, *kept.unread), uncounted=uncounted)


def _few(names: Mapping[str, object]) -> str:
    found = sorted(names)
    return ", ".join(found[:10]) + (f" and {len(found) - 10} more" if len(found) > 10 else "")


def _usual_owner(job: Job, seen: Snapshot, commands: Commands, notes: list[str]) -> tuple[str, str]:
    """Return the account and the QOS: as said, else the user's usual ones of slurmdbd; empty without slurmdbd."""
    if not seen.settings.has_slurmdbd or (job.account and job.qos):
        return job.account, job.qos
    account, qos = job.account, job.qos
    columns = "format=defaultaccount,account,partition,defaultqos"
    # One slurmdbd may serve several clusters, and a user's account and QOS may differ on each.
    whose = (f"name={job.user}", *((f"cluster={name}",) if (name := seen.settings.cluster_name) else ()))
    answer = commands.run(("sacctmgr", "-n", "-P", "show", "user", "where", *whose, "withassoc", columns))
    if isinstance(answer, Failure):
        notes.append(f"the user's default account and QOS are not known: sacctmgr: {answer.message}")
        return account, qos
    rows = [row for line in answer.split("\n") if len(row := line.split("|")) == 4]
    account = account or next((row[0] for row in rows), "")
    fitting = [row[3] for row in rows if row[1] == account and row[2] in {"", *job.partitions}]
    if not rows:
        notes.append(f"slurmdbd knows no account of {job.user}: rules on accounts and QOS count as not met")
    # Slurm's own name for the QOS that each association may use at first.
    return account, qos or next((one for one in fitting if one), "normal" if rows else "")
