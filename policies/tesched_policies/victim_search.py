"""Search for a set of victims that frees resources for one job, for any order of preference.

Two searches, both ending with a set from which no victim can be left out:

- `fewest_and_cheapest` counts each node's fewest victims, and takes the node with the fewest, then the lowest
  scores; where one victim suffices, the one with the lowest score wins. FitGpp's rule is this one with its score.
- `in_order` takes victims one by one, lowest score first, wherever they run, until the job fits somewhere. The
  baselines are this one with theirs.

`plan_all` folds either over the waiting jobs: each plan changes the free resources of the next job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.cluster import Job
from tesched_core.model.columns import Running
from tesched_core.model.decision import Block, Refusal, RefusalCode, Refusals, Why
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.room import Room
from tesched_core.orders.suspend import suffices
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand, share_of
from tesched_core.placement.fewest import least_of_all
from tesched_core.placement.spread import fewer_may_do, spreads
from tesched_core.placement.what_if import WhatIf
from tesched_core.policy import AwaitRoom, ChosenVictim, Eligibility, MakeRoom, Plan, Proposal, View

from tesched_policies.among_equals import Prices, prices_for
from tesched_policies.candidates import Candidates, candidates_of, first_free


class FoundVictims(NamedTuple):
    """Victims, as rows of `Running` in the order in which they are notified, and the nodes that they free, as rows."""

    victims: tuple[int, ...]
    nodes: tuple[int, ...]


#: Scores every running BE job for one preemptor, [running]; lower yields first.
Rank: TypeAlias = Callable[[View, Job], NDArray[np.float64]]
#: Says until when a job waits for resources that come free by themselves, instead of preempting the victims found.
Patience: TypeAlias = Callable[[View, Job, FoundVictims], UnixSeconds]
#: Finds victims among those of `pool` [running], and the nodes that they free; None if there is no such set.
Search: TypeAlias = Callable[[Demand, Running, NDArray[np.bool_], NDArray[np.float64], Room], FoundVictims | None]


def fewest_and_cheapest(
    demand: Demand, running: Running, pool: NDArray[np.bool_], score: NDArray[np.float64], room: Room
) -> FoundVictims | None:
    """Return few and cheap victims that make the job fit on `demand.nodes` nodes.

    On each node one victim if one suffices, the cheapest such; else cheap ones until it fits, less those that turn out
    not to be needed, or fewer dear ones (`placement/fewest.py`). The node with the fewest victims wins, then the lowest
    sum of scores. A job of several nodes takes them one by one, cheapest first; a victim that spans several of them
    counts once. In the end no victim is left without which the job would still fit somewhere.
    """
    what_if = WhatIf(demand, running, pool, score, room)
    open_rows = set(np.flatnonzero(demand.allowed).tolist())
    required = set(demand.required)
    if not required <= open_rows:
        return None
    cheap = what_if.at_most_one(np.array(sorted(open_rows), dtype=np.intp))
    dear: dict[int, tuple[int, ...] | None] | None = None
    prices: dict[int, tuple[int, ...] | None]
    chosen: list[int] = []

    def price(item: tuple[int, tuple[int, ...]]) -> tuple[int, float, int, int]:
        row, victims = item
        first = min((int(running.job_id[victim]) for victim in victims), default=0)
        return len(victims), sum(float(score[victim]) for victim in victims), first, row

    while len(chosen) < demand.nodes:
        wanted = required - set(chosen)
        if wanted:
            prices = {row: cheap[row] if row in cheap else what_if.several(row) for row in wanted}
        elif cheap:
            prices = {**cheap}
        else:
            if dear is None:
                dear = {row: what_if.several(row) for row in what_if.promising(open_rows - set(chosen))}
            prices = {**dear}
        priced = [(row, victims) for row, victims in prices.items() if victims is not None]
        if not priced:
            return None
        row, victims = min(priced, key=price)
        chosen.append(row)
        cheap.pop(row, None)
        if dear is not None:
            dear.pop(row, None)
        for victim in victims:
            what_if.take(victim)
        # A victim that spans nodes has freed resources on the others too, and is no longer to be had there.
        touched = np.array(
            sorted({node for victim in victims for node in what_if.nodes_of(victim)} & open_rows - set(chosen)),
            dtype=np.intp,
        )
        if len(chosen) < demand.nodes and len(touched):
            for other in touched.tolist():
                cheap.pop(other, None)
            cheap |= what_if.at_most_one(touched)
            dear = None
    rows = tuple(chosen)
    for victim in reversed(what_if.taken()):
        # A victim that spans nodes may have freed enough for the whole job, so check all rows.
        what_if.give_back(victim)
        without = what_if.rows_for_all(rows)
        if without is None:
            what_if.take(victim)
        else:
            rows = without
    return FoundVictims(what_if.taken(), tuple(sorted(rows)))


def in_order(
    demand: Demand, running: Running, pool: NDArray[np.bool_], score: NDArray[np.float64], room: Room
) -> FoundVictims | None:
    """Take victims in their order until the job fits somewhere, then give back, last first, those not needed there."""
    what_if = WhatIf(demand, running, pool, score, room)
    fitting = set(np.flatnonzero(demand.fits(room)).tolist())
    required = set(demand.required)
    for victim in what_if.pool_in_order():
        if len(fitting) >= demand.nodes and required <= fitting:
            break
        what_if.take(victim)
        nodes = what_if.nodes_of(victim)
        fitting |= {node for node, fits in zip(nodes, what_if.fits(nodes), strict=True) if fits}
    if len(fitting) < demand.nodes or not required <= fitting:
        return None
    chosen = sorted([*demand.required, *sorted(fitting - required)][: demand.nodes])
    what_if.minimise(chosen, what_if.taken())
    return FoundVictims(what_if.taken(), tuple(chosen))


def plan_all(
    view: View, rank: Rank, search: Search, patience: Patience | None = None, *, why: str, drawn: bool = False
) -> Proposal[None]:
    """Return a plan for each waiting TE job that resources can be freed for, and a refusal for each other job.

    `why` is what is recorded of each victim; "{score}" in it is its score. `drawn`: scores are draws from 0 to 1.
    """
    room, running = view.room_after_orders, view.running
    plans: list[Plan] = []
    refusals: list[Refusal | Block] = []
    taken: list[int] = []
    by_anybody = view.eligibility.may_be_asked
    #: victims of this TE job that go first among equals, and why
    first: dict[int, str] = {}
    #: shapes for which no victim was found, by the TE user that has fewer eligible victims; until a job is
    #: planned, none is found for another of the same shape
    hopeless: set[tuple[object, ...]] = set()
    for job in view.waiting:
        try:
            candidates = candidates_of(job, view, room)
        except UnsupportedRequestError as error:
            text = f"its request has an option that tesched does not model ({error}); Slurm alone places it"
            refusals.append(_of_preemptor(job, RefusalCode.UNSUPPORTED, text))
            continue
        if candidates.impossible:
            refusals.append(_of_preemptor(job, RefusalCode.IMPOSSIBLE, candidates.impossible))
            continue
        at_once = first_free(candidates.any, room) or first_free(candidates.by_itself, room)
        if at_once is not None:
            demand, found, prices = at_once[0], FoundVictims((), at_once[1]), _NO_PRICES
        else:
            prices = prices_for(job, view, rank(view, job), drawn=drawn)
            eligibility = view.eligibility.by(job)
            asker = "" if eligibility is view.eligibility else f"{job.user} {job.time_limit_s}"
            pool = by_anybody & eligibility.may_be_asked if asker else by_anybody
            answer: FoundVictims | None = None
            demand = candidates.any[0]
            if pool.any():
                ground = _Ground(view=view, room=room, pool=pool, score=prices.price, search=search, hopeless=hopeless)
                pair, may_shrink, prices = _no_more_for_the_steps(ground, candidates, asker, prices)
                if may_shrink:
                    refusals.append(_of_preemptor(job, RefusalCode.UNSUPPORTED, _MAY_SHRINK))
                    continue
                demand, answer = pair or (demand, None)
            until = patience(view, job, answer) if patience and answer else 0.0
            if until > view.snapshot.taken_at:
                plans.append(AwaitRoom(preemptor=job.job_id, until=until))
                continue
            refusals += _passed_over(view, eligibility, job, taken)
            found = answer or FoundVictims((), ())
            others = partial(_would_do, demand, running, pool, found, room)
            first = prices.go_first(found.victims, running, others)
            if pool.any():
                refusals.append(_spared(demand, running, pool, prices.score, found, room, equals=bool(first)))
            if answer is None:
                refusals.append(_of_preemptor(job, RefusalCode.NO_VICTIM, _why_nobody(view, pool)))
                continue
        by_suspending = suffices(demand, view, found.victims, found.nodes, room)
        plans.append(
            MakeRoom(
                preemptor=job.job_id,
                by_suspending=by_suspending,
                nodes=tuple(room.names[row] for row in found.nodes),
                victims=tuple(_chosen(row, running, prices.score, first.get(row, why)) for row in found.victims),
            )
        )
        hopeless.clear()
        if found.victims:
            taken += found.victims
            by_anybody = by_anybody.copy()
            by_anybody[list(found.victims)] = False
        if found.victims and not by_suspending:  # a suspended victim goes on later
            going = np.flatnonzero(np.isin(running.share_job, found.victims))
            room = room.changed(running.share_node[going], running.frees[going])
        room = room.changed(found.nodes, -share_of(demand, found.nodes))
    return Proposal(intents=tuple(plans), refusals=Refusals(refusals))


_NO_PRICES = Prices(score=np.zeros(0), price=np.zeros(0))


def _chosen(row: int, running: Running, score: NDArray[np.float64], why: str) -> ChosenVictim:
    job_id = JobId(int(running.job_id[row]))
    return ChosenVictim(job_id=job_id, score=float(score[row]), why=why.format(score=float(score[row])))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """All that a search for one TE job needs."""

    view: View
    room: Room
    #: [running] who may be a victim, and each one's price
    pool: NDArray[np.bool_]
    score: NDArray[np.float64]
    search: Search
    #: shapes, by asker, for which there are no victims
    hopeless: set[tuple[object, ...]]

    def cheapest(self, candidates: Candidates, asker: str) -> tuple[tuple[Demand, FoundVictims] | None, bool]:
        """Return the fewest and cheapest victims, and whether there are only such as may leave for nothing.

        With a fixed number of nodes the job is bound to, it starts there; its victims have to leave while it is bound.
        """
        found = self._all(candidates.fixed, candidates.any, asker) if candidates.fixed else []
        certain = [pair for pair in found if self._leave_within(pair[1], candidates.bound_for_s)]
        if not certain:
            as_asked = self._all(candidates.as_asked, candidates.as_asked, asker)
            certain = [pair for pair in as_asked if not _may_shrink(pair, self.room, self.view.running)]
            found += as_asked
        if not certain:
            return None, bool(found)
        return min(certain, key=lambda pair: _price(pair[1], self.score)), False

    def _all(
        self, demands: Sequence[Demand], uneven: Sequence[Demand], asker: str
    ) -> list[tuple[Demand, FoundVictims]]:
        """Return victims for each of the demands, and unevenly spread where one victim is not enough."""
        answers: list[tuple[Demand, FoundVictims]] = []
        for one in demands:  # each partition alone, as Slurm tries them
            if any(one.nodes > demand.nodes and len(found.victims) == 1 for demand, found in answers):
                break  # no larger number of nodes costs less
            if (asker, *one.shape) not in self.hopeless:
                victims = self._search(one)
                if victims is None:
                    self.hopeless.add((asker, *one.shape))
                else:
                    answers.append((one, victims))
        if min((len(found.victims) for _, found in answers), default=2) > 1:
            for demand in uneven:
                for one in spreads(demand, self.room, self.view.running, self.pool):
                    victims = self._search(one)
                    if victims is not None:
                        answers.append((one, victims))
        return answers

    def _search(self, demand: Demand) -> FoundVictims | None:
        return self.search(demand, self.view.running, self.pool, self.score, self.room)

    def _leave_within(self, found: FoundVictims, limit_s: float) -> bool:
        """Check whether victims that save their work have left by then; one that is ending is awaited in any case."""
        jobs = (JobId(int(self.view.running.job_id[row])) for row in found.victims)
        traits = (self.view.snapshot.traits[job_id] for job_id in jobs)
        return all(not one.notice_signal or one.grace_period_s <= limit_s for one in traits)


def _no_more_for_the_steps(
    ground: _Ground, candidates: Candidates, asker: str, prices: Prices
) -> tuple[tuple[Demand, FoundVictims] | None, bool, Prices]:
    """Cheapest victims by the policy's own price alone where fewer leave so, else by steps; and which prices those are.

    In an order by steps many own jobs may come before the one of another's that is enough.
    """
    pair, may_shrink = ground.cheapest(candidates, asker)
    count = len(pair[1].victims) if pair else 0
    least = (least_of_all(one, ground.view.running, ground.pool, ground.room) for one in candidates.any)
    if prices.steps is None or not (may_shrink or (count > 1 and min(least) < count)):
        return pair, may_shrink, prices
    other, _ = replace(ground, score=prices.score).cheapest(candidates, asker)
    if other is None or (pair and count <= len(other[1].victims)):
        return pair, may_shrink, prices
    return other, False, Prices(score=prices.score, price=prices.score)


def _may_shrink(pair: tuple[Demand, FoundVictims], room: Room, running: Running) -> bool:
    demand, found = pair
    return bool(found.victims) and fewer_may_do(demand, found.nodes, room, running, found.victims)


_MAY_SHRINK = (
    "resources could be freed, but as its number of nodes is left open Slurm may do with fewer of them, and a victim "
    "would have left for nothing; Slurm alone places it"
)


def _of_preemptor(job: Job, code: RefusalCode, text: str) -> Refusal:
    return Refusal(job_id=job.job_id, preemptor=job.job_id, code=code, text=text)


def _price(found: FoundVictims, score: NDArray[np.float64]) -> tuple[int, float]:
    return len(found.victims), sum(float(score[row]) for row in found.victims)


def _why_nobody(view: View, pool: NDArray[np.bool_]) -> str:
    if not len(view.running):
        return "no best-effort job is running"
    if not pool.any():
        return f"none of the {len(view.running)} running best-effort jobs may be preempted"
    return f"not even all {int(pool.sum())} best-effort jobs that may be preempted would free enough where it may run"


_TAKEN: Why = (RefusalCode.ALREADY_LEAVING, "it yields already, to another trial-and-error job of this cycle")


def _passed_over(view: View, eligibility: Eligibility, preemptor: Job, taken: Sequence[int]) -> Iterator[Block]:
    """Yield, for each running BE job that may not be a victim at all, the reason."""
    running = view.running
    for rows, why, whys in (
        (np.flatnonzero(eligibility.why >= 0), eligibility.why, eligibility.whys),
        (np.array(taken, dtype=np.intp), np.zeros(len(running), dtype=np.intp), (_TAKEN,)),
    ):
        if len(rows):
            in_order_of_id = rows[np.argsort(running.job_id[rows])]
            yield Block(
                preemptor=preemptor.job_id,
                job_id=running.job_id[in_order_of_id],
                why=why[in_order_of_id],
                whys=whys,
                score=np.full(len(rows), np.nan),
            )


def _would_do(
    demand: Demand, running: Running, pool: NDArray[np.bool_], found: FoundVictims, room: Room
) -> NDArray[np.intp]:
    """Return the candidates that were not taken and free resources where it may run; enough, where one does."""
    where = running.share_node
    shares = demand.allowed[where] & pool[running.share_job]
    if len(found.victims) == 1:
        shares &= demand.fits_into(room.free[where] + running.frees, where)
    rows = np.unique(running.share_job[shares])
    return rows[~np.isin(rows, found.victims)]


def _spared(  # noqa: PLR0917 - what a search is given, and what it found
    demand: Demand,
    running: Running,
    pool: NDArray[np.bool_],
    score: NDArray[np.float64],
    found: FoundVictims,
    room: Room,
    *,
    equals: bool,
) -> Block:
    """Return, for each candidate that was weighed and not taken, the reason; `equals`: one goes first among equals."""
    where = running.share_node
    may_run = demand.allowed[where]
    enough = demand.fits_into(room.free[where] + running.frees, where) & may_run
    nowhere = np.ones(len(running), dtype=np.bool_)
    nowhere[running.share_job[may_run]] = False
    alone = np.zeros(len(running), dtype=np.bool_)
    alone[running.share_job[enough]] = True
    dearest = max((float(score[row]) for row in found.victims), default=0.0)
    outscored = f"it would do too; its score {{score}} is not below the chosen one's {dearest:.3f}"
    whys: tuple[Why, ...] = (
        (RefusalCode.NOT_ALLOWED_NODE, "it runs where the trial-and-error job may not (partition, constraint, …)"),
        (RefusalCode.FREES_TOO_LITTLE, "its resources, and those that are free beside them, are not enough"),
        (RefusalCode.OUTSCORED, outscored),
        (RefusalCode.GIVEN_BACK, "its resources alone do not reach the number of nodes that the job requests"),
        (RefusalCode.OUTSCORED, "it would do too, by its score {score}; the chosen one goes first among equals"),
    )
    why = np.where(nowhere, 0, np.where(~alone, 1, 2 if found.victims else 3))
    if equals:
        why[(why == 2) & (score <= dearest)] = 4
    weighed = pool.copy()
    weighed[list(found.victims)] = False
    rows = np.flatnonzero(weighed)
    rows = rows[np.lexsort((running.job_id[rows], score[rows]))]
    return Block(preemptor=demand.job.job_id, job_id=running.job_id[rows], why=why[rows], whys=whys, score=score[rows])
