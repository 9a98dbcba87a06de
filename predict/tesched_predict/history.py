"""Finished runs, and what is known of a job before it ends.

Which facts predict a run time is Helios' finding (QSSF: Hu et al., SC 2021: user, job name, GPUs, CPUs, submission) and
Lucid's (Hu et al., ASPLOS 2023); none of their code is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

#: hexadecimal, with a digit and a letter in it, of at least six characters: a hash
_HASH = re.compile(r"(?<![0-9a-z])(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{6,}(?![0-9a-z])", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9]+")
#: several numbers beside each other, as in a date or a version
_NUMBERS = re.compile(r"#(?:[-_.:,]?#)+")


class SizeClass(NamedTuple):
    """Size of a job by powers of two: 1, 2-3, 4-7, ... of what it has most of."""

    of: str
    power: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What is known of a job before it ends; "" or 0 where nothing is known."""

    user: str = ""
    account: str = ""
    partition: str = ""
    job_name: str = ""
    #: over all nodes
    gpus: int = 0
    #: over all nodes
    cpus: int = 0
    nodes: int = 0
    #: None: no limit, or not known
    time_limit_s: float | None = None

    @property
    def limit_s(self) -> float:
        """Time limit; infinite for none, and for 0, to which users can set it (`scontrol update TimeLimit=0`)."""
        return self.time_limit_s if self.time_limit_s is not None and self.time_limit_s > 0 else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun(JobFacts):
    """One run that ended by itself or at its limit; a run that a preemption cut short is none."""

    #: above 0
    run_s: float
    #: from any beginning
    end_s: float

    def __post_init__(self) -> None:
        """Refuse a run time that has no logarithm. Raises ValueError."""
        if not 0 < self.run_s < float("inf"):
            raise ValueError(f"run_s is {self.run_s}; it must be above 0, and finite")


def name_pattern(job_name: str) -> str:
    """Return a job's name with numbers and hashes as #, so that train_0017 and train_0018 are one pattern."""
    return _NUMBERS.sub("#", _DIGITS.sub("#", _HASH.sub("#", job_name)))


def size_class(job: JobFacts) -> SizeClass:
    """Return the class of a job's GPUs; of its CPUs if it has no GPU, of its nodes if CPUs are not known."""
    for of, amount in (("gpus", job.gpus), ("cpus", job.cpus), ("nodes", job.nodes)):
        if amount > 0:
            return SizeClass(of, amount.bit_length())
    return SizeClass("", 0)
