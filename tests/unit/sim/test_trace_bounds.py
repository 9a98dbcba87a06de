"""Traces with absurd amounts, and with jobs of another time: neither makes the simulated cluster absurd."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_sim import traces, workloads
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError

from tests.unit.sim.trace_examples import OPENB, PHILLY, SACCT, SWF, written


class TestAmountsBeyondAllBounds:
    """One absurd number is no traceback, and does not take the memory: its job is left out and counted."""

    #: more than any cluster has; and on nodes of 32 CPUs more nodes than Slurm allows
    @pytest.mark.parametrize("cpus", [10**12, 10**9, 9007199254740992])
    def test_job_of_more_cpus_than_a_cluster_can_have(self, tmp_path: Path, cpus: int) -> None:
        made = workloads.read(written(tmp_path, SACCT.replace("|1|8|64G|", f"|1|{cpus}|64G|")), seed=1)
        assert made.run_s.tolist() == [60, 10]
        assert made.notes[0].count("1 (") == 3  # a step, one that never ran, and it

    def test_job_of_more_gpus_than_a_cluster_can_have(self, tmp_path: Path) -> None:
        made = workloads.read(written(tmp_path, SACCT.replace("gres/gpu=2", "gres/gpu=9007199254740992")), seed=1)
        assert made.run_s.tolist() == [60, 10]

    def test_on_nodes_that_are_given_it_does_not_fit(self, tmp_path: Path) -> None:
        recorded = traces.read(written(tmp_path, SACCT.replace("|1|8|64G|", f"|1|{10**9}|64G|")))
        machines = SimulatedNodes.alike(4, cpus=32, mem_mib=2**20, gpus=8)
        assert workloads.filled(recorded, {}, seed=1, machines=machines).workload.left_out == 1

    @pytest.mark.parametrize("cpus", ["1e17", "1e300"])
    def test_swf(self, tmp_path: Path, cpus: str) -> None:
        line = f"9 0 5 100 4 -1 -1 {cpus} 600 1e18 1 7 1 -1 1 1 -1 -1\n"
        found = traces.read(written(tmp_path, SWF + line))
        assert found.cpus.tolist() == [8, 2]
        # Of as many CPUs as a cluster can have, memory beyond all bounds is not known.
        found = traces.read(written(tmp_path, SWF + line.replace(cpus, "8")))
        assert found.mem_mib.tolist() == [8, -1, -1]

    @pytest.mark.parametrize(("old", "new"), [("p0,12000,", "p0,1e300,"), ("p0,12000,", "p0,1e20,")])
    def test_openb(self, tmp_path: Path, old: str, new: str) -> None:
        assert traces.read(written(tmp_path, OPENB.replace(old, new))).run_s.tolist() == [60]

    def test_openb_memory_beyond_all_bounds_is_not_known(self, tmp_path: Path) -> None:
        assert traces.read(written(tmp_path, OPENB.replace(",16384,", ",1e300,"))).mem_mib.tolist() == [-1, 2048]

    @pytest.mark.parametrize("duration", ["1e308", "315360001"])
    def test_run_of_more_than_ten_years(self, tmp_path: Path, duration: str) -> None:
        found = traces.read(written(tmp_path, PHILLY.replace(",3600.5,", f",{duration},")))
        assert (found.run_s.tolist(), found.left_out) == ([120], {"it ran for more than ten years": 1})

    def test_load_that_takes_more_nodes_than_slurm_allows_is_said(self, tmp_path: Path) -> None:
        path = written(tmp_path, PHILLY + 9 * "2017-10-03 00:01:00,3600,524288,0,vc1\n")
        with pytest.raises(WorkloadError, match="takes more than 65536 nodes; workload"):
            workloads.read(path, seed=1)


class TestJobsOfAnotherTime:
    """The nodes that are made for a load are for that of the jobs that came together."""

    @staticmethod
    def _of_ten_cpus(tmp_path: Path, *submitted: float) -> Workload:
        """Jobs of 10 s on one CPU each that come at these times, on nodes of one CPU for a load of 0.5."""
        lines = [f"{n} {at} 0 10 1 -1 -1 1 -1 -1 1 1 1 -1 1 1 -1 -1" for n, at in enumerate(submitted, 1)]
        path = written(tmp_path, "\n".join(lines))
        return workloads.read(path, seed=1, load="0.5", cpus="1", mem_gib="4", gpus="0")

    @pytest.mark.parametrize("others", [(0.0,), (0.0, 10.0), (4e7,), (0.0, 4e7)])
    def test_few_jobs_of_months_before_or_after_do_not_make_the_cluster_small(
        self, tmp_path: Path, others: tuple[float, ...]
    ) -> None:
        made = self._of_ten_cpus(tmp_path, *others, *(2e7 + second for second in range(100)))
        assert len(made.machines.names) in {20, 21}
        assert len(made) == 100 + len(others)  # they run all the same
        assert f"{len(others)} job(s) came long before or after the others: the load is that of these" in made.notes

    def test_long_time_without_a_job_is_said_where_many_came_on_either_side(self, tmp_path: Path) -> None:
        halves = (*range(50), *(20_000_000 + second for second in range(50)))
        made = self._of_ten_cpus(tmp_path, *halves)
        assert len(made.machines.names) == 1
        assert any("no job came for 231 of the 231 days" in note and "workload.nodes" in note for note in made.notes)

    def test_of_jobs_that_come_all_the_time_nothing_is_said(self, tmp_path: Path) -> None:
        # Also a burst of them, such as an array, is none of the others' neighbours.
        made = self._of_ten_cpus(tmp_path, *range(0, 6000, 60), *(3000.5 for _ in range(1000)))
        assert not any("came" in note for note in made.notes)
