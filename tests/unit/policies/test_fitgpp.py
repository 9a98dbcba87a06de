"""FitGpp: the score by hand, and the victims."""

from __future__ import annotations

import pytest
from tesched_core.model.cluster import Job, Request
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_policies.fitgpp import FitGpp, fitgpp_scores
from tesched_policies.loss import weighed_loss_s

from tests.builders import NOW, cluster, node, plans_of, running, scored, share, traits, view_of, waiting

A, B, C, FILLER = 1, 2, 3, 50
TE = 9


def worked_example() -> Snapshot:
    """Return the cluster of the example at the head of fitgpp.py: nothing is free beside A, B and C."""
    gpus = {"gpu": 8}
    return cluster(
        [node("n1", cpus=32, gres=gpus), node("n2", cpus=32, gres=gpus), node("n3", cpus=32, gres=gpus)],
        [
            running(A, share("n1", 16, 0, {"gpu": 4})),
            running(B, share("n2", 8, 0, {"gpu": 2})),
            running(C, share("n3", 4, 0, {"gpu": 1})),
            running(
                FILLER, share("n1", 0, 0, {"gpu": 4}), share("n2", 0, 0, {"gpu": 6}), share("n3", 0, 0, {"gpu": 7})
            ),
            waiting(TE, Request(gres_per_node=(("gpu", 2),), mem_per_node_mib=1)),
        ],
        graces={A: 60, B: 180, C: 30},
        exempt=[FILLER],
    )


def victims(snapshot: Snapshot, policy: FitGpp | None = None) -> list[int]:
    """Return the victims of the only plan."""
    (plan,) = plans_of((policy or FitGpp()).propose(view_of(snapshot), None))
    return list(plan.victim_ids)


class TestScore:
    """Size, and the score that it gives with the grace period."""

    def scores(self, snapshot: Snapshot, s: float = 4.0) -> dict[JobId, float]:
        running = columns_of(snapshot).running
        ids = [JobId(job_id) for job_id in running.job_id.tolist()]
        return dict(zip(ids, fitgpp_scores(running, weighed_loss_s(running, NOW), s).tolist(), strict=True))

    @pytest.mark.parametrize(
        ("job", "size"),
        [
            (running(1, share("n1", 16)), 0.5),
            (running(1, share("n1", 32)), 1.0),
            # sqrt(0.5^2 + 0.25^2 + 0.25^2) = sqrt(0.375)
            (running(1, share("n1", 16, 16_000, {"gpu": 2})), 0.375**0.5),
            # a typed GPU is weighed once: 4 of 8
            (running(1, share("n1", 0, 0, {"gpu:a100": 4})), 0.5),
            # over all its nodes: (16 + 32) / 32, in nodes like the first
            (running(1, share("n1", 16), share("n2", 32)), 1.5),
            # memory alone, a quarter
            (running(1, share("n1", 0, 16_000)), 0.25),
            # a GRES that the node does not have (any more) is not weighed
            (running(1, share("n1", 16, 0, {"fpga": 1})), 0.5),
            (running(1, share("gone", 16)), 0.0),
            (running(1), 0.0),
        ],
    )
    def test_size_is_a_part_of_the_first_node(self, job: Job, size: float) -> None:
        n1 = node("n1", cpus=32, mem_mib=64_000, gres={"gpu:a100": 8})
        n2 = node("n2", cpus=64, mem_mib=64_000, gres={"gpu:a100": 8})
        snapshot = cluster([n1, n2], [job, running(2, share("n1"))]).with_traits(
            {JobId(1): traits(JobClass.BE), JobId(2): traits(JobClass.BE)}
        )
        found = columns_of(snapshot).running
        if job.on_nodes:
            assert found.size[found.row_of[JobId(1)]] == pytest.approx(size)
        else:
            assert JobId(1) not in found.row_of

    def test_score_is_that_of_the_worked_example(self) -> None:
        # Sizes 0.7071, 0.3536, 0.1768: 1, 1/2 and 1/4 of the largest. Grace periods 60, 180, 30 of 180.
        assert self.scores(worked_example()) == pytest.approx({A: 1 + 4 / 3, B: 0.5 + 4, C: 0.25 + 4 / 6})

    def test_without_the_weight_it_is_the_size_alone(self) -> None:
        assert self.scores(worked_example(), s=0) == pytest.approx({A: 1.0, B: 0.5, C: 0.25})

    def test_maxima_are_over_all_best_effort_jobs_and_no_others(self) -> None:
        # The largest job, 24 of 32 CPUs, is exempt: it counts neither for the size nor for the grace period.
        jobs = [running(1, share("n1", 4)), running(2, share("n1", 2)), running(3, share("n2", 24))]
        snapshot = cluster([node("n1"), node("n2")], jobs, graces={1: 10, 2: 20, 3: 600}, exempt=[3])
        assert self.scores(snapshot) == pytest.approx({1: 1 + 4 * 10 / 20, 2: 0.5 + 4})

    def test_where_no_job_saves_runs_are_weighed_against_the_longest(self) -> None:
        jobs = [running(1, share("n1", 8), start_time=NOW - 500), running(2, share("n1", 2), start_time=NOW - 121)]
        assert self.scores(cluster([node("n1")], jobs, graces={1: 0, 2: 0})) == pytest.approx({1: 1.0 + 4, 2: 0.25 + 1})

    def test_a_run_that_is_lost_is_weighed_against_the_grace_periods(self) -> None:
        jobs = [running(1, share("n1", 8)), running(2, share("n1", 4), start_time=NOW - 470)]
        assert self.scores(cluster([node("n1")], jobs, graces={1: 60, 2: 0})) == pytest.approx({1: 1 + 4, 2: 0.5 + 16})

    def test_jobs_that_hold_nothing_have_a_score_all_the_same(self) -> None:
        snapshot = cluster([node("n1")], [running(1, share("n1"))], graces={1: 30})
        assert self.scores(snapshot) == {1: 4.0}

    def test_no_running_job_has_no_score(self) -> None:
        assert self.scores(cluster([node("n1")])) == {}


