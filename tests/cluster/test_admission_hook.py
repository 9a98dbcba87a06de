"""The submission hook in a real slurmctld: which jobs it holds, by the admission file, and which it leaves alone."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import time
from datetime import datetime
from math import inf
from pathlib import Path

import pytest
from tesched_core.intake.class_rules import Classification, Match, UserWord
from tesched_core.model.decision import SubmittedTe
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.snapshot import JobClass
from tesched_testcluster.definition import Account, Accounting, Qos
from tesched_testcluster.local import installed_release
from tesched_testcluster.users import ordinary_users

from tests.cluster.admission_site import DEBUG, LATER_S, PLAIN, TRIAL, Site, rule, site_of
from tests.cluster.conftest import MakeCluster
from tests.cluster.test_submission_hook import LIBRARIES, ONLY, fill
from tests.cluster.test_submission_hook import listener as listener_on

pytestmark = pytest.mark.slurm


@pytest.mark.gate
def test_a_closed_window_holds_te_jobs_alone(site: Site, listener: socket.socket) -> None:
    site.says(DEBUG)
    assert site.is_marked("--partition=debug", "--time=1")
    assert not site.is_marked("--partition=main")
    job = site.cluster.job(site.submit("--partition=debug", "--hold"))
    assert (job["Reason"], job.get("AdminComment")) == ("JobHeldUser", None)
    # An array is one job to the hook, and to a release.
    array = site.submit("--partition=debug", "--array=1-3", "--time=1")
    assert site.cluster.job(array).get("AdminComment") == HOOK_MARK
    site.says(DEBUG, until=time.time() + LATER_S)
    assert not site.is_marked("--partition=debug", "--time=1")
    assert site.is_marked("--partition=debug", "--time=2")
    assert not site.is_marked("--partition=main,main,main", "--time=2")
    # Without a time limit of its own it has its partition's, ten minutes.
    assert site.is_marked("--partition=debug")
    site.says(DEBUG, valid=time.time() - 1)
    assert not site.is_marked("--partition=debug", "--time=1")
    site.says(DEBUG)
    site.file.write_text(site.file.read_text().removesuffix("end\n"))
    assert not site.is_marked("--partition=debug", "--time=1")
    site.says(DEBUG)
    assert site.is_marked("--partition=debug", "--time=1")
    listener.close()
    assert not site.is_marked("--partition=debug", "--time=1")
    assert "error: job_submit" not in (site.cluster.slurmctld_log).read_text()


@pytest.mark.gate
def test_what_is_no_file_holds_no_job_and_keeps_no_submission_waiting(site: Site, listener: socket.socket) -> None:
    trial = ("--partition=debug", "--time=1")
    for make in (os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("x")):
        make(site.file)
        assert not site.is_marked(*trial)
        site.file.rmdir() if site.file.is_dir() else site.file.unlink()
    site.says(DEBUG)
    assert site.is_marked(*trial)
    assert "error: job_submit" not in (site.cluster.slurmctld_log).read_text()


@pytest.mark.gate
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_job_is_held_only_where_a_daemon_lives(make_cluster: MakeCluster, library: str) -> None:
    with site_of(make_cluster, before=ONLY[library]) as site:
        site.says(DEBUG)
        trial = ("--partition=debug", "--time=1")
        assert not site.is_marked(*trial), "it was never there"
        with listener_on(site.socket):
            assert site.is_marked(*trial)
            fill(site.socket)
            assert site.is_marked(*trial), "one that is busy lives"
        assert not site.is_marked(*trial), "its socket is left behind"
        site.socket.unlink()
        site.socket.touch()
        assert not site.is_marked(*trial), "a file"


#: rules, options of jobs that may be TE by them, and of jobs that are certainly not
CASES: dict[str, tuple[Classification, tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]] = {
    "globs": (
        Classification(rules=(rule(JobClass.TE, Match(names=("a*c?e", "[!x-z]-1", "été*", "it's 100%"))),)),
        (("-Jabcde",), ("-Jacée",), ("-Jaccee",), ("-Jb-1",), ("-Jété",), ("-Jit's 100%",)),
        (("-Jabcd",), ("-Jxabcde",), ("-Jabcdeé",), ("-Jx-1",), ("-Jété"[:-1],), ("-Jit's 1000",), ("-Ja",)),
    ),
    "a set that Lua's patterns lack": (
        Classification(rules=(rule(JobClass.TE, Match(names=("[%-é]",))),)),
        (("-Ja",), ("-Jb",)),
        (),
    ),
    "the first rule that matches": (
        Classification(
            rules=(
                rule(JobClass.EXEMPT, Match(names=("safe*",))),
                rule(JobClass.BE, Match(min_nodes=1)),
                rule(JobClass.TE, Match(max_time_limit_s=120)),
                rule(JobClass.BE, Match()),
            )
        ),
        (("--time=2",),),
        (("--time=3",), ("-Jsafe-1", "--time=1"), ("--time=1", "--comment=be")),
    ),
    "amounts": (
        Classification(rules=(rule(JobClass.TE, Match(max_cpus=2, max_gpus=1, max_nodes=1, interactive=False)),)),
        (("-n2",), ("-n1", "--gres=gpu:1"), ("-n1",)),
        (("-n3",), ("-n1", "--gres=gpu:2"), ("-n1", "--gpus=2"), ("-N2", "-n2")),
    ),
    "a time limit that may yet be shorter": (
        Classification(
            rules=(rule(JobClass.BE, Match(min_time_limit_s=601)), rule(JobClass.TE, Match(max_time_limit_s=60)))
        ),
        ((), ("--partition=debug",), ("--time=1",)),
        (("--time=2",), ("--time=11",)),
    ),
    "a time limit that is at least so long": (
        Classification(rules=(rule(JobClass.TE, Match(partitions=("debug",), min_time_limit_s=660)),)),
        (),
        (("--partition=debug",), ("--partition=debug", "--time=10")),
    ),
    "white space around a comment": (
        Classification(rules=(rule(JobClass.TE, Match(comments=("a b",))),)),
        (("--comment=  a b ",), (f"--comment={' ' * 1000}a b",)),
        (("--comment=a  b",), ("--comment=   ",), ()),
    ),
    "the user's word": (
        Classification(user_word=UserWord(may_say_te=True, within=Match(max_time_limit_s=120))),
        (("--comment=te", "--time=2"), ("--comment=run=5,TESCHED:TE", "--time=1")),
        (("--comment=te", "--time=3"), ("--comment=note=te", "--time=1"), ("--comment=better", "--time=1"), ()),
    ),
    "what is TE unless a rule says otherwise": (
        Classification(default_class=JobClass.TE, rules=(rule(JobClass.BE, Match(partitions=("main",))),)),
        (("--partition=debug",),),
        (("--partition=main",), ("--partition=debug,main",), ()),
    ),
}


@pytest.mark.gate
def test_the_hook_holds_each_job_that_may_be_te_by_the_rules(site: Site, listener: socket.socket) -> None:
    wrong: list[tuple[str, ...]] = []
    for name, (classes, maybe, certainly_not) in CASES.items():
        site.says(classes)
        wrong += [(name, *options, "is not held") for options in maybe if not site.is_marked(*options)]
        wrong += [(name, *options, "is held") for options in certainly_not if site.is_marked(*options)]
    assert not wrong
    assert "error: job_submit" not in (site.cluster.slurmctld_log).read_text()


@pytest.mark.gate
def test_a_te_job_above_the_number_that_a_user_may_have_is_refused(site: Site, listener: socket.socket) -> None:
    site.cluster.cancel_all()
    later = (*PLAIN, "--begin=now+1hour", "--wrap=true")

    def is_refused(*options: str, user: str = "") -> bool:
        said = site.cluster.run("sbatch", *later, *options, check=False, user=user or site.te_user)
        if said.returncode != 0:
            assert "Job violates accounting/QOS policy" in said.stderr
            assert f"more than 3 trial-and-error jobs of {user or site.te_user} would be" in said.stderr
        return said.returncode != 0

    debug, minute = "--partition=debug", "--time=1"
    site.says(DEBUG, until=inf, submitted=SubmittedTe(most=3, by_user={site.te_user: 1}))
    for above in ("0-4:2", "[1-3]", "1%1,2-3", "0-1000000"):
        assert is_refused(debug, minute, f"--array={above}"), above
    assert not is_refused(debug, minute, "--array=1,3,1,3%1")
    assert site.held() == [], "each may start when Slurm lets it"
    assert is_refused(debug, minute)
    assert not is_refused("--partition=main"), "it is no TE job"
    assert not is_refused(debug, minute, user=site.be_user)
    # They were counted after these had come.
    site.says(DEBUG, until=inf, submitted=SubmittedTe(most=3, by_user={site.te_user: 2}))
    assert not is_refused(debug, minute)
    assert is_refused(debug, minute)
    short = Classification(rules=(rule(JobClass.TE, Match(partitions=("debug",), max_time_limit_s=60)),))
    site.says(short, submitted=SubmittedTe(most=3, by_user={site.te_user: 3}))
    assert not is_refused(debug), "which time limit it gets is not certain yet"
    assert is_refused(debug, minute)
    site.says(short, submitted=SubmittedTe(most=3, by_user={site.te_user: 3}), counted_s=40.0)
    assert not is_refused(debug, minute), "the daemon that counted hangs"
    site.says(short, submitted=SubmittedTe(most=3, by_user={site.te_user: 3}), valid=time.time() - 1)
    assert not is_refused(debug, minute), "the daemon that counted has gone"
    site.cluster.cancel_all()
    assert "error: job_submit" not in (site.cluster.slurmctld_log).read_text()


@pytest.mark.gate
def test_a_user_neither_writes_the_mark_nor_releases_a_job_that_must_wait(site: Site, listener: socket.socket) -> None:
    site.says(DEBUG)
    job_id = site.submit(*TRIAL)
    command = ("scontrol", "update", f"jobid={job_id}", "admincomment=x")
    assert site.cluster.run(*command, check=False, user=site.te_user).returncode != 0
    # As the daemon does for a job that must wait.
    site.cluster.run("scontrol", "hold", str(job_id))
    assert site.cluster.job(job_id)["Reason"] == "JobHeldAdmin"
    assert site.cluster.run("scontrol", "release", str(job_id), check=False, user=site.te_user).returncode != 0


@pytest.mark.gate
def test_no_text_of_a_users_keeps_slurmctld_busy(site: Site, listener: socket.socket) -> None:
    site.says(Classification(rules=(rule(JobClass.TE, Match(comments=("x*",))),)))
    began = time.monotonic()
    # Slurm refuses it after the hook, which took 10 s and more for it, all of them slurmctld's.
    options = (*PLAIN, f"--comment=a{' ' * 100_000}a", "--wrap=true")
    assert site.cluster.run("sbatch", *options, check=False, user=site.te_user).returncode != 0
    assert time.monotonic() - began < 5


@pytest.mark.gate
def test_what_a_user_changes_or_releases_waits_until_the_daemon_has_seen_it(
    site: Site, listener: socket.socket
) -> None:
    def pokes() -> int:
        count = 0
        with contextlib.suppress(BlockingIOError):
            while listener.recv(100):
                count += 1
        return count

    def is_put_off(*options: str, change: tuple[str, ...], user: str | None) -> bool:
        job_id = site.submit(*PLAIN, *options, wrap="sleep 100")
        pokes()
        before = time.time()
        words = [word.format(job=job_id) for word in change]
        site.cluster.run("scontrol", *words, user=user)
        job = site.cluster.job(job_id)
        assert job["Priority"] != "0"
        begins = job["StartTime"] not in {"Unknown", "N/A"} and job["JobState"] == "PENDING"
        begins = begins and datetime.fromisoformat(job["StartTime"]).timestamp() >= int(before) + 4
        assert pokes() == begins
        site.cluster.run("scancel", str(job_id))
        return begins

    release, held = ("release", "{job}"), ("--partition=debug", "--time=1", "--hold")
    to_debug = ("update", "jobid={job}", "partition=debug")
    waits = ("--dependency=singleton", "-Jw", "--time=1")
    site.submit(*PLAIN, "-Jw", wrap="sleep 1000")
    site.says(DEBUG)
    assert is_put_off(*held, change=release, user=site.te_user)
    # Another nice value would give a held job a priority, whosever hold it is.
    kept = site.submit(*PLAIN, "--hold")
    site.cluster.run("scontrol", "update", f"jobid={kept}", "nice=9", user=site.te_user)
    assert [site.cluster.job(kept)[name] for name in ("Priority", "Nice")] == ["0", "0"]
    site.cluster.run("scontrol", "update", f"jobid={kept}", "nice=9")
    assert site.cluster.job(kept)["Nice"] == "9"
    assert is_put_off(*waits, change=to_debug, user=site.te_user)
    assert is_put_off(*waits, change=("update", "jobid={job}", "partition=debug", "starttime=now"), user=site.te_user)
    assert not is_put_off(*waits, change=("update", "jobid={job}", "timelimit=2"), user=site.te_user)
    assert not is_put_off("--hold", change=release, user=site.te_user)
    assert not is_put_off(*held, change=release, user=None)
    assert not is_put_off(*waits, change=to_debug, user=None)
    site.says(DEBUG, until=time.time() + LATER_S)
    assert not is_put_off(*held, change=release, user=site.te_user)
    site.says(DEBUG, uids=(pwd.getpwnam(site.te_user).pw_uid,))
    assert not is_put_off(*held, change=release, user=site.te_user)
    assert "error: job_submit" not in (site.cluster.slurmctld_log).read_text()


@pytest.mark.gate
def test_a_priority_of_a_users_own_starts_no_te_job(site: Site, listener: socket.socket) -> None:
    site.says(DEBUG)
    assert site.is_marked("--partition=debug", "--time=1", "--priority=5")
    assert site.is_marked("--partition=debug", "--time=1", "--priority=TOP")
    job = site.cluster.job(site.submit("--partition=debug", "--hold"))
    assert (job["Reason"], job.get("AdminComment")) == ("JobHeldUser", None)
    # An operator's own priority is kept.
    job_id = site.cluster.sbatch(
        *PLAIN, "--begin=now+1hour", "--partition=debug", "--time=1", "--priority=5", wrap="true"
    )
    assert site.cluster.job(job_id)["Priority"] == "5"
    assert "error: job_submit" not in (site.cluster.slurmctld_log).read_text()


@pytest.mark.gate
def test_a_te_job_that_is_to_start_now_or_never_and_must_wait_is_refused(site: Site, listener: socket.socket) -> None:
    def is_refused(*options: str) -> bool:
        command = ("srun", "--immediate", "--time=1", *options, "hostname")
        # Another reason for which it does not start at once, such as a node that is still completing, is Slurm's.
        return "without --immediate it waits" in site.cluster.run(*command, check=False, user=site.te_user).stderr

    site.says(DEBUG)
    assert is_refused("--partition=debug")
    assert not is_refused("--partition=main")
    site.says(DEBUG, until=time.time() + LATER_S)
    assert not is_refused("--partition=debug")
    # How many nodes, CPUs and GPUs it will have is not certain; what it asks for now counts.
    large = Classification(rules=(rule(JobClass.TE, Match(min_nodes=2)), rule(JobClass.TE, Match(min_gpus=1))))
    site.says(large)
    assert not is_refused("--partition=main", "-N1")
    command = ("srun", "--immediate", "--time=1", "--partition=main", "-N1", "true")
    site.cluster.wait_for(
        lambda: site.cluster.run(*command, check=False, user=site.te_user).returncode == 0, "it to start at once"
    )
    site.says(Classification(rules=(rule(JobClass.TE, Match(max_nodes=1, max_gpus=1, max_cpus=2)),)))
    assert is_refused("--partition=main", "-N1")
    site.says(DEBUG)
    listener.close()
    assert not is_refused("--partition=debug"), "no daemon lives"
    assert "error: job_submit" not in (site.cluster.slurmctld_log).read_text()


@pytest.mark.gate
def test_a_change_of_where_a_te_job_may_start_waits_too(site: Site, listener: socket.socket) -> None:
    def is_put_off(change: str) -> bool:
        site.says(DEBUG, until=time.time() + LATER_S)
        job_id = site.submit(*TRIAL, "--dependency=singleton", "--job-name=w", "--mem=20")
        site.says(DEBUG)
        before = time.time()
        site.cluster.run("scontrol", "update", f"jobid={job_id}", change, user=site.te_user)
        start = site.cluster.job(job_id)["StartTime"]
        return start not in {"Unknown", "N/A"} and datetime.fromisoformat(start).timestamp() >= int(before) + 4

    site.submit(*PLAIN, "--job-name=w", wrap="sleep 1000")
    changes = (
        "reqnodelist=n1",
        "excnodelist=n1",
        "features=",
        "minmemorynode=10",
        "mintmpdisknode=0",
        "licenses=",
        "nice=7",
    )
    assert {one for one in changes if not is_put_off(one)} == set()
    assert not is_put_off("mailuser=x")
    assert not is_put_off("stdout=/dev/null")
    assert "error: job_submit" not in (site.cluster.slurmctld_log).read_text()


def test_accounts_and_qos_are_those_that_slurm_gives_the_job(make_cluster: MakeCluster) -> None:
    te_user, _ = ordinary_users(2)
    lab = Account(name="lab", users=("root", te_user), qos=("normal", "night"))
    accounting = Accounting(qos=(Qos(name="night"),), accounts=(lab,))
    with site_of(make_cluster, accounting) as site, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(site.socket))
        site.says(Classification(rules=(rule(JobClass.TE, Match(accounts=("lab",))),)))
        assert site.is_marked("--account=LAB")
        assert site.is_marked()
        site.says(Classification(rules=(rule(JobClass.TE, Match(accounts=("other",))),)))
        assert not site.is_marked(), "it has a default account"
        site.says(Classification(rules=(rule(JobClass.TE, Match(qos=("normal",))),)))
        assert site.is_marked("--qos=NORMAL")
        assert site.is_marked()
        assert not site.is_marked("--qos=night")
        if installed_release() >= (24, 11):
            assert site.is_marked("--qos=night,NORMAL"), "of several any will do"


def test_an_operator_holds_and_releases_what_the_hook_holds(make_cluster: MakeCluster) -> None:
    te_user, operator = ordinary_users(2)
    accounting = Accounting(
        accounts=(Account(name="lab", users=("root", te_user, operator)),), operators=(operator,), enforce=""
    )
    with site_of(make_cluster, accounting) as site, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(site.socket))
        site.says(DEBUG)
        job_id = site.submit(*TRIAL, "--begin=now+1hour")
        assert site.held() == [str(job_id)]
        site.cluster.run("scontrol", "hold", str(job_id), user=operator)
        assert site.cluster.job(job_id)["Reason"] == "JobHeldAdmin"
        site.cluster.run("scontrol", "release", str(job_id), user=operator)
        assert site.held() == []
        # It may not remove the mark, which means nothing on a job that is not held.
        said = site.cluster.run("scontrol", "update", f"jobid={job_id}", "admincomment=", check=False, user=operator)
        assert said.returncode != 0
        assert site.cluster.job(job_id)["AdminComment"] == HOOK_MARK
