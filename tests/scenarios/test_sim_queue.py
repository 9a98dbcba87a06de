"""The simulated Slurm's queue, worked out by hand: each job's start. One node of 8 GPUs where nothing else is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_core.model.actions import MarkLine
from tesched_core.model.resources import JobId
from tesched_sim.engine import Outage, Simulation, holding_load
from tesched_sim.slurm_settings import Backfill, Behaviour, NativePreemption, NodeChoice, RequeuedTo
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError

from tests.unit.sim.examples import Sketch, ends, preemptions, simulate, starts, te, workload

FIFO = Behaviour.paper(te_first=False)
TE_FIRST = replace(Behaviour.paper(te_first=True), keeps_free=False)
EASY = replace(FIFO, backfill=Backfill.EASY)


class TestFifo:
    """One line; the first job that does not fit blocks all behind it."""

    def test_the_first_that_does_not_fit_blocks_one_that_would(self) -> None:
        # 4 GPUs run until 100; the job of 8 waits for that, and the job of 2 behind it, though 4 are free.
        result = simulate(Sketch(run=100, gpus=4), Sketch(at=1, run=10), Sketch(at=2, run=10, gpus=2), behaviour=FIFO)
        assert starts(result) == [0, 100, 110]

    def test_jobs_that_fit_beside_each_other_run_at_once(self) -> None:
        result = simulate(Sketch(run=100, gpus=4), Sketch(at=1, run=10, gpus=4), behaviour=FIFO)
        assert (starts(result), ends(result)) == ([0, 1], [100, 11])

    def test_a_te_job_waits_its_turn(self) -> None:
        result = simulate(Sketch(run=100), Sketch(at=1, run=100), te(2, 10), behaviour=FIFO)
        assert starts(result) == [0, 100, 200]

    def test_a_job_of_two_nodes_waits_for_both(self) -> None:
        jobs = (Sketch(run=50), Sketch(run=100), Sketch(at=1, run=10, nodes=2))
        result = simulate(*jobs, nodes=2, behaviour=FIFO)
        assert starts(result) == [0, 0, 100]

    def test_a_job_starts_only_where_it_may(self) -> None:
        second = [[True, True], [False, True]]
        result = simulate(Sketch(run=10, only=1), Sketch(at=1, run=10, only=1), nodes=2, allowed=second, behaviour=FIFO)
        assert starts(result) == [0, 10]


class TestTeFirst:
    """Two lines; each stops at its first job that does not fit."""

    def test_a_te_job_starts_before_a_job_that_waited_longer(self) -> None:
        result = simulate(Sketch(run=100), Sketch(at=1, run=100), te(2, 10), behaviour=TE_FIRST)
        assert starts(result) == [0, 110, 100]

    def test_a_te_job_that_does_not_fit_does_not_block_best_effort_jobs(self) -> None:
        result = simulate(Sketch(run=100, gpus=4), te(1, 10), Sketch(at=2, run=10, gpus=4), behaviour=TE_FIRST)
        assert starts(result) == [0, 100, 2]


@pytest.mark.parametrize(("depth", "started"), [(0, 2), (4, 2), (3, 64)])
def test_only_so_many_are_tried_for_backfill(depth: int, started: float) -> None:
    # Behind job 0 wait, from 2 s on: 1, which is first; 2 and 3, too long for the hole beside job 0; and 4, which fits.
    # Passes are every 2 s: what comes free at 50 goes to job 1 at 52, and what that leaves at 62 to the others at 64.
    jobs = (
        Sketch(run=50, gpus=4, limit=50),
        Sketch(at=1, run=10, limit=10),
        Sketch(at=2, run=90, gpus=2, limit=90),
        Sketch(at=2, run=90, gpus=2, limit=90),
        Sketch(at=2, run=10, gpus=4, limit=10),
    )
    site = replace(EASY, backfill_depth=depth, pass_s=2)
    assert starts(simulate(*jobs, behaviour=site))[4] == started


class TestPasses:
    """The queue is gone over once in 4 s; between two passes only a new job that is first in line is tried."""

    SLOW = replace(FIFO, pass_s=4)

    def test_resources_that_come_free_are_given_away_at_the_next_pass(self) -> None:
        result = simulate(Sketch(run=5), Sketch(at=1, run=10), behaviour=self.SLOW)
        assert starts(result) == [0, 8]

    def test_a_job_that_comes_and_is_first_starts_at_once(self) -> None:
        result = simulate(Sketch(run=50, gpus=4), Sketch(at=1, run=10, gpus=4), behaviour=self.SLOW)
        assert starts(result) == [0, 1]

    def test_a_job_that_comes_and_is_not_first_waits_for_the_pass_though_it_fits(self) -> None:
        easy = replace(self.SLOW, backfill=Backfill.EASY)
        jobs = (Sketch(run=50, gpus=4, limit=50), Sketch(at=1, run=10), Sketch(at=2, run=10, gpus=4, limit=10))
        assert starts(simulate(*jobs, behaviour=easy)) == [0, 52, 4]

    def test_where_no_new_job_is_tried_the_first_waits_for_the_pass_too(self) -> None:
        jobs = (Sketch(at=1, run=50, gpus=4), Sketch(at=5, run=10, gpus=4))
        assert starts(simulate(*jobs, behaviour=self.SLOW)) == [1, 5]
        assert starts(simulate(*jobs, behaviour=replace(self.SLOW, tries_new=False))) == [4, 8]

    @pytest.mark.parametrize(("every_s", "started"), [(0, 4), (6, 8), (12, 14)])
    def test_only_some_passes_backfill(self, every_s: float, started: float) -> None:
        # Passes are every 2 s; the first with jobs to start, at 2, backfills, and starts job 2 behind the first.
        site = replace(EASY, pass_s=2, backfill_s=every_s)
        first = (Sketch(run=50, gpus=4, limit=50), Sketch(at=1, run=10))
        behind = (Sketch(at=2, run=10, gpus=2, limit=10), Sketch(at=3, run=10, gpus=2, limit=10))
        assert starts(simulate(*first, *behind, behaviour=site)) == [0, 52, 2, started]

    def test_where_each_event_is_a_pass_the_next_backfill_needs_no_event(self) -> None:
        first = (Sketch(run=50, gpus=4, limit=50), Sketch(at=1, run=10))
        behind = (Sketch(at=2, run=10, gpus=2, limit=10), Sketch(at=3, run=10, gpus=2, limit=10))
        assert starts(simulate(*first, *behind, behaviour=replace(EASY, backfill_s=5))) == [0, 50, 5, 5]

    @pytest.mark.parametrize(("pass_s", "started"), [(0, 30), (2, 32)])
    @pytest.mark.parametrize("by", ["native", "marks"])
    def test_jobs_are_backfilled_in_time_beside_a_te_job_for_which_none_can_leave(
        self, by: str, pass_s: float, started: float
    ) -> None:
        # TE job 1 waits for TE job 0. Job 3 comes after a pass that has backfilled, and fits behind 2: 30 s after it.
        first = (replace(te(0, 100, 4), limit=100), te(1, 10), Sketch(at=2, run=10))
        site = replace(TE_FIRST, backfill=Backfill.EASY, backfill_s=30, pass_s=pass_s)
        site = replace(site, native=NativePreemption()) if by == "native" else site
        run = Simulation(workload([*first, Sketch(at=3, run=10, gpus=2, limit=10)]), site)
        if by == "marks":
            line = {"order": 1, "grace_s": 0, "max_restarts": 9, "least_run_s": 0, "after": 0, "until": 999}
            run.slurm.marks[0] = MarkLine(job_id=JobId(1), **line)
        assert starts(run.run())[3] == started

    @pytest.mark.parametrize(("waiting", "comes", "started"), [(0, 1, 4), (1, 3, 6), (2, 3, 6)])
    def test_where_some_passes_backfill_none_is_twice_at_one_instant(
        self, waiting: int, comes: float, started: float
    ) -> None:
        # The victim leaves at the instant of the pass that finds it, at 2 or 4; its resources are given away in the
        # next one. The pass at 2 backfills; that at 4 does not, and with two that wait it owes the next one.
        site = replace(TE_FIRST, backfill=Backfill.EASY, backfill_s=6, pass_s=2, native=NativePreemption())
        jobs = (Sketch(run=50), *[Sketch(at=1, run=50)] * waiting, te(comes, 10))
        assert starts(simulate(*jobs, behaviour=site))[-1] == started

    def test_the_pass_after_this_one_is_not_this_one_for_a_rounding(self) -> None:
        # 3 * 0.7 / 0.7 is a little less than 3 in floating point.
        site = replace(TE_FIRST, backfill=Backfill.EASY, backfill_s=0.7, pass_s=0.7, native=NativePreemption())
        assert starts(simulate(Sketch(run=50), te(1.5, 10), behaviour=site))[1] == pytest.approx(2.8)

    def test_slurm_searches_victims_in_its_passes_alone(self) -> None:
        native = replace(self.SLOW, te_first=True, native=NativePreemption())
        result = simulate(Sketch(run=50), te(1, 10), behaviour=native)
        assert starts(result)[1] == 4


def test_each_run_holds_its_nodes_for_the_start_besides_its_work_however_fast_the_node() -> None:
    # The first job does 10 s of work on a node on which it is half as fast, and 3 s are its start and end.
    jobs = workload([Sketch(run=10), Sketch(at=1, run=5)])
    nodes = replace(jobs.machines, types=("k80",), type_of=np.zeros(1, dtype=np.intp))
    nodes = replace(nodes, resources=(*nodes.resources, "gpu:k80"), total=nodes.total[:, [0, 1, 2, 2]])
    demand = np.hstack([jobs.demand, np.zeros((2, 1), dtype=np.int64)])
    typed = replace(jobs, machines=nodes, demand=demand, speed=np.array([[0.5], [1.0]]))
    result = Simulation(typed, replace(FIFO, start_s=3)).run()
    assert (starts(result), ends(result)) == ([0, 23], [23, 31])


class TestBackfill:
    """A job may start early if, by the time limits, it does not delay the first one."""

    def test_a_short_one_goes_first_and_a_long_one_does_not(self) -> None:
        # The first one, of 8 GPUs, will start at 100 by the limit of the running job.
        running, first = Sketch(run=100, gpus=4, limit=100), Sketch(at=1, run=10, limit=10)
        short = Sketch(at=2, run=90, gpus=4, limit=98)
        assert starts(simulate(running, first, short, behaviour=EASY)) == [0, 100, 2]
        long = replace(short, limit=99)  # until 101
        assert starts(simulate(running, first, long, behaviour=EASY)) == [0, 100, 110]

    def test_a_long_one_goes_first_where_the_first_one_does_not_need_the_node(self) -> None:
        # Two nodes: n1 is free at 10, n2 at 1000; the first one wants a whole node, and will get n1.
        jobs = (
            Sketch(run=10, gpus=4, limit=10),
            Sketch(run=1000, gpus=6, limit=1000),
            Sketch(at=1, run=10, limit=10),
            Sketch(at=2, run=500, gpus=2, limit=500),
        )
        placed = replace(EASY, placement=NodeChoice.LEAST_LOADED)  # one on each node
        assert starts(simulate(*jobs, nodes=2, behaviour=placed)) == [0, 0, 10, 2]

    def test_two_that_fit_each_alone_into_what_is_spare_do_not_both_start(self) -> None:
        jobs = (
            Sketch(run=100, gpus=2, limit=100),
            Sketch(at=0, run=100, gpus=2, limit=100),
            Sketch(at=1, run=10, gpus=5, limit=10),
            Sketch(at=2, run=500, gpus=2, limit=500),
            Sketch(at=3, run=500, gpus=2, limit=500),
        )
        # 4 of 8 are held; the first one wants 5, and gets them at 100. 3 are spare then: one of the two may start.
        assert starts(simulate(*jobs, behaviour=EASY)) == [0, 0, 100, 2, 110]

    def test_a_job_without_a_limit_is_never_sure_to_be_gone(self) -> None:
        running, first = Sketch(run=100, gpus=4), Sketch(at=1, run=10)
        assert starts(simulate(running, first, Sketch(at=2, run=1, gpus=4, limit=1), behaviour=EASY)) == [0, 100, 2]

    def test_a_job_that_ends_before_its_limit_lets_the_first_one_start_sooner(self) -> None:
        running, first = Sketch(run=50, gpus=4, limit=100), Sketch(at=1, run=10, limit=10)
        assert starts(simulate(running, first, behaviour=EASY)) == [0, 50]


class TestPlacement:
    """Which node a job gets: n1 has 4 of 8 GPUs free, n2 all."""

    @pytest.mark.parametrize(
        ("placement", "third"), [(NodeChoice.FIRST_FIT, 1), (NodeChoice.BEST_FIT, 1), (NodeChoice.LEAST_LOADED, 100)]
    )
    def test_a_whole_node_is_left_or_not(self, placement: NodeChoice, third: float) -> None:
        # The second one, of 2 GPUs, takes n1 or n2; the third wants a whole node.
        jobs = (Sketch(run=100, gpus=4), Sketch(at=0.5, run=100, gpus=2), Sketch(at=1, run=10))
        assert starts(simulate(*jobs, nodes=2, behaviour=replace(FIFO, placement=placement)))[2] == third


class TestNative:
    """Slurm's own preemption, as it was measured."""

    def native(self, **more: object) -> Behaviour:
        return replace(TE_FIRST, native=NativePreemption(**more))  # type: ignore[arg-type]

    def test_the_first_that_started_goes_and_loses_its_work(self) -> None:
        jobs = (Sketch(run=100, gpus=4, saves=False), Sketch(at=10, run=100, gpus=4), te(20, 5, gpus=4))
        result = simulate(*jobs, behaviour=self.native())
        assert preemptions(result) == [(0, 2, 20, 20, 25)]
        assert ends(result) == [125, 110, 25]
        assert result.preemptions.lost_node_s.tolist() == [20]

    def test_the_last_that_started_goes_where_that_is_set(self) -> None:
        jobs = (Sketch(run=100, gpus=4), Sketch(at=10, run=100, gpus=4), te(20, 5, gpus=4))
        assert preemptions(simulate(*jobs, behaviour=self.native(youngest_first=True)))[0][0] == 1

    def test_no_job_leaves_when_its_resources_are_not_needed(self) -> None:
        jobs = (*(Sketch(run=100, gpus=2) for _ in range(4)), te(20, 5, gpus=4))
        assert [one[0] for one in preemptions(simulate(*jobs, behaviour=self.native()))] == [0, 1]

    def test_a_job_without_a_notice_works_on_in_its_grace_period_and_kill_wait_comes_on_top(self) -> None:
        behaviour = replace(self.native(grace_s=30), kill_wait_s=10)
        result = simulate(Sketch(run=100, yields=11), te(20, 5), behaviour=behaviour)
        assert preemptions(result) == [(0, 1, 20, 60, 65)]
        assert ends(result) == [165, 65]

    @pytest.mark.parametrize(
        ("tells", "grace", "yields", "left", "ended"),
        [
            (True, 5, 15, 35, 120),  # it saves within its grace period and KillWait
            (True, 5, 16, 35, 140),  # it is killed before it has
            (False, 0, 10, 30, 115),  # SIGTERM is what it hears of it
            (False, 0, 11, 30, 135),
            (False, 5, 10, 35, 115),  # it works until then, and for 5 s more than without a grace period
            (False, 5, 11, 35, 140),
        ],
    )
    def test_what_was_done_counts_if_it_is_saved_before_the_job_is_killed(
        self, *, tells: bool, grace: float, yields: float, left: float, ended: float
    ) -> None:
        behaviour = replace(self.native(grace_s=grace, tells_job=tells), kill_wait_s=10)
        result = simulate(Sketch(run=100, yields=yields), te(20, 5), behaviour=behaviour)
        assert preemptions(result) == [(0, 1, 20, left, left + 5)]
        assert ends(result) == [ended, left + 5]

    def test_one_that_fails_in_its_grace_period_before_it_hears_of_its_end_has_saved_nothing(self) -> None:
        run = Simulation(workload([Sketch(run=100), te(20, 5)]), replace(self.native(grace_s=30), kill_wait_s=10))
        run.go_on(25)
        run.slurm.fail(0)
        assert run.slurm.saved_s[0] == 0.0

    def test_a_job_that_would_have_ended_anyway_does(self) -> None:
        result = simulate(Sketch(run=40), te(20, 5), behaviour=self.native(grace_s=30))
        assert ends(result) == [40, 45]
        assert result.preempted.tolist() == [0, 0]

    def test_a_notified_job_saves_and_leaves(self) -> None:
        result = simulate(Sketch(run=100, yields=3), te(20, 5), behaviour=self.native(grace_s=30, tells_job=True))
        assert preemptions(result) == [(0, 1, 20, 23, 28)]
        assert ends(result) == [108, 28]  # 80 s of work were left


