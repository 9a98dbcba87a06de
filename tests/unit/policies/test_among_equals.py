"""Victims that a policy prices alike: whose job goes first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_core.model.cluster import Job, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.policy import MakeRoom, Policy, Proposal
from tesched_policies.among_equals import prices_for
from tesched_policies.baselines import AtRandom, LongestRemaining, YoungestFirst
from tesched_policies.fitgpp import FitGpp
from tesched_policies.patient import Patient
from tesched_policies.victim_search import fewest_and_cheapest, plan_all

from tests.builders import NOW, cluster, node, plans_of, running, share, view_of, waiting

POLICIES = [FitGpp(), LongestRemaining(), AtRandom(), YoungestFirst(), Patient(patience_s=0)]
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
OF_USER, OF_ACCOUNT = "of the trial-and-error job's own user", "of the trial-and-error job's own account"


def job(number: int, user: str, account: str, *, started: float = 0.0, cpus: int = 32) -> Job:
    """Return a job on the node of its number."""
    held = share(f"n{number}", cpus)
    return running(number, held, user=user, account=account, start_time=started, time_limit_s=100_000)


def ask(policy: Policy[None], *jobs: Job, limits: Limits | None = None, te: Job | None = None) -> Proposal[None]:
    """Return what is proposed for a TE job of Ada's, of the account vision, that needs a whole node."""
    te = te or waiting(90, cpus=32, user="ada", account="vision")
    nodes = [node(name) for name in sorted({name for one in jobs for name in one.nodes})]
    view = view_of(cluster(nodes, [*jobs, te]))
    return policy.propose(replace(view, limits=limits or Limits()), None)


def victims(proposal: Proposal[None]) -> list[int]:
    (plan,) = plans_of(proposal)
    return [int(job_id) for job_id in plan.victim_ids]


def why(proposal: Proposal[None]) -> str:
    plan: MakeRoom
    (plan,) = plans_of(proposal)
    return plan.victims[0].why


STRANGER, COLLEAGUE, OWN = job(1, "bob", "speech"), job(2, "eve", "vision"), job(3, "ada", "other")


@every_policy
def test_its_own_user_s_job_goes_first_then_its_account_s(policy: Policy[None]) -> None:
    assert victims(ask(policy, STRANGER, COLLEAGUE, OWN)) == [3]
    assert victims(ask(policy, STRANGER, COLLEAGUE)) == [2]
    assert OF_USER in why(ask(policy, STRANGER, OWN))
    assert OF_ACCOUNT in why(ask(policy, STRANGER, COLLEAGUE))


@pytest.mark.parametrize("policy", [FitGpp(), YoungestFirst(), Patient(patience_s=0)], ids=lambda policy: policy.name)
def test_without_the_key_the_policys_price_alone_decides(policy: Policy[None]) -> None:
    found = ask(policy, STRANGER, COLLEAGUE, OWN, limits=Limits(own_jobs_first=False))
    assert victims(found) == [1], "of equal prices the lowest job id"
    assert "own" not in why(found)


def test_a_user_or_an_account_that_slurm_does_not_say_is_no_own() -> None:
    nobodys = waiting(90, cpus=32, user="", account="")
    assert victims(ask(FitGpp(), job(1, "bob", "speech"), job(2, "", ""), te=nobodys)) == [1]


@pytest.mark.parametrize(("started", "chosen"), [(NOW - 1019, 3), (NOW - 1021, 1)])
def test_a_job_with_a_price_above_by_more_than_the_margin_for_each_step_stays(started: float, chosen: int) -> None:
    stranger, own = job(1, "bob", "speech", started=NOW - 1000), job(3, "ada", "other", started=started)
    assert victims(ask(YoungestFirst(), stranger, own)) == [chosen]


@pytest.mark.parametrize(("within", "chosen"), [(0.0, 1), (0.1, 3)])
def test_the_margin_is_the_site_s(within: float, chosen: int) -> None:
    stranger, own = job(1, "bob", "speech", started=NOW - 1000), job(3, "ada", "other", started=NOW - 1100)
    assert victims(ask(YoungestFirst(), stranger, own, limits=Limits(equal_within=within))) == [chosen]


def test_of_the_longest_remaining_it_is_a_part_of_what_remains() -> None:
    def left(number: int, user: str, seconds: float) -> Job:
        return replace(job(number, user, user), time_limit_s=int(NOW + seconds))

    assert victims(ask(LongestRemaining(), left(1, "bob", 1000), left(3, "ada", 981))) == [3]
    assert victims(ask(LongestRemaining(), left(1, "bob", 1000), left(3, "ada", 979))) == [1]


