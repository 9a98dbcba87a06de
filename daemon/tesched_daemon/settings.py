"""Settings of the daemon's parts, as tables of the configuration: what reads one need not import the parts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tesched_core.model.actions import Record

if TYPE_CHECKING:
    from tesched_core.orders.tell_users import Telling


class Mode(StrEnum):
    """Extent of what the daemon may do."""

    #: watches and records; decides nothing
    OBSERVE = "observe"
    #: decides and records what it would do; touches nothing
    SHADOW = "shadow"
    #: does it
    ENFORCE = "enforce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Pace of the looks."""

    #: seconds from the end of one turn to the start of the next
    poll_interval_s: float = 2.0
    #: the longest wait after failed looks; each failure doubles the wait up to it
    backoff_max_s: float = 30.0
    #: the socket on which pokes are taken (`wakeup.py`); empty for none
    socket: str = "/run/tesched/poke.sock"

    def __post_init__(self) -> None:
        """Raise ValueError for a pace that cannot be kept."""
        if not 0.1 <= self.poll_interval_s <= 3600:
            raise ValueError("poll_interval_s must be between 0.1 and 3600 seconds")
        if not self.poll_interval_s <= self.backoff_max_s <= 3600:
            raise ValueError("backoff_max_s must be between poll_interval_s and 3600 seconds")
        # systemd starts the daemon in /. Linux has room for 108 bytes, the last one for the end.
        if self.socket and (not self.socket.startswith("/") or "\0" in self.socket or len(self.socket.encode()) > 107):
            raise ValueError('socket must be empty or an absolute path of at most 107 bytes, such as "/run/x.sock"')


@dataclass(frozen=True, slots=True, kw_only=True)
class TellConfig:
    """Way in which the users of preempted jobs are told."""

    #: where in the job's Slurm record; another's text there is left
    record: Record = Record.AUTO
    #: a program and its arguments, which reads one JSON object from its standard input; empty: none
    command: tuple[str, ...] = ()
    #: seconds after which it is ended
    timeout_s: float = 10.0
    #: how often one user is told by it: so often at once, and as often an hour in the long run
    max_per_user_hour: int = 20

    def __post_init__(self) -> None:
        """Raise ValueError for what can't be run, and for a time in which nothing could be done, or nothing else."""
        if self.command and not self.command[0].startswith("/"):
            raise ValueError('command must begin with an absolute path, such as ["/usr/local/bin/tell-user"]')
        if any("\0" in word for word in self.command):
            raise ValueError("command must be without the character NUL")
        if not 0.1 <= self.timeout_s <= 300:
            raise ValueError("timeout_s must be between 0.1 and 300 seconds")
        if not 1 <= self.max_per_user_hour <= 10_000:
            raise ValueError("max_per_user_hour must be between 1 and 10000")

    def telling(self, most: int) -> Telling:
        """Return it as the heart wants it; `most` is how often a job may be preempted."""
        from tesched_core.orders.tell_users import Telling  # noqa: PLC0415 - for the daemon alone

        return Telling(record=self.record, by_command=bool(self.command), most=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimesConfig:
    """Run times that are expected of jobs."""

    #: finished runs are kept, and the run times of jobs like them are expected to be like theirs
    learn: bool = True
