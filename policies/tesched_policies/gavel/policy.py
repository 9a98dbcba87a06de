"""gavel: best-effort jobs on GPUs of several types take turns, as one of Gavel's policies divides the time.

Definitions
    type         of accelerators: a GRES type or a node feature.
    allocation   X: the fraction of the time that each job should spend on each type (problem.py).
    round        for its length no job is moved.

Principle
    At the beginning of a round the policy divides the time again if jobs have come or gone, and round_scheduling.py
    says which job has which type: the one furthest behind its share comes first. Poll after poll, a job that runs where
    it should stays; one that should run elsewhere moves, on notice, from its checkpoint; one that should wait makes
    room for one that should run, if that one needs it. A job that waits is held, so that Slurm does not start it
    in a gap.
    Resources that come free in the middle of a round go to the next job, unless that would move another.
    What TE jobs and others hold or were promised is not there to be divided.

Worked example
    Two nodes, one GPU each: a v100 and a k80. a does 4 steps/s on the v100 and 1 on the k80, b does 2 and 2. las gives
    each the type that it is good at: X = [[1, 0], [0, 1]]. b came first and has the v100. In the next round b should be
    on the k80: it gets its notice, leaves, and starts there, bound to that node; a, which was held, starts on the
    v100.

Parameters
    allocator        one of allocators/registry.py; one that shares GPUs does so among jobs that ask for shards
                     (jobs.py, pairs.py)
    round_s          length of a round, 360
    solve_every_s    least time between two allocations, 0: at each round, if jobs have come or gone
    types            names, fastest first; empty: all GRES types of GPUs, by name
    qos_weights, most_weight, entity, entity_weights, in_order
                     what jobs and entities weigh, and when jobs are due (weights.py)
    fills            whether room that comes free in mid-round is given away at once, or waits as in the paper

Source
    Narayanan et al., OSDI 2020, sections 3 and 5. What the paper does by its own runtime on each worker is done here
    with Slurm's levers: hold and release, ReqNodeList, nice, notice and requeue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.limits import TurnLimits
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.policy import HoldJob, Policy, Proposal, View

from tesched_policies.gavel.allocators.names import ALONE, SHARING, SIMULATED
from tesched_policies.gavel.allocators.problem import Policy as Allocator
from tesched_policies.gavel.allocators.problem import Problem
from tesched_policies.gavel.avoid_moves import alike, booked, kept
from tesched_policies.gavel.jobs import NOWHERE, GavelJobs, Kinds, managed_jobs
from tesched_policies.gavel.node_assignment import Places
from tesched_policies.gavel.pair_rounds import Claims, Placed, assign_sharing
from tesched_policies.gavel.pairs import Pair, allocated, claims_of, pair_of, pairs_of, unshared, with_time
from tesched_policies.gavel.round_scheduling import assign, deficits, priorities
from tesched_policies.gavel.state import GavelState, JobRounds
from tesched_policies.gavel.weights import Entity, JobWeights, weights
from tesched_policies.turns import Turns

#: Expected run time of a job of which nothing is known, seconds.
UNKNOWN_RUN_S = 3600.0
_HELD = "this round's accelerators go to others; it is held so that it does not start in a gap between two jobs"


@dataclass(frozen=True, kw_only=True)
class Gavel(Turns, Policy[GavelState]):
    """The policy; see the head of this file."""

    name: ClassVar[str] = "gavel"
    State: ClassVar[type[GavelState]] = GavelState
    reads_speeds: ClassVar[bool] = True

    #: how the time is divided (allocators/registry.py)
    allocator: str = "las"
    #: length of a round, and least time between two allocations, seconds
    round_s: float = 360.0
    solve_every_s: float = 0.0
    #: types of GPUs, fastest first; empty: all
    types: tuple[str, ...] = ()
    #: resources that come free in mid-round are given away
    fills: bool = True
    #: weights of QOS and of entities, "NAME=WEIGHT"; the most that a job's comment may ask for
    qos_weights: tuple[str, ...] = ()
    most_weight: float = 1.0
    #: what an entity is, and the entities with jobs one after the other (weights.py)
    entity: Entity = Entity.ACCOUNT
    entity_weights: tuple[str, ...] = ()
    in_order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an allocator that there is not on Slurm, or what makes no round or weight."""
        if self.allocator not in (*ALONE, *SHARING):
            why = "; what a job got done beside another is not known on Slurm"
            only = why if self.allocator in SIMULATED else ""
            raise ValueError(f"allocator must be one of {', '.join((*ALONE, *SHARING))}{only}")
        if not 1 <= self.round_s <= 86_400:
            raise ValueError("round_s must be between 1 and 86400 seconds")
        if not 0 <= self.solve_every_s <= 86_400:
            raise ValueError("solve_every_s must be between 0 and 86400 seconds")
        if len(set(self.types)) < len(self.types):
            raise ValueError("types must name each type once")
        if not 0.001 <= self.most_weight <= 1000:
            raise ValueError("most_weight must be between 0.001 and 1000")
        self.check_turns()
        _ = self.standing

    @property
    def label(self) -> str:
        """Return the policy's name with its allocator's."""
        return f"gavel:{self.allocator}"

    @property
    def turn_limits(self) -> TurnLimits:
        """Return what turns may cost."""
        return self.limits_of_turns("gavel", self.round_s)

    @cached_property
    def objective(self) -> Allocator:
        """Return what divides the time; it brings SciPy."""
        from tesched_policies.gavel.allocators.registry import policy  # noqa: PLC0415 - SciPy, where it is needed

        return policy(self.allocator)

    @cached_property
    def standing(self) -> JobWeights:
        """Return how much jobs count. Raises ValueError for a weight that is none."""
        return JobWeights(
            qos_weights=weights(self.qos_weights, "qos_weights"),
            most_weight=self.most_weight,
            entity=self.entity,
            entity_weights=weights(self.entity_weights, "entity_weights"),
            in_order=frozenset(self.in_order),
        )

    @property
    def shares(self) -> bool:
        """Return whether two jobs may share a GPU."""
        return self.allocator in SHARING

    def propose(self, view: View, state: GavelState | None) -> Proposal[GavelState]:
        """Return what brings this round about."""
        kinds = Kinds.of(view.snapshot, view.columns.room, self.types)
        managed = managed_jobs(view, kinds, sharing=self.shares)
        state = _counted(view, kinds, managed, state)
        turn = _Turn(gavel=self, view=view, kinds=kinds, managed=managed, state=state)
        if not kinds.gpus.any():
            # No GPU has a type, or none is up.
            return Proposal(state=state, notes=dict(unshared(view, kinds, self.allocator, sharing=self.shares)))
        if view.now >= state.ends_at:
            turn.begin_round()
        elif self.fills:
            turn.fill()
        return turn.proposal()


