"""The bound in a real Slurm: the submission hook holds TE jobs, the daemon admits them, and nothing stays held.

systemd/job_submit.lua reads the admission file that the daemon writes; where a test stands in for the daemon, it writes
the file itself.
"""

from __future__ import annotations

import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tesched_core.intake.class_rules import Classification, Match, Rule, UserWord
from tesched_core.model.decision import Admission
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.snapshot import JobClass
from tesched_daemon.admission_file import text_of
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import (
    Daemon,
    crashing_daemon,
    daemon_of,
    run_tesched,
    until_killed,
    write_config,
)
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_users

from tests.cluster.conftest import MakeCluster
from tests.cluster.test_submission_hook import LIBRARIES, ONLY, fill
from tests.cluster.test_submission_hook import listener as listener_on

pytestmark = pytest.mark.slurm

HOOK = Path(__file__).parents[2] / "systemd" / "job_submit.lua"
#: With a list of variables 22.05 has slurmd ask a login shell for the rest first, which may take long.
PLAIN = ("--export=ALL",)
#: a TE job by the daemon's rules, of the longest time limit that may start
TRIAL = (*PLAIN, "--partition=debug", "--job-name=te", "--time=1")
LATER_S = 1000.0


@dataclass(frozen=True, kw_only=True)
class Site:
    """A cluster with the hook; TE jobs are those of the partition debug, in a tier above."""

    cluster: LocalCluster
    folder: Path
    te_user: str
    be_user: str

    @property
    def socket(self) -> Path:
        """Return the socket that the hook pokes."""
        return self.folder / "poke.sock"

    @property
    def file(self) -> Path:
        """Return the admission file that the hook reads."""
        return self.folder / "admission"

    def says(self, classes: Classification, *, until: float = 0.0, valid: float | None = None) -> None:
        """Write the file in the daemon's place: a minute is the longest time limit."""
        valid = time.time() + LATER_S if valid is None else valid
        self.file.write_text(text_of(Admission(until=until, most_s=60.0), classes, valid))

    def submit(self, *options: str, wrap: str = "true", user: str = "") -> int:
        """Submit a job."""
        return self.cluster.sbatch(*options, wrap=wrap, user=user or self.te_user)

    def is_marked(self, *options: str) -> bool:
        """Submit a job and return whether the hook holds it."""
        job = self.cluster.job(self.submit(*PLAIN, "--begin=now+1hour", *options))
        marked = job.get("AdminComment") == HOOK_MARK
        assert marked is (job["Priority"] == "0")
        return marked

    def held(self) -> list[str]:
        """Return the jobs that wait for a release."""
        return [job["JobId"] for job in self.cluster.jobs() if job["Priority"] == "0" and job["JobState"] == "PENDING"]

    def config(self, tables: str = "") -> Path:
        """Write the configuration of a daemon that enforces a bound, with further tables."""
        config = write_config(
            self.cluster, self.folder, ClientChoice.COMMANDS, poll_interval_s=0.3, socket=str(self.socket)
        )
        drop_in = self.folder / "conf.d" / "bound.toml"
        drop_in.parent.mkdir(exist_ok=True)
        # Another list takes the place of the harness's, in which TE jobs have no longest time limit.
        drop_in.write_text(
            f'[slurm]\nadmission = "{self.file}"\n[loop]\nbackoff_max_s = 0.5\n'
            f"[guard]\nmax_victims_for_te_user_hour = 1000\nwait_for_free_s = 0\n"
            "[guard.bound]\nslowdown = 3\nte_time_limit_s = 60\n"
            '[[classes.rules]]\nname = "trials"\njob_class = "te"\n'
            'match = { partitions = ["debug"], max_time_limit_s = 60 }\n' + tables
        )
        return config


