"""Orders through a cluster that obeys or does not, crashes included: what must hold at every step, and in the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.model.actions import (
    FailureKind,
    Notify,
    OrderId,
    Outcome,
    ReasonCode,
    Record,
    Requeue,
    Rerun,
    Resume,
    Status,
    Suspend,
    TellUser,
    kind_of,
    releases,
)
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import Decision
from tesched_core.model.field import Field
from tesched_core.model.job_memory import NOTHING
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.outcomes import learned
from tesched_core.orders.tell_users import Telling
from tesched_core.policy import Policy, in_turn
from tesched_core.step import step
from tesched_policies.baselines import YoungestFirst
from tesched_policies.fitgpp import FitGpp

from tests.builders import by_job, nodes_set
from tests.examples import examples
from tests.properties.toy_slurm import FORGOTTEN_AFTER_S, ToySlurm

#: why the record of a best-effort job is changed
OF_VICTIMS = frozenset({ReasonCode.BACK_TO_THE_HEAD, ReasonCode.STAYS_AWAY, ReasonCode.ORDER_ENDED})
LIMITS = Limits(min_run_time_s=0, cool_down_s=0, order_timeout_s=16, retry_after_s=10)
TELLING = Telling(record=Record.ADMIN_COMMENT, by_command=True)
#: after these it is certain that a command did not reach the job
NOT_DONE = {FailureKind.BUSY, FailureKind.DENIED, FailureKind.REFUSED}


class Daemon:
    """The loop in a few lines, and a ledger of its actions."""

    def __init__(self, slurm: ToySlurm) -> None:
        """Begin with an empty memory."""
        self.slurm = slurm
        self.memory = Memory()
        policies: list[Policy[None]] = [FitGpp(), FitGpp(s=0), YoungestFirst()]
        self.policy = slurm.chance.choice(policies)
        lever = slurm.chance.choice([YieldBy.REQUEUE, YieldBy.AUTO, YieldBy.AUTO])
        self.limits = replace(
            LIMITS,
            lever=lever,
            suspend_for_s=slurm.chance.choice([0.0, 20.0, 3600.0]),
            max_preemptions_per_job=slurm.chance.choice([1, 2, 4]),
        )
        #: when a notice may have reached this run, by order, job and restarts
        self.noticed: dict[tuple[OrderId | None, JobId, int], float] = {}
        #: nodes that jobs were to be bound to
        self.bound_to: dict[JobId, set[tuple[str, ...]]] = defaultdict(set)
        #: which preemptions of which jobs users were notified of, and whether as lost
        self.told: set[tuple[JobId, int, bool]] = set()

    def turn(self) -> None:
        """Poll, decide, act, learn; now and then die before learning, and go on with what was intended."""
        snapshot = self.slurm.snapshot()
        self.memory, decision = step(self.memory, snapshot, in_turn(self.policy), self.limits, telling=TELLING)
        self._check_actions(snapshot, decision)
        self._check_memory(snapshot)
        outcomes = self._perform(decision)
        if outcomes is not None:
            self.memory, _ = learned(self.memory, outcomes, self.slurm.now, self.limits)

    def _perform(self, decision: Decision) -> list[Outcome] | None:
        chance = self.slurm.chance
        crash = not self.slurm.calm and chance.random() < 0.05
        done = chance.randint(0, len(decision.actions)) if crash else len(decision.actions)
        outcomes: list[Outcome] = []
        failed: set[OrderId | None] = set()
        unreachable = False
        for action in decision.actions[:done]:
            order_id = action.reason.order_id
            if unreachable or order_id in failed:
                outcomes.append(Outcome(action=action, status=Status.SKIPPED, at=self.slurm.now))
                continue
            outcome = self.slurm.act(action)
            outcomes.append(outcome)
            kind = outcome.failure.kind if outcome.failure else None
            if kind is not None:
                failed.add(order_id)
                unreachable = kind is FailureKind.UNREACHABLE
            if isinstance(action, Notify) and kind not in NOT_DONE:
                self.noticed[order_id, action.job_id, action.restarts] = self.slurm.now
        return None if crash else outcomes

    def _check_actions(self, snapshot: Snapshot, decision: Decision) -> None:
        tells = [action for action in decision.actions if isinstance(action, TellUser)]
        # After all else; each preemption once, crashes or not, and no other.
        assert tells == list(decision.actions[len(decision.actions) - len(tells) :])
        for told in tells:
            once = (told.job_id, told.times, told.lost)
            assert once not in self.told
            self.told.add(once)
            assert told.times == by_job(self.memory, "preemptions").get(told.job_id, told.times)
        for action in decision.actions[: len(decision.actions) - len(tells)]:
            job = snapshot.jobs[action.job_id]
            for job_id, nodes in nodes_set([action]):
                self.bound_to[job_id].add(nodes.names)
            if isinstance(action, Notify | Requeue):
                # The very run that was meant, still on its nodes, and not on its way out.
                assert job.restarts == action.restarts
                assert job.state is JobState.RUNNING
                assert job.on_nodes
                assert not job.completing
                assert snapshot.job_class(job.job_id) is JobClass.BE
                key = (action.reason.order_id, action.job_id, action.restarts)
                if isinstance(action, Notify):
                    assert key not in self.noticed
                elif key in self.noticed:
                    assert snapshot.taken_at >= self.noticed[key] + self.slurm.graces[action.job_id]
            elif isinstance(action, Rerun):
                assert (job.state, job.completing, job.restarts) == (JobState.FAILED, False, action.restarts)
                assert (action.reason.order_id, action.job_id, action.restarts) in self.noticed
            elif isinstance(action, Suspend):
                assert snapshot.job_class(job.job_id) is JobClass.BE
                assert (job.state, job.completing) == (JobState.RUNNING, False)
            elif isinstance(action, Resume):
                assert (job.state, job.completing) == (JobState.SUSPENDED, False)
                assert job.job_id in self.slurm.suspended_by_tesched
            elif releases(action):
                assert job.held
                assert snapshot.job_class(job.job_id) is JobClass.BE
            else:
                assert not job.finished
                if snapshot.job_class(action.job_id) is JobClass.BE:
                    assert action.reason.code in OF_VICTIMS
                    assert job.pending or action.reason.code is ReasonCode.ORDER_ENDED
        asked = [(kind_of(action), action.job_id) for action in decision.actions]
        assert len(set(asked)) == len(asked)

    def _check_memory(self, snapshot: Snapshot) -> None:
        orders = self.memory.open_orders()
        asked = HOLDS_RESOURCES | {VictimState.SUSPENDED}
        paying = [victim.job_id for order in orders for victim in order.victims if victim.state in asked]
        assert len(set(paying)) == len(paying)
        served = [order.preemptor for order in orders if order.state is OrderState.OPEN]
        assert len(set(served)) == len(served)
        assert all(one.preemptions <= self.limits.max_preemptions_per_job for one in self.memory.jobs.values())
        assert NOTHING not in self.memory.jobs.values()
        # A job without an order has its own priority: nothing is left behind.
        under_way = {order.preemptor for order in orders}
        under_way |= {victim.job_id for order in orders for victim in order.victims if not victim.settled}
        under_way |= {job_id for by_job in self.memory.changes.values() for job_id in by_job}
        for job_id, job in snapshot.jobs.items():
            if job.pending and job.request.required_nodes:
                # Known, so that it can be put back; the newest may be on its way.
                assert job_id in self.memory.changes_of(Field.NODES)
                assert job.request.required_nodes in self.bound_to[job_id]
            if job.pending and job_id in self.slurm.deferred:
                assert job_id in self.memory.changes_of(Field.BEGIN)
            if job_id not in under_way:
                assert job_id not in self.slurm.suspended_by_tesched
            if job_id not in under_way and not job.finished:
                assert (job.nice, job.priority) == self.slurm.submitted[job_id]


@settings(max_examples=examples(150))
@given(
    seed=st.integers(0, 2**32 - 1),
    nodes=st.integers(1, 3),
    be_jobs=st.integers(1, 8),
    te_jobs=st.integers(1, 4),
    turns=st.integers(1, 40),
)
def test_orders_hold_their_guarantees_whatever_happens(
    seed: int, nodes: int, be_jobs: int, te_jobs: int, turns: int
) -> None:
    chance = Random(seed)  # noqa: S311
    slurm = ToySlurm(chance, nodes=nodes, be_jobs=be_jobs, te_jobs=te_jobs)
    daemon = Daemon(slurm)
    for _ in range(turns):
        daemon.turn()
        slurm.pass_time(chance.choice([1.0, 2.0, 2.0, 15.0]))
    # tesched notified no run twice, and no job more often than the site allows.
    times = Counter(job_id for job_id, _ in slurm.requeued)
    assert len(set(slurm.requeued)) == len(slurm.requeued)
    assert all(count <= daemon.limits.max_preemptions_per_job for count in times.values())

    slurm.calm = True
    for _ in range(400):
        daemon.turn()
        slurm.pass_time(2.0)
        if not slurm.jobs:
            break
    slurm.pass_time(2.0)
    daemon.turn()
    slurm.pass_time(FORGOTTEN_AFTER_S)
    daemon.turn()
    assert slurm.jobs == {}
    assert daemon.memory.open_orders() == ()
    assert by_job(daemon.memory, "preemptions") == {}
    assert daemon.memory.changes_of(Field.NODES) == {}