def _counted(view: View, kinds: Kinds, managed: GavelJobs, state: GavelState | None) -> GavelState:
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
class _Turn:
    """One look, while it is worked on."""

    gavel: Gavel
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
        now, gavel = self.view.now, self.gavel
        # Where a trial had a GPU when time was last divided, that GPU has come back, or another is gone.
        changed = self.state.changed or tuple(self._capacity().tolist()) != self.state.solved_gpus
        if changed and now - self.state.solved_at >= gavel.solve_every_s:
            self._solve()
        # A job that cannot be moved now, or is on its way, stays what it is.
        settled = (self.managed.on != NOWHERE) & ~self.managed.movable | self.managed.served
        fixed = np.where(self.managed.on != NOWHERE, self.managed.on, self.want)
        self.want = self._assigned(settled, np.where(self.managed.served, self.want, fixed), anew=True)
        length = gavel.round_s
        # Rounds keep their beat, unless the daemon was away for longer than one.
        began = self.state.ends_at if now - self.state.ends_at < length else now
        self.state = replace(self.state, began_at=began, ends_at=began + length)

    def fill(self) -> None:
        """Give resources that are free in mid-round to the next waiting job; none is moved for it."""
        # A job that runs on without a turn, since no other needs its nodes, has one now.
        self.want = np.where((self.want == NOWHERE) & self.managed.movable, self.managed.on, self.want)
        waits = (self.want == NOWHERE) & (self.managed.on == NOWHERE)
        if waits.any():
            self.want = self._assigned(~waits, self.want)

    def _assigned(self, settled: NDArray[np.bool_], kind: NDArray[np.intp], *, anew: bool = False) -> NDArray[np.intp]:
        """Return which job has which type, if settled ones keep theirs; the job that shares its GPU goes to `beside`.

        Pairs come together only at the beginning of a round (`anew`).
        """
        managed, share = self.managed, self._table("share")
        half = self.gavel.round_s / 2
        received = self._table("received_s") + half
        given = np.array(self.state.given_s) + half * max(self.state.solved_jobs, 1)
        room = self._capacity()
        there = np.flatnonzero(settled & (kind != NOWHERE))
        together = np.where(self.beside != NOWHERE, self.beside, managed.mate)
        np.subtract.at(room, kind[there], managed.gpus_of(there, together))
        free, room = np.flatnonzero(~settled), np.maximum(room, 0)
        alone = Claims(
            priority=priorities(share, received, given, managed.throughput)[free],
            deficit_s=self._table("deficit_s")[free],
            share=share[free],
        )
        members, pairs = claims_of(self.state.pairs if anew else {}, managed, free, given, half)
        types, throughput, sizes = self._choosing(), managed.throughput[free], managed.gpus[free]
        if len(members):
            placed = assign_sharing(
                types, alone, pairs, members, throughput=throughput, scale_factor=sizes, capacity=room
            )
        else:
            taken = assign(
                types,
                alone.priority,
                alone.deficit_s,
                alone.share,
                throughput=throughput,
                scale_factor=sizes,
                capacity=room,
            )
            placed = Placed(taken, np.full(len(free), NOWHERE, dtype=np.intp))
        found = kind.copy()
        found[free] = placed.kind
        self.beside[free] = np.where(placed.partner == NOWHERE, NOWHERE, free[placed.partner])
        paired = free[placed.partner != NOWHERE]
        np.subtract.at(room, found[paired], managed.gpus_of(paired, self.beside))
        rest = free[placed.partner == NOWHERE]
        found[rest] = kept(
            managed.on[rest],
            found[rest],
            alike_types=alike(managed.throughput[rest]),
            scale_factor=managed.gpus[rest],
            capacity=room,
        )
        return found

    def _choosing(self) -> list[int]:
        """Return the types in the order in which they choose: the fastest first, if that is known; else by turns."""
        order = list(range(len(self.kinds.names)))
        if not self.gavel.allocator.endswith("-agnostic"):
            return order
        first = round(self.state.began_at / self.gavel.round_s) % max(len(order), 1)
        return order[first:] + order[:first]

    def _capacity(self) -> NDArray[np.int64]:
        """Return [types] the GPUs that there are for the managed jobs: all, less what others hold or were promised."""
        room = self.view.room
        column = room.resources.index("gpu") if "gpu" in room.resources else None
        if column is None:
            return self.kinds.gpus.copy()
        may = room.available & (self.kinds.of_node != NOWHERE)
        free = np.zeros_like(self.kinds.gpus)
        np.add.at(free, self.kinds.of_node[may], room.free[may, column])
        mine = np.flatnonzero(self.managed.on != NOWHERE)
        np.add.at(free, self.managed.on[mine], self.managed.gpus_of(mine, self.managed.mate))
        # What an order keeps for a managed job is its own; of shards, the GPU was not taken from the room.
        coming = self.managed.served & (self.want != NOWHERE) & (self.managed.shards == 0)
        np.add.at(free, self.want[coming], self.managed.gpus[coming])
        return np.minimum(free, self.kinds.gpus)

    def _solve(self) -> None:
        managed, now, gavel = self.managed, self.view.now, self.gavel
        received, share = self._table("received_s"), self._table("share")
        elapsed_s = max(now - self.state.solved_at, 0.0) if self.state.solved_jobs else 0.0
        deficit = deficits(self._table("deficit_s"), share, received, elapsed_s)
        isolated_s = np.array([self._isolated_s(row, received[row]) for row in range(len(managed))], dtype=np.float64)
        terms = gavel.standing.terms(managed.jobs, self.view.snapshot.traits, managed.since.tolist(), now)
        problem = Problem(
            throughput=managed.throughput,
            scale_factor=managed.gpus,
            capacity=np.maximum(self._capacity(), 0),
            weight=terms.weight,
            steps_left=self._steps_left(),
            age_s=np.maximum(now - managed.since, 0.0),
            isolated_s=isolated_s,
            deadline_s=terms.deadline_s,
            entity=terms.entity,
            entity_weight=terms.entity_weight,
            entity_kind=terms.entity_kind,
            pairs=pairs_of(self.view, self.kinds, managed) if gavel.shares else None,
        )
        answer = gavel.objective.allocate(problem)
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

    def _isolated_s(self, row: int, received_s: NDArray[np.float64]) -> float:
        known = self._known(row)
        steps = float(received_s @ self.managed.throughput[row])
        return known.isolated_s + (steps / known.isolated_speed if known.isolated_speed > 0 else 0.0)

    def _steps_left(self) -> NDArray[np.float64]:
        """Return [jobs] the steps that are left by the expected run time, at the pace of the fastest type."""
        left = []
        for job in self.managed.jobs:
            traits = self.view.snapshot.traits[job.job_id]
            whole_s = traits.run_time_s or job.time_limit_s or UNKNOWN_RUN_S
            past = self.view.memory.past.get(job.job_id)
            ran_s = (past.ran_s if past else 0.0) + self._runs_for(job.start_time if job.on_nodes else None)
            # A job that has run for longer than expected is taken for nearly done.
            left.append(max(whole_s - ran_s, 0.05 * whole_s))
        steps: NDArray[np.float64] = np.array(left, dtype=np.float64) * self.managed.throughput.max(axis=1, initial=0.0)
        return steps

    def _runs_for(self, start: UnixSeconds | None) -> float:
        return 0.0 if start is None else max(self.view.now - start, 0.0)

    # What is to be done for it.

    def proposal(self) -> Proposal[GavelState]:
        """Return the plans, holds and releases that bring it about, and the state to remember."""
        managed = self.managed
        plans = Places(view=self.view, kinds=self.kinds, managed=managed, want=self.want, beside=self.beside).plans()
        has_turn = self.want != NOWHERE
        planned = {plan.preemptor for plan in plans}
        # A job that asks for shards waits for its place also if it has a turn: Slurm would put it beside any other.
        placeless = np.array([job.job_id not in planned for job in managed.jobs], dtype=np.bool_) & (managed.shards > 0)
        hold = managed.ready & (~has_turn | placeless | managed.held)
        jobs = dict(self.state.jobs)
        for row, job in enumerate(managed.jobs):
            other = int(self.beside[row])
            partner = None if other == NOWHERE else managed.jobs[other].job_id
            jobs[job.job_id] = replace(self._known(row), kind=int(self.want[row]), partner=partner)
        holds = (HoldJob(job_id=managed.jobs[row].job_id, why=_HELD) for row in np.flatnonzero(hold).tolist())
        return Proposal(
            intents=(*plans, *holds),
            notes=dict(self._why()),
            state=replace(self.state, jobs=jobs),
            next_at=self.state.ends_at,
        )

    def _why(self) -> Iterator[tuple[JobId, str]]:
        """Yield for each job what share it has, and why it is where it is; the same words all round."""
        names, standing = self.kinds.names, self.gavel.standing
        of_entities = self.gavel.allocator.startswith("hierarchical")
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
        yield from unshared(self.view, self.kinds, self.gavel.allocator, sharing=self.gavel.shares)