class TestOneVictim:
    """Where one job suffices, the one with the lowest score yields."""

    def test_victim_is_that_of_the_worked_example(self) -> None:
        proposal = FitGpp().propose(view_of(worked_example()), None)
        # sizes are sums of two equal squares, so that A's is the largest and its part of the score is exactly 1
        score_a = 1 + 4.0 * 60 / 180
        (plan,) = plans_of(proposal)
        assert (plan.preemptor, plan.nodes, scored(plan)) == (TE, ("n1",), ((A, score_a),))
        assert proposal.refusals == (
            Refusal(
                job_id=JobId(C),
                preemptor=JobId(TE),
                code=RefusalCode.FREES_TOO_LITTLE,
                text="its resources, and those that are free beside them, are not enough",
                score=0.9167,  # 0.25 + 4 * 30/180
            ),
            Refusal(
                job_id=JobId(B),
                preemptor=JobId(TE),
                code=RefusalCode.OUTSCORED,
                text="it would do too; its score 4.500 is not below the chosen one's 2.333",
                score=4.5,
            ),
        )

    def test_worked_example_by_size_alone(self) -> None:
        assert victims(worked_example(), FitGpp(s=0)) == [B]

    def test_a_large_weight_asks_the_shortest_grace_period(self) -> None:
        # sizes 1 and 1/8, grace periods 29 and 30: with s = 4 the small one yields, 4 * 1/30 being less than 7/8
        jobs = [
            running(1, share("n1", 32)),
            running(2, share("n2", 4)),
            running(3, share("n2", 28)),
            waiting(TE, cpus=4),
        ]
        snapshot = cluster([node("n1"), node("n2")], jobs, graces={1: 29, 2: 30}, exempt=[3])
        assert victims(snapshot) == [2]
        assert victims(snapshot, FitGpp(s=1000)) == [1]

    @pytest.mark.parametrize(("ran_s", "victim"), [(0, 2), (239, 2), (240, 1), (100_000, 1)])
    def test_a_job_that_is_sent_no_signal_pays_with_its_run(self, ran_s: float, victim: int) -> None:
        jobs = [running(1, share("n1", 32)), running(2, share("n2", 32), start_time=NOW - ran_s), waiting(TE, cpus=32)]
        assert victims(cluster([node("n1"), node("n2")], jobs, graces={1: 150, 2: 0})) == [victim]

    @pytest.mark.parametrize(("ran_s", "victim"), [(479, 1), (480, 2)])
    def test_between_runs_of_about_the_same_length_the_size_decides(self, ran_s: float, victim: int) -> None:
        jobs = [
            running(1, share("n1", 28), start_time=NOW - ran_s),
            running(2, share("n2", 32), start_time=NOW - 250),
            waiting(TE, cpus=28),
        ]
        assert victims(cluster([node("n1"), node("n2")], jobs, graces={1: 0, 2: 0})) == [victim]

    @pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
    def test_ties_go_to_the_lower_job_id(self, order: tuple[int, ...]) -> None:
        # job 1 runs on the last node, so that the node's place in the list decides nothing
        on = {1: "n3", 2: "n1", 3: "n2"}
        jobs = [*(running(job_id, share(on[job_id], 32)) for job_id in order), waiting(TE, cpus=1)]
        assert victims(cluster([node("n1"), node("n2"), node("n3")], jobs)) == [1]

    def test_ties_on_one_node_go_to_the_lower_job_id(self) -> None:
        jobs = [running(2, share("n1", 16)), running(1, share("n1", 16)), waiting(TE, cpus=1)]
        assert victims(cluster([node("n1")], jobs)) == [1]

    def test_what_is_free_beside_a_victim_counts(self) -> None:
        # n1: 20 held, 12 free; n2: 4 held, 8 free, 20 held by an exempt job. The TE job wants 12: 4 + 8.
        jobs = [
            running(1, share("n2", 4)),
            running(2, share("n2", 20)),
            running(3, share("n1", 21)),
            waiting(TE, cpus=12),
        ]
        assert victims(cluster([node("n1"), node("n2")], jobs, exempt=[2])) == [1]

    def test_every_component_must_fit(self) -> None:
        # Job 1 is smaller and frees the CPUs, and not the memory.
        jobs = [
            running(1, share("n1", 16, 1_000)),
            running(2, share("n1", 16, 63_000)),
            waiting(TE, Request(cpus=16, mem_per_node_mib=2_000)),
        ]
        assert victims(cluster([node("n1", cpus=32, mem_mib=64_000)], jobs)) == [2]

    def test_a_victim_where_the_job_may_not_run_is_none(self) -> None:
        jobs = [
            running(1, share("n1", 32)),
            running(2, share("n2", 32)),
            waiting(TE, Request(mem_per_node_mib=1, excluded_nodes=("n1",))),
        ]
        proposal = FitGpp().propose(view_of(cluster([node("n1"), node("n2")], jobs, graces={1: 0})), None)
        assert scored(plans_of(proposal)[0]) == ((2, 1 + 4.0),)
        assert [(one.job_id, one.code) for one in proposal.refusals] == [(1, RefusalCode.NOT_ALLOWED_NODE)]


