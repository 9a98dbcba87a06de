"""The doctor on the users that guard.protected_users names."""

from __future__ import annotations

import pwd

import pytest
from tesched_daemon.doctor.slurm import unknown_users


@pytest.mark.parametrize("name", ["no-such-user", "no\0name"])
def test_a_protected_user_that_no_job_can_have_is_named_and_the_others_are_not(name: str) -> None:
    known = pwd.getpwuid(0).pw_name
    (found,) = unknown_users((known, name, "ada*"))
    assert (found.level, found.check) == ("warn", "users")
    assert f"guard.protected_users: {name} is the name of no user" in found.text
