"""Settings of the daemon's parts, as tables of the configuration: what reads one need not import the parts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Protocol

from tesched_core.model.actions import Record
from tesched_core.model.ranges import Form, Range, Seconds, between, check_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tesched_core.intake.class_rules import Classification
    from tesched_core.model.limits import Limits
    from tesched_core.orders.tell_users import Telling
    from tesched_core.policy import PolicyEntry


class Mode(StrEnum):
    """Extent of what the daemon may do."""

    #: watches and records; decides nothing
    OBSERVE = "observe"
    #: decides and records what it would do; touches nothing
    SHADOW = "shadow"
    #: does it
    ENFORCE = "enforce"


_BACKOFF = Range(least=0.1, most=3600, right="between poll_interval_s and 3600 seconds", right_tells_most=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Pace of the polls."""

    #: seconds from the end of one turn to the start of the next
    poll_interval_s: Annotated[float, between(0.1, 3600, "seconds")] = 2.0
    #: the longest wait after failed polls; each failure doubles the wait up to it
    backoff_max_s: Annotated[float, _BACKOFF] = 30.0
    #: the socket on which pokes are taken (`wakeup.py`); empty for none
    socket: str = "/run/tesched/poke.sock"
    #: new batch jobs are found in slurmctld's state folder, where this host is slurmctld's (`new_jobs.py`)
    watch_state_folder: bool = True
    #: tests a minute whether a job was submitted, one RPC each, while a BE job runs; 0: none
    tests_per_minute: Annotated[int, Range(least=6, most=1200, right="0, or from 6 to 1200", or_zero=True)] = 0
    #: where polls take long, a new TE job is served before the poll that it brings about (`early.py`)
    early_turn: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for a pace that cannot be kept."""
        check_ranges(self)
        if self.backoff_max_s < self.poll_interval_s:
            raise ValueError(f"backoff_max_s {_BACKOFF.must_be(self.backoff_max_s)}")
        # systemd starts the daemon in /. Linux takes 108 bytes, the last one for the end.
        if self.socket and (not self.socket.startswith("/") or "\0" in self.socket or len(self.socket.encode()) > 107):
            raise ValueError('socket must be empty or an absolute path of at most 107 bytes, such as "/run/x.sock"')


class Rules(Protocol):
    """What a turn goes by, the same between two reloads."""

    policies: Sequence[PolicyEntry]
    limits: Limits
    classes: Classification
    mode: Mode
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class TellConfig:
    """Way in which the users of preempted jobs are notified."""

    #: where in the job's Slurm record; another's text there is left
    record: Record = Record.AUTO
    #: a program and its arguments, which reads one JSON object from its standard input; empty: none
    command: tuple[str, ...] = ()
    #: seconds after which it is ended
    timeout_s: Annotated[float, between(0.1, 300, "seconds")] = 10.0
    #: how often one user is notified by it: so often at once, and as often an hour in the long run
    max_per_user_hour: Annotated[int, between(1, 10_000)] = 20

    def __post_init__(self) -> None:
        """Raise ValueError for what can't be run, and for a time in which nothing could be done, or nothing else."""
        if self.command and not self.command[0].startswith("/"):
            raise ValueError('command must begin with an absolute path, such as ["/usr/local/bin/notify-user"]')
        if any("\0" in word for word in self.command):
            raise ValueError("command must be without the character NUL")
        check_ranges(self)

    def telling(self, limits: Limits) -> Telling:
        """Return it as the heart wants it."""
        from tesched_core.orders.tell_users import Telling  # noqa: PLC0415 - for the daemon alone

        return Telling(record=self.record, by_command=bool(self.command), limits=limits)


_IDLE_FILE = Form(
    pattern=r"|/[^\x00]*[^\x00/]",
    said=' must be empty or the absolute path of a file, such as "/run/tesched-idle/idle"',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleConfig:
    """File of the site's that says which jobs are idle: they leave before busy ones of like price."""

    #: lines "JOBID SINCE"; empty: no job counts as idle
    file: Annotated[str, _IDLE_FILE] = ""
    #: seconds for which a job must have been idle
    after_s: Seconds = 900.0
    #: seconds after which a file that was not written anew is believed no more
    stale_s: Annotated[float, between(1, 86_400, "seconds")] = 300.0

    def __post_init__(self) -> None:
        """Raise ValueError for a relative path, and for times that make no sense."""
        check_ranges(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimesConfig:
    """Run times that are expected of jobs."""

    #: finished runs are kept, and the run times of jobs like them are expected to be like theirs
    learn: bool = True
