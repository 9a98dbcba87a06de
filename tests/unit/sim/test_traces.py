"""Trace readers: what each takes, what it leaves out, and how it names what is malformed."""

from __future__ import annotations

import gzip
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tesched_sim import traces, workloads
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError

from tests.unit.sim.trace_examples import CHRONUS, GAVEL, OPENB, PHILLY, SACCT, SWF, written


class TestSwf:
    """The Standard Workload Format."""

    def test_recorded_columns_are_read_and_others_are_missing(self, tmp_path: Path) -> None:
        found = traces.read(written(tmp_path, SWF))
        assert found.submit_s.tolist() == [0, 10]
        assert found.run_s.tolist() == [100, 50]
        assert found.cpus.tolist() == [8, 2]  # wanted, else used
        assert found.mem_mib.tolist() == [8, -1]
        assert found.limit_s[0] == 600
        assert np.isnan(found.limit_s[1])
        assert found.users == ("user7", "user8")
        assert found.job_names == ("", "program-b")
        assert (found.accounts, found.partitions) == (("group1", "group1"), ("partition1", ""))
        assert found.left_out == {"never ran": 1, "no processors are recorded": 1}

    def test_a_checkpointed_job_counts_once_and_one_that_was_cancelled_counts(self, tmp_path: Path) -> None:
        rest = "-1 -1 4 3600 -1 {} 3 -1 -1 -1 -1 -1 -1"
        # All of it, and its parts: to be continued, the last one of a job that completed, and of one that failed.
        lines = ("1 0 10 1000 4 " + rest.format(1), "1 0 10 400 4 " + rest.format(2), "1 -1 50 600 4 " + rest.format(3))
        failed = ("2 5 10 900 4 " + rest.format(0), "2 5 10 900 4 " + rest.format(4))
        others = ("3 6 10 30 4 " + rest.format(5), "4 7 10 700 4 " + rest.format(-1))
        found = traces.read(written(tmp_path, "\n".join((*lines, *failed, *others))))
        assert found.run_s.tolist() == [1000, 900, 30, 700]
        assert found.left_out == {"parts of checkpointed jobs": 3}

    def test_a_packed_file_is_unpacked(self, tmp_path: Path) -> None:
        path = tmp_path / "trace.swf.gz"
        path.write_bytes(gzip.compress(SWF.encode()))
        assert len(traces.read(path).run_s) == 2

    def test_fields_that_a_log_appends_are_passed_over(self, tmp_path: Path) -> None:
        appended = "".join(f"{line} 0.5 queue-a\n" if line[0] != ";" else f"{line}\n" for line in SWF.splitlines())
        found, plain = traces.read(written(tmp_path, appended)), traces.read(written(tmp_path, SWF))
        assert found.submit_s.tolist() == plain.submit_s.tolist()
        assert (found.partitions, found.left_out) == (plain.partitions, plain.left_out)

    @pytest.mark.parametrize(
        ("line", "says"),
        [("1 2 3", "it has 3 fields; a job of SWF has 18"), (" ".join(["x"] * 18), "a field is not a number")],
    )
    def test_a_malformed_line_is_named(self, tmp_path: Path, line: str, says: str) -> None:
        path = written(tmp_path, SWF + line + "\n")
        with pytest.raises(WorkloadError, match=f"{path}:7: {says}"):
            traces.read(path)


