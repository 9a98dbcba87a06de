"""Small snapshots, orders and reports for the tests of the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select
from tesched_core.model.actions import Action, Failure, FailureKind, Notify, OrderId, Reason, ReasonCode, Requeue
from tesched_core.model.cluster import Job, JobState, Node, NodeShare
from tesched_core.model.decision import BoundNow, Decision, Refusal, RefusalCode, Refusals
from tesched_core.model.memory import Memory
from tesched_core.model.notice import Target
from tesched_core.model.order import Order, OrderState, Transition, Victim, VictimState
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_core.ports import CycleReport
from tesched_db.journal import SqlJournal
from tesched_db.tables import Base

from tesched_testcluster.harness.empty_store import empty_store

TE = Traits(job_class=JobClass.TE, rule="debug", grace_period_s=0.0, grace_source="rule debug")
BE = Traits(
    job_class=JobClass.BE,
    rule="default",
    grace_period_s=30.0,
    grace_source="the site's default",
    notice_signal="USR1",
    notice_target=Target.BATCH,
    notice_source="its script's --signal",
)


def configured_store(folder: Path) -> tuple[Path, str]:
    """Make an empty store; return the configuration that names it, and its URL."""
    url = empty_store(folder / "store.sqlite")
    path = folder / "tesched.toml"
    path.write_text(f'[store]\nurl = "{url}"\n')
    return path, url


def job(job_id: int, state: JobState = JobState.PENDING, *, nodes: Iterable[str] = (), **more: Any) -> Job:
    """Return a job, on these nodes."""
    shares = tuple(NodeShare(node=node, tres=Tres(cpus=1)) for node in nodes)
    return Job(job_id=JobId(job_id), state=state, allocation=shares, **{"user": "ada", "name": "run", **more})


def snapshot(at: float, *jobs: Job, te: Iterable[int] = (), nodes: Iterable[Node] = ()) -> Snapshot:
    """Return what was seen at `at`; jobs are best-effort ones but for those in `te`."""
    trial = set(te)
    traits = {one.job_id: TE if one.job_id in trial else BE for one in jobs}
    return Snapshot.of(at, jobs=jobs, traits=traits, nodes=nodes)


def decision(
    cycle: int,
    at: float,
    *,
    actions: Sequence[Action] = (),
    refusals: Sequence[Refusal] | Refusals = (),
    transitions: Sequence[Transition] = (),
    summary: str = "did nothing, because no trial-and-error job waits for resources",
    bound: BoundNow | None = None,
) -> Decision:
    """Return a decision; without more, an idle one."""
    return Decision(
        cycle=cycle,
        at=at,
        policy="fitgpp",
        actions=tuple(actions),
        refusals=refusals if isinstance(refusals, Refusals) else Refusals(refusals),
        transitions=tuple(transitions),
        summary=summary,
        bound=bound,
    )


def report(at: float, *, failure: Failure | None = None, next_in_s: float = 2.0) -> CycleReport:
    """Return what the daemon says of a cycle."""
    return CycleReport(
        at=at,
        mode="enforce",
        client="commands",
        observe_s=0.1,
        step_s=0.01,
        failure=failure,
        next_in_s=next_in_s,
    )


DOWN = Failure(kind=FailureKind.UNREACHABLE, message="slurmctld does not answer")


class Writer:
    """A journal, and the cycles that are written to it one after the other."""

    def __init__(self, store: Engine) -> None:
        """Take the store."""
        self.journal = SqlJournal(store)
        self.memory = self.journal.load()

    def look(
        self, at: float, *jobs: Job, te: Iterable[int] = (), memory: Memory | None = None, **more: Any
    ) -> Decision:
        """Write one cycle in which these jobs were seen."""
        return self.write(snapshot(at, *jobs, te=te), memory=memory, **more)

    def write(self, seen: Snapshot, *, memory: Memory | None = None, **more: Any) -> Decision:
        """Write one cycle in which this was seen."""
        self.memory = replace(memory if memory is not None else self.memory, cycle=self.memory.cycle + 1)
        decided = decision(self.memory.cycle, seen.taken_at, **more)
        self.journal.intend(seen, self.memory, decided, report(seen.taken_at))
        return decided


def refusal(job_id: int, preemptor: int, code: RefusalCode, text: str = "because", **more: Any) -> Refusal:
    """Return a refusal."""
    return Refusal(job_id=JobId(job_id), preemptor=JobId(preemptor), code=code, text=text, **more)


def victim(job_id: int, state: VictimState = VictimState.NOTICED, **more: Any) -> Victim:
    """Return a victim on two nodes, which started at 100."""
    values: dict[str, Any] = {
        "job_id": JobId(job_id),
        "state": state,
        "restarts": 0,
        "grace_period_s": 30.0,
        "notice_signal": "USR1",
        "notice_target": Target.BATCH,
        "score": 1.5,
        "nodes": ("n1", "n2"),
        "started_at": 100.0,
    }
    return Victim(**{**values, **more})


def order(order_id: int, preemptor: int, *victims: Victim, state: OrderState = OrderState.OPEN, **more: Any) -> Order:
    """Return an order that was made at 200."""
    values: dict[str, Any] = {
        "order_id": OrderId(order_id),
        "preemptor": JobId(preemptor),
        "state": state,
        "created_at": 200.0,
        "expires_at": 400.0,
        "nodes": ("n1",),
        "victims": victims,
    }
    return Order(**{**values, **more})


def remembering(*orders: Order) -> Memory:
    """Return a memory of these orders."""
    return Memory(
        orders={one.order_id: one for one in orders},
        next_order=OrderId(max((one.order_id for one in orders), default=0) + 1),
    )


def notice(job_id: int, preemptor: int, order_id: int) -> Notify:
    """Return a notice for an order."""
    return Notify(
        job_id=JobId(job_id),
        reason=Reason(
            code=ReasonCode.NOTICE,
            text="its resources are needed",
            preemptor=JobId(preemptor),
            order_id=OrderId(order_id),
        ),
        signal="USR1",
        target=Target.BATCH,
        restarts=0,
    )


def requeue(job_id: int, preemptor: int, order_id: int) -> Requeue:
    """Return a requeue for an order."""
    return Requeue(
        job_id=JobId(job_id),
        reason=Reason(
            code=ReasonCode.GRACE_OVER,
            text="its grace period is over",
            preemptor=JobId(preemptor),
            order_id=OrderId(order_id),
        ),
        restarts=0,
    )


def moved(order_id: int, at: float, before: str, after: str, job_id: int | None = None) -> Transition:
    """Return a step of an order, or of a victim of it."""
    who = JobId(job_id) if job_id is not None else None
    return Transition(order_id=OrderId(order_id), at=at, job_id=who, before=before, after=after, text=f"now {after}")


def rows(store: Engine, table: type[Base]) -> int:
    """Return how many rows a table has."""
    with store.connect() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0