class TestSeveralVictims:
    """Where no single job suffices: few on one node, cheap, and none superfluous."""

    def gpus(self, *held: tuple[int, str, int], want: int, nodes: int = 1) -> Snapshot:
        """Return nodes n1… of 8 GPUs, all held: (job, node, GPUs), and the rest by an exempt job."""
        names = sorted({name for _, name, _ in held})
        left = {name: 8 - sum(count for _, where, count in held if where == name) for name in names}
        wanted = Request(
            min_nodes=nodes, max_nodes=nodes, cpus=nodes, gres_per_node=(("gpu", want),), mem_per_node_mib=1
        )
        shares: dict[int, list[tuple[str, int]]] = {}
        for job_id, name, count in held:
            shares.setdefault(job_id, []).append((name, count))
        return cluster(
            [node(name, gres={"gpu": 8}) for name in names],
            [
                *(
                    running(job_id, *(share(name, 0, 0, {"gpu": count}) for name, count in where))
                    for job_id, where in shares.items()
                ),
                running(FILLER, *(share(name, 0, 0, {"gpu": count}) for name, count in left.items())),
                waiting(TE, wanted),
            ],
            graces=dict.fromkeys(shares, 0.0),
            exempt=[FILLER],
        )

    def test_a_victim_that_turns_out_not_to_be_needed_is_given_back(self) -> None:
        # In order of score 1 + 2 + 3 GPUs are taken until 4 are there. Then, dearest first: without job 3 there are 3,
        # it stays; without job 2 there are still 4, it goes on; without job 1 there would be 3.
        assert victims(self.gpus((1, "n1", 1), (2, "n1", 2), (3, "n1", 3), want=4)) == [1, 3]

    def test_one_dear_victim_is_better_than_two_cheap_ones(self) -> None:
        assert victims(self.gpus((1, "n1", 1), (2, "n1", 1), (3, "n2", 2), want=2)) == [3]

    def test_among_as_many_the_lower_sum_is_better(self) -> None:
        # 3 + 4 GPUs on n1, 2 + 4 on n2, for 6
        assert victims(self.gpus((1, "n1", 3), (2, "n1", 4), (3, "n2", 2), (4, "n2", 4), want=6)) == [3, 4]

    def test_a_job_that_is_not_needed_does_not_count_against_a_node(self) -> None:
        # n1 needs jobs 1 and 3, as above, 4 of 3 GPUs; n2 needs 4 and 5, 6 of 3.
        held = ((1, "n1", 1), (2, "n1", 2), (3, "n1", 3), (4, "n2", 3), (5, "n2", 3))
        assert victims(self.gpus(*held, want=4)) == [1, 3]

    def test_not_even_all_of_them_suffice(self) -> None:
        proposal = FitGpp().propose(view_of(self.gpus((1, "n1", 3), (2, "n1", 4), (3, "n2", 7), want=8)), None)
        assert proposal.plans == ()
        assert {(one.job_id, one.code) for one in proposal.refusals} == {
            (1, RefusalCode.FREES_TOO_LITTLE),
            (2, RefusalCode.FREES_TOO_LITTLE),
            (3, RefusalCode.FREES_TOO_LITTLE),
            (TE, RefusalCode.NO_VICTIM),
        }

    def test_a_job_of_two_nodes_asks_on_the_two_cheapest(self) -> None:
        snapshot = self.gpus((1, "n1", 4), (2, "n2", 3), (3, "n3", 2), want=2, nodes=2)
        (plan,) = plans_of(FitGpp().propose(view_of(snapshot), None))
        # 2 and 3 of the 4 GPUs that the largest holds, and runs that are lost, as long as the longest
        assert (plan.nodes, scored(plan)) == (("n2", "n3"), ((3, 0.5 + 4), (2, 0.75 + 4)))

    def test_a_job_of_two_nodes_takes_a_free_one_first(self) -> None:
        jobs = [
            running(1, share("n1", 32)),
            running(2, share("n3", 32)),
            waiting(TE, Request(min_nodes=2, max_nodes=2, cpus=2, mem_per_node_mib=1)),
        ]
        (plan,) = plans_of(FitGpp().propose(view_of(cluster([node("n1"), node("n2"), node("n3")], jobs)), None))
        assert plan.nodes == ("n1", "n2")
        assert plan.victim_ids == (1,)

    def test_a_victim_that_spans_both_nodes_pays_once(self) -> None:
        snapshot = self.gpus((1, "n1", 4), (1, "n2", 4), (2, "n3", 3), want=4, nodes=2)
        (plan,) = plans_of(FitGpp().propose(view_of(snapshot), None))
        assert (plan.nodes, scored(plan)) == (("n1", "n2"), ((1, 1.0 + 4),))

    def test_no_job_pays_beside_a_victim_that_spans_enough_nodes(self) -> None:
        # Job 2 is cheaper, and comes first; with job 1, which is needed in any case, it is not needed any more.
        snapshot = self.gpus((1, "n1", 4), (1, "n2", 4), (2, "n3", 4), want=4, nodes=2)
        (plan,) = plans_of(FitGpp().propose(view_of(snapshot), None))
        assert (plan.nodes, scored(plan)) == (("n1", "n2"), ((1, 1.0 + 4),))

    def test_a_victim_that_spans_nodes_helps_where_others_yield_too(self) -> None:
        # Both nodes need 4. Job 1 frees 2 on each; 2 and 3 free 2 more, one on each: all three are needed.
        snapshot = self.gpus((1, "n1", 2), (1, "n2", 2), (2, "n1", 2), (3, "n2", 2), want=4, nodes=2)
        assert victims(snapshot) == [2, 3, 1]

    def test_a_required_node_is_among_those_it_gets(self) -> None:
        jobs = [
            running(1, share("n1", 32)),
            waiting(TE, Request(min_nodes=2, max_nodes=2, cpus=2, mem_per_node_mib=1, required_nodes=("n1",))),
        ]
        (plan,) = plans_of(FitGpp().propose(view_of(cluster([node("n1"), node("n2"), node("n3")], jobs)), None))
        assert plan.nodes == ("n1", "n2")
        assert plan.victim_ids == (1,)

    def test_a_required_node_that_is_full_of_others_helps_no_job(self) -> None:
        jobs = [
            running(1, share("n1", 32)),
            running(2, share("n2", 32)),
            waiting(TE, Request(min_nodes=2, max_nodes=2, cpus=2, mem_per_node_mib=1, required_nodes=("n1",))),
        ]
        snapshot = cluster([node("n1"), node("n2"), node("n3")], jobs, exempt=[1])
        assert FitGpp().propose(view_of(snapshot), None).plans == ()