class TestGpuClusters:
    """Philly and openb."""

    def test_philly_trace_is_read(self, tmp_path: Path) -> None:
        found = traces.read(written(tmp_path, PHILLY))
        assert (found.submit_s - found.submit_s[0]).tolist() == [0, 60]
        assert (found.run_s.tolist(), found.gpus.tolist()) == ([120, 3600.5], [1, 16])
        assert found.users == ("", "")  # virtual clusters are groups of users
        assert found.te.tolist() == [-1, -1]

    @pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
    def test_times_of_philly_are_as_far_apart_on_each_host(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str
    ) -> None:
        # In New York the clock was set back in this night.
        text = PHILLY.replace("10-03 00:00", "11-05 00:00").replace("10-03 00:01", "11-05 06:00")
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            found = traces.read(written(tmp_path, text))
        finally:
            monkeypatch.undo()
            time.tzset()
        assert (found.submit_s - found.submit_s[0]).tolist() == [0, 6 * 3600]

    def test_a_zone_that_stands_in_a_time_of_philly_s_counts(self, tmp_path: Path) -> None:
        found = traces.read(written(tmp_path, PHILLY.replace("00:01:00,", "00:01:00-01:00,")))
        assert (found.submit_s - found.submit_s[0]).tolist() == [0, 3660]

    def test_openb_trace_is_read(self, tmp_path: Path) -> None:
        found = traces.read(written(tmp_path, OPENB))
        assert found.run_s.tolist() == [95, 60]  # from when it was scheduled, where that is recorded
        assert found.waited_s.tolist() == [5, 0]
        assert found.partitions == ("LS", "BE")
        assert found.cpus.tolist() == [12, 2]
        assert (found.gpus.tolist(), found.te.tolist()) == ([1, 0], [1, 0])
        assert found.left_out == {"its end is not recorded": 1}

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ("yesterday,1,1,1,vc", "timestamp is 'yesterday'; it must be a time such as"),
            ("2017-10-03 00:00:00,long,1,1,vc", "duration is 'long'; it must be a number"),
            ("2017-10-03 00:00:00,1,0.5,1,vc", "num_gpus is '0.5'; it must be a whole number"),
            ("2017-10-03 00:00:00,1", "it has 2 fields; the first line has 5"),
        ],
    )
    def test_a_malformed_line_is_named(self, tmp_path: Path, line: str, says: str) -> None:
        path = written(tmp_path, PHILLY + line + "\n")
        with pytest.raises(WorkloadError, match=f"{path}:4: {says}"):
            traces.read(path)

    def test_chronus_trace_is_read(self, tmp_path: Path) -> None:
        found = traces.read(written(tmp_path, CHRONUS))
        assert (found.submit_s.tolist(), found.run_s.tolist()) == ([600, 720], [5760, 30])  # from minutes
        assert (found.gpus.tolist(), found.users) == ([1, 4], ("vc1", "vc2"))
        assert found.te.tolist() == [-1, 0]  # a job with a deadline may be either
        with pytest.raises(WorkloadError, match="trace:3: best_effort is 'yes'; it must be 0 or 1"):
            traces.read(written(tmp_path, CHRONUS.replace(",1,best", ",yes,best")))

    def test_gavel_has_no_times(self, tmp_path: Path) -> None:
        found = traces.read(written(tmp_path, GAVEL))
        assert (found.run_s.tolist(), found.gpus.tolist(), found.has_times) == ([600, 7944.5], [1, 16], False)


class TestDrawn:
    """From a distribution without times, jobs are drawn, and come at random."""

    def made(self, folder: Path, **settings: str) -> Workload:
        """Return a workload of 4,000 draws."""
        return workloads.read(written(folder, GAVEL), seed=1, **{"jobs": "4000", "nodes": "10", **settings})

    def test_jobs_are_drawn_from_the_pairs(self, tmp_path: Path) -> None:
        made = self.made(tmp_path)
        assert set(zip(made.run_s.tolist(), made.nodes.tolist(), strict=True)) == {(600, 1), (7944.5, 2)}
        assert (made.nodes == 2).mean() == pytest.approx(0.5, abs=0.04)  # five standard errors

    def test_they_offer_the_load(self, tmp_path: Path) -> None:
        made = self.made(tmp_path, load="0.5")
        gpu_s = float((made.demand[:, 2] * made.nodes * made.run_s).sum())
        # The last submission is close to the end of the span.
        assert gpu_s / (float(made.submit_s[-1]) * 80) == pytest.approx(0.5, rel=0.01)

    def test_the_cluster_must_be_given(self, tmp_path: Path) -> None:
        with pytest.raises(WorkloadError, match=r"it has no submission times, so workload\.nodes must be set"):
            self.made(tmp_path, nodes="0")


