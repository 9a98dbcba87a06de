"""Throttles under faults: whatever is lost, refused or changed by others, each array has its own again in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.model.actions import Action, Failure, FailureKind, Outcome, Status, sets
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.outcomes import learned
from tesched_core.orders.undo import changed_still, undo
from tesched_core.policy import Policy, Proposal, ThrottleArray, View, in_turn
from tesched_core.step import step
from tesched_policies.fitgpp import FitGpp

from tests.builders import NOW, cluster, node, waiting
from tests.examples import examples

ARRAYS = (1, 2, 3)
LIMITS = Limits()


@dataclass(frozen=True, kw_only=True)
class Told(Policy[None]):
    """A policy that wants what the test says."""

    name: ClassVar[str] = "told"
    shares: Mapping[JobId, int] = field(default_factory=dict)

    def propose(self, view: View, state: None) -> Proposal[None]:
        wanted = (ThrottleArray(job_id=array, tasks=tasks, why="") for array, tasks in self.shares.items())
        return Proposal(intents=tuple(wanted))


#: what becomes of a command: (done, status, kind)
_FATES = (
    (True, Status.SENT, None),
    (True, Status.FAILED, FailureKind.UNREACHABLE),
    (False, Status.FAILED, FailureKind.UNREACHABLE),
    (False, Status.FAILED, FailureKind.BUSY),
    (False, Status.SKIPPED, None),
)
# Own values are above 100, so that they cannot be taken for tesched's.
_own = st.integers(101, 120) | st.just(0)
_looks = st.tuples(
    st.dictionaries(st.sampled_from(ARRAYS).map(JobId), st.integers(1, 9)),
    st.lists(st.sampled_from(_FATES), min_size=3, max_size=3),
    st.none() | st.tuples(st.sampled_from(ARRAYS), st.integers(101, 120)),
    st.floats(0.1, 20),
)


def throttles_of(actions: tuple[Action, ...]) -> dict[int, int]:
    """Give the throttle that is set of each array."""
    return {int(one.job_id): one.value for one in actions if sets(one, Field.THROTTLE) if isinstance(one.value, int)}


class Toy:
    """The arrays' throttles, and tesched beside them."""

    def __init__(self, own: list[int]) -> None:
        self.own = dict(zip(ARRAYS, own, strict=True))
        self.now_at = dict(self.own)
        self.memory = Memory()
        self.at_s = 0.0

    def snapshot(self) -> Snapshot:
        heads = [
            replace(waiting(job_id, array_job_id=JobId(job_id), array_tasks="0-9"), array_throttle=self.now_at[job_id])
            for job_id in ARRAYS
        ]
        return cluster([node("n1")], heads, exempt=ARRAYS, at=NOW + self.at_s)

    def perform(self, actions: tuple[Action, ...], fates: list[tuple[bool, Status, FailureKind | None]]) -> None:
        outcomes = []
        for action, (done, status, kind) in zip(actions, fates, strict=False):
            assert sets(action, Field.THROTTLE)
            assert action.previous == self.now_at[action.job_id]
            if done:
                assert isinstance(action.value, int)
                self.now_at[action.job_id] = action.value
            failure = Failure(kind=kind, message="no") if kind else None
            outcomes.append(Outcome(action=action, status=status, at=NOW + self.at_s, failure=failure))
        self.memory, _ = learned(self.memory, outcomes, NOW + self.at_s, LIMITS)


@settings(max_examples=examples(300))
@given(own=st.lists(_own, min_size=3, max_size=3), looks=st.lists(_looks, max_size=8))
def test_each_array_has_its_own_throttle_again(
    own: list[int],
    looks: list[tuple[dict[JobId, int], list[tuple[bool, Status, FailureKind | None]], tuple[int, int] | None, float]],
) -> None:
    toy = Toy(own)
    for shares, fates, change, passes_s in looks:
        toy.memory, decision = step(toy.memory, toy.snapshot(), in_turn(FitGpp(), Told(shares=shares)), LIMITS)
        toy.perform(decision.actions, fates)
        toy.at_s += passes_s
        if change is not None:
            toy.own[change[0]] = toy.now_at[change[0]] = change[1]
    for _ in range(3):
        toy.at_s += 6  # what got no answer may arrive for 5 s, and is awaited
        toy.memory, decision = undo(toy.memory, toy.snapshot(), LIMITS)
        toy.perform(decision.actions, [_FATES[0]] * 3)
    assert toy.now_at == toy.own
    assert changed_still(toy.memory, toy.snapshot()) == 0


def test_many_throttles_are_set_over_several_polls() -> None:
    heads = [waiting(number, array_job_id=JobId(number), array_tasks="0-9") for number in range(1, 121)]
    memory, now_at, sent = Memory(), dict.fromkeys(range(1, 121), 0), []
    policy = Told(shares=dict.fromkeys(map(JobId, now_at), 3))
    for look in range(6):
        seen = [replace(head, array_throttle=now_at[head.job_id]) for head in heads]
        snapshot = cluster([node("n1")], seen, exempt=now_at, at=NOW + look)
        if look < 3:
            memory, decision = step(memory, snapshot, in_turn(FitGpp(), policy), LIMITS)
        else:
            memory, decision = undo(memory, snapshot, LIMITS)
        sent.append(len(decision.actions))
        now_at |= throttles_of(decision.actions)
    assert sent == [50, 50, 20, 50, 50, 20]
    assert set(now_at.values()) == {0}
