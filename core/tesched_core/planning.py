"""How a set of victims is found that makes room for one job, for any order of preference.

Two searches, both ending with the smallest set that still works (no victim whose room is not needed):

- `fewest_and_cheapest` looks at each node for few victims there, and takes the node with the fewest, then the lowest
  scores; where one victim suffices, the one with the lowest score wins. FitGpp's rule is this one with its score.
- `in_order` takes victims one by one, lowest score first, wherever they run, until the job fits somewhere. The
  baselines are this one with theirs.

`plan_all` folds either over the waiting jobs: each plan changes the room that the next job sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tesched_core.cluster import Job, JobState
from tesched_core.decision import Refusal, RefusalCode
from tesched_core.fit import Demand, Room, UnsupportedConstraintError, demand_of, vector
from tesched_core.policy import Plan, Proposal, View
from tesched_core.resources import JobId


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A job that may be asked to yield, and what it would free."""

    job: Job
    #: lower goes first; ties go to the lower job id
    score: float
    #: rows of the room and what it holds there, [rows, resources]
    rows: NDArray[np.intp]
    frees: NDArray[np.int64]

    @property
    def key(self) -> tuple[float, int]:
        """Return the order in which candidates are asked."""
        return (self.score, self.job.job_id)


#: Scores every running BE job for one preemptor; lower yields first.
Rank: TypeAlias = Callable[[View, Job], Mapping[JobId, float]]
#: Finds victims and the rows that they make room on; None if there is no such set.
Search: TypeAlias = Callable[
    [Demand, Sequence[Candidate], Room], "tuple[tuple[Candidate, ...], tuple[int, ...]] | None"
]


def candidates_of(jobs: Iterable[Job], scores: Mapping[JobId, float], room: Room) -> tuple[Candidate, ...]:
    """Return the jobs as candidates, in the order in which they are asked."""
    found = []
    for job in jobs:
        shares = [share for share in job.allocation if share.node in room.index]
        frees = np.array([vector(share.tres, room.resources) for share in shares], dtype=np.int64)
        if job.state is JobState.SUSPENDED and shares:
            frees[:, 0] = 0  # its CPUs are free already
        rows = np.array([room.index[share.node] for share in shares], dtype=np.intp)
        found.append(
            Candidate(
                job=job,
                score=scores[job.job_id],
                rows=rows,
                frees=frees.reshape(len(shares), len(room.resources)),
            )
        )
    return tuple(sorted(found, key=lambda candidate: candidate.key))


class _Trial:
    """A what-if: the room after some victims went. Private to one search; the room that it came from is untouched."""

    def __init__(self, demand: Demand, room: Room) -> None:
        self.demand = demand
        self.total = room.total
        self.free = room.free.copy()
        self.victims: dict[JobId, Candidate] = {}

    def take(self, candidate: Candidate) -> None:
        np.add.at(self.free, candidate.rows, candidate.frees)
        self.victims[candidate.job.job_id] = candidate

    def give_back(self, candidate: Candidate) -> None:
        np.subtract.at(self.free, candidate.rows, candidate.frees)
        del self.victims[candidate.job.job_id]

    def fits(self, rows: Sequence[int] | NDArray[np.intp]) -> NDArray[np.bool_]:
        where = np.asarray(rows, dtype=np.intp)
        return self.demand.fits_into(self.free[where], self.total[where]) & self.demand.allowed[where]

    def rows_for_all(self, first: Sequence[int]) -> tuple[int, ...] | None:
        """Return rows for the whole job, required ones and those of `first` before others; None if it does not fit."""
        fitting = self.fits(np.arange(len(self.free), dtype=np.intp))
        if not fitting[list(self.demand.required)].all():
            return None
        others = (int(row) for row in np.flatnonzero(fitting))
        rows = dict.fromkeys([*self.demand.required, *(row for row in first if fitting[row]), *others])
        return tuple(sorted(list(rows)[: self.demand.nodes])) if len(rows) >= self.demand.nodes else None

    def minimise(self, rows: Sequence[int], among: Iterable[Candidate]) -> None:
        """Give back, dearest first, whoever is not needed for the job to fit on all of `rows`."""
        for candidate in sorted(among, key=lambda candidate: candidate.key, reverse=True):
            self.give_back(candidate)
            if not self.fits(rows).all():
                self.take(candidate)