class TestNodes:
    """A node goes and comes back."""

    def test_its_jobs_go_back_to_the_queue_and_lose_their_work(self) -> None:
        result = simulate(Sketch(run=100), behaviour=FIFO, outages=[Outage(node=0, from_s=30, to_s=50)])
        assert (starts(result), ends(result)) == ([0], [150])
        assert result.lost_node_s.tolist() == [30]

    def test_no_job_starts_on_it_meanwhile(self) -> None:
        result = simulate(Sketch(at=40, run=10), behaviour=FIFO, outages=[Outage(node=0, from_s=30, to_s=50)])
        assert starts(result) == [50]

    def test_a_periodic_checkpoint_is_kept(self) -> None:
        job = Sketch(run=100, checkpoint=20, restart=5)
        result = simulate(job, behaviour=FIFO, outages=[Outage(node=0, from_s=30, to_s=50)])
        # 20 s are kept; from 50 on: 5 s to restart, 80 s of work.
        assert ends(result) == [135]

    def test_what_a_start_takes_is_no_work_and_is_taken_again_by_the_next_run(self) -> None:
        job, site = Sketch(run=100, checkpoint=20, restart=5), replace(FIFO, start_s=11)
        result = simulate(job, behaviour=site, outages=[Outage(node=0, from_s=30, to_s=50)])
        # After 19 s of work nothing is kept; from 50 on: 11 s to start, 5 s to restart, 100 s of work.
        assert ends(result) == [166]