class TestSacct:
    """A site's own history."""

    def test_recorded_columns_are_read(self, tmp_path: Path) -> None:
        found = traces.read(written(tmp_path, SACCT))
        assert (found.submit_s - found.submit_s[0]).tolist() == [0, 10, 30]
        assert found.run_s.tolist() == [120, 60, 10]
        assert found.waited_s.tolist() == [5, 50, 0]
        assert found.limit_s.tolist() == [3600, np.inf, np.inf]
        assert found.nodes.tolist() == [1, 2, 2]
        assert found.cpus.tolist() == [8, 16, 4]
        assert found.mem_mib.tolist() == [65536, 16 * 4096, 1000]  # in all; of each CPU; of each node
        assert found.gpus.tolist() == [2, 0, 0]
        assert found.users == ("alice", "bob", "eve")
        assert found.left_out == {"steps": 1}

    def test_a_missing_column_is_named(self, tmp_path: Path) -> None:
        path = written(tmp_path, SACCT.replace("ElapsedRaw", "Elapsed"))
        with pytest.raises(WorkloadError, match=f"{path}:1: there is no column ElapsedRaw; there are JobID, User"):
            traces.read(path)

    def test_a_name_in_any_bytes_is_a_name_and_a_carriage_return_ends_no_line(self, tmp_path: Path) -> None:
        path = tmp_path / "trace"
        head, *lines = SACCT.encode().splitlines()
        names = (b"J\xf6rg\rs", b"batch", "\u2028".encode(), b"x", b"\xff")
        named = b"\n".join([head + b"|JobName", *(line + b"|" + name for line, name in zip(lines, names, strict=True))])
        path.write_bytes(b"\xef\xbb\xbf" + named)  # as some editors begin a file
        assert traces.read(path).job_names == ("J\ufffdrg\rs", "\u2028", "\ufffd")

    def test_a_carriage_return_in_a_table_with_commas_ends_no_line_either(self, tmp_path: Path) -> None:
        path = tmp_path / "trace"
        path.write_bytes(OPENB.replace("p1,", "p\r1,").encode())
        assert len(traces.read(path).run_s) == len(traces.read(written(tmp_path, OPENB)).run_s)

    @pytest.mark.parametrize("memory", ["much", "4Gx", "1.2.3G", "...M", "-4G", "4 G"])
    def test_memory_that_is_none_is_named_with_its_line(self, tmp_path: Path, memory: str) -> None:
        path = written(tmp_path, SACCT.replace("|4Gc|", f"|{memory}|"))
        with pytest.raises(WorkloadError, match=f"{path}:4: ReqMem is '{memory}'; it must be memory such as 64G"):
            traces.read(path)
        path = written(tmp_path, SACCT.replace("mem=64G", f"mem={memory}"))
        with pytest.raises(WorkloadError, match=f"{path}:2: AllocTRES is .*; it must be amounts: cpu=8,mem=64G"):
            traces.read(path)

    @pytest.mark.parametrize("memory", ["", "?", "0", "0n", "9" * 40 + "T"])
    def test_memory_that_is_not_recorded_or_that_no_node_has_is_not_known(self, tmp_path: Path, memory: str) -> None:
        found = traces.read(written(tmp_path, SACCT.replace("|4Gc|", f"|{memory}|")))
        assert found.mem_mib.tolist() == [65536, -1, 1000]

    @pytest.mark.parametrize("gpus", ["1e30", "inf", "a", "-1", "1.5"])
    def test_an_amount_that_is_none_is_named_with_its_line(self, tmp_path: Path, gpus: str) -> None:
        path = written(tmp_path, SACCT.replace("gres/gpu=2", f"gres/gpu={gpus}"))
        with pytest.raises(WorkloadError, match=f"{path}:2: AllocTRES is .*; it must be amounts: cpu=8,gres/gpu=2"):
            traces.read(path)

    def test_gpus_that_a_site_counts_by_type_alone_are_summed(self, tmp_path: Path) -> None:
        (job, *_) = traces.read(written(tmp_path, SACCT.replace("gres/gpu=2", "gres/gpu:a100=2,gres/gpu:v100=1"))).gpus
        assert job == 3
        (job, *_) = traces.read(written(tmp_path, SACCT.replace("gres/gpu=2", "gres/gpu=2,gres/gpu:a100=2"))).gpus
        assert job == 2

    @pytest.mark.parametrize("limit", ["banana", "-5", "inf", "01:00:00"])
    def test_a_time_limit_that_is_none_is_named_with_its_line(self, tmp_path: Path, limit: str) -> None:
        path = written(tmp_path, SACCT.replace("|120|60|", f"|120|{limit}|"))
        named = f"{path}:2: TimelimitRaw is '{limit}'; it must be minutes, UNLIMITED or Partition_Limit"
        with pytest.raises(WorkloadError, match=named):
            traces.read(path)

    @pytest.mark.parametrize("minutes", ["5256001", "14400000", "4294967294", "1e12"])
    def test_a_time_limit_above_ten_years_is_none_since_any_user_may_set_one(
        self, tmp_path: Path, minutes: str
    ) -> None:
        found = traces.read(written(tmp_path, SACCT.replace("|120|60|", f"|120|{minutes}|")))
        assert found.limit_s[0] == np.inf
        ten_years = traces.read(written(tmp_path, SACCT.replace("|120|60|", "|120|5256000|")))
        assert ten_years.limit_s[0] == 5_256_000 * 60

    def test_a_number_of_cpus_beyond_all_bounds_is_named(self, tmp_path: Path) -> None:
        path = written(tmp_path, SACCT.replace("|1|8|64G|", f"|1|{10**23}|64G|"))
        with pytest.raises(WorkloadError, match=f"{path}:2: NCPUS is '{10**23}'; it must be a whole number"):
            traces.read(path)

    @pytest.mark.parametrize(
        ("column", "old", "new", "must"),
        [
            ("NNodes", "|1|8|64G|", "|65537|8|64G|", "a number of nodes, at most 65536"),
            ("ElapsedRaw", "|120|60|", "|1e300|60|", "seconds, from 0 to 315360000"),
            ("ElapsedRaw", "|120|60|", "|-3600|60|", "seconds, from 0 to 315360000"),
            ("Submit", "alice|2026-11-20T10:00:00", f"alice|{10**17}", "a time such as"),
        ],
    )
    def test_a_number_that_no_site_has_is_named_with_its_line(
        self, tmp_path: Path, column: str, old: str, new: str, must: str
    ) -> None:
        path = written(tmp_path, SACCT.replace(old, new))
        with pytest.raises(WorkloadError, match=f"{path}:2: {column} is .*; it must be {must}"):
            traces.read(path)

    def test_job_that_still_runs_is_read_with_what_it_has_run(self, tmp_path: Path) -> None:
        line = "105|eve|1795687200|1795687260|Unknown|900|60|1|4|1G||RUNNING\n"
        found = traces.read(written(tmp_path, SACCT + line))
        assert (found.waited_s[-1], found.run_s[-1], found.states[-1]) == (60, 900, "RUNNING")

    def test_of_a_job_that_started_before_it_was_submitted_the_wait_is_not_known(self, tmp_path: Path) -> None:
        path = written(tmp_path, SACCT.replace("|2026-11-20T10:01:00|", "|2026-11-20T09:01:00|"))
        waited_s = traces.read(path).waited_s.tolist()
        assert (waited_s[0], np.isnan(waited_s[1]), waited_s[2]) == (5, True, 0)


