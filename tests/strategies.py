"""Random orders, memories and decisions, for tests of what holds for all of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tesched_core.model.actions import (
    Action,
    Cancel,
    MarkLine,
    Notify,
    OrderId,
    Reason,
    ReasonCode,
    Record,
    Requeue,
    Rerun,
    Resume,
    SetField,
    SetMarks,
    Suspend,
    TellUser,
)
from tesched_core.model.change import By, Change, Mark
from tesched_core.model.decision import Decision, Refusal, RefusalCode
from tesched_core.model.field import Field, HoldState, NodeCount, Nodes
from tesched_core.model.job_memory import NOTHING, Futility, JobMemory, Past
from tesched_core.model.memory import Memory
from tesched_core.model.notice import ExitZero, Target
from tesched_core.model.order import (
    Departure,
    Ending,
    LostNode,
    Order,
    OrderState,
    Purpose,
    Transition,
    Victim,
    VictimState,
)
from tesched_core.model.payment import Paid
from tesched_core.model.refused import RefusedChange
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.size import Size
from tesched_policies.gavel.state import GavelState, JobRounds, PairRounds
from tesched_policies.pdors.state import JobPlan, Option, PdorsState
from tesched_policies.slaq.state import SlaqState, TrainingState

from tests.outlived_runs import outlived

job_ids = st.integers(1, 2**26).map(JobId)
order_ids = st.integers(1, 2**40).map(OrderId)
times = st.floats(0, 2**33)
_PAST_SPANS = ("ran_s", "suspended_s", "longest_run_s", "delayed_s", "excused_s")
counts = st.integers(0, 2**20)
nice_values = st.integers(-(2**33), 2**33)
#: whatever Unicode knows, but for what the store writes as escapes
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
node_names = st.from_regex(r"[a-z]{1,4}[0-9]{1,4}", fullmatch=True)
nodes = st.lists(node_names, unique=True, max_size=4).map(tuple)
signals = st.sampled_from(["USR1", "USR2", "TERM", "HUP", "INT", "CONT"])

_finite = st.floats(0, 2**40)


gres = st.dictionaries(st.sampled_from(["gpu", "gpu:a100", "shard"]), st.integers(1, 64), max_size=3)
sizes = st.builds(
    Size,
    nodes=counts,
    tres=st.builds(Tres, cpus=counts, mem_mib=counts, gres=gres.map(lambda found: tuple(sorted(found.items())))),
    exclusive=st.booleans(),
    all_memory=st.booleans(),
    time_limit_s=st.none() | counts,
    partitions=nodes,
    seen_waiting=st.booleans(),
)
victims = st.builds(
    Victim,
    job_id=job_ids,
    state=st.sampled_from(VictimState),
    restarts=counts,
    grace_period_s=st.floats(0, 86400),
    notice_signal=signals,
    notice_target=st.sampled_from(Target),
    exit0=st.sampled_from(ExitZero),
    score=st.floats(allow_nan=False, allow_infinity=False),
    nodes=nodes,
    started_at=times,
    queued_at=times,
    user=words,
    account=words,
    for_user=words,
    for_account=words,
    purpose=st.sampled_from(Purpose),
    noticed_at=st.none() | times,
    requeue_sent_at=st.none() | times,
    by_suspending=st.booleans(),
    suspend_sent_at=st.none() | times,
    suspend_unanswered_at=st.none() | times,
    suspended_at=st.none() | times,
    left_at=st.none() | times,
    departure=st.none() | st.sampled_from(Departure),
    back_at=st.none() | times,
    held_before=st.booleans(),
    ends=st.booleans(),
    size=st.none() | sizes,
)


def orders(ids: st.SearchStrategy[OrderId] = order_ids) -> st.SearchStrategy[Order]:
    """Return orders, of which not every one could come about."""
    return st.builds(
        Order,
        order_id=ids,
        preemptor=job_ids,
        state=st.sampled_from(OrderState),
        created_at=times,
        expires_at=times,
        nodes=nodes,
        victims=st.lists(victims, max_size=3, unique_by=lambda victim: victim.job_id).map(tuple),
        made_for_te=st.booleans(),
        waits_until=st.none() | times,
        newest_task=st.none() | job_ids,
        restarts=st.none() | counts,
        run_seen_at=st.none() | times,
        lost_nodes=st.lists(st.builds(LostNode, name=words, state=words, reason=words), max_size=2).map(tuple),
        size=st.none() | sizes,
        started_at=st.none() | times,
        ending=st.none() | st.sampled_from(Ending),
        ended_at=st.none() | times,
    )


slaq_states = st.builds(
    SlaqState,
    counted_at=times,
    allocated_at=times,
    next_at=times,
    trainings=st.dictionaries(
        job_ids,
        st.builds(
            TrainingState,
            first_iteration=counts,
            first_loss=_finite,
            largest_drop=_finite,
            iteration=counts,
            used_s=_finite,
            since_s=_finite,
            loss_then=st.none() | _finite,
            gain=st.none() | _finite,
            gain_each=st.none() | _finite,
            gain_task=st.none() | _finite,
        ),
        max_size=3,
    ),
    shares=st.dictionaries(job_ids, counts, max_size=3),
    first=st.none() | job_ids,
    first_at=times,
    said=st.dictionaries(job_ids, words, max_size=3),
)

_numbers = st.floats(0, 2**40)
_options = st.builds(Option, nodes=counts, rack=words, wait_slots=counts, slots=counts, worth=_numbers, price=_numbers)
_plans = st.builds(
    JobPlan,
    planned_at=times,
    start_at=times,
    run_s=_numbers,
    nodes=nodes,
    option=st.none() | _options,
    next_best=st.none() | _options,
    promised=st.booleans(),
    note=words,
    rest=_numbers,
    restarts=counts,
    ran_before_s=_numbers,
    started=st.booleans(),
    failures=counts,
    failed_order=counts,
    dropped=st.booleans(),
)
_by_type = st.lists(st.floats(0, 2**40), max_size=3).map(tuple)
gavel_states = st.builds(
    GavelState,
    types=st.lists(words, max_size=3).map(tuple),
    began_at=times,
    ends_at=times,
    counted_at=times,
    solved_at=times,
    solved_jobs=counts,
    changed=st.booleans(),
    given_s=_by_type,
    jobs=st.dictionaries(
        job_ids,
        st.builds(
            JobRounds,
            share=_by_type,
            received_s=_by_type,
            deficit_s=_by_type,
            kind=st.integers(-1, 3),
            partner=st.none() | job_ids,
            isolated_s=st.floats(0, 2**40),
            isolated_speed=st.floats(0, 2**40),
        ),
        max_size=3,
    ),
    shared=st.lists(
        st.builds(
            PairRounds, jobs=st.tuples(job_ids, job_ids), share=_by_type, received_s=_by_type, deficit_s=_by_type
        ),
        max_size=2,
        unique_by=lambda one: one.jobs,
    ).map(tuple),
    fallback=words,
)
pdors_states = st.builds(PdorsState, plans=st.dictionaries(job_ids, _plans, max_size=2), until=times)
states = st.fixed_dictionaries({}, optional={"gavel": gavel_states, "pdors": pdors_states, "slaq": slaq_states})


def _by_job(field: Field, one: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[JobId, Change[Any]]]:
    change = st.builds(
        Change,
        by=st.none() | st.sampled_from(By),
        job_id=job_ids,
        field=st.just(field),
        **dict.fromkeys(("previous", "value"), one),
        before=st.none() | one,
        at=times,
        since=st.none() | times,
        order_id=st.none() | order_ids,
        nice=st.none() | nice_values,
        **dict.fromkeys(("dry", "restored", "marked", "of_array"), st.booleans()),
    )
    return st.lists(change, min_size=1, max_size=3).map(lambda some: {one.job_id: one for one in some})


_nodes = st.builds(
    Nodes,
    names=nodes,
    count=st.none() | st.builds(NodeCount, least=counts, most=counts, tasks=counts, cpus=counts),
)
_marks = st.builds(
    Mark,
    order=counts,
    score=_finite,
    grace_s=_finite,
    restarts=counts,
    nodes=nodes,
    started_at=times,
    size=st.none() | sizes,
    until=st.none() | times,
    ended=st.booleans(),
)
_values = {Field.NODES: _nodes, Field.MARK: _marks}
_kept = (Field.NICE, Field.HOLD, Field.NODES, Field.BEGIN, Field.THROTTLE, Field.MARK)
changes = st.fixed_dictionaries(
    {}, optional={str(field): _by_job(field, _values.get(field, counts)) for field in _kept}
)

_refusals = st.builds(
    RefusedChange, users=st.tuples(words), last=words, count=counts, since=times, at=times, said=words
)
_futile = st.builds(
    Futility,
    count=st.integers(1, 9),
    ending=st.sampled_from(Ending),
    **dict.fromkeys(("said", "basis"), words),
    fellows=st.integers(0, 9),
    changed=st.booleans(),
)
#: as the store keeps them
job_memories = st.builds(
    JobMemory,
    preemptions=counts,
    **dict.fromkeys(("last_preempted", "retry_at"), st.none() | times),
    futile=st.none() | _futile,
    past=st.none() | st.builds(Past, submitted_at=times, **dict.fromkeys(_PAST_SPANS, st.floats(0, 2**30))),
)
memories = st.builds(
    Memory,
    refused=st.dictionaries(st.sampled_from(Field), _refusals, max_size=2),
    cycle=st.integers(0, 2**40),
    next_order=order_ids,
    orders=st.lists(orders(st.integers(1, 9).map(OrderId)), max_size=3).map(
        lambda some: {order.order_id: order for order in some}
    ),
    jobs=st.dictionaries(job_ids, job_memories.filter(lambda one: one != NOTHING), max_size=5),
    paid=st.lists(
        st.builds(
            Paid,
            at=times,
            job_id=job_ids,
            **dict.fromkeys(("user", "account"), words),
            nodes=nodes,
            node_s=st.floats(0, 2**40),
            preemptor_restarts=st.none() | st.integers(0, 99),
            put_back_at=st.none() | times,
            withdrawn=st.booleans(),
        ),
        max_size=3,
        unique_by=lambda one: (one.at, one.job_id),
    ).map(lambda some: tuple(sorted(some, key=lambda one: (one.at, one.job_id)))),
    policy_states=states,
    changes=changes,
    outlived=outlived,
)

reasons = st.builds(
    Reason, code=st.sampled_from(ReasonCode), text=words, preemptor=st.none() | job_ids, order_id=st.none() | order_ids
)


def _sets(field: Field, values: st.SearchStrategy[Any]) -> st.SearchStrategy[SetField]:
    return st.builds(SetField, job_id=job_ids, reason=reasons, field=st.just(field), value=values, previous=values)


actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(Notify, job_id=job_ids, reason=reasons, signal=signals, target=st.sampled_from(Target), restarts=counts),
    *(st.builds(kind, job_id=job_ids, reason=reasons, restarts=counts) for kind in (Requeue, Cancel, Rerun)),
    _sets(Field.DEPENDENCY, words),
    _sets(Field.BEGIN, counts),
    _sets(Field.NICE, nice_values),
    _sets(Field.PRIORITY, counts),
    _sets(Field.NODES, _nodes),
    _sets(Field.HOLD, st.sampled_from(HoldState)),
    st.builds(
        SetMarks,
        job_id=job_ids,
        reason=reasons,
        marks=st.lists(
            st.builds(
                MarkLine,
                job_id=job_ids,
                order=counts,
                grace_s=counts,
                max_restarts=counts,
                least_run_s=counts,
                after=counts,
                until=counts,
            ),
            max_size=2,
        ).map(tuple),
    ),
    _sets(Field.THROTTLE, counts),
    st.builds(
        TellUser,
        job_id=job_ids,
        reason=reasons,
        label=words,
        name=words,
        user=words,
        at=times,
        cause=words,
        departure=words,
        times=counts,
        most=counts,
        lost=st.booleans(),
        record=st.sampled_from(Record),
    ),
    *(st.builds(kind, job_id=job_ids, reason=reasons) for kind in (Suspend, Resume)),
)

refusals = st.builds(
    Refusal,
    job_id=job_ids,
    preemptor=job_ids,
    code=st.sampled_from(RefusalCode),
    text=words,
    score=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)


@st.composite
def decided(draw: st.DrawFn) -> tuple[Memory, Decision]:
    """Draw a memory and a decision that led to it: its transitions are about the memory's orders."""
    memory = draw(memories)
    steps: tuple[Transition, ...] = ()
    if memory.orders:
        step = st.builds(
            Transition,
            order_id=st.sampled_from(sorted(memory.orders)),
            at=times,
            job_id=st.none() | job_ids,
            before=words,
            after=words,
            text=words,
        )
        steps = tuple(draw(st.lists(step, max_size=3)))
    decision = Decision(
        cycle=memory.cycle,
        at=draw(times),
        policy=draw(words),
        actions=tuple(draw(st.lists(actions, max_size=3))),
        refusals=tuple(draw(st.lists(refusals, max_size=4))),
        transitions=steps,
        summary=draw(words),
    )
    return memory, decision
