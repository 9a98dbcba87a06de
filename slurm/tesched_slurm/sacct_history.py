"""Finished runs of the last days, from Slurm's accounting (sacct), by one bounded process; and its table of them.

A job's name is whatever its user typed, so the fields are separated by a word that is drawn for each call.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, replace
from io import StringIO

from tesched_core.intake.accounted_gpus import gpus_in
from tesched_core.intake.drawn_records import drawn_records
from tesched_core.intake.finished_runs import ENDED_BY_ITSELF
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import JobState
from tesched_core.model.resources import UnixSeconds

from tesched_slurm.columns import strange
from tesched_slurm.run_command import Commands

_FIELDS = (
    *("JobID", "Cluster", "User", "Account", "Partition", "JobName", "Start", "End", "ElapsedRaw", "TimelimitRaw"),
    *("NNodes", "ReqCPUS", "ReqTRES", "State"),
)
#: sacct's names of the states of a run that ended by itself (`intake/finished_runs.py`)
_STATES = "CD,F,TO,OOM"
#: … and of all that hold nodes, held them, or wait; those that run are among them with what they have run so far
_OF_ALL_JOBS = "CD,F,TO,CA,NF,PR,OOM,DL,BF,R,S,PD"
#: Seconds that sacct may take: a large site's month is a long question to slurmdbd.
TIMEOUT_S = 600.0
#: Seconds that sacct is to go back at most, ten years: sacct cannot count any number of them.
LONGEST_S = 3650 * 86_400.0
#: Bytes that sacct may print as a table: some 700,000 jobs.
MOST_TABLE = 1 << 27
#: Columns of the table; none has text that a user may type.
_TABLE = (
    *("JobID", "User", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "TimelimitRaw", "NNodes", "NCPUS", "ReqMem"),
    *("AllocTRES", "ReqTRES", "State"),
)
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountedRun:
    """One run that ended by itself, as sacct has it."""

    label: str
    cluster: str
    user: str
    account: str
    partition: str
    job_name: str
    start_time: UnixSeconds
    end_time: UnixSeconds
    ran_s: float
    time_limit_s: float | None
    nodes: int
    cpus: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounted:
    """Runs of the last days, and how many records were left out, by reason."""

    runs: tuple[AccountedRun, ...]
    left_out: Counter[str]


def accounted(commands: Commands, since_s: float) -> Accounted | Failure:
    """Read the runs that ended by themselves in the last `since_s` seconds."""
    separator = f"<{secrets.token_hex(6)}>"
    argv = (
        *("sacct", "--allusers", "--allocations", "--noheader", "--parsable2", f"--delimiter={separator}"),
        *(f"--starttime=now-{min(since_s, LONGEST_S):.0f}seconds", "--endtime=now", f"--state={_STATES}"),
        f"--format={','.join(_FIELDS)}",
    )
    said = replace(commands, timeout_s=TIMEOUT_S).run(argv)
    if isinstance(said, Failure):
        return said
    try:
        return read(said, separator)
    except (ValueError, IndexError, OverflowError) as error:
        return strange("sacct", error)


def table(commands: Commands, since_s: float) -> str | Failure:
    """Print the jobs of the last `since_s` seconds that ended, run or wait, as `simulate --trace` reads them."""
    said = replace(commands, timeout_s=TIMEOUT_S).run(table_command(since_s), enough=MOST_TABLE)
    if isinstance(said, str) and len(said) >= MOST_TABLE:
        text = f"sacct printed more than {MOST_TABLE >> 20} MiB; fewer days have fewer jobs"
        return Failure(kind=FailureKind.UNKNOWN, message=text)
    return said


def table_command(since_s: float) -> tuple[str, ...]:
    """Arguments of sacct; docs/reference/workloads.md has them for a week."""
    since_s = min(since_s, LONGEST_S)
    ago = f"{since_s / _DAY_S:.0f}days" if since_s % _DAY_S == 0 else f"{since_s:.0f}seconds"
    return (
        *("sacct", "--allusers", "--allocations", "--parsable2", "--starttime", f"now-{ago}", "--endtime", "now"),
        *("--state", _OF_ALL_JOBS, "--format", ",".join(_TABLE)),
    )


def read(said: str, separator: str) -> Accounted:
    """Read what sacct printed. Raises ValueError for what is none of its records."""
    found, left_out = list[AccountedRun](), Counter[str]()
    lines = enumerate((line.removesuffix("\n") for line in StringIO(said)), 1)
    for number, record in drawn_records(lines, len(_FIELDS), separator):
        values = record.split(separator)
        if len(values) != len(_FIELDS):
            raise ValueError(f"line {number}: it has {len(values)} fields, not {len(_FIELDS)}")
        fields = dict(zip(_FIELDS, values, strict=True))
        if not fields["Start"].isdecimal() or not fields["End"].isdecimal():
            left_out["never ran"] += 1
        elif (words := fields["State"].split()) and words[0] not in ENDED_BY_ITSELF:
            left_out[JobState(words[0]).value if words[0] in set(JobState) else "another state"] += 1
        else:
            found.append(_run(fields))
    return Accounted(runs=tuple(found), left_out=left_out)


def _run(fields: dict[str, str]) -> AccountedRun:
    limit = fields["TimelimitRaw"]
    return AccountedRun(
        label=fields["JobID"],
        cluster=fields["Cluster"],
        user=fields["User"],
        account=fields["Account"],
        partition=fields["Partition"],
        job_name=fields["JobName"],
        start_time=float(fields["Start"]),
        end_time=float(fields["End"]),
        ran_s=float(fields["ElapsedRaw"]),
        # in minutes, or a word
        time_limit_s=60.0 * int(limit) if limit.isdecimal() else None,
        nodes=max(int(fields["NNodes"]), 1),
        cpus=max(int(fields["ReqCPUS"]), 1),
        gpus=gpus_in(fields["ReqTRES"], lambda amount: int(float(amount))),
    )
