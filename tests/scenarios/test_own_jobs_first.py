"""A user's trial makes an own best-effort job leave where that does as well as a stranger's."""

from __future__ import annotations

import pytest
from tesched_core.model.actions import Requeue
from tesched_core.model.limits import Bound, Limits

from tests.builders import node, running, share, waiting
from tests.scenarios.driver import TE, Driver

STRANGERS, OWN = 1, 2


def full(limits: Limits) -> Driver:
    """Return two nodes that jobs of Bob and of Ada fill, and a trial of Ada's that needs one of them."""
    jobs = [running(STRANGERS, share("n1", 32), user="bob"), running(OWN, share("n2", 32), user="ada")]
    return Driver(
        [node("n1"), node("n2")], [*jobs, waiting(TE, cpus=32, user="ada")], graces={1: 0, 2: 0}, limits=limits
    )


@pytest.mark.parametrize(("own_first", "victim"), [(True, OWN), (False, STRANGERS)])
def test_an_own_job_leaves_rather_than_a_strangers(own_first: bool, victim: int) -> None:
    drive = full(Limits(own_jobs_first=own_first))
    drive.cycle(0)
    (one,) = drive.order().victims
    assert one.job_id == victim
    assert ("guard.own_jobs_first" in one.why) == own_first


def test_it_uses_up_no_limit_and_no_bound_of_others() -> None:
    drive = full(Limits(bound=Bound(slowdown=2, te_time_limit_s=600)))
    drive.change(TE, time_limit_s=600)
    sent = drive.cycle(0)
    drive.obeys(*sent)
    sent += drive.cycle(1)
    assert [one.job_id for one in sent if isinstance(one, Requeue)] == [OWN]
    assert not drive.order().victims[0].is_limited
