"""Jobs that want shards in the simulated Slurm: which GPU each gets, what it keeps, and which leave for another.

Nodes have 8 CPUs, 80 MiB and two GPUs of four shards, unless a test says otherwise; jobs want GPUs or shards alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tesched_core.model.actions import MarkLine
from tesched_core.model.resources import JobId
from tesched_core.placement.columns_of import columns_of
from tesched_core.policy import Policy, in_turn
from tesched_policies.fill import Fill
from tesched_policies.fitgpp import FitGpp
from tesched_policies.patient import Patient
from tesched_sim.engine import Outage, Simulation
from tesched_sim.observer import SimulatedObserver
from tesched_sim.result import Result
from tesched_sim.slurm import JobPhase
from tesched_sim.slurm_settings import Backfill, Behaviour, NativePreemption, NodeChoice
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError

from tests.unit.sim.examples import ends, starts

INF = float("inf")


@dataclass(frozen=True, kw_only=True)
class Wants:
    """One job."""

    gpus: int = 0
    shards: int = 0
    at: float = 0
    run: float = 100
    limit: float = INF
    te: bool = False
    grace: float = 0
    nodes: int = 1


def sharded(*jobs: Wants, nodes: int = 1, gpus: int = 2, each: int = 4, types: Sequence[int] = ()) -> Workload:
    """Return these jobs; each GPU has `each` shards. `types`: of each node, where there are two."""
    total = [[8, 80, gpus, gpus * each]] * nodes
    demand = [[0, 0, job.gpus, job.shards] for job in jobs]
    resources: tuple[str, ...] = ("cpu", "mem_mib", "gpu", "shard")
    if types:
        resources = (*resources, "gpu:a", "gpu:b")
        total = [[*one, *(gpus * (kind == of) for kind in range(2))] for one, of in zip(total, types, strict=True)]
        demand = [[*one, 0, 0] for one in demand]
    return Workload.of(
        "shards",
        SimulatedNodes(
            names=tuple(f"n{number}" for number in range(1, nodes + 1)),
            resources=resources,
            total=np.array(total, dtype=np.int64),
            types=("a", "b") if types else (),
            type_of=np.array(types, dtype=np.intp) if types else None,
        ),
        submit_s=[job.at for job in jobs],
        run_s=[job.run for job in jobs],
        limit_s=[job.limit for job in jobs],
        nodes=[job.nodes for job in jobs],
        demand=demand,
        te=[job.te for job in jobs],
        grace_s=[job.grace for job in jobs],
        speed=[[1.0, 1.0] for _ in jobs] if types else None,
    )


def run(workload: Workload, behaviour: Behaviour | None = None, policy: Policy[None] | None = None) -> Result:
    return simulation(workload, behaviour, policy).run()


def simulation(
    workload: Workload, behaviour: Behaviour | None = None, policy: Policy[None] | None = None
) -> Simulation:
    behaviour = behaviour or (Behaviour() if policy is None else Behaviour.paper(te_first=True))
    return Simulation(workload, behaviour, policies=in_turn(*(one for one in (policy,) if one is not None)))


def begun(workload: Workload, until_s: float = 0.0, behaviour: Behaviour | None = None) -> Simulation:
    """Return it as it is then."""
    found = simulation(workload, behaviour)
    found.go_on(until_s)
    return found


def _counts(each: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64) if each is None else each


def whole(free: Sequence[int]) -> list[int]:
    return list(free)[2:4]


class TestWhichGpu:
    """GPUs of which shards are taken: as on 22.05.8 and 26.05.5 (docs/discussion/gavel-on-slurm.md)."""

    def test_jobs_fill_a_gpu_before_the_next_one(self) -> None:
        free = begun(sharded(*[Wants(shards=2)] * 3)).slurm.free[0]
        assert whole(free.tolist()) == [0, 2]
        free = begun(sharded(*[Wants(shards=2)] * 2)).slurm.free[0]
        assert whole(free.tolist()) == [1, 4]

    def test_job_comes_beside_the_one_that_stayed(self) -> None:
        first = (Wants(shards=2, run=10), Wants(shards=2), Wants(shards=2, at=20), Wants(gpus=1, at=30))
        assert starts(run(sharded(*first))) == [0, 0, 20, 30]

    def test_first_gpu_with_enough_is_taken_though_a_later_one_would_be_filled(self) -> None:
        # The first has one shard left, the second two of four: three fit on neither, one on the first.
        jobs = (Wants(shards=3), Wants(shards=2), Wants(shards=1))
        assert whole(begun(sharded(*jobs)).slurm.free[0].tolist()) == [0, 2]

    def test_whole_gpu_waits_for_one_of_which_no_shard_is_held(self) -> None:
        jobs = (Wants(shards=1, run=50), Wants(gpus=1, run=30), Wants(gpus=1))
        assert starts(run(sharded(*jobs))) == [0, 0, 30]

    def test_shards_of_a_gpu_that_is_held_whole_are_not_free(self) -> None:
        assert starts(run(sharded(Wants(gpus=2, run=40), Wants(shards=1)))) == [0, 40]

    def test_shards_of_a_job_are_of_one_gpu(self) -> None:
        # Four are free in all, two of each GPU.
        jobs = (Wants(shards=2, run=70), Wants(shards=3, run=50), Wants(shards=3))
        result = run(sharded(*jobs))
        assert starts(result) == [0, 0, 50]

    def test_job_of_two_nodes_has_its_shards_on_each(self) -> None:
        jobs = (Wants(shards=4, nodes=2), Wants(gpus=2, run=10))
        assert starts(run(sharded(*jobs, nodes=2))) == [0, 100]
        jobs = (Wants(shards=4, nodes=2), Wants(gpus=1))
        assert starts(run(sharded(*jobs, nodes=2))) == [0, 0]

    def test_all_is_free_when_all_have_ended(self) -> None:
        found = simulation(sharded(*[Wants(shards=3)] * 5, *[Wants(gpus=1)] * 3, nodes=2))
        found.run()
        assert found.slurm.free.tolist() == [[8, 80, 2, 4]] * 2

    def test_node_that_dies_gives_them_back(self) -> None:
        workload = sharded(Wants(shards=1), Wants(gpus=1))
        found = Simulation(workload, Behaviour(), outages=[Outage(node=0, from_s=10, to_s=20)])
        found.go_on(15)
        assert whole(found.slurm.free[0].tolist()) == [2, 4]
        found.go_on(25)
        assert whole(found.slurm.free[0].tolist()) == [0, 3]

    def test_nodes_with_types_count_each_gpu_under_its_type(self) -> None:
        free = begun(sharded(*[Wants(shards=3)] * 3, nodes=2, types=(0, 1))).slurm.free
        assert free[:, 2:].tolist() == [[0, 1, 0, 0], [1, 4, 0, 1]]

    @pytest.mark.parametrize("choice", list(NodeChoice))
    def test_any_choice_of_nodes_finds_one_that_fits(self, choice: NodeChoice) -> None:
        jobs = [Wants(shards=3)] * 4 + [Wants(shards=1)] * 4
        assert starts(run(sharded(*jobs, nodes=2), Behaviour(placement=choice))) == [0] * 8


class TestRequests:
    """What no Slurm starts."""

    def test_more_shards_than_a_gpu_has_fit_nowhere(self) -> None:
        with pytest.raises(WorkloadError, match="job 1: it fits on no node"):
            sharded(Wants(shards=5))

    def test_gpus_and_shards_together_are_refused(self) -> None:
        with pytest.raises(WorkloadError, match="job 2: it wants GPUs and shards; Slurm takes one of the two"):
            sharded(Wants(gpus=1), Wants(gpus=1, shards=1))

    def test_shards_that_do_not_divide_among_the_gpus_are_refused(self) -> None:
        plain = sharded(Wants(shards=1))
        total = plain.machines.total.copy()
        total[0, 3] = 7
        with pytest.raises(WorkloadError, match="n1 has 7 shards of 2 GPUs; each GPU must have as many, such as 6"):
            replace(plain, machines=replace(plain.machines, total=total)).check()


class TestBackfill:
    """EASY: what starts behind the first one must not delay it."""

    EASY = Behaviour(backfill=Backfill.EASY)

    def test_shard_that_would_keep_the_first_ones_gpu_waits(self) -> None:
        # The first in the queue gets both GPUs at 100. A shard that ends later would keep one of them.
        jobs = (Wants(gpus=1, limit=100), Wants(gpus=2, at=1), Wants(shards=1, at=2, limit=500))
        assert starts(run(sharded(*jobs), self.EASY)) == [0, 100, 200]

    def test_shard_that_ends_before_starts_at_once(self) -> None:
        jobs = (Wants(gpus=1, limit=100), Wants(gpus=2, at=1), Wants(shards=1, at=2, run=50, limit=90))
        assert starts(run(sharded(*jobs), self.EASY)) == [0, 100, 2]

    def test_first_one_is_expected_when_the_last_shard_of_a_gpu_is_free(self) -> None:
        # One GPU of four shards: they end at 40 and 90, and so the job that ends at 80 delays no other.
        jobs = (
            Wants(shards=1, run=40, limit=40),
            Wants(shards=2, run=90, limit=90),
            Wants(gpus=1, at=1),
            Wants(shards=1, at=2, run=78, limit=78),
            Wants(shards=1, at=2, run=99, limit=99),
        )
        assert starts(run(sharded(*jobs, gpus=1), self.EASY)) == [0, 0, 90, 2, 190]

    def test_shards_beside_those_that_the_first_one_will_have_start(self) -> None:
        # At 100 the first one has three of the first GPU; two of the other one are free all the time.
        jobs = (
            Wants(shards=4, limit=100),
            Wants(shards=2, limit=500, run=500),
            Wants(shards=3, at=1),
            Wants(shards=2, at=2, limit=900),
        )
        assert starts(run(sharded(*jobs), self.EASY)) == [0, 0, 100, 2]


class TestReserved:
    """Resources that are kept for a job."""

    def test_shards_do_not_take_the_gpu_that_is_kept(self) -> None:
        found = begun(sharded(Wants(gpus=1), Wants(gpus=1, at=1), Wants(shards=1, at=1)))
        found.scheduler.keep(1, (0,))
        assert whole(found.scheduler._free()[0].tolist()) == [0, 0]
        found.scheduler.let_go(1)
        assert whole(found.scheduler._free()[0].tolist()) == [1, 4]

    def test_kept_shards_leave_the_rest_of_their_gpu(self) -> None:
        found = begun(sharded(Wants(gpus=1), Wants(shards=3, at=1)))
        found.scheduler.keep(1, (0,))
        assert whole(found.scheduler._free()[0].tolist()) == [0, 1]

    def test_job_that_starts_beside_takes_no_gpu_that_is_kept(self) -> None:
        # The first GPU is kept whole for the third job; one shard of the second one is in use.
        jobs = (Wants(shards=4, run=5), Wants(shards=1), Wants(gpus=1, at=1), Wants(shards=1, at=20))
        found = begun(sharded(*jobs), 6, Behaviour(requeue_delay_s=99))
        found.scheduler.let_go(2)
        found.slurm.leaves(2)
        found.scheduler.keep(2, (0,))
        found.go_on(25)
        assert found.slurm.shared is not None
        assert found.slurm.shared.held_by(3, 0) == ((1, 1),)

    def test_where_the_job_does_not_fit_yet_no_gpu_is_given(self) -> None:
        found = begun(sharded(Wants(shards=1), Wants(gpus=2, at=1)))
        found.scheduler.keep(1, (0,))
        assert whole(found.scheduler._free()[0].tolist()) == [0, 0]


class TestPreemption:
    """Jobs that leave for another, by Slurm and by tesched."""

    @pytest.mark.parametrize("policy", [FitGpp(), Patient(patience_s=0)])
    def test_shard_jobs_leave_for_a_whole_gpu(self, policy: Policy[None]) -> None:
        jobs = (Wants(shards=4, run=900), Wants(shards=4, run=900), Wants(gpus=1, te=True, at=10, run=20))
        result = run(sharded(*jobs), policy=policy)
        assert starts(result)[2] == 10
        assert sorted(result.preempted.tolist()) == [0, 0, 1]

    @pytest.mark.parametrize("policy", [FitGpp(), Patient(patience_s=0)])
    def test_whole_gpu_leaves_for_a_shard(self, policy: Policy[None]) -> None:
        jobs = (Wants(gpus=1, run=900), Wants(gpus=1, run=900), Wants(shards=2, te=True, at=10, run=20))
        result = run(sharded(*jobs), policy=policy)
        assert starts(result)[2] == 10
        assert sorted(result.preempted.tolist()) == [0, 0, 1]

    def test_no_job_leaves_where_a_gpu_has_enough_left(self) -> None:
        jobs = (Wants(gpus=1, run=900), Wants(shards=2, run=900), Wants(shards=2, te=True, at=10, run=20))
        result = run(sharded(*jobs), policy=FitGpp())
        assert (starts(result)[2], result.preempted.sum()) == (10, 0)

    def test_native_preemption_ends_all_on_one_gpu(self) -> None:
        jobs = (*[Wants(shards=2, run=900)] * 4, Wants(gpus=1, te=True, at=10, run=20))
        behaviour = Behaviour(native=NativePreemption(), te_first=True)
        result = run(sharded(*jobs), behaviour)
        assert starts(result)[4] == 10
        assert result.preempted.tolist() == [1, 1, 0, 0, 0]

    def test_native_preemption_frees_shards_of_one_gpu(self) -> None:
        # One of each GPU's two goes first by age; the third one's end makes a GPU's four free.
        jobs = (*[Wants(shards=2, run=900)] * 4, Wants(shards=4, te=True, at=10, run=20))
        result = run(sharded(*jobs), Behaviour(native=NativePreemption(), te_first=True))
        assert starts(result)[4] == 10
        assert result.preempted.tolist() == [1, 1, 0, 0, 0]

    def test_marked_jobs_leave_in_the_order_of_their_marks_until_it_fits(self) -> None:
        found = begun(sharded(*[Wants(shards=2, run=900)] * 4, Wants(gpus=1, te=True, at=10)), 5)
        for row, order in ((0, 3), (1, 2), (2, 4), (3, 1)):
            found.slurm.marks[row] = MarkLine(
                job_id=JobId(row + 1), order=order, grace_s=0, max_restarts=9, least_run_s=0, after=0, until=10**9
            )
        found.go_on(11)
        # By order 4 and 2 go first, which are of two GPUs, then 1: the first GPU is free, and only its two have to go.
        assert found.slurm.where[4] == (0,)
        assert [found.slurm.restarts[row] for row in range(4)] == [1, 1, 0, 1]


class TestWhatTheDaemonSees:
    """The columns that a policy weighs are those that the core reads from the same jobs and nodes."""

    JOBS = (Wants(shards=3), Wants(shards=2), Wants(gpus=1), Wants(shards=1, te=True, at=3), Wants(gpus=2, at=3))

    @pytest.mark.parametrize(("gpus", "nodes"), [(2, 2), (1, 4), (3, 2)])
    @pytest.mark.parametrize("types", [False, True])
    def test_they_are_the_cores(self, gpus: int, nodes: int, types: bool) -> None:
        kinds = tuple(row % 2 for row in range(nodes)) if types else ()
        jobs = self.JOBS if gpus > 1 else self.JOBS[:-1]
        found = begun(sharded(*jobs, nodes=nodes, gpus=gpus, types=kinds), 5)
        found.slurm.suspend(0)
        seen = SimulatedObserver(found.slurm).observe()
        assert seen.columns is not None
        core, ours = columns_of(seen), seen.columns
        place = [core.capacity.resources.index(name) for name in ours.capacity.resources]
        for name in ("total", "free"):
            assert np.array_equal(getattr(ours.capacity, name), getattr(core.capacity, name)[:, place]), name
        assert np.array_equal(ours.running.frees, core.running.frees[:, place])
        assert np.array_equal(ours.running.size, core.running.size)
        assert np.array_equal(_counts(ours.capacity.shards_each), _counts(core.capacity.shards_each))
        assert sorted(ours.ends.frees.tolist()) == sorted(one.tolist() for one in core.ends.frees[:, place])

    def test_a_job_says_what_it_holds_and_wants(self) -> None:
        found = begun(sharded(Wants(shards=3), Wants(shards=2, nodes=2, at=1), nodes=2), 0.5)
        found.go_on(2)
        jobs = SimulatedObserver(found.slurm).observe().jobs
        assert [dict(share.tres.gres) for job in jobs.values() for share in job.allocation] == [
            {"shard": 3},
            {"shard": 2},
            {"shard": 2},
        ]
        assert [job.request.gres_per_node for job in jobs.values()] == [(("shard", 3),), (("shard", 2),)]

    def test_all_jobs_end_beside_fill(self) -> None:
        jobs = [Wants(gpus=2, run=900), Wants(gpus=2, at=1, run=10), *[Wants(shards=1, at=2, run=50)] * 3]
        workload = sharded(*jobs, nodes=2)
        entries = in_turn(FitGpp(), Fill())
        result = Simulation(workload, Behaviour.paper(te_first=True), policies=entries).run()
        assert result.finished.all()


def test_use_counts_shards_of_whole_gpus_and_gpus_of_shards() -> None:
    result = run(sharded(Wants(shards=3), Wants(gpus=1)))
    assert result.use.held[0].tolist() == [0, 0, 2, 7]


def test_suspended_job_keeps_its_shards() -> None:
    found = begun(sharded(Wants(shards=3), Wants(gpus=2, at=1)))
    found.slurm.suspend(0)
    assert whole(found.slurm.free[0].tolist()) == [1, 4]
    found.go_on(50)
    assert found.slurm.state[1] is JobPhase.PENDING


def test_workload_without_shards_is_counted_as_before() -> None:
    assert ends(run(sharded(Wants(gpus=1), Wants(gpus=1), Wants(gpus=1)))) == [100, 100, 200]