class TestWhichFormat:
    """A format is known by the first line, or by the caller."""

    @pytest.mark.parametrize("text", [SWF, PHILLY, OPENB, SACCT, CHRONUS, GAVEL])
    def test_the_first_line_shows_the_format(self, tmp_path: Path, text: str) -> None:
        assert len(traces.read(written(tmp_path, text)).run_s) >= 2

    def test_an_unknown_one_is_refused(self, tmp_path: Path) -> None:
        path = written(tmp_path, "hello\n")
        with pytest.raises(WorkloadError, match=f"{path}:1: this is the beginning of none of the formats sacct, swf"):
            traces.read(path)
        with pytest.raises(WorkloadError, match="there is no trace format pcap; there are sacct"):
            traces.read(path, "pcap")

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(WorkloadError, match=r"none-such: there is no such file"):
            traces.read(tmp_path / "none-such")


class TestFilled:
    """What a trace lacks is made up, and stated."""

    def test_amounts_that_no_node_has_are_spread_over_several(self, tmp_path: Path) -> None:
        made = workloads.read(written(tmp_path, PHILLY), seed=1, nodes="4")
        assert made.nodes.tolist() == [1, 2]
        assert made.demand.tolist() == [[4, 32 * 1024, 1], [32, 256 * 1024, 8]]

    def test_short_and_small_jobs_are_te_where_the_trace_does_not_say(self, tmp_path: Path) -> None:
        assert workloads.read(written(tmp_path, PHILLY), seed=1, nodes="4").te.tolist() == [True, False]
        assert workloads.read(written(tmp_path, PHILLY), seed=1, nodes="4", te_share="0").te.tolist() == [False, False]

    def test_the_traces_own_te_jobs_count(self, tmp_path: Path) -> None:
        made = workloads.read(written(tmp_path, OPENB), seed=1, nodes="4", te_share="0")
        assert made.te.tolist() == [True, False]

    def test_a_recorded_limit_stands_and_another_is_one_that_people_type(self, tmp_path: Path) -> None:
        made = workloads.read(written(tmp_path, SWF), seed=1, nodes="2", gpus="0")
        assert made.limit_s[0] == 600
        assert made.limit_s[1] in {300, 600, 900}
        assert (made.limit_s >= made.run_s).all()

    def test_the_cluster_is_as_large_as_the_load_wants(self, tmp_path: Path) -> None:
        # 100 jobs of 10 s on one CPU each, one a second: 10 CPUs are busy. At a load of 0.5 that takes 20 nodes of one.
        lines = [f"{n} {n} 0 10 1 -1 -1 1 -1 -1 1 1 1 -1 1 1 -1 -1" for n in range(1, 101)]
        path = written(tmp_path, "\n".join(lines))
        made = workloads.read(path, seed=1, load="0.5", cpus="1", mem_gib="4", gpus="0")
        assert len(made.machines.names) in {20, 21}  # the span is 99 s

    def test_the_notes_say_what_was_left_out_and_made_up(self, tmp_path: Path) -> None:
        made = workloads.read(written(tmp_path, SACCT), seed=1, nodes="4")
        assert "3 jobs; left out: 1 (steps), 1 (never ran)" in made.notes[0]
        assert "4 nodes of 32 CPUs, 256 GiB, 8 GPUs (as requested)" in made.notes[1]

    def test_a_seed_gives_one_workload(self, tmp_path: Path) -> None:
        path = written(tmp_path, PHILLY)
        first, again, other = (workloads.read(path, seed=seed, nodes="4") for seed in (1, 1, 2))
        assert first.grace_s.tolist() == again.grace_s.tolist()
        assert (first.grace_s.tolist(), first.limit_s.tolist()) != (other.grace_s.tolist(), other.limit_s.tolist())

    def test_only_the_first_jobs(self, tmp_path: Path) -> None:
        assert len(workloads.read(written(tmp_path, SACCT), seed=1, jobs="2", nodes="4")) == 2

    @pytest.mark.parametrize(
        ("settings", "says"),
        [
            ({"nods": "1"}, "workload.nods: there is no such key; there are jobs, nodes"),
            ({"te_share": "2"}, "workload.te_share must be between 0 and 1"),
            (
                {"gpus": "0", "nodes": "4"},
                "none of its 2 jobs fits on the nodes, which are 4 nodes of 32 CPUs, 256 GiB, 0",
            ),
            ({"gpus": "0"}, "none of its 2 jobs fits on the nodes"),
            ({"load": "0"}, "workload.load must be above 0"),
            ({"nodes": "100000000"}, "workload.nodes must be from 0 to 65536"),
            ({"jobs": "1000000000"}, "workload.jobs must be from 0 to 16777216"),
            (
                {"grace_mean": "1", "grace_max": "0"},
                "workload.grace_mean, workload.grace_spread, workload.grace_max: less",
            ),
            ({"cpus": "99999999999999999999"}, "workload.cpus must be from 1 to"),
            ({"mem_gib_per_cpu": "-5"}, "workload.mem_gib_per_cpu must be from 0 to"),
        ],
    )
    def test_what_makes_no_sense_is_named(self, tmp_path: Path, settings: dict[str, str], says: str) -> None:
        with pytest.raises(WorkloadError, match=says):
            workloads.read(written(tmp_path, PHILLY), seed=1, **settings)

    def test_a_trace_without_jobs_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(WorkloadError, match="trace: there is no job that ran in it"):
            workloads.read(written(tmp_path, "; nothing\n"), seed=1)