def fewest_and_cheapest(
    demand: Demand, candidates: Sequence[Candidate], room: Room
) -> tuple[tuple[Candidate, ...], tuple[int, ...]] | None:
    """Return few and cheap victims that make the job fit on `demand.nodes` nodes.

    On each node one victim if one suffices, the cheapest such; else cheap ones until it fits, less those that turn out
    not to be needed (this is not always the least number). The node with the fewest victims wins, then the lowest sum
    of scores. A job of several nodes takes them one by one, cheapest first; a victim that spans several of them counts
    once. In the end nobody pays without whom the job would fit anywhere.
    """
    trial = _Trial(demand, room)
    on_row: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        for row in candidate.rows:
            on_row.setdefault(int(row), []).append(candidate)

    def victims_on(row: int) -> tuple[Candidate, ...] | None:
        """Return who else must go for the job to fit on this node; empty if it fits as it is."""
        if trial.fits([row])[0]:
            return ()
        here = [candidate for candidate in on_row.get(row, ()) if candidate.job.job_id not in trial.victims]
        taken: list[Candidate] = []
        for candidate in here:  # one that suffices alone; the first is the cheapest
            trial.take(candidate)
            enough = trial.fits([row])[0]
            trial.give_back(candidate)
            if enough:
                return (candidate,)
        for candidate in here:
            trial.take(candidate)
            taken.append(candidate)
            if trial.fits([row])[0]:
                break
        enough = bool(trial.fits([row])[0])
        if enough:
            trial.minimise([row], taken)
        kept = tuple(candidate for candidate in taken if candidate.job.job_id in trial.victims)
        for candidate in kept:
            trial.give_back(candidate)
        return kept if enough else None

    def price(row: int, victims: tuple[Candidate, ...]) -> tuple[bool, int, float, int, int]:
        first = min((candidate.job.job_id for candidate in victims), default=0)
        return (
            row not in demand.required,
            len(victims),
            sum(candidate.score for candidate in victims),
            first,
            row,
        )

    open_rows = {int(row) for row in np.flatnonzero(demand.allowed)}
    prices = {row: victims for row in sorted(open_rows) if (victims := victims_on(row)) is not None}
    chosen: list[int] = []
    while len(chosen) < demand.nodes:
        if not prices:
            return None
        row = min(prices, key=lambda row: price(row, prices[row]))
        victims = prices.pop(row)
        chosen.append(row)
        for candidate in victims:
            trial.take(candidate)
        # A victim that spans nodes has made room on the others too.
        for other in {int(other) for candidate in victims for other in candidate.rows} & open_rows - set(chosen):
            again = victims_on(other)
            if again is None:
                prices.pop(other, None)
            else:
                prices[other] = again
    if not set(demand.required) <= set(chosen):
        return None
    rows = tuple(chosen)
    for candidate in sorted(trial.victims.values(), key=lambda candidate: candidate.key, reverse=True):
        # A victim that spans nodes may have made room for the whole job, so look at all rows.
        trial.give_back(candidate)
        without = trial.rows_for_all(rows)
        if without is None:
            trial.take(candidate)
        else:
            rows = without
    return tuple(sorted(trial.victims.values(), key=lambda candidate: candidate.key)), tuple(sorted(rows))


def in_order(
    demand: Demand, candidates: Sequence[Candidate], room: Room
) -> tuple[tuple[Candidate, ...], tuple[int, ...]] | None:
    """Take victims in their order until the job fits somewhere, then give back, last first, who is not needed there."""
    trial = _Trial(demand, room)
    rows = np.arange(len(room.names), dtype=np.intp)
    fitting = {int(row) for row in rows[trial.fits(rows)]}

    def enough() -> bool:
        return len(fitting) >= demand.nodes and set(demand.required) <= fitting

    for candidate in candidates:
        if enough():
            break
        trial.take(candidate)
        fitting |= {int(row) for row in candidate.rows[trial.fits(candidate.rows)]}
    if not enough():
        return None
    others = sorted(fitting - set(demand.required))
    chosen = sorted([*demand.required, *others][: demand.nodes])
    trial.minimise(chosen, tuple(trial.victims.values()))
    return tuple(sorted(trial.victims.values(), key=lambda candidate: candidate.key)), tuple(chosen)