@every_policy
@pytest.mark.parametrize("parts", [2, 4])
def test_fewer_victims_go_before_own_ones(policy: Policy[None], parts: int) -> None:
    own = [replace(OWN, job_id=JobId(3 + part), allocation=(share("n3", 32 // parts),)) for part in range(parts)]
    found = ask(policy, STRANGER, *own)
    assert victims(found) == [1]
    assert "own" not in why(found)


def test_nor_do_own_ones_of_several_nodes_go_where_one_job_holds_as_many() -> None:
    spanning = running(1, share("n1", 32), share("n2", 32), user="bob")
    own = [replace(OWN, job_id=JobId(number), allocation=(share(f"n{number}", 32),)) for number in (3, 4)]
    te = waiting(90, Request(cpus=64, min_nodes=2, max_nodes=2, mem_per_node_mib=1), user="ada", account="vision")
    view = view_of(cluster([node(f"n{number}") for number in (1, 2, 3, 4)], [spanning, *own, te]))
    found = plan_all(view, lambda view, _: np.ones(len(view.running)), fewest_and_cheapest, why="")
    assert victims(found) == [1]


def test_of_several_victims_as_many_as_do_as_well_are_own_ones() -> None:
    pairs = [
        running(10 * node_number + half, share(f"n{node_number}", 16)) for node_number in (1, 2) for half in (1, 2)
    ]
    users = ("bob", "bob", "bob", "ada")
    found = ask(FitGpp(), *(replace(one, user=user) for one, user in zip(pairs, users, strict=True)))
    assert victims(found) == [22, 21]
    (plan,) = plans_of(found)
    assert [OF_USER in one.why for one in plan.victims] == [True, False]


def test_where_it_would_leave_anyway_it_is_not_the_reason() -> None:
    cheaper = running(3, share("n3", 32), user="ada")
    found = ask(FitGpp(), cheaper, job(4, "bob", "speech"))
    assert victims(found) == [3]
    assert "was the lowest" in why(found)


def test_one_that_stays_since_an_own_one_goes_first_is_not_called_dearer() -> None:
    found = ask(FitGpp(), STRANGER, OWN)
    (said,) = (one for one in found.refusals if one.job_id == 1)
    assert (said.code, "goes first among equals" in said.text) == (RefusalCode.OUTSCORED, True)


def test_scores_are_recorded_as_the_policy_has_them() -> None:
    (plan,) = plans_of(ask(FitGpp(), STRANGER, OWN))
    assert plan.victims[0].score == 5.0, "the largest, of the longest grace period: 1 + 4"


def test_prices_of_zero_have_an_order_too() -> None:
    snapshot = cluster([node(f"n{number}") for number in (1, 2, 3)], [STRANGER, COLLEAGUE, OWN])
    te = waiting(90, Request(), user="ada", account="vision")
    view = view_of(snapshot)
    price = prices_for(te, view, np.zeros(3)).price
    by_id = {int(job_id): price[row] for row, job_id in enumerate(view.running.job_id)}
    assert by_id[3] < by_id[2] < by_id[1]


def idling(policy: Policy[None], *jobs: Job, idle: dict[int, float], limits: Limits | None = None) -> Proposal[None]:
    """Return what is proposed for Ada's TE job, of the account vision, where these jobs idle for so many seconds."""
    te = waiting(90, cpus=32, user="ada", account="vision")
    nodes = [node(name) for name in sorted({name for one in jobs for name in one.nodes})]
    since = {JobId(number): NOW - seconds for number, seconds in idle.items()}
    view = view_of(replace(cluster(nodes, [*jobs, te]), idle_since=since))
    return policy.propose(replace(view, limits=limits or Limits()), None)


@every_policy
def test_an_idle_job_goes_before_a_busy_one_of_the_own_user(policy: Policy[None]) -> None:
    idle = job(4, "eve", "speech")
    found = idling(policy, STRANGER, OWN, idle, idle={4: 2520})
    assert victims(found) == [4]
    if not isinstance(policy, AtRandom):  # its draw may be the lowest anyway
        assert why(found) == "idle for 42 min, and idle jobs go first among equals (idle.file)"


@every_policy
def test_of_idle_jobs_the_own_user_s_goes_first(policy: Policy[None]) -> None:
    found = idling(policy, STRANGER, COLLEAGUE, OWN, idle={1: 900, 2: 900, 3: 900})
    assert victims(found) == [3]
    assert OF_USER in why(found), "that it is idle has not decided: all are"
    assert victims(idling(policy, STRANGER, COLLEAGUE, OWN, idle={1: 900, 2: 900})) == [2]


def test_that_an_own_job_is_idle_is_the_reason_where_a_busy_one_would_leave() -> None:
    assert "idle for 15 min" in why(idling(FitGpp(), STRANGER, OWN, idle={3: 900}))


@every_policy
def test_an_idle_job_goes_first_though_owners_count_nothing(policy: Policy[None]) -> None:
    found = idling(policy, STRANGER, OWN, idle={3: 900}, limits=Limits(own_jobs_first=False))
    assert victims(found) == [3]


@every_policy
def test_fewer_busy_victims_go_before_idle_ones(policy: Policy[None]) -> None:
    idle = [replace(OWN, job_id=JobId(3 + part), user="eve", allocation=(share("n3", 16),)) for part in (0, 1)]
    found = idling(policy, STRANGER, *idle, idle={3: 900, 4: 900})
    assert victims(found) == [1]
    assert "idle" not in why(found)


@pytest.mark.parametrize(("started", "chosen"), [(NOW - 1029, 3), (NOW - 1032, 1)])
def test_an_idle_job_is_favoured_by_three_margins(started: float, chosen: int) -> None:
    busy, idle = job(1, "bob", "speech", started=NOW - 1000), job(3, "bob", "speech", started=started)
    assert victims(idling(YoungestFirst(), busy, idle, idle={3: 900})) == [chosen]


def test_a_job_that_is_idle_and_not_running_changes_nothing() -> None:
    assert victims(idling(FitGpp(), STRANGER, OWN, idle={77: 900})) == [3]
