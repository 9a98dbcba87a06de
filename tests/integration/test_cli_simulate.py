"""`tesched simulate`: what it prints, writes and refuses."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_cli.simulate import WorkloadSource
from tesched_core.model.limits import Bound, Limits, TeLimits
from tesched_sim.experiment import ExperimentSetting, Site
from tesched_sim.slurm_settings import Backfill
from tesched_sim.sweep import made

SMALL = ("simulate", "--processes", "1")

#: two jobs, one that never ran, and a step
HISTORY = (
    "JobID|User|Submit|Start|ElapsedRaw|NNodes|NCPUS\n"
    "1|ada|1000|1000|600|1|4\n"
    "1.batch||1000|1000|600|1|4\n"
    "2|bob|1100|1100|60|1|4\n"
    "3|bob|1200|Unknown|0|1|4\n"
)


def run(*argv: str) -> Result:
    """Run the command; `SMALL` has few jobs and nodes where nothing else is said."""
    if argv[: len(SMALL)] == SMALL:
        for key in ("workload.jobs=150", "workload.nodes=4"):
            if not any(word.startswith(key.partition("=")[0]) for word in argv):
                argv = (*argv, "--set", key)
    return CliRunner().invoke(main, [*argv])


def compared(*argv: str) -> Any:
    """Return the comparison but for the seconds of real time that it took."""
    done = run(*SMALL, *argv, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["comparison"]
    for column in found["columns"]:
        del column["figures"]["took_s"]
        column["difference_percent"].pop("took_s", None)
    return found


def test_policies_stand_beside_each_other_and_the_first_is_the_baseline() -> None:
    found = compared("--policy", "fifo,te-first,fitgpp")
    assert found["baseline"] == "fifo"
    assert [column["policy"] for column in found["columns"]] == ["fifo", "te-first", "fitgpp"]


def test_the_same_command_gives_the_same_figures() -> None:
    assert compared("--seeds", "2") == compared("--seeds", "2")


def test_each_value_of_a_key_is_a_column_and_keys_with_one_value_are_not_named() -> None:
    columns = compared("--policy", "fitgpp", "--set", "policy.fitgpp.s=0,4")["columns"]
    assert [column["variant"] for column in columns] == ["policy.fitgpp.s=0", "policy.fitgpp.s=4"]


def test_equal_values_of_a_key_are_one() -> None:
    (column,) = compared("--policy", "fitgpp", "--set", "guard.cool_down_s=0,0")["columns"]
    assert column["variant"] == ""


def test_no_job_is_preempted_with_p_0() -> None:
    never, once = compared("--policy", "fitgpp", "--set", "guard.max_preemptions_per_job=0,1")["columns"]
    assert never["figures"]["preemptions"]["mean"] == 0
    assert once["figures"]["preemptions"]["mean"] > 0


def test_a_page_is_written(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    done = run(*SMALL, "--html", str(path))
    assert done.exit_code == 0, done.output
    assert path.read_text().startswith("<!DOCTYPE html>")


def test_more_processes_give_the_same_figures() -> None:
    assert compared("--seeds", "2") == compared("--seeds", "2", "--processes", "2")


def test_a_page_that_cannot_be_written_loses_no_figures() -> None:
    done = run(*SMALL, "--html", "/dev/full", "--json")
    assert done.exit_code == 2
    assert "/dev/full: cannot be written: No space left on device" in done.stderr
    assert json.loads(done.stdout)["comparison"]["columns"]


def test_a_page_takes_no_other_files_place(tmp_path: Path) -> None:
    trace = tmp_path / "history.txt"
    trace.write_text(HISTORY)
    done = run("simulate", "--trace", str(trace), "--html", str(trace))
    assert (done.exit_code, done.stdout) == (2, "")  # before any run
    assert f"--html {trace}: this file is no page, and would be lost; name another one" in done.stderr
    assert trace.read_text() == HISTORY
    page = tmp_path / "page.html"
    for _ in range(2):
        assert run(*SMALL, "--html", str(page)).exit_code == 0


def test_what_a_trace_has_and_what_is_left_out_of_it_is_said(tmp_path: Path) -> None:
    trace = tmp_path / "history.txt"
    trace.write_text(HISTORY)
    said = "history.txt: 2 jobs; left out: 1 (steps), 1 (never ran)"
    shown = run("simulate", "--trace", str(trace), "--policy", "fifo", "--seeds", "2")
    assert f"workload: {said}" in shown.stdout
    done = run("simulate", "--trace", str(trace), "--policy", "fifo", "--json")
    assert json.loads(done.stdout)["comparison"]["notes"][0] == said


def test_a_workload_is_made_once_for_all_contenders_of_a_process() -> None:
    # As it comes to another process: another object, which must be known again.
    source = WorkloadSource(name="fitgpp", trace=None, form=None, settings=(("jobs", "50"), ("nodes", "4")))
    first, again = (made(pickle.loads(pickle.dumps(source)), 1) for _ in range(2))  # noqa: S301 - our own
    assert first is again


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--policy", "fitgp"), "there is no policy fitgp; there are fifo,"),
        (("--policy", "fitgpp+pdors"), "fitgpp+pdors: no job of this workload takes more nodes than it must; let BE"),
        (("--policy", "fitgpp+slaq"), "add some: --set workload.trainings=20"),
        (("--policy", "fifo,fitgpp+gavel"), "nodes are of one type; add types of GPUs: --set workload.types=v100:1:1"),
        (("--set", "workload.types=v100"), "workload.types must be NAME:NODES:SPEED/NAME:NODES:SPEED, such as"),
        (("--set", "workload.types=a:1:1/a:1:2"), "workload.types names a type twice"),
        (("--set", "workload.types=a:9:1/b:1:0"), "with numbers above 0; it is 'a:9:1/b:1:0'"),
        (("--set", "workload.types=a:99:1/b:1:1"), "of 4 nodes none is left for b"),
        (("--set", "workload.workers=0"), "workload.workers must be from 1 to 1000000"),
        (("--set", "workload.trainings=-1"), "workload.trainings must be from 0 to 1000000"),
        (("--set", "workload.task_min=0"), "workload.task_min must be above 0"),
        (("--policy", "fitgpp+fil"), "there is no best-effort policy fil; there are none, fill"),
        (("--workload", "none"), "there is no workload none; there are fitgpp"),
        (("--set", "workload.jbs=1"), "workload.jbs: there is no such key; there are jobs,"),
        (("--set", "workload.jobs=1000000000"), "workload.jobs must be at most 16777216; it is 1000000000"),
        # This took no end: hardly one draw lies so near to half a minute.
        (
            ("--set", "workload.te_run_max=0.50001"),
            "workload.te_run_mean, workload.te_run_spread, workload.te_run_max: ",
        ),
        (("--set", "guard.cool_down_s=many"), "guard.cool_down_s=many: must be a number"),
        (("--set", "workload.jobs=many"), "workload.jobs: must be a whole number"),
        (("--set", "workload.te_share=2"), "workload.te_share must be between 0 and 1"),
        (("--set", "site.polls=1"), "site.polls cannot be set; what can is"),
        (("--set", "site.start_s=-1"), "site.start_s=-1: start_s must be at least 0 s, such as 5"),
        (("--set", "site.start_s=nan"), "site.start_s=nan: start_s must be at least 0 s"),
        (("--set", "site.start_s=inf"), "site.start_s=inf: start_s must be at least 0 s"),
        # With each of these the simulation took no end, or took the number as another.
        (("--set", "site.poll_s=-1"), "site.poll_s=-1: poll_s must be at least 0 s, such as 5"),
        (("--set", "site.poll_s=inf"), "site.poll_s=inf: poll_s must be at least 0 s"),
        (("--set", "site.sample_s=nan"), "site.sample_s=nan: sample_s must be at least 0 s"),
        (("--set", "site.requeue_delay_s=-9"), "site.requeue_delay_s=-9: requeue_delay_s must be at least 0 s"),
        (("--set", "site.kill_wait_s=-1"), "site.kill_wait_s=-1: kill_wait_s must be at least 0 s, such as 30"),
        (("--set", "site.run_time_sigma=-1"), "site.run_time_sigma=-1: run_time_sigma must be at least 0"),
        (("--set", "site.seed=1,2"), "--set site.seed: each run has its own seed, of which --seeds says how many"),
        (("--policy", "rand", "--set", "policy.rand.seed=3"), "--set policy.rand.seed: each run has its own seed"),
        (
            ("--set", "workload.te_share=0.1,0.5", "--set", "workload.te_share=0.3"),
            "workload.te_share: it is set twice",
        ),
        (("--set", "site.backfill_depth=-1"), "site.backfill_depth=-1: backfill_depth must be at least 0"),
        (("--policy", "native", "--set", "native.grace_s=-5"), "native.grace_s=-5: grace_s must be at least 0 s"),
        (("--set", "site.pass_s=-1"), "site.pass_s=-1: pass_s must be at least 0 s, such as 1"),
        (("--site", "slurm", "--set", "site.backfill_s=-1"), "site.backfill_s=-1: backfill_s must be at least 0 s"),
        (("--site", "slurm", "--set", "site.backfill_s=nan"), "site.backfill_s=nan: backfill_s must be at least 0 s"),
        (("--set", "site.backfill_s=30"), "site.backfill_s=30: backfill must be easy beside backfill_s"),
        (
            ("--set", "site.tries_new=false"),
            "site.tries_new=false: pass_s must be above 0 beside tries_new=false, such",
        ),
        (("--set", "site.faults.kinds=rain"), "kinds: there is no rain; there are priority_back/"),
        (("--set", "policy.fitgpp.s=-1"), "policy.fitgpp.s=-1: s must be between 0 and 1000"),
        (("--set", "guard.bound.slowdown=3"), "guard.bound.slowdown=3: te_time_limit_s must be set beside slowdown"),
        (
            ("--set", "guard.bound=3"),
            "guard.bound=3: it is a table, which takes none alone; its keys are guard",
        ),
        (
            ("--set", "guard.cool_down_s=none"),
            "guard.cool_down_s=none: what takes none is guard.bound, ",
        ),
        (
            ("--set", "guard.bound.slowdown=3", "--set", "guard.bound.te_time_limit_s=none"),
            "guard.bound.te_time_limit_s=none: what takes none is guard.bound, guard.bound.slowdown, guard.te",
        ),
        (
            ("--set", "guard.bound.slowdown=none", "--set", "guard.bound.te_time_limit_s=long"),
            "guard.bound.te_time_limit_s=long: must be a number",
        ),
        (
            ("--set", "guard.bound=none", "--set", "guard.bound.slowdown=3"),
            "guard.bound=none: keys of it are set besides: guard.bound.slowdown",
        ),
        (("--set", "guard.bounds=none"), "guard.bounds cannot be set; what can is"),
        (("--set", "guard.bound.slowdown=off"), "guard.bound.slowdown=off: must be a number"),
        (("--set", "workload.jobs"), "--set workload.jobs: it takes the form key=value"),
        (("--on", "slurm"), "--on slurm needs --folder"),
        (("--html", "/none/such/page.html"), "/none/such/page.html: cannot be written: there is no folder /none/such"),
        (("--workload", "fitgpp", "--trace", "x"), "--workload and --trace: only one of them"),
        (("--format", "sacct"), "--format says what a trace is: it needs --trace"),
        (("--folder", "x"), "--folder needs --on slurm"),
        (("--sbatch", "partition=x"), "--sbatch needs --on slurm"),
    ],
)
def test_bad_input_is_named_with_status_2(argv: tuple[str, ...], says: str) -> None:
    done = run(*SMALL, *argv)
    assert done.exit_code == 2
    assert says in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    "sets", [("site.backfill=easy", "site.backfill_s=30"), ("site.tries_new=false", "site.pass_s=1")]
)
def test_settings_that_need_each_other_are_set_together(sets: tuple[str, ...]) -> None:
    argv = [part for one in sets for part in ("--set", one)]
    assert run(*SMALL, "--policy", "fifo", *argv).exit_code == 0


def test_all_policies_stand_in_one_table_on_one_workload() -> None:
    sets = ("jobs=24", "nodes=4", "types=v100:1:1/k80:1:0.4", "trainings=2", "iterations=10", "workers=2")
    policies = "fifo,fitgpp+gavel,fitgpp+slaq,fitgpp+pdors,patient+fill"
    argv = [part for one in sets for part in ("--set", f"workload.{one}")]
    columns = compared("--workload", "poisson", "--policy", policies, *argv)["columns"]
    assert [column["policy"] for column in columns] == policies.split(",")
    figures = [column["figures"] for column in columns]
    # 24 jobs and two trainings, each of which counts as one, whatever the number of its tasks.
    assert {sum(one[f"{name}.jobs"]["mean"] for name in ("te", "be")) for one in figures} == {26}
    assert {one["be.not_finished"]["mean"] for one in figures} == {0}


#: as `--set` takes them, and the bound's slowdown that is meant
SWEPT = [("3", 3.0), ("none", 0.0), ("0", 0.0), (" none", 0.0)]


def test_a_bound_is_swept_on_and_off() -> None:
    sets = ("--set", "guard.bound.slowdown=1.01,none,0", "--set", "guard.bound.te_time_limit_s=60")
    found = compared("--policy", "fitgpp", *sets)
    figures = {column["variant"]: column["figures"] for column in found["columns"]}
    _, *off = names = [f"guard.bound.slowdown={value}" for value in ("1.01", "none", "0")]
    assert [*figures] == names
    without = compared("--policy", "fitgpp")["columns"][0]["figures"]
    assert [figures[one] == without for one in off] == [True, True]


@pytest.mark.parametrize(("value", "slowdown"), SWEPT)
def test_a_bound_that_is_off_has_no_other_key(value: str, slowdown: float) -> None:
    found = ExperimentSetting().with_values({"guard.bound.slowdown": value, "guard.bound.te_time_limit_s": "60"})
    assert found.guard.bound == (Bound(slowdown=slowdown, te_time_limit_s=60) if slowdown else Bound())


@pytest.mark.parametrize("key", ["guard.bound", "guard.bound.slowdown"])
def test_none_switches_off_what_the_configuration_has(key: str) -> None:
    bounded = Limits(bound=Bound(slowdown=3, te_time_limit_s=60), te=TeLimits(max_running_per_user=2), cool_down_s=7)
    found = ExperimentSetting(guard=bounded).with_values({key: "none"})
    assert found.guard == replace(bounded, bound=Bound())


def test_none_switches_off_one_limit_or_the_table_of_limits_on_te_jobs() -> None:
    limited = ExperimentSetting(guard=Limits(te=TeLimits(max_running_per_user=2, max_cluster_share=0.5)))
    assert limited.with_values({"guard.te": "none"}).guard == Limits()
    found = limited.with_values({"guard.te.max_running_per_user": "none"})
    assert found.guard.te == TeLimits(max_cluster_share=0.5)


def test_a_key_with_a_value_of_that_name_has_it() -> None:
    setting = ExperimentSetting.of(Site.BACKFILL)
    assert setting.site.backfill is Backfill.EASY
    assert setting.with_values({"site.backfill": "none"}).site.backfill is Backfill.NONE


def test_keys_that_need_each_other_are_set_together() -> None:
    bound = ("--set", "guard.bound.slowdown=3", "--set", "guard.bound.te_time_limit_s=1800")
    assert run(*SMALL, *bound).exit_code == 0


def test_jobs_of_a_trace_that_do_not_fit_are_left_out_with_a_warning_for_each_cluster(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(
        "timestamp,duration,num_gpus\n2017-10-03 00:00:00,60,1\n2017-10-03 00:00:01,60,16\n2017-10-03 00:00:02,60,64\n"
    )
    words = ("simulate", "--processes", "1", "--policy", "fifo", "--trace", str(tmp_path / "trace.csv"))
    done = run(*words, "--set", "workload.nodes=1,2,8", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["comparison"]
    assert [column["figures"]["all_jobs.jobs"]["mean"] for column in found["columns"]] == [1, 2, 3]
    assert [text for text in found["warnings"] if "left out" in text] == [
        "workload.nodes=1: 2 job(s) of the trace are left out: they do not fit on the nodes, even empty ones",
        "workload.nodes=2: 1 job(s) of the trace are left out: they do not fit on the nodes, even empty ones",
    ]