class TestNotFitting:
    """A trace of a real site always has some jobs that the nodes cannot hold: the others are run."""

    def test_job_that_wants_more_nodes_than_there_are_is_left_out_and_counted(self, tmp_path: Path) -> None:
        made = workloads.read(written(tmp_path, PHILLY), seed=1, nodes="1")
        assert (made.run_s.tolist(), made.left_out) == ([120], 1)
        assert made.notes[0] == "trace: 1 jobs; left out: 1 (they do not fit on the nodes)"

    def test_jobs_with_gpus_are_left_out_where_no_node_has_any(self, tmp_path: Path) -> None:
        for nodes in ("0", "4"):
            made = workloads.read(written(tmp_path, OPENB), seed=1, nodes=nodes, gpus="0")
            assert (made.run_s.tolist(), made.left_out) == ([60], 1)

    def test_rows_are_those_of_the_jobs_that_stay(self, tmp_path: Path) -> None:
        # The second of three jobs has 64 CPUs.
        text = SACCT.replace("|2|16|4Gc|", "|2|64|4Gc|")
        found = workloads.filled(traces.read(written(tmp_path, text)), {"nodes": "1", "trainings": "2"}, seed=1)
        assert (found.rows.tolist(), found.workload.left_out) == ([0], 2)
        assert len(found.workload) > len(found.rows)  # trainings are in no row

    def test_nodes_that_are_given_hold_what_any_of_them_can(self, tmp_path: Path) -> None:
        machines = SimulatedNodes(
            names=("a", "b", "c"),
            resources=("cpu", "mem_mib", "gpu"),
            total=np.array([[64, 65536, 0], [64, 65536, 0], [8, 65536, 2]]),
        )
        # Two GPUs and all of a node's memory: the last node alone. Then 2 nodes for 16 CPUs and 64 GiB; 4 CPUs on two.
        found = workloads.filled(traces.read(written(tmp_path, SACCT)), {}, seed=1, machines=machines)
        assert found.workload.nodes.tolist() == [1, 2, 2]
        assert found.workload.left_out == 0
        assert found.workload.machines is machines
        assert (
            found.workload.notes[1]
            == "2 nodes of 64 CPUs, 64 GiB, 0 GPUs; 1 nodes of 8 CPUs, 64 GiB, 2 GPUs (as given)"
        )

    def test_memory_that_is_made_up_is_no_more_than_a_given_node_has_for_the_cpus(self, tmp_path: Path) -> None:
        machines = SimulatedNodes.alike(2, cpus=12, mem_mib=12 * 1024, gpus=4)
        (tmp_path / "trace").write_text("\n".join(line for line in OPENB.splitlines() if "p1" not in line) + "\n")
        recorded = replace(traces.read(tmp_path / "trace"), mem_mib=np.array([-1]))
        made = workloads.filled(recorded, {}, seed=1, machines=machines).workload
        # Its GPU would take 32 GiB, and a node has 12.
        assert made.demand.tolist() == [[12, 12 * 1024, 1]]
        assert made.nodes.tolist() == [1]
