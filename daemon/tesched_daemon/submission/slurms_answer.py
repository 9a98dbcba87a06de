"""Slurm's answer on a job that is not submitted, and whether this user sees enough of Slurm to judge it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job, SlurmSettings
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.sbatch_asked import NotTaken, SlurmsWord, ask_slurm
from tesched_slurm.sbatch_options import without_quiet

from tesched_daemon.config import Config
from tesched_daemon.submission.reason_word import RESOURCES
from tesched_daemon.submission.sources import WRAP, SubmissionError, Words

#: words of PrivateData by which a user's view has gaps
_HIDES = frozenset({"jobs", "all", "nodes", "partitions"})


def refuse_half_a_view(settings: SlurmSettings) -> None:
    """Raise SubmissionError where slurm.conf hides others' jobs from this user: then nothing is foretold."""
    if os.geteuid() and _HIDES & settings.private:
        hidden = ",".join(sorted(settings.private))
        raise SubmissionError(
            f"slurm.conf hides others' jobs or the nodes from you (PrivateData={hidden}): what runs is not seen; "
            "root sees all, and can ask"
        )


def slurms_answer(said: Words, config: Config) -> SlurmsWord | NotTaken | None:
    """Return Slurm's own word, or that it finds no nodes, or a limit forbids the job; None: a form that is not known.

    Raises SubmissionError for a job that Slurm refuses otherwise, and where Slurm does not answer.
    """
    text = "" if said.where == WRAP else said.text
    # With --quiet it would say nothing.
    answer = ask_slurm(without_quiet(said.given), text, slurm_conf=config.slurm.conf, timeout_s=config.slurm.timeout_s)
    if isinstance(answer, Failure):
        raise SubmissionError(f"Slurm does not answer: {answer.message}")
    if isinstance(answer, NotTaken) and not (answer.by_nodes or answer.by_limits):
        raise refusal(said, answer)
    return answer


def refusal(said: Words, answer: NotTaken, limits: Sequence[str] = ()) -> SubmissionError:
    """Return the error of a job that Slurm refuses, with the limits that forbid it, where they are known."""
    return SubmissionError("; ".join((f"{said.where}: Slurm would not take it: {answer.said}", *limits)))


def waits_for_nodes(job: Job, seen: Snapshot) -> bool:
    """Check whether sbatch takes a job for which Slurm finds no nodes as they are now, so that it waits.

    With the same words sbatch refuses a job that fits no nodes at all. Where a node of its partitions is drained, down
    or reserved, or the partition's limits forbid the job, they count as said of now.
    """
    nodes = [one for one in seen.nodes.values() if not one.partitions.isdisjoint(job.partitions)]
    return job.reason != RESOURCES or bool(seen.reservations) or not all(one.available for one in nodes)
