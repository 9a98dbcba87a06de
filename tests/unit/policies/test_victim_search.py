"""Plans for several jobs, refusals and their reasons, and the baselines."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from tesched_core.model.cluster import Job, JobState, Request
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement import spanning
from tesched_core.policy import MakeRoom, Policy, Proposal
from tesched_policies import victim_search
from tesched_policies.baselines import AtRandom, LongestRemaining, NoPreemption, YoungestFirst
from tesched_policies.fitgpp import FitGpp

from tests.builders import NOW, cluster, node, plans_of, running, scored, share, view_of, waiting

C = RefusalCode
EVERY_POLICY = [FitGpp(), LongestRemaining(), AtRandom(seed=1), YoungestFirst()]
every_policy = pytest.mark.parametrize("policy", EVERY_POLICY, ids=lambda policy: policy.name)


def plan(preemptor: int, nodes: str, *victims: int) -> tuple[int, str, tuple[int, ...]]:
    return preemptor, nodes, victims


def plans(proposal: Proposal[None]) -> list[tuple[int, str, tuple[int, ...]]]:
    """Return the plans without their scores."""
    return [plan(one.preemptor, ",".join(one.nodes), *one.victim_ids) for one in plans_of(proposal)]


def codes(proposal: Proposal[None]) -> list[tuple[int, int, RefusalCode]]:
    """Return the refused jobs, for which preemptor, and why."""
    return [(one.job_id, one.preemptor, one.code) for one in proposal.refusals]


def whole(job_id: int, name: str, **extra: float) -> Job:
    """Return a job that holds all CPUs of a node."""
    return running(job_id, share(name, 32), start_time=extra.get("start_time", 0.0))


class TestFold:
    """Each plan changes the free resources of the next job."""

    @every_policy
    def test_two_jobs_never_get_the_same_victim(self, policy: Policy[None]) -> None:
        # Each wants a whole node; served in order of job id.
        jobs = [whole(1, "n1"), whole(2, "n2"), waiting(8, cpus=32), waiting(9, cpus=32)]
        proposal = policy.propose(view_of(cluster([node("n1"), node("n2")], jobs)), None)
        first, second = plans(proposal)
        assert {first[0], second[0]} == {8, 9}
        assert {first[1:], second[1:]} == {("n1", (1,)), ("n2", (2,))}

    @every_policy
    def test_what_a_victim_leaves_over_serves_the_next_job(self, policy: Policy[None]) -> None:
        jobs = [whole(1, "n1"), waiting(8, cpus=16), waiting(9, cpus=16), waiting(10, cpus=1)]
        proposal = policy.propose(view_of(cluster([node("n1")], jobs)), None)
        assert plans(proposal) == [plan(8, "n1", 1), plan(9, "n1")]
        assert codes(proposal) == [(1, 10, C.ALREADY_LEAVING), (10, 10, C.NO_VICTIM)]

    def test_a_plan_counts_where_the_next_users_prices_differ(self) -> None:
        # Job 2 was enough beside 4 free CPUs, which the first TE job takes with what job 1 leaves; job 5 is eve's own.
        held = [(1, 2), (2, 2), (3, 8), (4, 16)]
        jobs = [running(job_id, share("n1", cpus), user="bob") for job_id, cpus in held]
        jobs += [running(5, share("n2", 32), user="eve")]
        jobs += [waiting(8, cpus=6, user="ada"), waiting(9, cpus=6, user="eve")]
        proposal = FitGpp().propose(view_of(cluster([node("n1"), node("n2")], jobs)), None)
        assert plans(proposal) == [plan(8, "n1", 1), plan(9, "n1", 3)]

    @every_policy
    def test_free_resources_are_given_once(self, policy: Policy[None]) -> None:
        jobs = [waiting(8, cpus=32), waiting(9, cpus=1)]
        proposal = policy.propose(view_of(cluster([node("n1")], jobs)), None)
        assert plans(proposal) == [plan(8, "n1")]
        assert codes(proposal) == [(9, 9, C.NO_VICTIM)]

    @every_policy
    def test_an_exclusive_job_takes_the_whole_node(self, policy: Policy[None]) -> None:
        alone = waiting(8, Request(cpus=1, exclusive=True, mem_per_node_mib=1))
        proposal = policy.propose(view_of(cluster([node("n1")], [alone, waiting(9)])), None)
        assert plans(proposal) == [plan(8, "n1")]

    @every_policy
    def test_a_job_of_all_memory_leaves_cpus_and_no_memory(self, policy: Policy[None]) -> None:
        everything = waiting(8, Request(cpus=1, mem_per_node_mib=0))
        proposal = policy.propose(view_of(cluster([node("n1")], [everything, waiting(9)])), None)
        assert plans(proposal) == [plan(8, "n1")]

    @every_policy
    def test_the_view_s_resources_are_what_counts(self, policy: Policy[None]) -> None:
        # The node is empty, and an open order waits for its CPUs.
        snapshot = cluster([node("n1")], [waiting(8)])
        view = view_of(snapshot)
        full = view.capacity.changed([0], -view.capacity.total)
        assert plans(policy.propose(view_of(snapshot, capacity=full), None)) == []

    @every_policy
    def test_free_nodes_that_leave_out_a_required_one_do_not_do(self, policy: Policy[None]) -> None:
        wanted = Request(min_nodes=2, max_nodes=2, cpus=2, mem_per_node_mib=1, required_nodes=("n3",))
        jobs = [whole(1, "n3"), waiting(9, wanted)]
        proposal = policy.propose(view_of(cluster([node("n1"), node("n2"), node("n3")], jobs)), None)
        assert plans(proposal) == [plan(9, "n1,n3", 1)]

    @every_policy
    def test_a_required_node_may_be_the_only_one(self, policy: Policy[None]) -> None:
        jobs = [whole(1, "n1"), waiting(9, Request(mem_per_node_mib=1, required_nodes=("n1",)))]
        proposal = policy.propose(view_of(cluster([node("n1"), node("n2")], jobs)), None)
        assert plans(proposal) == [plan(9, "n1", 1)]

    @every_policy
    def test_a_required_node_that_is_free_is_taken(self, policy: Policy[None]) -> None:
        jobs = [whole(1, "n1"), waiting(9, Request(mem_per_node_mib=1, required_nodes=("n2",)))]
        proposal = policy.propose(view_of(cluster([node("n1"), node("n2")], jobs)), None)
        assert plans(proposal) == [plan(9, "n2")]
        assert proposal.refusals == ()


class TestJobsThatSpanNodes:
    """What a job frees on several nodes counts together for a TE job that wants several."""

    def wants(self, cpus: int, **extra: int) -> Job:
        """Return a TE job of two nodes with so many CPUs on each."""
        nodes = extra.get("nodes", 2)
        request = Request(
            cpus=nodes * cpus, tasks=nodes, cpus_per_task=cpus, min_nodes=nodes, max_nodes=nodes, mem_per_node_mib=1
        )
        return waiting(9, request)

    def test_one_that_is_enough_goes_in_the_place_of_a_small_one_on_each_node(self) -> None:
        jobs = [running(1, share("a1", 8)), running(2, share("a2", 8)), running(3, share("a1", 24), share("a2", 24))]
        proposal = FitGpp().propose(view_of(cluster([node("a1"), node("a2")], [*jobs, self.wants(8)])), None)
        assert plans(proposal) == [plan(9, "a1,a2", 3)]

    def test_of_several_that_are_enough_the_one_with_the_lowest_score_goes(self) -> None:
        nodes = [node(name) for name in ("a1", "a2", "b1", "b2")]
        jobs = [
            running(1, share("a1", 8)),
            running(2, share("a2", 8)),
            running(3, share("a1", 24), share("a2", 24)),
            running(4, share("b1", 20), share("b2", 20)),
            running(5, share("b1", 12), share("b2", 12)),
        ]
        view = view_of(cluster(nodes, [*jobs, self.wants(8)], exempt=[5]))
        assert plans(FitGpp().propose(view, None)) == [plan(9, "b1,b2", 4)]

    def test_two_go_in_the_place_of_one_on_each_of_three_nodes(self) -> None:
        nodes = [node(name) for name in ("a1", "a2", "a3")]
        jobs = [
            *(running(number, share(f"a{number}", 8)) for number in (1, 2, 3)),
            running(4, share("a1", 24), share("a2", 24)),
            running(5, share("a3", 24)),
        ]
        proposal = FitGpp().propose(view_of(cluster(nodes, [*jobs, self.wants(8, nodes=3)])), None)
        assert plans(proposal) == [plan(9, "a1,a2,a3", 3, 4)]

    @pytest.mark.parametrize("sets", [64, 0])
    @pytest.mark.parametrize("starts", [8, 0])
    def test_one_that_a_later_victim_makes_superfluous_stays(
        self, monkeypatch: pytest.MonkeyPatch, sets: int, starts: int
    ) -> None:
        # On a2 all must go, more than are weighed as sets. Job 2 is one of them, and is enough on a1, too.
        monkeypatch.setattr(victim_search, "MOST_NODE_SETS", sets)
        monkeypatch.setattr(victim_search, "MOST_STARTS", starts)
        jobs = [
            running(1, share("a1", 12)),
            running(2, share("a1", 20), share("a2", 5)),
            *(running(number, share("a2", 1)) for number in range(11, 18)),
        ]
        view = view_of(cluster([node("a1"), node("a2", cpus=12)], [*jobs, self.wants(12)]))
        (one,) = plans_of(FitGpp().propose(view, None))
        assert sorted(one.victim_ids) == [2, *range(11, 18)]

    def test_no_sets_are_compared_where_none_that_is_small_enough_may_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On 16 nodes 8 jobs of two nodes each are the fewest, and 16 jobs of one node too many: sets have six."""
        never = Mock(return_value=())
        monkeypatch.setattr(spanning, "fewest_that_free", never)
        names = [f"a{number:02d}" for number in range(16)]
        pairs = zip(names[::2], names[1::2], strict=True)
        jobs = [
            *(running(number, share(name, 16)) for number, name in enumerate(names, 101)),
            *(running(number, share(one, 16), share(other, 16)) for number, (one, other) in enumerate(pairs, 201)),
        ]
        snapshot = cluster([node(name) for name in names], [*jobs, self.wants(16, nodes=16)])
        assert plans_of(FitGpp().propose(view_of(snapshot), None))
        never.assert_not_called()


