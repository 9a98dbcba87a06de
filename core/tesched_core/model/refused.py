"""Kinds of change that Slurm refuses on this site: learned from its answers, and tried less and less often.

Definitions
    kind       the field of a job's record that is set: nice value, priority, nodes, begin time, hold, throttle.
    refusal    slurmctld answered that it does not make the change: a job_submit plugin of the site's
               (slurm_job_modify), a missing right.

Principle
    What was refused once would be refused at each poll. So such a change is left for a while, which doubles with each
    refusal, and what it was for is done without it, or not at all. One that Slurm takes makes its refusal forgotten.

    A refusal of one user's jobs says nothing of others' jobs: a request of its own may be what Slurm refuses, and no
    user is to keep tesched from raising or binding the jobs of others. One of two users' jobs within an hour is
    the site's.

    An answer that is not understood counts from the second poll in a row: what was seen between shows that it did not
    arrive. It makes nothing the site's.

    What is put back is a change as well, and may be one that Slurm takes though it refuses others of its kind: it is
    tried a minute after each refusal.

    A site changes its mind: two hours after the last refusal nothing is left of it, and the next one is the first.

Worked example
    Refused at 0 s, when it is tried again at 60 s, then at 180 s, 420 s: four refusals in seven minutes, and then one
    in an hour.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tesched_core.model.actions import Action, FailureKind, Outcome, ReasonCode, SetField, Status
from tesched_core.model.field import Field
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.visible import shortened

#: Seconds until a refused change is tried again: after its first refusal, and at most.
FIRST_S, LONGEST_S = 60.0, 3600.0
#: Users who are remembered, the last ones, and characters of Slurm's words.
MOST_USERS, MOST_SAID = 50, 200
#: Of a refused change, in words: the fields whose changes a site refuses.
WORDS: Mapping[Field, str] = MappingProxyType(
    {
        Field.NICE: "nice values",
        Field.PRIORITY: "priorities",
        Field.NODES: "node lists",
        Field.BEGIN: "begin times",
        Field.THROTTLE: "array throttles",
        Field.HOLD: "holds",
    }
)
#: Why a change is put back, or a hold ended.
PUTS_BACK = frozenset(
    {
        ReasonCode.ORDER_ENDED,
        ReasonCode.FILLED,
        ReasonCode.LEFT_HELD,
        ReasonCode.ITS_TURN,
        ReasonCode.SET_FREE,
        ReasonCode.SHARE_ENDED,
    }
)
#: What scontrol adds to Slurm's words: it is another job each time.
_OF_JOB = re.compile(r"^\d[\d_,+%\[\]-]*: | for job [\d_+]+$")
_NO = frozenset({FailureKind.REFUSED, FailureKind.DENIED})
#: Slurm's words for nodes that this job can't have, in lower case: they are no policy of the site's.
_NOT_THESE_NODES = (
    "requested node configuration is not available",
    "invalid node name specified",
    "required node not available",
    "requested nodes are busy",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedChange:
    """Refusals of one kind of change."""

    #: whose jobs; the last ones
    users: tuple[str, ...]
    #: of two users' jobs, and of none since was it taken
    everywhere: bool = False
    #: the user whose change Slurm refused last, in words that are understood
    last: str = ""
    #: refusals so far, one a poll; 0: one answer that was not understood
    count: int
    #: the first one and the last one
    since: UnixSeconds
    at: UnixSeconds
    #: Slurm's words for the last one
    said: str

    @property
    def retry_at(self) -> UnixSeconds:
        """Time at which such a change is tried again."""
        return self.at + (min(FIRST_S * 2.0 ** min(self.count - 1, 30), LONGEST_S) if self.count else 0.0)

    def holds(self, user: str, now: UnixSeconds, *, puts_back: bool = False) -> bool:
        """Check whether such a change of this user's job would be refused, and is not tried yet."""
        until = min(self.retry_at, self.at + FIRST_S) if puts_back else self.retry_at
        # Of a time to come: the clock was ahead.
        return self.at - FIRST_S <= now < until and (self.everywhere or user in self.users)

    def is_recent(self, now: UnixSeconds) -> bool:
        """Check whether it says anything of the site as it is now."""
        return -FIRST_S <= now - self.at <= (2.0 * LONGEST_S if self.count else FIRST_S)


def field_of(action: Action) -> Field | None:
    """Return the field that an action sets; None: none, or it is no change of a kind that a site refuses."""
    return action.field if isinstance(action, SetField) and action.field in WORDS else None


def is_refusal(outcome: Outcome) -> bool:
    """Check whether Slurm refuses such changes of a job's record; that the job can't have those nodes is none."""
    failure, field = outcome.failure, field_of(outcome.action)
    if outcome.status is not Status.FAILED or failure is None or failure.kind not in _NO:
        return False
    of_these_nodes = any(words in failure.message.lower() for words in _NOT_THESE_NODES)
    return field is not None and not (field is Field.NODES and of_these_nodes)


def recent(refused: Mapping[Field, RefusedChange], now: UnixSeconds) -> Mapping[Field, RefusedChange]:
    """Refused changes that still say anything of the site."""
    return {field: one for field, one in refused.items() if one.is_recent(now)}


def after(
    refused: Mapping[Field, RefusedChange], outcome: Outcome, user: str, at: UnixSeconds
) -> Mapping[Field, RefusedChange]:
    """Refused changes after an outcome of one of this user's jobs."""
    field = field_of(outcome.action)
    if field is None:
        return refused
    refused = recent(refused, at)
    before = refused.get(field)
    if outcome.status is Status.SENT:
        return refused if before is None else _taken(refused, field, before, user)
    unknown = outcome.failure is not None and outcome.failure.kind is FailureKind.UNKNOWN
    if not is_refusal(outcome) and not unknown:
        return refused
    said = shortened(_OF_JOB.sub("", outcome.failure.message) if outcome.failure is not None else "", MOST_SAID)
    if before is None:
        count, last = (0, "") if unknown else (1, user)
        return {**refused, field: RefusedChange(users=(user,), last=last, count=count, since=at, at=at, said=said)}
    others = tuple(one for one in before.users if one != user)
    now = replace(
        before,
        users=(*others, user)[-MOST_USERS:],
        everywhere=before.everywhere or (not unknown and before.last not in {"", user} and at - before.at <= LONGEST_S),
        last=before.last if unknown else user,
        count=before.count + (at > before.at or not (unknown or before.count)),
        at=at,
        said=said,
    )
    return {**refused, field: now}


def _taken(
    refused: Mapping[Field, RefusedChange], field: Field, before: RefusedChange, user: str
) -> Mapping[Field, RefusedChange]:
    others = tuple(one for one in before.users if one != user)
    if not others:
        return {kept: one for kept, one in refused.items() if kept is not field}
    return {**refused, field: replace(before, users=others, everywhere=False)}
