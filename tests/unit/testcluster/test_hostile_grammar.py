"""What random hostile users draw: the same by seed, and every field that there is."""

from __future__ import annotations

import random
from itertools import islice

from tesched_testcluster.harness.attacks.fields import NUMBERS, OPTIONS, UPDATES
from tesched_testcluster.harness.attacks.grammar import (
    Action,
    Command,
    RawSubmission,
    Submission,
    actions,
    every_field,
)
from tesched_testcluster.harness.attacks.raw_rpc import NUMBERS as RAW_NUMBERS


def drawn(seed: int, count: int) -> list[Action]:
    return list(islice(actions(random.Random(seed)), count))  # noqa: S311 - no secret


def test_the_same_seed_draws_the_same_actions() -> None:
    assert drawn(7, 300) == drawn(7, 300)
    assert drawn(7, 300) != drawn(8, 300)


def test_two_thousand_actions_have_every_field_at_least_once() -> None:
    found = {name for action in drawn(1, 2000) for name in action.fields}
    assert found == every_field()


def test_every_kind_of_action_is_drawn() -> None:
    kinds = [type(action) for action in drawn(1, 300)]
    assert set(kinds) == {Submission, RawSubmission, Command}
    assert kinds.count(Submission) > 100
    assert any(len(action.components) > 1 for action in drawn(1, 300) if isinstance(action, Submission))


def test_every_value_can_be_a_word_of_a_command_line() -> None:
    rng = random.Random(3)  # noqa: S311 - no secret
    for make in (*OPTIONS.values(), *UPDATES.values()):
        for _ in range(200):
            assert "\0" not in make(rng)


def test_raw_numbers_fit_into_their_fields_and_reach_their_ends() -> None:
    numbers = [
        item for action in drawn(1, 5000) if isinstance(action, RawSubmission) for item in action.numbers.items()
    ]
    assert all(0 <= value < 2 ** (8 * RAW_NUMBERS[name][0]) for name, value in numbers)
    assert {0, 2**16 - 1, 2**32 - 2, 2**64 - 1} <= {value for _, value in numbers}
    assert 2**63 in NUMBERS
