"""The bound in a real Slurm: the submission hook holds TE jobs, the daemon admits them, and nothing stays held.

systemd/job_submit.lua reads the admission file that the daemon writes.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_core.model.change import LET_THROUGH, STANDS
from tesched_core.model.field import Field
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.outlived import Outlived
from tesched_core.model.payment import DAY_S
from tesched_core.model.resources import JobId
from tesched_db.engine import open_store
from tesched_db.outlived_rows import write
from tesched_db.queries import memory
from tesched_testcluster.harness.daemon_process import Daemon, crashing_daemon, daemon_of, run_tesched, until_killed

from tests.cluster import admission_site
from tests.cluster.admission_site import DEBUG, PLAIN, TRIAL, Site, site_of
from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm


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
@pytest.mark.parametrize("change", ["release", "update"])
def test_a_job_that_its_user_releases_or_makes_te_waits_like_others(site: Site, change: str) -> None:
    options, words = {
        "release": ((*TRIAL, "--hold"), ("release", "{job}")),
        "update": ((*PLAIN, "--time=1", "--begin=now+1hour"), ("update", "jobid={job}", "partition=debug")),
    }[change]
    with daemon_of(site.cluster, site.config(ONE_EACH)):
        # It leaves no free resources, so that what is released waits until the daemon has seen it.
        first = site.submit(*TRIAL, "--exclusive", "--mem=0", wrap="sleep 1000")
        site.cluster.wait_state(first, "RUNNING")
        second = site.submit(*options)
        site.cluster.run("scontrol", *(word.format(job=second) for word in words), user=site.te_user)
        site.cluster.wait_for(lambda: site.cluster.job(second)["Reason"] == "JobHeldAdmin", "the daemon's hold")
        site.cluster.run("scancel", str(first))
        site.cluster.wait_state(second, "COMPLETED")


@pytest.mark.gate
def test_an_operator_lets_one_through_and_its_user_does_not(site: Site) -> None:
    cluster = site.cluster
    whole = ("--exclusive", "--mem=0")
    config = site.config(ONE_EACH)
    with suppress(_KilledError), daemon_of(cluster, config) as daemon:
        # It leaves no free resources, so that what is released waits, and is seen to.
        first = site.submit(*TRIAL, *whole, wrap="sleep 1000")
        cluster.wait_state(first, "RUNNING")
        by_hand, by_user = (site.submit(*TRIAL, *whole) for _ in range(2))
        waits = [str(by_hand), str(by_user)]
        cluster.wait_for(lambda: all(cluster.job(one)["Reason"] == "JobHeldAdmin" for one in waits), "the holds")
        # Slurm has them after a restart, too.
        cluster.wait_for(lambda: holds_of(config) == dict.fromkeys((by_hand, by_user), STANDS), "the holds to stand")
        for words in (("release", waits[1]), ("update", f"jobid={by_user}", "priority=99"), ("top", waits[1])):
            assert cluster.run("scontrol", *words, check=False, user=site.te_user).returncode != 0
        # Slurm would let its user do that, and give it a priority.
        cluster.run("scontrol", "update", f"jobid={by_user}", "nice=7", user=site.te_user)
        assert site.held() == waits
        cluster.run("scontrol", "release", waits[0])
        cluster.wait_for(lambda: holds_of(config).get(by_hand) == LET_THROUGH, "the daemon to see that")
        assert site.held() == [waits[1]]
        raise _KilledError
    cluster.stop_slurmctld()
    cluster.start_slurmctld()
    with daemon_of(cluster, config) as daemon:
        assert "released by another hand at" in daemon.ask("explain", waits[0]).stdout
        assert site.held() == [waits[1]]
        cluster.run("scancel", str(first))
        cluster.wait_state(by_hand, "COMPLETED")


@pytest.mark.gate
def test_an_operators_release_is_for_one_run_and_for_tasks_of_an_array_that_were_held(site: Site) -> None:
    cluster = site.cluster
    config = site.config(ONE_EACH)

    def task(array: int, number: int) -> Mapping[str, str]:
        return next(job for job in cluster.jobs(array) if str(job.get("ArrayTaskId")) == str(number))

    with daemon_of(cluster, config):
        first = site.submit(*TRIAL, wrap="sleep 1000")
        cluster.wait_state(first, "RUNNING")
        second = site.submit(*TRIAL, wrap="sleep 1000")
        array = site.submit(*TRIAL, "--array=0-1", "--hold", wrap="sleep 1000")
        # Its user has one task split off, and releases the other one first.
        cluster.run("scontrol", "update", f"jobid={array}_0", "comment=x", user=site.te_user)
        cluster.run("scontrol", "release", f"{array}_1", user=site.te_user)
        cluster.wait_for(lambda: holds_of(config) == dict.fromkeys((second, array), STANDS), "the holds to stand")
        cluster.run("scontrol", "release", f"{array}_0", user=site.te_user)
        cluster.wait_for(lambda: task(array, 0)["Reason"] == "JobHeldAdmin", "the hold of the task")
        cluster.run("scontrol", "release", str(second))
        cluster.wait_state(second, "RUNNING")
        cluster.wait_for(lambda: holds_of(config).get(second) == LET_THROUGH, "the daemon to see that")

        def is_held_again() -> bool:
            """Have it requeued as often as a poll comes too late for it: its begin time is a second away then."""
            if cluster.state(second) == "RUNNING":
                cluster.run("scontrol", "requeue", str(second), user=site.te_user, check=False)
            return cluster.job(second)["Reason"] == "JobHeldAdmin"

        cluster.wait_for(is_held_again, "it to be held again")
        # tesched releases the array's record, as its throttle lets one run, and its other task with it.
        split = int(task(array, 0)["JobId"])
        cluster.wait_for(lambda: holds_of(config).get(split) == STANDS, "the task's hold to stand")
        cluster.run("scancel", str(first), str(second))
        cluster.wait_for(lambda: task(array, 1)["JobState"] == "RUNNING", "its turn")
        cluster.wait_for(lambda: task(array, 0)["Reason"] == "JobHeldAdmin", "the other one to be held")
        assert LET_THROUGH not in holds_of(config).values()


class _KilledError(Exception):
    """The block ends by this, and the daemon by SIGKILL."""


def holds_of(config: Path) -> dict[int, int]:
    """Return what the store says of the holds, by job."""
    engine = open_store(f"sqlite:///{config.parent / 'tesched.sqlite'}", read_only=True)
    try:
        holds = memory(engine).changes_of(Field.HOLD)
    finally:
        engine.dispose()
    return {job_id: one.value for job_id, one in holds.items()}


@pytest.mark.gate
def test_a_user_with_runs_that_outlived_their_limits_has_no_te_job_for_a_while(site: Site) -> None:
    cluster = site.cluster
    config = site.config("[guard.te]\nmax_outlived_per_user_day = 1\n")
    with daemon_of(cluster, config):
        pass
    lately = Outlived(job_id=JobId(1000), at=time.time(), user=site.te_user)
    says_outlived(config, (), (lately,))
    with daemon_of(cluster, config):
        other = site.submit(*TRIAL, user=site.be_user)
        waits = site.submit(*TRIAL)
        cluster.wait_for(lambda: cluster.job(waits)["Reason"] == "JobHeldAdmin", "the hold")
        cluster.wait_state(other, "COMPLETED")
        assert cluster.job(waits)["Reason"] == "JobHeldAdmin"
    says_outlived(config, (lately,), (replace(lately, at=lately.at - DAY_S),))
    with daemon_of(cluster, config):
        cluster.wait_state(waits, "COMPLETED")


@pytest.mark.gate
def test_a_debug_queue_of_one_that_runs_and_one_that_waits(site: Site) -> None:
    cluster = site.cluster
    limits = "[guard.te]\nmax_running_per_user = 1\nmax_submitted_per_user = 2\nmax_node_minutes_per_user = 90\n"

    def refused() -> str:
        said = cluster.run("sbatch", *TRIAL, "--wrap=true", check=False, user=site.te_user)
        return said.stderr if said.returncode != 0 else ""

    with daemon_of(cluster, site.config(limits)):
        cluster.wait_for(lambda: site.file.exists() and "submitted_most 2\n" in site.file.read_text(), "the file")
        runs = site.submit(*TRIAL, wrap="sleep 1000")
        waits = site.submit(*TRIAL)
        cluster.wait_state(runs, "RUNNING")
        cluster.wait_for(lambda: f"submitted {site.te_user} 2\n" in site.file.read_text(), "both to be counted")
        assert cluster.job(waits)["Reason"] == "JobHeldAdmin"
        assert f"with it more than 2 trial-and-error jobs of {site.te_user} would be in the queue" in refused()
        assert site.submit(*TRIAL, user=site.be_user) > waits
        cluster.run("scancel", str(runs))
        cluster.wait_state(waits, "COMPLETED")
        cluster.wait_for(lambda: not refused(), "a place in the queue")


def says_outlived(config: Path, before: tuple[Outlived, ...], now: tuple[Outlived, ...]) -> None:
    """Write into the store which TE runs outlived their limits."""
    engine = open_store(f"sqlite:///{config.parent / 'tesched.sqlite'}")
    with engine.begin() as connection:
        write(connection, before, now)
    engine.dispose()


def test_a_te_job_with_a_raised_limit_is_one_too_many(site: Site) -> None:
    cluster = site.cluster
    with daemon_of(cluster, site.config("[guard.te]\nmax_outlived_per_user_day = 1\n")) as daemon:
        long = site.submit(*TRIAL, wrap="sleep 1000")
        cluster.wait_state(long, "RUNNING")
        raised = ("scontrol", "update", f"jobid={long}", "timelimit=9")
        assert cluster.run(*raised, check=False, user=site.te_user).returncode != 0
        cluster.run(*raised)
        before = site.submit(*TRIAL)
        cluster.wait_state(before, "COMPLETED")
        cluster.wait_for(lambda: [one["user"] for one in daemon.json("status")["barred"]] == [site.te_user], "the bar")
        assert "outlived its time limit" in daemon.ask("explain", str(long)).stdout
        waits = site.submit(*TRIAL)
        cluster.wait_for(lambda: cluster.job(waits)["Reason"] == "JobHeldAdmin", "the hold")
        assert cluster.state(long) == "RUNNING"
        assert "outlived the time limits with which they started" in daemon.ask("explain", str(waits)).stdout
        # As a BE job it waits in turn, and starts.
        cluster.run("scontrol", "update", f"jobid={waits}", "partition=main", user=site.te_user)
        cluster.wait_state(waits, "COMPLETED")


@pytest.mark.gate
def test_the_mark_stands_beside_a_text_of_the_sites_and_leaves_it(
    make_cluster: MakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = "    return tesched_submitted(job_desc"
    hook = tmp_path / "job_submit.lua"
    hook.write_text(admission_site.HOOK.read_text().replace(call, f'job_desc.admin_comment = "a; 7"\n{call}'))
    monkeypatch.setattr(admission_site, "HOOK", hook)
    with site_of(make_cluster) as site:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.bind(str(site.socket))
            site.says(DEBUG)
            job_id = site.submit(*TRIAL)
        job = site.cluster.job(job_id)
        assert (job["Priority"], job["AdminComment"]) == ("0", f"a; 7; {HOOK_MARK}")
        site.socket.unlink()
        with daemon_of(site.cluster, site.config()):
            site.cluster.wait_state(job_id, "COMPLETED")
            assert site.cluster.job(job_id)["AdminComment"] == "a; 7"


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
@pytest.mark.parametrize("after", ["undo", "a restart", "a restart in shadow"])
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
        if after == "a restart in shadow":
            config.write_text(config.read_text().replace('"enforce"', '"shadow"'))
        with daemon_of(site.cluster, config):
            site.cluster.wait_for(lambda: not site.held(), "the releases")
    for job_id in trials:
        site.cluster.wait_state(job_id, "COMPLETED")
    assert not any(job.get("AdminComment") for job in site.cluster.jobs())


@pytest.mark.gate
def test_undo_removes_the_mark_of_a_job_that_is_held_no_more(site: Site, listener: socket.socket) -> None:
    site.says(DEBUG)
    released, held = (site.submit(*TRIAL, "--begin=now+1hour") for _ in range(2))
    site.cluster.run("scontrol", "release", str(released))
    assert site.held() == [str(held)]
    assert site.cluster.job(released)["AdminComment"] == HOOK_MARK
    config = site.config()
    listener.close()
    site.socket.unlink()
    with daemon_of(site.cluster, config) as daemon:
        daemon.await_polls(site.cluster)
    said = run_tesched("undo", TESCHED_CONFIG=str(config))
    assert (said.returncode, said.stderr) == (0, ""), said.stdout
    assert not any(job.get("AdminComment") for job in site.cluster.jobs())
    assert not site.held()


def flooded(site: Site, daemon: Daemon, *, says_s: int, run_s: int, second_s: int) -> None:
    """Let a BE job run and TE jobs flood the node; assert that those that must wait start when it has ended.

    It says that it runs for `says_s`. It is preempted, runs again before the flood is over, and ends. The second TE job
    runs for `second_s`, past the moment from which no further one may start.
    """
    cluster = site.cluster
    whole = ("--exclusive", "--mem=0")
    # Its first run goes on until it is preempted, however long the flood takes to come.
    run = f'[ -n "$SLURM_RESTART_COUNT" ] || sleep 1000; sleep {run_s}'
    be = site.submit(*PLAIN, *whole, f"--comment=run={says_s}", wrap=run, user=site.be_user)
    cluster.wait_state(be, "RUNNING")
    daemon.await_polls(cluster)
    flood = [site.submit(*TRIAL, *whole, wrap=f"sleep {seconds}") for seconds in (3, second_s, *[1] * 5)]
    cluster.wait_for(lambda: cluster.put_back([be]), "the BE job to be preempted")
    cluster.wait_state(flood[1], "RUNNING", timeout_s=60)
    # On a busy machine a third one may have started.
    cluster.wait_for(lambda: site.held() == pending(site, flood) != [], "the other TE jobs to be held", timeout_s=90)
    waiting = pending(site, flood)
    cluster.wait_for(
        lambda: (
            f"job {be} of {site.be_user} comes first" in " ".join(daemon.ask("explain", waiting[-1]).stdout.split())
        ),
        "the reason",
    )
    cluster.wait_state(be, "COMPLETED", timeout_s=second_s + run_s + 30)
    others = [int(job_id) for job_id in waiting]
    cluster.wait_for(lambda: not {*waiting} & {*pending(site, others)}, "the other TE jobs", timeout_s=90)
    ended = cluster.job(be)["EndTime"]
    assert all(cluster.job(job_id)["StartTime"] >= ended for job_id in others)
    assert not site.held()
    assert not any(job.get("AdminComment") == HOOK_MARK for job in cluster.jobs())


def pending(site: Site, jobs: list[int]) -> list[str]:
    """Return those of these jobs that have not started."""
    return [str(job_id) for job_id in jobs if site.cluster.state(job_id) == "PENDING"]


@pytest.mark.gate
def test_a_flood_of_te_jobs_delays_a_be_job_by_its_bound_at_most(site: Site) -> None:
    with daemon_of(site.cluster, site.config()) as daemon:
        flooded(site, daemon, says_s=56, run_s=5, second_s=16)


def test_a_be_job_has_at_most_the_slowdown_that_the_site_allows(site: Site) -> None:
    with daemon_of(site.cluster, site.config()) as daemon:
        flooded(site, daemon, says_s=60, run_s=60, second_s=30)
