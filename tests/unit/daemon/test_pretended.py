"""Record of a job that is not submitted: which options are taken over, and which are named."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_core.model.cluster import Partition, SlurmSettings
from tesched_daemon.submission.begin_time import begin_time
from tesched_daemon.submission.pretended import pretended_job
from tesched_daemon.submission.read import job_of
from tesched_daemon.submission.request import request_of
from tesched_daemon.submission.slurms_answer import refuse_half_a_view
from tesched_daemon.submission.sources import SubmissionError, read_words
from tesched_slurm.run_command import Commands
from tesched_slurm.sbatch_options import read_options

from tests.builders import cluster, node

NOW = time.mktime((2026, 11, 27, 10, 30, 0, 0, 0, -1))


def unread(*words: str) -> tuple[str, ...]:
    options, _ = read_options(words)
    return request_of({one.name: one for one in options}, Partition(name="main"), SlurmSettings())[1]


@pytest.mark.parametrize(
    "words",
    [
        ("--switches=2",),
        ("--nodes=1,3",),
        ("--mem=lots",),
        ("--ntasks=two",),
        ("--exclusive=mcs",),
        ("--threads-per-core=1",),
        ("--contiguous",),
        ("--nodelist=@group",),
        ("--uid=ann",),
        ("--gid=lab",),
    ],
)
def test_an_option_that_is_not_understood_is_named(words: tuple[str, ...]) -> None:
    assert unread(*words) == words


def test_an_option_of_a_plugins_is_named() -> None:
    assert unread("--site=1") == ("--site, an option of a site's plugin",)


def test_account_and_qos_stand_in_small_letters_as_in_slurm() -> None:
    job = job_of(read_words("ask", ("--account=LAB", "--qos=High", "--wrap=true")))
    assert (job.account, job.qos) == ("lab", "high")


def test_lists_are_read_as_by_slurm() -> None:
    job = job_of(read_words("ask", ("--partition=a,,b,a", "--reservation=r,", "--wrap=true")))
    assert (job.partitions, job.reservation) == (("a", "b"), "r")


def test_a_users_usual_account_and_qos_are_those_on_this_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As slurmdbd answers: of one cluster where it is named, else of all.
    program = tmp_path / "sacctmgr"
    program.write_text(
        """#!/bin/sh
case "$*" in
*cluster=here*) echo 'mine|mine||high' ;;
*) echo 'other|other||low'; echo 'other|mine||high' ;;
esac
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    seen = replace(cluster([node("n1", cpus=4)]), settings=SlurmSettings(has_slurmdbd=True, cluster_name="here"))
    pretended = pretended_job(read_words("ask", ("--partition=p", "--wrap=true")), seen, Commands())
    assert (pretended.job.account, pretended.job.qos) == ("mine", "high")


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ("--gres=gpu:3,gpu:1", 1),
        ("--gres=gpu:3,gpu", 1),
        ("--gres=gpu:a100:2,gpu:v100:1", 3),
        ("--gpus=a100:2,v100:1", 3),
        ("--gpus=4", 4),
        ("--gres=shard:9", 0),
    ],
)
def test_of_a_kind_of_gpus_that_is_named_twice_the_last_counts(asked: str, gpus: int) -> None:
    request = job_of(read_words("ask", (asked, "--wrap=true"))).request
    assert dict(request.gres_per_job).get("gpu", 0) == gpus


def test_options_that_ask_for_nothing_are_not_named() -> None:
    assert unread("--output=x", "-Jx", "--mail-type=ALL", "--comment=te", "-d", "singleton", "-v") == ()


def test_defaults_for_memory_are_the_partitions_then_the_sites() -> None:
    site = SlurmSettings(def_mem_per_node_mib=700)
    assert request_of({}, Partition(name="main"), site)[0].mem_per_node_mib == 700
    own = Partition(name="main", def_mem_per_cpu_mib=50)
    assert request_of({}, own, site)[0].mem_per_cpu_mib == 50
    gpus, _ = read_options(("--gpus=2",))
    by_gpu = Partition(name="main", def_mem_per_cpu_mib=50, def_mem_per_gpu_mib=9)
    assert request_of({"gpus": gpus[0]}, by_gpu, site)[0].mem_per_gres == (("gpu", 9),)