def plan_all(view: View, rank: Rank, search: Search) -> Proposal:
    """Return a plan for each waiting job that room can be made for, and why not for whoever was passed over."""
    room = view.room
    plans: list[Plan] = []
    refusals: list[Refusal] = []
    taken: set[JobId] = set()
    for job in view.waiting:
        try:
            demand = demand_of(job, view.snapshot, room)
        except UnsupportedConstraintError:
            text = f"its constraint {job.request.features!r} is one that tesched cannot weigh; Slurm alone places it"
            refusals.append(_of_preemptor(job, RefusalCode.UNSUPPORTED, text))
            continue
        impossible = _why_impossible(demand, room)
        if impossible:
            refusals.append(_of_preemptor(job, RefusalCode.IMPOSSIBLE, impossible))
            continue
        free_rows = np.flatnonzero(demand.fits(room))
        if len(free_rows) >= demand.nodes and set(demand.required) <= set(free_rows.tolist()):
            others = [int(row) for row in free_rows if row not in demand.required]
            rows = sorted([*demand.required, *others][: demand.nodes])
            victims: tuple[Candidate, ...] = ()
        else:
            scores = rank(view, job)
            eligible = [other for other in view.running if other.job_id not in view.excused]
            pool = candidates_of((other for other in eligible if other.job_id not in taken), scores, room)
            answer = search(demand, pool, room)
            found, rows = (answer[0], list(answer[1])) if answer else ((), [])
            refusals += _passed_over(view, job, taken)
            refusals += _spared(demand, pool, found, room)
            if answer is None:
                refusals.append(_of_preemptor(job, RefusalCode.NO_VICTIM, _why_nobody(view, pool)))
                continue
            victims = found
        plans.append(
            Plan(
                preemptor=job.job_id,
                nodes=tuple(room.names[row] for row in rows),
                victims=tuple((candidate.job.job_id, candidate.score) for candidate in victims),
            )
        )
        taken |= {candidate.job.job_id for candidate in victims}
        for candidate in victims:
            room = room.changed(candidate.rows, candidate.frees)
        room = room.changed(rows, -share_of(demand, room, rows))
    return Proposal(plans=tuple(plans), refusals=tuple(refusals))


def share_of(demand: Demand, room: Room, rows: Sequence[int]) -> NDArray[np.int64]:
    """Return what the job takes of each of `rows`, [rows, resources]; an exclusive job takes the whole node."""
    where = np.asarray(rows, dtype=np.intp)
    if demand.job.request.exclusive:
        return room.total[where].copy()
    share = np.tile(demand.per_node, (len(rows), 1))
    if demand.all_memory:
        share[:, 1] = room.total[where, 1]
    return share


def _of_preemptor(job: Job, code: RefusalCode, text: str) -> Refusal:
    return Refusal(job_id=job.job_id, preemptor=job.job_id, code=code, text=text)


def _why_impossible(demand: Demand, room: Room) -> str:
    if demand.unknown_gres:
        return f"no node has the GRES {demand.unknown_gres}"
    ever = demand.fits_into(room.total, room.total) & demand.allowed
    if int(ever.sum()) < demand.nodes:
        return (
            f"it wants {demand.nodes} node(s), and only {int(ever.sum())} of those that it may use now "
            "(partition, constraint, node list, reservation, node state) are large enough, even empty"
        )
    return ""


def _why_nobody(view: View, pool: Sequence[Candidate]) -> str:
    if not view.running:
        return "no best-effort job is running"
    if not pool:
        return f"none of the {len(view.running)} running best-effort jobs may be asked to yield"
    return f"not even all {len(pool)} best-effort jobs that may be asked would free enough where it may run"


def _passed_over(view: View, preemptor: Job, taken: set[JobId]) -> Iterable[Refusal]:
    """Say of each running BE job that could not be asked at all why."""
    for job_id, refusal in view.excused.items():
        yield Refusal(job_id=job_id, preemptor=preemptor.job_id, code=refusal.code, text=refusal.text)
    for job_id in sorted(taken):
        text = "it yields already, to another trial-and-error job of this cycle"
        yield Refusal(job_id=job_id, preemptor=preemptor.job_id, code=RefusalCode.ALREADY_LEAVING, text=text)


def _spared(demand: Demand, pool: Sequence[Candidate], victims: Sequence[Candidate], room: Room) -> Iterable[Refusal]:
    """Say of each candidate that was weighed and not taken why."""
    preemptor = demand.job.job_id
    chosen = {candidate.job.job_id for candidate in victims}
    dearest = max((candidate.score for candidate in victims), default=0.0)
    for candidate in pool:
        if candidate.job.job_id in chosen:
            continue
        code, text = _why_spared(candidate, demand, room, victims, dearest)
        yield Refusal(
            job_id=candidate.job.job_id, preemptor=preemptor, code=code, text=text, score=round(candidate.score, 4)
        )


def _why_spared(
    candidate: Candidate, demand: Demand, room: Room, victims: Sequence[Candidate], dearest: float
) -> tuple[RefusalCode, str]:
    if not demand.allowed[candidate.rows].any():
        return RefusalCode.NOT_ALLOWED_NODE, "it runs where the trial-and-error job may not (partition, constraint, …)"
    free = room.free[candidate.rows] + candidate.frees
    alone = demand.fits_into(free, room.total[candidate.rows]) & demand.allowed[candidate.rows]
    if victims and alone.any():
        text = f"it would do too; its score {candidate.score:.3f} is not below the chosen one's {dearest:.3f}"
        return RefusalCode.OUTSCORED, text
    if not alone.any():
        return RefusalCode.FREES_TOO_LITTLE, "its room, and what is free beside it, is too small by itself"
    return RefusalCode.GIVEN_BACK, "its room alone does not reach the number of nodes that the job wants"
