"""Search for a set of victims that frees resources for one job, for any order of preference.

Two searches, both ending with a set from which no victim can be left out:

- `fewest_and_cheapest` counts each node's fewest victims, and takes the node with the fewest, then the lowest
  scores; where one victim suffices, the one with the lowest score wins. FitGpp's rule is this one with its score.
- `in_order` takes victims one by one, lowest score first, wherever they run, until the job fits somewhere. The
  baselines are this one with theirs.

`plan_all` folds either over the waiting jobs: each plan changes the free resources of the next job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.cluster import Job
from tesched_core.model.columns import Running
from tesched_core.model.decision import Part, Refusal, RefusalCode, Refusals, Why
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.orders.suspend import suffices
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand
from tesched_core.placement.latest_start import too_slow_for_any
from tesched_core.placement.node_prices import NodePrices
from tesched_core.placement.spanning import Spanning, fewest_on, least_where_jobs_span, sets_of_nodes
from tesched_core.placement.what_if import WhatIf
from tesched_core.policy import AwaitRoom, ChosenVictim, MakeRoom, Plan, PlanAdmission, Proposal, View

from tesched_policies.candidates import Candidates, may_be_bound
from tesched_policies.cheapest import cheapest_victims
from tesched_policies.ground import FoundVictims, Ground, Search, VictimQuestion
from tesched_policies.passed_over import Pool, would_do

#: Scores every running BE job for one preemptor, [running]; lower yields first.
Rank: TypeAlias = Callable[[View, Job], NDArray[np.float64]]
#: Says until when a job waits for resources that come free by themselves, instead of preempting the victims found.
Patience: TypeAlias = Callable[[View, Job, FoundVictims], UnixSeconds]

#: sets of nodes of which each is tried for fewer victims, and victims that are tried as the first to go
MOST_NODE_SETS, MOST_STARTS = 64, 8
#: nodes that are taken with all of these together: each try for a job of many nodes takes long
MOST_NODES_TAKEN = 512


def fewest_and_cheapest(question: VictimQuestion) -> FoundVictims | None:
    """Return few and cheap victims that make the job fit on `demand.nodes` nodes.

    On each node one victim if one suffices, the cheapest such; else cheap ones until it fits, less those that turn out
    not to be needed, or fewer dear ones (`placement/node_prices.py`). The node with the fewest victims wins, then the
    lowest sum of scores. A job of several nodes takes them one by one, cheapest first; a victim that spans several of
    them counts once, and fewer of those that span some are taken instead, where they are enough. In the end no victim
    is left without which the job would still fit somewhere.
    """
    demand = question.demand
    if not demand.allowed[list(demand.required)].all():
        return None
    found = _node_by_node(question)
    if found is None or demand.nodes < 2 or len(found.victims) < 2:
        return found
    return _fewer_that_span(question, found)


def _node_by_node(question: VictimQuestion, first: int | None = None) -> FoundVictims | None:
    """Take the nodes one by one, the cheapest first, once the victim `first` has gone, and give back superfluous ones.

    None if not all that may be victims are enough.
    """
    demand, prices, own = question.demand, question.prices(), False
    if first is None and demand.nodes == 1 and not demand.required:
        return _on_one_node(question, prices)
    what_if = WhatIf(demand, question.running, question.pool, question.score, question.capacity, prices.fitting)
    if first is not None:
        prices, own = prices.copy(), True
        _let_go((first,), what_if, prices)
    chosen: list[int] = []
    while True:
        wanted = set(demand.required) - set(chosen)
        cheapest = prices.cheapest_of(wanted) if wanted else prices.cheapest()
        if cheapest is None:
            return None
        row, victims = cheapest
        chosen.append(row)
        if len(chosen) == demand.nodes:
            break
        if not own:
            prices, own = prices.copy(), True
        prices.close(row)
        _let_go(victims, what_if, prices)
    for victim in victims:
        what_if.take(victim)
    return _without_superfluous(what_if, tuple(chosen))


def _on_one_node(question: VictimQuestion, prices: NodePrices) -> FoundVictims | None:
    """Take the cheapest node, for a job of one node that is to be no certain one."""
    cheapest = prices.cheapest()
    if cheapest is None:
        return None
    row, victims = cheapest
    demand, capacity, running = question.demand, question.capacity, question.running
    if len(victims) < 2 or (len(victims) == 2 and all(len(running.shares_of(victim)) == 1 for victim in victims)):
        # Where one victim is the cheapest, the job fits nowhere without it; where two are, nowhere with one of them. So
        # there is none to give back.
        return FoundVictims(victims, (row,))
    what_if = WhatIf(demand, running, question.pool, question.score, capacity, prices.fitting)
    for victim in victims:
        what_if.take(victim)
    return _without_superfluous(what_if, (row,))


def _let_go(victims: Sequence[int], what_if: WhatIf, prices: NodePrices) -> None:
    """Let victims go: those that span nodes free resources on others too, and are no longer to be had there."""
    for victim in victims:
        what_if.take(victim)
    touched = sorted({node for victim in victims for node in what_if.nodes_of(victim)})
    prices.update(np.array(touched, dtype=np.intp), what_if.free, what_if.pool)


def _without_superfluous(what_if: WhatIf, rows: tuple[int, ...]) -> FoundVictims:
    """Give back, dearest first, each without which the job still fits somewhere; it fits on all of `rows` now."""
    for victim in reversed(what_if.taken()):
        # A victim that spans nodes may have freed enough for the whole job, so check all rows.
        what_if.give_back(victim)
        without = what_if.rows_for_all(rows)
        if without is None:
            what_if.take(victim)
        else:
            rows = without
    return FoundVictims(what_if.taken(), tuple(sorted(rows)))


def _fewer_that_span(question: VictimQuestion, found: FoundVictims) -> FoundVictims:
    """Return fewer victims than those found where some that span nodes are enough, else these.

    One that is enough by itself: the cheapest such. Else the fewest on the nodes that were found, on any of a small
    cluster, and on those that are cheapest once a victim that spans some has gone (`placement/spanning.py`).
    """
    demand, running, free = question.demand, question.running, question.capacity.free
    about = running, question.pool, question.score, free
    spanning = Spanning.of(demand, *about, question.prices().fitting)
    if spanning.widest < 2:
        return found
    best, least = found, question.least()
    bound = least_where_jobs_span(demand, least, spanning.widest)
    if len(best.victims) <= bound:
        return best
    if spanning.single is not None:
        return _with_these(question, (spanning.single,), best)

    def better(nodes: Sequence[int]) -> FoundVictims:
        victims = fewest_on(demand, nodes, *about, less_than=len(best.victims))
        return _with_these(question, victims, best._replace(nodes=tuple(nodes))) if victims else best

    best = better(best.nodes)
    sets = sets_of_nodes(demand, least, spanning.widest, less_than=len(best.victims), most=MOST_NODE_SETS)
    for nodes in sets:
        if len(best.victims) <= max(bound, 2):
            return best
        best = better(nodes)
    for start in spanning.by_worth[: min(MOST_STARTS, MOST_NODES_TAKEN // demand.nodes)]:
        if len(best.victims) <= max(bound, 2):
            break
        other = _node_by_node(question, start)
        if other is not None:
            best = min(best, other, key=lambda one: len(one.victims))
            best = better(other.nodes)
    return best


def _with_these(question: VictimQuestion, victims: Sequence[int], before: FoundVictims) -> FoundVictims:
    what_if = WhatIf(question.demand, question.running, question.pool, question.score, question.capacity)
    for victim in victims:
        what_if.take(victim)
    rows = what_if.rows_for_all(before.nodes)
    if rows is None:
        raise AssertionError(f"victims {victims} are not enough")
    return _without_superfluous(what_if, rows)


def in_order(question: VictimQuestion) -> FoundVictims | None:
    """Take victims in their order until the job fits somewhere, then give back, last first, those not needed there."""
    demand = question.demand
    what_if = WhatIf(demand, question.running, question.pool, question.score, question.capacity)
    fitting = set(np.flatnonzero(what_if.fitting).tolist())
    required = set(demand.required)
    for victim in what_if.pool_in_order():
        if len(fitting) >= demand.nodes and required <= fitting:
            break
        what_if.take(victim)
        fitting |= {node for node in what_if.nodes_of(victim) if what_if.fitting[node]}
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
    planning = _Planning(
        view=view,
        ground=Ground.of(view, search, drawn=drawn),
        admission=_Admission(view.admission(view) if view.admission else None, is_patient=patience is not None),
        rank=rank,
        patience=patience,
        why=why,
    )
    refusals = [part for job in view.waiting for part in planning.plan(job)]
    return Proposal(intents=tuple(planning.admission.plans), refusals=Refusals(refusals))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeftOut:
    """What a try to plan for a job leaves out, to meet the reservations of its nodes."""

    #: nodes that the victims of the plans before leave too late
    nodes: frozenset[str] = frozenset()
    #: victims that leave too late for any of them
    slow_victims: bool = False


class _Tried(NamedTuple):
    """What a try to plan for a job came to."""

    refused: list[Part]
    #: nodes that the victims of a refused plan leave too late
    late: frozenset[str] = frozenset()
    is_planned: bool = False


@dataclass(slots=True, kw_only=True)
class _Planning:
    """Planning for one TE job after the other."""

    view: View
    ground: Ground
    admission: _Admission
    rank: Rank
    patience: Patience | None
    why: str
    #: why a job has no victim, by how many may be
    _why_nobody: dict[int, str] = field(default_factory=dict, init=False)

    def plan(self, job: Job) -> list[Part]:
        """Take in a plan for the job, if there is one that is admitted; return what was refused.

        Where some of its nodes are reserved before its slowest victim has left, there may be another one in time.
        """
        first = self._try(job, _LeftOut())
        in_time = self._try_in_time(job, first) if first.late else first
        return in_time.refused if in_time.is_planned else first.refused

    def _try_in_time(self, job: Job, tried: _Tried) -> _Tried:
        """Plan for the job without the nodes that are late; if that is none, without victims that are slow."""
        late = tried.late
        while tried.late and may_be_bound(job, self.view):
            tried = self._try(job, _LeftOut(nodes=late))
            late |= tried.late
        return tried if tried.is_planned else self._try(job, _LeftOut(slow_victims=True))

    def _try(self, job: Job, left_out: _LeftOut) -> _Tried:
        if left_out.nodes:
            excluded = tuple(sorted(left_out.nodes.union(job.request.excluded_nodes)))
            job = replace(job, request=replace(job.request, excluded_nodes=excluded))
        try:
            candidates, kind = self.ground.candidates(job)
        except UnsupportedRequestError as error:
            text = f"its request has an option that tesched does not model ({error}); Slurm alone places it"
            return _Tried([_of_preemptor(job, RefusalCode.UNSUPPORTED, text)])
        if candidates.impossible:
            return _Tried([_of_preemptor(job, RefusalCode.IMPOSSIBLE, candidates.impossible)])
        if (full := self.admission.full(job)) is not None:
            return _Tried([full])
        at_once = self.ground.at_once(candidates, kind)
        if at_once is not None:
            return self._admitted(job, at_once[0], FoundVictims((), at_once[1]), ())
        if (full := self.admission.full(job, victims=1)) is not None:
            return _Tried([full])
        return self._with_victims(job, candidates, kind, left_out)

    def _with_victims(self, job: Job, candidates: Candidates, kind: int | None, left_out: _LeftOut) -> _Tried:
        ground, running = self.ground, self.view.running
        prices = ground.prices(job, self.rank(self.view, job))
        eligibility = self.view.eligibility.by(job)
        is_usual = eligibility is self.view.eligibility
        asker = "" if is_usual else f"{job.user} {job.time_limit_s} {job.reservation} {job.deadline}"
        if left_out.slow_victims:
            slow = too_slow_for_any(job, running, self.view.snapshot)
            eligibility, asker = eligibility.without(slow, _TOO_SLOW), f"{asker} quick"
        pool = ground.pool_of(eligibility)
        answer: FoundVictims | None = None
        demand, may_be = candidates.any[0], Pool(ground.ledger, eligibility, left_out.nodes)
        left = ground.left_in(pool)
        if left:
            ask = partial(cheapest_victims, ground, candidates, pool, asker, prices)
            key = cheapest_victims, id(pool), id(prices.price)
            pair, may_shrink, prices = ask() if kind is None else ground.of_kind(kind, key, ask)
            if may_shrink:
                return _Tried([_of_preemptor(job, RefusalCode.UNSUPPORTED, _MAY_SHRINK)])
            demand, answer = pair or (demand, None)
        until = self.patience(self.view, job, answer) if self.patience and answer else 0.0
        if until > self.view.snapshot.taken_at:
            return self.admission.tried(AwaitRoom(preemptor=job.job_id, until=until))
        refusals: list[Part] = [*may_be.excused(job.job_id)]
        found = answer or FoundVictims((), ())
        #: victims of this TE job that go first among equals, and why
        first: dict[int, str] = {}
        if found.victims:
            others = partial(would_do, demand, running, pool, found, ground.capacity)
            first = prices.go_first(found.victims, running, others)
        if left:
            refusals.append(may_be.not_taken(job.job_id, demand, prices.score, found, equals=bool(first)))
        if answer is None:
            if left not in self._why_nobody:
                self._why_nobody[left] = _why_nobody(self.view, left)
            return _Tried([*refusals, _of_preemptor(job, RefusalCode.NO_VICTIM, self._why_nobody[left])])
        chosen = (_chosen(row, running, prices.score, first.get(row, self.why)) for row in found.victims)
        tried = self._admitted(job, demand, found, tuple(chosen))
        return tried._replace(refused=refusals + tried.refused)

    def _admitted(self, job: Job, demand: Demand, found: FoundVictims, victims: tuple[ChosenVictim, ...]) -> _Tried:
        ground = self.ground
        by_suspending = suffices(demand, self.view, found.victims, found.nodes, ground.capacity)
        nodes = tuple(ground.capacity.names[row] for row in found.nodes)
        plan = MakeRoom(preemptor=job.job_id, by_suspending=by_suspending, nodes=nodes, victims=victims)
        tried = self.admission.tried(plan)
        if tried.is_planned:
            ground.plan(demand, found, stay=by_suspending)  # a suspended victim goes on later
        return tried


@dataclass(slots=True)
class _Admission:
    """The plans so far, and the guard's word on them, if there is any."""

    guard: PlanAdmission | None
    _: KW_ONLY
    is_patient: bool
    plans: list[Plan] = field(default_factory=list)

    def full(self, job: Job, victims: int = 0) -> Refusal | None:
        """Return a refusal if there is nothing to search for: no plan, or none with so many victims, is admitted."""
        if self.guard is None or (self.is_patient and (victims or self.guard.waits(job.job_id))):
            return None  # a patient one with victims awaits free resources, so that they do not count yet
        why = self.guard.full(job.job_id, victims)
        if why is None or why.code is not RefusalCode.CYCLE_LIMIT:
            return why
        return replace(why, text=f"{why.text}, so no victims were searched for it")

    def tried(self, plan: Plan) -> _Tried:
        """Take the plan in, if it is admitted."""
        if self.guard is not None and (why := self.guard.admit(plan)) is not None:
            return _Tried([why], self.guard.late_nodes(plan) if isinstance(plan, MakeRoom) else frozenset())
        self.plans.append(plan)
        return _Tried([], is_planned=True)


_TOO_SLOW: Why = (
    RefusalCode.NOT_ALLOWED_NODE,
    "it leaves too late: with it the TE job would not meet the reservation of some of its nodes",
)


def _chosen(row: int, running: Running, score: NDArray[np.float64], why: str) -> ChosenVictim:
    job_id = JobId(int(running.job_id[row]))
    return ChosenVictim(job_id=job_id, score=float(score[row]), why=why.format(score=float(score[row])))


_MAY_SHRINK = (
    "resources could be freed, but as its number of nodes is left open Slurm may do with fewer of them, and a victim "
    "would have left for nothing; Slurm alone places it"
)


def _of_preemptor(job: Job, code: RefusalCode, text: str) -> Refusal:
    return Refusal(job_id=job.job_id, preemptor=job.job_id, code=code, text=text)


def _why_nobody(view: View, candidates: int) -> str:
    if not len(view.running):
        return "no best-effort job is running"
    if not candidates:
        return f"none of the {len(view.running)} running best-effort jobs may be preempted"
    return f"not even all {candidates} best-effort jobs that may be preempted would free enough where it may run"
