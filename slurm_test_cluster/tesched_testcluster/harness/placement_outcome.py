"""What came of a case of `placement.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Verdict on a case."""

    #: tesched and Slurm agree: it started where tesched said, at once or after its victims had gone
    STARTED = "started"
    #: both say no
    REFUSED = "refused"
    #: Slurm says that free resources would not help, whatever tesched would say
    SLURM_SAYS_NO = "Slurm says why"
    #: sbatch refused it
    INVALID = "not submitted"
    #: victims left, and it did not start there
    FUTILE = "FUTILE"
    #: it asks for all memory by a record that may say less (`memory_reading.py`): what it needs was freed at the second
    #: try, or is nowhere to be had
    DECLINED = "started at the second reading"
    #: it was to start at once, and did not
    NOT_FREE = "NOT FREE"
    #: it started without the victims that tesched named, and would have notified before Slurm's word
    NEEDLESS = "NEEDLESS"
    #: so it did, but the daemon awaits Slurm's word on it before it notifies any (`orders/first_look.py`)
    AT_SLURMS_WORD = "started at Slurm's word"
    #: refused, and Slurm would have started it
    MISSED = "MISSED"
    #: refused as not modelled, and Slurm would have started it
    NOT_MODELLED = "NOT MODELLED"


class Awaited(StrEnum):
    """Why Slurm's word is awaited before a victim is notified; empty where it is not."""

    NOT = ""
    #: what the victims leave is not enough without what is free, on which others may start first
    FREE = "free"
    #: by sums the job may start on what is free
    SUMS = "sums"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One request, and what came of it."""

    cluster: str
    options: str
    verdict: Verdict
    tesched: str = ""
    slurm: str = ""
    #: on one node it holds more than tesched had said
    took_more: str = ""
    #: victims were named, and why Slurm's word is awaited before they are notified
    awaited: Awaited = Awaited.NOT
    #: how many victims were named, and how many Slurm needs at least; None where that was not tried
    victims: int = 0
    least: int | None = None
    #: a smaller set could have been enough by mere sums, and Slurm declined the likeliest
    least_is_sure: bool = True
    #: of a futile one all that Slurm shows and logs of it; who held what where fewer victims, or none, would have done
    record: str = ""