class TestRefusals:
    """Every job that was considered and not taken has its reason, for each preemptor."""

    @every_policy
    def test_an_excused_job_is_not_selected_and_the_guards_reason_is_passed_on(self, policy: Policy[None]) -> None:
        jobs = [whole(1, "n1"), whole(2, "n2"), waiting(9)]
        proposal = policy.propose(view_of(cluster([node("n1"), node("n2")], jobs), excused=[1]), None)
        assert plans(proposal) == [plan(9, "n2", 2)]
        assert proposal.refusals == (
            Refusal(job_id=JobId(1), preemptor=JobId(9), code=C.COOL_DOWN, text="it was just asked"),
        )

    @every_policy
    def test_no_job_may_be_preempted(self, policy: Policy[None]) -> None:
        jobs = [whole(1, "n1"), waiting(9)]
        proposal = policy.propose(view_of(cluster([node("n1")], jobs), excused=[1]), None)
        assert plans(proposal) == []
        assert codes(proposal) == [(1, 9, C.COOL_DOWN), (9, 9, C.NO_VICTIM)]
        assert proposal.refusals[-1].text == "none of the 1 running best-effort jobs may be preempted"

    @every_policy
    def test_no_best_effort_job_runs(self, policy: Policy[None]) -> None:
        jobs = [whole(1, "n1"), waiting(9)]
        proposal = policy.propose(view_of(cluster([node("n1")], jobs, exempt=[1])), None)
        assert codes(proposal) == [(9, 9, C.NO_VICTIM)]
        assert proposal.refusals[-1].text == "no best-effort job is running"

    @every_policy
    def test_all_of_them_would_not_suffice(self, policy: Policy[None]) -> None:
        jobs = [running(1, share("n1", 16)), running(2, share("n1", 16)), waiting(9, cpus=32)]
        proposal = policy.propose(view_of(cluster([node("n1")], jobs, exempt=[2])), None)
        assert codes(proposal) == [(1, 9, C.FREES_TOO_LITTLE), (9, 9, C.NO_VICTIM)]
        assert proposal.refusals[-1].text.startswith("not even all 1 best-effort jobs")

    @every_policy
    @pytest.mark.parametrize(
        ("request_", "text"),
        [
            (Request(cpus=33, mem_per_node_mib=1), "it wants 1 node(s), and only 0 of those"),
            (Request(min_nodes=2, max_nodes=2, cpus=2, mem_per_node_mib=1), "it wants 2 node(s), and only 1 of those"),
            (Request(gres_per_node=(("fpga", 1),), mem_per_node_mib=1), "no node has the GRES fpga"),
        ],
    )
    def test_what_no_empty_cluster_could_run_is_impossible(
        self, policy: Policy[None], request_: Request, text: str
    ) -> None:
        jobs = [whole(1, "n1"), waiting(9, request_)]
        proposal = policy.propose(view_of(cluster([node("n1")], jobs)), None)
        assert plans(proposal) == []
        assert codes(proposal) == [(9, 9, C.IMPOSSIBLE)]
        assert proposal.refusals[0].text.startswith(text)

    @every_policy
    def test_a_constraint_that_cannot_be_weighed_is_left_to_slurm(self, policy: Policy[None]) -> None:
        jobs = [whole(1, "n1"), waiting(8, Request(features="[a|b]", mem_per_node_mib=1)), waiting(9)]
        proposal = policy.propose(view_of(cluster([node("n1")], jobs)), None)
        assert plans(proposal) == [plan(9, "n1", 1)]
        assert codes(proposal) == [(8, 8, C.UNSUPPORTED)]
        assert "--constraint=[a|b]" in proposal.refusals[0].text

    def test_a_job_that_would_do_on_one_of_two_nodes_has_that_reason(self) -> None:
        wanted = Request(min_nodes=2, max_nodes=2, cpus=2, mem_per_node_mib=1)
        jobs = [whole(1, "n1"), whole(2, "n2"), waiting(9, wanted)]
        proposal = FitGpp().propose(view_of(cluster([node("n1"), node("n2")], jobs, exempt=[2])), None)
        assert codes(proposal) == [(1, 9, C.GIVEN_BACK), (9, 9, C.NO_VICTIM)]

    @every_policy
    def test_when_resources_are_free_no_candidate_is_considered(self, policy: Policy[None]) -> None:
        jobs = [whole(1, "n1"), waiting(9)]
        proposal = policy.propose(view_of(cluster([node("n1"), node("n2")], jobs)), None)
        assert proposal == Proposal(intents=(MakeRoom(preemptor=JobId(9), nodes=("n2",)),))