class TestRequeuedTo:
    """Where a requeued job waits: behind it came two others, of a whole node each."""

    @pytest.mark.parametrize(
        ("to", "order"), [(RequeuedTo.HEAD, [0, 1, 2]), (RequeuedTo.PLACE, [0, 1, 2]), (RequeuedTo.TAIL, [1, 2, 0])]
    )
    def test_requeued_job_has_its_configured_place(self, to: RequeuedTo, order: list[int]) -> None:
        jobs = (Sketch(run=100), Sketch(at=1, run=100), Sketch(at=2, run=100))
        result = simulate(*jobs, behaviour=replace(FIFO, requeued_to=to), outages=[Outage(node=0, from_s=30, to_s=40)])
        assert np.argsort(result.end_s).tolist() == order

    @pytest.mark.parametrize(("to", "ended"), [(RequeuedTo.HEAD, [100, 120, 110]), (RequeuedTo.PLACE, [100, 110, 180])])
    def test_the_head_is_ahead_of_jobs_that_were_submitted_earlier(self, to: RequeuedTo, ended: list[float]) -> None:
        # On n2, the third one was backfilled while the second one, of two nodes, waits. n2 is gone from 30 to 40; then
        # the third one would delay the second, which could start at 100.
        jobs = (Sketch(run=100, limit=100), Sketch(at=1, run=10, nodes=2, limit=10), Sketch(at=2, run=70, limit=70))
        outage = [Outage(node=1, from_s=30, to_s=40)]
        result = simulate(*jobs, nodes=2, behaviour=replace(EASY, requeued_to=to), outages=outage)
        assert ends(result) == ended

    def test_it_may_not_start_before_the_requeue_delay_is_over(self) -> None:
        behaviour = replace(FIFO, requeue_delay_s=25)
        result = simulate(Sketch(run=100), behaviour=behaviour, outages=[Outage(node=0, from_s=30, to_s=31)])
        assert ends(result) == [155]


