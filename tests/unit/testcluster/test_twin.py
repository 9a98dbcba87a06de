"""What `python -m benchmarks.twin` draws, which policies it knows, and how it compares."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from math import floor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import numpy as np
import pytest
from tesched_daemon.config import load
from tesched_policies.registry import PolicyConfig, normal_be
from tesched_sim.workload import WorkloadError
from tesched_testcluster.harness.twin.compared import (
    Figures,
    Record,
    Seen,
    SeenRun,
    Twin,
    compared,
    difference,
    table,
    took,
)
from tesched_testcluster.harness.twin.jobs import (
    JOB_SCRIPT,
    Draw,
    drawn,
    entries,
    node_groups,
    pace_lines,
    submitted_at,
    throughput_table,
)
from tesched_testcluster.harness.twin.policies import GUARD, POLL_S, behaviour, check_jobs, contender, simulated, toml
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.stage import LocalStage

FEW = Draw(jobs=30)
TYPES = "v100:1:1/k80:2:0.5"
#: a policy of each kind, with jobs that it can have
EACH = (
    ("backfill", FEW),
    ("fifo", FEW),
    ("native", FEW),
    ("fitgpp", FEW),
    ("patient", FEW),
    ("patient+fill", FEW),
    ("fitgpp+gavel", replace(FEW, types=TYPES)),
    ("fitgpp+slaq", replace(FEW, trainings=2)),
    ("fitgpp+pdors", replace(FEW, workers=2)),
)


def test_slower_jobs_are_the_same_ones_and_every_time_is_as_many_times_as_long() -> None:
    one, four = drawn(FEW), drawn(replace(FEW, slower=4))
    for name in ("submit_s", "run_s", "limit_s", "grace_s", "yield_s"):
        assert getattr(four, name) == pytest.approx(4 * getattr(one, name)), name
    assert (four.demand == one.demand).all()
    assert (four.te == one.te).all()


def test_the_same_jobs_come_with_and_without_what_a_policy_needs() -> None:
    plain = drawn(FEW)
    typed = drawn(replace(FEW, types=TYPES))
    assert (typed.run_s == plain.run_s).all()
    assert (typed.submit_s == plain.submit_s).all()
    wide = drawn(replace(FEW, workers=2))
    assert wide.most_run_s == pytest.approx(plain.run_s)


def test_trials_are_as_fast_on_each_type_and_other_jobs_are_not() -> None:
    typed = drawn(replace(FEW, types=TYPES))
    assert typed.speed is not None
    assert (typed.speed[typed.te] == 1).all()
    assert (typed.speed[~typed.te] < 1).any(axis=1).all()
    # A job on its slowest type ends before its limit, which sbatch takes in minutes.
    assert (typed.limit_s >= typed.most_run_s).all()
    assert not (typed.limit_s % 60).any()


def test_a_training_is_submitted_at_once_and_its_tasks_are_rows_of_it() -> None:
    workload = drawn(replace(FEW, trainings=2))
    whole = list(entries(workload))
    assert len(whole) == 32
    assert [row for one in whole for row in one.rows] == list(range(len(workload)))
    trainings = [one for one in whole if one.array >= 0]
    assert sorted(one.array for one in trainings) == [0, 1]
    assert workload.array is not None
    assert all((workload.array[list(one.rows)] == one.array).all() for one in trainings)
    at = submitted_at(workload, [float(number) for number in range(len(whole))]).submit_s
    assert all((at[list(one.rows)] == number).all() for number, one in enumerate(whole))


def test_ticks_are_the_work_on_the_fewest_nodes() -> None:
    plain, wide = drawn(FEW), drawn(replace(FEW, workers=3))
    assert [one.ticks for one in entries(wide)] == plain.run_s.tolist()


def test_the_real_nodes_have_the_names_and_the_types_of_the_simulated_ones() -> None:
    workload = drawn(replace(FEW, types=TYPES))
    groups = node_groups(workload)
    assert tuple(name for one in groups for name in one.names) == workload.machines.names
    assert [(one.count, dict(one.gres)) for one in groups] == [(28, {"gpu:v100": 8}), (56, {"gpu:k80": 8})]


@pytest.mark.parametrize(
    ("nodes", "slowest"),
    [("n28", 0), ("n29", 1), ("n84", 1)],
)
def test_a_job_is_as_fast_as_its_node(nodes: str, slowest: int, tmp_path: Path) -> None:
    workload = drawn(replace(FEW, types=TYPES))
    one = next(one for one in entries(workload) if not one.te)
    assert workload.speed is not None
    tick_s = _tick_of(tmp_path, pace_lines(workload), one.name, nodes)
    assert tick_s == pytest.approx(1 / workload.speed[one.rows[0], slowest], abs=1e-4)


def test_without_types_and_workers_a_tick_is_what_it_was_submitted_with(tmp_path: Path) -> None:
    assert pace_lines(drawn(FEW)) == ""
    assert _tick_of(tmp_path, "", "be-0", "n1") == 1.0


def _tick_of(folder: Path, paces: str, name: str, node: str) -> float:
    """Run the job's script with a job.sh that prints its second argument."""
    (folder / "paces").write_text(paces)
    (folder / "job.sh").write_text('echo "$2 $3"\n')
    environment = {
        "PATH": "/usr/bin:/bin",
        "SLURM_JOB_NAME": name,
        "SLURMD_NODENAME": node,
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_JOB_ID": "7",
    }
    done = subprocess.run(
        ["bash", str(JOB_SCRIPT), "10", "1.0", "exit", "1", "0", str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    tick_s, on_notice = done.stdout.split()
    assert on_notice == "exit"
    assert (folder / "runs.log").read_text().split() == ["7", tick_s]
    return float(tick_s)


def test_the_speed_of_each_job_that_gavel_manages_is_imported() -> None:
    workload = drawn(replace(FEW, types=TYPES))
    head, *lines = throughput_table(workload).splitlines()
    assert head == "workload,scale,accelerator,steps_per_s"
    assert len(lines) == 2 * int((~workload.te).sum())
    names = {one.name for one in entries(workload) if not one.te}
    assert {line.split(",")[0] for line in lines} == names


@pytest.mark.parametrize(("name", "of"), EACH)
def test_the_daemon_reads_the_very_policies_that_are_simulated(name: str, of: Draw) -> None:
    one = contender(name, of)
    check_jobs(one, drawn(of))
    if not one.tables:
        return
    read = tomllib.loads(toml(one.tables))["policy"]
    read["be"] = normal_be(read["be"])
    assert msgspec.convert(read, PolicyConfig) == msgspec.convert(one.tables, PolicyConfig)
    te, _, be = name.partition("+")
    assert read["te"] == te
    assert [entry["name"] for entry in read["be"]] == ([be] if be else [])


def test_the_simulated_guard_is_the_stages(tmp_path: Path) -> None:
    cluster = cast("LocalCluster", SimpleNamespace(slurm_conf=tmp_path / "slurm.conf"))
    LocalStage(cluster=cluster, folder=tmp_path).configure()
    config = load(tmp_path / "tesched.toml")
    assert config.guard == GUARD
    assert config.loop.poll_interval_s == POLL_S


def test_what_takes_its_time_of_itself_is_slower_too() -> None:
    of = replace(FEW, types=TYPES, slower=4)
    assert contender("patient", of).tables["patient"] == {"patience_s": 8.0}
    gavel = contender("fitgpp+gavel", replace(of, types="k80:2:0.5/v100:1:1")).tables["gavel"]
    assert (gavel["round_s"], gavel["types"]) == (60.0, ["v100", "k80"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fitgp", "there is no policy fitgp"),
        ("fitgpp+fil", "no best-effort policy fil"),
        ("te-first", "a real Slurm has no such queue"),
        ("fitgpp+gavel", "--types v100"),
        ("fitgpp+slaq", "--trainings"),
        ("fitgpp+pdors", "--workers"),
    ],
)
def test_a_policy_that_cannot_run_is_refused_by_name_and_option(name: str, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        check_jobs(contender(name, FEW), drawn(FEW))


def test_fifo_alone_has_no_backfill() -> None:
    assert [behaviour(name, 0.0).backfill.value for name in ("fifo", "backfill", "fitgpp")] == ["none", "easy", "easy"]


@pytest.mark.parametrize(("name", "of"), EACH)
def test_the_simulated_daemon_plans_by_the_policies_of_the_name(name: str, of: Draw) -> None:
    daemon = simulated(contender(name, of), drawn(of), 1.0).daemon
    found = [] if daemon is None else [one.policy.name for one in daemon.policies]
    assert found == ([] if name in {"backfill", "fifo", "native"} else name.split("+"))


@pytest.mark.parametrize(("name", "of"), [(name, of) for name, of in EACH if of == FEW])
def test_jobs_that_find_the_cluster_empty_wait_for_their_start_really_and_simulated(name: str, of: Draw) -> None:
    """As on a real Slurm each starts at the pass that comes next, a second after the one before, and takes one more."""
    workload = drawn(of)
    whole = list(entries(workload))
    at_s = [float(workload.submit_s[each.rows[0]] - workload.submit_s[0]) for each in whole]
    alone = SeenRun(jobs=tuple(_undisturbed(each.ticks, at) for each, at in zip(whole, at_s, strict=True)), futile=2)
    twin = compared(contender(name, of), workload, alone)
    for figure in ("te_mean_s", "te_p50_s", "te_p95_s", "be_mean_s", "be_p50_s", "be_p95_s"):
        assert 1 < getattr(twin.real, figure) < 2, figure
        # What a start takes is measured on these few jobs: it is off by as much as their mean phase is off half a pass.
        assert getattr(twin.simulated, figure) == pytest.approx(getattr(twin.real, figure), abs=0.1), figure
    assert twin.differs["makespan_s"] == pytest.approx(0, abs=0.5)
    assert (twin.real.futile, twin.simulated.futile, twin.differs["futile"]) == (2, 0, -100.0)
    assert (twin.jobs, twin.simulated.victims, twin.preempted, twin.same) == (30, 0, (0, 0), 0)


def _undisturbed(ticks: int, at_s: float) -> Seen:
    """Return a job that says its first word a second after the pass, and works for a second in each."""
    started = 1000 + floor(at_s) + 1 + 1.0
    return Seen(submitted=1000 + at_s, started=started, done=started + ticks, restarts=0)


def test_a_slow_machines_second_and_start_are_measured_on_jobs_that_were_not_preempted() -> None:
    whole = list(entries(drawn(FEW)))
    seen = [Seen(submitted=0, started=2, done=2 + 1.1 * one.ticks, restarts=0) for one in whole]
    seen[0] = Seen(submitted=0, started=2, done=1000, restarts=1)
    # Half a second of the two is what a job waits for the pass in the mean.
    assert list(took(whole, seen)) == pytest.approx([1.1, 1.5])
    # On nodes on which a tick takes twice as long, a second is as long as it was.
    slow = [replace(one, pace=2.0, done=2 + 2.2 * job.ticks) for one, job in zip(seen, whole, strict=True)]
    assert list(took(whole, slow)) == pytest.approx([1.1, 1.5])


def test_figures_are_of_each_class() -> None:
    wait_s, te = np.array([1.0, 2.0, 12.0, 10.0, 30.0]), np.array([True, True, True, False, False])
    # Of three waits the 95th percentile is nine tenths of the way from the second to the third.
    assert Figures.of(wait_s, te, (3, 1), 50.0) == Figures(
        te_mean_s=5.0,
        te_p50_s=2.0,
        te_p95_s=2.0 + 0.9 * 10.0,
        be_mean_s=20.0,
        be_p50_s=20.0,
        be_p95_s=29.0,
        victims=3,
        futile=1,
        makespan_s=50.0,
    )


@pytest.mark.parametrize(
    ("real", "virtual", "percent"), [(10.0, 9.0, -10.0), (0, 0, 0.0), (0, 3, None), (4, 6, 50.0), (2, 0, -100.0)]
)
def test_the_difference_is_of_the_real_figure(real: float, virtual: float, percent: float | None) -> None:
    assert difference(real, virtual) == (None if percent is None else pytest.approx(percent))


def test_the_table_has_each_policys_real_and_simulated_figures_and_the_difference() -> None:
    real = Figures.of(np.array([1.0, 10.0]), np.array([True, False]), (0, 0), 50.0)
    virtual = Figures.of(np.array([2.0, 9.0]), np.array([True, False]), (4, 0), 51.0)
    differs = {name: difference(getattr(real, name), getattr(virtual, name)) for name in Figures.__slots__}
    twin = Twin(policy="patient", jobs=2, real=real, simulated=virtual, differs=differs, preempted=(0, 4), same=0)
    head, *lines = table(["patient"], [twin])
    words = [line.split() for line in lines]
    assert len(head.split("  ")) > 9
    assert words[0] == ["patient", "real", *["1.00"] * 3, *["10.00"] * 3, "0", "0", "50.00"]
    assert words[1] == ["simulated", *["2.00"] * 3, *["9.00"] * 3, "4", "0", "51.00"]
    assert " ".join(words[2]) == "differs +100.0 % +100.0 % +100.0 % -10.0 % -10.0 % -10.0 % - +0.0 % +2.0 %"


def test_a_record_is_read_again_and_refuses_other_jobs(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    assert Record.read(path, FEW).runs == {}
    run = SeenRun(jobs=(_undisturbed(10, 0.0),) * 30, futile=1)
    Record(of=FEW, runs={"patient": run}).write(path)
    assert Record.read(path, FEW).runs == {"patient": run}
    other = replace(FEW, slower=4, types=TYPES)
    with pytest.raises(WorkloadError) as refused:
        Record.read(path, other)
    assert str(refused.value) == (
        f"--record {path}: it was recorded with --jobs 30 --slower 1 --seed 0, "
        f"not --jobs 30 --slower 4 --seed 0 --types {TYPES}"
    )


def test_what_is_done_is_printed_though_a_later_policy_fails() -> None:
    figures = Figures.of(np.array([1.0, 10.0]), np.array([True, False]), (0, 0), 50.0)
    differs = dict.fromkeys(Figures.__slots__, 0.0)
    done = Twin(policy="fifo", jobs=2, real=figures, simulated=figures, differs=differs, preempted=(0, 0), same=0)

    def twins() -> Iterator[Twin]:
        yield done
        raise WorkloadError("of the second")

    lines = table(["fifo", "patient+fill"], twins())
    said = [next(lines) for _ in range(4)]
    with pytest.raises(WorkloadError, match="of the second"):
        next(lines)
    assert [line.split()[0] for line in said] == ["POLICY", "fifo", "simulated", "differs"]


@pytest.mark.parametrize("count", [0, 29, 31])
def test_a_record_of_another_number_of_jobs_is_refused(count: int, tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    Record(of=FEW, runs={"patient": SeenRun(jobs=(_undisturbed(10, 0.0),) * count)}).write(path)
    with pytest.raises(WorkloadError, match=f"patient has {count} jobs, not 30"):
        Record.read(path, FEW)


def test_a_record_counts_a_training_as_one(tmp_path: Path) -> None:
    path, of = tmp_path / "seen.json", replace(FEW, trainings=2)
    whole = len(list(entries(drawn(of))))
    Record(of=of, runs={"patient": SeenRun(jobs=(_undisturbed(10, 0.0),) * whole)}).write(path)
    assert len(Record.read(path, of).runs["patient"].jobs) == 32


def test_a_record_that_could_not_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="there is no folder"):
        Record.read(tmp_path / "none" / "seen.json", FEW)
    with pytest.raises(WorkloadError, match="it is a folder"):
        Record.read(tmp_path, FEW)


@pytest.mark.parametrize("name", ["fitgp", "backfill+fill", "te-first"])
def test_the_policies_that_there_are_are_the_comparisons_own(name: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        contender(name, FEW)
    listed = str(refused.value).partition("there are ")[2].split(", ")
    assert {"backfill", "fifo", "native", "fitgpp", "patient"} <= {*listed}
    assert "te-first" not in listed


@pytest.mark.parametrize("types", ["v100", "a:1:1/a:1:2", "a:999:1/b:1:1"])
def test_wrong_types_are_named_by_their_option(types: str) -> None:
    with pytest.raises(WorkloadError, match=r"^--types"):
        drawn(replace(FEW, types=types))


def test_jobs_of_one_class_alone_are_refused() -> None:
    said = []
    for seed in range(200):
        try:
            drawn(Draw(jobs=10, seed=seed))
        except WorkloadError as error:
            said.append(str(error))
    assert said
    assert all("draws no TE job; take another --seed" in one for one in said)
    with pytest.raises(WorkloadError, match="draws no BE job"):
        drawn(Draw(jobs=1, seed=next(seed for seed in range(99) if np.random.default_rng(seed).random() < 0.3)))


@pytest.mark.parametrize("text", ["", "{}", '{"fitgpp": []}', "[1, 2"])
def test_a_file_that_is_no_record_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    path.write_text(text)
    with pytest.raises(WorkloadError, match="no record of this benchmark"):
        Record.read(path, FEW)