class TestBaselines:
    """The first victim of each."""

    def example(self, limit_b_s: int | None) -> Snapshot:
        """Return the example of baselines.py: A has run 5 of 60 minutes, B 50 of its limit."""
        a = running(1, share("n1", 32), start_time=NOW - 5 * 60, time_limit_s=3600)
        b = running(2, share("n2", 32), start_time=NOW - 50 * 60, time_limit_s=limit_b_s)
        return cluster([node("n1"), node("n2")], [a, b, waiting(9)])

    # A has 55 minutes left; B 10 minutes, or 23 h 10 min, or as long as it likes
    @pytest.mark.parametrize(("limit_b_s", "victim"), [(3600, 1), (24 * 3600, 2), (None, 2)])
    def test_lrtp_selects_the_job_that_would_stay_longest(self, limit_b_s: int | None, victim: int) -> None:
        (one,) = plans_of(LongestRemaining().propose(view_of(self.example(limit_b_s)), None))
        assert list(one.victim_ids) == [victim]

    def test_lrtp_s_score_is_the_time_left_counted_down(self) -> None:
        (one,) = plans_of(LongestRemaining().propose(view_of(self.example(3600)), None))
        assert scored(one) == ((1, -55 * 60.0),)

    def test_youngest_selects_the_job_that_started_last(self) -> None:
        (one,) = plans_of(YoungestFirst().propose(view_of(self.example(None)), None))
        assert scored(one) == ((1, 5 * 60.0),)

    def test_none_selects_no_job(self) -> None:
        proposal = NoPreemption().propose(view_of(self.example(None)), None)
        assert proposal.plans == ()
        assert codes(proposal) == [(9, 9, C.POLICY_NONE)]

    @pytest.mark.parametrize("policy", [LongestRemaining(), YoungestFirst()], ids=lambda policy: policy.name)
    def test_ties_go_to_the_lower_job_id(self, policy: Policy[None]) -> None:
        jobs = [whole(2, "n1"), whole(1, "n2"), waiting(9)]
        assert plans(policy.propose(view_of(cluster([node("n1"), node("n2")], jobs)), None)) == [plan(9, "n2", 1)]

    def test_they_select_wherever_a_job_runs_and_give_back_jobs_that_are_not_needed(self) -> None:
        # Started last: 1, then 2, then 3. Job 1 frees too little, 2 frees too little elsewhere, 3 makes n2 fit with 2.
        jobs = [
            running(1, share("n1", 8), start_time=300.0),
            running(2, share("n2", 12), start_time=200.0),
            running(3, share("n2", 12), start_time=100.0),
            running(4, share("n1", 24), share("n2", 8), start_time=0.0),
            waiting(9, cpus=20),
        ]
        proposal = YoungestFirst().propose(view_of(cluster([node("n1"), node("n2")], jobs, exempt=[4])), None)
        assert plans(proposal) == [plan(9, "n2", 2, 3)]
        assert codes(proposal) == [(1, 9, C.FREES_TOO_LITTLE)]

    def test_they_stop_asking_when_it_fits(self) -> None:
        jobs = [
            running(1, share("n1", 32), start_time=100.0),
            running(2, share("n2", 32), start_time=200.0),
            waiting(9, cpus=20),
        ]
        proposal = YoungestFirst().propose(view_of(cluster([node("n1"), node("n2")], jobs)), None)
        assert plans(proposal) == [plan(9, "n2", 2)]
        assert codes(proposal) == [(1, 9, C.OUTSCORED)]