class TestHoldingLoad:
    """Jobs are submitted whenever what runs and waits is below the load."""

    def test_the_next_comes_when_one_ends(self) -> None:
        # Each is half a node: at load 1.0 two are outstanding; at 1.5, three.
        jobs = workload([Sketch(run=10 * (place + 1), gpus=4) for place in range(5)])
        assert holding_load(jobs, 1.0).submit_s.tolist() == [0, 0, 10, 20, 40]
        assert holding_load(jobs, 1.5).submit_s.tolist() == [0, 0, 0, 10, 20]

    def test_the_tightest_resource_counts(self) -> None:
        machines = SimulatedNodes.alike(1, cpus=8, mem_mib=80, gpus=8)
        wants = [[1, 80, 1], [1, 1, 1]]
        jobs = Workload.of("two", machines, submit_s=[0, 0], run_s=[10, 10], demand=wants, te=False)
        assert holding_load(jobs, 1.0).submit_s.tolist() == [0, 10]


class TestWorkload:
    """What cannot be run is reported with the job and the reason."""

    @pytest.mark.parametrize(
        ("job", "says"),
        [
            (Sketch(run=0), "job 2: run_s must be above 0"),
            (Sketch(run=10, limit=9), "job 2: limit_s is below run_s"),
            (Sketch(run=10, gpus=9), "job 2: it fits on no node"),
            (Sketch(run=10, nodes=2), "job 2: it fits on no node"),
            (Sketch(run=10, gpus=0), "job 2: it asks for nothing"),
            (Sketch(run=10, grace=-1), "job 2: grace_s must be at least 0"),
            (Sketch(run=float("nan")), "job 2: run_s is not a number"),
            (Sketch(run=10, only=1), "job 2: constraint is not a row of allowed"),
        ],
    )
    def test_the_first_job_that_is_wrong_is_named(self, job: Sketch, says: str) -> None:
        with pytest.raises(WorkloadError, match=f"sketch: {says}"):
            workload([Sketch(run=1), job])

    def test_jobs_are_sorted_by_submission(self) -> None:
        made = workload([Sketch(at=5, run=1), Sketch(at=2, run=3)])
        assert (made.submit_s.tolist(), made.run_s.tolist()) == ([2, 5], [3, 1])


def test_progress_is_reported() -> None:
    told: list[tuple[int, int]] = []
    jobs = workload([Sketch(run=1, gpus=1) for _ in range(2500)])
    Simulation(jobs, FIFO, progress=lambda done, count: told.append((done, count))).run()
    assert [count for _, count in told] == [2500, 2500]
    assert told[0][0] < told[1][0]