@pytest.mark.parametrize(
    ("text", "later_s"),
    [
        ("now", 0),
        ("now+30", 30),
        ("now+2hours", 7200),
        ("now+1day", 86_400),
        ("11:00", 1800),
        ("10:00", 84_600),
        ("2026-11-27T10:31", 60),
        ("2026-11-28", 48_600),
    ],
)
def test_begin_times_are_read_as_sbatch_reads_them(text: str, later_s: float) -> None:
    assert begin_time(text, NOW) == NOW + later_s


@pytest.mark.parametrize("text", ["teatime", "25:00", "2026-13-01", "now-1", "", "2026-11-27T1"])
def test_other_begin_times_are_not_guessed(text: str) -> None:
    assert begin_time(text, NOW) is None


def test_options_of_the_environment_stand_between_the_scripts_and_the_command_lines(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -p one -t 1 -J a\ntrue\n")
    read = read_words("ask", ("-Jc", str(script)), {"SBATCH_PARTITION": "two", "SBATCH_JOB_NAME": "b"})
    assert {name: one.value for name, one in read.by_name.items()} == {"partition": "two", "time": "1", "job-name": "c"}
    assert read.given == ("-Jc",)


def test_a_heterogeneous_job_has_its_first_components_options(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -n2\n#SBATCH hetjob\n#SBATCH -n4\ntrue\n")
    read = read_words("ask", (str(script),), {})
    assert (read.is_heterogeneous, read.by_name["ntasks"].value) == (True, "2")
    read = read_words("ask", ("-n3", ":", "-n5", str(script)), {})
    assert (read.is_heterogeneous, read.by_name["ntasks"].value, read.given) == (True, "3", ("-n3", ":", "-n5"))
    with pytest.raises(SubmissionError, match="no script is named"):
        read_words("ask", ("-n3", ":", "-n5"), {})


def test_a_wrap_may_stand_in_any_component() -> None:
    read = read_words("ask", ("-n1", ":", "--wrap=sleep 1"), {})
    assert (read.where, read.text, read.is_heterogeneous) == ("--wrap", "#!/bin/sh\nsleep 1\n", True)
    assert read.given == ("-n1", ":", "--wrap=sleep 1")


def test_a_script_without_a_folder_is_also_one_of_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("here", "bin"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin" / "job.sh").write_text("#!/bin/sh\necho path\n")
    read = read_words("ask", ("job.sh",), {})
    assert (read.where, "echo path" in read.text) == ("job.sh", True)
    with pytest.raises(SubmissionError, match=r"\./job\.sh: No such file"):
        read_words("ask", ("./job.sh",), {})
    (tmp_path / "here" / "job.sh").write_text("#!/bin/sh\necho here\n")
    assert "echo here" in read_words("ask", ("job.sh",), {}).text


def test_a_script_that_is_too_long_to_be_parsed_is_read_for_sbatch(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -n2\n" + "# data\n" * 20_000)
    assert read_words("ask", (str(script),), {}).text == script.read_text()
    with pytest.raises(SubmissionError, match="more than 65536 bytes"):
        read_words("check", (str(script),), {})


def test_pbs_lines_that_sbatch_reads_are_named(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -n2\n#PBS -N other\ntrue\n")
    note = read_words("ask", (str(script),), {}).pbs_note
    assert note.startswith("#PBS in line 3: sbatch takes options from such lines")
    assert read_words("ask", ("--ignore-pbs", str(script)), {}).pbs_note == ""
    assert read_words("ask", (str(script),), {"SBATCH_IGNORE_PBS": ""}).pbs_note == ""
    script.write_text("#!/bin/sh\ntrue\n#PBS -N other\n")
    assert read_words("ask", (str(script),), {}).pbs_note == ""


def site(private: str) -> SlurmSettings:
    return SlurmSettings(private=frozenset(private.split(",")))


@pytest.mark.parametrize("private", ["jobs", "accounts,jobs", "all", "nodes"])
def test_where_others_jobs_are_hidden_nothing_is_foreseen(monkeypatch: pytest.MonkeyPatch, private: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SubmissionError, match=rf"PrivateData={private}\).*; root sees all, and can ask$"):
        refuse_half_a_view(site(private))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    refuse_half_a_view(site(private))


@pytest.mark.parametrize("private", ["none", "accounts,usage"])
def test_what_hides_no_job_keeps_nothing_back(monkeypatch: pytest.MonkeyPatch, private: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    refuse_half_a_view(site(private))
