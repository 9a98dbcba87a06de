"""Refusals that stand: written when they are first said, and once more when they no longer hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, select
from tesched_core.model.decision import BlockOnRead, Refusal, Refusals
from tesched_core.model.resources import JobId, UnixSeconds

from tesched_db.job_rows import PresentJobs
from tesched_db.many_rows import insert_rows, update_rows
from tesched_db.rows import IN_PARTS, Values
from tesched_db.tables import RefusalRow

#: What is written of one cycle: the candidates of so many preemptors, so many of them one by one, and of the others so
#: many of each code. A preemptor's own refusal always is.
MOST_PREEMPTORS, MOST_CANDIDATES, MOST_OF_A_CODE = 100, 20_000, 20


class _Sense(NamedTuple):
    """Key by which two refusals are the same; their wording and score may differ."""

    preemptor: int
    preemptor_key: int | None
    job_id: int
    job_key: int | None
    code: str


#: The same as a plain tuple, which is made four times as fast; a code is equal to its text.
_Key: TypeAlias = tuple[int, int | None, int, int | None, str]


class _StandingRow(NamedTuple):
    """What is written of a refusal that stands."""

    key: int
    text: str
    more: int


@dataclass
class Standing:
    """The refusals that stand, with their row and wording, and the next free key."""

    rows: dict[_Key, _StandingRow] = field(default_factory=dict)
    next_key: int = 1

    @staticmethod
    def load(connection: Connection) -> Standing:
        """Load the standing refusals that the store holds."""
        last = connection.scalar(select(RefusalRow.key).order_by(RefusalRow.key.desc()).limit(1))
        stands = select(RefusalRow).where(RefusalRow.last_seen.is_(None))
        return Standing(
            rows={
                _Sense(row.preemptor, row.preemptor_key, row.job_id, row.job_key, row.code): _StandingRow(
                    row.key, row.text, row.more
                )
                for row in connection.execute(stands, execution_options=IN_PARTS)
            },
            next_key=(last or 0) + 1,
        )

    def write(
        self,
        connection: Connection,
        refusals: Iterable[Refusal],
        seen: PresentJobs,
        at: UnixSeconds,
        seen_before: UnixSeconds | None,
    ) -> None:
        """Write what is said now and was not before, and end what is not said any more."""
        said = _by_sense(within_bounds(refusals), seen)
        over: list[Values] = []
        new: list[Values] = []
        reworded: list[Values] = []
        counted: list[Values] = []
        if not said.keys() >= self.rows.keys():
            last_seen = seen_before if seen_before is not None else at
            ended = [sense for sense in self.rows if sense not in said]
            over = [{"key": self.rows.pop(sense).key, "last_seen": last_seen} for sense in ended]
        row_of = self.rows.get
        for plain, refusal in said.items():
            row = row_of(plain)
            if row is None:
                new.append(self._new(_Sense._make(plain)._replace(code=refusal.code.value), refusal, at))
                continue
            if row.text is refusal.text and row.more == refusal.more:
                continue
            sense = _Sense._make(plain)._replace(code=refusal.code.value)
            if sense.job_id == sense.preemptor and row.text != refusal.text:
                # "Tried again in 40 s": worth keeping up to date for the few that wait, not for every candidate.
                reworded.append({"key": row.key, "text": refusal.text, "behind": refusal.behind})
                row = self.rows[sense] = row._replace(text=refusal.text)
            if row.more != refusal.more:
                # Of each code one candidate at most says it; which one changes as they end.
                counted.append({"key": row.key, "more": refusal.more})
                self.rows[sense] = row._replace(more=refusal.more)
        for changed in (over, reworded, counted):
            if changed:
                update_rows(connection, RefusalRow, changed)
        if new:
            insert_rows(connection, RefusalRow, new)

    def _new(self, sense: _Sense, refusal: Refusal, at: UnixSeconds) -> Values:
        key, self.next_key = self.next_key, self.next_key + 1
        self.rows[sense] = _StandingRow(key, refusal.text, refusal.more)
        words = {"text": refusal.text, "score": refusal.score, "behind": refusal.behind, "more": refusal.more}
        return {**sense._asdict(), "key": key, **words, "first_seen": at}


def _by_sense(refusals: Iterable[Refusal], seen: PresentJobs) -> dict[_Key, Refusal]:
    """Return the refusals by what makes them the same; of two that are, the last."""
    said: dict[_Key, Refusal] = {}
    known = seen.jobs.get
    preemptor = preemptor_key = None
    for one in refusals:
        if one.preemptor != preemptor:  # those of one preemptor come together
            preemptor = one.preemptor
            preemptor_key = seen.key_of(preemptor)
        job = known(one.job_id)
        said[one.preemptor, preemptor_key, one.job_id, job.key if job else None, one.code] = one
    return said


def within_bounds(refusals: Iterable[Refusal]) -> Iterator[Refusal]:
    """Yield what is written of a cycle's refusals.

    1,000 waiting TE jobs and 40,000 running jobs are 40 million, and none of them more than a line of `explain`.
    """
    preemptors: set[JobId] = set()
    candidates = 0
    for part in refusals.parts if isinstance(refusals, Refusals) else refusals:
        if isinstance(part, Refusal):
            yield part
            continue
        # A preemptor may have several blocks.
        if part.preemptor not in preemptors and len(preemptors) == MOST_PREEMPTORS:
            continue
        preemptors.add(part.preemptor)
        block = part.block if isinstance(part, BlockOnRead) else part
        candidates += len(block)
        yield from block if candidates <= MOST_CANDIDATES else block.abbreviated(MOST_OF_A_CODE)
