"""Of several QOS of a waiting job any counts: Slurm starts it in one of them, and does not say in which."""

from __future__ import annotations

import pytest
from tesched_core.guard.eligibility import protected
from tesched_core.model.cluster import PluginSettings
from tesched_core.model.limits import Limits
from tesched_core.policy import Scope

from tests.builders import waiting


@pytest.mark.parametrize("qos", ["high,normal", "normal,high"])
def test_a_job_with_several_qos_is_protected_by_any_of_them(qos: str) -> None:
    """Slurm starts it in one of them, and does not say in which."""
    assert protected(waiting(1, qos=qos), Limits(protected_qos=("hig?",)))
    assert not protected(waiting(1, qos=qos), Limits(protected_qos=("high,*",)))


def test_a_policy_manages_the_jobs_of_any_of_its_qos() -> None:
    scope = Scope(qos=frozenset({"night"}))
    assert [scope.covers(waiting(1, qos=qos)) for qos in ("night", "normal,night", "nights,normal")] == [
        True,
        True,
        False,
    ]


def test_slurms_plugin_preempts_for_a_job_of_any_of_its_qos() -> None:
    plugin = PluginSettings(te_qos=frozenset({"te"}))
    assert [plugin.takes_for_te(waiting(1, qos=qos)) for qos in ("te", "normal,te", "tea,b")] == [True, True, False]