class TestAtRandom:
    """The same for the same seed and the same pair of jobs."""

    def choice(self, seed: int, *, preemptor: int = 99, more: int = 0) -> int:
        names = [f"n{place}" for place in range(4 + more)]
        jobs = [whole(place + 1, name) for place, name in enumerate(names)]
        snapshot = cluster([node(name) for name in names], [*jobs, waiting(preemptor)])
        (one,) = plans_of(AtRandom(seed=seed).propose(view_of(snapshot), None))
        return int(one.victim_ids[0])

    def test_one_seed_gives_one_choice(self) -> None:
        assert [self.choice(7) for _ in range(3)] == [self.choice(7)] * 3

    def test_each_victim_is_chosen_by_some_seed(self) -> None:
        # That one of four is never chosen in 60 independent draws: 4 * 0.75^60 < 1e-6.
        assert {self.choice(seed) for seed in range(60)} == {1, 2, 3, 4}

    def test_each_victim_is_chosen_for_some_preemptor(self) -> None:
        assert {self.choice(1, preemptor=100 + place) for place in range(60)} == {1, 2, 3, 4}

    def test_another_job_does_not_change_the_order_of_the_others(self) -> None:
        for seed in range(20):
            assert self.choice(seed, more=1) in {self.choice(seed), 5}

    def test_scores_are_between_0_and_1(self) -> None:
        snapshot = cluster([node("n1")], [whole(1, "n1"), waiting(9)])
        scores = [
            plans_of(AtRandom(seed=seed).propose(view_of(snapshot), None))[0].victims[0].score for seed in range(20)
        ]
        assert all(0 <= score < 1 for score in scores)
        assert len(set(scores)) == 20


@every_policy
def test_a_suspended_jobs_cpus_are_not_freed_twice(policy: Policy[None]) -> None:
    # It holds 16 CPUs, which are free already as it sleeps; 16 more are held by an exempt job: no 32 to be had.
    asleep = running(1, share("n1", 16, 0), state=JobState.SUSPENDED)
    snapshot = cluster([node("n1")], [asleep, running(2, share("n1", 16)), waiting(9, cpus=17)], exempt=[2])
    assert plans(policy.propose(view_of(snapshot), None)) == []
