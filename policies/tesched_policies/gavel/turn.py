"""Turn of gavel: from the jobs of one poll and the state to the plans of this round (policy.py has the definitions).

`counted` adds the time since the last poll; then a round begins (the time is divided again where that is due, and types
are assigned), or resources that came free in mid-round are given away; then the types become plans and holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.policy import HoldJob, MakeRoom, Proposal, View

from tesched_policies.gavel.allocators.problem import Problem
from tesched_policies.gavel.avoid_moves import alike, booked, kept
from tesched_policies.gavel.basis import is_another, with_basis
from tesched_policies.gavel.jobs import NOWHERE, GavelJobs, Kinds
from tesched_policies.gavel.node_assignment import Places
from tesched_policies.gavel.pair_rounds import Claims, Placed, assign_sharing
from tesched_policies.gavel.pairs import Pair, allocated, claims_of, pair_of, pairs_of, unshared, with_time
from tesched_policies.gavel.parameters import GavelParameters
from tesched_policies.gavel.round_scheduling import assign, deficits, fastest_first, priorities
from tesched_policies.gavel.state import GavelState, JobRounds

#: Expected run time of a job of which nothing is known, seconds.
UNKNOWN_RUN_S = 3600.0
#: Most jobs for which turns of others are taken in a round, each worked out anew.
MOST_PLACES = 20
_HELD = "this round's accelerators go to others; it is held so that it does not start in a gap between two jobs"
_HELD_FOR_NODES = "it has a turn, and is held until it has nodes for it, so that it does not start on another job's"


def counted(view: View, kinds: Kinds, managed: GavelJobs, state: GavelState | None) -> GavelState:
    """Return the state after the time since the last poll was counted for each job that ran; a new one at first."""
    now = view.now
    if state is None or state.types != kinds.names:
        return GavelState(
            types=kinds.names,
            began_at=now,
            ends_at=now,
            counted_at=now,
            solved_at=0.0,
            given_s=(0.0,) * len(kinds.names),
        )
    given = np.array(state.given_s)
    snapshot = view.snapshot.jobs
    jobs: dict[JobId, JobRounds] = {
        job_id: one for job_id, one in state.jobs.items() if job_id in snapshot and not snapshot[job_id].finished
    }
    same = alike(managed.throughput)
    together: dict[Pair, NDArray[np.float64]] = {}
    for row, (job, kind) in enumerate(zip(managed.jobs, managed.on.tolist(), strict=True)):
        known = state.jobs.get(job.job_id, JobRounds(kind=kind))
        if kind != NOWHERE and job.start_time is not None:
            ran = np.zeros((1, len(given)))
            ran[0, kind] = max(now - max(state.counted_at, job.start_time), 0.0)
            pair = pair_of(managed, row)
            if pair is not None and pair in state.pairs:
                together[pair] = np.minimum(together.get(pair, ran[0]), ran[0])  # as long as both ran
                jobs[job.job_id] = known
                continue
            if known.share:
                ran = booked(ran, np.array([known.share]), same[row : row + 1])
            given += ran[0]
            known = replace(known, received_s=tuple((np.array(known.received_s or given * 0.0) + ran[0]).tolist()))
        jobs[job.job_id] = known
    given = np.sum([given, *together.values()], axis=0)
    pairs = with_time(state.pairs, together, jobs)
    changed = state.changed or jobs.keys() != state.jobs.keys()
    return replace(
        state, counted_at=now, given_s=tuple(given.tolist()), jobs=jobs, shared=tuple(pairs.values()), changed=changed
    )


@dataclass(slots=True, kw_only=True)
class GavelTurn:
    """One poll's proposal, while it is worked on."""

    parameters: GavelParameters
    view: View
    kinds: Kinds
    managed: GavelJobs
    state: GavelState
    #: [jobs] the type of this round, and the row of the job that should share the GPU, or NOWHERE
    want: NDArray[np.intp] = field(init=False)
    beside: NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        rows = range(len(self.managed))
        row_of = {job.job_id: row for row, job in enumerate(self.managed.jobs)}
        partners = [self._known(row).partner for row in rows]
        found = [NOWHERE if one is None else row_of.get(one, NOWHERE) for one in partners]
        self.want = np.array([self._known(row).kind for row in rows], dtype=np.intp)
        self.beside = np.array(found, dtype=np.intp)

    def _known(self, row: int) -> JobRounds:
        return self.state.jobs.get(self.managed.jobs[row].job_id, JobRounds(kind=int(self.managed.on[row])))

    def _table(self, name: str) -> NDArray[np.float64]:
        """Return a tuple of each job's as [jobs, types]; zeros where it has none."""
        table = np.zeros((len(self.managed), len(self.kinds.names)))
        for row in range(len(self.managed)):
            values = getattr(self._known(row), name)
            if values:
                table[row] = values
        return table

    # A new round.

    def begin_round(self) -> None:
        """Divide the time again if that is due, and assign the types."""
        now, parameters = self.view.now, self.parameters
        # Where a trial had a GPU when time was last divided, that GPU has come back, or another is gone.
        changed = self.state.changed or tuple(self._capacity().tolist()) != self.state.solved_gpus
        changed = changed or is_another(self.state, parameters, self.view, self.kinds, self.managed)
        if changed and now - self.state.solved_at >= parameters.solve_every_s:
            self._solve()
        # A job that cannot be moved now, or is on its way, stays what it is.
        settled = (self.managed.on != NOWHERE) & ~self.managed.movable | self.managed.served
        fixed = np.where(self.managed.on != NOWHERE, self.managed.on, self.want)
        self.want = self._assigned(settled, np.where(self.managed.served, self.want, fixed), anew=True)
        self._make_places()
        # Rounds keep their beat, unless the daemon was away for longer than one.
        due = self.state.due_at(parameters.round_s)
        began = due if now - due < parameters.round_s else now
        self.state = replace(self.state, began_at=began, ends_at=began + parameters.round_s)

    def _make_places(self) -> None:
        """Take turns, for jobs that have no place, of those that come after them and stay where these could be.

        Nodes are not alike: what one job may have another may not (partition, reservation, features). The turn is taken
        of those alone that would leave for the job.
        """
        managed, kind = self.managed, self.want.copy()
        behind = self._priorities()
        placeless = self._placeless(self._plans())
        for row in sorted(placeless, key=lambda row: (-behind[row, kind[row]], row))[:MOST_PLACES]:
            stays = managed.movable & (managed.on == kind[row]) & (self.want == managed.on) & (managed.shards == 0)
            stays &= behind[:, kind[row]] < behind[row, kind[row]]
            before = self.want.copy()
            self.want[stays] = NOWHERE
            plan = next((one for one in self._plans() if one.preemptor == managed.jobs[row].job_id), None)
            leave = set() if plan is None else {victim.job_id for victim in plan.victims}
            for other in np.flatnonzero(stays).tolist():
                if managed.jobs[other].job_id not in leave:
                    self.want[other] = before[other]

    def _plans(self) -> tuple[MakeRoom, ...]:
        places = Places(view=self.view, kinds=self.kinds, managed=self.managed, want=self.want, beside=self.beside)
        return places.plans()

    def _placeless(self, plans: Sequence[MakeRoom]) -> list[int]:
        """Return the rows of waiting jobs that have a turn and no place for it."""
        managed, planned = self.managed, {plan.preemptor for plan in plans}
        waits = managed.ready & (self.want != NOWHERE) & ~managed.served & (managed.shards == 0)
        return [row for row in np.flatnonzero(waits).tolist() if managed.jobs[row].job_id not in planned]

    def _priorities(self) -> NDArray[np.float64]:
        """Return [jobs, types] how far each is behind its share: the furthest come first."""
        half = self.parameters.round_s / 2
        received = self._table("received_s") + half
        given = np.array(self.state.given_s) + half * max(self.state.solved_jobs, 1)
        return priorities(self._table("share"), received, given, self.managed.throughput)

    def fill(self) -> None:
        """Give resources that are free in mid-round to the next waiting job; none is moved for it."""
        # A job that runs on without a turn, since no other needs its nodes, has one now.
        self.want = np.where((self.want == NOWHERE) & self.managed.movable, self.managed.on, self.want)
        self._give_up_taken()
        waits = (self.want == NOWHERE) & (self.managed.on == NOWHERE)
        if waits.any():
            self.want = self._assigned(~waits, self.want)

    def _give_up_taken(self) -> None:
        """Take the turn of each waiting job on a type of which others have come to hold too much: it gets another."""
        managed, left = self.managed, self._capacity()
        stays = (managed.on != NOWHERE) & ((managed.on == self.want) | ~managed.movable)
        np.subtract.at(left, managed.on[stays], managed.gpus_of(np.flatnonzero(stays), managed.mate))
        comes = managed.served & (self.want != NOWHERE) & ~stays & (managed.shards == 0)
        np.subtract.at(left, self.want[comes], managed.gpus[comes])
        waits = (managed.on == NOWHERE) & (self.want != NOWHERE) & ~managed.served & (managed.shards == 0)
        for row in np.flatnonzero(waits).tolist():
            if managed.gpus[row] > left[self.want[row]]:
                self.want[row] = NOWHERE
            else:
                left[self.want[row]] -= managed.gpus[row]

    def _assigned(self, settled: NDArray[np.bool_], kind: NDArray[np.intp], *, anew: bool = False) -> NDArray[np.intp]:
        """Assign a type to each job, settled ones keeping theirs; the job that shares its GPU goes to `beside`.

        Pairs come together only at the beginning of a round (`anew`).
        """
        managed, share = self.managed, self._table("share")
        half = self.parameters.round_s / 2
        given = np.array(self.state.given_s) + half * max(self.state.solved_jobs, 1)
        capacity = self._capacity()
        there = np.flatnonzero(settled & (kind != NOWHERE))
        together = np.where(self.beside != NOWHERE, self.beside, managed.mate)
        np.subtract.at(capacity, kind[there], managed.gpus_of(there, together))
        free, capacity = np.flatnonzero(~settled), np.maximum(capacity, 0)
        alone = Claims(
            priority=self._priorities()[free],
            deficit_s=self._table("deficit_s")[free],
            share=share[free],
        )
        members, pairs = claims_of(self.state.pairs if anew else {}, managed, free, given, half)
        types, throughput, sizes = self._choosing(), managed.throughput[free], managed.gpus[free]
        if len(members):
            placed = assign_sharing(
                types, alone, pairs, members, throughput=throughput, scale_factor=sizes, capacity=capacity
            )
        else:
            taken = assign(
                types,
                alone.priority,
                alone.deficit_s,
                alone.share,
                throughput=throughput,
                scale_factor=sizes,
                capacity=capacity,
            )
            placed = Placed(taken, np.full(len(free), NOWHERE, dtype=np.intp))
        found = kind.copy()
        found[free] = placed.kind
        self.beside[free] = np.where(placed.partner == NOWHERE, NOWHERE, free[placed.partner])
        paired = free[placed.partner != NOWHERE]
        np.subtract.at(capacity, found[paired], managed.gpus_of(paired, self.beside))
        rest = free[placed.partner == NOWHERE]
        found[rest] = kept(
            managed.on[rest],
            found[rest],
            alike_types=alike(managed.throughput[rest]),
            scale_factor=managed.gpus[rest],
            capacity=capacity,
        )
        return found

    def _choosing(self) -> list[int]:
        """Types in the order in which they choose: the fastest first, as configured or by jobs' speeds; or by turns.

        A slow one that chose first would take each job that fits there, also one whose share is on a faster one.
        """
        order = list(range(len(self.kinds.names)))
        if not self.parameters.allocator.endswith("-agnostic"):
            return order if self.parameters.types else fastest_first(self.managed.throughput)
        first = round(self.state.began_at / self.parameters.round_s) % max(len(order), 1)
        return order[first:] + order[:first]

    def _capacity(self) -> NDArray[np.int64]:
        """Count the GPUs of each type for the managed jobs, [types]: what others neither hold nor have reserved.

        Those are on nodes that one of the jobs may have: no partition, reservation or feature keeps all of them away.
        """
        capacity = self.view.capacity
        column = capacity.resources.index("gpu") if "gpu" in capacity.resources else None
        if column is None:
            return self.kinds.gpus.copy()
        may = self.managed.may_have(capacity.available & (self.kinds.of_node != NOWHERE))
        free = np.zeros_like(self.kinds.gpus)
        np.add.at(free, self.kinds.of_node[may], capacity.free[may, column])
        mine = np.flatnonzero(self.managed.on != NOWHERE)
        np.add.at(free, self.managed.on[mine], self.managed.gpus_of(mine, self.managed.mate))
        # What an order keeps for a managed job is its own; of shards, the GPU is still counted as free.
        coming = self.managed.served & (self.want != NOWHERE) & (self.managed.shards == 0)
        np.add.at(free, self.want[coming], self.managed.gpus[coming])
        return np.minimum(free, self.kinds.gpus)

    def _solve(self) -> None:
        managed, now, parameters = self.managed, self.view.now, self.parameters
        received, share = self._table("received_s"), self._table("share")
        elapsed_s = max(now - self.state.solved_at, 0.0) if self.state.solved_jobs else 0.0
        deficit = deficits(self._table("deficit_s"), share, received, elapsed_s)
        isolated_s = np.array([self._isolated_s(row, received[row]) for row in range(len(managed))], dtype=np.float64)
        slower_s = np.array([self._slower_s(row, received[row]) for row in range(len(managed))], dtype=np.float64)
        terms = parameters.standing.terms(managed.jobs, self.view.snapshot.traits, managed.since.tolist(), now)
        problem = Problem(
            throughput=managed.throughput,
            scale_factor=managed.gpus,
            capacity=np.maximum(self._capacity(), 0),
            weight=terms.weight,
            steps_left=self._steps_left(slower_s),
            age_s=np.maximum(now - managed.since, 0.0),
            isolated_s=isolated_s,
            deadline_s=terms.deadline_s,
            entity=terms.entity,
            entity_weight=terms.entity_weight,
            entity_kind=terms.entity_kind,
            price=np.array(parameters.prices_of(self.kinds.names), dtype=np.float64),
            pairs=pairs_of(self.view, self.kinds, managed) if parameters.shares else None,
        )
        answer = parameters.objective.allocate(problem)
        part = problem.capacity / max(len(managed), 1) / problem.scale_factor[:, None]
        alone = (managed.throughput * part / np.maximum(part.sum(axis=1, keepdims=True), 1.0)).sum(axis=1)
        jobs = {
            job.job_id: JobRounds(
                share=tuple(answer.x[row].tolist()),
                received_s=(0.0,) * len(self.kinds.names),
                deficit_s=tuple(deficit[row].tolist()),
                kind=self._known(row).kind,
                partner=self._known(row).partner,
                isolated_s=float(isolated_s[row]),
                isolated_speed=float(alone[row]),
                slower_s=float(slower_s[row]),
            )
            for row, job in enumerate(managed.jobs)
        }
        self.state = replace(
            self.state,
            solved_at=now,
            solved_jobs=len(managed),
            solved_gpus=tuple(problem.capacity.tolist()),
            changed=False,
            given_s=(0.0,) * len(self.kinds.names),
            jobs={**self.state.jobs, **jobs},
            shared=tuple(allocated(self.state.pairs, problem.pairs, answer.pairs_x, managed, elapsed_s).values()),
            fallback=answer.fallback or "",
        )
        self.state = with_basis(self.state, parameters, self.view, self.kinds, managed)

    def _isolated_s(self, row: int, received_s: NDArray[np.float64]) -> float:
        known = self._known(row)
        steps = float(received_s @ self.managed.throughput[row])
        return known.isolated_s + (steps / known.isolated_speed if known.isolated_speed > 0 else 0.0)

    def _slower_s(self, row: int, received_s: NDArray[np.float64]) -> float:
        """Seconds by which its work until now would have taken less on the type on which it is fastest."""
        speeds = self.managed.throughput[row]
        most = float(speeds.max(initial=0.0))
        lag = float(received_s @ (1.0 - speeds / most)) if most > 0 else 0.0
        return self._known(row).slower_s + lag

    def _steps_left(self, slower_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return [jobs] the steps that are left by the expected run time, which is that on the fastest type."""
        left = []
        for row, job in enumerate(self.managed.jobs):
            expected = self.view.snapshot.expected_run(job.job_id)
            whole_s = (expected and expected.median_s) or job.time_limit_s or UNKNOWN_RUN_S
            past = self.view.memory.job(job.job_id).past
            ran_s = (past.ran_s if past else 0.0) + self._runs_for(job.start_time if job.on_nodes else None)
            # A job that has run for longer than expected is taken for nearly done.
            left.append(max(whole_s - (ran_s - float(slower_s[row])), 0.05 * whole_s))
        steps: NDArray[np.float64] = np.array(left, dtype=np.float64) * self.managed.throughput.max(axis=1, initial=0.0)
        return steps

    def _runs_for(self, start: UnixSeconds | None) -> float:
        return 0.0 if start is None else max(self.view.now - start, 0.0)

    # What is to be done for it.

    def proposal(self) -> Proposal[GavelState]:
        """Return the plans, holds and releases that bring it about, and the state to remember."""
        managed = self.managed
        plans = self._plans()
        has_turn = self.want != NOWHERE
        planned = {plan.preemptor for plan in plans}
        # A job that asks for shards waits for its place also if it has a turn: Slurm would put it beside any other.
        placeless = np.array([job.job_id not in planned for job in managed.jobs], dtype=np.bool_) & (managed.shards > 0)
        hold = managed.ready & (~has_turn | placeless | managed.held)
        # With a turn as well: the moment its delay is over Slurm would start it on any nodes, also those of an order.
        hold |= managed.away & ~managed.served
        jobs = dict(self.state.jobs)
        for row, job in enumerate(managed.jobs):
            other = int(self.beside[row])
            partner = None if other == NOWHERE else managed.jobs[other].job_id
            jobs[job.job_id] = replace(self._known(row), kind=int(self.want[row]), partner=partner)
        holds = (
            HoldJob(job_id=managed.jobs[row].job_id, why=_HELD_FOR_NODES if has_turn[row] else _HELD)
            for row in np.flatnonzero(hold).tolist()
        )
        waiting = np.flatnonzero(has_turn & managed.away & ~managed.served).tolist()
        over = (at for row in waiting if (at := managed.jobs[row].eligible_time) is not None)
        return Proposal(
            intents=(*plans, *holds),
            notes=dict(self._why()),
            state=replace(self.state, jobs=jobs),
            next_at=min([self.state.due_at(self.parameters.round_s), *over]),
        )

    def _why(self) -> Iterator[tuple[JobId, str]]:
        """Yield for each job what share it has, and why it is where it is; the same words all round."""
        names, standing = self.kinds.names, self.parameters.standing
        of_entities = self.parameters.allocator.startswith("hierarchical")
        for row, job in enumerate(self.managed.jobs):
            share = self._known(row).share or (0.0,) * len(names)
            parts = [f"{part:.0%} on {name}" for name, part in zip(names, share, strict=True) if part >= 0.005]
            fair = f"its share of the time is {', '.join(parts)}" if parts else "no time is allocated to it yet"
            kind = int(self.want[row])
            now = f"in this round its turn is on {names[kind]}" if kind != NOWHERE else "this round goes to others"
            other = int(self.beside[row])
            if other != NOWHERE:
                now += f", on one GPU with job {self.managed.jobs[other].label}"
            aside = f" ({self.state.fallback})" if self.state.fallback else ""
            counts = standing.said(job, self.view.snapshot.traits[job.job_id], of_entities=of_entities)
            text = f"{fair}{aside}; {counts}; {now}" if counts else f"{fair}{aside}; {now}"
            yield job.job_id, text
        yield from unshared(self.view, self.kinds, self.parameters.allocator, sharing=self.parameters.shares)
