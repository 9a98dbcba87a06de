"""FitGpp on the simulated cluster, as its paper has it, worked out by hand. One node of 8 GPUs if nothing is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.limits import Limits
from tesched_core.policy import in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_policies.patient import Patient
from tesched_sim.engine import NO_LIMITS, Simulation
from tesched_sim.slurm_settings import Backfill, Behaviour, RequeuedTo

from tests.unit.sim.examples import Sketch, ends, preemptions, simulate, starts, te, with_fitgpp, workload

PAPER = Behaviour.paper(te_first=True)


def test_the_victim_saves_leaves_and_goes_on_where_it_was() -> None:
    # Notice at 20; 30 s of grace, in which it does nothing more; the TE job runs from 50 to 60; 80 s of work are left.
    result = with_fitgpp(Sketch(run=100, grace=30), te(20, 10))
    assert starts(result) == [0, 50]
    assert ends(result) == [140, 60]
    assert preemptions(result) == [(0, 1, 20, 50, 60)]
    assert result.preemptions.lost_node_s.tolist() == [30]
    assert result.lost_node_s.tolist() == [30, 0]
    assert result.preempted.tolist() == [1, 0]


def test_without_a_grace_period_the_te_job_starts_at_once_and_nothing_is_lost() -> None:
    result = with_fitgpp(Sketch(run=100), te(20, 10))
    assert (starts(result), ends(result)) == ([0, 20], [110, 30])
    assert result.lost_node_s.tolist() == [0, 0]


def test_a_te_job_that_fits_starts_at_once_and_no_victim_is_notified() -> None:
    result = with_fitgpp(Sketch(run=100, gpus=4, grace=30), te(20, 10, gpus=4))
    assert (starts(result)[1], preemptions(result)) == (20, [])


def test_a_te_job_that_comes_with_one_that_waits_for_its_victim_starts_at_once_where_it_fits() -> None:
    # Both come at 20. The first waits for its victim until 320; the second fits beside the other job.
    result = with_fitgpp(*[Sketch(run=900, gpus=5, grace=300)] * 2, te(20, 10), te(20, 10, gpus=3), nodes=2)
    assert (starts(result)[2:], len(preemptions(result))) == ([320, 20], 1)


def test_a_victim_that_leaves_sooner_than_it_must_frees_resources_sooner() -> None:
    assert starts(with_fitgpp(Sketch(run=100, grace=30, yields=5), te(20, 10)))[1] == 25


def test_a_victim_that_ignores_its_notice_works_on_is_requeued_at_its_deadline_and_killed_after_kill_wait() -> None:
    stubborn = Sketch(run=100, grace=30, yields=float("inf"))
    behaviour = replace(PAPER, kill_wait_s=7)
    result = with_fitgpp(stubborn, te(20, 10), behaviour=behaviour)
    assert preemptions(result) == [(0, 1, 20, 57, 67)]
    assert ends(result)[0] == 67 + 80  # it had saved at its notice


def test_one_that_does_not_save_on_notice_has_its_last_checkpoint() -> None:
    # At 50 it has worked for 20 s (then its notice came, and it saves nothing then): 15 s are kept.
    result = with_fitgpp(Sketch(run=100, grace=30, saves=False, checkpoint=15, restart=4), te(20, 10))
    assert ends(result)[0] == 60 + 4 + (100 - 45)
    assert result.lost_node_s[0] == 50 - 45 + 4


def test_one_that_saves_nothing_begins_anew() -> None:
    assert ends(with_fitgpp(Sketch(run=100, grace=30, saves=False), te(20, 10)))[0] == 160


def test_reading_the_checkpoint_takes_time() -> None:
    assert ends(with_fitgpp(Sketch(run=100, grace=30, restart=5), te(20, 10)))[0] == 60 + 5 + 80


def test_a_victim_that_is_back_is_ahead_of_jobs_that_waited() -> None:
    result = with_fitgpp(Sketch(run=100), Sketch(at=1, run=100), te(20, 10))
    assert ends(result) == [110, 210, 30]


def test_resources_that_are_freed_are_kept_from_best_effort_jobs() -> None:
    # 4 of 8 GPUs are free when the victim of 4 gets its notice; the TE job wants 8. A job of 4 does not get them.
    jobs = (Sketch(run=100, gpus=4, grace=30), te(20, 10), Sketch(at=25, run=10, gpus=4))
    assert starts(with_fitgpp(*jobs)) == [0, 50, 60]


def test_the_smallest_grace_period_decides_where_sizes_are_equal() -> None:
    jobs = (Sketch(run=100, grace=60), Sketch(run=100, grace=30), te(20, 10))
    assert preemptions(with_fitgpp(*jobs, nodes=2)) == [(1, 2, 20, 50, 60)]


def test_a_tie_goes_to_the_lower_job_id() -> None:
    jobs = (Sketch(run=100, grace=30), Sketch(run=100, grace=30), te(20, 10))
    assert [one[0] for one in preemptions(with_fitgpp(*jobs, nodes=2))] == [0]


def test_two_small_ones_go_where_one_does_not_suffice_and_the_te_job_waits_for_the_slower() -> None:
    jobs = (Sketch(run=100, gpus=4, grace=10), Sketch(run=100, gpus=4, grace=30), te(20, 10))
    result = with_fitgpp(*jobs)
    assert starts(result)[2] == 50
    assert [one[:4] for one in preemptions(result)] == [(0, 2, 20, 30), (1, 2, 20, 50)]


def test_no_job_is_preempted_twice() -> None:
    result = with_fitgpp(Sketch(run=100), te(20, 10), te(60, 10))
    assert preemptions(result) == [(0, 1, 20, 20, 30)]
    assert starts(result)[2] == 110  # when the victim has ended: 20 s of work, then 80 from 30 on


def test_a_job_that_may_be_preempted_twice_goes_on_from_where_it_was_both_times() -> None:
    # 20 s of work, then 30 from 30 to 60, then 50 from 70 on.
    jobs = workload([Sketch(run=100), te(20, 10), te(60, 10)])
    limits = replace(NO_LIMITS, max_preemptions_per_job=2)
    assert ends(Simulation(jobs, PAPER, policies=in_turn(FitGpp()), limits=limits).run()) == [120, 30, 70]


def test_a_te_job_of_two_nodes_gets_both() -> None:
    jobs = (Sketch(run=100, grace=10), Sketch(run=100, grace=30), te(20, 10, nodes=2))
    result = with_fitgpp(*jobs, nodes=2)
    assert starts(result)[2] == 50
    assert sorted(one[0] for one in preemptions(result)) == [0, 1]


def test_a_te_job_is_never_a_victim() -> None:
    assert starts(with_fitgpp(te(0, 100), te(20, 10))) == [0, 100]


def test_a_victim_that_ends_in_its_grace_period_is_not_run_again() -> None:
    stubborn = Sketch(run=40, grace=30, yields=float("inf"))
    result = with_fitgpp(stubborn, te(20, 10))
    assert ends(result) == [40, 50]
    assert result.preempted.tolist() == [0, 0]
    assert result.preemptions.futile.tolist() == [False]


def test_a_victim_leaves_all_the_same_and_has_paid_when_its_resources_are_no_longer_needed() -> None:
    # Job 1 ends at 30 and the TE job of 4 GPUs starts there; job 0 had its notice at 20 and leaves at 50.
    jobs = (Sketch(run=100, gpus=4, grace=30), te(0, 30, gpus=4), te(20, 10, gpus=4), te(60, 100, gpus=8))
    result = with_fitgpp(*jobs)
    assert starts(result)[2] == 30
    assert result.preempted[0] == 1
    assert preemptions(result) == [(0, 2, 20, 50, 50)]


class TestPolling:
    """A daemon that polls once in 10 s finds a job late, and a deadline, too."""

    POLLS = replace(PAPER, poll_s=10)

    def test_it_is_seen_at_the_next_poll(self) -> None:
        assert preemptions(with_fitgpp(Sketch(run=100, grace=12), te(21, 5), behaviour=self.POLLS))[0][2] == 30

    def test_a_deadline_is_kept_at_the_next_poll(self) -> None:
        stubborn = Sketch(run=100, grace=12, yields=float("inf"))
        assert preemptions(with_fitgpp(stubborn, te(21, 5), behaviour=self.POLLS))[0][3] == 50  # 30 + 12, seen at 50

    def test_the_queue_s_order_keeps_it_without_kept_resources(self) -> None:
        slurm = replace(
            self.POLLS, te_first=False, keeps_free=False, backfill=Backfill.EASY, requeued_to=RequeuedTo.PLACE
        )
        jobs = (Sketch(run=100, grace=5, limit=100), Sketch(at=1, run=50, limit=50), te(2, 10))
        # Seen at 10, raised above job 1, which waits before it; the victim leaves at 15.
        assert starts(with_fitgpp(*jobs, behaviour=slurm))[2] == 15


class TestPatient:
    """patient waits for resources to be released."""

    def test_it_takes_the_resources_of_a_job_that_ends_in_time(self) -> None:
        jobs = (Sketch(run=100, grace=30), Sketch(run=60, grace=30), te(20, 10))
        result = simulate(*jobs, nodes=2, policy=Patient(patience_s=60))
        assert (starts(result)[2], preemptions(result)) == (60, [])

    def test_then_it_preempts_the_job_that_leaves_soonest(self) -> None:
        jobs = (Sketch(run=1000, grace=30), Sketch(run=1000, grace=20), te(20, 10))
        result = simulate(*jobs, nodes=2, policy=Patient(patience_s=60))
        assert preemptions(result) == [(1, 2, 80, 100, 110)]


@pytest.mark.parametrize("policy", [FitGpp(), Patient(patience_s=0)], ids=lambda policy: policy.name)
def test_p_0_preempts_no_job(policy: FitGpp | Patient) -> None:
    jobs = workload([Sketch(run=100), te(20, 10)])
    limits = replace(NO_LIMITS, max_preemptions_per_job=0)
    result = Simulation(jobs, PAPER, policies=in_turn(policy), limits=limits).run()
    assert (starts(result), result.preempted.tolist()) == ([0, 100], [0, 0])


def test_a_least_run_time_is_kept() -> None:
    limits = Limits(min_run_time_s=60, cool_down_s=0)
    result = Simulation(workload([Sketch(run=100), te(20, 10)]), PAPER, policies=in_turn(FitGpp()), limits=limits).run()
    assert preemptions(result) == []  # nothing happens between 20 and 100, so there is no poll at 60
    polled = Simulation(
        workload([Sketch(run=100), te(20, 10)]), replace(PAPER, poll_s=1), policies=in_turn(FitGpp()), limits=limits
    ).run()
    assert preemptions(polled) == [(0, 1, 60, 60, 70)]
