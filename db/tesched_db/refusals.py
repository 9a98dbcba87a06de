"""Refusals that stand: written when they are first said, and once more when they no longer hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, bindparam, insert, select, update
from tesched_core.model.decision import BlockOnRead, Refusal, Refusals
from tesched_core.model.resources import JobId, UnixSeconds

from tesched_db.job_rows import PresentJobs
from tesched_db.rows import IN_PARTS, Values
from tesched_db.tables import RefusalRow

#: What is written of one cycle: the candidates of so many preemptors, so many of them one by one, and of the others so
#: many of each code. A preemptor's own refusal always is.
MOST_PREEMPTORS, MOST_CANDIDATES, MOST_OF_A_CODE = 100, 20_000, 20

_UPDATE = update(RefusalRow).where(RefusalRow.key == bindparam("b_key"))


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
        said: dict[_Key, Refusal] = {
            (
                refusal.preemptor,
                seen.key_of(refusal.preemptor),
                refusal.job_id,
                seen.key_of(refusal.job_id),
                refusal.code,
            ): refusal
            for refusal in within_bounds(refusals)
        }
        over = [
            {"b_key": self.rows.pop(sense).key, "b_last_seen": seen_before if seen_before is not None else at}
            for sense in [sense for sense in self.rows if sense not in said]
        ]
        new: list[Values] = []
        reworded: list[Values] = []
        counted: list[Values] = []
        for plain, refusal in said.items():
            row = self.rows.get(plain)
            if row is None:
                new.append(self._new(_Sense._make(plain)._replace(code=refusal.code.value), refusal, at))
                continue
            if row.text is refusal.text and row.more == refusal.more:
                continue
            sense = _Sense._make(plain)._replace(code=refusal.code.value)
            if sense.job_id == sense.preemptor and row.text != refusal.text:
                # "Tried again in 40 s": worth keeping up to date for the few that wait, not for every candidate.
                reworded.append({"b_key": row.key, "b_text": refusal.text, "b_behind": refusal.behind})
                row = self.rows[sense] = row._replace(text=refusal.text)
            if row.more != refusal.more:
                # Of each code one candidate at most says it; which one changes as they end.
                counted.append({"b_key": row.key, "b_more": refusal.more})
                self.rows[sense] = row._replace(more=refusal.more)
        if over:
            connection.execute(_UPDATE.values(last_seen=bindparam("b_last_seen")), over)
        if reworded:
            connection.execute(_UPDATE.values(text=bindparam("b_text"), behind=bindparam("b_behind")), reworded)
        if counted:
            connection.execute(_UPDATE.values(more=bindparam("b_more")), counted)
        if new:
            connection.execute(insert(RefusalRow), new)

    def _new(self, sense: _Sense, refusal: Refusal, at: UnixSeconds) -> Values:
        key, self.next_key = self.next_key, self.next_key + 1
        self.rows[sense] = _StandingRow(key, refusal.text, refusal.more)
        words = {"text": refusal.text, "score": refusal.score, "behind": refusal.behind, "more": refusal.more}
        return {**sense._asdict(), "key": key, **words, "first_seen": at}


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
