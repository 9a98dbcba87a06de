"""Slurm's own word on a job that is not submitted: `sbatch --test-only`.

slurmctld checks the job as it would at its submission, job_submit plugins included, and finds when the running jobs'
time limits leave it its resources. It takes no account of waiting jobs, dependencies and limits of users (tried on
22.05.8). Nothing is put in the queue; a job number is used up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.resources import UnixSeconds

from tesched_slurm.bounded_process import run_bounded
from tesched_slurm.errors import failure

_ANSWER = re.compile(
    r"^sbatch: Job \d+ to start at (\d+) using (\d+) processors on (?:nodes )?(\S+)(?: in partition (\S+))?$",
    re.MULTILINE,
)
_PREEMPTS = re.compile(r"^(?:sbatch: )? {0,8}Preempts: (\S+)$", re.MULTILINE)
#: bytes of an answer; a host list of all nodes is far below
_MOST_ANSWER = 1 << 20
#: what stands before the words of a refusal
_BEFORE = re.compile(r"^(?:sbatch: )?(?:(?:error|fatal): )?(?:allocation failure: |Batch job submission failed: )?")
#: all that is said of a job for which Slurm finds no nodes
NO_NODES = "Requested node configuration is not available"
#: what is said of one that a limit of its account, user or QOS keeps from being submitted, whichever limit that is
_POLICY = "violates accounting/QOS policy"
#: seconds from now on from which a start counts as never: Slurm says so of a job that is held
NEVER_S = 10 * 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmsWord:
    """What Slurm says of a job that it would take."""

    start_at: UnixSeconds
    cpus: int
    #: folded, as Slurm writes them
    nodes: str
    #: empty of a heterogeneous job
    partition: str
    #: the jobs that Slurm itself would preempt for it (PreemptType), as it names them
    preempts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTaken:
    """The submission would be refused: by sbatch itself, by slurmctld, or by the site's job_submit plugin."""

    said: str
    #: Slurm finds no nodes for it as they are now: sbatch takes the job where they are drained, or where the partition
    #: gives a job fewer or more (tried on 22.05.8)
    by_nodes: bool = False

    @property
    def by_limits(self) -> bool:
        """Whether a limit of its account, user or QOS forbids its submission."""
        return _POLICY in self.said


def ask_slurm(
    words: Sequence[str], text: str, *, slurm_conf: str, timeout_s: float, environment: Mapping[str, str] | None = None
) -> SlurmsWord | NotTaken | Failure | None:
    """Return Slurm's word on a job of these options, in the user's own environment.

    `text` is its script, handed on as standard input; empty where the options have a --wrap. None: the answer has
    another form than known.
    """
    own = dict(os.environ if environment is None else environment)
    own |= {"LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s"}
    if slurm_conf:
        own["SLURM_CONF"] = slurm_conf
    argv = ("sbatch", "--test-only", *words)
    try:
        ended = run_bounded(
            argv, timeout_s=timeout_s, most_out=_MOST_ANSWER, environment=own, said=text.encode("utf-8", "replace")
        )
    except FileNotFoundError:
        said = "sbatch: no such command; are Slurm's client programs installed and on PATH?"
        return Failure(kind=FailureKind.UNREACHABLE, message=said)
    except OSError as error:
        return Failure(kind=FailureKind.UNREACHABLE, message=f"sbatch: {error}")
    if ended.stopped:
        return Failure(kind=FailureKind.UNREACHABLE, message=f"sbatch {ended.stopped}")
    said = f"{ended.out.decode('utf-8', 'replace')}\n{ended.err.decode('utf-8', 'replace')}"
    return read_answer(said, ended.status)


def read_answer(said: str, status: int) -> SlurmsWord | NotTaken | Failure | None:
    """Read sbatch's answer; of a failure, whether Slurm could not be reached, or refuses the job."""
    if status == 0:
        found = _ANSWER.search(said)
        if found is None:
            return None
        preempts = _PREEMPTS.search(said)
        return SlurmsWord(
            start_at=float(found[1]),
            cpus=int(found[2]),
            nodes=found[3],
            partition=found[4] or "",
            preempts=preempts[1] if preempts is not None else "",
        )
    why = failure(said)
    if why.kind in {FailureKind.UNREACHABLE, FailureKind.BUSY}:
        return why
    lines = [_BEFORE.sub("", line.strip()) for line in said.splitlines()]
    kept = [line for line in lines if line and not line.startswith("Try ")]
    words = "; ".join(dict.fromkeys(kept)) or f"sbatch ended with status {status}"
    return NotTaken(said=words, by_nodes=words == NO_NODES)
