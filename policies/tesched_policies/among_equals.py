"""Among equals: of victims that a policy prices alike, idle ones go first, then those of the TE job's own user.

With `idle.file` and `guard.own_jobs_first`, for every policy that serves TE jobs by the victim search.

Definitions
    price       a policy's score of a victim; the lowest goes first
    step        0: of the TE job's own user; 1: of its own account; 2: of any other; less 3 for an idle job
    idle        the site's file says so, for long enough (`Snapshot.idle_since`)
    margin      part of a price by which two may differ and be equals, `guard.equal_within`

Principle
    Who starts a trial while an own best-effort job runs has that one leave rather than a stranger's, if it does as
    well. An idle job leaves rather than a busy one, whichever user owns them, since no work stops. So each step makes
    a victim dearer by the margin:

        price * (1 + margin * step)

    That is one number for each job, whatever else runs. So there are no classes with borders that a job may be put on
    the right side of, no job that is submitted moves others, and it goes before none that is cheaper by more than the
    margin for each step between them. With a margin of 0, and where prices are 0, equals differ by less than a
    thousand millionth part.

    No more victims leave for that: where the policy's price alone finds fewer, those leave (`victim_search.py`).

    A draw (`rand`) is no price: there all are equals.

Worked example
    A trial of Ada's, account vision; margin 0.01. Prices 1.000 (Bob, speech), 1.006 (Eve, vision), 1.015 (Ada).
    1.000 * 1.02 = 1.020, 1.006 * 1.01 = 1.016 and 1.015: Ada's job leaves. At 1.021 it would stay, and Eve's leave.
    Were Bob's idle, its step would be -1, its sum 0.990, and it would leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.cluster import Job
from tesched_core.model.columns import Running
from tesched_core.policy import View

#: the least difference of two prices that are not equal: more than adding up in another order makes
_LEAST, _LEAST_OF_ALL = 1e-9, 1e-12
_OWN_USER, _OWN_ACCOUNT, _OTHER = range(3)
#: steps by which an idle job comes before a busy one of the same owner: more than owners differ
_IDLE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What each running BE job costs one TE job."""

    #: [running] the policy's own
    score: NDArray[np.float64]
    #: [running] by which they are compared; `score` where all are equal strangers
    price: NDArray[np.float64]
    #: [running] steps behind the first; None: there are none
    steps: NDArray[np.int8] | None = None
    #: [running] for how long the job has been idle, seconds; 0: it is busy
    idle_s: NDArray[np.float64] | None = None

    def go_first(
        self, victims: Sequence[int], running: Running, others: Callable[[NDArray[np.bool_]], NDArray[np.intp]]
    ) -> dict[int, str]:
        """Return the victims that leave in the place of others since they go first among equals, and why.

        `others` finds those of some candidates, [running], that would do: by the policy's own order one of them comes
        before such a victim.
        """
        steps, score, job_id = self.steps, self.score, running.job_id
        if steps is None:
            return {}
        found: dict[int, str] = {}
        for row in victims:
            if steps[row] >= _OTHER:
                continue
            before = (score < score[row]) | ((score == score[row]) & (job_id < job_id[row]))
            behind = before & (steps > steps[row])
            rows = others(behind) if behind.any() else ()
            if len(rows):
                found[row] = self._why(row, rows)
        return found

    def _why(self, row: int, behind: Sequence[int] | NDArray[np.intp]) -> str:
        """Reason that this victim goes before those, which the policy's price alone puts first."""
        own = int(self.steps[row]) if self.steps is not None else _OTHER
        if self.idle_s is None or not self.idle_s[row]:
            return _WHY[own]
        if (self.idle_s[behind] == 0).any():
            return f"idle for {self.idle_s[row] / 60:.0f} min, and idle jobs go first among equals (idle.file)"
        return _WHY[own + _IDLE]


_WHY = {
    _OWN_USER: "it is of the trial-and-error job's own user, whose jobs go first among equals (guard.own_jobs_first)",
    _OWN_ACCOUNT: "it is of the trial-and-error job's own account, whose jobs go first among equals "
    "(guard.own_jobs_first)",
}


def prices_for(te: Job, view: View, score: NDArray[np.float64], *, drawn: bool = False) -> Prices:
    """Return the prices for this TE job; `drawn`: the score is a draw from 0 to 1, and no price."""
    steps = _steps(te, view.running, by_owner=view.limits.own_jobs_first)
    idle_s = _idle_s(view)
    if idle_s is not None:
        steps = np.where(idle_s > 0, steps - _IDLE, steps).astype(np.int8)
    if not len(steps) or steps.min() == steps.max():
        return Prices(score=score, price=score)
    return Prices(score=score, price=_raised(score, steps, view, drawn=drawn), steps=steps, idle_s=idle_s)


def price_for_strangers(view: View, score: NDArray[np.float64], *, drawn: bool = False) -> NDArray[np.float64]:
    """Return [running] what each costs a TE user of whose own none runs: for any other one all but a few cost that."""
    idle_s = _idle_s(view)
    steps = np.full(len(score), _OTHER, dtype=np.int8)
    if idle_s is not None:
        steps[idle_s > 0] -= _IDLE
    return _raised(score, steps, view, drawn=drawn)


def _raised(score: NDArray[np.float64], steps: NDArray[np.int8], view: View, *, drawn: bool) -> NDArray[np.float64]:
    """Return the scores, [running], raised by so many steps."""
    if drawn:
        return score + steps
    size = np.abs(score)
    margin = max(view.limits.equal_within, _LEAST)
    least = _LEAST_OF_ALL * (float(size.max(initial=0.0)) or 1.0)
    raised: NDArray[np.float64] = score + steps * (margin * size + least)
    return raised


def _idle_s(view: View) -> NDArray[np.float64] | None:
    """Return [running] for how long each has been idle, seconds, 0 for a busy one; None where none is idle."""
    running, since = view.running, view.snapshot.idle_since
    rows = [(running.row_of[job_id], at) for job_id, at in since.items() if job_id in running.row_of]
    if not rows:
        return None
    found = np.zeros(len(running))
    for row, at in rows:
        found[row] = max(view.snapshot.taken_at - at, _LEAST)
    return found


def _steps(te: Job, running: Running, *, by_owner: bool) -> NDArray[np.int8]:
    """Return [running] how far each is from the TE job's own user. A user or an account that is not known is no own."""
    if not by_owner:
        return np.full(len(running), _OTHER, dtype=np.int8)
    by_owner_row = [
        _OWN_USER
        if te.user and owner.user == te.user
        else _OWN_ACCOUNT
        if te.account and owner.account == te.account
        else _OTHER
        for owner in running.owners
    ]
    found: NDArray[np.int8] = np.array(by_owner_row, dtype=np.int8)[running.owner]
    return found