@contextmanager
def site_of(make_cluster: MakeCluster, accounting: Accounting | None = None, *, before: str = "") -> Iterator[Site]:
    """Give one node with the hook, and this Lua before it."""
    with tempfile.TemporaryDirectory(prefix="bound-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        hook = HOOK.read_text()
        for what in ("poke.sock", "admission"):
            assert hook.count(f'"/run/tesched/{what}"') == 1
            hook = hook.replace(f"/run/tesched/{what}", str(folder / what))
        definition = ClusterDefinition(
            groups=(NodeGroup(count=1),),
            partitions=(
                PartitionDefinition(name="main", default=True, priority_tier=1),
                PartitionDefinition(name="debug", priority_tier=10, preempt_mode="OFF", max_time="10"),
            ),
            settings={"JobSubmitPlugins": "lua"},
            files={"job_submit.lua": before + hook},
            accounting=accounting,
        )
        te_user, be_user = ordinary_users(2)
        yield Site(cluster=make_cluster(definition), folder=folder, te_user=te_user, be_user=be_user)


@pytest.fixture
def site(make_cluster: MakeCluster) -> Iterator[Site]:
    """Give one node with the hook."""
    with site_of(make_cluster) as found:
        yield found


@pytest.fixture
def listener(site: Site) -> Iterator[socket.socket]:
    """Give a socket in the daemon's place."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as channel:
        channel.bind(str(site.socket))
        yield channel


def rule(job_class: JobClass, match: Match) -> Rule:
    """Return a rule."""
    return Rule(name=f"{job_class}-{match}", job_class=job_class, match=match)


DEBUG = Classification(rules=(rule(JobClass.TE, Match(partitions=("debug",))),))


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
    "a set that Lua can't tell": (
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
def test_a_user_neither_writes_the_mark_nor_releases_a_job_that_must_wait(site: Site, listener: socket.socket) -> None:
    site.says(DEBUG)
    job_id = site.submit(*TRIAL)
    command = ("scontrol", "update", f"jobid={job_id}", "admincomment=x")
    assert site.cluster.run(*command, check=False, user=site.te_user).returncode != 0
    # As the daemon does for a job that must wait.
    site.cluster.run("scontrol", "hold", str(job_id))
    assert site.cluster.job(job_id)["Reason"] == "JobHeldAdmin"
    assert site.cluster.run("scontrol", "release", str(job_id), check=False, user=site.te_user).returncode != 0


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


#: the hook holds each TE job then, and the daemon lets one of each user run
ONE_EACH = "[guard.te]\nmax_running_per_user = 1\n"


@pytest.mark.gate
@pytest.mark.parametrize("words", [("srun",), ("salloc", "srun"), ("salloc",)], ids=" ".join)
def test_an_interactive_te_job_is_held_admitted_and_runs(site: Site, words: tuple[str, ...]) -> None:
    options = ("--partition=debug", "--time=1")
    with daemon_of(site.cluster, site.config(ONE_EACH)) as daemon:
        done = site.cluster.run(words[0], *options, *words[1:], "hostname", user=site.te_user)
        assert done.stdout
        assert "release job" in daemon.log.read_text()
    assert not site.held()


@pytest.mark.gate
def test_an_array_is_held_and_released_as_one(site: Site) -> None:
    with daemon_of(site.cluster, site.config("[guard.te]\nmax_running_per_user = 3\n")):
        array = site.submit(*PLAIN, "--partition=debug", "--time=1", "--array=1-3")
        site.cluster.wait_for(
            lambda: [job["JobState"] for job in site.cluster.jobs(array)] == ["COMPLETED"] * 3, "its three tasks"
        )


@pytest.mark.gate
def test_the_file_is_there_while_a_daemon_enforces_and_no_longer(site: Site) -> None:
    config = site.config(ONE_EACH)
    site.says(DEBUG)
    with daemon_of(site.cluster, config) as daemon:
        assert "rule te\npartitions =debug\ntime_limit_s - 60\n" in site.file.read_text()
        trials = [site.submit(*TRIAL, wrap="sleep 1000") for _ in range(3)]
        site.cluster.wait_state(trials[0], "RUNNING")
        site.cluster.wait_for(
            lambda: [site.cluster.job(one)["Reason"] for one in trials[1:]] == ["JobHeldAdmin"] * 2, "the others held"
        )
        config.write_text(config.read_text().replace('"enforce"', '"shadow"'))
        daemon.process.send_signal(signal.SIGHUP)
        site.cluster.wait_for(lambda: not site.file.exists(), "the file to be gone")
        site.cluster.wait_for(lambda: not site.held(), "the holds to be gone")
        site.cluster.cancel_all()
        config.write_text(config.read_text().replace('"shadow"', '"enforce"'))
        daemon.process.send_signal(signal.SIGHUP)
        site.cluster.wait_for(site.file.exists, "the file to be back")
    assert not site.file.exists()
    # A dead daemon's socket is gone, too.
    site.says(DEBUG)
    assert not site.is_marked("--partition=debug", "--time=1")


@pytest.mark.gate
@pytest.mark.parametrize("after", ["undo", "a restart"])
def test_after_a_crash_amid_releases_no_job_stays_held(site: Site, listener: socket.socket, after: str) -> None:
    site.says(DEBUG)
    trials = [site.submit(*TRIAL) for _ in range(3)]
    assert len(site.held()) == 3
    config = site.config()
    # The intent, one release.
    with crashing_daemon(config, 3) as daemon:
        until_killed(site.cluster, daemon)
    assert len(site.held()) == 2
    assert site.file.exists()
    listener.close()
    site.socket.unlink()
    if after == "undo":
        said = run_tesched("undo", TESCHED_CONFIG=str(config))
        assert (said.returncode, said.stderr) == (0, ""), said.stdout
        assert not site.file.exists()
    else:
        with daemon_of(site.cluster, config):
            site.cluster.wait_for(lambda: not site.held(), "the releases")
    for job_id in trials:
        site.cluster.wait_state(job_id, "COMPLETED")
    assert not any(job.get("AdminComment") for job in site.cluster.jobs())


def flooded(site: Site, daemon: Daemon, *, says_s: int, run_s: int, second_s: int) -> tuple[float, list[int]]:
    """Let a BE job run and TE jobs flood the node; return how long the BE job was in Slurm, and the TE jobs.

    It says that it runs for `says_s`. It is preempted, runs again before the flood is over, and ends. The second TE job
    runs for `second_s`, past the moment from which no further one may start.
    """
    cluster = site.cluster
    whole = ("--exclusive", "--mem=0")
    be = site.submit(*PLAIN, *whole, f"--comment=run={says_s}", wrap=f"sleep {run_s}", user=site.be_user)
    began = time.monotonic()
    cluster.wait_state(be, "RUNNING")
    daemon.await_polls(cluster)
    flood = [site.submit(*TRIAL, *whole, wrap=f"sleep {seconds}") for seconds in (3, second_s, *[1] * 5)]
    cluster.wait_for(lambda: cluster.put_back([be]), "the BE job to be preempted")
    waiting = [str(job_id) for job_id in flood[2:]]
    cluster.wait_for(lambda: site.held() == waiting, "the other TE jobs to be held", timeout_s=90)
    cluster.wait_for(
        lambda: (
            f"job {be} of {site.be_user} comes first" in " ".join(daemon.ask("explain", waiting[-1]).stdout.split())
        ),
        "the reason",
    )
    cluster.wait_state(be, "COMPLETED", timeout_s=second_s + run_s + 30)
    return time.monotonic() - began, flood


def ran(site: Site, jobs: list[int]) -> int:
    """Return how many of these jobs have run, or run."""
    return sum(site.cluster.state(job_id) in {"RUNNING", "COMPLETING", "COMPLETED"} for job_id in jobs)


def others_run(site: Site, flood: list[int]) -> None:
    """Assert that two TE jobs have run before the BE job ended, and wait until the others have; none stays held."""
    assert ran(site, flood[:2]) == 2
    site.cluster.wait_for(lambda: ran(site, flood) == len(flood), "the other TE jobs", timeout_s=90)
    assert not site.held()
    assert not any(job.get("AdminComment") == HOOK_MARK for job in site.cluster.jobs())


@pytest.mark.gate
def test_a_flood_of_te_jobs_delays_a_be_job_by_its_bound_at_most(site: Site) -> None:
    with daemon_of(site.cluster, site.config()) as daemon:
        took_s, flood = flooded(site, daemon, says_s=56, run_s=5, second_s=16)
        assert took_s <= 5 + 2 * 56 + 0.5 + 6
        others_run(site, flood)


def test_a_be_job_has_at_most_the_slowdown_that_the_site_allows(site: Site) -> None:
    with daemon_of(site.cluster, site.config()) as daemon:
        took_s, flood = flooded(site, daemon, says_s=60, run_s=60, second_s=30)
        assert took_s <= 3 * 60 + 0.5 + 6
        others_run(site, flood)
